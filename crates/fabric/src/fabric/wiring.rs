//! Switches, their ports, and what is connected to each.

use std::collections::HashMap;

use weft_units::Length;

use super::cable::CableSettings;
use super::next_hops::NextHops;
use super::pairs::SwitchPort;
use crate::link::LinkSettings;

/// What is at the other end of the cable in a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// There is no cable.
    Unused,
    /// The adapter of a host, by the number of this end.
    Host(u32),
    /// A port of a switch, by its index among the ports of all switches.
    Port(u32),
}

/// Switches, hosts and cables. Ports are numbered through all switches; those of one switch follow
/// each other. Memory: 12 bytes a port.
///
/// There may be several planes, equal copies of a fabric in each of which every host has a port: an
/// *end*. Ends are numbered plane by plane, so that in the first plane, and where there is but one,
/// they have the numbers of their hosts.
#[derive(Clone, Debug)]
pub struct Wiring {
    names: Vec<String>,
    /// The number of the first port and the first host in messages.
    counted_from: u32,
    /// The index of the first port of each switch, followed by the number of all ports.
    first: Vec<u32>,
    peers: Vec<Peer>,
    /// The port that the cable of each end is in.
    ends: Vec<u32>,
    planes: u32,
    next_hops: NextHops,
    /// How cables differ from the `link` of the channel; the first kind does not.
    cables: Vec<CableSettings>,
    /// The position of each of them in the list.
    known: HashMap<CableSettings, u32>,
    /// The kind of the cable in each port; if empty, all are of the first kind.
    cable_of: Vec<u32>,
}

impl Wiring {
    /// Switches with this many ports each, not yet cabled.
    pub(super) fn new(switches: Vec<(String, u32)>, hosts: u32, next_hops: NextHops) -> Wiring {
        let mut first = vec![0];
        let mut names = Vec::with_capacity(switches.len());
        let mut ports = 0;
        for (name, count) in switches {
            ports += count;
            first.push(ports);
            names.push(name);
        }
        Wiring {
            names,
            counted_from: 0,
            first,
            peers: vec![Peer::Unused; ports as usize],
            ends: vec![u32::MAX; hosts as usize],
            planes: 1,
            cables: vec![CableSettings::default()],
            known: HashMap::new(),
            cable_of: Vec::new(),
            next_hops,
        }
    }

    /// Returns the wiring with ports and hosts counted from this number in messages.
    pub(super) fn counted_from(self, counted_from: u32) -> Wiring {
        Wiring { counted_from, ..self }
    }

    pub(super) fn set_next_hops(&mut self, next_hops: NextHops) {
        self.next_hops = next_hops;
    }

    /// Connects two ports by a cable.
    pub(super) fn connect(&mut self, one: SwitchPort, other: SwitchPort) {
        let (one, other) = (self.port_at(one), self.port_at(other));
        self.peers[one as usize] = Peer::Port(other);
        self.peers[other as usize] = Peer::Port(one);
    }

    /// Connects a host to a port; hosts that do not exist leave it unused.
    pub(super) fn attach(&mut self, host: u32, port: SwitchPort) {
        let port = self.port_at(port);
        if let Some(place) = self.ends.get_mut(host as usize) {
            *place = port;
            self.peers[port as usize] = Peer::Host(host);
        }
    }

    /// This many copies of the present wiring, whose switches are named by plane and switch:
    /// `1/0.3`.
    pub(super) fn planes_of(self, planes: u32) -> Wiring {
        if planes == 1 {
            return self;
        }
        let (switches, ports, hosts) = (self.switches(), self.ports(), self.hosts());
        let copy = |plane: u32| {
            self.peers.iter().map(move |peer| match *peer {
                Peer::Unused => Peer::Unused,
                Peer::Host(host) => Peer::Host(plane * hosts + host),
                Peer::Port(port) => Peer::Port(plane * ports + port),
            })
        };
        let named = |plane| self.names.iter().map(move |name| format!("{plane}/{name}"));
        let first =
            |plane| self.first[..switches as usize].iter().map(move |own| plane * ports + own);
        let ends = |plane| self.ends.iter().map(move |port| plane * ports + port);
        Wiring {
            names: (0..planes).flat_map(named).collect(),
            counted_from: self.counted_from,
            first: (0..planes).flat_map(first).chain([planes * ports]).collect(),
            peers: (0..planes).flat_map(copy).collect(),
            ends: (0..planes).flat_map(ends).collect(),
            planes,
            cable_of: self.cable_of.repeat(planes as usize),
            next_hops: NextHops::Planes(Box::new(self.next_hops), switches),
            cables: self.cables,
            known: self.known,
        }
    }

    /// Sets, at both ends, how the cable in a port differs from the `link` of its channel.
    pub(super) fn lay(&mut self, port: u32, settings: &CableSettings) {
        if settings.is_default() {
            return;
        }
        let kind = *self.known.entry(settings.clone()).or_insert_with(|| {
            self.cables.push(settings.clone());
            (self.cables.len() - 1) as u32
        });
        self.cable_of.resize(self.peers.len(), 0);
        self.cable_of[port as usize] = kind;
        if let Peer::Port(peer) = self.peers[port as usize] {
            self.cable_of[peer as usize] = kind;
        }
    }

    /// Sets the lengths of the hosts' cables, in order.
    pub fn lengthen_to_hosts(&mut self, lengths: &[Length]) {
        for (host, length) in (0..self.ends()).zip(lengths) {
            let own = CableSettings { length: Some(*length), ..CableSettings::default() };
            self.lay(self.host_port(host), &own);
        }
    }

    /// The links of all kinds of cables; the first is that of the channel.
    pub fn links(&self, link: &LinkSettings) -> Vec<LinkSettings> {
        self.cables.iter().map(|own| own.over(link)).collect()
    }

    /// Which of [`links`](Self::links) the cable in a port has.
    pub fn link_of(&self, port: u32) -> usize {
        self.cable_of.get(port as usize).copied().unwrap_or_default() as usize
    }

    /// How many switches there are.
    pub fn switches(&self) -> u32 {
        self.names.len() as u32
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.ends() / self.planes
    }

    /// How many ends there are: a port of each host in every plane.
    pub fn ends(&self) -> u32 {
        self.ends.len() as u32
    }

    /// How many planes there are.
    pub fn planes(&self) -> u32 {
        self.planes
    }

    /// How many ports all switches have together.
    pub fn ports(&self) -> u32 {
        self.peers.len() as u32
    }

    /// How many ports a switch has.
    pub fn ports_of(&self, switch: u32) -> u32 {
        self.first[switch as usize + 1] - self.first[switch as usize]
    }

    /// The index of a port among those of all switches.
    pub fn port(&self, switch: u32, number: u32) -> u32 {
        self.first[switch as usize] + number
    }

    /// Like [`port`](Self::port).
    pub(super) fn port_at(&self, port: SwitchPort) -> u32 {
        self.port(port.switch, port.port)
    }

    /// The switch that has a port.
    pub fn switch_of(&self, port: u32) -> u32 {
        self.first.partition_point(|first| *first <= port) as u32 - 1
    }

    /// What is at the other end of the cable in a port.
    pub fn peer(&self, port: u32) -> Peer {
        self.peers[port as usize]
    }

    /// The port that the cable of a host is in, in the first plane; of an end, that in its own.
    pub fn host_port(&self, end: impl Into<u32>) -> u32 {
        self.ends[end.into() as usize]
    }

    /// How many ports have no cable to another switch.
    pub(super) fn open_to_hosts(&self) -> usize {
        self.peers.iter().filter(|peer| !matches!(peer, Peer::Port(_))).count()
    }

    /// The first host without a cable.
    pub(super) fn unattached(&self) -> Option<u32> {
        self.ends.iter().position(|port| *port == u32::MAX).map(|host| host as u32)
    }

    /// The next hops of packets.
    pub(super) fn next_hops(&self) -> &NextHops {
        &self.next_hops
    }

    /// How many virtual channels a packet uses: see [`super::Routes::virtual_channels`].
    pub fn virtual_channels(&self) -> u8 {
        self.next_hops.virtual_channels()
    }

    /// The switch with a name.
    pub fn switch_named(&self, name: &str) -> Option<u32> {
        self.names.iter().position(|own| own == name).map(|index| index as u32)
    }

    /// The name of a switch alone.
    pub fn bare_name(&self, switch: u32) -> &str {
        &self.names[switch as usize]
    }

    /// A switch in words.
    pub fn switch_name(&self, switch: u32) -> String {
        format!("switch {}", self.names[switch as usize])
    }

    /// A port in words.
    pub fn port_name(&self, port: u32) -> String {
        let switch = self.switch_of(port);
        let number = port - self.first[switch as usize] + self.counted_from;
        format!("port {number} of {}", self.switch_name(switch))
    }

    /// How many cables each switch is away from the nearest host.
    pub fn tiers(&self) -> Vec<u32> {
        let mut tiers = vec![u32::MAX; self.switches() as usize];
        let mut reached = Vec::new();
        for end in 0..self.ends() {
            let switch = self.switch_of(self.host_port(end));
            if tiers[switch as usize] == u32::MAX {
                tiers[switch as usize] = 1;
                reached.push(switch);
            }
        }
        let mut next = 0;
        while let Some(&switch) = reached.get(next) {
            next += 1;
            for number in 0..self.ports_of(switch) {
                let Peer::Port(peer) = self.peer(self.port(switch, number)) else { continue };
                let other = self.switch_of(peer);
                if tiers[other as usize] == u32::MAX {
                    tiers[other as usize] = tiers[switch as usize] + 1;
                    reached.push(other);
                }
            }
        }
        tiers
    }

    /// The number of a host in messages.
    pub fn host_name(&self, host: impl Into<u32>) -> String {
        let number = host.into() + self.counted_from;
        if self.counted_from == 0 { format!("host {number}") } else { format!("node {number}") }
    }

    /// An end of a host in messages: the host, and if there are several planes the plane.
    pub fn end_name(&self, end: u32) -> String {
        let host = self.host_name(end % self.hosts().max(1));
        match self.planes {
            1 => host,
            _ => format!("{host} in plane {}", end / self.hosts().max(1)),
        }
    }
}

#[cfg(test)]
impl Wiring {
    /// What is plugged into each port of a switch.
    pub(super) fn plugged(&self, switch: &str) -> Vec<String> {
        let switch = self.switch_named(switch).expect(switch);
        let end = |number| match self.peer(self.port(switch, number)) {
            Peer::Port(peer) => self.port_name(peer),
            Peer::Host(host) => self.host_name(host),
            Peer::Unused => "nothing".to_owned(),
        };
        (0..self.ports_of(switch)).map(end).collect()
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Length;

    use super::*;

    /// More kinds of cables than sixteen bits count.
    #[test]
    fn every_cable_may_be_of_its_own_kind() {
        let count = 70_000;
        let switches = ["a", "b"].map(|name| (name.to_owned(), count));
        let mut wiring = Wiring::new(switches.into(), 0, NextHops::Tree([].into()));
        let of = |length: u32| CableSettings {
            length: Some(Length(length.into())),
            ..CableSettings::default()
        };
        for number in 0..count {
            let at = |switch| SwitchPort { switch, port: number };
            wiring.connect(at(0), at(1));
            wiring.lay(number, &of(number / 2));
        }
        let link: LinkSettings = toml::from_str("rate = '1 Gbit/s'").expect("a link");
        let links = wiring.links(&link);
        assert_eq!(links.len(), 1 + count as usize / 2);
        for port in 0..2 * count {
            let expected = Length((port % count / 2).into());
            assert_eq!(links[wiring.link_of(port)].length, expected, "port {port}");
        }
    }
}
