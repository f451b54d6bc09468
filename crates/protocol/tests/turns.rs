//! Frames and messages of the link with turns: what is encoded is decoded again, whatever arrives is
//! read or refused, and real FIFOs under any traffic keep to their credits.

#![allow(clippy::expect_used, reason = "a test fails by it")]

use proptest::prelude::*;
use weft_protocol::turns::{
    Burst, CHANNELS, End, Frame, Holding, Kind, LONGEST_MESSAGE, MessageHeader, Operation, PACKET,
    Packet, Preamble, Rules, SymbolWidth, packets_of,
};

fn width() -> impl Strategy<Value = SymbolWidth> {
    prop_oneof![Just(SymbolWidth::FourBits), Just(SymbolWidth::EightBits)]
}

fn frame() -> impl Strategy<Value = (Frame, SymbolWidth)> {
    let content = |width: SymbolWidth| {
        let most = width.most_credit();
        let credits = prop::array::uniform2(0..=most);
        let packets = prop::collection::vec(any::<Packet>(), 0..=usize::from(most));
        (credits, packets, 0..CHANNELS).prop_map(move |(credits, packets, channel)| {
            let kind = if packets.is_empty() { Kind::Null } else { Kind::Data { channel } };
            (Frame { preamble: Preamble { credits, kind }, packets }, width)
        })
    };
    width().prop_flat_map(content)
}

fn header() -> impl Strategy<Value = MessageHeader> {
    let operation = prop_oneof![
        Just(Operation::Unicast),
        Just(Operation::Multicast),
        Just(Operation::BarrierRequest),
        Just(Operation::BarrierAcknowledgment),
    ];
    (operation, any::<u16>(), any::<u16>())
        .prop_map(|(operation, target, initiator)| MessageHeader { operation, target, initiator })
}

/// One end with its FIFOs, filled and emptied by a host.
struct Side {
    end: End,
    waiting: [u16; CHANNELS],
    received: [u16; CHANNELS],
    heard: [u16; CHANNELS],
}

/// Both sides of a link, and what one turn of it does.
fn turn(own: &mut Side, peer: &mut Side, joining: u16) -> u16 {
    let mut packets = 0;
    loop {
        let preamble = own.end.begin(own.waiting);
        peer.end.hear(preamble);
        peer.heard = preamble.credits;
        let Kind::Data { channel } = preamble.kind else { return packets };
        own.waiting[channel] += joining.min(128 - own.waiting[channel]);
        let mut sent = 0;
        while own.waiting[channel] > 0 && own.end.may_send() {
            own.end.sent();
            own.waiting[channel] -= 1;
            peer.end.received(channel).expect("a FIFO is never overrun");
            peer.received[channel] += 1;
            sent += 1;
            own.heard[channel] = own.heard[channel].checked_sub(1).expect("within the credit");
        }
        assert!(sent > 0, "a frame that is not null has a packet");
        packets += sent;
        if !own.end.may_hold(own.waiting) {
            return packets;
        }
    }
}

/// The packets that the host of a side adds and takes before a turn, for each channel.
type Host = [(u16, u16); CHANNELS];

fn host(side: &mut Side, acts: Host) {
    for (channel, (added, taken)) in acts.into_iter().enumerate() {
        side.waiting[channel] += added.min(128 - side.waiting[channel]);
        let taken = taken.min(side.received[channel]);
        side.received[channel] -= taken;
        (0..taken).for_each(|_| side.end.drained(channel));
    }
}

proptest! {
    #[test]
    fn a_frame_survives_the_link((frame, width) in frame()) {
        let symbols = frame.encode(width).expect("a legal frame");
        let bits = symbols.len() as u64 * u64::from(width.bits());
        prop_assert_eq!(bits, width.frame_bits(frame.packets.len() as u64));
        prop_assert_eq!(Frame::decode(&symbols, width), Ok(frame));
    }

    /// Anything at all: it is refused, or it is the one encoding of what it is read as.
    #[test]
    fn arbitrary_symbols_are_read_or_refused(
        mut symbols in prop::collection::vec(any::<u8>(), 0..600),
        narrow in any::<bool>(),
        kind in prop::option::of(prop_oneof![Just(0_u8), Just(8), Just(9)]),
        width in width(),
    ) {
        if narrow {
            symbols.iter_mut().for_each(|symbol| *symbol &= 0xf);
        }
        if let (Some(place), Some(kind)) = (symbols.get_mut(2), kind) {
            *place = kind;
            let packet = PACKET * 8 / width.bits() as usize;
            let whole = (symbols.len() - 3) / packet * packet;
            symbols.truncate(3 + whole);
        }
        if let Ok(frame) = Frame::decode(&symbols, width) {
            prop_assert_eq!(frame.encode(width), Ok(symbols));
        }
    }

    #[test]
    fn a_message_survives_its_packets(
        header in header(),
        payload in prop::collection::vec(any::<u8>(), 0..2100),
    ) {
        let packets = header.packetise(&payload).expect("a legal message");
        prop_assert_eq!(packets.len() as u64, packets_of(payload.len() as u64));
        prop_assert_eq!(MessageHeader::read(&packets), Ok((header, packets.len())));
        prop_assert_eq!(MessageHeader::restore(&packets), Ok((header, payload)));
    }

    #[test]
    fn arbitrary_packets_are_read_or_refused(
        mut packets in prop::collection::vec(any::<Packet>(), 0..6),
        counted in any::<bool>(),
    ) {
        let count = packets.len() as u16;
        if let (true, Some(second)) = (counted, packets.get_mut(1)) {
            second[..2].copy_from_slice(&count.to_be_bytes());
            packets[0][0] &= 0b1011_1111;
            packets[0][0] |= 0x80;
        }
        if let Ok((header, payload)) = MessageHeader::restore(&packets) {
            prop_assert_eq!(header.packetise(&payload), Ok(packets));
        }
    }

    /// FIFOs of the real size, 128 packets, and hosts that do what they like: no credit exceeded,
    /// no FIFO overrun (both asserted turn by turn), and what waits leaves once hosts read.
    #[test]
    fn real_fifos_keep_to_their_credits(
        acts in prop::collection::vec(any::<[[(u8, u8); CHANNELS]; 2]>(), 1..120),
        joining in 0_u16..9,
        capacity in 4_u16..=128,
        eight in any::<bool>(),
        burst in prop_oneof![Just(Burst::Credit), (1_u16..=4).prop_map(Burst::Fixed)],
        holding in prop_oneof![Just(Holding::OneFrame), Just(Holding::WhileAllowed)],
    ) {
        let width = if eight { SymbolWidth::EightBits } else { SymbolWidth::FourBits };
        let rules = Rules { width, most: width.most_credit(), burst, holding };
        let side = || Side {
            end: End::new(rules, capacity),
            waiting: [0; CHANNELS],
            received: [0; CHANNELS],
            heard: [0; CHANNELS],
        };
        let (mut one, mut other) = (side(), side());
        let mut acts = acts.into_iter();
        let everything = [(0, u16::MAX); CHANNELS];
        let number = |acts: [(u8, u8); CHANNELS]| {
            acts.map(|(added, taken)| (u16::from(added), u16::from(taken)))
        };
        let mut quiet = 0;
        for turns in 0.. {
            let [first, second] = acts.next().map_or([everything; 2], |acts| acts.map(number));
            host(&mut one, first);
            host(&mut other, second);
            let over = acts.len() == 0;
            let joining = if over { 0 } else { joining };
            let sent = turn(&mut one, &mut other, joining) + turn(&mut other, &mut one, joining);
            quiet = if over && sent == 0 { quiet + 1 } else { 0 };
            if quiet > 2 {
                break;
            }
            prop_assert!(turns < 2_000, "the link does not come to rest");
        }
        let rest = match burst {
            Burst::Credit => 1,
            Burst::Fixed(packets) => packets,
        };
        for side in [&one, &other] {
            prop_assert!(side.waiting.iter().all(|waiting| *waiting < rest), "packets are stuck");
        }
    }
}

#[test]
fn the_longest_message_has_as_many_packets_as_the_counter_counts() {
    let header = MessageHeader { operation: Operation::Multicast, target: 0xff, initiator: 3 };
    let payload = vec![0x5a; LONGEST_MESSAGE];
    let packets = header.packetise(&payload).expect("it just fits");
    assert_eq!(packets.len(), 65_535);
    assert_eq!(MessageHeader::restore(&packets), Ok((header, payload)));
}
