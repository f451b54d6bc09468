//! How many threads one run may have, and why some runs use only one.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use crate::drive::Channel;
use crate::drive::engine::Alone;

/// The threads of each of several runs, which may be made side by side. A run shows the same, however many
/// it has.
#[derive(Debug)]
pub struct Threads {
    most: NonZeroUsize,
    even_if_slower: bool,
    /// A sentence for each channel that had one, and why.
    alone: Mutex<BTreeSet<String>>,
}

impl Threads {
    /// One for each run.
    pub fn one() -> Threads {
        Threads::at_most(NonZeroUsize::MIN)
    }

    /// So many for each run that may have them.
    pub fn at_most(most: NonZeroUsize) -> Threads {
        Threads { most, even_if_slower: false, alone: Mutex::default() }
    }

    /// The same where they would mostly wait for each other, too.
    #[must_use]
    pub fn even_if_slower(self) -> Threads {
        Threads { even_if_slower: true, ..self }
    }

    /// Divides a channel among them, if it may be and is worth it. `has_step_limit` tells whether its run does.
    pub(crate) fn spread(&self, name: &str, channel: &mut impl Channel, has_step_limit: bool) {
        if self.most == NonZeroUsize::MIN {
            return;
        }
        let spread = match has_step_limit {
            true => Err(Alone::StepLimit),
            false => channel.spread(self.most, self.even_if_slower),
        };
        if let Err(why) = spread {
            self.note(name, why);
        }
    }

    /// A channel has one thread.
    pub(crate) fn note(&self, name: &str, why: Alone) {
        if self.most > NonZeroUsize::MIN {
            let said = format!("channel {name} was simulated on one thread: {why}");
            self.alone.lock().unwrap_or_else(PoisonError::into_inner).insert(said);
        }
    }

    /// What had one thread though it might have had more, and why: a sentence for each, none twice.
    pub fn alone(&self) -> Vec<String> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
