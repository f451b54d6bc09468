//! Hosts: messages are posted, fetched over the bus, cut into cells, and taken by the target.

use std::collections::VecDeque;

use weft_fabric::workload::{MessageStream, StreamList};
use weft_kernel::{Id, Stream};
use weft_units::{Bytes, Span, Time};

use super::{Cell, Event, Note, Packet, SharedMemoryNetwork};
use crate::drive::carrier::MessageId;
use crate::drive::network::ends::{Delivery, Handed, Passage};

/// The bus of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    /// Until when it fetches a message, and until when it takes one.
    fetching: Time,
    taking: Time,
    /// The messages that are to be fetched.
    wanted: VecDeque<Id<Packet>>,
    /// Whether [`Event::Bus`] is scheduled.
    is_due: bool,
}

/// A stream of messages.
#[derive(Clone, Debug)]
pub(super) struct StreamState {
    pub stream: MessageStream,
    pub connection: u32,
    /// The time between its messages; none if it is greedy.
    pub interval: Option<Span>,
    /// Its time has come, and there was no descriptor.
    is_late: bool,
    /// Messages that arrived since records began.
    pub messages: u64,
    /// When the last one did, and the sums of the intervals between them and of their squares.
    pub last: Option<Time>,
    pub intervals: u128,
    pub squares: u128,
}

impl SharedMemoryNetwork {
    /// Sets up the streams. They begin at random within the time between two of their messages, or
    /// within that which one takes.
    pub(super) fn begin_streams(&mut self, list: StreamList, mut random: Stream) {
        self.groups = list.groups;
        for (number, stream) in (0..).zip(list.streams) {
            let connection = self.connect(stream.from, stream.to, Some(number));
            let whole = self.link.span(self.segmentation.wire(stream.size));
            let paced = |load: weft_units::Load| Span((whole.0 as f64 / load.get()).round() as u64);
            let interval = stream.load.map(paced);
            let within = interval.unwrap_or(whole).0.max(1);
            self.streams.push(StreamState {
                stream,
                connection,
                interval,
                is_late: false,
                messages: 0,
                last: None,
                intervals: 0,
                squares: 0,
            });
            self.agenda.push(Time(random.below(within)), Event::Post(number));
        }
    }

    /// The source of a host hands over a packet.
    pub(super) fn generate(&mut self, now: Time, host: u16) {
        let Handed { to, generated, message, size, next } = self.ends.hand_over(now, host);
        if next < Time::NEVER {
            self.agenda.push(next, Event::Generate(host));
        }
        let connection = self.between(host, to);
        let note = match message {
            MessageId::NONE => self.one_cell(connection, size),
            _ if self.cuts_messages => self.note(connection, size),
            _ => self.one_cell(connection, self.payload),
        };
        self.post(now, (generated, message), note);
        if message != MessageId::NONE && self.ends.has_another(host) {
            self.agenda.push(now, Event::Generate(host));
        }
    }

    /// A packet that is a cell.
    fn one_cell(&self, connection: u32, size: Bytes) -> Note {
        let (last, whole) = (self.packet, self.packet);
        Note { connection, size, left: 1, last, whole, arrived: Time::NEVER }
    }

    /// A message of several cells of which nothing has been sent.
    fn note(&self, connection: u32, size: Bytes) -> Note {
        let left = self.segmentation.cells(size);
        let last = self.link.span(self.segmentation.cell(size, 0));
        let whole = Span(self.packet.0 * (left - 1)) + last;
        Note { connection, size, left, last, whole, arrived: Time::NEVER }
    }

    /// The time of a stream has come: a greedy one fills its descriptors.
    pub(super) fn post_due(&mut self, now: Time, number: u32) {
        let StreamState { connection, interval, .. } = self.streams[number as usize];
        match interval {
            None => {
                for _ in 0..self.descriptors {
                    self.post_of(now, number);
                }
            }
            Some(_) if self.connections[connection as usize].used >= self.descriptors => {
                self.streams[number as usize].is_late = true;
            }
            Some(interval) => {
                self.agenda.push(now + interval, Event::Post(number));
                self.post_of(now, number);
            }
        }
    }

    fn post_of(&mut self, now: Time, number: u32) {
        let StreamState { stream, connection, .. } = self.streams[number as usize];
        self.ends.observations.generate(now);
        self.post(now, (now, MessageId::NONE), self.note(connection, stream.size));
    }

    /// A message is handed over: its doorbell rings if there is a descriptor.
    fn post(&mut self, now: Time, (generated, message): (Time, MessageId), note: Note) {
        let own = &mut self.connections[note.connection as usize];
        let (from, to) = (own.from, own.to);
        let start = Time::NEVER;
        let packet = Packet { generated, start, from, to, message, note };
        let message = self.ends.packets.insert(packet);
        self.unsent += 1;
        if own.used < self.descriptors {
            own.used += 1;
            self.hosts[usize::from(from)].wanted.push_back(message);
            self.fetch(now, from);
        } else {
            own.posted.push_back(message);
        }
    }

    /// The bus of a host fetches the next message, if it is free.
    pub(super) fn fetch(&mut self, now: Time, host: u16) {
        let own = &mut self.hosts[usize::from(host)];
        if own.fetching <= now {
            own.is_due = false;
        }
        while own.fetching <= now {
            let Some(message) = own.wanted.pop_front() else { return };
            own.fetching = now + self.endpoints.per_message;
            self.agenda.push(now + self.endpoints.send, Event::Ready(message));
        }
        if !own.wanted.is_empty() && !own.is_due {
            own.is_due = true;
            self.agenda.push(own.fetching, Event::Bus(host));
        }
    }

    /// The cells of a message can be sent.
    pub(super) fn ready(&mut self, now: Time, message: Id<Packet>) {
        let connection = self.ends.packets[message].note.connection;
        self.connections[connection as usize].ready.push_back(message);
        self.list(now, connection);
    }

    /// A connection with cells takes its turn at its adapter, unless its source is quenched.
    pub(super) fn list(&mut self, now: Time, connection: u32) {
        let own = &mut self.connections[connection as usize];
        if own.is_listed || own.ready.is_empty() || !own.source.is_open() {
            return;
        }
        own.is_listed = true;
        let port = self.wiring.ports() + u32::from(own.from);
        self.ports[port as usize].enlist(own.channel, connection);
        self.serve(now, port);
    }

    /// The last cell of a message starts: its descriptor is free.
    pub(super) fn hand_back(&mut self, now: Time, connection: u32, (id, span): (Id<Packet>, Span)) {
        let message = self.ends.packets[id].message;
        if message != MessageId::NONE
            && let Some((feed, _)) = self.ends.messages()
            && feed.messages.start(message)
        {
            self.agenda.push(now + span, Event::Sent(message));
        }
        let own = &mut self.connections[connection as usize];
        let (from, stream) = (own.from, own.stream);
        if let Some(message) = own.posted.pop_front() {
            self.hosts[usize::from(from)].wanted.push_back(message);
            self.fetch(now, from);
        } else {
            own.used -= 1;
        }
        match stream {
            Some(number) => {
                let stream = &mut self.streams[number as usize];
                let is_late = std::mem::take(&mut stream.is_late);
                if stream.interval.is_none() {
                    self.post_of(now, number);
                } else if is_late {
                    self.agenda.push(now, Event::Post(number));
                }
            }
            None if message == MessageId::NONE && self.ends.has_another(from) => {
                self.agenda.push(now, Event::Generate(from));
            }
            None => {}
        }
    }

    /// The last byte of a cell is at its target. The host takes what it holds at once, but for the
    /// last cell of a message, which may wait for the bus.
    pub(super) fn arrive(&mut self, now: Time, id: Id<Cell>) {
        let Cell { message, connection, is_last, .. } = self.cells[id];
        self.cells.remove(id);
        let own = &self.connections[connection as usize];
        let (host, channel) = (own.to, own.channel);
        let port = self.wiring.ports() + u32::from(host);
        let bus = &mut self.hosts[usize::from(host)];
        let begin = if is_last { bus.taking.max(now) } else { now };
        if begin > now {
            self.hold(now, port, channel);
            self.agenda.push(begin, Event::Take(port, channel));
        } else if self.control.has_credits {
            let peer = self.ports[port as usize].peer;
            self.agenda.push(now + self.propagation, Event::Credit(peer, channel));
        }
        if is_last {
            let bus = &mut self.hosts[usize::from(host)];
            bus.taking = begin + self.endpoints.per_message;
            self.ends.packets[message].note.arrived = now;
            self.agenda.push(begin + self.endpoints.receive, Event::Complete(message));
        }
    }

    /// A program sees that its message is there.
    pub(super) fn complete(&mut self, now: Time, message: Id<Packet>) -> Delivery {
        let Note { connection, size, whole, arrived, .. } = self.ends.packets[message].note;
        let own = &self.connections[connection as usize];
        if let Some(number) = own.stream
            && now >= self.ends.observations.from
        {
            self.streams[number as usize].count(now);
        }
        let passage = Passage {
            hops: own.hops,
            transmission: whole,
            payload: size,
            initiator: self.endpoints.send,
            target: now.since(arrived),
        };
        self.report.carried += if now >= self.ends.observations.from { whole } else { Span::ZERO };
        let (delivery, answer) = self.ends.complete(now, message, passage);
        if let Some(time) = answer {
            self.agenda.push(time, Event::Generate(delivery.to));
        }
        delivery
    }
}

impl StreamState {
    fn count(&mut self, now: Time) {
        self.messages += 1;
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
}
