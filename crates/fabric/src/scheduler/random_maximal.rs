//! Random maximal matching: the baseline of a greedy scheduler.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

use super::{Algorithm, Matching, Requests, Scheduler};

/// Settings of random maximal matching: it has none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RandomMaximalSettings {}

impl Algorithm for RandomMaximalSettings {
    type Scheduler<const W: usize> = RandomMaximal<W>;

    fn build<const W: usize>(&self, ports: usize) -> RandomMaximal<W> {
        RandomMaximal { ports }
    }

    fn is_maximal(&self) -> bool {
        true
    }

    fn variants() -> Vec<RandomMaximalSettings> {
        vec![RandomMaximalSettings {}]
    }
}

/// Random maximal matching: initiators in random order, each to a random one of the targets that
/// it asks for and that are left. Draws from the random stream.
#[derive(Clone, Debug)]
pub struct RandomMaximal<const W: usize = 1> {
    ports: usize,
}

impl<const W: usize> Scheduler<W> for RandomMaximal<W> {
    fn schedule(
        &mut self,
        requests: &Requests<W>,
        random: &mut Stream,
        matching: &mut Matching<W>,
    ) {
        debug_assert_eq!(requests.ports(), self.ports);
        matching.clear();
        let mut waiting = matching.unmatched_initiators();
        while !waiting.is_empty() {
            let initiator = waiting.any(random);
            waiting.remove(initiator);
            let open = requests.row(initiator) & matching.unmatched_targets();
            if !open.is_empty() {
                matching.pair(initiator, open.any(random));
            }
        }
    }
}
