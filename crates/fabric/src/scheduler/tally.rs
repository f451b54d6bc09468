//! Sixty-four small counters in bit slices.

/// One counter of 0 to 127 per port, kept as bit slices: slice `k` holds bit `k` of every counter,
/// so that counting a set of ports and finding the smallest counters of a set take a handful of
/// word operations whatever the number of ports.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    slices: [u64; 7],
    /// Slices in use: enough for a count equal to the number of ports.
    width: usize,
}

impl Tally {
    /// Counters that can reach `ports`, all zero.
    pub(super) const fn new(ports: usize) -> Tally {
        Tally { slices: [0; 7], width: (usize::BITS - ports.leading_zeros()) as usize }
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.slices = [0; 7];
    }

    /// Adds one to the counter of every member.
    #[inline]
    pub(super) fn add(&mut self, set: u64) {
        let mut carry = set;
        for slice in &mut self.slices[..self.width] {
            let sum = *slice ^ carry;
            carry &= *slice;
            *slice = sum;
        }
        debug_assert_eq!(carry, 0, "a counter overflowed");
    }

    /// Takes one from the counter of every member; none of them may be zero.
    #[inline]
    pub(super) fn subtract(&mut self, set: u64) {
        let mut borrow = set;
        for slice in &mut self.slices[..self.width] {
            let difference = *slice ^ borrow;
            borrow &= difference;
            *slice = difference;
        }
        debug_assert_eq!(borrow, 0, "a counter fell below zero");
    }

    /// Those members of `set` whose counter is the smallest among them.
    #[inline]
    pub(super) fn least(&self, set: u64) -> u64 {
        self.slices[..self.width].iter().rev().fold(set, |left, slice| {
            let smaller = left & !slice;
            if smaller != 0 { smaller } else { left }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_tally_counts_as_an_array_does(
            added in prop::collection::vec(any::<u64>(), 1..=64),
            asked in any::<u64>(),
        ) {
            let mut tally = Tally::new(added.len());
            let mut counts = [0_usize; 64];
            for set in &added {
                tally.add(*set);
                (0..64).for_each(|port| counts[port] += (set >> port & 1) as usize);
            }
            tally.subtract(added[0]);
            (0..64).for_each(|port| counts[port] -= (added[0] >> port & 1) as usize);
            let least = (0..64).filter(|port| asked >> port & 1 == 1).map(|port| counts[port]).min();
            let expected = (0..64)
                .filter(|port| asked >> port & 1 == 1 && Some(counts[*port]) == least)
                .fold(0, |set, port| set | 1_u64 << port);
            prop_assert_eq!(tally.least(asked), expected);
        }
    }
}
