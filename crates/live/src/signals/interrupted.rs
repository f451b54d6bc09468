//! Where a signal has interrupted the library, as the stack of its handler tells.

use std::ops::Range;

use libc::{c_int, c_void};

unsafe extern "C-unwind" {
    fn _Unwind_Backtrace(visit: Visit, argument: *mut c_void) -> c_int;
    pub fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetRegionStart(context: *mut c_void) -> usize;
    fn _Unwind_GetIPInfo(context: *mut c_void, before: *mut c_int) -> usize;
}

type Visit = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void) -> c_int;

/// One frame of a stack.
#[derive(Clone, Copy)]
pub struct Frame {
    /// The next instruction.
    at: usize,
    /// The first of the function, if the unwinder knows it.
    pub function: usize,
    /// Whether a signal was taken there.
    pub interrupted: bool,
}

impl Frame {
    /// # Safety
    ///
    /// The context is the unwinder's, in its call.
    pub unsafe fn of(context: *mut c_void) -> Self {
        let mut interrupted = 0;
        // SAFETY: by the contract of this function.
        let (at, function) = unsafe {
            (_Unwind_GetIPInfo(context, &raw mut interrupted), _Unwind_GetRegionStart(context))
        };
        Self { at, function, interrupted: interrupted != 0 }
    }

    /// Whether it is one of the library's functions.
    pub fn is_own(self) -> bool {
        object_of(self.at) == object_of(Self::is_own as *const c_void as usize)
    }

    /// Whether a signal that was taken here has interrupted a system call, which may be about to begin anew.
    pub fn is_at_system_call(self) -> bool {
        let call = if cfg!(target_arch = "x86_64") { [0x0f, 0x05] } else { return false };
        let at = self.at as *const [u8; 2];
        // SAFETY: it is an instruction of a function, and not the first.
        unsafe { at.read() == call || at.byte_sub(2).read() == call }
    }
}

/// The object in which an instruction lies.
fn object_of(instruction: usize) -> *mut c_void {
    // SAFETY: all zeroes are a valid place for the result.
    unsafe {
        let mut about: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(instruction as *const c_void, &mut about) == 0 {
            return std::ptr::null_mut();
        }
        about.dli_fbase
    }
}

/// A call of the library's that a handler, in which the calling thread is, has interrupted.
pub struct Interrupted {
    /// What the kernel has kept for the time after the handler.
    pub context: *mut libc::ucontext_t,
    /// Where the thread was.
    pub at: Frame,
    /// Where on the stack the library's call stands.
    pub stack: Range<usize>,
}

struct Walk {
    /// Where the handler is to jump.
    target: usize,
    /// Where the frames since the last place where a signal was taken begin.
    begin: usize,
    /// The end of the frame before.
    end: usize,
    /// The last place where a signal was taken.
    taken: Option<(*mut libc::ucontext_t, Frame)>,
    /// Whether a function of the library's was called below that.
    is_own: bool,
    found: Option<Interrupted>,
}

impl Walk {
    /// The library's frames have ended.
    fn finish(&mut self, end: usize) {
        let own = self.taken.filter(|_| self.is_own);
        let stack = self.begin..end;
        self.found = own.map(|(context, at)| Interrupted { context, at, stack });
    }
}

/// Whether what the kernel has kept is of an instruction: others than it may call frames interrupted.
///
/// # Safety
///
/// The place can be read.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "never asked"))]
unsafe fn goes_on_at(kept: *const libc::ucontext_t, instruction: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: by the contract of this function.
    return unsafe { (*kept).uc_mcontext.gregs[libc::REG_RIP as usize] } == instruction as i64;
    #[cfg(not(target_arch = "x86_64"))]
    false
}

unsafe extern "C-unwind" fn visit(context: *mut c_void, argument: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const STOP: c_int = 5;
    // SAFETY: the argument is that of `innermost`, and the context is valid in this call.
    let (walk, frame, end) =
        unsafe { (&mut *argument.cast::<Walk>(), Frame::of(context), _Unwind_GetCFA(context)) };
    if frame.interrupted {
        if (walk.begin..walk.end).contains(&walk.target) {
            // It jumps within itself.
            walk.taken = None;
            return STOP;
        }
        // Where the handler returns to, the kernel has kept what it needs to go on.
        let kept = walk.end as *mut libc::ucontext_t;
        // SAFETY: it is within the stack.
        walk.taken = unsafe { goes_on_at(kept, frame.at) }.then_some((kept, frame));
        walk.is_own = false;
        // It may have had a stack of its own.
        walk.begin = end;
    }
    if walk.taken.is_some() {
        if frame.is_own() {
            walk.is_own = true;
        } else if walk.is_own {
            walk.finish(end);
            return STOP;
        }
    }
    walk.end = end;
    GO_ON
}

/// The innermost call of the library's that a handler has interrupted, in which the calling thread is, if a
/// jump to a place on the stack goes past it.
pub fn innermost(target: usize) -> Option<Interrupted> {
    let begin = (&raw const target).addr();
    let mut walk = Walk { target, begin, end: 0, taken: None, is_own: false, found: None };
    // SAFETY: the argument is what `visit` takes.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    if walk.found.is_none() {
        // The unwinder does not know who has called the library.
        walk.finish(walk.end);
    }
    walk.found.filter(|call| target >= call.stack.end)
}
