//! Channels of messages: any channel with hosts in front of it.

use weft_fabric::measure::Observations;
use weft_fabric::workload::{Source, WorkloadSettings};
use weft_kernel::{Halt, Stopped};
use weft_units::{Bytes, Span, Time};

use super::{Driver, Site, refuse};
use crate::composition::ChannelSettings;
use crate::drive::Channel;
use crate::drive::engine::{Course, NetworkReport};
use crate::drive::host_path::HostPath;
use crate::drive::trace::{TraceEntry, of_passages};
use crate::drive::traffic::Traffic;
use crate::error::Error;

/// A channel with hosts in front of it, and the traffic of their programs.
pub type HostedChannel = Traffic<HostPath<Driver>>;

impl ChannelSettings {
    /// Whether a workload submits messages, which pass hosts and are cut into packets.
    pub(crate) fn carries_messages(&self, workload: Option<&WorkloadSettings>) -> bool {
        let sized = workload.is_some_and(|workload| workload.message.is_some());
        self.host.is_some() || sized
    }

    /// The size of one demand of a workload.
    pub(crate) fn message(&self, workload: Option<&WorkloadSettings>) -> Bytes {
        workload.and_then(|workload| workload.message).unwrap_or(self.payload)
    }

    /// How many packets a demand of a workload is cut into.
    pub(super) fn packets(&self, workload: Option<&WorkloadSettings>) -> u64 {
        self.message(workload).0.div_ceil(self.payload.0.max(1)).max(1)
    }

    /// How long the packets of one demand of a workload occupy the link of a host, or all of its
    /// links together if there are several planes. On a hub without messages these are the packets
    /// of one write.
    pub(crate) fn demand_span(&self, workload: Option<&WorkloadSettings>) -> Span {
        match &self.window {
            Some(window) if !self.carries_messages(workload) => {
                self.link.span(window.write + self.overhead())
            }
            _ => self.packet_at_host() * self.packets(workload),
        }
    }
}

/// Hosts with stages, and the channel behind them.
pub(super) fn hosted(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    sources: Vec<Source>,
    site: Site<'_>,
) -> Result<Driver, Error> {
    let bare = ChannelSettings { host: None, ..settings.clone() };
    let channel = Driver::new(&bare, None, site)?;
    in_front_of(settings, channel, settings.message(workload), sources, site)
}

/// Hosts before a channel, with sources of messages of a size or without any.
pub(crate) fn in_front_of(
    settings: &ChannelSettings,
    channel: Driver,
    size: Bytes,
    sources: Vec<Source>,
    site: Site<'_>,
) -> Result<Driver, Error> {
    let host = settings.host.clone().unwrap_or_default();
    let path = HostPath::new(&host, site.hosts as u16, settings.payload, channel);
    let mut path =
        path.or_else(|error| refuse(site.name, &error.key, &error.value, &error.accepted))?;
    path.record_from(site.from);
    Ok(Driver::Hosted(Box::new(Traffic::new(path, sources, size, site.observations()))))
}

impl Channel for HostedChannel {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        Traffic::run(self, until, halt)
    }

    fn backlog(&self) -> u64 {
        Traffic::backlog(self)
    }

    fn in_flight(&self) -> u64 {
        Traffic::in_flight(self)
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        Some(Traffic::observations_mut(self))
    }

    fn into_observations(self) -> Observations {
        self.into_parts().1
    }

    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        let path = self.carrier();
        let delivered = self.observations().delivered.max(1) as f64;
        let mut columns = vec![("interrupts_per_message", path.interrupts() as f64 / delivered)];
        columns.extend(path.stimuli_counted().map(|counted| ("stimuli_counted", counted as f64)));
        columns.extend(path.units_resent().map(|units| ("units_resent", units as f64)));
        if let Some(counters) = path.turns() {
            let mean = counters.waited.as_us() / counters.turns.max(1) as f64;
            columns.push(("turn_of_many_mean_us", mean));
            columns.push(("turn_of_many_max_us", counters.longest.as_us()));
            columns.push(("turn_of_many_locked_out", counters.locked_out as f64));
        }
        if let Some(counters) = path.sockets() {
            let set_up = counters.set_up.as_us() / counters.accepted.max(1) as f64;
            columns.push(("connections_accepted", counters.accepted as f64));
            columns.push(("connections_refused", counters.refused as f64));
            columns.push(("connection_mean_us", set_up));
            columns.push(("connection_locked_out", counters.locked_out as f64));
            columns.push(("messages_fallen_through", counters.fallen as f64));
        }
        columns.extend(path.carrier().counters(until));
        columns
    }

    fn network(&self) -> Option<NetworkReport> {
        self.carrier().carrier().network()
    }

    fn course(&self) -> Vec<Course> {
        self.carrier().carrier().course()
    }

    fn overrun(&self) -> Option<&str> {
        self.carrier().carrier().overrun()
    }

    fn broken_order(&self) -> Option<String> {
        self.carrier().carrier().broken_order()
    }

    fn take_trace(&mut self) -> Vec<TraceEntry> {
        of_passages("message", Traffic::observations_mut(self).take_passages())
    }
}
