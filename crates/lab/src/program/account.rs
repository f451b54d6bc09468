//! The time of each rank, by what it does.

use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

/// What a rank does, or what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Activity {
    /// It computes.
    Compute,
    /// Its message to a rank has not left yet.
    Send(u16),
    /// It waits for a message of a rank; of any if absent.
    Wait(Option<u16>),
    /// It waits for a processor of its host.
    Queued,
}

/// One interval of a rank's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The rank.
    pub rank: u16,
    /// When it began.
    pub from: Time,
    /// When it ended.
    pub until: Time,
    /// What it was.
    pub activity: Activity,
}

/// One message from its submission to its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The rank that sent it.
    pub from: u16,
    /// The target rank.
    pub to: u16,
    /// When it was submitted.
    pub offered: Time,
    /// When its last byte arrived.
    pub delivered: Time,
    /// Its size in bytes.
    pub size: u64,
}

/// The time of all ranks, by what they do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    ranks: Vec<Spent>,
    /// Every interval, in order of its end, and every message, if they were requested.
    picture: Option<(Vec<Interval>, Vec<Passage>)>,
}

/// The time of one rank, by what it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Computing.
    pub computing: Span,
    /// Waiting for own messages to leave.
    pub sending: Span,
    /// Waiting for messages of others.
    pub waiting: Span,
    /// The waiting time by the rank that was waited for, in ascending order; any rank comes first.
    pub waiting_for: Vec<(Option<u16>, Span)>,
    /// Waiting for a processor of the host.
    pub queued: Span,
}

impl Account {
    /// No time spent by `ranks`; `picture` requests every interval and message in addition to the
    /// sums.
    pub fn new(ranks: u16, picture: bool) -> Account {
        let ranks = vec![Spent::default(); ranks.into()];
        Account { ranks, picture: picture.then(Default::default) }
    }

    /// A rank did something for a while.
    pub fn spend(&mut self, interval: Interval) {
        let Interval { rank, from, until, activity } = interval;
        let span = until.since(from);
        let spent = &mut self.ranks[usize::from(rank)];
        match activity {
            Activity::Compute => spent.computing += span,
            Activity::Send(_) => spent.sending += span,
            Activity::Queued => spent.queued += span,
            Activity::Wait(whom) => {
                spent.waiting += span;
                let place = spent.waiting_for.binary_search_by_key(&whom, |(other, _)| *other);
                match place {
                    Ok(place) => spent.waiting_for[place].1 += span,
                    Err(place) => spent.waiting_for.insert(place, (whom, span)),
                }
            }
        }
        if let Some((intervals, _)) = self.picture.as_mut().filter(|_| span > Span::ZERO) {
            intervals.push(interval);
        }
    }

    /// A message arrived.
    pub fn pass(&mut self, passage: Passage) {
        if let Some((_, passages)) = &mut self.picture {
            passages.push(passage);
        }
    }

    /// The time of each rank, in order.
    pub fn ranks(&self) -> &[Spent] {
        &self.ranks
    }

    /// Every interval, if they were requested.
    pub fn intervals(&self) -> &[Interval] {
        self.picture.as_ref().map_or(&[], |(intervals, _)| intervals)
    }

    /// Every message, if they were requested.
    pub fn passages(&self) -> &[Passage] {
        self.picture.as_ref().map_or(&[], |(_, passages)| passages)
    }
}
