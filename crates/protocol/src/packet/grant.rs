//! The grant packet `gnt`, with which the arbiter closes an arbitration cycle.

use super::header::{Header, PacketType, Port, Sequence};
use super::{DecodeError, check};

/// The number of a slot modulo 8: enough to tell a slot from its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlotNumber(u8);

/// `gnt`: whether and to whom an initiator may send in the next transfer stage (Clint 3.3).
///
/// It is sent to every node, granted or not: its arrival marks the slot boundary, and the switch
/// port that it left from is the node's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The identifier of the node that receives the packet.
    pub node: Port,
    /// The slot in which the transfer takes place.
    pub slot: SlotNumber,
    /// The granted target, if any.
    pub target: Option<Port>,
}

impl SlotNumber {
    /// How many slot numbers there are.
    pub const MODULUS: u64 = 8;

    /// The number of the `slot`-th slot of a run.
    pub const fn of(slot: u64) -> SlotNumber {
        SlotNumber((slot % SlotNumber::MODULUS) as u8)
    }

    /// The three bits.
    pub const fn bits(self) -> u8 {
        self.0
    }
}

impl Grant {
    /// Size on the wire in bytes.
    pub const SIZE: usize = PacketType::Grant.size().0 as usize;

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; Grant::SIZE] {
        let header = Header {
            packet_type: PacketType::Grant,
            flag: self.target.is_some(),
            port: self.target.unwrap_or_default(),
            sequence: Sequence::from_low_bits(
                (self.node.index() as u16) << 3 | u16::from(self.slot.0),
            ),
        };
        check::seal(header, &[])
    }

    pub(super) fn from_header(header: Header) -> Result<Grant, DecodeError> {
        if !header.flag && header.port.index() != 0 {
            let (packet_type, value) = (header.packet_type, header.port.index() as u32);
            return Err(DecodeError::Unused { packet_type, field: "port", value });
        }
        let bits = header.sequence.bits();
        Ok(Grant {
            node: Port::from_low_bits(u16::from(bits >> 3)),
            slot: SlotNumber(bits & 7),
            target: header.flag.then_some(header.port),
        })
    }
}
