//! What the interconnect of a cluster costs, for the technologies that a document compares.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Length, PositiveCount};

/// Prices of technologies (SCILAN 4.8, Table 4). They do not affect a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    /// How many nodes the system has that is priced.
    pub nodes: PositiveCount,
    /// The technologies, by name.
    pub offers: BTreeMap<String, OfferSettings>,
}

/// What one technology costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OfferSettings {
    /// An adapter with its cable, in US dollars.
    pub adapter: u32,
    /// A port of a switch, in US dollars; 0 without switches.
    pub port: u32,
    /// How far a node may be from its switch, or from the next node.
    pub distance: Length,
}

impl PriceSettings {
    /// What a system costs with one of the offers, in US dollars: an adapter and a port a node.
    pub fn system(&self, offer: &OfferSettings) -> u64 {
        u64::from(self.nodes.get()) * (u64::from(offer.adapter) + u64::from(offer.port))
    }
}
