//! Signals that travel back to the source of a connection: quenches and unquenches of the switches
//! that watch its queues, and the responses of its target.

use weft_protocol::flow::Quenching;
use weft_units::{Span, Time};

use super::Signals;
use crate::drive::engine::Engine;

/// A signal to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// A switch asks for a stop.
    Quench,
    /// The queue is no longer crowded.
    Unquench,
    /// The target has a message in its memory.
    Accept,
    /// The target has broken the connection.
    Break,
}

/// All signals, in the order of their numbers.
const SIGNALS: [Signal; 4] = [Signal::Quench, Signal::Unquench, Signal::Accept, Signal::Break];

/// A signal that travels back to the source of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indication {
    connection: u32,
    signal: Signal,
}

impl Indication {
    /// The signal as a number; the place at which it arrives identifies the switch.
    fn number(self) -> u32 {
        self.connection * SIGNALS.len() as u32 + self.signal as u32
    }
}

impl Engine {
    /// A packet of a connection joined its queue at a switch.
    pub(super) fn watch(&mut self, now: Time, connection: u32, hop: u16) {
        let memories = &mut self.memories;
        let Some(quench) = memories.control.quench else { return };
        let place = memories.connections[connection as usize].first + u32::from(hop);
        let way = memories.hops[place as usize];
        let is_crowded = memories.ports[way.output as usize].waiting >= quench.port
            || memories.banks[way.switch as usize].stored >= quench.memory;
        let said = memories.monitors[place as usize].enter(quench.marks, is_crowded);
        if said == Some(Quenching::Quench) {
            self.indicate(now, connection, hop, Signal::Quench);
        }
    }

    /// The switch with the number `hop` on the route of a connection, or its target, which counts as
    /// one more, sends a signal back by the port at which the connection arrives.
    pub(super) fn indicate(&mut self, now: Time, connection: u32, hop: u16, signal: Signal) {
        let own = &self.memories.connections[connection as usize];
        let port = match hop == own.hops {
            true => self.graph.host_port(own.to),
            false => self.memories.hops[(own.first + u32::from(hop)) as usize].input,
        };
        let indication = Indication { connection, signal };
        if port < self.graph.switch_ports() && !self.graph.is_of_memory(port) {
            return self.send_beside(now, port, indication);
        }
        self.memories.ports[port as usize].indications.push_back(indication);
        self.serve(now, port);
    }

    /// A port sends a signal to the switch before, or to the source.
    pub(super) fn send_indication(&mut self, now: Time, port: u32, indication: Indication) {
        let span = self.signal_span(port, indication.signal);
        self.schedule(now + span, self.places.frees + port, 0);
        let before = self.graph.busy_by(Time::NEVER, port);
        self.graph.occupy(now, port, span);
        let measured = self.graph.busy_by(Time::NEVER, port).0 - before.0;
        self.memories.ports[port as usize].busy_indicating += Span(measured);
        self.tell(now, port, indication, span);
    }

    /// A switch without a shared memory forwards signals beside its packets, as it does credits, one
    /// after another.
    fn send_beside(&mut self, now: Time, port: u32, indication: Indication) {
        let span = self.signal_span(port, indication.signal);
        let own = &mut self.memories.ports[port as usize];
        let start = own.told.max(now);
        own.told = start + span;
        self.tell(start, port, indication, span);
    }

    fn signal_span(&self, port: u32, signal: Signal) -> Span {
        let Signals { indication, answer } = self.memories.signals[self.graph.link_of(port)];
        match signal {
            Signal::Quench | Signal::Unquench => indication,
            Signal::Accept | Signal::Break => answer,
        }
    }

    /// A signal, which takes `span`, is on a cable from `start` on.
    fn tell(&mut self, start: Time, port: u32, indication: Indication, span: Span) {
        let Some(peer) = self.graph.peer(port) else { return };
        let delay = match peer < self.graph.switch_ports() {
            true => self.graph.latency(self.graph.switch_of(peer)),
            false => span,
        };
        let time = start + self.graph.propagation(port) + delay;
        self.schedule(time, self.places.told + peer, indication.number());
    }

    /// A signal is at a switch, by the port at which its connection goes out, or at the source.
    #[inline(never)]
    pub(in crate::drive::engine) fn told(&mut self, now: Time, port: u32, number: u32) {
        let (connection, signal) = (number / 4, SIGNALS[(number % 4) as usize]);
        if port >= self.graph.switch_ports() {
            return self.hear_signal(now, connection, signal);
        }
        let own = &self.memories.connections[connection as usize];
        let way = &self.memories.hops[own.first as usize..][..usize::from(own.hops)];
        if let Some(hop) = way.iter().position(|hop| hop.output == port) {
            self.indicate(now, connection, hop as u16, signal);
        }
    }

    /// The source of a connection receives a signal.
    fn hear_signal(&mut self, now: Time, connection: u32, signal: Signal) {
        let measured = now >= self.observations.from;
        let own = &mut self.memories.connections[connection as usize];
        let said = match signal {
            Signal::Quench => Quenching::Quench,
            Signal::Unquench => Quenching::Unquench,
            Signal::Accept => return self.hear_accept(now, connection),
            Signal::Break => return self.break_off(now, connection),
        };
        own.quenches += u64::from(said == Quenching::Quench && measured);
        if own.source.hear(said) == Some(false) {
            self.list(now, connection);
        }
    }
}
