//! The programs that measure an interconnect, each as short as the textbook has it. Sizes are those
//! of the payload; MB are 10^6 bytes; times are in microseconds of simulated time.

mod collective;
mod contention;
mod ordered_lock;
mod pairs;

use std::cell::RefCell;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::misfit::Misfit;
use weft_units::{Bytes, PositiveCount, Span, Time};

use super::node::{Crew, Node};
use crate::drive::carrier::Carrier;

/// A program of the library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LibraryProgram {
    /// Two ranks send one message back and forth.
    PingPong(PairSettings),
    /// Two ranks send to each other at the same time, and again when both have received.
    PingPing(ExchangeSettings),
    /// One rank sends windows of messages to another, which answers each window by 4 bytes.
    Stream(StreamSettings),
    /// Every rank sends one message to every other; the next round starts when all have received
    /// theirs.
    AllToAll(RoundSettings),
    /// All ranks meet at barriers.
    Barrier(BarrierSettings),
    /// One rank stores to the memory of all others, and each of them answers.
    Broadcast(BroadcastSettings),
    /// All ranks want one lock, which a server rank grants first come, first served.
    Lock(LockSettings),
    /// All ranks want one lock that has no server: they bid by ordered broadcast, and the first bid
    /// wins (Memory Channel 2, Additional MEMORY CHANNEL Network Features).
    OrderedLock(OrderedLockSettings),
    /// All ranks send to one.
    HotSpot(HotSpotSettings),
    /// Clients send requests to a server, which replies.
    RequestReply(RequestReplySettings),
}

/// A program between two ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairSettings {
    /// Size of each message.
    pub size: Bytes,
    /// How many times.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
    /// The two ranks.
    #[serde(default = "first_two")]
    pub pair: [u16; 2],
}

/// Both directions at the same time between two ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExchangeSettings {
    /// Size of each message.
    pub size: Bytes,
    /// How many times.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
    /// The two ranks.
    #[serde(default = "first_two")]
    pub pair: [u16; 2],
    /// What implements a barrier of all ranks before each round, which is not timed (Maestro 4.1,
    /// PingPing). Without a value there is no barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barrier: Option<BarrierBy>,
}

/// One direction between two ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamSettings {
    /// Size of each message.
    pub size: Bytes,
    /// How many messages are sent before the sender waits for a response.
    #[serde(default = "sixty_four")]
    pub window: PositiveCount,
    /// How many windows.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
    /// The rank that sends, and the one that receives.
    #[serde(default = "first_two")]
    pub pair: [u16; 2],
}

/// Every rank with every other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RoundSettings {
    /// Size of each message.
    pub size: Bytes,
    /// How many times.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
}

/// Barriers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BarrierSettings {
    /// How many barriers, one after another.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
    /// What implements them.
    #[serde(default)]
    pub by: BarrierBy,
}

/// What implements a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BarrierBy {
    /// The ranks, by messages: dissemination (Hensgen, Finkel and Manber, IJPP 17(1), 1988).
    #[default]
    Messages,
    /// The channel if it supports barriers, otherwise the ranks.
    Channel,
}

/// One to all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BroadcastSettings {
    /// Size of the message.
    pub size: Bytes,
    /// How many times.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
    /// The rank that sends.
    #[serde(default)]
    pub root: u16,
    /// Whether a separate message goes to each rank, or one message to all, by multicast if the
    /// channel supports it.
    #[serde(default)]
    pub copies: bool,
}

/// One lock that all ranks want.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockSettings {
    /// How often each rank takes it.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
    /// How long each keeps it.
    #[serde(default)]
    pub hold: Span,
    /// The rank that grants it.
    #[serde(default)]
    pub server: u16,
}

/// One lock that all ranks want, by ordered broadcast. For channels that deliver messages to
/// several hosts in one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderedLockSettings {
    /// How often each rank takes it.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
    /// How long each keeps it.
    #[serde(default)]
    pub hold: Span,
    /// How long the first rank waits after its first failed bid; other ranks wait longer, each a
    /// different time, and every rank waits longer after each further bid.
    pub back_off: Span,
}

/// All to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HotSpotSettings {
    /// Size of each message.
    pub size: Bytes,
    /// How many messages each rank sends.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
    /// Their target.
    #[serde(default)]
    pub target: u16,
    /// How many messages of a rank may wait for the channel: the next one is submitted when the
    /// oldest of these has left.
    #[serde(default = "one")]
    pub window: PositiveCount,
    /// How many ranks send to it: the lowest-numbered ones other than the target and the second of
    /// `victim`; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub senders: Option<u16>,
    /// Two ranks: the first sends as many messages to the second, in the same way, in addition to
    /// those for the target if it is one of the senders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<[u16; 2]>,
}

/// Clients and a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestReplySettings {
    /// Size of a request.
    pub size: Bytes,
    /// Size of a reply.
    pub reply: Bytes,
    /// How many requests each client makes, one after another.
    #[serde(default = "ten")]
    pub rounds: PositiveCount,
    /// The rank of the server; all others are clients.
    #[serde(default)]
    pub server: u16,
    /// What the server computes for a request.
    #[serde(default)]
    pub service: Span,
}

const fn count(count: u32) -> PositiveCount {
    match PositiveCount::new(count) {
        Some(count) => count,
        None => PositiveCount::ONE,
    }
}

fn ten() -> PositiveCount {
    count(10)
}

fn one() -> PositiveCount {
    PositiveCount::ONE
}

fn sixty_four() -> PositiveCount {
    count(64)
}

fn first_two() -> [u16; 2] {
    [0, 1]
}

/// What a program measured: name of the column, value.
pub type Metrics = Vec<(&'static str, f64)>;

/// The measurements of the ranks of a program while they run.
#[derive(Clone, Debug, Default)]
struct Notes(Rc<RefCell<Noted>>);

#[derive(Clone, Debug, Default)]
struct Noted {
    spans: Vec<Span>,
    bytes: Bytes,
    first: Option<Time>,
    last: Time,
}

impl Notes {
    /// Something that began at `from` and transferred this many bytes has ended.
    fn note(&self, from: Time, until: Time, bytes: Bytes) {
        let mut noted = self.0.borrow_mut();
        noted.spans.push(until.since(from));
        noted.bytes += bytes;
        noted.first = Some(noted.first.map_or(from, |first| first.min(from)));
        noted.last = noted.last.max(until);
    }

    /// Mean, least and greatest span in microseconds.
    fn spans(&self, [mean, least, most]: [&'static str; 3]) -> Metrics {
        let spans = &self.0.borrow().spans;
        let sum: u128 = spans.iter().map(|span| u128::from(span.0)).sum();
        let us = |span: Option<&Span>| span.map_or(f64::NAN, |span| span.as_us());
        vec![
            (mean, sum as f64 / spans.len() as f64 * 1e-6),
            (least, us(spans.iter().min())),
            (most, us(spans.iter().max())),
        ]
    }

    /// Seconds from the beginning of the first to the end of the last.
    fn seconds(&self) -> f64 {
        let noted = self.0.borrow();
        noted.last.since(noted.first.unwrap_or(noted.last)).as_secs()
    }

    /// Everything transferred, in 10^6 bytes per second.
    fn mb_per_s(&self) -> f64 {
        self.0.borrow().bytes.0 as f64 * 1e-6 / self.seconds()
    }

    fn per_s(&self) -> f64 {
        self.0.borrow().spans.len() as f64 / self.seconds()
    }
}

/// The results that are read when the program has ended.
pub type Finish = Box<dyn FnOnce() -> Metrics>;

impl LibraryProgram {
    /// The ranks that the program names by number.
    pub fn named_ranks(&self) -> Vec<u16> {
        match self {
            LibraryProgram::PingPong(own) => own.pair.to_vec(),
            LibraryProgram::PingPing(own) => own.pair.to_vec(),
            LibraryProgram::Stream(own) => own.pair.to_vec(),
            LibraryProgram::AllToAll(_) | LibraryProgram::Barrier(_) => Vec::new(),
            LibraryProgram::Lock(own) => vec![own.server],
            LibraryProgram::Broadcast(own) => vec![own.root],
            LibraryProgram::OrderedLock(_) => Vec::new(),
            LibraryProgram::HotSpot(own) => {
                [own.target].into_iter().chain(own.victim.into_iter().flatten()).collect()
            }
            LibraryProgram::RequestReply(own) => vec![own.server],
        }
    }

    /// The first setting below `program.run` that does not fit this many ranks. Does not check that the ranks of
    /// [`named_ranks`](Self::named_ranks) exist.
    pub(super) fn misfit(&self, ranks: u16) -> Option<Misfit> {
        if let LibraryProgram::Broadcast(own) = self
            && !own.copies
            && ranks > 64
        {
            let accepted = "true among more than 64 ranks";
            return Some(Misfit::new("broadcast.copies", "false", accepted));
        }
        let LibraryProgram::HotSpot(own) = self else { return None };
        let named = self.named_ranks();
        let taken = named.iter().enumerate().find(|(at, rank)| named[..*at].contains(rank));
        if let (Some((_, rank)), Some(victim)) = (taken, own.victim) {
            let accepted = format!("two ranks that differ, neither of them {}", own.target);
            let value = format!("{victim:?}, which names rank {rank} twice");
            return Some(Misfit::new("hot_spot.victim", value, accepted));
        }
        let senders = own.senders?;
        let apart = u16::from(own.victim.is_some());
        let (least, most) = (1 - apart, ranks - 1 - apart);
        (senders < least || senders > most).then(|| {
            let accepted = format!("{least} to {most} of {ranks} ranks");
            Misfit::new("hot_spot.senders", senders, accepted)
        })
    }

    /// Gives the ranks of a crew their programs.
    pub fn start<C: Carrier + 'static>(&self, crew: &mut Crew<C>) -> Finish {
        let notes = Notes::default();
        match self.clone() {
            LibraryProgram::PingPong(own) => pairs::ping_pong(crew, own, notes),
            LibraryProgram::PingPing(own) => pairs::ping_ping(crew, own, notes),
            LibraryProgram::Stream(own) => pairs::stream(crew, own, notes),
            LibraryProgram::AllToAll(own) => collective::all_to_all(crew, own, notes),
            LibraryProgram::Barrier(own) => collective::barrier(crew, own, notes),
            LibraryProgram::Broadcast(own) => collective::broadcast(crew, own, notes),
            LibraryProgram::Lock(own) => contention::lock(crew, own, notes),
            LibraryProgram::OrderedLock(own) => ordered_lock::run(crew, own, notes),
            LibraryProgram::HotSpot(own) => contention::hot_spot(crew, own, notes),
            LibraryProgram::RequestReply(own) => contention::request_reply(crew, own, notes),
        }
    }
}

/// The node of a rank that is known to be one.
fn node<C: Carrier + 'static>(crew: &Crew<C>, rank: u16) -> Option<Node<C>> {
    crew.nodes().into_iter().nth(rank.into())
}
