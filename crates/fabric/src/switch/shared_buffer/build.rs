//! The ports of a channel at time zero.

use weft_units::{Bytes, Span, Time};

use super::counts::{ClassCounts, PauseCounts};
use super::credits::Credits;
use super::egress::{CableEnd, Egress, Queue};
use super::marks::any_at_departure;
use super::planned::PlannedLists;
use super::ports::{Ports, SwitchRule};
use super::rule::{Link, Rule, response};
use super::settings::{ClassSettings, ScheduleSettings, SwitchForwarding};
use super::turns::Sharing;
use crate::fabric::{Peer, Wiring};
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
    /// From when on is counted.
    pub from: Time,
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
    fn egress(&self, links: &[LinkSettings]) -> Vec<Egress> {
        let wiring = self.wiring;
        let cable = |port: u32| links[wiring.link_of(port)].propagation();
        let of_switch = |port: u32| {
            let far = match wiring.peer(port) {
                Peer::Port(peer) => self.at_switch(peer, cable(port)),
                Peer::Host(host) => {
                    CableEnd { peer: wiring.ports() + host, ahead: cable(port), is_whole: true }
                }
                Peer::Unused => CableEnd { peer: u32::MAX, ahead: Span::ZERO, is_whole: true },
            };
            Egress::new(wiring.switch_of(port), wiring.link_of(port) as u32, far)
        };
        let of_host = |end: u32| {
            let port = wiring.host_port(end);
            let far = self.at_switch(port, cable(port));
            Egress::new(wiring.switches(), wiring.link_of(port) as u32, far)
        };
        let of_hosts = (0..wiring.ends()).map(of_host);
        (0..wiring.ports()).map(of_switch).chain(of_hosts).collect()
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
        let PortsParts { wiring, packet, classes, from, .. } = parts;
        let links = wiring.links(parts.link);
        let egress = parts.egress(&links);
        let response = |own: &Egress| match own.peer < wiring.ports() {
            true => response(parts.switch_of(own.peer)),
            false => Span::ZERO,
        };
        let size = packet.0 as u32;
        let link = |own: &LinkSettings| Link::new(own.clone(), size);
        let all = egress.len() * classes;
        Ports {
            classes,
            from,
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
            egress,
            planned: PlannedLists::new(0),
            rules: parts.rules(),
        }
    }
}
