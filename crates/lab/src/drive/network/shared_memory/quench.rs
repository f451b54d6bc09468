//! Source quench: switches watch the queues of connections, and tell their sources.

use weft_protocol::flow::Quenching;
use weft_units::Time;

use super::{Event, SharedMemoryNetwork};

/// A quench or an unquench on its way back: at the switch with the number `hop` on the way of the
/// connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indication {
    pub connection: u32,
    pub hop: u8,
    pub is_quench: bool,
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
            self.indicate(now, (connection, hop), true);
        }
    }

    /// A switch sends an indication back by the port at which the connection comes in.
    pub(super) fn indicate(&mut self, now: Time, (connection, hop): (u32, u8), is_quench: bool) {
        let place = self.connections[connection as usize].first + u32::from(hop);
        let port = self.hops[place as usize].input;
        let indication = Indication { connection, hop, is_quench };
        self.ports[port as usize].indications.push_back(indication);
        self.serve(now, port);
    }

    /// A port sends an indication to the switch before, or to the source.
    pub(super) fn send_indication(&mut self, now: Time, port: u32, indication: Indication) {
        let Indication { connection, hop, is_quench } = indication;
        let Some(quench) = self.control.quench else { return };
        self.agenda.push(now + quench.span, Event::Free(port));
        if now >= self.ends.observations.from {
            let own = &mut self.ports[port as usize];
            own.busy += quench.span;
            own.busy_indicating += quench.span;
        }
        match hop.checked_sub(1) {
            Some(hop) => {
                let there = now + self.propagation + self.latency;
                self.agenda.push(there, Event::Indicate { connection, hop, is_quench });
            }
            None => {
                let there = now + self.propagation + quench.span;
                self.agenda.push(there, Event::Hear { connection, is_quench });
            }
        }
    }

    /// The source of a connection hears an indication.
    pub(super) fn hear(&mut self, now: Time, connection: u32, is_quench: bool) {
        let measured = now >= self.ends.observations.from;
        let own = &mut self.connections[connection as usize];
        let said = if is_quench { Quenching::Quench } else { Quenching::Unquench };
        own.quenches += u64::from(is_quench && measured);
        if own.source.hear(said) == Some(false) {
            self.list(now, connection);
        }
    }
}
