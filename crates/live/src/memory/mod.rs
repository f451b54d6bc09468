//! Memory that does not come from the heap, and checks whether there is memory at a program's
//! pointers.

pub mod means;
pub mod pointers;
pub mod pool;
pub mod scratch;
