//! A ring: each station forwards packets for others (IEEE 1596; SCILAN 4.4). A station is the
//! adapter of a host, or a bridge to a switch or to another ring.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Fraction, Length, Limit, PositiveCount, Rate, Span, SpanPerLength};

use crate::fabric::CableSettings;
use crate::link::{LinkErrorSettings, LinkSettings};

mod node;

pub use node::{RingDemand, RingKind, RingNode, RingTurn};

/// A ring of adapters, each connected to the next by one link, and the last to the first. A packet
/// travels to its target, which removes it and sends an acknowledgment onwards to the initiator;
/// every request thus loads the whole ring. Passing packets go before those that an adapter inserts
/// itself.
///
/// In a fabric other than `star` a ring stands in the place of a switch, and its ports are its
/// stations, in their order: a cable from a host to a port makes the host's adapter that station,
/// and a cable from a switch or another ring leads to a bridge. An acknowledgment covers one ring:
/// a bridge takes the place of the target for requests that leave the ring, and of the initiator
/// for those that enter it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RingSettings {
    /// From a byte at the input of an adapter to the same byte at its free output.
    #[serde(default)]
    pub bypass: Span,
    /// Size of an acknowledgment on the wire.
    pub acknowledgment: Bytes,
    /// How many unacknowledged requests an adapter may have.
    #[serde(default = "unlimited")]
    pub outstanding: Limit,
    /// The minimum time from a negative acknowledgment at the initiator to the retransmission.
    #[serde(default)]
    pub retry_after: Span,
    /// The largest number of retransmissions of a request. If the last one is damaged too, the
    /// request is given up: its initiator knows, and its message is lost unless `host.resend`
    /// stores it again.
    #[serde(default = "unlimited")]
    pub retries: Limit,
    /// How the link of each adapter to the next differs from the `link` of the channel: one entry
    /// for each port, in a star for each host, from 0 on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<RingLinkSettings>,
    /// The bridges at ports whose cables lead to a switch or to another ring, which need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<BridgeSettings>,
}

/// The bridges of a ring. A bridge stores each request whole and checks it before it sends it on.
/// It keeps what it puts on the ring until a station there has accepted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BridgeSettings {
    /// How many requests a bridge holds in each direction, from the last byte of each in it:
    /// towards its cable until it is sent, towards its ring until a station there has accepted it.
    /// One that comes round the ring and finds no room is refused and repeated. To the far end of
    /// its cable a bridge gives a credit for each free place.
    pub buffer: PositiveCount,
    /// From the last byte of a request in a bridge to its first byte at a free output.
    #[serde(default)]
    pub latency: Span,
}

/// How the link of an adapter to the next differs from those of its ring. Anything not given is that of the
/// `link` of the channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RingLinkSettings {
    /// Data rate, without the line code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Length of the cable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Length>,
    /// Propagation delay of the cable for each metre.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_per_metre: Option<SpanPerLength>,
    /// Fraction of the rate that is taken by traffic that is not modelled packet by packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Fraction>,
    /// The errors of requests on this link, whoever sent them, in addition to the `errors` of the channel at the
    /// adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<LinkErrorSettings>,
}

impl RingLinkSettings {
    fn cable(&self) -> CableSettings {
        let RingLinkSettings { rate, length, delay_per_metre, reserved, .. } = *self;
        CableSettings { rate, length, delay_per_metre, reserved }
    }
}

impl RingSettings {
    /// The link of each of so many stations to the next, on a channel whose link is `link`.
    pub fn links(&self, stations: usize, link: &LinkSettings) -> Vec<LinkSettings> {
        let own = |station| {
            let own = self.links.get(station).map(RingLinkSettings::cable);
            own.map_or_else(|| link.clone(), |own| own.over(link))
        };
        (0..stations).map(own).collect()
    }
}

fn unlimited() -> Limit {
    Limit::Unlimited
}
