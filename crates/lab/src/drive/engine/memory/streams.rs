//! Streams: hosts that send message after message to one target over a connection of their own.

use weft_fabric::fabric::HostPair;
use weft_fabric::workload::{MessageStream, StreamList};
use weft_kernel::Stream;
use weft_units::{Bytes, Span, Time};

use super::acts;
use crate::drive::carrier::MessageId;
use crate::drive::engine::Engine;

/// A stream of messages.
#[derive(Debug)]
pub(super) struct StreamState {
    pub stream: MessageStream,
    pub connection: u32,
    /// The time between its messages; none if it is greedy.
    pub interval: Option<Span>,
    /// The random stream of its bursts.
    random: Stream,
    /// Messages of the present burst that are still to come, and the interval to the next one after
    /// it.
    left: u64,
    pause: Span,
    /// A message was due, and there was no descriptor.
    pub is_late: bool,
    /// Messages that arrived since records began.
    pub messages: u64,
    /// When the last message came, and the sums of the intervals and of their squares.
    pub last: Option<Time>,
    pub intervals: u128,
    pub squares: u128,
    /// The total latency of all messages, and the longest latency.
    pub latencies: u128,
    pub most_latency: Span,
}

impl Engine {
    /// Sets up the streams. They begin at random within the time between two of their messages, or
    /// within that which one takes.
    pub(super) fn begin_streams(&mut self, list: StreamList, random: Vec<Stream>) {
        self.memories.groups = list.groups;
        let mut random = random.into_iter();
        let Some(mut begins) = random.next() else { return };
        for ((number, stream), random) in (0..).zip(list.streams).zip(random) {
            let (from, to) = (stream.from, stream.to);
            let port = self.graph.host_port(from);
            let link = &self.memories.links[self.graph.link_of(port)];
            let whole = link.span(self.memories.segmentation.wire(stream.size));
            let connection = self.connect(HostPair { from, to }, Some((number, stream)));
            let paced = |load: weft_units::Load| Span((whole.0 as f64 / load.get()).round() as u64);
            let interval = stream.load.map(paced);
            let begin = Time(begins.below(interval.unwrap_or(whole).0.max(1)));
            self.memories.streams.push(StreamState {
                stream,
                connection,
                interval,
                random,
                left: 0,
                pause: Span::ZERO,
                is_late: false,
                messages: 0,
                last: None,
                intervals: 0,
                squares: 0,
                latencies: 0,
                most_latency: Span::ZERO,
            });
            self.act_at(begin, from, acts::POST, number);
        }
    }

    /// A stream is due: a greedy one fills its descriptors.
    pub(super) fn post_due(&mut self, now: Time, number: u32) {
        let StreamState { connection, interval, .. } = self.memories.streams[number as usize];
        let endpoints = &self.memories.connections[connection as usize].endpoints;
        if !endpoints.is_open() {
            return;
        }
        match interval {
            None => {
                for _ in 0..self.memories.descriptors {
                    self.post_of(now, number);
                }
            }
            Some(_) if !endpoints.initiator.has_room() => {
                self.memories.streams[number as usize].is_late = true;
            }
            Some(interval) => {
                let own = &mut self.memories.streams[number as usize];
                let next = now + own.until_next(interval);
                let from = own.stream.from;
                self.act_at(next, from, acts::POST, number);
                self.post_of(now, number);
            }
        }
    }

    /// A stream submits a message.
    pub(super) fn post_of(&mut self, now: Time, number: u32) {
        let own = &self.memories.streams[number as usize];
        let (connection, from, size) = (own.connection, own.stream.from, own.stream.size);
        self.observations.generate_from(from as usize, now);
        let message = self.whole_message(now, MessageId::NONE, connection, size);
        self.post(now, message);
    }
}

/// The times between the arrivals of a stream, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intervals {
    pub mean_us: f64,
    /// Their standard deviation.
    pub deviation_us: f64,
}

impl StreamState {
    /// The interval after a message of a paced stream: zero within a burst, and after a burst in
    /// proportion to its length.
    fn until_next(&mut self, interval: Span) -> Span {
        let Some(law) = self.stream.burst else { return interval };
        if self.left == 0 {
            self.left = law.draw(&mut self.random);
            self.pause = Span(interval.0 * self.left);
        }
        self.left -= 1;
        if self.left > 0 { Span::ZERO } else { self.pause }
    }

    /// A message of the stream arrived, with this latency.
    pub fn count(&mut self, now: Time, latency: Span) {
        self.messages += 1;
        self.latencies += u128::from(latency.0);
        self.most_latency = self.most_latency.max(latency);
        if let Some(last) = self.last.replace(now) {
            let interval = u128::from(now.since(last).0);
            self.intervals += interval;
            self.squares += interval * interval;
        }
    }

    /// Payload that arrived since records began.
    pub fn payload(&self) -> Bytes {
        Bytes(self.messages * self.stream.size.0)
    }

    /// Mean time from the submission of a message to its arrival, in microseconds.
    pub fn one_way_mean_us(&self) -> Option<f64> {
        (self.messages > 0).then(|| self.latencies as f64 / self.messages as f64 * 1e-6)
    }

    /// The times between arrivals; `None` for fewer than two.
    pub fn intervals(&self) -> Option<Intervals> {
        if self.messages < 2 {
            return None;
        }
        let count = (self.messages - 1) as f64;
        let mean = self.intervals as f64 / count;
        let variance = (self.squares as f64 / count - mean * mean).max(0.0);
        Some(Intervals { mean_us: mean * 1e-6, deviation_us: libm::sqrt(variance) * 1e-6 })
    }
}
