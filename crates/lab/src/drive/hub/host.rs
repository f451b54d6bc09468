//! A host and its adapter: stores that wait for the bus, packets that wait for the link, packets
//! from the link that wait for the bus.

use std::collections::VecDeque;

use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Id, Stream};
use weft_protocol::window::{PacketName, Pieces};
use weft_units::{Bytes, Span, Time};

use super::recovery::Losses;
use super::room::Room;
use crate::drive::carrier::Ticket;

/// What a packet is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// The traffic of a source.
    Traffic,
    /// A message.
    Message(Ticket),
    /// An operation, which the adapter of each target answers.
    Request(u32),
    /// Such an answer.
    Answer(u32),
    /// That its sender is at a barrier.
    Announce(u32),
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
}

/// A packet from the bus of its initiator to the memories of its targets.
#[derive(Debug)]
pub(super) struct Packet {
    pub from: u16,
    pub targets: u64,
    pub size: Bytes,
    pub span: Span,
    /// Whether it ends its message.
    pub last: bool,
    pub purpose: Purpose,
    /// Targets that it has not reached.
    pub missing: u32,
    pub name: Option<PacketName>,
    pub generated: Time,
    /// Stores were at the bus; the bus began to take it in; ready for the link; first byte sent;
    /// granted in the hub; checked at the adapter of its target.
    pub stored: Time,
    pub taken: Time,
    pub ready: Time,
    pub start: Time,
    pub granted: Time,
    pub there: Time,
}

impl Packet {
    /// Whether it came over the bus, and has a place between bus and link.
    pub fn is_stored(&self) -> bool {
        !matches!(self.purpose, Purpose::Answer(_))
    }
}

#[derive(Debug)]
pub(super) struct Host {
    pub source: Option<Source>,
    pub feedback: Feedback,
    /// Which of its writes are broadcast.
    pub random: Stream,
    /// What is damaged on the way to it, if anything ever is.
    pub losses: Option<Box<Losses>>,
    pub runs: VecDeque<Run>,
    /// Packets taken in, for which the link has no room yet.
    pub link_queue: VecDeque<Id<Packet>>,
    pub link_free: Time,
    /// Room in the adapter between bus and link; none if it is without limit.
    pub send_room: Option<Room>,
    pub incoming: VecDeque<Id<Packet>>,
    pub bus_free: Time,
    /// When the bus is looked at next.
    pub bus_wake: Time,
    /// Whether the bus went to a packet from the link last.
    pub received_last: bool,
    /// How long the bus was held.
    pub bus_held: Span,
}

impl Host {
    pub fn new(
        source: Option<Source>,
        send_buffers: Option<u32>,
        random: Stream,
        losses: Option<Box<Losses>>,
    ) -> Host {
        Host {
            feedback: source.as_ref().map_or(Feedback::None, Source::feedback),
            source,
            random,
            losses,
            runs: VecDeque::new(),
            link_queue: VecDeque::new(),
            link_free: Time::ZERO,
            send_room: send_buffers.map(Room::of),
            incoming: VecDeque::new(),
            bus_free: Time::ZERO,
            bus_wake: Time::NEVER,
            received_last: false,
            bus_held: Span::ZERO,
        }
    }

    /// When the next store can have the bus for itself: it is there and the adapter has room.
    #[inline]
    pub fn store_time(&self, now: Time) -> Time {
        let Some(run) = self.runs.front() else { return Time::NEVER };
        let room = self.send_room.as_ref().map_or(now, |room| room.next(now));
        room.max(run.ready)
    }
}
