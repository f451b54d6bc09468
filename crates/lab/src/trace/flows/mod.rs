//! Lists of flows: messages that start at a time, or when others are over.
//!
//! [`connection_matrix`] reads those of htsim, [`hpcc`] those of HPCC's simulator. Hosts are ranks. A
//! flow is one message with a tag of its own; flows that one host has at the same time leave by its
//! adapter as any messages of a rank do, one after another in the order in which they start.

pub mod connection_matrix;
pub mod hpcc;

use weft_units::{Bytes, Span};

use super::error::TraceError;
use super::schedule::{Action, After, LONGEST, Operation, Schedule};

/// A flow of a list.
#[derive(Clone, Debug, PartialEq)]
struct Flow {
    from: u16,
    to: u16,
    size: Bytes,
    start: Start,
    /// Its line, from 1.
    line: u32,
}

/// What a flow waits for.
#[derive(Clone, Debug, PartialEq)]
enum Start {
    /// For its time.
    At(Span),
    /// For all of these.
    After(Vec<Cause>),
}

/// What has happened to a flow, by its position in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Its last byte has left its initiator.
    Sent(usize),
    /// Its last byte has reached its target.
    Received(usize),
}

/// Makes a schedule of flows between this many ranks. Each waits only for events at its own host.
fn schedule_of(ranks: u16, flows: &[Flow]) -> Result<Schedule, TraceError> {
    let mut schedule = Schedule::new(ranks);
    let mut sends = Vec::with_capacity(flows.len());
    let mut receives = Vec::with_capacity(flows.len());
    for (flow, tag) in flows.iter().zip(0..) {
        let Flow { from, to, size, line, .. } = *flow;
        let own = |action| Operation { line, ..Operation::new(action) };
        let sender = &mut schedule.ranks[usize::from(from)];
        let wait: Vec<u32> = match flow.start {
            Start::At(at) if at > Span::ZERO => vec![sender.add(own(Action::Sleep(at)), &[])],
            Start::At(_) | Start::After(_) => Vec::new(),
        };
        sends.push(sender.add(own(Action::Send { to, tag, size }), &wait));
        let target = &mut schedule.ranks[usize::from(to)];
        receives.push(target.add(own(Action::Receive { from, tag, size }), &[]));
    }
    for (flow, sent) in flows.iter().zip(&sends) {
        let Start::After(causes) = &flow.start else { continue };
        let script = &mut schedule.ranks[usize::from(flow.from)];
        for cause in causes {
            let before = match *cause {
                Cause::Sent(other) => sends[other],
                Cause::Received(other) => receives[other],
            };
            script.wait(*sent, before, After::Over);
        }
    }
    for (script, rank) in schedule.ranks.iter().zip(0..) {
        script.check(rank)?;
    }
    schedule.check_messages()?;
    Ok(schedule)
}

/// The words of a line of a file.
struct Line<'a> {
    number: u32,
    words: std::str::SplitAsciiWhitespace<'a>,
}

impl<'a> Line<'a> {
    fn new(number: u32, text: &'a str) -> Line<'a> {
        Line { number, words: text.split_ascii_whitespace() }
    }

    fn next(&mut self, accepted: &str) -> Result<&'a str, TraceError> {
        self.words.next().ok_or_else(|| self.wrong("", accepted))
    }

    fn number<T: std::str::FromStr>(&mut self, accepted: &str) -> Result<T, TraceError> {
        let word = self.next(accepted)?;
        word.parse().map_err(|_| self.wrong(word, accepted))
    }

    /// A host below `count`.
    fn host(&self, word: &str, count: u16, accepted: &str) -> Result<u16, TraceError> {
        let rank: u64 = word.parse().map_err(|_| self.wrong(word, accepted))?;
        match u16::try_from(rank).ok().filter(|host| *host < count) {
            Some(host) => Ok(host),
            None => Err(TraceError::UnknownRank { line: self.number, rank, ranks: count }),
        }
    }

    /// A time that is written as a number of units of this many picoseconds.
    fn time(&mut self, unit: f64, accepted: &str) -> Result<Span, TraceError> {
        let word = self.next(accepted)?;
        let time: f64 = word.parse().map_err(|_| self.wrong(word, accepted))?;
        let picoseconds = (time * unit).round();
        // Not a number is neither.
        if !(0.0..=LONGEST.0 as f64).contains(&picoseconds) {
            return Err(self.wrong(word, accepted));
        }
        Ok(Span(picoseconds as u64))
    }

    fn wrong(&self, found: &str, accepted: &str) -> TraceError {
        let accepted = accepted.to_owned();
        TraceError::Syntax { line: self.number, found: found.to_owned(), accepted }
    }

    fn check_ends(&self, from: u16, to: u16) -> Result<(), TraceError> {
        if from != to {
            return Ok(());
        }
        let accepted = "a flow between two hosts";
        Err(self.wrong(&format!("a flow from host {from} to itself"), accepted))
    }
}

/// The operating system explains what cannot be read of a file.
fn text_of(mut input: impl std::io::BufRead) -> Result<String, TraceError> {
    let mut text = String::new();
    match input.read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(TraceError::Unreadable(error.to_string())),
    }
}

/// The largest number of hosts of a list: ranks are numbered by 16 bits.
const MOST_HOSTS: &str = "a number of hosts from 2 to 65535";
