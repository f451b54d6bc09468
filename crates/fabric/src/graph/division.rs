//! Divides a graph into parts that run on several threads.

use std::sync::Arc;

use super::{Graph, Kind, Pace};
use crate::switch::InputQueued;

/// What keeps the parts of a graph from running in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// There are shared memories, whose packets belong to connections of the whole.
    Memories,
    /// There are switches that decide on everything that reaches an output in an instant.
    Deciding,
}

/// The place of a switch with a clock that is in another part.
const ELSEWHERE: u32 = u32::MAX;

impl Graph {
    /// Whether parts of the graph may run in parallel.
    ///
    /// # Errors
    /// What is shared by the whole graph.
    pub fn may_be_divided(&self) -> Result<(), Together> {
        if self.has_memories() {
            return Err(Together::Memories);
        }
        match self.has_deciding() {
            true => Err(Together::Deciding),
            false => Ok(()),
        }
    }

    /// Divides a graph that [may be divided](Self::may_be_divided) before it runs; `part` says to
    /// which of `count` parts each switch belongs. All parts share the ports, each of which only
    /// the part with its switch or host may use. Switches with a clock move into their parts. This
    /// graph keeps the connections of its ports and must not run any more.
    pub fn divide(&mut self, part: &[u32], count: u32) -> Vec<Graph> {
        let mut clocked = std::mem::take(&mut self.clocked).into_iter();
        let mut parts: Vec<Graph> = (0..count).map(|_| self.share()).collect();
        for switch in self.with_clocks() {
            if let Some(own) = clocked.next() {
                self.move_into(&mut parts[part[switch as usize] as usize], switch, own, part);
            }
        }
        parts
    }

    fn with_clocks(&self) -> impl Iterator<Item = u32> {
        let is_clocked = |switch: &u32| matches!(self.kinds[*switch as usize], Kind::Clocked(_));
        (0..self.switches()).filter(is_clocked)
    }

    /// A switch with a clock moves into its part.
    fn move_into(&self, taken: &mut Graph, switch: u32, own: InputQueued, part: &[u32]) {
        taken.kinds[switch as usize] = Kind::Clocked(taken.clocked.len() as u32);
        taken.clocked.push(own);
        let number = part[switch as usize];
        let comes_from_elsewhere = |port: &u32| {
            let peer = self.peer(*port).filter(|peer| *peer < self.switch_ports());
            peer.is_some_and(|peer| part[self.switch_of(peer) as usize] != number)
        };
        let (first, owners) = (self.first_port(switch), &self.owners);
        let ports = (first..).take_while(|port| owners.get(*port as usize) == Some(&switch));
        for port in ports.filter(comes_from_elsewhere) {
            // A credit may count at once only if the sender is in the same part.
            if let Some(own) = taken.clocked(switch) {
                own.report_credits_of(port - first);
            }
        }
    }

    /// A copy of the graph without the switches that have a clock.
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
            first_host: self.first_host,
            on_rings: self.on_rings,
            switches: Arc::clone(&self.switches),
            latencies: self.latencies.clone(),
            kinds: self.kinds.iter().map(elsewhere).collect(),
            clocked: Vec::new(),
            pace: Pace::Apart,
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
