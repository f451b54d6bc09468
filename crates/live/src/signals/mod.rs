//! What may interrupt a call of the library's, and end it or never return: a signal handler, one
//! that jumps, a cancelled thread.

pub mod asleep;
pub mod cancel;
pub mod ending;
pub mod inside;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "where a jump goes is not known")
)]
mod interrupted;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "as above"))]
pub mod jump;
