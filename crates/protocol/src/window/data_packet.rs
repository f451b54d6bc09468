//! The data packet of generation 2, bit by bit (Figure 4a).
//!
//! The document names the fields and not their widths. The published network limit fixes the sum:
//! 97 MB/s at 32 bytes and 127 MB/s at 256 are payload / 2 + 6 cycles of 15 ns (MC-R1), so header,
//! address and code take six cycles of 16 bits. Numbers are big-endian:
//!
//! | cycles | bits | field |
//! |---|---|---|
//! | 0 | 2, 6, 8 | packet type TP, destination DNID, command CMD |
//! | 1 | 6, 3, 7 | sender SID, zero, cycles of payload less one |
//! | 2, 3 | 32 | destination address |
//! | 4 .. | 16 each | payload, 2 to 128 cycles |
//! | last two | 32 | Reed-Solomon code |
//!
//! DNID and SID have six bits, of which five name a node. CMD: kind (3 bits), broadcast, local
//! copy, sweep, acknowledge, under error (1 bit each).

use super::{Node, PacketError, ReedSolomon};

/// The bytes of a payload: 4 to 256, an even number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Payload(Vec<u8>);

/// The effect of a packet at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// Writes its payload; the receive table may make a read request or a conditional write of it.
    Write,
    /// Tells that everything before a sweep or an acknowledged packet has arrived.
    Acknowledgment,
    /// Tells what became of a conditional write: the first payload bit is set if it was taken.
    Status,
}

/// The command field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// The effect of the packet.
    pub kind: CommandKind,
    /// It is for all nodes; the destination field is ignored.
    pub broadcast: bool,
    /// A copy comes back to the sender.
    pub local_copy: bool,
    /// It sweeps its path: acknowledged when everything before it has arrived.
    pub sweep: bool,
    /// It is acknowledged.
    pub acknowledge: bool,
    /// It is recovery traffic, and passes paths in error.
    pub under_error: bool,
}

/// A data packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataPacket {
    /// The target of a point-to-point packet.
    pub destination: Node,
    /// The sender.
    pub sender: Node,
    /// Its effect.
    pub command: Command,
    /// The network address that the payload begins at.
    pub address: u32,
    /// The data.
    pub payload: Payload,
}

/// The packet type of data packets.
pub(super) const DATA: u8 = 0b01;

const HEAD: usize = 8;

impl Payload {
    /// The bytes as a payload.
    ///
    /// # Errors
    /// [`PacketError::Size`] for other than 4 to 256 bytes, or an odd number.
    pub fn new(bytes: Vec<u8>) -> Result<Payload, PacketError> {
        if !(4..=256).contains(&bytes.len()) || bytes.len() % 2 == 1 {
            let accepted = "an even number from 4 to 256";
            return Err(PacketError::Size { size: bytes.len(), accepted });
        }
        Ok(Payload(bytes))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Command {
    /// A write without further attributes.
    pub const WRITE: Command = Command {
        kind: CommandKind::Write,
        broadcast: false,
        local_copy: false,
        sweep: false,
        acknowledge: false,
        under_error: false,
    };

    fn encode(self) -> u8 {
        let kind = match self.kind {
            CommandKind::Write => 0,
            CommandKind::Acknowledgment => 1,
            CommandKind::Status => 2,
        };
        let Command { broadcast, local_copy, sweep, acknowledge, under_error, .. } = self;
        let flags = [broadcast, local_copy, sweep, acknowledge, under_error];
        flags.into_iter().fold(kind, |bits, flag| bits << 1 | u8::from(flag))
    }

    fn decode(bits: u8) -> Result<Command, PacketError> {
        let kind = match bits >> 5 {
            0 => CommandKind::Write,
            1 => CommandKind::Acknowledgment,
            2 => CommandKind::Status,
            other => return Err(field("CMD kind", other, "0 to 2")),
        };
        let flag = |bit: u8| bits >> bit & 1 == 1;
        Ok(Command {
            kind,
            broadcast: flag(4),
            local_copy: flag(3),
            sweep: flag(2),
            acknowledge: flag(1),
            under_error: flag(0),
        })
    }
}

impl DataPacket {
    /// Cycles of 16 bits that are not payload: 2 of header, 2 of address, 2 of code.
    pub const OVERHEAD_CYCLES: u64 = 6;

    /// How many cycles of 16 bits it takes on the link.
    pub fn cycles(&self) -> u64 {
        DataPacket::OVERHEAD_CYCLES + self.payload.0.len() as u64 / 2
    }

    /// The bytes on the link, code included.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.cycles() as usize * 2);
        bytes.extend_from_slice(&[
            DATA << 6 | self.destination.0 & 0x3f,
            self.command.encode(),
            self.sender.0 << 2,
            (self.payload.0.len() / 2 - 1) as u8,
        ]);
        bytes.extend_from_slice(&self.address.to_be_bytes());
        bytes.extend_from_slice(&self.payload.0);
        let code = ReedSolomon::of(&bytes);
        bytes.extend_from_slice(&code.bytes());
        bytes
    }

    /// Reads a packet. The code is checked before any field is looked at.
    ///
    /// # Errors
    /// [`PacketError`] names what was found and what would have been accepted.
    pub fn decode(bytes: &[u8]) -> Result<DataPacket, PacketError> {
        let least = HEAD + 4 + ReedSolomon::SIZE;
        if bytes.len() < least || bytes.len() > least + 252 || bytes.len() % 2 == 1 {
            let accepted = "an even number from 16 to 268";
            return Err(PacketError::Size { size: bytes.len(), accepted });
        }
        if !ReedSolomon::accepts(bytes) {
            return Err(PacketError::Check);
        }
        if bytes[0] >> 6 != DATA {
            return Err(PacketError::Type { found: bytes[0] >> 6, accepted: DATA });
        }
        let (destination, sender) = (node("DNID", bytes[0] & 0x3f)?, node("SID", bytes[2] >> 2)?);
        let payload = &bytes[HEAD..bytes.len() - ReedSolomon::SIZE];
        if usize::from(bytes[3]) != payload.len() / 2 - 1 || bytes[2] & 3 != 0 {
            return Err(field("cycles of payload", bytes[3], "one less than there are"));
        }
        Ok(DataPacket {
            destination,
            sender,
            command: Command::decode(bytes[1])?,
            address: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            payload: Payload::new(payload.to_vec())?,
        })
    }
}

/// Five of the six bits of an identifier name a node.
pub(super) fn node(name: &'static str, bits: u8) -> Result<Node, PacketError> {
    if u16::from(bits) >= Node::MOST {
        return Err(field(name, bits, "0 to 31"));
    }
    Ok(Node(bits))
}

fn field(field: &'static str, found: u8, accepted: &'static str) -> PacketError {
    PacketError::Field { field, found: found.into(), accepted }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packet(payload: Vec<u8>) -> DataPacket {
        DataPacket {
            destination: Node(3),
            sender: Node(1),
            command: Command { broadcast: true, sweep: true, ..Command::WRITE },
            address: 0x0001_2340,
            payload: Payload::new(payload).unwrap(),
        }
    }

    #[test]
    fn the_fields_of_a_small_packet_stand_where_the_table_says() {
        let bytes = packet(vec![0xaa, 0xbb, 0xcc, 0xdd]).encode();
        assert_eq!(bytes[..4], [0b0100_0011, 0b0001_0100, 0b0000_0100, 1]);
        assert_eq!(bytes[4..12], [0x00, 0x01, 0x23, 0x40, 0xaa, 0xbb, 0xcc, 0xdd]);
        assert_eq!(bytes.len(), 16);
    }

    /// MC-R1: 32 bytes take 22 cycles of 15 ns, 256 bytes 134.
    #[test]
    fn sizes_are_those_of_the_published_limit() {
        assert_eq!(packet(vec![0; 32]).cycles(), 22);
        assert_eq!(packet(vec![0; 256]).cycles(), 134);
        assert_eq!(packet(vec![0; 256]).encode().len(), 268);
    }

    #[test]
    fn a_payload_too_small_too_large_or_odd_is_refused() {
        for size in [0, 2, 5, 257, 258] {
            let refused = Payload::new(vec![0; size]).unwrap_err().to_string();
            assert_eq!(refused, format!("{size} bytes: accepted is an even number from 4 to 256"));
        }
    }

    #[test]
    fn what_no_sender_writes_is_refused_after_the_code() {
        let seal = |mut bytes: Vec<u8>| {
            let end = bytes.len() - 4;
            let code = ReedSolomon::of(&bytes[..end]).bytes();
            bytes[end..].copy_from_slice(&code);
            DataPacket::decode(&bytes).map_err(|error| error.to_string())
        };
        let good = packet(vec![0; 4]).encode();
        let with = |place: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[place] = value;
            bytes
        };
        let refusals = [
            (0, 0x83, "packet type 2: accepted is 1"),
            (0, 0x7f, "DNID = 63: accepted is 0 to 31"),
            (1, 0xe0, "CMD kind = 7: accepted is 0 to 2"),
            (3, 9, "cycles of payload = 9: accepted is one less than there are"),
        ];
        for (place, value, refusal) in refusals {
            assert_eq!(seal(with(place, value)), Err(refusal.to_owned()));
        }
        assert_eq!(DataPacket::decode(&with(0, 0x42)), Err(PacketError::Check));
    }

    proptest! {
        #[test]
        fn every_packet_survives_the_link(
            (destination, sender) in (0_u8..32, 0_u8..32),
            (address, half) in (any::<u32>(), proptest::collection::vec(any::<u8>(), 2..=128)),
            (kind, flags) in (0_u8..3, any::<u8>()),
        ) {
            let payload = Payload::new(half.repeat(2)).unwrap();
            let command = Command::decode(kind << 5 | flags & 0x1f).unwrap();
            let packet = DataPacket {
                destination: Node(destination), sender: Node(sender), command, address, payload,
            };
            prop_assert_eq!(DataPacket::decode(&packet.encode()), Ok(packet));
        }
    }
}
