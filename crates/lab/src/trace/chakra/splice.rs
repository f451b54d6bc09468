//! From nodes to the operations of all ranks: collectives become the messages of their algorithms.

use std::collections::{BTreeMap, HashMap};

use weft_units::{Bytes, Span};

use super::groups::Groups;
use super::node::{Deed, TAGS};
use super::schema::Node;
use super::{Roofline, wrong};
use crate::trace::collectives::{Collective, Payload, TAG};
use crate::trace::error::TraceError;
use crate::trace::schedule::{Action, After, Operation, Schedule, Script};

/// The units of a rank: its accelerator, the host's own processor, and the sender.
const ACCELERATOR: u16 = 0;
const HOST: u16 = 1;
const SENDER: u16 = 2;

/// Puts the schedule of all ranks together.
pub(super) struct Splicer<'a> {
    schedule: Schedule,
    groups: &'a Groups,
    roofline: Roofline,
    /// The collectives of each group, by its ranks, in the order in which they meet.
    meetings: BTreeMap<Vec<u16>, Vec<Meeting>>,
    /// How many collectives have tags so far.
    next_tag: u32,
    /// The messages of an algorithm among ranks that are counted from 0.
    algorithms: HashMap<Terms, Algorithm>,
}

/// What the ranks of a collective must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Terms {
    operation: Collective,
    size: Bytes,
    /// Its position in the group.
    root: u16,
    /// How many ranks take part.
    ranks: u16,
}

#[derive(Debug)]
struct Algorithm {
    schedule: Schedule,
    /// How many tags its rounds need.
    tags: u32,
}

/// A collective that a group reaches.
#[derive(Debug)]
struct Meeting {
    terms: Terms,
    /// The offset of the tags of its messages.
    tag: u32,
    /// Where the first rank reaches it, and how many ranks do.
    first: Reached,
    reached: usize,
}

/// The node with which a rank reaches a collective.
#[derive(Clone, Copy, Debug)]
struct Reached {
    rank: u16,
    /// Its place in the file of the rank.
    index: usize,
}

/// The operations with which a node begins and ends.
#[derive(Clone, Copy, Debug)]
struct Spliced {
    begin: u32,
    end: u32,
}

impl<'a> Splicer<'a> {
    pub fn new(ranks: u16, groups: &'a Groups, roofline: Roofline) -> Splicer<'a> {
        Splicer {
            schedule: Schedule::new(ranks),
            groups,
            roofline,
            meetings: BTreeMap::new(),
            next_tag: 0,
            algorithms: HashMap::new(),
        }
    }

    /// Adds the nodes of a rank.
    pub fn add(&mut self, rank: u16, nodes: &[Node]) -> Result<(), TraceError> {
        // By the number of a node.
        let mut places: HashMap<u64, Spliced> = HashMap::with_capacity(nodes.len());
        let mut met: BTreeMap<Vec<u16>, usize> = BTreeMap::new();
        for (index, node) in nodes.iter().enumerate() {
            let place = match Deed::of(node, rank, self.roofline)? {
                Deed::Collective { operation, size, root, group } => {
                    let members = self.groups.of(&group, node, rank)?;
                    let terms = terms(node, operation, size, root, &members)?;
                    let number = met.entry(members.clone()).or_default();
                    *number += 1;
                    self.meet(Reached { rank, index }, node, terms, members, *number - 1)?
                }
                deed => {
                    let operation = self.plain(&deed, node, index)?;
                    let only = self.script(rank).add(operation, &[]);
                    Spliced { begin: only, end: only }
                }
            };
            if places.insert(node.id, place).is_some() {
                return Err(wrong(node, "a number that another node of the file has".to_owned()));
            }
        }
        for node in nodes {
            let waits = places[&node.id].begin;
            for before in node.ctrl_deps.iter().chain(&node.data_deps) {
                let Some(Spliced { end, .. }) = places.get(before) else {
                    let why = format!("it waits for node {before}, which the file does not have");
                    return Err(wrong(node, why));
                };
                self.script(rank).wait(waits, *end, After::Over);
            }
        }
        Ok(())
    }

    /// The schedule, once every rank has been where its groups meet. An error names the rank whose
    /// file it is in.
    pub fn finish(self, traces: &[Vec<Node>]) -> Result<Schedule, (u16, TraceError)> {
        for (members, meetings) in &self.meetings {
            let Some(own) = meetings.iter().find(|own| own.reached < members.len()) else {
                continue;
            };
            let Reached { rank, index } = own.first;
            let why = format!(
                "a collective that {} of {} ranks of its group reach ({members:?}); accepted: as \
                 many collectives of a group in the file of each of its ranks",
                own.reached,
                members.len(),
            );
            return Err((rank, wrong(&traces[usize::from(rank)][index], why)));
        }
        for (script, rank) in self.schedule.ranks.iter().zip(0..) {
            script
                .check(rank)
                .map_err(|error| (rank, in_a_cycle(error, &traces[usize::from(rank)])))?;
        }
        match self.schedule.check_messages() {
            Ok(()) => Ok(self.schedule),
            Err(error) => Err(unmatched(error, traces)),
        }
    }

    fn script(&mut self, rank: u16) -> &mut Script {
        &mut self.schedule.ranks[usize::from(rank)]
    }

    /// The operation of a node that is one.
    fn plain(&self, deed: &Deed, node: &Node, index: usize) -> Result<Operation, TraceError> {
        let ranks = self.schedule.ranks.len();
        let known = |rank: u64| match u16::try_from(rank) {
            Ok(known) if usize::from(known) < ranks => Ok(known),
            _ => Err(wrong(node, format!("rank {rank} where 0 to {} are accepted", ranks - 1))),
        };
        let (action, cpu) = match *deed {
            Deed::Compute { takes, on_host } => {
                (Action::Compute(takes), if on_host { HOST } else { ACCELERATOR })
            }
            Deed::Send { to, tag, size } => (Action::Send { to: known(to)?, tag, size }, SENDER),
            Deed::Receive { from, tag, size } => {
                (Action::Receive { from: known(from)?, tag, size }, SENDER)
            }
            Deed::Pass(takes) => (Action::Sleep(takes), ACCELERATOR),
            // `add` makes its messages.
            Deed::Collective { .. } => (Action::Sleep(Span::ZERO), ACCELERATOR),
        };
        Ok(Operation { action, cpu, nic: 0, line: line(index) })
    }

    /// A rank reaches a collective of its group, the one of this number.
    fn meet(
        &mut self,
        place: Reached,
        node: &Node,
        terms: Terms,
        members: Vec<u16>,
        number: usize,
    ) -> Result<Spliced, TraceError> {
        let algorithm = self.algorithms.entry(terms).or_insert_with(|| Algorithm::new(terms));
        let all = self.meetings.entry(members.clone()).or_default();
        if number == all.len() {
            all.push(Meeting { terms, tag: TAGS + self.next_tag, first: place, reached: 0 });
            // Tags repeat only after two thousand million messages.
            self.next_tag = (self.next_tag + algorithm.tags) % (u32::MAX - TAGS - algorithm.tags);
        }
        let meeting = &mut all[number];
        if meeting.terms != terms {
            let why = format!(
                "{} of {} B from place {} of the group, where rank {} has {} of {} B from place {}",
                terms.operation.name(),
                terms.size.0,
                terms.root,
                meeting.first.rank,
                meeting.terms.operation.name(),
                meeting.terms.size.0,
                meeting.terms.root,
            );
            return Err(wrong(node, why));
        }
        meeting.reached += 1;
        let Reached { rank, index } = place;
        let script = &mut self.schedule.ranks[usize::from(rank)];
        Ok(algorithm.splice(script, rank, &members, meeting.tag, line(index)))
    }
}

impl Algorithm {
    fn new(terms: Terms) -> Algorithm {
        let payload = Payload { size: terms.size, root: terms.root, ..Payload::default() };
        let schedule = terms.operation.schedule_of(terms.ranks, payload, 1);
        let all = schedule.ranks.iter().flat_map(Script::operations);
        let tags = all.filter_map(|own| match own.action {
            Action::Send { tag, .. } => Some(tag - TAG + 1),
            _ => None,
        });
        let tags = tags.max().unwrap_or(0);
        Algorithm { schedule, tags }
    }

    /// Adds what a rank does in it, between an operation that waits and one that is over with all.
    fn splice(
        &self,
        script: &mut Script,
        rank: u16,
        members: &[u16],
        tags: u32,
        line: u32,
    ) -> Spliced {
        let pass = Operation { action: Action::Sleep(Span::ZERO), cpu: ACCELERATOR, nic: 0, line };
        let begin = script.add(pass, &[]);
        let own = members.iter().position(|member| *member == rank).unwrap_or_default();
        let part = &self.schedule.ranks[own];
        let mut is_first = vec![true; part.operations().len()];
        let mut is_last = is_first.clone();
        for edge in part.edges() {
            (is_last[edge.before as usize], is_first[edge.waits as usize]) = (false, false);
        }
        let base = begin + 1;
        for (operation, is_first) in part.operations().iter().zip(&is_first) {
            let action = match operation.action {
                Action::Send { to, tag, size } => {
                    Action::Send { to: members[usize::from(to)], tag: tag - TAG + tags, size }
                }
                Action::Receive { from, tag, size } => Action::Receive {
                    from: members[usize::from(from)],
                    tag: tag - TAG + tags,
                    size,
                },
                other => other,
            };
            let after: &[u32] = if *is_first { &[begin] } else { &[] };
            script.add(Operation { action, cpu: SENDER, nic: 0, line }, after);
        }
        for edge in part.edges() {
            script.wait(base + edge.waits, base + edge.before, edge.after);
        }
        let ends: Vec<u32> = (base..).zip(&is_last).filter(|own| *own.1).map(|own| own.0).collect();
        let end = if ends.is_empty() { begin } else { script.add(pass, &ends) };
        Spliced { begin, end }
    }
}

/// What the ranks of a collective must agree on.
fn terms(
    node: &Node,
    operation: Collective,
    size: Bytes,
    root: Option<u64>,
    members: &[u16],
) -> Result<Terms, TraceError> {
    let place = match root {
        None => Some(0),
        Some(root) => members.iter().position(|member| u64::from(*member) == root),
    };
    let Some(place) = place else {
        let root = root.unwrap_or_default();
        return Err(wrong(node, format!("root = {root}, where one of {members:?} is accepted")));
    };
    // An all-to-all sends a piece of what a rank has to each of the group.
    let count = members.len() as u64;
    let size = match operation {
        Collective::AllToAll => Bytes(size.0.div_ceil(count)),
        _ => size,
    };
    Ok(Terms { operation, size, root: place as u16, ranks: members.len() as u16 })
}

/// The place of a node in its file, from 1.
fn line(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

fn node_of(nodes: &[Node], line: u32) -> Option<&Node> {
    nodes.get((line as usize).checked_sub(1)?)
}

/// Nodes that wait for each other, by their numbers.
fn in_a_cycle(error: TraceError, nodes: &[Node]) -> TraceError {
    let TraceError::Cycle { lines, .. } = &error else { return error };
    let mut cycle: Vec<&Node> = lines.iter().filter_map(|line| node_of(nodes, *line)).collect();
    cycle.dedup_by_key(|node| node.id);
    let Some(first) = cycle.first() else { return error };
    let all = cycle.iter().map(|node| node.id.to_string()).collect::<Vec<_>>().join(", ");
    wrong(first, format!("the nodes {all} wait for each other"))
}

/// A message that only one of its ends has, with the node that has it.
fn unmatched(error: TraceError, traces: &[Vec<Node>]) -> (u16, TraceError) {
    let TraceError::Unmatched { line, from, to, tag, sent, received } = error else {
        return (0, error);
    };
    let rank = if sent > received { from } else { to };
    let Some(node) = node_of(&traces[usize::from(rank)], line) else { return (rank, error) };
    let why = format!(
        "rank {from} sends {sent} messages to rank {to} with comm_tag {tag}, which receives \
         {received} such messages; accepted: as many received as sent"
    );
    (rank, wrong(node, why))
}
