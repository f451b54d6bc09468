//! Signalling that travels as packets: what the nodes and the arbiter of the bulk channel say to
//! each other over the quick channel (Clint 3.3, Figure 5).

use weft_fabric::control::{BulkNode, NodeConfiguration};
use weft_fabric::link::SharedLinks;
use weft_kernel::Id;
use weft_protocol::packet::{Configuration, Grant, Port, PortSet, Sequence, TransmissionReport};
use weft_units::{Span, Time};

use super::bulk::{BulkChannel, Transfer};
use super::{CarriedSettings, CarriedTiming, Event};
use crate::drive::Channel;
use crate::drive::carrier::{Carrier, Message, Notice};
use crate::drive::engine::{Calendar, Engine, Route, ScheduledArrival, ScheduledPacket};
use crate::drive::trace::TraceEntry;

/// What a packet of the signalling says.
#[derive(Clone, Copy, Debug)]
enum Said {
    /// `cfg` of a host, for a cycle.
    Configuration { host: u16, cycle: u64, packet: Configuration },
    /// `gnt` for a host, of a cycle.
    Grant { host: u16, cycle: u64, packet: Grant },
    /// `back` of a transfer.
    Acknowledgment { transfer: Id<Transfer>, report: TransmissionReport },
}

/// The channel that carries the signalling, the nodes, and what is on its way between them.
#[derive(Debug)]
pub struct Signalling {
    channel: Engine,
    settings: CarriedSettings,
    timing: CarriedTiming,
    nodes: Vec<BulkNode>,
    /// What is on its way, by token.
    said: Vec<Option<Said>>,
    free: Vec<u32>,
    /// The cycle whose arbitration is next or under way, and whether it is still open.
    cycle: u64,
    open: bool,
    trace: Option<Vec<TraceEntry>>,
}

impl Signalling {
    /// Signalling over `channel`, which keeps its links clear for it. `slot` is the one of the bulk
    /// channel.
    pub fn new(
        mut channel: Engine,
        settings: CarriedSettings,
        timing: CarriedTiming,
        slot: Span,
    ) -> Signalling {
        if let Some(shared) = timing.shared {
            channel.share_links(SharedLinks::new(shared, channel.hosts() as usize));
        }
        channel.let_targets_disable();
        channel.keep_clear(Calendar {
            slot,
            configuration: timing.configuration,
            grant_from: timing.granted(),
            grant: timing.grant,
        });
        let nodes = vec![BulkNode::new(); channel.hosts() as usize];
        Signalling {
            channel,
            settings,
            timing,
            nodes,
            said: Vec::new(),
            free: Vec::new(),
            cycle: 0,
            open: false,
            trace: None,
        }
    }

    /// The channel that carries it.
    pub fn channel(&self) -> &Engine {
        &self.channel
    }

    pub(super) fn channel_mut(&mut self) -> &mut Engine {
        &mut self.channel
    }

    pub(super) fn into_channel(self) -> Engine {
        self.channel
    }

    /// When the last byte of the transfer to `host` is there by what is known now, on links that
    /// both channels share.
    pub(super) fn arrival(&self, host: u16) -> Option<Time> {
        let way = self.timing.latency + self.timing.propagation;
        self.channel.shared_links().map(|links| links.passed(host) + way)
    }

    /// When the last byte of the transfer of `host` has left by what is known now, on links that both
    /// channels share.
    pub(super) fn departure(&self, host: u16) -> Option<Time> {
        self.channel.shared_links().map(|links| links.left(host))
    }

    pub(super) fn turn_around(&self) -> Span {
        self.timing.turn_around
    }

    pub(super) fn record_trace(&mut self) {
        self.channel.record_trace();
        self.trace = Some(Vec::new());
    }

    pub(super) fn take_trace(&mut self) -> Vec<TraceEntry> {
        let mut trace = self.channel.take_trace();
        trace.extend(self.trace.as_mut().map(std::mem::take).unwrap_or_default());
        trace.sort_by_key(|entry| entry.time);
        trace
    }

    /// When something happens next on the channel.
    pub(super) fn next_time(&mut self) -> Time {
        self.channel.next_with_adapters()
    }

    // Messages of a program on the channel, beside the signalling. The channel is never advanced as a
    // carrier, since what arrives on it is to be heard instant by instant.

    /// A program hands a message over.
    pub(super) fn offer(&mut self, now: Time, message: Message) {
        self.channel.offer(now, message);
    }

    /// Whether messages of a program are under way.
    pub(super) fn carries_messages(&self) -> bool {
        self.channel.adapters_carry_messages()
    }

    pub(super) fn next_notice(&self) -> Option<Time> {
        self.channel.next_notice_of_adapters()
    }

    pub(super) fn take_notices(&mut self, notices: &mut Vec<Notice>) {
        self.channel.take_notices_of_adapters(notices);
    }

    /// Lets one event happen on the channel if one is due by `until`, and what arrives by it be heard.
    /// Returns whether one did.
    #[inline]
    pub(super) fn step(
        &mut self,
        until: Time,
        bulk: &mut BulkChannel,
        schedule: &mut impl FnMut(Time, Event),
    ) -> bool {
        let Some(now) = self.channel.step(until) else { return false };
        if self.channel.has_scheduled_arrivals() {
            for arrival in self.channel.scheduled_arrivals() {
                self.arrive(now, arrival, bulk, schedule);
            }
        }
        true
    }

    /// Every node samples what it asks for and sends it.
    pub(super) fn configure(&mut self, now: Time, cycle: u64, bulk: &mut BulkChannel) {
        (self.cycle, self.open) = (cycle, true);
        bulk.schedule().begin_cycle();
        for host in 0..bulk.hosts() {
            let NodeConfiguration { requests, bulk_enable, quick_enable } =
                bulk.configuration(now, host);
            let node = &mut self.nodes[usize::from(host)];
            node.bulk_enable = PortSet(bulk_enable as u16);
            node.quick_enable = PortSet(quick_enable as u16);
            let asked = (0..16).filter(|target| requests >> target & 1 == 1);
            let packet = node.configuration(asked.filter_map(|target| Port::new(target).ok()));
            let said = Said::Configuration { host, cycle, packet };
            self.send(now, Route::ToSwitch { from: host }, said);
        }
    }

    /// When the configurations that are sent now are there.
    pub(super) fn configured(&self, now: Time) -> Time {
        now + self.timing.configured()
    }

    /// The configurations are there; what comes later counts for nothing. Returns when the grants are
    /// known.
    pub(super) fn arbitrate(&mut self, now: Time, bulk: &mut BulkChannel) -> Time {
        self.open = false;
        bulk.calculate_grants();
        now + self.timing.arbitration
    }

    /// Every node is told, at the same time.
    pub(super) fn grant(&mut self, now: Time, bulk: &mut BulkChannel) {
        for host in 0..bulk.hosts() {
            // The ports are those of the hosts, of which there are 16 at the most.
            let Ok(packet) = bulk.schedule().grant(host.into()).packet() else { continue };
            let said = Said::Grant { host, cycle: self.cycle, packet };
            self.send(now, Route::FromSwitch { to: host }, said);
        }
    }

    /// The transfers of a slot begin. Returns the links, where both channels send over the same
    /// ones.
    pub(super) fn begin_slot(&mut self) -> Option<&mut SharedLinks> {
        self.nodes.iter_mut().for_each(BulkNode::begin_slot);
        self.channel.shared_links_mut()
    }

    /// A target answers, over the connection of the transfer in the opposite direction.
    pub(super) fn acknowledge(&mut self, now: Time, transfer: Id<Transfer>, bulk: &BulkChannel) {
        let Transfer { initiator, packet, reception, .. } = bulk.in_transfer(transfer);
        let Some(report) = reception.and_then(|reception| reception.acknowledgment()) else {
            return;
        };
        let route = Route::Through { from: packet.target, to: *initiator };
        self.send(now, route, Said::Acknowledgment { transfer, report });
    }

    fn send(&mut self, now: Time, route: Route, said: Said) {
        let (settings, timing) = (&self.settings, &self.timing);
        let (size, span) = match said {
            Said::Configuration { .. } => (settings.configuration, timing.configuration),
            Said::Grant { .. } => (settings.grant, timing.grant),
            Said::Acknowledgment { .. } => (settings.acknowledgment, timing.acknowledgment),
        };
        let token = match self.free.pop() {
            Some(token) => {
                self.said[token as usize] = Some(said);
                token
            }
            None => {
                self.said.push(Some(said));
                (self.said.len() - 1) as u32
            }
        };
        let packet = ScheduledPacket { route, size, span, token };
        self.channel.send_scheduled(now, packet);
    }

    fn arrive(
        &mut self,
        now: Time,
        arrival: ScheduledArrival,
        bulk: &mut BulkChannel,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Some(said) = self.said[arrival.token as usize].take() else { return };
        self.free.push(arrival.token);
        self.note(now, arrival.start, &said, bulk);
        match said {
            Said::Configuration { host, cycle, packet } => {
                let late = !self.open || cycle != self.cycle;
                if arrival.damaged || late || packet.slot != Sequence::of(cycle + 1) {
                    bulk.counters.lost_configurations += 1;
                } else {
                    let said = NodeConfiguration::from(packet);
                    bulk.schedule().configure(host.into(), said);
                    self.channel.accept_requests(host, said.quick_enable);
                }
            }
            Said::Grant { host, packet, .. } => {
                let node = &mut self.nodes[usize::from(host)];
                let granted = node.grant(&packet).ok().filter(|_| !arrival.damaged);
                match granted {
                    Some(granted) => {
                        bulk.take_grant(host, granted.target.map(|port| port.index() as u16));
                    }
                    None => bulk.counters.lost_grants += 1,
                }
            }
            Said::Acknowledgment { .. } if arrival.damaged => {
                bulk.counters.lost_acknowledgments += 1;
            }
            Said::Acknowledgment { transfer, .. } => bulk.acknowledged(now, transfer, schedule),
        }
    }

    fn note(&mut self, now: Time, start: Time, said: &Said, bulk: &BulkChannel) {
        let Some(trace) = &mut self.trace else { return };
        let entry = |kind, sequence, initiator, target, slot, content| TraceEntry {
            time: start,
            until: now,
            kind,
            sequence,
            initiator,
            target,
            slot: Some(slot),
            content,
        };
        trace.push(match said {
            Said::Configuration { host, cycle, packet } => {
                let asked = (0..16).filter(|target| packet.requests.0 >> target & 1 == 1);
                let asked: Vec<String> = asked.map(|target: u16| target.to_string()).collect();
                entry("cfg", cycle + 1, Some((*host).into()), None, *cycle, asked.join(" "))
            }
            Said::Grant { host, cycle, packet } => {
                let granted = packet.target.map(|target| target.index().to_string());
                entry(
                    "gnt",
                    cycle + 1,
                    None,
                    Some((*host).into()),
                    *cycle,
                    granted.unwrap_or_default(),
                )
            }
            Said::Acknowledgment { transfer, report } => {
                let Transfer { initiator, packet, cycle, .. } = bulk.in_transfer(*transfer);
                let content = match report {
                    TransmissionReport::Accepted => "accepted",
                    TransmissionReport::NoReceiveBuffer => "no receive buffer",
                };
                let (from, to) = (Some(packet.target.into()), Some((*initiator).into()));
                entry("back", packet.sequence, from, to, cycle + 2, content.to_owned())
            }
        });
    }
}
