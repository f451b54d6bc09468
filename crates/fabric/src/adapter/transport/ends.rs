//! The state of a flow at its initiator and at its target.

use weft_protocol::congestion::{CongestionControl, Demand};
use weft_protocol::spraying::Spraying;
use weft_protocol::transport::{Answer, Notifier, Receiver, Sender};
use weft_units::{Bytes, Span, Time};

/// What the initiator of a flow keeps of it.
#[derive(Debug)]
pub(super) struct Initiator {
    pub sender: Sender,
    pub control: CongestionControl,
    /// Its queue pair among those that are kept, and how many bytes that carried before, which congestion
    /// control counts on.
    pub queue_pair: u32,
    pub before: u64,
    pub spraying: Option<Spraying>,
    /// From when on the next packet may start.
    pub ready: Time,
    /// When something new was heard, or something was sent while nothing was under way.
    pub progress: Time,
    /// Whether it stands among those that may send, and the one behind it there.
    pub is_queued: bool,
    pub behind: u32,
    /// Whether it will be woken because it may send, and because of the timer.
    pub is_waking: bool,
    pub has_timer: bool,
}

/// What the target of a flow keeps of it.
#[derive(Debug)]
pub(super) struct Target {
    pub receiver: Receiver,
    pub notifier: Notifier,
    /// Its queue pair among those that are kept.
    pub queue_pair: u32,
    /// Bytes that came since it last acknowledged any.
    pub owed: u64,
    /// Whether its sender waits until everything up to what has come is there.
    pub is_asked: bool,
    /// The credits of the flow, where it needs any.
    pub demand: Demand,
}

impl Initiator {
    /// Whether the next packet fits the window and has credit, whenever it may start.
    #[inline]
    pub fn may_send(&self, packet: u64, most: Option<Bytes>) -> bool {
        self.sender.next().is_some() && self.fits(packet, most)
    }

    /// Whether it could send and has no credits.
    pub fn lacks_credit(&self) -> bool {
        !self.control.has_credit() && self.sender.next().is_some()
    }

    /// Up to where it asks for credits, where packets are of a size but the last one, which is `short` of it.
    pub fn pull_target(&self, packet: u64, short: u64) -> u32 {
        let waiting = u64::from(self.sender.waiting()) * packet;
        let short = if self.sender.has_last_to_send() { short } else { 0 };
        self.control.pull_target(waiting.saturating_sub(short))
    }

    /// Whether another packet fits the window and has credit.
    #[inline]
    pub fn fits(&self, packet: u64, most: Option<Bytes>) -> bool {
        let outstanding = u64::from(self.sender.outstanding());
        let after = ((outstanding + 1) * packet) as f64;
        let window = self.control.window().min(most.map_or(f64::INFINITY, |own| own.0 as f64));
        self.control.has_credit() && (outstanding == 0 || after <= window)
    }

    /// From the start of a packet to the next at the rate of now.
    #[inline]
    pub fn gap(&mut self, now: Time, size: Bytes) -> Span {
        let rate = self.control.rate(now);
        Span(libm::round(size.0 as f64 * 8e12 / rate) as u64)
    }
}

impl Target {
    /// Counts a packet that came. Returns whether to acknowledge it now.
    pub fn owes(&mut self, size: u64, after: u64, asks: bool) -> bool {
        self.owed += size;
        self.is_asked |= asks;
        let is_answered = self.is_asked && self.receiver.is_in_order();
        if is_answered {
            self.is_asked = false;
        }
        asks || is_answered || self.owed >= after
    }

    /// An acknowledgment tells of the packets before its own, too.
    pub fn tell_before(&mut self, answer: Answer) -> Answer {
        self.owed = 0;
        Answer { before: self.receiver.before(answer.number), ..answer }
    }
}
