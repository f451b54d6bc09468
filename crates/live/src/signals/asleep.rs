//! Calls that sleep, for signal handlers that jump past them (see [`jump`]).

use std::cell::Cell;
use std::ops::Range;

use libc::c_void;

use crate::interpose::Next;
use crate::signals::interrupted::Frame;
use crate::signals::jump;

thread_local! {
    /// The stack address of the innermost call that sleeps, with how it sleeps in the lowest bits;
    /// zero if none does.
    static ASLEEP: Cell<usize> = const { Cell::new(0) };
}

/// How a thread sleeps.
#[derive(Clone, Copy)]
pub enum How {
    /// In a system call of the library's own, after which it looks about itself before long.
    Short = 0,
    /// In a call of the C library's that is made here, and may sleep forever.
    Here = 1,
    /// In one that is made elsewhere: whether it was begun yet cannot be told.
    Elsewhere = 2,
}

/// The bits that say how.
const HOW: usize = 3;

/// A sleep of the calling thread, until dropped. One may be in a handler that interrupts another.
pub struct Asleep {
    before: usize,
}

impl Asleep {
    #[inline]
    pub fn begin(how: How) -> Self {
        let place = 0usize;
        let asleep = Self { before: ASLEEP.replace((&raw const place).addr() | how as usize) };
        // A jump from now on knows that this sleeps; an earlier one waits.
        jump::look();
        asleep
    }
}

impl Drop for Asleep {
    #[inline]
    fn drop(&mut self) {
        ASLEEP.set(self.before);
    }
}

/// Calls a function of the C library's, which may sleep forever.
///
/// # Safety
///
/// It takes these arguments. The caller may be unwound from there.
#[inline]
pub unsafe fn call<const COUNT: usize>(function: &Next, passed: [usize; COUNT]) -> isize {
    let mut arguments = [0; 5];
    arguments[..COUNT].copy_from_slice(&passed);
    let place = (&raw const arguments).addr() | How::Here as usize;
    let _asleep = Asleep { before: ASLEEP.get() };
    // SAFETY: by the contract of this function.
    let result = ASLEEP.with(|asleep| unsafe {
        fall_asleep_in(function.address(), &arguments, asleep.as_ptr(), place, jump::waits())
    });
    if result == JUMP_WAITS {
        jump::look();
    }
    result
}

/// No function of the C library's returns this.
const JUMP_WAITS: isize = isize::MIN;

/// Notes that the thread sleeps and calls a function, unless a jump waits: a handler that interrupts it at
/// any instruction is noticed, or finds a frame that need not be unwound, as a compiled one would.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn fall_asleep_in(
    function: *const c_void,
    arguments: &[usize; 5],
    asleep: *mut usize,
    place: usize,
    jump_waits: *const bool,
) -> isize {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "mov rbx, rdx",
        "mov rax, rdi",
        "mov [rbx], rcx",
        "cmp byte ptr [r8], 0",
        "jne 2f",
        "mov rdi, [rsi]",
        "mov rdx, [rsi + 16]",
        "mov rcx, [rsi + 24]",
        "mov r8, [rsi + 32]",
        "mov rsi, [rsi + 8]",
        "call rax",
        "jmp 3f",
        "2:",
        "mov rax, {jump_waits}",
        "3:",
        "mov qword ptr [rbx], 0",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "ret",
        ".cfi_endproc",
        jump_waits = const JUMP_WAITS,
    )
}

#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C-unwind" fn fall_asleep_in(
    function: *const c_void,
    arguments: &[usize; 5],
    _asleep: *mut usize,
    _place: usize,
    _jump_waits: *const bool,
) -> isize {
    type Function = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize) -> isize;
    let [first, second, third, fourth, fifth] = *arguments;
    // SAFETY: by the contract of `call`; what it does not take it does not see.
    unsafe {
        std::mem::transmute::<*const c_void, Function>(function)(
            first, second, third, fourth, fifth,
        )
    }
}

/// Whether a signal has interrupted a thread in a call of `fall_asleep_in`.
pub fn is_in_call(at: &Frame) -> bool {
    at.function == fall_asleep_in as *const c_void as usize
}

/// How the calling thread sleeps, if it does so in a call within this part of its stack.
pub fn within(stack: &Range<usize>) -> Option<How> {
    let asleep = ASLEEP.get();
    let mut all = [How::Short, How::Here, How::Elsewhere].into_iter();
    let how = all.find(|how| *how as usize == asleep & HOW);
    how.filter(|_| stack.contains(&(asleep & !HOW)))
}

/// Whether the calling thread sleeps.
#[cfg(target_arch = "x86_64")]
pub fn is_any() -> bool {
    ASLEEP.get() != 0
}

/// The calling thread is about to jump to a place on its stack past what was not unwound.
#[cfg(target_arch = "x86_64")]
pub fn end_before_jump(to: usize) {
    if ASLEEP.get() < to {
        ASLEEP.set(0);
    }
}
