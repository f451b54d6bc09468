//! The contents of the messages of a channel (Clint 3.1, Figure 1), and what the handlers did that
//! they called. Packets of a run carry no bytes: adapters number the packets of a pair in the order
//! in which they were submitted, and by that number a target finds the content of a message.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use weft_fabric::message::Content;
use weft_protocol::packet::Message;
use weft_units::Time;

use super::Letter;

/// The name in tables for the handler of messages that name none.
pub const UNNAMED: &str = "none";

/// What a program or a handler sends to a host: the content of a message, and its virtual network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The virtual network, whose number its endpoints have; the first that both hosts are in if
    /// absent.
    pub network: Option<u16>,
    /// Handler, arguments and payload.
    pub content: Content,
}

/// The content of a message in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The names of both endpoints, the handler and its arguments.
    pub message: Message,
    /// Words of 32 bits.
    pub payload: Vec<u32>,
}

/// The contents of the messages of a channel: those that its workload lists, and those in flight.
#[derive(Clone, Debug)]
pub struct Bodies {
    /// The names of handlers by index.
    names: Vec<String>,
    hosts: usize,
    /// By initiator, in the order in which it submits them.
    listed: Vec<VecDeque<Text>>,
    /// How many messages of each pair were submitted.
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
    /// Its position in the table of handlers.
    pub handler: u16,
    /// The initiator of the message.
    pub from: u16,
    /// When the message was submitted.
    pub posted: Time,
    /// When the host began with it.
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
    /// Without a response.
    Done,
    /// With a response.
    Answered,
    /// It did nothing: it would have accessed words outside the memory, or answered with too many.
    Failed,
}

/// An endpoint at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// The host.
    pub host: u16,
    /// Its virtual network.
    pub network: u16,
    /// How often each handler was called, by its position in the table.
    pub calls: Vec<u64>,
    /// Calls of handlers that did nothing, as [`CallOutcome::Failed`].
    pub failed: u64,
    /// The content of its memory.
    pub memory: Vec<u32>,
}

/// What handlers did on a channel whose messages call some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerReport {
    /// The names of the handlers; the first is for messages that name none.
    pub names: Vec<String>,
    /// Every endpoint, by host and network.
    pub endpoints: Vec<EndpointReport>,
    /// The calls, in the order of their ends.
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
    /// The names of handlers by index, and the contents of each host's messages, in the order in which
    /// it submits them.
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

    /// The content of the next message that a host submits from its list.
    pub fn next_listed(&mut self, host: u16) -> Text {
        self.listed[usize::from(host)].pop_front().unwrap_or_default()
    }

    /// A message is submitted, and has the next number of its pair.
    pub fn post(&mut self, body: Body) {
        let (from, to) = (body.message.initiator.node, body.message.target.node);
        let posted = &mut self.posted[usize::from(from) * self.hosts + usize::from(to)];
        self.under_way.insert(Number { from, to, sequence: *posted }, body);
        *posted = posted.wrapping_add(1);
    }

    /// The content of a message that has reached its target.
    pub fn of(&self, letter: &Letter) -> Option<&Body> {
        self.under_way.get(&Number::of(letter))
    }

    /// The content of a message whose handler has ended.
    pub fn take(&mut self, letter: &Letter) -> Option<Body> {
        self.under_way.remove(&Number::of(letter))
    }

    /// Notes that a handler ran.
    pub fn note(&mut self, call: HandlerCall) {
        self.calls.push(call);
    }

    /// The state of these endpoints at the end.
    pub fn report(&self, endpoints: Vec<EndpointReport>) -> HandlerReport {
        HandlerReport { names: self.names.clone(), endpoints, calls: self.calls.clone() }
    }
}

/// The identity of a message: its pair of hosts, and its number in that pair.
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
