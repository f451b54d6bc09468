//! What may interrupt a call of the library's, and end it or not come back: a handler, one that jumps, a cancelled
//! thread.

pub mod cancel;
pub mod ending;
pub mod jump;
pub mod process_lock;
