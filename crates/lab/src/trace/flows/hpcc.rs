//! Lists of flows as HPCC's simulator reads them (Li et al., "HPCC: high precision congestion
//! control", SIGCOMM 2019; `flow.txt` and `topology.txt` of its ns-3).
//!
//! ```text
//! 2
//! 1 3 3 100 2000000 0.1
//! 2 3 3 100 500000 0.10001
//! ```
//!
//! The first line says how many flows are read; what follows them is not, and the files that come with the simulator
//! have their explanation there. A flow is its two nodes, priority group, port, bytes, and its start
//! in seconds. Group and port say nothing here. Nodes are numbered with the switches, which the topology
//! names in its second line: hosts are the other nodes in order of their numbers. Without a topology every
//! node is a host.

use std::io::BufRead;

use weft_units::Bytes;

use super::super::error::TraceError;
use super::super::schedule::{LARGEST, Schedule};
use super::{Flow, Line, MOST_HOSTS, Start, schedule_of, text_of};

/// The host number of each node; `None` for a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes(Vec<Option<u16>>);

impl Nodes {
    /// This many hosts and nothing else.
    pub fn hosts(count: u16) -> Nodes {
        Nodes((0..count).map(Some).collect())
    }

    /// Reads which nodes of a `topology.txt` are hosts: from its first line, `NODES SWITCHES LINKS`, and
    /// the second, the numbers of the switches.
    pub fn read(input: impl BufRead) -> Result<Nodes, TraceError> {
        let text = text_of(input)?;
        let mut lines = text.lines();
        let mut first = Line::new(1, lines.next().unwrap_or_default());
        let nodes: u16 = first.number("a number of nodes up to 65535")?;
        let switches: u16 = first.number("a number of switches")?;
        let mut second = Line::new(2, lines.next().unwrap_or_default());
        let mut is_host = vec![true; nodes.into()];
        for _ in 0..switches {
            let word = second.next("the number of each switch")?;
            let node = second.host(word, nodes, "the number of a switch")?;
            if !std::mem::replace(&mut is_host[usize::from(node)], false) {
                return Err(TraceError::Twice { line: 2, name: format!("switch {node}") });
            }
        }
        let mut hosts = 0..nodes;
        let host = |is_host: bool| if is_host { hosts.next() } else { None };
        Ok(Nodes(is_host.into_iter().map(host).collect()))
    }

    fn count(&self) -> u16 {
        self.0.iter().flatten().count() as u16
    }

    fn host(&self, line: &mut Line<'_>) -> Result<u16, TraceError> {
        let word = line.next("the number of a node")?;
        let node = line.host(word, self.0.len() as u16, "the number of a node")?;
        match self.0[usize::from(node)] {
            Some(host) => Ok(host),
            None => Err(line.wrong(word, "a node that is a host, where the topology has a switch")),
        }
    }
}

/// Reads a list of flows between these nodes.
pub fn read(input: impl BufRead, nodes: &Nodes) -> Result<Schedule, TraceError> {
    let text = text_of(input)?;
    let mut lines = text.lines().zip(1..).map(|(text, number)| Line::new(number, text));
    let hosts = nodes.count();
    let mut first = lines.next().unwrap_or_else(|| Line::new(1, ""));
    if hosts < 2 {
        return Err(first.wrong(&hosts.to_string(), MOST_HOSTS));
    }
    let stated: u64 = first.number("a number of flows")?;
    let mut flows = Vec::new();
    for found in 0..stated {
        let Some(mut line) = lines.next().filter(|line| line.words.clone().next().is_some()) else {
            return Err(TraceError::Miscounted { line: 1, what: "flows", stated, found });
        };
        flows.push(flow_of(&mut line, nodes)?);
    }
    schedule_of(hosts, &flows)
}

fn flow_of(line: &mut Line<'_>, nodes: &Nodes) -> Result<Flow, TraceError> {
    let [from, to] = [nodes.host(line)?, nodes.host(line)?];
    line.check_ends(from, to)?;
    line.number::<u32>("a priority group")?;
    line.number::<u32>("a port")?;
    let size = Bytes(line.number("a number of bytes")?);
    if size > LARGEST {
        return Err(TraceError::TooLarge { line: line.number, size: size.0 });
    }
    let start = Start::At(line.time(1e12, "a start in seconds")?);
    match line.words.next() {
        None => Ok(Flow { from, to, size, start, line: line.number }),
        Some(word) => Err(line.wrong(word, "the end of the line")),
    }
}
