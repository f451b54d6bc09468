//! What happens when, and at one instant in which order: that of the places at which it happens,
//! whoever scheduled it when.
//!
//! First packets leave the ports of switches, port by port; then the controllers of switches speak,
//! headers are known, and hosts move packets, begin with messages and hand over others; cables come
//! last. So an end whose turn begins knows all that has come at this instant.

use std::collections::VecDeque;

use weft_fabric::fabric::Wiring;
use weft_fabric::interface::Move;
use weft_fabric::switch::CONTROLLER;
use weft_kernel::{Calendar, Event as Entry, Id};
use weft_units::{Span, Time};

use super::Event;
use super::message::Carried;

/// Future events in order of time and place.
#[derive(Debug)]
pub(super) struct Agenda {
    calendar: Calendar,
    /// The switch of each port, and the first port of each switch.
    switch_of: Vec<u32>,
    first_of: Vec<u32>,
    places: Places,
    /// The messages whose headers are read at each port, which takes all of them equally long.
    headers: Vec<VecDeque<Id<Carried>>>,
    hosts: u32,
}

/// The first place of each kind. Before the controllers a packet has passed a switch from a port.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// What the controller of a switch says has passed it.
    controllers: u32,
    /// A header at a port is known.
    headers: u32,
    /// A mover of a host is ready, or has moved a packet.
    moves: u32,
    /// The throttle of a host lets it begin.
    throttles: u32,
    /// A host hands over a message.
    generates: u32,
    /// Something is due on a cable.
    cables: u32,
}

const MOVES: [Move; 4] = [Move::Load, Move::Fill, Move::Empty, Move::Store];

/// Which mover of a host, and whether it has moved a packet or is ready to, as one number.
fn item_of(channel: u8, what: Move, moved: bool) -> u32 {
    u32::from(channel) << 3 | (what as u32) << 1 | u32::from(moved)
}

impl Agenda {
    /// Nothing happens yet. A packet takes `packet` on a link.
    pub fn new(wiring: &Wiring, packet: Span) -> Agenda {
        let (ports, hosts) = (wiring.ports(), wiring.hosts());
        let headers = ports + wiring.switches();
        let moves = headers + ports;
        let (throttles, generates) = (moves + hosts, moves + 2 * hosts);
        let cables = generates + hosts;
        let places = Places { controllers: ports, headers, moves, throttles, generates, cables };
        // All cables and hosts are at work, and a frame is seldom longer than sixteen packets.
        let spacing = Span(packet.0 / u64::from(hosts.max(1)));
        Agenda {
            calendar: Calendar::new(spacing, packet * 16),
            switch_of: (0..ports).map(|port| wiring.switch_of(port)).collect(),
            first_of: (0..wiring.switches()).map(|switch| wiring.port(switch, 0)).collect(),
            places,
            headers: vec![VecDeque::new(); ports as usize],
            hosts,
        }
    }

    /// Schedules an event.
    pub fn push(&mut self, time: Time, event: Event) {
        let places = &self.places;
        let (place, item) = match event {
            Event::Passed { switch, input: CONTROLLER, channel } => {
                (places.controllers + switch, u32::from(channel))
            }
            Event::Passed { switch, input, channel } => {
                (self.first_of[switch as usize] + input, u32::from(channel))
            }
            Event::Analysed { station, message } => {
                let port = station - self.hosts;
                self.headers[port as usize].push_back(message);
                (places.headers + port, 0)
            }
            Event::Prepared { host, channel, what } => {
                (places.moves + u32::from(host), item_of(channel, what, false))
            }
            Event::Moved { host, channel, what } => {
                (places.moves + u32::from(host), item_of(channel, what, true))
            }
            Event::Unthrottled(host) => (places.throttles + u32::from(host), 0),
            Event::Generate(host) => (places.generates + u32::from(host), 0),
            Event::Link(cable) => (places.cables + cable, 0),
        };
        self.calendar.push(Entry { time, place, item });
    }

    /// Removes the first event if its time is not after `limit`.
    pub fn pop_until(&mut self, limit: Time) -> Option<(Time, Event)> {
        let Entry { time, place, item } = self.calendar.pop_until(limit)?;
        let places = &self.places;
        let event = if place < places.controllers {
            let switch = self.switch_of[place as usize];
            let input = place - self.first_of[switch as usize];
            Event::Passed { switch, input, channel: item as u8 }
        } else if place < places.headers {
            let switch = place - places.controllers;
            Event::Passed { switch, input: CONTROLLER, channel: item as u8 }
        } else if place < places.moves {
            let port = place - places.headers;
            // Each event there has brought a message.
            let message = self.headers[port as usize].pop_front()?;
            Event::Analysed { station: self.hosts + port, message }
        } else if place < places.throttles {
            let (host, channel) = ((place - places.moves) as u16, (item >> 3) as u8);
            let what = MOVES[(item >> 1) as usize % MOVES.len()];
            match item & 1 {
                0 => Event::Prepared { host, channel, what },
                _ => Event::Moved { host, channel, what },
            }
        } else if place < places.generates {
            Event::Unthrottled((place - places.throttles) as u16)
        } else if place < places.cables {
            Event::Generate((place - places.generates) as u16)
        } else {
            Event::Link(place - places.cables)
        };
        Some((time, event))
    }

    /// When the first event is due.
    pub fn next_time(&self) -> Option<Time> {
        self.calendar.earliest()
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::fabric::FabricSettings;
    use weft_units::Rate;

    use super::*;

    /// At one instant the place decides and not the order of scheduling, and what was scheduled comes
    /// back as it was; an earlier event goes before all of them, and a later one waits.
    #[test]
    fn places_decide_about_what_happens_at_one_instant() {
        let rate = Rate::from_bits_per_second(200_000_000);
        let wiring = FabricSettings::Star.wiring(2_u32, rate).unwrap();
        let mut agenda = Agenda::new(&wiring, Span::from_ns(640));
        let ordered = [
            Event::Passed { switch: 0, input: 0, channel: 1 },
            Event::Passed { switch: 0, input: 1, channel: 0 },
            Event::Passed { switch: 0, input: CONTROLLER, channel: 1 },
            Event::Prepared { host: 0, channel: 0, what: Move::Empty },
            Event::Moved { host: 1, channel: 0, what: Move::Load },
            Event::Prepared { host: 1, channel: 1, what: Move::Store },
            Event::Unthrottled(1),
            Event::Generate(0),
            Event::Link(0),
            Event::Link(1),
        ];
        ordered.iter().rev().for_each(|event| agenda.push(Time(5), *event));
        agenda.push(Time(9), Event::Generate(1));
        agenda.push(Time(4), Event::Link(1));
        let left = std::iter::from_fn(|| agenda.pop_until(Time(5)));
        let found: Vec<String> = left.map(|(time, event)| format!("{time:?} {event:?}")).collect();
        let at_five = ordered.iter().map(|event| format!("{:?} {event:?}", Time(5)));
        let first = format!("{:?} {:?}", Time(4), Event::Link(1));
        let expected: Vec<String> = std::iter::once(first).chain(at_five).collect();
        assert_eq!(found, expected);
        assert_eq!(agenda.next_time(), Some(Time(9)));
    }
}
