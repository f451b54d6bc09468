//! Speculative scheduling: connections without a request.
//!
//! An option. The paper announces "a method to speculatively schedule the bulk schedule to reduce
//! the synchronization penalty under light load" (Clint 4.2) and does not describe it. The rule
//! here is that of US patent 7352741, *Speculative arbitration*, of the same laboratory: a resource
//! that no request takes is allocated without one, by a fixed priority or to the user with the
//! fewest requests. An initiator with such a grant may send a packet that was submitted after the
//! requests were sampled; if it has none, no other initiator loses the slot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scheduler::{Matching, PortSet, Requests};

/// Whether and how initiators and targets that the scheduler leaves unmatched are paired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Speculation {
    /// Not at all.
    #[default]
    Off,
    /// Targets in ascending order, each with the lowest-numbered initiator that is left.
    FixedPriority,
    /// Targets in ascending order, each with the remaining initiator that has the fewest requests;
    /// among equals the lowest-numbered.
    FewestRequests,
}

impl Speculation {
    /// Adds speculative connections to `matching` and returns their initiators.
    /// `enabled` says which initiators a target accepts. A node is not paired with itself, since a
    /// guess that needs no network gains nothing.
    pub(super) fn extend<const W: usize>(
        self,
        requests: &Requests<W>,
        enabled: impl Fn(usize) -> PortSet<W>,
        matching: &mut Matching<W>,
    ) -> PortSet<W> {
        let mut speculative = PortSet::EMPTY;
        if self == Speculation::Off {
            return speculative;
        }
        for target in matching.unmatched_targets() {
            let left = matching.unmatched_initiators() & enabled(target);
            let mut left = (left - PortSet::only(target)).into_iter();
            let chosen = match self {
                Speculation::Off => None,
                Speculation::FixedPriority => left.next(),
                Speculation::FewestRequests => {
                    left.min_by_key(|initiator| requests.row(*initiator).len())
                }
            };
            if let Some(initiator) = chosen {
                matching.pair(initiator, target);
                speculative.insert(initiator);
            }
        }
        speculative
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYBODY: PortSet = PortSet::below(4);

    fn extend(rule: Speculation, enabled: PortSet) -> (PortSet, Vec<(usize, usize)>) {
        let mut requests = Requests::new(4);
        for (initiator, target) in [(0, 1), (2, 0), (2, 1), (2, 2), (3, 1), (3, 2)] {
            requests.set(initiator, target);
        }
        let mut matching = Matching::new(4);
        matching.pair(0, 1);
        let speculative = rule.extend(&requests, |_| enabled, &mut matching);
        (speculative, matching.iter().collect())
    }

    /// Left over: initiators 1, 2, 3 with 0, 3, 2 requests, and targets 0, 2, 3.
    #[test]
    fn what_is_left_over_is_paired_by_rule() {
        assert_eq!(extend(Speculation::Off, EVERYBODY), (PortSet::EMPTY, vec![(0, 1)]));
        assert_eq!(
            extend(Speculation::FixedPriority, EVERYBODY),
            (EVERYBODY - PortSet::only(0), vec![(0, 1), (1, 0), (2, 3), (3, 2)])
        );
        assert_eq!(
            extend(Speculation::FewestRequests, EVERYBODY),
            (EVERYBODY - PortSet::only(0), vec![(0, 1), (1, 0), (2, 3), (3, 2)])
        );
        assert_eq!(
            extend(Speculation::FewestRequests, EVERYBODY - PortSet::only(1)),
            ([2, 3].into_iter().collect(), vec![(0, 1), (2, 3), (3, 0)]),
            "a disabled initiator is not guessed either"
        );
        assert_eq!(
            extend(Speculation::FixedPriority, EVERYBODY - PortSet::only(1)).1,
            [(0, 1), (2, 0), (3, 2)]
        );
    }
}
