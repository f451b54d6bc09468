//! A host and its adapter: stores that wait for the bus, packets that wait for the link, packets
//! from the link that wait for the bus.

use std::collections::VecDeque;

use weft_fabric::switch::Lane;
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Id, Stream};
use weft_protocol::window::{NetworkPage, Node, PacketName, Pieces, Rail};
use weft_units::{Bytes, Span, Time};

use super::recovery::Recovery;
use super::room::Room;
use crate::drive::carrier::Ticket;

/// What a packet is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// The traffic of a source.
    Traffic,
    /// A message.
    Message(Ticket),
    /// What a device of the host writes, without a store of its processor.
    Device,
    /// A message that a target must not use yet.
    Unconfirmed,
    /// An operation, which the adapter of each target answers.
    Request(u32),
    /// Such an answer.
    Answer(u32),
    /// That a packet has arrived which was stored then, and whose page asks for this.
    Acknowledgment(Time),
    /// The copy of a message for its own node, which its program has not asked for.
    Copy,
    /// That its sender is at a barrier.
    Announce(u32),
    /// A message of a recovery.
    Recovery(Recovery),
    /// The packet of this number once more, for this survey.
    Again(u64, u32),
}

impl Purpose {
    /// Whether it goes before everything ordinary, and also while its node is halted.
    pub fn is_urgent(self) -> bool {
        matches!(self, Purpose::Recovery(_) | Purpose::Again(..))
    }
}

/// What a program hands over at once: the stores of one message.
#[derive(Debug)]
pub(super) struct Run {
    pub targets: u64,
    pub generated: Time,
    /// When the first store is at the bus.
    pub ready: Time,
    pub pieces: Pieces,
    /// The next piece.
    pub next: Bytes,
    /// Pieces after the next one, the flag among them.
    pub left: u32,
    pub purpose: Purpose,
    /// The page that it is stored to, where pages are mapped.
    pub page: Option<NetworkPage>,
    /// Whether its node is a target only since the page copies what is stored to it.
    pub is_copied: bool,
}

/// What the stores of a message are to a target, or as a copy that nobody has asked for.
#[inline]
pub(super) fn purpose_at(purpose: Purpose, is_copy: bool) -> Purpose {
    match purpose {
        Purpose::Traffic | Purpose::Device | Purpose::Message(_) if is_copy => Purpose::Copy,
        _ => purpose,
    }
}

/// How many targets there are. That it is nearly always one saves counting.
#[inline]
pub(super) fn count_of(targets: u64) -> u32 {
    if targets.is_power_of_two() { 1 } else { targets.count_ones() }
}

/// A packet from the bus of its initiator to the memories of its targets.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Packet {
    pub from: u16,
    pub targets: u64,
    pub size: Bytes,
    pub span: Span,
    /// Whether it ends its message.
    pub last: bool,
    pub purpose: Purpose,
    /// As of its [`Run`].
    pub page: Option<NetworkPage>,
    pub is_copied: bool,
    /// Targets that it has not reached, at most 64.
    pub missing: u8,
    /// Its place among the packets of its sender, where anybody asks for it.
    pub number: Option<u64>,
    pub generated: Time,
    /// The bus began to take it in; ready for the link; first byte sent; granted in the hub.
    pub taken: Time,
    pub ready: Time,
    pub start: Time,
    pub granted: Time,
    /// The network that it is on, whether its code is right so far, and the survey that it is sent
    /// again for.
    pub rail: Rail,
    pub is_whole: bool,
    pub survey: Option<u32>,
    /// Whether nothing can get before it on its link any more.
    pub is_settled: bool,
}

const _: () = assert!(size_of::<Packet>() == 128, "two lines of the cache");

impl Packet {
    pub fn name(&self) -> Option<PacketName> {
        let sender = Node(self.from as u8);
        self.number.map(|number| PacketName { sender, number })
    }

    /// Whether its page is enabled under error.
    pub fn is_under_error(&self) -> bool {
        self.survey.is_some() || matches!(self.purpose, Purpose::Recovery(_))
    }

    /// Whether it came over the bus, and has a place between bus and link. What an adapter sends by
    /// itself did not, unless software sends it again.
    pub fn is_stored(&self) -> bool {
        let is_own = matches!(self.purpose, Purpose::Answer(_) | Purpose::Acknowledgment(_));
        !is_own || self.survey.is_some()
    }

    /// What it is to a target.
    #[inline]
    pub fn purpose_at(&self, target: u16) -> Purpose {
        purpose_at(self.purpose, self.is_copied && target == self.from)
    }
}

#[derive(Debug)]
pub(super) struct Host {
    pub source: Option<Source>,
    pub feedback: Feedback,
    /// Which of its writes are broadcast.
    pub random: Stream,
    /// Whether it sends nothing ordinary, and the network that it sends on.
    pub is_halted: bool,
    pub rail: Rail,
    pub runs: VecDeque<Run>,
    /// Packets taken in, for which the link has no room yet.
    pub link_queue: VecDeque<Id<Packet>>,
    pub link_free: Time,
    /// Whether a packet is on the link, as far as is known, whose beginning is not settled.
    pub is_sending: bool,
    /// The link with its control packets.
    pub lane: Lane,
    /// Room in the adapter between bus and link; none if it is without limit.
    pub send_room: Option<Room>,
    pub incoming: VecDeque<Id<Packet>>,
    pub bus_free: Time,
    /// Whether the bus went to a packet from the link last.
    pub received_last: bool,
    /// How long the bus was held.
    pub bus_held: Span,
}

impl Host {
    pub fn new(
        source: Option<Source>,
        send_room: Option<Room>,
        lane: Lane,
        random: Stream,
    ) -> Host {
        Host {
            feedback: source.as_ref().map_or(Feedback::None, Source::feedback),
            source,
            random,
            is_halted: false,
            rail: Rail::First,
            runs: VecDeque::new(),
            link_queue: VecDeque::new(),
            link_free: Time::ZERO,
            is_sending: false,
            lane,
            send_room,
            incoming: VecDeque::new(),
            bus_free: Time::ZERO,
            received_last: false,
            bus_held: Span::ZERO,
        }
    }

    /// The packet that is committed to a time next. On a short cable that is one at a time: more is
    /// known when the next one can follow.
    #[inline]
    pub fn next_to_send(&self, is_long_cable: bool) -> Option<Id<Packet>> {
        if self.is_sending && !is_long_cable { None } else { self.link_queue.front().copied() }
    }

    /// When the next store can have the bus for itself: it is there and the adapter has room.
    #[inline]
    pub fn store_time(&self, now: Time) -> Time {
        let Some(run) = self.runs.front() else { return Time::NEVER };
        if self.is_halted && !run.purpose.is_urgent() {
            return Time::NEVER;
        }
        let room = self.send_room.as_ref().map_or(now, |room| room.next(now));
        room.max(run.ready)
    }
}
