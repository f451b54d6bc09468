//! What the messages of a channel say (Clint 3.1, Figure 1), and what the handlers did that they
//! called. Packets of a run carry no bytes: their adapters number those of a pair in the order in
//! which they were handed over, and by that number a target finds what a message says.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weft_fabric::message::Content;
use weft_protocol::packet::Message;
use weft_units::Time;

use super::Letter;

/// What tables call the handler of messages that name none.
pub const UNNAMED: &str = "none";

/// What is to be said to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The virtual network, whose number its endpoints have; the first that both hosts are in if
    /// absent.
    pub network: Option<u16>,
    /// Handler, arguments and payload.
    pub content: Content,
}

/// What a message says while it is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The names of both endpoints, the handler and its arguments.
    pub message: Message,
    /// Words of 32 bits.
    pub payload: Vec<u32>,
}

/// What the messages of a channel say: those that its workload lists, and those under way.
#[derive(Clone, Debug)]
pub struct Bodies {
    /// The names of handlers by index.
    names: Vec<String>,
    hosts: usize,
    /// By initiator, in the order in which it hands them over.
    listed: Vec<VecDeque<Text>>,
    /// How many messages of each pair were handed over.
    posted: Vec<u32>,
    under_way: BTreeMap<Number, Body>,
    calls: Vec<HandlerCall>,
}

/// A handler that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerCall {
    /// Where.
    pub host: u16,
    /// The virtual network of its endpoint.
    pub network: u16,
    /// Its place in the table of handlers.
    pub handler: u16,
    /// Who sent the message.
    pub from: u16,
    /// When the message was handed over.
    pub posted: Time,
    /// When the host turned to it.
    pub start: Time,
    /// When it was done.
    pub end: Time,
    /// Its arguments.
    pub arguments: [u32; Message::ARGUMENTS],
    /// How many words of payload it got.
    pub payload_words: u32,
    /// How it ended.
    pub outcome: CallOutcome,
}

/// How a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallOutcome {
    /// Without an answer.
    Done,
    /// With an answer.
    Answered,
    /// It did nothing: it was to touch words that are not there, or to answer with too many.
    Failed,
}

/// An endpoint at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// The host.
    pub host: u16,
    /// Its virtual network.
    pub network: u16,
    /// How often each handler was called, by its place in the table.
    pub calls: Vec<u64>,
    /// Calls of handlers that did nothing, as [`CallOutcome::Failed`].
    pub failed: u64,
    /// What its memory held.
    pub memory: Vec<u32>,
}

/// What handlers did on a channel whose messages call some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerReport {
    /// The names of the handlers; the first is that of messages which name none.
    pub names: Vec<String>,
    /// Every endpoint, by host and network.
    pub endpoints: Vec<EndpointReport>,
    /// What ran, in order of the ends.
    pub calls: Vec<HandlerCall>,
}

impl CallOutcome {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            CallOutcome::Done => "done",
            CallOutcome::Answered => "answered",
            CallOutcome::Failed => "failed",
        }
    }
}

impl Bodies {
    /// The names of handlers by index, and what each host is to say, in the order in which it hands its
    /// messages over.
    pub fn new(names: Vec<String>, listed: Vec<VecDeque<Text>>) -> Bodies {
        let hosts = listed.len();
        Bodies {
            names,
            hosts,
            listed,
            posted: vec![0; hosts * hosts],
            under_way: BTreeMap::new(),
            calls: Vec::new(),
        }
    }

    /// What the next message says that a host hands over by its list.
    pub fn next_listed(&mut self, host: u16) -> Text {
        self.listed[usize::from(host)].pop_front().unwrap_or_default()
    }

    /// A message is handed over, and has the next number of its pair.
    pub fn post(&mut self, body: Body) {
        let (from, to) = (body.message.initiator.node, body.message.target.node);
        let posted = &mut self.posted[usize::from(from) * self.hosts + usize::from(to)];
        self.under_way.insert(Number { from, to, sequence: *posted }, body);
        *posted = posted.wrapping_add(1);
    }

    /// What a message says that is at its target.
    pub fn of(&self, letter: &Letter) -> Option<&Body> {
        self.under_way.get(&Number::of(letter))
    }

    /// The same of a message whose handler has ended.
    pub fn take(&mut self, letter: &Letter) -> Option<Body> {
        self.under_way.remove(&Number::of(letter))
    }

    /// Notes that a handler ran.
    pub fn note(&mut self, call: HandlerCall) {
        self.calls.push(call);
    }

    /// What came of it at these endpoints.
    pub fn report(&self, endpoints: Vec<EndpointReport>) -> HandlerReport {
        HandlerReport { names: self.names.clone(), endpoints, calls: self.calls.clone() }
    }
}

/// What names a message: its pair of hosts, and its number in that pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Number {
    from: u16,
    to: u16,
    sequence: u32,
}

impl Number {
    /// Adapters number the packets of a pair modulo 2^32.
    fn of(letter: &Letter) -> Number {
        Number { from: letter.from, to: letter.to, sequence: letter.sequence as u32 }
    }
}
