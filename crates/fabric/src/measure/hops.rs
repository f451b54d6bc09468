//! How many switches packets passed.

use serde::{Deserialize, Serialize};

/// Deliveries by the number of switches passed. Nothing is allocated before the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hops {
    delivered: Vec<u64>,
}

impl Hops {
    /// Counts one delivery of a packet that passed this many switches.
    #[inline]
    pub fn count(&mut self, switches: u16) {
        self.count_more(switches, 1);
    }

    /// Counts this many deliveries.
    #[inline]
    pub(super) fn count_more(&mut self, switches: u16, deliveries: u64) {
        let place = usize::from(switches);
        if place >= self.delivered.len() {
            self.delivered.resize(place + 1, 0);
        }
        self.delivered[place] += deliveries;
    }

    /// Adds counts from elsewhere.
    pub fn merge(&mut self, other: &Hops) {
        if self.delivered.len() < other.delivered.len() {
            self.delivered.resize(other.delivered.len(), 0);
        }
        for (own, more) in self.delivered.iter_mut().zip(&other.delivered) {
            *own += more;
        }
    }

    /// Deliveries by the number of switches passed, from none on.
    pub fn delivered(&self) -> &[u64] {
        &self.delivered
    }

    /// The mean number of switches passed; `None` if nothing was counted.
    pub fn mean(&self) -> Option<f64> {
        let packets: u64 = self.delivered.iter().sum();
        let hops: u64 = (0..).zip(&self.delivered).map(|(hops, packets)| hops * packets).sum();
        (packets > 0).then(|| hops as f64 / packets as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_packets_by_hand() {
        let mut hops = Hops::default();
        assert_eq!(hops.mean(), None);
        [1, 5, 3].into_iter().for_each(|switches| hops.count(switches));
        assert_eq!((hops.mean(), hops.delivered()), (Some(3.0), &[0, 1, 0, 1, 0, 1][..]));
    }
}
