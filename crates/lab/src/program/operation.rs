//! Operations that a rank has started and may wait for.

use weft_units::{Bytes, Time};

use super::account::Activity;
use super::matching::Wanted;
use crate::drive::carrier::Destination;

/// An operation that a rank has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpId(u32);

impl OpId {
    /// No operation.
    pub const NONE: OpId = OpId(u32::MAX);

    /// The operation of a number that [`OpId::index`] gave.
    pub fn new(place: usize) -> OpId {
        OpId(place as u32)
    }

    /// A small number, used again after [`Machine::release`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a rank sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The rank that sends it.
    pub from: u16,
    /// The rank that it is for, or several.
    pub to: Destination,
    /// What distinguishes messages for receives.
    pub tag: u32,
    /// Bytes of payload.
    pub size: Bytes,
    /// Its content.
    pub value: u64,
    /// The number of the channel that the program itself chose, before any rule.
    pub channel: Option<usize>,
    /// The NIC that a trace names.
    pub nic: u16,
}

/// The result of an operation. Of an operation that receives nothing only the time has a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// When it ended.
    pub time: Time,
    /// The rank that sent the message.
    pub from: u16,
    /// Its tag.
    pub tag: u32,
    /// Its payload.
    pub size: Bytes,
    /// The content of the message, or of the memory that was read; for a conditional write 1 or 0,
    /// whether it was accepted.
    pub value: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub rank: u16,
    pub doing: Doing,
    pub state: State,
    /// Since when its rank does nothing else.
    pub blocked: Option<Time>,
    pub received: Received,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Done,
    /// The operation is no longer needed.
    Dropped,
    Free,
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Doing {
    Compute,
    /// For its time.
    Sleep,
    Send {
        to: Destination,
        tag: u32,
    },
    Receive(Wanted),
    Until {
        address: u64,
        least: u64,
    },
    Read {
        target: u16,
    },
    /// A write that its target confirms.
    Confirm {
        target: u16,
    },
    /// For another rank to be gone.
    Departure,
    Barrier,
}

impl Op {
    /// How it appears in the account of its rank.
    pub fn activity(&self) -> Activity {
        match self.doing {
            Doing::Compute => Activity::Compute,
            Doing::Send { to, .. } => Activity::Send(to.hosts().next().unwrap_or(self.rank)),
            Doing::Receive(wanted) => Activity::Wait(wanted.from),
            Doing::Sleep | Doing::Until { .. } | Doing::Barrier | Doing::Departure => {
                Activity::Wait(None)
            }
            Doing::Read { target } | Doing::Confirm { target } => Activity::Wait(Some(target)),
        }
    }

    /// What it waits for, as a sentence.
    pub fn says(&self) -> String {
        let rank = self.rank;
        match self.doing {
            Doing::Compute => format!("rank {rank} computes"),
            Doing::Sleep => format!("rank {rank} waits for a time"),
            Doing::Send { to, tag } => {
                let targets: Vec<String> = to.hosts().map(|target| target.to_string()).collect();
                format!("rank {rank} sends to rank {} with tag {tag}", targets.join(", "))
            }
            Doing::Receive(Wanted { from, tag }) => {
                let from = from.map_or("any rank".to_owned(), |from| format!("rank {from}"));
                let tag = tag.map_or(String::new(), |tag| format!(" with tag {tag}"));
                format!("rank {rank} waits for a message of {from}{tag}")
            }
            Doing::Until { address, least } => {
                format!("rank {rank} waits until word {address} of its memory is {least} or more")
            }
            Doing::Barrier => format!("rank {rank} waits at the barrier of its channel"),
            Doing::Confirm { target } => {
                format!("rank {rank} waits until rank {target} has what it writes")
            }
            Doing::Departure => format!("rank {rank} waits until it learns that a rank is gone"),
            Doing::Read { target } => {
                format!("rank {rank} waits for what it reads in the memory of rank {target}")
            }
        }
    }
}
