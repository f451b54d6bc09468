//! What the slotted channels share: packets that come from the workload, packets on their way.

use std::collections::VecDeque;

use weft_fabric::measure::Observations;
use weft_fabric::workload::{Demand, Feedback, Source};
use weft_units::{Bytes, Time};

/// The sources of all hosts.
#[derive(Debug)]
pub(super) struct Arrivals {
    sources: Vec<Source>,
    /// When each source hands over its next packet: a dense copy, since every slot looks at all.
    next: Vec<Time>,
    /// Hosts whose source hands over a packet whenever the adapter has space.
    greedy: Vec<usize>,
    /// Whether any source answers what it receives.
    answers: bool,
}

/// Transmissions whose last byte has not arrived. All take the same time, so they arrive in the
/// order in which they began.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// When the last byte arrives, from which host, at which.
    packets: VecDeque<(Time, u16, u16)>,
}

impl Arrivals {
    pub(super) fn new(sources: Vec<Source>) -> Arrivals {
        let wants = |feedback: Feedback| {
            let hosts = sources.iter().enumerate();
            hosts.filter(move |(_, source)| source.feedback() == feedback).map(|(host, _)| host)
        };
        Arrivals {
            next: sources.iter().map(Source::next_time).collect(),
            greedy: wants(Feedback::Ready).collect(),
            answers: wants(Feedback::Delivered).next().is_some(),
            sources,
        }
    }

    /// Hands every packet that is due by `now` to `accept`, host by host, beginning with host
    /// `first`. `accept` returns whether the adapter has space for another one.
    pub(super) fn take(
        &mut self,
        now: Time,
        first: usize,
        observations: &mut Observations,
        mut accept: impl FnMut(usize, Option<Demand>) -> bool,
    ) {
        let hosts = self.next.len();
        for host in (first..hosts).chain(0..first) {
            while self.next[host] <= now {
                let demand = self.sources[host].take();
                self.next[host] = self.sources[host].next_time();
                observations.generate(demand.time);
                accept(host, Some(demand));
            }
        }
        for &host in &self.greedy {
            let mut space = accept(host, None);
            while space {
                self.sources[host].ready(now);
                let demand = self.sources[host].take();
                observations.generate(demand.time);
                space = accept(host, Some(demand));
            }
        }
    }

    fn delivered(&mut self, now: Time, from: u16, to: u16) {
        let host = usize::from(to);
        self.sources[host].delivered(now, from);
        self.next[host] = self.sources[host].next_time();
    }
}

impl InFlight {
    pub(super) fn send(&mut self, from: usize, to: usize, arrival: Time) {
        self.packets.push_back((arrival, from as u16, to as u16));
    }

    /// Counts the packets whose last byte has arrived by `now`, and tells sources that answer.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        payload: Bytes,
        arrivals: &mut Arrivals,
        observations: &mut Observations,
    ) {
        while let Some(&(arrival, from, to)) = self.packets.front() {
            if arrival > now {
                break;
            }
            self.packets.pop_front();
            observations.deliver_from(usize::from(from), arrival, payload);
            if arrivals.answers {
                arrivals.delivered(arrival, from, to);
            }
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.packets.len() as u64
    }
}
