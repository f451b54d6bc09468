//! A channel that the engine runs: switches, each with its settings, and cables, each with its link.

use weft_fabric::fabric::Wiring;
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
use weft_units::{Bytes, Limit, Span};

use super::network::{Buffers, SharedCells};
use super::slots::{self, Slotting};
use super::{Driver, Site, adapter, classed, flows, hub, network, ring};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::couple::pipeline;
use crate::drive::engine::{ConnectionParts, Engine, EngineParts, PipelineParts};
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
    Bus(hub::Bus<'a>),
}

/// A place in the file: the channel and the key below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub channel: &'a str,
    pub key: &'a str,
}

impl Place<'_> {
    pub fn refuse<T>(self, key: &str, value: &str, accepted: &str) -> Result<T, Error> {
        Err(Error::Assembly {
            key: format!("channel.{}.{}.{key}", self.channel, self.key),
            value: value.to_owned(),
            accepted: accepted.to_owned(),
        })
    }
}

/// The channel, with the switches of `switch` and those that the file names separately.
pub(super) fn build(
    settings: &ChannelSettings,
    traffic: (Option<&WorkloadSettings>, Vec<Source>),
    site: Site<'_>,
) -> Result<Driver, Error> {
    let schedule = settings.ideal_schedule();
    let schedule = schedule.map(|own| pipeline(settings, own, (&traffic.1[..], None), site));
    Ok(Driver::Engine(Box::new(engine(settings, traffic, schedule.transpose()?, site)?)))
}

/// Like [`build`], without the choice of a schedule: under `schedule`, if that tells hosts what became of
/// their packets.
pub(crate) fn engine(
    settings: &ChannelSettings,
    (workload, sources): (Option<&WorkloadSettings>, Vec<Source>),
    schedule: Option<PipelineParts>,
    site: Site<'_>,
) -> Result<Engine, Error> {
    network::refuse_what_switches_do_not_read(settings, site.name)?;
    let (mut wiring, routes) = network::ways(settings, site)?;
    if let (Some(_), SwitchSettings::Scheduled(own)) = (&schedule, &settings.switch) {
        wiring.lengthen_to_hosts(&own.lengths);
    }
    let takes_none = |link: &LinkSettings| link.span(settings.packet) == Span::ZERO;
    let has_cables = !ring::is_alone(settings, &wiring);
    if has_cables && wiring.links(&settings.link).iter().any(takes_none) {
        let accepted = "a size that takes a picosecond or more on every link";
        super::refuse(site.name, "packet", &settings.packet.to_string(), accepted)?;
    }
    let reserved = settings.link.reserved.get();
    if has_cables && reserved >= 1.0 {
        super::refuse(site.name, "link.reserved", &reserved.to_string(), "a fraction less than 1")?;
    }
    let has_a_memory = network::has_a_memory(settings);
    let connections = if has_a_memory {
        network::connections(settings, workload, &routes, site)?
    } else {
        network::refuse_what_needs_a_shared_memory(settings, workload, site.name)?;
        ConnectionParts::default()
    };
    let loses_nothing = if has_a_memory {
        Some("beside shared_memory: connections lose no packet on the way")
    } else if sources.is_empty() && !adapter::is_told(settings) {
        Some("where packets are those of messages and no control tells of a loss")
    } else {
        None
    };
    let kind = |key: &str, switch| {
        let place = Place { channel: site.name, key };
        kind(settings, switch, &wiring, loses_nothing, place)
    };
    let all_alike = kind("switch", &settings.switch)?;
    let mut kinds = vec![all_alike; wiring.switches() as usize];
    let mut keys = vec!["switch".to_owned(); kinds.len()];
    let mut given = vec![&settings.switch; wiring.switches() as usize];
    for (name, own) in &settings.switches {
        let key = format!("switches.{name}");
        let Some(number) = wiring.switch_named(name) else {
            let accepted = format!("a switch of the fabric, such as {}", wiring.bare_name(0));
            return Err(Error::Assembly {
                key: format!("channel.{}.{key}", site.name),
                value: "given".to_owned(),
                accepted,
            });
        };
        kinds[number as usize] = kind(&key, own)?;
        keys[number as usize] = key;
        given[number as usize] = own;
    }
    let is_weighed = |kind: &Kind| matches!(kind, Kind::Output(_) | Kind::Buffer(_));
    if routes.weigh_other_switches() && !kinds.iter().all(is_weighed) {
        let accepted = "ugal, or output_queued or shared_buffer in all switches, whose queues tell when an \
                        output will be free";
        super::refuse(site.name, "routes.per_packet", "ugal_global", accepted)?;
    }
    let named: Vec<_> = kinds.iter().copied().zip(keys).collect();
    let ring = ring::parts(settings, (&wiring, &sources), &named, site)?;
    let classed = classed::parts(settings, workload, (&wiring, &routes), &named, site)?;
    let ahead = (&wiring, &sources[..], schedule);
    let mut adapters = adapter::build(settings, ahead, &given, site)?;
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
    let holds = |switch: u32| match kinds[switch as usize] {
        Kind::Input(..) | Kind::Memory(_) | Kind::Bus(_) => true,
        Kind::Ring(own) => own.bridge.is_some(),
        Kind::Output(_)
        | Kind::Buffer(_)
        | Kind::Crossbar(_)
        | Kind::Buffered(_)
        | Kind::Slots(_) => false,
    };
    let has_bridges = kinds.iter().any(|kind| matches!(kind, Kind::Ring(_)));
    let buffers = Buffers { flow: &flow, holds, has_bridges };
    network::refuse_a_cycle(settings, (&wiring, &routes), &buffers, site.name)?;
    let has_two_sizes = adapter::has_two_sizes(settings);
    let switches = (0..).zip(&kinds);
    let switches =
        switches.map(|(number, kind)| switch(number, *kind, has_two_sizes, (&wiring, site)));
    let observations = match &classed {
        Some(own) => site.observations().of_classes(own.classes),
        None => site.observations(),
    };
    let own = (&kinds[..], classed.as_ref());
    let flows = flows::parts(settings, workload, (&wiring, &routes), own, site)?;
    Ok(Engine::new(EngineParts {
        switches: switches.collect::<Result<_, _>>()?,
        flow,
        wiring,
        routes,
        link: settings.link.clone(),
        packet: settings.packet,
        payload: settings.payload,
        send_buffers: settings.adapter.send_buffers,
        sources,
        observations,
        until: site.until,
        connections,
        classed,
        flows,
        adapters,
        ring,
        turns: None,
        hub: None,
    }))
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
        SwitchSettings::Hub(own) => hub::bus(settings, own, place).map(Kind::Bus),
        SwitchSettings::OutputBuffered(own) => Ok(Kind::Buffered(own)),
        other => slots::of(settings, switch).map(Kind::Slots).ok_or_else(|| Error::Assembly {
            key: format!("channel.{}.{}", place.channel, place.key),
            value: other.name().to_owned(),
            accepted: "output_queued, output_buffered, input_queued, shared_memory or hub beside \
                       switches that are so, since others serve the hosts themselves"
                .to_owned(),
        }),
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
        let accepted = "voq in a fabric other than star and with `buffer` or `cell`, or switch.shared_memory \
             with queues = fifo";
        place.refuse("input_queued.queues", "fifo", accepted)?;
    }
    let cell = switch.cell.unwrap_or(settings.packet);
    if wiring.links(&settings.link).iter().any(|link| link.span(cell) == Span::ZERO) {
        let accepted = "a size that takes a picosecond or more on every link";
        place.refuse("input_queued.cell", &cell.to_string(), accepted)?;
    }
    let cells = settings.packet.0.div_ceil(cell.0);
    let needed = format!(
        "the cells that an input holds, at least {cells}, those of a packet, in each of its virtual \
         channels, since cables announce how much room is left"
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
    (wiring, site): (&Wiring, Site<'_>),
) -> Result<SwitchParts, Error> {
    let random = || site.streams.stream(&format!("{}.switch", site.name), number as usize);
    let (own, cell, buffer) = match kind {
        Kind::Output(own) if has_two_sizes && own.buffers != Limit::Unlimited => {
            return Ok(SwitchParts::OutputBuffered(counted(own), random()));
        }
        Kind::Crossbar(own) => return Ok(SwitchParts::Crossbar(own.clone(), random())),
        Kind::Buffered(own) => return Ok(SwitchParts::OutputBuffered(own.clone(), random())),
        Kind::Output(own) => return Ok(SwitchParts::OutputQueued(own.clone())),
        Kind::Memory(own) => return Ok(SwitchParts::SharedMemory(own.clone())),
        Kind::Ring(own) => return Ok(SwitchParts::Ring(Box::new(own.clone()))),
        Kind::Bus(own) => return hub::switch(number, own, wiring, site.name),
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
        return Err(Error::Assembly {
            key: format!("channel.{}.fabric", site.name),
            value: format!("{} with {ports} ports", wiring.switch_name(number)),
            accepted: format!("switches with at most {MAX_PORTS} ports under a scheduler"),
        });
    }
    let arbiter = own.scheduler.arbiter(ports);
    let arbiter =
        arbiter.map_err(|error| Error::Scheduler { channel: site.name.to_owned(), error })?;
    Ok(SwitchParts::InputQueued(Box::new(ClockedParts {
        latency: own.latency,
        cell,
        buffer,
        arbiter,
        random: site.streams.stream(&format!("{}.scheduler", site.name), number as usize),
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

/// Only switches with a shared memory forward cells that are shorter than others: at output queues the
/// departure of a packet follows from the number of packets before it, and a clock has slots for whole
/// cells.
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
    let accepted =
        "padded beside output_queued or input_queued switches, which count in whole packets";
    super::refuse(name, "segmentation.aal5.last", "cut", accepted)
}

/// The flow control of buffers of limited size, which fits each of them.
fn flow(settings: &ChannelSettings, kinds: &[Kind<'_>], name: &str) -> Result<FlowControl, Error> {
    let own = settings.flow_control.clone().unwrap_or_default();
    let has_a_memory = kinds.iter().any(|kind| matches!(kind, Kind::Memory(_)));
    if let (FlowControlSettings::SourceQuench(_), false) = (&own, has_a_memory) {
        let accepted = format!(
            "credits, virtual_channel_credits or stop_go where queues belong to outputs: a switch \
             quenches the source of a connection by how many of its cells wait, which only one with \
             queues per connection knows (channel.{name}.switch.shared_memory)"
        );
        super::refuse(name, "flow_control", "source_quench", &accepted)?;
    }
    let buffers = kinds.iter().filter_map(|kind| match kind {
        Kind::Input(_, _, buffer) => Some(*buffer),
        Kind::Memory(own) => Some(own.buffer.get()),
        Kind::Ring(own) => own.bridge.map(|bridge| bridge.buffer.get()),
        Kind::Bus(own) => Some(own.buffer),
        Kind::Output(_)
        | Kind::Buffer(_)
        | Kind::Crossbar(_)
        | Kind::Buffered(_)
        | Kind::Slots(_) => None,
    });
    let smallest = buffers.min().unwrap_or(u32::MAX);
    FlowControl::new(&own, smallest).map_err(|misfit| Error::Assembly {
        key: format!("channel.{name}.flow_control.{}", misfit.key),
        value: misfit.value,
        accepted: misfit.accepted,
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
    Err(Error::Assembly {
        key: "system.hosts".to_owned(),
        value: site.hosts.to_string(),
        accepted:
            "at most 65535, or on channels with output_queued, input_queued or shared_memory \
             switches that carry packets of a workload, without messages and adapters, at most 1048576"
                .to_owned(),
    })
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
