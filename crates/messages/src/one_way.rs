//! What a message takes from one MPI program to another, which `weft mpi --as` measures before it runs one: the calls
//! are made from here, since an interpreter's own calls take longer than the message.

use libc::{c_int, c_longlong, c_void};

use crate::sys;

/// Bytes of a message.
const LENGTH: usize = 8;
/// The most round trips.
const MOST: usize = 100_000;

/// Open MPI's calls and handles: its handles are pointers.
#[repr(C)]
pub struct Calls {
    send:
        unsafe extern "C" fn(*const c_void, c_int, *mut c_void, c_int, c_int, *mut c_void) -> c_int,
    receive: unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *mut c_void,
        c_int,
        c_int,
        *mut c_void,
        *mut c_void,
    ) -> c_int,
    byte: *mut c_void,
    world: *mut c_void,
}

impl Calls {
    /// # Safety
    ///
    /// The calls and handles are those of an MPI that has been started.
    unsafe fn send(&self, bytes: &[u8; LENGTH], to: c_int) -> bool {
        let (at, length) = (bytes.as_ptr().cast(), LENGTH as c_int);
        // SAFETY: the bytes are there; the caller's promise.
        unsafe { (self.send)(at, length, self.byte, to, 0, self.world) == 0 }
    }

    /// # Safety
    ///
    /// The requirements of [`Calls::send`].
    unsafe fn receive(&self, bytes: &mut [u8; LENGTH], from: c_int) -> bool {
        let (at, length) = (bytes.as_mut_ptr().cast(), LENGTH as c_int);
        let no_status = std::ptr::null_mut();
        // SAFETY: the bytes are there; the caller's promise.
        unsafe { (self.receive)(at, length, self.byte, from, 0, self.world, no_status) == 0 }
    }
}

/// Half the median round trip of messages of 8 B between ranks 0 and 1, in nanoseconds, as each of them sees it.
/// Negative if a call of MPI fails, or `rounds` is not between 1 and 100,000.
///
/// # Safety
///
/// The calls and handles are those of an MPI that has been started, with two ranks, both of which call this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mpi_one_way_ns(
    calls: *const Calls,
    rank: c_int,
    rounds: c_int,
) -> c_longlong {
    // SAFETY: the caller's promise.
    let calls = unsafe { &*calls };
    let rounds = match usize::try_from(rounds) {
        Ok(rounds) if (1..=MOST).contains(&rounds) => rounds,
        _ => return -1,
    };
    let mut bytes = [0; LENGTH];
    let mut taken_ns = vec![0; rounds];
    for taken_ns in &mut taken_ns {
        let begin_ns = sys::monotonic_ns();
        // SAFETY: the caller's promise.
        let passed = unsafe {
            if rank == 0 {
                calls.send(&bytes, 1) && calls.receive(&mut bytes, 1)
            } else {
                calls.receive(&mut bytes, 0) && calls.send(&bytes, 0)
            }
        };
        if !passed {
            return -1;
        }
        *taken_ns = sys::monotonic_ns() - begin_ns;
    }
    taken_ns.sort_unstable();
    c_longlong::try_from(taken_ns[rounds / 2] / 2).unwrap_or(c_longlong::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    static CALLED: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn send(
        _: *const c_void,
        length: c_int,
        _: *mut c_void,
        to: c_int,
        _: c_int,
        _: *mut c_void,
    ) -> c_int {
        CALLED.fetch_add(1, Ordering::Relaxed);
        c_int::from(length != 8 || to != 1)
    }

    unsafe extern "C" fn receive(
        _: *mut c_void,
        _: c_int,
        _: *mut c_void,
        from: c_int,
        _: c_int,
        _: *mut c_void,
        _: *mut c_void,
    ) -> c_int {
        std::thread::sleep(Duration::from_millis(2));
        c_int::from(from != 1)
    }

    #[test]
    fn half_the_round_trip_of_rank_0_is_what_a_message_takes() {
        let none = std::ptr::null_mut();
        let calls = Calls { send, receive, byte: none, world: none };
        // SAFETY: the calls touch nothing.
        let one_way_ns = unsafe { weft_mpi_one_way_ns(&raw const calls, 0, 5) };
        assert!(one_way_ns >= 1_000_000, "{one_way_ns}");
        assert_eq!(CALLED.load(Ordering::Relaxed), 5);
        // SAFETY: as above.
        let refused = |rank, rounds| unsafe { weft_mpi_one_way_ns(&raw const calls, rank, rounds) };
        assert_eq!(refused(0, 0), -1);
        assert_eq!(refused(0, 100_001), -1);
        assert_eq!(refused(1, 5), -1, "rank 0 is no peer of these calls");
    }
}
