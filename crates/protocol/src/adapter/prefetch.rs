//! Which message the adapter fetches next from host memory (Clint 3.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ring::SendRequest;

/// The order in which an adapter fills its send buffers. Every policy keeps the messages of one
/// target in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Prefetch {
    /// In the order of the writes to `SendReg`: the quick channel's policy.
    #[default]
    Fifo,
    /// The oldest message for a target with the fewest messages on the adapter, so that the
    /// buffers hold messages for different targets: the bulk channel's policy.
    DifferentTargets,
    /// In order, except that a target with `limit` messages on the adapter is not considered:
    /// the method that the paper outlines as future work.
    PerTarget {
        /// The largest number of messages for one target on the adapter.
        limit: u16,
    },
}

impl Prefetch {
    /// The index in `posted` (oldest first) of the message to fetch next; `buffered` returns how
    /// many messages for a target the adapter holds.
    pub(super) fn choose<'a>(
        self,
        posted: impl Iterator<Item = &'a SendRequest>,
        buffered: impl Fn(u16) -> u16,
    ) -> Option<usize> {
        let mut candidates = posted.map(|request| buffered(request.target)).enumerate();
        match self {
            Prefetch::Fifo => candidates.next().map(|(place, _)| place),
            Prefetch::DifferentTargets => {
                candidates.min_by_key(|(_, count)| *count).map(|(place, _)| place)
            }
            Prefetch::PerTarget { limit } => {
                candidates.find(|(_, count)| *count < limit).map(|(place, _)| place)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::BufferId;

    fn choose(policy: Prefetch, targets: &[u16], buffered: &[u16]) -> Option<usize> {
        let posted: Vec<_> = (0..)
            .map(BufferId)
            .zip(targets)
            .map(|(buffer, target)| SendRequest { buffer, target: *target })
            .collect();
        policy.choose(posted.iter(), |target| buffered[usize::from(target)])
    }

    #[test]
    fn each_policy_picks_by_its_own_rule() {
        let (targets, buffered) = ([0, 0, 1, 2, 1], [2, 1, 1]);
        assert_eq!(choose(Prefetch::Fifo, &targets, &buffered), Some(0));
        assert_eq!(choose(Prefetch::DifferentTargets, &targets, &buffered), Some(2));
        assert_eq!(choose(Prefetch::PerTarget { limit: 2 }, &targets, &buffered), Some(2));
        assert_eq!(choose(Prefetch::PerTarget { limit: 3 }, &targets, &buffered), Some(0));
        assert_eq!(choose(Prefetch::PerTarget { limit: 1 }, &targets, &buffered), None);
        assert_eq!(choose(Prefetch::DifferentTargets, &[], &buffered), None);
    }
}
