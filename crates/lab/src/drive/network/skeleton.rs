//! What every network of switches has in common: a queue of events that is worked off in order.

use weft_kernel::{Halt, Queue, Stopped};
use weft_units::Time;

use super::ends::Delivery;

/// The events of a network to come, and how far it is.
#[derive(Debug)]
pub(super) struct Agenda<E> {
    queue: Queue<E>,
    steps: u64,
    now: Time,
}

/// A channel of several switches: what its events do. How they are worked off is the same for all.
pub(super) trait Network {
    /// Something that happens at an instant.
    type Event: Copy;

    fn agenda(&mut self) -> &mut Agenda<Self::Event>;

    /// Lets an event happen; one may deliver a packet.
    fn happen(&mut self, now: Time, event: Self::Event) -> Option<Delivery>;

    /// Works events off up to and including `until`, or until `halt` stops it, showing every delivery
    /// to `watch`; to be called once.
    #[inline]
    fn work_off(
        &mut self,
        until: Time,
        halt: &Halt,
        mut watch: impl FnMut(Delivery),
    ) -> Option<Stopped> {
        while let Some((now, event)) = self.agenda().queue.pop_until(until) {
            self.agenda().now = now;
            if let Some(delivery) = self.happen(now, event) {
                watch(delivery);
            }
            let agenda = self.agenda();
            agenda.steps += 1;
            let stopped = halt.check(agenda.steps);
            if stopped.is_some() {
                return stopped;
            }
        }
        self.agenda().now = until;
        None
    }
}

impl<E: Copy> Agenda<E> {
    /// Nothing to come, at time zero.
    pub fn new() -> Agenda<E> {
        Agenda { queue: Queue::new(), steps: 0, now: Time::ZERO }
    }

    /// Schedules an event, not before the one that happens.
    #[inline]
    pub fn push(&mut self, time: Time, event: E) {
        self.queue.push(time, event);
    }

    /// How many events have happened.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// When the last event happened; at the end of a run, its end.
    pub fn now(&self) -> Time {
        self.now
    }
}
