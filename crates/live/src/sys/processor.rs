//! What a processor says about itself.

/// The processor that the calling thread runs on, plus one; zero if that is unknown.
pub fn processor() -> u32 {
    // SAFETY: takes nothing.
    (unsafe { libc::sched_getcpu() } + 1) as u32
}

/// The processor's clock, which all processors of a machine agree on. Where there is none that can be
/// read, it stands.
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
