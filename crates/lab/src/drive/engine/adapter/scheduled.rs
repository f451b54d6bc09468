//! Packets that keep to the global schedule of another channel (Clint 3.3): configurations end in
//! the switch, grants begin there, acknowledgments of that channel pass through it.

use weft_fabric::link::{Errors, SharedLinks};
use weft_fabric::switch::PacketKind;
use weft_units::{Bytes, Span, Time};

use super::host::Flight;
use super::{AdapterParts, Engine};
use crate::drive::trace::TraceEntry;

/// Where a scheduled packet comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// From an adapter to the switch, where it ends.
    ToSwitch {
        /// The host of the adapter.
        from: u16,
    },
    /// From the switch, where it begins, to an adapter.
    FromSwitch {
        /// The host of the adapter.
        to: u16,
    },
    /// From an adapter through the switch to another one.
    Through {
        /// The host that sends it.
        from: u16,
        /// The host that receives it.
        to: u16,
    },
}

/// A packet that keeps to the schedule of another channel.
#[derive(Clone, Copy, Debug)]
pub struct ScheduledPacket {
    /// Its way.
    pub route: Route,
    /// Its size on the wire, and how long that takes on a link.
    pub size: Bytes,
    /// See [`size`](Self::size).
    pub span: Span,
    /// The caller's name of it.
    pub token: u32,
}

/// A scheduled packet whose last byte is at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledArrival {
    /// The caller's name of it.
    pub token: u32,
    /// When its first byte was sent.
    pub start: Time,
    /// Its check code is wrong.
    pub damaged: bool,
}

/// When the adapters keep their links clear for packets of the schedule. All spans repeat once a
/// slot, from time zero on.
///
/// The paper says so of grants: "Since the initiators know the times when grant packets are sent,
/// they can avoid collisions by not sending any packets during these times" (Clint 3.3). A
/// configuration is sampled at its instant, so its own link must be free then as well; that is a
/// choice here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// From one slot to the next.
    pub slot: Span,
    /// How long a configuration occupies the link; it starts at the beginning of the period.
    pub configuration: Span,
    /// From the beginning of the period to the first byte of the grants, as if it had come from an
    /// input of the switch.
    pub grant_from: Span,
    /// How long a grant occupies an output.
    pub grant: Span,
}

/// What counts as the destination of a packet that ends in the switch.
pub(super) const SWITCH: u16 = u16::MAX;

impl Calendar {
    /// The first time from `at` on at which a packet of `span` can start on a link of
    /// `propagation` and meet neither the configuration of its own adapter nor, at any output, a
    /// grant. A slot must have room for it beside both, see [`Calendar::has_room_for`].
    pub fn clear_from(&self, at: Time, span: Span, propagation: Span) -> Time {
        let mut start = at;
        loop {
            let own = self.after(start, span, Span::ZERO, self.configuration);
            let reached = own + propagation;
            let clear = self.after(reached, span, self.grant_from, self.grant) - propagation;
            if clear == start {
                return clear;
            }
            start = clear;
        }
    }

    /// Whether a slot has room for a packet of `span` beside the packets of the schedule.
    pub fn has_room_for(&self, span: Span) -> bool {
        (span + self.configuration + self.grant) * 2 < self.slot
    }

    /// `from`, or the end of the window that [from, from + span) meets.
    fn after(&self, from: Time, span: Span, offset: Span, length: Span) -> Time {
        let Some(last) = (from + span).0.checked_sub(offset.0 + 1) else { return from };
        let window = Time(last - last % self.slot.0) + offset;
        from.max(window + length)
    }
}

/// What a channel keeps of the packets that are scheduled elsewhere.
#[derive(Debug, Default)]
pub(super) struct Scheduled {
    calendar: Option<Calendar>,
    /// The links, where that channel sends over the same ones.
    links: Option<SharedLinks>,
    /// What happens to what the switch sends; absent on links free of errors.
    errors: Option<Errors>,
    /// Packets that have arrived and not been fetched.
    arrivals: Vec<ScheduledArrival>,
    upward: Span,
    downward: Span,
    broken: Option<String>,
    /// The initiators that each target accepts requests from, one bit each, by what the targets
    /// have said; empty where none says it.
    accepted: Vec<u64>,
    /// Whether requests go on behind what is inserted into them, on links and in the switch.
    interleaves: bool,
}

impl Scheduled {
    pub fn new(parts: &AdapterParts, hosts: usize) -> Scheduled {
        // The switch sends, too: as if it were one host more.
        let errors = parts.errors(hosts);
        Scheduled { errors, interleaves: parts.interleaves, ..Scheduled::default() }
    }
}

impl Engine {
    /// Keeps links clear for packets of a schedule from now on.
    pub fn keep_clear(&mut self, calendar: Calendar) {
        self.adapters.scheduled.calendar = Some(calendar);
    }

    /// Targets say from now on whose requests the switch is to forward to them; every initiator's
    /// until they do.
    pub fn let_targets_disable(&mut self) {
        self.adapters.scheduled.accepted = vec![u64::MAX; self.adapters.hosts.len()];
    }

    /// A target accepts requests from these initiators only, one bit each (Clint 3.3, the quick
    /// enable vector).
    pub fn accept_requests(&mut self, target: u16, initiators: u64) {
        self.adapters.scheduled.accepted[usize::from(target)] = initiators;
    }

    /// What a target has said of whose requests it accepts, where targets say it.
    #[inline]
    pub(super) fn accepted_by(&self, target: u16) -> Option<u64> {
        self.adapters.scheduled.accepted.get(usize::from(target)).copied()
    }

    /// Sends over links that another channel shares from now on.
    pub fn share_links(&mut self, links: SharedLinks) {
        self.adapters.scheduled.links = Some(links);
    }

    /// The links that another channel shares, if one does.
    pub fn shared_links(&self) -> Option<&SharedLinks> {
        self.adapters.scheduled.links.as_ref()
    }

    /// The same, for the other channel to begin its transfers on.
    pub fn shared_links_mut(&mut self) -> Option<&mut SharedLinks> {
        self.adapters.scheduled.links.as_mut()
    }

    /// Sends a packet of the schedule. From an adapter it goes before all others, but waits for
    /// what is on the link already unless bytes are interleaved there.
    pub fn send_scheduled(&mut self, now: Time, packet: ScheduledPacket) {
        let (from, to) = match packet.route {
            Route::ToSwitch { from } => (from, SWITCH),
            Route::FromSwitch { to } => (to, to),
            Route::Through { from, to } => (from, to),
        };
        let span = packet.span;
        let damages = |errors: &mut Errors| errors.damages_next(None, packet.size);
        let errors = match packet.route {
            Route::FromSwitch { .. } => &mut self.adapters.scheduled.errors,
            Route::ToSwitch { .. } | Route::Through { .. } => {
                &mut self.adapters.hosts[usize::from(from)].errors
            }
        };
        let damaged = errors.as_mut().is_some_and(damages);
        let id = self.insert_flight(Flight {
            kind: PacketKind::Scheduled,
            damaged,
            sequence: packet.token,
            span,
            ..Flight::new(from, to, now)
        });
        if let Route::FromSwitch { .. } = packet.route {
            self.adapters.scheduled.downward += span;
            // As if it had come by the port of the host that it is for.
            if let Some(port) = self.graph.peer(self.graph.host_port(to.into())) {
                self.schedule(now, port, id);
            }
        } else {
            self.adapters.hosts[usize::from(from)].initiator.scheduled.push_back(id);
            self.transmit(now, from.into());
        }
    }

    /// Whether there are scheduled packets to fetch.
    #[inline]
    pub fn has_scheduled_arrivals(&self) -> bool {
        !self.adapters.scheduled.arrivals.is_empty()
    }

    /// The scheduled packets that have arrived since the last call.
    pub fn scheduled_arrivals(&mut self) -> Vec<ScheduledArrival> {
        std::mem::take(&mut self.adapters.scheduled.arrivals)
    }

    /// For how long packets of the schedule have occupied the links from the hosts, and those to
    /// the hosts as far as they began in the switch; over all hosts.
    pub fn scheduled_time(&self) -> (Span, Span) {
        (self.adapters.scheduled.upward, self.adapters.scheduled.downward)
    }

    /// Two packets of the schedule that met, if any have: the schedule is broken then.
    pub fn broken_schedule(&self) -> Option<&str> {
        self.adapters.scheduled.broken.as_deref()
    }

    /// When the scheduled packet that waits at a host may start.
    pub(super) fn scheduled_at(&self, now: Time, host: u32) -> Time {
        let initiator = &self.adapters.hosts[host as usize].initiator;
        let at = initiator.priority_at(self.adapters.insertion).max(now);
        let first = initiator.scheduled.front().map(|id| &self.adapters.flights[*id as usize]);
        match first {
            Some(flight) if flight.to != SWITCH => self.clear_of_schedule(at, flight.span),
            _ => at,
        }
    }

    /// When from `at` on an acknowledgment meets nothing of the schedule and has room on the link.
    #[inline]
    pub(super) fn clear_for_acknowledgment(&self, at: Time, host: u32) -> Time {
        if self.adapters.scheduled.calendar.is_none() {
            return at;
        }
        let span = self.graph.span_of(self.graph.host_port(host), true);
        self.with_room(self.clear_of_schedule(at, span), host as u16, span)
    }

    /// The same for a request, which may be interleaved with packets of the schedule.
    #[inline]
    pub(super) fn clear_for_request(&self, at: Time, host: u32) -> Time {
        if self.adapters.scheduled.calendar.is_none() || self.adapters.scheduled.interleaves {
            return at;
        }
        let span = self.graph.span(self.graph.host_port(host));
        self.with_room(self.clear_of_schedule(at, span), host as u16, span)
    }

    #[inline]
    fn with_room(&self, at: Time, host: u16, span: Span) -> Time {
        let links = self.adapters.scheduled.links.as_ref();
        links.map_or(at, |links| links.sendable_from(at, host, span))
    }

    #[inline]
    fn clear_of_schedule(&self, at: Time, span: Span) -> Time {
        match &self.adapters.scheduled.calendar {
            Some(calendar) if at < Time::NEVER => {
                calendar.clear_from(at, span, self.adapters.propagation)
            }
            _ => at,
        }
    }

    /// A scheduled packet starts on the link of its adapter.
    pub(super) fn start_scheduled(&mut self, now: Time, host: u32) {
        let waiting = &mut self.adapters.hosts[host as usize].initiator.scheduled;
        let Some(id) = waiting.pop_front() else { return };
        let arrival = now + self.adapters.propagation;
        let flight = &mut self.adapters.flights[id as usize];
        flight.start = now;
        let (span, ends_in_switch) = (flight.span, flight.to == SWITCH);
        if ends_in_switch {
            flight.end = arrival + span;
        }
        self.adapters.scheduled.upward += span;
        let port = self.graph.host_port(host);
        if ends_in_switch {
            self.schedule(arrival + span, self.places.hosts + host, id);
        } else if let Some(place) = self.graph.peer(port) {
            self.schedule(arrival, place, id);
        }
        self.occupy_before_request(now, host, span);
    }

    pub(super) fn receive_scheduled(&mut self, id: u32) {
        let Flight { sequence: token, start, damaged, .. } = self.adapters.flights[id as usize];
        self.packets.remove(id);
        self.adapters.scheduled.arrivals.push(ScheduledArrival { token, start, damaged });
    }

    /// A scheduled packet was lost in the switch: by its rules only another one can do that.
    pub(super) fn note_broken(&mut self, now: Time, id: u32) {
        let Flight { from, to, .. } = self.adapters.flights[id as usize];
        self.adapters.scheduled.broken.get_or_insert_with(|| {
            let at = now.since(Time::ZERO);
            format!("at {at} two packets of the schedule met at output {to}, one from {from}")
        });
    }

    /// Notes a transmission, if a trace of them is kept.
    #[inline]
    pub(super) fn trace_flight(&mut self, now: Time, id: u32, kind: &'static str) {
        if self.adapters.trace.is_some() {
            self.note_flight(now, id, kind);
        }
    }

    #[cold]
    fn note_flight(&mut self, now: Time, id: u32, kind: &'static str) {
        let Some(trace) = &mut self.adapters.trace else { return };
        let flight = &self.adapters.flights[id as usize];
        let Flight { from, to, span, sequence, refused, .. } = *flight;
        trace.push(TraceEntry {
            time: now,
            until: now + span + self.adapters.propagation * 2 + self.graph.latency(0),
            kind,
            sequence: sequence.into(),
            initiator: Some(from.into()),
            target: Some(to.into()),
            slot: None,
            content: if refused { "no receive buffer".to_owned() } else { String::new() },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot of 1000 with a configuration in 0..20 and grants that reach the outputs in 300..310;
    /// the link is 5 long and the packet 40.
    #[test]
    fn a_packet_starts_where_it_meets_nothing_of_the_schedule() {
        let calendar = Calendar {
            slot: Span(1000),
            configuration: Span(20),
            grant_from: Span(300),
            grant: Span(10),
        };
        let clear = |at| calendar.clear_from(Time(at), Span(40), Span(5)).0;
        assert_eq!([0, 19, 20].map(clear), [20, 20, 20], "the configuration");
        assert_eq!([255, 256, 304, 305].map(clear), [255, 305, 305, 305], "the grant");
        assert_eq!([960, 961, 1000].map(clear), [960, 1020, 1020], "the next configuration");
        assert!(calendar.has_room_for(Span(40)) && !calendar.has_room_for(Span(480)));
    }
}
