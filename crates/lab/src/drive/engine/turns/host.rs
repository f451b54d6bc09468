//! Hosts: what they submit, and what a message does where it arrives.

use std::collections::VecDeque;

use weft_fabric::adapter::{Release, Throttle, ThrottleSettings};
use weft_fabric::fabric::HostPair;
use weft_fabric::interface::Movers;
use weft_fabric::measure::{Budget, Instants, Journey, JourneyEnds, Latency};
use weft_fabric::switch::MulticastStart;
use weft_protocol::turns::CHANNELS;
use weft_units::{Bytes, Span, Time};

use super::message::{Carried, Use};
use super::{NO_PAYLOAD, Step, Turns, crossing};
use crate::drive::carrier::{Destination, Message, MessageId, Notice, Ticket};
use crate::drive::engine::Engine;
use crate::drive::engine::delivery::complete_in_stages;
use crate::drive::engine::packets::{Forwarding, Packet};

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    /// Messages that have no place in the adapter yet, or none in the reserved memory.
    pub queue: VecDeque<u32>,
    /// Messages of its source that have one in the adapter.
    held: usize,
    throttle: Option<Throttle>,
    /// When the throttle lets the next message begin, if one waits for it.
    throttled: Option<Time>,
    /// How many bytes of messages are in the reserved memory.
    reserved: Bytes,
    pub movers: Movers<u32>,
    /// When the last packets in each receive FIFO arrived.
    pub arrivals: [VecDeque<Time>; CHANNELS],
    /// The ticket of the barrier at which it waits.
    barrier: Ticket,
    pub answered: Answered,
}

/// Messages that a host sent and that were answered: their bytes, and the time from the first byte
/// that was moved until the response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answered {
    bytes: Bytes,
    time: Span,
}

impl Answered {
    /// The throughput of remote DMA in 10^6 bytes per second (Maestro 4), if anything was answered.
    pub fn mb_per_s(&self) -> Option<f64> {
        (self.time > Span::ZERO).then(|| self.bytes.0 as f64 / self.time.as_us())
    }

    pub fn add(&mut self, other: Answered) {
        self.bytes += other.bytes;
        self.time += other.time;
    }
}

impl Host {
    pub fn new(throttle: Option<&ThrottleSettings>) -> Host {
        Host {
            queue: VecDeque::new(),
            held: 0,
            throttle: throttle.cloned().map(Throttle::new),
            throttled: None,
            reserved: Bytes(0),
            movers: Movers::default(),
            arrivals: [VecDeque::new(), VecDeque::new()],
            barrier: Ticket(0),
            answered: Answered::default(),
        }
    }
}

impl Turns {
    /// Whether the switches themselves provide a barrier of hosts.
    pub fn keeps_barrier(&self) -> bool {
        self.switches.iter().all(|switch| switch.rules.barrier.is_some())
    }

    /// Whether one message of a size may go to several targets if switches can copy it: always if
    /// there is one switch; in a tree if a FIFO holds all of it or nothing waits for room.
    fn copies_in_switches(&self, size: Bytes) -> bool {
        let mut rules = self.switches.iter().map(|switch| &switch.rules);
        let at_once = || rules.clone().all(|own| own.multicast_start == MulticastStart::AtOnce);
        let fits = self.switches.len() == 1
            || at_once()
            || self.packets_of(size) <= u32::from(self.parts.capacity);
        fits && rules.all(|own| own.multicast)
    }
}

impl Engine {
    /// Takes a message over at a host in front of links with turns.
    pub(in crate::drive::engine) fn offer_to_turns(&mut self, now: Time, message: Message) {
        if let Some(mut step) = self.step_on_turns(now) {
            step.take_over(message);
        }
    }

    /// Whether switches between links with turns keep a barrier of hosts.
    pub(in crate::drive::engine) fn keeps_barrier_of_turns(&self) -> bool {
        self.turns.as_ref().is_some_and(|own| own.keeps_barrier())
    }

    /// A host has arrived at the barrier of the first `hosts` hosts that the switches keep.
    pub(in crate::drive::engine) fn arrive_at_barrier(
        &mut self,
        now: Time,
        host: u16,
        hosts: u16,
        ticket: Ticket,
    ) {
        let Some(mut step) = self.step_on_turns(now) else { return };
        step.own.hosts[usize::from(host)].barrier = ticket;
        step.own.barrier.meet(hosts);
        let to = Destination::Host(host);
        let message = Message { from: host, to, size: NO_PAYLOAD, ticket };
        let id = step.create(message, Use::BarrierRequest);
        step.send(host.into(), id);
    }
}

impl Step<'_> {
    /// The source of a host submits a message.
    pub(super) fn generate(&mut self, host: u32) {
        let handed = self.supply.hand_over(self.now, host, self.payload);
        if handed.next < Time::NEVER {
            self.at(handed.next, self.own.places.generates + host, 0);
        }
        let to = Destination::Host(handed.to as u16);
        let message = Message { from: host as u16, to, size: handed.size, ticket: Ticket(0) };
        self.queue(message);
    }

    /// Accepts a message from the layer above. If the switches cannot copy it, the adapter does.
    fn take_over(&mut self, message: Message) {
        if let Some(feed) = self.supply.messages() {
            feed.messages.post(message, |_, _, _| {});
        }
        match message.to {
            Destination::Hosts(_) if !self.own.copies_in_switches(message.size) => {
                for to in message.to.hosts() {
                    self.queue(Message { to: Destination::Host(to), ..message });
                }
            }
            _ => self.queue(message),
        }
    }

    /// A message waits for its place.
    fn queue(&mut self, message: Message) {
        let id = self.create(message, Use::Data);
        self.own.hosts[usize::from(message.from)].queue.push_back(id);
        self.admit(message.from.into());
    }

    pub(super) fn create(&mut self, message: Message, purpose: Use) -> u32 {
        let (now, Message { from, to, size, ticket }) = (self.now, message);
        let (first, from) = (to.hosts().next().unwrap_or(from), u32::from(from));
        let missing = to.hosts().count() as u32;
        if purpose == Use::Data {
            self.seen.generate_all_from(from as usize, now, missing.into());
        }
        let route_state = self.routes.depart(from, first);
        let channel = purpose.channel() as u8;
        let way = Forwarding::starting(first.into(), route_state, channel);
        let packet = Packet { generated: now, start: now, from, message: MessageId::NONE };
        let carried = Carried {
            purpose,
            to,
            size,
            packets: self.own.packets_of(size),
            ticket,
            has_begun: false,
            missing,
            journey: Journey::new(now),
            damaged: false,
        };
        self.insert(way, packet, carried)
    }

    /// Assigns a number to a message.
    pub(super) fn insert(&mut self, way: Forwarding, packet: Packet, carried: Carried) -> u32 {
        let id = self.packets.insert(way, packet);
        match self.own.messages.get_mut(id as usize) {
            Some(place) => *place = carried,
            None => self.own.messages.push(carried),
        }
        id
    }

    /// Moves messages into free places: into the reserved memory, and messages of the source into a place
    /// of the adapter as well.
    fn admit(&mut self, number: u32) {
        let of_source = self.supply.messages().is_none();
        loop {
            let own = &mut *self.own;
            let host = &mut own.hosts[number as usize];
            let has_place = !of_source || own.buffers.admits(host.held);
            let Some(&id) = host.queue.front().filter(|_| has_place) else { return };
            let reserved = host.reserved + own.messages[id as usize].size;
            let is_full = own.parts.transfer.reserved.is_some_and(|all| reserved > all);
            if (host.reserved > Bytes(0) && is_full) || self.is_throttled(number) {
                return;
            }
            let host = &mut self.own.hosts[number as usize];
            host.queue.pop_front();
            host.reserved = reserved;
            host.held += usize::from(of_source);
            self.send(number, id);
        }
    }

    /// Whether a host may not begin with a message yet; if it may, it does.
    fn is_throttled(&mut self, number: u32) -> bool {
        let host = &mut self.own.hosts[number as usize];
        let Some(throttle) = &mut host.throttle else { return false };
        let ready = throttle.ready_at();
        if ready <= self.now {
            throttle.start(self.now);
            return false;
        }
        if host.throttled.replace(ready) != Some(ready) {
            self.at(ready, self.own.places.throttles + number, 0);
        }
        true
    }

    /// The throttle of a host lets a message begin.
    pub(super) fn unthrottled(&mut self, number: u32) {
        self.own.hosts[number as usize].throttled = None;
        self.admit(number);
    }

    /// A message has left the reserved memory.
    fn free(&mut self, number: u32, size: Bytes) {
        let reserved = &mut self.own.hosts[number as usize].reserved;
        *reserved = Bytes(reserved.0.saturating_sub(size.0));
        self.admit(number);
    }

    /// The last packet of a message has left its initiator.
    pub(super) fn left(&mut self, number: u32, id: u32) {
        let Carried { purpose, ticket, size, to, .. } = self.own.messages[id as usize];
        if purpose != Use::Data {
            return;
        }
        let by_transmission = self.own.parts.release == Release::Transmission;
        if by_transmission {
            self.free(number, size);
        }
        match self.supply.messages() {
            Some(feed) => feed.messages.sent_to(self.now, number as u16, to, ticket),
            None if by_transmission => self.release(number),
            None => {}
        }
    }

    /// A place of the adapter is free.
    fn release(&mut self, number: u32) {
        self.own.hosts[number as usize].held -= 1;
        if self.supply.has_another(number) {
            self.at(self.now, self.own.places.generates + number, 0);
        }
        self.admit(number);
    }

    /// A message is in the memory of a target.
    pub(super) fn arrived(&mut self, number: u32, id: u32) {
        let now = self.now;
        let message = &mut self.own.messages[id as usize];
        message.missing = message.missing.saturating_sub(1);
        let message = *message;
        let (way, packet) =
            (self.packets.forwarding[id as usize], self.packets.packets[id as usize]);
        if message.missing == 0 {
            self.packets.remove(id);
        }
        let arrivals = &mut self.own.hosts[number as usize].arrivals[message.channel()];
        let arrived = arrivals.pop_front().unwrap_or(now);
        match message.purpose {
            Use::Data => self.deliver(number, &message, way.hops, packet, arrived),
            Use::Acknowledgment { begun, answered } => {
                if now >= self.seen.from {
                    let answer = Answered { bytes: answered, time: now.since(begun) };
                    self.own.hosts[number as usize].answered.add(answer);
                }
                self.seen.latency(Latency::RoundTrip, now, now.since(begun));
                if self.own.parts.release == Release::Acknowledgment {
                    self.free(number, answered);
                    if self.supply.messages().is_none() {
                        self.release(number);
                    }
                }
            }
            Use::BarrierAcknowledgment => {
                let ticket = self.own.hosts[number as usize].barrier;
                if let Some(feed) = self.supply.messages() {
                    let to = number as u16;
                    feed.messages.tell(Notice::Delivered { time: now, ticket, to });
                }
            }
            // The controller of the switch takes it out of the FIFO.
            Use::BarrierRequest => {}
        }
    }

    /// A message of a program or a source is in the memory of a target; its last packet had reached
    /// the host at `arrived`.
    fn deliver(
        &mut self,
        number: u32,
        message: &Carried,
        hops: u16,
        packet: Packet,
        arrived: Time,
    ) {
        let Packet { from, start: begun, .. } = packet;
        self.own.under_way -= 1;
        match message.damaged {
            true => self.seen.abandon(self.now),
            false => self.observe(number, message, hops, packet, arrived),
        }
        // The target sees nothing wrong, and answers.
        if let Some(size) = self.own.parts.transfer.acknowledgment {
            let to = Destination::Host(from as u16);
            let answer = Message { from: number as u16, to, size, ticket: message.ticket };
            let purpose = Use::Acknowledgment { begun, answered: message.size };
            let id = self.create(answer, purpose);
            self.send(number, id);
        }
        let pair = HostPair { from, to: number };
        if let Some(feed) = self.supply.messages() {
            let Carried { ticket, damaged, .. } = *message;
            feed.messages.end_named(self.now, from as u16, number as u16, ticket, damaged);
        } else if let Some(time) = self.supply.arrived(self.now, pair, MessageId::NONE) {
            self.at(time, self.own.places.generates + number, 0);
        }
    }

    /// Adds the stages of a message: those of its last packet, which ends with it.
    fn observe(
        &mut self,
        number: u32,
        message: &Carried,
        hops: u16,
        packet: Packet,
        arrived: Time,
    ) {
        let Packet { from, start, generated, .. } = packet;
        let one = Instants {
            from,
            to: number,
            generated,
            started: start,
            delivered: self.now,
            hops,
            class: 0,
            payload: message.size,
            transmission: Span::ZERO,
            wire: Span::ZERO,
            switches: Span::ZERO,
            initiator: Span::ZERO,
            target: Span::ZERO,
        };
        // The cables of the hosts are the first.
        let link = crossing(self.own.cables[number as usize].link.timing());
        let ends = JourneyEnds { generated, begun: start, arrived, complete: self.now };
        let stages = message.journey.stages(ends, link);
        let spend = |budget: &mut Budget| budget.add_all(&stages);
        complete_in_stages(self.seen, &one, spend, |seen| self.own.delivered.push(seen));
    }
}
