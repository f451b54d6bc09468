//! Simulated time: an event queue, named random streams and an arena.
//!
//! Nothing here knows the word packet. A simulation is a value: it owns its [`Queue`], its
//! [`Stream`]s and its [`Arena`]s, so any number of simulations live in one process.

mod arena;
mod halt;
mod queue;
mod stream;
mod wheel;

pub use arena::{Arena, Id};
pub use halt::{Halt, Stopped};
pub use queue::Queue;
pub use stream::{Stream, Streams};
