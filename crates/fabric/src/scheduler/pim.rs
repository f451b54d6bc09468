//! Parallel iterative matching: rounds of request, grant and accept with random choices.
//!
//! Anderson, Owicki, Saxe and Thacker, "High-speed switch scheduling for local-area networks",
//! ACM Transactions on Computer Systems 11(4), 1993, section 3.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

use super::bits::{Members, any, only};
use super::{Algorithm, Iterations, MAX_PORTS, Matching, Requests, Scheduler};

/// Settings of parallel iterative matching.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PimSettings {
    /// Rounds of request, grant and accept in a slot.
    pub iterations: Iterations,
}

impl Algorithm for PimSettings {
    type Scheduler = Pim;

    fn build(&self, ports: usize) -> Pim {
        Pim { ports, iterations: self.iterations.get(), grants: [0; MAX_PORTS] }
    }

    fn is_maximal(&self) -> bool {
        self.iterations.always_converge()
    }

    fn variants() -> Vec<PimSettings> {
        Iterations::worth_comparing().map(|iterations| PimSettings { iterations }).to_vec()
    }
}

/// The parallel iterative matching scheduler. Draws from the random stream.
#[derive(Clone, Debug)]
pub struct Pim {
    ports: usize,
    iterations: u32,
    /// Per initiator, the targets that granted it in this round; all empty between rounds.
    grants: [u64; MAX_PORTS],
}

impl Scheduler for Pim {
    fn schedule(&mut self, requests: &Requests, random: &mut Stream, matching: &mut Matching) {
        debug_assert_eq!(requests.ports(), self.ports);
        matching.clear();
        for _ in 0..self.iterations {
            let mut granted = 0;
            for target in Members(matching.unmatched_targets()) {
                let candidates = requests.column(target) & matching.unmatched_initiators();
                if candidates != 0 {
                    let initiator = any(candidates, random);
                    self.grants[initiator] |= only(target);
                    granted |= only(initiator);
                }
            }
            if granted == 0 {
                break;
            }
            for initiator in Members(granted) {
                let grants = std::mem::take(&mut self.grants[initiator]);
                matching.pair(initiator, any(grants, random));
            }
        }
    }
}
