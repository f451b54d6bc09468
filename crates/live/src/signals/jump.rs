//! Jumps out of a signal handler (`siglongjmp`) past a call of the library's.
//!
//! A call of the kernel's simply ends then. A call of this library has counted a stay, which keeps
//! the connection open after the program has closed it, and may be in the middle of a copy. So a
//! call that sleeps is unwound as for a cancelled thread, but only until the library's frames are
//! gone, which release what they hold. A call that does not sleep goes on first, with all signals
//! blocked, until it would sleep or has released what it holds: in the kernel, too, a signal is
//! delivered at the end of a system call. The jump leaves the program's own frames below, as it was
//! meant to.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_int, c_void};

use crate::interpose::interpose;
#[cfg(target_arch = "x86_64")]
use crate::sharing::process_lock;
use crate::signals::asleep::{self, How};
use crate::signals::inside;
#[cfg(target_arch = "x86_64")]
use crate::signals::interrupted;
use crate::signals::interrupted::{_Unwind_GetCFA, Interrupted};
use crate::sys;

thread_local! {
    /// Not on the stack that is unwound.
    static JUMP: UnsafeCell<Jump> = const { UnsafeCell::new(Jump::NONE) };
}

/// How many threads have a pending jump.
static WAITING: AtomicU32 = AtomicU32::new(0);

type Go = unsafe extern "C-unwind" fn(*mut usize, c_int);

/// A jump on its way.
#[derive(Clone, Copy)]
struct Jump {
    /// The unwinder's: a class, a clean-up, and its own words.
    exception: [usize; 8],
    go: Option<Go>,
    to: *mut usize,
    value: c_int,
    /// The end of the stack of the call that is jumped past.
    end: usize,
    /// The signals that the program holds back.
    mask: u64,
    /// Whether it waits until the call that was interrupted has come to an end.
    waits: bool,
}

impl Jump {
    const NONE: Self = Self {
        exception: [0; 8],
        go: None,
        to: std::ptr::null_mut(),
        value: 0,
        end: 0,
        mask: 0,
        waits: false,
    };
}

type Stop =
    unsafe extern "C-unwind" fn(c_int, c_int, u64, *mut c_void, *mut c_void, *mut c_void) -> c_int;

unsafe extern "C-unwind" {
    fn _Unwind_ForcedUnwind(exception: *mut c_void, stop: Stop, argument: *mut c_void) -> c_int;
}

/// Asked for each frame: jumps once the library's are gone, or none is left.
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
    let (Jump { go, to, value, mask, end, .. }, reached) =
        unsafe { (*argument.cast::<Jump>(), _Unwind_GetCFA(context)) };
    if (reached == end || actions & END_OF_STACK != 0)
        && let Some(go) = go
    {
        sys::set_signal_mask(mask);
        // A handler may have interrupted another call before this one.
        jump(to, value, go);
    }
    0
}

/// Goes where the calling thread is to jump, if one of its jumps waits. Only to be called where nothing
/// needs more than a `drop` to be given back.
#[inline]
pub fn look() {
    if WAITING.load(Ordering::Relaxed) > 0 {
        go_where_it_waits();
    }
}

#[cold]
#[inline(never)]
fn go_where_it_waits() {
    // SAFETY: it is this thread's, and nothing refers to it.
    if JUMP.with(|jump| unsafe { std::mem::take(&mut (*jump.get()).waits) }) {
        WAITING.fetch_sub(1, Ordering::SeqCst);
        unwind();
    }
}

/// Whether a jump of the calling thread waits, while it does.
pub fn waits() -> *const bool {
    // SAFETY: it is this thread's; only its place is asked for.
    JUMP.with(|jump| unsafe { &raw const (*jump.get()).waits })
}

/// The child of a fork has no other thread that jumps.
pub fn start_in_child() {
    // SAFETY: the place is this thread's.
    WAITING.store(unsafe { waits().read() }.into(), Ordering::SeqCst);
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

/// What is done about a call that a jump goes past.
enum Way {
    /// It is unwound.
    Unwind,
    /// It goes on, and the jump waits.
    GoOn,
    /// It cannot be unwound, or might sleep forever if it went on, and what it holds is not known.
    Leave,
}

impl Way {
    fn of(call: &Interrupted) -> Self {
        let at = &call.at;
        if inside::is_called_back() {
            return Self::Leave;
        }
        match asleep::within(&call.stack) {
            Some(How::Here) if !at.is_own() || asleep::is_in_call(at) => Self::Unwind,
            Some(How::Elsewhere) if !at.is_own() => Self::Unwind,
            Some(How::Elsewhere) => Self::Leave,
            Some(How::Short) if at.is_own() && at.is_at_system_call() => Self::Unwind,
            _ if !at.is_own() && at.is_at_system_call() => Self::Leave,
            _ => Self::GoOn,
        }
    }
}

/// Takes a call back up that a handler has interrupted; signals stay held back.
///
/// # Safety
///
/// The context is what the kernel has kept, and nothing of the handler is needed any more.
#[cfg(target_arch = "x86_64")]
unsafe fn take_up(context: *mut libc::ucontext_t) -> ! {
    // SAFETY: the kernel reads what it has kept at the end of the stack.
    unsafe {
        let mask = (&raw mut (*context).uc_sigmask).cast::<u64>();
        mask.write(sys::ALL_SIGNALS);
        core::arch::asm!(
            "mov rsp, {context}",
            "syscall",
            context = in(reg) context,
            in("rax") libc::SYS_rt_sigreturn,
            options(noreturn),
        );
    }
}

/// Notes a jump. All signals are held back until it is done.
#[cfg(target_arch = "x86_64")]
fn begin(next: Jump) {
    let mask = sys::set_signal_mask(sys::ALL_SIGNALS);
    JUMP.with(|jump| {
        // SAFETY: it is this thread's, and nothing refers to it.
        let jump = unsafe { &mut *jump.get() };
        // What could not be held back may have interrupted a call whose jump waited.
        let (waited, mask) = (jump.waits, if jump.waits { jump.mask } else { mask });
        match (waited, next.waits) {
            (false, true) => WAITING.fetch_add(1, Ordering::SeqCst),
            (true, false) => WAITING.fetch_sub(1, Ordering::SeqCst),
            _ => 0,
        };
        *jump = Jump { mask, ..next };
    });
}

/// Unwinds the calling thread's stack as far as the jump that was noted asks.
fn unwind() {
    JUMP.with(|jump| {
        let jump = jump.get();
        // SAFETY: it is this thread's, and stays where it is.
        unsafe {
            _Unwind_ForcedUnwind((&raw mut (*jump).exception).cast(), stop, jump.cast());
            // The unwinder has lost its way.
            sys::set_signal_mask((*jump).mask);
            if let Some(go) = (*jump).go {
                go((*jump).to, (*jump).value);
            }
        }
    });
}

/// Jumps past what the library was doing. Returns if nothing is to be done about that.
#[cfg(target_arch = "x86_64")]
fn jump_past_calls(to: *mut usize, value: c_int, go: Go) {
    // SAFETY: the program says that the place is one to jump to.
    let stack = unsafe { stack_of(to) };
    if (asleep::is_any() || inside::is_any())
        && let Some(call) = interrupted::innermost(stack)
    {
        let next = Jump { go: Some(go), to, value, end: call.stack.end, ..Jump::NONE };
        match Way::of(&call) {
            Way::Unwind => {
                begin(next);
                unwind();
            }
            Way::GoOn => {
                begin(Jump { waits: true, ..next });
                // SAFETY: the handler's frames are jumped past.
                unsafe { take_up(call.context) };
            }
            Way::Leave => {}
        }
    }
    process_lock::give_back_before_jump(stack);
    asleep::end_before_jump(stack);
}

fn jump(to: *mut usize, value: c_int, go: Go) {
    #[cfg(target_arch = "x86_64")]
    if asleep::is_any() || inside::is_any() || process_lock::holds_any() {
        jump_past_calls(to, value, go);
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
                    static NEXT: crate::interpose::Next = crate::interpose::Next::new(
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
