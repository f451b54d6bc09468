//! Between the memory of a host and its FIFOs, one packet after another: by DMA or by a processor,
//! straight or through the memory of the adapter, over a bus that all may share (Maestro 3.3).
//!
//! Each host has for each channel four movers that work at the same time, of which the first and the
//! last have something to do only where the way leads through the memory of the adapter. The bus and
//! the processor of the adapter serve who came first.

use std::collections::VecDeque;

use weft_fabric::interface::{PioBy, TransferBus, TransferPath};
use weft_kernel::Id;
use weft_units::{Rate, Span, Time};

use super::message::{Carried, Use};
use super::station::Packet;
use super::{Event, TurnChannel};

/// What a mover does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// From the memory of the host into that of the adapter.
    Load,
    /// Into the send FIFO.
    Fill,
    /// Out of the receive FIFO.
    Empty,
    /// From the memory of the adapter into that of the host.
    Store,
}

/// A mover.
#[derive(Clone, Debug, Default)]
pub(super) struct Mover {
    /// Messages in order; the first one is being moved. What is emptied stands in the FIFO.
    pub queue: VecDeque<Id<Carried>>,
    /// How many packets of the first one have been moved.
    moved: u32,
    busy: bool,
}

/// The movers of one channel of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Movers {
    load: Mover,
    fill: Mover,
    empty: Mover,
    store: Mover,
}

/// When what the movers of a host share is free.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shared {
    bus: Time,
    manager: Time,
}

/// What moves a packet, and what happens before the first one of a message.
#[derive(Clone, Copy, Debug)]
struct Way {
    rate: Rate,
    over_bus: bool,
    /// What the processor of the adapter does before, how long it is busy after that, and what the
    /// mover then takes to be set up.
    before: Span,
    after: Span,
    set_up: Span,
}

impl Movers {
    /// Messages that have not reached the FIFO as a whole, in order.
    pub fn outgoing(&self) -> impl Iterator<Item = Id<Carried>> + '_ {
        self.fill.queue.iter().chain(&self.load.queue).copied()
    }

    fn of(&mut self, what: Move) -> &mut Mover {
        match what {
            Move::Load => &mut self.load,
            Move::Fill => &mut self.fill,
            Move::Empty => &mut self.empty,
            Move::Store => &mut self.store,
        }
    }
}

/// Takes what is shared from `now` on, or as soon as it is free, and returns until when.
fn take(free: &mut Time, now: Time, span: Span) -> Time {
    *free = (*free).max(now) + span;
    *free
}

impl TurnChannel {
    /// A message of a host is to go into its send FIFO.
    pub(super) fn send(&mut self, now: Time, number: u16, id: Id<Carried>) {
        let channel = self.messages[id].channel;
        let direct = self.transfer.path == TransferPath::Direct;
        let first = if direct { Move::Fill } else { Move::Load };
        self.movers(number, channel).of(first).queue.push_back(id);
        self.go(now, number, channel, first);
    }

    fn movers(&mut self, number: u16, channel: usize) -> &mut Movers {
        &mut self.hosts[usize::from(number)].movers[channel]
    }

    /// Lets a mover go on if it can: with one packet.
    pub(super) fn go(&mut self, now: Time, number: u16, channel: usize, what: Move) {
        if what == Move::Load || what == Move::Store {
            self.skip(now, number, channel, what);
        }
        let mover = self.movers(number, channel).of(what);
        if mover.busy {
            return;
        }
        let (front, moved) = (mover.queue.front().copied(), mover.moved);
        let station = &mut self.stations[usize::from(number)];
        let (id, first) = match (what, front) {
            (Move::Empty, _) => match station.receive[channel].front() {
                Some(packet) => (packet.message, packet.number == 0),
                None => return,
            },
            (_, None) => return,
            (Move::Fill, Some(_)) if !station.send[channel].has_room() => return,
            (_, Some(id)) => (id, moved == 0),
        };
        if what == Move::Fill {
            station.send[channel].reserve();
        }
        if what != Move::Store && what != Move::Empty && first {
            self.begin(now, id);
        }
        self.movers(number, channel).of(what).busy = true;
        let way = self.way(what, id);
        let ready = if first { self.prepare(now, number, way) } else { now };
        if ready > now {
            let event = Event::Prepared { host: number, channel: channel as u8, what };
            self.queue.push(ready, event);
        } else {
            self.carry(now, (number, channel), what, way);
        }
    }

    /// What a processor moves does not go through the memory of the adapter, but stays in order.
    fn skip(&mut self, now: Time, number: u16, channel: usize, what: Move) {
        while let Some(&id) = self.movers(number, channel).of(what).queue.front()
            && self.transfer.pio(self.messages[id].size).is_some()
        {
            self.movers(number, channel).of(what).queue.pop_front();
            self.hand_on(now, (number, channel), what, id);
        }
    }

    /// The first byte of a message is moved, or prepared to be.
    fn begin(&mut self, now: Time, id: Id<Carried>) {
        let message = &mut self.messages[id];
        if message.has_begun {
            return;
        }
        message.has_begun = true;
        message.begun = now;
        if message.purpose == Use::Data {
            self.observations.attempt(now);
            self.under_way += u64::from(message.missing);
        }
    }

    fn way(&self, what: Move, id: Id<Carried>) -> Way {
        let Carried { size, purpose, packets, .. } = self.messages[id];
        let pio = self.transfer.pio(size);
        if let (TransferPath::Memory { rate }, None, Move::Fill | Move::Empty) =
            (self.transfer.path, pio, what)
        {
            let [before, after, set_up] = [Span::ZERO; 3];
            return Way { rate, over_bus: false, before, after, set_up };
        }
        let mover = self.transfer.mover(size);
        let pages = (purpose == Use::Data).then_some(size);
        let by_host = pio.is_some_and(|pio| pio.by == PioBy::Host);
        let manager = self.transfer.manager.filter(|_| !by_host);
        let by_manager = pio.is_some() && !by_host;
        let moving = mover.rate.span(self.link.packet) * u64::from(packets);
        Way {
            rate: mover.rate,
            over_bus: true,
            before: manager.map_or(Span::ZERO, |manager| manager.span(pages)),
            after: if by_manager { moving } else { Span::ZERO },
            set_up: mover.set_up,
        }
    }

    /// What comes before the first packet of a message; returns when it is over.
    fn prepare(&mut self, now: Time, number: u16, way: Way) -> Time {
        if way.before + way.after == Span::ZERO {
            return now + way.set_up;
        }
        let manager = &mut self.hosts[usize::from(number)].shared.manager;
        let begins = take(manager, now, Span::ZERO);
        take(manager, now, way.before + way.after);
        begins + way.before + way.set_up
    }

    /// The first packet of a message can be moved.
    pub(super) fn prepared(&mut self, now: Time, number: u16, channel: usize, what: Move) {
        let front = match what {
            Move::Empty => {
                let front = self.stations[usize::from(number)].receive[channel].front();
                front.map(|packet| packet.message)
            }
            _ => self.movers(number, channel).of(what).queue.front().copied(),
        };
        let Some(id) = front else { return };
        let way = self.way(what, id);
        self.carry(now, (number, channel), what, way);
    }

    /// Moves a packet.
    fn carry(&mut self, now: Time, (number, channel): (u16, usize), what: Move, way: Way) {
        let span = way.rate.span(self.link.packet);
        let shared = &mut self.hosts[usize::from(number)].shared;
        let until = match (way.over_bus, self.transfer.bus) {
            (false, _) => take(&mut shared.manager, now, span),
            (true, TransferBus::Shared) => take(&mut shared.bus, now, span),
            (true, TransferBus::Independent) => now + span,
        };
        self.queue.push(until, Event::Moved { host: number, channel: channel as u8, what });
    }

    /// A packet has been moved.
    pub(super) fn moved_by_host(&mut self, now: Time, number: u16, channel: usize, what: Move) {
        let mover = self.movers(number, channel).of(what);
        mover.busy = false;
        if what == Move::Empty {
            self.emptied(now, number, channel);
        } else if let Some(&id) = mover.queue.front() {
            let (at, packets) = (mover.moved, self.messages[id].packets);
            let mover = self.movers(number, channel).of(what);
            mover.moved += 1;
            let last = mover.moved == packets;
            if last {
                mover.queue.pop_front();
                mover.moved = 0;
            }
            if what == Move::Fill {
                self.filled(now, (number, channel), Packet { message: id, number: at, last });
            } else if last {
                self.hand_on(now, (number, channel), what, id);
            }
        }
        self.go(now, number, channel, what);
    }

    /// A message is in the memory of the adapter, or from there in that of the host.
    fn hand_on(&mut self, now: Time, (number, channel): (u16, usize), what: Move, id: Id<Carried>) {
        if what == Move::Store {
            return self.arrived(now, number, id);
        }
        self.movers(number, channel).fill.queue.push_back(id);
        self.go(now, number, channel, Move::Fill);
    }

    /// A packet is in the send FIFO.
    fn filled(&mut self, now: Time, (number, channel): (u16, usize), packet: Packet) {
        let message = &mut self.messages[packet.message];
        if packet.number == 0 {
            message.head = now;
        }
        if packet.last {
            message.tail = now;
            message.spent.memory = now.since(message.begun);
        }
        self.stations[usize::from(number)].send[channel].put(packet, packet.last);
        self.wake(now, u32::from(number));
    }

    /// A packet is out of the receive FIFO.
    fn emptied(&mut self, now: Time, number: u16, channel: usize) {
        let Some(packet) = self.stations[usize::from(number)].receive[channel].take() else {
            return;
        };
        self.drained(u32::from(number), channel);
        match self.transfer.path {
            _ if !packet.last => {}
            TransferPath::Direct => self.arrived(now, number, packet.message),
            TransferPath::Memory { .. } => {
                self.movers(number, channel).store.queue.push_back(packet.message);
                self.go(now, number, channel, Move::Store);
            }
        }
    }
}
