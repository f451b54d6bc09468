//! The send and receive sequences between host and adapter (Clint 3.1): seven steps each, as state
//! machines: the caller reports the step that is done, and the machine says what can be done next.
//!
//! Both halves of a two-way handshake manage a buffer pool. A buffer is in one state at any time,
//! so none is lost and none is used twice; a step that a buffer's state does not allow is refused.

mod prefetch;
mod receive;
mod send;

use std::fmt;

pub use prefetch::Prefetch;
pub use receive::{Placement, ReceiveSettings, ReceiveSide, ReceiveState};
pub use send::{Completion, Release, SendSettings, SendSide, SendState, TransmissionError};

use crate::ring::BufferId;

/// A step that the state of the buffer does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("buffer {} cannot be {step}: it is {state}, expected {expected}", .buffer.0)]
pub struct StepError<S: fmt::Display> {
    /// The buffer that was named.
    pub buffer: BufferId,
    /// The step that was tried, as a participle.
    pub step: &'static str,
    /// The state that the buffer is in.
    pub state: S,
    /// The state that the step needs.
    pub expected: S,
}
