//! The other end of a connection: waking it, and how its death shows.

pub mod death;
pub mod doorbell;
