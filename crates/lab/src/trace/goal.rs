//! GOAL, the text form that LogGOPSim reads (Hoefler, Schneider and Lumsdaine, "LogGOPSim:
//! simulating large-scale applications in the LogGOPS model", LSAP 2010, section 3; ATLAHS writes
//! the same).
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//!   l1: calc 100 cpu 0                 // nanoseconds
//!   l2: send 8b to 1 tag 3 cpu 0 nic 0
//!   l2 requires l1
//! }
//! rank 1 {
//!   l1: recv 8b from 0 tag 3
//! }
//! ```
//!
//! An operation begins when all that it `requires` is over and all that it `irequires` has begun.
//! Words after `//` and `#` are remarks. Lines are read one by one; only operations are kept.

use std::collections::HashMap;
use std::fmt::Write;
use std::io::BufRead;

use weft_units::{Bytes, Span};

use super::error::TraceError;
use super::schedule::{Action, After, Edge, LONGEST, Operation, Schedule, Script};

/// Reads a trace.
pub fn read(mut input: impl BufRead) -> Result<Schedule, TraceError> {
    let mut reader = Reader::default();
    let mut text = Vec::new();
    loop {
        text.clear();
        let read = input.read_until(b'\n', &mut text);
        if read.map_err(|error| TraceError::Unreadable(error.to_string()))? == 0 {
            return reader.finish();
        }
        reader.line += 1;
        reader.read_line(&text)?;
    }
}

#[derive(Debug, Default)]
struct Reader {
    line: u32,
    ranks: u16,
    schedule: Schedule,
    /// Which ranks were described.
    described: Vec<bool>,
    /// The rank whose operations are read.
    rank: Option<u16>,
    labels: Labels,
}

/// The operations of a rank by their labels. Most are a letter and a small number.
#[derive(Debug, Default)]
struct Labels {
    numbered: Vec<u32>,
    others: HashMap<Vec<u8>, u32>,
}

const NONE: u32 = u32::MAX;

/// Labels up to this many times the number of operations are stored in a table.
const SPARSE: usize = 8;

impl Labels {
    /// The number of a label such as `l17`, which has only one spelling.
    fn number(label: &[u8]) -> Option<usize> {
        let digits = label.strip_prefix(b"l")?;
        let plain =
            !digits.is_empty() && digits.len() < 10 && (digits[0] != b'0' || digits == b"0");
        plain.then(|| number(digits)).flatten().map(|number| number as usize)
    }

    /// Names an operation. Returns whether the label is new.
    fn insert(&mut self, label: &[u8], operation: u32) -> bool {
        let near = (operation as usize + 128) * SPARSE;
        match Labels::number(label).filter(|number| *number < near) {
            Some(number) => {
                if self.numbered.len() <= number {
                    self.numbered.resize(number + 1, NONE);
                }
                std::mem::replace(&mut self.numbered[number], operation) == NONE
                    && !self.others.contains_key(label)
            }
            None => self.others.insert(label.to_vec(), operation).is_none(),
        }
    }

    fn get(&self, label: &[u8]) -> Option<u32> {
        let table = Labels::number(label).and_then(|number| self.numbered.get(number));
        table.copied().filter(|found| *found != NONE).or_else(|| self.others.get(label).copied())
    }

    fn clear(&mut self) {
        self.numbered.clear();
        self.others.clear();
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(digit.into())
    })
}

/// The words of a line without remarks.
struct Words<'a>(&'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let begin = self.0.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let rest = &self.0[begin..];
        if rest[0] == b'#' || rest.starts_with(b"//") {
            self.0 = &[];
            return None;
        }
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(&rest[..end])
    }
}

impl Reader {
    fn read_line(&mut self, text: &[u8]) -> Result<(), TraceError> {
        let mut words = Words(text);
        let Some(first) = words.next() else { return Ok(()) };
        match (first, self.rank) {
            (b"num_ranks", None) if self.ranks == 0 => self.number_of_ranks(&mut words),
            (b"rank", None) if self.ranks > 0 => self.begin_rank(&mut words),
            (b"}", Some(rank)) => {
                self.rank = None;
                self.end(&mut words)?;
                self.schedule.ranks[usize::from(rank)].check(rank)
            }
            (word, Some(rank)) => self.operation_or_order(rank, word, words),
            (word, None) => {
                let accepted = match (self.ranks, number(word)) {
                    (0, Some(_)) => "`num_ranks N`; a trace of SimGrid is run with a speed",
                    (0, None) => "`num_ranks N`",
                    _ => "`rank N {`",
                };
                Err(self.syntax(word, accepted))
            }
        }
    }

    fn number_of_ranks(&mut self, words: &mut Words<'_>) -> Result<(), TraceError> {
        let word = words.next().unwrap_or_default();
        let ranks = number(word).and_then(|ranks| u16::try_from(ranks).ok());
        let Some(ranks) = ranks.filter(|ranks| *ranks > 0) else {
            return Err(self.syntax(word, "a number of ranks from 1 to 65535"));
        };
        self.ranks = ranks;
        self.schedule = Schedule::new(ranks);
        self.described = vec![false; ranks.into()];
        self.end(words)
    }

    fn begin_rank(&mut self, words: &mut Words<'_>) -> Result<(), TraceError> {
        let word = words.next().unwrap_or_default();
        let (word, open) = match word.strip_suffix(b"{") {
            Some(digits) => (digits, true),
            None => (word, false),
        };
        let rank = self.rank(word)?;
        if !open {
            let word = words.next().unwrap_or_default();
            if word != b"{" {
                return Err(self.syntax(word, "`{`"));
            }
        }
        if std::mem::replace(&mut self.described[usize::from(rank)], true) {
            return Err(TraceError::Twice { line: self.line, name: format!("rank {rank}") });
        }
        self.rank = Some(rank);
        self.labels.clear();
        self.end(words)
    }

    /// `label: send ...`, `send ...`, or `label requires label`.
    fn operation_or_order(
        &mut self,
        rank: u16,
        first: &[u8],
        mut words: Words<'_>,
    ) -> Result<(), TraceError> {
        let place = usize::from(rank);
        let (label, verb) = match first.strip_suffix(b":") {
            Some(label) => (Some(label), words.next().unwrap_or_default()),
            None => (None, first),
        };
        let action = match verb {
            b"calc" => self.compute(&mut words)?,
            b"send" => self.send(&mut words)?,
            b"recv" => self.receive(&mut words)?,
            _ if label.is_none() => return self.order(place, first, words),
            verb => return Err(self.syntax(verb, "`send`, `recv` or `calc`")),
        };
        let mut operation = Operation { line: self.line, ..Operation::new(action) };
        self.details(&mut operation, &mut words)?;
        let number = self.schedule.ranks[place].add(operation, &[]);
        if let Some(label) = label
            && !self.labels.insert(label, number)
        {
            return Err(TraceError::Twice { line: self.line, name: text(label) });
        }
        Ok(())
    }

    /// What may follow an operation: each at most once, and for a computation only `cpu`.
    fn details(&self, operation: &mut Operation, words: &mut Words<'_>) -> Result<(), TraceError> {
        let mut given = [false; 3];
        while let Some(word) = words.next() {
            let (place, most, accepted) = match (word, operation.action) {
                (b"cpu", _) => (0, u8::MAX.into(), "`cpu N`, a number from 0 to 255"),
                (b"nic", Action::Send { .. } | Action::Receive { .. }) => {
                    (1, u16::MAX.into(), "`nic N`, a number from 0 to 65535")
                }
                (b"tag", Action::Send { .. } | Action::Receive { .. }) => {
                    (2, u32::MAX, "`tag N`, a number from 0 to 4294967295")
                }
                (_, Action::Compute(_) | Action::Sleep(_)) => {
                    return Err(self.syntax(word, "`cpu N`"));
                }
                _ => return Err(self.syntax(word, "`tag N`, `cpu N` or `nic N`")),
            };
            if std::mem::replace(&mut given[place], true) {
                return Err(TraceError::Twice { line: self.line, name: text(word) });
            }
            let digits = words.next().unwrap_or_default();
            let value = number(digits).and_then(|value| u32::try_from(value).ok());
            let Some(value) = value.filter(|value| *value <= most) else {
                return Err(self.syntax(&[word, digits].join(&b' '), accepted));
            };
            match (place, &mut operation.action) {
                (0, _) => operation.cpu = value as u16,
                (1, _) => operation.nic = value as u16,
                (_, Action::Send { tag, .. } | Action::Receive { tag, .. }) => *tag = value,
                // Refused above.
                (_, Action::Compute(_) | Action::Sleep(_)) => {}
            }
        }
        Ok(())
    }

    fn order(&mut self, rank: usize, first: &[u8], mut words: Words<'_>) -> Result<(), TraceError> {
        let verb = words.next().unwrap_or_default();
        let after = match verb {
            b"requires" => After::Over,
            b"irequires" => After::Begun,
            _ => {
                let accepted = "`LABEL: send`, `recv` or `calc`, `LABEL requires LABEL`, \
                                `LABEL irequires LABEL` or `}`";
                let found = [first, verb].join(&b' ');
                return Err(self.syntax(&found, accepted));
            }
        };
        let waits = self.label(first)?;
        let before = self.label(words.next().unwrap_or_default())?;
        self.schedule.ranks[rank].wait(waits, before, after);
        self.end(&mut words)
    }

    fn compute(&self, words: &mut Words<'_>) -> Result<Action, TraceError> {
        let word = words.next().unwrap_or_default();
        let span = number(word).and_then(|ns| ns.checked_mul(1_000));
        let span = span.filter(|span| *span <= LONGEST.0);
        let accepted = "a number of nanoseconds without unit, no more than 100 days";
        let span = span.ok_or_else(|| self.syntax(word, accepted))?;
        Ok(Action::Compute(Span(span)))
    }

    fn send(&self, words: &mut Words<'_>) -> Result<Action, TraceError> {
        let (size, to) = self.message(words, b"to")?;
        Ok(Action::Send { to, tag: 0, size })
    }

    fn receive(&self, words: &mut Words<'_>) -> Result<Action, TraceError> {
        let (size, from) = self.message(words, b"from")?;
        Ok(Action::Receive { from, tag: 0, size })
    }

    fn message(&self, words: &mut Words<'_>, before: &[u8]) -> Result<(Bytes, u16), TraceError> {
        let word = words.next().unwrap_or_default();
        let size = word.strip_suffix(b"b").and_then(number);
        let size = size.ok_or_else(|| self.syntax(word, "a number of bytes such as `8b`"))?;
        let word = words.next().unwrap_or_default();
        if word != before {
            return Err(self.syntax(word, &format!("`{}`", text(before))));
        }
        Ok((Bytes(size), self.rank(words.next().unwrap_or_default())?))
    }

    fn rank(&self, word: &[u8]) -> Result<u16, TraceError> {
        let rank = number(word).ok_or_else(|| self.syntax(word, "the number of a rank"))?;
        if rank >= u64::from(self.ranks) {
            return Err(TraceError::UnknownRank { line: self.line, rank, ranks: self.ranks });
        }
        Ok(rank as u16)
    }

    fn label(&self, label: &[u8]) -> Result<u32, TraceError> {
        let unknown = || TraceError::UnknownLabel { line: self.line, label: text(label) };
        self.labels.get(label).ok_or_else(unknown)
    }

    fn end(&self, words: &mut Words<'_>) -> Result<(), TraceError> {
        words.next().map_or(Ok(()), |word| Err(self.syntax(word, "the end of the line")))
    }

    fn syntax(&self, found: &[u8], accepted: &str) -> TraceError {
        TraceError::Syntax { line: self.line, found: text(found), accepted: accepted.to_owned() }
    }

    fn finish(self) -> Result<Schedule, TraceError> {
        match (self.ranks, self.rank) {
            (0, _) => Err(TraceError::Ends { line: self.line, accepted: "`num_ranks N`" }),
            (_, Some(_)) => Err(TraceError::Ends { line: self.line, accepted: "`}`" }),
            _ => {
                self.schedule.check_messages()?;
                Ok(self.schedule)
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Writes a trace that [`read`] reads back. Spans are rounded up to whole nanoseconds, the finest
/// that GOAL has.
pub fn write(schedule: &Schedule) -> String {
    let mut out = format!("num_ranks {}\n", schedule.ranks.len());
    for (rank, script) in schedule.ranks.iter().enumerate() {
        // Writing into a text cannot fail.
        let _ = writeln!(out, "rank {rank} {{");
        write_script(&mut out, script);
        out.push_str("}\n");
    }
    out
}

fn write_script(out: &mut String, script: &Script) {
    for (number, operation) in script.operations().iter().enumerate() {
        let Operation { action, cpu, nic, .. } = operation;
        let _ = write!(out, "l{number}: ");
        let _ = match action {
            // GOAL has no operation that only lets time pass.
            Action::Compute(span) | Action::Sleep(span) => {
                write!(out, "calc {}", span.0.div_ceil(1_000))
            }
            Action::Send { to, tag, size } => write!(out, "send {}b to {to} tag {tag}", size.0),
            Action::Receive { from, tag, size } => {
                write!(out, "recv {}b from {from} tag {tag}", size.0)
            }
        };
        if *cpu > 0 {
            let _ = write!(out, " cpu {cpu}");
        }
        if *nic > 0 {
            let _ = write!(out, " nic {nic}");
        }
        out.push('\n');
    }
    for Edge { before, waits, after } in script.edges() {
        let verb = match after {
            After::Over => "requires",
            After::Begun => "irequires",
        };
        let _ = writeln!(out, "l{waits} {verb} l{before}");
    }
}
