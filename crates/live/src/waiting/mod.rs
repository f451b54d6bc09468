//! Waiting for the other end: polling, and sleeping until woken.

pub mod call;
pub mod wait;
