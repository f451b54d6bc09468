//! How a file says which trace runs.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weft_units::{Bytes, PositiveCount};

use super::collectives::Collective;
use super::error::TraceError;
use super::schedule::Schedule;
use super::{goal, independent};

/// A recorded program, or a collective operation by one of its algorithms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TraceSettings {
    /// A GOAL text, as LogGOPSim and ATLAHS have it.
    Goal {
        /// The file, from the current folder.
        file: String,
    },
    /// A time-independent trace of SimGrid, all ranks in one file.
    TimeIndependent {
        /// The file, from the current folder.
        file: String,
        /// Instructions that a processor carries out a second.
        #[schemars(extend("x-unit" = "1/s"))]
        speed: f64,
    },
    /// A collective operation of all ranks.
    Collective {
        /// Which, by which algorithm.
        operation: Collective,
        /// Bytes of each rank.
        #[serde(default)]
        size: Bytes,
        /// How many times, one after another.
        #[serde(default = "once")]
        rounds: PositiveCount,
    },
}

fn once() -> PositiveCount {
    PositiveCount::ONE
}

impl TraceSettings {
    /// Reads or makes the schedule for so many ranks, of which a trace may name fewer.
    pub fn schedule_for(&self, ranks: u16) -> Result<Schedule, TraceError> {
        let schedule = self.schedule(ranks)?;
        let count = schedule.ranks.len();
        if count > usize::from(ranks) {
            return Err(TraceError::TooManyRanks { count, ranks });
        }
        Ok(schedule)
    }

    /// What a run depends on besides the settings: the SHA-256 of the file, if there is one.
    pub fn digest(&self) -> Result<Option<String>, TraceError> {
        let (TraceSettings::Goal { file } | TraceSettings::TimeIndependent { file, .. }) = self
        else {
            return Ok(None);
        };
        let mut digest = Sha256::new();
        let copied = std::io::copy(&mut open(file)?, &mut digest);
        copied.map_err(|error| TraceError::Unreadable(format!("{file}: {error}")))?;
        Ok(Some(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    fn schedule(&self, ranks: u16) -> Result<Schedule, TraceError> {
        match self {
            TraceSettings::Goal { file } => goal::read(open(file)?),
            TraceSettings::TimeIndependent { file, speed } => {
                if !speed.is_finite() || *speed <= 0.0 {
                    return Err(TraceError::Unreadable(format!(
                        "speed = {speed}, where a number of instructions a second is accepted"
                    )));
                }
                independent::read(open(file)?, ranks, *speed)
            }
            TraceSettings::Collective { operation, size, rounds } => {
                Ok(operation.schedule(ranks, *size, rounds.get()))
            }
        }
    }
}

fn open(file: &str) -> Result<BufReader<File>, TraceError> {
    let opened = File::open(Path::new(file));
    opened.map(BufReader::new).map_err(|error| TraceError::Unreadable(format!("{file}: {error}")))
}
