//! The types that the tests read: a small system in the shape of the real ones.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_lab::spec::Tree;
use weft_units::{Bytes, Limit, Load, PositiveCount, Rate, Span};

#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct System {
    pub title: String,
    /// How many hosts there are.
    pub hosts: PositiveCount,
    pub channel: BTreeMap<String, Channel>,
    #[serde(default)]
    pub published: Vec<Published>,
}

#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    pub packet: Bytes,
    pub link: Link,
    pub switch: Switch,
    #[serde(default)]
    pub load: Load,
}

#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bits that pass in a time.
    pub rate: Rate,
    pub delay: Span,
}

#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    Scheduled(Scheduled),
    Crossbar(Crossbar),
    OutputQueued,
}

#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scheduled {
    pub gap: Span,
    pub scheduler: Scheduler,
}

#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Scheduler {
    Fewest {
        #[serde(default)]
        rotate: bool,
    },
    Islip {
        iterations: u8,
    },
}

#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Crossbar {
    pub latency: Span,
    pub contention: Contention,
    pub buffers: Limit,
}

#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Contention {
    Drop,
    BackPressure,
}

#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub value: f64,
    pub at: BTreeMap<String, f64>,
}

pub const BASE: &str = r#"title = "Clint"
hosts = { value = 16, stated = "2" }

[channel.bulk]
packet = "2086 B"
[channel.bulk.link]
rate = "2 Gbit/s"
delay = { value = "25 ns", derived = "5 m at 5 ns/m" }
[channel.bulk.switch]
stated = "3"
[channel.bulk.switch.scheduled]
gap = { value = "640 ns", calibrated = "T2", predicts = "F8" }
[channel.bulk.switch.scheduled.scheduler.fewest]
rotate = true

[[published]]
value = 9.5
at = { load = 0.1 }

[preset.literal]
hosts = 8
[preset.fitted.channel.bulk.switch.scheduled]
gap = "700 ns"
"#;

/// The base, without its presets.
pub fn base() -> Tree {
    Tree::parse("clint.toml", BASE).unwrap().without_presets()
}

/// A user's file laid over the base.
pub fn over(text: &str) -> Tree {
    base().merge(Tree::parse("m.toml", text).unwrap())
}
