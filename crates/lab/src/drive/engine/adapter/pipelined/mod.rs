//! Hosts under a global schedule that itself tells them what became of their packets (Clint 3.3).
//!
//! One part determines the timing of a cycle (`weft_fabric::control::Pipeline`), another the outcome of
//! its transfers (`weft_fabric::control::Transfers`); this module adds the events. A packet that has been
//! granted passes the graph like any other. The slot of a packet in the trace is the one of its stage:
//! arbitration in slot `n`, transfer in `n + 1`, acknowledgment in `n + 2`.
//!
//! If packets of another channel carry the signalling, the module hands out the packets that leave in an
//! instant and is told which have arrived ([`coupled`](crate::drive::engine::coupled)).

mod messages;
mod offers;
mod outlet;
mod report;
mod transfer;

use weft_fabric::adapter::{AdapterSettings, BulkSender, Release};
use weft_fabric::control::{
    CarriedTiming, Heard, NodeConfiguration, Pipeline, RecoverySettings, ScheduledArrival,
    ScheduledPacket, Transfer, Transfers,
};
use weft_kernel::Id;
use weft_units::{Span, Time};

use super::{AdapterParts, Engine};
use crate::drive::faults::{DisabledInitiator, enable_vector};
use outlet::Outlet;

/// The parts of a schedule that itself tells hosts what became of their packets.
#[derive(Debug)]
pub struct PipelineParts {
    /// The schedule, and the signalling between nodes and arbiter.
    pub pipeline: Pipeline,
    /// When a send buffer is free again.
    pub release: Release,
    /// What hosts do about a failed transfer.
    pub recovery: RecoverySettings,
    /// Initiators that the targets leave out of their enable vectors for the channel that carries the
    /// signalling.
    pub quick_disabled: Vec<DisabledInitiator>,
}

/// Counts for which the general observations of a channel have no column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleCounters {
    /// Errors reported to a host (`trErr`, Clint 3.1).
    pub reported_errors: u64,
    /// Packets that arrived although they had arrived before.
    pub duplicates: u64,
    /// Grants without a packet to send.
    pub unused_grants: u64,
    /// Configurations that arrived too late for their cycle, or damaged.
    pub lost_configurations: u64,
    /// Grants that arrived damaged or for another slot.
    pub lost_grants: u64,
    /// Acknowledgments that arrived damaged.
    pub lost_acknowledgments: u64,
}

/// The schedule of a channel, and the state of its hosts.
#[derive(Debug)]
pub(super) struct Pipelined {
    pipeline: Pipeline,
    transfers: Transfers,
    /// By host, where its packets wait.
    outlets: Vec<Outlet>,
    /// By packet number, its transfer until that has ended.
    of_packet: Vec<Option<Id<Transfer>>>,
    /// How many cycles have begun.
    cycles: u64,
    counters: ScheduleCounters,
    /// Packets of the signalling that are to leave now.
    signals: Vec<ScheduledPacket>,
    /// Initiators that the targets leave out of their enable vectors for this channel, and for that which
    /// carries the signalling.
    disabled: Vec<DisabledInitiator>,
    quick_disabled: Vec<DisabledInitiator>,
}

/// The events of a cycle; at one instant they happen in this order. Higher numbers are those of hosts
/// that start their transfers at their own distance.
mod cycle {
    /// The requests are sampled: everything submitted in this picosecond is known.
    pub const SAMPLE: u32 = 0;
    /// The configurations are at the switch.
    pub const ARBITRATE: u32 = 1;
    /// The grants enter the output stages.
    pub const GRANT: u32 = 2;
    /// The granted packets are sent.
    pub const TRANSFER: u32 = 3;
    /// The event of the first host that starts at its own distance.
    pub const START: u32 = 4;
}

impl Pipelined {
    /// The schedule before its first cycle.
    pub fn new(own: PipelineParts, parts: &AdapterParts, hosts: usize) -> Pipelined {
        let PipelineParts { pipeline, release, recovery, quick_disabled } = own;
        let settings = AdapterSettings { release: Some(release), ..parts.settings.clone() };
        let outlet = |host: u16| match &parts.interface {
            None => Outlet::Buffers(BulkSender::new(&settings, hosts)),
            Some((interface, buffers)) => {
                Outlet::through(interface.build(host, hosts as u16, *buffers), host, hosts)
            }
        };
        Pipelined {
            pipeline,
            transfers: Transfers::new(recovery, hosts),
            outlets: (0..hosts as u16).map(outlet).collect(),
            of_packet: Vec::new(),
            cycles: 0,
            counters: ScheduleCounters::default(),
            signals: Vec::new(),
            disabled: parts.faults.disabled.clone(),
            quick_disabled,
        }
    }

    /// The configuration that a node sends to the arbiter at `now`.
    fn configuration(&mut self, now: Time, host: u16) -> NodeConfiguration {
        NodeConfiguration {
            requests: self.outlets[usize::from(host)].requests(now),
            bulk_enable: enable_vector(&self.disabled, now, host),
            quick_enable: enable_vector(&self.quick_disabled, now, host),
        }
    }
}

impl Engine {
    /// The sources of all hosts, and the first cycle.
    pub(super) fn begin_pipeline(&mut self) {
        (0..self.adapters.hosts.len() as u32).for_each(|host| self.schedule_source(host));
        self.schedule(Time::ZERO, self.places.samples, cycle::SAMPLE);
    }

    /// Processes an event of a cycle.
    #[inline(never)]
    pub(super) fn happen_in_cycle(&mut self, now: Time, item: u32) {
        match item {
            cycle::SAMPLE => self.sample_requests(now),
            cycle::ARBITRATE => self.arbitrate(now),
            cycle::GRANT => self.hand_out_grants(),
            cycle::TRANSFER => self.begin_transfers(now),
            host => self.start_transfer(now, host - cycle::START),
        }
    }

    /// The requests of a cycle are sampled: every node announces its requests.
    fn sample_requests(&mut self, now: Time) {
        let Some(own) = &mut self.adapters.pipelined else { return };
        let number = own.cycles;
        own.cycles += 1;
        own.pipeline.begin_cycle(number);
        for host in 0..own.outlets.len() as u16 {
            let said = own.configuration(now, host);
            own.signals.extend(own.pipeline.configure(host, said));
        }
        let timing = *own.pipeline.timing();
        let first = own.pipeline.first_transfer(number);
        if timing.carried.is_none() {
            own.pipeline.arbitrate();
        }
        let place = self.places.samples;
        if let Some(carried) = timing.carried {
            self.schedule(now + carried.configured(), place, cycle::ARBITRATE);
        }
        self.schedule(first, place, cycle::TRANSFER);
        self.schedule(timing.sampling(number + 1), place, cycle::SAMPLE);
    }

    /// The arbiter computes the grants from the configurations that have arrived.
    fn arbitrate(&mut self, now: Time) {
        let Some(own) = &mut self.adapters.pipelined else { return };
        own.pipeline.arbitrate();
        let carried = own.pipeline.timing().carried;
        let known = now + carried.map_or(Span::ZERO, |carried| carried.arbitration);
        self.schedule(known, self.places.samples, cycle::GRANT);
    }

    fn hand_out_grants(&mut self) {
        let Some(own) = &mut self.adapters.pipelined else { return };
        for host in 0..own.outlets.len() as u16 {
            own.signals.extend(own.pipeline.grant(host));
        }
    }

    /// Every initiator with a grant sends, now or when its distance lets it.
    fn begin_transfers(&mut self, now: Time) {
        let Some(own) = &mut self.adapters.pipelined else { return };
        // The first transfer of a cycle is before the next sampling.
        own.pipeline.begin_slot(own.cycles - 1);
        for host in 0..self.graph.hosts() {
            let own = self.adapters.pipelined.as_ref();
            let start = own.and_then(|own| own.pipeline.start(host as u16));
            match start.filter(|start| *start > now) {
                Some(start) => self.schedule(start, self.places.samples, cycle::START + host),
                None => self.start_transfer(now, host),
            }
        }
    }

    // Signalling that travels.

    /// How long a slot is, and how signalling in packets divides it.
    pub(in crate::drive::engine) fn carried_timing(&self) -> Option<(Span, CarriedTiming)> {
        let timing = self.adapters.pipelined.as_ref()?.pipeline.timing();
        Some((timing.slot, timing.carried?))
    }

    /// The packets of the signalling that leave now, into `signals`, which is empty.
    pub(in crate::drive::engine) fn take_signals(&mut self, signals: &mut Vec<ScheduledPacket>) {
        if let Some(own) = &mut self.adapters.pipelined {
            std::mem::swap(&mut own.signals, signals);
        }
    }

    /// A packet of the signalling has arrived. Returns the initiators from which a target accepts requests
    /// on the channel that carried it, if it says that.
    pub(in crate::drive::engine) fn hear_signalling(
        &mut self,
        now: Time,
        arrival: ScheduledArrival,
    ) -> Option<(u16, u64)> {
        let own = self.adapters.pipelined.as_mut()?;
        match own.pipeline.hear(arrival.token, arrival.damaged)? {
            Heard::Configuration { host, configuration } => {
                return Some((host, configuration.quick_enable));
            }
            Heard::Grant { .. } => {}
            Heard::Acknowledgment(id) => self.transfer_acknowledged(now, id),
            Heard::LostConfiguration => own.counters.lost_configurations += 1,
            Heard::LostGrant => own.counters.lost_grants += 1,
            Heard::LostAcknowledgment => own.counters.lost_acknowledgments += 1,
        }
        None
    }
}
