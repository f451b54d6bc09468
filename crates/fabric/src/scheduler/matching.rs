//! Matchings of initiators and targets: the output of a scheduler.

use super::MAX_PORTS;
use super::bits::{Members, all, only};

/// A set of connections that share no initiator and no target.
#[derive(Clone, Debug)]
pub struct Matching {
    ports: usize,
    unmatched_initiators: u64,
    unmatched_targets: u64,
    /// Meaningful for matched initiators only, so that clearing need not touch it.
    targets: [u8; MAX_PORTS],
    /// Meaningful for matched targets only.
    initiators: [u8; MAX_PORTS],
}

impl Matching {
    /// No connections among `ports` initiators and as many targets; `ports` is 1 to
    /// [`MAX_PORTS`].
    pub const fn new(ports: usize) -> Matching {
        debug_assert!(ports >= 1 && ports <= MAX_PORTS);
        Matching {
            ports,
            unmatched_initiators: all(ports),
            unmatched_targets: all(ports),
            targets: [0; MAX_PORTS],
            initiators: [0; MAX_PORTS],
        }
    }

    /// Removes every connection.
    #[inline]
    pub fn clear(&mut self) {
        self.unmatched_initiators = all(self.ports);
        self.unmatched_targets = all(self.ports);
    }

    /// Connects an initiator and a target, both of which must be unmatched.
    #[inline]
    pub fn pair(&mut self, initiator: usize, target: usize) {
        debug_assert!(self.unmatched_initiators & only(initiator) != 0, "matched initiator");
        debug_assert!(self.unmatched_targets & only(target) != 0, "matched target");
        self.reassign(initiator, target);
    }

    /// Connects an initiator and a target and forgets what either was connected to; the caller
    /// reassigns the former partners too.
    #[inline]
    pub(super) fn reassign(&mut self, initiator: usize, target: usize) {
        debug_assert!(initiator < self.ports && target < self.ports);
        self.unmatched_initiators &= !only(initiator);
        self.unmatched_targets &= !only(target);
        self.targets[initiator & (MAX_PORTS - 1)] = target as u8;
        self.initiators[target & (MAX_PORTS - 1)] = initiator as u8;
    }

    /// The target that the initiator sends to.
    #[inline]
    pub const fn target_of(&self, initiator: usize) -> Option<usize> {
        if self.unmatched_initiators & only(initiator) != 0 || initiator >= self.ports {
            return None;
        }
        Some(self.targets[initiator & (MAX_PORTS - 1)] as usize)
    }

    /// The initiator that the target receives from.
    #[inline]
    pub const fn initiator_of(&self, target: usize) -> Option<usize> {
        if self.unmatched_targets & only(target) != 0 || target >= self.ports {
            return None;
        }
        Some(self.initiators[target & (MAX_PORTS - 1)] as usize)
    }

    /// Initiators without a connection, one bit each.
    #[inline]
    pub const fn unmatched_initiators(&self) -> u64 {
        self.unmatched_initiators
    }

    /// Targets without a connection, one bit each.
    #[inline]
    pub const fn unmatched_targets(&self) -> u64 {
        self.unmatched_targets
    }

    /// Number of connections.
    #[inline]
    pub const fn len(&self) -> usize {
        self.ports - self.unmatched_initiators.count_ones() as usize
    }

    /// Whether there is no connection.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The connections as (initiator, target), by ascending initiator.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize)> + use<'_> {
        let matched = all(self.ports) & !self.unmatched_initiators;
        Members(matched).map(|initiator| (initiator, self.targets[initiator] as usize))
    }

    /// The same by ascending target.
    #[inline]
    pub fn by_target(&self) -> impl Iterator<Item = (usize, usize)> + use<'_> {
        let matched = all(self.ports) & !self.unmatched_targets;
        Members(matched).map(|target| (self.initiators[target] as usize, target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_read_the_same_from_both_sides() {
        let mut matching = Matching::new(3);
        assert!(matching.is_empty());
        matching.pair(2, 0);
        matching.pair(0, 1);
        assert_eq!((matching.target_of(2), matching.initiator_of(0)), (Some(0), Some(2)));
        assert_eq!((matching.target_of(1), matching.initiator_of(2)), (None, None));
        assert_eq!(matching.target_of(3), None);
        assert_eq!(matching.iter().collect::<Vec<_>>(), [(0, 1), (2, 0)]);
        assert_eq!(matching.by_target().collect::<Vec<_>>(), [(2, 0), (0, 1)]);
        assert_eq!((matching.unmatched_initiators(), matching.unmatched_targets()), (0b010, 0b100));
        matching.clear();
        assert_eq!((matching.len(), matching.target_of(2)), (0, None));
    }
}
