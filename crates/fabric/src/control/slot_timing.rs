//! When the slots of a globally scheduled channel begin, and the timing within a slot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Fraction, Span, Time};

/// Settings of the slots of a globally scheduled channel (Clint 3.3, 3.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SlotTimingSettings {
    /// Gap at the beginning of a slot, in which nodes whose links differ in length fall into step.
    pub gap: Span,
    /// Share of a slot that the receiver needs to lock onto the clock of another sender after the
    /// switch has changed; follows the gap.
    pub relock: Fraction,
    /// How long before a slot the requests for it are sampled.
    pub lead: Span,
}

/// The slots of one channel: equal spans from time zero on. Instants are those of the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTiming {
    slot: Span,
    data: Span,
    lead: Span,
}

/// Why slots with these settings are impossible.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SlotTimingError {
    /// The receiver needs the whole slot.
    #[error("relock = {relock}: leaves nothing of a slot; accepted is less than 1")]
    Relock {
        /// The setting.
        relock: Fraction,
    },
    /// A slot would have no length.
    #[error("gap = 0: a slot for a packet of no length lasts no time; accepted is 1 ps or more")]
    Empty,
}

impl SlotTimingSettings {
    /// The slots for packets that occupy the link for `packet`. A slot is as long as gap, lock and
    /// packet, where the lock is a share of that whole: (packet + gap) / (1 - relock), rounded to
    /// the nearest picosecond.
    ///
    /// # Errors
    /// [`SlotTimingError`] for a slot of no length or without end.
    pub fn build(&self, packet: Span) -> Result<SlotTiming, SlotTimingError> {
        let relock = self.relock.get();
        if relock >= 1.0 {
            return Err(SlotTimingError::Relock { relock: self.relock });
        }
        let carried = packet + self.gap;
        let slot = if relock > 0.0 {
            Span((carried.0 as f64 / (1.0 - relock)).round() as u64)
        } else {
            carried
        };
        if slot == Span::ZERO {
            return Err(SlotTimingError::Empty);
        }
        Ok(SlotTiming { slot, data: slot - packet, lead: self.lead })
    }
}

impl SlotTiming {
    /// How long a slot is.
    pub const fn slot(&self) -> Span {
        self.slot
    }

    /// When a slot begins.
    pub fn start(&self, slot: u64) -> Time {
        Time::ZERO + self.slot * slot
    }

    /// When the packet of a slot begins, after the gap and the relock time.
    pub fn transfer(&self, slot: u64) -> Time {
        self.start(slot) + self.data
    }

    /// When the requests for the transfers of a slot are sampled; time zero at the earliest.
    pub fn sampling(&self, slot: u64) -> Time {
        Time(self.start(slot).0.saturating_sub(self.lead.0))
    }

    /// The slot that an instant lies in.
    pub const fn slot_at(&self, now: Time) -> u64 {
        now.0 / self.slot.0
    }

    /// The first slot whose requests are sampled at `now` or later.
    pub const fn next_sampled(&self, now: Time) -> u64 {
        (now.0 + self.lead.0).div_ceil(self.slot.0)
    }
}

#[cfg(test)]
mod tests {
    use weft_units::{Bytes, Rate};

    use super::*;

    const PACKET: Span = Rate::from_bits_per_second(2_000_000_000).span(Bytes(2086));

    fn settings(gap: u64, relock: f64, lead: u64) -> SlotTimingSettings {
        let relock = Fraction::new(relock).expect("a fraction");
        SlotTimingSettings { gap: Span(gap), relock, lead: Span(lead) }
    }

    /// Clint 3.5: 8344 ns of packet and a lock of 5 % make 8344 / 0.95 = 8783.158 ns; a gap of
    /// 640 ns instead makes 8984 ns.
    #[test]
    fn a_slot_is_packet_gap_and_lock() {
        let timing = settings(0, 0.05, 0).build(PACKET).unwrap();
        assert_eq!(timing.slot(), Span(8_783_158));
        assert_eq!(timing.transfer(0), Time(439_158));
        let timing = settings(640_000, 0.0, 1_880_000).build(PACKET).unwrap();
        assert_eq!((timing.slot(), timing.transfer(1)), (Span(8_984_000), Time(9_624_000)));
        assert_eq!((timing.sampling(0), timing.sampling(1)), (Time(0), Time(7_104_000)));
    }

    #[test]
    fn an_instant_belongs_to_one_slot_and_one_sampling() {
        let timing = settings(0, 0.0, 30).build(Span(100)).unwrap();
        assert_eq!([0, 99, 100].map(|now| timing.slot_at(Time(now))), [0, 0, 1]);
        assert_eq!([70, 71, 170].map(|now| timing.next_sampled(Time(now))), [1, 2, 2]);
    }

    #[test]
    fn slots_that_cannot_be_are_refused() {
        assert_eq!(
            settings(0, 1.0, 0).build(PACKET).unwrap_err().to_string(),
            "relock = 1: leaves nothing of a slot; accepted is less than 1"
        );
        assert_eq!(settings(0, 0.5, 0).build(Span::ZERO), Err(SlotTimingError::Empty));
    }
}
