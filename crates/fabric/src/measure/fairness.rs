//! Fairness: deliveries by initiator.

use serde::{Deserialize, Serialize};
use weft_kernel::prefetch;

/// How many packets of each initiator were delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fairness {
    delivered: Vec<u64>,
}

impl Fairness {
    /// Nothing delivered yet, of `initiators` hosts.
    pub fn among(initiators: usize) -> Fairness {
        Fairness { delivered: vec![0; initiators] }
    }

    /// Prefetches the count of an initiator's deliveries.
    #[inline]
    pub(super) fn prefetch(&self, initiator: usize) {
        prefetch(&self.delivered, initiator);
    }

    /// Counts one delivery for an initiator; one that is not among them is not counted.
    #[inline]
    pub fn count(&mut self, initiator: usize) {
        if let Some(delivered) = self.delivered.get_mut(initiator) {
            *delivered += 1;
        }
    }

    /// Counts this many deliveries for an initiator.
    pub(super) fn count_more(&mut self, initiator: usize, deliveries: u64) {
        if let Some(delivered) = self.delivered.get_mut(initiator) {
            *delivered += deliveries;
        }
    }

    /// Deliveries of each initiator, by number.
    pub fn delivered(&self) -> &[u64] {
        &self.delivered
    }

    /// Jain's index (Jain, Chiu and Hawe, DEC-TR-301): 1 if all got the same, 1/n if one got
    /// everything; `None` if nothing was delivered.
    pub fn jain(&self) -> Option<f64> {
        let sum: f64 = self.delivered.iter().map(|&x| x as f64).sum();
        let squares: f64 = self.delivered.iter().map(|&x| x as f64 * x as f64).sum();
        (sum > 0.0).then(|| sum * sum / (self.delivered.len() as f64 * squares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(delivered: &[u64]) -> Option<f64> {
        Fairness { delivered: delivered.to_vec() }.jain()
    }

    #[test]
    fn the_index_by_hand() {
        assert_eq!(of(&[7, 7, 7, 7]), Some(1.0));
        assert_eq!(of(&[0, 9, 0, 0]), Some(0.25));
        assert_eq!(of(&[1, 2, 3]), Some(36.0 / 42.0));
        assert_eq!((of(&[]), of(&[0, 0])), (None, None));
    }

    #[test]
    fn deliveries_are_counted_by_initiator() {
        let mut fairness = Fairness::among(3);
        [2, 0, 2, 3].into_iter().for_each(|initiator| fairness.count(initiator));
        assert_eq!(fairness.delivered(), [1, 0, 2]);
    }
}
