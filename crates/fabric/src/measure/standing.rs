//! Finds stalled hosts: those with packets in flight, none of which has arrived for some time.

use serde::{Deserialize, Serialize};
use weft_kernel::prefetch;
use weft_units::Time;

/// For each initiator, how many of its packets are in flight and since when none of them arrived.
/// This finds a part of a network that is stalled while the rest makes progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    initiators: Vec<UnderWay>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct UnderWay {
    packets: u64,
    /// When the last one arrived, or the first one was submitted if none has arrived since.
    since: Time,
}

impl Standing {
    /// Nothing in flight yet, for this many initiators.
    pub fn among(initiators: usize) -> Standing {
        Standing { initiators: vec![UnderWay::default(); initiators] }
    }

    /// An initiator submits a packet; one that is not among the watched initiators is ignored.
    #[inline]
    pub fn hand_over(&mut self, initiator: usize, now: Time) {
        self.hand_over_all(initiator, 1, now);
    }

    /// An initiator submits this many packets together; ignored unless the initiator is watched.
    #[inline]
    pub(super) fn hand_over_all(&mut self, initiator: usize, packets: u64, now: Time) {
        if let Some(own) = self.initiators.get_mut(initiator) {
            // If the caller counts later than things happen, a later delivery may have been
            // recorded already.
            if own.packets == 0 {
                own.since = own.since.max(now);
            }
            own.packets += packets;
        }
    }

    /// Prefetches the record of an initiator.
    #[inline]
    pub(super) fn prefetch(&self, initiator: usize) {
        prefetch(&self.initiators, initiator);
    }

    /// A packet of an initiator has reached its target. A packet that was not submitted here is not
    /// watched.
    #[inline]
    pub fn deliver(&mut self, initiator: usize, now: Time) {
        if let Some(own) = self.initiators.get_mut(initiator)
            && let Some(left) = own.packets.checked_sub(1)
        {
            own.packets = left;
            own.since = now;
        }
    }

    /// This many packets of an initiator are at their targets, the last of them since `now`.
    pub(super) fn deliver_more(&mut self, initiator: usize, packets: u64, now: Time) {
        if let Some(own) = self.initiators.get_mut(initiator)
            && let Some(left) = own.packets.checked_sub(packets)
        {
            own.packets = left;
            own.since = now;
        }
    }

    /// A packet of an initiator is given up: it does not arrive and is not in flight.
    #[inline]
    pub fn give_up(&mut self, initiator: usize) {
        if let Some(own) = self.initiators.get_mut(initiator) {
            own.packets = own.packets.saturating_sub(1);
        }
    }

    /// Like [`deliver`](Self::deliver), for callers that report the deliveries of a period before the
    /// submissions of that period, each in the order of time or of several initiators in any order.
    #[inline]
    pub fn deliver_first(&mut self, initiator: usize, now: Time) {
        if let Some(own) = self.initiators.get_mut(initiator) {
            // Wraps below zero until the delivered packets have been submitted.
            own.packets = own.packets.wrapping_sub(1);
            own.since = own.since.max(now);
        }
    }

    /// [`hand_over`](Self::hand_over) after [`deliver_first`](Self::deliver_first) of all that is delivered in
    /// the same time.
    #[inline]
    pub fn hand_over_last(&mut self, initiator: usize, packets: u32, now: Time) {
        if let Some(own) = self.initiators.get_mut(initiator) {
            // Deliveries of the same time were counted first, so that the count may be too low: it
            // really was zero only if nothing arrived later.
            if own.packets == 0 && now >= own.since {
                own.since = now;
            }
            own.packets = own.packets.wrapping_add(packets.into());
        }
    }

    /// How many packets are in flight.
    pub fn under_way(&self) -> u64 {
        self.initiators.iter().map(|own| own.packets).sum()
    }

    /// The initiators with packets in flight, none of which has arrived since `instant`.
    pub fn since(&self, instant: Time) -> Vec<usize> {
        let stands = |own: &UnderWay| own.packets > 0 && own.since < instant;
        let initiators = self.initiators.iter().enumerate();
        initiators.filter(|(_, own)| stands(own)).map(|(initiator, _)| initiator).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_gets_nothing_through_stands() {
        let mut standing = Standing::among(3);
        for initiator in 0..3 {
            standing.hand_over(initiator, Time(10));
            standing.hand_over(initiator, Time(20));
        }
        standing.deliver(0, Time(30));
        (0..2).for_each(|_| standing.deliver(1, Time(15)));
        assert_eq!(standing.under_way(), 3);
        assert_eq!(standing.since(Time(11)), [2]);
        assert!(standing.since(Time(10)).is_empty());
        assert_eq!(standing.since(Time(31)), [0, 2]);
    }

    /// A packet that is submitted after all earlier packets have arrived has waited only since
    /// then.
    #[test]
    fn a_pause_is_no_standstill() {
        let mut standing = Standing::among(1);
        standing.hand_over(0, Time(10));
        standing.deliver(0, Time(20));
        standing.hand_over(0, Time(90));
        assert!(standing.since(Time(50)).is_empty());
        standing.hand_over(5, Time(90));
        assert_eq!(standing.under_way(), 1);
    }

    #[test]
    fn what_is_given_up_neither_arrives_nor_is_under_way() {
        let mut standing = Standing::among(1);
        standing.hand_over(0, Time(10));
        standing.hand_over(0, Time(20));
        standing.give_up(0);
        assert_eq!((standing.under_way(), standing.since(Time(11))), (1, vec![0]));
        standing.give_up(0);
        assert_eq!((standing.under_way(), standing.since(Time(99))), (0, vec![]));
    }

    proptest! {
        /// Within a window, to report deliveries first, the last of them first, and then submissions has the
        /// same result as to report both in order.
        #[test]
        fn windows_may_be_told_in_the_order_of_what_happened(
            steps in prop::collection::vec((0_u64..3, any::<bool>(), 0_usize..3), 0..60),
            windows in prop::collection::vec(1_u64..20, 1..40),
        ) {
            let (mut usual, mut told) = (Standing::among(3), Standing::among(3));
            let mut held = [0; 3];
            let mut now = 0;
            let mut steps: Vec<(Time, bool, usize)> = steps
                .into_iter()
                .map(|(gap, hands_over, host)| {
                    now += gap;
                    (Time(now), hands_over, host)
                })
                .collect();
            // At one instant what arrives comes first; nothing arrives that was not handed over before.
            steps.sort_by_key(|(time, hands_over, _)| (*time, *hands_over));
            steps.retain(|(_, hands_over, host)| {
                held[*host] += if *hands_over { 1 } else { -1 };
                let is_possible = held[*host] >= 0;
                held[*host] = held[*host].max(0);
                is_possible
            });
            let mut ends = windows.into_iter().scan(0, |end, width| {
                *end += width;
                Some(Time(*end))
            });
            let mut rest = &steps[..];
            while !rest.is_empty() {
                let end = ends.next().unwrap_or(Time::NEVER);
                let (window, later) = rest.split_at(rest.partition_point(|step| step.0 < end));
                for (time, hands_over, host) in window {
                    match hands_over {
                        true => usual.hand_over(*host, *time),
                        false => usual.deliver(*host, *time),
                    }
                }
                let arrivals = window.iter().rev().filter(|step| !step.1);
                arrivals.for_each(|(time, _, host)| told.deliver_first(*host, *time));
                let handed = window.iter().filter(|step| step.1);
                handed.for_each(|(time, _, host)| told.hand_over_last(*host, 1, *time));
                prop_assert_eq!(&usual, &told);
                rest = later;
            }
        }
    }
}
