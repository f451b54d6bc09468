//! The configuration packet `cfg`, with which every node opens an arbitration cycle.

use super::header::{Header, PacketType, Port, Sequence};
use super::{DecodeError, check};

/// A set of the sixteen ports, one bit each, as a configuration packet carries it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortVector(pub u16);

/// `cfg`: what a node sends to the arbiter, as an initiator and as a target (Clint 3.3).
///
/// Of its 19 bytes the paper accounts for ten: header, the three vectors and the check code. The
/// other nine are kept reserved here: sent as zero, not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The node's identifier once a grant has assigned it.
    pub node: Option<Port>,
    /// The slot that is requested.
    pub slot: Sequence,
    /// The targets for which the initiator has a full send buffer.
    pub requests: PortVector,
    /// The initiators from which the target accepts bulk requests.
    pub bulk_enable: PortVector,
    /// The initiators from which the target accepts quick requests.
    pub quick_enable: PortVector,
}

impl PortVector {
    /// No port.
    pub const EMPTY: PortVector = PortVector(0);
    /// All sixteen ports.
    pub const ALL: PortVector = PortVector(u16::MAX);

    /// Whether the set holds a port.
    pub const fn contains(self, port: Port) -> bool {
        self.0 >> port.index() & 1 == 1
    }

    /// The set with one port more.
    #[must_use]
    pub const fn with(self, port: Port) -> PortVector {
        PortVector(self.0 | 1 << port.index())
    }

    /// The set without one port.
    #[must_use]
    pub const fn without(self, port: Port) -> PortVector {
        PortVector(self.0 & !(1 << port.index()))
    }
}

impl Configuration {
    /// Size on the wire in bytes.
    pub const SIZE: usize = PacketType::Configuration.size().0 as usize;
    const RESERVED: usize = Configuration::SIZE - Header::SIZE - 6 - 2;

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; Configuration::SIZE] {
        let header = Header {
            packet_type: PacketType::Configuration,
            flag: self.node.is_some(),
            port: self.node.unwrap_or_default(),
            sequence: self.slot,
        };
        let mut body = [0; 6 + Configuration::RESERVED];
        let vectors = [self.requests, self.bulk_enable, self.quick_enable];
        for (place, vector) in body.chunks_exact_mut(2).zip(vectors) {
            place.copy_from_slice(&vector.0.to_be_bytes());
        }
        check::seal(header, &body)
    }

    pub(super) fn from_parts(header: Header, body: &[u8]) -> Result<Configuration, DecodeError> {
        let packet_type = header.packet_type;
        if !header.flag && header.port.index() != 0 {
            let value = header.port.index() as u32;
            return Err(DecodeError::Unused { packet_type, field: "port", value });
        }
        let Some((vectors, _reserved)) = body.split_first_chunk::<6>() else {
            let (size, expected) = (body.len(), Configuration::SIZE);
            return Err(DecodeError::Size { packet_type, size, expected });
        };
        let vector = |place: usize| {
            PortVector(u16::from_be_bytes([vectors[2 * place], vectors[2 * place + 1]]))
        };
        Ok(Configuration {
            node: header.flag.then_some(header.port),
            slot: header.sequence,
            requests: vector(0),
            bulk_enable: vector(1),
            quick_enable: vector(2),
        })
    }
}
