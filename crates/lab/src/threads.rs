//! How many threads or ranks one run may have, and why some runs use only one.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use crate::drive::Channel;
use crate::drive::engine::Alone;
use crate::exchange::Exchange;
use crate::ranks::Ranks;

/// The threads of each of several runs, which may be made side by side. A run shows the same, however many
/// it has.
#[derive(Debug)]
pub struct Threads {
    most: NonZeroUsize,
    even_if_slower: bool,
    /// The processes among which a run is divided in place of threads. This is the first.
    ranks: Option<Arc<dyn Exchange>>,
    /// The sentences that [`alone`](Self::alone) returns.
    alone: Mutex<BTreeSet<String>>,
}

impl Threads {
    /// One for each run.
    pub fn one() -> Threads {
        Threads::at_most(NonZeroUsize::MIN)
    }

    /// This many for each run that may have several.
    pub fn at_most(most: NonZeroUsize) -> Threads {
        Threads { most, even_if_slower: false, ranks: None, alone: Mutex::default() }
    }

    /// One in each of several processes. This is rank 0; the others [follow](crate::follow). Runs must be made
    /// one after another.
    pub fn on_ranks(exchange: Arc<dyn Exchange>) -> Threads {
        Threads { ranks: Some(exchange), ..Threads::one() }
    }

    /// Returns the threads, to be used even if they would mostly wait for each other.
    #[must_use]
    pub fn even_if_slower(self) -> Threads {
        Threads { even_if_slower: true, ..self }
    }

    /// Divides a channel among the threads, if possible and worthwhile. `has_step_limit` says
    /// whether its run has a limit on steps.
    pub(crate) fn spread(&self, name: &str, channel: &mut impl Channel, has_step_limit: bool) {
        if self.most == NonZeroUsize::MIN || self.ranks.is_some() {
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

    /// The ranks, if there are several.
    pub(crate) fn ranks(&self) -> Option<Ranks> {
        let exchange = self.ranks.clone().filter(|own| own.ranks() > 1)?;
        Some(Ranks { exchange, even_if_slower: self.even_if_slower })
    }

    /// A channel has one thread, or one rank.
    pub(crate) fn note(&self, name: &str, why: Alone) {
        let on = match self.ranks() {
            Some(_) => Some("rank 0 alone"),
            None => (self.most > NonZeroUsize::MIN).then_some("one thread"),
        };
        if let Some(on) = on {
            self.say(format!("channel {name} was simulated on {on}: {why}"));
        }
    }

    /// This many of the ranks have a part of a channel.
    pub(crate) fn note_idle(&self, name: &str, with: Option<u32>) {
        let ranks = self.ranks.as_ref().map_or(1, |own| own.ranks());
        if let Some(with) = with.filter(|with| *with < ranks) {
            let idle = ranks - with;
            self.say(format!(
                "channel {name} was divided among {with} of {ranks} ranks, and {idle} had nothing to do: its \
                 network has no more parts with cables between them that take as long"
            ));
        }
    }

    fn say(&self, said: String) {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner).insert(said);
    }

    /// A sentence for each channel that was simulated on one thread, or on rank 0 alone, although
    /// more were allowed, with the reason, and for each that left ranks without a part; none twice.
    pub fn alone(&self) -> Vec<String> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
