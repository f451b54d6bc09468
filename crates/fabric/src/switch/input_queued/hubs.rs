//! What hubs with a bus and those with a crossbar have in common: the packets on their way to them, and
//! the edge at which they next take part.

use std::collections::VecDeque;

use weft_units::{Span, Time};

/// Packets that are travelling to an input or from there to where they are decided on.
#[derive(Debug)]
pub(super) struct Arrivals {
    latency: Span,
    /// By input, in order of arrival: when each can be decided on.
    queues: Box<[VecDeque<(Time, u32)>]>,
    soonest: Time,
}

impl Arrivals {
    /// None, for this many inputs. A packet can be decided on `latency` after its first byte came.
    pub fn new(ports: usize, latency: Span) -> Arrivals {
        Arrivals { latency, queues: vec![VecDeque::new(); ports].into(), soonest: Time::NEVER }
    }

    /// The first byte of a packet will be at an input at `arrival`. Returns when it can be decided on.
    pub fn expect(&mut self, arrival: Time, packet: u32, input: u32) -> Time {
        let ready = arrival + self.latency;
        self.queues[input as usize].push_back((ready, packet));
        self.soonest = self.soonest.min(ready);
        ready
    }

    /// When the first of all can be decided on.
    pub fn soonest(&self) -> Time {
        self.soonest
    }

    /// Takes the packets that can be decided on at `now`, in order of inputs: for each its input,
    /// since when it can, and which it is.
    pub fn take(&mut self, now: Time, mut each: impl FnMut(usize, Time, u32)) {
        if self.soonest > now {
            return;
        }
        self.soonest = Time::NEVER;
        for (input, queue) in self.queues.iter_mut().enumerate() {
            while let Some(&(ready, packet)) = queue.front() {
                if ready > now {
                    self.soonest = self.soonest.min(ready);
                    break;
                }
                queue.pop_front();
                each(input, ready, packet);
            }
        }
    }
}

/// By how much longer a packet takes on the link of an input than on that of an output.
pub(super) fn lag(spans: &[Span], input: usize, output: u32) -> Span {
    Span(spans[input].0.saturating_sub(spans[output as usize].0))
}

/// The edge at which a switch next takes part, as last announced. Those that were announced before and
/// are later stay events, and the last of them is not announced twice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Announced {
    due: Time,
    later: Time,
}

impl Announced {
    /// No edge.
    pub const NONE: Announced = Announced { due: Time::NEVER, later: Time::NEVER };

    /// When the switch next takes part.
    #[cfg(test)]
    pub fn due(self) -> Time {
        self.due
    }

    /// Whether the edge at `now` is the one that was announced last, which it then no longer is.
    pub fn take(&mut self, now: Time) -> bool {
        if self.later <= now {
            self.later = Time::NEVER;
        }
        let is_due = now == self.due;
        if is_due {
            self.due = Time::NEVER;
        }
        is_due
    }

    /// The switch must take part at a time. Returns it if an event is needed for that.
    pub fn attend(&mut self, time: Time) -> Option<Time> {
        if time >= self.due {
            return None;
        }
        let has_event = time == self.later;
        if self.due != Time::NEVER {
            self.later = self.due;
        }
        self.due = time;
        (!has_event).then_some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_is_announced_once() {
        let mut own = Announced::NONE;
        assert_eq!(own.attend(Time(100)), Some(Time(100)));
        assert_eq!((own.attend(Time(100)), own.attend(Time(120))), (None, None));
        // The event at 100 remains, behind the one at 40.
        assert_eq!(own.attend(Time(40)), Some(Time(40)));
        assert!(own.take(Time(40)));
        assert_eq!(own.attend(Time(100)), None);
        assert!(own.take(Time(100)) && !own.take(Time(100)));
        assert_eq!(own.attend(Time(100)), Some(Time(100)));
    }

    /// The event at 100 comes when the switch waits for nothing, and after it there is none at 100.
    #[test]
    fn an_edge_that_has_passed_is_announced_anew() {
        let mut own = Announced::NONE;
        assert_eq!(own.attend(Time(100)), Some(Time(100)));
        assert_eq!(own.attend(Time(40)), Some(Time(40)));
        assert!(own.take(Time(40)));
        assert!(!own.take(Time(100)));
        assert_eq!(own.attend(Time(100)), Some(Time(100)));
    }
}
