//! Laws of the packet formats, over values and over bytes.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use proptest::array::uniform5;
use proptest::collection::vec;
use proptest::prelude::*;
use weft_protocol::packet::{
    BulkAcknowledgment, BulkRequest, Configuration, DecodeError, EndpointName, Grant, HandlerIndex,
    Message, Packet, PacketType, Payload, Port, PortVector, QuickAcknowledgment, QuickRequest,
    Sequence, SlotNumber, TransmissionReport,
};

fn port() -> impl Strategy<Value = Port> {
    (0..16_usize).prop_map(|port| Port::new(port).unwrap())
}

fn sequence() -> impl Strategy<Value = Sequence> {
    any::<u64>().prop_map(Sequence::of)
}

fn report() -> impl Strategy<Value = TransmissionReport> {
    prop_oneof![Just(TransmissionReport::Accepted), Just(TransmissionReport::NoReceiveBuffer)]
}

fn endpoint() -> impl Strategy<Value = EndpointName> {
    any::<(u16, u16)>().prop_map(|(node, endpoint)| EndpointName { node, endpoint })
}

fn message() -> impl Strategy<Value = Message> {
    (endpoint(), endpoint(), any::<u16>(), uniform5(any::<u32>())).prop_map(
        |(initiator, target, handler, arguments)| Message {
            initiator,
            target,
            handler: HandlerIndex(handler),
            arguments,
        },
    )
}

fn packet() -> impl Strategy<Value = Packet> {
    let payload =
        vec(any::<u8>(), 0..=Payload::LIMIT).prop_map(|bytes| Payload::new(bytes).unwrap());
    prop_oneof![
        (port(), sequence(), message(), payload).prop_map(
            |(target, sequence, message, payload)| {
                Packet::BulkRequest(Box::new(BulkRequest { target, sequence, message, payload }))
            }
        ),
        (port(), sequence(), report()).prop_map(|(initiator, sequence, report)| {
            Packet::BulkAcknowledgment(BulkAcknowledgment { initiator, sequence, report })
        }),
        (port(), sequence(), message()).prop_map(|(target, sequence, message)| {
            Packet::QuickRequest(QuickRequest { target, sequence, message })
        }),
        (port(), sequence(), report()).prop_map(|(initiator, sequence, report)| {
            Packet::QuickAcknowledgment(QuickAcknowledgment { initiator, sequence, report })
        }),
        (proptest::option::of(port()), sequence(), any::<[u16; 3]>()).prop_map(
            |(node, slot, [requests, bulk_enable, quick_enable])| {
                Packet::Configuration(Configuration {
                    node,
                    slot,
                    requests: PortVector(requests),
                    bulk_enable: PortVector(bulk_enable),
                    quick_enable: PortVector(quick_enable),
                })
            }
        ),
        (port(), any::<u64>(), proptest::option::of(port())).prop_map(|(node, slot, target)| {
            Packet::Grant(Grant { node, slot: SlotNumber::of(slot), target })
        }),
    ]
}

/// Bytes of a size that some packet has, so that decoding gets past the first question.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..64),
        vec(any::<u8>(), 4),
        vec(any::<u8>(), 19),
        vec(any::<u8>(), 36),
        vec(any::<u8>(), 2086),
    ]
}

fn is_check_error(bytes: &[u8]) -> bool {
    matches!(Packet::decode(bytes), Err(DecodeError::Check { .. }))
}

proptest! {
    #[test]
    fn a_packet_comes_back_as_it_was(packet in packet()) {
        let bytes = packet.encode();
        prop_assert_eq!(bytes.len() as u64, packet.packet_type().size().0);
        prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
    }

    #[test]
    fn a_wrong_bit_is_always_noticed(packet in packet(), place in any::<prop::sample::Index>()) {
        let mut bytes = packet.encode();
        let bit = place.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(is_check_error(&bytes));
    }

    #[test]
    fn two_wrong_bits_are_always_noticed(
        packet in packet(),
        places in any::<[prop::sample::Index; 2]>(),
    ) {
        let mut bytes = packet.encode();
        let count = bytes.len() * 8;
        let first = places[0].index(count);
        let bits = [first, (first + 1 + places[1].index(count - 1)) % count];
        for bit in bits {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        prop_assert!(is_check_error(&bytes));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in bytes()) {
        let _ = Packet::decode(&bytes);
    }

    /// Bytes with a right check code reach every field, so this is the harder half.
    #[test]
    fn arbitrary_fields_under_a_right_check_code_never_panic(bytes in bytes()) {
        let mut bytes = bytes;
        if let Err(DecodeError::Check { computed, .. }) = Packet::decode(&bytes) {
            let width = if bytes.len() == 2086 { 4 } else { 2 };
            let start = bytes.len() - width;
            bytes[start..].copy_from_slice(&computed.to_be_bytes()[4 - width..]);
        }
        if let Ok(packet) = Packet::decode(&bytes) {
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }
    }
}

/// Exhaustive where the property above samples: every bit of one packet of every type.
#[test]
fn every_single_bit_of_every_type_is_covered() {
    let (port, sequence) = (Port::new(9).unwrap(), Sequence::of(77));
    let (message, payload) = (Message::default(), Payload::new(vec![0xa5; 2000]).unwrap());
    let report = TransmissionReport::Accepted;
    let packets = [
        Packet::BulkRequest(Box::new(BulkRequest { target: port, sequence, message, payload })),
        Packet::BulkAcknowledgment(BulkAcknowledgment { initiator: port, sequence, report }),
        Packet::QuickRequest(QuickRequest { target: port, sequence, message }),
        Packet::QuickAcknowledgment(QuickAcknowledgment { initiator: port, sequence, report }),
        Packet::Configuration(Configuration {
            node: Some(port),
            slot: sequence,
            requests: PortVector(0x8001),
            bulk_enable: PortVector::ALL,
            quick_enable: PortVector::ALL.without(port),
        }),
        Packet::Grant(Grant { node: port, slot: SlotNumber::of(3), target: None }),
    ];
    assert_eq!(packets.clone().map(|packet| packet.packet_type()), PacketType::ALL);
    for packet in packets {
        let mut bytes = packet.encode();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(is_check_error(&bytes), "bit {bit}: {:?}", Packet::decode(&bytes));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn errors_name_what_was_found_and_what_is_accepted() {
    let refusal = |bytes: &[u8]| Packet::decode(bytes).unwrap_err().to_string();
    assert_eq!(refusal(&[0; 5]), "a packet of 5 bytes: expected one of 4, 19, 36 and 2086");
    let mut grant =
        Grant { node: Port::new(1).unwrap(), slot: SlotNumber::of(0), target: None }.encode();
    grant[3] ^= 1;
    assert!(refusal(&grant).starts_with("check code 0x"));
}
