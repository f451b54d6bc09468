//! Why bytes are not a packet, and why a value does not fit a field.

use super::{PacketType, Payload};

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No packet has this size.
    #[error("a packet of {size} bytes: expected one of 4, 19, 36 and 2086")]
    NoSuchSize {
        /// How many bytes there were.
        size: usize,
    },
    /// The check code does not fit the bytes before it.
    #[error("check code {found:#x} where the bytes give {computed:#x}")]
    Check {
        /// The check code in the packet.
        found: u32,
        /// The check code of the bytes before it.
        computed: u32,
    },
    /// No packet type has this code.
    #[error("packet type {code}: expected 1 to 6")]
    NoSuchType {
        /// The code that was read.
        code: u8,
    },
    /// The size is that of another type.
    #[error("a {packet_type} packet of {size} bytes: expected {expected}")]
    Size {
        /// The type that the header names.
        packet_type: PacketType,
        /// How many bytes there were.
        size: usize,
        /// How many the type has.
        expected: usize,
    },
    /// A bit that the type leaves unused is set.
    #[error("unused {field} {value} in a {packet_type} packet: expected 0")]
    Unused {
        /// The type that the header names.
        packet_type: PacketType,
        /// The field.
        field: &'static str,
        /// What it held.
        value: u32,
    },
    /// The payload is longer than its field.
    #[error("payload length {length}: expected at most {}", Payload::LIMIT)]
    PayloadLength {
        /// The length that was read.
        length: u16,
    },
}

/// Why a value does not fit a field of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// A port that four bits do not hold.
    #[error("port {port}: expected 0 to 15")]
    Port {
        /// The port that was given.
        port: usize,
    },
    /// More payload than a bulk message carries.
    #[error("payload of {length} bytes: expected at most {}", Payload::LIMIT)]
    Payload {
        /// The length that was given.
        length: usize,
    },
}
