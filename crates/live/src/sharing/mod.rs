//! What processes have in common after a `fork`: which processes belong together, and the locks
//! that survive the death of one of them.

pub mod copies;
pub mod family;
pub mod lock;
pub mod process_lock;
