//! Time-independent traces, the text form that SimGrid replays (Desprez, Markomanolis, Quinson and
//! Suter, "Assessing the performance of MPI applications through time-independent trace replay",
//! PSTI 2011): one action a line, the rank first.
//!
//! ```text
//! 0 init
//! 0 compute 1e9          # instructions or flop
//! 0 send 1 0 1e6 6       # to, tag, elements, data type
//! 0 irecv 1 0 1e6 6
//! 0 wait 1 0 0           # for the request from rank 1 to rank 0 with tag 0
//! 0 allReduce 1e6 1e3 0  # elements, flop, data type
//! 0 finalize
//! ```
//!
//! Words are those of SimGrid 3.20 and later (`smpi_replay.cpp`). A message with two words, other
//! rank and elements, and a `wait` without any, for the youngest open request, are those of the
//! versions before. Elements without a type are bytes; doubles where `init` has a word behind it.
//!
//! Collectives are carried out as messages by the algorithms of [`super::collectives`]: every rank
//! must have the same ones in the same order.

mod datatype;
mod line;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::BufRead;

use weft_units::{Bytes, Span};

use self::line::{Act, Context, Joint, Name, Words};
use super::collectives::{Payload, Writer};
use super::error::TraceError;
use super::schedule::{Action, Operation, Schedule};

/// How many ranks a trace has: one more than the highest that does something.
pub fn ranks(input: impl BufRead) -> Result<usize, TraceError> {
    let (mut ranks, mut last) = (0, 0);
    each_line(input, |line, words| {
        last = line;
        ranks = ranks.max(rank(line, words[0])?.saturating_add(1));
        Ok(())
    })?;
    match ranks {
        0 => Err(TraceError::Ends { line: last, accepted: "an action such as `0 init`" }),
        ranks => Ok(usize::try_from(ranks).unwrap_or(usize::MAX)),
    }
}

/// Reads a trace of `ranks` whose processors carry out `speed` instructions a second.
pub fn read(input: impl BufRead, ranks: u16, speed: f64) -> Result<Schedule, TraceError> {
    let mut reader = Reader {
        context: Context { ranks, speed, default: None },
        writer: Writer::new(ranks),
        own: (0..ranks).map(|_| Rank::default()).collect(),
        written: 0,
        open: VecDeque::new(),
    };
    each_line(input, |line, words| {
        let rank = rank(line, words[0])?;
        let known = u16::try_from(rank).ok().filter(|rank| *rank < ranks);
        let rank = known.ok_or(TraceError::UnknownRank { line, rank, ranks })?;
        reader.read_line(&mut Words { line, rank, of: words, left: &words[1..] })
    })?;
    reader.finish()
}

/// Calls `heed` with the number and the words of each line that has any. Words after `#` are
/// remarks.
fn each_line(
    mut input: impl BufRead,
    mut heed: impl FnMut(u32, &[&str]) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    let (mut bytes, mut line) = (Vec::new(), 0);
    loop {
        bytes.clear();
        let read = input.read_until(b'\n', &mut bytes);
        if read.map_err(|error| TraceError::Unreadable(error.to_string()))? == 0 {
            return Ok(());
        }
        line += 1;
        let text = String::from_utf8_lossy(&bytes);
        let words: Vec<&str> = text.split('#').next().unwrap_or("").split_whitespace().collect();
        if !words.is_empty() {
            heed(line, &words)?;
        }
    }
}

fn rank(line: u32, word: &str) -> Result<u64, TraceError> {
    let accepted = match word {
        "num_ranks" => "the number of a rank; a GOAL text is run without a speed",
        _ => "the number of a rank",
    };
    let (found, accepted) = (word.to_owned(), accepted.to_owned());
    word.parse().map_err(|_| TraceError::Syntax { line, found, accepted })
}

#[derive(Debug)]
struct Reader {
    context: Context,
    writer: Writer,
    own: Vec<Rank>,
    /// How many collectives all ranks have reached, and those that some ranks have reached since,
    /// oldest first.
    written: usize,
    open: VecDeque<Open>,
}

#[derive(Debug, Default)]
struct Rank {
    has_begun: bool,
    has_ended: bool,
    requests: Requests,
    /// How many collectives it has reached.
    joined: usize,
    /// Its actions after a collective that other ranks have not reached, each with its line.
    behind: VecDeque<(u32, Act)>,
}

/// A collective that not all ranks have reached.
#[derive(Debug)]
struct Open {
    joint: Joint,
    line: u32,
    /// The ranks that have reached it, and what each computes after it.
    reached: Vec<(u16, Span)>,
}

/// Requests that nothing has waited for, by their numbers, which grow, and by their names.
#[derive(Debug, Default)]
struct Requests {
    all: BTreeMap<u32, Name>,
    named: HashMap<Name, VecDeque<u32>>,
}

impl Requests {
    fn add(&mut self, number: u32, name: Name) {
        self.all.insert(number, name);
        self.named.entry(name).or_default().push_back(number);
    }

    fn take_youngest(&mut self) -> Option<u32> {
        let (number, name) = self.all.pop_last()?;
        self.named.get_mut(&name)?.pop_back();
        Some(number)
    }

    /// The oldest with this name: messages of one name do not overtake each other.
    fn take(&mut self, name: Name) -> Option<u32> {
        let number = self.named.get_mut(&name)?.pop_front()?;
        self.all.remove(&number);
        Some(number)
    }

    fn take_all(&mut self) -> impl Iterator<Item = u32> + use<> {
        self.named.clear();
        std::mem::take(&mut self.all).into_keys()
    }
}

impl Reader {
    /// One line. Actions after a collective that not all ranks have reached are kept until they
    /// have.
    fn read_line(&mut self, words: &mut Words<'_>) -> Result<(), TraceError> {
        let act = self.context.read(words)?;
        let (rank, line) = (words.rank, words.line);
        let own = &mut self.own[usize::from(rank)];
        if own.has_ended {
            let found = words.of.join(" ");
            return Err(words.syntax(&found, "nothing of this rank behind its `finalize`"));
        }
        if act == Act::Begins && std::mem::replace(&mut own.has_begun, true) {
            return Err(TraceError::Twice { line, name: format!("{rank} init") });
        }
        own.has_ended = act == Act::Ends;
        if own.joined > self.written {
            own.behind.push_back((line, act));
            return Ok(());
        }
        self.act(rank, line, act)?;
        while self.open.front().is_some_and(|open| open.reached.len() == self.own.len()) {
            self.write_collective();
            for rank in 0..self.context.ranks {
                self.go_on(rank)?;
            }
        }
        Ok(())
    }

    /// The actions of a rank up to the next collective that other ranks have not reached.
    fn go_on(&mut self, rank: u16) -> Result<(), TraceError> {
        loop {
            let own = &mut self.own[usize::from(rank)];
            if own.joined > self.written {
                return Ok(());
            }
            let Some((line, act)) = own.behind.pop_front() else { return Ok(()) };
            self.act(rank, line, act)?;
        }
    }

    fn act(&mut self, rank: u16, line: u32, act: Act) -> Result<(), TraceError> {
        let place = usize::from(rank);
        let requests = &mut self.own[place].requests;
        let refuse =
            |found: String, accepted: String| Err(TraceError::Syntax { line, found, accepted });
        match act {
            Act::Begins | Act::Ends | Act::Nothing => {}
            Act::Do(action) => {
                self.writer.then(rank, Operation { line, ..Operation::new(action) });
            }
            Act::Begin(action) => {
                let operation = Operation { line, ..Operation::new(action) };
                let number = self.writer.beside(rank, operation);
                let name = match action {
                    Action::Send { to, tag, .. } => (rank, to, tag),
                    Action::Receive { from, tag, .. } => (from, rank, tag),
                    // No line says this.
                    Action::Compute(_) | Action::Sleep(_) => return Ok(()),
                };
                requests.add(number, name);
            }
            Act::Wait(name) => {
                let request = match name {
                    None => requests.take_youngest(),
                    Some(name) => requests.take(name),
                };
                let Some(request) = request else {
                    let named = |(from, to, tag)| format!("wait {from} {to} {tag}");
                    let found = name.map_or_else(|| "wait".to_owned(), named);
                    let accepted = "an open request of this rank: sender, receiver and tag of an \
                                    `isend` or `irecv` that nothing has waited for";
                    return refuse(found, accepted.to_owned());
                };
                self.writer.last[place].push(request);
            }
            Act::WaitAll(most) => {
                let open = requests.all.len();
                if let Some(most) = most.filter(|most| *most < open as u64) {
                    let accepted = format!("`waitall` for all open requests, which are {open}");
                    return refuse(format!("waitall {most}"), accepted);
                }
                let all = requests.take_all();
                self.writer.last[place].extend(all);
            }
            Act::Join(joint, computing) => return self.join(rank, line, *joint, computing),
        }
        Ok(())
    }

    /// A rank reaches a collective.
    fn join(
        &mut self,
        rank: u16,
        line: u32,
        joint: Joint,
        computing: Span,
    ) -> Result<(), TraceError> {
        let own = &mut self.own[usize::from(rank)];
        let place = own.joined - self.written;
        own.joined += 1;
        match self.open.get_mut(place) {
            Some(open) if open.joint == joint => open.reached.push((rank, computing)),
            Some(open) => {
                let accepted = format!("`{}` as in line {}", open.joint.says(), open.line);
                return Err(TraceError::Syntax { line, found: joint.says(), accepted });
            }
            None => self.open.push_back(Open { joint, line, reached: vec![(rank, computing)] }),
        }
        Ok(())
    }

    /// Writes the oldest open collective, which all ranks have reached.
    fn write_collective(&mut self) {
        let Some(Open { joint, reached, .. }) = self.open.pop_front() else { return };
        let Joint { collective, size, sizes, root } = joint;
        self.writer.collective(collective, Payload { size, sizes: &sizes, root, reduction: None });
        for (rank, span) in reached.into_iter().filter(|(_, span)| *span > Span::ZERO) {
            self.writer.then(rank, Operation::new(Action::Compute(span)));
        }
        self.written += 1;
    }

    fn finish(self) -> Result<Schedule, TraceError> {
        if let Some(Open { joint, line, reached }) = self.open.front() {
            let is_absent = |rank: &u16| reached.iter().all(|(other, _)| other != rank);
            // One is absent: a collective that all have reached is written and closed.
            let rank = (0..self.context.ranks).find(is_absent).unwrap_or(0);
            let collective = joint.collective.name();
            return Err(TraceError::Unreached { line: *line, collective, rank });
        }
        let mut schedule = self.writer.schedule;
        schedule.check_messages()?;
        settle_sizes(&mut schedule);
        Ok(schedule)
    }
}

/// A receive of no elements accepts a message of any size. It gets the size of the message, so that
/// no size is ever open: messages of one rank to another with one tag are received in order.
fn settle_sizes(schedule: &mut Schedule) {
    let is_open = |own: &Operation| matches!(own.action, Action::Receive { size: Bytes(0), .. });
    let mut all = schedule.ranks.iter().flat_map(|script| script.operations());
    if !all.any(is_open) {
        return;
    }
    let mut sent: HashMap<Name, VecDeque<Bytes>> = HashMap::new();
    for (script, from) in schedule.ranks.iter().zip(0..) {
        for operation in script.operations() {
            if let Action::Send { to, tag, size } = operation.action {
                sent.entry((from, to, tag)).or_default().push_back(size);
            }
        }
    }
    for (script, to) in schedule.ranks.iter_mut().zip(0..) {
        for operation in script.operations_mut() {
            if let Action::Receive { from, tag, size } = &mut operation.action
                && let Some(sent) = sent.get_mut(&(*from, to, *tag)).and_then(VecDeque::pop_front)
                && *size == Bytes(0)
            {
                *size = sent;
            }
        }
    }
}
