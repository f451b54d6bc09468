//! The channel that carries the signalling of a scheduled one, as packets that keep to its schedule
//! (Clint 3.3, Figure 5).

use weft_fabric::control::{CarriedTiming, ScheduledArrival, ScheduledPacket};
use weft_fabric::link::SharedLinks;
use weft_units::{Span, Time};

use crate::drive::Channel;
use crate::drive::carrier::{Carrier, Message, Notice};
use crate::drive::engine::Engine;
use crate::drive::trace::TraceEntry;

/// A channel that carries signalling besides what it carries for its own hosts.
#[derive(Debug)]
pub struct CarryingChannel {
    channel: Engine,
    /// From an input of its switch to the far end of an output.
    from_switch: Span,
    trace: Option<Vec<TraceEntry>>,
}

impl CarryingChannel {
    /// Has `channel` keep its links clear for signalling with this timing, in slots of this length.
    pub fn new(mut channel: Engine, timing: &CarriedTiming, slot: Span) -> CarryingChannel {
        if let Some(shared) = timing.shared {
            channel.share_links(SharedLinks::new(shared, channel.hosts() as usize));
        }
        channel.let_targets_disable();
        channel.keep_clear(timing.calendar(slot));
        let from_switch = timing.latency + timing.propagation;
        CarryingChannel { channel, from_switch, trace: None }
    }

    /// The channel itself.
    pub fn channel(&self) -> &Engine {
        &self.channel
    }

    pub(super) fn channel_mut(&mut self) -> &mut Engine {
        &mut self.channel
    }

    pub(super) fn into_channel(self) -> Engine {
        self.channel
    }

    // Signalling.

    /// Sends a packet of the signalling.
    pub(super) fn send(&mut self, now: Time, packet: ScheduledPacket) {
        self.channel.send_scheduled(now, packet);
    }

    /// Lets one event happen if one is due by `until`. Returns when it was, if one did.
    #[inline]
    pub(super) fn step(&mut self, until: Time) -> Option<Time> {
        self.channel.step(until)
    }

    /// The packets of the signalling that have arrived since the last call.
    #[inline]
    pub(super) fn arrivals(&mut self) -> Vec<ScheduledArrival> {
        match self.channel.has_scheduled_arrivals() {
            true => self.channel.scheduled_arrivals(),
            false => Vec::new(),
        }
    }

    // Links that both channels share.

    /// The links over which transfers begin, where both channels send over the same ones.
    pub(super) fn links(&mut self) -> Option<&mut SharedLinks> {
        self.channel.shared_links_mut()
    }

    /// When the last byte of the transfer to `host` is there by what is known now, on links that
    /// both channels share.
    pub(super) fn arrival(&self, host: u16) -> Option<Time> {
        self.channel.shared_links().map(|links| links.passed(host) + self.from_switch)
    }

    /// When the last byte of the transfer of `host` has left by what is known now, on links that both
    /// channels share.
    pub(super) fn departure(&self, host: u16) -> Option<Time> {
        self.channel.shared_links().map(|links| links.left(host))
    }

    // The trace.

    pub(super) fn record_trace(&mut self) {
        self.channel.record_trace();
        self.trace = Some(Vec::new());
    }

    /// Notes a packet of the signalling, if a trace is kept.
    pub(super) fn note(&mut self, entry: impl FnOnce() -> Option<TraceEntry>) {
        if let Some(trace) = &mut self.trace {
            trace.extend(entry());
        }
    }

    pub(super) fn take_trace(&mut self) -> Vec<TraceEntry> {
        let mut trace = self.channel.take_trace();
        trace.extend(self.trace.as_mut().map(std::mem::take).unwrap_or_default());
        trace.sort_by_key(|entry| entry.time);
        trace
    }

    // Messages of a program on the channel, beside the signalling. The channel is never advanced as a
    // carrier, since what arrives on it is to be heard instant by instant.

    /// When something happens next on the channel.
    pub(super) fn next_time(&mut self) -> Time {
        self.channel.next_with_adapters()
    }

    /// A program hands a message over.
    pub(super) fn offer(&mut self, now: Time, message: Message) {
        self.channel.offer(now, message);
    }

    /// Whether messages of a program are under way.
    pub(super) fn carries_messages(&self) -> bool {
        self.channel.adapters_carry_messages()
    }

    pub(super) fn next_notice(&self) -> Option<Time> {
        self.channel.next_notice_of_adapters()
    }

    pub(super) fn take_notices(&mut self, notices: &mut Vec<Notice>) {
        self.channel.take_notices_of_adapters(notices);
    }
}
