//! Processes that share a connection after a `fork`: who they are, who holds it still, and the locks that
//! survive the death of one of them.

pub mod copies;
pub mod family;
pub mod fork;
pub mod holders;
pub mod lock;
