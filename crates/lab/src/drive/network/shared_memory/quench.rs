//! What travels back to the source of a connection: quenches and unquenches of the switches that
//! watch its queues, and what its target has to say.

use weft_protocol::flow::Quenching;
use weft_units::Time;

use super::{Event, SharedMemoryNetwork};

/// What a source is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::drive::network) enum Signal {
    /// A switch asks for a stop.
    Quench,
    /// It no longer does.
    Unquench,
    /// The target has a message in its memory.
    Accept,
    /// The target has broken the connection.
    Break,
}

/// A signal on its way back: at the switch with the number `hop` on the way of the connection, or at
/// its target, which counts as one more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indication {
    pub connection: u32,
    pub hop: u8,
    pub signal: Signal,
}

impl SharedMemoryNetwork {
    /// A cell of a connection joined its queue at a switch.
    pub(super) fn watch(&mut self, now: Time, (connection, hop): (u32, u8)) {
        let Some(quench) = self.control.quench else { return };
        let place = self.connections[connection as usize].first + u32::from(hop);
        let way = self.hops[place as usize];
        let is_crowded = self.ports[way.output as usize].waiting >= quench.port
            || self.stored[way.switch as usize] >= quench.memory;
        let said = self.monitors[place as usize].enter(quench.marks, is_crowded);
        if said == Some(Quenching::Quench) {
            self.indicate(now, (connection, hop), Signal::Quench);
        }
    }

    /// A switch, or the target, sends a signal back by the port at which the connection comes in.
    pub(super) fn indicate(&mut self, now: Time, (connection, hop): (u32, u8), signal: Signal) {
        let own = &self.connections[connection as usize];
        let port = match hop == own.hops {
            true => self.wiring.ports() + u32::from(own.to),
            false => self.hops[(own.first + u32::from(hop)) as usize].input,
        };
        let indication = Indication { connection, hop, signal };
        self.ports[port as usize].indications.push_back(indication);
        self.serve(now, port);
    }

    /// A port sends a signal to the switch before, or to the source.
    pub(super) fn send_indication(&mut self, now: Time, port: u32, indication: Indication) {
        let Indication { connection, hop, signal } = indication;
        let span = match (signal, self.control.quench) {
            (Signal::Quench | Signal::Unquench, Some(quench)) => quench.span,
            _ => self.answer,
        };
        self.agenda.push(now + span, Event::Free(port));
        let own = &mut self.ports[port as usize];
        let measured = own.occupy(self.ends.observations.from, (now, span));
        own.busy_indicating += measured;
        match hop.checked_sub(1) {
            Some(hop) => {
                let there = now + self.propagation + self.latency;
                self.agenda.push(there, Event::Indicate { connection, hop, signal });
            }
            None => {
                let there = now + self.propagation + span;
                self.agenda.push(there, Event::Hear { connection, signal });
            }
        }
    }

    /// The source of a connection hears a signal.
    pub(super) fn hear(&mut self, now: Time, connection: u32, signal: Signal) {
        let measured = now >= self.ends.observations.from;
        let own = &mut self.connections[connection as usize];
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
