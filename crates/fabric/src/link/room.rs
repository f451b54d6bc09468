//! Room for packets at the far end of a link, as its near end knows it.

use std::collections::VecDeque;

use weft_units::{Span, Time};

use super::Lane;

/// Places that are free, and places that will be at a time that is known already.
#[derive(Clone, Debug)]
pub struct Room {
    free: u32,
    returns: VecDeque<Time>,
    /// Places that are free and of which the near end was not told.
    untold: u32,
    /// How many of them one control packet tells of.
    told_at_once: u32,
}

impl Room {
    /// Room whose near end is told of `told_at_once` places at a time, or of all that there are.
    pub fn of(places: u32, told_at_once: u32) -> Room {
        let told_at_once = told_at_once.min(places);
        Room { free: places, returns: VecDeque::new(), untold: 0, told_at_once }
    }

    /// A place becomes free. Returns whether the near end must be notified.
    #[inline]
    pub fn free_one(&mut self) -> bool {
        self.untold += 1;
        let is_told = self.untold == self.told_at_once;
        if is_told {
            self.untold = 0;
        }
        is_told
    }

    /// The near end is told at `time`.
    #[inline]
    pub fn tell(&mut self, time: Time) {
        (0..self.told_at_once).for_each(|_| self.give(time));
    }

    /// Takes a place, and tells from when on, not before `from`; `None` while that is not known.
    #[inline]
    pub fn take(&mut self, from: Time) -> Option<Time> {
        let known = self.returns.front().copied().filter(|time| *time <= from);
        if known.is_none() && self.free > 0 {
            self.free -= 1;
            return Some(from);
        }
        Some(self.returns.pop_front()?.max(from))
    }

    /// A place is free again at `time`; calls are in order of time.
    #[inline]
    pub fn give(&mut self, time: Time) {
        self.returns.push_back(time);
    }

    /// The near end learns what control packets in the reverse direction have reported by now, or
    /// will: those that begin by `begun`, each `notice` after its first byte.
    #[inline]
    pub fn learn(&mut self, lane: &mut Lane, begun: Time, notice: Span) {
        lane.settle(begun);
        while let Some(start) = lane.take_begun() {
            self.tell(start + notice);
        }
    }

    /// When there is a place, not before `now`; [`Time::NEVER`] while that is not known.
    #[inline]
    pub fn next(&self, now: Time) -> Time {
        if self.free > 0 {
            return now;
        }
        self.returns.front().map_or(Time::NEVER, |time| now.max(*time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_when_it_is_known_to_be_free() {
        let mut room = Room::of(1, 1);
        assert_eq!(room.take(Time(5)), Some(Time(5)));
        assert_eq!((room.take(Time(6)), room.next(Time(6))), (None, Time::NEVER));
        room.give(Time(20));
        assert_eq!(room.next(Time(6)), Time(20));
        assert_eq!(room.take(Time(6)), Some(Time(20)));
        let mut two = Room::of(2, 1);
        two.take(Time(1));
        two.give(Time(30));
        assert_eq!(two.take(Time(6)), Some(Time(6)), "the one that is free, not a later one");
        assert_eq!(two.take(Time(40)), Some(Time(40)));
    }

    #[test]
    fn places_are_told_of_together() {
        let mut room = Room::of(3, 2);
        (0..3).for_each(|time| assert_eq!(room.take(Time(time)), Some(Time(time))));
        assert_eq!((room.free_one(), room.free_one(), room.free_one()), (false, true, false));
        room.tell(Time(9));
        assert_eq!([(); 3].map(|()| room.take(Time(9))), [Some(Time(9)), Some(Time(9)), None]);
        assert!(Room::of(1, 4).free_one(), "all that there are");
    }

    /// A control packet waits for the data packet on its lane until 330, and is known of 140 later; one
    /// that is ready after the instant that is asked about is not.
    #[test]
    fn room_is_learnt_of_when_its_control_packet_is_there() {
        let (mut room, mut lane) = (Room::of(1, 1), Lane::new(Span(90)));
        room.take(Time(0));
        lane.occupy(Time(0), Span(330));
        lane.insert(Time(100));
        room.learn(&mut lane, Time(99), Span(140));
        assert_eq!(room.next(Time(99)), Time::NEVER);
        room.learn(&mut lane, Time(100), Span(140));
        assert_eq!(room.next(Time(100)), Time(470));
    }
}
