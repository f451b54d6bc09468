//! Long lists in large pages of memory.

/// From how many bytes on a list is worth them.
const LONG: usize = 4 << 20;

/// How many elements a list has room for at first.
const LEAST: usize = 64;

/// Appends an element to a list that may become long. With lists of many megabytes whose elements are read in no order,
/// a processor misses the address of nearly every one in its table of pages, unless these are large.
#[inline]
pub fn append<T>(all: &mut Vec<T>, one: T) {
    if all.len() == all.capacity() {
        make_room(all);
    }
    all.push(one);
}

/// Doubles the room of a list. It moves before it is asked that its pages are large, since those that it has would stay
/// small.
#[cold]
fn make_room<T>(all: &mut Vec<T>) {
    let mut more: Vec<T> = Vec::with_capacity((2 * all.len()).max(LEAST));
    let bytes = more.capacity().saturating_mul(size_of::<T>());
    if bytes >= LONG {
        ask_for_large(more.as_mut_ptr().cast(), bytes);
    }
    more.append(all);
    *all = more;
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

    #[test]
    fn room_is_doubled() {
        let mut all = Vec::new();
        append(&mut all, ());
        assert_eq!(all.len(), 1, "elements without a size need no room");
        let mut all = Vec::new();
        let mut rooms = Vec::new();
        for number in 0..300_u32 {
            append(&mut all, number);
            rooms.push(all.capacity());
        }
        rooms.dedup();
        assert_eq!(rooms, [64, 128, 256, 512]);
    }
}
