//! Memory without the heap's, and whether there is any where the program says so.

pub mod means;
pub mod pointers;
pub mod pool;
pub mod scratch;
