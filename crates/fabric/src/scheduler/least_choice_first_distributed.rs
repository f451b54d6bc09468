//! Least choice first, distributed: rounds of request, grant and accept in which the side with the
//! fewest choices is preferred at both ends.
//!
//! US patent 7 006 501, "Distributed least choice first arbiter", abstract and claims: a requester
//! is preferred that has few requests; a requester that holds several grants takes the resource
//! that received few requests; a round robin may allocate before. That the counts are those of
//! the requests still open in a round is our reading.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

use super::diagonal::Diagonal;
use super::least_choice_first::Ties;
use super::ports::{PerPort, PortSet};
use super::tally::Tally;
use super::{Algorithm, Iterations, Matching, Requests, Scheduler};

/// Settings of the distributed least choice first scheduler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeastChoiceFirstDistributedSettings {
    /// Rounds of request, grant and accept in a slot. A single round saturates below a load of 0.7.
    pub iterations: Iterations,
    /// Whether one cell, moving through the request matrix, is served before the first round;
    /// bounds the wait of a standing request to ports² slots.
    pub round_robin: bool,
    /// Which initiator, and which target, wins among those with equally few choices.
    pub ties: Ties,
}

impl Default for LeastChoiceFirstDistributedSettings {
    fn default() -> LeastChoiceFirstDistributedSettings {
        LeastChoiceFirstDistributedSettings {
            iterations: Iterations::default(),
            round_robin: true,
            ties: Ties::Rotating,
        }
    }
}

impl Algorithm for LeastChoiceFirstDistributedSettings {
    type Scheduler<const W: usize> = LeastChoiceFirstDistributed<W>;

    fn build<const W: usize>(&self, ports: usize) -> LeastChoiceFirstDistributed<W> {
        LeastChoiceFirstDistributed {
            settings: self.clone(),
            ports,
            diagonal: Diagonal::new(ports),
            of_initiators: Tally::default(),
            of_targets: Tally::default(),
            grants: PerPort::new(PortSet::EMPTY),
        }
    }

    fn is_maximal(&self) -> bool {
        self.iterations.always_converge()
    }

    fn serves_within(&self, ports: usize) -> Option<u64> {
        self.round_robin.then_some((ports * ports) as u64)
    }

    fn serves_unchanged_within(&self, ports: usize) -> Option<u64> {
        self.serves_within(ports)
    }

    fn variants() -> Vec<LeastChoiceFirstDistributedSettings> {
        let mut variants = Vec::new();
        for iterations in Iterations::worth_comparing() {
            for round_robin in [true, false] {
                variants.extend([Ties::Rotating, Ties::Random, Ties::Lowest].map(|ties| {
                    LeastChoiceFirstDistributedSettings { iterations, round_robin, ties }
                }));
            }
        }
        variants
    }
}

/// The distributed least choice first scheduler. Draws from the random stream if ties are random.
#[derive(Clone, Debug)]
pub struct LeastChoiceFirstDistributed<const W: usize = 1> {
    settings: LeastChoiceFirstDistributedSettings,
    ports: usize,
    diagonal: Diagonal,
    /// Per initiator, its requests for unmatched targets.
    of_initiators: Tally<W>,
    /// Per target, the requests that it received from unmatched initiators.
    of_targets: Tally<W>,
    /// Per initiator, the targets that granted it in this round; all empty between rounds.
    grants: PerPort<PortSet<W>, W>,
}

impl<const W: usize> LeastChoiceFirstDistributed<W> {
    fn count(&mut self, requests: &Requests<W>, matching: &Matching<W>) {
        self.of_initiators.clear();
        self.of_targets.clear();
        for target in matching.unmatched_targets() {
            self.of_initiators.add(requests.column(target));
        }
        for initiator in matching.unmatched_initiators() {
            self.of_targets.add(requests.row(initiator));
        }
    }

    /// Every unmatched target grants the unmatched requester with the fewest choices. Returns the
    /// initiators with a grant.
    fn grant(
        &mut self,
        requests: &Requests<W>,
        random: &mut Stream,
        matching: &Matching<W>,
    ) -> PortSet<W> {
        let mut granted = PortSet::EMPTY;
        for target in matching.unmatched_targets() {
            let candidates = requests.column(target) & matching.unmatched_initiators();
            if !candidates.is_empty() {
                let fewest = self.of_initiators.least(candidates);
                let favoured = self.diagonal.favoured_by(target);
                let initiator = self.settings.ties.choose(fewest, favoured, random);
                self.grants[initiator].insert(target);
                granted.insert(initiator);
            }
        }
        granted
    }

    /// Every initiator with grants accepts the target that received the fewest requests.
    fn accept(&mut self, granted: PortSet<W>, random: &mut Stream, matching: &mut Matching<W>) {
        for initiator in granted {
            let grants = std::mem::take(&mut self.grants[initiator]);
            let fewest = self.of_targets.least(grants);
            let favouring = self.diagonal.favouring(initiator);
            matching.pair(initiator, self.settings.ties.choose(fewest, favouring, random));
        }
    }
}

impl<const W: usize> Scheduler<W> for LeastChoiceFirstDistributed<W> {
    fn schedule(
        &mut self,
        requests: &Requests<W>,
        random: &mut Stream,
        matching: &mut Matching<W>,
    ) {
        debug_assert_eq!(requests.ports(), self.ports);
        matching.clear();
        let Diagonal { initiator, target, .. } = self.diagonal;
        if self.settings.round_robin && requests.contains(initiator, target) {
            matching.pair(initiator, target);
        }
        for _ in 0..self.settings.iterations.get() {
            self.count(requests, matching);
            let granted = self.grant(requests, random, matching);
            if granted.is_empty() {
                break;
            }
            self.accept(granted, random, matching);
        }
        self.diagonal.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_kernel::Streams;

    fn schedule(
        iterations: u32,
        round_robin: bool,
        pairs: &[(usize, usize)],
    ) -> Vec<(usize, usize)> {
        let iterations = Iterations::new(iterations).unwrap();
        let ties = Ties::Lowest;
        let settings = LeastChoiceFirstDistributedSettings { iterations, round_robin, ties };
        let mut requests = Requests::new(4);
        pairs.iter().for_each(|&(initiator, target)| requests.set(initiator, target));
        let mut matching = Matching::new(4);
        let mut random = Streams::new(1).stream("test", 0);
        let mut scheduler: LeastChoiceFirstDistributed = settings.build(4);
        scheduler.schedule(&requests, &mut random, &mut matching);
        matching.iter().collect()
    }

    /// Worked by hand. Initiators 0 to 3 have 3, 2, 1, 2 choices; targets 0 to 2 grant the
    /// initiators 0, 1 (2 over 3) and 2 (1 over 3, 2 and 2), target 3 grants 3: all accept.
    #[test]
    fn the_initiator_with_the_fewest_requests_is_granted() {
        let pairs = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2), (3, 2), (3, 3)];
        assert_eq!(schedule(1, false, &pairs), [(0, 0), (1, 1), (2, 2), (3, 3)]);
    }

    /// Worked by hand. Initiator 0 asks for 0, 1 and 2, initiators 1 and 2 for 0 and 3. Target 0
    /// received three requests, targets 1 and 2 one each, target 3 two. Targets 0 and 3 grant 1
    /// (lowest of two with two choices), targets 1 and 2 grant 0. Initiator 0 accepts 1, and
    /// initiator 1 accepts 3, which fewer asked for than 0. Initiator 2 needs a second round.
    #[test]
    fn the_target_with_the_fewest_requests_is_accepted() {
        let pairs = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 3), (2, 0), (2, 3)];
        assert_eq!(schedule(1, false, &pairs), [(0, 1), (1, 3)]);
        assert_eq!(schedule(2, false, &pairs), [(0, 1), (1, 3), (2, 0)]);
    }

    /// The first slot favours cell (3, 3); by choices alone target 3 would go to initiator 2.
    #[test]
    fn the_round_robin_cell_is_served_first() {
        let pairs = [(2, 3), (3, 2), (3, 3)];
        assert_eq!(schedule(1, false, &pairs), [(2, 3), (3, 2)]);
        assert_eq!(schedule(1, true, &pairs), [(3, 3)]);
    }
}
