//! NSCC, the congestion control at the initiator of Ultra Ethernet (UET specification 1.0, section 3.6.13), as
//! in the authors' simulator (uet-htsim, `uec.cpp`): a window that follows the delay of acknowledgments, their
//! marks, and packets that switches trim.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

use super::{Acknowledged, Line, Share};
use crate::misfit::Misfit;

/// Settings of NSCC. Names in backquotes and values are those of uet-htsim, `initNsccParams`; the text of the
/// specification was not at hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NsccSettings {
    /// The round trip of the longest route without load: `_network_rtt`. A flow uses the smallest
    /// round trip that it has measured, at most this one.
    pub base_round_trip: Span,
    /// The target queueing delay: `_target_Qdelay`. By default three quarters of `base_round_trip`,
    /// the authors' choice for switches that trim packets; for switches that drop them they use all
    /// of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_delay: Option<Span>,
    /// How strongly the window shrinks above the target: `_gamma`, 0.8.
    #[serde(default = "gamma")]
    pub gamma: Share,
    /// The weight of a new delay in their mean: `_delay_alpha`, 0.0125.
    #[serde(default = "delay_gain")]
    pub delay_gain: Share,
    /// Quick adaptation: the window is set to the bytes that arrived in the last round trip only if
    /// they are less than this fraction of the largest window: 2^-`_qa_gate`, an eighth.
    #[serde(default = "quick_gate")]
    pub quick_gate: Share,
}

fn gamma() -> Share {
    Share::of(4, 5)
}

fn delay_gain() -> Share {
    Share::one_in(80)
}

fn quick_gate() -> Share {
    Share::one_in(8)
}

impl NsccSettings {
    /// The constants of the simulator, for routes with this round trip without load.
    pub fn new(base_round_trip: Span) -> NsccSettings {
        NsccSettings {
            base_round_trip,
            target_delay: None,
            gamma: gamma(),
            delay_gain: delay_gain(),
            quick_gate: quick_gate(),
        }
    }

    pub(super) fn check(&self) -> Result<(), Misfit> {
        if self.base_round_trip == Span::ZERO {
            let key = "congestion_control.nscc.base_round_trip";
            return Err(Misfit::new(key, self.base_round_trip, "a time above 0"));
        }
        if self.target_delay == Some(Span::ZERO) {
            let key = "congestion_control.nscc.target_delay";
            return Err(Misfit::new(key, Span::ZERO, "a time above 0"));
        }
        Ok(())
    }

    fn target(&self) -> f64 {
        match self.target_delay {
            Some(own) => own.0 as f64,
            None => self.base_round_trip.0 as f64 * 0.75,
        }
    }
}

/// The bandwidth-delay product that `scaling_factor_a` is relative to, in bytes: 100 Gbit/s and 12 us.
const REFERENCE: f64 = 150_000.0;
/// The round trip that `scaling_factor_b` is relative to, in picoseconds.
const REFERENCE_ROUND_TRIP: f64 = 12e6;
/// The largest window, by the bandwidth-delay product of the flow.
const MOST: f64 = 1.5;
/// The delay below which a window grows fast, in picoseconds.
const FAST_BELOW: f64 = 1e6;
/// How many bytes a window then grows for each byte acknowledged, times `scaling_factor_a`: `_fi_scale`.
const FAST: f64 = 0.25;
/// Increase in packets of proportional and fair increase and of each period, by `scaling_factor_a`.
const PROPORTIONAL: f64 = 4.0;
const FAIR: f64 = 5.0;
const PERIOD: f64 = 0.15;
/// After this many packets the accumulated increases are applied to the window:
/// `_adjust_bytes_threshold`.
const ADJUSTED_AFTER: f64 = 8.0;
/// The smallest share that one decrease leaves of a window.
const LEAST_LEFT: f64 = 0.5;
/// A delay above this many times the target starts quick adaptation: `_qa_threshold`.
const QUICK: f64 = 4.0;

/// The initiator of one flow. Sizes are in bytes, times in picoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Nscc {
    line: f64,
    packet: f64,
    payload: f64,
    gamma: f64,
    gain: f64,
    gate: f64,
    target: f64,
    /// The round trip of the network, and the shortest one of the flow.
    round_trip: f64,
    base: f64,
    /// `scaling_factor_a` and `scaling_factor_b`.
    by_size: f64,
    by_time: f64,
    window: f64,
    most: f64,
    mean_delay: f64,
    /// Accumulated increases, in bytes times bytes of the window.
    increase: f64,
    since_adjusted: f64,
    adjusted: Time,
    decreased: Time,
    /// Bytes at a small delay in a row, and whether the window grows fast.
    fast: f64,
    is_fast: bool,
    /// Quick adaptation: the bytes received since its period began, when that ends, and whether a packet
    /// was trimmed; the bytes that were in flight when it last acted, and those received since.
    achieved: f64,
    ends: Option<Time>,
    was_cut: bool,
    ignore: f64,
    ignored: f64,
}

/// What an acknowledgment or a loss indicates about the network.
#[derive(Clone, Copy, Debug)]
struct Signal {
    is_marked: bool,
    is_loss: bool,
    /// How long queues have delayed the packet, in picoseconds.
    delay: f64,
}

impl Nscc {
    /// A flow begins.
    pub fn new(settings: &NsccSettings, line: Line) -> Nscc {
        let bytes_per_ps = line.bits_per_second() / 8e12;
        let round_trip = settings.base_round_trip.0 as f64;
        let most = MOST * round_trip * bytes_per_ps;
        Nscc {
            line: line.bits_per_second(),
            packet: line.packet.0 as f64,
            payload: line.payload.0 as f64,
            gamma: settings.gamma.get(),
            gain: settings.delay_gain.get(),
            gate: settings.quick_gate.get(),
            target: settings.target(),
            round_trip,
            base: round_trip,
            by_size: round_trip * bytes_per_ps / REFERENCE,
            by_time: settings.target() / REFERENCE_ROUND_TRIP,
            window: most.max(line.packet.0 as f64),
            most,
            mean_delay: 0.0,
            increase: 0.0,
            since_adjusted: 0.0,
            adjusted: Time::ZERO,
            decreased: Time::ZERO,
            fast: 0.0,
            is_fast: false,
            achieved: 0.0,
            ends: None,
            was_cut: false,
            ignore: 0.0,
            ignored: 0.0,
        }
    }

    /// The packets of a window are sent back to back.
    #[inline]
    pub fn rate(&self) -> f64 {
        self.line
    }

    /// How many bytes may be in flight.
    #[inline]
    pub fn window(&self) -> f64 {
        self.window
    }

    /// An acknowledgment has arrived.
    pub fn acknowledged(&mut self, now: Time, heard: &Acknowledged) {
        let (bytes, is_marked) = (heard.bytes as f64, heard.is_marked);
        let delay = self.measure(heard.delay.0 as f64, is_marked);
        self.achieved += bytes;
        self.since_adjusted += bytes;
        self.ignored += bytes;
        let under_way = heard.next.saturating_sub(heard.up_to) as f64;
        if self.adapt_quickly(now, Signal { is_marked, is_loss: false, delay }, under_way) {
            return;
        }
        match (is_marked, delay >= self.target) {
            (false, true) => self.increase += FAIR * self.payload * self.by_size * bytes,
            (false, false) => self.increase_below_target(bytes, delay),
            (true, true) => self.decrease(now),
            // A mark without delay means that another route is better.
            (true, false) => {}
        }
        self.bound();
        let is_due = now.since(self.adjusted).0 as f64 >= self.round_trip;
        if is_due || self.since_adjusted > ADJUSTED_AFTER * self.packet {
            self.window += self.increase / self.window;
            if is_due {
                self.window += PERIOD * self.payload * self.by_size;
                self.adjusted = now;
            }
            (self.increase, self.since_adjusted) = (0.0, 0.0);
        }
        self.bound();
    }

    /// A switch trimmed a packet, or its loss became known, while this many bytes are in flight.
    pub fn lost(&mut self, now: Time, under_way: u64) {
        self.ignored += self.packet;
        // The delay that is assumed where packets are trimmed.
        self.note_delay(self.round_trip, true);
        self.was_cut = true;
        let cut = Signal { is_marked: true, is_loss: true, delay: 0.0 };
        if !self.adapt_quickly(now, cut, under_way as f64) {
            self.window -= self.packet;
            self.bound();
        }
    }

    /// The timer has expired: everything in flight counts as lost, and is subtracted from the
    /// window.
    pub fn timed_out(&mut self) {
        self.window = self.packet;
    }

    /// Takes a round trip for one that was measured. Returns the delay in queues that it shows.
    fn measure(&mut self, round_trip: f64, is_marked: bool) -> f64 {
        if round_trip < self.base {
            self.base = round_trip;
            self.most = MOST * round_trip * self.line / 8e12;
        }
        self.note_delay(round_trip - self.base, is_marked);
        round_trip - self.base
    }

    fn note_delay(&mut self, delay: f64, is_marked: bool) {
        // A long delay without a mark is stale: the queue has drained since.
        let is_old = !is_marked && delay > self.target;
        let heard = if is_old { self.base * 0.25 } else { delay };
        self.mean_delay += self.gain * (heard - self.mean_delay);
    }

    /// Once per round trip, after a loss or a very long delay: the window becomes the bytes received in
    /// it. Returns whether that was done, or is pending.
    fn adapt_quickly(&mut self, now: Time, signal: Signal, under_way: f64) -> bool {
        let mut has_acted = false;
        if self.ignored < self.ignore && signal.is_marked {
            has_acted = true;
        } else if self.ends.is_none_or(|ends| now > ends) {
            let is_bad = self.was_cut || signal.is_loss || signal.delay > QUICK * self.target;
            if self.ends.is_some() && is_bad && self.achieved < self.most * self.gate {
                self.window = self.achieved.min(self.window).max(self.packet);
                (self.ignore, self.ignored) = (under_way, 0.0);
                self.was_cut = false;
                has_acted = true;
            }
            self.achieved = 0.0;
            self.ends = Some(now + Span((self.base + self.target) as u64));
        }
        if has_acted {
            (self.increase, self.since_adjusted) = (0.0, 0.0);
        }
        has_acted
    }

    /// The queue is shorter than it may be.
    fn increase_below_target(&mut self, bytes: f64, delay: f64) {
        if delay < FAST_BELOW {
            self.fast += bytes;
            if self.fast > self.window || self.is_fast {
                self.window += bytes * FAST * self.by_size;
                self.is_fast = true;
                return;
            }
        } else {
            self.fast = 0.0;
        }
        self.is_fast = false;
        let share = (self.target - delay) / self.target;
        let scale = PROPORTIONAL * self.payload * self.by_size * self.by_time;
        self.increase += scale * share * bytes;
    }

    /// The queue is longer than it may be, by its mean: once a round trip.
    fn decrease(&mut self, now: Time) {
        (self.is_fast, self.fast) = (false, 0.0);
        let is_time = now.since(self.decreased).0 as f64 > self.base;
        if self.mean_delay > self.target && is_time {
            let share = self.gamma * (self.mean_delay - self.target) / self.mean_delay;
            self.window *= (1.0 - share).max(LEAST_LEFT);
            self.decreased = now;
        }
    }

    fn bound(&mut self) {
        self.window = self.window.min(self.most).max(self.packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::{Bytes, Rate};

    /// 100 Gbit/s and 12 us: both scales are 1 but for the target of 9 us.
    fn flow() -> Nscc {
        let settings = NsccSettings::new(Span::from_ns(12_000));
        let rate = Rate::from_bits_per_second(100_000_000_000);
        let line = Line { rate, packet: Bytes(1_000), payload: Bytes(900) };
        Nscc::new(&settings, line)
    }

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_ns(us * 1_000)
    }

    fn heard(round_trip_us: u64, is_marked: bool) -> Acknowledged {
        let delay = Span::from_ns(round_trip_us * 1_000);
        Acknowledged { bytes: 1_000, is_marked, delay, hops: 3, up_to: 0, next: 50_000 }
    }

    fn about(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-9, "{value} is not {expected}");
    }

    #[test]
    fn a_flow_begins_with_one_and_a_half_times_what_fills_the_way() {
        let own = flow();
        about(own.window(), 225_000.0);
        about(own.target, 9e6);
        about(own.rate(), 100e9);
    }

    #[test]
    fn a_window_grows_by_what_the_delay_leaves_to_the_target() {
        let mut own = flow();
        (own.window, own.adjusted) = (50_000.0, us(1));
        // 3 us in queues: two thirds are left, of 4 x 900 x 0.75 a byte. Eight packets do not do it.
        for _ in 0..8 {
            own.acknowledged(us(2), &heard(15, false));
        }
        about(own.increase, 8_000.0 * 2_700.0 * 2.0 / 3.0);
        about(own.window, 50_000.0);
        own.acknowledged(us(2), &heard(15, false));
        about(own.window, 50_000.0 + 9_000.0 * 1_800.0 / 50_000.0);
        // Without a mark, delay at or above the target: the window grows by 5 x 900 for each byte,
        // and by 0.15 x 900 once in a round trip.
        let before = own.window;
        own.acknowledged(us(13), &heard(21, false));
        about(own.window, before + 1_000.0 * 4_500.0 / before + 135.0);
    }

    #[test]
    fn after_a_window_without_delay_it_grows_by_a_quarter_of_what_comes() {
        let mut own = flow();
        (own.window, own.adjusted) = (3_000.0, us(1));
        for _ in 0..3 {
            own.acknowledged(us(2), &heard(12, false));
        }
        about(own.window, 3_000.0);
        own.acknowledged(us(2), &heard(12, false));
        about(own.window, 3_250.0);
        own.acknowledged(us(2), &heard(12, false));
        about(own.window, 3_500.0);
        // Any delay ends it.
        own.acknowledged(us(2), &heard(14, false));
        assert!(!own.is_fast);
    }

    #[test]
    fn marks_cut_a_window_by_the_mean_delay_once_a_round_trip() {
        let mut own = flow();
        (own.window, own.adjusted, own.mean_delay) = (50_000.0, us(100), 36e6);
        own.acknowledged(us(100), &heard(48, true));
        // The mean stays at 36 us, four times the target: 0.8 x 27 / 36 = 0.6, of which half is done.
        about(own.window, 25_000.0);
        own.acknowledged(us(101), &heard(48, true));
        about(own.window, 25_000.0);
        own.mean_delay = 12e6;
        own.acknowledged(us(113), &heard(24, true));
        about(own.window, 25_000.0 * (1.0 - 0.8 * 3.0 / 12.0) + 135.0);
        // A mark below the target changes nothing.
        let before = own.window;
        own.acknowledged(us(114), &heard(13, true));
        about(own.window, before);
    }

    #[test]
    fn a_cut_packet_is_taken_off_and_a_bad_round_trip_leaves_what_came_in_it() {
        let mut own = flow();
        (own.window, own.adjusted) = (50_000.0, us(10));
        own.lost(us(10), 60_000);
        about(own.window, 49_000.0);
        // The period of 12 + 9 us began with that. Two packets come in it.
        own.acknowledged(us(20), &heard(30, true));
        own.acknowledged(us(21), &heard(30, true));
        let before = own.window;
        own.lost(us(31), 60_000);
        about(own.window, before - 1_000.0);
        own.lost(us(32), 40_000);
        about(own.window, 2_000.0);
        // What was in flight then says nothing about the new window.
        own.lost(us(33), 39_000);
        own.acknowledged(us(33), &heard(60, true));
        about(own.window, 2_000.0);
        assert_eq!((own.ignore, own.ignored), (40_000.0, 2_000.0));
        own.timed_out();
        about(own.window, 1_000.0);
    }

    #[test]
    fn a_shorter_round_trip_is_that_of_the_flow() {
        let mut own = flow();
        own.acknowledged(us(1), &heard(4, false));
        about(own.base, 4e6);
        about(own.window, 75_000.0);
    }
}
