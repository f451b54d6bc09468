//! Why symbols are not a frame, and why packets are not a message.

use super::message::LONGEST_MESSAGE;
use super::{CHANNELS, PACKET};

/// Why symbols are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// There is no whole preamble.
    #[error("{symbols} symbols: expected a preamble of {}", CHANNELS + 1)]
    NoPreamble {
        /// How many symbols there were.
        symbols: usize,
    },
    /// A symbol has more bits than travel at a time.
    #[error("symbol {place} is {value:#x}: expected {bits} bits")]
    Symbol {
        /// Its place in the frame, from 0.
        place: usize,
        /// What it was.
        value: u8,
        /// How many bits a symbol has.
        bits: u32,
    },
    /// The third symbol names no kind of frame.
    #[error("kind {value:#06b}: expected 0000 without packets, 1000 or 1001 with packets")]
    NoSuchKind {
        /// What it was.
        value: u8,
    },
    /// A null frame that does not end with its preamble.
    #[error("{symbols} symbols behind the preamble of a null frame: expected none")]
    FilledNull {
        /// How many symbols follow.
        symbols: usize,
    },
    /// A frame with packets that has none.
    #[error("no packet in a frame that is not null: expected at least one")]
    Empty,
    /// The symbols behind the preamble are no whole number of packets.
    #[error("{symbols} symbols behind the preamble: expected a multiple of {packet}")]
    PartialPacket {
        /// How many symbols follow.
        symbols: usize,
        /// How many symbols a packet has.
        packet: usize,
    },
    /// More packets than a credit can allow.
    #[error("{packets} packets in a frame: expected at most {most}")]
    TooLong {
        /// How many packets there were.
        packets: usize,
        /// The largest credit.
        most: usize,
    },
    /// A credit that its symbol cannot hold.
    #[error("credit {credit} of channel {channel}: expected at most {most}")]
    Credit {
        /// The channel.
        channel: usize,
        /// The credit.
        credit: u16,
        /// The largest credit.
        most: usize,
    },
}

/// Why packets are not a message, or a message does not become packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// There is no packet at all.
    #[error("no packet: expected at least one")]
    Empty,
    /// A message that `PktCounter` cannot count.
    #[error("a message of {length} bytes: expected at most {LONGEST_MESSAGE}")]
    TooLong {
        /// How many bytes of payload there were.
        length: usize,
    },
    /// The number of packets is not the one that the header says.
    #[error("{packets} packets: the header says {counted}")]
    Count {
        /// How many packets there were.
        packets: usize,
        /// How many there should be.
        counted: usize,
    },
    /// `PktCounter` of a message of several packets says less than two.
    #[error("a message of several packets counts {counted}: expected 2 to 65535")]
    Counter {
        /// What was read.
        counted: u16,
    },
    /// No operation has this code.
    #[error("operation {code}: expected 0 to 3")]
    NoSuchOperation {
        /// What was read.
        code: u8,
    },
    /// The last packet does not hold that many bytes.
    #[error("{length} bytes of payload in the last packet: expected at most {most}")]
    LastPacket {
        /// How many bytes the header says.
        length: usize,
        /// How many there is room for.
        most: usize,
    },
    /// Bytes behind the payload are not zero.
    #[error("byte {place} of the last packet is {value:#x}: expected 0 behind the payload")]
    Padding {
        /// Its place in the packet.
        place: usize,
        /// What it was.
        value: u8,
    },
}

const _: () = assert!(PACKET == 16, "the length of the last packet has four bits");
