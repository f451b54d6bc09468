//! Process groups: which ranks take part in a collective operation.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::schema::{Node, NodeType};
use super::wrong;
use crate::trace::error::TraceError;

/// The ranks of each group by its name. All ranks are the group without a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Groups {
    named: BTreeMap<String, Vec<u16>>,
    ranks: u16,
}

/// A group as PyTorch records it in the node in which it initialises them.
#[derive(Deserialize)]
struct Recorded {
    pg_name: String,
    ranks: Vec<u64>,
}

impl Groups {
    /// All ranks alone.
    pub fn of_all(ranks: u16) -> Groups {
        Groups { named: BTreeMap::new(), ranks }
    }

    /// The groups in a file of ASTRA-sim, such as `{"1": [0, 1], "2": [2, 3]}`.
    pub fn of_file(file: &Path, ranks: u16) -> Result<Groups, TraceError> {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|error| TraceError::Unreadable(error.to_string()))?;
        let named: BTreeMap<String, Vec<u64>> = serde_json::from_str(&text).map_err(|error| {
            TraceError::Unreadable(format!(
                "{error}; accepted: an object with a list of ranks a group, such as {{\"1\": [0, 1]}}"
            ))
        })?;
        let mut groups = Groups::of_all(ranks);
        for (name, members) in named {
            let own = groups.members(&members);
            let own = own.map_err(|why| TraceError::Unreadable(format!("group {name}: {why}")))?;
            groups.named.insert(name, own);
        }
        Ok(groups)
    }

    /// Adds the groups that a node names, if it is one that initialises them.
    pub fn read(&mut self, node: &Node) -> Result<(), TraceError> {
        let is_metadata = node.r#type == NodeType::Metadata as i32;
        let Some(values) = node.inputs.as_ref().filter(|_| is_metadata) else { return Ok(()) };
        // A list with one text, which is a list in JSON itself.
        let (Some(begin), Some(end)) = (values.values.find("[{"), values.values.rfind("}]")) else {
            return Ok(());
        };
        let text = values.values.get(begin..end + 2).unwrap_or_default();
        let recorded: Vec<Recorded> = serde_json::from_str(text)
            .map_err(|error| wrong(node, format!("process groups that cannot be read: {error}")))?;
        for Recorded { pg_name, ranks } in recorded {
            let members = self.members(&ranks);
            let members = members.map_err(|why| wrong(node, format!("group {pg_name}: {why}")))?;
            match self.named.get(&pg_name) {
                Some(other) if *other != members => {
                    let why = format!("group {pg_name} is not the one that another file has");
                    return Err(wrong(node, why));
                }
                _ => self.named.insert(pg_name, members),
            };
        }
        Ok(())
    }

    /// Ranks in the order of the group; empty for all ranks.
    fn members(&self, given: &[u64]) -> Result<Vec<u16>, String> {
        if given.is_empty() {
            return Ok((0..self.ranks).collect());
        }
        let mut members = Vec::with_capacity(given.len());
        for rank in given {
            match u16::try_from(*rank).ok().filter(|rank| *rank < self.ranks) {
                Some(rank) if !members.contains(&rank) => members.push(rank),
                Some(rank) => return Err(format!("rank {rank} twice")),
                None => {
                    return Err(format!("rank {rank} where 0 to {} are accepted", self.ranks - 1));
                }
            }
        }
        Ok(members)
    }

    /// The ranks of the group of a node, which its own rank is in.
    pub fn of(&self, name: &str, node: &Node, rank: u16) -> Result<Vec<u16>, TraceError> {
        let members = match self.named.get(name) {
            Some(members) => members.clone(),
            None if name.is_empty() => (0..self.ranks).collect(),
            None => {
                let known = self.named.keys().cloned().collect::<Vec<_>>().join(", ");
                let known = if known.is_empty() { "none is given" } else { &known };
                return Err(wrong(
                    node,
                    format!(
                        "pg_name = {name}, a group that nothing describes ({known}); accepted: one of \
                             a metadata node of the trace, or of the file `groups`"
                    ),
                ));
            }
        };
        match members.contains(&rank) {
            true => Ok(members),
            false => Err(wrong(node, format!("pg_name = {name}, whose ranks are {members:?}"))),
        }
    }
}
