//! Messages as packets: the packetiser of types 0 and 1 (Maestro Figure 3).

use super::{MessageError, PACKET, Packet};

/// Bytes of routing information at the head of the first packet.
const ROUTING: usize = 5;
/// Payload in the first packet.
const FIRST: usize = PACKET - ROUTING;
/// Bytes of `PktCounter`, at the head of the second packet.
const COUNTER: usize = 2;
/// Payload in the second packet.
const SECOND: usize = PACKET - COUNTER;
/// The bit of the first byte that marks a message of several packets.
const SEVERAL: u8 = 0x80;

/// The longest payload of one message in bytes: 65535 packets.
pub const LONGEST_MESSAGE: usize = FIRST + SECOND + (u16::MAX as usize - 2) * PACKET;

/// How many packets a message with this much payload takes: one up to 11 bytes (type 0), two up to
/// 25, and then one for each 16 bytes (type 1).
pub const fn packets_of(payload: u64) -> u64 {
    let (first, second) = (FIRST as u64, SECOND as u64);
    if payload <= first {
        1
    } else if payload <= first + second {
        2
    } else {
        2 + (payload - first - second).div_ceil(PACKET as u64)
    }
}

/// What a message requests from the switches on its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// To one host.
    Unicast,
    /// To several hosts: the target is a set, a bit for each.
    Multicast,
    /// Counts as the arrival of the initiator at a barrier.
    BarrierRequest,
    /// All hosts have arrived.
    BarrierAcknowledgment,
}

/// The routing information of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageHeader {
    /// What it requests from the switches.
    pub operation: Operation,
    /// The host, or the hosts, that it is for.
    pub target: u16,
    /// The initiator.
    pub initiator: u16,
}

impl Operation {
    const ALL: [Operation; 4] = [
        Operation::Unicast,
        Operation::Multicast,
        Operation::BarrierRequest,
        Operation::BarrierAcknowledgment,
    ];
}

impl MessageHeader {
    /// The packets of a message, in order; unused bytes of the last one are zero.
    ///
    /// # Errors
    /// A payload that is longer than [`LONGEST_MESSAGE`].
    pub fn packetise(&self, payload: &[u8]) -> Result<Vec<Packet>, MessageError> {
        let length = payload.len();
        if length > LONGEST_MESSAGE {
            return Err(MessageError::TooLong { length });
        }
        let count = packets_of(length as u64) as usize;
        let mut bytes = Vec::with_capacity(count * PACKET);
        let (first, rest) = payload.split_at(length.min(FIRST));
        bytes.push(self.operation_code() | first_byte(count, length));
        bytes.extend(self.target.to_be_bytes());
        bytes.extend(self.initiator.to_be_bytes());
        bytes.extend(first);
        if count > 1 {
            bytes.extend((count as u16).to_be_bytes());
            bytes.extend(rest);
        }
        bytes.resize(count * PACKET, 0);
        let packet = |bytes: &[u8]| {
            let mut packet = Packet::default();
            packet.copy_from_slice(bytes);
            packet
        };
        Ok(bytes.chunks_exact(PACKET).map(packet).collect())
    }

    /// Puts a message together again: its header and its payload.
    ///
    /// # Errors
    /// [`MessageError`] names what was found and what would have been accepted.
    pub fn restore(packets: &[Packet]) -> Result<(MessageHeader, Vec<u8>), MessageError> {
        let (header, counted) = MessageHeader::read(packets)?;
        if packets.len() != counted {
            return Err(MessageError::Count { packets: packets.len(), counted });
        }
        let code = packets[0][0] & 0xf;
        let (begin, last) = match counted {
            1 => (ROUTING, usize::from(code)),
            2 => (COUNTER, usize::from(code) + 1),
            _ => (0, usize::from(code) + 1),
        };
        let most = PACKET - begin;
        if last > most {
            return Err(MessageError::LastPacket { length: last, most });
        }
        let end = (counted - 1) * PACKET + begin + last;
        let bytes = packets.as_flattened();
        if let Some(place) = bytes[end..].iter().position(|byte| *byte != 0) {
            let (place, value) = (begin + last + place, bytes[end + place]);
            return Err(MessageError::Padding { place, value });
        }
        let mut payload = Vec::with_capacity(end);
        payload.extend(&bytes[ROUTING..end.min(PACKET)]);
        if counted > 1 {
            payload.extend(&bytes[PACKET + COUNTER..end]);
        }
        Ok((header, payload))
    }

    /// The content of the first packets: the header, and the number of packets of the message. This
    /// is all that a switch reads (Maestro 3.3, message analyzer).
    ///
    /// # Errors
    /// Those of [`MessageHeader::restore`] that concern the first two packets.
    pub fn read(packets: &[Packet]) -> Result<(MessageHeader, usize), MessageError> {
        let first = packets.first().ok_or(MessageError::Empty)?;
        let code = (first[0] & !SEVERAL) >> 4;
        let operation = Operation::ALL.get(usize::from(code)).copied();
        let operation = operation.ok_or(MessageError::NoSuchOperation { code })?;
        let number = |place: usize| u16::from_be_bytes([first[place], first[place + 1]]);
        let header = MessageHeader { operation, target: number(1), initiator: number(3) };
        if first[0] & SEVERAL == 0 {
            return Ok((header, 1));
        }
        let missing = MessageError::Count { packets: 1, counted: 2 };
        let second = packets.get(1).ok_or(missing)?;
        let counted = u16::from_be_bytes([second[0], second[1]]);
        if counted < 2 {
            return Err(MessageError::Counter { counted });
        }
        Ok((header, usize::from(counted)))
    }

    const fn operation_code(&self) -> u8 {
        (self.operation as u8) << 4
    }
}

/// Type and length of the last packet: as it is in a message of one packet, where it may be 0, and
/// less one in any other.
fn first_byte(count: usize, length: usize) -> u8 {
    match count {
        1 => length as u8,
        2 => SEVERAL | (length - FIRST - 1) as u8,
        _ => SEVERAL | ((length - FIRST - SECOND - 1) % PACKET) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: MessageHeader =
        MessageHeader { operation: Operation::Unicast, target: 0x0102, initiator: 0x0304 };

    #[test]
    fn a_message_of_one_packet_byte_by_byte() {
        let packets = HEADER.packetise(b"hello world").unwrap();
        assert_eq!(packets, [*b"\x0b\x01\x02\x03\x04hello world"]);
        assert_eq!(HEADER.packetise(b"").unwrap(), [*b"\0\x01\x02\x03\x04\0\0\0\0\0\0\0\0\0\0\0"]);
    }

    #[test]
    fn a_message_of_three_packets_byte_by_byte() {
        let packets = HEADER.packetise(b"abcdefghijklmnopqrstuvwxyz").unwrap();
        let expected = [
            *b"\x80\x01\x02\x03\x04abcdefghijk",
            *b"\0\x03lmnopqrstuvwxy",
            *b"z\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ];
        assert_eq!(packets, expected);
        assert_eq!(MessageHeader::read(&packets[..2]), Ok((HEADER, 3)));
    }

    /// Maestro 3.2 and 3.4: 11 bytes in the first packet, 14 in the second, 16 in every other; 300
    /// bytes are 20 packets, and so two frames of at most 15.
    #[test]
    fn packets_by_hand() {
        let cases = [(0, 1), (11, 1), (12, 2), (25, 2), (26, 3), (41, 3), (42, 4), (300, 20)];
        for (payload, packets) in cases {
            assert_eq!(packets_of(payload), packets, "{payload} bytes");
        }
        assert_eq!(packets_of(LONGEST_MESSAGE as u64), 65_535);
    }

    #[test]
    fn what_is_no_message_is_named() {
        let text = |packets: &[Packet]| MessageHeader::restore(packets).unwrap_err().to_string();
        let packets = HEADER.packetise(&[7; 26]).unwrap();
        assert_eq!(text(&[]), "no packet: expected at least one");
        assert_eq!(text(&packets[..1]), "1 packets: the header says 2");
        assert_eq!(text(&packets[..2]), "2 packets: the header says 3");
        let changed = |packet: usize, place: usize, value: u8| {
            let mut packets = packets.clone();
            packets[packet][place] = value;
            text(&packets)
        };
        assert_eq!(changed(0, 0, 0xf0), "operation 7: expected 0 to 3");
        assert_eq!(changed(1, 1, 1), "a message of several packets counts 1: expected 2 to 65535");
        assert_eq!(
            changed(2, 4, 9),
            "byte 4 of the last packet is 0x9: expected 0 behind the payload"
        );
        let mut short = HEADER.packetise(&[7; 11]).unwrap();
        short[0][0] = 12;
        assert_eq!(text(&short), "12 bytes of payload in the last packet: expected at most 11");
        let refused = HEADER.packetise(&vec![0; LONGEST_MESSAGE + 1]);
        assert_eq!(refused, Err(MessageError::TooLong { length: LONGEST_MESSAGE + 1 }));
    }
}
