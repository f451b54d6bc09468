//! Rings among the switches of a channel: what their stations have, and the settings that do not go
//! with them.

use weft_fabric::adapter::{Feed, Insertion, Release};
use weft_fabric::fabric::{Peer, Wiring};
use weft_fabric::link::{Errors, LinkErrorSettings, LinkSettings};
use weft_fabric::switch::{RingLinkSettings, RingSettings};
use weft_fabric::workload::{Source, WorkloadSettings};
use weft_protocol::flow::FlowControlSettings;
use weft_units::{Bytes, Limit, Span};

use super::engine::{Kind, Place};
use super::network::SharedCells;
use super::{Site, adapter, errors, hub, network, refuse, refuse_hosts, turns};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::engine::RingParts;
use crate::drive::receiver::Receiver;
use crate::error::{ABSENT, Error};

impl ChannelSettings {
    /// Whether a switch of the channel is a ring.
    pub(crate) fn is_ring(&self, wiring: &Wiring, switch: u32) -> bool {
        is_ring(self.switches.get(wiring.bare_name(switch)).unwrap_or(&self.switch))
    }
}

/// Whether a switch is a ring.
pub(super) fn is_ring(switch: &SwitchSettings) -> bool {
    matches!(switch, SwitchSettings::Ring(_))
}

/// Whether any switch is a ring. There may be none although `switch` is one: the file may name all
/// switches of the fabric, and make each something else.
pub(super) fn has_any(settings: &ChannelSettings, hosts: u32) -> bool {
    if settings.switches.values().any(is_ring) {
        return true;
    }
    if settings.switches.is_empty() || !is_ring(&settings.switch) {
        return is_ring(&settings.switch);
    }
    match settings.wiring(hosts) {
        Ok(wiring) => is_any_of(settings, &wiring),
        // The fabric is refused where it is put together.
        Err(_) => true,
    }
}

fn is_any_of(settings: &ChannelSettings, wiring: &Wiring) -> bool {
    (0..wiring.switches()).any(|switch| settings.is_ring(wiring, switch))
}

/// Whether the only switch is a ring: then no cable has the link of the channel, which the links of
/// the ring may replace one by one.
pub(super) fn is_alone(settings: &ChannelSettings, wiring: &Wiring) -> bool {
    wiring.switches() == 1 && settings.is_ring(wiring, 0)
}

/// A switch that is a ring.
#[derive(Clone, Copy)]
struct Ring<'a> {
    settings: &'a RingSettings,
    number: u32,
    wiring: &'a Wiring,
    place: Place<'a>,
}

impl Ring<'_> {
    /// Its ports, and what is at the other end of each.
    fn stations(&self) -> impl Iterator<Item = (u32, Peer)> {
        let first = self.wiring.port(self.number, 0);
        let ports = first..first + self.wiring.ports_of(self.number);
        ports.map(|port| (port, self.wiring.peer(port)))
    }

    /// The port of its first bridge.
    fn bridge(&self) -> Option<u32> {
        let mut bridges = self.stations().filter(|(_, peer)| matches!(peer, Peer::Port(_)));
        bridges.next().map(|(port, _)| port)
    }
}

/// What the stations of all rings have; nothing without a ring.
pub(super) fn parts(
    settings: &ChannelSettings,
    wiring: &Wiring,
    sources: &[Source],
    kinds: &[(Kind<'_>, String)],
    site: Site<'_>,
) -> Result<Option<RingParts>, Error> {
    let rings = (0..).zip(kinds).filter_map(|(number, (kind, key))| match kind {
        Kind::Ring(settings) => {
            let place = Place { channel: site.name, key };
            Some(Ring { settings, number, wiring, place })
        }
        _ => None,
    });
    let rings: Vec<Ring<'_>> = rings.collect();
    if rings.is_empty() {
        return Ok(None);
    }
    let stations: Vec<Peer> = rings.iter().flat_map(Ring::stations).map(|(_, peer)| peer).collect();
    check_numbers(&stations, site)?;
    for ring in &rings {
        check_links(settings, ring)?;
        check_bridges(settings, ring, sources.is_empty())?;
    }
    refuse_hosts_elsewhere(settings, &stations, site)?;
    errors::check(settings, false, site)?;
    adapter::check_greedy(settings, sources, site.name)?;
    Ok(Some(RingParts {
        receivers: vec![Receiver::new(settings.receiver.as_ref()); site.hosts as usize],
        errors: errors_of_stations(settings, &stations, site),
        link_errors: errors_of_links(&rings, site),
    }))
}

/// The errors of what each station sends: bridges draw theirs behind all hosts.
fn errors_of_stations(
    settings: &ChannelSettings,
    stations: &[Peer],
    site: Site<'_>,
) -> Vec<Errors> {
    let errors = settings.errors.as_ref().filter(|errors| !errors.is_free_of_errors());
    let Some(errors) = errors else { return Vec::new() };
    let mut others = site.hosts..;
    let mut of_station = |peer: &Peer| {
        let number = match peer {
            Peer::Host(host) => Some(*host),
            Peer::Port(_) | Peer::Unused => others.next(),
        };
        // At most 65535 of them were admitted.
        errors.build(site.streams, site.name, number.unwrap_or_default() as u16)
    };
    stations.iter().map(&mut of_station).collect()
}

/// The errors of links of rings, station by station; empty if none has any.
fn errors_of_links(rings: &[Ring<'_>], site: Site<'_>) -> Vec<Option<Errors>> {
    if rings.iter().all(|ring| ring.settings.links.is_empty()) {
        return Vec::new();
    }
    let all = rings.iter().flat_map(|ring| {
        let alike = RingLinkSettings::default();
        ring.stations()
            .enumerate()
            .map(move |(station, _)| ring.settings.links.get(station).unwrap_or(&alike).errors)
    });
    let of_link = |(own, station): (Option<LinkErrorSettings>, u16)| {
        own.map(|errors| errors.build(site.streams, site.name, station))
    };
    all.zip(0..).map(of_link).collect()
}

/// Hosts, and the stations without one, are counted with sixteen bits together.
fn check_numbers(stations: &[Peer], site: Site<'_>) -> Result<(), Error> {
    let most = usize::from(u16::MAX);
    let hosts = site.hosts as usize;
    if !(2..=most).contains(&hosts) {
        let accepted = format!(
            "2 to {most} with rings, which number hosts with sixteen bits: a packet on a ring is \
             for another host"
        );
        return refuse_hosts(site.hosts, &accepted);
    }
    let others = stations.iter().filter(|peer| !matches!(peer, Peer::Host(_))).count();
    if hosts + others <= most {
        return Ok(());
    }
    let value = format!("{others} stations of rings without a host");
    let accepted = format!(
        "at most {}: {hosts} hosts and such stations are numbered together, with sixteen bits",
        most - hosts
    );
    refuse(site.name, "fabric", &value, &accepted)
}

/// Every station has a link to the next one, on which a packet and an acknowledgment take time.
fn check_links(settings: &ChannelSettings, ring: &Ring<'_>) -> Result<(), Error> {
    let Ring { settings: own, number, wiring, place } = *ring;
    let stations = wiring.ports_of(number) as usize;
    if stations < 2 {
        let value = format!("{} with {stations} port", wiring.switch_name(number));
        let accepted = "2 ports or more: what a station of a ring sends is for another one";
        return refuse(place.channel, "fabric", &value, accepted);
    }
    if !own.links.is_empty() && own.links.len() != stations {
        let value = format!("{} links", own.links.len());
        let accepted = match settings.fabric.is_star() {
            true => format!("{stations}, the link of each host to the next, or none"),
            false => format!("{stations}, the link of each port to the next, or none"),
        };
        return place.refuse("ring.links", &value, &accepted);
    }
    let links = own.links(stations, &settings.link);
    for (station, link) in links.iter().enumerate() {
        let reserved = link.reserved.get();
        if reserved >= 1.0 {
            let (value, accepted) = (reserved.to_string(), "a fraction less than 1");
            return match own.links.get(station).is_some_and(|own| own.reserved.is_some()) {
                true => place.refuse(&format!("ring.links.{station}.reserved"), &value, accepted),
                false => refuse(place.channel, "link.reserved", &value, accepted),
            };
        }
    }
    check_sizes(settings, ring, &links)
}

fn check_sizes(
    settings: &ChannelSettings,
    ring: &Ring<'_>,
    links: &[LinkSettings],
) -> Result<(), Error> {
    let Ring { settings: own, wiring, place, .. } = *ring;
    let accepted = "a size that takes a picosecond or more on every link";
    let takes_none = |size: Bytes| links.iter().any(|link| link.span(size) == Span::ZERO);
    if takes_none(settings.packet) {
        return refuse(place.channel, "packet", &settings.packet.to_string(), accepted);
    }
    if takes_none(own.acknowledgment) {
        return place.refuse("ring.acknowledgment", &own.acknowledgment.to_string(), accepted);
    }
    let is_laid =
        |(port, peer): &(u32, Peer)| matches!(peer, Peer::Host(_)) && wiring.link_of(*port) != 0;
    let Some((port, Peer::Host(host))) = ring.stations().find(is_laid) else { return Ok(()) };
    let value = format!(
        "a link for the cable from {} to {}",
        wiring.host_name(host),
        wiring.port_name(port)
    );
    let accepted = format!(
        "no link there: the adapter of a host is the station itself, without a cable in between \
         (channel.{}.{}.ring.links has the links between stations)",
        place.channel, place.key
    );
    refuse(place.channel, "fabric", &value, &accepted)
}

/// What leads to a switch or to another ring has buffers, and nothing else has.
fn check_bridges(
    settings: &ChannelSettings,
    ring: &Ring<'_>,
    carries_messages: bool,
) -> Result<(), Error> {
    let Ring { settings: own, wiring, place, .. } = *ring;
    let (port, bridge) = match (ring.bridge(), &own.bridge) {
        (None, None) => return Ok(()),
        (None, Some(_)) => {
            let accepted = "it only where a cable leads from a port of the ring to a switch or to \
                            another ring, since hosts are stations without a bridge";
            return place.refuse("ring.bridge", "given", accepted);
        }
        (Some(port), None) => {
            let accepted = format!(
                "the bridge at {}, which stores what goes from the ring to the cable there and \
                 back",
                wiring.port_name(port)
            );
            return place.refuse("ring.bridge", ABSENT, &accepted);
        }
        (Some(port), Some(bridge)) => (port, bridge),
    };
    if carries_messages && own.retries != Limit::Unlimited {
        let accepted = format!(
            "unlimited on a ring with a bridge, such as that at {}, where packets are those of \
             messages: once a bridge has accepted a request, its initiator is not told of a loss",
            wiring.port_name(port)
        );
        return place.refuse("ring.retries", &own.retries.to_string(), &accepted);
    }
    if let Some(FlowControlSettings::VirtualChannelCredits(control)) = &settings.flow_control {
        let key = format!("{}.ring.bridge.buffer", place.key);
        let shared = SharedCells { key: &key, cells: bridge.buffer.get(), cells_per_packet: 1 };
        network::channels_fit(control.channels, &shared, place.channel)?;
    }
    Ok(())
}

/// Hosts behind a switch have no adapter that acknowledges or refuses.
fn refuse_hosts_elsewhere(
    settings: &ChannelSettings,
    stations: &[Peer],
    site: Site<'_>,
) -> Result<(), Error> {
    let given = match settings {
        ChannelSettings { receiver: Some(_), .. } => "receiver",
        ChannelSettings { errors: Some(_), .. } => "errors",
        _ => return Ok(()),
    };
    let on_rings = stations.iter().filter(|peer| matches!(peer, Peer::Host(_))).count();
    if on_rings == site.hosts as usize {
        return Ok(());
    }
    let accepted = "it where all hosts are on rings, whose stations check, refuse and repeat \
                    requests: what is damaged or refused on the cable of another host would be \
                    lost";
    refuse(site.name, given, "given", accepted)
}

/// Refuses a switch beside a ring that needs more of hosts than to send and to receive.
fn refuse_switches_beside(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let is_other = |own: &SwitchSettings| match own {
        SwitchSettings::Ring(_)
        | SwitchSettings::OutputQueued(_)
        | SwitchSettings::InputQueued(_) => false,
        SwitchSettings::Hub(_) => !hub::is_of_packets(settings, own),
        SwitchSettings::Scheduled(_)
        | SwitchSettings::Crossbar(_)
        | SwitchSettings::FifoBus(_)
        | SwitchSettings::OutputBuffered(_)
        | SwitchSettings::SharedMemory(_)
        | SwitchSettings::SharedBuffer(_) => true,
    };
    let Some((key, value)) = adapter::switch_that(settings, is_other) else { return Ok(()) };
    let accepted = "ring, output_queued, input_queued or hub beside a ring, whose stations have neither \
                    the connections, classes or windows of other switches nor hear what a crossbar \
                    does to a packet";
    refuse(name, &key, value, accepted)
}

/// A key below the channel, whether the file gives it, and what is accepted.
type Unread = (&'static str, bool, &'static str);

/// What a channel with a ring does not support, and why.
pub(super) fn refuse_what_a_ring_does_not_read(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    name: &str,
) -> Result<(), Error> {
    hub::refuse_a_window_without(settings, name)?;
    // With `turns` these are what does not fit, and not what belongs to them.
    if settings.turns.is_none() {
        turns::refuse_without_turns(settings, name)?;
    }
    network::refuse_deadlock_without_buffers(settings, name)?;
    network::refuse_what_needs_a_shared_memory(settings, workload, name)?;
    refuse_switches_beside(settings, name)?;
    let mut all = unread_by_links(settings).into_iter().chain(unread_by_stations(settings));
    match all.find(|(_, is_given, _)| *is_given) {
        Some((key, _, accepted)) => refuse(name, key, "given", accepted),
        None => Ok(()),
    }
}

/// Switches, and settings of cables and of the ways over them.
fn unread_by_links(settings: &ChannelSettings) -> [Unread; 5] {
    let is_alone = settings.fabric.has_one_switch();
    [
        (
            "switches",
            settings.fabric.is_star() && !settings.switches.is_empty(),
            "no switches on a ring, whose adapters are wired to each other; what its links have \
             otherwise stands in `switch.ring.links`",
        ),
        (
            "turns",
            settings.turns.is_some(),
            "no turns on a ring, whose links lead one way: nothing comes back on the same cable",
        ),
        (
            "routes",
            is_alone && settings.routes.is_some(),
            "no routes on a ring, which has one way round",
        ),
        (
            "flow_control",
            is_alone && settings.flow_control.is_some(),
            "no flow control on a ring: what passes an adapter goes before what it sends itself, \
             `switch.ring.outstanding` limits requests, and a full target refuses them",
        ),
        (
            "flow_control",
            settings.flow_control.as_ref().is_some_and(stops),
            "credits or virtual_channel_credits beside a ring, whose bridges keep each request \
             until it is acknowledged and then give a credit: how many come between a stop and its \
             effect they do not know",
        ),
    ]
}

/// Settings of the adapters of hosts.
fn unread_by_stations(settings: &ChannelSettings) -> [Unread; 8] {
    let adapter = &settings.adapter;
    let by_themselves = "not on a ring, whose adapters acknowledge and repeat by themselves";
    [
        ("control", settings.control.is_some(), by_themselves),
        ("recovery", settings.recovery.is_some(), by_themselves),
        (
            "interface",
            settings.interface.is_some(),
            "not on a ring, into whose adapters programs store without an interface in between",
        ),
        (
            "disabled",
            !settings.disabled.is_empty(),
            "not on a ring, which has no switch that could refuse the requests of a host",
        ),
        (
            "adapter.throttle",
            adapter.throttle.is_some(),
            "no throttle on a ring, on which `switch.ring.outstanding` holds an adapter back",
        ),
        (
            "adapter.feed",
            adapter.feed != Feed::Fifo,
            "fifo on a ring, on which all targets lie behind one link",
        ),
        (
            "adapter.acknowledgments",
            adapter.acknowledgments != Insertion::Wait,
            "wait on a ring, on which a packet that has begun is not cut by another",
        ),
        (
            "adapter.release",
            adapter.release == Some(Release::Acknowledgment),
            "transmission on a ring, whose adapters keep what they may have to repeat",
        ),
    ]
}

/// Refuses a deadlock that no one would see. A run ends when its time is over, and a program when
/// nothing is left to happen.
pub(crate) fn refuse_programs_that_never_end(
    settings: &ChannelSettings,
    site: Site<'_>,
) -> Result<(), Error> {
    if settings.deadlock.is_refused() || !has_any(settings, site.hosts) {
        return Ok(());
    }
    let accepted = "refused where a program sends over a ring: if packets wait for each other in a \
                    cycle, stations ask for ever again, so that the program would not be seen to \
                    be stuck";
    refuse(site.name, "deadlock", "allowed", accepted)
}

/// Whether a flow control stops cables.
fn stops(own: &FlowControlSettings) -> bool {
    match own {
        FlowControlSettings::StopGo(_) | FlowControlSettings::SourceQuench(_) => true,
        FlowControlSettings::Credits | FlowControlSettings::VirtualChannelCredits(_) => false,
    }
}
