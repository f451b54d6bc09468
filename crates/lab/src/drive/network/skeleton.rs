//! What every network of switches has in common: a queue of events that is worked off in order.

use weft_kernel::{Halt, Queue, Stopped};
use weft_units::Time;

use super::ends::{Delivery, Ends};
use crate::drive::carrier::{Carrier, Message, MessageId, Notice};

/// The events of a network to come, and how far it is.
#[derive(Debug)]
pub(super) struct Agenda<E> {
    queue: Queue<E>,
    steps: u64,
    now: Time,
}

/// A channel of several switches: what its events do. How they are worked off, and how messages go in
/// and notices come out, is the same for all.
pub(super) trait Network {
    /// Something that happens at an instant.
    type Event: Copy;
    /// What its switches note on a packet.
    type Note: Copy;

    fn agenda(&self) -> &Agenda<Self::Event>;

    fn agenda_mut(&mut self) -> &mut Agenda<Self::Event>;

    fn ends(&self) -> &Ends<Self::Note>;

    fn ends_mut(&mut self) -> &mut Ends<Self::Note>;

    /// The event at which a host hands over a packet.
    fn generate_at(host: u16) -> Self::Event;

    /// Lets an event happen; one may deliver a packet.
    fn happen(&mut self, now: Time, event: Self::Event) -> Option<Delivery>;

    /// Who waits for space that nobody makes, one sentence a line.
    fn blocked(&self) -> Vec<String> {
        Vec::new()
    }

    /// Works events off up to and including `until`, or until `halt` stops it, showing every delivery
    /// to `watch`; to be called once.
    #[inline]
    fn work_off(
        &mut self,
        until: Time,
        halt: &Halt,
        mut watch: impl FnMut(Delivery),
    ) -> Option<Stopped> {
        while let Some((now, event)) = self.agenda_mut().begin(until) {
            if let Some(delivery) = self.happen(now, event) {
                watch(delivery);
            }
            let stopped = halt.check(self.agenda().steps);
            if stopped.is_some() {
                return stopped;
            }
        }
        self.agenda_mut().now = until;
        None
    }

    /// The last byte of a message has left its initiator.
    fn sent(&mut self, now: Time, message: MessageId) {
        if let Some((feed, _)) = self.ends_mut().messages() {
            feed.messages.sent(now, message);
        }
    }
}

impl<N: Network> Carrier for N {
    fn offer(&mut self, now: Time, message: Message) {
        if let Some((feed, observations)) = self.ends_mut().messages()
            && feed.post(now, message, observations)
        {
            self.agenda_mut().push(now, N::generate_at(message.from));
        }
    }

    fn next_time(&self) -> Time {
        let next = self.ends().next_notice().or_else(|| self.agenda().queue.next_time());
        next.unwrap_or(Time::NEVER)
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        while let Some((now, event)) = self.agenda_mut().begin(now) {
            self.happen(now, event);
        }
        if let Some((feed, _)) = self.ends_mut().messages() {
            feed.messages.take_notices(notices);
        }
    }

    fn steps(&self) -> u64 {
        self.agenda().steps
    }

    fn waiting(&self) -> Vec<String> {
        self.blocked()
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

    /// The next event that is due by `until`; it counts as happened.
    #[inline]
    fn begin(&mut self, until: Time) -> Option<(Time, E)> {
        let due = self.queue.pop_until(until)?;
        self.now = due.0;
        self.steps += 1;
        Some(due)
    }

    /// When the last event happened; at the end of a run, its end.
    pub fn now(&self) -> Time {
        self.now
    }
}
