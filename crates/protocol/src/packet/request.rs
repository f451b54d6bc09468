//! Request packets: `breq` on the bulk channel, `qreq` on the quick one.

use super::header::{Header, PacketType, Port, Sequence};
use super::{DecodeError, Message, Payload, check};

/// `breq`: a bulk message from initiator to target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRequest {
    /// The target's port. The bulk switch does not read it (Clint 3.2); the target compares it
    /// with its own.
    pub target: Port,
    /// The sequence number within the (initiator, target) pair.
    pub sequence: Sequence,
    /// The active message.
    pub message: Message,
    /// Its payload.
    pub payload: Payload,
}

/// `qreq`: a quick message from initiator to target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuickRequest {
    /// The output port of the quick switch: the routing information in the header (Clint 3.4).
    pub target: Port,
    /// The sequence number within the (initiator, target) pair.
    pub sequence: Sequence,
    /// The active message.
    pub message: Message,
}

impl BulkRequest {
    /// Size on the wire in bytes.
    pub const SIZE: usize = PacketType::BulkRequest.size().0 as usize;

    /// The bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        let header = request_header(PacketType::BulkRequest, self.target, self.sequence);
        let mut bytes = Vec::with_capacity(BulkRequest::SIZE);
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(&self.message.encode(self.payload.length()));
        bytes.extend_from_slice(self.payload.as_bytes());
        bytes.resize(BulkRequest::SIZE - 4, 0);
        check::seal_bulk(bytes)
    }

    pub(super) fn from_parts(header: Header, body: &[u8]) -> Result<BulkRequest, DecodeError> {
        let Header { port, sequence, .. } = header.without_flag()?;
        let (message, length, rest) = split_message(header, body)?;
        let payload = Payload::decode(length, rest)?;
        Ok(BulkRequest { target: port, sequence, message, payload })
    }
}

impl QuickRequest {
    /// Size on the wire in bytes.
    pub const SIZE: usize = PacketType::QuickRequest.size().0 as usize;

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; QuickRequest::SIZE] {
        let header = request_header(PacketType::QuickRequest, self.target, self.sequence);
        check::seal(header, &self.message.encode(0))
    }

    pub(super) fn from_parts(header: Header, body: &[u8]) -> Result<QuickRequest, DecodeError> {
        let Header { packet_type, port, sequence, .. } = header.without_flag()?;
        let (message, length, _) = split_message(header, body)?;
        if length != 0 {
            let (field, value) = ("payload length", u32::from(length));
            return Err(DecodeError::Unused { packet_type, field, value });
        }
        Ok(QuickRequest { target: port, sequence, message })
    }
}

fn request_header(packet_type: PacketType, port: Port, sequence: Sequence) -> Header {
    Header { packet_type, flag: false, port, sequence }
}

fn split_message(header: Header, body: &[u8]) -> Result<(Message, u16, &[u8]), DecodeError> {
    let packet_type = header.packet_type;
    let Some((message, rest)) = body.split_first_chunk() else {
        let expected = packet_type.size().0 as usize;
        return Err(DecodeError::Size { packet_type, size: body.len(), expected });
    };
    let (message, length) = Message::decode(message);
    Ok((message, length, rest))
}
