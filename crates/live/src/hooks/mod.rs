//! The C functions that the library stands in front of.
//!
//! Variadic functions are declared with their optional argument: in the calling conventions of
//! x86_64 and aarch64 Linux an integer or pointer argument travels in the same register either way,
//! and one that the caller did not pass is handed on unread.

mod aliases;
mod asynchronous;
mod bare;
mod descriptors;
mod direct;
mod events;
mod files;
mod handover;
mod io;
mod listed;
mod options;
mod unread;
mod vector;
