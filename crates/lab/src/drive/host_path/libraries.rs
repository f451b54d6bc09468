//! The socket libraries of the hosts: which hosts are connected, which ask, and which cannot be.
//!
//! [`Sockets`], one for each node, decides what a socket may do. This module delivers their
//! messages, and implements the lock of a receiver to which several may write; the host path,
//! through which all messages pass, adds the cost.

use std::collections::BTreeMap;

use weft_fabric::host::SocketsSettings;
use weft_protocol::counting_flag::CountingFlag;
use weft_protocol::sockets::{Accepted, Connect, SetUp, SocketId, Sockets, Standing};
use weft_units::{Span, Time};

/// The port on which programs listen.
const PORT: u16 = 1;

/// What was done to connect hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Requests that were accepted.
    pub accepted: u64,
    /// From the call of `connect` to the first message that may go, over all of them.
    pub set_up: Span,
    /// Requests that were refused.
    pub refused: u64,
    /// Messages that were left to the ordinary stack.
    pub fallen: u64,
    /// Attempts to lock a receiver that another initiator had locked.
    pub locked_out: u64,
}

/// What must be done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is sent.
    Goes,
    /// It waits, and if it is the first one its host begins to connect.
    Waits { first: bool },
    /// It falls through.
    Falls,
}

/// What follows from a message that a host has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// Nothing, or nothing before programs accept.
    Nothing,
    /// It responds immediately.
    Answer(SetUp),
    /// Its program may accept.
    MayAccept,
    /// Its own request was accepted: the buffer of the other end is mapped next.
    Map,
    /// Its own request was refused.
    Refused,
}

/// The libraries of all hosts.
#[derive(Debug)]
pub(super) struct Libraries {
    settings: SocketsSettings,
    /// None if a host has no address in the cluster.
    nodes: Vec<Option<Node>>,
    /// By initiator and target.
    ways: BTreeMap<(u16, u16), Way>,
    pub counters: SocketCounters,
}

#[derive(Debug)]
struct Node {
    sockets: Sockets,
    listener: Option<SocketId>,
    /// The disabled flag that a host stimulates to write a request to the receiver of a listening socket:
    /// the first one gets the lock.
    lock: CountingFlag,
    /// Whether its program is busy with a request that it has accepted.
    accepting: bool,
}

#[derive(Debug)]
enum Way {
    Asking { since: Time, request: SetUp, waiting: Vec<u32> },
    Open,
    Ordinary,
}

impl Libraries {
    pub fn new(settings: SocketsSettings, hosts: u16) -> Libraries {
        let node = |host| {
            let mut sockets = Sockets::new(settings.node(host)?);
            let mut listener = None;
            if !settings.without_listener.contains(&host) {
                let socket = sockets.open();
                let listens = sockets.listen(socket, PORT, settings.backlog.as_usize());
                listener = listens.is_ok().then_some(socket);
            }
            Some(Node { sockets, listener, lock: CountingFlag::default(), accepting: false })
        };
        let nodes = (0..hosts).map(node).collect();
        Libraries { settings, nodes, ways: BTreeMap::new(), counters: SocketCounters::default() }
    }

    pub fn settings(&self) -> &SocketsSettings {
        &self.settings
    }

    /// A program has a message for another host.
    pub fn judge(&mut self, now: Time, from: u16, to: u16, message: u32) -> Verdict {
        match self.ways.get_mut(&(from, to)) {
            Some(Way::Open) => return Verdict::Goes,
            Some(Way::Asking { waiting, .. }) => {
                waiting.push(message);
                return Verdict::Waits { first: false };
            }
            Some(Way::Ordinary) => {}
            None => {
                if let Some(request) = self.connect(from, to) {
                    let way = Way::Asking { since: now, request, waiting: vec![message] };
                    self.ways.insert((from, to), way);
                    return Verdict::Waits { first: true };
                }
                self.leave(from, to);
            }
        }
        self.counters.fallen += 1;
        Verdict::Falls
    }

    /// The first message of a socket that connects to another one; none if the ordinary stack
    /// connects.
    fn connect(&mut self, from: u16, to: u16) -> Option<SetUp> {
        let sockets = &mut self.nodes[usize::from(from)].as_mut()?.sockets;
        let socket = sockets.open();
        match sockets.connect(socket, self.settings.address(to), PORT) {
            Ok(Connect::Cluster { request, .. }) => Some(request),
            Ok(Connect::Ordinary) | Err(_) => None,
        }
    }

    /// The two are connected by the ordinary stack, in both directions.
    fn leave(&mut self, from: u16, to: u16) {
        self.ways.insert((from, to), Way::Ordinary);
        self.ways.entry((to, from)).or_insert(Way::Ordinary);
    }

    /// The message of a host that requests a connection.
    pub fn request(&self, from: u16, to: u16) -> Option<SetUp> {
        match self.ways.get(&(from, to))? {
            Way::Asking { request, .. } => Some(*request),
            Way::Open | Way::Ordinary => None,
        }
    }

    /// One attempt to lock the receiver of the socket that listens at `to`, by test-and-set.
    /// Returns whether it was free.
    pub fn lock(&mut self, to: u16) -> bool {
        let Some(node) = &self.nodes[usize::from(to)] else { return true };
        let free = node.lock.try_lock();
        self.counters.locked_out += u64::from(!free);
        free
    }

    pub fn unlock(&self, to: u16) {
        if let Some(node) = &self.nodes[usize::from(to)] {
            let _ = node.lock.disable();
        }
    }

    /// A host receives a message of another one.
    pub fn hear(&mut self, host: u16, said: SetUp) -> Follows {
        let Some(node) = &mut self.nodes[usize::from(host)] else { return Follows::Nothing };
        if let Some(answer) = node.sockets.hear(said) {
            return Follows::Answer(answer);
        }
        match said {
            SetUp::Request { .. } => Follows::MayAccept,
            SetUp::Accepted { to, .. } | SetUp::Refused { to } => match node.sockets.standing(to) {
                Some(Standing::Connected(..)) => Follows::Map,
                Some(Standing::Ordinary) => Follows::Refused,
                _ => Follows::Nothing,
            },
        }
    }

    /// The program of a host accepts the oldest waiting request, unless it is busy with one.
    /// Returns which host asked, and the response.
    pub fn accept(&mut self, host: u16) -> Option<(u16, SetUp)> {
        let node = self.nodes[usize::from(host)].as_mut().filter(|node| !node.accepting)?;
        let Accepted { node: peer, answer, .. } = node.sockets.accept(node.listener?).ok()??;
        node.accepting = true;
        self.counters.accepted += 1;
        let named = |other: &u16| self.settings.node(*other) == Some(peer);
        (0..self.nodes.len() as u16).find(named).map(|peer| (peer, answer))
    }

    /// The program of a host is done with the request that it has accepted.
    pub fn accepted(&mut self, host: u16) {
        if let Some(node) = &mut self.nodes[usize::from(host)] {
            node.accepting = false;
        }
    }

    /// A host may send to another one from now on. Returns the messages that waited for it.
    pub fn open(&mut self, now: Time, from: u16, to: u16, asked: bool) -> Vec<u32> {
        match self.ways.get_mut(&(from, to)) {
            // Its own request is still in progress; the response will bring what it asked for.
            Some(Way::Asking { .. }) if !asked => return Vec::new(),
            Some(way) => {
                if let Way::Asking { since, waiting, .. } = std::mem::replace(way, Way::Open) {
                    self.counters.set_up += now.since(since);
                    return waiting;
                }
            }
            None => drop(self.ways.insert((from, to), Way::Open)),
        }
        Vec::new()
    }

    /// A request was refused: the ordinary stack connects the two. Returns the messages that waited.
    pub fn refuse(&mut self, from: u16, to: u16) -> Vec<u32> {
        self.counters.refused += 1;
        let before = self.ways.remove(&(from, to));
        self.leave(from, to);
        let Some(Way::Asking { waiting, .. }) = before else { return Vec::new() };
        self.counters.fallen += waiting.len() as u64;
        waiting
    }

    /// What waits for what, one sentence per element.
    pub fn waiting(&self) -> impl Iterator<Item = String> {
        let asks = |(pair, way): (&(u16, u16), &Way)| match way {
            Way::Asking { .. } => {
                Some(format!("host {} waits for host {} to accept a connection", pair.0, pair.1))
            }
            Way::Open | Way::Ordinary => None,
        };
        self.ways.iter().filter_map(asks)
    }
}
