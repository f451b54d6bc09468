//! Hosts: messages are posted, fetched over the bus, cut into cells, and taken by the target.

use weft_fabric::workload::{MessageStream, StreamList};
use weft_kernel::Id;
use weft_protocol::vi::Reliability;
use weft_units::{Bytes, Span, Time};

use super::endpoints::Taking;
use super::quench::Signal;
use super::{Cell, Event, Note, Packet, SharedMemoryNetwork};
use crate::drive::carrier::MessageId;
use crate::drive::network::ends::{Course, Delivery};
use crate::drive::network::supply::Handed;

/// A stream of messages.
#[derive(Clone, Debug)]
pub(super) struct StreamState {
    pub stream: MessageStream,
    pub connection: u32,
    /// The time between its messages; none if it is greedy.
    pub interval: Option<Span>,
    /// Messages of the present burst that are still to come, and how long the next one is off then.
    left: u64,
    pause: Span,
    /// Its time has come, and there was no descriptor.
    is_late: bool,
    /// Messages that arrived since records began.
    pub messages: u64,
    /// When the last one did, and the sums of the intervals between them and of their squares.
    pub last: Option<Time>,
    pub intervals: u128,
    pub squares: u128,
    /// How long all messages took together, and the longest time of one.
    pub latencies: u128,
    pub most_latency: Span,
}

impl SharedMemoryNetwork {
    /// Sets up the streams. They begin at random within the time between two of their messages, or
    /// within that which one takes.
    pub(super) fn begin_streams(&mut self, list: StreamList) {
        self.groups = list.groups;
        for (number, stream) in (0..).zip(list.streams) {
            let connection =
                self.connect((stream.from as u16, stream.to as u16), Some((number, stream)));
            let whole = self.link.span(self.segmentation.wire(stream.size));
            let paced = |load: weft_units::Load| Span((whole.0 as f64 / load.get()).round() as u64);
            let interval = stream.load.map(paced);
            let within = interval.unwrap_or(whole).0.max(1);
            self.streams.push(StreamState {
                stream,
                connection,
                interval,
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
            self.agenda.push(Time(self.random.below(within)), Event::Post(number));
        }
    }

    /// The source of a host hands over a packet.
    pub(super) fn generate(&mut self, now: Time, host: u16) {
        let Handed { to, generated, message, size, next } = self.ends.hand_over(now, host);
        if next < Time::NEVER {
            self.agenda.push(next, Event::Generate(host));
        }
        let connection = self.between(host, to as u16);
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
        let (last, whole, wire) = (self.packet, self.packet, self.segmentation.cell(size, 1));
        let arrived = Time::NEVER;
        Note { connection, size, left: 1, last, whole, wire, is_damaged: false, arrived }
    }

    /// A message of several cells of which nothing has been sent.
    fn note(&self, connection: u32, size: Bytes) -> Note {
        let left = self.segmentation.cells(size);
        let last = self.link.span(self.segmentation.cell(size, 0));
        let whole = Span(self.packet.0 * (left - 1)) + last;
        let (wire, arrived) = (self.segmentation.wire(size), Time::NEVER);
        Note { connection, size, left, last, whole, wire, is_damaged: false, arrived }
    }

    /// The time of a stream has come: a greedy one fills its descriptors.
    pub(super) fn post_due(&mut self, now: Time, number: u32) {
        let StreamState { connection, interval, .. } = self.streams[number as usize];
        let endpoints = &self.connections[connection as usize].endpoints;
        if !endpoints.is_open() {
            return;
        }
        match interval {
            None => {
                for _ in 0..self.descriptors {
                    self.post_of(now, number);
                }
            }
            Some(_) if !endpoints.initiator.has_room() => {
                self.streams[number as usize].is_late = true;
            }
            Some(interval) => {
                let next = now + self.until_next(number, interval);
                self.agenda.push(next, Event::Post(number));
                self.post_of(now, number);
            }
        }
    }

    /// How long after a message of a paced stream the next one comes: at once within a burst, and
    /// after it as much later as it was long.
    fn until_next(&mut self, number: u32, interval: Span) -> Span {
        let own = &mut self.streams[number as usize];
        let Some(law) = own.stream.burst else { return interval };
        if own.left == 0 {
            own.left = law.draw(&mut self.random);
            own.pause = Span(interval.0 * own.left);
        }
        own.left -= 1;
        if own.left > 0 { Span::ZERO } else { own.pause }
    }

    fn post_of(&mut self, now: Time, number: u32) {
        let StreamState { stream, connection, .. } = self.streams[number as usize];
        let from = self.connections[connection as usize].from;
        self.ends.observations.generate_from(usize::from(from), now);
        self.post(now, (now, MessageId::NONE), self.note(connection, stream.size));
    }

    /// A message is handed over: its doorbell rings if there is a descriptor.
    fn post(&mut self, now: Time, (generated, message): (Time, MessageId), note: Note) {
        let own = &mut self.connections[note.connection as usize];
        let (from, to) = (own.from, own.to);
        let start = Time::NEVER;
        let packet = Packet { generated, start, from, to, message, note };
        let id = self.ends.packets.insert(packet);
        self.unsent += 1;
        if own.endpoints.post(message, note.size) {
            self.hosts[usize::from(from)].ring(id);
            self.fetch(now, from);
        } else if own.endpoints.is_open() {
            own.posted.push_back(id);
        } else {
            self.give_up(now, id);
        }
    }

    /// The bus of a host fetches the next message, if it is free.
    pub(super) fn fetch(&mut self, now: Time, host: u16) {
        while let Some(message) = self.hosts[usize::from(host)].fetch(now) {
            let connection = self.ends.packets[message].note.connection;
            self.connections[connection as usize].endpoints.fetch();
            self.agenda.push(now + self.endpoints.send, Event::Ready(message));
        }
        if let Some(time) = self.hosts[usize::from(host)].next_fetch() {
            self.agenda.push(time, Event::Bus(host));
        }
    }

    /// The cells of a message can be sent.
    pub(super) fn ready(&mut self, now: Time, message: Id<Packet>) {
        let connection = self.ends.packets[message].note.connection;
        let own = &mut self.connections[connection as usize];
        if !own.endpoints.is_open() {
            return self.give_up(now, message);
        }
        own.ready.push_back(message);
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

    /// A descriptor comes back, whose last cell is off the cable after `span`: the next message has
    /// one.
    pub(super) fn hand_back(
        &mut self,
        now: Time,
        connection: u32,
        (message, span): (MessageId, Span),
    ) {
        if message != MessageId::NONE
            && let Some((feed, _)) = self.ends.messages()
            && feed.messages.start(message)
        {
            self.agenda.push(now + span, Event::Sent(message));
        }
        let own = &mut self.connections[connection as usize];
        let (from, stream) = (own.from, own.stream);
        if let Some(id) = own.posted.pop_front() {
            let packet = &self.ends.packets[id];
            if own.endpoints.post(packet.message, packet.note.size) {
                self.hosts[usize::from(from)].ring(id);
                self.fetch(now, from);
            } else {
                own.posted.push_front(id);
            }
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
        let taking = match is_last {
            true => self.receive(now, connection, self.ends.packets[message].note.is_damaged),
            false => Taking::Not,
        };
        let begin = match taking {
            Taking::WithDescriptor => self.hosts[usize::from(host)].take(now),
            Taking::Write | Taking::Not => now,
        };
        if begin > now {
            self.hold(now, port, channel);
            self.agenda.push(begin, Event::Take(port, channel));
        } else if self.control.has_credits {
            let peer = self.ports[port as usize].peer;
            self.agenda.push(now + self.propagation, Event::Credit(peer, channel));
        }
        if is_last && taking == Taking::Not {
            self.give_up(now, message);
        } else if is_last {
            self.ends.packets[message].note.arrived = now;
            self.agenda.push(begin + self.endpoints.receive, Event::Complete(message));
        }
    }

    /// A message is in the memory of its target, with its completion if it has one.
    pub(super) fn complete(&mut self, now: Time, message: Id<Packet>) -> Option<Delivery> {
        let connection = self.ends.packets[message].note.connection;
        let own = &self.connections[connection as usize];
        let (host, hops) = (own.to, own.hops);
        if own.endpoints.operation.takes_descriptor() {
            let entry = (connection, message);
            if self.hosts[usize::from(host)].complete(entry).is_err() {
                self.overflow(now, connection);
                self.give_up(now, message);
                return None;
            }
        }
        if self.endpoints.reliability == Reliability::ReliableReception {
            self.indicate(now, (connection, hops), Signal::Accept);
        }
        match self.connections[connection as usize].endpoints.operation.takes_descriptor() {
            true => self.work(now, host).map(|message| self.deliver(now, message)),
            false => Some(self.deliver(now, message)),
        }
    }

    /// The program of a host has dealt with a message, and takes the next one.
    pub(super) fn go_on(&mut self, now: Time, host: u16) -> Option<Delivery> {
        self.worked(host);
        self.work(now, host).map(|message| self.deliver(now, message))
    }

    /// A program sees that its message is there.
    fn deliver(&mut self, now: Time, message: Id<Packet>) -> Delivery {
        let Packet { generated, note, .. } = self.ends.packets[message];
        let Note { connection, size, whole, arrived, .. } = note;
        let own = &self.connections[connection as usize];
        if let Some(number) = own.stream
            && now >= self.ends.observations.from
        {
            self.streams[number as usize].count(now, now.since(generated));
        }
        let passage = Course {
            hops: own.hops,
            transmission: whole,
            payload: size,
            initiator: self.endpoints.send,
            target: now.since(arrived),
        };
        self.report.carried += if now >= self.ends.observations.from { whole } else { Span::ZERO };
        let (delivery, answer) = self.ends.complete(now, message, passage);
        if let Some(time) = answer {
            self.agenda.push(time, Event::Generate(delivery.to as u16));
        }
        delivery
    }
}

impl StreamState {
    fn count(&mut self, now: Time, latency: Span) {
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
}
