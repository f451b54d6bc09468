//! Acknowledgment packets: `back` and `qack`, the transmission report of a request.

use super::check;
use super::header::{Header, PacketType, Port, Sequence};

/// What an acknowledgment tells the initiator (Clint 3.3). A packet whose CRC is wrong is not
/// acknowledged at all, since the initiator that it names may be the wrong one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransmissionReport {
    /// The target has the message.
    Accepted,
    /// Negative acknowledgment: the target had no receive buffer.
    NoReceiveBuffer,
}

/// `back`: acknowledges a bulk request. The quick switch forwards it by the inverted schedule of
/// the slot before, so that it cannot collide (Clint 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkAcknowledgment {
    /// The initiator of the request, to whom this packet goes.
    pub initiator: Port,
    /// The sequence number of the request.
    pub sequence: Sequence,
    /// The outcome of the request.
    pub report: TransmissionReport,
}

/// `qack`: acknowledges a quick request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuickAcknowledgment {
    /// The initiator of the request: the output port of this packet.
    pub initiator: Port,
    /// The sequence number of the request.
    pub sequence: Sequence,
    /// The outcome of the request.
    pub report: TransmissionReport,
}

impl BulkAcknowledgment {
    /// Size on the wire in bytes.
    pub const SIZE: usize = PacketType::BulkAcknowledgment.size().0 as usize;

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; BulkAcknowledgment::SIZE] {
        let packet_type = PacketType::BulkAcknowledgment;
        let (port, sequence, flag) = (self.initiator, self.sequence, self.report.is_refusal());
        check::seal(Header { packet_type, flag, port, sequence }, &[])
    }

    pub(super) fn from_header(header: Header) -> BulkAcknowledgment {
        let report = TransmissionReport::from_flag(header.flag);
        BulkAcknowledgment { initiator: header.port, sequence: header.sequence, report }
    }
}

impl QuickAcknowledgment {
    /// Size on the wire in bytes.
    pub const SIZE: usize = PacketType::QuickAcknowledgment.size().0 as usize;

    /// The bytes on the wire.
    pub fn encode(&self) -> [u8; QuickAcknowledgment::SIZE] {
        let packet_type = PacketType::QuickAcknowledgment;
        let (port, sequence, flag) = (self.initiator, self.sequence, self.report.is_refusal());
        check::seal(Header { packet_type, flag, port, sequence }, &[])
    }

    pub(super) fn from_header(header: Header) -> QuickAcknowledgment {
        let report = TransmissionReport::from_flag(header.flag);
        QuickAcknowledgment { initiator: header.port, sequence: header.sequence, report }
    }
}

impl TransmissionReport {
    const fn is_refusal(self) -> bool {
        matches!(self, TransmissionReport::NoReceiveBuffer)
    }

    const fn from_flag(flag: bool) -> TransmissionReport {
        if flag { TransmissionReport::NoReceiveBuffer } else { TransmissionReport::Accepted }
    }
}
