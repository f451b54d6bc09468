//! Jumps out of a signal handler (`siglongjmp`) past a call of the library's that sleeps.
//!
//! The kernel's call is simply gone then. This library's has counted a stay, which keeps the connection
//! open after the program has closed it. So before such a jump the stack is unwound as for a thread that
//! is cancelled, but only until the library's frames are gone, which give back what they hold. The
//! program's own frames below are left by the jump, as they were meant to be.

use std::cell::{Cell, UnsafeCell};

use libc::{c_int, c_void};

use crate::hooks::real::interpose;
#[cfg(target_arch = "x86_64")]
use crate::signals::process_lock;

thread_local! {
    /// Where on the stack the innermost call that sleeps stands; zero if none does.
    static ASLEEP: Cell<usize> = const { Cell::new(0) };
    /// Not on the stack that is unwound.
    static JUMP: UnsafeCell<Jump> = const { UnsafeCell::new(Jump::NONE) };
}

/// A sleep of the calling thread, until dropped. One may be in a handler that interrupts another.
pub struct Asleep {
    before: usize,
}

impl Asleep {
    #[inline]
    pub fn begin() -> Self {
        let place = 0u8;
        let place = (&raw const place).addr();
        Self { before: ASLEEP.replace(place) }
    }
}

impl Drop for Asleep {
    #[inline]
    fn drop(&mut self) {
        ASLEEP.set(self.before);
    }
}

type Go = unsafe extern "C-unwind" fn(*mut usize, c_int);

/// A jump on its way.
struct Jump {
    /// The unwinder's: a class, a clean-up, and its own words.
    exception: [usize; 8],
    go: Option<Go>,
    to: *mut usize,
    value: c_int,
    stack: usize,
}

impl Jump {
    const NONE: Self =
        Self { exception: [0; 8], go: None, to: std::ptr::null_mut(), value: 0, stack: 0 };
}

type Stop =
    unsafe extern "C-unwind" fn(c_int, c_int, u64, *mut c_void, *mut c_void, *mut c_void) -> c_int;

unsafe extern "C-unwind" {
    fn _Unwind_ForcedUnwind(exception: *mut c_void, stop: Stop, argument: *mut c_void) -> c_int;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetIPInfo(context: *mut c_void, before: *mut c_int) -> usize;
}

/// The object in which an instruction lies.
fn object_of(instruction: *const c_void) -> *mut c_void {
    // SAFETY: all zeroes are a valid place for the result.
    unsafe {
        let mut about: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(instruction, &mut about) == 0 {
            return std::ptr::null_mut();
        }
        about.dli_fbase
    }
}

/// Whether nothing is to be unwound any more: the frame is the first below those of the library's that
/// sleep, or one of the library's that a signal has interrupted elsewhere than in a call, of which the
/// unwinder does not know what it holds.
///
/// # Safety
///
/// The context is the unwinder's, in its call.
unsafe fn has_left(context: *mut c_void, target: usize) -> bool {
    let mut interrupted = 0;
    // SAFETY: by the contract of this function.
    let at = unsafe { _Unwind_GetIPInfo(context, &raw mut interrupted) } as *const c_void;
    let is_own = object_of(at) == object_of(stop as *const c_void);
    // SAFETY: a signal was taken there.
    if is_own {
        interrupted != 0 && !unsafe { is_at_system_call(at.cast()) }
    } else {
        !is_past_sleep(target)
    }
}

/// Whether a signal that is taken here has interrupted a system call, which may be about to begin anew.
///
/// # Safety
///
/// The place is an instruction of the library's, not the first.
unsafe fn is_at_system_call(at: *const [u8; 2]) -> bool {
    let call = if cfg!(target_arch = "x86_64") { [0x0f, 0x05] } else { return false };
    // SAFETY: by the contract of this function.
    unsafe { at.read() == call || at.sub(1).read() == call }
}

/// Whether a jump to a place on the stack goes past a call that sleeps, and not only within a handler
/// that interrupts it.
fn is_past_sleep(target: usize) -> bool {
    let asleep = ASLEEP.get();
    asleep != 0 && target > asleep
}

/// Asked for each frame: jumps once the library's are gone, that to which the jump goes is reached, or
/// none is left.
unsafe extern "C-unwind" fn stop(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    context: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    const END_OF_STACK: c_int = 16;
    // SAFETY: the argument is this thread's jump, and the context is valid in this call.
    unsafe {
        let jump = &*argument.cast::<Jump>();
        let is_there = _Unwind_GetCFA(context) >= jump.stack || has_left(context, jump.stack);
        if (actions & END_OF_STACK != 0 || is_there)
            && let Some(go) = jump.go
        {
            if is_past_sleep(jump.stack) {
                // It was not unwound, and is jumped past.
                ASLEEP.set(0);
            }
            go(jump.to, jump.value);
        }
    }
    0
}

/// The stack's end where a jump goes to, which the C library keeps in its own way.
#[cfg(target_arch = "x86_64")]
unsafe fn stack_of(to: *mut usize) -> usize {
    let key: usize;
    // SAFETY: the thread's own key stands there, and only a register changes; the seventh word of what
    // `setjmp` has filled in is the stack's end.
    unsafe {
        core::arch::asm!("mov {}, fs:0x30", out(reg) key, options(nostack, readonly, pure));
        (*to.add(6)).rotate_right(0x11) ^ key
    }
}

fn jump(to: *mut usize, value: c_int, go: Go) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the program says that the place is one to jump to.
    if (ASLEEP.get() != 0 || process_lock::holds_any())
        && let stack = unsafe { stack_of(to) }
    {
        process_lock::give_back_before_jump(stack);
        if is_past_sleep(stack) {
            JUMP.with(|jump| {
                let jump = jump.get();
                // SAFETY: it is this thread's, and no other jump is on its way.
                unsafe {
                    *jump = Jump { go: Some(go), to, value, stack, ..Jump::NONE };
                    _Unwind_ForcedUnwind((&raw mut (*jump).exception).cast(), stop, jump.cast());
                }
            });
        }
    }
    // SAFETY: the program says that the place is one to jump to.
    unsafe { go(to, value) };
}

/// Defines one of the names of the same function.
macro_rules! jumps {
    ($($name:ident),*) => {
        $(interpose! {
            fn $name(to: *mut usize, value: c_int) -> () = |next| {
                unsafe extern "C-unwind" fn go(to: *mut usize, value: c_int) {
                    static NEXT: crate::hooks::real::Next = crate::hooks::real::Next::new(
                        match std::ffi::CStr::from_bytes_with_nul(
                            concat!(stringify!($name), "\0").as_bytes(),
                        ) {
                            Ok(name) => name,
                            Err(_) => c"",
                        },
                    );
                    // SAFETY: the address is that of the C function with this name.
                    unsafe { std::mem::transmute::<*mut c_void, Go>(NEXT.address())(to, value) };
                }
                let _ = next;
                jump(to, value, go);
            }
        })*
    };
}

jumps!(longjmp, _longjmp, siglongjmp, __longjmp_chk);
