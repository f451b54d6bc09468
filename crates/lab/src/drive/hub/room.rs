//! Room for packets at the far end of a link, as its near end knows it.

use std::collections::VecDeque;

use weft_units::Time;

/// Places that are free, and places that will be at a time that is known already.
#[derive(Debug)]
pub(super) struct Room {
    free: u32,
    returns: VecDeque<Time>,
}

impl Room {
    pub fn of(places: u32) -> Room {
        Room { free: places, returns: VecDeque::new() }
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

    /// A place is free again from `time` on; calls come in order of time.
    #[inline]
    pub fn give(&mut self, time: Time) {
        self.returns.push_back(time);
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
        let mut room = Room::of(1);
        assert_eq!(room.take(Time(5)), Some(Time(5)));
        assert_eq!((room.take(Time(6)), room.next(Time(6))), (None, Time::NEVER));
        room.give(Time(20));
        assert_eq!(room.next(Time(6)), Time(20));
        assert_eq!(room.take(Time(6)), Some(Time(20)));
        let mut two = Room::of(2);
        two.take(Time(1));
        two.give(Time(30));
        assert_eq!(two.take(Time(6)), Some(Time(6)), "the one that is free, not a later one");
        assert_eq!(two.take(Time(40)), Some(Time(40)));
    }
}
