//! The packet formats of Clint: six types, of which only the bulk request uses the bulk channel.
//!
//! Sizes are those of Table 1 (Clint 3.2). The paper names the fields and not their order, their
//! widths or the check code, so these are choices of this crate:
//!
//! * every packet begins with a 16-bit [`Header`]: type (4 bits), flag (1), port (4), sequence (7);
//! * numbers are big-endian;
//! * the short packets end with a CRC-16, the bulk request with a CRC-32. Both follow from the
//!   sizes: 36 = 32 + 2 + 2 and 2086 = 2048 + 32 + 2 + 4.
//!
//! | packet | bytes | flag | port | sequence | between header and check code |
//! |---|---|---|---|---|---|
//! | `breq` | 2086 | 0 | target | of the pair | message, payload |
//! | `back` | 4 | refused | initiator | of the request | nothing |
//! | `qreq` | 36 | 0 | target | of the pair | message |
//! | `qack` | 4 | refused | initiator | of the request | nothing |
//! | `cfg` | 19 | identified | own node | of the slot | request, bulk and quick enable vectors |
//! | `gnt` | 4 | granted | granted target | node (4), slot (3) | nothing |
//!
//! The four bits of a port hold the 16 ports of the prototype.

mod acknowledgment;
mod check;
mod configuration;
mod error;
mod grant;
mod header;
mod message;
mod request;

pub use acknowledgment::{BulkAcknowledgment, QuickAcknowledgment, TransmissionReport};
pub use configuration::{Configuration, PortVector};
pub use error::{DecodeError, FieldError};
pub use grant::{Grant, SlotNumber};
pub use header::{Header, PacketType, Port, Sequence};
pub use message::{EndpointName, HandlerIndex, Message, Payload};
pub use request::{BulkRequest, QuickRequest};

/// A packet of any type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// `breq`, the one type on the bulk channel.
    BulkRequest(Box<BulkRequest>),
    /// `back`.
    BulkAcknowledgment(BulkAcknowledgment),
    /// `qreq`.
    QuickRequest(QuickRequest),
    /// `qack`.
    QuickAcknowledgment(QuickAcknowledgment),
    /// `cfg`.
    Configuration(Configuration),
    /// `gnt`.
    Grant(Grant),
}

impl Packet {
    /// The type of the packet.
    pub fn packet_type(&self) -> PacketType {
        match self {
            Packet::BulkRequest(_) => PacketType::BulkRequest,
            Packet::BulkAcknowledgment(_) => PacketType::BulkAcknowledgment,
            Packet::QuickRequest(_) => PacketType::QuickRequest,
            Packet::QuickAcknowledgment(_) => PacketType::QuickAcknowledgment,
            Packet::Configuration(_) => PacketType::Configuration,
            Packet::Grant(_) => PacketType::Grant,
        }
    }

    /// The bytes on the wire, check code included; as many as [`PacketType::size`] says.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Packet::BulkRequest(packet) => packet.encode(),
            Packet::BulkAcknowledgment(packet) => packet.encode().to_vec(),
            Packet::QuickRequest(packet) => packet.encode().to_vec(),
            Packet::QuickAcknowledgment(packet) => packet.encode().to_vec(),
            Packet::Configuration(packet) => packet.encode().to_vec(),
            Packet::Grant(packet) => packet.encode().to_vec(),
        }
    }

    /// Reads one packet. The check code is compared before any field is looked at, since a type
    /// read from a damaged packet means nothing.
    ///
    /// # Errors
    /// [`DecodeError`] names what was found and what would have been accepted.
    pub fn decode(bytes: &[u8]) -> Result<Packet, DecodeError> {
        let (header, body) = check::open(bytes)?;
        let size = bytes.len();
        let expected = header.packet_type.size().0 as usize;
        if size != expected {
            return Err(DecodeError::Size { packet_type: header.packet_type, size, expected });
        }
        Ok(match header.packet_type {
            PacketType::BulkRequest => {
                Packet::BulkRequest(Box::new(BulkRequest::from_parts(header, body)?))
            }
            PacketType::BulkAcknowledgment => {
                Packet::BulkAcknowledgment(BulkAcknowledgment::from_header(header))
            }
            PacketType::QuickRequest => {
                Packet::QuickRequest(QuickRequest::from_parts(header, body)?)
            }
            PacketType::QuickAcknowledgment => {
                Packet::QuickAcknowledgment(QuickAcknowledgment::from_header(header))
            }
            PacketType::Configuration => {
                Packet::Configuration(Configuration::from_parts(header, body)?)
            }
            PacketType::Grant => Packet::Grant(Grant::from_header(header)?),
        })
    }
}
