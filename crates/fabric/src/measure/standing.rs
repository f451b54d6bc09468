//! Which hosts have packets under way of which none arrives.

use serde::{Deserialize, Serialize};
use weft_units::Time;

/// For each initiator, how many of its packets are under way and since when none of them arrived. A
/// part of a network that stands still shows here while the rest moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    initiators: Vec<UnderWay>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct UnderWay {
    packets: u64,
    /// When the last one arrived, or the first one was handed over if none did since.
    since: Time,
}

impl Standing {
    /// Nothing under way yet, of so many initiators.
    pub fn among(initiators: usize) -> Standing {
        Standing { initiators: vec![UnderWay::default(); initiators] }
    }

    /// An initiator hands over a packet; one that is not among them is not watched.
    #[inline]
    pub fn hand_over(&mut self, initiator: usize, now: Time) {
        self.hand_over_all(initiator, 1, now);
    }

    /// The same of so many packets.
    #[inline]
    pub(super) fn hand_over_all(&mut self, initiator: usize, packets: u64, now: Time) {
        if let Some(own) = self.initiators.get_mut(initiator) {
            if own.packets == 0 {
                own.since = now;
            }
            own.packets += packets;
        }
    }

    /// A packet of an initiator is at its target. One that was not handed over here is not watched.
    #[inline]
    pub fn deliver(&mut self, initiator: usize, now: Time) {
        if let Some(own) = self.initiators.get_mut(initiator)
            && let Some(left) = own.packets.checked_sub(1)
        {
            own.packets = left;
            own.since = now;
        }
    }

    /// So many packets of an initiator are at their targets, the last of them since `now`.
    pub(super) fn deliver_more(&mut self, initiator: usize, packets: u64, now: Time) {
        if let Some(own) = self.initiators.get_mut(initiator)
            && let Some(left) = own.packets.checked_sub(packets)
        {
            own.packets = left;
            own.since = now;
        }
    }

    /// A packet of an initiator is given up: it does not arrive, nor is it under way.
    #[inline]
    pub fn give_up(&mut self, initiator: usize) {
        if let Some(own) = self.initiators.get_mut(initiator) {
            own.packets = own.packets.saturating_sub(1);
        }
    }

    /// How many packets are under way.
    pub fn under_way(&self) -> u64 {
        self.initiators.iter().map(|own| own.packets).sum()
    }

    /// The initiators with packets under way of which none arrived since `instant`.
    pub fn since(&self, instant: Time) -> Vec<usize> {
        let stands = |own: &UnderWay| own.packets > 0 && own.since < instant;
        let initiators = self.initiators.iter().enumerate();
        initiators.filter(|(_, own)| stands(own)).map(|(initiator, _)| initiator).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// What is handed over after all earlier packets have arrived has waited since then only.
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
}
