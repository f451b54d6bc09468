//! Divides a graph into parts that run on several threads.

use std::sync::Arc;

use super::{Graph, Kind};

/// What keeps the parts of a graph from running side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// There are shared memories, whose packets belong to connections of the whole.
    Memories,
    /// There are switches that decide on all that reaches an output in an instant.
    Deciding,
}

/// The place of a switch with a clock that is in another part.
const ELSEWHERE: u32 = u32::MAX;

impl Graph {
    /// Whether parts of the graph may run side by side.
    ///
    /// # Errors
    /// What belongs to the whole.
    pub fn may_be_divided(&self) -> Result<(), Together> {
        if self.has_memories() {
            return Err(Together::Memories);
        }
        match self.has_deciding() {
            true => Err(Together::Deciding),
            false => Ok(()),
        }
    }

    /// Divides a graph that [may be](Self::may_be_divided) into so many parts, by the part that each switch is
    /// in, before it runs. All have the same ports, of which each is to be touched by one part alone: that of
    /// the switch or host that has it. Switches with a clock move into their parts; this graph still
    /// tells how its ports are connected, and is not to run any more.
    pub fn divide(&mut self, part: &[u32], count: u32) -> Vec<Graph> {
        let mut clocked = std::mem::take(&mut self.clocked).into_iter();
        let mut parts: Vec<Graph> = (0..count).map(|_| self.share()).collect();
        for (switch, &number) in (0..).zip(part) {
            if !matches!(self.kinds[switch as usize], Kind::Clocked(_)) {
                continue;
            }
            let own = &mut parts[number as usize];
            own.kinds[switch as usize] = Kind::Clocked(own.clocked.len() as u32);
            own.clocked.extend(clocked.next());
            let comes_from_elsewhere = |port: &u32| {
                let peer = self.peer(*port).filter(|peer| *peer < self.switch_ports());
                peer.is_some_and(|peer| part[self.switch_of(peer) as usize] != number)
            };
            let (first, owners) = (self.first_port(switch), &self.owners);
            let ports = (first..).take_while(|port| owners.get(*port as usize) == Some(&switch));
            for port in ports.filter(comes_from_elsewhere) {
                // A credit counts at once where the sender is in the same part only.
                if let Some(own) = own.clocked(switch) {
                    own.report_credits_of(port - first);
                }
            }
        }
        parts
    }

    /// The same graph without the switches that have a clock.
    fn share(&self) -> Graph {
        let elsewhere = |kind: &Kind| match *kind {
            Kind::Clocked(_) => Kind::Clocked(ELSEWHERE),
            kind => kind,
        };
        Graph {
            ports: Arc::clone(&self.ports),
            owners: Arc::clone(&self.owners),
            hosts: self.hosts,
            planes: self.planes,
            switches: self.switches.clone(),
            kinds: self.kinds.iter().map(elsewhere).collect(),
            clocked: Vec::new(),
            deciding: Vec::new(),
            has_limits: self.has_limits,
            flow: self.flow.clone(),
            gates: Arc::clone(&self.gates),
            links: self.links.clone(),
            is_mixed: self.is_mixed,
            window: self.window,
        }
    }
}
