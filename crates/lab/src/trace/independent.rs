//! Time-independent traces, the text form that SimGrid replays (Desprez, Markomanolis, Quinson and
//! Suter, "Assessing the performance of MPI applications through time-independent trace replay",
//! PSTI 2011): one action a line, the rank first.
//!
//! ```text
//! 0 init
//! 0 compute 1e9          # instructions or flop
//! 0 send 1 1e6           # to, bytes; with a tag: to, tag, bytes
//! 0 irecv 1 1e6
//! 0 wait                 # for the youngest open request; `waitall` for all of them
//! 0 allReduce 1e6 1e3    # bytes, flop
//! 0 finalize
//! ```
//!
//! Collectives are carried out as messages by the algorithms of [`super::collectives`]: every rank
//! must have the same ones in the same order.

use std::io::BufRead;

use weft_units::{Bytes, Span};

use super::collectives::{Collective, Payload, Writer};
use super::error::TraceError;
use super::schedule::{Action, Operation, Schedule};

/// Reads a trace of `ranks` whose processors carry out `speed` instructions a second.
pub fn read(input: impl BufRead, ranks: u16, speed: f64) -> Result<Schedule, TraceError> {
    let mut reader = Reader {
        line: 0,
        speed,
        writer: Writer::new(ranks),
        open: vec![Vec::new(); ranks.into()],
        joined: vec![0; ranks.into()],
        collectives: Vec::new(),
        waiting: vec![Vec::new(); ranks.into()],
    };
    for text in input.lines() {
        let text = text.map_err(|error| TraceError::Unreadable(error.to_string()))?;
        reader.line += 1;
        let words: Vec<&str> = text.split('#').next().unwrap_or("").split_whitespace().collect();
        if let [rank, rest @ ..] = &words[..] {
            let rank = reader.rank(rank)?;
            reader.act(rank, rest)?;
        }
    }
    if reader.waiting.iter().any(|waiting| !waiting.is_empty()) {
        return Err(TraceError::Ends { accepted: "a collective that every rank takes part in" });
    }
    Ok(reader.writer.schedule)
}

/// A collective as a rank has it.
#[derive(Clone, Debug, PartialEq)]
struct Joint {
    collective: Collective,
    size: Bytes,
    /// Bytes of each rank, where the line lists them.
    sizes: Vec<Bytes>,
    root: u16,
    /// What each rank computes.
    computing: Span,
}

#[derive(Debug)]
struct Reader {
    line: u32,
    speed: f64,
    writer: Writer,
    /// Requests that no `wait` has waited for, by rank.
    open: Vec<Vec<u32>>,
    /// How many collectives each rank has reached, and those that some rank has reached.
    joined: Vec<usize>,
    collectives: Vec<Joint>,
    /// What a rank does behind a collective that others have not reached: line and words.
    waiting: Vec<Vec<(u32, Vec<String>)>>,
}

impl Reader {
    /// One action. What lies behind a collective that not all ranks have reached is kept until they
    /// have.
    fn act(&mut self, rank: u16, words: &[&str]) -> Result<(), TraceError> {
        let place = usize::from(rank);
        if self.joined[place] > self.complete() {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            self.waiting[place].push((self.line, words));
            return Ok(());
        }
        let [verb, rest @ ..] = words else { return Err(self.syntax("", ACTIONS)) };
        match *verb {
            "init" | "finalize" | "comm_size" => Ok(()),
            "compute" => {
                let span = self.span(rest.first())?;
                self.then(rank, Action::Compute(span));
                Ok(())
            }
            "send" | "isend" | "recv" | "irecv" => {
                let (other, tag, size) = self.message(rest)?;
                let action = match *verb {
                    "send" | "isend" => Action::Send { to: other, tag, size },
                    _ => Action::Receive { from: other, tag, size },
                };
                if verb.starts_with('i') {
                    self.begin(rank, action);
                } else {
                    self.then(rank, action);
                }
                Ok(())
            }
            "wait" => {
                let youngest = self.open[place].pop();
                let request = youngest.ok_or_else(|| self.syntax("wait", "an open request"))?;
                self.writer.last[place].push(request);
                Ok(())
            }
            "waitall" | "waitAll" => {
                let requests = std::mem::take(&mut self.open[place]);
                self.writer.last[place].extend(requests);
                Ok(())
            }
            verb => {
                let joint = self.joint(verb, rest)?;
                self.join(rank, joint)
            }
        }
    }

    fn joint(&self, verb: &str, rest: &[&str]) -> Result<Joint, TraceError> {
        let all = self.joined.len();
        let size = || self.size(rest.first());
        let root = |place: usize| match rest.get(place) {
            Some(word) => self.rank(word),
            None => Ok(0),
        };
        let listed = |from: usize| (from..from + all).map(|place| self.size(rest.get(place)));
        let computing = |place: usize| self.span(rest.get(place));
        let nothing = Joint {
            collective: Collective::Barrier,
            size: Bytes(0),
            sizes: Vec::new(),
            root: 0,
            computing: Span::ZERO,
        };
        let of = |collective| -> Result<Joint, TraceError> {
            Ok(Joint { collective, size: size()?, ..nothing.clone() })
        };
        let of_sizes = |collective, from| -> Result<Joint, TraceError> {
            let sizes = listed(from).collect::<Result<_, _>>()?;
            Ok(Joint { collective, sizes, ..nothing.clone() })
        };
        Ok(match verb.to_ascii_lowercase().as_str() {
            "barrier" => nothing,
            "bcast" => Joint { root: root(1)?, ..of(Collective::Broadcast)? },
            "reduce" => {
                let (root, computing) = (root(2)?, computing(1)?);
                Joint { root, computing, ..of(Collective::Reduce)? }
            }
            "allreduce" => {
                Joint { computing: computing(1)?, ..of(Collective::AllreduceRecursiveDoubling)? }
            }
            "alltoall" => of(Collective::AllToAll)?,
            "gather" => Joint { root: root(2)?, ..of(Collective::Gather)? },
            "scatter" => Joint { root: root(2)?, ..of(Collective::Scatter)? },
            "allgather" => of(Collective::AllgatherRing)?,
            // What the rank itself sends stands before, or behind, the list of all.
            "gatherv" => Joint { root: root(all + 1)?, ..of_sizes(Collective::GatherV, 1)? },
            "scatterv" => Joint { root: root(all + 1)?, ..of_sizes(Collective::ScatterV, 0)? },
            "allgatherv" => of_sizes(Collective::AllgatherV, 1)?,
            "reducescatter" => {
                Joint { computing: computing(all)?, ..of_sizes(Collective::ReduceScatterRing, 0)? }
            }
            _ => return Err(self.syntax(verb, ACTIONS)),
        })
    }

    /// A rank reaches a collective; the last one that does lets it be written.
    fn join(&mut self, rank: u16, joint: Joint) -> Result<(), TraceError> {
        let number = self.joined[usize::from(rank)];
        match self.collectives.get(number) {
            Some(known) if *known == joint => {}
            Some(known) => {
                let accepted = format!("`{}` as other ranks have it", known.collective.name());
                return Err(self.syntax(joint.collective.name(), &accepted));
            }
            None => self.collectives.push(joint.clone()),
        }
        self.joined[usize::from(rank)] += 1;
        if self.complete() > number {
            let Joint { collective, size, sizes, root, computing } = joint;
            self.writer.collective(collective, Payload { size, sizes: &sizes, root });
            self.writer.compute(computing);
            return self.go_on();
        }
        Ok(())
    }

    /// What waited behind the collective that has just been written.
    fn go_on(&mut self) -> Result<(), TraceError> {
        let here = self.line;
        for place in 0..self.waiting.len() {
            for (line, words) in std::mem::take(&mut self.waiting[place]) {
                self.line = line;
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.act(place as u16, &words)?;
            }
        }
        self.line = here;
        Ok(())
    }

    /// How many collectives all ranks have reached.
    fn complete(&self) -> usize {
        self.joined.iter().copied().min().unwrap_or(0)
    }

    fn then(&mut self, rank: u16, action: Action) {
        let operation = Operation { line: self.line, ..Operation::new(action) };
        self.writer.then(rank, operation);
    }

    /// An operation that the next ones do not wait for.
    fn begin(&mut self, rank: u16, action: Action) {
        let place = usize::from(rank);
        let operation = Operation { line: self.line, ..Operation::new(action) };
        let after = &self.writer.last[place];
        let number = self.writer.schedule.ranks[place].add(operation, after);
        self.open[place].push(number);
    }

    /// Other rank, tag if there is one, bytes; a data type behind them is not read.
    fn message(&self, words: &[&str]) -> Result<(u16, u32, Bytes), TraceError> {
        match words {
            [other, size] => Ok((self.rank(other)?, 0, self.size(Some(size))?)),
            [other, tag, size, ..] => {
                let accepted = "a tag, a number from 0 to 4294967295";
                let tag = tag.parse().map_err(|_| self.syntax(tag, accepted))?;
                Ok((self.rank(other)?, tag, self.size(Some(size))?))
            }
            _ => Err(self.syntax(&words.join(" "), "a rank and a number of bytes")),
        }
    }

    fn rank(&self, word: &str) -> Result<u16, TraceError> {
        let ranks = self.joined.len() as u16;
        let accepted = match word {
            "num_ranks" => "the number of a rank; a GOAL text is run without a speed",
            _ => "the number of a rank",
        };
        let rank: u64 = word.parse().map_err(|_| self.syntax(word, accepted))?;
        if rank >= u64::from(ranks) {
            return Err(TraceError::UnknownRank { line: self.line, rank, ranks });
        }
        Ok(rank as u16)
    }

    fn amount(&self, word: Option<&&str>, of: &str) -> Result<f64, TraceError> {
        let word = word.copied().unwrap_or("");
        let amount: Option<f64> = word.parse().ok();
        let amount = amount.filter(|amount| amount.is_finite() && *amount >= 0.0);
        amount.ok_or_else(|| self.syntax(word, of))
    }

    fn size(&self, word: Option<&&str>) -> Result<Bytes, TraceError> {
        Ok(Bytes(self.amount(word, "a number of bytes without unit, such as 1e6")? as u64))
    }

    fn span(&self, word: Option<&&str>) -> Result<Span, TraceError> {
        let amount = self.amount(word, "a number of instructions, such as 1e9")?;
        Ok(Span((amount / self.speed * 1e12).round() as u64))
    }

    fn syntax(&self, found: &str, accepted: &str) -> TraceError {
        let (found, accepted) = (found.to_owned(), accepted.to_owned());
        TraceError::Syntax { line: self.line, found, accepted }
    }
}

/// What a line can say.
const ACTIONS: &str = "init, finalize, comm_size, compute, send, isend, recv, irecv, wait, \
                       waitall, barrier, bcast, reduce, allReduce, allToAll, gather, gatherV, \
                       scatter, scatterV, allGather, allGatherV or reduceScatter";
