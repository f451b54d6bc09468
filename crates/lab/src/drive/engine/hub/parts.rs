//! What a channel with a hub is made of, and what does not fit together.

use weft_fabric::interface::window::{HostBus, Numbering, Operations, PageTables};
use weft_fabric::interface::{AccessKind, ClusterEvent, ClusterEventKind, WindowSettings};
use weft_fabric::link::LaneSender;
use weft_fabric::link::{ErrorSettings, LinkSettings};
use weft_fabric::switch::{Hub, HubSettings, HubTimes, HubTimesParts, MAX_HUB_PORTS};
use weft_fabric::workload::Feedback;
use weft_kernel::{Arena, DelayLine, Streams};
use weft_protocol::misfit::Misfit;
use weft_protocol::window::{Cluster, MapError, OrderChecker};
use weft_units::{Bytes, Limit, Span, Time};

use super::agenda::Lines;
use super::cluster::Management;
use super::host::Host;
use super::report::{Counters, StageSums};
use super::{Shown, State, Windows};
use crate::error::ABSENT;

/// The parts of a channel with a hub.
#[derive(Debug)]
pub struct HubParts {
    /// The name of the channel; also names its random streams.
    pub name: String,
    /// How many hosts there are.
    pub hosts: u16,
    /// The largest payload of a packet.
    pub payload: Bytes,
    /// What a packet has on the wire besides its payload.
    pub overhead: Bytes,
    /// The cable from each adapter to the hub, or between two adapters.
    pub link: LinkSettings,
    /// The hub.
    pub hub: HubSettings,
    /// The host side.
    pub window: WindowSettings,
    /// How many packets an adapter holds between bus and link.
    pub send_buffers: Limit,
    /// Damage to packets on the way to each host.
    pub errors: ErrorSettings,
    /// How often the course of the run is noted; never if absent.
    pub sample: Option<Span>,
    /// What the source of each host is to hear of; none if all packets are those of messages.
    pub feedback: Vec<Feedback>,
}

impl HubParts {
    /// A hub with nothing on the way.
    ///
    /// # Errors
    /// [`Misfit`] names what does not fit.
    pub fn build(self, streams: &Streams) -> Result<Windows, Misfit> {
        let cluster = self.check()?;
        let random = streams.stream(&format!("{}.scheduler", self.name), 0);
        let times = self.times();
        let hub = Hub::new(&self.hub, times.control, random).map_err(|_| {
            Misfit::new("switch.hub.ports", self.hub.ports, format!("1 to {MAX_HUB_PORTS} ports"))
        })?;
        let hosts = usize::from(self.hosts);
        let state = State {
            hosts: (0..hosts).map(|host| self.host(host, &times, streams)).collect(),
            packets: Arena::new(),
            hub,
            inputs: (0..hosts).map(|_| self.input_room()).collect(),
            adapters: (0..hosts).map(|_| self.adapter_room()).collect(),
            telling: 0,
            lines: Lines::new(hosts),
            decide: Time::NEVER,
            now: Time::ZERO,
            checker: self.window.check_order.then(|| OrderChecker::new(self.hosts)),
            pages: self.window.is_listed().then(|| Box::new(PageTables::new(cluster))),
            management: Management::new(&self, &times, streams),
            numbering: self.window.configuration.as_ref().map(|settings| {
                Numbering::new(settings, (self.name.as_str(), self.hosts), streams)
            }),
            operations: Operations::default(),
            problem: None,
            notices: Vec::new(),
            departures: Vec::new(),
            stages: StageSums::default(),
            counters: Counters::default(),
            waiting: 0,
            flying: 0,
            uncounted: DelayLine::new(),
            count_at: 0,
            counts_later: false,
            times,
            parts: self,
        };
        Ok(Windows { state, shown: Shown::default() })
    }

    fn host(&self, number: usize, times: &HubTimes, streams: &Streams) -> Host {
        let random = streams.stream(&format!("{}.broadcasts", self.name), number);
        let flag = self.window.flag.as_ref().map(|flag| flag.size);
        let bus = HostBus::new(self.send_room(), times.stall, flag);
        let feedback = self.feedback.get(number).copied().unwrap_or(Feedback::None);
        Host::new(feedback, bus, LaneSender::new(times.control), random)
    }

    /// The page control tables, if everything fits.
    pub(super) fn check(&self) -> Result<Cluster, Misfit> {
        let refuse = |key, value: String, accepted: String| Err(Misfit::new(key, value, accepted));
        let HubParts { window, hub, hosts, .. } = self;
        let cluster = window.cluster(*hosts, hub.ports, self.payload).map_err(|error| {
            let accepted = format!("what both sides agree on; {error}");
            match error {
                _ if *hosts > hub.ports => Misfit::new("switch.hub.ports", hub.ports, accepted),
                MapError::NoConsent { .. } => Misfit::new("window.outgoing", "given", accepted),
                _ => Misfit::new("window", "given", accepted),
            }
        })?;
        if let Some(misfit) = self.page_problem() {
            return Err(misfit);
        }
        for access in &window.accesses {
            let is_read = matches!(access.what, AccessKind::Read { .. });
            if is_read && !window.remote_read {
                let accepted = "no read: window.remote_read is false".to_owned();
                return refuse("window.accesses", access.to_string(), accepted);
            }
            let is_store =
                matches!(access.what, AccessKind::Write { .. } | AccessKind::DeviceWrite { .. });
            let is_free = !window.is_listed() && !is_store;
            let checked = if is_free { Ok(()) } else { access.check(&cluster) };
            if let Err(error) = checked {
                let accepted = format!("what the page control tables allow; {error}");
                return refuse("window.accesses", access.to_string(), accepted);
            }
        }
        if hub.is_direct() && *hosts != 2 {
            let accepted = format!("a hub for {hosts} hosts: a direct cable connects two");
            return refuse("switch.hub.transfer", "direct".into(), accepted);
        }
        if window.write > self.payload {
            let accepted = format!("at most the payload of a packet, {}", self.payload);
            return refuse("window.write", window.write.to_string(), accepted);
        }
        if let Some(misfit) = self.cluster_problem() {
            return Err(misfit);
        }
        if window.write == Bytes(0) {
            return refuse("window.write", window.write.to_string(), "4 B or more".into());
        }
        if window.bus.as_ref().is_some_and(|bus| bus.word == Bytes(0)) {
            return refuse("window.bus.word", "0 B".into(), "1 B or more".into());
        }
        if self.send_buffers == Limit::Unlimited && self.feedback.contains(&Feedback::Ready) {
            let accepted = "a number, since a greedy source fills them all at once";
            return refuse("adapter.send_buffers", "unlimited".into(), accepted.into());
        }
        Ok(cluster)
    }

    /// What does not fit of the pages.
    fn page_problem(&self) -> Option<Misfit> {
        let WindowSettings { outgoing, incoming, .. } = &self.window;
        let (is_listed, has_none) =
            (self.window.is_listed(), outgoing.is_empty() && incoming.is_empty());
        if is_listed && has_none {
            let accepted = "all, or pages in window.outgoing and window.incoming";
            return Some(Misfit::new("window.mappings", "listed", accepted));
        }
        if !is_listed && !has_none {
            let accepted = "listed, with pages in window.outgoing and window.incoming";
            return Some(Misfit::new("window.mappings", "all", accepted));
        }
        if self.hub.is_direct() && outgoing.iter().any(|page| page.entry.local_copy) {
            let accepted = "no local_copy on a direct cable, which has no point of ordering";
            return Some(Misfit::new("window.outgoing", "local_copy", accepted));
        }
        if !self.window.remapping && incoming.iter().any(|page| page.entry.remap.is_some()) {
            let accepted = "no remap: window.remapping is false";
            return Some(Misfit::new("window.incoming", "remap", accepted));
        }
        if self.window.interrupt.is_none() && incoming.iter().any(|page| page.entry.interrupt) {
            let accepted =
                "the time from memory to the program by an interrupt, which pages request";
            return Some(Misfit::new("window.interrupt", ABSENT, accepted));
        }
        None
    }

    /// What does not fit of the settings of the cluster.
    fn cluster_problem(&self) -> Option<Misfit> {
        let cluster = self.window.cluster.as_ref()?;
        let beat = cluster.heartbeat;
        if cluster.retry == Span::ZERO {
            let accepted = "more than 0 ns: what is damaged is asked for again and again";
            return Some(Misfit::new("window.cluster.retry", cluster.retry, accepted));
        }
        if self.hub.is_direct() && (beat > Span::ZERO || cluster.clock.is_some()) {
            let accepted = "0 ns and no clock on a direct cable, which has no hub that listens";
            return Some(Misfit::new("window.cluster.heartbeat", beat, accepted));
        }
        if beat > Span::ZERO && cluster.time_out < beat * 2 {
            let accepted = format!("two heartbeats or more, {}", beat * 2);
            return Some(Misfit::new("window.cluster.time_out", cluster.time_out, accepted));
        }
        if beat == Span::ZERO && !cluster.events.is_empty() {
            let accepted = "more than 0 ns, or no node learns of the events";
            return Some(Misfit::new("window.cluster.heartbeat", beat, accepted));
        }
        let node = |event: &ClusterEvent| match event.what {
            ClusterEventKind::Dies(node) | ClusterEventKind::Joins(node) => Some(node),
            ClusterEventKind::Breaks => None,
        };
        let node = cluster.events.iter().filter_map(node).find(|node| *node >= self.hosts)?;
        let accepted = format!("0 to {}", self.hosts - 1);
        Some(Misfit::new("window.cluster.events", format!("node {node}"), accepted))
    }

    /// About how far events are apart that have no cheaper place: those of a cluster come at its
    /// intervals, one of each node.
    pub(super) fn spacing(&self) -> Span {
        let cluster = self.window.cluster.as_ref();
        let interval = cluster.map_or(Span::ZERO, |own| own.heartbeat.max(own.retry));
        Span(interval.0 / u64::from(self.hosts.max(1))).max(self.link.span(self.payload))
    }

    pub(super) fn times(&self) -> HubTimes {
        let HubParts { window, hub, link, overhead, payload, .. } = self;
        let (overhead, payload) = (*overhead, *payload);
        HubTimes::new(HubTimesParts { window, hub, link, overhead, payload })
    }
}
