//! What waits for what when nothing moves any more: outputs that wait for buffers, and the cycle in
//! which they wait for each other.

use weft_fabric::fabric::Wiring;
use weft_fabric::graph::PortState;

use super::Engine;

/// How many switches of a cycle a message names.
const MOST_NAMED: usize = 16;

impl Engine {
    /// The outputs and hosts that wait for buffers which nothing empties, one sentence per line. If
    /// outputs wait for each other in a cycle, the first line names its switches.
    pub(super) fn who_waits(&self) -> Vec<String> {
        let mut lines = self.flows_without_a_way().0;
        lines.extend(self.who_waits_at_adapters());
        let wiring = self.names.as_deref();
        lines.extend(self.ring.iter().flat_map(|own| own.who_waits(wiring)));
        lines.extend(self.hub.iter().flat_map(|own| own.who_waits()));
        let Some(wiring) = &self.names else { return lines };
        if let Some(own) = &self.turns {
            return own.who_waits(wiring);
        }
        let ports = self.graph.switch_ports();
        let blocked = (0..ports).map(|port| {
            let before = lines.len();
            lines.extend(self.port_waits(wiring, port, &wiring.port_name(port)));
            lines.len() > before
        });
        let is_blocked: Vec<bool> = blocked.collect();
        for end in 0..self.graph.ends() {
            let port = self.graph.host_port(end);
            lines.extend(self.port_waits(wiring, port, &wiring.end_name(end)));
        }
        if let Some(cycle) = self.cycle(&is_blocked) {
            lines.insert(0, self.describe_cycle(wiring, &cycle));
        }
        lines
    }

    /// What packets wait for at a port.
    fn port_waits(&self, wiring: &Wiring, port: u32, name: &str) -> Vec<String> {
        let is_classed = self.classed.is_some();
        let peer = match self.graph.peer(port) {
            Some(peer) if peer < wiring.ports() => wiring.port_name(peer),
            Some(peer) if is_classed || self.graph.is_limited(port) => {
                wiring.end_name(peer - wiring.ports())
            }
            _ => return Vec::new(),
        };
        if is_classed {
            return self.paused_waits(port, name, &peer);
        }
        if self.is_served(port) {
            return self.served_waits(port, name, &peer);
        }
        if self.packets_waiting_at(port) == 0 {
            return Vec::new();
        }
        let own = self.port_state(port);
        let waiting = own.waiting;
        let mut lines = Vec::new();
        if own.is_stopped {
            lines.push(format!("{waiting} packets wait at {name} until {peer} lets it go on"));
        }
        let channels = self.graph.channels();
        let far = self.graph.peer(port).map(|peer| self.port_state(peer)).unwrap_or_default();
        for channel in own.wanted.iter().filter(|channel| own.without_credit.contains(channel)) {
            // The buffer there is full of packets that have no next hop.
            if far.full.contains(channel) {
                let buffer = match channels {
                    1 => format!("the buffer of {peer}"),
                    _ => format!("the buffer of virtual channel {channel} of {peer}"),
                };
                lines.push(format!("{waiting} packets wait at {name} for space in {buffer}"));
            }
        }
        lines
    }

    fn packets_waiting_at(&self, port: u32) -> u32 {
        match &self.ranks {
            Some(ranks) => ranks.state(port).waiting,
            None => self.at_port(port).graph.held_at(port).packets,
        }
    }

    /// The state of a port of any part.
    fn port_state(&self, port: u32) -> PortState {
        match &self.ranks {
            Some(ranks) => ranks.state(port),
            None => self.at_port(port).own_port_state(port),
        }
    }

    /// Like the above, for a port of this part.
    pub(super) fn own_port_state(&self, port: u32) -> PortState {
        let channel_of = |packet: u32| self.packets.forwarding[packet as usize].channel;
        let mut state = self.graph.port_state(port, channel_of);
        if let Some(rings) = &self.ring {
            rings.add_to(&mut state, port, &self.graph);
        }
        state
    }

    /// The outputs for which packets in the buffer behind a port wait.
    fn wanted_behind(&self, port: u32) -> Vec<u32> {
        if self.classed.is_some() {
            return self.paused_behind(port);
        }
        match self.graph.peer(port) {
            Some(input) if self.graph.is_of_memory(input) => self.wanted_in_memory(input),
            Some(input) => self.port_state(input).wanted_behind,
            None => Vec::new(),
        }
    }

    /// Outputs, each of which waits for a buffer whose packets wait for the next output, the last
    /// for the first; none if they wait for something else.
    fn cycle(&self, is_blocked: &[bool]) -> Option<Vec<u32>> {
        let mut is_done = vec![false; is_blocked.len()];
        for start in 0..is_blocked.len() as u32 {
            // The outputs from the start to the current one, each with what is left to be tried.
            let mut path: Vec<(u32, Vec<u32>)> = Vec::new();
            let mut next = Some(start);
            loop {
                if let Some(port) = next.take().filter(|port| is_blocked[*port as usize]) {
                    if let Some(first) = path.iter().position(|(own, _)| *own == port) {
                        return Some(path[first..].iter().map(|(own, _)| *own).collect());
                    }
                    if !std::mem::replace(&mut is_done[port as usize], true) {
                        path.push((port, self.wanted_behind(port)));
                    }
                }
                let Some((_, rest)) = path.last_mut() else { break };
                next = rest.pop();
                if next.is_none() {
                    path.pop();
                }
            }
        }
        None
    }

    fn describe_cycle(&self, wiring: &Wiring, cycle: &[u32]) -> String {
        let named = cycle.iter().take(MOST_NAMED);
        let mut names: Vec<String> =
            named.map(|port| wiring.switch_name(self.graph.switch_of(*port))).collect();
        let more = cycle.len() - names.len();
        if more > 0 {
            names.push(format!("{more} more"));
        }
        names.extend(names.first().cloned());
        format!(
            "the buffers of a cycle of switches are full and each waits for the next: {}",
            names.join(", then ")
        )
    }
}
