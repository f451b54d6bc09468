//! From a connection of the kernel to one in shared memory: when to look for the other end, where the two
//! meet, and what is handed over.

pub mod attach;
pub mod bare_calls;
pub mod meeting;
pub mod offer;
mod opened;
mod pace;
pub mod rendezvous;
pub mod worth;
