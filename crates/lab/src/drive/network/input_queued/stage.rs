//! One switch: what waits in its inputs, and what a slot lets through.

use std::collections::VecDeque;

use weft_fabric::fabric::Peer;
use weft_fabric::scheduler::{AnyScheduler, Scheduler};
use weft_kernel::Id;
use weft_units::Time;

use super::sender::Sender;
use super::{Event, InputQueuedNetwork, Link, Packet};

/// A switch.
#[derive(Debug)]
pub(super) struct Stage {
    pub scheduler: AnyScheduler,
    pub ports: u32,
    /// The index of its first port among those of all switches.
    pub first: u32,
    /// The index of its first queue among those of all switches.
    pub base: u32,
    /// The inputs that packets are on their way to, and those that hold packets, by bit.
    pub expecting: u64,
    pub busy: u64,
    /// The inputs that a packet leaves, and the outputs that it leaves by.
    held: (u64, u64),
    /// When inputs and outputs are held no longer, in order. Where a packet is one cell, they never
    /// are when a slot begins.
    releases: VecDeque<(Time, u64, u64)>,
    /// The outputs that had no credit when they were looked at last.
    broke: u64,
    /// The next slot that it takes part in.
    pub due: Time,
}

/// An input with its buffer.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// Who sends to it.
    upstream: Peer,
    /// The packets on their way to it, the oldest and the youngest, and from which slot on the
    /// oldest is there.
    oldest: Link,
    youngest: Link,
    there_at: Time,
    /// The outputs that packets in the buffer wait for, by bit.
    wanted: u64,
    /// Until when a packet leaves it.
    held: Time,
}

/// An output.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub peer: Peer,
    pub sender: Sender,
    /// How many packets in the buffers of the switch wait for it.
    pub waiting: u32,
    /// Until when a packet leaves by it.
    held: Time,
}

impl Stage {
    pub fn new(scheduler: AnyScheduler, ports: u32, first: u32, base: u32) -> Stage {
        Stage {
            scheduler,
            ports,
            first,
            base,
            expecting: 0,
            busy: 0,
            held: (0, 0),
            releases: VecDeque::new(),
            broke: 0,
            due: Time::NEVER,
        }
    }

    /// An input and an output are held by a packet until `end`, which is not before any other.
    #[inline]
    fn hold(&mut self, end: Time, input: u32, output: u32) {
        let (input, output) = (1 << input, 1 << output);
        self.held = (self.held.0 | input, self.held.1 | output);
        match self.releases.back_mut().filter(|last| last.0 == end) {
            Some(last) => *last = (end, last.1 | input, last.2 | output),
            None => self.releases.push_back((end, input, output)),
        }
    }

    /// Lets go of what is held no longer at `now`.
    #[inline]
    fn release(&mut self, now: Time) {
        while let Some(&(_, inputs, outputs)) = self.releases.front().filter(|next| next.0 <= now) {
            self.held = (self.held.0 & !inputs, self.held.1 & !outputs);
            self.releases.pop_front();
        }
    }

    /// The inputs that no packet leaves.
    #[inline]
    fn free(&self) -> u64 {
        !self.held.0
    }

    /// The outputs by which a packet can start.
    #[inline]
    fn open(&self) -> u64 {
        !(self.held.1 | self.broke)
    }
}

impl Input {
    pub fn new(upstream: Peer) -> Input {
        let (oldest, youngest, held) = (None, None, Time::ZERO);
        Input { upstream, oldest, youngest, there_at: Time::NEVER, wanted: 0, held }
    }
}

impl Output {
    /// An output to a buffer of so many packets, if a switch is at the other end.
    pub fn new(peer: Peer, buffer: u32) -> Output {
        let credits = if matches!(peer, Peer::Port(_)) { buffer } else { 0 };
        Output { peer, sender: Sender::new(credits), waiting: 0, held: Time::ZERO }
    }

    /// From when on a packet may start; `None` if that is not known.
    #[inline]
    fn ready_at(&mut self, now: Time) -> Option<Time> {
        match self.peer {
            Peer::Host(_) => Some(self.held),
            Peer::Port(_) | Peer::Unused => Some(self.sender.credit_at(now)?.max(self.held)),
        }
    }
}

impl InputQueuedNetwork {
    /// A packet was sent to an input, whose switch can decide on it from `slot` on.
    #[inline]
    pub(super) fn expect(&mut self, id: Id<Packet>, port: u32, slot: Time) {
        let note = &mut self.ends.packets[id].note;
        note.behind = None;
        note.slot = slot;
        let switch = self.owner[port as usize];
        let input = &mut self.inputs[port as usize];
        match input.youngest.replace(id) {
            Some(before) => self.ends.packets[before].note.behind = Some(id),
            None => {
                let stage = &mut self.stages[switch as usize];
                input.oldest = Some(id);
                input.there_at = slot;
                stage.expecting |= 1 << (port - stage.first);
                let first = slot.max(input.held);
                self.take_part(switch, first);
            }
        }
    }

    /// Packets that are there by now join the queues of their outputs. Returns from which slot on the
    /// next ones can leave.
    #[inline]
    fn admit(&mut self, now: Time, switch: u32) -> Time {
        let stage = &mut self.stages[switch as usize];
        let (first, mut left, mut next) = (stage.first, stage.expecting, Time::NEVER);
        for input in Members(stage.expecting) {
            let own = &mut self.inputs[(first + input) as usize];
            while own.there_at <= now {
                let Some(id) = own.oldest else { break };
                let packet = &mut self.ends.packets[id];
                let outputs = &self.outputs;
                let output = self.routes.port(
                    (switch, packet.note.hops),
                    packet.to,
                    &mut packet.note.heading,
                    |output| u64::from(outputs[(first + output) as usize].waiting),
                );
                packet.note.hops += 1;
                own.oldest = packet.note.behind.take();
                own.wanted |= 1 << output;
                self.outputs[(first + output) as usize].waiting += 1;
                let queue = &mut self.queues[(stage.base + input * stage.ports + output) as usize];
                match queue.1.replace(id) {
                    Some(before) => self.ends.packets[before].note.behind = Some(id),
                    None => queue.0 = Some(id),
                }
                stage.busy |= 1 << input;
                match own.oldest {
                    Some(oldest) => own.there_at = self.ends.packets[oldest].note.slot,
                    None => {
                        (own.youngest, own.there_at) = (None, Time::NEVER);
                        left &= !(1 << input);
                    }
                }
            }
            next = next.min(own.there_at.max(own.held));
        }
        stage.expecting = left;
        next
    }

    /// A slot begins: the scheduler chooses among the packets that may leave.
    pub(super) fn slot(&mut self, now: Time, switch: u32) {
        let stage = &mut self.stages[switch as usize];
        if stage.due != now {
            return;
        }
        stage.due = Time::NEVER;
        let next = self.admit(now, switch);
        let stage = &mut self.stages[switch as usize];
        stage.release(now);
        for output in Members(stage.broke) {
            let sender = &mut self.outputs[(stage.first + output) as usize].sender;
            stage.broke &= !(u64::from(sender.has_credit(now)) << output);
        }
        let size = stage.ports as usize - 1;
        let requests = &mut self.requests[size];
        requests.clear_all();
        let mut requesting = 0_u64;
        for input in Members(stage.busy & stage.free()) {
            let wanted = self.inputs[(stage.first + input) as usize].wanted & stage.open();
            for output in Members(wanted) {
                requests.set(input as usize, output as usize);
            }
            requesting |= u64::from(wanted != 0) << input;
        }
        if requesting != 0 {
            stage.scheduler.schedule(requests, &mut self.random, &mut self.matching[size]);
        }
        for input in Members(requesting) {
            if let Some(output) = self.matching[size].target_of(input as usize) {
                self.pass(now, switch, input, output as u32);
            }
        }
        let next = next.min(self.next_slot(now, switch));
        if next < Time::NEVER {
            self.take_part(switch, next);
        }
    }

    /// Lets the oldest packet of a queue through.
    fn pass(&mut self, now: Time, switch: u32, input: u32, output: u32) {
        let stage = &mut self.stages[switch as usize];
        let place = (stage.base + input * stage.ports + output) as usize;
        let Some(id) = self.queues[place].0 else { return };
        let own = &mut self.inputs[(stage.first + input) as usize];
        self.queues[place].0 = self.ends.packets[id].note.behind.take();
        if self.queues[place].0.is_none() {
            self.queues[place].1 = None;
            own.wanted &= !(1 << output);
            if own.wanted == 0 {
                stage.busy &= !(1 << input);
            }
        }
        let end = now + self.timing.held;
        own.held = end;
        let upstream = own.upstream;
        let out = &mut self.outputs[(stage.first + output) as usize];
        out.held = end;
        out.waiting -= 1;
        if self.timing.held > self.timing.cell {
            stage.hold(end, input, output);
        }
        match out.peer {
            Peer::Port(peer) => {
                let is_last = out.sender.spend();
                stage.broke |= u64::from(is_last) << output;
                let slot = now + self.timing.hop;
                self.expect(id, peer, slot);
            }
            Peer::Host(_) | Peer::Unused => {
                let arrival = now + self.timing.packet + self.timing.propagation;
                self.agenda.push(arrival, Event::Deliver(id));
            }
        }
        self.restore(upstream, end + self.timing.propagation);
    }

    /// Returns the credit of a packet to whoever sent it.
    fn restore(&mut self, upstream: Peer, time: Time) {
        match upstream {
            Peer::Port(port) => {
                let sender = &mut self.outputs[port as usize].sender;
                sender.restore(time);
                if std::mem::take(&mut sender.starved) {
                    let slot = self.timing.slot_at(time);
                    self.take_part(self.owner[port as usize], slot);
                }
            }
            Peer::Host(host) => {
                let state = &mut self.hosts[usize::from(host)];
                state.sender.restore(time);
                if std::mem::take(&mut state.sender.starved) {
                    state.wake = time;
                    self.agenda.push(time, Event::Send(host));
                }
            }
            Peer::Unused => {}
        }
    }

    /// The first slot after `now` in which one of the packets in the buffers may leave, as far as
    /// that is known.
    fn next_slot(&mut self, now: Time, switch: u32) -> Time {
        let stage = &self.stages[switch as usize];
        let soonest = now + self.timing.cell;
        let is_free = |input: u32| {
            let own = &self.inputs[(stage.first + input) as usize];
            own.wanted & stage.open() != 0
        };
        if Members(stage.busy & stage.free()).any(is_free) {
            return soonest;
        }
        let mut next = Time::NEVER;
        for input in Members(stage.busy) {
            let own = &self.inputs[(stage.first + input) as usize];
            for output in Members(own.wanted) {
                let output = &mut self.outputs[(stage.first + output) as usize];
                let Some(ready) = output.ready_at(now) else { continue };
                next = next.min(ready.max(own.held));
            }
        }
        match next {
            Time::NEVER => Time::NEVER,
            next if next <= soonest => soonest,
            next => self.timing.slot_at(next),
        }
    }

    /// Sees to it that a switch takes part in a slot.
    #[inline]
    fn take_part(&mut self, switch: u32, slot: Time) {
        let stage = &mut self.stages[switch as usize];
        if slot < stage.due {
            stage.due = slot;
            self.agenda.push(slot, Event::Slot(switch));
        }
    }
}

/// The ports of a set, in ascending order.
struct Members(u64);

impl Iterator for Members {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if self.0 == 0 {
            return None;
        }
        let lowest = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(lowest)
    }
}
