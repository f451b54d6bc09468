//! The word on which a program sleeps, and which every message stimulates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::counting_flag::CountingFlag;
use weft_protocol::interrupt_flag::{InterruptFlag, Sleep};

/// What the flag word of a host contains. Both variants interrupt on the same stimuli.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "HostFlagSettings")]
pub enum FlagSettings {
    /// Whether the program sleeps, without counting: the flag of `weft live`.
    #[default]
    Sleepers,
    /// A counter that the adapter increments at every stimulus; it interrupts if the most
    /// significant bit was zero before (SCILAN 3.2). Stimuli that did not interrupt can thus be
    /// seen in memory.
    Counting,
}

impl FlagSettings {
    pub(super) fn is_default(&self) -> bool {
        *self == FlagSettings::default()
    }
}

/// A flag of one of the kinds.
#[derive(Debug)]
pub(super) enum Flag {
    Sleepers(InterruptFlag),
    Counting(CountingFlag),
}

impl Flag {
    pub fn new(settings: FlagSettings) -> Flag {
        match settings {
            FlagSettings::Sleepers => Flag::Sleepers(InterruptFlag::default()),
            FlagSettings::Counting => Flag::Counting(CountingFlag::default()),
        }
    }

    /// The program goes to sleep. Returns how many stimuli were counted while it was awake.
    pub fn enable(&self) -> u32 {
        match self {
            Flag::Sleepers(flag) => {
                // The flag's word is what the kernel would sleep on; here no thread sleeps.
                let _ = flag.arm(Sleep::InKernel);
                0
            }
            Flag::Counting(flag) => flag.enable(),
        }
    }

    /// The program does not sleep after all.
    pub fn disable(&self) {
        match self {
            Flag::Sleepers(flag) => flag.disarm(Sleep::InKernel),
            Flag::Counting(flag) => drop(flag.disable()),
        }
    }

    /// Returns whether a sleeping program is interrupted.
    pub fn stimulate(&self) -> bool {
        match self {
            Flag::Sleepers(flag) => flag.stimulate().includes(Sleep::InKernel),
            Flag::Counting(flag) => flag.stimulate(),
        }
    }

    /// The current count of the word; none if it does not count.
    pub fn counted(&self) -> Option<u32> {
        match self {
            Flag::Sleepers(_) => None,
            Flag::Counting(flag) => Some(flag.counted()),
        }
    }
}
