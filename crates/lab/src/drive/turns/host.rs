//! Hosts: what they hand over, and what a message means where it arrives.

use std::collections::VecDeque;

use weft_fabric::adapter::{Release, Throttle, ThrottleSettings};
use weft_fabric::interface::Movers;
use weft_fabric::measure::{Latency, Stage};
use weft_fabric::switch::{BoxRules, MulticastStart};
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::Id;
use weft_protocol::turns::CHANNELS;
use weft_units::{Bytes, Limit, Span, Time};

use super::message::{Carried, Spent, Use};
use super::{Event, NO_PAYLOAD, TurnChannel};
use crate::drive::carrier::{Destination, Message, Notice, Ticket};

/// What is the same for the messages of all sources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    pub payload: Bytes,
    pub buffers: Limit,
    pub release: Release,
}

/// A host.
#[derive(Debug)]
pub(super) struct Host {
    source: Source,
    /// Messages that have no place in the adapter yet.
    pub pending: VecDeque<Id<Carried>>,
    /// Messages that have one.
    held: usize,
    /// Messages from above that have no place in the reserved memory yet.
    pub above: VecDeque<Id<Carried>>,
    throttle: Option<Throttle>,
    /// When the throttle lets the next message begin, if one waits for it.
    throttled: Option<Time>,
    /// How many bytes of messages are in the reserved memory.
    reserved: Bytes,
    pub movers: Movers<Id<Carried>>,
    /// When the last packets in each receive FIFO came.
    pub arrivals: [VecDeque<Time>; CHANNELS],
    /// The ticket of the barrier at which it waits.
    barrier: Ticket,
    pub answered: Answered,
}

/// What a host sent and has the answers to: how many bytes, and how long it waited for them from
/// the first byte that was moved.
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
    pub fn new(source: Option<Source>, throttle: Option<ThrottleSettings>) -> Host {
        Host {
            source: source.unwrap_or_else(Source::silent),
            pending: VecDeque::new(),
            held: 0,
            above: VecDeque::new(),
            throttle: throttle.map(Throttle::new),
            throttled: None,
            reserved: Bytes(0),
            movers: Movers::default(),
            arrivals: [VecDeque::new(), VecDeque::new()],
            barrier: Ticket(0),
            answered: Answered::default(),
        }
    }

    /// When the source hands over its first messages; a greedy one fills all places at once.
    pub fn first(&self, rules: &Messages) -> impl Iterator<Item = Time> + use<> {
        let next = self.source.next_time();
        let count = match (self.source.feedback(), rules.buffers.count()) {
            (Feedback::Ready, Some(buffers)) => buffers.as_usize(),
            _ => usize::from(next < Time::NEVER),
        };
        std::iter::repeat_n(next, count)
    }
}

fn starts_at_once(rules: &BoxRules) -> bool {
    rules.multicast_start == MulticastStart::AtOnce
}

impl TurnChannel {
    /// The source of a host hands over a message.
    pub(super) fn generate(&mut self, now: Time, number: u16) {
        let host = &mut self.hosts[usize::from(number)];
        host.source.ready(now);
        let demand = host.source.take();
        let next = host.source.next_time();
        if next < Time::NEVER {
            self.queue.push(next, Event::Generate(number));
        }
        let (to, size) = (Destination::Host(demand.target as u16), self.rules.payload);
        let message = Message { from: number, to, size, ticket: Ticket(0) };
        let id = self.create(now, message, Use::Data);
        self.hosts[usize::from(number)].pending.push_back(id);
        self.admit(now, number);
    }

    /// Takes a message over from above. What the switches cannot copy the adapter does.
    pub(super) fn take_over(&mut self, now: Time, message: Message) {
        let multicast = self.rules_of_switches.iter().all(|rules| rules.multicast);
        let one_transfer = multicast && self.fits_the_tree(message.size);
        let copies: Vec<Destination> = match message.to {
            Destination::Hosts(_) if !one_transfer => {
                message.to.hosts().map(Destination::Host).collect()
            }
            to => vec![to],
        };
        let count = copies.len() as u32;
        if count > 1 {
            self.copies.push((message.ticket, count));
        }
        for to in copies {
            let id = self.create(now, Message { to, ..message }, Use::Data);
            self.hosts[usize::from(message.from)].above.push_back(id);
        }
        self.admit(now, message.from);
    }

    /// Whether one message of a size may go to several targets: always where there is one switch,
    /// in a tree where a FIFO holds all of it or nothing waits for room.
    fn fits_the_tree(&self, size: Bytes) -> bool {
        self.wiring.switches() == 1
            || self.rules_of_switches.iter().all(starts_at_once)
            || self.link.packets(size) <= u32::from(self.link.capacity)
    }

    /// A host has arrived at the barrier of the first `hosts` hosts that the switch keeps.
    pub(super) fn arrive_at_barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) {
        self.hosts[usize::from(host)].barrier = ticket;
        self.barrier.meet(hosts);
        let to = Destination::Host(host);
        let message = Message { from: host, to, size: NO_PAYLOAD, ticket };
        let id = self.create(now, message, Use::BarrierRequest);
        self.send(now, host, id);
    }

    pub(super) fn create(&mut self, now: Time, message: Message, purpose: Use) -> Id<Carried> {
        let Message { from, to, size, ticket } = message;
        let first = to.hosts().next().unwrap_or(from);
        let missing = to.hosts().count() as u32;
        if purpose == Use::Data {
            (0..missing).for_each(|_| self.observations.generate_from(usize::from(from), now));
        }
        let route_state = self.routes.depart(from, first);
        self.messages.insert(Carried {
            purpose,
            from,
            to,
            size,
            packets: self.link.packets(size),
            channel: purpose.channel(),
            ticket,
            generated: now,
            begun: now,
            has_begun: false,
            missing,
            route_state,
            hops: 0,
            head: now,
            read: now,
            invoked: now,
            tail: now,
            spent: Spent::default(),
            damaged: false,
        })
    }

    /// Moves messages into free places, those from above first: into the reserved memory, and those
    /// of the source into a place of the adapter as well.
    fn admit(&mut self, now: Time, number: u16) {
        loop {
            let host = &mut self.hosts[usize::from(number)];
            let place = self.rules.buffers.admits(host.held);
            let of_source = host.above.is_empty();
            let queue = if of_source { &mut host.pending } else { &mut host.above };
            let Some(&id) = queue.front().filter(|_| place || !of_source) else { return };
            let size = self.messages[id].size;
            let reserved = host.reserved + size;
            if host.reserved > Bytes(0) && self.transfer.reserved.is_some_and(|all| reserved > all)
            {
                return;
            }
            if self.is_throttled(now, number) {
                return;
            }
            let host = &mut self.hosts[usize::from(number)];
            let queue = if of_source { &mut host.pending } else { &mut host.above };
            queue.pop_front();
            host.reserved = reserved;
            host.held += usize::from(of_source);
            self.send(now, number, id);
        }
    }

    /// Whether a host may not begin with a message yet; if it may, it does.
    fn is_throttled(&mut self, now: Time, number: u16) -> bool {
        let host = &mut self.hosts[usize::from(number)];
        let Some(throttle) = &mut host.throttle else { return false };
        let ready = throttle.ready_at();
        if ready <= now {
            throttle.start(now);
            return false;
        }
        if host.throttled.replace(ready) != Some(ready) {
            self.queue.push(ready, Event::Unthrottled(number));
        }
        true
    }

    /// The throttle of a host lets a message begin.
    pub(super) fn unthrottled(&mut self, now: Time, number: u16) {
        self.hosts[usize::from(number)].throttled = None;
        self.admit(now, number);
    }

    /// A message has left the reserved memory.
    fn free(&mut self, now: Time, number: u16, size: Bytes) {
        let reserved = &mut self.hosts[usize::from(number)].reserved;
        *reserved = Bytes(reserved.0.saturating_sub(size.0));
        self.admit(now, number);
    }

    /// The last packet of a message has left its initiator.
    pub(super) fn left(&mut self, now: Time, number: u16, id: Id<Carried>) {
        let Carried { purpose, ticket, size, .. } = self.messages[id];
        if purpose != Use::Data {
            return;
        }
        if self.rules.release == Release::Transmission {
            self.free(now, number, size);
        }
        if let Some(place) = self.copies.iter().position(|(own, _)| *own == ticket) {
            self.copies[place].1 -= 1;
            if self.copies[place].1 > 0 {
                return;
            }
            self.copies.swap_remove(place);
        }
        self.notices.push(Notice::Sent { time: now, ticket });
        if self.rules.release == Release::Transmission {
            self.release(now, number);
        }
    }

    /// A place of the adapter is free.
    fn release(&mut self, now: Time, number: u16) {
        let host = &mut self.hosts[usize::from(number)];
        // A message from above has no place.
        let Some(held) = host.held.checked_sub(1) else { return };
        host.held = held;
        if host.source.feedback() == Feedback::Ready {
            self.queue.push(now, Event::Generate(number));
        }
        self.admit(now, number);
    }

    /// A message is in the memory of a target.
    pub(super) fn arrived(&mut self, now: Time, number: u16, id: Id<Carried>) {
        let message = &mut self.messages[id];
        message.missing = message.missing.saturating_sub(1);
        let message = *message;
        if message.missing == 0 {
            self.messages.remove(id);
        }
        let arrivals = &mut self.hosts[usize::from(number)].arrivals[message.channel];
        let arrived = arrivals.pop_front().unwrap_or(now);
        match message.purpose {
            Use::Data => self.deliver(now, (number, arrived), &message),
            Use::Acknowledgment { begun, answered } => {
                if now >= self.observations.from {
                    let answer = Answered { bytes: answered, time: now.since(begun) };
                    self.hosts[usize::from(number)].answered.add(answer);
                }
                self.observations.latency(Latency::RoundTrip, now, now.since(begun));
                if self.rules.release == Release::Acknowledgment {
                    self.free(now, number, answered);
                    self.release(now, number);
                }
            }
            Use::BarrierAcknowledgment => {
                let ticket = self.hosts[usize::from(number)].barrier;
                self.notices.push(Notice::Delivered { time: now, ticket, to: number });
            }
            // The controller of the switch takes it out of the FIFO.
            Use::BarrierRequest => {}
        }
    }

    fn deliver(&mut self, now: Time, (number, arrived): (u16, Time), message: &Carried) {
        let Carried { from, ticket, generated, begun, damaged, .. } = *message;
        self.under_way -= 1;
        let seen = &mut self.observations;
        if damaged {
            self.notices.push(Notice::Lost { time: now, ticket, to: number });
            seen.abandon(now);
        } else {
            self.notices.push(Notice::Delivered { time: now, ticket, to: number });
            seen.latency(Latency::Queueing, now, begun.since(generated));
            seen.latency(Latency::Transit, now, now.since(begun));
            seen.latency(Latency::OneWay, now, now.since(generated));
            seen.deliver_from(usize::from(from), now, message.size);
        }
        if now >= seen.from && !damaged {
            seen.hops.count(message.hops);
            self.spend(now, (number, arrived), message);
        }
        // The target sees nothing wrong, and answers.
        if let Some(size) = self.transfer.acknowledgment {
            let to = Destination::Host(from);
            let answer = Message { from: number, to, size, ticket };
            let id =
                self.create(now, answer, Use::Acknowledgment { begun, answered: message.size });
            self.send(now, number, id);
        }
        let source = &mut self.hosts[usize::from(number)].source;
        if source.feedback() == Feedback::Delivered {
            let before = source.next_time();
            source.delivered(now, from.into());
            let next = source.next_time();
            if next != before {
                self.queue.push(next, Event::Generate(number));
            }
        }
    }

    /// Adds where the time of a message went: that of its last packet, which ends with it.
    fn spend(&mut self, now: Time, (number, arrived): (u16, Time), message: &Carried) {
        let Carried { spent, tail, begun, generated, .. } = *message;
        // The cables of the hosts are the first.
        let timing = self.cables[usize::from(number)].link.timing();
        let moving = timing.packet + timing.propagation;
        let wait = Span(arrived.since(tail).0.saturating_sub(moving.0));
        let budget = &mut self.observations.budget;
        budget.add(Stage::BufferWait, begun.since(generated));
        budget.add(Stage::InitiatorHost, spent.memory);
        budget.add(Stage::SlotWait, spent.link_wait + wait);
        budget.add(Stage::Transmission, spent.transmission + timing.packet);
        budget.add(Stage::Wire, spent.wire + timing.propagation);
        budget.add(Stage::Switch, spent.switch);
        budget.add(Stage::SwitchWait, spent.switch_wait);
        budget.add(Stage::TargetHost, now.since(arrived));
    }
}
