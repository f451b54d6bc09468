//! A channel of one or several switches that queue packets: which of the settings its driver reads,
//! and what it is made of.

use weft_fabric::adapter::{Feed, Insertion, Release};
use weft_fabric::fabric::{
    ConnectionRoutes, CycleBuffer, FabricError, Routes, RoutesSettings, Wiring,
};
use weft_fabric::link::{ErrorSettings, Errors, FlowControl, MOST_CHANNELS};
use weft_fabric::message::SegmentationSettings;
use weft_fabric::switch::shared_buffer::ClassSettings;
use weft_fabric::workload::{Source, SourceSettings, WorkloadSettings};
use weft_protocol::retransmit::ControlSettings;
use weft_units::{Limit, PositiveCount};

use super::{Site, adapter, classed, errors, hub, refuse, refuse_in_workload};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::engine::{ConnectionParts, EngineParts};
use crate::error::Error;

/// Only switches that the engine runs can be part of a fabric.
pub(super) fn refuse_a_fabric_of_others(
    settings: &ChannelSettings,
    name: &str,
) -> Result<(), Error> {
    if settings.fabric.is_star() {
        return Ok(());
    }
    let accepted = "output_queued, output_buffered, input_queued, shared_memory, hub or ring in a \
                    fabric other than star: a schedule needs the requests of all hosts at one switch";
    refuse(name, "switch", settings.switch.name(), accepted)
}

/// Switches and cables, and the routes that packets take.
#[derive(Debug)]
pub(super) struct RoutedFabric {
    pub wiring: Wiring,
    pub routes: Routes,
}

/// The fabric of a channel.
pub(super) fn fabric(settings: &ChannelSettings, site: Site<'_>) -> Result<RoutedFabric, Error> {
    let wiring = settings.wiring(site.hosts).map_err(|error| named(site.name, error))?;
    let random = site.streams.stream(&format!("{}.routes", site.name), 0);
    let has_connections = has_a_memory(settings) || settings.adapter.transport.is_some();
    let routes = settings.routes.clone().unwrap_or_else(|| match has_connections {
        true => RoutesSettings::PerConnection(ConnectionRoutes::Hashed),
        false => RoutesSettings::default(),
    });
    let routes = Routes::new(&routes, &wiring, random).map_err(|error| named(site.name, error))?;
    Ok(RoutedFabric { wiring, routes })
}

/// The number of a switch that the file names.
pub(super) fn switch_named(wiring: &Wiring, own: &str, name: &str) -> Result<u32, Error> {
    let Some(number) = wiring.switch_named(own) else {
        let accepted = format!("a switch of the fabric, such as {}", wiring.bare_name(0));
        return refuse(name, &format!("switches.{own}"), "given", &accepted);
    };
    Ok(number)
}

/// The parts that every channel has: cables, routes, sources and observations. It has no switches
/// yet, and nothing that only some channels have.
pub(super) fn bare(
    settings: &ChannelSettings,
    RoutedFabric { wiring, routes }: RoutedFabric,
    sources: Vec<Source>,
    site: Site<'_>,
) -> EngineParts {
    EngineParts {
        wiring,
        routes,
        link: settings.link.clone(),
        packet: settings.packet,
        payload: settings.payload,
        switches: Vec::new(),
        flow: classed::no_flow_control(),
        send_buffers: settings.adapter.send_buffers,
        sources,
        observations: site.observations(),
        until: site.until,
        connections: ConnectionParts::default(),
        classed: None,
        flows: None,
        adapters: None,
        ring: None,
        turns: None,
        hub: None,
    }
}

/// Whether any switch has a shared memory.
pub(super) fn has_a_memory(settings: &ChannelSettings) -> bool {
    let mut all = settings.switches.values().chain([&settings.switch]);
    all.any(|own| matches!(own, SwitchSettings::SharedMemory(_)))
}

/// What hosts need in addition if a switch has a shared memory.
pub(super) fn connections(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    routes: &Routes,
    site: Site<'_>,
) -> Result<ConnectionParts, Error> {
    if !routes.is_per_connection() {
        let accepted = "per_connection: a cell names the connection along which its switches pass \
                        it on, and the cells of a message have to arrive in order";
        return refuse(site.name, "routes", "per_packet", accepted);
    }
    let cut = |own: &SegmentationSettings| own.build(settings.packet, settings.payload);
    let segmentation = settings.segmentation.as_ref().map(cut);
    let streams = workload.map(|own| own.streams(&settings.facts(site), site.streams));
    let streams = streams.transpose()?.unwrap_or_default();
    let is_greedy = streams.streams.iter().any(|stream| stream.load.is_none());
    if is_greedy && settings.adapter.send_buffers == Limit::Unlimited {
        let accepted = "a number, since a greedy stream fills them all at once";
        return refuse(site.name, "adapter.send_buffers", "unlimited", accepted);
    }
    if settings.endpoints.is_none() {
        refuse_what_needs_endpoints(workload, site.name)?;
    }
    errors::check(settings, false, site)?;
    let most = u32::from(u16::MAX);
    if let Some(own) = &settings.endpoints
        && let Some(count) = own.receive_descriptors.count().filter(|count| count.get() > most)
    {
        let accepted = format!("at most {most}, or \"unlimited\"");
        let key = "endpoints.receive_descriptors";
        return refuse(site.name, key, &count.to_string(), &accepted);
    }
    if let Some(own) = &settings.endpoints
        && own.receive_go >= own.receive_stop.get()
    {
        let accepted = format!("less than receive_stop, {}", own.receive_stop);
        let (key, value) = ("endpoints.receive_go", own.receive_go.to_string());
        return refuse(site.name, key, &value, &accepted);
    }
    let random = |number| site.streams.stream(&format!("{}.streams", site.name), number);
    Ok(ConnectionParts {
        segmentation,
        endpoints: settings.endpoints.clone(),
        errors: errors(settings, site),
        random: (0..=streams.streams.len()).map(random).collect(),
        streams,
        sample: site.sample,
    })
}

/// Only endpoints read the operation and the memory tag of descriptors.
fn refuse_what_needs_endpoints(
    workload: Option<&WorkloadSettings>,
    name: &str,
) -> Result<(), Error> {
    let Some(SourceSettings::Streams(groups)) = workload.map(|own| &own.source) else {
        return Ok(());
    };
    for (group, own) in groups {
        let refuse = |key: &str, value: &str| {
            let key = format!("source.streams.{group}.{key}");
            let accepted = format!("it only with channel.{name}.endpoints");
            refuse_in_workload(name, &key, value, &accepted)
        };
        if !own.operation.is_send() {
            return refuse("operation", own.operation.name());
        }
        if own.tag != 0 {
            return refuse("tag", &own.tag.to_string());
        }
        if let Some(tag) = own.memory_tag {
            return refuse("memory_tag", &tag.to_string());
        }
    }
    Ok(())
}

/// The errors of the messages of each host; empty without errors.
fn errors(settings: &ChannelSettings, site: Site<'_>) -> Vec<Errors> {
    let of_hosts = |own: &ErrorSettings| {
        (0..site.hosts as u16).map(|host| own.build(site.streams, site.name, host)).collect()
    };
    settings.errors.as_ref().filter(|own| !own.is_free_of_errors()).map_or_else(Vec::new, of_hosts)
}

/// Only switches with a shared memory read how messages become cells, and streams of them.
pub(super) fn refuse_what_needs_a_shared_memory(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    name: &str,
) -> Result<(), Error> {
    let accepted = "it only with channel.NAME.switch.shared_memory".replace("NAME", name);
    if settings.segmentation.is_some() {
        return refuse(name, "segmentation", "given", &accepted);
    }
    if settings.endpoints.is_some() {
        return refuse(name, "endpoints", "given", &accepted);
    }
    let is_streams = |own: &WorkloadSettings| matches!(own.source, SourceSettings::Streams(_));
    if workload.is_some_and(is_streams) {
        return refuse_in_workload(name, "source", "streams", &accepted);
    }
    Ok(())
}

/// A buffer that virtual channels share.
pub(super) struct SharedCells<'a> {
    /// Its key below the channel.
    pub key: &'a str,
    /// How many cells it has.
    pub cells: u32,
    /// How many of them a packet takes.
    pub cells_per_packet: u64,
}

/// A buffer has room for a packet of each virtual channel.
pub(super) fn channels_fit(
    channels: PositiveCount,
    buffer: &SharedCells<'_>,
    name: &str,
) -> Result<(), Error> {
    let cells = buffer.cells_per_packet;
    let least = u64::from(channels.get()) * cells;
    if channels.get() > MOST_CHANNELS || u64::from(buffer.cells) >= least {
        return Ok(());
    }
    let noun = if cells == 1 { "cell" } else { "cells" };
    let accepted = format!(
        "{least} or more: each of the {channels} virtual channels holds {cells} {noun}, a packet"
    );
    refuse(name, buffer.key, &buffer.cells.to_string(), &accepted)
}

/// How many buffers of a cycle a message names.
const MOST_NAMED: usize = 12;

/// The buffers of limited size for which packets of a channel wait.
pub(super) struct Buffers<'a, F> {
    pub flow: &'a FlowControl,
    /// Whether a switch has such buffers.
    pub holds: F,
    /// Whether some belong to bridges of rings. A bridge has one queue before its cable, in which
    /// packets of one virtual channel wait behind others.
    pub has_bridges: bool,
}

/// No buffers of switches can wait for each other in a cycle, unless the file accepts that.
pub(super) fn refuse_a_cycle<F: Fn(u32) -> bool>(
    settings: &ChannelSettings,
    RoutedFabric { wiring, routes }: &RoutedFabric,
    buffers: &Buffers<'_, F>,
    name: &str,
) -> Result<(), Error> {
    if !settings.deadlock.is_refused() {
        return Ok(());
    }
    let Buffers { flow, holds, has_bridges } = buffers;
    let virtual_channels = match *has_bridges {
        true => 1,
        false => flow.virtual_channels(routes.virtual_channels()),
    };
    let Some(cycle) = routes.cycle(wiring, virtual_channels, holds) else { return Ok(()) };
    let value = format!(
        "refused (a cycle of buffers, each of which can be full of packets that wait for space in \
         the next: those behind {})",
        name_cycle(wiring, virtual_channels, &cycle)
    );
    let channels = match routes.virtual_channels() {
        _ if *has_bridges => {
            "a fabric in which that is not so (bridges of rings have one queue for all \
             virtual channels), "
                .to_owned()
        }
        needed if needed > virtual_channels => format!(
            "a multiple of {needed} virtual channels \
             (flow_control.virtual_channel_credits.channels), "
        ),
        _ => String::new(),
    };
    let accepted = format!(
        "{channels}other routes (such as routes.per_connection.given), switches without buffers of \
         limited size (output_queued), or deadlock = \"allowed\" for a run that may end as `stuck`"
    );
    refuse(name, "deadlock", &value, &accepted)
}

/// The cables of a cycle in words.
pub(super) fn name_cycle(wiring: &Wiring, virtual_channels: u8, cycle: &[CycleBuffer]) -> String {
    let buffer = |own: &CycleBuffer| match virtual_channels {
        1 => wiring.port_name(own.port),
        _ => format!("{} (virtual channel {})", wiring.port_name(own.port), own.virtual_channel),
    };
    let mut named: Vec<String> = cycle.iter().take(MOST_NAMED).map(buffer).collect();
    if cycle.len() > MOST_NAMED {
        named.push(format!("{} more", cycle.len() - MOST_NAMED));
    }
    named.join(", ")
}

/// Refuses the key `deadlock` if no buffer has a limit, because switches then never wait for each
/// other.
pub(super) fn refuse_deadlock_without_buffers(
    settings: &ChannelSettings,
    name: &str,
) -> Result<(), Error> {
    if settings.deadlock.is_refused() || holds_back(settings) {
        return Ok(());
    }
    let accepted = "it only where switches hold packets back for buffers of limited size: \
                    input_queued with a `buffer`, shared_memory, a hub without `window`, a ring with \
                    a `bridge`, or shared_buffer with a class that has `pfc` or `credits`";
    refuse(name, "deadlock", "allowed", accepted)
}

/// Whether any switch holds packets back.
fn holds_back(settings: &ChannelSettings) -> bool {
    let is_buffered = |own: &SwitchSettings| match own {
        SwitchSettings::InputQueued(own) => own.buffer.is_some(),
        SwitchSettings::SharedMemory(_) => true,
        SwitchSettings::Hub(_) => hub::is_of_packets(settings, own),
        SwitchSettings::Ring(own) => own.bridge.is_some(),
        SwitchSettings::SharedBuffer(own) => own.classes.values().any(ClassSettings::loses_nothing),
        _ => false,
    };
    settings.switches.values().chain([&settings.switch]).any(is_buffered)
}

/// The number of hosts is a setting of the system, everything else one of the channel.
pub(super) fn named(channel: &str, error: FabricError) -> Error {
    let FabricError { key, value, accepted } = error;
    let key = match key.as_str() {
        "hosts" => "system.hosts".to_owned(),
        _ => format!("channel.{channel}.{key}"),
    };
    Error::Assembly { key, value, accepted }
}

/// Refuses what the switches of a channel do not read.
pub(super) fn refuse_what_switches_do_not_read(
    settings: &ChannelSettings,
    name: &str,
) -> Result<(), Error> {
    // A switch with a shared buffer has its own flow control, and reports that where it is built.
    let is_buffered = |own: &SwitchSettings| match own {
        SwitchSettings::InputQueued(own) => {
            own.buffer.is_some() || !settings.fabric.has_one_switch()
        }
        SwitchSettings::SharedBuffer(_) | SwitchSettings::SharedMemory(_) => true,
        SwitchSettings::Hub(_) => hub::is_of_packets(settings, own),
        SwitchSettings::Ring(own) => own.bridge.is_some(),
        _ => false,
    };
    let mut all = settings.switches.values().chain([&settings.switch]);
    if settings.flow_control.is_some() && !all.any(is_buffered) {
        let accepted = format!(
            "no flow control with {}, whose packets wait for no buffer of limited size: those of \
             input_queued with a `buffer`, shared_memory, a hub without `window` and a ring with a \
             `bridge` do",
            settings.switch.name()
        );
        return refuse(name, "flow_control", "given", &accepted);
    }
    match hosts_without_adapters(settings) {
        Some(instead) => refuse_adapters(settings, &instead, name),
        None => Ok(()),
    }
}

/// Why hosts have no adapters.
pub(super) struct WithoutAdapters {
    /// The kind of their switch.
    kind: &'static str,
    /// What they have instead.
    reason: &'static str,
}

/// Why the hosts of a channel have no adapters, if they have none.
pub(super) fn hosts_without_adapters(settings: &ChannelSettings) -> Option<WithoutAdapters> {
    let is_buffer = |own: &SwitchSettings| matches!(own, SwitchSettings::SharedBuffer(_));
    if has_a_memory(settings) {
        Some(WithoutAdapters {
            kind: "shared_memory",
            reason: "where hosts have connections that lose nothing on the way",
        })
    } else if adapter::switch_that(settings, is_buffer).is_some() {
        Some(WithoutAdapters {
            kind: "shared_buffer",
            reason: "where hosts have a queue for each class, which its pauses hold back",
        })
    } else {
        None
    }
}

/// Refuses what only adapters of hosts read.
fn refuse_adapters(
    settings: &ChannelSettings,
    instead: &WithoutAdapters,
    name: &str,
) -> Result<(), Error> {
    let WithoutAdapters { kind, reason } = instead;
    let place = format!("with {kind}, {reason}");
    let refuse = |key: &str, value: &str, accepted: &str| refuse(name, key, value, accepted);
    if let Some((key, value)) = adapter::switch_that(settings, adapter::decides) {
        let accepted = format!("output_queued {place}");
        return refuse(&key, value, &accepted);
    }
    let adapter = &settings.adapter;
    if settings.control.as_ref().is_some_and(|own| *own != ControlSettings::Unacknowledged) {
        return refuse("control", "given", &format!("no control {place}"));
    }
    if adapter.feed != Feed::Fifo {
        return refuse("adapter.feed", "per_target", &format!("fifo {place}"));
    }
    if adapter.release == Some(Release::Acknowledgment) {
        return refuse("adapter.release", "acknowledgment", &format!("transmission {place}"));
    }
    if adapter.acknowledgments != Insertion::Wait {
        return refuse("adapter.acknowledgments", "interleave", &format!("wait {place}"));
    }
    if adapter.throttle.is_some() {
        return refuse("adapter.throttle", "given", &format!("no throttle {place}"));
    }
    // Endpoints detect damage, and their reliability level determines the consequence.
    let is_found = settings.endpoints.is_some();
    let fault = settings.faults().first().filter(|fault| *fault != "errors" || !is_found);
    let given = fault.or(settings.recovery.map(|_| "recovery"));
    let given = given.or(settings.interface.as_ref().map(|_| "interface"));
    match given {
        Some(key) => refuse(key, "given", &format!("no {key} {place}")),
        None => Ok(()),
    }
}

/// On a hub or a ring there is one route from a host to another, and no buffer for which anything
/// waits.
pub(super) fn refuse_what_a_star_does_not_read(
    settings: &ChannelSettings,
    name: &str,
) -> Result<(), Error> {
    let (key, accepted) = match settings {
        ChannelSettings { routes: Some(_), .. } => {
            ("routes", "no routes in a star, where every host is one switch from every other")
        }
        ChannelSettings { flow_control: Some(_), .. } => {
            ("flow_control", "no flow control in a star whose queues are unlimited")
        }
        _ => return Ok(()),
    };
    refuse(name, key, "given", accepted)
}
