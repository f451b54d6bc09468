//! Maximum-size matching: as many connections as any scheduler could make in the slot.
//!
//! Augmenting paths, found breadth first from one unmatched initiator after another (Berge 1957).
//! The size is best possible; the pairs are not fair: requests that lie on no maximum matching
//! starve.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

use super::diagonal::Diagonal;
use super::ports::{PerPort, PortSet, after};
use super::{Algorithm, Matching, Requests, Scheduler};

/// Settings of maximum-size matching.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MaximumMatchingSettings {
    /// Which of several maximum matchings is preferred.
    pub order: Order,
}

/// The order in which maximum-size matching considers ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MatchingOrder")]
pub enum Order {
    /// From an initiator and a target that move every slot.
    Rotating,
    /// Initiators in random order, and a random one of the free targets.
    Random,
}

impl Default for MaximumMatchingSettings {
    fn default() -> MaximumMatchingSettings {
        MaximumMatchingSettings { order: Order::Rotating }
    }
}

impl Algorithm for MaximumMatchingSettings {
    type Scheduler<const W: usize> = MaximumMatching<W>;

    fn build<const W: usize>(&self, ports: usize) -> MaximumMatching<W> {
        MaximumMatching {
            order: self.order,
            ports,
            diagonal: Diagonal::new(ports),
            reached_from: PerPort::new(0),
            queue: PerPort::new(0),
        }
    }

    fn is_maximal(&self) -> bool {
        true
    }

    fn variants() -> Vec<MaximumMatchingSettings> {
        [Order::Rotating, Order::Random].map(|order| MaximumMatchingSettings { order }).to_vec()
    }
}

/// The maximum-size matching scheduler. Draws from the random stream if its order is random.
#[derive(Clone, Debug)]
pub struct MaximumMatching<const W: usize = 1> {
    order: Order,
    ports: usize,
    diagonal: Diagonal,
    /// Per target reached by the search, the initiator it was reached from.
    reached_from: PerPort<u16, W>,
    /// Initiators that the search has reached, in order.
    queue: PerPort<u16, W>,
}

impl<const W: usize> MaximumMatching<W> {
    /// Looks for a path from an unmatched initiator to an unmatched target along which
    /// connections can be exchanged, through `open` targets only. Takes the targets that it
    /// reaches out of `open`: where no path was found, none of them leads anywhere later either.
    fn search(
        &mut self,
        root: usize,
        requests: &Requests<W>,
        random: &mut Stream,
        matching: &Matching<W>,
        open: &mut PortSet<W>,
    ) -> Option<usize> {
        self.queue[0] = root as u16;
        let (mut head, mut tail) = (0, 1);
        while head < tail {
            let initiator = usize::from(self.queue[head]);
            head += 1;
            let reached = requests.row(initiator) & *open;
            let free = reached & matching.unmatched_targets();
            if !free.is_empty() {
                let target = match self.order {
                    Order::Rotating => free.first_from(self.diagonal.favouring(initiator)),
                    Order::Random => free.any(random),
                };
                self.reached_from[target] = initiator as u16;
                return Some(target);
            }
            *open -= reached;
            for target in reached {
                self.reached_from[target] = initiator as u16;
                if let Some(partner) = matching.initiator_of(target) {
                    self.queue[tail] = partner as u16;
                    tail += 1;
                }
            }
        }
        None
    }

    /// Exchanges the connections along the path that ends at the target.
    fn augment(&self, mut target: usize, matching: &mut Matching<W>) {
        loop {
            let initiator = usize::from(self.reached_from[target]);
            let former = matching.target_of(initiator);
            matching.reassign(initiator, target);
            match former {
                Some(former) => target = former,
                None => return,
            }
        }
    }
}

impl<const W: usize> Scheduler<W> for MaximumMatching<W> {
    fn schedule(
        &mut self,
        requests: &Requests<W>,
        random: &mut Stream,
        matching: &mut Matching<W>,
    ) {
        debug_assert_eq!(requests.ports(), self.ports);
        matching.clear();
        let mut roots = matching.unmatched_initiators();
        let mut next = self.diagonal.initiator;
        let mut open = matching.unmatched_targets();
        while !roots.is_empty() {
            let root = match self.order {
                Order::Rotating => roots.first_from(next),
                Order::Random => roots.any(random),
            };
            roots.remove(root);
            next = after(root, self.ports);
            let before = open;
            if let Some(target) = self.search(root, requests, random, matching, &mut open) {
                self.augment(target, matching);
                open = before;
            }
        }
        self.diagonal.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_kernel::Streams;

    /// A greedy choice of (0, 0) would leave initiator 1 without a target.
    #[test]
    fn connections_are_exchanged_along_a_path() {
        let mut requests = Requests::new(3);
        for (initiator, target) in [(0, 0), (0, 1), (1, 0), (2, 1), (2, 2)] {
            requests.set(initiator, target);
        }
        let mut random = Streams::new(1).stream("test", 0);
        let mut matching = Matching::new(3);
        for settings in MaximumMatchingSettings::variants() {
            let mut scheduler: MaximumMatching = settings.build(3);
            for _ in 0..9 {
                scheduler.schedule(&requests, &mut random, &mut matching);
                assert_eq!(matching.iter().collect::<Vec<_>>(), [(0, 1), (1, 0), (2, 2)]);
            }
        }
    }
}
