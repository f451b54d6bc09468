//! Why a program did not finish.

use weft_kernel::Stopped;
use weft_units::{Span, Time};

use super::machine::CLOCK_END;

/// The line of the trace, if there is one.
fn place(line: u32) -> String {
    if line > 0 { format!(" (line {line})") } else { String::new() }
}

/// Why a program did not finish.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// All ranks wait and nothing is in progress.
    #[error("the program is stuck at {time}: {}", .waiting.join("; "))]
    Deadlock {
        /// When nothing was left to happen.
        time: Time,
        /// What waits for what, and what the channels lost, one sentence per element.
        waiting: Vec<String>,
    },
    /// A message for a rank that does not exist.
    #[error("rank {rank} names rank {other}; accepted: 0 to {}", .ranks - 1)]
    UnknownRank {
        /// The rank that named it.
        rank: u16,
        /// The rank that was named.
        other: u64,
        /// How many ranks there are.
        ranks: u16,
    },
    /// Traffic that several channels could take and no rule gives to one.
    #[error(
        "no rule says which channel takes a message of {size} bytes; accepted: `channel`, or a \
         last rule in `route` without conditions; the channels are {}", .channels.join(", ")
    )]
    NoRoute {
        /// The size of the message.
        size: u64,
        /// The channels.
        channels: Vec<String>,
    },
    /// A message that its channel leaves to the ordinary stack, and no other channel takes.
    #[error(
        "the sockets of channel {channel} do not connect rank {rank} to rank {other}; accepted: a \
         rule in `route` below the one of {channel}, with the channel of the ordinary stack"
    )]
    NoOrdinaryStack {
        /// The channel.
        channel: String,
        /// The sender.
        rank: u16,
        /// The target.
        other: u16,
    },
    /// A message between ranks on one host, without a cost of its memory.
    #[error(
        "ranks on host {host} send to each other; accepted: system.memory, with the latency and \
         the rate of a copy"
    )]
    NoMemory {
        /// The host.
        host: u16,
    },
    /// A computation past the end of the clock.
    #[error(
        "rank {rank}{} computes for {span} from {time} on, which is past {CLOCK_END} (100 days), \
         where the clock of a program ends", place(*line)
    )]
    TooLong {
        /// The rank.
        rank: u16,
        /// The line of the trace, from 1; 0 without a line.
        line: u32,
        /// When it begins.
        time: Time,
        /// How long it takes.
        span: Span,
    },
    /// Something else happens past the end of the clock.
    #[error("at {time} the program is not over, and its clock ends at {CLOCK_END} (100 days)")]
    ClockEnds {
        /// The present.
        time: Time,
    },
    /// A message that does not fit what receives it (MPI 4.0, section 3.2.4: truncation).
    #[error(
        "rank {rank}{} receives {accepted} B of a message of {size} B that rank {from} sends with \
         tag {tag}; accepted: a receive of {size} B or more", place(*line)
    )]
    Truncated {
        /// The rank that receives.
        rank: u16,
        /// The line of the trace, from 1; 0 without a line.
        line: u32,
        /// The rank that sends.
        from: u16,
        /// The tag.
        tag: u32,
        /// The size of the message.
        size: u64,
        /// The size that the receive expects.
        accepted: u64,
    },
    /// It was stopped from outside.
    #[error("the program was stopped at {time} ({why:?}) before its end")]
    Stopped {
        /// Where it was.
        time: Time,
        /// Why.
        why: Stopped,
    },
    /// The error of a program in another language.
    #[error("{0}")]
    Program(String),
}
