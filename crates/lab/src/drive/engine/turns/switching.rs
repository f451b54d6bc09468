//! Switches: from the receive FIFO of one port into the send FIFOs of others.

use weft_fabric::fabric::RouteState;
use weft_fabric::graph::Station;
use weft_fabric::switch::bits;
use weft_fabric::switch::{BoxPorts, BoxRules, CONTROLLER, Counted, Header, SwitchBox, Transfer};

use super::message::{Carried, Use};
use super::{NO_PAYLOAD, Packet, Step};
use crate::drive::carrier::{Destination, Message, Ticket};

/// A switch, and the messages that branch in it.
#[derive(Debug)]
pub(super) struct Switch {
    pub rules: BoxRules,
    pub inner: SwitchBox<u32>,
    /// Where a multicast branches: for each port by which it leaves, the message that it becomes
    /// there.
    parted: Vec<Branch>,
}

/// A part of a message for several targets: the targets behind one port.
#[derive(Clone, Copy, Debug)]
struct Branch {
    whole: u32,
    port: u32,
    part: u32,
}

/// A port by which a message leaves a switch, and the targets behind it.
#[derive(Clone, Copy, Debug)]
struct Way {
    port: u32,
    to: Destination,
    route_state: RouteState,
}

/// The FIFOs at the ports of one switch.
struct Ports<'a> {
    stations: &'a [Station<u32>],
    messages: &'a [Carried],
}

impl BoxPorts<u32> for Ports<'_> {
    fn front(&self, port: u32, channel: usize) -> Option<u32> {
        self.stations[port as usize].receive[channel].front().map(|packet| packet.message)
    }

    fn room(&self, port: u32, channel: usize) -> usize {
        self.stations[port as usize].send[channel].room()
    }

    fn packets(&self, message: u32) -> usize {
        self.messages[message as usize].packets as usize
    }
}

impl Switch {
    /// A switch with this many ports, alone or one of several.
    pub fn new(rules: &BoxRules, ports: u32, alone: bool) -> Switch {
        let inner = SwitchBox::new(rules, ports, alone);
        Switch { rules: *rules, inner, parted: Vec::new() }
    }

    /// What a message becomes behind a port.
    fn part(&self, whole: u32, port: u32) -> u32 {
        let is_own = |branch: &&Branch| branch.whole == whole && branch.port == port;
        self.parted.iter().find(is_own).map_or(whole, |branch| branch.part)
    }
}

impl Step<'_> {
    /// The first packet of a message has arrived at a port of a switch.
    pub(super) fn header(&mut self, switch: u32, input: u32, message: u32) {
        let purpose = self.own.messages[message as usize].purpose;
        let of_barrier = matches!(purpose, Use::BarrierRequest | Use::BarrierAcknowledgment);
        match self.own.switches[switch as usize].inner.header(input, message, of_barrier) {
            Header::Known => self.order(switch, input, message),
            Header::Read => self.read(switch, input, message),
            Header::Waits => {}
        }
    }

    /// A header is read from now on.
    fn read(&mut self, switch: u32, input: u32, message: u32) {
        self.own.messages[message as usize].journey.read(self.now);
        let known = self.now + self.own.switches[switch as usize].rules.analysis;
        let port = self.graph.first_port(switch) + input;
        self.at(known, self.own.places.headers + port, message);
    }

    /// A switch knows where a message at a port goes.
    pub(super) fn analysed(&mut self, port: u32, message: u32) {
        let Carried { purpose, journey, .. } = self.own.messages[message as usize];
        if purpose == Use::Data {
            self.own.legs.analysis.add(journey.since_read(self.now));
        }
        let switch = self.graph.switch_of(port);
        self.order(switch, port - self.graph.first_port(switch), message);
        if let Some((input, message)) = self.own.switches[switch as usize].inner.analysed() {
            self.read(switch, input, message);
        }
    }

    /// A switch is ordered to move a message.
    fn order(&mut self, switch: u32, input: u32, message: u32) {
        let outputs = self.outputs(switch, message);
        let channel = self.own.messages[message as usize].channel();
        let transfer = Transfer { message, input, channel, outputs, set_up: false };
        self.own.switches[switch as usize].inner.order(transfer);
        self.pass(switch);
    }

    /// The ports by which a message leaves a switch; none for what the switch keeps. Where it
    /// branches it becomes a message for each port.
    fn outputs(&mut self, switch: u32, id: u32) -> u64 {
        let way = &mut self.packets.forwarding[id as usize];
        let (route_state, before) = (way.route_state, way.hops);
        way.hops = before.saturating_add(1);
        let message = self.own.messages[id as usize];
        let ways: Vec<Way> = match (message.purpose, message.to) {
            (Use::BarrierRequest, _) => return 0,
            (Use::BarrierAcknowledgment, to) => {
                let ports = bits(self.own.barrier.below(switch));
                ports.map(|port| Way { port, to, route_state }).collect()
            }
            (_, Destination::Host(to)) => {
                return 1 << self.routes.port(switch, before, to, &mut way.route_state, |_| 0);
            }
            (_, Destination::Hosts(_)) => self.ways(switch, message.to, route_state, before),
        };
        let outputs = ways.iter().fold(0, |all, way| all | 1 << way.port);
        match ways[..] {
            [one] => self.go_on(id, one),
            _ => ways.iter().for_each(|way| self.branch(switch, id, *way)),
        }
        outputs
    }

    /// A message goes on by a branch, with the targets behind it.
    fn go_on(&mut self, id: u32, Way { to, route_state, .. }: Way) {
        self.packets.forwarding[id as usize].route_state = route_state;
        let message = &mut self.own.messages[id as usize];
        (message.to, message.missing) = (to, to.hosts().count() as u32);
    }

    /// A message for several targets goes on as another one by a port.
    fn branch(&mut self, switch: u32, whole: u32, way: Way) {
        let (forwarding, packet) =
            (self.packets.forwarding[whole as usize], self.packets.packets[whole as usize]);
        let (Way { port, .. }, carried) = (way, self.own.messages[whole as usize]);
        let part = self.insert(forwarding, packet, carried);
        self.go_on(part, way);
        self.own.switches[switch as usize].parted.push(Branch { whole, port, part });
    }

    /// The ports by which a message leaves a switch, each with the targets behind it.
    fn ways(&self, switch: u32, to: Destination, state: RouteState, hops: u16) -> Vec<Way> {
        let mut ways: Vec<Way> = Vec::with_capacity(1);
        for host in to.hosts() {
            let mut route_state = state;
            let port = self.routes.port(switch, hops, host, &mut route_state, |_| 0);
            match ways.iter_mut().find(|own| own.port == port) {
                Some(Way { to: Destination::Hosts(hosts), .. }) => *hosts |= 1 << host,
                _ => ways.push(Way { port, to: Destination::Hosts(1 << host), route_state }),
            }
        }
        ways
    }

    /// Lets a switch begin what can begin, and move the packets that it can.
    pub(super) fn pass(&mut self, switch: u32) {
        let first = self.graph.first_port(switch) as usize;
        let own = &mut *self.own;
        let ports = Ports { stations: &own.stations[first..], messages: &own.messages };
        own.switches[switch as usize].inner.begin(&ports);
        self.keep(switch);
        self.grant(switch);
    }

    /// Takes the barrier requests that are first in their FIFO out of it.
    fn keep(&mut self, switch: u32) {
        while let Some(kept) = self.own.switches[switch as usize].inner.keep() {
            let port = self.graph.first_port(switch) + kept.input;
            self.own.stations[port as usize].receive[kept.channel].take();
            self.drained(port, kept.channel);
            self.packets.remove(kept.message);
            self.count_arrival(switch);
        }
    }

    /// A port has arrived at the barrier. When all ports have, the controller passes that on: to
    /// all ports at the same time, or to the switch above, as long as there is one.
    fn count_arrival(&mut self, switch: u32) {
        let counted = self.own.barrier.count(switch);
        let purpose = match counted {
            Counted::Waits => return,
            Counted::Up(_) => Use::BarrierRequest,
            Counted::Complete => Use::BarrierAcknowledgment,
        };
        // Ports decide its direction, and hosts know at which barrier they wait.
        let to = Destination::Host(0);
        let nothing = Message { from: 0, to, size: NO_PAYLOAD, ticket: Ticket(0) };
        let message = self.create(nothing, purpose);
        let outputs = match counted {
            Counted::Up(port) => 1 << port,
            Counted::Waits | Counted::Complete => self.outputs(switch, message),
        };
        let (input, channel) = (CONTROLLER, purpose.channel());
        let transfer = Transfer { message, input, channel, outputs, set_up: false };
        self.own.switches[switch as usize].inner.order(transfer);
        self.pass(switch);
    }

    /// Lets packets pass while there is one that can.
    fn grant(&mut self, switch: u32) {
        let first = self.graph.first_port(switch);
        loop {
            let own = &mut *self.own;
            let ports =
                Ports { stations: &own.stations[first as usize..], messages: &own.messages };
            let granted = own.switches[switch as usize].inner.grant(&ports);
            let Some((transfer, span)) = granted else { return };
            let Transfer { input, channel, outputs, set_up, message } = transfer;
            if !set_up {
                own.messages[message as usize].journey.invoke(self.now);
            }
            for port in bits(outputs) {
                own.stations[(first + port) as usize].send[channel].reserve();
            }
            let place = match input {
                CONTROLLER => own.places.controllers + switch,
                input => first + input,
            };
            self.at(self.now + span, place, channel as u32);
        }
    }

    /// A packet has passed a switch.
    pub(super) fn passed(&mut self, switch: u32, input: u32, channel: usize) {
        let passed = self.own.switches[switch as usize].inner.passed(input, channel);
        let Some(transfer) = passed else { return };
        let packet = if input == CONTROLLER {
            Some(Packet { message: transfer.message, number: 0, last: true })
        } else {
            let port = self.graph.first_port(switch) + input;
            let taken = self.own.stations[port as usize].receive[channel].take();
            self.drained(port, channel);
            taken
        };
        let Some(packet) = packet else { return };
        for number in bits(transfer.outputs) {
            self.leave(switch, number, channel, packet);
        }
        if packet.last {
            let (whole, own) = (packet.message, &mut *self.own);
            let Carried { purpose, journey, .. } = own.messages[whole as usize];
            if purpose == Use::Data {
                own.legs.transfer.add(journey.since_invoked(self.now));
            }
            let switch = &mut own.switches[switch as usize];
            switch.inner.finish(whole);
            if transfer.outputs.count_ones() > 1 {
                switch.parted.retain(|branch| branch.whole != whole);
                self.packets.remove(whole);
            }
        }
        self.pass(switch);
    }

    /// A packet is in the send FIFO of a port of a switch, as a packet of the message that its
    /// message is behind that port.
    fn leave(&mut self, switch: u32, number: u32, channel: usize, packet: Packet) {
        let (whole, own) = (packet.message, &mut *self.own);
        let message = own.switches[switch as usize].part(whole, number);
        if message != whole && packet.last {
            let Carried { journey, damaged, .. } = own.messages[whole as usize];
            let part = &mut own.messages[message as usize];
            journey.part(&mut part.journey);
            part.damaged |= damaged;
        }
        let (packet, port) = (Packet { message, ..packet }, self.graph.first_port(switch) + number);
        self.account_for_switch(switch, port, packet);
        self.own.stations[port as usize].send[channel].put(packet, packet.last);
        self.wake(port);
    }

    fn account_for_switch(&mut self, switch: u32, port: u32, packet: Packet) {
        let (now, own) = (self.now, &mut *self.own);
        let BoxRules { analysis, set_up, packet: moving, .. } = own.switches[switch as usize].rules;
        let message = &mut own.messages[packet.message as usize];
        if packet.number == 0 && message.purpose == Use::Data {
            let peer = self.graph.peer(port);
            if peer.is_some_and(|peer| peer >= self.graph.switch_ports()) {
                own.legs.switch.add(message.journey.advance(now));
            }
        }
        if packet.last {
            let alone = if message.packets == 1 { analysis + set_up + moving } else { moving };
            message.journey.pass(now, alone);
        }
    }
}
