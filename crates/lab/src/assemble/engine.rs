//! A channel that the engine runs: switches, each with its settings, and cables, each with its
//! link.

use weft_fabric::fabric::{Routes, Wiring};
use weft_fabric::graph::{ClockedParts, SwitchParts};
use weft_fabric::link::{FlowControl, LinkSettings};
use weft_fabric::message::{LastCell, SegmentationSettings};
use weft_fabric::scheduler::MAX_PORTS;
use weft_fabric::switch::{
    CrossbarSettings, InputQueuedSettings, InputQueues, OutputBufferedSettings,
    OutputQueuedSettings, Overflow, RingSettings, SharedBufferSettings, SharedMemorySettings,
    Simultaneous,
};
use weft_fabric::workload::{Source, WorkloadSettings};
use weft_protocol::flow::FlowControlSettings;
use weft_protocol::misfit::Misfit;
use weft_units::{Bytes, Limit, Span};

use super::network::{Buffers, RoutedFabric, SharedCells};
use super::slots::{self, Slotting};
use super::{Site, adapter, classed, flows, hub, network, ring};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::couple::pipeline;
use crate::drive::engine::{ConnectionParts, EngineParts, PipelineParts};
use crate::error::{ABSENT, Error};

/// A switch that the file describes, in a form that runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind<'a> {
    Output(&'a OutputQueuedSettings),
    /// With the size of a cell and how many an input holds.
    Input(&'a InputQueuedSettings, Bytes, u32),
    Memory(&'a SharedMemorySettings),
    Buffer(&'a SharedBufferSettings),
    Crossbar(&'a CrossbarSettings),
    Buffered(&'a OutputBufferedSettings),
    Slots(Slotting<'a>),
    Ring(&'a RingSettings),
    Hub(hub::Hub<'a>),
}

/// A place in the file: the channel and the key below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub channel: &'a str,
    pub key: &'a str,
}

impl Place<'_> {
    pub fn refuse<T>(self, key: &str, value: &str, accepted: &str) -> Result<T, Error> {
        super::refuse(self.channel, &format!("{}.{key}", self.key), value, accepted)
    }
}

/// The parts of a channel on its own, with the switches of `switch` and those that the file names separately.
pub(super) fn alone(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    sources: Vec<Source>,
    site: Site<'_>,
) -> Result<EngineParts, Error> {
    let schedule = settings.ideal_schedule();
    let schedule = schedule.map(|own| pipeline(settings, own, &sources, None, site)).transpose()?;
    parts(settings, workload, sources, schedule, site)
}

/// Like [`alone`], without the choice of a schedule: under `schedule`, if that tells hosts what
/// became of their packets.
pub(crate) fn parts(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    sources: Vec<Source>,
    schedule: Option<PipelineParts>,
    site: Site<'_>,
) -> Result<EngineParts, Error> {
    network::refuse_what_switches_do_not_read(settings, site.name)?;
    let mut fabric = network::fabric(settings, site)?;
    if let (Some(_), SwitchSettings::Scheduled(own)) = (&schedule, &settings.switch) {
        fabric.wiring.lengthen_to_hosts(&own.lengths);
    }
    let RoutedFabric { wiring, routes } = &fabric;
    refuse_cables_without_time(settings, wiring, site.name)?;
    let has_a_memory = network::has_a_memory(settings);
    let connections = if has_a_memory {
        network::connections(settings, workload, routes, site)?
    } else {
        network::refuse_what_needs_a_shared_memory(settings, workload, site.name)?;
        ConnectionParts::default()
    };
    let Switches { kinds, keys, given } =
        switches_of(settings, wiring, sources.is_empty(), site.name)?;
    refuse_other_queues_to_weigh(routes, &kinds, site.name)?;
    let named: Vec<_> = kinds.iter().copied().zip(keys).collect();
    let ring = ring::parts(settings, wiring, &sources, &named, site)?;
    let classed = classed::parts(settings, workload, &fabric, &named, site)?;
    let mut adapters = adapter::build(settings, wiring, &sources, schedule, &given, site)?;
    if let Some(own) = &mut adapters {
        own.bodies = super::bodies(settings, workload, site)?;
    }
    if has_a_memory {
        refuse_cells_cut_short(settings, &kinds, site.name)?;
    }
    let flow = match &classed {
        Some(_) => classed::no_flow_control(),
        None => flow(settings, &kinds, site.name)?,
    };
    refuse_a_cycle(settings, &fabric, &kinds, &flow, site.name)?;
    let flows = flows::parts(settings, workload, &fabric, &kinds, classed.as_ref(), site)?;
    let switches = switches(&named, adapter::has_two_sizes(settings), wiring, site)?;
    let mut parts = network::bare(settings, fabric, sources, site);
    if let Some(own) = &classed {
        parts.observations = parts.observations.of_classes(own.classes);
    }
    Ok(EngineParts { switches, flow, connections, classed, flows, adapters, ring, ..parts })
}

/// On every cable a packet takes time.
fn refuse_cables_without_time(
    settings: &ChannelSettings,
    wiring: &Wiring,
    name: &str,
) -> Result<(), Error> {
    if ring::is_alone(settings, wiring) {
        return Ok(());
    }
    let takes_none = |link: &LinkSettings| link.span(settings.packet) == Span::ZERO;
    if wiring.links(&settings.link).iter().any(takes_none) {
        let accepted = "a size that takes a picosecond or more on every link";
        super::refuse(name, "packet", &settings.packet.to_string(), accepted)?;
    }
    let reserved = settings.link.reserved.get();
    if reserved >= 1.0 {
        super::refuse(name, "link.reserved", &reserved.to_string(), "a fraction less than 1")?;
    }
    Ok(())
}

/// The switches of a fabric, each by its number.
struct Switches<'a> {
    kinds: Vec<Kind<'a>>,
    /// Where the file has the settings of each, below the channel.
    keys: Vec<String>,
    given: Vec<&'a SwitchSettings>,
}

/// What each switch of a fabric is: that of the channel, or what its name says.
fn switches_of<'a>(
    settings: &'a ChannelSettings,
    wiring: &Wiring,
    carries_messages: bool,
    name: &str,
) -> Result<Switches<'a>, Error> {
    let loses_nothing = if network::has_a_memory(settings) {
        Some("beside shared_memory: connections lose no packet on the way")
    } else if carries_messages && !adapter::is_told(settings) {
        Some("where packets are those of messages and no control tells of a loss")
    } else {
        None
    };
    let kind = |key: &str, switch| {
        kind(settings, switch, wiring, loses_nothing, Place { channel: name, key })
    };
    let all_alike = kind("switch", &settings.switch)?;
    let count = wiring.switches() as usize;
    let mut all = Switches {
        kinds: vec![all_alike; count],
        keys: vec!["switch".to_owned(); count],
        given: vec![&settings.switch; count],
    };
    for (own_name, own) in &settings.switches {
        let key = format!("switches.{own_name}");
        let number = network::switch_named(wiring, own_name, name)?;
        all.kinds[number as usize] = kind(&key, own)?;
        all.keys[number as usize] = key;
        all.given[number as usize] = own;
    }
    Ok(all)
}

/// Routes weigh only queues that tell when an output will be free.
fn refuse_other_queues_to_weigh(
    routes: &Routes,
    kinds: &[Kind<'_>],
    name: &str,
) -> Result<(), Error> {
    let is_weighed = |kind: &Kind<'_>| matches!(kind, Kind::Output(_) | Kind::Buffer(_));
    if !routes.weigh_other_switches() || kinds.iter().all(is_weighed) {
        return Ok(());
    }
    let accepted = "ugal, or output_queued or shared_buffer in all switches, whose queues tell \
                    when an output will be free";
    super::refuse(name, "routes.per_packet", "ugal_global", accepted)
}

/// No buffers of switches of these kinds can wait for each other in a cycle.
fn refuse_a_cycle(
    settings: &ChannelSettings,
    fabric: &RoutedFabric,
    kinds: &[Kind<'_>],
    flow: &FlowControl,
    name: &str,
) -> Result<(), Error> {
    let is_bridged = |kind: &Kind<'_>| matches!(kind, Kind::Ring(own) if own.bridge.is_some());
    let holds = |switch: u32| match &kinds[switch as usize] {
        Kind::Input(..) | Kind::Memory(_) | Kind::Hub(_) => true,
        ring @ Kind::Ring(_) => is_bridged(ring),
        Kind::Output(_)
        | Kind::Buffer(_)
        | Kind::Crossbar(_)
        | Kind::Buffered(_)
        | Kind::Slots(_) => false,
    };
    let buffers = Buffers { flow, holds, has_bridges: kinds.iter().any(is_bridged) };
    network::refuse_a_cycle(settings, fabric, &buffers, name)
}

/// The parts of all switches, each with the place of its settings below the channel.
fn switches(
    named: &[(Kind<'_>, String)],
    has_two_sizes: bool,
    wiring: &Wiring,
    site: Site<'_>,
) -> Result<Vec<SwitchParts>, Error> {
    let own = |(number, (kind, key)): (u32, &(Kind<'_>, String))| {
        if let Kind::Hub(own) = kind {
            let place = Place { channel: site.name, key };
            hub::refuse_too_few_ports(number, *own, wiring, place)?;
        }
        switch(number, *kind, has_two_sizes, wiring, site)
    };
    (0..).zip(named).map(own).collect()
}

/// The kind of a switch, if the engine runs it.
fn kind<'a>(
    settings: &ChannelSettings,
    switch: &'a SwitchSettings,
    wiring: &Wiring,
    loses_nothing: Option<&str>,
    place: Place<'_>,
) -> Result<Kind<'a>, Error> {
    match switch {
        SwitchSettings::OutputQueued(own) => {
            if let Some(reason) = loses_nothing.filter(|_| own.buffers != Limit::Unlimited) {
                let accepted =
                    format!("unlimited {reason}: nothing retransmits what a switch drops");
                place.refuse("output_queued.buffers", &own.buffers.to_string(), &accepted)?;
            }
            Ok(Kind::Output(own))
        }
        SwitchSettings::InputQueued(own) => match slots::of(settings, switch) {
            Some(slots) => Ok(Kind::Slots(slots)),
            None => input_queued(settings, own, wiring, place),
        },
        SwitchSettings::SharedMemory(own) => {
            if let Some(FlowControlSettings::VirtualChannelCredits(control)) =
                &settings.flow_control
            {
                let key = format!("{}.shared_memory.buffer", place.key);
                let buffer = own.buffer.get();
                let shared = SharedCells { key: &key, cells: buffer, cells_per_packet: 1 };
                network::channels_fit(control.channels, &shared, place.channel)?;
            }
            Ok(Kind::Memory(own))
        }
        SwitchSettings::SharedBuffer(own) => Ok(Kind::Buffer(own)),
        SwitchSettings::Crossbar(own) => Ok(Kind::Crossbar(own)),
        SwitchSettings::Ring(own) => Ok(Kind::Ring(own)),
        SwitchSettings::Hub(own) => hub::of_packets(settings, own, place).map(Kind::Hub),
        SwitchSettings::OutputBuffered(own) => Ok(Kind::Buffered(own)),
        other => match slots::of(settings, switch) {
            Some(slots) => Ok(Kind::Slots(slots)),
            None => super::refuse(
                place.channel,
                place.key,
                other.name(),
                "output_queued, output_buffered, input_queued, shared_memory or hub beside \
                 switches that are so, since others serve the hosts themselves",
            ),
        },
    }
}

/// The capacity of an unlimited input in cells: more than a run ever has in flight.
const UNLIMITED: u32 = u32::MAX;

/// A switch with queues at its inputs.
fn input_queued<'a>(
    settings: &ChannelSettings,
    switch: &'a InputQueuedSettings,
    wiring: &Wiring,
    place: Place<'_>,
) -> Result<Kind<'a>, Error> {
    if switch.queues == InputQueues::Fifo {
        let accepted = "voq in a fabric other than star and with `buffer` or `cell`, or \
             switch.shared_memory with queues = fifo";
        place.refuse("input_queued.queues", "fifo", accepted)?;
    }
    let cell = switch.cell.unwrap_or(settings.packet);
    if wiring.links(&settings.link).iter().any(|link| link.span(cell) == Span::ZERO) {
        let accepted = "a size that takes a picosecond or more on every link";
        place.refuse("input_queued.cell", &cell.to_string(), accepted)?;
    }
    let cells = settings.packet.0.div_ceil(cell.0);
    let needed = format!(
        "the cells that an input holds, at least {cells}, those of a packet, in each of its \
         virtual channels, since cables announce how much room is left"
    );
    let buffer = match switch.buffer {
        Some(buffer) => buffer.get(),
        None if settings.fabric.has_one_switch() => UNLIMITED,
        None => return place.refuse("input_queued.buffer", ABSENT, &needed),
    };
    if u64::from(buffer) < cells {
        place.refuse("input_queued.buffer", &buffer.to_string(), &needed)?;
    }
    if let Some(FlowControlSettings::VirtualChannelCredits(own)) = &settings.flow_control {
        let key = format!("{}.input_queued.buffer", place.key);
        let shared = SharedCells { key: &key, cells: buffer, cells_per_packet: cells };
        network::channels_fit(own.channels, &shared, place.channel)?;
    }
    Ok(Kind::Input(switch, cell, buffer))
}

/// The parts of a switch.
fn switch(
    number: u32,
    kind: Kind<'_>,
    has_two_sizes: bool,
    wiring: &Wiring,
    site: Site<'_>,
) -> Result<SwitchParts, Error> {
    let drawn = |what| site.streams.stream(&format!("{}.{what}", site.name), number as usize);
    let random = || drawn("switch");
    let (own, cell, buffer) = match kind {
        Kind::Output(own) if has_two_sizes && own.buffers != Limit::Unlimited => {
            return Ok(SwitchParts::OutputBuffered(counted(own), random()));
        }
        Kind::Crossbar(own) => return Ok(SwitchParts::Crossbar(own.clone(), random())),
        Kind::Buffered(own) => return Ok(SwitchParts::OutputBuffered(own.clone(), random())),
        Kind::Output(own) => return Ok(SwitchParts::OutputQueued(own.clone())),
        Kind::Memory(own) => return Ok(SwitchParts::SharedMemory(own.clone())),
        Kind::Ring(own) => return Ok(SwitchParts::Ring(Box::new(own.clone()))),
        Kind::Hub(own) => return hub::switch(own, || drawn("scheduler"), site.name),
        Kind::Buffer(own) => {
            // Its queues are those of the ports with classes; the graph knows only its cables.
            let (latency, buffers) = (own.latency, Limit::Unlimited);
            return Ok(SwitchParts::OutputQueued(OutputQueuedSettings { latency, buffers }));
        }
        Kind::Slots(own) => {
            // Packets that hosts send in slots pass without waiting.
            let (latency, buffers) = (own.latency, Limit::Unlimited);
            return Ok(SwitchParts::OutputQueued(OutputQueuedSettings { latency, buffers }));
        }
        Kind::Input(own, cell, buffer) => (own, cell, buffer),
    };
    let ports = wiring.ports_of(number) as usize;
    if ports > MAX_PORTS {
        let value = format!("{} with {ports} ports", wiring.switch_name(number));
        let accepted = format!("switches with at most {MAX_PORTS} ports under a scheduler");
        return super::refuse(site.name, "fabric", &value, &accepted);
    }
    let arbiter = own.scheduler.arbiter(ports);
    let arbiter =
        arbiter.map_err(|error| Error::Scheduler { channel: site.name.to_owned(), error })?;
    Ok(SwitchParts::InputQueued(Box::new(ClockedParts {
        latency: own.latency,
        cell,
        buffer,
        arbiter,
        random: drawn("scheduler"),
    })))
}

/// Limited queues at outputs, as buffers that are counted one by one: if packets differ in length,
/// the occupancy does not follow from when the last one will have left.
fn counted(own: &OutputQueuedSettings) -> OutputBufferedSettings {
    OutputBufferedSettings {
        latency: own.latency,
        buffers: own.buffers,
        writers: Limit::Unlimited,
        overflow: Overflow::Drop,
        simultaneous: Simultaneous::Lowest,
    }
}

/// Only switches with a shared memory forward cells that are shorter than others: at output queues
/// the departure of a packet follows from the number of packets before it, and a clock has slots
/// for whole cells.
fn refuse_cells_cut_short(
    settings: &ChannelSettings,
    kinds: &[Kind<'_>],
    name: &str,
) -> Result<(), Error> {
    let Some(SegmentationSettings::Aal5(own)) = &settings.segmentation else { return Ok(()) };
    let is_alone = kinds.iter().all(|kind| matches!(kind, Kind::Memory(_)));
    if own.last == LastCell::Padded || is_alone {
        return Ok(());
    }
    let accepted = "padded beside output_queued and input_queued switches and hubs, which count in \
                    whole packets";
    super::refuse(name, "segmentation.aal5.last", "cut", accepted)
}

/// The flow control of buffers of limited size, which fits each of them.
fn flow(settings: &ChannelSettings, kinds: &[Kind<'_>], name: &str) -> Result<FlowControl, Error> {
    let own = settings.flow_control.clone().unwrap_or_default();
    let has_a_memory = kinds.iter().any(|kind| matches!(kind, Kind::Memory(_)));
    if let (FlowControlSettings::SourceQuench(_), false) = (&own, has_a_memory) {
        let accepted = format!(
            "credits, virtual_channel_credits or stop_go where queues belong to outputs: a switch \
             quenches the source of a connection by how many of its cells wait, which only one \
             with queues per connection knows (channel.{name}.switch.shared_memory)"
        );
        super::refuse(name, "flow_control", "source_quench", &accepted)?;
    }
    let buffers = kinds.iter().filter_map(|kind| match kind {
        Kind::Input(_, _, buffer) => Some(*buffer),
        Kind::Memory(own) => Some(own.buffer.get()),
        Kind::Ring(own) => own.bridge.map(|bridge| bridge.buffer.get()),
        Kind::Hub(own) => Some(own.buffer),
        Kind::Output(_)
        | Kind::Buffer(_)
        | Kind::Crossbar(_)
        | Kind::Buffered(_)
        | Kind::Slots(_) => None,
    });
    let smallest = buffers.min().unwrap_or(u32::MAX);
    FlowControl::new(&own, smallest).or_else(|Misfit { key, value, accepted }| {
        super::refuse(name, &format!("flow_control.{key}"), &value, &accepted)
    })
}

/// Only switches that the engine runs, and those between links with turns, may differ, and so may
/// their cables.
pub(crate) fn refuse_what_differs(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let given = match settings {
        _ if runs(settings) || settings.turns.is_some() => None,
        ChannelSettings { fabric, .. } if fabric.has_own_cables() => {
            Some(("fabric", "cables with links of their own"))
        }
        ChannelSettings { switches, .. } if !switches.is_empty() => Some(("switches", "given")),
        _ => None,
    };
    let accepted = "cables and switches that are all alike, since only output_queued, \
                    output_buffered, input_queued and shared_memory switches, hubs without \
                    windows, rings, and those between links with turns, may differ";
    given.map_or(Ok(()), |(key, value)| super::refuse(name, key, value, accepted))
}

/// Everything but the engine without messages counts hosts with sixteen bits.
pub(super) fn refuse_more_hosts_than_others_count(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    site: Site<'_>,
) -> Result<(), Error> {
    let has_packets = workload.is_some() && !settings.carries_messages(workload);
    if site.hosts <= u32::from(u16::MAX)
        || (runs(settings) && has_packets && !adapter::is_needed(settings))
    {
        return Ok(());
    }
    let accepted = "at most 65535, or on channels with output_queued, input_queued or \
                    shared_memory switches or hubs without windows, which carry packets of a \
                    workload, without messages and adapters, at most 1048576";
    super::refuse_hosts(site.hosts, accepted)
}

/// Whether the engine runs a channel.
pub(super) fn runs(settings: &ChannelSettings) -> bool {
    let is_known = match &settings.switch {
        SwitchSettings::OutputQueued(_)
        | SwitchSettings::InputQueued(_)
        | SwitchSettings::SharedMemory(_)
        | SwitchSettings::SharedBuffer(_)
        | SwitchSettings::Crossbar(_)
        | SwitchSettings::Ring(_)
        | SwitchSettings::OutputBuffered(_) => true,
        SwitchSettings::Scheduled(_) => settings.fabric.has_one_switch(),
        SwitchSettings::Hub(_) => settings.window.is_none(),
        SwitchSettings::FifoBus(_) => false,
    };
    is_known && settings.turns.is_none()
}
