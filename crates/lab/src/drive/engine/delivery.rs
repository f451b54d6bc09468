//! What an observer of a run sees of a delivery.

use weft_units::Time;

/// A packet, or a message of several of a connection, that has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// When it was handed over.
    pub generated: Time,
    /// When its first byte left the initiator.
    pub start: Time,
    /// When its last byte reached the target, or its completion.
    pub end: Time,
    /// How many switches it passed.
    pub hops: u8,
}
