//! From shared memory back to the kernel, and what becomes of bytes that are still unread when a descriptor
//! goes where the library cannot follow.

mod copy;
pub mod departure;
pub mod loan;
pub mod owners;
pub mod pump;
pub mod yielding;
