//! The settings of an adapter's transport.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::congestion::CongestionControlSettings;
use weft_protocol::misfit::Misfit;
use weft_protocol::spraying::SprayingSettings;
use weft_protocol::transport::LossRecovery;
use weft_units::{Bytes, PositiveCount, Span};

/// Settings of the transport of flows. Each flow in progress has its own queue pair; the flows of a
/// host that may send take turns, packet by packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransportSettings {
    /// How lost packets are retransmitted.
    #[serde(default)]
    pub reliability: LossRecovery,
    /// The congestion control; without one a flow is sent at the rate of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<CongestionControlSettings>,
    /// Whether a flow inherits the state of congestion control from an earlier one.
    #[serde(default, skip_serializing_if = "QueuePairs::are_per_flow")]
    pub queue_pairs: QueuePairs,
    /// How the initiator spreads packets over routes where `routes.per_connection` gives a flow
    /// one; without it, all packets of a flow take the same route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spraying: Option<SprayingSettings>,
    /// The largest number of bytes of a flow in flight, counted as on the wire; at least one
    /// packet. Unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Bytes>,
    /// The size on the wire of an acknowledgment, a congestion notification, and a grant of credits or a request for
    /// them.
    pub acknowledgment: Bytes,
    /// Their traffic class.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub acknowledgment_class: u8,
    /// After how many received bytes, counted as on the wire, the target sends an acknowledgment;
    /// after every packet if not given. It immediately acknowledges the first packet of a flow, a
    /// marked packet, a duplicate, and packets for which the sender asks: the last one, one that
    /// fills the window, and retransmissions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_after: Option<Bytes>,
    /// After this time without an acknowledgment of new data, all bytes in flight count as lost;
    /// after this time without credits, where credits are needed, the initiator requests them
    /// again.
    pub timeout: Span,
    /// With `selective_repeat`: how many packets may overtake a packet before it counts as lost. 1
    /// by default, as in IRN; more if packets take several routes. A retransmission counts as lost in the same
    /// way, by packets that were first sent after the last retransmission.
    #[serde(default = "one")]
    pub reordering: PositiveCount,
}

/// What happens to the queue pair of a flow, and to its congestion control, when the flow has
/// ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueuePairs {
    /// It is closed. Every flow starts afresh.
    #[default]
    PerFlow,
    /// It is kept for the next flow of its class between the same two hosts, which continues at its
    /// rate or with its window. If all kept queue pairs are in use, a new one is opened.
    Kept,
}

impl QueuePairs {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
    fn are_per_flow(&self) -> bool {
        *self == QueuePairs::PerFlow
    }
}

fn one() -> PositiveCount {
    PositiveCount::ONE
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(class: &u8) -> bool {
    *class == 0
}

impl TransportSettings {
    /// What is wrong with the settings, if anything is: the key below them, its value and what is accepted.
    pub fn check(&self) -> Result<(), Misfit> {
        if self.timeout == Span::ZERO {
            return Err(Misfit::new("timeout", self.timeout, "a time above 0"));
        }
        if self.acknowledgment == Bytes(0) {
            let accepted = "a size above 0";
            return Err(Misfit::new("acknowledgment", self.acknowledgment, accepted));
        }
        if self.reliability == LossRecovery::GoBackN && self.reordering != PositiveCount::ONE {
            let accepted = "it only with selective_repeat: go_back_n keeps nothing that overtakes";
            return Err(Misfit::new("reordering", self.reordering, accepted));
        }
        if self.acknowledged_after.is_some() && self.reliability == LossRecovery::GoBackN {
            let accepted = "selective_repeat beside acknowledged_after: an answer of go_back_n says nothing of \
                            single packets";
            return Err(Misfit::new("reliability", self.reliability.name(), accepted));
        }
        self.spraying.map_or(Ok(()), |own| own.check())?;
        let of_target = self.congestion_control.as_ref().and_then(|own| own.credits()).is_some();
        if self.queue_pairs == QueuePairs::Kept && (self.congestion_control.is_none() || of_target)
        {
            let accepted = "per_flow without congestion_control, which leaves nothing to keep, and with rccc, whose \
                            credits are counted from the beginning of a flow at both of its ends";
            return Err(Misfit::new("queue_pairs", "kept", accepted));
        }
        self.congestion_control.as_ref().map_or(Ok(()), |control| control.check())
    }
}
