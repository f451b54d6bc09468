//! Two nodes, real packets and a network that loses, damages and refuses: laws of a whole transfer
//! under random interleavings.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use weft_protocol::adapter::{
    Placement, Prefetch, ReceiveSettings, ReceiveSide, ReceiveState, Release, SendSettings,
    SendSide, SendState, TransmissionError,
};
use weft_protocol::order::{Arrival, Numbering, OrderCheck};
use weft_protocol::packet::{
    BulkAcknowledgment, BulkRequest, DecodeError, Message, Packet, Payload, Port,
    TransmissionReport,
};
use weft_protocol::ring::{BufferId, SendRequest};

const BUFFERS: u16 = 4;

/// One thing that happens next; a step that is not possible then does nothing.
#[derive(Clone, Copy, Debug)]
enum Step {
    Submit,
    Fetch,
    Send,
    SendDamaged(prop::sample::Index),
    Store,
    Consume,
    Reclaim,
    Poll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Submit),
        3 => Just(Step::Fetch),
        3 => Just(Step::Send),
        1 => any::<prop::sample::Index>().prop_map(Step::SendDamaged),
        2 => Just(Step::Store),
        2 => Just(Step::Consume),
        2 => Just(Step::Reclaim),
        3 => Just(Step::Poll),
    ]
}

struct Transfer {
    send: SendSide<BulkRequest>,
    receive: ReceiveSide<BulkRequest>,
    numbering: Numbering,
    check: OrderCheck,
    storing: VecDeque<BufferId>,
    submitted: u32,
    consumed: Vec<u32>,
    accepted: Vec<u32>,
    reported: Vec<(u32, Result<(), TransmissionError>)>,
}

impl Transfer {
    fn new(release: Release) -> Transfer {
        Transfer {
            send: SendSide::new(SendSettings {
                buffers: BUFFERS,
                adapter_buffers: 2,
                targets: 2,
                prefetch: Prefetch::Fifo,
                release,
            }),
            receive: ReceiveSide::new(ReceiveSettings { buffers: BUFFERS, adapter_buffers: 1 }),
            numbering: Numbering::default(),
            check: OrderCheck::default(),
            storing: VecDeque::new(),
            submitted: 0,
            consumed: Vec::new(),
            accepted: Vec::new(),
            reported: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Submit => self.submit(),
            Step::Fetch => {
                if let Some(request) = self.send.begin_fetch() {
                    self.send.end_fetch(request.buffer).unwrap();
                }
            }
            Step::Send => self.transmit(None),
            Step::SendDamaged(place) => self.transmit(Some(place)),
            Step::Store => {
                if let Some(Placement { buffer }) = self.receive.begin_store() {
                    self.storing.push_back(buffer);
                }
            }
            Step::Consume => {
                if let Some(buffer) = self.storing.pop_front() {
                    self.receive.end_store(buffer).unwrap();
                }
                if let Some((buffer, request)) = self.receive.poll() {
                    self.consumed.push(request.message.arguments[0]);
                    self.receive.give_back(buffer).unwrap();
                }
            }
            Step::Reclaim => {
                self.receive.reclaim();
            }
            Step::Poll => {
                if let Some(completion) = self.send.poll() {
                    let number = completion.message.message.arguments[0];
                    self.reported.push((number, completion.outcome));
                }
            }
        }
    }

    fn submit(&mut self) {
        let Some(buffer) = self.send.take_buffer() else { return };
        let arguments = [self.submitted, 0, 0, 0, 0];
        self.submitted += 1;
        let request = BulkRequest {
            target: Port::new(1).unwrap(),
            sequence: self.numbering.assign(),
            message: Message { arguments, ..Message::default() },
            payload: Payload::default(),
        };
        self.send.write(buffer, request).unwrap();
        self.send.post(SendRequest { buffer, target: 1 }).unwrap();
    }

    /// Sends one packet as bytes, and brings its acknowledgment back as bytes.
    fn transmit(&mut self, damage: Option<prop::sample::Index>) {
        let Some((buffer, request)) = self.send.send(1) else { return };
        let mut bytes = request.encode();
        if let Some(place) = damage {
            let bit = place.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let outcome = match self.receive_packet(&bytes) {
            None => Err(TransmissionError::NoAcknowledgment),
            Some(bytes) => match Packet::decode(&bytes).unwrap() {
                Packet::BulkAcknowledgment(BulkAcknowledgment { report, .. }) => match report {
                    TransmissionReport::Accepted => Ok(()),
                    TransmissionReport::NoReceiveBuffer => Err(TransmissionError::NoReceiveBuffer),
                },
                other => panic!("{} instead of an acknowledgment", other.packet_type()),
            },
        };
        self.send.complete(buffer, outcome).unwrap();
    }

    /// The target: silence on a wrong check code, a negative acknowledgment without a buffer.
    fn receive_packet(&mut self, bytes: &[u8]) -> Option<[u8; 4]> {
        let request = match Packet::decode(bytes) {
            Ok(Packet::BulkRequest(request)) => *request,
            Ok(other) => panic!("{} instead of a request", other.packet_type()),
            Err(DecodeError::Check { .. }) => return None,
            Err(other) => panic!("{other}"),
        };
        let (sequence, number) = (request.sequence, request.message.arguments[0]);
        assert_ne!(self.check.arrival(sequence), Arrival::Behind);
        let report = match self.receive.arrive(request) {
            Ok(()) => {
                self.check.accept(sequence);
                self.accepted.push(number);
                TransmissionReport::Accepted
            }
            Err(_) => TransmissionReport::NoReceiveBuffer,
        };
        let initiator = Port::new(0).unwrap();
        Some(BulkAcknowledgment { initiator, sequence, report }.encode())
    }
}

proptest! {
    #[test]
    fn whatever_happens_buffers_are_conserved_and_reports_are_true(
        steps in vec(step(), 0..120),
        at_transmission in any::<bool>(),
    ) {
        let release =
            if at_transmission { Release::Transmission } else { Release::Acknowledgment };
        let mut transfer = Transfer::new(release);
        for step in steps {
            transfer.step(step);
            let sending: usize =
                SendState::ALL.iter().map(|state| transfer.send.count(*state)).sum();
            let receiving: usize =
                ReceiveState::ALL.iter().map(|state| transfer.receive.count(*state)).sum();
            prop_assert_eq!((sending, receiving), (usize::from(BUFFERS), usize::from(BUFFERS)));
        }
        for _ in 0..BUFFERS * 8 {
            for step in [
                Step::Fetch, Step::Send, Step::Store, Step::Consume, Step::Reclaim, Step::Poll,
            ] {
                transfer.step(step);
            }
        }
        prop_assert_eq!(transfer.send.count(SendState::Free), usize::from(BUFFERS));
        prop_assert_eq!(transfer.receive.count(ReceiveState::Free), usize::from(BUFFERS));
        // Every message is reported once, in order, and as accepted exactly if it was consumed.
        let numbers: Vec<u32> = transfer.reported.iter().map(|(number, _)| *number).collect();
        prop_assert_eq!(numbers, (0..transfer.submitted).collect::<Vec<_>>());
        let good = transfer.reported.iter().filter(|(_, outcome)| outcome.is_ok());
        let good: Vec<u32> = good.map(|(number, _)| *number).collect();
        prop_assert_eq!(&good, &transfer.accepted);
        prop_assert_eq!(&good, &transfer.consumed);
    }
}
