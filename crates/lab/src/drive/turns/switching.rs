//! Switches: from the receive FIFO of one port into the send FIFOs of others.

use weft_fabric::fabric::{Peer, RouteState};
use weft_fabric::switch::{BarrierCounter, BusController, HeaderQueues, MulticastStart, Transfer};
use weft_kernel::Id;
use weft_protocol::turns::CHANNELS;
use weft_units::{Span, Time};

use super::barrier::Counted;
use super::message::{Carried, Use};
use super::parts::Switching;
use super::station::Packet;
use super::{Event, NO_PAYLOAD, TurnChannel};
use crate::drive::carrier::{Destination, Message, Ticket};

/// A switch with its processor and its controller.
#[derive(Debug)]
pub(super) struct Switch {
    /// Headers that wait for the processor: the station that they are at, and the message.
    headers: HeaderQueues<(u32, Id<Carried>)>,
    analysing: bool,
    pub controller: BusController<Id<Carried>>,
    /// Inputs of which a packet is on the bus, by channel.
    moving: [u64; CHANNELS],
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

/// The input of what the controller says itself: there is no such port.
const CONTROLLER: u32 = 63;

impl Switch {
    pub fn new(settings: &Switching, ports: u32) -> Switch {
        let per_interface = settings.processor.unwrap_or(1).max(1);
        Switch {
            headers: HeaderQueues::new((ports as usize).div_ceil(per_interface)),
            analysing: false,
            controller: BusController::new(CHANNELS),
            moving: [0; CHANNELS],
            parted: Vec::new(),
        }
    }

    /// Messages and headers that have not passed.
    pub fn held(&self) -> usize {
        self.headers.len() + self.controller.active().len() + self.controller.waiting().count()
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
        let counted = matches!(purpose, Use::BarrierRequest | Use::BarrierAcknowledgment)
            && self.switching.barrier == Some(BarrierCounter::Controller);
        let Some(per_interface) = self.switching.processor else {
            self.messages[message].read = now;
            let event = Event::Analysed { station, message };
            return self.queue.push(now + self.switching.analysis, event);
        };
        if counted {
            return self.order(now, station, message);
        }
        let own = &mut self.switches[switch as usize];
        own.headers.push(number as usize / per_interface.max(1), (station, message));
        self.analyse(now, switch);
    }

    /// The processor reads the next header, if it is free.
    fn analyse(&mut self, now: Time, switch: u32) {
        let own = &mut self.switches[switch as usize];
        if own.analysing {
            return;
        }
        let Some((station, message)) = own.headers.take() else { return };
        own.analysing = true;
        self.messages[message].read = now;
        let event = Event::Analysed { station, message };
        self.queue.push(now + self.switching.analysis, event);
    }

    /// A switch knows where a message goes.
    pub(super) fn analysed(&mut self, now: Time, station: u32, message: Id<Carried>) {
        let Carried { purpose, read, .. } = self.messages[message];
        if purpose == Use::Data {
            self.legs.analysis.add(now.since(read));
        }
        self.order(now, station, message);
        if self.switching.processor.is_some() {
            let switch = self.switch_at(station);
            self.switches[switch as usize].analysing = false;
            self.analyse(now, switch);
        }
    }

    /// The controller is ordered to move a message.
    fn order(&mut self, now: Time, station: u32, message: Id<Carried>) {
        let switch = self.switch_at(station);
        let outputs = self.outputs(switch, message);
        let channel = self.messages[message].channel;
        let input = self.number_of(station);
        let transfer = Transfer { message, input, channel, outputs, set_up: false };
        self.switches[switch as usize].controller.order(transfer);
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
                ports.map(|port| (port as u32, message.to, message.route_state)).collect()
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

    /// Lets the controller of a switch begin what can begin, and the bus move what it can.
    pub(super) fn pass(&mut self, now: Time, switch: u32) {
        let first = self.wiring.port(switch, 0) as usize + self.wiring.hosts() as usize;
        let own = &mut self.switches[switch as usize];
        let (stations, messages) = (&self.stations, &self.messages);
        let needs_room = self.wiring.switches() > 1
            && self.switching.multicast_start == MulticastStart::WithRoom;
        let is_first = |transfer: &Transfer<Id<Carried>>| {
            let front =
                || stations[first + transfer.input as usize].receive[transfer.channel].front();
            transfer.input == CONTROLLER
                || front().is_some_and(|packet: &Packet| packet.message == transfer.message)
        };
        let has_room = |transfer: &Transfer<Id<Carried>>| {
            let packets = messages[transfer.message].packets as usize;
            let room = |port: usize| stations[first + port].send[transfer.channel].room();
            let alone = transfer.outputs.count_ones() < 2;
            alone || !needs_room || bits(transfer.outputs).all(|port| room(port) >= packets)
        };
        own.controller.begin(is_first, has_room);
        self.keep(now, switch);
        self.grant(now, switch);
    }

    /// Takes the barrier requests that are first in their FIFO out of it.
    fn keep(&mut self, now: Time, switch: u32) {
        let own = &self.switches[switch as usize].controller;
        let requests = own.active().iter().filter(|transfer| transfer.outputs == 0);
        let requests: Vec<Transfer<Id<Carried>>> = requests.copied().collect();
        for transfer in requests {
            let station = self.station_of(switch, transfer.input);
            self.switches[switch as usize].controller.finish(transfer.message);
            self.stations[station].receive[transfer.channel].take();
            self.drained(station as u32, transfer.channel);
            self.messages.remove(transfer.message);
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
        self.switches[switch as usize].controller.order(transfer);
        self.pass(now, switch);
    }

    /// Puts packets on the bus while there is one that can go.
    fn grant(&mut self, now: Time, switch: u32) {
        let first = self.wiring.port(switch, 0) as usize + self.wiring.hosts() as usize;
        loop {
            let shared = self.switching.shared;
            let own = &mut self.switches[switch as usize];
            let (stations, moving) = (&self.stations, own.moving);
            let granted = own.controller.grant(|transfer| {
                let Transfer { input, channel, outputs, message, .. } = *transfer;
                let busy = if shared {
                    moving != [0; CHANNELS]
                } else {
                    moving[channel] >> input & 1 != 0
                };
                let has = || {
                    let front = stations[first + input as usize].receive[channel].front();
                    front.is_some_and(|packet| packet.message == message)
                };
                let mut ports = bits(outputs);
                !busy
                    && (input == CONTROLLER || has())
                    && ports.all(|port| stations[first + port].send[channel].has_room())
            });
            let Some(Transfer { input, channel, outputs, set_up, message }) = granted else {
                return;
            };
            if !set_up {
                self.messages[message].invoked = now;
            }
            own.moving[channel] |= 1 << input;
            bits(outputs).for_each(|port| self.stations[first + port].send[channel].reserve());
            let before = if set_up { Span::ZERO } else { self.switching.set_up };
            let event = Event::Passed { switch, input, channel: channel as u8 };
            self.queue.push(now + before + self.switching.packet, event);
        }
    }

    /// A packet has passed a switch.
    pub(super) fn passed(&mut self, now: Time, switch: u32, input: u32, channel: usize) {
        let own = &mut self.switches[switch as usize];
        own.moving[channel] &= !(1 << input);
        let is_it = |own: &&Transfer<_>| own.input == input && own.channel == channel;
        let Some(transfer) = own.controller.active().iter().find(is_it).copied() else { return };
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
            let message = self.part(switch, whole, port as u32);
            let packet = Packet { message, ..packet };
            if message != whole && packet.last {
                let Carried { tail, spent, damaged, .. } = self.messages[whole];
                let part = &mut self.messages[message];
                (part.tail, part.spent) = (tail, spent);
                part.damaged |= damaged;
            }
            self.account_for_switch(now, (switch, port as u32), packet);
            let output = self.station_of(switch, port as u32);
            self.stations[output].send[channel].put(packet, packet.last);
            self.wake(now, output as u32);
        }
        if packet.last {
            let Carried { purpose, invoked, .. } = self.messages[whole];
            if purpose == Use::Data {
                self.legs.transfer.add(now.since(invoked));
            }
            let own = &mut self.switches[switch as usize];
            own.controller.finish(whole);
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
        let Switching { analysis, set_up, packet: moving, .. } = self.switching;
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

/// The numbers of the bits that are set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (lowest < u64::BITS).then_some(lowest as usize)
    })
}
