//! The operation of one node of a trace.

use weft_units::{Bytes, Rate, Span};

use super::schema::{CollectiveType, Node, NodeType, Value};
use super::{Roofline, wrong};
use crate::trace::collectives::Collective;
use crate::trace::error::TraceError;
use crate::trace::schedule::{LARGEST, LONGEST};

/// The operation of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Deed {
    /// Its accelerator computes, or one of the host's own processors.
    Compute {
        takes: Span,
        on_host: bool,
    },
    /// Time passes without occupying a processor.
    Pass(Span),
    Send {
        to: u64,
        tag: u32,
        size: Bytes,
    },
    Receive {
        from: u64,
        tag: u32,
        size: Bytes,
    },
    /// A collective operation of a process group.
    Collective {
        operation: Collective,
        size: Bytes,
        root: Option<u64>,
        group: String,
    },
}

/// Tags of messages of nodes are below this; tags from here on are those of collectives.
pub(super) const TAGS: u32 = 0x8000_0000;

impl Deed {
    /// The operation of a node of the trace of `rank`.
    pub fn of(node: &Node, rank: u16, roofline: Roofline) -> Result<Deed, TraceError> {
        let recorded = recorded(node)?;
        match NodeType::try_from(node.r#type) {
            Ok(NodeType::Compute) => {
                let takes = match recorded {
                    Some(takes) => takes,
                    None => computed(node, roofline)?,
                };
                let on_host = matches!(value(node, "is_cpu_op"), Some(Value::Bool(true)));
                Ok(Deed::Compute { takes, on_host })
            }
            Ok(NodeType::MemoryLoad | NodeType::MemoryStore) => match recorded {
                Some(takes) => Ok(Deed::Pass(takes)),
                None => Ok(Deed::Pass(moved(node, roofline.memory)?)),
            },
            Ok(NodeType::Send) => {
                check_own(node, "comm_src", rank)?;
                let (to, tag) = (needed(node, "comm_dst")?, tag(node)?);
                Ok(Deed::Send { to, tag, size: size(node, "comm_size")? })
            }
            Ok(NodeType::Receive) => {
                check_own(node, "comm_dst", rank)?;
                let (from, tag) = (needed(node, "comm_src")?, tag(node)?);
                Ok(Deed::Receive { from, tag, size: size(node, "comm_size")? })
            }
            Ok(NodeType::Collective) => collective(node),
            Ok(_) => Ok(Deed::Pass(recorded.unwrap_or(Span::ZERO))),
            Err(_) => {
                let accepted = "0 to 10, the types of schema 0.0.4";
                Err(wrong(node, format!("type {}, where {accepted} are accepted", node.r#type)))
            }
        }
    }
}

/// A value of a node by its name.
fn value<'a>(node: &'a Node, name: &str) -> Option<&'a Value> {
    node.attr.iter().find(|own| own.name == name).and_then(|own| own.value.as_ref())
}

/// A whole number of a node, whichever type the writer gave it.
fn number(node: &Node, name: &str) -> Result<Option<u64>, TraceError> {
    let Some(value) = value(node, name) else { return Ok(None) };
    let whole = match value {
        Value::Int32(own) | Value::Sint32(own) | Value::Sfixed32(own) => u64::try_from(*own).ok(),
        Value::Int64(own) | Value::Sint64(own) | Value::Sfixed64(own) => u64::try_from(*own).ok(),
        Value::Uint32(own) | Value::Fixed32(own) => Some((*own).into()),
        Value::Uint64(own) | Value::Fixed64(own) => Some(*own),
        Value::String(text) => text.parse().ok(),
        Value::Float(_) | Value::Double(_) | Value::Bool(_) => None,
    };
    match whole {
        Some(whole) => Ok(Some(whole)),
        None => Err(wrong(node, format!("{name} = {value:?}, where a whole number is accepted"))),
    }
}

fn needed(node: &Node, name: &str) -> Result<u64, TraceError> {
    match number(node, name)? {
        Some(number) => Ok(number),
        None => Err(wrong(node, format!("without {name}, which a node of its type has"))),
    }
}

fn size(node: &Node, name: &str) -> Result<Bytes, TraceError> {
    let size = needed(node, name)?;
    match size <= LARGEST.0 {
        true => Ok(Bytes(size)),
        false => {
            Err(wrong(node, format!("{name} = {size} B, where up to {} are accepted", LARGEST.0)))
        }
    }
}

fn tag(node: &Node) -> Result<u32, TraceError> {
    let tag = number(node, "comm_tag")?.unwrap_or(0);
    match u32::try_from(tag).ok().filter(|tag| *tag < TAGS) {
        Some(tag) => Ok(tag),
        None => Err(wrong(node, format!("comm_tag = {tag}, where 0 to {} are accepted", TAGS - 1))),
    }
}

/// A node that sends or receives belongs to the rank of its file.
fn check_own(node: &Node, name: &str, rank: u16) -> Result<(), TraceError> {
    match number(node, name)? {
        Some(other) if other != u64::from(rank) => {
            Err(wrong(node, format!("{name} = {other} in the file of rank {rank}")))
        }
        _ => Ok(()),
    }
}

/// The recorded duration of a node; 0 if it was not recorded.
fn recorded(node: &Node) -> Result<Option<Span>, TraceError> {
    let micros = node.duration_micros;
    match micros <= LONGEST.0 / 1_000_000 {
        true => Ok((micros > 0).then_some(Span(micros * 1_000_000))),
        false => {
            Err(wrong(node, format!("duration_micros = {micros}, longer than a run can take")))
        }
    }
}

/// The duration of a computation: that of its operations or of the bytes that it touches, whichever
/// is longer.
fn computed(node: &Node, roofline: Roofline) -> Result<Span, TraceError> {
    let operations = number(node, "num_ops")?.unwrap_or(0);
    if operations == 0 {
        return Ok(Span::ZERO);
    }
    let Some(peak) = roofline.peak else {
        let accepted = "a duration_micros, or `peak`, the operations a second of the accelerator";
        return Err(wrong(
            node,
            format!("num_ops = {operations} and no duration: needed is {accepted}"),
        ));
    };
    let picoseconds = (operations as f64 / peak * 1e12).round();
    // As a whole number once it is known to be one.
    if picoseconds > LONGEST.0 as f64 {
        let why = format!("num_ops = {operations}, which takes longer than a run can at {peak}/s");
        return Err(wrong(node, why));
    }
    let touched = match (number(node, "tensor_size")?, roofline.memory) {
        (Some(_), Some(_)) => moved(node, roofline.memory)?,
        _ => Span::ZERO,
    };
    Ok(Span(picoseconds as u64).max(touched))
}

/// How long the bytes of a node take to or from memory.
fn moved(node: &Node, memory: Option<Rate>) -> Result<Span, TraceError> {
    let size = match number(node, "tensor_size")? {
        None | Some(0) => return Ok(Span::ZERO),
        Some(_) => size(node, "tensor_size")?,
    };
    match memory {
        Some(rate) => Ok(rate.span(size)),
        None => {
            let accepted = "a duration_micros, or `memory`, the rate of the memory";
            Err(wrong(
                node,
                format!("tensor_size = {} B and no duration: needed is {accepted}", size.0),
            ))
        }
    }
}

/// A collective operation. `comm_size` is the contribution of each rank, as in ASTRA-sim.
fn collective(node: &Node) -> Result<Deed, TraceError> {
    let kind = needed(node, "comm_type")?;
    let known = i32::try_from(kind).ok().and_then(|kind| CollectiveType::try_from(kind).ok());
    let operation = match known {
        Some(CollectiveType::AllReduce) => Collective::AllreduceRing,
        Some(CollectiveType::Reduce) => Collective::Reduce,
        Some(CollectiveType::AllGather) => Collective::AllgatherRing,
        Some(CollectiveType::Gather) => Collective::Gather,
        Some(CollectiveType::Scatter) => Collective::Scatter,
        Some(CollectiveType::Broadcast) => Collective::Broadcast,
        Some(CollectiveType::AllToAll) => Collective::AllToAll,
        Some(CollectiveType::ReduceScatter | CollectiveType::ReduceScatterBlock) => {
            Collective::ReduceScatterRing
        }
        Some(CollectiveType::Barrier) => Collective::Barrier,
        None => {
            let why =
                format!("comm_type = {kind}, where 0 (ALL_REDUCE) to 9 (BARRIER) are accepted");
            return Err(wrong(node, why));
        }
    };
    let size = match operation {
        Collective::Barrier => Bytes(0),
        _ => size(node, "comm_size")?,
    };
    let group = match value(node, "pg_name") {
        None => String::new(),
        Some(Value::String(name)) => name.clone(),
        // Some writers give it as a number.
        Some(_) => needed(node, "pg_name")?.to_string(),
    };
    Ok(Deed::Collective { operation, size, root: number(node, "root")?, group })
}
