//! `execl` and its kin: another program whose arguments are listed in the call.
//!
//! Such a call is not passed on as it is: if it fails, this process goes on with what it had let go. So
//! the list becomes an array, with which the call of the same meaning is made.

use std::ptr;

use libc::{c_char, c_int};

use crate::hooks::handover::{execv, execve, execvp};
use crate::stream;
use crate::sys;

type Strings = *const *const c_char;

/// How many of the listed arguments are in registers, beside the path.
#[cfg(target_arch = "x86_64")]
const IN_REGISTERS: usize = 5;
#[cfg(target_arch = "aarch64")]
const IN_REGISTERS: usize = 7;

/// Up to this many arguments are copied to an array on the stack.
const FEW: usize = 512;

/// The list of a call: what was in registers, and what follows on the stack.
#[derive(Clone, Copy)]
struct List {
    registers: Strings,
    stack: Strings,
}

impl List {
    /// The argument of the call at this place.
    ///
    /// # Safety
    ///
    /// The call has at least `place + 1` arguments.
    unsafe fn at<T>(self, place: usize) -> *const T {
        // SAFETY: by the contract of this function.
        unsafe {
            match place.checked_sub(IN_REGISTERS) {
                None => (*self.registers.add(place)).cast(),
                Some(behind) => (*self.stack.add(behind)).cast(),
            }
        }
    }

    /// Makes a call with the arguments as an array, and with what is listed behind them.
    ///
    /// # Safety
    ///
    /// A null pointer ends the arguments.
    unsafe fn call(self, exec: impl FnOnce(Strings) -> c_int) -> c_int {
        // SAFETY: nothing is looked at behind the end.
        let count = unsafe { self.count() };
        let mut few = [ptr::null::<c_char>(); FEW];
        let length = (count + 1) * size_of::<*const c_char>();
        let (array, mapped) = if count < FEW {
            (few.as_mut_ptr(), None)
        } else {
            // No heap: the process may have been made while another thread held its lock.
            let Some(memory) = sys::map(None, length) else {
                return stream::fail(libc::ENOMEM) as c_int;
            };
            (memory.cast(), Some(memory))
        };
        for place in 0..=count {
            // SAFETY: there is room for the arguments and their end.
            unsafe { array.add(place).write(self.at(place)) };
        }
        let failed = exec(array);
        if let Some(memory) = mapped {
            // SAFETY: it was mapped above, and the call is over.
            unsafe { sys::unmap(memory, length) };
        }
        failed
    }

    /// How many arguments there are.
    ///
    /// # Safety
    ///
    /// A null pointer ends them.
    unsafe fn count(self) -> usize {
        let mut count = 0;
        // SAFETY: by the contract of this function.
        while !unsafe { self.at::<c_char>(count) }.is_null() {
            count += 1;
        }
        count
    }
}

unsafe extern "C-unwind" fn execl_list(
    path: *const c_char,
    registers: Strings,
    stack: Strings,
) -> c_int {
    // SAFETY: as the program has called.
    unsafe { List { registers, stack }.call(|arguments| execv(path, arguments)) }
}

unsafe extern "C-unwind" fn execlp_list(
    path: *const c_char,
    registers: Strings,
    stack: Strings,
) -> c_int {
    // SAFETY: as the program has called.
    unsafe { List { registers, stack }.call(|arguments| execvp(path, arguments)) }
}

unsafe extern "C-unwind" fn execle_list(
    path: *const c_char,
    registers: Strings,
    stack: Strings,
) -> c_int {
    let list = List { registers, stack };
    // SAFETY: as the program has called: the environment stands behind the end of the arguments.
    unsafe {
        let environment = list.at(list.count() + 1);
        list.call(|arguments| execve(path, arguments, environment))
    }
}

/// Defines a function that gives the one behind it its first argument and the places of the others.
macro_rules! listed {
    ($name:ident, $behind:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "sub rsp, 48",
                "mov [rsp], rsi",
                "mov [rsp + 8], rdx",
                "mov [rsp + 16], rcx",
                "mov [rsp + 24], r8",
                "mov [rsp + 32], r9",
                "mov rsi, rsp",
                "lea rdx, [rbp + 16]",
                "call {behind}",
                "leave",
                "ret",
                behind = sym $behind,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[unsafe(naked)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "mov x29, sp",
                "stp x1, x2, [sp, #16]",
                "stp x3, x4, [sp, #32]",
                "stp x5, x6, [sp, #48]",
                "str x7, [sp, #64]",
                "add x1, sp, #16",
                "add x2, sp, #80",
                "bl {behind}",
                "ldp x29, x30, [sp], #80",
                "ret",
                behind = sym $behind,
            )
        }
    };
}

listed!(execl, execl_list);
listed!(execlp, execlp_list);
listed!(execle, execle_list);

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments that a call has passed on, and what stands behind them.
    fn passed_on(count: usize) -> (Vec<usize>, usize) {
        let mut all: Vec<usize> = (1..=count).collect();
        all.extend([0, 77]);
        all.resize(all.len().max(IN_REGISTERS), 99);
        let registers = all.as_ptr().cast();
        // SAFETY: that many are in registers.
        let stack = unsafe { all.as_ptr().add(IN_REGISTERS) }.cast();
        let list = List { registers, stack };
        let mut seen = Vec::new();
        // SAFETY: a null pointer ends both lists.
        unsafe {
            let behind = list.at::<c_char>(list.count() + 1).addr();
            let failed = list.call(|array| {
                seen = (0..=count).map(|place| (*array.add(place)).addr()).collect();
                -1
            });
            assert_eq!(failed, -1);
            (seen, behind)
        }
    }

    #[test]
    fn all_listed_arguments_are_passed_on_wherever_they_are() {
        let counts = (0..12).chain([FEW - 1, FEW, FEW + 1, 5000]);
        for count in counts {
            let (seen, behind) = passed_on(count);
            assert!(seen.iter().copied().eq((1..=count).chain([0])), "{count}");
            assert_eq!(behind, 77, "{count}");
        }
    }
}
