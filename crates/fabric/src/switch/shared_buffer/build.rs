//! The ports of a channel at time zero.

use std::collections::HashMap;

use weft_units::{Bytes, Span};

use super::counts::{ClassCounts, PauseCounts};
use super::credits::Credits;
use super::egress::{Egress, PortKind, Queue};
use super::marks::any_at_departure;
use super::planned::PlannedPackets;
use super::ports::{Ports, SwitchRule};
use super::rule::{Link, Rule, response};
use super::settings::{ClassSettings, ScheduleSettings, SwitchForwarding};
use super::turns::{Sharing, Turn};
use crate::fabric::{Peer, Wiring};
use crate::graph::RecordingWindow;
use crate::link::LinkSettings;
use crate::switch::Chain;

/// What the ports of a channel are made of.
#[derive(Debug)]
pub struct PortsParts<'a> {
    /// Nodes and cables.
    pub wiring: &'a Wiring,
    /// The link of every cable that has none of its own.
    pub link: &'a LinkSettings,
    /// The largest packet on the wire.
    pub packet: Bytes,
    /// How many classes there are, 1 to 8.
    pub classes: usize,
    /// Each switch.
    pub switches: Vec<SwitchRule>,
    /// How classes share the cable of a host.
    pub hosts: Vec<ScheduleSettings>,
    /// Packets are counted from its beginning on, and ports are recorded as busy within it.
    pub window: RecordingWindow,
}

/// The far end of a cable, as in [`Egress`] and [`PortKind`].
struct CableEnd {
    peer: u32,
    ahead: Span,
    is_whole: bool,
}

/// All kinds of ports, with the number of each.
#[derive(Default)]
struct Kinds {
    all: Vec<PortKind>,
    numbers: HashMap<PortKind, u32>,
}

impl Kinds {
    /// The number of a kind, which is added if it is new.
    fn number(&mut self, kind: PortKind) -> u32 {
        *self.numbers.entry(kind).or_insert_with(|| {
            self.all.push(kind);
            (self.all.len() - 1) as u32
        })
    }
}

impl PortsParts<'_> {
    /// The switch that a port belongs to.
    fn switch_of(&self, port: u32) -> &SwitchRule {
        &self.switches[self.wiring.switch_of(port) as usize]
    }

    /// A port of a switch as the far end of a cable with this propagation.
    fn at_switch(&self, port: u32, cable: Span) -> CableEnd {
        let own = self.switch_of(port);
        let is_whole = own.forwarding == SwitchForwarding::StoreAndForward;
        CableEnd { peer: port, ahead: cable + own.latency, is_whole }
    }

    /// The outputs of all ports: those of switches, and behind them those of hosts.
    fn egress(&self, links: &[LinkSettings], kinds: &mut Kinds) -> Vec<Egress> {
        let wiring = self.wiring;
        let mut new = |rule: u32, port: u32, far: CableEnd| {
            let CableEnd { peer, ahead, is_whole } = far;
            let link = wiring.link_of(port) as u32;
            Egress::new(kinds.number(PortKind { rule, link, ahead, is_whole }), peer)
        };
        let cable = |port: u32| links[wiring.link_of(port)].propagation();
        let far_of = |port: u32| match wiring.peer(port) {
            Peer::Port(peer) => self.at_switch(peer, cable(port)),
            Peer::Host(host) => {
                CableEnd { peer: wiring.ports() + host, ahead: cable(port), is_whole: true }
            }
            Peer::Unused => CableEnd { peer: u32::MAX, ahead: Span::ZERO, is_whole: true },
        };
        let of_switches =
            (0..wiring.ports()).map(|port| (wiring.switch_of(port), port, far_of(port)));
        let of_hosts = (0..wiring.ends()).map(|end| {
            let port = wiring.host_port(end);
            (wiring.switches(), port, self.at_switch(port, cable(port)))
        });
        of_switches.chain(of_hosts).map(|(rule, port, far)| new(rule, port, far)).collect()
    }

    /// What the switches at the far ends have room for; hosts read what comes at once.
    fn credits(&self, egress: &[Egress]) -> Credits {
        let room = |port: usize, class: usize| {
            let far = Some(egress[port].peer).filter(|peer| *peer < self.wiring.ports())?;
            self.switch_of(far).classes.get(class)?.credits
        };
        let places =
            (0..egress.len()).flat_map(|port| (0..self.classes).map(move |class| (port, class)));
        Credits::new(places.map(|(port, class)| room(port, class).map(|own| own.0)))
    }

    /// The latency of all switches and when packets leave them, if all cables are of one kind.
    fn alike(&self, links: &[LinkSettings]) -> Option<(Span, SwitchForwarding)> {
        let kind = |own: &SwitchRule| (own.latency, own.forwarding);
        let first = self.switches.first().map(kind)?;
        let is_alike = links.len() == 1 && self.switches.iter().all(|own| kind(own) == first);
        is_alike.then_some(first)
    }

    /// What each switch does with packets, and behind that what hosts do.
    fn rules(self) -> Vec<Rule> {
        let PortsParts { wiring, packet, switches, hosts, .. } = self;
        let size = packet.0 as u32;
        let schedule = |own: &ClassSettings| own.schedule;
        let mut rules: Vec<Rule> = Vec::with_capacity(switches.len() + 1);
        for (number, own) in (0..).zip(switches) {
            let sharing = Sharing::new(own.classes.iter().map(schedule), size);
            let (first, count) = (wiring.port(number, 0), wiring.ports_of(number));
            rules.push(Rule::new(first, count, sharing, Some(own)));
        }
        let sharing = Sharing::new(hosts.into_iter(), size);
        let of_hosts = Rule::new(wiring.ports(), wiring.ends(), sharing, None);
        // What waits at a host with several ports leaves by that which is free first.
        rules.push(Rule { tells_all: wiring.planes() > 1, ..of_hosts });
        rules
    }
}

impl Ports {
    /// Idle ports.
    pub fn new(parts: PortsParts<'_>) -> Ports {
        let PortsParts { wiring, packet, classes, window, .. } = parts;
        let links = wiring.links(parts.link);
        let mut kinds = Kinds::default();
        let egress = parts.egress(&links, &mut kinds);
        let response = |own: &Egress| match own.peer < wiring.ports() {
            true => response(parts.switch_of(own.peer)),
            false => Span::ZERO,
        };
        let size = packet.0 as u32;
        let link = |own: &LinkSettings| Link::new(own.clone(), size);
        let all = egress.len() * classes;
        Ports {
            classes,
            window,
            alike: parts.alike(&links),
            queues: vec![Queue { chain: Chain::EMPTY, packets: 0, bytes: 0 }; all],
            deficits: vec![0; all],
            heard: vec![PauseCounts::default(); all],
            links: links.iter().map(link).collect(),
            counts: vec![ClassCounts::default(); all],
            credits: parts.credits(&egress),
            packet: size,
            marks_departures: any_at_departure(&parts.switches),
            responses: egress.iter().map(response).collect(),
            pauses: vec![0; egress.len()],
            turns: vec![Turn::default(); egress.len()],
            sent: vec![0; egress.len()],
            egress,
            kinds: kinds.all,
            planned: PlannedPackets::new(),
            plans: false,
            rules: parts.rules(),
        }
    }
}
