//! Matchings of initiators and targets: the output of a scheduler.

use super::ports::{PerPort, PortSet};

/// A set of connections that share no initiator and no target.
#[derive(Clone, Debug)]
pub struct Matching<const W: usize = 1> {
    ports: usize,
    unmatched_initiators: PortSet<W>,
    unmatched_targets: PortSet<W>,
    /// Meaningful for matched initiators only, so that clearing need not touch it.
    targets: PerPort<u16, W>,
    /// Meaningful for matched targets only.
    initiators: PerPort<u16, W>,
}

impl<const W: usize> Matching<W> {
    /// No connections among `ports` initiators and as many targets; `ports` is 1 to
    /// [`PortSet::MOST`].
    pub fn new(ports: usize) -> Matching<W> {
        debug_assert!(ports >= 1 && ports <= PortSet::<W>::MOST);
        Matching {
            ports,
            unmatched_initiators: PortSet::below(ports),
            unmatched_targets: PortSet::below(ports),
            targets: PerPort::new(0),
            initiators: PerPort::new(0),
        }
    }

    /// Removes every connection.
    #[inline]
    pub fn clear(&mut self) {
        self.unmatched_initiators = PortSet::below(self.ports);
        self.unmatched_targets = PortSet::below(self.ports);
    }

    /// Connects an initiator and a target, both of which must be unmatched.
    #[inline]
    pub fn pair(&mut self, initiator: usize, target: usize) {
        debug_assert!(self.unmatched_initiators.contains(initiator), "matched initiator");
        debug_assert!(self.unmatched_targets.contains(target), "matched target");
        self.reassign(initiator, target);
    }

    /// Connects an initiator and a target and forgets what either was connected to; the caller
    /// reassigns the former partners too.
    #[inline]
    pub(super) fn reassign(&mut self, initiator: usize, target: usize) {
        debug_assert!(initiator < self.ports && target < self.ports);
        self.unmatched_initiators.remove(initiator);
        self.unmatched_targets.remove(target);
        self.targets[initiator] = target as u16;
        self.initiators[target] = initiator as u16;
    }

    /// The target that the initiator sends to.
    #[inline]
    pub fn target_of(&self, initiator: usize) -> Option<usize> {
        if self.unmatched_initiators.contains(initiator) || initiator >= self.ports {
            return None;
        }
        Some(self.targets[initiator].into())
    }

    /// The initiator that the target receives from.
    #[inline]
    pub fn initiator_of(&self, target: usize) -> Option<usize> {
        if self.unmatched_targets.contains(target) || target >= self.ports {
            return None;
        }
        Some(self.initiators[target].into())
    }

    /// Initiators without a connection.
    #[inline]
    pub const fn unmatched_initiators(&self) -> PortSet<W> {
        self.unmatched_initiators
    }

    /// Targets without a connection.
    #[inline]
    pub const fn unmatched_targets(&self) -> PortSet<W> {
        self.unmatched_targets
    }

    /// Targets with a connection.
    #[inline]
    pub fn matched_targets(&self) -> PortSet<W> {
        PortSet::below(self.ports) - self.unmatched_targets
    }

    /// The initiator of a target that has a connection.
    #[inline]
    pub fn partner(&self, target: usize) -> usize {
        debug_assert!(!self.unmatched_targets.contains(target), "unmatched target");
        self.initiators[target].into()
    }

    /// Prefetches all entries.
    #[inline]
    pub fn prefetch(&self) {
        self.targets.prefetch(self.ports);
        self.initiators.prefetch(self.ports);
    }

    /// Number of connections.
    #[inline]
    pub fn len(&self) -> usize {
        self.ports - self.unmatched_initiators.len()
    }

    /// Whether there is no connection.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The connections as (initiator, target), by ascending initiator.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize)> + use<'_, W> {
        let matched = PortSet::below(self.ports) - self.unmatched_initiators;
        matched.into_iter().map(|initiator| (initiator, self.targets[initiator].into()))
    }

    /// The same by ascending target.
    #[inline]
    pub fn by_target(&self) -> impl Iterator<Item = (usize, usize)> + use<'_, W> {
        self.matched_targets().into_iter().map(|target| (self.partner(target), target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_read_the_same_from_both_sides() {
        let mut matching = Matching::<1>::new(3);
        assert!(matching.is_empty());
        matching.pair(2, 0);
        matching.pair(0, 1);
        assert_eq!((matching.target_of(2), matching.initiator_of(0)), (Some(0), Some(2)));
        assert_eq!((matching.target_of(1), matching.initiator_of(2)), (None, None));
        assert_eq!(matching.target_of(3), None);
        assert_eq!(matching.iter().collect::<Vec<_>>(), [(0, 1), (2, 0)]);
        assert_eq!(matching.by_target().collect::<Vec<_>>(), [(2, 0), (0, 1)]);
        assert_eq!(matching.unmatched_initiators(), PortSet::only(1));
        assert_eq!(matching.unmatched_targets(), PortSet::only(2));
        matching.clear();
        assert_eq!((matching.len(), matching.target_of(2)), (0, None));
    }
}
