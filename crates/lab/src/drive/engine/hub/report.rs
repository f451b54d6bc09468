//! What is observed where a packet reaches a program.

use weft_fabric::interface::window::Numbering;
use weft_fabric::measure::{Budget, Instants, Stage};
use weft_fabric::switch::HubTimes;
use weft_kernel::Id;
use weft_protocol::window::{Node, PacketName};
use weft_units::{Span, Time};

use super::host::{Host, Packet, Purpose};
use super::{Course, HubStep, Notice, State, Windows};
use crate::drive::engine::delivery;

/// Sums of the stages that have names of their own, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StageSums {
    packets: u64,
    initiator_wait: u128,
    target_wait: u128,
    /// Of the initiator, and as much of the target.
    bus: u128,
    /// Of them all, those that interrupted the processor, and those that no processor stored.
    interrupted: u64,
    of_devices: u64,
}

/// What is counted besides.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    /// Packets for several targets, how long they waited in the hub, and the longest.
    several: u64,
    waited: u128,
    longest: Span,
}

impl Counters {
    /// A packet for several targets waited for this long.
    fn add(&mut self, waited: Span) {
        self.several += 1;
        self.waited += u128::from(waited.0);
        self.longest = self.longest.max(waited);
    }
}

impl Windows {
    /// Deliveries whose packet has not been taken in by the bus of its initiator.
    pub(in crate::drive::engine) fn unsent(&self) -> u64 {
        self.state.waiting
    }

    /// Deliveries on their way.
    pub(in crate::drive::engine) fn under_way(&self) -> u64 {
        self.state.flying
    }

    /// Adds the stages that have names of their own to where the time went.
    pub(in crate::drive::engine) fn add_stages(&self, budget: &mut Budget) {
        let State { management, packets, flying, times, stages: sums, .. } = &self.state;
        debug_assert!(
            management.is_some() || packets.len() as u64 <= *flying,
            "{} packets for {flying} deliveries",
            packets.len(),
        );
        let packets = sums.packets;
        let each = |packets: u64, span: Span| u128::from(packets) * u128::from(span.0);
        let of_initiator = [
            ("store", each(packets - sums.of_devices, times.store)),
            ("initiator_bus_wait", sums.initiator_wait),
            ("initiator_bus", sums.bus),
            ("transmit_adapter", each(packets, times.transmit)),
        ];
        let of_target = [
            ("receive_adapter", each(packets, times.receive)),
            ("target_bus_wait", sums.target_wait),
            ("target_bus", sums.bus),
            ("memory", each(packets, times.memory)),
            ("poll", each(packets - sums.interrupted, times.poll)),
            ("interrupt", each(sums.interrupted, times.interrupt)),
            ("read", each(packets, times.read)),
        ];
        for (stages, is_initiator) in [(&of_initiator[..], true), (&of_target[..], false)] {
            for (name, sum) in stages.iter().filter(|(_, sum)| *sum > 0) {
                budget.add_named(name, is_initiator, packets, *sum);
            }
        }
    }

    /// What is counted besides, with the names of its columns.
    pub(in crate::drive::engine) fn columns(&self, until: Time) -> Vec<(&'static str, f64)> {
        let own = &self.state;
        let held: u64 = own.hosts.iter().map(|host| host.bus.held().0).sum();
        let hosts = own.hosts.len() as f64;
        let busy = held as f64 / hosts / until.since(Time::ZERO).0.max(1) as f64;
        let mut columns = vec![("host_bus_busy", busy.min(1.0))];
        let Counters { several, waited, longest } = own.counters;
        if several > 0 {
            let mean = waited as f64 / several as f64;
            columns.push(("multicast_wait_mean_us", mean * 1e-6));
            columns.push(("multicast_wait_max_us", longest.as_us()));
            if own.parts.hub.buffer().is_some() {
                let ready = own.hub.synchronisation();
                columns.push(("synchronisation_mean_us", ready.mean_us()));
                columns.push(("synchronisation_max_us", ready.longest().as_us()));
            }
        }
        columns.extend(own.pages.iter().flat_map(|pages| pages.columns()));
        columns.extend(own.control_columns(until));
        columns.extend(own.numbering.iter().flat_map(Numbering::columns));
        columns.extend(own.cluster_columns(until));
        columns
    }

    /// How the throughput went over time, where it is noted.
    pub(in crate::drive::engine) fn course(&self) -> Vec<Course> {
        self.state.management.as_ref().map_or_else(Vec::new, |own| own.course.clone())
    }

    /// The ordering rule that was broken.
    pub(in crate::drive::engine) fn broken_order(&self) -> Option<String> {
        let State { checker, problem, .. } = &self.state;
        let late = || checker.as_ref()?.finish().err().map(|error| error.to_string());
        problem.clone().or_else(late)
    }

    /// What waits for what, one sentence a line.
    pub(in crate::drive::engine) fn who_waits(&self) -> Vec<String> {
        let line = |(place, host): (usize, &Host)| {
            let (stores, packets) = (host.bus.messages(), host.link.waiting());
            (stores + packets > 0).then(|| {
                format!("host {place}: {stores} stores wait for its bus, {packets} for its link")
            })
        };
        self.state.hosts.iter().enumerate().filter_map(line).collect()
    }
}

impl HubStep<'_> {
    /// A program has a packet: the whole message if it is the last one.
    pub(super) fn deliver(&mut self, now: Time, id: Id<Packet>, target: u16) {
        if self.is_for_cluster(now, id, target) {
            return;
        }
        let packet = &mut self.own.packets[id];
        packet.missing -= 1;
        let (from, last, missing) = (packet.from, packet.last, packet.missing);
        let purpose = packet.purpose_at(target);
        self.own.flying -= 1;
        if last && matches!(purpose, Purpose::Traffic | Purpose::Device | Purpose::Message(_)) {
            self.account(now, id, target);
        } else {
            delivery::count(self.seen, &self.own.instants(now, id, target));
        }
        if missing == 0 {
            self.own.packets.remove(id);
        }
        match purpose {
            _ if !last => {}
            Purpose::Traffic => self.source_hears(now, target, from),
            Purpose::Message(ticket) => {
                self.own.notices.push(Notice::Delivered { time: now, ticket, to: target });
            }
            Purpose::Unconfirmed | Purpose::Copy | Purpose::Device => {}
            Purpose::Acknowledgment(since) => {
                if let Some(pages) = &mut self.own.pages {
                    pages.acknowledged(now, since);
                }
            }
            Purpose::Request(place) => self.operate(now, |own| own.seen(place, target)),
            Purpose::Answer(place) => self.operate(now, |own| own.answered(place, from)),
            Purpose::Announce(number) => {
                self.operate(now, |own| own.announced(target, from, number));
            }
            Purpose::Recovery(_) | Purpose::Again(..) => {}
        }
    }

    /// A target writes a packet to its memory: that is the order in which it received them.
    #[inline]
    pub(super) fn check_order(&mut self, target: u16, name: Option<PacketName>) {
        if let (Some(own), Some(name)) = (&mut self.own.management, name) {
            let is_error_open = own.software.is_error_open();
            own.software.logs().take(target, name, is_error_open);
        }
        if let (Some(checker), Some(name)) = (&mut self.own.checker, name)
            && let Err(error) = checker.receive(Node(target as u8), name)
        {
            self.own.problem.get_or_insert(error.to_string());
        }
    }

    /// Divides the latency of a message among the stages that its last packet went through.
    fn account(&mut self, now: Time, id: Id<Packet>, target: u16) {
        let one = self.own.instants(now, id, target);
        let Packet { ready, start, granted, span, targets, .. } = self.own.packets[id];
        let HubTimes { wire, hub, arbitration, cable, .. } = self.own.times;
        let (is_bus, is_direct) = (self.own.parts.hub.is_bus(), self.own.parts.hub.is_direct());
        let there = if is_direct || is_bus { start } else { granted };
        // On a bus a packet waits before it starts, at a crossbar after that.
        let in_hub = if is_bus { there.since(ready) } else { there.since(start + cable) };
        let waited = Span(in_hub.0.saturating_sub(arbitration.0));
        if targets.count_ones() > 1 {
            self.own.counters.add(waited);
        }
        let wait = Span(start.since(ready).0.saturating_sub(if is_bus { in_hub.0 } else { 0 }));
        let through = if is_bus { hub + arbitration } else { hub };
        let spend = |budget: &mut Budget| {
            budget.add(Stage::SlotWait, wait);
            budget.add(Stage::Transmission, span);
            budget.add(Stage::Wire, wire);
            if !is_direct {
                budget.add(Stage::Switch, through);
                budget.add(Stage::SwitchWait, waited);
            }
        };
        delivery::complete_in_stages(self.seen, &one, spend, |seen| self.shown.note(seen));
        if now >= self.seen.from {
            self.own.add_to_stages(now, id, target);
        }
    }
}

impl State {
    /// What is known of a packet that is delivered to a target.
    #[inline]
    fn instants(&self, now: Time, id: Id<Packet>, target: u16) -> Instants {
        let Packet { from, generated, start, size, .. } = self.packets[id];
        Instants {
            from: from.into(),
            to: target.into(),
            generated,
            started: start,
            delivered: now,
            hops: u16::from(!self.parts.hub.is_direct()),
            class: 0,
            payload: size,
            transmission: Span::ZERO,
            wire: Span::ZERO,
            switches: Span::ZERO,
            initiator: Span::ZERO,
            target: Span::ZERO,
        }
    }

    /// Adds what a message spent in the stages that have names of their own.
    fn add_to_stages(&mut self, now: Time, id: Id<Packet>, target: u16) {
        let packet = &self.packets[id];
        let interrupts = self.interrupts(packet, target);
        let is_of_device = matches!(packet.purpose, Purpose::Device);
        let bus = u128::from(self.times.of(packet.size).bus.0);
        let store = if is_of_device { Span::ZERO } else { self.times.store };
        let at_target = self.times.at_target(packet.granted, packet.span);
        let after = now.since(at_target + self.times.after(interrupts));
        let sums = &mut self.stages;
        sums.packets += 1;
        sums.of_devices += u64::from(is_of_device);
        sums.initiator_wait += u128::from(packet.taken.since(packet.generated + store).0);
        sums.interrupted += u64::from(interrupts);
        sums.target_wait += u128::from(after.0) - bus;
        sums.bus += bus;
    }
}
