//! Waiting for the other end: how long to poll, how to sleep and be woken, and how its death shows.

pub mod call;
pub mod death;
pub mod wait;
pub mod waking;
