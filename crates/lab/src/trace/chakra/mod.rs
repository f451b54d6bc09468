//! Chakra execution traces of MLCommons (`NAME.0.et`, `NAME.1.et`, ..., one file per rank), as
//! PyTorch's recorder and generators for ASTRA-sim write them.
//!
//! A file is a sequence of Protocol Buffers messages, each prefixed by its length: one of metadata,
//! then one per node. A node waits for the nodes of the same file that it names as its control or
//! data dependencies. How each kind of node is simulated:
//!
//! | node | simulated as |
//! |---|---|
//! | compute | its recorded duration, or its operations and bytes under a [`Roofline`]; one at a time on the accelerator, and one on the host (`is_cpu_op`) |
//! | memory load, store | its recorded duration, or its bytes at the rate of the memory; overlaps with anything |
//! | send, receive | a message with `comm_tag` |
//! | collective | the messages of an algorithm: rings for all-reduce, all-gather and reduce-scatter, binomial trees from or to `root` (the first of the group if absent) for broadcast, reduce, gather and scatter, from every rank to every other for all-to-all, dissemination for a barrier |
//! | others | their recorded duration, which is often zero |
//!
//! The ranks of a group match its collectives in the order in which these appear in their files.
//! `comm_size` is the contribution of each rank: for an all-to-all the total that it sends.

mod groups;
mod node;
mod schema;
mod splice;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use prost::Message;
use weft_units::Rate;

use super::error::TraceError;
use super::schedule::Schedule;
use groups::Groups;
use schema::{GlobalMetadata, Node};
use splice::Splicer;

/// The operations and bytes per second of an accelerator and its memory, for nodes that state their
/// work and not their time (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Roofline {
    /// Operations a second.
    pub peak: Option<f64>,
    /// To and from memory.
    pub memory: Option<Rate>,
}

/// The files of all ranks: `NAME.0.et` and the following ones, given `NAME` or any of the files.
pub fn files(name: &str) -> Result<Vec<PathBuf>, TraceError> {
    let bare = name.strip_suffix(".et").unwrap_or(name);
    let prefix = match bare.rsplit_once('.') {
        Some((prefix, rank)) if bare != name && rank.parse::<u16>().is_ok() => prefix,
        _ => bare,
    };
    let of = |rank: u32| PathBuf::from(format!("{prefix}.{rank}.et"));
    let all: Vec<PathBuf> = (0..).map(of).take_while(|path| path.is_file()).collect();
    match all.len() {
        0 => Err(TraceError::Unreadable(format!(
            "{prefix}.0.et is not there; accepted: NAME of NAME.0.et, NAME.1.et, ..., a file a rank"
        ))),
        count if count > usize::from(u16::MAX) => {
            Err(TraceError::TooManyRanks { count, ranks: u16::MAX })
        }
        _ => Ok(all),
    }
}

/// Reads a trace from its files, by rank. `groups` is a file of process groups.
pub fn read(
    files: &[PathBuf],
    groups: Option<&Path>,
    roofline: Roofline,
) -> Result<Schedule, TraceError> {
    if let Some(peak) = roofline.peak.filter(|peak| !peak.is_finite() || *peak <= 0.0) {
        let accepted = "a number of operations a second above 0";
        return Err(TraceError::Unreadable(format!("peak = {peak}, where {accepted} is accepted")));
    }
    // `files` counts them.
    let ranks = files.len() as u16;
    let mut groups = match groups {
        None => Groups::of_all(ranks),
        Some(file) => Groups::of_file(file, ranks).map_err(|error| inside(file, error))?,
    };
    let mut traces = Vec::with_capacity(files.len());
    for file in files {
        let nodes = nodes(file).map_err(|error| inside(file, error))?;
        for node in &nodes {
            groups.read(node).map_err(|error| inside(file, error))?;
        }
        traces.push(nodes);
    }
    let mut splicer = Splicer::new(ranks, &groups, roofline);
    for (rank, (nodes, file)) in (0..).zip(traces.iter().zip(files)) {
        splicer.add(rank, nodes).map_err(|error| inside(file, error))?;
    }
    splicer.finish(&traces).map_err(|(rank, error)| inside(&files[usize::from(rank)], error))
}

/// The nodes of a file in its order.
fn nodes(path: &Path) -> Result<Vec<Node>, TraceError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| TraceError::Unreadable(error.to_string()))?;
    let mut rest = bytes.as_slice();
    let _: GlobalMetadata = message(&mut rest, bytes.len(), "the metadata of a Chakra trace")?;
    let mut nodes = Vec::new();
    while !rest.is_empty() {
        nodes.push(message(&mut rest, bytes.len(), "a node behind its length")?);
    }
    Ok(nodes)
}

/// The next message of a file of this many bytes.
fn message<M: Message + Default>(
    rest: &mut &[u8],
    length: usize,
    accepted: &str,
) -> Result<M, TraceError> {
    let at = length - rest.len();
    M::decode_length_delimited(&mut *rest).map_err(|error| {
        TraceError::Unreadable(format!("at byte {at}, where {accepted} is accepted: {error}"))
    })
}

/// What is wrong with a node.
fn wrong(node: &Node, why: String) -> TraceError {
    TraceError::Node { id: node.id, name: node.name.clone(), why }
}

fn inside(file: &Path, error: TraceError) -> TraceError {
    TraceError::In { file: file.display().to_string(), error: Box::new(error) }
}
