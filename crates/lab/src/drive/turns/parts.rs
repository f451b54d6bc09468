//! What a channel of links with turns is made of.

use weft_fabric::adapter::{Release, ThrottleSettings};
use weft_fabric::fabric::{Routes, Wiring};
use weft_fabric::interface::TransferSettings;
use weft_fabric::link::{Errors, TurnTiming};
use weft_fabric::measure::Observations;
use weft_fabric::switch::BoxRules;
use weft_fabric::workload::Source;
use weft_protocol::turns::{PACKET, Rules, packets_of};
use weft_units::{Bytes, Limit, Time};

/// What a channel of links with turns is made of.
#[derive(Debug)]
pub struct TurnParts {
    /// Which switches and cables there are.
    pub wiring: Wiring,
    /// Which ways messages take.
    pub routes: Routes,
    /// What the links are like.
    pub link: LinkParts,
    /// The way between the memory of a host and its FIFOs.
    pub transfer: TransferSettings,
    /// What each switch is like.
    pub switches: Vec<BoxRules>,
    /// How many messages of its source an adapter holds, and until when.
    pub send_buffers: Limit,
    /// How often a host may begin with a message.
    pub throttle: Option<ThrottleSettings>,
    /// When a message leaves the adapter.
    pub release: Release,
    /// What a message of the workload carries.
    pub payload: Bytes,
    /// The source of each host, or none.
    pub sources: Vec<Source>,
    /// Where the observations go.
    pub observations: Observations,
}

/// What the links are like.
#[derive(Debug)]
pub struct LinkParts {
    /// What its ends agree on.
    pub rules: Rules,
    /// How many packets each FIFO holds.
    pub capacity: u16,
    /// How long everything takes on each kind of cable.
    pub timings: Vec<TurnTiming>,
    /// What is moved as a whole, a multiple of 16 bytes.
    pub packet: Bytes,
    /// When the first turn begins, for each link: those of the hosts first.
    pub phases: Vec<Time>,
    /// What happens to the packets that each station sends: the hosts, then the ports of switches.
    /// Empty on links free of errors.
    pub errors: Vec<Errors>,
}

impl LinkParts {
    /// How many packets a message with so much payload takes.
    pub fn packets(&self, payload: Bytes) -> u32 {
        let packets = (packets_of(payload.0) * PACKET as u64).div_ceil(self.packet.0);
        u32::try_from(packets).unwrap_or(u32::MAX)
    }
}
