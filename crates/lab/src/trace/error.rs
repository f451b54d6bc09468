//! What can be wrong with a trace.

/// The place of an operation, if it is in a file.
fn place(line: u32) -> String {
    if line > 0 { format!("line {line}: ") } else { String::new() }
}

/// The name of a node, if it has one.
fn called(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" (`{name}`)") }
}

/// Why a trace cannot be run, with the line that is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line that does not say what it should.
    #[error("line {line}: `{found}` where {accepted} is accepted")]
    Syntax {
        /// The line, from 1.
        line: u32,
        /// What is there.
        found: String,
        /// What would be right.
        accepted: String,
    },
    /// A rank that does not exist.
    #[error("line {line}: rank {rank} where 0 to {} are accepted", .ranks - 1)]
    UnknownRank {
        /// The line, from 1.
        line: u32,
        /// The rank.
        rank: u64,
        /// How many there are.
        ranks: u16,
    },
    /// A label that no operation of the rank has.
    #[error("line {line}: no operation of this rank is called `{label}`")]
    UnknownLabel {
        /// The line, from 1.
        line: u32,
        /// The label.
        label: String,
    },
    /// A name that was given before.
    #[error("line {line}: `{name}` was given before")]
    Twice {
        /// The line, from 1.
        line: u32,
        /// A label, or a rank.
        name: String,
    },
    /// Operations that wait for each other.
    #[error(
        "rank {rank}: the operations of the lines {} wait for each other",
        .lines.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    Cycle {
        /// The rank.
        rank: u16,
        /// Their lines, from 1; at most eight.
        lines: Vec<u32>,
    },
    /// Messages that are not received, or not sent.
    #[error(
        "line {line}: rank {from} sends {sent} messages to rank {to} with tag {tag}, which receives \
         {received} such messages; accepted: as many received as sent"
    )]
    Unmatched {
        /// The line of the last surplus one, from 1.
        line: u32,
        /// The sender.
        from: u16,
        /// The receiver.
        to: u16,
        /// Their tag.
        tag: u32,
        /// How many are sent.
        sent: u64,
        /// How many are received.
        received: u64,
    },
    /// A message larger than MPI has any.
    #[error("{}a message of {size} B where up to 64 GiB (2^36 B) are accepted", place(*line))]
    TooLarge {
        /// The line, from 1; 0 without a line.
        line: u32,
        /// The size of the message.
        size: u64,
    },
    /// A collective that a rank does not take part in.
    #[error(
        "line {line}: rank {rank} never reaches the `{collective}` of this line; accepted: a \
         collective that every rank of the trace takes part in"
    )]
    Unreached {
        /// The line of the first rank that reaches it, from 1.
        line: u32,
        /// Its name.
        collective: &'static str,
        /// The first rank that does not.
        rank: u16,
    },
    /// A list whose length differs from the one that it states.
    #[error("line {line}: {stated} {what} are announced, and {found} follow")]
    Miscounted {
        /// The line that states the length, from 1.
        line: u32,
        /// What is counted.
        what: &'static str,
        /// The length stated.
        stated: u64,
        /// How many there are.
        found: u64,
    },
    /// A trigger that nothing here can fire.
    #[error("line {line}: trigger {id} {why}")]
    Trigger {
        /// The line of the flow that waits for it, or of the trigger, from 1.
        line: u32,
        /// Its number.
        id: u32,
        /// What is wrong with it, and what is accepted.
        why: String,
    },
    /// A trace without what it must begin or end with.
    #[error("line {line}: the trace ends where {accepted} is accepted")]
    Ends {
        /// How many lines it has.
        line: u32,
        /// What is missing.
        accepted: &'static str,
    },
    /// More ranks than the hosts take.
    #[error(
        "the trace has {count} ranks, where at most {ranks} are accepted: as many as hosts times \
         ranks_per_host, which is 1 if not given"
    )]
    TooManyRanks {
        /// How many it has.
        count: usize,
        /// How many there are.
        ranks: u16,
    },
    /// A root of a collective that is no rank.
    #[error("root {root} where 0 to {} are accepted", .ranks - 1)]
    UnknownRoot {
        /// The root.
        root: u16,
        /// How many ranks there are.
        ranks: u16,
    },
    /// Sizes of the ranks of a collective that are not one for each rank.
    #[error("{count} sizes where accepted are {accepted}")]
    Sizes {
        /// How many were given.
        count: usize,
        /// How many would be right.
        accepted: String,
    },
    /// A node of a Chakra trace.
    #[error("node {id}{}: {why}", called(name))]
    Node {
        /// Its number in the file.
        id: u64,
        /// Its name in the file.
        name: String,
        /// What is wrong with it, and what is accepted.
        why: String,
    },
    /// Something in a file.
    #[error("{file}: {error}")]
    In {
        /// The file.
        file: String,
        /// What is wrong in it.
        error: Box<TraceError>,
    },
    /// A file that cannot be read.
    #[error("the trace cannot be read: {0}")]
    Unreadable(String),
}
