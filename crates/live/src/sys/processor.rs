//! The processor that runs a thread, its clock, and how much of it a thread has used.

use libc::{c_long, rusage, timeval};

use super::call;

/// The processor that the calling thread runs on, plus one; zero if that is unknown.
pub fn processor() -> u32 {
    // SAFETY: takes nothing.
    (unsafe { libc::sched_getcpu() } + 1) as u32
}

/// What the kernel has counted of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Times that it was made to leave its processor, or gave it up to somebody.
    pub preemptions: u64,
    /// Nanoseconds that it ran.
    pub ran: u64,
}

/// What the calling thread has used since it began, if that can be told.
pub fn thread_usage() -> Option<Usage> {
    let mut usage = std::mem::MaybeUninit::<rusage>::zeroed();
    call!(libc::SYS_getrusage, c_long::from(libc::RUSAGE_THREAD), usage.as_mut_ptr()).ok()?;
    // SAFETY: all of it is numbers, which the kernel has filled in.
    let usage = unsafe { usage.assume_init() };
    let nanoseconds =
        |time: timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    let ran = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
    Some(Usage { preemptions: usage.ru_nivcsw as u64, ran })
}

/// The processor's clock, which all processors of a machine agree on. If there is none that can be
/// read, it stands still.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction takes nothing.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: the instruction reads a counter that programs may read.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        return ticks;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_used_what_it_computed_and_not_what_it_slept() {
        let (before, begun) = (thread_usage().unwrap(), std::time::Instant::now());
        let mut used = before;
        while used.ran < before.ran + 20_000_000 {
            used = thread_usage().unwrap();
        }
        assert!(begun.elapsed().as_millis() >= 19, "nobody runs for longer than it takes");
        std::thread::sleep(std::time::Duration::from_millis(60));
        let after = thread_usage().unwrap();
        assert!(after.ran - used.ran < 50_000_000, "{after:?} after {used:?}");
        assert!(after.preemptions >= before.preemptions);
    }
}
