//! A switch with packet buffers at its outputs (Clint's B3).
//!
//! Cut-through: a packet leaves an idle output while it is still arriving. A packet occupies its
//! buffer from the first byte in to the last byte out. What the paper does not state, how many
//! packets can be written into the buffers of one output at once, is a setting: it decides whether
//! the switch is limited by contention at all.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;
use weft_units::{Limit, Span, Time};

use super::{Arrival, Effect, Loss, Simultaneous};

/// Settings of an output-buffered switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputBufferedSettings {
    /// From a byte at an input to the same byte at an idle output.
    pub latency: Span,
    /// How many packets an output holds, including the one being sent.
    pub buffers: Limit,
    /// How many packets can be written into the buffers of one output at the same time; each write
    /// lasts as long as the transmission of the packet.
    pub writers: Limit,
    /// What happens to a packet that finds no free buffer, or no free write port.
    #[serde(default)]
    pub overflow: Overflow,
    /// Which of several simultaneous arrivals goes first.
    #[serde(default)]
    pub simultaneous: Simultaneous,
}

/// What happens to a packet that finds no buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// It is dropped, and its initiator retransmits it.
    #[default]
    Drop,
}

/// An output-buffered switch with the state of its outputs. `K` names packets.
#[derive(Debug)]
pub struct OutputBuffered<K> {
    settings: OutputBufferedSettings,
    outputs: Vec<Output<K>>,
    random: Stream,
}

#[derive(Clone, Debug)]
struct Output<K> {
    /// The arrivals of this picosecond.
    arrivals: Vec<Arrival<K>>,
    /// When each packet in a buffer has left, in order.
    departures: VecDeque<Time>,
    /// When each packet that is being written is complete.
    writes: Vec<Time>,
    favoured: u16,
}

impl<K: Copy> OutputBuffered<K> {
    /// A switch with every buffer free. `random` is drawn from only by `simultaneous = random`.
    pub fn new(settings: OutputBufferedSettings, ports: u16, random: Stream) -> OutputBuffered<K> {
        let output = Output {
            arrivals: Vec::new(),
            departures: VecDeque::new(),
            writes: Vec::new(),
            favoured: 0,
        };
        OutputBuffered { settings, outputs: vec![output; usize::from(ports)], random }
    }

    /// A packet reaches an input on its way to `output`. Returns whether the caller must have
    /// [`OutputBuffered::decide`] called once all arrivals of this picosecond are known.
    #[inline]
    pub fn arrive(&mut self, output: u16, arrival: Arrival<K>) -> bool {
        let arrivals = &mut self.outputs[usize::from(output)].arrivals;
        arrivals.push(arrival);
        arrivals.len() == 1
    }

    /// Decides on the arrivals of this picosecond at `output`, and says by appending to `effects`
    /// what becomes of them.
    pub fn decide(&mut self, now: Time, output: u16, effects: &mut Vec<Effect<K>>) {
        let ports = self.outputs.len() as u16;
        let settings = &self.settings;
        let state = &mut self.outputs[usize::from(output)];
        let mut arrivals = std::mem::take(&mut state.arrivals);
        let rule = settings.simultaneous;
        rule.arrange(&mut arrivals, &mut state.favoured, ports, &mut self.random);
        state.forget(now);
        effects.extend(arrivals.drain(..).map(|arrival| state.enter(now, settings, arrival)));
        state.arrivals = arrivals;
    }

    /// Decides at once on a packet that reaches its output alone.
    #[inline]
    pub fn meet(&mut self, now: Time, output: u16, arrival: Arrival<K>) -> Effect<K> {
        let state = &mut self.outputs[usize::from(output)];
        debug_assert!(state.arrivals.is_empty());
        state.forget(now);
        state.enter(now, &self.settings, arrival)
    }
}

impl<K> Output<K> {
    /// Packets that have left, or are written, no longer count.
    fn forget(&mut self, now: Time) {
        while self.departures.front().is_some_and(|time| *time <= now) {
            self.departures.pop_front();
        }
        self.writes.retain(|time| *time > now);
    }

    fn enter(
        &mut self,
        now: Time,
        settings: &OutputBufferedSettings,
        arrival: Arrival<K>,
    ) -> Effect<K> {
        let Arrival { key, span, .. } = arrival;
        let Overflow::Drop = settings.overflow;
        if !settings.writers.admits(self.writes.len()) {
            return Effect::Dropped { key, loss: Loss::ToRequest };
        }
        if !settings.buffers.admits(self.departures.len()) {
            return Effect::Dropped { key, loss: Loss::Overflow };
        }
        let end = self.departures.back().map_or(now, |last| now.max(*last)) + span;
        self.departures.push_back(end);
        self.writes.push(now + span);
        Effect::Forwarded { key, end: end + settings.latency }
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;
    use crate::switch::PacketKind;

    fn arrive(switch: &mut OutputBuffered<u16>, now: u64, inputs: &[u16]) -> Vec<Effect<u16>> {
        for input in inputs {
            let kind = PacketKind::Request;
            switch.arrive(0, Arrival { input: *input, kind, span: Span(100), key: *input });
        }
        let mut effects = Vec::new();
        switch.decide(Time(now), 0, &mut effects);
        effects
    }

    fn switch(buffers: u32, writers: Limit) -> OutputBuffered<u16> {
        let settings = OutputBufferedSettings {
            latency: Span(5),
            buffers: Limit::at_most(buffers).expect("positive"),
            writers,
            overflow: Overflow::Drop,
            simultaneous: Simultaneous::RoundRobin,
        };
        OutputBuffered::new(settings, 4, Streams::new(1).stream("switch", 0))
    }

    #[test]
    fn packets_cut_through_queue_and_overflow() {
        let mut switch = switch(2, Limit::Unlimited);
        let forwarded = |key, end| Effect::Forwarded { key, end: Time(end) };
        let dropped = |key| Effect::Dropped { key, loss: Loss::Overflow };
        assert_eq!(
            arrive(&mut switch, 1_000, &[2, 0, 1]),
            [forwarded(0, 1_105), forwarded(1, 1_205), dropped(2)]
        );
        assert_eq!(arrive(&mut switch, 1_099, &[3]), [dropped(3)]);
        assert_eq!(arrive(&mut switch, 1_100, &[3]), [forwarded(3, 1_305)]);
        assert_eq!(arrive(&mut switch, 1_400, &[3]), [forwarded(3, 1_505)], "idle again");
    }

    #[test]
    fn writers_are_limited() {
        let mut switch = switch(16, Limit::at_most(1).expect("positive"));
        let lost = |key| Effect::Dropped { key, loss: Loss::ToRequest };
        let forwarded = |key, end| Effect::Forwarded { key, end: Time(end) };
        assert_eq!(arrive(&mut switch, 0, &[0, 1]), [forwarded(0, 105), lost(1)]);
        assert_eq!(arrive(&mut switch, 99, &[2]), [lost(2)]);
        assert_eq!(arrive(&mut switch, 100, &[2]), [forwarded(2, 205)]);
    }
}
