//! How a file says which trace runs.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use weft_units::{Bytes, PositiveCount, Rate};

use super::collectives::{Collective, Payload};
use super::error::TraceError;
use super::flows::hpcc::Nodes;
use super::flows::{connection_matrix, hpcc};
use super::schedule::{LARGEST, Schedule};
use super::{chakra, goal, independent};

/// A recorded program, or a collective operation by one of its algorithms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TraceSettings {
    /// A GOAL text, as LogGOPSim and ATLAHS have it.
    Goal {
        /// The file, from the folder of the file that names it; from the current folder where an
        /// override does.
        file: String,
    },
    /// A time-independent trace of SimGrid, all ranks in one file.
    TimeIndependent {
        /// The file, as of a GOAL text.
        file: String,
        /// Instructions that a processor carries out a second.
        #[schemars(extend("x-unit" = "1/s"))]
        speed: f64,
    },
    /// Flows of a connection matrix of htsim (`.cm`), which start at a time or by triggers.
    ConnectionMatrix {
        /// The file, as of a GOAL text.
        file: String,
    },
    /// Flows of a list of HPCC's simulator (`flow.txt`), which start at a time.
    Flows {
        /// The file, as of a GOAL text.
        file: String,
        /// The `topology.txt` beside it, which says which nodes are switches. Without it every node
        /// is a host.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        topology: Option<String>,
    },
    /// A Chakra execution trace, one file per rank.
    Chakra {
        /// `NAME` of `NAME.0.et`, `NAME.1.et`, ..., or one of these files, as of a GOAL text.
        file: String,
        /// A file of process groups of ASTRA-sim, such as `{"1": [0, 1]}`, for groups that no node
        /// of the trace describes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        groups: Option<String>,
        /// Operations of an accelerator a second, for nodes that have operations and no time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-unit" = "1/s"))]
        peak: Option<f64>,
        /// The rate of its memory, for nodes that have bytes and no time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory: Option<Rate>,
    },
    /// A collective operation of all ranks.
    Collective {
        /// The operation and its algorithm.
        operation: Collective,
        /// Bytes of each rank.
        #[serde(default)]
        size: Bytes,
        /// Bytes of each rank in its order, in place of `size`: for `gather_v`, `scatter_v`,
        /// `allgather_v` and `reduce_scatter_ring`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sizes: Vec<Bytes>,
        /// The rank that has the data at first, or gets it.
        #[serde(default)]
        root: u16,
        /// How many times it runs, one after another.
        #[serde(default = "once")]
        rounds: PositiveCount,
        /// How fast a rank adds what it receives to what it has, in algorithms that sum; takes no
        /// time if not given. The addition occupies the rank's processor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reduction: Option<Rate>,
    },
}

fn once() -> PositiveCount {
    PositiveCount::ONE
}

impl TraceSettings {
    /// Reads or makes the schedule for this many ranks, of which a trace may name fewer.
    pub fn schedule_for(&self, ranks: u16) -> Result<Schedule, TraceError> {
        let schedule = self.schedule(ranks)?;
        check_ranks(schedule.ranks.len(), ranks)?;
        Ok(schedule)
    }

    /// What a run depends on besides the settings: the SHA-256 of the files, if there are any.
    pub fn digest(&self) -> Result<Option<String>, TraceError> {
        let files = self.files()?;
        if files.is_empty() {
            return Ok(None);
        }
        let mut digest = Sha256::new();
        for file in &files {
            let copied = std::io::copy(&mut open(file)?, &mut digest);
            copied.map_err(|error| TraceError::Unreadable(format!("{file}: {error}")))?;
        }
        Ok(Some(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    fn files(&self) -> Result<Vec<String>, TraceError> {
        Ok(match self {
            TraceSettings::Goal { file }
            | TraceSettings::TimeIndependent { file, .. }
            | TraceSettings::ConnectionMatrix { file } => vec![file.clone()],
            TraceSettings::Flows { file, topology } => {
                std::iter::once(file).chain(topology).cloned().collect()
            }
            TraceSettings::Chakra { file, groups, .. } => {
                let all = chakra::files(file)?;
                let names = all.iter().map(|path| path.display().to_string());
                names.chain(groups.clone()).collect()
            }
            TraceSettings::Collective { .. } => Vec::new(),
        })
    }

    /// The settings whatever the files are called.
    pub(crate) fn forget_file(&mut self) {
        match self {
            TraceSettings::Goal { file }
            | TraceSettings::TimeIndependent { file, .. }
            | TraceSettings::ConnectionMatrix { file } => file.clear(),
            TraceSettings::Flows { file, topology } => {
                file.clear();
                topology.iter_mut().for_each(String::clear);
            }
            TraceSettings::Chakra { file, groups, .. } => {
                file.clear();
                groups.iter_mut().for_each(String::clear);
            }
            TraceSettings::Collective { .. } => {}
        }
    }

    fn schedule(&self, ranks: u16) -> Result<Schedule, TraceError> {
        match self {
            TraceSettings::Goal { file } => {
                goal::read(open(file)?).map_err(|error| inside(file, error))
            }
            TraceSettings::TimeIndependent { file, speed } => {
                if !speed.is_finite() || *speed <= 0.0 {
                    return Err(TraceError::Unreadable(format!(
                        "speed = {speed}, where a number of instructions a second is accepted"
                    )));
                }
                let read = || {
                    let count = independent::ranks(open(file)?)?;
                    check_ranks(count, ranks)?;
                    independent::read(open(file)?, count as u16, *speed)
                };
                read().map_err(|error| inside(file, error))
            }
            TraceSettings::ConnectionMatrix { file } => {
                connection_matrix::read(open(file)?).map_err(|error| inside(file, error))
            }
            TraceSettings::Flows { file, topology } => {
                let nodes = match topology {
                    None => Nodes::hosts(ranks),
                    Some(topology) => {
                        Nodes::read(open(topology)?).map_err(|error| inside(topology, error))?
                    }
                };
                hpcc::read(open(file)?, &nodes).map_err(|error| inside(file, error))
            }
            TraceSettings::Chakra { file, groups, peak, memory } => {
                let files = chakra::files(file)?;
                check_ranks(files.len(), ranks)?;
                let roofline = chakra::Roofline { peak: *peak, memory: *memory };
                chakra::read(&files, groups.as_deref().map(Path::new), roofline)
            }
            TraceSettings::Collective { operation, size, sizes, root, rounds, reduction } => {
                check_payload(*operation, ranks, sizes, *root)?;
                if let Some(large) = sizes.iter().chain([size]).find(|size| **size > LARGEST) {
                    return Err(TraceError::TooLarge { line: 0, size: large.0 });
                }
                let payload = Payload { size: *size, sizes, root: *root, reduction: *reduction };
                let schedule = operation.schedule_of(ranks, payload, rounds.get());
                schedule.check_messages()?;
                Ok(schedule)
            }
        }
    }
}

fn check_ranks(count: usize, ranks: u16) -> Result<(), TraceError> {
    match count > usize::from(ranks) {
        true => Err(TraceError::TooManyRanks { count, ranks }),
        false => Ok(()),
    }
}

/// Refuses sizes that an algorithm does not read, or not one for each rank, and a root that is no
/// rank.
fn check_payload(
    operation: Collective,
    ranks: u16,
    sizes: &[Bytes],
    root: u16,
) -> Result<(), TraceError> {
    if root >= ranks {
        return Err(TraceError::UnknownRoot { root, ranks });
    }
    let takes = operation.takes_sizes();
    if sizes.is_empty() || (takes && sizes.len() == usize::from(ranks)) {
        return Ok(());
    }
    let all = Collective::ALL.into_iter().filter(|own| own.takes_sizes());
    let names = all.map(Collective::name).collect::<Vec<_>>().join(", ");
    let accepted = match takes {
        true => format!("{ranks}, one a rank"),
        false => {
            format!("none for {}, whose ranks all have `size`; {names} take them", operation.name())
        }
    };
    Err(TraceError::Sizes { count: sizes.len(), accepted })
}

fn inside(file: &str, error: TraceError) -> TraceError {
    TraceError::In { file: file.to_owned(), error: Box::new(error) }
}

fn open(file: &str) -> Result<BufReader<File>, TraceError> {
    let opened = File::open(Path::new(file));
    opened.map(BufReader::new).map_err(|error| TraceError::Unreadable(format!("{file}: {error}")))
}
