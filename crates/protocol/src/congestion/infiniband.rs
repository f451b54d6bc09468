//! InfiniBand's congestion control (InfiniBand Architecture Specification, volume 1, annex A10): the
//! channel adapter that sends. A switch marks packets (FECN), which is its `ecn`; the target answers each
//! marked packet with a notification (BECN).
//!
//! A flow has an index into a table of delays that follow its packets. Each notification moves the index up;
//! a timer, which runs while the index is above its least, moves it down by one. The machine is that of the Linux
//! driver of Omni-Path, which took the annex over (`drivers/infiniband/hw/hfi1`, `process_becn` and
//! `cca_timer_fn`); the table and the defaults are those of its fabric manager
//! (`cornelisnetworks/opa-fm`, `build_cca_congestion_control_table`). The specification was not at hand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{PositiveCount, Span, Time};

use super::Line;
use crate::misfit::Misfit;

/// How the delays of the table grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IndexGrowth {
    /// Linearly with the index, as in the fabric manager of Omni-Path.
    #[default]
    Linear,
    /// With its square, as in a study at Lawrence Livermore (`perryh/ib-cc-tools-llnl`), which calls it the
    /// default of Mellanox: 7 us at an index of 95, 12.5 at 127.
    Quadratic,
}

/// Settings of InfiniBand's congestion control. Defaults are those of the fabric manager of Omni-Path
/// (`cornelisnetworks/opa-fm`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InfinibandSettings {
    /// By how much a notification raises the index: `CCTI_Increase`, 5.
    pub index_increase: PositiveCount,
    /// The highest index: `CCTI_Limit`, 127; at most 65535.
    pub index_limit: PositiveCount,
    /// The lowest index: `CCTI_Min`, 0.
    pub index_least: u16,
    /// The interval after which the index falls by one: `CCTI_Timer`, 10 times 1.024 us.
    pub timer: Span,
    /// The delay after a full packet at the highest index: 8 us. Entries of the table are rounded
    /// down to eighths of the duration of a packet, more coarsely if they are long: a shift of 2
    /// bits and a multiplier of 14.
    pub longest_delay: Span,
    /// How delays grow up to there.
    pub growth: IndexGrowth,
}

impl Default for InfinibandSettings {
    fn default() -> InfinibandSettings {
        InfinibandSettings {
            index_increase: super::count(5),
            index_limit: super::count(127),
            index_least: 0,
            timer: Span::from_ns(10_240),
            longest_delay: Span::from_ns(8_000),
            growth: IndexGrowth::Linear,
        }
    }
}

impl InfinibandSettings {
    pub(super) fn check(&self) -> Result<(), Misfit> {
        if self.timer == Span::ZERO {
            let key = "congestion_control.infiniband.timer";
            return Err(Misfit::new(key, self.timer, "a time above 0"));
        }
        let limit = self.index_limit.get();
        if limit > u32::from(u16::MAX) {
            let key = "congestion_control.infiniband.index_limit";
            let accepted = "1 to 65535: a table has no more entries";
            return Err(Misfit::new(key, limit, accepted));
        }
        if u32::from(self.index_least) > limit {
            let key = "congestion_control.infiniband.index_least";
            let accepted = "an index up to congestion_control.infiniband.index_limit";
            return Err(Misfit::new(key, self.index_least, accepted));
        }
        Ok(())
    }
}

/// The largest multiplier of a table: 14 bits.
const MOST_MULTIPLIER: u128 = 16_383;

/// The finest division of the span of a packet: 8 parts.
const FINEST_SHIFT: u32 = 3;

/// The sender of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Infiniband {
    /// The rate of the link, in bits per second.
    line: f64,
    /// The rate of the flow, in bits per second.
    rate: f64,
    /// The multiplier at the highest index, and what a multiplier counts: parts of the span of a packet.
    most: u64,
    parts: f64,
    index: u32,
    limit: u32,
    least: u32,
    increase: u32,
    growth: IndexGrowth,
    timer: Span,
    /// When the index falls next, while it is above the minimum.
    due: Time,
}

impl Infiniband {
    /// A flow begins at the lowest index.
    pub fn new(settings: &InfinibandSettings, line: Line, now: Time) -> Infiniband {
        let rate = line.bits_per_second();
        let of_packet = u128::from(line.packet.0.max(1)) * 8 * u128::from(line.rate.per());
        let delay = u128::from(settings.longest_delay.0) * u128::from(line.rate.bits());
        let mut shift = FINEST_SHIFT;
        while (delay << shift) / of_packet > MOST_MULTIPLIER && shift > 0 {
            shift -= 1;
        }
        let most = ((delay << shift) / of_packet).min(MOST_MULTIPLIER) as u64;
        let limit = settings.index_limit.get();
        let least = u32::from(settings.index_least).min(limit);
        let mut own = Infiniband {
            line: rate,
            rate,
            most,
            parts: f64::from(1 << shift),
            index: least,
            limit,
            least,
            increase: settings.index_increase.get(),
            growth: settings.growth,
            timer: settings.timer,
            due: now,
        };
        own.look_up();
        own
    }

    /// The rate at `now`, in bits per second.
    #[inline]
    pub fn rate(&mut self, now: Time) -> f64 {
        if self.index > self.least && self.due <= now {
            self.expire(now);
        }
        self.rate
    }

    /// A notification: the index rises, and the timer starts unless it runs.
    pub fn notified(&mut self, now: Time) {
        self.rate(now);
        if self.index == self.least {
            self.due = now + self.timer;
        }
        self.index = self.index.saturating_add(self.increase).min(self.limit);
        self.look_up();
    }

    /// The timer has expired, once or more often: it runs on until the index is at its least.
    fn expire(&mut self, now: Time) {
        let times = now.since(self.due).0 / self.timer.0 + 1;
        let above = u64::from(self.index - self.least);
        self.index -= times.min(above) as u32;
        self.due += self.timer * times;
        self.look_up();
    }

    /// The rate for the index: after each packet a delay of this many parts of its transmission
    /// time, from the table.
    fn look_up(&mut self) {
        let (index, limit) = (u64::from(self.index), u64::from(self.limit));
        let multiplier = match self.growth {
            IndexGrowth::Linear => self.most * index / limit,
            IndexGrowth::Quadratic => self.most * index * index / (limit * limit),
        };
        self.rate = self.line / (1.0 + multiplier as f64 / self.parts);
    }
}

#[cfg(test)]
mod tests {
    use weft_units::{Bytes, Rate};

    use super::*;

    /// 100 Gbit/s and 1000 bytes: a packet takes 80 ns, 8 us are a hundred of them.
    fn flow(settings: &InfinibandSettings) -> Infiniband {
        let rate = Rate::from_bits_per_second(100_000_000_000);
        let line = Line { rate, packet: Bytes(1_000), payload: Bytes(950) };
        Infiniband::new(settings, line, Time::ZERO)
    }

    fn us(us: f64) -> Time {
        Time::ZERO + Span((us * 1e6) as u64)
    }

    /// The rate with a delay of this many eighths of a packet after each packet.
    fn behind(eighths: f64) -> f64 {
        100e9 / (1.0 + eighths / 8.0)
    }

    #[test]
    fn an_index_rises_by_notifications_and_falls_by_the_timer_as_by_hand() {
        let mut own = flow(&InfinibandSettings::default());
        assert_eq!((own.most, own.parts), (800, 8.0));
        assert_eq!(own.rate(us(99.0)), 100e9);
        // 5 of 127 of 800 eighths are 31.5: 31 of them are 3.9 packets.
        own.notified(us(100.0));
        assert_eq!((own.index, own.rate(us(100.0))), (5, behind(31.0)));
        // The timer was not running: it expires 10.24 us later. A second notification does not start it anew.
        own.notified(us(105.0));
        assert_eq!((own.index, own.rate(us(110.23))), (10, behind(62.0)));
        assert_eq!(own.rate(us(110.24)), behind(56.0));
        assert_eq!(own.index, 9);
        // Two more, and a notification right after.
        assert_eq!(own.rate(us(130.72)), behind(44.0));
        own.notified(us(130.72));
        assert_eq!((own.index, own.due), (12, us(140.96)));
        // Twelve expiries later nothing is left, and the timer stands.
        assert_eq!(own.rate(us(130.72 + 10.24 * 11.0)), behind(6.0));
        assert_eq!(own.rate(us(130.72 + 10.24 * 12.0)), 100e9);
        own.notified(us(1_000.0));
        assert_eq!(own.due, us(1_010.24));
    }

    #[test]
    fn an_index_stays_between_its_least_and_its_limit() {
        let settings = InfinibandSettings { index_least: 3, ..InfinibandSettings::default() };
        let mut own = flow(&settings);
        // 3 of 127 of 800 are 18.9.
        assert_eq!(own.rate(us(0.0)), behind(18.0));
        (0..40).for_each(|_| own.notified(us(1.0)));
        assert_eq!((own.index, own.rate(us(1.0))), (127, behind(800.0)));
        // Above the least the index takes 124 expiries to come back, and does not fall below it.
        assert_eq!(own.rate(us(1.0 + 10.24 * 123.0)), behind(25.0));
        assert_eq!(own.rate(us(1.0 + 10.24 * 124.0)), behind(18.0));
        assert_eq!(own.rate(us(1e6)), behind(18.0));
    }

    /// The table of the study: 7 us at 95 are 700 eighths of 80 ns.
    #[test]
    fn a_quadratic_table_is_gentle_where_it_begins() {
        let longest_delay = Span((7e6 * (127.0_f64 / 95.0).powi(2)) as u64);
        let settings = InfinibandSettings {
            index_increase: PositiveCount::ONE,
            longest_delay,
            growth: IndexGrowth::Quadratic,
            ..InfinibandSettings::default()
        };
        let mut own = flow(&settings);
        // 12.51 us are 1251 eighths of 80 ns: 1/16129 of them is nothing, 16/16129 one.
        assert_eq!(own.most, 1_251);
        own.notified(us(0.0));
        assert_eq!(own.rate(us(0.0)), 100e9);
        (1..4).for_each(|_| own.notified(us(0.0)));
        assert_eq!(own.rate(us(0.0)), behind(1.0));
        (4..95).for_each(|_| own.notified(us(0.0)));
        // 700 less what was rounded down at the limit.
        assert_eq!((own.index, own.rate(us(0.0))), (95, behind(699.0)));
    }

    /// 14 bits hold 2047 packets in eighths; beyond that parts are quarters, halves, packets.
    #[test]
    fn long_delays_are_counted_in_coarser_parts() {
        for (ns, most, parts) in [
            (160_000, 16_000, 8.0),
            (200_000, 10_000, 4.0),
            (1_280_000, 16_000, 1.0),
            (2_000_000, 16_383, 1.0),
        ] {
            let longest_delay = Span::from_ns(ns);
            let own = flow(&InfinibandSettings { longest_delay, ..InfinibandSettings::default() });
            assert_eq!((own.most, own.parts), (most, parts), "{ns}");
        }
    }
}
