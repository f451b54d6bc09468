//! The first sixteen bits of every packet.

use std::fmt;

use weft_units::Bytes;

use super::{DecodeError, FieldError};

/// The six packet types of Table 1 (Clint 3.2). The codes 0 and 15 are not used, so that a line
/// that is stuck at either level does not look like a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// `breq`, the only type on the bulk channel.
    BulkRequest = 1,
    /// `back`.
    BulkAcknowledgment = 2,
    /// `qreq`.
    QuickRequest = 3,
    /// `qack`.
    QuickAcknowledgment = 4,
    /// `cfg`.
    Configuration = 5,
    /// `gnt`.
    Grant = 6,
}

/// A switch port, and with it a node: 0 to 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(u8);

/// A sequence number modulo 128, compared within half its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(u8);

/// The first sixteen bits of a packet: type (4 bits), flag (1), port (4), sequence (7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type.
    pub packet_type: PacketType,
    /// Refused, granted or identified, by type; unused in requests.
    pub flag: bool,
    /// The port that the packet is routed to, or speaks of.
    pub port: Port,
    /// The sequence number.
    pub sequence: Sequence,
}

impl PacketType {
    /// Every type, in the order of Table 1.
    pub const ALL: [PacketType; 6] = [
        PacketType::BulkRequest,
        PacketType::BulkAcknowledgment,
        PacketType::QuickRequest,
        PacketType::QuickAcknowledgment,
        PacketType::Configuration,
        PacketType::Grant,
    ];

    /// Size on the wire, header and check code included (Clint 3.2, Table 1).
    pub const fn size(self) -> Bytes {
        Bytes(match self {
            PacketType::BulkRequest => 2086,
            PacketType::QuickRequest => 36,
            PacketType::Configuration => 19,
            PacketType::BulkAcknowledgment | PacketType::QuickAcknowledgment => 4,
            PacketType::Grant => 4,
        })
    }

    /// Whether the packet travels on the bulk channel; all others use the quick one.
    pub const fn is_bulk_channel(self) -> bool {
        matches!(self, PacketType::BulkRequest)
    }

    fn from_code(code: u8) -> Result<PacketType, DecodeError> {
        PacketType::ALL
            .into_iter()
            .find(|candidate| *candidate as u8 == code)
            .ok_or(DecodeError::NoSuchType { code })
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PacketType::BulkRequest => "breq",
            PacketType::BulkAcknowledgment => "back",
            PacketType::QuickRequest => "qreq",
            PacketType::QuickAcknowledgment => "qack",
            PacketType::Configuration => "cfg",
            PacketType::Grant => "gnt",
        })
    }
}

impl Port {
    /// How many ports the four bits hold.
    pub const COUNT: usize = 16;

    /// The port of a number.
    ///
    /// # Errors
    /// [`FieldError::Port`] from 16 on.
    pub fn new(port: usize) -> Result<Port, FieldError> {
        if port < Port::COUNT { Ok(Port(port as u8)) } else { Err(FieldError::Port { port }) }
    }

    /// The number of the port.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn from_low_bits(bits: u16) -> Port {
        Port((bits & 0xf) as u8)
    }
}

impl Sequence {
    /// How many sequence numbers there are.
    pub const MODULUS: u16 = 128;
    /// The first number of every pair.
    pub const FIRST: Sequence = Sequence(0);

    /// The sequence number of the `count`-th packet, counted from zero.
    pub const fn of(count: u64) -> Sequence {
        Sequence((count % Sequence::MODULUS as u64) as u8)
    }

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Sequence {
        self.plus(1)
    }

    /// The number `steps` after this one.
    #[must_use]
    pub const fn plus(self, steps: u16) -> Sequence {
        Sequence(((self.0 as u16 + steps) % Sequence::MODULUS) as u8)
    }

    /// How many steps lead from `earlier` to this number: 0 to 127.
    pub const fn since(self, earlier: Sequence) -> u16 {
        (self.0 as u16 + Sequence::MODULUS - earlier.0 as u16) % Sequence::MODULUS
    }

    /// The seven bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    pub(super) const fn from_low_bits(bits: u16) -> Sequence {
        Sequence((bits & 0x7f) as u8)
    }
}

impl Header {
    /// Size in bytes.
    pub const SIZE: usize = 2;

    pub(super) fn encode(self) -> [u8; Header::SIZE] {
        let bits = (self.packet_type as u16) << 12
            | u16::from(self.flag) << 11
            | u16::from(self.port.0) << 7
            | u16::from(self.sequence.0);
        bits.to_be_bytes()
    }

    pub(super) fn decode(bytes: [u8; Header::SIZE]) -> Result<Header, DecodeError> {
        let bits = u16::from_be_bytes(bytes);
        Ok(Header {
            packet_type: PacketType::from_code((bits >> 12) as u8)?,
            flag: bits >> 11 & 1 == 1,
            port: Port::from_low_bits(bits >> 7),
            sequence: Sequence::from_low_bits(bits),
        })
    }

    pub(super) fn without_flag(self) -> Result<Header, DecodeError> {
        if self.flag {
            let packet_type = self.packet_type;
            return Err(DecodeError::Unused { packet_type, field: "flag", value: 1 });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_table_1() {
        let sizes =
            PacketType::ALL.map(|packet_type| (packet_type.to_string(), packet_type.size().0));
        let table =
            [("breq", 2086), ("back", 4), ("qreq", 36), ("qack", 4), ("cfg", 19), ("gnt", 4)];
        assert_eq!(sizes, table.map(|(name, size)| (name.to_owned(), size)));
        assert_eq!(
            PacketType::ALL.map(PacketType::is_bulk_channel).map(usize::from),
            [1, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn a_sequence_number_wraps_and_counts_its_distance() {
        let last = Sequence::of(127);
        assert_eq!(last.next(), Sequence::FIRST);
        assert_eq!(Sequence::of(3).since(Sequence::of(126)), 5);
        assert_eq!(Sequence::of(128 * 7 + 5), Sequence::of(5));
    }

    #[test]
    fn a_port_beyond_four_bits_is_refused() {
        assert_eq!(Port::new(15).map(Port::index), Ok(15));
        let refusal = Port::new(16).unwrap_err();
        assert_eq!(refusal.to_string(), "port 16: expected 0 to 15");
    }
}
