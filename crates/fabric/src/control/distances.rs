//! Hosts at different distances from the switch, and the part of a slot that these cost (Clint 3.3).
//!
//! The grants leave the switch together and tell a host when its slot begins. A host whose cable is
//! shorter by `d` is therefore earlier by `d`, and its packet arrives at the switch earlier by `2 d`,
//! which the gap of a slot covers. A host that has measured the round trip of its link waits for that
//! long, so that all packets of a slot arrive together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

/// How hosts at different distances from the switch synchronise (Clint 3.3). Grants leave the
/// switch together and tell the hosts where slots begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Alignment {
    /// By the grants alone: the packet of a host with a shorter cable arrives at the switch
    /// earlier, by twice the difference in delay, and the gap of a slot covers that.
    #[default]
    Gap,
    /// Every host has measured the round trip of its link and delays its packets by the difference
    /// to the longest cable, so that the packets of a slot arrive at the switch together. The paper
    /// names this method but did not build it; here the measurement is exact.
    RoundTrips,
}

/// The delay of each host's cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    /// Propagation delay in one direction, by host.
    ways: Vec<Span>,
    longest: Span,
    alignment: Alignment,
    /// From the earliest to the latest arrival of a packet at the switch in a slot so far, as spans
    /// from the instant at which it would have started at the longest distance.
    seen: Option<(Span, Span)>,
}

impl Distances {
    /// Hosts whose cables have the delays `ways`, none longer than `longest`, for which the lead is
    /// given.
    pub fn new(ways: Vec<Span>, longest: Span, alignment: Alignment) -> Distances {
        Distances { ways, longest, alignment, seen: None }
    }

    /// The largest time between the first and the last packet of a slot at the switch.
    pub fn misalignment(&self) -> Span {
        match self.alignment {
            Alignment::Gap => self.difference() * 2,
            Alignment::RoundTrips => Span::ZERO,
        }
    }

    /// The largest difference between cables.
    pub fn difference(&self) -> Span {
        let of = |ways: Option<&Span>| ways.copied().unwrap_or_default();
        Span(of(self.ways.iter().max()).0 - of(self.ways.iter().min()).0)
    }

    /// When the first host may start a transfer that a host at the longest distance starts at
    /// `transfer`.
    pub fn first(&self, transfer: Time) -> Time {
        let starts = (0..self.ways.len()).map(|host| self.start(transfer, host));
        starts.min().unwrap_or(transfer)
    }

    /// When the last host starts it.
    pub fn last(&self, transfer: Time) -> Time {
        let starts = (0..self.ways.len()).map(|host| self.start(transfer, host));
        starts.max().unwrap_or(transfer)
    }

    /// When a host starts a transfer that a host at the longest distance starts at `transfer`.
    pub fn start(&self, transfer: Time, host: usize) -> Time {
        let shorter = Span(self.longest.0 - self.ways[host].0);
        match self.alignment {
            Alignment::Gap => Time(transfer.0.saturating_sub(shorter.0)),
            Alignment::RoundTrips => transfer + shorter,
        }
    }

    /// The delay of the cables from one adapter to another.
    pub fn wire(&self, from: usize, to: usize) -> Span {
        self.ways[from] + self.ways[to]
    }

    /// A host starts a transfer now.
    pub fn note(&mut self, now: Time, transfer: Time, host: usize) {
        // With a start that is earlier by less than the longest cable this is never negative.
        let arrival = (now + self.longest + self.ways[host]).since(transfer);
        let (first, last) = self.seen.unwrap_or((arrival, arrival));
        self.seen = Some((first.min(arrival), last.max(arrival)));
    }

    /// From the earliest to the latest arrival of a packet at the switch, within its slot, as seen.
    pub fn seen_misalignment(&self) -> Span {
        self.seen.map_or(Span::ZERO, |(first, last)| Span(last.0 - first.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cables of 25, 10 and 20 ns. By the gap, a packet of the second host comes to the switch earlier
    /// by 30 ns, one of the third by 10; with measured round trips all come together.
    #[test]
    fn packets_of_a_slot_come_apart_by_twice_the_difference_or_together() {
        let ways = [25, 10, 20].map(Span::from_ns);
        let arrivals = |alignment| {
            let distances = Distances::new(ways.to_vec(), Span::from_ns(25), alignment);
            let transfer = Time::ZERO + Span::from_ns(100);
            let at = |host: usize| (distances.start(transfer, host) + ways[host]).0 / 1000;
            ([0, 1, 2].map(at), distances.misalignment())
        };
        assert_eq!(arrivals(Alignment::Gap), ([125, 95, 115], Span::from_ns(30)));
        assert_eq!(arrivals(Alignment::RoundTrips), ([125; 3], Span::ZERO));
    }
}
