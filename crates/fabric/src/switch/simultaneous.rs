//! The order of packets that reach one output in the same picosecond.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

use super::Arrival;

/// Which of several simultaneous arrivals of one kind at one output goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Simultaneous {
    /// A position that moves to one beyond the winner (Clint 3.4: "a round-robin scheme").
    #[default]
    RoundRobin,
    /// A fresh random order each time.
    Random,
    /// The lowest input port. Unfair: for comparison.
    Lowest,
}

impl Simultaneous {
    /// Puts the arrivals at an output into the order in which they are considered:
    /// acknowledgments before requests, and within a kind by this rule. `favoured` is the output's
    /// round-robin position among `ports` inputs.
    pub(super) fn arrange<K: Copy>(
        self,
        arrivals: &mut [Arrival<K>],
        favoured: &mut u16,
        ports: u16,
        random: &mut Stream,
    ) {
        if arrivals.len() < 2 {
            return;
        }
        match self {
            Simultaneous::Lowest => arrivals.sort_unstable_by_key(|a| (a.kind, a.input)),
            Simultaneous::RoundRobin => {
                let from = *favoured;
                let rank =
                    |input: u16| if input < from { input + (ports - from) } else { input - from };
                arrivals.sort_unstable_by_key(|a| (a.kind, rank(a.input)));
                *favoured = (arrivals[0].input + 1) % ports;
            }
            Simultaneous::Random => {
                // Sorted first, so that the order of the events of one picosecond has no influence.
                arrivals.sort_unstable_by_key(|a| (a.kind, a.input));
                let kinds = arrivals.partition_point(|a| a.kind == arrivals[0].kind);
                let (first, second) = arrivals.split_at_mut(kinds);
                shuffle(first, random);
                shuffle(second, random);
            }
        }
    }
}

/// The Fisher-Yates shuffle.
fn shuffle<T>(items: &mut [T], random: &mut Stream) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;
    use weft_units::Span;

    use super::*;
    use crate::switch::PacketKind;

    fn winners(rule: Simultaneous, rounds: usize) -> Vec<u16> {
        let mut random = Streams::new(1).stream("test", 0);
        let mut favoured = 0;
        let round = |_| {
            let mut arrivals = [3, 0, 2].map(|input| Arrival {
                input,
                kind: PacketKind::Request,
                span: Span(1),
                key: (),
            });
            rule.arrange(&mut arrivals, &mut favoured, 4, &mut random);
            arrivals[0].input
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    fn round_robin_lets_every_contender_win_in_turn() {
        assert_eq!(winners(Simultaneous::RoundRobin, 6), [0, 2, 3, 0, 2, 3]);
        assert_eq!(winners(Simultaneous::Lowest, 3), [0, 0, 0]);
    }

    #[test]
    fn random_is_even() {
        let winners = winners(Simultaneous::Random, 3_000);
        for input in [0, 2, 3] {
            let wins = winners.iter().filter(|winner| **winner == input).count();
            assert!((900..1_100).contains(&wins), "input {input} won {wins} of 3000");
        }
    }
}
