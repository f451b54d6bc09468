//! Packets that keep to the global schedule of another channel (Clint 3.3): configurations end in
//! the switch, grants begin there, acknowledgments of that channel pass through it.

use weft_fabric::control::{Calendar, Route, ScheduledArrival, ScheduledPacket};
use weft_fabric::link::{Errors, SharedLinks};
use weft_fabric::switch::PacketKind;
use weft_units::{Span, Time};

use super::host::Flight;
use super::{AdapterParts, Engine};
use crate::drive::trace::TraceEntry;

/// The destination recorded for a packet that ends in the switch.
pub(super) const SWITCH: u16 = u16::MAX;

/// The state of packets that another channel schedules.
#[derive(Debug, Default)]
pub(super) struct Scheduled {
    calendar: Option<Calendar>,
    /// The links, if that channel sends over the same ones.
    links: Option<SharedLinks>,
    /// The errors of what the switch sends; absent on links without errors.
    errors: Option<Errors>,
    /// Packets that have arrived and not been fetched.
    arrivals: Vec<ScheduledArrival>,
    upward: Span,
    downward: Span,
    broken: Option<String>,
    /// The initiators that each target accepts requests from, one bit each, by what the targets
    /// have said; empty where none says it.
    accepted: Vec<u64>,
    /// Whether a request continues after a packet that is inserted into it, on links and in the
    /// switch.
    interleaves: bool,
}

/// For how long packets of a schedule have occupied links, over all hosts.
#[derive(Clone, Copy, Debug)]
pub struct ScheduledTime {
    /// Links from the hosts.
    pub upward: Span,
    /// Links to the hosts, as far as packets began in the switch.
    pub downward: Span,
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
    pub(in crate::drive::engine) fn keep_clear(&mut self, calendar: Calendar) {
        self.adapters.scheduled.calendar = Some(calendar);
    }

    /// From now on targets announce from which initiators the switch forwards requests to them;
    /// until they do, from all.
    pub(in crate::drive::engine) fn let_targets_disable(&mut self) {
        self.adapters.scheduled.accepted = vec![u64::MAX; self.adapters.hosts.len()];
    }

    /// A target accepts requests from these initiators only, one bit each (Clint 3.3, the quick
    /// enable vector).
    pub(in crate::drive::engine) fn accept_requests(&mut self, target: u16, initiators: u64) {
        self.adapters.scheduled.accepted[usize::from(target)] = initiators;
    }

    /// The initiators from which a target accepts requests, one bit each; `None` on channels where
    /// targets do not report that.
    #[inline]
    pub(super) fn accepted_by(&self, target: u16) -> Option<u64> {
        self.adapters.scheduled.accepted.get(usize::from(target)).copied()
    }

    /// Sends over links that another channel shares from now on.
    pub(in crate::drive::engine) fn share_links(&mut self, links: SharedLinks) {
        self.adapters.scheduled.links = Some(links);
    }

    /// Passes the shared links to the other channel, or takes them back.
    pub(in crate::drive::engine) fn exchange_links(&mut self, other: &mut Engine) {
        std::mem::swap(&mut self.adapters.scheduled.links, &mut other.adapters.scheduled.links);
    }

    /// The links that another channel shares, if one does.
    pub(in crate::drive::engine) fn shared_links(&self) -> Option<&SharedLinks> {
        self.adapters.scheduled.links.as_ref()
    }

    /// The links that another channel shares, for packets that start or pass on them.
    pub(super) fn shared_links_mut(&mut self) -> Option<&mut SharedLinks> {
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
            // As if it had come by the port of the host for which it is.
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

    /// For how long packets of the schedule have occupied links.
    pub fn scheduled_time(&self) -> ScheduledTime {
        let Scheduled { upward, downward, .. } = self.adapters.scheduled;
        ScheduledTime { upward, downward }
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

    /// When, from `at` on, an acknowledgment does not meet a packet of the schedule and has room on
    /// the link.
    #[inline]
    pub(super) fn clear_for_acknowledgment(&self, at: Time, host: u32) -> Time {
        if self.adapters.scheduled.calendar.is_none() {
            return at;
        }
        let span = self.graph.span_of(self.graph.host_port(host), true);
        self.with_room(self.clear_of_schedule(at, span), host as u16, span)
    }

    /// When, from `at` on, a request does not meet a packet of the schedule and has room on the
    /// link. Where bytes are interleaved, packets of the schedule are inserted into requests.
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
        let slot = self.slot_of(now);
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
            slot,
            content: if refused { "no receive buffer".to_owned() } else { String::new() },
        });
    }
}
