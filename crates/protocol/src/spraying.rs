//! Spraying: which of many routes each packet of a flow takes.
//!
//! The initiator writes a value into the header of each packet, which switches hash together with the
//! identity of the flow. Each value therefore stands for one route, and some routes for more values than
//! others. Feedback about a packet shows how good its route is. The methods are those of the simulator of
//! the Ultra Ethernet Consortium (uet-htsim, `uec_mp.cpp`).

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

use crate::misfit::Misfit;

/// Settings of spraying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SprayingSettings {
    /// Over how many values the packets of a flow are spread, a power of two up to 32768.
    pub values: u16,
    /// How the next value is chosen.
    #[serde(default)]
    pub by: SprayingMethod,
    /// With `reps`: for at least this time after a timeout, only the values of the last eight
    /// unmarked packets are used, in turn, used before or not; then sixteen random ones. 10 ms in
    /// the simulator of the Ultra Ethernet Consortium. Never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freezing: Option<Span>,
}

/// How the next value is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SprayingMethod {
    /// All values in turn, in a new random order for each round.
    #[default]
    Oblivious,
    /// All values in turn, but a value is skipped once after a marked packet and four times after a
    /// trimmed one, at most fifteen times.
    Bitmap,
    /// One of the last eight values whose packet arrived unmarked, each used again once; otherwise
    /// a random one (Bonato et al., "REPS: Recycled Entropy Packet Spraying for Adaptive Load
    /// Balancing and Failure Mitigation", 2024).
    Reps,
    /// A value whose packet arrived unmarked, however long ago; otherwise as with the bitmap.
    Mixed,
}

impl SprayingSettings {
    /// What is wrong with the settings, if anything is.
    pub fn check(&self) -> Result<(), Misfit> {
        if !self.values.is_power_of_two() {
            return Err(Misfit::new("spraying.values", self.values, "a power of two"));
        }
        match self.freezing {
            Some(freezing) if self.by != SprayingMethod::Reps => {
                let accepted =
                    "it only with spraying.by = reps, which remembers values that were good";
                Err(Misfit::new("spraying.freezing", freezing, accepted))
            }
            Some(Span::ZERO) => {
                Err(Misfit::new("spraying.freezing", Span::ZERO, "a time above 0, or none"))
            }
            _ => Ok(()),
        }
    }
}

/// The feedback about a packet with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayReport {
    /// It arrived unmarked.
    Good,
    /// It arrived with a mark.
    Marked,
    /// A switch had trimmed it.
    Cut,
}

/// The most often that a value is passed over, and how often for one packet that was trimmed.
const MOST_PENALTY: u8 = 15;
const CUT_PENALTY: u8 = 4;
/// How many values REPS remembers, and how many it draws after it was frozen.
const REMEMBERED: usize = 8;
const EXPLORED: u8 = 16;

/// The values of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spraying {
    by: SprayingMethod,
    mask: u16,
    random: u64,
    /// The place in the round, and what draws the order of the round from it.
    place: u16,
    order: u16,
    /// How often each value must be skipped; empty unless values are skipped.
    penalties: Box<[u8]>,
    /// Values that go again, the oldest first.
    again: VecDeque<u16>,
    recycled: Recycled,
    freezing: Option<Span>,
    /// Until when only values that were good are used, if that is so now.
    frozen_until: Option<Time>,
    /// How many values must be drawn next.
    explores: u8,
}

/// The values that REPS remembers. A used value stays until another one takes its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Recycled {
    /// Each with whether it has not been used, and the place of the next one.
    slots: [(u16, bool); REMEMBERED],
    head: usize,
    /// How many there are, and how many of them have not been used.
    count: usize,
    fresh: usize,
    /// The one that is next while nothing else goes.
    turn: usize,
}

impl Recycled {
    fn add(&mut self, value: u16) {
        let slot = &mut self.slots[self.head];
        self.fresh += usize::from(!slot.1);
        *slot = (value, true);
        self.head = (self.head + 1) % REMEMBERED;
        self.count = (self.count + 1).min(REMEMBERED);
    }

    /// Takes the oldest that has not been used. While all are used in this order those are side by side.
    fn take(&mut self) -> Option<u16> {
        self.fresh = self.fresh.checked_sub(1)?;
        let slot = &mut self.slots[(self.head + REMEMBERED - self.fresh - 1) % REMEMBERED];
        slot.1 = false;
        Some(slot.0)
    }

    /// Takes the next one in turn, used or not.
    fn take_any(&mut self) -> Option<u16> {
        if self.count == 0 {
            return None;
        }
        let (value, is_fresh) = std::mem::take(&mut self.slots[self.turn]);
        self.slots[self.turn].0 = value;
        self.fresh -= usize::from(is_fresh);
        self.turn = (self.turn + 1) % self.count;
        Some(value)
    }
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
            recycled: Recycled::default(),
            freezing: settings.freezing,
            frozen_until: None,
            explores: 0,
        };
        own.order = own.draw();
        own
    }

    /// The value of the next packet.
    pub fn choose(&mut self) -> u16 {
        match self.by {
            SprayingMethod::Oblivious => self.in_turn(),
            SprayingMethod::Bitmap => self.not_passed_over(),
            SprayingMethod::Reps => self.recycle(),
            SprayingMethod::Mixed => match self.again.pop_front() {
                Some(value) => value,
                None => self.not_passed_over(),
            },
        }
    }

    /// The next value of REPS.
    fn recycle(&mut self) -> u16 {
        if self.explores > 0 {
            self.explores -= 1;
            return self.draw();
        }
        let again = match self.frozen_until {
            Some(_) => self.recycled.take_any(),
            None => self.recycled.take(),
        };
        again.unwrap_or_else(|| self.draw())
    }

    /// No feedback came for so long that routes may have failed.
    pub fn timed_out(&mut self, now: Time) {
        if let Some(freezing) = self.freezing
            && self.frozen_until.is_none()
            && self.explores == 0
        {
            self.frozen_until = Some(now + freezing);
        }
    }

    /// Feedback about a packet with a value.
    pub fn heard(&mut self, now: Time, value: u16, report: WayReport) {
        if self.frozen_until.is_some_and(|until| now > until) {
            self.frozen_until = None;
            self.recycled = Recycled::default();
            self.explores = EXPLORED;
        }
        if let Some(own) = self.penalties.get_mut(usize::from(value)) {
            let added = match report {
                WayReport::Good => 0,
                WayReport::Marked => 1,
                WayReport::Cut => CUT_PENALTY,
            };
            *own = (*own + added).min(MOST_PENALTY);
        }
        match self.by {
            SprayingMethod::Reps if report == WayReport::Good => self.recycled.add(value),
            SprayingMethod::Mixed if report == WayReport::Good => self.again.push_back(value),
            _ => {}
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

    /// The next value without a penalty. The penalty of the value whose turn it is falls by one; those of
    /// later values do not. If all have penalties, the round ends where it began and that value is used.
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
        Spraying::new(SprayingSettings { values, by, freezing: None }, 7)
    }

    const NOW: Time = Time::ZERO;

    fn frozen() -> Spraying {
        let freezing = Some(Span::from_ns(10));
        let settings = SprayingSettings { values: 1024, by: SprayingMethod::Reps, freezing };
        let mut own = Spraying::new(settings, 7);
        (0..10).for_each(|value| own.heard(NOW, value, WayReport::Good));
        own.timed_out(Time(1_000));
        own
    }

    /// Of ten values the last eight are remembered; 8 and 9 stand where 0 and 1 did. Then 20 takes the place of 2.
    #[test]
    fn frozen_reps_uses_what_was_good_again_and_again() {
        let mut own = frozen();
        let round: Vec<u16> = (0..8).map(|_| own.choose()).collect();
        assert_eq!(round, [8, 9, 2, 3, 4, 5, 6, 7]);
        own.heard(Time(2_000), 30, WayReport::Marked);
        own.heard(Time(2_000), 20, WayReport::Good);
        let round: Vec<u16> = (0..9).map(|_| own.choose()).collect();
        assert_eq!(round, [8, 9, 20, 3, 4, 5, 6, 7, 8]);
    }

    /// Until it hears something at 11 ns or later; another timeout meanwhile changes nothing.
    #[test]
    fn reps_draws_sixteen_values_when_it_thaws() {
        let mut own = frozen();
        own.timed_out(Time(9_000));
        own.heard(Time(11_000), 21, WayReport::Good);
        assert!((0..8).all(|_| own.choose() < 22));
        own.heard(Time(11_001), 22, WayReport::Good);
        own.timed_out(Time(11_002));
        let drawn: Vec<u16> = (0..16).map(|_| own.choose()).collect();
        assert!(drawn.iter().filter(|value| **value > 22).count() > 12, "{drawn:?}");
        assert_eq!(own.choose(), 22);
        own.timed_out(Time(11_003));
        assert_eq!([own.choose(), own.choose()], [22, 22]);
    }

    #[test]
    fn only_reps_freezes() {
        for by in [SprayingMethod::Oblivious, SprayingMethod::Bitmap, SprayingMethod::Mixed] {
            let settings = SprayingSettings { values: 4, by, freezing: Some(Span::from_ns(1)) };
            assert_eq!(
                settings.check().map_err(|wrong| wrong.key),
                Err("spraying.freezing".into())
            );
        }
        let settings =
            SprayingSettings { values: 4, by: SprayingMethod::Reps, freezing: Some(Span::ZERO) };
        assert_eq!(settings.check().map_err(|wrong| wrong.key), Err("spraying.freezing".into()));
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
            own.heard(NOW, bad, report);
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
            own.heard(NOW, 0, WayReport::Cut);
            own.heard(NOW, 1, WayReport::Cut);
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
                own.heard(NOW, value, WayReport::Good);
                own.heard(NOW, value + 64, WayReport::Marked);
            }
            let first: Vec<u16> = (0..8).map(|_| own.choose()).collect();
            // REPS has forgotten the first two.
            let from = if by == SprayingMethod::Reps { 2 } else { 0 };
            assert!(first.into_iter().eq(from..from + 8), "{by:?}");
        }
    }
}
