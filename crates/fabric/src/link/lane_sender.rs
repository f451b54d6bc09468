//! The sending end of a link that commits each data packet to a start time in advance, as soon as it
//! knows of room at the far end. Until a packet begins, control packets may still go before it (MEMORY
//! CHANNEL 2 Link Protocol).
//!
//! The committed time accounts for the control packets known at that moment. Later ones may still go
//! before it; this is settled when its first byte would reach the far end, since by then everything is
//! known that was ready before it began. So a packet costs one event for its cable and none for its
//! start.

use std::collections::VecDeque;

use weft_units::{Span, Time};

use super::{Lane, Room};

/// A data packet that waits for its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sendable<K> {
    /// The caller's name of it.
    pub key: K,
    /// When its adapter has it ready.
    pub ready: Time,
    /// How long it occupies the link.
    pub span: Span,
}

/// What becomes of the packet that is committed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commitment<K> {
    /// It will start, as far as is known: no earlier, and later if control packets get before it.
    Starts {
        /// The packet.
        key: K,
        /// When.
        start: Time,
    },
    /// It could begin at `earliest` and no room is known of.
    NoRoom {
        /// When it is ready and the link is free.
        earliest: Time,
        /// How long it occupies the link.
        span: Span,
    },
}

/// Data packets in order, with the lane on which they leave.
#[derive(Clone, Debug)]
pub struct LaneSender<K> {
    waiting: VecDeque<Sendable<K>>,
    /// When the link is free behind the packets that are committed.
    free: Time,
    /// Whether a packet is committed whose beginning is not settled.
    is_sending: bool,
    lane: Lane,
}

impl<K: Copy> LaneSender<K> {
    /// An end whose control packets take `control`, with nothing to send.
    pub fn new(control: Span) -> LaneSender<K> {
        LaneSender {
            waiting: VecDeque::new(),
            free: Time::ZERO,
            is_sending: false,
            lane: Lane::new(control),
        }
    }

    /// The lane with its control packets.
    #[inline]
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// The lane with its control packets.
    #[inline]
    pub fn lane_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }

    /// Appends a packet to be sent.
    #[inline]
    pub fn push(&mut self, packet: Sendable<K>) {
        self.waiting.push_back(packet);
    }

    /// How many packets are not committed to a time.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The packet that is committed to a time next. On a short cable that is one at a time: more is
    /// known when the next one can follow.
    #[inline]
    pub fn next(&self, is_long_cable: bool) -> Option<K> {
        if self.is_sending && !is_long_cable {
            None
        } else {
            self.waiting.front().map(|packet| packet.key)
        }
    }

    /// Commits the first packet to a time, if there is one and `room` at the far end is known.
    #[inline]
    pub fn commit(&mut self, room: &mut Room) -> Option<Commitment<K>> {
        let Sendable { key, ready, span } = *self.waiting.front()?;
        let earliest = ready.max(self.free);
        let Some(start) = room.take(earliest) else {
            return Some(Commitment::NoRoom { earliest, span });
        };
        let start = self.lane.likely_start(start);
        self.waiting.pop_front();
        self.free = start + span;
        self.is_sending = true;
        Some(Commitment::Starts { key, start })
    }

    /// When to look again at a packet without room that could begin at `begin`: before it can be at the
    /// far end of a cable, and before its last byte has left.
    #[inline]
    pub fn look_again(&self, begin: Time, span: Span, cable: Span) -> Time {
        self.lane.likely_start(begin) + cable.min(span)
    }

    /// Everything is known that was ready before a packet began, which was committed to `start`.
    /// Returns when it begins: later, if control packets go before it.
    #[inline]
    pub fn settle(&mut self, start: Time, span: Span) -> Time {
        self.is_sending = false;
        let begins = self.lane.start(start);
        self.lane.occupy(begins, span);
        if begins != start {
            self.free = self.free.max(begins + span);
        }
        begins
    }

    /// Takes away what is not committed, in order: it is not sent.
    pub fn take_waiting(&mut self) -> impl Iterator<Item = K> + use<K> {
        std::mem::take(&mut self.waiting).into_iter().map(|packet| packet.key)
    }

    /// The link is free from `now` on, and nothing is committed to it: it begins anew.
    pub fn restart(&mut self, now: Time) {
        self.lane.reset(now);
        (self.free, self.is_sending) = (now, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cable of 50, packets of 330, control packets of 90.
    fn sender() -> LaneSender<u32> {
        let mut sender = LaneSender::new(Span(90));
        for (key, ready) in [(1, 0), (2, 100), (3, 2_000)] {
            sender.push(Sendable { key, ready: Time(ready), span: Span(330) });
        }
        sender
    }

    fn starts(key: u32, start: u64) -> Option<Commitment<u32>> {
        Some(Commitment::Starts { key, start: Time(start) })
    }

    #[test]
    fn packets_follow_each_other_while_there_is_room() {
        let (mut sender, mut room) = (sender(), Room::of(2, 1));
        assert_eq!((sender.next(false), sender.waiting()), (Some(1), 3));
        assert_eq!(sender.commit(&mut room), starts(1, 0));
        // The next one is committed at once where many are on the cable at a time.
        assert_eq!((sender.next(false), sender.next(true)), (None, Some(2)));
        assert_eq!(sender.settle(Time(0), Span(330)), Time(0));
        assert_eq!(sender.next(false), Some(2));
        assert_eq!(sender.commit(&mut room), starts(2, 330));
        assert_eq!(sender.settle(Time(330), Span(330)), Time(330));
        let without = Commitment::NoRoom { earliest: Time(2_000), span: Span(330) };
        assert_eq!(sender.commit(&mut room), Some(without));
        room.give(Time(2_500));
        assert_eq!(sender.commit(&mut room), starts(3, 2_500));
        assert!(sender.is_empty() && sender.commit(&mut room).is_none());
    }

    /// The control packet that is ready before the second packet begins goes before it, though it is
    /// told of behind the commitment.
    #[test]
    fn a_committed_packet_gives_way_to_control_packets() {
        let (mut sender, mut room) = (sender(), Room::of(3, 1));
        sender.commit(&mut room);
        sender.settle(Time(0), Span(330));
        assert_eq!(sender.commit(&mut room), starts(2, 330));
        sender.lane_mut().insert(Time(310));
        assert_eq!(sender.settle(Time(330), Span(330)), Time(420));
        // The third is ready long after the link is free.
        assert_eq!(sender.commit(&mut room), starts(3, 2_000));
        assert_eq!(sender.lane().sent(), 1);
    }

    #[test]
    fn a_packet_without_room_is_looked_at_before_it_can_be_at_the_far_end() {
        let mut sender = sender();
        assert_eq!(sender.look_again(Time(600), Span(330), Span(50)), Time(650));
        assert_eq!(sender.look_again(Time(600), Span(330), Span(5_000)), Time(930));
        sender.lane_mut().insert(Time(560));
        assert_eq!(sender.look_again(Time(600), Span(330), Span(50)), Time(700));
    }

    #[test]
    fn an_end_that_begins_anew_has_its_link_free() {
        let (mut sender, mut room) = (sender(), Room::of(3, 1));
        sender.commit(&mut room);
        assert_eq!(sender.take_waiting().collect::<Vec<_>>(), [2, 3]);
        sender.restart(Time(40));
        sender.push(Sendable { key: 4, ready: Time(0), span: Span(330) });
        assert_eq!(sender.commit(&mut room), starts(4, 40));
    }
}
