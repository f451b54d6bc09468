//! Switches: from the receive FIFO of one port into the send FIFOs of others.

use weft_fabric::fabric::{Heading, Peer};
use weft_fabric::switch::{BarrierCounter, BusController, HeaderQueues, Transfer};
use weft_kernel::Id;
use weft_protocol::turns::CHANNELS;
use weft_units::{Span, Time};

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
    /// Hosts that have arrived at the barrier.
    arrived: u32,
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
            arrived: 0,
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
        let counted = self.messages[message].purpose == Use::BarrierRequest
            && self.switching.barrier == Some(BarrierCounter::Controller);
        let Some(per_interface) = self.switching.processor else {
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
        let event = Event::Analysed { station, message };
        self.queue.push(now + self.switching.analysis, event);
    }

    /// A switch knows where a message goes.
    pub(super) fn analysed(&mut self, now: Time, station: u32, message: Id<Carried>) {
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
        self.wiring.switch_of(station - u32::from(self.wiring.hosts()))
    }

    fn number_of(&self, station: u32) -> u32 {
        let port = station - u32::from(self.wiring.hosts());
        port - self.wiring.port(self.wiring.switch_of(port), 0)
    }

    fn station_of(&self, switch: u32, number: u32) -> usize {
        usize::from(self.wiring.hosts()) + self.wiring.port(switch, number) as usize
    }

    /// The ports by which a message leaves a switch; none for what the switch keeps.
    fn outputs(&mut self, switch: u32, id: Id<Carried>) -> u64 {
        let message = &mut self.messages[id];
        if message.purpose == Use::BarrierRequest {
            return 0;
        }
        let (hops, mut heading): (u8, Heading) = (message.hops, message.heading);
        let mut outputs = 0;
        for to in message.to.hosts() {
            let routes = &self.routes;
            outputs |= 1 << routes.port((switch, hops), to, &mut heading, |_| 0);
        }
        message.heading = heading;
        message.hops += 1;
        outputs
    }

    /// Lets the controller of a switch begin what can begin, and the bus move what it can.
    pub(super) fn pass(&mut self, now: Time, switch: u32) {
        let first = self.wiring.port(switch, 0) as usize + usize::from(self.wiring.hosts());
        let own = &mut self.switches[switch as usize];
        let stations = &self.stations;
        own.controller.begin(|transfer| {
            let front =
                || stations[first + transfer.input as usize].receive[transfer.channel].front();
            transfer.input == CONTROLLER
                || front().is_some_and(|packet: &Packet| packet.message == transfer.message)
        });
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

    /// A host has arrived at the barrier; when all have, the controller tells them at once.
    fn count_arrival(&mut self, now: Time, switch: u32) {
        let hosts = self.barrier_hosts;
        let own = &mut self.switches[switch as usize];
        own.arrived += 1;
        if own.arrived < u32::from(hosts) {
            return;
        }
        own.arrived = 0;
        let all = u64::MAX >> (u64::BITS - u32::from(hosts).min(u64::BITS));
        let to = Destination::Hosts(all);
        let message = Message { from: 0, to, size: NO_PAYLOAD, ticket: Ticket(0) };
        let id = self.create(now, message, Use::BarrierAcknowledgment);
        let outputs = self.outputs(switch, id);
        let channel = self.messages[id].channel;
        let transfer = Transfer { message: id, input: CONTROLLER, channel, outputs, set_up: false };
        self.switches[switch as usize].controller.order(transfer);
        self.pass(now, switch);
    }

    /// Puts packets on the bus while there is one that can go.
    fn grant(&mut self, now: Time, switch: u32) {
        let first = self.wiring.port(switch, 0) as usize + usize::from(self.wiring.hosts());
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
            let Some(Transfer { input, channel, outputs, set_up, .. }) = granted else { return };
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
        self.account_for_switch(now, (switch, transfer.outputs), packet);
        if packet.last {
            self.switches[switch as usize].controller.finish(packet.message);
        }
        for port in bits(transfer.outputs) {
            let output = self.station_of(switch, port as u32);
            self.stations[output].send[channel].put(packet, packet.last);
            self.wake(now, output as u32);
        }
        self.pass(now, switch);
    }

    fn account_for_switch(&mut self, now: Time, (switch, outputs): (u32, u64), packet: Packet) {
        let Switching { analysis, set_up, packet: moving, .. } = self.switching;
        let some = self.wiring.port(switch, outputs.trailing_zeros());
        let to_host = matches!(self.wiring.peer(some), Peer::Host(_));
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
