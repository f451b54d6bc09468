//! A ring of adapters, and the settings that do not go with it.

use weft_fabric::adapter::{Feed, Insertion, Release};
use weft_fabric::graph::SwitchParts;
use weft_fabric::link::ErrorSettings;
use weft_fabric::switch::{RingLinkSettings, RingSettings};
use weft_fabric::workload::{Source, WorkloadSettings};
use weft_units::{Bytes, Span};

use super::{Driver, Site, adapter, classed, errors, hub, network, refuse, turns};
use crate::composition::ChannelSettings;
use crate::drive::engine::{ConnectionParts, Engine, EngineParts, RingParts};
use crate::drive::receiver::Receiver;
use crate::error::Error;

/// The channel of hosts that are nodes of a ring.
pub(super) fn build(
    settings: &ChannelSettings,
    ring: &RingSettings,
    (workload, sources): (Option<&WorkloadSettings>, Vec<Source>),
    site: Site<'_>,
) -> Result<Driver, Error> {
    refuse_what_a_ring_does_not_read(settings, workload, site.name)?;
    check_links(settings, ring, site)?;
    errors::check(settings, false, site)?;
    adapter::check_greedy(settings, &sources, site.name)?;
    let hosts = site.hosts as usize;
    let errors = settings.errors.as_ref().filter(|errors| !errors.is_free_of_errors());
    let of_host = |settings: &ErrorSettings| {
        (0..site.hosts as u16).map(|host| settings.build(site.streams, site.name, host)).collect()
    };
    let of_link = |(host, own): (u16, &RingLinkSettings)| {
        own.errors.map(|errors| errors.build(site.streams, site.name, host))
    };
    let parts = RingParts {
        settings: ring.clone(),
        receivers: vec![Receiver::new(settings.receiver.as_ref()); hosts],
        errors: errors.map_or(Vec::new(), of_host),
        link_errors: (0..).zip(&ring.links).map(of_link).collect(),
    };
    let (wiring, routes) = network::ways(settings, site)?;
    Ok(Driver::Engine(Box::new(Engine::new(EngineParts {
        wiring,
        routes,
        link: settings.link.clone(),
        packet: settings.packet,
        payload: settings.payload,
        switches: Vec::<SwitchParts>::new(),
        flow: classed::no_flow_control(),
        send_buffers: settings.adapter.send_buffers,
        sources,
        observations: site.observations(),
        until: site.until,
        connections: ConnectionParts::default(),
        classed: None,
        flows: None,
        adapters: None,
        ring: Some(parts),
        turns: None,
        hub: None,
    }))))
}

/// Every host has a link to the next one, on which a packet and an acknowledgment take time.
fn check_links(
    settings: &ChannelSettings,
    ring: &RingSettings,
    site: Site<'_>,
) -> Result<(), Error> {
    let (name, hosts) = (site.name, site.hosts as usize);
    if hosts < 2 || u16::try_from(hosts).is_err() {
        let (key, value) = ("system.hosts".to_owned(), hosts.to_string());
        let accepted = "2 to 65535: a packet on a ring is for another host".to_owned();
        return Err(Error::Assembly { key, value, accepted });
    }
    if !ring.links.is_empty() && ring.links.len() != hosts {
        let (value, accepted) = (
            format!("{} links", ring.links.len()),
            format!("{hosts}, the link of each host to the next, or none"),
        );
        return refuse(name, "switch.ring.links", &value, &accepted);
    }
    let links = ring.links(hosts, &settings.link);
    let accepted = "a fraction less than 1";
    for (host, link) in links.iter().enumerate() {
        let reserved = link.reserved.get();
        if reserved >= 1.0 {
            let key = match ring.links.get(host).is_some_and(|own| own.reserved.is_some()) {
                true => format!("switch.ring.links.{host}.reserved"),
                false => "link.reserved".to_owned(),
            };
            return refuse(name, &key, &reserved.to_string(), accepted);
        }
    }
    let accepted = "a size that takes a picosecond or more on every link";
    let takes_none = |size: Bytes| links.iter().any(|link| link.span(size) == Span::ZERO);
    for (key, size) in
        [("packet", settings.packet), ("switch.ring.acknowledgment", ring.acknowledgment)]
    {
        if takes_none(size) {
            return refuse(name, key, &size.to_string(), accepted);
        }
    }
    Ok(())
}

/// What a ring does not support, and why.
fn refuse_what_a_ring_does_not_read(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    name: &str,
) -> Result<(), Error> {
    hub::refuse_a_window_without(settings, name)?;
    turns::refuse_without_turns(settings, name)?;
    network::refuse_deadlock_without_buffers(settings, name)?;
    network::refuse_what_needs_a_shared_memory(settings, workload, name)?;
    let adapter = &settings.adapter;
    let by_themselves = "not on a ring, whose adapters acknowledge and repeat by themselves";
    let unread = [
        (
            "fabric",
            !settings.fabric.is_star(),
            "no fabric around a ring, whose adapters are wired to each other without a switch",
        ),
        (
            "switches",
            !settings.switches.is_empty(),
            "no switches on a ring, whose adapters are wired to each other; what its links have \
             otherwise stands in `switch.ring.links`",
        ),
        (
            "turns",
            settings.turns.is_some(),
            "no turns on a ring, whose links lead one way: nothing comes back on the same cable",
        ),
        ("routes", settings.routes.is_some(), "no routes on a ring, which has one way round"),
        (
            "flow_control",
            settings.flow_control.is_some(),
            "no flow control on a ring: what passes an adapter goes before what it sends itself, \
             `switch.ring.outstanding` limits requests, and a full target refuses them",
        ),
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
    ];
    match unread.iter().find(|(_, is_given, _)| *is_given) {
        Some((key, _, accepted)) => refuse(name, key, "given", accepted),
        None => Ok(()),
    }
}
