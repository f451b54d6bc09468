//! What may interrupt a call of the library's and not come back: a handler that jumps, a cancelled thread.

pub mod cancel;
pub mod jump;
pub mod process_lock;
