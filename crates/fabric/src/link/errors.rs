//! Transmission errors on a link: at a rate, at listed places, or both.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::{Stream, Streams};
use weft_units::{Bytes, Fraction};

/// Settings of the errors of one channel's links. Without any, links are free of errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorSettings {
    /// Probability that a bit arrives wrong, independently of all others.
    pub bit_error_rate: Fraction,
    /// Probability that a packet is damaged, whatever its size; in addition to the bit error rate.
    pub packet_error_rate: Fraction,
    /// Packets that are damaged deterministically, by their number.
    pub packets: Vec<DamagedPacket>,
    /// Packets that are damaged deterministically, by the slot in which they are sent. No effect on
    /// a channel without slots.
    pub slots: Vec<DamagedSlot>,
}

/// Settings of the errors of one link, whose packets are damaged by chance alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkErrorSettings {
    /// Probability that a bit arrives wrong, independently of all others.
    pub bit_error_rate: Fraction,
    /// Probability that a packet is damaged, whatever its size; on top of the bit error rate.
    pub packet_error_rate: Fraction,
}

/// A packet that is damaged deterministically, by its number.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct DamagedPacket {
    /// The host that sends it.
    pub host: u16,
    /// Which of that host's transmissions on the channel it is, from 0, retransmissions included.
    pub packet: u64,
}

/// A packet that is damaged deterministically, by the slot in which it is sent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct DamagedSlot {
    /// The host that sends it.
    pub host: u16,
    /// The slot, from 0.
    pub slot: u64,
}

/// The errors on what one host sends on one channel.
#[derive(Debug)]
pub struct Errors {
    bit_error_rate: f64,
    packet_error_rate: f64,
    packets: Listed,
    slots: Listed,
    transmissions: u64,
    chance: Stream,
    places: Stream,
}

/// Numbers that are asked about in ascending order.
#[derive(Debug)]
struct Listed {
    numbers: Vec<u64>,
    next: usize,
}

impl ErrorSettings {
    /// Whether no packet is ever damaged.
    pub fn is_free_of_errors(&self) -> bool {
        self.bit_error_rate == Fraction::default()
            && self.packet_error_rate == Fraction::default()
            && self.packets.is_empty()
            && self.slots.is_empty()
    }

    /// The errors of what `host` sends on `channel`. Every host has random streams of its own, so
    /// that another host leaves them as they were.
    pub fn build(&self, streams: &Streams, channel: &str, host: u16) -> Errors {
        let packets = self.packets.iter().filter(|place| place.host == host);
        let slots = self.slots.iter().filter(|place| place.host == host);
        let stream = |what: &str| streams.stream(&format!("{channel} {what}"), host.into());
        Errors {
            bit_error_rate: self.bit_error_rate.get(),
            packet_error_rate: self.packet_error_rate.get(),
            packets: Listed::new(packets.map(|place| place.packet)),
            slots: Listed::new(slots.map(|place| place.slot)),
            transmissions: 0,
            chance: stream("errors"),
            places: stream("error places"),
        }
    }
}

impl LinkErrorSettings {
    /// The errors of what passes the link that begins at `host`, on `channel`: separate from those of what it
    /// sends.
    pub fn build(self, streams: &Streams, channel: &str, host: u16) -> Errors {
        let LinkErrorSettings { bit_error_rate, packet_error_rate } = self;
        let errors =
            ErrorSettings { bit_error_rate, packet_error_rate, ..ErrorSettings::default() };
        errors.build(streams, &format!("{channel} link"), host)
    }
}

impl Errors {
    /// Whether the next transmission of this host, of `size`, arrives damaged; `slot` is the slot
    /// that it is in, on a channel that has slots. To be asked once for each transmission.
    pub fn damages_next(&mut self, slot: Option<u64>, size: Bytes) -> bool {
        let packet = self.transmissions;
        self.transmissions += 1;
        let is_packet = self.packets.contains(packet);
        let is_slot = slot.is_some_and(|slot| self.slots.contains(slot));
        // One number is drawn for a packet whether or not it is listed, so that the lists change
        // no other packet; none is drawn where nothing is left to chance.
        let survival = self.survival(size);
        let is_unlucky = survival < 1.0 && self.chance.unit() > survival;
        is_packet || is_slot || is_unlucky
    }

    /// The bit that arrives wrong in a damaged packet of `size`.
    pub fn wrong_bit(&mut self, size: Bytes) -> u64 {
        self.places.below(size.0.max(1) * 8)
    }

    /// The probability that a packet of `size` arrives whole: (1 - b)^bits x (1 - p).
    fn survival(&self, size: Bytes) -> f64 {
        let bits = (size.0 * 8) as f64;
        let all_bits = if self.bit_error_rate > 0.0 {
            libm::pow(1.0 - self.bit_error_rate, bits)
        } else {
            1.0
        };
        all_bits * (1.0 - self.packet_error_rate)
    }
}

impl Listed {
    fn new(numbers: impl Iterator<Item = u64>) -> Listed {
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        Listed { numbers, next: 0 }
    }

    fn contains(&mut self, number: u64) -> bool {
        while self.numbers.get(self.next).is_some_and(|listed| *listed < number) {
            self.next += 1;
        }
        self.numbers.get(self.next) == Some(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREQ: Bytes = Bytes(2086);

    fn settings(bit: f64, packet: f64, at: &[(u16, u64)]) -> ErrorSettings {
        ErrorSettings {
            bit_error_rate: Fraction::new(bit).expect("a fraction"),
            packet_error_rate: Fraction::new(packet).expect("a fraction"),
            packets: at
                .iter()
                .map(|(host, packet)| DamagedPacket { host: *host, packet: *packet })
                .collect(),
            slots: Vec::new(),
        }
    }

    fn damaged(settings: &ErrorSettings, seed: u64, host: u16, packets: u64) -> Vec<u64> {
        let mut errors = settings.build(&Streams::new(seed), "bulk", host);
        (0..packets).filter(|packet: &u64| errors.damages_next(Some(packet * 2), BREQ)).collect()
    }

    #[test]
    fn listed_packets_are_damaged_and_no_others() {
        let settings = settings(0.0, 0.0, &[(1, 7), (0, 3), (1, 2), (1, 7)]);
        assert_eq!(damaged(&settings, 1, 1, 100), [2, 7]);
        assert_eq!(damaged(&settings, 1, 0, 100), [3]);
        assert_eq!(damaged(&settings, 1, 2, 100), [0; 0]);
        assert!(!settings.is_free_of_errors() && ErrorSettings::default().is_free_of_errors());
    }

    /// Each transmission of the test is in an even slot.
    #[test]
    fn listed_slots_damage_what_is_sent_in_them() {
        let slots = [6, 7, 8].map(|slot| DamagedSlot { host: 1, slot }).to_vec();
        let settings = ErrorSettings { slots, ..settings(0.0, 0.0, &[(1, 0)]) };
        assert_eq!(damaged(&settings, 1, 1, 100), [0, 3, 4]);
        let mut errors = settings.build(&Streams::new(1), "quick", 1);
        let found: Vec<u64> = (0..9).filter(|_| errors.damages_next(None, BREQ)).collect();
        assert_eq!(found, [0], "without slots, none is listed");
    }

    #[test]
    fn the_list_moves_no_random_error_and_no_host_moves_another() {
        let random = settings(0.0, 0.1, &[]);
        let both = settings(0.0, 0.1, &[(0, 50)]);
        let (without, mut with) = (damaged(&random, 1, 0, 200), damaged(&both, 1, 0, 200));
        assert!(!without.contains(&50) && without.len() > 5);
        with.retain(|packet| *packet != 50);
        assert_eq!(with, without);
        assert_eq!(damaged(&random, 1, 1, 200), damaged(&both, 1, 1, 200));
        assert_ne!(damaged(&random, 1, 1, 200), without);
        assert_ne!(damaged(&random, 2, 0, 200), without);
    }

    /// 2086 bytes at a bit error rate of 1e-5: 1 - (1 - 1e-5)^16688 = 0.15369. A hundred thousand
    /// packets have a standard deviation of 0.00114; three of them are allowed.
    #[test]
    fn a_bit_error_rate_damages_long_packets_more() {
        let settings = settings(1e-5, 0.0, &[]);
        let share = damaged(&settings, 1, 0, 100_000).len() as f64 / 1e5;
        assert!((share - 0.153_69).abs() < 0.003_42, "{share}");
        let mut errors = settings.build(&Streams::new(1), "bulk", 0);
        assert!((errors.survival(Bytes(4)) - 0.999_680).abs() < 1e-6);
        assert!((0..1000).all(|_| errors.wrong_bit(Bytes(4)) < 32));
    }

    #[test]
    fn certain_errors_are_certain() {
        assert_eq!(damaged(&settings(0.0, 1.0, &[]), 1, 0, 50).len(), 50);
        assert_eq!(damaged(&settings(0.0, 0.0, &[]), 1, 0, 50).len(), 0);
    }
}
