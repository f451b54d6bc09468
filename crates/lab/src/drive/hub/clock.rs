//! The global clock in simulated time: clocks that run wrong, pulses of the hub that wait for the
//! packet on their link, service routines that take their time (MEMORY CHANNEL 2 Enhanced Software
//! Support).

use weft_fabric::interface::ClockSettings;
use weft_kernel::{Stream, Streams};
use weft_protocol::window::{ClockBound, GlobalClock};
use weft_units::{Span, Time};

use super::cluster::Step;
use super::{Event, HubChannel, HubParts};

/// The clocks of all nodes.
#[derive(Debug)]
pub(super) struct Clocks {
    settings: ClockSettings,
    nodes: Vec<Local>,
    random: Stream,
    bound: ClockBound,
    /// The latency of pulses as it was, and the widest disagreement of two nodes and with the hub.
    shortest: Span,
    longest: Span,
    apart: Span,
    wrong: Span,
    pulses: u64,
}

#[derive(Clone, Debug)]
struct Local {
    /// What it shows at the beginning, and by how much it is fast.
    start: u64,
    drift: f64,
    clock: GlobalClock,
    /// When the last pulse was sent.
    sent: Time,
}

impl Local {
    fn show(&self, now: Time) -> Time {
        let fast = (now.0 as f64 * self.drift) as i64;
        Time((self.start + now.0).saturating_add_signed(fast))
    }
}

impl Clocks {
    pub fn new(settings: &ClockSettings, parts: &HubParts, streams: &Streams) -> Clocks {
        let control = parts.link.span(parts.window.control) + parts.link.propagation();
        let local = |node: u16| {
            let purpose = format!("{}.clocks", parts.name);
            let mut random = streams.stream(&purpose, node.into());
            // Clocks never show a time before zero.
            let start = 1_000_000_000_000 + random.below(1_000_000_000_000);
            let drift = (2.0 * random.unit() - 1.0) * settings.drift_ppm * 1e-6;
            Local { start, drift, clock: GlobalClock::default(), sent: Time::ZERO }
        };
        Clocks {
            nodes: (0..parts.hosts).map(local).collect(),
            random: streams.stream(&format!("{}.service", parts.name), 0),
            bound: ClockBound {
                shortest: control,
                longest: control + parts.span(parts.window.write.min(parts.payload)),
                service: settings.service,
            },
            settings: settings.clone(),
            shortest: Span(u64::MAX),
            longest: Span::ZERO,
            apart: Span::ZERO,
            wrong: Span::ZERO,
            pulses: 0,
        }
    }

    /// How far the nodes are apart, just before the next pulse: drift has done its worst.
    fn compare(&mut self, now: Time) {
        let read = |node: &Local| node.clock.read(node.show(now));
        let times: Vec<Time> = self.nodes.iter().filter_map(read).collect();
        let (first, last) = (times.iter().min(), times.iter().max());
        if let (Some(first), Some(last)) = (first, last) {
            self.apart = self.apart.max(last.since(*first));
            let off = first.0.abs_diff(now.0).max(last.0.abs_diff(now.0));
            self.wrong = self.wrong.max(Span(off));
        }
    }

    /// The stated accuracy: of the latency that is possible, of the one that was, and with what
    /// clocks drift apart from pulse to pulse.
    pub fn columns(&self) -> [(&'static str, f64); 6] {
        let drift = 2.0 * self.settings.drift_ppm * 1e-6 * self.settings.interval.0 as f64;
        let seen = ClockBound {
            shortest: self.shortest.min(self.longest),
            longest: self.longest,
            service: self.settings.service,
        };
        let stated = self.bound.accuracy();
        [
            ("clock_pulses", self.pulses as f64),
            ("clock_apart_max_us", self.apart.as_us()),
            ("clock_wrong_max_us", self.wrong.as_us()),
            ("clock_bound_us", stated.as_us()),
            ("clock_bound_seen_us", seen.accuracy().as_us()),
            ("clock_bound_with_drift_us", stated.as_us() + drift * 1e-6),
        ]
    }
}

impl HubChannel {
    /// The hub sends a pulse to all nodes, each behind the packet that its port sends now.
    pub(super) fn pulse(&mut self, now: Time) {
        let is_bus = self.parts.hub.is_bus();
        let Some(own) = &mut self.management else { return };
        let (alive, up) = (own.alive, own.up.is_some());
        let Some(clocks) = &mut own.clocks else { return };
        clocks.compare(now);
        self.agenda.push(now + clocks.settings.interval, Event::Manage(Step::Pulse));
        let control = self.parts.link.span(self.parts.window.control) + self.spans.cable;
        for node in (0..self.parts.hosts).filter(|node| up && alive >> node & 1 == 1) {
            let lane = self.hub.lane(node);
            let start = if is_bus { lane.free().max(now) } else { lane.send(now) };
            let latency = start.since(now) + control;
            clocks.shortest = clocks.shortest.min(latency);
            clocks.longest = clocks.longest.max(latency);
            clocks.pulses += 1;
            clocks.nodes[usize::from(node)].sent = now;
            let service = Span(clocks.random.below(clocks.settings.service.0 + 1));
            let time = now + latency + service;
            self.agenda.push(time, Event::Manage(Step::Served(node)));
        }
    }

    /// The service routine of a node notes how far its clock is off.
    pub(super) fn served(&mut self, now: Time, node: u16) {
        let Some(clocks) = self.management.as_mut().and_then(|own| own.clocks.as_mut()) else {
            return;
        };
        let own = &mut clocks.nodes[usize::from(node)];
        own.clock.pulse(own.sent, own.show(now));
    }
}
