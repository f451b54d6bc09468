//! What waits for what, to explain a graph in which nothing moves any more.

use super::{Graph, Kind};
use crate::switch::InputQueued;

impl Graph {
    /// The clocked switch of this part of the graph that has a port, and the number of the port there.
    pub(super) fn input_queued(&self, port: u32) -> Option<(&InputQueued, u32)> {
        let switch = *self.owners.get(port as usize)?;
        match self.kinds[switch as usize] {
            Kind::Clocked(index) => {
                let own = self.clocked.get(index as usize)?;
                Some((own, port - self.first_port(switch)))
            }
            Kind::Plain
            | Kind::Queued { .. }
            | Kind::Memory { .. }
            | Kind::Deciding(_)
            | Kind::Fifos => None,
        }
    }

    /// How many packets wait at a port for the far end, and whether that has stopped it.
    pub fn held_at(&self, port: u32) -> (u32, bool) {
        if let Some((own, output)) = self.input_queued(port) {
            return (own.waiting(output), own.is_stopped(output));
        }
        let gate = self.gates.get(port as usize);
        gate.map_or((0, false), |gate| (gate.waiting(), gate.is_stopped()))
    }

    /// Whether the next packet of a port, or one of several that may be next, leaves by a virtual
    /// channel. `channel_of` tells that of a packet.
    pub fn is_wanted(&self, port: u32, channel: u8, channel_of: impl Fn(u32) -> u8) -> bool {
        if let Some((own, output)) = self.input_queued(port) {
            return own.is_wanted(output, channel);
        }
        let next = self.gates.get(port as usize).and_then(super::Gate::oldest);
        next.is_some_and(|packet| channel_of(packet) == channel)
    }

    /// Whether packets of a virtual channel cannot leave by a port since the buffer behind it is
    /// full of packets that have no way on.
    pub fn is_without_credit(&self, port: u32, channel: u8) -> bool {
        let far = self.peer(port).and_then(|peer| self.input_queued(peer));
        self.flow.is_limited(port)
            && !self.flow.may_send(port, channel)
            && far.is_some_and(|(far, input)| far.is_full(input, channel))
    }

    /// The outputs that packets in the buffer behind a port wait for.
    pub fn wanted_behind(&self, port: u32) -> Vec<u32> {
        let far = self.peer(port).and_then(|peer| Some((self.input_queued(peer)?, peer)));
        let Some(((own, input), peer)) = far else { return Vec::new() };
        let first = self.first_port(self.switch_of(peer));
        own.wanted_of(input).map(|output| first + output).collect()
    }

    /// How many cells the input of a clocked switch has space for that stops its cable; none at
    /// another one.
    pub fn space(&self, port: u32) -> u32 {
        self.input_queued(port).map_or(0, |(own, _)| own.space())
    }
}
