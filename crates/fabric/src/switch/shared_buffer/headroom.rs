//! What may still arrive at an input after it has decided to pause its cable.

use weft_units::{Bytes, Span};

use super::PAUSE_FRAME;
use crate::link::LinkSettings;

/// What headroom follows from.
#[derive(Clone, Copy, Debug)]
pub struct HeadroomParts<'a> {
    /// The link whose near end pauses its far end.
    pub link: &'a LinkSettings,
    /// The largest packet that either end sends.
    pub packet: Bytes,
    /// From the last byte of a pause at the far end to when nothing more begins there.
    pub response: Span,
    /// From the input to the memory, where what came is counted.
    pub latency: Span,
}

/// The bytes that an input must reserve for one class so that nothing is lost, however packets of
/// up to the largest size arrive (after IEEE 802.1Q annex O, with the parts of this model).
///
/// * One packet: the one that exceeds the threshold and causes the pause.
/// * What comes until the far end has stopped: while the largest packet is being sent that may be
///   before the pause, while the pause is being sent, twice along the cable, for the response, and
///   what had passed the input before it was counted.
/// * A packet more, whose first byte left at the last instant.
pub fn headroom(parts: HeadroomParts<'_>) -> Bytes {
    let HeadroomParts { link, packet, response, latency } = parts;
    let delay = link.span(packet.max(PAUSE_FRAME))
        + link.span(PAUSE_FRAME)
        + link.propagation() * 2
        + response
        + latency;
    packet * 2 + within(link, packet, delay)
}

/// The most bytes of packets that leave within a span; a packet is sent in a whole number of
/// picoseconds, so that some are a little faster than the link.
fn within(link: &LinkSettings, packet: Bytes, span: Span) -> Bytes {
    let of_size = |size: Bytes| {
        let own = u128::from(link.span(size).0.max(1));
        let bytes = u128::from(span.0) * u128::from(size.0) / own;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    };
    of_size(packet).max(of_size(PAUSE_FRAME))
}

#[cfg(test)]
mod tests {
    use weft_units::{Fraction, Length, Rate, SpanPerLength};

    use super::*;

    fn link(gigabits: u64, metres: u64) -> LinkSettings {
        LinkSettings {
            rate: Rate::from_bits_per_second(gigabits * 1_000_000_000),
            length: Length(metres * 1_000_000),
            delay_per_metre: SpanPerLength(5_000_000),
            reserved: Fraction::default(),
        }
    }

    /// 100 Gbit/s are 12.5 bytes a nanosecond. 1,500 bytes before the pause, 64 for it, 2 x 500 ns
    /// along 100 m, 400 ns of response and 300 ns of latency make 1,564 + 21,250 bytes; two packets
    /// more are 25,814.
    #[test]
    fn headroom_is_the_sum_of_its_parts() {
        let (link, packet) = (link(100, 100), Bytes(1500));
        let parts =
            HeadroomParts { link: &link, packet, response: Span(400_000), latency: Span(300_000) };
        assert_eq!(headroom(parts), Bytes(25_814));
        let none = HeadroomParts { response: Span::ZERO, latency: Span::ZERO, ..parts };
        assert_eq!(headroom(none), Bytes(3 * 1500 + 64 + 12_500));
    }

    /// A link that is filled up counts with its rate, and a part of a byte does not count.
    #[test]
    fn what_leaves_within_a_span_is_whole_bytes() {
        let own = link(400, 1);
        assert_eq!(within(&own, Bytes(4096), Span(1_019)), Bytes(50));
        assert_eq!(within(&own, Bytes(4096), Span(1_020)), Bytes(51));
        // 64 bytes of 3 Gbit/s take 170,667 ps and not 170,666.7, 4,096 take 10,922,667 ps.
        let own = link(3, 1);
        assert_eq!(within(&own, Bytes(4096), Span(170_667)), Bytes(64));
    }
}
