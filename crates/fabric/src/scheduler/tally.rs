//! Sixty-four small counters in bit slices.

/// One counter of 0 to 127 per port, kept as bit slices: slice `k` holds bit `k` of every counter,
/// so that counting a set of ports and finding the smallest counters of a set take a few word
/// operations per slice, whatever the number of ports. Loops have a constant length on purpose:
/// unrolled, seven slices cost less than a loop over those that the size of the switch needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    slices: [u64; 7],
}

impl Tally {
    #[inline]
    pub(super) fn clear(&mut self) {
        self.slices = [0; 7];
    }

    /// Adds one to the counter of every member.
    #[inline]
    pub(super) fn add(&mut self, set: u64) {
        ripple(&mut self.slices, set);
    }

    /// Adds one to the counter of every member, for four sets at once.
    #[inline]
    pub(super) fn add_four(&mut self, [a, b, c, d]: [u64; 4]) {
        let [ones, twos, rest @ ..] = &mut self.slices;
        let carries = (full_add(ones, a, b), full_add(ones, c, d));
        ripple(rest, full_add(twos, carries.0, carries.1));
    }

    /// Takes one from the counter of every member; none of them may be zero.
    #[inline]
    pub(super) fn subtract(&mut self, set: u64) {
        let mut borrow = set;
        for slice in &mut self.slices {
            *slice ^= borrow;
            borrow &= *slice;
        }
        debug_assert_eq!(borrow, 0, "a counter fell below zero");
    }

    /// Those members of `set` whose counter is the smallest among them.
    #[inline]
    pub(super) fn least(&self, set: u64) -> u64 {
        self.slices.iter().rev().fold(set, |left, slice| {
            let smaller = left & !slice;
            if smaller != 0 { smaller } else { left }
        })
    }
}

/// Adds two bits to every bit of the slice and returns the carries.
#[inline]
const fn full_add(slice: &mut u64, a: u64, b: u64) -> u64 {
    let either = a ^ b;
    let carry = (a & b) | (*slice & either);
    *slice ^= either;
    carry
}

/// Adds carries into the slices from the lowest up.
#[inline]
fn ripple(slices: &mut [u64], mut carry: u64) {
    for slice in slices {
        let sum = *slice ^ carry;
        carry &= *slice;
        *slice = sum;
    }
    debug_assert_eq!(carry, 0, "a counter overflowed");
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
            let mut tally = Tally::default();
            let mut counts = [0_usize; 64];
            let (fours, rest) = added.as_chunks::<4>();
            fours.iter().for_each(|four| tally.add_four(*four));
            rest.iter().for_each(|set| tally.add(*set));
            for set in &added {
                (0..64).for_each(|port| counts[port] += (set >> port & 1) as usize);
            }
            tally.subtract(added[0]);
            (0..64).for_each(|port| counts[port] -= (added[0] >> port & 1) as usize);
            let asked_ports = || (0..64).filter(|port| asked >> port & 1 == 1);
            let least = asked_ports().map(|port| counts[port]).min();
            let expected = asked_ports()
                .filter(|port| Some(counts[*port]) == least)
                .fold(0, |set, port| set | 1_u64 << port);
            prop_assert_eq!(tally.least(asked), expected);
        }
    }
}
