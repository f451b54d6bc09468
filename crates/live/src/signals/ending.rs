//! Which signals end a blocking call.

use crate::sys;

/// Which handled signals end a blocking call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// Those whose handlers do not ask for calls to go on (`SA_RESTART`).
    Interrupting,
    /// All: the call has done a part, or its time is limited.
    Any,
}

impl EndedBy {
    pub const fn of(any: bool) -> Self {
        if any { Self::Any } else { Self::Interrupting }
    }
}

/// Whether a handled signal ends a blocking call that has done nothing, where a sleep was ended by one
/// and does not say by which: it counts if the program has any handler that would. Handlers of faults do
/// not count: a sleeping thread has none.
pub fn is_interrupting() -> bool {
    // The C library keeps some of the signals for itself.
    let _errno = sys::KeepErrno::new();
    let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
    (1..=64).filter(|signal| !faults.contains(signal)).any(|signal| {
        // SAFETY: all zeroes is a valid action, and a valid place for the result.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a null new action only asks.
        let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } == 0;
        let handled = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
        asked && handled && action.sa_flags & libc::SA_RESTART == 0
    })
}
