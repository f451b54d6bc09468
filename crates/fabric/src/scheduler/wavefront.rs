//! Wrapped wavefront arbitration: the diagonals of the request matrix, one after another.
//!
//! Y. Tamir and H.-C. Chi, "Symmetric crossbar arbiters for VLSI communication switches", IEEE
//! Transactions on Parallel and Distributed Systems 4(1), 1993. No two cells of a wrapped
//! diagonal share an initiator or a target, so a whole diagonal is decided at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

use super::ports::after;
use super::{Algorithm, Matching, Requests, Scheduler};

/// Settings of the wrapped wavefront arbiter: it has none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WavefrontSettings {}

impl Algorithm for WavefrontSettings {
    type Scheduler<const W: usize> = Wavefront<W>;

    fn build<const W: usize>(&self, ports: usize) -> Wavefront<W> {
        Wavefront { ports, first: 0 }
    }

    fn is_maximal(&self) -> bool {
        true
    }

    /// The diagonal of a request comes first once in `ports` slots, and wins whole.
    fn serves_within(&self, ports: usize) -> Option<u64> {
        Some(ports as u64)
    }

    fn serves_unchanged_within(&self, ports: usize) -> Option<u64> {
        self.serves_within(ports)
    }

    fn variants() -> Vec<WavefrontSettings> {
        vec![WavefrontSettings {}]
    }
}

/// The wrapped wavefront arbiter.
#[derive(Clone, Debug)]
pub struct Wavefront<const W: usize = 1> {
    ports: usize,
    /// The diagonal that comes first in the next slot: cells whose initiator and target add up to
    /// it, modulo `ports`.
    first: usize,
}

impl<const W: usize> Scheduler<W> for Wavefront<W> {
    fn schedule(
        &mut self,
        requests: &Requests<W>,
        _random: &mut Stream,
        matching: &mut Matching<W>,
    ) {
        debug_assert_eq!(requests.ports(), self.ports);
        matching.clear();
        // Initiators that may still win something; most are done long before the last diagonal.
        let mut active = matching.unmatched_initiators();
        let mut diagonal = self.first;
        for _ in 0..self.ports {
            for initiator in active {
                let open = requests.row(initiator) & matching.unmatched_targets();
                let wrap = if diagonal < initiator { self.ports } else { 0 };
                let target = diagonal + wrap - initiator;
                if open.contains(target) {
                    matching.pair(initiator, target);
                    active.remove(initiator);
                } else if open.is_empty() {
                    active.remove(initiator);
                }
            }
            diagonal = after(diagonal, self.ports);
        }
        self.first = after(self.first, self.ports);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_kernel::Streams;

    /// Worked by hand: three ports, all requests except (0, 0) and (1, 2). Diagonal 0 has cells
    /// (0, 0), (1, 2) and (2, 1), of which the last is asked for. Diagonal 1 has (0, 1), taken by
    /// its target, (1, 0), which wins, and (2, 2). Diagonal 2 gives (0, 2).
    #[test]
    fn diagonals_are_decided_in_turn() {
        let mut requests = Requests::new(3);
        [(0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]
            .iter()
            .for_each(|&(initiator, target)| requests.set(initiator, target));
        let mut matching = Matching::new(3);
        let mut random = Streams::new(1).stream("test", 0);
        let mut wavefront: Wavefront = WavefrontSettings {}.build(3);
        wavefront.schedule(&requests, &mut random, &mut matching);
        assert_eq!(matching.iter().collect::<Vec<_>>(), [(0, 2), (1, 0), (2, 1)]);
        wavefront.schedule(&requests, &mut random, &mut matching);
        assert_eq!(matching.iter().collect::<Vec<_>>(), [(0, 1), (1, 0), (2, 2)]);
    }
}
