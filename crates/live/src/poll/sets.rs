//! `select`, by way of `poll`.

use libc::{c_int, pollfd, sigset_t};

use super::poll;
use crate::memory::pointers;
use crate::memory::scratch::Scratch;
use crate::ready::{IN, OUT, is_joined};
use crate::sys;
use crate::table;

/// The three sets of `select`, each null or of `count` bits.
#[derive(Clone, Copy)]
pub struct Sets {
    pub read: *mut u64,
    pub write: *mut u64,
    pub except: *mut u64,
}

impl Sets {
    fn all(self) -> [*mut u64; 3] {
        [self.read, self.write, self.except]
    }

    /// Whether there is memory for `count` bits of each set.
    pub fn are_there(self, count: c_int) -> bool {
        let words = (count.max(0) as usize).div_ceil(64);
        self.all().into_iter().all(|set| set.is_null() || pointers::are_there(set, words))
    }

    /// Whether any set names a joined connection, or something else that `look` finds: it is called
    /// with every descriptor that any set names and that the kernel does not wait for alone.
    ///
    /// # Safety
    ///
    /// Each set is null or has `count` bits.
    pub unsafe fn name_joined(self, count: c_int, mut look: impl FnMut(c_int) -> bool) -> bool {
        let mut any = false;
        // SAFETY: by the contract of this function.
        for fd in unsafe { self.named(0, count) } {
            if !table::is_awaited_in_kernel(fd) {
                any |= look(fd) || is_joined(fd);
            }
        }
        any
    }

    /// The first descriptor from `from` on, below `count`, that any set names.
    ///
    /// # Safety
    ///
    /// Each set is null or has `count` bits.
    pub unsafe fn first_named(self, from: c_int, count: c_int) -> Option<c_int> {
        // SAFETY: by the contract of this function.
        unsafe { self.named(from, count) }.next()
    }

    /// The descriptors from `from` on, below `count`, that any set names.
    ///
    /// # Safety
    ///
    /// Each set is null or has `count` bits.
    unsafe fn named(self, from: c_int, count: c_int) -> impl Iterator<Item = c_int> {
        let word_of = move |at: usize| {
            // SAFETY: by the contract of this function.
            let words = self.all().into_iter().filter(|set| !set.is_null());
            words.fold(0, |all, set| all | unsafe { *set.add(at) })
        };
        let (mut next, mut word) = (from, 0u64);
        std::iter::from_fn(move || {
            while next < count {
                let (at, bit) = (next as usize / 64, next % 64);
                if bit == 0 || next == from {
                    word = word_of(at);
                }
                let left = word >> bit;
                if left == 0 {
                    next = (at as c_int + 1) * 64;
                    continue;
                }
                let found = next + left.trailing_zeros() as c_int;
                next = found + 1;
                return (found < count).then_some(found);
            }
            None
        })
    }
}

/// # Safety
///
/// The set is null or has a bit for `fd`.
unsafe fn has(set: *const u64, fd: c_int) -> bool {
    // SAFETY: by the contract of this function.
    !set.is_null() && unsafe { *set.add(fd as usize / 64) } >> (fd as usize % 64) & 1 != 0
}

/// `pselect` on top of [`poll`], with the same mapping between their events as in the kernel.
///
/// # Safety
///
/// Each set is null or has `count` bits, rounded up to whole words.
pub unsafe fn select(
    count: c_int,
    sets: Sets,
    timeout: Option<u64>,
    mask: *const sigset_t,
) -> Result<c_int, sys::Errno> {
    let asks = [IN, OUT, libc::POLLPRI];
    let ready = [
        IN | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR,
        OUT | libc::POLLWRBAND | libc::POLLERR,
        libc::POLLPRI,
    ];
    let room = count.max(0) as usize;
    let scratch = Scratch::length_of::<pollfd>(room).and_then(Scratch::take);
    let scratch = scratch.ok_or(libc::ENOMEM)?;
    let mut entries = scratch.list(room).ok_or(libc::ENOMEM)?;
    for fd in 0..count {
        // SAFETY: by the contract of this function.
        let named = |which: usize| unsafe { has(sets.all()[which], fd) };
        let events = (0..3).filter(|which| named(*which)).fold(0, |all, which| all | asks[which]);
        if events != 0 {
            entries.push(pollfd { fd, events, revents: 0 });
        }
    }
    poll(&mut entries, timeout, mask)?;
    if entries.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
        return Err(libc::EBADF);
    }
    let mut found = 0;
    for (which, set) in sets.all().into_iter().enumerate() {
        for entry in entries.iter().filter(|_| !set.is_null()) {
            let (word, bit) = (entry.fd as usize / 64, 1u64 << (entry.fd as usize % 64));
            let asked = entry.events & asks[which] != 0;
            if asked && entry.revents & ready[which] != 0 {
                found += 1;
            } else {
                // SAFETY: the descriptor is below `count`.
                unsafe { *set.add(word) &= !bit };
            }
        }
    }
    Ok(found)
}
