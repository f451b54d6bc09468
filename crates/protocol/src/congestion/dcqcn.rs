//! DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015,
//! section 3.1): the reaction point. The congestion point is a switch that marks; the notification
//! point, a target that answers marked packets with at most one notification in an interval, is
//! [`Notifier`](crate::transport::Notifier).
//!
//! The published simulator of the authors (`bobzhuyb/ns3-rdma`) differs from this: there alpha begins at
//! one half and is updated before it cuts the rate, rounds of increase begin one expiry earlier, and
//! hyper increase halves its intervals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, PositiveCount, Rate, Span, Time};

use super::{Line, Share};
use crate::misfit::Misfit;

/// Settings of DCQCN for links of 40 Gbit/s. Defaults were compared with the ns-3 simulator of its
/// authors (`bobzhuyb/ns3-rdma`, `mix/config.txt` and `qbb-net-device.cc`), except
/// `increase_interval` and `increase_bytes`, which are those of the paper as HPCC's authors and
/// others quote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DcqcnSettings {
    /// The least time between two notifications of one flow: N, 50 us.
    pub notification_interval: Span,
    /// After this time without a notification alpha decays: K, 55 us, longer than
    /// `notification_interval`.
    pub alpha_interval: Span,
    /// The gain of alpha: g, 1/256.
    pub gain: Share,
    /// The interval after which the rate is raised: T, 55 us.
    pub increase_interval: Span,
    /// The number of bytes after which the rate is raised: B, 10 MB.
    pub increase_bytes: Bytes,
    /// The number of rounds of fast recovery: F, 5.
    pub fast_recovery: PositiveCount,
    /// By how much the target rate grows in additive increase, `R_AI`: 40 Mbit/s.
    pub additive_increase: Rate,
    /// By how much it grows in a round of hyper increase, multiplied by the rounds so far: `R_HAI`.
    /// 200 Mbit/s, five times `additive_increase`, as in the authors' configuration.
    pub hyper_increase: Rate,
    /// The lowest rate: 100 Mbit/s, as in the authors' simulator.
    pub least_rate: Rate,
}

impl Default for DcqcnSettings {
    fn default() -> DcqcnSettings {
        DcqcnSettings {
            notification_interval: Span::from_ns(50_000),
            alpha_interval: Span::from_ns(55_000),
            gain: Share::one_in(256),
            increase_interval: Span::from_ns(55_000),
            increase_bytes: Bytes(10_000_000),
            fast_recovery: super::count(5),
            additive_increase: Rate::from_bits_per_second(40_000_000),
            hyper_increase: Rate::from_bits_per_second(200_000_000),
            least_rate: Rate::from_bits_per_second(100_000_000),
        }
    }
}

impl DcqcnSettings {
    pub(super) fn check(&self) -> Result<(), Misfit> {
        let spans = [
            ("congestion_control.dcqcn.alpha_interval", self.alpha_interval),
            ("congestion_control.dcqcn.increase_interval", self.increase_interval),
        ];
        for (key, span) in spans {
            if span == Span::ZERO {
                return Err(Misfit::new(key, span, "a time above 0"));
            }
        }
        if self.increase_bytes == Bytes(0) {
            let key = "congestion_control.dcqcn.increase_bytes";
            return Err(Misfit::new(key, self.increase_bytes, "a size above 0"));
        }
        Ok(())
    }
}

/// The sender of one flow. Rates are in bits per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Dcqcn {
    line: f64,
    least: f64,
    /// `R_C`.
    current: f64,
    /// `R_T`.
    target: f64,
    alpha: f64,
    gain: f64,
    /// When alpha decays next.
    alpha_due: Time,
    /// When the timer raises the rate next.
    increase_due: Time,
    /// After how many bytes more the byte counter raises it.
    bytes_left: u64,
    /// How often each has expired since the last notification.
    by_time: u32,
    by_bytes: u32,
    /// Before the first notification a flow is sent at the rate of the link, and no timer runs.
    was_notified: bool,
    additive: f64,
    hyper: f64,
    fast_recovery: u32,
    alpha_interval: Span,
    increase_interval: Span,
    increase_bytes: u64,
}

impl Dcqcn {
    /// A flow begins at the rate of the link, with alpha 1.
    pub fn new(settings: &DcqcnSettings, line: Line, now: Time) -> Dcqcn {
        let bits = |rate: Rate| Line { rate, ..line }.bits_per_second();
        let own = line.bits_per_second();
        Dcqcn {
            line: own,
            least: bits(settings.least_rate).min(own),
            current: own,
            target: own,
            alpha: 1.0,
            gain: settings.gain.get(),
            alpha_due: now + settings.alpha_interval,
            increase_due: now + settings.increase_interval,
            bytes_left: settings.increase_bytes.0,
            by_time: 0,
            by_bytes: 0,
            was_notified: false,
            additive: bits(settings.additive_increase),
            hyper: bits(settings.hyper_increase),
            fast_recovery: settings.fast_recovery.get(),
            alpha_interval: settings.alpha_interval,
            increase_interval: settings.increase_interval,
            increase_bytes: settings.increase_bytes.0,
        }
    }

    /// The rate at `now`.
    #[inline]
    pub fn rate(&mut self, now: Time) -> f64 {
        self.advance(now);
        self.current
    }

    /// This many bytes of the flow start.
    #[inline]
    pub fn sent(&mut self, now: Time, bytes: u64) {
        if !self.was_notified {
            return;
        }
        self.advance(now);
        let mut bytes = bytes;
        while bytes >= self.bytes_left {
            bytes -= self.bytes_left;
            self.bytes_left = self.increase_bytes;
            self.by_bytes = self.by_bytes.saturating_add(1);
            self.increase();
        }
        self.bytes_left -= bytes;
    }

    /// A notification: equation 1.
    pub fn notified(&mut self, now: Time) {
        self.advance(now);
        self.was_notified = true;
        self.target = self.current;
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(self.least);
        self.alpha = (1.0 - self.gain) * self.alpha + self.gain;
        self.alpha_due = now + self.alpha_interval;
        self.increase_due = now + self.increase_interval;
        self.bytes_left = self.increase_bytes;
        self.by_time = 0;
        self.by_bytes = 0;
    }

    /// Applies the timers up to `now`. They do not depend on each other: alpha determines by how
    /// much the next notification lowers the rate.
    #[inline]
    fn advance(&mut self, now: Time) {
        if self.was_notified && (now >= self.alpha_due || now >= self.increase_due) {
            self.expire(now);
        }
    }

    fn expire(&mut self, now: Time) {
        while self.alpha_due <= now && self.alpha > 0.0 {
            // Equation 2.
            self.alpha *= 1.0 - self.gain;
            self.alpha_due += self.alpha_interval;
            if self.alpha < f64::MIN_POSITIVE {
                self.alpha = 0.0;
            }
        }
        while self.increase_due <= now {
            self.increase_due += self.increase_interval;
            self.by_time = self.by_time.saturating_add(1);
            self.increase();
            if self.current >= self.line {
                self.skip_to(now);
            }
        }
    }

    /// At the rate of the link a timer changes nothing but its own count.
    fn skip_to(&mut self, now: Time) {
        if self.increase_due <= now {
            let times = now.since(self.increase_due).0 / self.increase_interval.0 + 1;
            self.by_time = self.by_time.saturating_add(u32::try_from(times).unwrap_or(u32::MAX));
            self.increase_due += self.increase_interval * times;
        }
    }

    /// One round of increase: equations 3 and 4 and hyper increase (figure 7). A target rate above
    /// that of the link is that of the link.
    fn increase(&mut self) {
        let (most, least) = (self.by_time.max(self.by_bytes), self.by_time.min(self.by_bytes));
        if least > self.fast_recovery {
            self.target += self.hyper * f64::from(least - self.fast_recovery);
        } else if most > self.fast_recovery {
            self.target += self.additive;
        }
        self.target = self.target.min(self.line);
        self.current = f64::midpoint(self.current, self.target);
        // Halves of halves never get there.
        if self.line - self.current < self.line * NEGLIGIBLE {
            self.current = self.line;
        }
    }
}

/// A share of the rate of the link by which nothing is paced differently: less than a picosecond in
/// a packet.
const NEGLIGIBLE: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    const GBIT: f64 = 1e9;

    fn flow(settings: &DcqcnSettings) -> Dcqcn {
        let rate = Rate::from_bits_per_second(40_000_000_000);
        Dcqcn::new(settings, Line { rate, packet: Bytes(1_000), payload: Bytes(950) }, Time::ZERO)
    }

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_ns(us * 1_000)
    }

    fn about(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-12, "{value} is not {expected}");
    }

    #[test]
    fn a_flow_goes_through_its_states_as_by_hand() {
        let mut own = flow(&DcqcnSettings::default());
        about(own.rate(us(1_000)), 40.0 * GBIT);
        // Alpha is 1 yet: no timer runs before the first notification, which halves the rate.
        own.notified(us(1_000));
        about(own.current, 20.0 * GBIT);
        about(own.target, 40.0 * GBIT);
        about(own.alpha, 1.0);
        // Five rounds of fast recovery, each half of the way back: 30, 35, 37.5, 38.75, 39.375.
        about(own.rate(us(1_054)), 20.0 * GBIT);
        about(own.rate(us(1_055)), 30.0 * GBIT);
        about(own.alpha, 255.0 / 256.0);
        about(own.rate(us(1_110)), 35.0 * GBIT);
        // A second notification, with alpha after two decays.
        let alpha = (255.0_f64 / 256.0).powi(2);
        own.notified(us(1_120));
        about(own.target, 35.0 * GBIT);
        about(own.current, 35.0 * GBIT * (1.0 - alpha / 2.0));
        about(own.alpha, 255.0 / 256.0 * alpha + 1.0 / 256.0);
        // The timers began anew: the next round is 55 us later.
        let low = own.current;
        about(own.rate(us(1_174)), low);
        let mut expected = low;
        for round in 1..=5 {
            expected = f64::midpoint(expected, 35.0 * GBIT);
            about(own.rate(us(1_120 + 55 * round)), expected);
            about(own.target, 35.0 * GBIT);
        }
        // The sixth is additive increase: 40 Mbit/s more, and half of the way there.
        expected = f64::midpoint(expected, 35.04 * GBIT);
        about(own.rate(us(1_120 + 55 * 6)), expected);
        about(own.target, 35.04 * GBIT);
    }

    #[test]
    fn bytes_raise_the_rate_as_time_does_and_both_together_hyper() {
        let settings = DcqcnSettings { fast_recovery: PositiveCount::ONE, ..Default::default() };
        let mut own = flow(&settings);
        own.notified(us(10));
        about(own.current, 20.0 * GBIT);
        own.sent(us(11), 9_999_999);
        about(own.rate(us(11)), 20.0 * GBIT);
        own.sent(us(11), 1);
        about(own.current, 30.0 * GBIT);
        assert_eq!((own.by_bytes, own.by_time, own.bytes_left), (1, 0, 10_000_000));
        // A second notification, so that the rate is below its target: 30 Gbit/s.
        own.notified(us(12));
        own.sent(us(13), 20_000_000);
        // One round of fast recovery, one of additive increase.
        about(own.target, 30.04 * GBIT);
        assert_eq!((own.by_bytes, own.by_time), (2, 0));
        // One of the timer: the larger count is above F, the smaller not.
        own.rate(us(12 + 55));
        about(own.target, 30.08 * GBIT);
        // Two of the timer: both are above F, by one.
        own.rate(us(12 + 110));
        about(own.target, 30.28 * GBIT);
        own.sent(us(12 + 110), 10_000_000);
        about(own.target, 30.48 * GBIT);
        // Three and three: by two.
        own.rate(us(12 + 165));
        about(own.target, 30.88 * GBIT);
    }

    #[test]
    fn a_flow_comes_back_to_the_rate_of_the_link_and_stays_there() {
        let mut own = flow(&DcqcnSettings::default());
        own.notified(us(0));
        about(own.rate(us(1_000_000)), 40.0 * GBIT);
        assert_eq!(own.rate(us(1_000_000)), own.line, "exactly");
        assert!(own.increase_due > us(1_000_000) && own.increase_due <= us(1_000_055));
        let alpha = own.alpha;
        assert!(alpha < 1e-20, "18181 decays leave nothing: {alpha}");
        own.notified(us(1_000_001));
        about(own.rate(us(1_000_001)), 40.0 * GBIT);
    }

    #[test]
    fn no_rate_is_below_the_least() {
        let mut own = flow(&DcqcnSettings::default());
        (0..200).for_each(|round| own.notified(us(round)));
        about(own.current, 0.1 * GBIT);
    }
}
