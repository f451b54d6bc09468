//! Lists that may become long: in few moves, and in large pages of memory.

/// From how many bytes on a list is worth them.
const LONG: usize = 4 << 20;

/// How many elements a list has room for at first.
const LEAST: usize = 64;

/// From how many bytes on a list is no longer short, and from how many on it is huge.
const SHORT: usize = 64 << 10;
const HUGE: usize = 32 << 20;

/// How many times its room a list takes when it is full: while it is short or huge, and in between.
const DOUBLE: usize = 2;
const MUCH_MORE: usize = 8;

/// Appends an element to a list that may become long. With lists of many megabytes whose elements are read in no order,
/// a processor misses the address of nearly every one in its table of pages, unless these are large.
#[inline]
pub fn append<T>(all: &mut Vec<T>, one: T) {
    if all.len() == all.capacity() {
        make_room(all);
    }
    all.push(one);
}

/// Moves a list to where it has room for more. While it moves it is in memory twice, and it leaves a hole that may stay
/// with the process, but room that nothing has been written to is only addresses. So a list that is not short takes
/// much more room than it needs, and moves seldom. A huge one does not: a system may refuse room that it does not have.
#[cold]
fn make_room<T>(all: &mut Vec<T>) {
    let held = all.len() * size_of::<T>();
    let mut more: Vec<T> = Vec::with_capacity((times(held) * all.len()).max(LEAST));
    let bytes = more.capacity().saturating_mul(size_of::<T>());
    // Asked before anything is written there, since pages that exist stay small. A list may never fill a large page
    // until it is half as long as one that is worth them.
    let small = if held < LONG / 2 { LONG / 2 } else { 0 };
    if bytes >= LONG {
        ask_for_large(more.as_mut_ptr().cast::<u8>().wrapping_add(small), bytes - small);
    }
    more.append(all);
    *all = more;
}

/// How many times its room a full list takes.
fn times(bytes: usize) -> usize {
    if (SHORT..HUGE).contains(&bytes) { MUCH_MORE } else { DOUBLE }
}

/// Asks the system to take large pages for memory that nothing has been written to yet. It may refuse, which changes
/// nothing but the time that a program takes.
#[cfg(all(target_os = "linux", not(miri)))]
fn ask_for_large(first: *mut u8, bytes: usize) {
    /// The smallest page of any system: where pages are larger, the system refuses.
    const PAGE: usize = 4096;
    let before = first.align_offset(PAGE);
    let whole = bytes.saturating_sub(before) / PAGE * PAGE;
    // SAFETY: the whole pages from `first + before` on are part of one allocation, and this advice changes nothing that
    // a program can read.
    unsafe { libc::madvise(first.wrapping_add(before).cast(), whole, libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn ask_for_large(_: *mut u8, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beyond the size from which on large pages are asked for, and twice moved after that.
    #[test]
    fn a_list_keeps_what_is_appended_while_it_moves() {
        let mut all = Vec::new();
        let count = 3 * LONG / size_of::<u64>();
        for number in 0..count as u64 {
            append(&mut all, number * number);
        }
        assert_eq!(all.len(), count);
        assert!((0..).zip(&all).all(|(number, own): (u64, &u64)| *own == number * number));
    }

    /// Elements of 256 B, of which a list of 256 has 64 KiB.
    #[test]
    fn a_short_list_takes_twice_its_room_and_others_eight_times() {
        let mut all = Vec::new();
        append(&mut all, ());
        assert_eq!(all.len(), 1, "elements without a size need no room");
        let mut all = Vec::new();
        let mut rooms = Vec::new();
        for _ in 0..5_000 {
            append(&mut all, [0_u8; 256]);
            rooms.push(all.capacity());
        }
        rooms.dedup();
        assert_eq!(rooms, [64, 128, 256, 2_048, 16_384]);
    }

    #[test]
    fn a_huge_list_takes_twice_its_room() {
        let held = [0, SHORT - 1, SHORT, HUGE - 1, HUGE, 1 << 40];
        assert_eq!(held.map(times), [2, 2, 8, 8, 2, 2]);
    }
}
