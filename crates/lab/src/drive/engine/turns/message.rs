//! Messages in flight, and their latency budget.

use weft_fabric::interface::Cargo;
use weft_fabric::measure::Journey;
use weft_units::{Bytes, Span, Time};

use crate::drive::carrier::{Destination, Ticket};

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It carries what a program submitted.
    Data,
    /// It answers a message of this many bytes, the first of which was moved at `begun`.
    Acknowledgment { begun: Time, answered: Bytes },
    /// Its initiator has arrived at the barrier.
    BarrierRequest,
    /// All hosts have arrived at the barrier.
    BarrierAcknowledgment,
}

/// The state of a message between links with turns, in addition to what the engine keeps of every
/// packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub purpose: Use,
    pub to: Destination,
    pub size: Bytes,
    /// In how many packets.
    pub packets: u32,
    pub ticket: Ticket,
    pub has_begun: bool,
    /// How many targets do not have it yet.
    pub missing: u32,
    pub journey: Journey,
    /// Whether a packet of it has a wrong bit, which nothing on its route notices.
    pub damaged: bool,
}

impl Carried {
    /// What the movers of hosts see of it.
    pub fn cargo(&self, message: u32) -> Cargo<u32> {
        let has_pages = self.purpose == Use::Data;
        Cargo { message, size: self.size, packets: self.packets, has_pages }
    }

    /// The pair of FIFOs that carries it.
    pub fn channel(&self) -> usize {
        self.purpose.channel()
    }
}

impl Use {
    /// The pair of FIFOs that carries it: the first one for what hosts submitted, the second one
    /// for everything that adapters and switches send each other.
    pub fn channel(self) -> usize {
        usize::from(self != Use::Data)
    }
}

/// The time of the first packets of messages on one leg of their route.
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
