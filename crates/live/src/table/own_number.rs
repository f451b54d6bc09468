//! Where a descriptor of the library is remembered, which moves if the program takes it away.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_int;

use crate::descriptors;
use crate::sys;
use crate::table::numbers::{claim, close_own};

/// How long a closing thread waits for those that have asked for the descriptor and not yet called
/// the kernel by it, in nanoseconds.
const IN_BETWEEN: u64 = 1_000_000;

/// A descriptor of the library, plus one, or zero for none.
#[derive(Debug, Default)]
pub struct OwnNumber(AtomicU32);

impl OwnNumber {
    /// Makes a descriptor for the file of `fd`; `None` if there is none left.
    pub fn make(fd: c_int) -> Option<c_int> {
        let own = descriptors::duplicate(fd).ok()?;
        claim(own);
        Some(own)
    }

    #[inline]
    pub fn number(&self) -> Option<c_int> {
        let kept = self.0.load(Ordering::SeqCst);
        (kept != 0).then(|| kept as c_int - 1)
    }

    /// The descriptor, or one that is nobody's.
    pub fn descriptor(&self) -> c_int {
        self.number().unwrap_or(-1)
    }

    /// Replaces the remembered descriptor, if it is `number`.
    pub fn replace(&self, number: c_int, other: c_int) -> bool {
        let order = Ordering::SeqCst;
        self.0.compare_exchange(number as u32 + 1, other as u32 + 1, order, order).is_ok()
    }

    /// Remembers a descriptor that was made. If there is one already, that stays and this one is
    /// closed.
    pub fn set(&self, own: c_int) {
        let order = Ordering::SeqCst;
        if self.0.compare_exchange(0, own as u32 + 1, order, order).is_err() {
            close_own(own);
        }
    }

    /// Leaves it to the caller to close.
    pub fn take(&self) -> Option<c_int> {
        self.0.swap(0, Ordering::SeqCst).checked_sub(1).map(|own| own as c_int)
    }
}

/// Lets those that are inside make the calls for which they have asked for the descriptor.
pub fn let_another_number_be_seen(are_inside: impl Fn() -> bool) {
    let until = sys::now() + IN_BETWEEN;
    while are_inside() && sys::now() < until {
        sys::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_first_that_is_kept_stays_and_what_it_stands_for_with_it() {
        let (stream, mut other) = UnixStream::pair().unwrap();
        let kept = OwnNumber::default();
        assert_eq!((kept.number(), kept.take()), (None, None));
        let [first, second] = [(); 2].map(|()| OwnNumber::make(stream.as_raw_fd()).unwrap());
        drop(stream);
        kept.set(first);
        kept.set(second);
        assert_eq!(kept.number(), Some(first));
        other.write_all(b"kept").unwrap();
        assert_eq!((kept.take(), kept.take()), (Some(first), None));
        other.write_all(b"taken").unwrap();
        close_own(first);
        other.write_all(b"over").expect_err("nobody has the second either");
    }

    #[test]
    fn nobody_is_waited_for_who_has_called_and_for_nobody_long() {
        use std::cell::Cell;
        let (left, begun) = (Cell::new(3), sys::now());
        let_another_number_be_seen(|| left.replace(left.get() - 1) > 0);
        // The processor may be taken away for longer than it waits.
        assert!(left.get() == -1 || sys::now() - begun >= IN_BETWEEN);
        left.set(0);
        let_another_number_be_seen(|| left.replace(left.get() - 1) > 0);
        assert_eq!(left.get(), -1, "nobody is inside");
        let begun = sys::now();
        let_another_number_be_seen(|| true);
        assert!(sys::now() - begun >= IN_BETWEEN);
    }
}
