//! The cluster in simulated time: the times of control packets, time-outs and pulses, and what is
//! recorded of them. Which nodes are on line is decided by
//! [`weft_fabric::interface::window::Members`].

use weft_fabric::interface::window::{
    Clocks, Damage, DamagedChannel, Members, News, RecoveryRules, RecoverySoftware, Silent,
    SoftwareTimer,
};
use weft_fabric::interface::{ClusterEventKind, ClusterSettings};
use weft_fabric::switch::HubTimes;
use weft_kernel::Streams;
use weft_protocol::window::Change;
use weft_units::{Bytes, Span, Time};

use super::agenda::Agenda;
use super::host::Packet;
use super::{Departure, HubParts, HubStep, State, Windows};

/// What happens in the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// An event of the file, by its position there.
    Scripted(u16),
    /// An adapter sends a control packet; its port receives it.
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
    /// Software of a node hears of an error, or what it waits for is due.
    Interrupt(u16),
    Software(SoftwareTimer),
    /// The course of the run is noted.
    Sample,
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

/// What keeps the cluster together, and what is noted of it.
#[derive(Debug)]
pub(super) struct Management {
    pub settings: ClusterSettings,
    pub damage: Damage,
    pub members: Members,
    pub software: RecoverySoftware<Packet>,
    pub clocks: Option<Clocks>,
    /// Copies of packets that were on their way and are not delivered, and that were not sent.
    pub given_up: u64,
    pub refused: u64,
    last_delivery: Time,
    longest_gap: Span,
    pub course: Vec<Course>,
    sampled: Bytes,
    carried: Bytes,
    sample: Option<Span>,
}

impl Management {
    /// Of a channel on which anything can go wrong.
    pub fn new(parts: &HubParts, times: &HubTimes, streams: &Streams) -> Option<Box<Management>> {
        let HubParts { window, hosts, hub, .. } = parts;
        if parts.errors.is_free_of_errors() && window.cluster.is_none() {
            return None;
        }
        let settings = window.cluster.clone().unwrap_or_default();
        let name = parts.name.as_str();
        let damaged = DamagedChannel { name, hosts: *hosts, is_direct: hub.is_direct() };
        let rules = RecoveryRules {
            retry: settings.retry,
            tries: settings.tries,
            message: window.write.min(parts.payload).max(Bytes(8)),
        };
        let control = times.notice;
        let longest = control + times.of(window.write.min(parts.payload)).link;
        Some(Box::new(Management {
            damage: Damage::new(&parts.errors, window.detection, damaged, streams),
            members: Members::new(&settings, *hosts),
            software: RecoverySoftware::new(rules, *hosts),
            clocks: settings
                .clock
                .as_ref()
                .map(|own| Clocks::new(own, (name, *hosts), (control, longest), streams)),
            given_up: 0,
            refused: 0,
            last_delivery: Time::ZERO,
            longest_gap: Span::ZERO,
            course: Vec::new(),
            sampled: Bytes(0),
            carried: Bytes(0),
            sample: parts.sample,
            settings,
        }))
    }

    /// Payload reached a program.
    pub fn note_delivery(&mut self, now: Time, size: Bytes) {
        self.longest_gap = self.longest_gap.max(now.since(self.last_delivery));
        self.last_delivery = now;
        self.carried += size;
    }
}

impl HubStep<'_> {
    /// Schedules what happens of itself.
    pub(super) fn start_cluster(&mut self) {
        let State { parts, management, lines, .. } = self.own;
        let mut agenda = Agenda { lines, calendar: self.calendar };
        let Some(own) = management else { return };
        let hosts = u64::from(parts.hosts);
        for (place, event) in (0..).zip(&own.settings.events) {
            let time = Time::ZERO + event.at;
            agenda.manage(time, Step::Scripted(place));
        }
        let beat = own.settings.heartbeat;
        if beat > Span::ZERO {
            for node in 0..parts.hosts {
                if !own.members.begin_beating(node) {
                    continue;
                }
                // Adapters are not in step with each other.
                let first = Span(beat.0 * (u64::from(node) + 1) / (hosts + 1));
                agenda.manage(Time::ZERO + first, Step::Heartbeat(node));
            }
            agenda.manage(Time::ZERO + beat, Step::Beat);
            agenda.manage(Time::ZERO + own.settings.time_out, Step::Silence);
        }
        if let Some(clock) = &own.settings.clock {
            agenda.manage(Time::ZERO + clock.interval, Step::Pulse);
        }
        if let Some(sample) = own.sample {
            agenda.manage(Time::ZERO + sample, Step::Sample);
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
            Step::Interrupt(node) => self.recover(now, |software, members| {
                if members.is_alive(node) {
                    software.report(now, node, members);
                }
            }),
            Step::Software(SoftwareTimer::Nag(node)) => {
                self.recover(now, |software, members| software.nag(now, node, members));
            }
            Step::Software(SoftwareTimer::Retry(progress)) => {
                self.recover(now, |software, members| software.retry(now, progress, members));
            }
            Step::Sample => self.note_course(now),
        }
    }

    fn scripted(&mut self, now: Time, place: u16) {
        let Some(own) = &self.own.management else { return };
        match own.settings.events[usize::from(place)].what {
            ClusterEventKind::Dies(node) => self.die(now, node),
            ClusterEventKind::Joins(node) => self.join(now, node),
            ClusterEventKind::Breaks => self.break_rail(now),
        }
    }

    /// An adapter sends its heartbeat to its port, and checks whether the hub has been silent for
    /// the time-out.
    fn heartbeat(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.own.management else { return };
        let Some(is_silent) = own.members.beat(now, node) else { return };
        let beat = own.settings.heartbeat;
        let lane = self.own.hosts[usize::from(node)].link.lane_mut();
        // Ahead of everything that has not begun; on a bus it has lines of its own to the hub.
        let start = if self.own.parts.hub.is_bus() { now } else { lane.send(now) };
        let heard = start + self.own.times.notice;
        self.agenda().manage(heard, Step::Heard(node));
        self.agenda().manage(now + beat, Step::Heartbeat(node));
        if is_silent {
            self.switch(now, node);
        }
    }

    fn hear_heartbeat(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.own.management else { return };
        if own.members.hear(now, node) {
            self.own.adapters[usize::from(node)] = self.own.parts.adapter_room();
            self.own.hosts[usize::from(node)].link.lane_mut().forget();
            self.tell_status(now);
        }
    }

    /// Ports isolate the nodes that they have not heard of for the time-out.
    fn expire(&mut self, now: Time) {
        let Some(own) = &mut self.own.management else { return };
        let Silent { nodes, next } = own.members.expire(now);
        self.agenda().manage(next, Step::Silence);
        if nodes.is_empty() {
            return;
        }
        nodes.into_iter().for_each(|node| self.isolate(now, node));
        self.tell_status(now);
        self.wake_hub(now);
    }

    fn isolate(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.own.management else { return };
        if own.members.isolate(now, node) {
            // Its control packets were lost: it is taken for dead, and begins anew.
            self.die(now, node);
            self.join(now, node);
        }
        let Some(own) = &mut self.own.management else { return };
        for entry in own.software.logs().remove_target(node) {
            self.give_up(now, &entry.packet, node);
        }
    }

    /// The hub sends a control packet to every node at its interval.
    fn beat(&mut self, now: Time) {
        let Some(own) = &self.own.management else { return };
        let beat = own.settings.heartbeat;
        self.agenda().manage(now + beat, Step::Beat);
        self.tell_status(now);
    }

    fn tell_status(&mut self, now: Time) {
        for node in 0..self.own.parts.hosts {
            // Behind the packet that the port sends now, and before the next.
            let told = self.tell_node(now, node) + self.own.times.notice;
            self.agenda().manage(told, Step::Status(node));
        }
    }

    /// A control packet of the hub is at a node: it knows who is on line.
    fn hear_status(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.own.management else { return };
        let Some(News { gone, is_new }) = own.members.hear_status(now, node) else { return };
        for other in (0..self.own.parts.hosts).filter(|other| gone >> other & 1 == 1) {
            self.own.departures.push(Departure::IsKnown { host: other, at: node });
            self.forget_peer(now, node, other);
        }
        self.recover(now, |software, members| {
            if is_new && members.manager_of(node) == node {
                software.begin(now, node, members);
            }
        });
    }

    /// The hub sends a pulse to all nodes, each behind the packet that its port sends now.
    fn pulse(&mut self, now: Time) {
        let State { parts, times, hub, management, lines, .. } = self.own;
        let mut agenda = Agenda { lines, calendar: self.calendar };
        let is_bus = parts.hub.is_bus();
        let Some(own) = management else { return };
        let Management { members, clocks: Some(clocks), .. } = &mut **own else { return };
        clocks.compare(now);
        agenda.manage(now + clocks.interval(), Step::Pulse);
        let is_up = members.up().is_some();
        for node in (0..parts.hosts).filter(|node| is_up && members.is_alive(*node)) {
            let lane = hub.lane(node);
            let start = if is_bus { lane.free().max(now) } else { lane.send(now) };
            let read = clocks.send(now, node, start.since(now) + times.notice);
            agenda.manage(read, Step::Served(node));
        }
    }

    /// The service routine of a node notes how far its clock is off.
    fn served(&mut self, now: Time, node: u16) {
        if let Some(clocks) = self.own.management.as_mut().and_then(|own| own.clocks.as_mut()) {
            clocks.served(now, node);
        }
    }

    fn note_course(&mut self, now: Time) {
        let Some(own) = &mut self.own.management else { return };
        let Some(sample) = own.sample else { return };
        let bytes = own.carried.0 - own.sampled.0;
        own.sampled = own.carried;
        own.course.push(Course {
            time: now,
            accepted_mb_per_s: bytes as f64 / sample.as_secs() * 1e-6,
            on_line: own.members.on_line().count_ones(),
        });
        self.agenda().manage(now + sample, Step::Sample);
    }
}

impl Windows {
    /// Changes of the membership as nodes learned of them: when, which node, what.
    pub fn changes(&self) -> &[(Time, u16, Change)] {
        self.state.management.as_ref().map_or(&[], |own| own.members.changes())
    }

    /// Copies of packets that were not delivered and that no node misses: copies are lost only
    /// after a node has left.
    pub fn given_up(&self) -> u64 {
        self.state.management.as_ref().map_or(0, |own| own.given_up + own.refused)
    }
}

impl State {
    /// What is counted of the cluster, with the names of its columns.
    pub(super) fn cluster_columns(&self, until: Time) -> Vec<(&'static str, f64)> {
        let Some(own) = &self.management else { return Vec::new() };
        let [recoveries, messages, again] = own.software.counts();
        let [mean, most] = own.software.open_us();
        let mut columns = vec![
            ("recoveries", recoveries as f64),
            ("recovery_messages", messages as f64),
            ("retransmitted_packets", again as f64),
            ("undetected_damage", own.damage.undetected() as f64),
            ("recovery_mean_us", mean),
            ("recovery_max_us", most),
        ];
        if own.settings.heartbeat > Span::ZERO {
            let gap = own.longest_gap.max(until.since(own.last_delivery));
            let [isolation, switch] = own.members.longest_us();
            columns.extend([
                ("isolation_max_us", isolation),
                ("switch_max_us", switch),
                ("without_service_max_us", gap.as_us()),
                ("given_up_packets", own.given_up as f64),
                ("refused_packets", own.refused as f64),
            ]);
        }
        if let Some(clocks) = &own.clocks {
            columns.extend(clocks.columns());
        }
        columns
    }
}
