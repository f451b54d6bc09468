//! The types of a composition file: its parts and their parameters. The simulation uses these types
//! themselves; a value that exists is legal.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use weft_fabric::adapter::AdapterSettings;
use weft_fabric::control::{Alignment, RecoverySettings, SignallingSettings, Speculation};
use weft_fabric::fabric::{DeadlockSettings, FabricSettings, FailureSettings, RoutesSettings};
use weft_fabric::host::{HostSettings, MemorySettings};
use weft_fabric::interface::{EndpointSettings, TransferSettings, WindowSettings};
use weft_fabric::link::{ErrorSettings, LineCode, LinkBudgetSettings, LinkSettings, TurnSettings};
use weft_fabric::message::SegmentationSettings;
use weft_fabric::scheduler::SchedulerSettings;
use weft_fabric::switch::{
    CrossbarSettings, FifoBusSettings, HubSettings, InputQueuedSettings, OutputBufferedSettings,
    OutputQueuedSettings, RingSettings, SharedBufferSettings, SharedMemorySettings,
};
use weft_fabric::workload::WorkloadSettings;
use weft_protocol::flow::FlowControlSettings;
use weft_protocol::retransmit::ControlSettings;
use weft_units::{Bytes, Fraction, Length, PositiveCount, Span};

use crate::drive::faults::DisabledInitiator;
use crate::drive::interface::InterfaceSettings;
use crate::drive::receiver::ReceiverSettings;
use crate::experiment::{Beside, ExperimentSettings, Figure, Published, RunSettings};
use crate::price::PriceSettings;
use crate::program::settings::ProgramSettings;

/// Everything that a file says once its layers are merged: a system, and what is run on it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// The interconnect as a whole.
    pub system: SystemSettings,
    /// Its independent networks, by name.
    pub channel: BTreeMap<String, ChannelSettings>,
    /// The purpose of this file.
    #[serde(default)]
    pub experiment: ExperimentSettings,
    /// The traffic of each channel, by the name of the channel. A channel without an entry carries
    /// none.
    #[serde(default)]
    pub workload: BTreeMap<String, WorkloadSettings>,
    /// What the hosts run, alone or beside workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramSettings>,
    /// How long runs are, which part of them is measured, and how often they are repeated.
    #[serde(default)]
    pub run: RunSettings,
    /// What the document printed, to be compared with what is measured.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Rows of a table in which the document compares the systems of a family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Beside>,
    /// The pictures to draw.
    #[serde(default)]
    pub figure: Vec<Figure>,
}

impl Spec {
    /// Whether there is no traffic at all.
    pub fn is_silent(&self) -> bool {
        self.workload.is_empty() && self.running_program().is_none()
    }

    /// The program that the hosts run, if one does.
    pub fn running_program(&self) -> Option<&ProgramSettings> {
        self.program.as_ref().filter(|program| !program.is_policy())
    }
}

/// The interconnect as a whole.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystemSettings {
    /// Its title.
    pub title: String,
    /// The document that `stated` origins refer to.
    #[serde(default)]
    pub document: String,
    /// The number of hosts: 2 or more; at most 1024 on a single switch with a scheduler, 64 if its
    /// schedule tells hosts of their packets or it is a hub. More than 65535 only over
    /// `output_queued` switches, and without messages or programs.
    #[serde(deserialize_with = "several")]
    #[schemars(range(min = 2, max = 1_048_576))]
    pub hosts: u32,
    /// The memory through which ranks on one host exchange messages. Required if a program has
    /// several ranks on a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemorySettings>,
    /// How many computations a host runs at the same time, first come, first served, each to its
    /// end. Without a value, every computation has a processor of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<PositiveCount>,
    /// How long a floating-point operation of a host takes. Adds the column `q_ratio`: the time to
    /// send what the run sends, divided by that of an operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Span>,
}

/// With this many hosts, 32 bits suffice for all ports of a fabric, however many tiers it has, and a
/// fabric that is built takes a few gigabytes.
const MOST_HOSTS: u32 = 1 << 20;

/// Reads a number of hosts: one range in every refusal, and two hosts at least.
fn several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    struct Several;

    impl Visitor<'_> for Several {
        type Value = u32;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a whole number in 2..={MOST_HOSTS}")
        }

        fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u32, E> {
            let hosts = u32::try_from(number).ok().filter(|hosts| (2..=MOST_HOSTS).contains(hosts));
            hosts.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
        }
    }
    deserializer.deserialize_u32(Several)
}

fn one() -> PositiveCount {
    PositiveCount::ONE
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_one(count: &PositiveCount) -> bool {
    *count == PositiveCount::ONE
}

/// One independent network: every host has an adapter on it and a link to a switch.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelSettings {
    /// Size of a request packet on the wire, header and check code included. Links with turns have
    /// packets of 16 bytes.
    pub packet: Bytes,
    /// The part of the packet that a program submitted. Where links have turns: the payload of a
    /// message of the workload, which takes as many packets as it needs.
    pub payload: Bytes,
    /// The cable between an adapter and the switch.
    pub link: LinkSettings,
    /// The two ends of every cable take turns to send, in frames of 16-byte packets that also carry
    /// credits (Maestro 3.2). Without it both directions are independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<TurnSettings>,
    /// The path between the memory of a host and the FIFOs of its adapter. Required if links have
    /// turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferSettings>,
    /// The line code on the cable; without one the line rate is the data rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coding: Option<LineCode>,
    /// The attenuation of the signal between two adapters. It does not delay packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attenuation: Option<LinkBudgetSettings>,
    /// The buffers of each adapter.
    pub adapter: AdapterSettings,
    /// The switches and the cables between them; cables are like `link` unless they say otherwise.
    #[serde(default, skip_serializing_if = "FabricSettings::is_star")]
    pub fabric: FabricSettings,
    /// The number of planes: equal copies of `fabric`, in each of which every host has a port. If
    /// all packets of a connection take one route, a hash selects one plane for them; other
    /// packets, and those that a transport sprays, take the next free port.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub planes: PositiveCount,
    /// How packets are routed through a fabric. By default each packet takes a random route; with
    /// shared-memory switches each connection takes one that its hosts determine, and with a
    /// transport each flow takes one that its hosts and its number determine. Where adapters have a
    /// transport, a connection means a flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<RoutesSettings>,
    /// Cables that fail, come back or run at a fraction of their rate from a stated time on. For fabrics
    /// whose switches share a buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<FailureSettings>,
    /// What protects the buffers of switches from overflow. For fabrics whose switches have buffers
    /// of limited size; "credits" by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_control: Option<FlowControlSettings>,
    /// What to do with the channel if the buffers of its switches can wait for each other in a
    /// cycle under its routes. For fabrics whose switches have buffers of limited size.
    #[serde(default, skip_serializing_if = "DeadlockSettings::is_refused")]
    pub deadlock: DeadlockSettings,
    /// How messages become packets, which are then cells. For switches with a shared memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segmentation: Option<SegmentationSettings>,
    /// What messages cost the hosts. For switches with a shared memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<EndpointSettings>,
    /// The one switch of a star, or each switch of another fabric.
    pub switch: SwitchSettings,
    /// Switches of the fabric, by name, that differ from `switch`. Output-queued and input-queued
    /// switches, hubs and rings may be mixed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub switches: BTreeMap<String, SwitchSettings>,
    /// How an initiator learns what became of its packets. Without it, no packet is ever lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlSettings>,
    /// Damage to packets on the links, by rate and by list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<ErrorSettings>,
    /// The receive buffers of each adapter, and how fast its host empties them; unlimited if
    /// absent. Without a free one the target answers with a negative acknowledgment (Clint 3.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<ReceiverSettings>,
    /// The interface between each host and this channel in detail: buffer pools, rings, bus
    /// (Clint 3.1). Without one a packet is in a send buffer as soon as one is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<InterfaceSettings>,
    /// The path of a message in the hosts, before and after the channel. Without it, a message is
    /// at its adapter as soon as a program submits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSettings>,
    /// The mapped window of each host, around the hub of a star. A hub without windows passes packets
    /// on like any other switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowSettings>,
    /// What to do about a failed transfer, on a channel with a scheduled switch (Clint 3.1,
    /// `trErr`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySettings>,
    /// The prices of technologies that are compared with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceSettings>,
    /// Initiators that the targets of this channel disable (Clint 3.3, enable vectors).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<DisabledInitiator>,
}

/// The switches of a channel. They determine of which parts the channel is made.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SwitchSettings {
    /// A crossbar without buffers that all hosts use in slots of a global schedule.
    Scheduled(ScheduledSettings),
    /// A crossbar without buffers and without a schedule.
    Crossbar(CrossbarSettings),
    /// Ports with FIFOs on one bus, for links with turns.
    FifoBus(FifoBusSettings),
    /// A switch with packet buffers at its outputs.
    OutputBuffered(OutputBufferedSettings),
    /// A cell switch with queues at its inputs and a scheduler, in slots of one cell.
    InputQueued(InputQueuedSettings),
    /// A switch with queues at its outputs, unlimited or not.
    OutputQueued(OutputQueuedSettings),
    /// A cell switch with one memory of limited size.
    SharedMemory(SharedMemorySettings),
    /// A packet switch with a memory in bytes that all ports share, and traffic classes.
    SharedBuffer(SharedBufferSettings),
    /// No switch but adapters that forward packets for others: those of hosts, and bridges to
    /// switches and other rings.
    Ring(RingSettings),
    /// A hub that keeps packets of any size in one order, between mapped windows; or without these, a
    /// switch of any fabric, with a bus that carries one packet at a time or a crossbar.
    Hub(HubSettings),
}

/// A bufferless crossbar under a global schedule (Clint 3.3).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduledSettings {
    /// From an input to an output of the crossbar.
    pub latency: Span,
    /// Idle time in each slot that covers the misalignment of the hosts.
    #[serde(default)]
    pub gap: Span,
    /// Length of the cable of each host in order, at most `link.length`, which is also the default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<Length>,
    /// How hosts at different distances synchronise.
    #[serde(default)]
    pub alignment: Alignment,
    /// Share of each slot in which the receiver locks onto the clock of a new sender.
    #[serde(default)]
    pub relock: Fraction,
    /// How long before a transmission the requests for it are sampled.
    pub lead: Span,
    /// The scheduler.
    pub scheduler: SchedulerSettings,
    /// How requests, grants and acknowledgments travel.
    #[serde(default)]
    pub signalling: SignallingSettings,
    /// Whether initiators and targets that the scheduler leaves unmatched are granted without
    /// request. The paper announces this option but does not describe it (Clint 4.2).
    #[serde(default)]
    pub speculation: Speculation,
}

impl SwitchSettings {
    /// The name of the kind in files.
    pub const fn name(&self) -> &'static str {
        match self {
            SwitchSettings::Scheduled(_) => "scheduled",
            SwitchSettings::Crossbar(_) => "crossbar",
            SwitchSettings::FifoBus(_) => "fifo_bus",
            SwitchSettings::OutputBuffered(_) => "output_buffered",
            SwitchSettings::InputQueued(_) => "input_queued",
            SwitchSettings::OutputQueued(_) => "output_queued",
            SwitchSettings::SharedMemory(_) => "shared_memory",
            SwitchSettings::SharedBuffer(_) => "shared_buffer",
            SwitchSettings::Ring(_) => "ring",
            SwitchSettings::Hub(_) => "hub",
        }
    }
}

impl ScheduledSettings {
    /// The length of a slot: the packet and the gap fill what the re-lock leaves of it.
    pub fn slot(&self, packet: Span) -> Span {
        let useful = (packet + self.gap).0 as f64;
        Span((useful / (1.0 - self.relock.get())).round() as u64)
    }
}
