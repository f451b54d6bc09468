//! Messages under way, and where their time went.

use weft_fabric::fabric::RouteState;
use weft_fabric::graph::StationPacket;
use weft_fabric::interface::Cargo;
use weft_kernel::Id;
use weft_units::{Bytes, Span, Time};

use crate::drive::carrier::{Destination, Ticket};

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It carries what a program handed over.
    Data,
    /// It answers a message of so many bytes, the first of which was moved at `begun`.
    Acknowledgment { begun: Time, answered: Bytes },
    /// Its initiator has arrived at the barrier.
    BarrierRequest,
    /// All hosts have arrived at the barrier.
    BarrierAcknowledgment,
}

/// A packet in a FIFO.
pub(super) type Packet = StationPacket<Id<Carried>>;

/// A message under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub purpose: Use,
    pub from: u16,
    pub to: Destination,
    pub size: Bytes,
    pub packets: u32,
    pub channel: usize,
    pub ticket: Ticket,
    pub generated: Time,
    /// When its first byte was moved from the memory of the initiator.
    pub begun: Time,
    pub has_begun: bool,
    /// How many targets do not have it yet.
    pub missing: u32,
    pub route_state: RouteState,
    /// How many switches its first packet has passed.
    pub hops: u8,
    /// When its first packet was put where it is.
    pub head: Time,
    /// When the switch that it is in began to read its header, and to set up its transfer.
    pub read: Time,
    pub invoked: Time,
    /// When its last packet was put where it is.
    pub tail: Time,
    pub spent: Spent,
    /// Whether a packet of it has a wrong bit, which nothing on its way notices.
    pub damaged: bool,
}

/// Where the last packet of a message spent its time so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub memory: Span,
    pub link_wait: Span,
    pub transmission: Span,
    pub wire: Span,
    pub switch: Span,
    pub switch_wait: Span,
}

impl Carried {
    /// What the movers of hosts see of it.
    pub fn cargo(&self, message: Id<Carried>) -> Cargo<Id<Carried>> {
        let has_pages = self.purpose == Use::Data;
        Cargo { message, size: self.size, packets: self.packets, has_pages }
    }
}

impl Use {
    /// Which pair of FIFOs carries it: what hosts handed over the first one, everything that the
    /// adapters and switches say to each other the second one.
    pub fn channel(self) -> usize {
        usize::from(self != Use::Data)
    }
}

/// How long the first packets of messages took for one part of the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Leg {
    fn default() -> Leg {
        Leg { count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl Leg {
    pub fn add(&mut self, span: Span) {
        self.count += 1;
        self.sum += u128::from(span.0);
        self.min = self.min.min(span.0);
        self.max = self.max.max(span.0);
    }

    /// Least, mean and greatest, in microseconds.
    pub fn us(&self) -> [f64; 3] {
        if self.count == 0 {
            return [f64::NAN; 3];
        }
        let mean = self.sum as f64 / self.count as f64 * 1e-6;
        [Span(self.min).as_us(), mean, Span(self.max).as_us()]
    }
}
