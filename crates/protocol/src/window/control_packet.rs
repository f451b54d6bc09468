//! The control packet of generation 2, bit by bit (Figure 4b): flow control, port state, node
//! numbers, global clock.
//!
//! Control packets have priority over data packets. One is inserted immediately when the state of
//! the flow control changes, and otherwise at an interval of a millisecond. Field widths are a
//! choice:
//!
//! | cycle | bits | field |
//! |---|---|---|
//! | 0 | 2, 6, 8 | packet type TP, destination DNID, port status PSTAT |
//! | 1 | 8, 8 | configuration CFG, hub status |
//! | 2 | 32 | global status: a bit for each node on line (two cycles) |
//! | 4, 5 | 32 | Reed-Solomon code |
//!
//! PSTAT: buffers free (7 bits), in error (1 bit). Hub status: clock pulse (1 bit), zero.

use super::data_packet::node;
use super::{Node, PacketError, ReedSolomon};

/// A control packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ControlPacket {
    /// To the adapter: its node number.
    pub destination: Node,
    /// How many packets the sending side takes now: 0 is stop.
    pub free: u8,
    /// The sending side discards what arrives, until it is recovered.
    pub in_error: bool,
    /// Link frequency and width that the sending side can do, see [`super::LinkMode`].
    pub configuration: u8,
    /// The pulse of the global clock.
    pub pulse: bool,
    /// The nodes that are on line.
    pub on_line: u32,
}

/// The packet type of control packets.
const CONTROL: u8 = 0b10;

impl ControlPacket {
    /// Bytes on the link, code included: six cycles.
    pub const SIZE: usize = 12;

    /// The bytes on the link.
    pub fn encode(&self) -> [u8; ControlPacket::SIZE] {
        let mut bytes = [0; ControlPacket::SIZE];
        bytes[0] = CONTROL << 6 | self.destination.0 & 0x3f;
        bytes[1] = self.free.min(0x7f) << 1 | u8::from(self.in_error);
        bytes[2] = self.configuration;
        bytes[3] = u8::from(self.pulse) << 7;
        bytes[4..8].copy_from_slice(&self.on_line.to_be_bytes());
        let code = ReedSolomon::of(&bytes[..8]);
        bytes[8..].copy_from_slice(&code.bytes());
        bytes
    }

    /// Reads a packet. The code is checked before any field is looked at.
    ///
    /// # Errors
    /// [`PacketError`] names what was found and what would have been accepted.
    pub fn decode(bytes: &[u8]) -> Result<ControlPacket, PacketError> {
        if bytes.len() != ControlPacket::SIZE {
            return Err(PacketError::Size { size: bytes.len(), accepted: "12" });
        }
        if !ReedSolomon::accepts(bytes) {
            return Err(PacketError::Check);
        }
        if bytes[0] >> 6 != CONTROL {
            return Err(PacketError::Type { found: bytes[0] >> 6, accepted: CONTROL });
        }
        Ok(ControlPacket {
            destination: node("DNID", bytes[0] & 0x3f)?,
            free: bytes[1] >> 1,
            in_error: bytes[1] & 1 == 1,
            configuration: bytes[2],
            pulse: bytes[3] >> 7 == 1,
            on_line: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_survives_and_stands_where_the_table_says() {
        let packet = ControlPacket {
            destination: Node(5),
            free: 3,
            in_error: true,
            configuration: 0x21,
            pulse: true,
            on_line: 0x8000_0001,
        };
        let bytes = packet.encode();
        assert_eq!(bytes[..8], [0b1000_0101, 0b0000_0111, 0x21, 0x80, 0x80, 0, 0, 1]);
        assert_eq!(ControlPacket::decode(&bytes), Ok(packet));
    }

    #[test]
    fn a_data_packet_of_the_same_size_is_no_control_packet() {
        let mut bytes = ControlPacket::default().encode();
        bytes[0] = 0x40;
        let code = ReedSolomon::of(&bytes[..8]).bytes();
        bytes[8..].copy_from_slice(&code);
        let refused = ControlPacket::decode(&bytes).map_err(|error| error.to_string());
        assert_eq!(refused, Err("packet type 1: accepted is 2".to_owned()));
        bytes[7] ^= 1;
        assert_eq!(ControlPacket::decode(&bytes), Err(PacketError::Check));
    }
}
