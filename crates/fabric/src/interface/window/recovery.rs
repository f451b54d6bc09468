//! The messages by which software restores order after an error (MEMORY CHANNEL Ordering Rules).
//!
//! An adapter that finds a damaged packet discards everything behind it, except on pages enabled under
//! error. Over such pages the software of the lowest node, the manager, restores order, message by
//! message through the hub: all halt; all report what they sent and in which order they received;
//! missing packets are retransmitted in an order that agrees with that of every node; when nothing is
//! missing, all open their paths and continue. A message that is damaged itself is missed at its
//! answer, and the survey begins again.
//!
//! The part has no packets and no events: it is told which message has reached whose memory and
//! which timer has expired, and returns which messages to send and what to wait for
//! ([`SoftwareAct`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_protocol::window::{Admission, Path, PathState, Retransmission};
use weft_units::{Bytes, Span, Time};

use super::{Answer, Logs};

mod manager;
#[cfg(test)]
mod tests;

/// A message of the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryMessage {
    kind: Kind,
    /// Of the recovery, or of the survey within it.
    number: u32,
    /// Which packet of the message it is, and how many make it up.
    part: u32,
    parts: u32,
}

/// What a message of the recovery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To the manager: there is an error, or a node that has been halted for long.
    Report,
    /// To all: send nothing new.
    Halt,
    Halted,
    /// To all: what did you send and receive?
    Survey,
    Surveyed,
    /// To one: send these again.
    SendAgain,
    SentAgain,
    /// To all: nothing is missing, take ordinary packets again.
    Open,
    Opened,
    /// An adapter has answered a request since the survey.
    Late,
    /// To all: go on.
    Resume,
}

/// What the manager waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Halting,
    Surveying,
    Replaying,
    Opening,
}

/// What software waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoftwareTimer {
    /// A node looks after itself while it is not as usual: [`RecoverySoftware::nag`].
    Nag(u16),
    /// The manager has no response to the step of this number: [`RecoverySoftware::retry`].
    Retry(u32),
}

/// What software does; `P` is what a sender keeps of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SoftwareAct<P> {
    /// A node sends a message, before anything ordinary.
    Send {
        /// The node.
        from: u16,
        /// A bit for each target, not none.
        targets: u64,
        /// Its size.
        size: Bytes,
        /// What it says.
        message: RecoveryMessage,
    },
    /// A node sends a packet again, before anything ordinary.
    Again {
        /// The node.
        from: u16,
        /// Those of its targets that miss it.
        targets: u64,
        /// Its number.
        number: u64,
        /// The survey that found it missing.
        survey: u32,
        /// What the node has kept of it.
        packet: P,
    },
    /// A node has something to send, or may send ordinary packets again.
    Wake(u16),
    /// Something is due a time later.
    After(Span, SoftwareTimer),
    /// What nodes have received contradicts each other: there is no order that agrees with it.
    Contradiction(String),
}

/// What becomes of a packet at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is taken.
    Taken,
    /// It is discarded.
    Discarded {
        /// Since it is damaged itself; otherwise since it is behind one that was.
        is_damaged: bool,
        /// It is the first one of an error, which interrupts software.
        is_first: bool,
        /// The error of the path is beyond repair.
        is_failed: bool,
    },
}

/// A packet as the path to its target sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPacket {
    /// Whether its code is right.
    pub is_whole: bool,
    /// Whether its page is enabled under error.
    pub is_under_error: bool,
    /// The survey for which it is retransmitted, if it is.
    pub survey: Option<u32>,
}

/// How software recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryRules {
    /// From a message to its repetition if it has no effect.
    pub retry: Span,
    /// Damaged packets within one recovery of a path after which its error is beyond repair.
    pub tries: u8,
    /// The size of a packet with the entries of a message.
    pub message: Bytes,
}

/// A node as software sees it.
#[derive(Debug)]
struct Recovering {
    path: Path,
    /// A packet was lost here since it was surveyed last.
    is_spoilt: bool,
    survey: u32,
    recovery: u32,
    /// The number of its next packet when it was surveyed.
    next: u64,
    /// The survey after which it took ordinary packets again.
    opened: u32,
    /// Received packets of a request.
    parts: u32,
    /// The last message of a recovery.
    heard: Time,
    is_nagging: bool,
    /// Whether it sends nothing ordinary.
    is_halted: bool,
}

/// The manager of a recovery.
#[derive(Debug, Default)]
struct Manager {
    node: u16,
    phase: Phase,
    /// The recovery, and the survey within it.
    number: u32,
    survey: u32,
    /// Nodes that have not answered, and the received packets of their responses.
    waiting: u64,
    parts: BTreeSet<(u16, u32)>,
    answers: BTreeMap<u16, Answer>,
    plan: VecDeque<Retransmission>,
    /// Something had been sent and was neither taken nor discarded.
    is_late: bool,
    batch: Vec<Retransmission>,
    /// Counts the steps, so that a repetition knows whether the last one had an effect.
    progress: u32,
}

/// The most packets that one node sends again before others have their turn.
const BATCH: usize = 16;

/// Bytes of one packet in a request, its number and its targets; in a survey by its sender, its
/// targets; and in a survey by its target, who sent it, since those of one sender come in order.
const ENTRY: u64 = 8;
const SENT: u64 = 4;
const RECEIVED: u64 = 1;

/// A message of the recovery that says nothing more than its kind.
const BARE: Bytes = Bytes(8);

/// The software of all nodes.
#[derive(Debug)]
pub struct RecoverySoftware<P> {
    rules: RecoveryRules,
    nodes: Vec<Recovering>,
    logs: Logs<P>,
    manager: Manager,
    recoveries: u32,
    surveys: u32,
    open_since: Option<Time>,
    counts: Counts,
    acts: VecDeque<SoftwareAct<P>>,
}

#[derive(Debug, Default)]
struct Counts {
    recoveries: u64,
    messages: u64,
    again: u64,
    spans: Vec<Span>,
}

/// A path on which nothing ordinary is taken before a recovery.
fn path_in_recovery(tries: u8) -> Path {
    let mut path = Path::new(tries);
    path.arrive(false, false);
    path.recover();
    path
}

impl<P: Copy> RecoverySoftware<P> {
    /// The software of nodes of which nothing is wrong.
    pub fn new(rules: RecoveryRules, nodes: u16) -> RecoverySoftware<P> {
        let node = |_| Recovering {
            path: Path::new(rules.tries),
            is_spoilt: false,
            survey: 0,
            recovery: 0,
            next: 0,
            opened: 0,
            parts: 0,
            heard: Time::ZERO,
            is_nagging: false,
            is_halted: false,
        };
        RecoverySoftware {
            rules,
            nodes: (0..nodes).map(node).collect(),
            logs: Logs::new(usize::from(nodes)),
            manager: Manager::default(),
            recoveries: 0,
            surveys: 0,
            open_since: None,
            counts: Counts::default(),
            acts: VecDeque::new(),
        }
    }

    fn of(&mut self, node: u16) -> &mut Recovering {
        &mut self.nodes[usize::from(node)]
    }

    /// What software does next because of what it was told.
    pub fn next_act(&mut self) -> Option<SoftwareAct<P>> {
        self.acts.pop_front()
    }

    /// What nodes keep to send again.
    #[inline]
    pub fn logs(&mut self) -> &mut Logs<P> {
        &mut self.logs
    }

    /// Whether a node sends nothing ordinary.
    #[inline]
    pub fn is_halted(&self, node: u16) -> bool {
        self.nodes[usize::from(node)].is_halted
    }

    /// Whether an error is open.
    #[inline]
    pub fn is_error_open(&self) -> bool {
        self.open_since.is_some()
    }

    /// An error is open from now on, if none was.
    pub fn open(&mut self, now: Time) {
        self.open_since.get_or_insert(now);
    }

    /// A packet is at its target, which takes it or discards it.
    pub fn admit(&mut self, now: Time, target: u16, packet: PathPacket) -> Admitted {
        let PathPacket { is_whole, is_under_error, survey } = packet;
        let own = self.of(target);
        let before = own.path.state();
        let admission = own.path.arrive(is_whole, is_under_error);
        let is_late = survey.is_some_and(|survey| own.is_spoilt || survey != own.survey);
        if admission == Admission::Accept && !is_late {
            return Admitted::Taken;
        }
        own.is_spoilt = true;
        let is_failed = own.path.state() == PathState::Failed;
        self.open(now);
        Admitted::Discarded {
            is_damaged: admission == Admission::Damaged,
            is_first: before == PathState::Normal,
            is_failed,
        }
    }

    /// A node stops.
    pub fn die(&mut self, node: u16) {
        self.of(node).is_halted = false;
    }

    /// A node comes on line. It sends nothing before the cluster has been surveyed.
    pub fn join(&mut self, now: Time, node: u16) {
        let path = path_in_recovery(self.rules.tries);
        let own = self.of(node);
        (own.path, own.heard, own.is_halted) = (path, now, true);
        self.open(now);
    }

    /// A node starts again on another network: what it had given to the first one must be
    /// retransmitted.
    pub fn switch(&mut self, now: Time, node: u16) {
        let path = path_in_recovery(self.rules.tries);
        let own = self.of(node);
        (own.path, own.is_spoilt, own.is_halted) = (path, true, true);
        self.open(now);
    }

    /// The error of the path to a node is beyond repair and there is no other network: its software
    /// tries again.
    pub fn try_again(&mut self, node: u16) {
        self.of(node).path = path_in_recovery(self.rules.tries);
    }

    /// Software sends a message: before anything ordinary of its node.
    fn tell(&mut self, from: u16, targets: u64, bytes: u64, (kind, number): (Kind, u32)) {
        if targets == 0 {
            return;
        }
        let parts = bytes.div_ceil(self.rules.message.0 - 4).max(1) as u32;
        let size = if bytes == 0 { BARE } else { self.rules.message };
        for part in 0..parts {
            let message = RecoveryMessage { kind, number, part, parts };
            self.acts.push_back(SoftwareAct::Send { from, targets, size, message });
        }
        self.counts.messages += u64::from(parts);
        self.acts.push_back(SoftwareAct::Wake(from));
    }

    /// The manager checks again whether its step had an effect.
    fn await_progress(&mut self) {
        let timer = SoftwareTimer::Retry(self.manager.progress);
        self.acts.push_back(SoftwareAct::After(self.rules.retry, timer));
    }

    /// How many recoveries there were, how many messages they took, and how many copies of packets were
    /// sent again.
    pub fn counts(&self) -> [u64; 3] {
        [self.counts.recoveries, self.counts.messages, self.counts.again]
    }

    /// How long errors were open, in microseconds: on average, and at the most.
    pub fn open_us(&self) -> [f64; 2] {
        let spans = &self.counts.spans;
        let sum: u64 = spans.iter().map(|span| span.0).sum();
        let mean = Span(sum / (spans.len() as u64).max(1));
        [mean.as_us(), spans.iter().max().copied().unwrap_or(Span::ZERO).as_us()]
    }
}
