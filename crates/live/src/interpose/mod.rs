//! Functions that stand in front of the C library's, and those behind them: the next definitions after this
//! library's.

pub mod system_calls;

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::c_void;

/// The address of a C function, looked up when it is first needed.
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The address, if it was looked up.
    #[inline(always)]
    pub fn known(&self) -> Option<NonNull<c_void>> {
        NonNull::new(self.address.load(Ordering::Relaxed))
    }

    /// The address. A C library that lacks the function cannot have had a caller for it, so the
    /// null address is never called.
    #[inline(always)]
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.look_up() } else { known }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: the name is a C string; RTLD_NEXT is meant for exactly this.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// What is to be done with a call of the program's.
pub enum Way<T> {
    /// Nothing: it was made, with this result.
    Done(T),
    /// It is the function's behind the interposed one.
    Next,
    /// The library has to look at it.
    Apart,
    /// The library has to look at it unless it is [off](is_off), which has not been checked yet.
    ApartUnlessOff,
}

/// Whether all calls are the program's alone.
static OFF: AtomicBool = AtomicBool::new(false);

/// Whether the library does nothing in this process.
#[inline(always)]
pub fn is_off() -> bool {
    OFF.load(Ordering::Relaxed)
}

/// Hands every call on from now on, in a process of which nothing was remembered and nothing will be: it has
/// no descriptor of the library's, which a call would have to spare.
pub fn hand_all_on() {
    OFF.store(true, Ordering::Relaxed);
}

/// Defines an interposed function. `next(...)` inside the body is the function behind it; nothing
/// else is called where the library is [off](is_off).
///
/// The body lies apart: the code before it makes only tail calls, so that it saves no registers and
/// uses no stack. That code may be the [way](crate::interpose::Way) of a call, in front of `else`.
///
/// A thread that is cancelled (`pthread_cancel`) inside an interposed function is unwound from
/// there, which releases what the library holds; hence the calling convention.
macro_rules! interpose {
    ($(#[$note:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
     = |$next:ident| $body:block) => {
        $crate::interpose::interpose! {
            $(#[$note])*
            fn $name($($argument: $type),*) -> $result
            = $crate::interpose::Way::ApartUnlessOff, else |$next| $body
        }
    };
    ($(#[$note:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty
     = $way:expr, else |$next:ident| $body:block) => {
        $(#[$note])*
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
            static NEXT: $crate::interpose::Next = $crate::interpose::Next::new(
                match std::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );

            #[cold]
            #[inline(never)]
            unsafe extern "C-unwind" fn not_known($($argument: $type),*) -> $result {
                // SAFETY: the address is that of the C function with this name, whose type this is.
                unsafe {
                    std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())(
                        $($argument),*
                    )
                }
            }

            #[inline(never)]
            unsafe extern "C-unwind" fn apart($($argument: $type),*) -> $result {
                let $next = move |$($argument: $type),*| -> $result {
                    // SAFETY: as in `not_known`.
                    unsafe {
                        std::mem::transmute::<*mut libc::c_void, Function>(NEXT.address())(
                            $($argument),*
                        )
                    }
                };
                $body
            }

            match $way {
                $crate::interpose::Way::Done(result) => return result,
                $crate::interpose::Way::Next => {}
                // SAFETY: the same arguments.
                $crate::interpose::Way::Apart => return unsafe { apart($($argument),*) },
                $crate::interpose::Way::ApartUnlessOff if !$crate::interpose::is_off() => {
                    // SAFETY: the same arguments.
                    return unsafe { apart($($argument),*) };
                }
                $crate::interpose::Way::ApartUnlessOff => {}
            }
            match NEXT.known() {
                // SAFETY: as in `not_known`.
                Some(known) => unsafe {
                    std::mem::transmute::<*mut libc::c_void, Function>(known.as_ptr())(
                        $($argument),*
                    )
                },
                // SAFETY: the same arguments.
                None => unsafe { not_known($($argument),*) },
            }
        }
    };
}
pub(crate) use interpose;

/// Defines an interposed function with any arguments: `$before`, an `extern "C"` function of the
/// first one, runs and returns the address of the function behind, which then gets all arguments as
/// they were.
macro_rules! trampoline {
    ($name:ident, $before:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, 192",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov [rsp + 48], rax",
                "movaps [rsp + 64], xmm0",
                "movaps [rsp + 80], xmm1",
                "movaps [rsp + 96], xmm2",
                "movaps [rsp + 112], xmm3",
                "movaps [rsp + 128], xmm4",
                "movaps [rsp + 144], xmm5",
                "movaps [rsp + 160], xmm6",
                "movaps [rsp + 176], xmm7",
                "call {before}",
                "mov r11, rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "mov r9, [rsp + 40]",
                "mov rax, [rsp + 48]",
                "movaps xmm0, [rsp + 64]",
                "movaps xmm1, [rsp + 80]",
                "movaps xmm2, [rsp + 96]",
                "movaps xmm3, [rsp + 112]",
                "movaps xmm4, [rsp + 128]",
                "movaps xmm5, [rsp + 144]",
                "movaps xmm6, [rsp + 160]",
                "movaps xmm7, [rsp + 176]",
                "leave",
                "jmp r11",
                before = sym $before,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-224]!",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "str x8, [sp, #80]",
                "stp q0, q1, [sp, #96]",
                "stp q2, q3, [sp, #128]",
                "stp q4, q5, [sp, #160]",
                "stp q6, q7, [sp, #192]",
                "bl {before}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldr x8, [sp, #80]",
                "ldp q0, q1, [sp, #96]",
                "ldp q2, q3, [sp, #128]",
                "ldp q4, q5, [sp, #160]",
                "ldp q6, q7, [sp, #192]",
                "ldp x29, x30, [sp], #224",
                "br x16",
                before = sym $before,
            )
        }
    };
}
pub(crate) use trampoline;
