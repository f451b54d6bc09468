//! What a program can wait for, and with what.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::Bindings;
use crate::sys::{self, Errno, Watch};

/// The wait object of a queue or a counter.
#[derive(Debug)]
pub struct Waiter {
    /// Polls all bound endpoints and the event.
    pub watch: Arc<Watch>,
    /// Set to wake a waiting thread.
    pub event: Arc<OwnedFd>,
    /// The kind of wait object that the program chose (`fi_wait_obj`).
    pub object: u32,
}

impl Waiter {
    /// A wait object that polls only its own event.
    pub fn new(object: u32) -> Result<Self, Errno> {
        let (watch, event) = (Watch::new()?, sys::event()?);
        watch.add(&event, 0)?;
        Ok(Self { watch: Arc::new(watch), event: Arc::new(event), object })
    }
}

/// An object that a program can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waitable {
    /// A completion queue.
    Queue(usize),
    /// A counter.
    Counter(usize),
}

impl Waitable {
    #[inline(always)]
    pub(super) fn concerns(self, bindings: &Bindings) -> bool {
        let Bindings { sends, receives, reads, writes } = bindings;
        match self {
            Self::Queue(number) => sends.queue == Some(number) || receives.queue == Some(number),
            Self::Counter(number) => {
                [sends.counter, receives.counter, *reads, *writes].contains(&Some(number))
            }
        }
    }
}
