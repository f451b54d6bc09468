//! Timers of a fixed number of owners, for what each owner waits for at most once at a time.

use weft_units::Time;

/// So many times stand together, and have one in common above them.
const GROUP: usize = 4;

/// A fixed number of timers, each set to one time or to none.
///
/// They are the leaves of a tournament tree (Knuth, "The Art of Computer Programming" 3, section
/// 5.4.1) of groups of four: setting one costs a look at one group for each level whose earliest
/// time changes, and a timer that is set anew leaves nothing behind. Of equal times the lowest timer
/// goes first.
#[derive(Clone, Debug)]
pub struct Timers {
    /// Each time is that of a timer in the last groups, from `first` on, and the earliest of the
    /// group under it in all others: group 1 to 4 stand under group 0.
    groups: Vec<[u64; GROUP]>,
    first: usize,
    next: u64,
    /// The timer that was taken last, if what stands above it does not know that it has stopped.
    taken: Option<usize>,
}

impl Timers {
    /// Timers without a time.
    pub fn new(count: usize) -> Timers {
        let (mut first, mut level) = (0, 1);
        while level * GROUP < count {
            first += level;
            level *= GROUP;
        }
        Timers {
            groups: vec![[u64::MAX; GROUP]; first + level],
            first,
            next: u64::MAX,
            taken: None,
        }
    }

    /// The time of a timer; [`Time::NEVER`] if it has none.
    #[inline]
    pub fn time(&self, timer: usize) -> Time {
        Time(self.groups[self.first + timer / GROUP][timer % GROUP])
    }

    /// The earliest time of all; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        Time(self.next)
    }

    /// Sets a timer, also one that is set already; [`Time::NEVER`] stops it.
    #[inline]
    pub fn set(&mut self, timer: usize, time: Time) {
        let place = self.first + timer / GROUP;
        self.groups[place][timer % GROUP] = time.0;
        self.carry_up(place);
    }

    /// Takes the earliest timer, which stops, for [`close`](Self::close) to be called when what it
    /// was for is done. It is nearly always set again until then, which saves one of two ways up.
    #[inline]
    pub fn pop(&mut self) -> Option<usize> {
        debug_assert!(self.taken.is_none(), "the timer that was taken before is not closed");
        if self.next == u64::MAX {
            return None;
        }
        let mut place = 0;
        loop {
            let group = &mut self.groups[place];
            // Without branches, since nobody can predict which of four it is.
            let is_next = |within: usize| u32::from(group[within] == self.next) << within;
            let within = (is_next(0) | is_next(1) | is_next(2) | is_next(3)).trailing_zeros();
            let within = within as usize % GROUP;
            if place >= self.first {
                group[within] = u64::MAX;
                let timer = (place - self.first) * GROUP + within;
                self.taken = Some(timer);
                return Some(timer);
            }
            place = GROUP * place + within + 1;
        }
    }

    /// The timer that was taken last is done with: [`next_time`](Self::next_time) is right again.
    #[inline]
    pub fn close(&mut self) {
        if let Some(timer) = self.taken.take() {
            self.carry_up(self.first + timer / GROUP);
        }
    }

    /// Tells the groups above of what is the earliest in a group.
    #[inline]
    fn carry_up(&mut self, mut place: usize) {
        loop {
            let group = &self.groups[place];
            let earliest = group[0].min(group[1]).min(group[2].min(group[3]));
            if place == 0 {
                self.next = earliest;
                return;
            }
            let above = &mut self.groups[(place - 1) / GROUP][(place - 1) % GROUP];
            if *above == earliest {
                return;
            }
            *above = earliest;
            place = (place - 1) / GROUP;
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
