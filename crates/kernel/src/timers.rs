//! Timers of a fixed number of owners, each of which has at most one pending expiry.

use weft_units::Time;

/// The size of a group of timers, or of winners of groups.
const GROUP: usize = 4;

/// A fixed number of timers, each set to one time or to none.
///
/// They are the leaves of a tournament tree (Knuth, "The Art of Computer Programming" 3, section
/// 5.4.1) of groups of four: setting one examines one group on each level whose winner changes, and
/// resetting a timer leaves nothing behind. Of equal times the lowest timer goes first.
#[derive(Clone, Debug)]
pub struct Timers {
    times: Vec<[u64; GROUP]>,
    /// The winner of each group: first of all timers, then of its four quarters, and so on down to
    /// the groups of `times`, from `first` on.
    winners: Vec<Winner>,
    first: usize,
    /// The timer that was taken last, if the groups above do not know yet that it has stopped.
    taken: Option<usize>,
}

/// The earliest timer of a group, the lowest of equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Winner {
    time: u64,
    timer: usize,
}

impl Winner {
    #[inline]
    fn or(self, other: Winner) -> Winner {
        // Without a branch, which would be unpredictable.
        let is_other = other.time < self.time;
        Winner {
            time: if is_other { other.time } else { self.time },
            timer: if is_other { other.timer } else { self.timer },
        }
    }

    #[inline]
    fn is_before(self, other: Winner) -> bool {
        (self.time, self.timer) < (other.time, other.timer)
    }

    #[inline]
    fn of([a, b, c, d]: [Winner; GROUP]) -> Winner {
        a.or(b).or(c.or(d))
    }
}

impl Timers {
    /// Timers without a time.
    pub fn new(count: usize) -> Timers {
        let (mut first, mut level) = (0, 1);
        while level * GROUP < count {
            first += level;
            level *= GROUP;
        }
        let nobody = Winner { time: u64::MAX, timer: 0 };
        Timers {
            times: vec![[u64::MAX; GROUP]; level],
            winners: vec![nobody; first + level],
            first,
            taken: None,
        }
    }

    /// The time of a timer; [`Time::NEVER`] if it has none.
    #[inline]
    pub fn time(&self, timer: usize) -> Time {
        Time(self.times[timer / GROUP][timer % GROUP])
    }

    /// The earliest time of all; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        Time(self.winners[0].time)
    }

    /// Sets a timer, also one that is set already; [`Time::NEVER`] stops it.
    #[inline]
    pub fn set(&mut self, timer: usize, time: Time) {
        let group = timer / GROUP;
        self.times[group][timer % GROUP] = time.0;
        // A timer that was taken keeps its place before any set time until it is closed: then all
        // groups above it are evaluated again.
        let own = Winner { time: time.0, timer };
        let before = self.winners[self.first + group];
        if own.is_before(before) {
            self.win(own, group);
        } else if before.timer == timer && self.taken != Some(timer) {
            self.carry_up(group);
        }
    }

    /// Takes the earliest timer, which stops. The caller must [`close`](Self::close) it when it has
    /// been served. The timer is nearly always set again until then, which saves one of two walks
    /// up the tree.
    #[inline]
    pub fn pop(&mut self) -> Option<usize> {
        debug_assert!(self.taken.is_none(), "the timer that was taken before is not closed");
        let Winner { time, timer } = self.winners[0];
        if time == u64::MAX {
            return None;
        }
        self.times[timer / GROUP][timer % GROUP] = u64::MAX;
        self.taken = Some(timer);
        Some(timer)
    }

    /// The timer that was taken last is done with: [`next_time`](Self::next_time) is right again.
    #[inline]
    pub fn close(&mut self) {
        if let Some(timer) = self.taken.take() {
            self.carry_up(timer / GROUP);
        }
    }

    /// A timer goes before all others of its group, and of the groups above as far as that holds.
    #[inline]
    fn win(&mut self, own: Winner, group: usize) {
        let mut place = self.first + group;
        loop {
            self.winners[place] = own;
            if place == 0 {
                return;
            }
            place = (place - 1) / GROUP;
            if !own.is_before(self.winners[place]) {
                return;
            }
        }
    }

    /// Tells the groups above of who wins a group of timers.
    #[inline]
    fn carry_up(&mut self, group: usize) {
        let times = &self.times[group];
        let own = |within: usize| Winner { time: times[within], timer: group * GROUP + within };
        let mut winner = Winner::of([own(0), own(1), own(2), own(3)]);
        let mut place = self.first + group;
        loop {
            let before = std::mem::replace(&mut self.winners[place], winner);
            if place == 0 || before == winner {
                return;
            }
            place = (place - 1) / GROUP;
            let under = GROUP * place + 1;
            let Some(&[a, b, c, d]) = self.winners[under..].first_chunk() else { return };
            winner = Winner::of([a, b, c, d]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(timers: &mut Timers) -> Option<usize> {
        let timer = timers.pop();
        timers.close();
        timer
    }

    #[test]
    fn the_earliest_goes_first_and_the_lowest_of_equals() {
        let mut timers = Timers::new(5);
        assert_eq!((timers.next_time(), timers.pop()), (Time::NEVER, None));
        for (timer, time) in [(4, 30), (1, 30), (3, 10), (0, 40)] {
            timers.set(timer, Time(time));
        }
        assert_eq!((timers.next_time(), timers.time(1)), (Time(10), Time(30)));
        let order: Vec<usize> = std::iter::from_fn(|| next(&mut timers)).collect();
        assert_eq!(order, [3, 1, 4, 0]);
        assert_eq!((timers.next_time(), timers.time(3)), (Time::NEVER, Time::NEVER));
    }

    #[test]
    fn a_timer_that_is_set_anew_or_stopped_leaves_nothing_behind() {
        let mut timers = Timers::new(1);
        timers.set(0, Time(10));
        timers.set(0, Time(20));
        assert_eq!(timers.next_time(), Time(20));
        assert_eq!((next(&mut timers), next(&mut timers)), (Some(0), None));
        timers.set(0, Time(10));
        timers.set(0, Time::NEVER);
        assert_eq!((timers.next_time(), timers.pop()), (Time::NEVER, None));
    }

    #[test]
    fn what_is_set_before_the_one_that_was_taken_is_closed_counts() {
        let mut timers = Timers::new(16);
        for (timer, time) in [(5, 10), (6, 20), (14, 30)] {
            timers.set(timer, Time(time));
        }
        assert_eq!(timers.pop(), Some(5));
        timers.set(7, Time(15));
        timers.set(5, Time(40));
        timers.close();
        let order: Vec<usize> = std::iter::from_fn(|| next(&mut timers)).collect();
        assert_eq!(order, [7, 6, 14, 5]);
    }

    /// Against the earliest of a plain list.
    #[test]
    fn any_sequence_of_settings_keeps_the_order() {
        let mut random = crate::Streams::new(1).stream("timers", 0);
        for count in [1, 2, 3, 7, 64, 100] {
            let (mut timers, mut plain) = (Timers::new(count), vec![u64::MAX; count]);
            for _ in 0..2_000 {
                let timer = random.below(count as u64) as usize;
                let time = [random.below(50), u64::MAX][usize::from(random.chance(0.2))];
                timers.set(timer, Time(time));
                plain[timer] = time;
                if random.chance(0.5) {
                    let least = *plain.iter().min().unwrap();
                    assert_eq!(timers.next_time(), Time(least));
                    let first = plain.iter().position(|time| *time == least).unwrap();
                    let expected = (least < u64::MAX).then_some(first);
                    assert_eq!(timers.pop(), expected);
                    plain[first] = u64::MAX;
                    for _ in 0..random.below(3) {
                        let (timer, time) = (random.below(count as u64) as usize, random.below(50));
                        timers.set(timer, Time(time));
                        plain[timer] = time;
                    }
                    timers.close();
                }
            }
        }
    }
}
