//! Whether the calling thread is in a call that holds what it must give back.

use std::cell::Cell;

use crate::signals::jump;

thread_local! {
    static IS_CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// How much the calling thread holds. Each call counts here twice, and a library's `thread_local` is found by
/// a call of its own. This one is found as a program's is, which a library may do that is loaded with it.
#[cfg(target_arch = "x86_64")]
mod depth {
    use core::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss, \"awT\", @nobits",
        ".globl weft_live_depth",
        ".hidden weft_live_depth",
        ".balign 4",
        "weft_live_depth: .zero 4",
        ".popsection",
    );

    /// One instruction on the count; `{there}` is its place.
    macro_rules! count {
        ($instruction:literal $(, $value:ident)?) => {
            // SAFETY: the place is this thread's, which nothing else refers to.
            unsafe {
                asm!(
                    "mov {there}, qword ptr [rip + weft_live_depth@GOTTPOFF]",
                    $instruction,
                    there = out(reg) _,
                    $($value = out(reg) $value,)?
                    options(nostack),
                )
            }
        };
    }

    #[inline(always)]
    pub fn more() {
        count!("add dword ptr fs:[{there}], 1");
    }

    #[inline(always)]
    pub fn less() {
        count!("sub dword ptr fs:[{there}], 1");
    }

    pub fn get() -> u32 {
        let value: u32;
        count!("mov {value:e}, dword ptr fs:[{there}]", value);
        value
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod depth {
    use std::cell::Cell;

    thread_local! {
        static DEPTH: Cell<u32> = const { Cell::new(0) };
    }

    pub fn more() {
        DEPTH.set(DEPTH.get().wrapping_add(1));
    }

    pub fn less() {
        DEPTH.set(DEPTH.get().wrapping_sub(1));
    }

    pub fn get() -> u32 {
        DEPTH.get()
    }
}

/// What a thread holds that is given back when this is dropped with it. A jump out of a signal handler past
/// it waits until then.
pub struct Inside(());

impl Inside {
    /// To be called before something is held, of which [`Inside::begun`] is to become a part.
    #[inline]
    pub fn begin() {
        depth::more();
    }

    /// What was begun, or of something that is never dropped.
    #[inline]
    pub const fn begun() -> Self {
        Self(())
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        depth::less();
        jump::look();
    }
}

/// The C library has called one of the library's functions, which cannot be unwound, until dropped.
pub struct CalledBack(bool);

impl CalledBack {
    pub fn begin() -> Self {
        Self(IS_CALLED_BACK.replace(true))
    }
}

impl Drop for CalledBack {
    fn drop(&mut self) {
        IS_CALLED_BACK.set(self.0);
    }
}

/// Whether the calling thread is in such a function.
pub fn is_called_back() -> bool {
    IS_CALLED_BACK.get()
}

/// Whether the calling thread holds anything.
pub fn is_any() -> bool {
    depth::get() > 0
}
