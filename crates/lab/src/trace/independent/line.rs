//! The meaning of one line of a time-independent trace.

use weft_units::{Bytes, Span};

use super::datatype;
use crate::trace::collectives::Collective;
use crate::trace::error::TraceError;
use crate::trace::schedule::{Action, LARGEST, LONGEST};

/// The action of a rank.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// The rank begins, ends, or states the number of ranks, which takes no time.
    Begins,
    Ends,
    Nothing,
    /// The next action waits for its end.
    Do(Action),
    /// A request: a wait operation names it.
    Begin(Action),
    /// For a request: the oldest open one with this name, the youngest one of all without.
    Wait(Option<Name>),
    /// For all open requests, of which there are at most this many.
    WaitAll(Option<u64>),
    /// A collective, and the computation of this rank after it.
    Join(Box<Joint>, Span),
}

/// Sender, receiver and tag.
pub(super) type Name = (u16, u16, u32);

/// A collective in the form that all ranks share.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Joint {
    pub collective: Collective,
    pub size: Bytes,
    /// Bytes of each rank, where the line lists them.
    pub sizes: Vec<Bytes>,
    pub root: u16,
}

impl Joint {
    /// The line in words, for error messages.
    pub fn says(&self) -> String {
        let Joint { collective, size, sizes, root } = self;
        let name = collective.name();
        match (collective, &sizes[..]) {
            (Collective::Barrier, _) => name.to_owned(),
            (_, []) => format!("{name} of {} B, root {root}", size.0),
            (_, sizes) => {
                let sizes: Vec<String> = sizes.iter().map(|size| size.0.to_string()).collect();
                format!("{name} of {} B, root {root}", sizes.join(", "))
            }
        }
    }
}

/// The context in which lines are read.
#[derive(Debug)]
pub(super) struct Context {
    pub ranks: u16,
    /// Instructions a second.
    pub speed: f64,
    /// The size of the type of counts without one, once a line has settled it.
    pub default: Option<Bytes>,
}

/// The words of a line after its rank.
pub(super) struct Words<'a> {
    pub line: u32,
    pub rank: u16,
    /// All words, and those still to be read.
    pub of: &'a [&'a str],
    pub left: &'a [&'a str],
}

/// The actions of a line.
const ACTIONS: &str = "init, finalize, comm_size, compute, send, isend, recv, irecv, wait, \
                       waitall, barrier, bcast, reduce, allReduce, allToAll, gather, gatherV, \
                       scatter, scatterV, allGather, allGatherV or reduceScatter";

impl Words<'_> {
    fn next(&mut self) -> Option<&str> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(first)
    }

    pub fn syntax(&self, found: &str, accepted: &str) -> TraceError {
        let (found, accepted) = (found.to_owned(), accepted.to_owned());
        TraceError::Syntax { line: self.line, found, accepted }
    }

    /// The next word, which must be there and mean something.
    fn read<T>(
        &mut self,
        accepted: &str,
        meaning: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, TraceError> {
        let found = self.next().unwrap_or_default().to_owned();
        meaning(&found).ok_or_else(|| self.syntax(&found, accepted))
    }

    fn end(&self) -> Result<(), TraceError> {
        self.left.first().map_or(Ok(()), |word| Err(self.syntax(word, "the end of the line")))
    }

    fn count(&mut self) -> Result<u64, TraceError> {
        let accepted = "a number of elements, whole and without unit, such as 1e6, up to 2^36";
        self.read(accepted, |word| {
            let count: f64 = word.parse().ok()?;
            let is_count = count.fract() == 0.0 && (0.0..=LARGEST.0 as f64).contains(&count);
            is_count.then_some(count as u64)
        })
    }

    fn counts(&mut self, ranks: u16) -> Result<Vec<u64>, TraceError> {
        (0..ranks).map(|_| self.count()).collect()
    }

    fn tag(&mut self) -> Result<u32, TraceError> {
        self.read("a tag, a number from 0 to 3758096383", |word| {
            word.parse().ok().filter(|tag| *tag < crate::trace::collectives::TAG)
        })
    }

    fn rank(&mut self, ranks: u16) -> Result<u16, TraceError> {
        let line = self.line;
        let rank: u64 = self.read("the number of a rank", |word| word.parse().ok())?;
        match u16::try_from(rank).ok().filter(|rank| *rank < ranks) {
            Some(rank) => Ok(rank),
            None => Err(TraceError::UnknownRank { line, rank, ranks }),
        }
    }

    /// A root, which is rank 0 where the line ends before it.
    fn root(&mut self, ranks: u16) -> Result<u16, TraceError> {
        if self.left.is_empty() { Ok(0) } else { self.rank(ranks) }
    }

    /// The bytes of a number of elements.
    fn bytes(&self, count: u64, of: Bytes) -> Result<Bytes, TraceError> {
        let size = count.checked_mul(of.0).filter(|size| *size <= LARGEST.0);
        size.map(Bytes).ok_or_else(|| {
            let found = format!("{count} elements of {} B", of.0);
            self.syntax(&found, "a message of 64 GiB or less")
        })
    }

    /// Refuses what two ends of a collective would have differently many bytes of.
    fn same(&self, sent: Bytes, received: Bytes) -> Result<Bytes, TraceError> {
        if sent == received {
            return Ok(sent);
        }
        let found = format!("{} B sent and {} B received", sent.0, received.0);
        Err(self.syntax(&found, "as many bytes received as sent"))
    }
}

/// What a rank sends and receives in a collective, by rank of the other end where that matters.
struct Sizes {
    sent: Vec<Bytes>,
    received: Vec<Bytes>,
}

impl Context {
    /// The meaning of the words of a line.
    pub fn read(&mut self, words: &mut Words<'_>) -> Result<Act, TraceError> {
        let verb = words.next().unwrap_or_default().to_owned();
        let act = match verb.to_ascii_lowercase().as_str() {
            "init" => self.init(words)?,
            "finalize" => Act::Ends,
            "comm_size" => {
                let ranks = self.ranks;
                let accepted = format!("{ranks}, as many as the trace has ranks");
                let is_right = |word: &str| (word == ranks.to_string()).then_some(Act::Nothing);
                words.read(&accepted, is_right)?
            }
            "compute" => Act::Do(Action::Compute(self.span(words)?)),
            verb @ ("send" | "isend" | "recv" | "irecv") => self.message(verb, words)?,
            "wait" => self.wait(words)?,
            "waitall" if words.left.is_empty() => Act::WaitAll(None),
            "waitall" => Act::WaitAll(Some(words.count()?)),
            collective => match self.collective(collective, words)? {
                Some((joint, computing)) => Act::Join(Box::new(joint), computing),
                None => return Err(words.syntax(&verb, ACTIONS)),
            },
        };
        words.end()?;
        Ok(act)
    }

    /// Any word after `init` makes double the type of counts without one.
    fn init(&mut self, words: &mut Words<'_>) -> Result<Act, TraceError> {
        let (default, name) = match words.next() {
            Some(_) => (datatype::DOUBLE, "double"),
            None => (datatype::BYTE, "byte"),
        };
        if *self.default.get_or_insert(default) != default {
            let found = format!("init, for counts of {name}");
            return Err(words.syntax(&found, "`init` as the lines before it take it"));
        }
        Ok(Act::Begins)
    }

    /// The size of a type, if there is a word for it.
    fn datatype(&mut self, words: &mut Words<'_>) -> Result<Bytes, TraceError> {
        match words.left.is_empty() {
            true => Ok(*self.default.get_or_insert(datatype::BYTE)),
            false => words.read(datatype::ACCEPTED, datatype::size),
        }
    }

    /// The bytes of a number of elements, by the type that follows, if one does.
    fn size(&mut self, words: &mut Words<'_>, count: u64) -> Result<Bytes, TraceError> {
        let of = self.datatype(words)?;
        words.bytes(count, of)
    }

    /// Other rank and count, as SimGrid had it before version 3.20; other rank, tag, count and, if
    /// it is there, type, as it has it since.
    fn message(&mut self, verb: &str, words: &mut Words<'_>) -> Result<Act, TraceError> {
        let other = words.rank(self.ranks)?;
        let tag = if words.left.len() > 1 { words.tag()? } else { 0 };
        let count = words.count()?;
        let size = self.size(words, count)?;
        let action = match verb.ends_with("send") {
            true => Action::Send { to: other, tag, size },
            false => Action::Receive { from: other, tag, size },
        };
        Ok(if verb.starts_with('i') { Act::Begin(action) } else { Act::Do(action) })
    }

    fn wait(&self, words: &mut Words<'_>) -> Result<Act, TraceError> {
        if words.left.is_empty() {
            return Ok(Act::Wait(None));
        }
        let (from, to, tag) = (words.rank(self.ranks)?, words.rank(self.ranks)?, words.tag()?);
        Ok(Act::Wait(Some((from, to, tag))))
    }

    fn span(&self, words: &mut Words<'_>) -> Result<Span, TraceError> {
        let accepted = "a number of instructions, such as 1e9, that take no more than 100 days";
        words.read(accepted, |word| {
            let amount: f64 = word.parse().ok()?;
            let span = (amount / self.speed * 1e12).round();
            let is_span = amount >= 0.0 && (0.0..=LONGEST.0 as f64).contains(&span);
            is_span.then_some(Span(span as u64))
        })
    }

    /// A collective, if the verb is that of one. MPI looks at what is received at the root of a
    /// gather only, and at what is sent at that of a scatter; so does this.
    fn collective(
        &mut self,
        verb: &str,
        words: &mut Words<'_>,
    ) -> Result<Option<(Joint, Span)>, TraceError> {
        let (ranks, rank) = (self.ranks, words.rank);
        let (mut computing, mut root) = (Span::ZERO, 0);
        let mut size = Bytes(0);
        let collective = match verb {
            "barrier" => Collective::Barrier,
            "bcast" => {
                let count = words.count()?;
                root = words.root(ranks)?;
                size = self.size(words, count)?;
                Collective::Broadcast
            }
            "reduce" | "allreduce" => {
                let count = words.count()?;
                computing = self.span(words)?;
                let is_rooted = verb == "reduce";
                root = if is_rooted { words.root(ranks)? } else { 0 };
                size = self.size(words, count)?;
                if is_rooted { Collective::Reduce } else { Collective::AllreduceRecursiveDoubling }
            }
            "alltoall" | "allgather" | "gather" | "scatter" => {
                let (sent, received) = (words.count()?, words.count()?);
                let is_rooted = !verb.starts_with("all");
                root = if is_rooted { words.root(ranks)? } else { 0 };
                let Sizes { sent, received } = self.both(words, &[sent], &[received])?;
                size = match verb {
                    "gather" if rank != root => sent[0],
                    "scatter" if rank != root => received[0],
                    _ => words.same(sent[0], received[0])?,
                };
                match verb {
                    "alltoall" => Collective::AllToAll,
                    "allgather" => Collective::AllgatherRing,
                    "gather" => Collective::Gather,
                    _ => Collective::Scatter,
                }
            }
            _ => return self.unequal(verb, words),
        };
        let sizes = Vec::new();
        Ok(Some((Joint { collective, size, sizes, root }, computing)))
    }

    /// A collective with a size for each rank, if the verb is that of one.
    fn unequal(
        &mut self,
        verb: &str,
        words: &mut Words<'_>,
    ) -> Result<Option<(Joint, Span)>, TraceError> {
        let (ranks, rank) = (self.ranks, words.rank);
        let (mut computing, mut root) = (Span::ZERO, 0);
        let sizes;
        let collective = match verb {
            // The rank's own send count precedes the list of all.
            "gatherv" | "allgatherv" => {
                let (sent, received) = (words.count()?, words.counts(ranks)?);
                let is_rooted = verb == "gatherv";
                root = if is_rooted { words.root(ranks)? } else { 0 };
                let Sizes { sent, received } = self.both(words, &[sent], &received)?;
                words.same(sent[0], received[usize::from(rank)])?;
                sizes = received;
                if is_rooted { Collective::GatherV } else { Collective::AllgatherV }
            }
            // The rank's own receive count follows it.
            "scatterv" => {
                let (sent, received) = (words.counts(ranks)?, words.count()?);
                root = words.root(ranks)?;
                let Sizes { sent, received } = self.both(words, &sent, &[received])?;
                words.same(sent[usize::from(rank)], received[0])?;
                sizes = sent;
                Collective::ScatterV
            }
            "reducescatter" => {
                let counts = words.counts(ranks)?;
                computing = self.span(words)?;
                let of = self.datatype(words)?;
                sizes =
                    counts.iter().map(|count| words.bytes(*count, of)).collect::<Result<_, _>>()?;
                Collective::ReduceScatterRing
            }
            _ => return Ok(None),
        };
        let size = Bytes(0);
        Ok(Some((Joint { collective, size, sizes, root }, computing)))
    }

    /// The sent and received sizes in bytes, by the types that follow, if any do.
    fn both(
        &mut self,
        words: &mut Words<'_>,
        sent: &[u64],
        received: &[u64],
    ) -> Result<Sizes, TraceError> {
        let of_sent = self.datatype(words)?;
        let of_received = self.datatype(words)?;
        let bytes = |counts: &[u64], of| {
            counts.iter().map(|count| words.bytes(*count, of)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Sizes { sent: bytes(sent, of_sent)?, received: bytes(received, of_received)? })
    }
}
