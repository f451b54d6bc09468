//! What is observed where a packet reaches a program.

use weft_fabric::interface::window::Numbering;
use weft_fabric::measure::{Latency, Observations, Passage, Stage};
use weft_fabric::switch::HubTimes;
use weft_kernel::{Halt, Id, Stopped};
use weft_protocol::window::{Node, PacketName};
use weft_units::{Span, Time};

use super::host::{Packet, Purpose};
use super::{Course, HubChannel, Notice};
use crate::drive::Channel;

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

impl Channel for HubChannel {
    /// A later call goes on where this one ended.
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        self.run_traffic(until, halt)
    }

    /// Deliveries whose packet has not been taken in by the bus of its initiator.
    fn backlog(&self) -> u64 {
        self.waiting
    }

    /// Deliveries on their way.
    fn in_flight(&self) -> u64 {
        self.flying
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        Some(&mut self.observations)
    }

    fn into_observations(mut self) -> Observations {
        debug_assert!(
            self.management.is_some() || self.packets.len() as u64 <= self.flying,
            "{} packets for {} deliveries",
            self.packets.len(),
            self.flying
        );
        let StageSums { packets, .. } = self.stages;
        let sums = self.stages;
        let times = |packets: u64, span: Span| u128::from(packets) * u128::from(span.0);
        let each = |span: Span| times(packets, span);
        let of_initiator = [
            ("store", times(packets - sums.of_devices, self.times.store)),
            ("initiator_bus_wait", sums.initiator_wait),
            ("initiator_bus", sums.bus),
            ("transmit_adapter", each(self.times.transmit)),
        ];
        let of_target = [
            ("receive_adapter", each(self.times.receive)),
            ("target_bus_wait", sums.target_wait),
            ("target_bus", sums.bus),
            ("memory", each(self.times.memory)),
            ("poll", times(packets - sums.interrupted, self.times.poll)),
            ("interrupt", times(sums.interrupted, self.times.interrupt)),
            ("read", each(self.times.read)),
        ];
        for (stages, is_initiator) in [(&of_initiator[..], true), (&of_target[..], false)] {
            for (name, sum) in stages.iter().filter(|(_, sum)| *sum > 0) {
                self.observations.budget.add_named(name, is_initiator, packets, *sum);
            }
        }
        self.observations
    }

    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        let held: u64 = self.hosts.iter().map(|host| host.bus.held().0).sum();
        let hosts = self.hosts.len() as f64;
        let busy = held as f64 / hosts / until.since(Time::ZERO).0.max(1) as f64;
        let mut columns = vec![("host_bus_busy", busy.min(1.0))];
        let Counters { several, waited, longest } = self.counters;
        if several > 0 {
            let mean = waited as f64 / several as f64;
            columns.push(("multicast_wait_mean_us", mean * 1e-6));
            columns.push(("multicast_wait_max_us", longest.as_us()));
            if self.parts.hub.buffer().is_some() {
                let ready = self.hub.synchronisation();
                columns.push(("synchronisation_mean_us", ready.mean_us()));
                columns.push(("synchronisation_max_us", ready.longest().as_us()));
            }
        }
        columns.extend(self.pages.iter().flat_map(|pages| pages.columns()));
        columns.extend(self.control_columns(until));
        columns.extend(self.numbering.iter().flat_map(Numbering::columns));
        columns.extend(self.cluster_columns(until));
        columns
    }
    fn course(&self) -> Vec<Course> {
        self.management.as_ref().map_or_else(Vec::new, |own| own.course.clone())
    }

    fn broken_order(&self) -> Option<String> {
        let late = || self.checker.as_ref()?.finish().err().map(|error| error.to_string());
        self.problem.clone().or_else(late)
    }
}

impl HubChannel {
    /// A program has a packet: the whole message if it is the last one.
    pub(super) fn deliver(&mut self, now: Time, id: Id<Packet>, target: u16) {
        if self.is_for_cluster(now, id, target) {
            return;
        }
        let packet = &mut self.packets[id];
        packet.missing -= 1;
        let (from, last, payload) = (packet.from, packet.last, packet.size);
        let (missing, purpose) = (packet.missing, packet.purpose_at(target));
        let passage =
            Passage { from: from.into(), to: target.into(), start: packet.start, end: now };
        self.flying -= 1;
        self.observations.deliver_from(usize::from(from), now, payload);
        self.observations.pass(passage);
        if last && matches!(purpose, Purpose::Traffic | Purpose::Device | Purpose::Message(_)) {
            self.account(now, id, target);
        }
        if missing == 0 {
            self.packets.remove(id);
        }
        match purpose {
            _ if !last => {}
            Purpose::Traffic => self.source_hears(now, target, from),
            Purpose::Message(ticket) => {
                self.notices.push(Notice::Delivered { time: now, ticket, to: target });
            }
            Purpose::Unconfirmed | Purpose::Copy | Purpose::Device => {}
            Purpose::Acknowledgment(since) => {
                if let Some(pages) = &mut self.pages {
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
        if let (Some(own), Some(name)) = (&mut self.management, name) {
            let is_error_open = own.software.is_error_open();
            own.software.logs().take(target, name, is_error_open);
        }
        if let (Some(checker), Some(name)) = (&mut self.checker, name)
            && let Err(error) = checker.receive(Node(target as u8), name)
        {
            self.problem.get_or_insert(error.to_string());
        }
    }

    /// Divides the latency of a message among the stages that its last packet went through.
    fn account(&mut self, now: Time, id: Id<Packet>, target: u16) {
        let packet = &self.packets[id];
        let interrupts = self.interrupts(packet, target);
        let is_of_device = matches!(packet.purpose, Purpose::Device);
        let Packet { generated, taken, ready, start, granted, span, size, targets, .. } = *packet;
        let at_target = self.times.at_target(packet.granted, packet.span);
        let seen = &mut self.observations;
        seen.latency(Latency::Queueing, now, start.since(generated));
        seen.latency(Latency::Transit, now, now.since(start));
        seen.latency(Latency::OneWay, now, now.since(generated));
        let HubTimes { wire, hub, arbitration, cable, .. } = self.times;
        let is_bus = self.parts.hub.is_bus();
        let there = if self.parts.hub.is_direct() || is_bus { start } else { granted };
        // On a bus a packet waits before it starts, at a crossbar after that.
        let in_hub = if is_bus { there.since(ready) } else { there.since(start + cable) };
        if targets.count_ones() > 1 {
            let waited = Span(in_hub.0.saturating_sub(arbitration.0));
            self.counters.several += 1;
            self.counters.waited += u128::from(waited.0);
            self.counters.longest = self.counters.longest.max(waited);
        }
        if now < self.observations.from {
            return;
        }
        let seen = &mut self.observations;
        let wait = Span(start.since(ready).0.saturating_sub(if is_bus { in_hub.0 } else { 0 }));
        seen.budget.add(Stage::SlotWait, wait);
        seen.budget.add(Stage::Transmission, span);
        seen.budget.add(Stage::Wire, wire);
        if !self.parts.hub.is_direct() {
            seen.budget.add(Stage::Switch, if is_bus { hub + arbitration } else { hub });
            let waited = Span(in_hub.0.saturating_sub(arbitration.0));
            seen.budget.add(Stage::SwitchWait, waited);
        }
        let bus = u128::from(self.times.of(size).bus.0);
        let sums = &mut self.stages;
        sums.packets += 1;
        let store = if is_of_device { Span::ZERO } else { self.times.store };
        sums.of_devices += u64::from(is_of_device);
        sums.initiator_wait += u128::from(taken.since(generated + store).0);
        let after = now.since(at_target + self.times.after(interrupts));
        sums.interrupted += u64::from(interrupts);
        sums.target_wait += u128::from(after.0) - bus;
        sums.bus += bus;
    }
}
