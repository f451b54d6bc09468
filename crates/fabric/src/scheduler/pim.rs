//! Parallel iterative matching: rounds of request, grant and accept with random choices.
//!
//! Anderson, Owicki, Saxe and Thacker, "High-speed switch scheduling for local-area networks",
//! ACM Transactions on Computer Systems 11(4), 1993, section 3.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::{Stream, prefetch_whole};

use super::ports::{PerPort, PortSet};
use super::{Algorithm, Iterations, Matching, Requests, Scheduler};

/// Settings of parallel iterative matching.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PimSettings {
    /// Rounds of request, grant and accept in a slot.
    pub iterations: Iterations,
}

impl Algorithm for PimSettings {
    type Scheduler<const W: usize> = Pim<W>;

    fn build<const W: usize>(&self, ports: usize) -> Pim<W> {
        Pim { ports, iterations: self.iterations.get(), grants: PerPort::new(PortSet::EMPTY) }
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
pub struct Pim<const W: usize = 1> {
    ports: usize,
    iterations: u32,
    /// Per initiator, the targets that granted it in this round; all empty between rounds.
    grants: PerPort<PortSet<W>, W>,
}

impl<const W: usize> Scheduler<W> for Pim<W> {
    fn schedule(
        &mut self,
        requests: &Requests<W>,
        random: &mut Stream,
        matching: &mut Matching<W>,
    ) {
        debug_assert_eq!(requests.ports(), self.ports);
        matching.clear();
        for _ in 0..self.iterations {
            let mut granted = PortSet::<W>::EMPTY;
            for target in requests.asked() & matching.unmatched_targets() {
                let candidates = requests.column(target) & matching.unmatched_initiators();
                if !candidates.is_empty() {
                    let initiator = candidates.any(random);
                    self.grants[initiator].insert(target);
                    granted.insert(initiator);
                }
            }
            if granted.is_empty() {
                break;
            }
            for initiator in granted {
                let grants = std::mem::take(&mut self.grants[initiator]);
                matching.pair(initiator, grants.any(random));
            }
        }
    }

    #[inline]
    fn prefetch(&self, random: &Stream) {
        prefetch_whole(random);
        self.grants.prefetch(self.ports);
    }
}
