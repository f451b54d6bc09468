//! Sets of ports, a bit each, and tables with an entry for each port.
//!
//! The number of words is a constant of the type, so that what a switch of up to 64 ports does with
//! a set is what it would do with a word.

use std::fmt;
use std::ops::{BitAnd, BitAndAssign, BitOr, BitOrAssign, Index, IndexMut, Sub, SubAssign};

use weft_kernel::{Stream, prefetch_all};

/// A set of ports with numbers below 64 `W`. `W` is a power of two.
///
/// # Panics
///
/// Where assertions of debug builds are on, [`only`](Self::only), [`insert`](Self::insert) and
/// [`remove`](Self::remove) panic at a port that is not below [`MOST`](Self::MOST). Without them
/// such a port means another one, as it does in [`contains`](Self::contains) and
/// [`first_from`](Self::first_from) anyway.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PortSet<const W: usize = 1>([u64; W]);

impl<const W: usize> PortSet<W> {
    /// How many ports there can be.
    pub const MOST: usize = 64 * W;

    /// No port.
    pub const EMPTY: PortSet<W> = PortSet([0; W]);

    /// The word that a port is in.
    #[inline(always)]
    const fn word(port: usize) -> usize {
        const { assert!(W.is_power_of_two(), "the words of a set are a power of two") }
        // Without the case of one word the compiler keeps a shift and a mask.
        if W == 1 { 0 } else { (port / 64) & (W - 1) }
    }

    /// The set `{port}`. `port` is below [`MOST`](Self::MOST).
    #[inline(always)]
    pub const fn only(port: usize) -> PortSet<W> {
        debug_assert!(port < Self::MOST);
        let mut words = [0; W];
        words[Self::word(port)] = 1 << (port & 63);
        PortSet(words)
    }

    /// All ports of a switch with 1 to [`MOST`](Self::MOST) of them.
    #[inline(always)]
    pub const fn below(ports: usize) -> PortSet<W> {
        let mut words = [!0; W];
        if W == 1 {
            words[0] >>= 64 - ports;
            return PortSet(words);
        }
        let mut place = 0;
        while place < W {
            let left = ports.saturating_sub(64 * place);
            if left < 64 {
                words[place] = (1 << left) - 1;
            }
            place += 1;
        }
        PortSet(words)
    }

    /// The set with these words, the lowest ports first; those that are missing are empty.
    #[inline]
    pub fn from_words(given: &[u64]) -> PortSet<W> {
        let mut set = PortSet::EMPTY;
        for place in 0..W {
            set.0[place] = given.get(place).copied().unwrap_or(0);
        }
        set
    }

    /// Whether a port is a member. A port that is not below [`MOST`](Self::MOST) wraps around:
    /// callers that may have one compare it with the number of ports, too.
    #[inline(always)]
    pub const fn contains(&self, port: usize) -> bool {
        self.0[Self::word(port)] >> (port & 63) & 1 == 1
    }

    /// Makes a port a member. `port` is below [`MOST`](Self::MOST).
    #[inline(always)]
    pub const fn insert(&mut self, port: usize) {
        debug_assert!(port < Self::MOST);
        self.0[Self::word(port)] |= 1 << (port & 63);
    }

    /// Takes a port out. `port` is below [`MOST`](Self::MOST).
    #[inline(always)]
    pub const fn remove(&mut self, port: usize) {
        debug_assert!(port < Self::MOST);
        self.0[Self::word(port)] &= !(1 << (port & 63));
    }

    /// Whether there is no member.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        let mut all = 0;
        for place in 0..W {
            all |= self.0[place];
        }
        all == 0
    }

    /// How many members there are.
    #[inline(always)]
    pub fn len(self) -> usize {
        let mut count = 0;
        for place in 0..W {
            count += self.0[place].count_ones() as usize;
        }
        count
    }

    /// Whether there are two members or more.
    #[inline(always)]
    pub fn has_several(self) -> bool {
        if W == 1 { self.0[0] & self.0[0].wrapping_sub(1) != 0 } else { self.len() > 1 }
    }

    /// The lowest member. The set must not be empty.
    #[inline(always)]
    pub fn first(self) -> usize {
        debug_assert!(!self.is_empty());
        if W == 1 {
            return self.0[0].trailing_zeros() as usize;
        }
        let place = self.0.iter().position(|word| *word != 0).unwrap_or(0);
        64 * place + self.0[place].trailing_zeros() as usize
    }

    /// The first member at `start` or above, around the switch. The set must not be empty, and
    /// `start` is below [`MOST`](Self::MOST).
    #[inline(always)]
    pub fn first_from(self, start: usize) -> usize {
        let place = Self::word(start);
        let above = self.0[place] & (!0 << (start & 63));
        if W == 1 {
            return (if above != 0 { above } else { self.0[0] }).trailing_zeros() as usize;
        }
        if above != 0 {
            return 64 * place + above.trailing_zeros() as usize;
        }
        let next = (place + 1..W).find(|place| self.0[*place] != 0);
        next.map_or_else(|| self.first(), |next| 64 * next + self.0[next].trailing_zeros() as usize)
    }

    /// A member drawn uniformly; a set of one costs no random number. The set must not be empty.
    #[inline]
    pub(super) fn any(self, random: &mut Stream) -> usize {
        debug_assert!(!self.is_empty());
        let mut skipped =
            if self.has_several() { random.below(self.len() as u64) as usize } else { 0 };
        for place in 0..W {
            let mut rest = self.0[place];
            if W > 1 && skipped >= rest.count_ones() as usize {
                skipped -= rest.count_ones() as usize;
                continue;
            }
            for _ in 0..skipped {
                rest &= rest - 1;
            }
            return 64 * place + rest.trailing_zeros() as usize;
        }
        0
    }
}

impl<const W: usize> Default for PortSet<W> {
    fn default() -> PortSet<W> {
        PortSet::EMPTY
    }
}

impl<const W: usize> fmt::Debug for PortSet<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(*self).finish()
    }
}

impl<const W: usize> FromIterator<usize> for PortSet<W> {
    fn from_iter<I: IntoIterator<Item = usize>>(ports: I) -> PortSet<W> {
        let mut set = PortSet::EMPTY;
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

/// Writes an operation on two sets word by word, with its form that assigns.
macro_rules! operation {
    ($($(#[$doc:meta])* $name:ident::$method:ident, $assign:ident::$assigning:ident:
        ($own:ident, $other:ident) => $of:expr;)*) => {
        $($(#[$doc])*
        impl<const W: usize> $assign for PortSet<W> {
            #[inline(always)]
            fn $assigning(&mut self, other: PortSet<W>) {
                // By index: iterators over both leave calls behind where a crate is large.
                for place in 0..W {
                    let ($own, $other) = (self.0[place], other.0[place]);
                    self.0[place] = $of;
                }
            }
        }

        impl<const W: usize> $name for PortSet<W> {
            type Output = PortSet<W>;

            #[inline(always)]
            fn $method(mut self, other: PortSet<W>) -> PortSet<W> {
                $assign::$assigning(&mut self, other);
                self
            }
        })*
    };
}

operation! {
    /// The members of both.
    BitAnd::bitand, BitAndAssign::bitand_assign: (own, other) => own & other;
    /// The members of either.
    BitOr::bitor, BitOrAssign::bitor_assign: (own, other) => own | other;
    /// The members of the first alone.
    Sub::sub, SubAssign::sub_assign: (own, other) => own & !other;
}

impl<const W: usize> PortSet<W> {
    /// The members of one of two sets alone.
    #[inline(always)]
    pub(super) fn differing(mut self, other: PortSet<W>) -> PortSet<W> {
        for place in 0..W {
            self.0[place] ^= other.0[place];
        }
        self
    }
}

impl<const W: usize> IntoIterator for PortSet<W> {
    type Item = usize;
    type IntoIter = Members<W>;

    #[inline(always)]
    fn into_iter(self) -> Members<W> {
        Members { left: self.0, place: 0 }
    }
}

/// The members of a set in ascending order.
#[derive(Clone, Copy, Debug)]
pub struct Members<const W: usize = 1> {
    left: [u64; W],
    /// The first word that may have any.
    place: usize,
}

impl<const W: usize> Iterator for Members<W> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if W == 1 {
            let word = self.left[0];
            if word == 0 {
                return None;
            }
            self.left[0] = word & (word - 1);
            return Some(word.trailing_zeros() as usize);
        }
        for place in self.place..W {
            let word = &mut self.left[place];
            if *word != 0 {
                let lowest = word.trailing_zeros() as usize;
                *word &= *word - 1;
                self.place = place;
                return Some(64 * place + lowest);
            }
        }
        self.place = W;
        None
    }
}

/// The port after this one, around the switch.
#[inline(always)]
pub(super) const fn after(port: usize, ports: usize) -> usize {
    if port + 1 == ports { 0 } else { port + 1 }
}

/// An entry for each port with a number below 64 `W`; larger numbers wrap around.
///
/// Those of the first 64 ports stand inline, so that a small switch finds them without a pointer;
/// those of all others behind a box, so that no table of a large one is ever on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PerPort<T, const W: usize> {
    first: [T; 64],
    more: Box<[[T; 64]]>,
}

impl<T: Copy, const W: usize> PerPort<T, W> {
    pub fn new(value: T) -> PerPort<T, W> {
        PerPort { first: [value; 64], more: vec![[value; 64]; W - 1].into() }
    }

    /// Replaces the entries of the first ports.
    pub fn fill(&mut self, ports: usize, value: T) {
        let inline = ports.min(64);
        self.first[..inline].fill(value);
        self.more.as_flattened_mut()[..ports - inline].fill(value);
    }

    /// Prefetches the entries of the first ports, as far as they stand inline.
    #[inline(always)]
    pub fn prefetch(&self, ports: usize) {
        prefetch_all(&self.first[..ports.min(64)]);
    }

    /// The entries of the first ports in groups of four; the last group has those of up to three
    /// more.
    #[inline(always)]
    pub fn by_four(&self, ports: usize) -> impl Iterator<Item = &[T; 4]> {
        let (first, more) = (self.first.as_chunks().0, self.more.as_flattened().as_chunks().0);
        let groups = ports.div_ceil(4);
        let inline = groups.min(first.len());
        first[..inline].iter().chain(&more[..groups - inline])
    }
}

impl<T, const W: usize> Index<usize> for PerPort<T, W> {
    type Output = T;

    #[inline(always)]
    fn index(&self, port: usize) -> &T {
        match PortSet::<W>::word(port) {
            0 => &self.first[port & 63],
            place => &self.more[place - 1][port & 63],
        }
    }
}

impl<T, const W: usize> IndexMut<usize> for PerPort<T, W> {
    #[inline(always)]
    fn index_mut(&mut self, port: usize) -> &mut T {
        match PortSet::<W>::word(port) {
            0 => &mut self.first[port & 63],
            place => &mut self.more[place - 1][port & 63],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use weft_kernel::Streams;

    use super::*;

    fn set<const W: usize>(members: &[usize]) -> PortSet<W> {
        members.iter().copied().collect()
    }

    #[test]
    fn the_first_member_is_searched_around_the_switch() {
        let narrow = |members| set::<1>(members);
        assert_eq!([0, 1, 3].map(|start| narrow(&[0, 2]).first_from(start)), [0, 2, 0]);
        assert_eq!(narrow(&[63]).first_from(63), 63);
        let wide = set::<4>(&[5, 64, 200]);
        assert_eq!([0, 6, 65, 201].map(|start| wide.first_from(start)), [5, 64, 200, 5]);
    }

    #[test]
    fn members_come_in_order_and_all_has_as_many_as_ports() {
        assert_eq!(set::<1>(&[3, 1]).into_iter().collect::<Vec<_>>(), [1, 3]);
        assert_eq!([1, 3, 64].map(|ports| PortSet::<1>::below(ports).len()), [1, 3, 64]);
        for ports in [1, 63, 64, 65, 128, 255, 256] {
            let all: Vec<_> = PortSet::<4>::below(ports).into_iter().collect();
            assert_eq!(all, (0..ports).collect::<Vec<_>>());
        }
    }

    /// Masked, it would mean another port.
    #[cfg(debug_assertions)]
    #[test]
    fn a_port_that_no_set_holds_is_refused() {
        fn check<const W: usize>() {
            let uses: [fn(usize); 3] = [
                |port| assert!(PortSet::<W>::only(port).contains(port)),
                |port| PortSet::<W>::default().insert(port),
                |port| PortSet::<W>::default().remove(port),
            ];
            let panics = |port| uses.map(|own| std::panic::catch_unwind(|| own(port)).is_err());
            assert_eq!(panics(64 * W - 1), [false; 3]);
            assert_eq!(panics(64 * W), [true; 3]);
        }
        check::<1>();
        check::<4>();
    }

    #[test]
    fn any_member_is_as_likely_as_another() {
        fn check<const W: usize>(members: [usize; 3]) {
            let mut random = Streams::new(1).stream("test", 0);
            let mut drawn = [0_u32; 1024];
            for _ in 0..30_000 {
                drawn[set::<W>(&members).any(&mut random)] += 1;
            }
            assert_eq!(members.map(|port| drawn[port]).iter().sum::<u32>(), 30_000);
            assert!(members.iter().all(|port| drawn[*port].abs_diff(10_000) < 400), "{drawn:?}");
        }
        check::<1>([1, 4, 7]);
        check::<4>([1, 64, 255]);
        check::<16>([0, 640, 1023]);
    }

    /// What a random number draws does not depend on the words of the set.
    #[test]
    fn a_wider_set_draws_the_same_member() {
        let (mut one, mut other) = [0, 0].map(|_| Streams::new(5).stream("test", 0)).into();
        for word in (0..2_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) {
            let narrow = PortSet::<1>::from_words(&[word]).any(&mut one);
            assert_eq!(PortSet::<16>::from_words(&[word]).any(&mut other), narrow);
        }
        assert_eq!(one.bits(), other.bits());
    }

    proptest! {
        #[test]
        fn sets_do_what_sets_do(
            one in prop::collection::btree_set(0_usize..256, 0..40),
            other in prop::collection::btree_set(0_usize..256, 0..40),
            start in 0_usize..256,
        ) {
            let of = |members: &BTreeSet<usize>| members.iter().copied().collect::<PortSet<4>>();
            let (a, b) = (of(&one), of(&other));
            prop_assert_eq!(a & b, of(&(&one & &other)));
            prop_assert_eq!(a | b, of(&(&one | &other)));
            prop_assert_eq!(a - b, of(&(&one - &other)));
            prop_assert_eq!(a.differing(b), of(&(&one ^ &other)));
            prop_assert_eq!(a.len(), one.len());
            prop_assert_eq!((a.is_empty(), a.has_several()), (one.is_empty(), one.len() > 1));
            prop_assert!((0..256).all(|port| a.contains(port) == one.contains(&port)));
            prop_assert!(a.into_iter().eq(one.iter().copied()));
            if let Some(first) = one.first() {
                prop_assert_eq!(a.first(), *first);
                prop_assert_eq!(a.first_from(start), *one.range(start..).next().unwrap_or(first));
            }
        }
    }
}
