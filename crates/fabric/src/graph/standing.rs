//! What waits for what: explains a graph in which nothing moves any more.

use serde::{Deserialize, Serialize};

use super::{Graph, Kind, Pace};
use crate::switch::{CellSwitch, InputQueued};

/// What waits at a port, and in the input buffer behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortState {
    /// Packets that wait for the far end.
    pub waiting: u32,
    /// Whether that has stopped it.
    pub is_stopped: bool,
    /// The virtual channels of the next packet, or of those that may be next.
    pub wanted: Vec<u8>,
    /// The virtual channels in which it has no credit left.
    pub without_credit: Vec<u8>,
    /// As an input: the virtual channels without room.
    pub full: Vec<u8>,
    /// As an input: the outputs for which its packets wait.
    pub wanted_behind: Vec<u32>,
}

impl PortState {
    /// Whether nothing waits there.
    pub fn is_empty(&self) -> bool {
        *self == PortState::default()
    }
}

/// What waits at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldAt {
    /// How many packets.
    pub packets: u32,
    /// Whether the far end of the cable has stopped the port.
    pub is_stopped: bool,
}

impl Graph {
    /// The clocked switch of this part of the graph that has a port, and the number of the port there.
    pub(super) fn input_queued(&self, port: u32) -> Option<(&InputQueued, u32)> {
        let switch = *self.owners.get(port as usize)?;
        let Kind::Clocked(index) = self.kinds[switch as usize] else { return None };
        let own = self.clocked.get(index as usize)?;
        Some((own, port - self.first_port(switch)))
    }

    /// The switch that has a port, if it decides together with others, and the number of the port there.
    fn in_lockstep(&self, port: u32) -> Option<(&CellSwitch, u32)> {
        let (switch, Pace::Together(own)) = (*self.owners.get(port as usize)?, &self.pace) else {
            return None;
        };
        Some((own.switch(switch), port - self.first_port(switch)))
    }

    /// What waits at a port for the far end of its cable.
    pub fn held_at(&self, port: u32) -> HeldAt {
        if let Some((own, output)) = self.in_lockstep(port) {
            return HeldAt { packets: own.waiting(output), is_stopped: false };
        }
        if let Some((own, output)) = self.input_queued(port) {
            return HeldAt { packets: own.waiting(output), is_stopped: own.is_stopped(output) };
        }
        let gate = self.gates.get(port as usize);
        gate.map_or(HeldAt::default(), |gate| HeldAt {
            packets: gate.waiting(),
            is_stopped: gate.is_stopped(),
        })
    }

    /// Whether the next packet of a port, or any of several that may be next, uses a virtual
    /// channel. `channel_of` returns that of a packet.
    fn is_wanted(&self, port: u32, channel: u8, channel_of: impl Fn(u32) -> u8) -> bool {
        if let Some((own, output)) = self.input_queued(port) {
            return own.is_wanted(output, channel);
        }
        if let Some((own, output)) = self.in_lockstep(port) {
            return own.is_wanted(output, channel);
        }
        let next = self.gates.get(port as usize).and_then(super::Gate::oldest);
        next.is_some_and(|packet| channel_of(packet) == channel)
    }

    /// The state of a port of this part of the graph. `channel_of` returns the virtual channel of a packet.
    pub fn port_state(&self, port: u32, channel_of: impl Fn(u32) -> u8) -> PortState {
        let HeldAt { packets: waiting, is_stopped } = self.held_at(port);
        let mut state = PortState { waiting, is_stopped, ..PortState::default() };
        let channels = 0..self.channels();
        if waiting > 0 {
            let is_wanted = |channel: &u8| self.is_wanted(port, *channel, &channel_of);
            state.wanted = channels.clone().filter(is_wanted).collect();
            let is_out =
                |channel: &u8| self.flow.is_limited(port) && !self.flow.may_send(port, *channel);
            state.without_credit = channels.clone().filter(is_out).collect();
        }
        if let Some((own, input)) = self.in_lockstep(port) {
            state.full =
                channels.clone().filter(|channel| self.is_full_together(port, *channel)).collect();
            let wanted = own.wanted_of(input).into_iter();
            state.wanted_behind = wanted.map(|output| port - input + output).collect();
        }
        if let Some((own, input)) = self.input_queued(port) {
            state.full = channels.filter(|channel| own.is_full(input, *channel)).collect();
            let first = port - input;
            state.wanted_behind =
                own.wanted_of(input).into_iter().map(|output| first + output).collect();
        }
        state
    }

    /// Whether an input of a switch that decides together with others has no room for another packet of a virtual
    /// channel: its sender has no credit, and none is returning.
    fn is_full_together(&self, input: u32, channel: u8) -> bool {
        let (Some(sender), Pace::Together(own)) = (self.peer(input), &self.pace) else {
            return false;
        };
        self.flow.has_credits()
            && self.flow.credits(sender, channel) + own.returning(sender, channel) == 0
    }

    /// How many cells the input of a clocked switch has space for, held ones included, if it is one
    /// that stops its cable; zero otherwise.
    pub fn space(&self, port: u32) -> u32 {
        self.input_queued(port).map_or(0, |(own, _)| own.space())
    }
}
