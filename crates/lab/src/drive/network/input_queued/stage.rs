//! One switch: what waits in its inputs, and what a slot lets through.

use weft_fabric::fabric::Peer;
use weft_fabric::scheduler::{AnyScheduler, Scheduler};
use weft_kernel::Id;

use super::calendar::{Arrival, Release};
use super::{Event, InputQueuedNetwork, Packet};

/// A switch. Its scheduler stands elsewhere, so that what each slot reads is close together.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub ports: u32,
    /// The index of its first port among those of all switches.
    pub first: u32,
    /// The index of its first queue among those of all switches, were there one virtual channel.
    pub base: u32,
    /// The inputs that hold packets, by bit.
    busy: u64,
    /// The inputs that a packet leaves, and the outputs that it leaves by. Where a packet is one
    /// cell, they never are when a slot begins.
    held: (u64, u64),
    /// The outputs that the far end has stopped.
    pub stopped: u64,
}

/// What is at the other end of the cable in a port.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plug {
    Port(u32),
    Host(u16),
    Unused,
}

impl From<Peer> for Plug {
    fn from(peer: Peer) -> Plug {
        match peer {
            Peer::Port(port) => Plug::Port(port),
            Peer::Host(host) => Plug::Host(host as u16),
            Peer::Unused => Plug::Unused,
        }
    }
}

impl Stage {
    pub fn new(ports: u32, first: u32, base: u32) -> Stage {
        Stage { ports, first, base, busy: 0, held: (0, 0), stopped: 0 }
    }

    /// The inputs that hold packets and that none leaves.
    #[inline]
    fn ready(&self) -> u64 {
        self.busy & !self.held.0
    }
}

impl InputQueuedNetwork {
    /// A packet was sent to a port, where it can be decided on from `slot` on.
    #[inline]
    pub(super) fn expect(&mut self, id: Id<Packet>, port: u32, slot: u64) {
        self.calendar.arrivals.push(slot, Arrival { id, port });
    }

    /// A slot begins.
    pub(super) fn slot(&mut self, slot: u64) {
        let calendar = &mut self.calendar;
        std::mem::swap(&mut calendar.present, &mut calendar.next);
        calendar.is_next_needed = false;
        while let Some(Release { switch, input, output }) = self.calendar.releases.pop(slot) {
            let stage = &mut self.stages[switch as usize];
            stage.held.0 &= !(1 << input);
            stage.held.1 &= !(1 << output);
            if stage.busy != 0 {
                self.calendar.mark(switch);
            }
        }
        while let Some(place) = self.calendar.credits.pop(slot) {
            self.credit(place);
        }
        while let Some(signal) = self.calendar.signals.pop(slot) {
            let switch = self.owner[signal.port as usize];
            let stage = &mut self.stages[switch as usize];
            let output = 1 << (signal.port - stage.first);
            stage.stopped = (stage.stopped & !output) | if signal.stops { output } else { 0 };
            self.calendar.mark(switch);
        }
        while let Some(Arrival { id, port }) = self.calendar.arrivals.pop(slot) {
            self.admit(slot, id, port);
        }
        for word in 0..self.calendar.present.len() {
            let marked = std::mem::take(&mut self.calendar.present[word]);
            for bit in Members(marked) {
                self.visit(slot, word as u32 * 64 + bit);
            }
        }
    }

    /// A credit is back.
    #[inline]
    fn credit(&mut self, place: u32) {
        let credits = &mut self.flow.credits[place as usize];
        *credits += 1;
        if *credits == 1 {
            let channels = u32::from(self.flow.channels);
            let (port, channel) = (place / channels, place % channels);
            let switch = self.owner[port as usize];
            let output = port - self.stages[switch as usize].first;
            self.broke[(switch * channels + channel) as usize] &= !(1 << output);
            self.flow.starved -= 1;
            self.calendar.mark(switch);
        }
    }

    /// A packet that is there by now joins the queue of its output.
    #[inline]
    fn admit(&mut self, slot: u64, id: Id<Packet>, port: u32) {
        let switch = self.owner[port as usize];
        let stage = &mut self.stages[switch as usize];
        let packet = &mut self.ends.packets[id];
        let note = &mut packet.note;
        let waiting = &self.waiting;
        let first = stage.first;
        let place = (switch, note.hops);
        let occupied = |output| u64::from(waiting[(first + output) as usize]);
        let output = self.routes.port(place, packet.to, &mut note.heading, occupied);
        note.hops += 1;
        note.behind = None;
        let mut channel = note.channel;
        if self.flow.lanes > 1 {
            channel -= channel % self.flow.lanes;
            channel += self.routes.lane(switch, output, packet.to);
        }
        let (channels, input) = (u32::from(self.flow.channels), port - first);
        let channel = u32::from(channel);
        let queue = (stage.base + input * stage.ports + output) * channels + channel;
        let queue = &mut self.queues[queue as usize];
        match queue.1.replace(id) {
            Some(before) => self.ends.packets[before].note.behind = Some(id),
            None => queue.0 = Some(id),
        }
        self.wanted[(port * channels + channel) as usize] |= 1 << output;
        self.waiting[(first + output) as usize] += 1;
        stage.busy |= 1 << input;
        let is_free = (stage.held.0 >> input | (stage.held.1 | stage.stopped) >> output) & 1 == 0;
        if is_free && self.broke[(switch * channels + channel) as usize] >> output & 1 == 0 {
            self.calendar.mark(switch);
        }
        self.hold(slot, port);
    }

    /// The outputs for which an input has packets that may leave.
    #[inline]
    fn row(&self, switch: u32, port: u32, shut: u64) -> u64 {
        let channels = usize::from(self.flow.channels);
        let (first, broke) = (port as usize * channels, switch as usize * channels);
        let wanted = self.wanted[first..first + channels].iter();
        let open = wanted.zip(&self.broke[broke..broke + channels]);
        open.fold(0, |row, (wanted, broke)| row | wanted & !broke) & !shut
    }

    /// A switch takes part in a slot: its scheduler chooses among the packets that may leave.
    fn visit(&mut self, slot: u64, switch: u32) {
        let stage = &self.stages[switch as usize];
        let (first, size) = (stage.first, stage.ports as usize - 1);
        let shut = stage.held.1 | stage.stopped;
        let (mut requesting, mut several) = (0_u64, 0_u64);
        for input in Members(stage.ready()) {
            let row = self.row(switch, first + input, shut);
            if row != 0 {
                self.requests[size].set_row(input as usize, row);
                several |= requesting | (row & (row - 1));
                requesting |= 1 << input;
            }
        }
        if requesting == 0 {
            return;
        }
        self.choose(slot, switch, (requesting, several == 0));
        let stage = &self.stages[switch as usize];
        let shut = stage.held.1 | stage.stopped;
        if Members(stage.ready()).any(|input| self.row(switch, first + input, shut) != 0) {
            self.calendar.mark_next(switch);
        }
    }

    /// Lets through what the scheduler chooses among the requests; they are none afterwards.
    #[inline]
    fn choose(&mut self, slot: u64, switch: u32, (requesting, is_lone): (u64, bool)) {
        let size = self.stages[switch as usize].ports as usize - 1;
        let scheduler: &mut AnyScheduler = &mut self.schedulers[switch as usize];
        let requests = &mut self.requests[size];
        if is_lone {
            let input = requesting.trailing_zeros();
            let output = requests.row(input as usize).trailing_zeros();
            if scheduler.schedule_lone(input as usize, output as usize) {
                requests.clear_row(input as usize);
                self.pass(slot, switch, input, output);
                return;
            }
        }
        scheduler.schedule(requests, &mut self.random, &mut self.matching[size]);
        for input in Members(requesting) {
            self.requests[size].clear_row(input as usize);
            if let Some(output) = self.matching[size].target_of(input as usize) {
                self.pass(slot, switch, input, output as u32);
            }
        }
    }

    /// Lets the oldest packet of a queue through.
    #[inline]
    fn pass(&mut self, slot: u64, switch: u32, input: u32, output: u32) {
        let stage = &mut self.stages[switch as usize];
        let (from, to) = (stage.first + input, stage.first + output);
        let channels = u32::from(self.flow.channels);
        let channel = match channels {
            1 => 0,
            _ => turn(&mut self.turns[to as usize], channels, |channel| {
                let wanted = self.wanted[(from * channels + channel) as usize];
                let broke = self.broke[(switch * channels + channel) as usize];
                (wanted & !broke) >> output & 1 != 0
            }),
        };
        let queue = (stage.base + input * stage.ports + output) * channels + channel;
        let queue = &mut self.queues[queue as usize];
        let Some(id) = queue.0 else { return };
        let note = &mut self.ends.packets[id].note;
        queue.0 = note.behind.take();
        let held_in = std::mem::replace(&mut note.channel, channel as u8);
        if queue.0.is_none() {
            queue.1 = None;
            let own = (from * channels) as usize;
            self.wanted[own + channel as usize] &= !(1 << output);
            if self.wanted[own..own + channels as usize].iter().all(|wanted| *wanted == 0) {
                stage.busy &= !(1 << input);
            }
        }
        self.waiting[to as usize] -= 1;
        let start = self.timing.time_of(slot);
        self.ends.observations.occupy(to as usize, start, self.timing.packet);
        if self.timing.cells > 1 {
            stage.held.0 |= 1 << input;
            stage.held.1 |= 1 << output;
            let release = Release { switch, input: input as u8, output: output as u8 };
            self.calendar.releases.push(slot + self.timing.cells, release);
        }
        match self.plugs[to as usize] {
            Plug::Port(peer) => {
                self.spend(switch, (to, output), channel);
                self.expect(id, peer, slot + self.timing.hop);
            }
            Plug::Host(_) | Plug::Unused => {
                let left = start + self.timing.packet;
                self.agenda.push(left + self.timing.propagation, Event::Deliver(id));
            }
        }
        self.release(slot, from, held_in);
    }

    /// A packet is sent to a buffer.
    #[inline]
    fn spend(&mut self, switch: u32, (port, output): (u32, u32), channel: u32) {
        if !self.flow.has_credits {
            return;
        }
        let channels = u32::from(self.flow.channels);
        let credits = &mut self.flow.credits[(port * channels + channel) as usize];
        debug_assert!(*credits > 0, "a packet was sent to a full buffer");
        *credits -= 1;
        if *credits == 0 {
            self.broke[(switch * channels + channel) as usize] |= 1 << output;
            self.flow.starved += 1;
        }
    }

    /// Sees to it that a slot is looked at.
    #[inline]
    pub(super) fn take_part(&mut self, slot: u64) {
        if slot < self.calendar.due {
            self.calendar.due = slot;
            self.agenda.push(self.timing.time_of(slot), Event::Slot);
        }
    }
}

/// The next virtual channel of an output after the one that was served last.
#[inline]
fn turn(last: &mut u8, channels: u32, may_leave: impl Fn(u32) -> bool) -> u32 {
    let after = |step| (u32::from(*last) + step) % channels;
    let next = (1..=channels).map(after).find(|channel| may_leave(*channel)).unwrap_or(0);
    *last = next as u8;
    next
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
