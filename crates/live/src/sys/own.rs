//! Words of each thread's own that every accelerated call reads.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

/// What is kept of each thread; zero at first. Its signal handlers look at it, too.
#[repr(C)]
pub struct Own {
    /// How much the thread holds (`signals::inside`).
    pub depth: AtomicU32,
    /// The thread's number (`sharing::lock`).
    pub thread: AtomicU32,
    /// They end with the thread, so no other may have a reference to them.
    _stays: PhantomData<*const ()>,
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tbss, \"awT\", @nobits",
    ".globl weft_live_own",
    ".hidden weft_live_own",
    ".balign 4",
    "weft_live_own: .zero 8",
    ".popsection",
);

/// The calling thread's words. A library's `thread_local` is found by a call of its own; these are found as a
/// program's are, which a library may do that is loaded with it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn own() -> &'static Own {
    let own: *const Own;
    // SAFETY: a thread's block begins with its own address (psABI), and the words lie in it as long as the thread
    // is there, which cannot pass them on.
    unsafe {
        core::arch::asm!(
            "mov {own}, qword ptr fs:[0]",
            "add {own}, qword ptr [rip + weft_live_own@GOTTPOFF]",
            own = out(reg) own,
            options(pure, nomem, nostack),
        );
        &*own
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn own() -> &'static Own {
    thread_local! {
        static OWN: Own = const {
            Own { depth: AtomicU32::new(0), thread: AtomicU32::new(0), _stays: PhantomData }
        };
    }
    // SAFETY: they have nothing to drop, so they stay as long as the thread, which cannot pass them on.
    OWN.with(|own| unsafe { &*std::ptr::from_ref(own) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn each_thread_has_its_own() {
        let words = || [&own().depth, &own().thread].map(|word| word.load(Ordering::Relaxed));
        let before = words();
        own().depth.store(before[0] + 7, Ordering::Relaxed);
        own().thread.store(5, Ordering::Relaxed);
        assert_eq!(std::thread::spawn(words).join().unwrap(), [0, 0]);
        assert_eq!(words(), [before[0] + 7, 5]);
    }
}
