//! Spraying: which of many ways each packet of a flow takes.
//!
//! The initiator writes a value into the header of each packet, which switches hash together with what
//! names the flow, so that each value stands for one way, and not every way for equally many values. What
//! is heard of a packet says how good its way is. The methods are those of the simulator of the Ultra
//! Ethernet Consortium (uet-htsim, `uec_mp.cpp`).

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of spraying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SprayingSettings {
    /// Over how many values the packets of a flow are spread, a power of two up to 32768.
    pub values: u16,
    /// How the next value is chosen.
    #[serde(default)]
    pub by: SprayingMethod,
}

/// How the next value is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SprayingMethod {
    /// All in turn, in an order that is drawn anew for each round.
    #[default]
    Oblivious,
    /// All in turn, but a value by which a packet was marked is passed over once, one by which a packet was
    /// cut four times, and at most fifteen times.
    Bitmap,
    /// One by which a packet came unmarked goes again, of the last eight of them; otherwise one at random
    /// (Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing and Failure
    /// Mitigation", 2024). It does not freeze after a timeout.
    Reps,
    /// One by which a packet came unmarked goes again, whenever that was; otherwise as with the bitmap.
    Mixed,
}

impl SprayingSettings {
    /// What is wrong with the settings, if anything is: key, value, and what is accepted.
    pub fn check(&self) -> Result<(), (&'static str, String, &'static str)> {
        match self.values.is_power_of_two() {
            true => Ok(()),
            false => Err(("spraying.values", self.values.to_string(), "a power of two")),
        }
    }
}

/// What became of a packet that went by a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayReport {
    /// It came unmarked.
    Good,
    /// It came with a mark.
    Marked,
    /// A switch had cut it.
    Cut,
}

/// The most often that a value is passed over, and how often for one packet that was cut.
const MOST_PENALTY: u8 = 15;
const CUT_PENALTY: u8 = 4;
/// How many values REPS remembers.
const REMEMBERED: usize = 8;

/// The values of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spraying {
    by: SprayingMethod,
    mask: u16,
    random: u64,
    /// The place in the round, and what draws the order of the round from it.
    place: u16,
    order: u16,
    /// How often each value is to be passed over; empty where that is not done.
    penalties: Box<[u8]>,
    /// Values that go again, the oldest first.
    again: VecDeque<u16>,
}

impl Spraying {
    /// A flow begins, whose choices follow from `seed`.
    pub fn new(settings: SprayingSettings, seed: u64) -> Spraying {
        let mask = settings.values - 1;
        let has_penalties = matches!(settings.by, SprayingMethod::Bitmap | SprayingMethod::Mixed);
        let count = if has_penalties { usize::from(mask) + 1 } else { 0 };
        let mut own = Spraying {
            by: settings.by,
            mask,
            random: seed,
            place: 0,
            order: 0,
            penalties: vec![0; count].into(),
            again: VecDeque::new(),
        };
        own.order = own.draw();
        own
    }

    /// The value of the next packet.
    pub fn choose(&mut self) -> u16 {
        match self.by {
            SprayingMethod::Oblivious => self.in_turn(),
            SprayingMethod::Bitmap => self.not_passed_over(),
            SprayingMethod::Reps => match self.again.pop_front() {
                Some(value) => value,
                None => self.draw(),
            },
            SprayingMethod::Mixed => match self.again.pop_front() {
                Some(value) => value,
                None => self.not_passed_over(),
            },
        }
    }

    /// What is heard of a packet that went by a value.
    pub fn heard(&mut self, value: u16, report: WayReport) {
        if let Some(own) = self.penalties.get_mut(usize::from(value)) {
            let added = match report {
                WayReport::Good => 0,
                WayReport::Marked => 1,
                WayReport::Cut => CUT_PENALTY,
            };
            *own = (*own + added).min(MOST_PENALTY);
        }
        let remembers = matches!(self.by, SprayingMethod::Reps | SprayingMethod::Mixed);
        if remembers && report == WayReport::Good {
            if self.by == SprayingMethod::Reps && self.again.len() == REMEMBERED {
                self.again.pop_front();
            }
            self.again.push_back(value);
        }
    }

    /// A value at random, by the numbers of Steele, Lea and Flood, "Fast splittable pseudorandom number
    /// generators", OOPSLA 2014.
    fn draw(&mut self) -> u16 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits >> 48) as u16 & self.mask
    }

    /// The value at the place in the round.
    fn value(&self) -> u16 {
        self.place ^ self.order
    }

    fn go_on(&mut self) {
        self.place = (self.place + 1) & self.mask;
        if self.place == 0 {
            self.order = self.draw();
        }
    }

    fn in_turn(&mut self) -> u16 {
        let value = self.value();
        self.go_on();
        value
    }

    /// The next value without a penalty. A penalty of the value whose turn it is goes down by one; those of
    /// values behind it do not. If all have penalties the round ends where it began and that value is used.
    fn not_passed_over(&mut self) -> u16 {
        let first = usize::from(self.value());
        if self.penalties[first] > 0 {
            self.penalties[first] -= 1;
            self.go_on();
            for _ in 0..self.mask {
                if self.penalties[usize::from(self.value())] == 0 {
                    break;
                }
                self.go_on();
            }
        }
        self.in_turn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spraying(by: SprayingMethod, values: u16) -> Spraying {
        Spraying::new(SprayingSettings { values, by }, 7)
    }

    #[test]
    fn each_round_has_each_value_once_in_another_order() {
        for by in [SprayingMethod::Oblivious, SprayingMethod::Bitmap, SprayingMethod::Mixed] {
            let mut own = spraying(by, 64);
            let rounds: Vec<Vec<u16>> =
                (0..20).map(|_| (0..64).map(|_| own.choose()).collect()).collect();
            for round in &rounds {
                let mut sorted = round.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..64));
            }
            let mut orders: Vec<u16> = rounds.iter().map(|round| round[0]).collect();
            orders.sort_unstable();
            orders.dedup();
            assert!(orders.len() > 10, "{orders:?}");
        }
    }

    #[test]
    fn a_value_is_passed_over_once_for_a_mark_and_four_times_for_a_cut() {
        for (report, rounds) in [(WayReport::Marked, 1), (WayReport::Cut, 4)] {
            let mut own = spraying(SprayingMethod::Bitmap, 4);
            let bad = own.value() ^ 1;
            own.heard(bad, report);
            // The three others in each round, until it has been passed over often enough.
            for _ in 0..rounds {
                let mut round = [own.choose(), own.choose(), own.choose()];
                round.sort_unstable();
                assert!(round.into_iter().eq((0..4).filter(|value| *value != bad)), "{round:?}");
            }
            // It may have been the last of its round, or the first of the next one.
            let next: Vec<u16> = (0..8).map(|_| own.choose()).collect();
            assert!(next.iter().filter(|value| **value == bad).count() >= 1, "{next:?}");
            assert_eq!(own.penalties.iter().sum::<u8>(), 0);
        }
    }

    #[test]
    fn one_goes_where_all_are_to_be_passed_over() {
        let mut own = spraying(SprayingMethod::Bitmap, 2);
        for _ in 0..9 {
            own.heard(0, WayReport::Cut);
            own.heard(1, WayReport::Cut);
        }
        assert_eq!(own.penalties[..], [15, 15]);
        for left in (15..29).rev() {
            own.choose();
            assert_eq!(own.penalties.iter().sum::<u8>(), left + 1);
        }
    }

    #[test]
    fn values_of_unmarked_packets_go_again_in_order() {
        for by in [SprayingMethod::Reps, SprayingMethod::Mixed] {
            let mut own = spraying(by, 128);
            for value in 0..10 {
                own.heard(value, WayReport::Good);
                own.heard(value + 64, WayReport::Marked);
            }
            let first: Vec<u16> = (0..8).map(|_| own.choose()).collect();
            // REPS has forgotten the first two.
            let from = if by == SprayingMethod::Reps { 2 } else { 0 };
            assert!(first.into_iter().eq(from..from + 8), "{by:?}");
        }
    }
}
