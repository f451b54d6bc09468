//! A channel of links with turns: which of the settings it reads, and what it is made of.

use weft_fabric::adapter::{Feed, Insertion, Release};
use weft_fabric::fabric::{ConnectionRoutes, Routes, RoutesSettings, Wiring};
use weft_fabric::graph::SwitchParts;
use weft_fabric::interface::TransferSettings;
use weft_fabric::link::{ErrorSettings, PhaseSettings, TurnSettings, TurnTiming};
use weft_fabric::switch::{BoxRules, Contention};
use weft_fabric::workload::Source;
use weft_protocol::retransmit::ControlSettings;
use weft_protocol::turns::{LONGEST_MESSAGE, PACKET};
use weft_units::{Bytes, Limit, Time};

use super::network::{RoutedFabric, named};
use super::{Site, adapter, errors, network, refuse};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::engine::{EngineParts, TurnParts};
use crate::drive::faults::Faults;
use crate::error::{ABSENT, Error};

/// What is accepted where something needs links with turns.
const NEEDED: &str = "it only where links have turns (`turns`), since frames of other links pass \
                      no FIFOs that could stop them";

/// The parts of the channel of links with turns.
pub(super) fn channel(
    settings: &ChannelSettings,
    turns: &TurnSettings,
    sources: Vec<Source>,
    site: Site<'_>,
) -> Result<EngineParts, Error> {
    refuse_what_turns_do_not_read(settings, site)?;
    let Some(transfer) = settings.transfer.clone() else {
        let accepted = "the path between memory and FIFOs, required if links have turns";
        return refuse(site.name, "transfer", ABSENT, accepted);
    };
    if transfer.manager.is_some_and(|manager| manager.page == Bytes(0)) {
        return refuse(site.name, "transfer.manager.page", "0 B", "at least 1 B");
    }
    if let Some(reserved) = transfer.reserved.filter(|reserved| *reserved < settings.payload) {
        let accepted = format!("at least {}, the payload of a message", settings.payload);
        return refuse(site.name, "transfer.reserved", &reserved.to_string(), &accepted);
    }
    if settings.packet != Bytes(PACKET as u64) {
        let accepted = "16 B where links have turns";
        return refuse(site.name, "packet", &settings.packet.to_string(), accepted);
    }
    if settings.payload > Bytes(LONGEST_MESSAGE as u64) {
        let accepted =
            format!("at most {LONGEST_MESSAGE} B: 65535 packets, which is what is counted");
        return refuse(site.name, "payload", &settings.payload.to_string(), &accepted);
    }
    check_sources(settings, &transfer, &sources, site.name)?;
    let wiring = settings.fabric.wiring(site.hosts, settings.link.rate);
    let wiring = wiring.map_err(|error| named(site.name, error))?;
    let routes = routes(settings, &wiring, site)?;
    let switches = switches(settings, turns, &wiring, site.name)?;
    let turns = parts(settings, turns, transfer, &wiring, site)?;
    Ok(EngineParts {
        switches: switches.into_iter().map(SwitchParts::Fifos).collect(),
        turns: Some(turns),
        ..network::bare(settings, RoutedFabric { wiring, routes }, sources, site)
    })
}

/// Refuses settings that only links with turns read on other channels.
pub(super) fn refuse_without_turns(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    match settings.transfer {
        Some(_) => refuse(name, "transfer", "given", NEEDED),
        None => Ok(()),
    }
}

/// A bus of FIFOs has none without links that fill them by turns.
pub(super) fn refuse_bus(name: &str) -> Result<EngineParts, Error> {
    refuse(name, "switch", "fifo_bus", NEEDED)
}

/// The properties of its links, and the transfer and throttle of its hosts.
fn parts(
    settings: &ChannelSettings,
    turns: &TurnSettings,
    transfer: TransferSettings,
    wiring: &Wiring,
    site: Site<'_>,
) -> Result<TurnParts, Error> {
    let named = |error: weft_fabric::link::TurnError| Error::Assembly {
        key: format!("channel.{}.turns.{}", site.name, error.key),
        value: error.value,
        accepted: error.accepted,
    };
    let links = wiring.links(&settings.link);
    let timings: Vec<TurnTiming> = links.iter().map(|link| turns.timing(link)).collect();
    let mut random = site.streams.stream(&format!("{}.phases", site.name), 0);
    let longest = timings.iter().map(|timing| timing.null_turn().0).max();
    let period = longest.unwrap_or_default() * 2;
    let mut phase = |cable: usize| match &turns.phase {
        PhaseSettings::Random => Time(random.below(period.max(1))),
        PhaseSettings::Aligned => Time::ZERO,
        PhaseSettings::At(given) => given.get(cable).map_or(Time::ZERO, |phase| Time(phase.0)),
    };
    let cables = wiring.hosts() as usize + wiring.ports() as usize;
    if let PhaseSettings::At(given) = &turns.phase
        && given.len() > cables
    {
        let accepted = format!("at most {cables} times, one for each link");
        return refuse(site.name, "turns.phase.at", &given.len().to_string(), &accepted);
    }
    let errors = settings.errors.as_ref().filter(|errors| !errors.is_free_of_errors());
    let of_port = |errors: &ErrorSettings| {
        // Listed errors are those of hosts, which have the first numbers; ports have only random
        // errors.
        let (hosts, ports) = (0..wiring.hosts(), wiring.hosts()..wiring.hosts() + wiring.ports());
        let build = |number| errors.build(site.streams, site.name, number as u16);
        ports.chain(hosts).map(build).collect()
    };
    Ok(TurnParts {
        rules: turns.rules().map_err(named)?,
        capacity: turns.capacity().map_err(named)?,
        timings,
        packet: turns.packet(),
        phases: (0..cables).map(&mut phase).collect(),
        errors: errors.map_or(Vec::new(), of_port),
        transfer,
        throttle: settings.adapter.throttle.clone(),
        release: settings.adapter.release.unwrap_or(Release::Transmission),
    })
}

/// All messages of a pair have the same route, so that they stay in order.
fn routes(settings: &ChannelSettings, wiring: &Wiring, site: Site<'_>) -> Result<Routes, Error> {
    if let Some(RoutesSettings::PerPacket(_)) = settings.routes {
        let accepted = "per_connection, since the messages of a pair stay in order";
        return refuse(site.name, "routes", "per_packet", accepted);
    }
    let random = site.streams.stream(&format!("{}.routes", site.name), 0);
    let hashed = RoutesSettings::PerConnection(ConnectionRoutes::Hashed);
    let routes = settings.routes.clone().unwrap_or(hashed);
    Routes::new(&routes, wiring, random).map_err(|error| named(site.name, error))
}

/// The properties of each switch.
fn switches(
    settings: &ChannelSettings,
    turns: &TurnSettings,
    wiring: &Wiring,
    name: &str,
) -> Result<Vec<BoxRules>, Error> {
    let widest = (0..wiring.switches()).map(|switch| wiring.ports_of(switch)).max();
    if widest.is_some_and(|ports| ports > 63) {
        let value = format!("a switch with {} ports", widest.unwrap_or_default());
        return refuse(name, "fabric", &value, "switches with at most 63 ports");
    }
    // The ports of a listed route are those to one target.
    let listed =
        matches!(settings.routes, Some(RoutesSettings::PerConnection(ConnectionRoutes::Given(_))));
    let rules = |switch: &SwitchSettings, key: &str| -> Result<BoxRules, Error> {
        let rules = rules(switch, turns, key, name)?;
        Ok(BoxRules { multicast: rules.multicast && !listed, ..rules })
    };
    let all_alike = rules(&settings.switch, "switch")?;
    let mut switches = vec![all_alike; wiring.switches() as usize];
    for (own_name, own) in &settings.switches {
        let number = network::switch_named(wiring, own_name, name)?;
        switches[number as usize] = rules(own, &format!("switches.{own_name}"))?;
    }
    Ok(switches)
}

/// The properties of the switch whose settings are under a key of the channel.
fn rules(
    switch: &SwitchSettings,
    turns: &TurnSettings,
    key: &str,
    name: &str,
) -> Result<BoxRules, Error> {
    match switch {
        SwitchSettings::FifoBus(bus) => Ok(BoxRules::of_bus(bus, turns.packet())),
        SwitchSettings::Crossbar(crossbar) if crossbar.contention == Contention::BackPressure => {
            Ok(BoxRules::of_crossbar(crossbar.latency))
        }
        SwitchSettings::OutputQueued(own) => {
            if own.buffers != Limit::Unlimited {
                let accepted =
                    "unlimited where links have turns: a FIFO that is full stops its link";
                let key = format!("{key}.output_queued.buffers");
                return refuse(name, &key, &own.buffers.to_string(), accepted);
            }
            Ok(BoxRules::of_crossbar(own.latency))
        }
        other => {
            let accepted = "fifo_bus, output_queued, or a crossbar with contention = \
                            \"back_pressure\" where links have turns: what has come waits in the \
                            FIFO of its port, which stops its link, and in no other queue";
            refuse(name, key, other.name(), accepted)
        }
    }
}

/// A greedy source fills places of its adapter, and what is released by an answer needs one.
fn check_sources(
    settings: &ChannelSettings,
    transfer: &TransferSettings,
    sources: &[Source],
    name: &str,
) -> Result<(), Error> {
    adapter::refuse_endless(settings, sources, name)?;
    let by_answer = settings.adapter.release == Some(Release::Acknowledgment);
    if by_answer && transfer.acknowledgment.is_none() {
        let accepted = "transmission where messages are not answered (transfer.acknowledgment), \
                        since nothing tells of an arrival";
        return refuse(name, "adapter.release", "acknowledgment", accepted);
    }
    Ok(())
}

fn refuse_what_turns_do_not_read(settings: &ChannelSettings, site: Site<'_>) -> Result<(), Error> {
    let name = site.name;
    let adapter = &settings.adapter;
    if settings.control.as_ref().is_some_and(|own| *own != ControlSettings::Unacknowledged) {
        let accepted = "no control where links have turns: they lose nothing, and no check code \
                        tells of a wrong bit";
        return refuse(name, "control", "given", accepted);
    }
    if settings.flow_control.is_some() {
        return refuse(
            name,
            "flow_control",
            "given",
            "none where links have turns: every frame says how much room there is",
        );
    }
    if adapter.feed != Feed::Fifo {
        return refuse(
            name,
            "adapter.feed",
            "per_target",
            "fifo where links have turns: the send FIFO of a host is one for all targets",
        );
    }
    if adapter.acknowledgments != Insertion::Wait {
        let accepted = "wait, since nothing is inserted into a frame";
        return refuse(name, "adapter.acknowledgments", "interleave", accepted);
    }
    errors::check(settings, false, site)?;
    let others = Faults { errors: ErrorSettings::default(), ..settings.faults() };
    let given = others.first().or(settings.recovery.map(|_| "recovery"));
    let given = given.or(settings.interface.as_ref().map(|_| "interface"));
    match given {
        Some(key) => {
            let accepted = "it only where links have no turns: `transfer` says what stands between \
                            memory and these links, and FIFOs that are full stop them";
            refuse(name, key, "given", accepted)
        }
        None => Ok(()),
    }
}
