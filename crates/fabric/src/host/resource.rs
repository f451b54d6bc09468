//! A resource of a host that is occupied by one use at a time: processor, system bus, PCI.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Rate, Span};

/// A resource: processor, system bus, PCI behind its bridge, memory of an adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceSettings {
    /// The rate of one traversal. A stage that moves its bytes across the resource several times
    /// holds it that many times longer. Without a value the resource is held but does not slow
    /// anything down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// What was done with a resource of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resource {
    /// Whether a stage holds it.
    pub held: bool,
    /// How long it was held.
    pub busy: Span,
    /// How often it was held.
    pub uses: u64,
    /// Bytes that crossed it, each counted once a traversal.
    pub crossed: Bytes,
}

impl Resource {
    pub(super) fn hold(&mut self, span: Span, crossed: Bytes) {
        debug_assert!(!self.held);
        self.held = true;
        self.busy += span;
        self.uses += 1;
        self.crossed += crossed;
    }

    /// Adds what was done with the same resource of another host.
    pub fn add(&mut self, other: &Resource) {
        self.busy += other.busy;
        self.uses += other.uses;
        self.crossed += other.crossed;
    }
}
