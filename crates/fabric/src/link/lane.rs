//! One direction of a link: control packets go before every data packet that has not begun
//! (MEMORY CHANNEL 2 Link Protocol).

use std::collections::VecDeque;

use weft_units::{Span, Time};

/// One direction of a link, and the control packets for it.
///
/// It is queried about an instant only when everything before that instant is known, so that
/// control packets cost no event of their own. Each carries the whole state of its sender,
/// including what becomes known while it waits.
#[derive(Clone, Debug)]
pub struct Lane {
    control: Span,
    /// When what is on it, or has its place on it, is over.
    free: Time,
    /// When each control packet without a place was ready, and the first of them.
    waiting: VecDeque<Time>,
    next_ready: Time,
    /// The first byte of each one since the caller asked last.
    begun: VecDeque<Time>,
    last: Option<Time>,
    sent: u64,
}

impl Lane {
    /// A lane that is free, with control packets that take `control`.
    pub fn new(control: Span) -> Lane {
        Lane {
            control,
            free: Time::ZERO,
            waiting: VecDeque::new(),
            next_ready: Time::NEVER,
            begun: VecDeque::new(),
            last: None,
            sent: 0,
        }
    }

    /// When what has its place on it is over; in the past if nothing has.
    #[inline]
    pub fn free(&self) -> Time {
        self.free
    }

    /// How many control packets it has carried.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// There is something to tell from `ready` on.
    pub fn insert(&mut self, ready: Time) {
        let place = self.waiting.partition_point(|other| *other <= ready);
        self.waiting.insert(place, ready);
        self.next_ready = self.next_ready.min(ready);
    }

    /// When the next signal without a place is due; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_ready(&self) -> Time {
        self.next_ready
    }

    /// When the control packet for that begins at the earliest.
    #[inline]
    pub fn next_start(&self) -> Option<Time> {
        let Lane { last, free, next_ready: ready, .. } = *self;
        (ready < Time::NEVER).then(|| next_control(last, free, ready))
    }

    /// When a data packet that could begin at `earliest` begins, as far as is known now; not later
    /// than [`start`](Self::start) will say.
    #[inline]
    pub fn likely_start(&self, earliest: Time) -> Time {
        let Lane { mut free, mut last, .. } = *self;
        if self.next_ready > free.max(earliest) {
            return free.max(earliest);
        }
        for ready in &self.waiting {
            if *ready > free.max(earliest) {
                break;
            }
            let start = next_control(last, free, *ready);
            if start >= free {
                (free, last) = (start + self.control, Some(start));
            }
        }
        free.max(earliest)
    }

    /// Gives everything that is ready by `now` its place.
    #[inline]
    pub fn settle(&mut self, now: Time) {
        while self.next_ready <= now && self.place_first() {}
    }

    /// The first byte of the next control packet of which the caller was not told.
    #[inline]
    pub fn take_begun(&mut self) -> Option<Time> {
        self.begun.pop_front()
    }

    /// Sends information immediately. Returns when its control packet begins; the caller is told of
    /// no other of this kind by [`take_begun`](Self::take_begun).
    pub fn send(&mut self, now: Time) -> Time {
        self.settle(now);
        let start = next_control(self.last, self.free, now);
        if start >= self.free {
            self.occupy(start, self.control);
            self.last = Some(start);
            self.sent += 1;
        }
        start
    }

    /// When a data packet that could begin at `earliest` begins: every control packet that is ready
    /// by then goes before it.
    #[inline]
    pub fn start(&mut self, earliest: Time) -> Time {
        while self.next_ready <= self.free.max(earliest) && self.place_first() {}
        self.free.max(earliest)
    }

    /// A data packet takes the lane.
    #[inline]
    pub fn occupy(&mut self, start: Time, span: Span) {
        self.free = start + span;
    }

    /// Discards the information that waits, and what [`take_begun`](Self::take_begun) has not
    /// returned.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.next_ready = Time::NEVER;
        self.begun.clear();
        self.last = None;
    }

    /// What was on it is lost, too.
    pub fn reset(&mut self, now: Time) {
        self.forget();
        self.free = now;
    }

    /// Gives the first control packet its place. Whether there is one.
    fn place_first(&mut self) -> bool {
        let Some(ready) = self.waiting.pop_front() else { return false };
        self.next_ready = self.waiting.front().copied().unwrap_or(Time::NEVER);
        let start = next_control(self.last, self.free, ready);
        if start >= self.free {
            self.occupy(start, self.control);
            self.last = Some(start);
            self.sent += 1;
        }
        self.begun.push_back(start);
        true
    }
}

/// On a lane that is free at `free`: the control packet that waits since before `ready`, or else the
/// next one.
#[inline]
fn next_control(last: Option<Time>, free: Time, ready: Time) -> Time {
    let waiting = last.filter(|start| *start >= ready && free > *start);
    waiting.unwrap_or(free.max(ready))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_packet_goes_before_what_has_not_begun_and_after_what_has() {
        let mut lane = Lane::new(Span(90));
        lane.occupy(Time(0), Span(330));
        lane.insert(Time(100));
        // The next data packet follows the one and the control packet.
        assert_eq!(lane.start(Time(200)), Time(420));
        lane.occupy(Time(420), Span(330));
        assert_eq!((lane.take_begun(), lane.take_begun()), (Some(Time(330)), None));
        // One that is ready later than the data packet could begin waits for all of it.
        lane.insert(Time(760));
        assert_eq!(lane.start(Time(750)), Time(750));
        lane.occupy(Time(750), Span(330));
        lane.settle(Time(2_000));
        assert_eq!((lane.take_begun(), lane.free()), (Some(Time(1_080)), Time(1_170)));
        assert_eq!(lane.sent(), 2);
    }

    #[test]
    fn what_becomes_known_while_a_control_packet_waits_goes_with_it() {
        let mut lane = Lane::new(Span(90));
        lane.occupy(Time(0), Span(330));
        lane.insert(Time(200));
        lane.insert(Time(100));
        assert_eq!(lane.send(Time(300)), Time(330));
        assert_eq!((lane.take_begun(), lane.take_begun()), (Some(Time(330)), Some(Time(330))));
        assert_eq!((lane.free(), lane.sent()), (Time(420), 1));
        // It has begun: what is new takes another one.
        assert_eq!((lane.send(Time(331)), lane.free()), (Time(420), Time(510)));
    }

    /// Whatever is known and whatever follows: the predicted start is never too late, and exact if
    /// nothing else comes.
    #[test]
    fn the_likely_start_is_the_start_if_nothing_else_comes() {
        let mut lane = Lane::new(Span(90));
        lane.occupy(Time(0), Span(330));
        [200, 410, 505, 900].iter().for_each(|ready| lane.insert(Time(*ready)));
        assert_eq!(lane.next_start(), Some(Time(330)));
        for (earliest, start) in [(0, 600), (505, 600), (700, 700), (899, 899), (900, 990)] {
            let earliest = Time(earliest);
            let likely = lane.likely_start(earliest);
            assert_eq!((likely, lane.clone().start(earliest)), (Time(start), Time(start)));
            let mut later = lane.clone();
            later.insert(Time(500));
            later.insert(Time(590));
            assert!(likely <= later.start(earliest), "{earliest}");
        }
    }

    #[test]
    fn a_lane_that_begins_anew_owes_nothing() {
        let mut lane = Lane::new(Span(90));
        lane.insert(Time(10));
        lane.settle(Time(10));
        lane.insert(Time(20));
        lane.reset(Time(50));
        assert_eq!((lane.take_begun(), lane.next_ready()), (None, Time::NEVER));
        assert_eq!(lane.start(Time(0)), Time(50));
    }
}
