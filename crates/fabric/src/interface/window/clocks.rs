//! The global clock in simulated time: clocks that run wrong, pulses of the hub that wait for the
//! packet on their link, service routines that take their time (MEMORY CHANNEL 2 Enhanced Software
//! Support).
//!
//! The part has no events: it is told when the pulse to a node begins and arrives, and draws how long
//! the service routine takes.

use weft_kernel::{Stream, Streams};
use weft_protocol::window::{ClockBound, GlobalClock};
use weft_units::{Span, Time};

use crate::interface::ClockSettings;

/// The clocks of all nodes.
#[derive(Debug)]
pub struct Clocks {
    settings: ClockSettings,
    nodes: Vec<Local>,
    random: Stream,
    bound: ClockBound,
    /// The observed latency of pulses, and the widest disagreement of two nodes and with the hub.
    shortest: Span,
    longest: Span,
    apart: Span,
    wrong: Span,
    pulses: u64,
}

#[derive(Clone, Debug)]
struct Local {
    /// Its initial time, and by how much it is fast.
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
    /// The clocks of the nodes of a channel, whose name names the random streams. A pulse takes
    /// `shortest` on an idle link, and `longest` behind a packet.
    pub fn new(
        settings: &ClockSettings,
        (channel, nodes): (&str, u16),
        (shortest, longest): (Span, Span),
        streams: &Streams,
    ) -> Clocks {
        let purpose = format!("{channel}.clocks");
        let local = |node: u16| {
            let mut random = streams.stream(&purpose, node.into());
            // Clocks never show a time before zero.
            let start = 1_000_000_000_000 + random.below(1_000_000_000_000);
            let drift = (2.0 * random.unit() - 1.0) * settings.drift_ppm * 1e-6;
            Local { start, drift, clock: GlobalClock::default(), sent: Time::ZERO }
        };
        Clocks {
            nodes: (0..nodes).map(local).collect(),
            random: streams.stream(&format!("{channel}.service"), 0),
            bound: ClockBound { shortest, longest, service: settings.service },
            settings: settings.clone(),
            shortest: Span(u64::MAX),
            longest: Span::ZERO,
            apart: Span::ZERO,
            wrong: Span::ZERO,
            pulses: 0,
        }
    }

    /// From one pulse to the next.
    pub fn interval(&self) -> Span {
        self.settings.interval
    }

    /// The hub sends a pulse to a node, which hears it after `latency`. Returns when its service routine
    /// reads its clock.
    pub fn send(&mut self, now: Time, node: u16, latency: Span) -> Time {
        self.shortest = self.shortest.min(latency);
        self.longest = self.longest.max(latency);
        self.pulses += 1;
        self.nodes[usize::from(node)].sent = now;
        let service = Span(self.random.below(self.settings.service.0 + 1));
        now + latency + service
    }

    /// The service routine of a node records by how much its clock is off.
    pub fn served(&mut self, now: Time, node: u16) {
        let own = &mut self.nodes[usize::from(node)];
        own.clock.pulse(own.sent, own.show(now));
    }

    /// Records how far the clocks of the nodes are apart, just before the next pulse, when drift is
    /// largest.
    pub fn compare(&mut self, now: Time) {
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
    /// clocks drift apart from pulse to pulse; with the names of their columns.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn clocks(drift_ppm: f64, service: u64) -> Clocks {
        let interval = Span(1_000_000);
        let settings = ClockSettings { interval, drift_ppm, service: Span(service) };
        Clocks::new(&settings, ("memory", 3), (Span(100), Span(500)), &Streams::new(1))
    }

    fn column(clocks: &Clocks, name: &str) -> f64 {
        clocks.columns().iter().find(|(own, _)| *own == name).unwrap().1
    }

    /// Clocks without drift and routines without length: nodes are apart by the difference of latencies.
    #[test]
    fn nodes_are_apart_by_what_their_pulses_waited() {
        let mut clocks = clocks(0.0, 0);
        for (node, latency) in [(0, 100), (1, 400), (2, 100)] {
            let read = clocks.send(Time(1_000_000), node, Span(latency));
            assert_eq!(read, Time(1_000_000 + latency));
            clocks.served(read, node);
        }
        clocks.compare(Time(2_000_000));
        // Each takes the pulse for new that is as old as its latency.
        let us = |span: u64| Span(span).as_us();
        assert_eq!(column(&clocks, "clock_apart_max_us"), us(300));
        assert_eq!(column(&clocks, "clock_wrong_max_us"), us(400));
        assert_eq!(column(&clocks, "clock_bound_us"), us(2 * 400));
        assert_eq!(column(&clocks, "clock_bound_seen_us"), us(2 * 300));
        assert_eq!(column(&clocks, "clock_pulses"), 3.0);
    }

    /// At 100 millionths, clocks are a tenth of a nanosecond apart after a microsecond and the bound
    /// covers twice that.
    #[test]
    fn drift_and_service_stay_within_the_bound() {
        let mut clocks = clocks(100.0, 2_000);
        for pulse in 1..200 {
            let now = Time(pulse * 1_000_000);
            clocks.compare(now);
            let reads: Vec<Time> = (0..3).map(|node| clocks.send(now, node, Span(200))).collect();
            for (node, read) in (0..).zip(reads) {
                assert!((now.0 + 200..=now.0 + 2_200).contains(&read.0));
                clocks.served(read, node);
            }
        }
        let apart = column(&clocks, "clock_apart_max_us");
        assert!(apart > 0.0 && apart <= column(&clocks, "clock_bound_with_drift_us"), "{apart}");
    }
}
