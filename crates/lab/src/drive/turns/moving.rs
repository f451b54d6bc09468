//! Between the memory of a host and its FIFOs: when each mover begins, and what comes of what it has
//! moved.

use weft_fabric::graph::StationPacket;
use weft_fabric::interface::{Cargo, Due, Move, TransferPath};
use weft_kernel::Id;
use weft_units::Time;

use super::message::{Carried, Packet, Use};
use super::{Event, TurnChannel};

impl TurnChannel {
    /// A message of a host is to go into its send FIFO.
    pub(super) fn send(&mut self, now: Time, number: u16, id: Id<Carried>) {
        let message = self.messages[id];
        let direct = self.transfer.path == TransferPath::Direct;
        let first = if direct { Move::Fill } else { Move::Load };
        let movers = &mut self.hosts[usize::from(number)].movers;
        movers.push(message.channel, first, message.cargo(id));
        self.go(now, number, message.channel, first);
    }

    /// Lets a mover go on if it can: with one packet.
    pub(super) fn go(&mut self, now: Time, number: u16, channel: usize, what: Move) {
        if what == Move::Load || what == Move::Store {
            self.bypass(now, number, channel, what);
        }
        if self.hosts[usize::from(number)].movers.is_busy(channel, what) {
            return;
        }
        let Some((cargo, first)) = self.next_of(number, channel, what) else { return };
        if what == Move::Fill {
            let send = &mut self.stations[usize::from(number)].send[channel];
            if !send.has_room() {
                return;
            }
            send.reserve();
        }
        if what != Move::Store && what != Move::Empty && first {
            self.begin(now, cargo.message);
        }
        let (rules, movers) = (&self.transfer, &mut self.hosts[usize::from(number)].movers);
        let size = self.link.packet;
        let due = movers.start(now, (channel, what), (cargo, first), (rules, size));
        let channel = channel as u8;
        let (time, event) = match due {
            Due::Prepared(time) => (time, Event::Prepared { host: number, channel, what }),
            Due::Moved(time) => (time, Event::Moved { host: number, channel, what }),
        };
        self.queue.push(time, event);
    }

    /// What a mover has in hand or takes next, and whether no packet of it is moved yet: what is to be
    /// emptied stands in the FIFO.
    fn next_of(
        &self,
        number: u16,
        channel: usize,
        what: Move,
    ) -> Option<(Cargo<Id<Carried>>, bool)> {
        if what != Move::Empty {
            return self.hosts[usize::from(number)].movers.next(channel, what);
        }
        let packet = self.stations[usize::from(number)].receive[channel].front()?;
        let cargo = self.messages[packet.message].cargo(packet.message);
        Some((cargo, packet.number == 0))
    }

    /// What a processor moves does not go through the memory of the adapter, but stays in order.
    fn bypass(&mut self, now: Time, number: u16, channel: usize, what: Move) {
        let next = |own: &mut TurnChannel| {
            let movers = &mut own.hosts[usize::from(number)].movers;
            movers.bypass(channel, what, &own.transfer)
        };
        while let Some(cargo) = next(self) {
            self.hand_on(now, (number, channel), what, cargo);
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

    /// The first packet of a message can be moved.
    pub(super) fn prepared(&mut self, now: Time, number: u16, channel: usize, what: Move) {
        let Some((cargo, _)) = self.next_of(number, channel, what) else { return };
        let (rules, movers) = (&self.transfer, &mut self.hosts[usize::from(number)].movers);
        let until = movers.carry(now, what, &cargo, (rules, self.link.packet));
        self.queue.push(until, Event::Moved { host: number, channel: channel as u8, what });
    }

    /// A packet has been moved.
    pub(super) fn moved_by_host(&mut self, now: Time, number: u16, channel: usize, what: Move) {
        let moved = self.hosts[usize::from(number)].movers.moved(channel, what);
        if what == Move::Empty {
            self.emptied(now, number, channel);
        } else if let Some(moved) = moved {
            let (message, number_of_packet, last) = (moved.cargo.message, moved.number, moved.last);
            if what == Move::Fill {
                let packet = StationPacket { message, number: number_of_packet, last };
                self.filled(now, (number, channel), packet);
            } else if last {
                self.hand_on(now, (number, channel), what, moved.cargo);
            }
        }
        self.go(now, number, channel, what);
    }

    /// A message is in the memory of the adapter, or from there in that of the host.
    fn hand_on(
        &mut self,
        now: Time,
        (number, channel): (u16, usize),
        what: Move,
        cargo: Cargo<Id<Carried>>,
    ) {
        if what == Move::Store {
            return self.arrived(now, number, cargo.message);
        }
        self.hosts[usize::from(number)].movers.push(channel, Move::Fill, cargo);
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
                let cargo = self.messages[packet.message].cargo(packet.message);
                self.hosts[usize::from(number)].movers.push(channel, Move::Store, cargo);
                self.go(now, number, channel, Move::Store);
            }
        }
    }
}
