//! Random maximal matching: the baseline of a greedy scheduler.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

use super::bits::{any, only};
use super::{Algorithm, Matching, Requests, Scheduler};

/// Settings of random maximal matching: it has none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RandomMaximalSettings {}

impl Algorithm for RandomMaximalSettings {
    type Scheduler = RandomMaximal;

    fn build(&self, ports: usize) -> RandomMaximal {
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
pub struct RandomMaximal {
    ports: usize,
}

impl Scheduler for RandomMaximal {
    fn schedule(&mut self, requests: &Requests, random: &mut Stream, matching: &mut Matching) {
        debug_assert_eq!(requests.ports(), self.ports);
        matching.clear();
        let mut waiting = matching.unmatched_initiators();
        while waiting != 0 {
            let initiator = any(waiting, random);
            waiting &= !only(initiator);
            let open = requests.row(initiator) & matching.unmatched_targets();
            if open != 0 {
                matching.pair(initiator, any(open, random));
            }
        }
    }
}
