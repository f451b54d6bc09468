//! The global clock (MEMORY CHANNEL 2 Enhanced Software Support).
//!
//! The hub sends a pulse to all nodes at a regular interval. Each pulse interrupts the processor,
//! whose service routine notes the offset between its own clock and the time of the pulse. Since
//! the pulse takes the latency of the network, which varies, and the routine takes its time, clocks
//! agree within twice the range of the latency plus the time of the routine.

use weft_units::{Span, Time};

/// One node's idea of the cluster-wide time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalClock {
    /// Global less local time, in picoseconds.
    offset: i128,
    pulses: u64,
}

/// What the accuracy of the clock follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockBound {
    /// The shortest latency from the hub to a node.
    pub shortest: Span,
    /// The longest one.
    pub longest: Span,
    /// The longest time of the interrupt service routine.
    pub service: Span,
}

impl GlobalClock {
    /// The service routine of a pulse that the hub sent at `sent`, global time, reads the local
    /// clock.
    pub fn pulse(&mut self, sent: Time, local: Time) {
        self.offset = i128::from(sent.0) - i128::from(local.0);
        self.pulses += 1;
    }

    /// The global time at a local time; `None` before the first pulse.
    pub fn read(&self, local: Time) -> Option<Time> {
        let time = u64::try_from(i128::from(local.0) + self.offset).ok()?;
        (self.pulses > 0).then_some(Time(time))
    }
}

impl ClockBound {
    /// How far the clocks of two nodes can be apart: 2 x (longest - shortest) + service routine.
    pub fn accuracy(&self) -> Span {
        Span(2 * (self.longest.0 - self.shortest.0)) + self.service
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_clock_without_a_pulse_does_not_know() {
        let mut clock = GlobalClock::default();
        assert_eq!(clock.read(Time(5)), None);
        clock.pulse(Time(1000), Time(400));
        assert_eq!(clock.read(Time(450)), Some(Time(1050)));
        // The next one corrects what the local clock has gone wrong since.
        clock.pulse(Time(2000), Time(1500));
        assert_eq!(clock.read(Time(1500)), Some(Time(2000)));
    }

    /// The printed formula: twice the range of the latency, and the service routine.
    #[test]
    fn the_accuracy_is_twice_the_range_and_the_routine() {
        let bound = ClockBound { shortest: Span(700), longest: Span(1000), service: Span(50) };
        assert_eq!(bound.accuracy(), Span(650));
    }

    proptest! {
        /// Clocks that started at different times and run alike, pulses with any latency and any
        /// service time: two nodes never differ by more than the stated accuracy.
        #[test]
        fn clocks_agree_within_the_stated_accuracy(
            starts in any::<[u32; 2]>(),
            pulses in proptest::collection::vec((0_u64..300, 0_u64..50, 0_u8..2), 2..50),
            after in 0_u64..10_000,
        ) {
            let bound = ClockBound {
                shortest: Span(700), longest: Span(1000), service: Span(50),
            };
            let mut clocks = [GlobalClock::default(); 2];
            let mut now = 10_000_000_000;
            for (latency, service, node) in pulses {
                let node = usize::from(node);
                let local = now + 700 + latency + service - u64::from(starts[node]);
                clocks[node].pulse(Time(now), Time(local));
                now += 100_000 + after;
            }
            let read = |node: usize| clocks[node].read(Time(now - u64::from(starts[node])));
            if let (Some(one), Some(other)) = (read(0), read(1)) {
                prop_assert!(one.0.abs_diff(other.0) <= bound.accuracy().0);
            }
        }
    }
}
