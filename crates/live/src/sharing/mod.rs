//! What processes have in common after a `fork`: who belongs to them, and the locks that survive the death of
//! one of them.

pub mod copies;
pub mod family;
pub mod lock;
pub mod process_lock;
