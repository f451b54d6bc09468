//! Which way the bytes of a connection go, by the rings or by the kernel, and how they change it.

pub mod answering;
pub mod asking;
pub mod direction;
