//! Why a program did not come to its end.

use weft_kernel::Stopped;
use weft_units::Time;

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
