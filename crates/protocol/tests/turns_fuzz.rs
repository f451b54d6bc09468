//! A bounded fuzzer of the decoders of frames and messages: valid encodings, mutated by bits, symbols,
//! lengths and splices, and bytes without any sense. The seed is fixed, so that a failure comes again;
//! `WEFT_FUZZ` sets how many inputs each decoder is given.

#![allow(clippy::expect_used, reason = "a test fails by it")]

use weft_protocol::turns::{
    CHANNELS, Frame, Kind, MessageHeader, Operation, PACKET, Packet, Preamble, SymbolWidth,
};

/// How many inputs a decoder is given where `WEFT_FUZZ` says nothing.
const INPUTS: u64 = 200_000;

fn inputs() -> u64 {
    std::env::var("WEFT_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(INPUTS)
}

/// SplitMix64: each number is a function of its place.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// Changes some of the bytes, their number, or their order.
    fn mutate(&mut self, bytes: &mut Vec<u8>, others: &[u8]) {
        for _ in 0..=self.below(3) {
            let place = self.below(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[place] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[place] = self.next() as u8,
                2 => bytes.truncate(place),
                3 => {
                    let more = self.below(40);
                    bytes.extend(self.bytes(more));
                }
                4 => bytes.splice(place..place, others.iter().copied().take(32)).for_each(drop),
                _ => bytes.drain(place..(place + 32).min(bytes.len())).for_each(drop),
            }
        }
    }
}

fn frame(numbers: &mut Numbers, width: SymbolWidth) -> Frame {
    let most = usize::from(width.most_credit());
    let count = numbers.below(most.min(20) + 1);
    let channel = numbers.below(CHANNELS);
    let packet = |numbers: &mut Numbers| {
        let mut packet = Packet::default();
        packet.copy_from_slice(&numbers.bytes(PACKET));
        packet
    };
    let credits = [(); CHANNELS].map(|()| numbers.below(most + 1) as u16);
    let kind = if count == 0 { Kind::Null } else { Kind::Data { channel } };
    let packets = (0..count).map(|_| packet(numbers)).collect();
    Frame { preamble: Preamble { credits, kind }, packets }
}

/// A reader accepts only symbols that a sender would have sent for the result, and refuses all
/// others.
#[test]
fn frames_are_read_or_refused() {
    let (mut read, mut refused) = (0_u64, 0_u64);
    let mut numbers = Numbers(1);
    let mut last = Vec::new();
    for _ in 0..inputs() {
        let eight = numbers.below(2) == 1;
        let width = if eight { SymbolWidth::EightBits } else { SymbolWidth::FourBits };
        let mut symbols = match numbers.below(8) {
            0 => {
                let length = numbers.below(600);
                numbers.bytes(length)
            }
            _ => frame(&mut numbers, width).encode(width).expect("a legal frame"),
        };
        if numbers.below(8) > 0 {
            numbers.mutate(&mut symbols, &last);
        }
        match Frame::decode(&symbols, width) {
            Ok(frame) => {
                read += 1;
                assert_eq!(frame.encode(width).as_ref(), Ok(&symbols));
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("expected"), "{error}");
            }
        }
        last = symbols;
    }
    assert!(read > inputs() / 20 && refused > inputs() / 20, "{read} read, {refused} refused");
}

/// The same of messages: packets that are no message are refused, whatever their counter says.
#[test]
fn messages_are_read_or_refused() {
    let (mut read, mut refused) = (0_u64, 0_u64);
    let mut numbers = Numbers(2);
    let mut last = Vec::new();
    for _ in 0..inputs() {
        let length = numbers.below(120);
        let mut bytes = if numbers.below(8) == 0 {
            numbers.bytes(length)
        } else {
            let operations = [
                Operation::Unicast,
                Operation::Multicast,
                Operation::BarrierRequest,
                Operation::BarrierAcknowledgment,
            ];
            let header = MessageHeader {
                operation: operations[numbers.below(operations.len())],
                target: numbers.next() as u16,
                initiator: numbers.next() as u16,
            };
            let payload = numbers.bytes(length);
            header.packetise(&payload).expect("a legal message").concat()
        };
        if numbers.below(8) > 0 {
            numbers.mutate(&mut bytes, &last);
        }
        let packets: Vec<Packet> = bytes
            .chunks(PACKET)
            .map(|bytes| {
                let mut packet = Packet::default();
                packet[..bytes.len()].copy_from_slice(bytes);
                packet
            })
            .collect();
        match MessageHeader::restore(&packets) {
            Ok((header, payload)) => {
                read += 1;
                assert_eq!(header.packetise(&payload), Ok(packets));
            }
            Err(_) => refused += 1,
        }
        last = bytes;
    }
    assert!(read > inputs() / 20 && refused > inputs() / 20, "{read} read, {refused} refused");
}
