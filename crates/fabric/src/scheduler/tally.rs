//! Small counters, one for each port, in bit slices.

use super::ports::PortSet;

/// One counter of 0 to 128 `W` - 1 per port, kept as bit slices: slice `k` holds bit `k` of every
/// counter, so that counting a set of ports and finding the smallest counters of a set take a few
/// operations on sets per slice, whatever the number of ports. Loops have a constant length on
/// purpose: unrolled, seven slices cost less than a loop over those that the size of the switch
/// needs.
#[derive(Clone, Debug)]
pub(super) struct Tally<const W: usize> {
    slices: [PortSet<W>; MOST_SLICES],
}

/// Those of the widest sets, which have 16 words.
const MOST_SLICES: usize = 11;

impl<const W: usize> Default for Tally<W> {
    fn default() -> Tally<W> {
        const { assert!(Self::SLICES <= MOST_SLICES, "wider sets need more slices") }
        Tally { slices: [PortSet::EMPTY; MOST_SLICES] }
    }
}

impl<const W: usize> Tally<W> {
    /// As many as it takes to count to the number of ports.
    const SLICES: usize = 7 + W.ilog2() as usize;

    #[inline]
    pub(super) fn clear(&mut self) {
        self.slices[..Self::SLICES].iter_mut().for_each(|slice| *slice = PortSet::EMPTY);
    }

    /// Adds one to the counter of every member.
    #[inline]
    pub(super) fn add(&mut self, set: PortSet<W>) {
        ripple(&mut self.slices[..Self::SLICES], set);
    }

    /// Adds one to the counter of every member, for four sets at once.
    #[inline]
    pub(super) fn add_four(&mut self, [a, b, c, d]: [PortSet<W>; 4]) {
        let [ones, twos, rest @ ..] = &mut self.slices;
        let carries = (full_add(ones, a, b), full_add(ones, c, d));
        ripple(&mut rest[..Self::SLICES - 2], full_add(twos, carries.0, carries.1));
    }

    /// Takes one from the counter of every member; none of them may be zero.
    #[inline]
    pub(super) fn subtract(&mut self, set: PortSet<W>) {
        let mut borrow = set;
        for slice in &mut self.slices[..Self::SLICES] {
            *slice = slice.differing(borrow);
            borrow &= *slice;
        }
        debug_assert!(borrow.is_empty(), "a counter fell below zero");
    }

    /// Those members of `set` whose counter is the smallest among them.
    #[inline]
    pub(super) fn least(&self, set: PortSet<W>) -> PortSet<W> {
        self.slices[..Self::SLICES].iter().rev().fold(set, |left, slice| {
            let smaller = left - *slice;
            if smaller.is_empty() { left } else { smaller }
        })
    }
}

/// Adds two bits to every bit of the slice and returns the carries.
#[inline]
fn full_add<const W: usize>(slice: &mut PortSet<W>, a: PortSet<W>, b: PortSet<W>) -> PortSet<W> {
    let either = a.differing(b);
    let carry = (a & b) | (*slice & either);
    *slice = slice.differing(either);
    carry
}

/// Adds carries into the slices from the lowest up.
#[inline]
fn ripple<const W: usize>(slices: &mut [PortSet<W>], mut carry: PortSet<W>) {
    for slice in slices {
        let sum = slice.differing(carry);
        carry &= *slice;
        *slice = sum;
    }
    debug_assert!(carry.is_empty(), "a counter overflowed");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<const W: usize>(added: &[Vec<u64>], asked: &[u64]) -> Result<(), TestCaseError> {
        let ports = 64 * W;
        let added: Vec<PortSet<W>> = added.iter().map(|words| PortSet::from_words(words)).collect();
        let asked = PortSet::<W>::from_words(asked);
        let mut tally = Tally::<W>::default();
        let mut counts = vec![0_usize; ports];
        let (fours, rest) = added.as_chunks::<4>();
        fours.iter().for_each(|four| tally.add_four(*four));
        rest.iter().for_each(|set| tally.add(*set));
        for set in &added {
            set.into_iter().for_each(|port| counts[port] += 1);
        }
        tally.subtract(added[0]);
        added[0].into_iter().for_each(|port| counts[port] -= 1);
        let least = asked.into_iter().map(|port| counts[port]).min();
        let expected = asked.into_iter().filter(|port| Some(counts[*port]) == least).collect();
        prop_assert_eq!(tally.least(asked), expected);
        Ok(())
    }

    fn words(count: usize) -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(any::<u64>(), count)
    }

    proptest! {
        #[test]
        fn a_tally_counts_as_an_array_does(
            added in prop::collection::vec(words(4), 1..=256),
            asked in words(4),
        ) {
            check::<1>(&added[..added.len().min(64)], &asked)?;
            check::<4>(&added, &asked)?;
        }

        #[test]
        fn a_tally_of_the_widest_sets_counts_too(
            added in prop::collection::vec(words(16), 1000..=1024),
            asked in words(16),
        ) {
            check::<16>(&added, &asked)?;
        }
    }
}
