//! A level over time, such as the number of packets in a buffer.

use weft_units::Time;

/// A whole number that keeps its value until it is set again, with its mean over time and its
/// maximum. A link that is busy or idle is a level of 1 or 0, whose mean is the utilisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    value: u64,
    since: Time,
    from: Time,
    peak: u64,
    area: u128,
}

impl Level {
    /// A level of zero whose mean and maximum are taken from `from` on (end of warm-up).
    pub fn starting(from: Time) -> Level {
        Level { since: from, from, ..Level::default() }
    }

    /// The current value.
    #[inline]
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Sets it. Calls come in the order of time.
    #[inline]
    pub fn set(&mut self, now: Time, value: u64) {
        // In the warm-up `since` lies ahead, so that this one comparison also leaves it out.
        if now >= self.since {
            self.area += u128::from(self.value) * u128::from(now.0 - self.since.0);
            self.peak = self.peak.max(self.value).max(value);
            self.since = now;
        }
        self.value = value;
    }

    /// Adds one.
    #[inline]
    pub fn raise(&mut self, now: Time) {
        self.set(now, self.value + 1);
    }

    /// Subtracts one. The value must not be zero.
    #[inline]
    pub fn lower(&mut self, now: Time) {
        debug_assert!(self.value > 0, "a level of zero was lowered at {now:?}");
        self.set(now, self.value.saturating_sub(1));
    }

    /// The largest value it had, however shortly, since the end of the warm-up.
    pub fn maximum(&self) -> u64 {
        self.peak.max(self.value)
    }

    /// The mean over time from the end of the warm-up to `until`, which is not before the last
    /// change; `None` if no time has passed.
    pub fn mean(&self, until: Time) -> Option<f64> {
        let open = u128::from(self.value) * u128::from(until.0.checked_sub(self.since.0)?);
        (until > self.from).then(|| (self.area + open) as f64 / (until.0 - self.from.0) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_steps_by_hand() {
        let mut level = Level::starting(Time(0));
        level.set(Time(10), 4);
        level.set(Time(20), 1);
        assert_eq!(level.mean(Time(40)), Some((4.0 * 10.0 + 20.0) / 40.0));
        assert_eq!(level.maximum(), 4);
    }

    #[test]
    fn what_stands_at_the_end_of_the_warm_up_counts_from_there() {
        let mut level = Level::starting(Time(100));
        level.set(Time(10), 9);
        level.set(Time(20), 2);
        assert_eq!((level.maximum(), level.mean(Time(100))), (2, None));
        level.set(Time(150), 0);
        assert_eq!((level.maximum(), level.mean(Time(200))), (2, Some(1.0)));
    }

    #[test]
    fn a_value_of_no_duration_counts_for_the_maximum_only() {
        let mut level = Level::default();
        level.raise(Time(5));
        level.raise(Time(5));
        level.lower(Time(5));
        assert_eq!((level.value(), level.maximum(), level.mean(Time(10))), (1, 2, Some(0.5)));
    }

    proptest! {
        #[test]
        fn the_mean_is_that_of_every_tick(
            steps in prop::collection::vec((0_u64..20, 0_u64..50), 1..40), from in 0_u64..100,
        ) {
            let (mut level, mut now, mut ticks) = (Level::starting(Time(from)), 0, Vec::new());
            for (gap, value) in steps {
                ticks.resize(now as usize + gap as usize, level.value());
                now += gap;
                level.set(Time(now), value);
            }
            ticks.resize((now + 10).max(from + 1) as usize, level.value());
            let counted = &ticks[from as usize..];
            let mean = counted.iter().sum::<u64>() as f64 / counted.len() as f64;
            prop_assert_eq!(level.mean(Time(ticks.len() as u64)), Some(mean));
        }
    }
}
