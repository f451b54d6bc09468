//! The cluster in simulated time: nodes that die and come on line while traffic runs, a network
//! that breaks and one that stands by.
//!
//! Control packets of each adapter tell its port that the node is there, and take their time on its
//! link. A port that hears nothing for the time-out isolates its node, and the hub tells all others
//! who is on line; a node that hears nothing of the hub switches to the standby network. Whatever
//! changes, the recovery of [`super::recovery`] then puts in order.

use weft_fabric::interface::{ClusterEventKind, ClusterSettings, DetectionSettings};
use weft_fabric::link::Errors;
use weft_kernel::Streams;
use weft_protocol::window::{Change, Membership, Node, Path, Rail, Rails};
use weft_units::{Bytes, Span, Time};

use super::clock::Clocks;
use super::host::Packet;
use super::logs::Logs;
use super::recovery::Manager;
use super::{Departure, Event, HubChannel, HubParts};

/// What happens in the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// What the file says, by its place there.
    Scripted(u16),
    /// An adapter sends a control packet; it is at the port.
    Heartbeat(u16),
    Heard(u16),
    /// A port may have heard nothing for the time-out.
    Silence,
    /// A node comes on line.
    Join(u16),
    /// The hub sends control packets; one is at a node.
    Beat,
    Status(u16),
    /// The hub sends a pulse of the clock; the service routine of a node reads its clock.
    Pulse,
    Served(u16),
    /// Software of a node: after an error, while it waits, and of the manager without an answer.
    Interrupt(u16),
    Nag(u16),
    Retry(u32),
    /// The course of the run is noted.
    Sample,
}

/// A node as the cluster sees it.
#[derive(Debug)]
pub(super) struct State {
    pub path: Path,
    /// Who is on line, as far as it knows.
    pub view: u64,
    /// A packet was lost here since it was surveyed last.
    pub is_spoilt: bool,
    pub survey: u32,
    pub recovery: u32,
    /// The number of its next packet when it was surveyed.
    pub next: u64,
    /// The survey after which it took ordinary packets again.
    pub opened: u32,
    /// Packets of a request that have come.
    pub parts: u32,
    /// The last message of a recovery, the last control packet of the hub.
    pub heard: Time,
    pub status: Time,
    pub is_nagging: bool,
    pub is_beating: bool,
    pub rails: Rails,
    pub died: Option<Time>,
}

/// What is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub undetected: u64,
    pub messages: u64,
    pub again: u64,
    pub recoveries: u64,
    pub spans: Vec<Span>,
    pub isolations: Vec<Span>,
    pub switches: Vec<Span>,
    pub given_up: u64,
    pub refused: u64,
}

/// One instant of the course of a run.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Course {
    /// The end of the interval.
    pub time: Time,
    /// Payload that arrived in it, in 10^6 bytes per second.
    pub accepted_mb_per_s: f64,
    /// Nodes on line at its end.
    pub on_line: u32,
}

/// All that the cluster knows.
#[derive(Debug)]
pub(super) struct Management {
    pub settings: ClusterSettings,
    pub detection: DetectionSettings,
    pub upstream: Vec<Errors>,
    pub downstream: Vec<Errors>,
    pub nodes: Vec<State>,
    pub logs: Logs,
    pub manager: Manager,
    pub recoveries: u32,
    pub surveys: u32,
    pub open_since: Option<Time>,
    pub counts: Counts,
    pub alive: u64,
    /// Nodes that the ports let nothing through of or to.
    pub isolated: u64,
    /// The network that works.
    pub up: Option<Rail>,
    pub broken: Option<Time>,
    ports: Membership,
    changes: Vec<(Time, u16, Change)>,
    pub clocks: Option<Clocks>,
    last_delivery: Time,
    longest_gap: Span,
    pub course: Vec<Course>,
    sampled: Bytes,
    carried: Bytes,
    sample: Option<Span>,
    pub rails_of_standby: bool,
}

impl Management {
    /// Of a channel on which anything can go wrong.
    pub fn new(parts: &HubParts, streams: &Streams) -> Option<Box<Management>> {
        let is_whole = parts.errors.is_free_of_errors();
        if is_whole && parts.window.cluster.is_none() {
            return None;
        }
        let settings = parts.window.cluster.clone().unwrap_or_default();
        let hosts = usize::from(parts.hosts);
        let errors = |name: &str, listed: bool| {
            let mut errors = parts.errors.clone();
            if !listed {
                errors.packets.clear();
            }
            (0..parts.hosts).map(|host| errors.build(streams, name, host)).collect::<Vec<_>>()
        };
        let hub = format!("{} hub", parts.name);
        let is_direct = parts.hub.is_direct();
        let all = u64::MAX >> (64 - hosts);
        let absent = first_to_join(&settings);
        let state = |_| State {
            path: Path::new(settings.tries),
            view: all & !absent,
            is_spoilt: false,
            survey: 0,
            recovery: 0,
            next: 0,
            opened: 0,
            parts: 0,
            heard: Time::ZERO,
            status: Time::ZERO,
            is_nagging: false,
            is_beating: false,
            rails: Rails::default(),
            died: None,
        };
        let mut ports = Membership::new(parts.hosts, settings.time_out);
        for node in (0..hosts as u8).filter(|node| absent >> node & 1 == 0) {
            ports.hear(Time::ZERO, Node(node));
        }
        Some(Box::new(Management {
            detection: parts.window.detection,
            upstream: if is_whole || is_direct { vec![] } else { errors(&parts.name, true) },
            downstream: if is_whole { vec![] } else { errors(&hub, is_direct) },
            nodes: (0..hosts).map(state).collect(),
            logs: Logs::new(hosts),
            manager: Manager::default(),
            recoveries: 0,
            surveys: 0,
            open_since: None,
            counts: Counts::default(),
            alive: all & !absent,
            isolated: absent,
            up: Some(Rail::First),
            broken: None,
            ports,
            changes: Vec::new(),
            clocks: settings.clock.as_ref().map(|own| Clocks::new(own, parts, streams)),
            last_delivery: Time::ZERO,
            longest_gap: Span::ZERO,
            course: Vec::new(),
            sampled: Bytes(0),
            carried: Bytes(0),
            sample: parts.sample,
            rails_of_standby: settings.standby,
            settings,
        }))
    }

    pub fn is_alive(&self, node: u16) -> bool {
        self.alive >> node & 1 == 1
    }

    /// Who is on line, as a node knows it.
    pub fn view(&self, node: u16) -> u64 {
        self.nodes[usize::from(node)].view
    }

    /// The lowest node on line manages recoveries, as a node knows it.
    pub fn manager_of(&self, node: u16) -> u16 {
        (self.view(node) | 1 << node).trailing_zeros() as u16
    }

    /// Whether its sender died while it sent the packet.
    pub fn is_cut(&self, packet: &Packet) -> bool {
        let died = self.nodes[usize::from(packet.from)].died;
        died.is_some_and(|died| packet.start <= died && packet.start + packet.span > died)
    }

    /// Whether its sender died after it took the packet in.
    pub fn is_from_before_death(&self, packet: &Packet) -> bool {
        let died = self.nodes[usize::from(packet.from)].died;
        died.is_some_and(|died| packet.taken <= died)
    }

    /// Whether its sender died before it could send the packet.
    pub fn is_unsent(&self, packet: &Packet, is_bus: bool) -> bool {
        let died = self.nodes[usize::from(packet.from)].died;
        self.is_from_before_death(packet)
            && (is_bus || died.is_some_and(|died| packet.start > died))
    }

    /// Payload reached a program.
    pub fn note_delivery(&mut self, now: Time, size: Bytes) {
        self.longest_gap = self.longest_gap.max(now.since(self.last_delivery));
        self.last_delivery = now;
        self.carried += size;
    }
}

/// Nodes whose first event is to join.
fn first_to_join(settings: &ClusterSettings) -> u64 {
    let (mut seen, mut absent) = (0_u64, 0);
    for event in &settings.events {
        let (node, joins) = match event.what {
            ClusterEventKind::Dies(node) => (node, false),
            ClusterEventKind::Joins(node) => (node, true),
            ClusterEventKind::Breaks => continue,
        };
        if seen >> node & 1 == 0 && joins {
            absent |= 1 << node;
        }
        seen |= 1 << node;
    }
    absent
}

impl HubChannel {
    /// Schedules what happens of itself.
    pub(super) fn start_cluster(&mut self) {
        let Some(own) = &mut self.management else { return };
        let hosts = u64::from(self.parts.hosts);
        for (place, event) in (0..).zip(&own.settings.events) {
            let time = Time::ZERO + event.at;
            self.agenda.push(time, Event::Manage(Step::Scripted(place)));
        }
        let beat = own.settings.heartbeat;
        if beat > Span::ZERO {
            for node in (0..self.parts.hosts).filter(|node| own.alive >> node & 1 == 1) {
                own.nodes[usize::from(node)].is_beating = true;
                // Adapters are not in step with each other.
                let first = Span(beat.0 * (u64::from(node) + 1) / (hosts + 1));
                self.agenda.push(Time::ZERO + first, Event::Manage(Step::Heartbeat(node)));
            }
            self.agenda.push(Time::ZERO + beat, Event::Manage(Step::Beat));
            self.agenda.push(Time::ZERO + own.settings.time_out, Event::Manage(Step::Silence));
        }
        if let Some(clock) = &own.settings.clock {
            self.agenda.push(Time::ZERO + clock.interval, Event::Manage(Step::Pulse));
        }
        if let Some(sample) = own.sample {
            self.agenda.push(Time::ZERO + sample, Event::Manage(Step::Sample));
        }
    }

    pub(super) fn manage(&mut self, now: Time, step: Step) {
        match step {
            Step::Scripted(place) => self.scripted(now, place),
            Step::Heartbeat(node) => self.heartbeat(now, node),
            Step::Heard(node) => self.hear_heartbeat(now, node),
            Step::Silence => self.expire(now),
            Step::Join(node) => self.join(now, node),
            Step::Beat => self.beat(now),
            Step::Status(node) => self.hear_status(now, node),
            Step::Pulse => self.pulse(now),
            Step::Served(node) => self.served(now, node),
            Step::Interrupt(node) => {
                if self.management.as_ref().is_some_and(|own| own.is_alive(node)) {
                    self.report(now, node);
                }
            }
            Step::Nag(node) => self.nag(now, node),
            Step::Retry(progress) => self.retry(now, progress),
            Step::Sample => self.note_course(now),
        }
    }

    fn scripted(&mut self, now: Time, place: u16) {
        let Some(own) = &self.management else { return };
        match own.settings.events[usize::from(place)].what {
            ClusterEventKind::Dies(node) => self.die(now, node),
            ClusterEventKind::Joins(node) => self.join(now, node),
            ClusterEventKind::Breaks => self.break_rail(now),
        }
    }

    /// An adapter tells its port that it is there, and looks whether it has heard of the hub.
    fn heartbeat(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        if !own.is_alive(node) {
            own.nodes[usize::from(node)].is_beating = false;
            return;
        }
        let Management { settings, nodes, .. } = &mut **own;
        let (beat, time_out) = (settings.heartbeat, settings.time_out);
        let is_silent = now.since(nodes[usize::from(node)].status) >= time_out;
        let span = self.parts.link.span(self.parts.window.control);
        let host = &mut self.hosts[usize::from(node)];
        // Ahead of everything that has not begun; on a bus it has lines of its own to the hub.
        let start = if self.parts.hub.is_bus() { now } else { host.lane.send(now) };
        let there = start + span + self.spans.cable;
        self.agenda.push(there, Event::Manage(Step::Heard(node)));
        self.agenda.push(now + beat, Event::Manage(Step::Heartbeat(node)));
        if is_silent {
            self.switch(now, node);
        }
    }

    fn hear_heartbeat(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        if !own.is_alive(node) {
            return;
        }
        if own.ports.hear(now, Node(node as u8)).is_some() {
            own.isolated &= !(1 << node);
            self.adapters[usize::from(node)] = self.parts.adapter_room();
            self.hosts[usize::from(node)].lane.forget();
            self.tell_status(now);
        }
    }

    /// Ports isolate the nodes that they have not heard of for the time-out.
    fn expire(&mut self, now: Time) {
        let Some(own) = &mut self.management else { return };
        let removed = own.ports.expire(now);
        let next = own.ports.next_time_out().map_or(now, |member| member.heard);
        let next = (next + own.settings.time_out).max(now + Span(1));
        self.agenda.push(next, Event::Manage(Step::Silence));
        if removed.is_empty() {
            return;
        }
        for change in removed {
            let (Change::Removed(node) | Change::Added(node)) = change;
            self.isolate(now, node.0.into());
        }
        self.tell_status(now);
        self.wake_hub(now);
    }

    fn isolate(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        own.isolated |= 1 << node;
        let died = own.nodes[usize::from(node)].died;
        match died {
            Some(died) if !own.is_alive(node) => own.counts.isolations.push(now.since(died)),
            // Its control packets were lost: it is taken for dead, and begins anew.
            _ => {
                self.die(now, node);
                self.join(now, node);
            }
        }
        let Some(own) = &mut self.management else { return };
        for entry in own.logs.remove_target(node) {
            self.give_up(now, &entry.packet, node);
        }
    }

    /// The hub sends a control packet to every node at its interval.
    fn beat(&mut self, now: Time) {
        let Some(own) = &self.management else { return };
        let beat = own.settings.heartbeat;
        self.agenda.push(now + beat, Event::Manage(Step::Beat));
        self.tell_status(now);
    }

    fn tell_status(&mut self, now: Time) {
        let span = self.parts.link.span(self.parts.window.control) + self.spans.cable;
        for node in 0..self.parts.hosts {
            // Behind the packet that the port sends now, and before the next.
            let start = self.tell_node(now, node);
            self.agenda.push(start + span, Event::Manage(Step::Status(node)));
        }
    }

    /// A control packet of the hub is at a node: it knows who is on line.
    fn hear_status(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        let on_line = own.ports.on_line();
        let state = &mut own.nodes[usize::from(node)];
        let is_heard = own.up.is_some() && state.rails.active() == own.up;
        if !is_heard || own.alive >> node & 1 == 0 || on_line >> node & 1 == 0 {
            return;
        }
        state.status = now;
        let before = std::mem::replace(&mut state.view, on_line);
        if before == on_line {
            return;
        }
        for other in 0..self.parts.hosts {
            let [was, is] = [before, on_line].map(|set| set >> other & 1 == 1);
            if was != is {
                let peer = Node(other as u8);
                let change = if is { Change::Added(peer) } else { Change::Removed(peer) };
                if let Some(own) = &mut self.management {
                    own.changes.push((now, node, change));
                }
                if was {
                    self.departures.push(Departure::IsKnown { host: other, at: node });
                    self.forget_peer(now, node, other);
                }
            }
        }
        let Some(own) = &self.management else { return };
        if own.manager_of(node) == node {
            self.begin_recovery(now, node);
        }
    }

    fn note_course(&mut self, now: Time) {
        let Some(own) = &mut self.management else { return };
        let Some(sample) = own.sample else { return };
        let bytes = own.carried.0 - own.sampled.0;
        own.sampled = own.carried;
        own.course.push(Course {
            time: now,
            accepted_mb_per_s: bytes as f64 / sample.as_secs() * 1e-6,
            on_line: own.ports.on_line().count_ones(),
        });
        self.agenda.push(now + sample, Event::Manage(Step::Sample));
    }

    /// Changes of the membership as nodes heard of them: when, who, what.
    pub fn changes(&self) -> &[(Time, u16, Change)] {
        self.management.as_ref().map_or(&[], |own| &own.changes)
    }

    /// Copies of packets that nobody misses and that were not delivered: none is ever lost without
    /// a node that is gone.
    pub fn given_up(&self) -> u64 {
        self.management.as_ref().map_or(0, |own| own.counts.given_up + own.counts.refused)
    }

    /// What is counted of the cluster, with the names of its columns.
    pub(super) fn cluster_columns(&self, until: Time) -> Vec<(&'static str, f64)> {
        let Some(own) = &self.management else { return Vec::new() };
        let Counts { undetected, messages, again, recoveries, .. } = own.counts;
        let (mean, most) = HubChannel::recovery_spans(own);
        let mut columns = vec![
            ("recoveries", recoveries as f64),
            ("recovery_messages", messages as f64),
            ("retransmitted_packets", again as f64),
            ("undetected_damage", undetected as f64),
            ("recovery_mean_us", mean),
            ("recovery_max_us", most),
        ];
        if own.settings.heartbeat > Span::ZERO {
            let gap = own.longest_gap.max(until.since(own.last_delivery));
            let longest = |spans: &[Span]| spans.iter().max().map_or(0.0, |span| span.as_us());
            columns.extend([
                ("isolation_max_us", longest(&own.counts.isolations)),
                ("switch_max_us", longest(&own.counts.switches)),
                ("without_service_max_us", gap.as_us()),
                ("given_up_packets", own.counts.given_up as f64),
                ("refused_packets", own.counts.refused as f64),
            ]);
        }
        if let Some(clocks) = &own.clocks {
            columns.extend(clocks.columns());
        }
        columns
    }
}
