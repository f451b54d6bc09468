//! Builds a channel from its settings. The composition determines the parts.

mod adapter;
mod bodies;
mod carrier;
mod classed;
pub(crate) mod engine;
mod errors;
mod failures;
mod flows;
mod hosts;
mod hub;
mod network;
mod planes;
mod ring;
mod scheduled;
mod slots;
mod turns;

pub(crate) use adapter::refuse_endless;
pub(crate) use bodies::{bodies, check_handlers};
pub(crate) use classed::refuse_classes_of_messages;
pub(crate) use errors::check as check_errors;
pub(crate) use failures::refuse_elsewhere as refuse_failures_elsewhere;
pub use hosts::HostedChannel;
pub(crate) use hosts::in_front_of;
pub(crate) use planes::refuse_elsewhere as refuse_planes_elsewhere;
pub(crate) use ring::refuse_programs_that_never_end;
pub(crate) use scheduled::{refuse_named_switches, refuse_what_is_not_read};
use weft_fabric::measure::Observations;
use weft_fabric::workload::{ChannelFacts, Source, SourceSettings, WorkloadSettings};
use weft_kernel::Streams;
use weft_units::{Bytes, Span, Time};

use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::Channel;
use crate::drive::engine::{Alone, Coupled, Engine, EngineParts, Half};
use crate::error::Error;
use crate::ranks::Ranks;

/// A channel with its driver.
#[derive(Debug)]
pub enum Driver {
    /// Event by event, over a graph of hosts and switches.
    Engine(Box<Engine>),
    /// Event by event, a scheduled channel with the one that carries its signalling, for messages.
    Coupled(Box<Coupled>),
    /// A scheduled channel or the one that carries its signalling, if both carry messages.
    Half(Box<Half>),
    /// Hosts in front of a channel, event by event.
    Hosted(Box<HostedChannel>),
}

/// What a channel is built from in addition to its settings.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The name of the channel.
    pub name: &'a str,
    /// How many hosts there are.
    pub hosts: u32,
    /// The randomness of the run.
    pub streams: &'a Streams,
    /// When recording begins.
    pub from: Time,
    /// When the run ends.
    pub until: Time,
    /// How often loads and occupancies of a fabric are sampled; never if absent.
    pub sample: Option<Span>,
}

/// What a channel is made of, after everything that could be refused has been checked.
#[derive(Debug)]
enum Checked {
    Engine(Box<EngineParts>),
    Built(Driver),
}

impl Checked {
    fn of(parts: EngineParts) -> Checked {
        Checked::Engine(Box::new(parts))
    }

    fn build(self) -> Driver {
        match self {
            Checked::Engine(parts) => Driver::Engine(Box::new(Engine::new(*parts))),
            Checked::Built(driver) => driver,
        }
    }
}

impl ChannelSettings {
    /// The time that a request packet occupies its link, or that the packets of a message do where
    /// links have turns.
    pub fn packet_span(&self) -> Span {
        match &self.turns {
            Some(turns) => self.link.span(turns.message(self.payload)),
            None => self.link.span(self.packet),
        }
    }

    /// The overhead of a packet on the wire, beyond its payload; no payload is longer than its
    /// packet.
    pub(crate) fn overhead(&self) -> Bytes {
        Bytes(self.packet.0.saturating_sub(self.payload.0))
    }

    /// The time from one slot to the next, on a channel that works in slots.
    pub fn slot(&self) -> Option<Span> {
        match &self.switch {
            SwitchSettings::Scheduled(switch) => Some(switch.slot(self.packet_span())),
            SwitchSettings::InputQueued(_) | SwitchSettings::OutputQueued(_) => {
                Some(self.packet_span())
            }
            SwitchSettings::Crossbar(_)
            | SwitchSettings::OutputBuffered(_)
            | SwitchSettings::Hub(_)
            | SwitchSettings::FifoBus(_)
            | SwitchSettings::Ring(_)
            | SwitchSettings::SharedBuffer(_)
            | SwitchSettings::SharedMemory(_) => None,
        }
    }

    /// From an input of the switch to an output.
    pub fn switch_latency(&self) -> Span {
        match &self.switch {
            SwitchSettings::Scheduled(switch) => switch.latency,
            SwitchSettings::InputQueued(switch) => switch.latency,
            SwitchSettings::OutputQueued(switch) => switch.latency,
            SwitchSettings::Crossbar(switch) => switch.latency,
            SwitchSettings::OutputBuffered(switch) => switch.latency,
            SwitchSettings::SharedMemory(switch) => switch.latency,
            SwitchSettings::SharedBuffer(switch) => switch.latency,
            SwitchSettings::Ring(ring) => ring.bypass,
            SwitchSettings::Hub(switch) => switch.latency,
            SwitchSettings::FifoBus(switch) => switch.analysis,
        }
    }

    /// What a workload must know of the channel.
    pub(crate) fn facts<'a>(&self, site: Site<'a>) -> ChannelFacts<'a> {
        ChannelFacts {
            name: site.name,
            hosts: site.hosts,
            packet: self.packet,
            packet_span: self.packet_at_host(),
            slot_span: self.slot().filter(|_| !self.has_planes()),
        }
    }
}

impl Driver {
    /// The channel at time zero, with the traffic of `workload`.
    pub fn new(
        settings: &ChannelSettings,
        workload: Option<&WorkloadSettings>,
        site: Site<'_>,
    ) -> Result<Driver, Error> {
        let checked = Driver::checked(settings, workload, site, || {
            let sources = workload.map(|workload| sources(settings, workload, site));
            Ok(sources.transpose()?.unwrap_or_default())
        });
        Ok(checked?.build())
    }

    /// Refuses what [`new`](Self::new) refuses, in less time and memory.
    pub(crate) fn check(
        settings: &ChannelSettings,
        workload: Option<&WorkloadSettings>,
        site: Site<'_>,
    ) -> Result<(), Error> {
        // Sources of an open loop need no feedback, nor do silent ones, and nothing else of a source is refused.
        let is_needed =
            |_| workload.is_none_or(|own| !matches!(own.source, SourceSettings::OpenLoop));
        let checked = Driver::checked(settings, workload, site, || {
            let sources = workload.map(|own| sources_of(&is_needed, settings, own, site));
            Ok(sources.transpose()?.unwrap_or_default())
        });
        checked.map(drop)
    }

    /// The part of this rank, if the channel may be divided among ranks and that is worthwhile, or why not.
    /// Builds the sources of the hosts of that part only.
    pub(crate) fn of_rank(
        settings: &ChannelSettings,
        workload: &WorkloadSettings,
        site: Site<'_>,
        ranks: &Ranks,
    ) -> Result<Result<Driver, Alone>, Error> {
        let nobody = || sources_of(&|_| false, settings, workload, site);
        let mut driver = Driver::checked(settings, Some(workload), site, nobody)?.build();
        let Driver::Engine(engine) = &mut driver else { return Ok(Err(Alone::Kind)) };
        let exchange = &ranks.exchange;
        let kept = engine
            .ranks_of_switches(exchange.ranks(), ranks.even_if_slower)
            .and_then(|part| engine.keep_rank(&part, exchange));
        let hosts = match kept {
            Ok(hosts) => hosts,
            Err(why) => return Ok(Err(why)),
        };
        let own = sources_of(&|host| hosts[host as usize], settings, workload, site)?;
        engine.give_sources(own, settings.adapter.send_buffers);
        Ok(Ok(driver))
    }

    fn checked(
        settings: &ChannelSettings,
        workload: Option<&WorkloadSettings>,
        site: Site<'_>,
        sources: impl FnOnce() -> Result<Vec<Source>, Error>,
    ) -> Result<Checked, Error> {
        engine::refuse_more_hosts_than_others_count(settings, workload, site)?;
        failures::refuse_elsewhere(settings, site.name)?;
        planes::refuse_elsewhere(settings, site.hosts, site.name)?;
        flows::refuse_halves(settings, workload, site.name)?;
        let sources = sources()?;
        if settings.carries_messages(workload) {
            return hosts::hosted(settings, workload, sources, site).map(Checked::Built);
        }
        if ring::has_any(settings, site.hosts) {
            ring::refuse_what_a_ring_does_not_read(settings, workload, site.name)?;
        }
        engine::refuse_what_differs(settings, site.name)?;
        network::refuse_deadlock_without_buffers(settings, site.name)?;
        hub::refuse_a_window_without(settings, site.name)?;
        if let Some(turns) = &settings.turns {
            network::refuse_what_needs_a_shared_memory(settings, workload, site.name)?;
            return turns::channel(settings, turns, sources, site).map(Checked::of);
        }
        turns::refuse_without_turns(settings, site.name)?;
        if engine::runs(settings) {
            return engine::alone(settings, workload, sources, site).map(Checked::of);
        }
        network::refuse_what_needs_a_shared_memory(settings, workload, site.name)?;
        network::refuse_a_fabric_of_others(settings, site.name)?;
        network::refuse_what_a_star_does_not_read(settings, site.name)?;
        let parts = match &settings.switch {
            SwitchSettings::Scheduled(_)
            | SwitchSettings::Ring(_)
            | SwitchSettings::InputQueued(_)
            | SwitchSettings::Crossbar(_)
            | SwitchSettings::OutputBuffered(_)
            | SwitchSettings::OutputQueued(_)
            | SwitchSettings::SharedBuffer(_)
            | SwitchSettings::SharedMemory(_) => engine::alone(settings, workload, sources, site),
            SwitchSettings::Hub(switch) => hub::channel(settings, switch, sources, site),
            SwitchSettings::FifoBus(_) => turns::refuse_bus(site.name),
        };
        parts.map(Checked::of)
    }

    /// The observations of the channel. If hosts with stages stand in front of it, also the
    /// channel's own observations of their packets and how many of them it holds. Ends the channel.
    pub fn into_accounts(self) -> (Observations, Option<(Observations, u64)>) {
        let Driver::Hosted(channel) = self else { return (self.into_observations(), None) };
        let (path, mut observations) = channel.into_parts();
        let ways = path.ways();
        let channel = path.into_carrier();
        let held = channel.backlog() + channel.in_flight();
        let behind = channel.into_observations();
        ways.spend(&mut observations.budget, &behind.budget);
        observations.take_links(&behind);
        (observations, Some((behind, held)))
    }
}

impl Site<'_> {
    pub(crate) fn observations(&self) -> Observations {
        Observations::over(self.from, self.until).of_hosts(self.hosts as usize)
    }
}

pub(crate) fn sources(
    settings: &ChannelSettings,
    workload: &WorkloadSettings,
    site: Site<'_>,
) -> Result<Vec<Source>, Error> {
    sources_of(&|_| true, settings, workload, site)
}

/// Like [`sources`], for some hosts only; all others are silent.
fn sources_of(
    is_needed: &dyn Fn(u32) -> bool,
    settings: &ChannelSettings,
    workload: &WorkloadSettings,
    site: Site<'_>,
) -> Result<Vec<Source>, Error> {
    classed::refuse_what_one_class_does_not_read(settings, workload, site.name)?;
    bodies::refuse_without_interface(settings, workload, site.name)?;
    let packets = settings.packets(Some(workload));
    let channel = ChannelFacts {
        name: site.name,
        hosts: site.hosts,
        packet: settings.packet * packets,
        packet_span: settings.demand_span(Some(workload)),
        slot_span: settings.slot().filter(|_| packets == 1 && !settings.has_planes()),
    };
    Ok(workload.build_those(&channel, site.streams, is_needed)?)
}

/// Refuses the value of a key of a channel.
pub(crate) fn refuse<T>(channel: &str, key: &str, value: &str, accepted: &str) -> Result<T, Error> {
    refuse_key(format!("channel.{channel}.{key}"), value, accepted)
}

/// Refuses the value of a key of the workload of a channel.
pub(crate) fn refuse_in_workload<T>(
    channel: &str,
    key: &str,
    value: &str,
    accepted: &str,
) -> Result<T, Error> {
    refuse_key(format!("workload.{channel}.{key}"), value, accepted)
}

/// Refuses a number of hosts.
fn refuse_hosts<T>(hosts: u32, accepted: &str) -> Result<T, Error> {
    refuse_key("system.hosts".to_owned(), &hosts.to_string(), accepted)
}

fn refuse_key<T>(key: String, value: &str, accepted: &str) -> Result<T, Error> {
    Err(Error::Assembly { key, value: value.to_owned(), accepted: accepted.to_owned() })
}
