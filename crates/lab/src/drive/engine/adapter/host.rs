//! One host's adapter, and its transmissions in flight.

use weft_fabric::adapter::{Initiator, Past};
use weft_fabric::link::Errors;
use weft_fabric::switch::PacketKind;
use weft_fabric::workload::Feedback;
use weft_protocol::resequence::Resequencer;
use weft_protocol::retransmit::{Attempt, Slot};
use weft_units::{Span, Time};

use super::interface::QuickInterface;
use crate::drive::carrier::MessageId;
use crate::drive::faults::DisabledInitiator;
use crate::drive::receiver::Receiver;

/// One packet in flight: one transmission of a request, or an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub from: u16,
    pub to: u16,
    pub kind: PacketKind,
    /// The rest of it was dropped in the switch.
    pub killed: bool,
    /// A bit of it is wrong on arrival.
    pub damaged: bool,
    /// For an acknowledgment: the target had no receive buffer.
    pub refused: bool,
    /// Back pressure holds it.
    pub blocked: bool,
    /// Others may reach the same output in the same picosecond.
    pub in_company: bool,
    /// The send buffer of the request, its number in the pair, and the transmission.
    pub slot: Slot,
    pub sequence: u32,
    pub attempt: Attempt,
    /// The history of the packet, and when this transmission of it started; for an acknowledgment,
    /// those of its request.
    pub past: Past,
    pub start: Time,
    /// How long it occupies the link of its initiator.
    pub span: Span,
    /// When its last byte reaches its destination, once a crossbar has forwarded it.
    pub end: Time,
}

impl Flight {
    /// A request that starts at `start`, without any history.
    #[inline]
    pub fn new(from: u16, to: u16, start: Time) -> Flight {
        Flight {
            from,
            to,
            kind: PacketKind::Request,
            killed: false,
            damaged: false,
            refused: false,
            blocked: false,
            in_company: false,
            slot: Slot::default(),
            sequence: 0,
            attempt: Attempt::default(),
            past: Past { generated: start, buffered: start, first: start },
            start,
            span: Span::ZERO,
            end: Time::NEVER,
        }
    }
}

/// A packet that arrived before an older one of its pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    pub initiator: u16,
    pub sequence: u32,
    pub generated: Time,
    pub arrived: Time,
}

#[derive(Debug)]
pub(super) struct Host {
    pub initiator: Initiator,
    /// The feedback that the source needs.
    pub feedback: Feedback,
    /// The request that occupies the link, unless a switch has dropped it.
    pub sending: Option<u32>,
    /// The message whose last packet is the one on the link.
    pub leaving: MessageId,
    /// Whether a request may start at the end of this instant, as already known.
    pub settling: bool,
    /// Received packets, by initiator.
    pub received: Vec<Resequencer>,
    pub early: Vec<Early>,
    pub receiver: Receiver,
    /// The interface in front of the send buffers and behind the receive buffers.
    pub interface: Option<Box<QuickInterface>>,
    /// The errors of its transmissions; absent on links without errors.
    pub errors: Option<Errors>,
    /// The targets that disable it, and since when: the switch refuses these requests.
    pub disabled: Box<[DisabledInitiator]>,
}

impl Host {
    /// An adapter among this many hosts, without faults.
    pub fn new(initiator: Initiator, feedback: Feedback, hosts: usize) -> Host {
        Host {
            initiator,
            feedback,
            sending: None,
            leaving: MessageId::NONE,
            settling: false,
            received: vec![Resequencer::default(); hosts],
            early: Vec::new(),
            receiver: Receiver::new(None),
            interface: None,
            errors: None,
            disabled: Box::default(),
        }
    }
}
