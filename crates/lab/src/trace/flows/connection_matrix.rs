//! Connection matrices, the traffic files (`.cm`) of htsim (Handley et al., "Re-architecting datacenter
//! networks and stacks for low latency and high performance", SIGCOMM 2017; csg-htsim and uet-htsim
//! read the same).
//!
//! ```text
//! Nodes 16
//! Connections 3
//! Triggers 1
//! 0->13 id 1 start 0 size 2000000 send_done_trigger 1
//! 2->13 id 2 start 1000000 size 2000000
//! 0->5 id 3 trigger 1 size 2000000
//! trigger id 1 oneshot
//! ```
//!
//! Times are picoseconds, sizes bytes. Lines that begin with `#` are remarks. `prio` orders flows at
//! receivers that pull, and says nothing here. A trigger starts the flows that name it when the one
//! flow that fires it is sent or received (`oneshot`), or all `count` of them are (`barrier`): where it
//! fires at the host that they start from, since nothing tells another host. htsim takes a flow for
//! sent when it is acknowledged, here it is when its last byte has left.

use std::collections::HashMap;
use std::io::BufRead;

use weft_units::Bytes;

use super::super::error::TraceError;
use super::super::schedule::{LARGEST, Schedule};
use super::{Cause, Flow, Line, MOST_HOSTS, Start, schedule_of, text_of};

const WORDS: &str = "`id N`, `start PICOSECONDS`, `size BYTES`, `trigger N`, \
                     `send_done_trigger N`, `recv_done_trigger N` or `prio N`";
const FIRST: &str =
    "`Nodes N`, `Connections N`, `Triggers N`, `FROM->TO ...` or `trigger id N ...`";
const NUMBER: &str = "a number from 1 on";

/// Reads a matrix.
///
/// # Errors
/// [`TraceError`] with the line of what is not understood; failures of links and triggers with
/// several shots are not.
pub fn read(input: impl BufRead) -> Result<Schedule, TraceError> {
    let text = text_of(input)?;
    let mut matrix = Matrix::default();
    for (line, number) in text.lines().zip(1..) {
        matrix.read(Line::new(number, line))?;
    }
    matrix.finish()
}

#[derive(Debug, Default)]
struct Matrix {
    nodes: Option<u16>,
    /// How many connections and triggers are announced, and in which line.
    connections: Option<(u32, u64)>,
    triggers: Option<(u32, u64)>,
    flows: Vec<Flow>,
    /// The flows that wait for a trigger, and for which.
    waiting: Vec<(usize, u32)>,
    /// What fires a trigger.
    causes: HashMap<u32, Vec<Cause>>,
    described: HashMap<u32, Trigger>,
    /// The identities of flows, which are unique, with the line of each.
    known: HashMap<u32, u32>,
}

/// A trigger fires when this many of its causes have happened.
#[derive(Clone, Copy, Debug)]
struct Trigger {
    count: u64,
    line: u32,
}

impl Matrix {
    fn read(&mut self, mut line: Line<'_>) -> Result<(), TraceError> {
        let Some(first) = line.words.next().filter(|word| !word.starts_with('#')) else {
            return Ok(());
        };
        let at = line.number;
        match first {
            "Nodes" => {
                let nodes: u16 = line.number(MOST_HOSTS)?;
                self.nodes = Some(nodes);
                if nodes < 2 {
                    return Err(line.wrong(&nodes.to_string(), MOST_HOSTS));
                }
            }
            "Connections" => self.connections = Some((at, line.number("a number of flows")?)),
            "Triggers" => self.triggers = Some((at, line.number("a number of triggers")?)),
            "trigger" => self.describe(&mut line)?,
            _ => match first.split_once("->") {
                Some((from, to)) => self.connect(from, to, &mut line)?,
                None => return Err(line.wrong(first, FIRST)),
            },
        }
        match line.words.next() {
            None => Ok(()),
            Some(word) => Err(line.wrong(word, "the end of the line")),
        }
    }

    fn connect(&mut self, from: &str, to: &str, line: &mut Line<'_>) -> Result<(), TraceError> {
        let accepted = "`Nodes N`, and `Connections N`, before the flows";
        let nodes = self.nodes.ok_or_else(|| line.wrong(&format!("{from}->{to}"), accepted))?;
        let ends = "`FROM->TO` with numbers of hosts";
        let [from, to] = [line.host(from, nodes, ends)?, line.host(to, nodes, ends)?];
        line.check_ends(from, to)?;
        let place = self.flows.len();
        let (mut start, mut trigger, mut size) = (None, None, None);
        while let Some(word) = line.words.next() {
            match word {
                "id" => self.name(line)?,
                "start" => start = Some(line.time(1.0, "a time in picoseconds")?),
                "size" => size = Some(Bytes(line.number("a number of bytes")?)),
                "trigger" => trigger = Some(line.number::<u32>(NUMBER)?),
                "send_done_trigger" => self.fire(Cause::Sent(place), line)?,
                "recv_done_trigger" => self.fire(Cause::Received(place), line)?,
                // For receivers that pull, which do not exist here.
                "prio" => drop(line.number::<u32>("a priority")?),
                other => return Err(line.wrong(other, WORDS)),
            }
        }
        let size = size.ok_or_else(|| line.wrong("", "`size BYTES`"))?;
        if size > LARGEST {
            return Err(TraceError::TooLarge { line: line.number, size: size.0 });
        }
        let start = match (start, trigger) {
            (Some(at), None) => Start::At(at),
            (None, Some(id)) => {
                self.waiting.push((place, id));
                Start::After(Vec::new())
            }
            _ => return Err(line.wrong("", "one of `start PICOSECONDS` and `trigger N`")),
        };
        self.flows.push(Flow { from, to, size, start, line: line.number });
        Ok(())
    }

    fn name(&mut self, line: &mut Line<'_>) -> Result<(), TraceError> {
        let id: u32 = line.number(NUMBER)?;
        match self.known.insert(id, line.number) {
            None if id > 0 => Ok(()),
            None => Err(line.wrong("0", NUMBER)),
            Some(_) => Err(TraceError::Twice { line: line.number, name: format!("id {id}") }),
        }
    }

    fn fire(&mut self, cause: Cause, line: &mut Line<'_>) -> Result<(), TraceError> {
        let id: u32 = line.number(NUMBER)?;
        self.causes.entry(id).or_default().push(cause);
        Ok(())
    }

    fn describe(&mut self, line: &mut Line<'_>) -> Result<(), TraceError> {
        let (mut id, mut count, mut shots) = (None, None, None);
        while let Some(word) = line.words.next() {
            match word {
                "id" => id = Some(line.number::<u32>(NUMBER)?),
                "count" => count = Some(line.number::<u64>(NUMBER)?),
                "oneshot" | "barrier" => shots = Some(word),
                other => {
                    return Err(line.wrong(other, "`id N`, `oneshot`, `barrier` or `count N`"));
                }
            }
        }
        let id = id.ok_or_else(|| line.wrong("", "`id N`"))?;
        let count = match (shots, count) {
            (Some("oneshot"), None) => 1,
            (Some("barrier"), Some(count)) => count,
            _ => return Err(line.wrong("", "`oneshot`, or `barrier` with `count N`")),
        };
        match self.described.insert(id, Trigger { count, line: line.number }) {
            None => Ok(()),
            Some(_) => Err(TraceError::Twice { line: line.number, name: format!("trigger {id}") }),
        }
    }

    fn finish(mut self) -> Result<Schedule, TraceError> {
        let Some(nodes) = self.nodes else {
            return Err(TraceError::Ends { line: 0, accepted: "`Nodes N`" });
        };
        let flows = self.flows.len() as u64;
        let triggers = self.described.len() as u64;
        let counts = [
            (self.connections.unwrap_or((0, 0)), "connections", flows),
            (self.triggers.unwrap_or((0, 0)), "triggers", triggers),
        ];
        for ((line, stated), what, found) in counts {
            if stated != found {
                return Err(TraceError::Miscounted { line, what, stated, found });
            }
        }
        for (place, id) in std::mem::take(&mut self.waiting) {
            self.flows[place].start = Start::After(self.causes_of(place, id)?);
        }
        schedule_of(nodes, &self.flows)
    }

    /// What a flow waits for that starts by a trigger.
    fn causes_of(&self, place: usize, id: u32) -> Result<Vec<Cause>, TraceError> {
        let Flow { from, line, .. } = self.flows[place];
        let wrong = |line, why: String| Err(TraceError::Trigger { line, id, why });
        let Some(trigger) = self.described.get(&id) else {
            return wrong(line, "is described nowhere; `trigger id N oneshot` is accepted".into());
        };
        let causes = self.causes.get(&id).map_or(&[][..], Vec::as_slice);
        if causes.len() as u64 != trigger.count {
            let (found, count) = (causes.len(), trigger.count);
            let why = format!("is fired by {found} flows, where {count} are accepted, all of them");
            return wrong(trigger.line, why);
        }
        for cause in causes {
            let host = match *cause {
                Cause::Sent(other) => self.flows[other].from,
                Cause::Received(other) => self.flows[other].to,
            };
            if host != from {
                let why = format!(
                    "fires at host {host} and starts a flow at host {from}; one that starts flows \
                     where it fires is accepted"
                );
                return wrong(line, why);
            }
        }
        Ok(causes.to_vec())
    }
}
