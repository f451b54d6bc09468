//! Which part of a graph each of its switches is in.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use weft_fabric::graph::Graph;
use weft_units::Span;

use super::Engine;
use super::places::Places;

/// A graph and the part that each of its switches is in, together with its hosts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division<'a> {
    pub graph: &'a Graph,
    /// Whether packets have classes of their own.
    pub is_classed: bool,
    pub part: &'a [u32],
}

impl Division<'_> {
    fn of_port(&self, port: u32) -> u32 {
        self.part[self.graph.switch_of(port) as usize]
    }

    /// The part that each host is in.
    pub fn of_hosts(&self) -> impl Iterator<Item = u32> {
        let switch_port = |port: &u32| *port < self.graph.switch_ports();
        let home = move |host| self.graph.peer(self.graph.host_port(host)).filter(switch_port);
        (0..self.graph.hosts()).map(move |host| home(host).map_or(0, |port| self.of_port(port)))
    }

    /// From something that happens in one part to what it causes in another, at least; `None` if no cable
    /// leads from one to another.
    pub fn apart(&self) -> Option<Span> {
        let graph = self.graph;
        let crossing = (0..graph.switch_ports()).filter_map(|port| {
            let peer = graph.peer(port).filter(|peer| *peer < graph.switch_ports())?;
            let is_cut = self.of_port(peer) != self.of_port(port);
            is_cut.then(|| least_delay(graph, self.is_classed, port))
        });
        crossing.min()
    }

    /// The part that each place is in, in two bytes each: a run has fewer than 65,536 parts.
    pub fn of_all_places(&self, places: Places) -> Arc<[u16]> {
        let ports: Vec<u16> = (0..places.hosts).map(|port| self.of_port(port) as u16).collect();
        let hosts: Vec<u16> = self.of_hosts().map(|part| part as u16).collect();
        let switches: Vec<u16> = self.part.iter().map(|part| *part as u16).collect();
        of_all_places(places, &ports, &hosts, &switches)
    }
}

impl Engine {
    /// The node that each place is at: a switch by its number, and behind all switches a host. Each host has one end.
    pub(super) fn nodes(&self) -> Arc<[u16]> {
        let graph = &self.graph;
        let ports: Vec<u16> =
            (0..graph.switch_ports()).map(|port| graph.switch_of(port) as u16).collect();
        let hosts: Vec<u16> =
            (0..graph.hosts()).map(|host| (graph.switches() + host) as u16).collect();
        let switches: Vec<u16> = (0..graph.switches()).map(|switch| switch as u16).collect();
        of_all_places(self.places, &ports, &hosts, &switches)
    }
}

/// What each place belongs to, by what each port, host and switch belongs to.
fn of_all_places(places: Places, ports: &[u16], hosts: &[u16], switches: &[u16]) -> Arc<[u16]> {
    let all = || ports.iter().chain(hosts);
    // In the order of the places.
    let mut of = Vec::with_capacity(places.samples as usize + 1);
    of.extend(all());
    if places.frees < places.joins {
        of.extend(all());
    }
    of.extend(ports);
    if places.enters < places.signals {
        of.extend(ports.iter().chain(all()).chain(switches));
    }
    if places.told < places.acts {
        of.extend(all().chain(hosts));
    }
    of.extend(hosts);
    if places.wakes < places.sends {
        of.extend(all());
    }
    of.extend(hosts);
    debug_assert_eq!(of.len(), places.samples as usize, "every place belongs somewhere");
    of.into()
}

/// From something that happens at the node of a port to what it causes at the far end of its cable, at least.
fn least_delay(graph: &Graph, is_classed: bool, port: u32) -> Span {
    // Where packets have classes a pause leaves when one comes, whatever the latency of the switch.
    match is_classed {
        true => graph.propagation(port),
        false => graph.least_delay(port),
    }
}

/// Divides a graph into at most `most` parts of about equal weight, as far apart as that allows.
/// Returns the part of each switch, and the least time from an event in one part to its effect in
/// another; `None` where no delay separates parts of the graph.
pub(super) fn divide(graph: &Graph, is_classed: bool, most: u32) -> Option<(Vec<u32>, Span)> {
    let cables = Cables::of(graph, is_classed);
    let mut delays: Vec<Span> = cables.between.iter().flatten().map(|cable| cable.delay).collect();
    delays.sort_unstable();
    delays.dedup();
    let total: u64 = cables.weights.iter().sum();
    // The longer the windows the better, as long as no thread has to do half of the work alone.
    let (clusters, apart) =
        delays.into_iter().rev().filter(|delay| *delay > Span::ZERO).find_map(|delay| {
            let clusters = cables.closer_than(delay);
            let mut weights = vec![0; clusters.len()];
            for (cluster, weight) in clusters.iter().zip(&cables.weights) {
                weights[*cluster as usize] += weight;
            }
            weights.iter().all(|weight| 2 * weight <= total).then_some((clusters, delay))
        })?;
    Some((cables.pack(&clusters, most), apart))
}

/// The cables between switches, and how much each switch has to do.
struct Cables {
    /// By switch, those that lead to others.
    between: Vec<Vec<Cable>>,
    /// By switch, the ports with cables: each has as much to do as any other where the load is even.
    weights: Vec<u64>,
}

#[derive(Clone, Copy)]
struct Cable {
    to: u32,
    delay: Span,
}

impl Cables {
    fn of(graph: &Graph, is_classed: bool) -> Cables {
        let switches = graph.switches() as usize;
        let mut cables = Cables { between: vec![Vec::new(); switches], weights: vec![0; switches] };
        for port in 0..graph.switch_ports() {
            let Some(peer) = graph.peer(port) else { continue };
            let own = graph.switch_of(port) as usize;
            cables.weights[own] += 1;
            if peer < graph.switch_ports() {
                let [one, other] = [port, peer].map(|end| least_delay(graph, is_classed, end));
                let delay = one.min(other);
                cables.between[own].push(Cable { to: graph.switch_of(peer), delay });
            }
        }
        cables
    }

    /// By switch, the first one of those that are joined with it by cables with less than `delay`.
    fn closer_than(&self, delay: Span) -> Vec<u32> {
        let mut cluster = vec![u32::MAX; self.between.len()];
        for first in 0..self.between.len() as u32 {
            if cluster[first as usize] != u32::MAX {
                continue;
            }
            cluster[first as usize] = first;
            let mut reached = vec![first];
            while let Some(switch) = reached.pop() {
                for cable in
                    self.between[switch as usize].iter().filter(|cable| cable.delay < delay)
                {
                    if cluster[cable.to as usize] == u32::MAX {
                        cluster[cable.to as usize] = first;
                        reached.push(cable.to);
                    }
                }
            }
        }
        cluster
    }

    /// Puts clusters together to parts: each grows by whatever has most cables to it, so that few packets
    /// cross, until it has its share of what is left.
    fn pack(&self, clusters: &[u32], most: u32) -> Vec<u32> {
        let mut part = vec![u32::MAX; clusters.len()];
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); clusters.len()];
        for (cluster, switch) in clusters.iter().zip(0..) {
            members[*cluster as usize].push(switch);
        }
        let mut left: u64 = self.weights.iter().sum();
        let mut next = 0;
        for number in 0..most {
            let share = left.div_ceil(u64::from(most - number));
            let mut own = 0;
            let mut cables_to = vec![0_u32; clusters.len()];
            let mut near = BinaryHeap::new();
            while own < share && left > 0 {
                let taken = std::iter::from_fn(|| near.pop().map(|(_, Reverse(cluster))| cluster))
                    .find(|cluster| part[*cluster as usize] == u32::MAX);
                let Some(cluster) = taken.or_else(|| {
                    // Nothing is near: the first one that is in no part yet.
                    let is_left = |switch: &u32| part[*switch as usize] == u32::MAX;
                    next = (next..clusters.len() as u32).find(is_left)?;
                    Some(clusters[next as usize])
                }) else {
                    break;
                };
                for switch in &members[cluster as usize] {
                    part[*switch as usize] = number;
                    own += self.weights[*switch as usize];
                    left -= self.weights[*switch as usize];
                    for cable in &self.between[*switch as usize] {
                        let other = clusters[cable.to as usize];
                        cables_to[other as usize] += 1;
                        near.push((cables_to[other as usize], Reverse(other)));
                    }
                }
            }
        }
        // A switch without cables has nothing to do, and is left over.
        part.iter_mut().filter(|own| **own == u32::MAX).for_each(|own| *own = 0);
        part
    }
}

#[cfg(test)]
mod tests {
    use weft_fabric::fabric::FabricSettings;
    use weft_fabric::graph::{GraphParts, RecordingWindow, SwitchParts};
    use weft_fabric::link::{FlowControl, LinkSettings};
    use weft_fabric::switch::OutputQueuedSettings;
    use weft_units::{Bytes, Limit, Time};

    use super::*;

    fn graph(fabric: &str, hosts: u32) -> Graph {
        let link = "rate = '8 Gbit/s'\nlength = '5 m'\ndelay_per_metre = '5 ns'";
        let link: LinkSettings = toml::from_str(link).unwrap();
        let fabric: FabricSettings = toml::from_str(fabric).unwrap();
        let wiring = fabric.wiring(hosts, link.rate).unwrap();
        let switch = || OutputQueuedSettings { latency: Span(64_000), buffers: Limit::Unlimited };
        Graph::new(GraphParts {
            wiring: &wiring,
            link: &link,
            packet: Bytes(64),
            switches: (0..wiring.switches()).map(|_| SwitchParts::OutputQueued(switch())).collect(),
            flow: FlowControl::new(&Default::default(), 1).unwrap(),
            virtual_channels: 1,
            receive: None,
            window: RecordingWindow { from: Time::ZERO, until: Time(1) },
            acknowledgment: None,
        })
    }

    #[test]
    fn a_tree_is_divided_evenly() {
        let graph = graph("k_ary_tree = { arity = 4, levels = 3 }", 64);
        let (part, apart) = divide(&graph, false, 4).unwrap();
        assert_eq!(apart, Span(64_000 + 25_000));
        let sizes = [0, 1, 2, 3].map(|own| part.iter().filter(|part| **part == own).count());
        assert_eq!((part.len(), sizes.iter().sum::<usize>()), (48, 48));
        assert!(sizes.iter().all(|size| (10..=15).contains(size)), "{sizes:?}");
        // Few cables cross: at random three of four would.
        let own = Cables::of(&graph, false);
        let ends = (0_usize..).zip(&own.between).flat_map(|(from, cables)| {
            let part = &part;
            cables.iter().map(move |cable| part[from] == part[cable.to as usize])
        });
        let (inside, all) =
            ends.fold((0, 0), |(inside, all), is| (inside + usize::from(is), all + 1));
        assert!(2 * inside > all, "{inside} of {all}");
    }

    #[test]
    fn short_cables_are_not_cut_where_long_ones_are() {
        let cables = "[table]\nswitches = [{ name = 'a', ports = 2 }, { name = 'b', ports = 3 }, \
                      { name = 'c', ports = 3 }, { name = 'd', ports = 2 }]\ncables = [\
                      { from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'b.0' },\
                      { from = 'host 2', to = 'c.0' }, { from = 'host 3', to = 'd.0' },\
                      { from = 'a.1', to = 'b.1' }, { from = 'c.1', to = 'd.1' },\
                      { from = 'b.2', to = 'c.2', link = { length = '90 m' } }]";
        let (part, apart) = divide(&graph(cables, 4), false, 4).unwrap();
        assert_eq!((part, apart), (vec![0, 0, 1, 1], Span(64_000 + 450_000)));
    }

    #[test]
    fn a_switch_without_cables_is_in_some_part() {
        let cables = "[table]\nswitches = [{ name = 'a', ports = 2 }, { name = 'b', ports = 2 }, \
                      { name = 'spare', ports = 1, unused = [0] }]\ncables = [\
                      { from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'b.0' },\
                      { from = 'a.1', to = 'b.1' }]";
        let (part, _) = divide(&graph(cables, 2), false, 3).unwrap();
        assert_eq!(part, [0, 1, 0]);
    }

    #[test]
    fn one_switch_is_not_divided() {
        assert_eq!(divide(&graph("star = {}", 16), false, 4), None);
    }
}
