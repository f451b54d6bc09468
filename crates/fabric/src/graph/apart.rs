//! One part of a graph alone, in a process that holds nothing of the others.

use std::ops::Range;

use super::{Gate, Graph, Kind, Pace, Port, PortUse, Switch};

/// The part of a graph that a process holds.
///
/// Its switches, ports and hosts have numbers of their own, in the order of the whole graph. Behind
/// its switches one more switch stands for all others, with a port for every cable that leads to
/// them.
#[derive(Debug)]
pub struct Apart {
    /// The part, at time zero.
    pub graph: Graph,
    /// Where what it has is in the whole.
    pub numbers: Numbers,
    /// From its first host to its last one. Hosts between them may belong to others; all of them have ports here.
    pub hosts: Range<u32>,
}

/// Where what a part has is in the whole, and what is behind its border.
#[derive(Debug)]
pub struct Numbers {
    /// By switch of the part, its first port in the whole.
    firsts: Vec<u32>,
    /// The ports of all switches of the whole.
    ports: u32,
    /// The first port that stands for one of another part.
    border: u32,
    beyond: Vec<Beyond>,
}

/// A port of a switch in another part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beyond {
    /// The part.
    pub part: u32,
    /// The port, by the number that it has there.
    pub port: u32,
}

impl Numbers {
    /// Which port of another part one stands for, if it does.
    #[inline]
    pub fn beyond(&self, port: u32) -> Option<Beyond> {
        self.beyond.get(port.checked_sub(self.border)? as usize).copied()
    }

    /// Whether a port is that of a switch of the part.
    #[inline]
    pub fn has(&self, port: u32) -> bool {
        port < self.border
    }

    /// A port of the part, `graph`, by the number that it has in the whole; `None` of one that stands for another
    /// one, or that of a host of another part.
    pub fn in_whole(&self, graph: &Graph, port: u32) -> Option<u32> {
        if let Some(end) = port.checked_sub(graph.switch_ports()) {
            let has_cable = graph.peer(port).is_some();
            return has_cable.then_some(self.ports + graph.first_host + end);
        }
        let switch = graph.switch_of(port);
        let first = self.firsts.get(switch as usize)?;
        Some(first + port - graph.first_port(switch))
    }
}

/// A part that is taken out of a graph.
struct Cut<'a> {
    graph: &'a Graph,
    /// The part of each switch, and which of them it is.
    part: &'a [u32],
    number: u32,
    /// Its switches.
    switches: Vec<u32>,
    /// By switch of the whole, its first port as the part counts that has it.
    firsts: Vec<u32>,
    hosts: Range<u32>,
    /// How many ports its switches have, and the ports behind its border.
    border: u32,
    beyond: Vec<u32>,
}

impl<'a> Cut<'a> {
    fn new(graph: &'a Graph, part: &'a [u32], number: u32) -> Cut<'a> {
        let is_own = |switch: &u32| part[*switch as usize] == number;
        let switches: Vec<u32> = (0..graph.switches()).filter(is_own).collect();
        let firsts = graph.firsts_in_parts(part);
        let hosts = graph.hosts_of(part, number);
        let mut cut =
            Cut { graph, part, number, switches, firsts, hosts, border: 0, beyond: Vec::new() };
        cut.border = cut.ports().count() as u32;
        let behind =
            |port| graph.switch_port_behind(port).filter(|peer| cut.there(*peer).part != number);
        cut.beyond = cut.ports().filter_map(behind).collect();
        cut
    }

    /// The ports of its switches.
    fn ports(&self) -> impl Iterator<Item = u32> {
        self.switches.iter().flat_map(|switch| self.graph.ports_of(*switch))
    }

    /// The port of a switch, as the part counts that has it.
    fn there(&self, port: u32) -> Beyond {
        let switch = self.graph.switch_of(port);
        let first = self.firsts[switch as usize];
        let port = first + port - self.graph.first_port(switch);
        Beyond { part: self.part[switch as usize], port }
    }

    /// Where each of its ports is in the whole: those of its switches, those behind its border, those of hosts.
    fn origins(&self) -> Vec<u32> {
        let hosts = self.hosts.clone().map(|host| self.graph.host_port(host));
        self.ports().chain(self.beyond.iter().copied()).chain(hosts).collect()
    }

    /// Its ports, by where they are in the whole.
    fn held(&self, origins: &[u32]) -> impl Iterator<Item = Port> {
        let (border, whole) = (self.border, self.graph.switch_ports());
        let behind = border..border + self.beyond.len() as u32;
        let mut met = behind.clone();
        let to_host = behind.end.wrapping_sub(whole).wrapping_sub(self.hosts.start);
        (0..).zip(origins).map(move |(port, origin)| {
            let peer = self.graph.peer(*origin).filter(|_| !behind.contains(&port));
            let peer = peer.and_then(|peer| match peer {
                host if host >= whole => Some(host.wrapping_add(to_host)),
                peer if self.there(peer).part == self.number => Some(self.there(peer).port),
                // A host of another part has no cable here.
                _ if port >= behind.end => None,
                _ => met.next(),
            });
            Port::new(peer.unwrap_or(Port::UNUSED), self.graph.ports[*origin as usize].link())
        })
    }

    /// Its switches, and the one that stands for all others.
    fn nodes(&self) -> impl Iterator<Item = Switch> {
        let whole = &self.graph.switches;
        let own = |switch: &u32| Switch {
            first: self.firsts[*switch as usize],
            ..whole[*switch as usize]
        };
        let others = Switch { first: self.border, is_plain: true, ..whole[0] };
        self.switches.iter().map(own).chain([others])
    }

    /// The switch of each of its ports.
    fn owners(&self) -> impl Iterator<Item = u32> {
        let counts = self.switches.iter().map(|switch| self.graph.ports_of(*switch).len());
        let counts = (0..).zip(counts.chain([self.beyond.len()]));
        counts.flat_map(|(switch, count)| std::iter::repeat_n(switch, count))
    }
}

impl Graph {
    /// One part alone of a graph that [may be divided](Self::may_be_divided), by the part that each switch is in;
    /// hosts have a port each. The clocked switches of this graph are gone then, so that it is not to run any
    /// more.
    pub fn take_apart(&mut self, part: &[u32], number: u32) -> Apart {
        let cut = Cut::new(self, part, number);
        let origins = cut.origins();
        let mut graph = self.without_ports();
        graph.first_host = cut.hosts.start;
        graph.ports = cut.held(&origins).collect();
        graph.owners = cut.owners().collect();
        graph.switches = cut.nodes().collect();
        if self.has_limits {
            graph.gates = origins.iter().map(|_| Gate::empty()).collect();
            graph.flow = self.flow.of_ports(&origins);
        }
        let numbers = Numbers {
            firsts: cut.switches.iter().map(|switch| self.first_port(*switch)).collect(),
            ports: self.switch_ports(),
            border: cut.border,
            beyond: cut.beyond.iter().map(|port| cut.there(*port)).collect(),
        };
        let Cut { switches, hosts, .. } = cut;
        self.move_clocked_into(&mut graph, &switches, &numbers);
        Apart { graph, numbers, hosts }
    }

    /// The clocked switches of a part move there, and those of others are gone.
    fn move_clocked_into(&mut self, graph: &mut Graph, own: &[u32], numbers: &Numbers) {
        let mut clocked: Vec<_> = std::mem::take(&mut self.clocked).into_iter().map(Some).collect();
        for switch in own {
            let kind = match self.kinds[*switch as usize] {
                Kind::Clocked(index) => {
                    let taken = clocked.get_mut(index as usize).and_then(Option::take);
                    graph.clocked.extend(taken);
                    Kind::Clocked(graph.clocked.len() as u32 - 1)
                }
                kind => kind,
            };
            graph.kinds.push(kind);
        }
        graph.kinds.push(Kind::Plain);
        for switch in 0..own.len() as u32 {
            let (first, ports) = (graph.first_port(switch), graph.ports_of(switch));
            let from_others =
                |port: &u32| graph.peer(*port).is_some_and(|peer| numbers.beyond(peer).is_some());
            let inputs: Vec<u32> = ports.filter(from_others).map(|port| port - first).collect();
            let Some(own) = graph.clocked(switch) else { continue };
            own.move_to(first);
            // A credit counts at once where the sender is in the same part only.
            inputs.into_iter().for_each(|input| own.report_credits_of(input));
        }
    }

    /// By switch, its first port as the part counts that has it.
    fn firsts_in_parts(&self, part: &[u32]) -> Vec<u32> {
        let count = part.iter().max().map_or(0, |last| *last as usize + 1);
        let mut next = vec![0; count];
        let first = |(switch, part): (u32, &u32)| {
            let next = &mut next[*part as usize];
            let first = *next;
            *next += self.ports_of(switch).len() as u32;
            first
        };
        (0..).zip(part).map(first).collect()
    }

    /// From the first host of a part to its last one.
    fn hosts_of(&self, part: &[u32], number: u32) -> Range<u32> {
        let mut hosts = 0..0;
        for host in 0..self.hosts {
            let Some(port) = self.switch_port_behind(self.host_port(host)) else { continue };
            if part[self.switch_of(port) as usize] == number {
                let first = if hosts.is_empty() { host } else { hosts.start };
                hosts = first..host + 1;
            }
        }
        hosts
    }

    /// The port of a switch at the far end of the cable in a port.
    fn switch_port_behind(&self, port: u32) -> Option<u32> {
        self.peer(port).filter(|peer| *peer < self.switch_ports())
    }

    /// The ports of a switch.
    fn ports_of(&self, switch: u32) -> Range<u32> {
        let next = self.switches.get(switch as usize + 1);
        self.first_port(switch)..next.map_or(self.switch_ports(), |next| next.first)
    }

    /// What all parts have: neither nodes nor cables.
    #[must_use]
    pub fn without_ports(&self) -> Graph {
        Graph {
            ports: Default::default(),
            owners: Default::default(),
            hosts: self.hosts,
            first_host: 0,
            on_rings: 0,
            planes: self.planes,
            switches: Default::default(),
            latencies: self.latencies.clone(),
            kinds: Vec::new(),
            clocked: Vec::new(),
            pace: Pace::Apart,
            deciding: Vec::new(),
            has_limits: self.has_limits,
            flow: self.flow.of_ports(&[]),
            gates: Default::default(),
            links: self.links.clone(),
            is_mixed: self.is_mixed,
            window: self.window,
        }
    }

    /// Whether a host is in it.
    pub fn has_host(&self, host: u32) -> bool {
        let hosts = self.first_host..self.first_host + self.ends();
        hosts.contains(&host) && self.peer(self.host_port(host)).is_some()
    }

    /// How many directed ports it has, those that stand for others included.
    pub fn ports_held(&self) -> usize {
        self.ports.len()
    }

    /// Takes over the use of a port from a process that holds only its part.
    pub fn put_use(&self, port: u32, own: PortUse) {
        self.ports[port as usize].put(own);
    }
}
