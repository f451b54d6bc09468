//! Why a program did not come to its end.

use weft_kernel::Stopped;
use weft_units::{Span, Time};

use super::machine::CLOCK_END;

/// Where a trace says it, if one does.
fn place(line: u32) -> String {
    if line > 0 { format!(" (line {line})") } else { String::new() }
}

/// Why a program did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Everybody waits and nothing is under way.
    #[error("the program is stuck at {time}: {}", .waiting.join("; "))]
    Deadlock {
        /// When nothing was to happen any more.
        time: Time,
        /// Who waits for whom, and what the channels lost, one sentence an element.
        waiting: Vec<String>,
    },
    /// A message for a rank that there is not.
    #[error("rank {rank} names rank {other}; accepted: 0 to {}", .ranks - 1)]
    UnknownRank {
        /// Who named it.
        rank: u16,
        /// What was named.
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
        /// Who sends.
        rank: u16,
        /// To whom.
        other: u16,
    },
    /// A message between ranks on one host, where nothing says what its memory costs.
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
        /// Where a trace says it, from 1; 0 where no line does.
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
        /// Where a trace says it, from 1; 0 where no line does.
        line: u32,
        /// The rank that sends.
        from: u16,
        /// The tag.
        tag: u32,
        /// What the message has.
        size: u64,
        /// What the receive asks for.
        accepted: u64,
    },
    /// It was ended from outside.
    #[error("the program was stopped at {time} ({why:?}) before its end")]
    Stopped {
        /// Where it was.
        time: Time,
        /// Why.
        why: Stopped,
    },
    /// What a program in another language did wrong.
    #[error("{0}")]
    Program(String),
}
