//! Descriptors that go where the library cannot follow, and what becomes of bytes that are still unread then.

mod copy;
pub mod departure;
pub mod loan;
pub mod owners;
pub mod pump;
pub mod yielding;
