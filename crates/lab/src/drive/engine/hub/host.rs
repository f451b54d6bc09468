//! A host with its adapter, and a packet on its way.

use weft_fabric::interface::window::{
    Damageable, HostBus, PathPacket, RecoveryMessage, Sent, StoresFor,
};
use weft_fabric::link::LaneSender;
use weft_fabric::workload::Feedback;
use weft_kernel::{Id, Stream};
use weft_protocol::window::{NetworkPage, Node, PacketName, Rail};
use weft_units::{Bytes, Span, Time};

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
    /// The response to an operation.
    Answer(u32),
    /// That a packet has arrived which was stored then, and whose page asks for this.
    Acknowledgment(Time),
    /// The copy of a message for its own node, which its program has not asked for.
    Copy,
    /// That its sender is at a barrier.
    Announce(u32),
    /// A message of a recovery.
    Recovery(RecoveryMessage),
    /// The packet of this number once more, for this survey.
    Again(u64, u32),
}

impl Purpose {
    /// Whether it goes before everything ordinary, and also while its node is halted.
    pub fn is_urgent(self) -> bool {
        matches!(self, Purpose::Recovery(_) | Purpose::Again(..))
    }

    /// The stores of a message for this, to these targets.
    pub fn stores(self, targets: u64) -> StoresFor<Purpose> {
        StoresFor { targets, purpose: self, is_urgent: self.is_urgent() }
    }
}

/// The purpose of a message's stores at a target; at the sender itself they are only a copy.
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
    /// The page that it was stored to, and whether its node is a target as a copy only.
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

    /// As the path to its target sees it, if its code is right.
    pub fn on_path(&self, is_whole: bool) -> PathPacket {
        let is_recovery = matches!(self.purpose, Purpose::Recovery(_));
        let is_under_error = self.survey.is_some() || is_recovery;
        PathPacket { is_whole, is_under_error, survey: self.survey }
    }

    /// As far as the life of its sender matters to it.
    pub fn sent(&self) -> Sent {
        let Packet { from, taken, start, span, .. } = *self;
        Sent { from, taken, start, end: start + span }
    }

    /// As its bytes are made.
    pub fn bytes(&self) -> Damageable {
        let Packet { from, targets, size, missing, .. } = *self;
        let number = self.number.unwrap_or(0);
        Damageable { from, targets, size, number, is_broadcast: missing > 1 }
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
    /// What its source is to hear of.
    pub feedback: Feedback,
    /// Which of its writes are broadcast.
    pub random: Stream,
    /// The network that it sends on.
    pub rail: Rail,
    pub bus: HostBus<Purpose, Id<Packet>>,
    /// Packets taken in, and the link that they wait for.
    pub link: LaneSender<Id<Packet>>,
}

impl Host {
    pub fn new(
        feedback: Feedback,
        bus: HostBus<Purpose, Id<Packet>>,
        link: LaneSender<Id<Packet>>,
        random: Stream,
    ) -> Host {
        Host { feedback, random, rail: Rail::First, bus, link }
    }
}
