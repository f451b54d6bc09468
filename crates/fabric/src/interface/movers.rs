//! Movers transfer packets between the memory of a host and its FIFOs, by DMA or by a processor,
//! directly or through the memory of the adapter, over a bus that all may share (Maestro 3.3).
//!
//! Each host has four movers per channel, which work in parallel; the first and the last are used
//! only where packets pass through the memory of the adapter. The bus and the processor of the
//! adapter serve movers in the order of their requests. The part has no FIFOs and no events: the
//! caller says what may be moved, and it returns when that is done.

use std::collections::VecDeque;

use weft_protocol::turns::CHANNELS;
use weft_units::{Bytes, Rate, Span, Time};

use super::{PioBy, TransferBus, TransferPath, TransferSettings};

/// The movers of a host and channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// From the memory of the host into that of the adapter.
    Load,
    /// Into the send FIFO.
    Fill,
    /// Out of the receive FIFO.
    Empty,
    /// From the memory of the adapter into that of the host.
    Store,
}

/// A message as its movers see it; `M` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cargo<M> {
    /// The message.
    pub message: M,
    /// Its payload.
    pub size: Bytes,
    /// How many packets it has.
    pub packets: u32,
    /// Whether it lies in pages of the host, whose addresses are translated.
    pub has_pages: bool,
}

/// When the current operation ends, and what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// All is set up, and the first packet can be moved: [`Movers::carry`].
    Prepared(Time),
    /// A packet is moved: [`Movers::moved`].
    Moved(Time),
}

/// A packet of a message that a mover has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedPacket<M> {
    /// The message.
    pub cargo: Cargo<M>,
    /// Which of its packets, from 0 on.
    pub number: u32,
    /// Whether it is the last one.
    pub last: bool,
}

/// The movers of a host.
#[derive(Clone, Debug)]
pub struct Movers<M> {
    channels: [[Mover<M>; 4]; CHANNELS],
    /// When the bus to the memory of the host is free.
    bus: Time,
    /// When the processor of the adapter is.
    manager: Time,
}

#[derive(Clone, Debug)]
struct Mover<M> {
    /// Messages in order; the first one is being moved. What is emptied stands in the FIFO.
    queue: VecDeque<Cargo<M>>,
    /// How many packets of the first one have been moved.
    moved: u32,
    busy: bool,
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

/// Occupies a shared resource from `now` on, or as soon as it is free, and returns until when.
fn take(free: &mut Time, now: Time, span: Span) -> Time {
    *free = (*free).max(now) + span;
    *free
}

impl<M> Default for Movers<M> {
    fn default() -> Movers<M> {
        let mover = || Mover { queue: VecDeque::new(), moved: 0, busy: false };
        let channels = [(); CHANNELS].map(|()| [(); 4].map(|()| mover()));
        Movers { channels, bus: Time::ZERO, manager: Time::ZERO }
    }
}

impl<M: Copy> Movers<M> {
    fn of(&self, channel: usize, what: Move) -> &Mover<M> {
        &self.channels[channel][what as usize]
    }

    fn of_mut(&mut self, channel: usize, what: Move) -> &mut Mover<M> {
        &mut self.channels[channel][what as usize]
    }

    /// Messages that have not reached the send FIFO as a whole, in order.
    pub fn outgoing(&self, channel: usize) -> impl Iterator<Item = M> + '_ {
        let [load, fill] = [Move::Load, Move::Fill].map(|what| self.of(channel, what));
        fill.queue.iter().chain(&load.queue).map(|cargo| cargo.message)
    }

    /// Appends a message to be moved.
    pub fn push(&mut self, channel: usize, what: Move, cargo: Cargo<M>) {
        self.of_mut(channel, what).queue.push_back(cargo);
    }

    /// The next message that a processor moves past the memory of the adapter: this mover only keeps
    /// it in order.
    pub fn bypass(
        &mut self,
        channel: usize,
        what: Move,
        rules: &TransferSettings,
    ) -> Option<Cargo<M>> {
        let queue = &mut self.of_mut(channel, what).queue;
        let passes = queue.front().is_some_and(|cargo| rules.pio(cargo.size).is_some());
        if passes { queue.pop_front() } else { None }
    }

    /// Whether a mover is at work.
    pub fn is_busy(&self, channel: usize, what: Move) -> bool {
        self.of(channel, what).busy
    }

    /// The message that a mover is working on or takes next, and whether no packet of it has been
    /// moved yet.
    pub fn next(&self, channel: usize, what: Move) -> Option<(Cargo<M>, bool)> {
        let mover = self.of(channel, what);
        mover.queue.front().map(|cargo| (*cargo, mover.moved == 0))
    }

    /// A mover begins with a packet of `bytes`, the `first` one of its message or a later one.
    pub fn start(
        &mut self,
        now: Time,
        (channel, what): (usize, Move),
        (cargo, first): (Cargo<M>, bool),
        (rules, bytes): (&TransferSettings, Bytes),
    ) -> Due {
        self.of_mut(channel, what).busy = true;
        let way = way(what, &cargo, rules, bytes);
        let ready = if first { self.prepare(now, way) } else { now };
        if ready > now {
            Due::Prepared(ready)
        } else {
            Due::Moved(self.move_by(now, way, rules, bytes))
        }
    }

    /// The set-up before the first packet of a message; returns when it is over.
    fn prepare(&mut self, now: Time, way: Way) -> Time {
        if way.before + way.after == Span::ZERO {
            return now + way.set_up;
        }
        let begins = take(&mut self.manager, now, Span::ZERO);
        take(&mut self.manager, now, way.before + way.after);
        begins + way.before + way.set_up
    }

    /// A packet of a message that is prepared is moved from now on. Returns until when.
    pub fn carry(
        &mut self,
        now: Time,
        what: Move,
        cargo: &Cargo<M>,
        (rules, bytes): (&TransferSettings, Bytes),
    ) -> Time {
        self.move_by(now, way(what, cargo, rules, bytes), rules, bytes)
    }

    fn move_by(&mut self, now: Time, way: Way, rules: &TransferSettings, bytes: Bytes) -> Time {
        let span = way.rate.span(bytes);
        match (way.over_bus, rules.bus) {
            (false, _) => take(&mut self.manager, now, span),
            (true, TransferBus::Shared) => take(&mut self.bus, now, span),
            (true, TransferBus::Independent) => now + span,
        }
    }

    /// A mover has moved a packet. Returns which one, unless it came from a FIFO, which knows.
    pub fn moved(&mut self, channel: usize, what: Move) -> Option<MovedPacket<M>> {
        let mover = self.of_mut(channel, what);
        mover.busy = false;
        let cargo = *mover.queue.front()?;
        let number = mover.moved;
        mover.moved += 1;
        let last = mover.moved == cargo.packets;
        if last {
            mover.queue.pop_front();
            mover.moved = 0;
        }
        Some(MovedPacket { cargo, number, last })
    }
}

/// How a packet of this many bytes of a message is moved.
fn way<M>(what: Move, cargo: &Cargo<M>, rules: &TransferSettings, bytes: Bytes) -> Way {
    let pio = rules.pio(cargo.size);
    if let (TransferPath::Memory { rate }, None, Move::Fill | Move::Empty) = (rules.path, pio, what)
    {
        let [before, after, set_up] = [Span::ZERO; 3];
        return Way { rate, over_bus: false, before, after, set_up };
    }
    let mover = rules.mover(cargo.size);
    let pages = cargo.has_pages.then_some(cargo.size);
    let by_host = pio.is_some_and(|pio| pio.by == PioBy::Host);
    let manager = rules.manager.filter(|_| !by_host);
    let by_manager = pio.is_some() && !by_host;
    let moving = mover.rate.span(bytes) * u64::from(cargo.packets);
    Way {
        rate: mover.rate,
        over_bus: true,
        before: manager.map_or(Span::ZERO, |manager| manager.span(pages)),
        after: if by_manager { moving } else { Span::ZERO },
        set_up: mover.set_up,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::{ManagerSettings, MoverSettings, PioSettings};

    const PACKET: Bytes = Bytes(16);
    const FILL: (usize, Move) = (0, Move::Fill);

    /// 16 bytes in 320 ns by DMA, which is set up in 40 ns.
    fn rules() -> TransferSettings {
        let rate = Rate::from_bits_per_second(400_000_000);
        TransferSettings::by_dma(MoverSettings { set_up: Span::from_ns(40), rate })
    }

    fn cargo(message: char, size: u64, packets: u32) -> Cargo<char> {
        Cargo { message, size: Bytes(size), packets, has_pages: true }
    }

    fn ns(time: u64) -> Time {
        Time(time * 1_000)
    }

    /// Begins with what a mover takes next.
    fn start(
        movers: &mut Movers<char>,
        now: u64,
        at: (usize, Move),
        rules: &TransferSettings,
    ) -> Due {
        let next = movers.next(at.0, at.1).unwrap();
        movers.start(ns(now), at, next, (rules, PACKET))
    }

    /// Two packets: set up until 40 ns, moved at 360 and 680 ns; the second needs no set-up.
    #[test]
    fn a_message_is_set_up_once_and_moved_packet_by_packet() {
        let (rules, mut movers) = (rules(), Movers::default());
        movers.push(0, Move::Fill, cargo('a', 25, 2));
        assert_eq!(start(&mut movers, 0, FILL, &rules), Due::Prepared(ns(40)));
        assert!(movers.is_busy(0, Move::Fill));
        let until = movers.carry(ns(40), Move::Fill, &cargo('a', 25, 2), (&rules, PACKET));
        assert_eq!(until, ns(360));
        let moved = movers.moved(0, Move::Fill).map(|own| (own.number, own.last));
        assert_eq!(moved, Some((0, false)));
        assert_eq!(movers.outgoing(0).collect::<Vec<char>>(), ['a']);
        assert_eq!(start(&mut movers, 360, FILL, &rules), Due::Moved(ns(680)));
        let moved = movers.moved(0, Move::Fill).map(|own| (own.number, own.last));
        assert_eq!(moved, Some((1, true)));
        assert_eq!((movers.next(0, Move::Fill), movers.outgoing(0).count()), (None, 0));
    }

    /// Both channels and both directions begin at 0 ns: on one bus they end at 320, 640 and 960 ns,
    /// with separate ways all at 320 ns.
    #[test]
    fn a_shared_bus_moves_one_packet_at_a_time() {
        for (bus, expected) in
            [(TransferBus::Shared, [320, 640, 960]), (TransferBus::Independent, [320; 3])]
        {
            let (rules, mut movers) = (TransferSettings { bus, ..rules() }, Movers::default());
            let mut carry = |what| movers.carry(ns(0), what, &cargo('a', 25, 2), (&rules, PACKET));
            let ends = [Move::Fill, Move::Fill, Move::Empty].map(&mut carry);
            assert_eq!(ends, expected.map(ns));
        }
    }

    /// 500 ns for a message and 200 ns for each of its two pages, one message after another: 900 and
    /// 1800, and 40 ns to set up the DMA behind each.
    #[test]
    fn the_processor_of_the_adapter_serves_who_came_first() {
        let (message, translation) = (Span::from_ns(500), Span::from_ns(200));
        let manager = Some(ManagerSettings { message, translation, page: Bytes(4_096) });
        let (rules, mut movers) = (TransferSettings { manager, ..rules() }, Movers::default());
        let large = cargo('a', 5_000, 313);
        for channel in 0..2 {
            movers.push(channel, Move::Fill, large);
        }
        assert_eq!(start(&mut movers, 0, (0, Move::Fill), &rules), Due::Prepared(ns(940)));
        assert_eq!(start(&mut movers, 0, (1, Move::Fill), &rules), Due::Prepared(ns(1_840)));
    }

    /// A processor that moves a message of two packets itself is busy for 640 ns with them; that of the
    /// host is not that of the adapter.
    #[test]
    fn who_moves_short_messages_is_busy_with_them() {
        for (by, second) in
            [(PioBy::Manager, Due::Prepared(ns(640))), (PioBy::Host, Due::Moved(ns(320)))]
        {
            let rate = Rate::from_bits_per_second(400_000_000);
            let pio = Some(PioSettings { up_to: Bytes(25), by, set_up: Span::ZERO, rate });
            let (rules, mut movers) = (TransferSettings { pio, ..rules() }, Movers::default());
            for channel in 0..2 {
                movers.push(channel, Move::Fill, cargo('a', 25, 2));
            }
            assert_eq!(start(&mut movers, 0, (0, Move::Fill), &rules), Due::Moved(ns(320)));
            assert_eq!(start(&mut movers, 0, (1, Move::Fill), &rules), second);
        }
    }

    /// Between the memory of the adapter and the FIFO its processor moves 16 bytes in 1280 ns at 100
    /// Mbit/s. A message short enough for a processor bypasses that memory, unless a longer one waits
    /// in front of it.
    #[test]
    fn a_way_through_the_memory_of_the_adapter_has_two_legs() {
        let path = TransferPath::Memory { rate: Rate::from_bits_per_second(100_000_000) };
        let (set_up, rate) = (Span::ZERO, Rate::from_bits_per_second(400_000_000));
        let pio = Some(PioSettings { up_to: Bytes(11), by: PioBy::Host, set_up, rate });
        let (rules, mut movers) = (TransferSettings { path, pio, ..rules() }, Movers::default());
        let [long, short] = [cargo('a', 25, 2), cargo('b', 5, 1)];
        movers.push(0, Move::Fill, long);
        assert_eq!(start(&mut movers, 0, FILL, &rules), Due::Moved(ns(1_280)));
        movers.push(0, Move::Load, short);
        movers.push(0, Move::Load, long);
        movers.push(0, Move::Load, short);
        assert_eq!(movers.bypass(0, Move::Load, &rules), Some(short));
        assert_eq!(movers.bypass(0, Move::Load, &rules), None);
        assert_eq!(start(&mut movers, 0, (0, Move::Load), &rules), Due::Prepared(ns(40)));
    }
}
