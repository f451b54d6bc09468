//! What crosses from one part of a graph to another: packets, by value, and signals from far ends of
//! cables.

use std::sync::Arc;

use weft_fabric::adapter::Segment;
use weft_fabric::graph::Wakes;
use weft_fabric::measure::Spent;
use weft_fabric::measure::{Arrival, Told};
use weft_fabric::switch::shared_buffer::{Header, Telemetry};
use weft_kernel::Event;
use weft_units::Time;

use super::packed::Sending;
use super::packets::{Forwarding, Packet};
use super::{Delivery, Engine};

/// What one part has in addition to its engine.
#[derive(Debug)]
pub(super) struct Border {
    pub part: u32,
    /// The part that each place is in.
    pub part_of: Arc<[u16]>,
    pub told: Told,
    /// By part, packets bound for it, and when the first of them arrives.
    pub leaving: Vec<Leaving>,
    pub first: Time,
    /// What leaves the part of a rank instead.
    pub sending: Option<Box<Sending>>,
}

/// Packets in transit from one part to another.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    pub packets: Vec<Crossing>,
    /// The accumulated times of each packet, if they depend on its route; empty otherwise.
    pub spent: Vec<Spent>,
    /// Its header, if packets have classes; empty otherwise.
    pub headers: Vec<Header>,
    /// What switches wrote into it, if they do; empty otherwise.
    pub telemetry: Vec<Telemetry>,
    /// The contents of packets of flows.
    pub segments: Vec<Segment>,
    /// Signals from far ends of cables to ports.
    pub said: Vec<Event>,
}

/// A packet in transit from one part to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub time: Time,
    pub place: u32,
    pub forwarding: Forwarding,
    pub packet: Packet,
}

impl Border {
    pub fn new(part: u32, count: u32, part_of: Arc<[u16]>) -> Border {
        let leaving = (0..count).map(|_| Leaving::default()).collect();
        Border { part, part_of, leaving, ..Border::of_rank(part) }
    }

    /// The border of a rank, which holds only its own part.
    pub fn of_rank(part: u32) -> Border {
        let (told, first) = (Told::default(), Time::NEVER);
        Border { part, part_of: Arc::default(), told, leaving: Vec::new(), first, sending: None }
    }
}

impl Engine {
    /// A packet, or a signal from the far end of a cable, leaves for a place in another part or in this
    /// one.
    #[inline(never)]
    pub(super) fn forward_to_part(&mut self, event: Event) {
        let Some(border) = &mut self.parts.border else { return self.parts.push(event) };
        if border.sending.is_some() {
            return self.forward_to_rank(event);
        }
        let part = u32::from(border.part_of[event.place as usize]);
        if part == border.part {
            return self.parts.push(event);
        }
        let Event { time, place, item: id } = event;
        border.first = border.first.min(time);
        if place >= self.places.signals {
            return border.leaving[part as usize].said.push(event);
        }
        let leaving = &mut border.leaving[part as usize];
        leaving.packets.push(self.packets.crossing(time, place, id));
        leaving.spent.extend(self.packets.spent(id));
        if let Some(own) = &self.classed {
            let header = own.header(id);
            leaving.headers.push(header);
            leaving.telemetry.extend(own.telemetry_of(id));
            let flows = self.flows.as_ref().filter(|_| !header.has(Header::APART));
            leaving.segments.extend(flows.map(|own| own.segment(id, header.flow)));
        }
        self.packets.remove(id);
    }

    /// Packets and signals arrive from another part, before any of their events.
    pub(super) fn enter_part(&mut self, leaving: &mut Leaving) {
        let (mut spent, mut headers) = (leaving.spent.drain(..), leaving.headers.drain(..));
        let (mut told, mut segments) = (leaving.telemetry.drain(..), leaving.segments.drain(..));
        for Crossing { time, place, forwarding, packet } in leaving.packets.drain(..) {
            let id = match self.classed {
                Some(_) => self.packets.insert_header(),
                None => self.packets.insert(forwarding, packet),
            };
            if let Some(header) = headers.next() {
                self.note_header(id, header);
                self.note_content(id, header, told.next(), &mut segments);
            }
            if let Some(spent) = spent.next() {
                self.packets.set_spent(id, spent);
            }
            self.come_in(time, place, id);
        }
        leaving.said.drain(..).for_each(|event| self.parts.push(event));
    }

    /// Restores the telemetry of a packet that has crossed, and its segment if it belongs to a flow.
    fn note_content(
        &mut self,
        id: u32,
        header: Header,
        told: Option<Telemetry>,
        segments: &mut impl Iterator<Item = Segment>,
    ) {
        if let (Some(own), Some(told)) = (&mut self.classed, told) {
            own.carry_telemetry(id, told);
        }
        if let Some(flows) = &mut self.flows
            && !header.has(Header::APART)
            && let Some(segment) = segments.next()
        {
            flows.note(id, segment);
        }
    }

    /// A packet will arrive at a place, or at a clocked switch, which must expect it.
    #[inline]
    pub(super) fn come_in(&mut self, time: Time, place: u32, id: u32) {
        let wakes = match self.graph.has_limits() {
            true => {
                let channel = self.packets.forwarding[id as usize].channel;
                self.graph.expect((time, place), id, channel)
            }
            false => None,
        };
        match wakes {
            Some(Wakes::Switch(switch, edge)) => self.wake(self.now, switch, edge),
            Some(_) => {}
            None => self.parts.push(Event { time, place, item: id }),
        }
    }

    /// When something happens next.
    pub(super) fn earliest(&self) -> Time {
        self.parts.earliest().unwrap_or(Time::NEVER)
    }

    /// Processes all events of a part up to an instant.
    pub(super) fn run_part(&mut self, last: Time) {
        loop {
            let next = match self.is_large && self.classed.is_none() {
                true => self.pop_and_prefetch(last),
                false => {
                    if self.classed.is_some() && self.parts.first().open(last) {
                        self.look_ahead();
                    }
                    self.parts.first().pop_until(last)
                }
            };
            let Some(event) = next else { break };
            self.steps += 1;
            self.happen(event, &mut |_| {});
        }
        self.now = last;
    }
}

/// A delivery as the observer of a run sees it.
pub(super) fn delivery(arrival: &Arrival) -> Delivery {
    let Arrival { time, to, from, queueing, transit, hops, .. } = *arrival;
    let start = Time(time.0 - transit.0);
    Delivery { from, to, generated: Time(start.0 - queueing.0), start, end: time, hops }
}
