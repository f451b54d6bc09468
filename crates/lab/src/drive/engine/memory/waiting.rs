//! What waits for what at ports that serve several queues in turn.

use weft_fabric::fabric::PathHop;

use super::Memories;
use crate::drive::engine::Engine;

impl Engine {
    /// What packets wait for at a port with this name, whose cable ends at `peer`.
    pub(in crate::drive::engine) fn served_waits(
        &self,
        port: u32,
        name: &str,
        peer: &str,
    ) -> Vec<String> {
        let own = &self.memories.ports[port as usize];
        let channels = self.graph.channels();
        let mut listed = (0..channels).filter(|channel| own.has_listed(*channel)).peekable();
        if listed.peek().is_none() {
            return Vec::new();
        }
        let subject = match port < self.graph.switch_ports() {
            true => format!("{} cells wait at {name}", own.waiting),
            false => format!("{name} waits"),
        };
        if self.graph.is_stopped(port) {
            return vec![format!("{subject} until {peer} lets it go on")];
        }
        let is_broke = |channel: &u8| !self.graph.may_send(port, *channel);
        let line = |channel| match channels {
            1 => format!("{subject} for space in the buffer of {peer}"),
            _ => {
                format!("{subject} for space in the buffer of virtual channel {channel} of {peer}")
            }
        };
        listed.filter(is_broke).map(line).collect()
    }

    /// The outputs for which packets wait that arrived by a port of a switch with a shared memory.
    pub(in crate::drive::engine) fn wanted_in_memory(&self, input: u32) -> Vec<u32> {
        let switch = self.graph.switch_of(input);
        let first = self.graph.first_port(switch);
        let outputs = (first..self.graph.switch_ports())
            .take_while(|port| self.graph.switch_of(*port) == switch);
        outputs
            .filter(|output| self.memories.wants(*output, input, &self.packets.forwarding))
            .collect()
    }
}

impl Memories {
    /// Whether the oldest packet of a queue for an output arrived by an input.
    fn wants(
        &self,
        output: u32,
        input: u32,
        forwarding: &[crate::drive::engine::packets::Forwarding],
    ) -> bool {
        let came_by = |queue: u32| {
            let id = self.queues[queue as usize].oldest()?;
            let PathHop { input, .. } =
                self.hops[self.place(id, forwarding[id as usize].hops) as usize];
            Some(input)
        };
        let own = &self.ports[output as usize];
        (0..self.control.channels)
            .flat_map(|channel| own.listed(channel))
            .any(|queue| came_by(queue) == Some(input))
    }
}
