//! Hosts: messages are posted, fetched over the bus, cut into packets, and taken by the target.

use weft_fabric::fabric::HostPair;
use weft_fabric::measure::{Instants, Spent};
use weft_protocol::vi::Reliability;
use weft_units::{Bytes, Span, Time};

use super::endpoints::Taking;
use super::quench::Signal;
use super::{Cell, Message, acts};
use crate::drive::carrier::MessageId;
use crate::drive::engine::{Delivery, Engine, Handed};

impl Engine {
    /// The source of a host submits a packet.
    pub(in crate::drive::engine) fn hand_over(&mut self, now: Time, host: u32, handed: &Handed) {
        let Handed { to, generated, message, size, next, .. } = *handed;
        if next < Time::NEVER {
            self.schedule(next, self.places.generates + host, 0);
        }
        let connection = self.between(host, to);
        let posted = match message {
            MessageId::NONE => self.one_packet(generated, message, connection, size),
            _ if self.memories.cuts_messages => {
                self.whole_message(generated, message, connection, size)
            }
            _ => self.one_packet(generated, message, connection, self.payload),
        };
        self.post(now, posted);
        if message != MessageId::NONE && self.supply.has_another(host) {
            self.schedule(now, self.places.generates + host, 0);
        }
    }

    /// A packet by itself.
    #[inline]
    fn one_packet(
        &self,
        generated: Time,
        message: MessageId,
        connection: u32,
        size: Bytes,
    ) -> Message {
        let from = self.memories.connections[connection as usize].from;
        let whole = self.graph.span(self.graph.host_port(from));
        Message {
            generated,
            start: Time::NEVER,
            message,
            connection,
            size,
            left: 1,
            last: 0,
            last_span: whole,
            whole,
            wire: self.memories.segmentation.cell(size, 1),
            is_damaged: false,
            arrived: Time::NEVER,
            spent: Spent::default(),
        }
    }

    /// A message of several packets, none of which has been sent.
    pub(super) fn whole_message(
        &self,
        generated: Time,
        message: MessageId,
        connection: u32,
        size: Bytes,
    ) -> Message {
        let segmentation = &self.memories.segmentation;
        let from = self.memories.connections[connection as usize].from;
        let port = self.graph.host_port(from);
        let left = segmentation.cells(size);
        let (packet, last) = (segmentation.cell(size, 1), segmentation.cell(size, 0));
        let last_span = match last < packet {
            true => self.memories.links[self.graph.link_of(port)].span(last),
            false => self.graph.span(port),
        };
        Message {
            generated,
            start: Time::NEVER,
            message,
            connection,
            size,
            left,
            last: if last < packet { last.0 as u32 } else { 0 },
            last_span,
            whole: Span(self.graph.span(port).0 * (left - 1)) + last_span,
            wire: segmentation.wire(size),
            is_damaged: false,
            arrived: Time::NEVER,
            spent: Spent::default(),
        }
    }

    /// A message is submitted: its doorbell rings if there is a descriptor.
    pub(super) fn post(&mut self, now: Time, message: Message) {
        let (size, cookie, connection) = (message.size, message.message, message.connection);
        let id = self.memories.insert(message);
        self.memories.unsent += 1;
        let own = &mut self.memories.connections[connection as usize];
        let from = own.from;
        if own.endpoints.post(cookie, size) {
            self.memories.hosts[from as usize].ring(id);
            self.fetch(now, from);
        } else if own.endpoints.is_open() {
            own.posted.push_back(id);
        } else {
            self.give_up_message(now, id);
        }
    }

    /// The bus of a host fetches the next message, if it is free.
    pub(super) fn fetch(&mut self, now: Time, host: u32) {
        while let Some(message) = self.memories.hosts[host as usize].fetch(now) {
            let connection = self.memories.messages[message as usize].connection;
            self.memories.connections[connection as usize].endpoints.fetch();
            let send = self.memories.endpoints.send;
            if send == Span::ZERO {
                self.ready(now, message);
            } else {
                self.memories.fetched[host as usize].push_back(message);
                self.act_at(now + send, host, acts::READY, 0);
            }
        }
        if let Some(time) = self.memories.hosts[host as usize].next_fetch() {
            self.act_at(time, host, acts::BUS, 0);
        }
    }

    /// Carries out an action that a host has scheduled.
    #[inline(never)]
    pub(in crate::drive::engine) fn act(
        &mut self,
        now: Time,
        host: u32,
        item: u32,
        watch: &mut impl FnMut(Delivery),
    ) {
        let number = item & ((1 << acts::DIGITS) - 1);
        match item >> acts::DIGITS {
            acts::COMPLETE => self.complete_message(now, number, watch),
            acts::PROGRAM => {
                self.worked(host);
                self.work(now, host, watch);
            }
            acts::TAKE => self.release(now, self.graph.host_port(host), number as u8),
            acts::BUS => self.fetch(now, host),
            acts::READY => {
                // They are ready in the order in which they were fetched.
                if let Some(message) = self.memories.fetched[host as usize].pop_front() {
                    self.ready(now, message);
                }
            }
            _ => self.post_due(now, number),
        }
    }

    /// The packets of a message can be sent.
    fn ready(&mut self, now: Time, message: u32) {
        let connection = self.memories.messages[message as usize].connection;
        let own = &mut self.memories.connections[connection as usize];
        if !own.endpoints.is_open() {
            return self.give_up_message(now, message);
        }
        own.ready.push_back(message);
        self.list(now, connection);
    }

    /// A connection with packets takes its turn at its adapter, unless its source is quenched.
    pub(super) fn list(&mut self, now: Time, connection: u32) {
        let own = &mut self.memories.connections[connection as usize];
        if own.is_listed || own.ready.is_empty() || !own.source.is_open() {
            return;
        }
        own.is_listed = true;
        let port = self.graph.host_port(own.from);
        let channel = own.forwarding.channel;
        self.memories.ports[port as usize].enlist(channel, connection);
        self.serve(now, port);
    }

    /// Gives back the descriptor of a message whose last packet takes `span` to send: the next
    /// message that waits for one is posted, and the stream or source that filled it goes on.
    pub(super) fn hand_back(&mut self, now: Time, connection: u32, message: MessageId, span: Span) {
        let own = &mut self.memories.connections[connection as usize];
        let (from, stream) = (own.from, own.stream);
        if message != MessageId::NONE
            && let Some(feed) = self.supply.messages()
            && feed.messages.start(message)
        {
            self.schedule(now + span, self.places.sends + from, message.number());
        }
        let own = &mut self.memories.connections[connection as usize];
        if let Some(id) = own.posted.pop_front() {
            let waiting = &self.memories.messages[id as usize];
            if own.endpoints.post(waiting.message, waiting.size) {
                self.memories.hosts[from as usize].ring(id);
                self.fetch(now, from);
            } else {
                own.posted.push_front(id);
            }
        }
        match stream {
            Some(number) => {
                let stream = &mut self.memories.streams[number as usize];
                let is_late = std::mem::take(&mut stream.is_late);
                if stream.interval.is_none() {
                    self.post_of(now, number);
                } else if is_late {
                    self.act_at(now, from, acts::POST, number);
                }
            }
            None if message == MessageId::NONE && self.supply.has_another(from) => {
                self.schedule(now, self.places.generates + from, 0);
            }
            None => {}
        }
    }

    /// The last byte of a packet is at its target. The host takes what it holds immediately, but
    /// for the last packet of a message, which may wait for the bus.
    #[inline(never)]
    pub(in crate::drive::engine) fn arrive(
        &mut self,
        now: Time,
        host: u32,
        id: u32,
        watch: &mut impl FnMut(Delivery),
    ) {
        let Cell { message, connection, is_last, .. } = self.memories.cells[id as usize];
        let spent = self.packets.spent(id);
        let channel = self.packets.forwarding[id as usize].channel;
        self.packets.remove(id);
        let port = self.graph.host_port(host);
        let is_damaged = self.memories.messages[message as usize].is_damaged;
        let taking = match is_last {
            true => self.receive(now, connection, is_damaged),
            false => Taking::Not,
        };
        let begin = match taking {
            Taking::WithDescriptor => self.memories.hosts[host as usize].take(now),
            Taking::Write | Taking::Not => now,
        };
        if begin > now {
            self.hold_cell(now, port, channel);
            self.act_at(begin, host, acts::TAKE, channel.into());
        } else if self.memories.has_endpoints && self.memories.control.has_credits {
            self.return_credit(now, port, channel);
        }
        if !is_last {
            return;
        }
        if taking == Taking::Not {
            return self.give_up_message(now, message);
        }
        let own = &mut self.memories.messages[message as usize];
        own.arrived = now;
        if let Some(spent) = spent {
            own.spent = spent;
        }
        let time = begin + self.memories.endpoints.receive;
        if time > now {
            self.act_at(time, host, acts::COMPLETE, message);
        } else {
            self.complete_message(now, message, watch);
        }
    }

    /// A message is in the memory of its target, with its completion if it has one.
    fn complete_message(&mut self, now: Time, message: u32, watch: &mut impl FnMut(Delivery)) {
        let connection = self.memories.messages[message as usize].connection;
        let own = &self.memories.connections[connection as usize];
        let (host, hops) = (own.to, own.hops);
        let takes_descriptor = own.endpoints.operation.takes_descriptor();
        if takes_descriptor
            && self.memories.hosts[host as usize].complete((connection, message)).is_err()
        {
            self.overflow(now, connection);
            return self.give_up_message(now, message);
        }
        if self.memories.endpoints.reliability == Reliability::ReliableReception {
            self.indicate(now, connection, hops, Signal::Accept);
        }
        match takes_descriptor {
            true => self.work(now, host, watch),
            false => self.deliver_message(now, message, watch),
        }
    }

    /// A program sees that its message is there.
    pub(super) fn deliver_message(&mut self, now: Time, id: u32, watch: &mut impl FnMut(Delivery)) {
        let message = self.memories.messages[id as usize];
        let own = &self.memories.connections[message.connection as usize];
        let (from, to, hops, stream) = (own.from, own.to, own.hops, own.stream);
        let is_measured = now >= self.observations.from;
        if let Some(number) = stream.filter(|_| is_measured) {
            let latency = now.since(message.generated);
            self.memories.streams[number as usize].count(now, latency);
        }
        if is_measured {
            self.memories.report.carried += message.whole;
        }
        self.memories.remove(id);
        if let Some(time) = self.supply.arrived(now, HostPair { from, to }, message.message) {
            self.schedule(time, self.places.generates + to, 0);
        }
        let mut spent = match self.graph.is_mixed() {
            true => message.spent,
            false => self.graph.spent_alike(hops),
        };
        let last = if self.graph.is_mixed() { message.last_span } else { spent.transmission };
        spent.transmission = Span(spent.transmission.0 + message.whole.0 - last.0);
        let instants = Instants {
            from,
            to,
            generated: message.generated,
            started: message.start,
            delivered: now,
            hops,
            class: 0,
            payload: message.size,
            transmission: spent.transmission,
            wire: spent.wire,
            switches: spent.switches,
            initiator: self.memories.endpoints.send,
            target: now.since(message.arrived),
        };
        self.observe_delivery(instants, watch);
    }
}
