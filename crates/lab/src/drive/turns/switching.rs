//! Switches: from the receive FIFO of one port into the send FIFOs of others.

use weft_fabric::fabric::{Peer, RouteState};
use weft_fabric::graph::Station;
use weft_fabric::switch::bits;
use weft_fabric::switch::{BoxPorts, BoxRules, CONTROLLER, Counted, Header, SwitchBox, Transfer};
use weft_kernel::{Arena, Id};
use weft_units::{Span, Time};

use super::message::{Carried, Packet, Use};
use super::{Event, NO_PAYLOAD, TurnChannel};
use crate::drive::carrier::{Destination, Message, Ticket};

/// A switch, and the messages in it whose ways part.
#[derive(Debug)]
pub(super) struct Switch {
    pub inner: SwitchBox<Id<Carried>>,
    /// Where the ways of a message part: for each port that it leaves by, what it is from there on.
    parted: Vec<Branch>,
}

/// A part of a message for several targets: those behind one port.
#[derive(Clone, Copy, Debug)]
struct Branch {
    whole: Id<Carried>,
    port: u32,
    part: Id<Carried>,
}

/// The FIFOs at the ports of one switch.
struct Ports<'a> {
    stations: &'a [Station<Id<Carried>>],
    messages: &'a Arena<Carried>,
}

impl BoxPorts<Id<Carried>> for Ports<'_> {
    fn front(&self, port: u32, channel: usize) -> Option<Id<Carried>> {
        self.stations[port as usize].receive[channel].front().map(|packet| packet.message)
    }

    fn room(&self, port: u32, channel: usize) -> usize {
        self.stations[port as usize].send[channel].room()
    }

    fn packets(&self, message: Id<Carried>) -> usize {
        self.messages[message].packets as usize
    }
}

impl Switch {
    pub fn new(rules: &BoxRules, ports: u32, alone: bool) -> Switch {
        Switch { inner: SwitchBox::new(rules, ports, alone), parted: Vec::new() }
    }
}

impl TurnChannel {
    /// The first packet of a message has come to a port.
    pub(super) fn header(
        &mut self,
        now: Time,
        station: u32,
        (switch, number): (u32, u32),
        message: Id<Carried>,
    ) {
        let purpose = self.messages[message].purpose;
        let of_barrier = matches!(purpose, Use::BarrierRequest | Use::BarrierAcknowledgment);
        match self.switches[switch as usize].inner.header(number, message, of_barrier) {
            Header::Known => self.order(now, station, message),
            Header::Read => self.read(now, switch, (number, message)),
            Header::Waits => {}
        }
    }

    /// A header is read from now on.
    fn read(&mut self, now: Time, switch: u32, (number, message): (u32, Id<Carried>)) {
        self.messages[message].read = now;
        let station = self.station_of(switch, number) as u32;
        let event = Event::Analysed { station, message };
        self.queue.push(now + self.rules_of_switches[switch as usize].analysis, event);
    }

    /// A switch knows where a message goes.
    pub(super) fn analysed(&mut self, now: Time, station: u32, message: Id<Carried>) {
        let Carried { purpose, read, .. } = self.messages[message];
        if purpose == Use::Data {
            self.legs.analysis.add(now.since(read));
        }
        self.order(now, station, message);
        let switch = self.switch_at(station);
        if let Some(next) = self.switches[switch as usize].inner.analysed() {
            self.read(now, switch, next);
        }
    }

    /// The switch is ordered to move a message.
    fn order(&mut self, now: Time, station: u32, message: Id<Carried>) {
        let switch = self.switch_at(station);
        let outputs = self.outputs(switch, message);
        let channel = self.messages[message].channel;
        let input = self.number_of(station);
        let transfer = Transfer { message, input, channel, outputs, set_up: false };
        self.switches[switch as usize].inner.order(transfer);
        self.pass(now, switch);
    }

    fn switch_at(&self, station: u32) -> u32 {
        self.wiring.switch_of(station - self.wiring.hosts())
    }

    fn number_of(&self, station: u32) -> u32 {
        let port = station - self.wiring.hosts();
        port - self.wiring.port(self.wiring.switch_of(port), 0)
    }

    fn station_of(&self, switch: u32, number: u32) -> usize {
        self.wiring.hosts() as usize + self.wiring.port(switch, number) as usize
    }

    /// The ports by which a message leaves a switch; none for what the switch keeps. Where its ways
    /// part it is from there on a message for each port.
    fn outputs(&mut self, switch: u32, id: Id<Carried>) -> u64 {
        let message = self.messages[id];
        let ways: Vec<(u32, Destination, RouteState)> = match message.purpose {
            Use::BarrierRequest => return 0,
            Use::BarrierAcknowledgment => {
                let ports = bits(self.barrier.below(switch));
                ports.map(|port| (port, message.to, message.route_state)).collect()
            }
            Use::Data | Use::Acknowledgment { .. } => self.ways(switch, &message),
        };
        let parts = ways.len() > 1;
        let mut outputs = 0;
        for (port, to, route_state) in ways {
            outputs |= 1 << port;
            let missing = to.hosts().count() as u32;
            let part = Carried {
                to,
                missing,
                route_state,
                hops: message.hops.saturating_add(1),
                ..message
            };
            if parts {
                let part = self.messages.insert(part);
                let branch = Branch { whole: id, port, part };
                self.switches[switch as usize].parted.push(branch);
            } else {
                self.messages[id] = part;
            }
        }
        outputs
    }

    /// The ports by which a message leaves a switch, each with the targets behind it.
    fn ways(&self, switch: u32, message: &Carried) -> Vec<(u32, Destination, RouteState)> {
        let mut ways: Vec<(u32, Destination, RouteState)> = Vec::with_capacity(1);
        for to in message.to.hosts() {
            let mut route_state = message.route_state;
            let port = self.routes.port((switch, message.hops), to, &mut route_state, |_| 0);
            let behind = ways.iter_mut().find(|(own, ..)| *own == port);
            match (message.to, behind) {
                (Destination::Host(_), _) => ways.push((port, message.to, route_state)),
                (_, Some((_, Destination::Hosts(hosts), _))) => *hosts |= 1 << to,
                (Destination::Hosts(_), _) => {
                    ways.push((port, Destination::Hosts(1 << to), route_state));
                }
            }
        }
        ways
    }

    /// Lets a switch begin what can begin, and move the packets that it can.
    pub(super) fn pass(&mut self, now: Time, switch: u32) {
        let first = self.station_of(switch, 0);
        let ports = Ports { stations: &self.stations[first..], messages: &self.messages };
        self.switches[switch as usize].inner.begin(&ports);
        self.keep(now, switch);
        self.grant(now, switch);
    }

    /// Takes the barrier requests that are first in their FIFO out of it.
    fn keep(&mut self, now: Time, switch: u32) {
        while let Some(kept) = self.switches[switch as usize].inner.keep() {
            let station = self.station_of(switch, kept.input);
            self.stations[station].receive[kept.channel].take();
            self.drained(station as u32, kept.channel);
            self.messages.remove(kept.message);
            self.count_arrival(now, switch);
        }
    }

    /// A port has arrived at the barrier; when all have, the controller tells them at once, or the
    /// switch above that all below this one have.
    fn count_arrival(&mut self, now: Time, switch: u32) {
        let counted = self.barrier.count(switch);
        let purpose = match counted {
            Counted::Waits => return,
            Counted::Up(_) => Use::BarrierRequest,
            Counted::Complete => Use::BarrierAcknowledgment,
        };
        // Ports decide where it goes, and hosts know which barrier they wait at.
        let to = Destination::Host(0);
        let message = Message { from: 0, to, size: NO_PAYLOAD, ticket: Ticket(0) };
        let id = self.create(now, message, purpose);
        let outputs = match counted {
            Counted::Up(port) => 1 << port,
            Counted::Waits | Counted::Complete => self.outputs(switch, id),
        };
        let channel = self.messages[id].channel;
        let transfer = Transfer { message: id, input: CONTROLLER, channel, outputs, set_up: false };
        self.switches[switch as usize].inner.order(transfer);
        self.pass(now, switch);
    }

    /// Lets packets pass while there is one that can.
    fn grant(&mut self, now: Time, switch: u32) {
        let first = self.station_of(switch, 0);
        loop {
            let ports = Ports { stations: &self.stations[first..], messages: &self.messages };
            let granted = self.switches[switch as usize].inner.grant(&ports);
            let Some((transfer, span)) = granted else { return };
            let Transfer { input, channel, outputs, set_up, message } = transfer;
            if !set_up {
                self.messages[message].invoked = now;
            }
            for port in bits(outputs) {
                self.stations[first + port as usize].send[channel].reserve();
            }
            let event = Event::Passed { switch, input, channel: channel as u8 };
            self.queue.push(now + span, event);
        }
    }

    /// A packet has passed a switch.
    pub(super) fn passed(&mut self, now: Time, switch: u32, input: u32, channel: usize) {
        let passed = self.switches[switch as usize].inner.passed(input, channel);
        let Some(transfer) = passed else { return };
        let station = self.station_of(switch, input);
        let packet = if input == CONTROLLER {
            Some(Packet { message: transfer.message, number: 0, last: true })
        } else {
            let taken = self.stations[station].receive[channel].take();
            self.drained(station as u32, channel);
            taken
        };
        let Some(packet) = packet else { return };
        let whole = packet.message;
        for port in bits(transfer.outputs) {
            let message = self.part(switch, whole, port);
            let packet = Packet { message, ..packet };
            if message != whole && packet.last {
                let Carried { tail, spent, damaged, .. } = self.messages[whole];
                let part = &mut self.messages[message];
                (part.tail, part.spent) = (tail, spent);
                part.damaged |= damaged;
            }
            self.account_for_switch(now, (switch, port), packet);
            let output = self.station_of(switch, port);
            self.stations[output].send[channel].put(packet, packet.last);
            self.wake(now, output as u32);
        }
        if packet.last {
            let Carried { purpose, invoked, .. } = self.messages[whole];
            if purpose == Use::Data {
                self.legs.transfer.add(now.since(invoked));
            }
            let own = &mut self.switches[switch as usize];
            own.inner.finish(whole);
            own.parted.retain(|branch| branch.whole != whole);
            if transfer.outputs.count_ones() > 1 {
                self.messages.remove(whole);
            }
        }
        self.pass(now, switch);
    }

    /// What a message is behind a port.
    fn part(&self, switch: u32, whole: Id<Carried>, port: u32) -> Id<Carried> {
        let mut branches = self.switches[switch as usize].parted.iter();
        let own = branches.find(|branch| branch.whole == whole && branch.port == port);
        own.map_or(whole, |branch| branch.part)
    }

    fn account_for_switch(&mut self, now: Time, (switch, port): (u32, u32), packet: Packet) {
        let rules = &self.rules_of_switches[switch as usize];
        let BoxRules { analysis, set_up, packet: moving, .. } = *rules;
        let to_host = matches!(self.wiring.peer(self.wiring.port(switch, port)), Peer::Host(_));
        let message = &mut self.messages[packet.message];
        if packet.number == 0 && to_host && message.purpose == Use::Data {
            self.legs.switch.add(now.since(message.head));
            message.head = now;
        }
        if packet.last {
            let alone = if message.packets == 1 { analysis + set_up + moving } else { moving };
            let span = now.since(message.tail);
            let switch = alone.0.min(span.0);
            message.spent.switch += Span(switch);
            message.spent.switch_wait += Span(span.0 - switch);
            message.tail = now;
        }
    }
}
