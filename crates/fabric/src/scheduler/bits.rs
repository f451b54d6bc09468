//! Sets of ports as 64-bit masks.

use weft_kernel::Stream;

/// The members of a set in ascending order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Members(pub(crate) u64);

impl Iterator for Members {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lowest = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(lowest)
    }
}

/// The set `{port}`.
#[inline]
pub(crate) const fn only(port: usize) -> u64 {
    1 << (port & 63)
}

/// The set of all ports of a switch of 1 to 64 ports.
#[inline]
pub(super) const fn all(ports: usize) -> u64 {
    !0 >> (64 - ports)
}

/// The port after this one, around the switch.
#[inline]
pub(super) const fn after(port: usize, ports: usize) -> usize {
    if port + 1 == ports { 0 } else { port + 1 }
}

/// The first member at `start` or above, around the switch. The set must not be empty.
#[inline]
pub(super) const fn first_from(set: u64, start: usize) -> usize {
    debug_assert!(set != 0);
    let above = set & (!0 << (start & 63));
    (if above != 0 { above } else { set }).trailing_zeros() as usize
}

/// A member drawn uniformly; a set of one costs no random number. The set must not be empty.
#[inline]
pub(super) fn any(set: u64, random: &mut Stream) -> usize {
    debug_assert!(set != 0);
    let mut rest = set;
    if rest & (rest - 1) != 0 {
        for _ in 0..random.below(u64::from(set.count_ones())) {
            rest &= rest - 1;
        }
    }
    rest.trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_kernel::Streams;

    #[test]
    fn the_first_member_is_searched_around_the_switch() {
        assert_eq!(first_from(0b0101, 0), 0);
        assert_eq!(first_from(0b0101, 1), 2);
        assert_eq!(first_from(0b0101, 3), 0);
        assert_eq!(first_from(1 << 63, 63), 63);
    }

    #[test]
    fn members_come_in_order_and_all_has_as_many_as_ports() {
        assert_eq!(Members(0b1010).collect::<Vec<_>>(), [1, 3]);
        assert_eq!((all(1), all(3), all(64)), (1, 0b111, u64::MAX));
    }

    #[test]
    fn any_member_is_as_likely_as_another() {
        let mut random = Streams::new(1).stream("test", 0);
        let mut drawn = [0_u32; 64];
        for _ in 0..30_000 {
            drawn[any(0b1001_0010, &mut random)] += 1;
        }
        assert_eq!(drawn.iter().sum::<u32>(), drawn[1] + drawn[4] + drawn[7]);
        assert!([1, 4, 7].iter().all(|&port| drawn[port].abs_diff(10_000) < 400), "{drawn:?}");
    }
}
