//! Between the memory of a host and its FIFOs: when each mover begins, and the effects of what it
//! has moved.

use weft_fabric::interface::{Cargo, Due, Move, TransferPath};

use super::message::Use;
use super::places::MoverId;
use super::{Packet, Step, ends};

impl Step<'_> {
    /// A message of a host is to go into its send FIFO.
    pub(super) fn send(&mut self, host: u32, message: u32) {
        let own = &mut *self.own;
        let carried = &own.messages[message as usize];
        let direct = own.parts.transfer.path == TransferPath::Direct;
        let what = if direct { Move::Fill } else { Move::Load };
        let channel = carried.channel();
        own.hosts[host as usize].movers.push(channel, what, carried.cargo(message));
        self.go(MoverId { host, channel, what });
    }

    /// Lets a mover continue with one packet, if it can.
    pub(super) fn go(&mut self, mover: MoverId) {
        let MoverId { host, channel, what } = mover;
        if what == Move::Load || what == Move::Store {
            self.bypass(mover);
        }
        if self.own.hosts[host as usize].movers.is_busy(channel, what) {
            return;
        }
        let Some((cargo, first)) = self.next_of(mover) else { return };
        if what == Move::Fill {
            let port = self.graph.host_port(host);
            let send = &mut self.own.stations[port as usize].send[channel];
            if !send.has_room() {
                return;
            }
            send.reserve();
        }
        if what != Move::Store && what != Move::Empty && first {
            self.begin(cargo.message);
        }
        let own = &mut *self.own;
        let (rules, size) = (&own.parts.transfer, own.parts.packet);
        let movers = &mut own.hosts[host as usize].movers;
        let due = movers.start(self.now, (channel, what), (cargo, first), (rules, size));
        let (time, item) = match due {
            Due::Prepared(time) => (time, mover.item(false)),
            Due::Moved(time) => (time, mover.item(true)),
        };
        self.at(time, self.own.places.moves + host, item);
    }

    /// What a mover is working on or takes next, and whether no packet of it has been moved yet: a
    /// message to be received is in the FIFO.
    fn next_of(&self, mover: MoverId) -> Option<(Cargo<u32>, bool)> {
        let MoverId { host, channel, what } = mover;
        if what != Move::Empty {
            return self.own.hosts[host as usize].movers.next(channel, what);
        }
        let port = self.graph.host_port(host);
        let packet = self.own.stations[port as usize].receive[channel].front()?;
        let cargo = self.own.messages[packet.message as usize].cargo(packet.message);
        Some((cargo, packet.number == 0))
    }

    /// What a processor moves does not go through the memory of the adapter, but keeps its order.
    fn bypass(&mut self, mover: MoverId) {
        let MoverId { host, channel, what } = mover;
        let next = |step: &mut Step<'_>| {
            let own = &mut *step.own;
            own.hosts[host as usize].movers.bypass(channel, what, &own.parts.transfer)
        };
        while let Some(cargo) = next(self) {
            self.hand_on(mover, cargo);
        }
    }

    /// The first byte of a message is moved, or prepared to be.
    fn begin(&mut self, id: u32) {
        let message = &mut self.own.messages[id as usize];
        if std::mem::replace(&mut message.has_begun, true) {
            return;
        }
        self.packets.packets[id as usize].start = self.now;
        if message.purpose == Use::Data {
            self.own.under_way += u64::from(message.missing);
            self.seen.attempt(self.now);
        }
    }

    /// The first packet of a message can be moved.
    pub(super) fn prepared(&mut self, mover: MoverId) {
        let Some((cargo, _)) = self.next_of(mover) else { return };
        let MoverId { host, what, .. } = mover;
        let own = &mut *self.own;
        let (rules, size) = (&own.parts.transfer, own.parts.packet);
        let until = own.hosts[host as usize].movers.carry(self.now, what, &cargo, (rules, size));
        self.at(until, self.own.places.moves + host, mover.item(true));
    }

    /// A packet has been moved.
    pub(super) fn moved_by_host(&mut self, mover: MoverId) {
        let MoverId { host, channel, what } = mover;
        let moved = self.own.hosts[host as usize].movers.moved(channel, what);
        if what == Move::Empty {
            self.emptied(host, channel);
        } else if let Some(moved) = moved {
            let (message, number, last) = (moved.cargo.message, moved.number, moved.last);
            if what == Move::Fill {
                self.filled(host, channel, Packet { message, number, last });
            } else if last {
                self.hand_on(mover, moved.cargo);
            }
        }
        self.go(mover);
    }

    /// A message has reached the memory of the adapter, or from there that of the host.
    fn hand_on(&mut self, mover: MoverId, cargo: Cargo<u32>) {
        let MoverId { host, channel, what } = mover;
        if what == Move::Store {
            return self.arrived(host, cargo.message);
        }
        self.own.hosts[host as usize].movers.push(channel, Move::Fill, cargo);
        self.go(MoverId { what: Move::Fill, ..mover });
    }

    /// A packet is in the send FIFO.
    fn filled(&mut self, host: u32, channel: usize, packet: Packet) {
        let begun = self.packets.packets[packet.message as usize].start;
        let message = &mut self.own.messages[packet.message as usize];
        message.journey.filled(self.now, begun, ends(packet));
        let port = self.graph.host_port(host);
        self.own.stations[port as usize].send[channel].put(packet, packet.last);
        self.wake(port);
    }

    /// A packet is out of the receive FIFO.
    fn emptied(&mut self, host: u32, channel: usize) {
        let port = self.graph.host_port(host);
        let taken = self.own.stations[port as usize].receive[channel].take();
        let Some(packet) = taken else { return };
        self.drained(port, channel);
        let own = &mut *self.own;
        match own.parts.transfer.path {
            _ if !packet.last => {}
            TransferPath::Direct => self.arrived(host, packet.message),
            TransferPath::Memory { .. } => {
                let cargo = own.messages[packet.message as usize].cargo(packet.message);
                own.hosts[host as usize].movers.push(channel, Move::Store, cargo);
                self.go(MoverId { host, channel, what: Move::Store });
            }
        }
    }
}
