//! What the sources of hosts hand over, and what is only counted when it is delivered.
//!
//! Both are looked at when they matter, not when they happen, wherever nothing else hangs on them: a
//! store that would stand behind another one is drawn when that one is gone, and deliveries are
//! counted together. What is observed of a run is the same to the picosecond.

use weft_fabric::interface::window::Through;
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Halt, Id, Stopped};
use weft_protocol::window::Use;
use weft_units::Time;

use super::HubChannel;
use super::host::{Packet, Purpose};

/// So many deliveries more may wait to be counted; others would only fill the cache with packets.
const UNCOUNTED: usize = 32;

impl HubChannel {
    /// Schedules the first message of every source.
    fn start(&mut self) {
        if self.started {
            return;
        }
        self.started = true;
        self.counts_later = self.can_count_later();
        let posted = self.parts.send_buffers.count().map_or(1, |count| count.get());
        for host in 0..self.parts.hosts {
            let state = &self.hosts[usize::from(host)];
            let Some(source) = &state.source else { continue };
            let first = source.next_time();
            if first < Time::NEVER {
                // A greedy source keeps as many stores posted as the adapter has buffers.
                let count = if state.feedback == Feedback::Ready { posted } else { 1 };
                (0..count).for_each(|_| self.agenda.generate(first, host));
            }
        }
    }

    /// Whether nothing but what is observed depends on a delivery.
    fn can_count_later(&self) -> bool {
        let window = &self.parts.window;
        // What a page refuses leaves no store behind which the next one could be drawn.
        let is_plain =
            window.recoverable.is_none() && window.accesses.is_empty() && self.pages.is_none();
        let is_heard = |host: &super::Host| host.feedback == Feedback::Delivered;
        self.management.is_none() && is_plain && !self.hosts.iter().any(is_heard)
    }

    /// Runs until `until`, and stops between two events if it is asked to.
    pub(super) fn run_traffic(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        self.start();
        loop {
            // Counters are noted at certain instants, where they have to be what they are then.
            let sample = self.observations.next_sample();
            let pause = Time(sample.0.saturating_sub(1)).min(until);
            while self.step(pause) {
                self.notices.clear();
                let stopped = halt.check(self.steps);
                if stopped.is_some() {
                    self.catch_up(self.now);
                    return stopped;
                }
            }
            self.catch_up(pause);
            if pause == until {
                return None;
            }
            self.observations.sample(sample);
        }
    }

    /// Counts what was generated and delivered until `until`.
    fn catch_up(&mut self, until: Time) {
        self.count_deliveries(until);
        for place in 0..self.parts.hosts {
            if self.draws_later(place) && !self.hosts[usize::from(place)].bus.has_no_stores() {
                while self.next_of_source(place) <= until {
                    self.draw(place);
                }
            }
        }
    }

    /// Counts the deliveries until `until` that were put off.
    pub(super) fn count_deliveries(&mut self, until: Time) {
        while self.uncounted.next_time() <= until
            && let Some((time, (id, host))) = self.uncounted.pop()
        {
            self.deliver(time, id, host);
        }
    }

    /// A program will have a packet at `time`.
    #[inline]
    pub(super) fn will_deliver(&mut self, time: Time, id: Id<Packet>, host: u16) {
        if !self.counts_later || !self.uncounted.push(time, (id, host)) {
            self.agenda.deliver(time, id, host);
        } else if self.uncounted.len() > self.count_at {
            self.count_deliveries(self.now);
            self.count_at = self.uncounted.len() + UNCOUNTED;
        }
    }

    /// Whether the stores of a source behind the first one are drawn when they come first.
    #[inline]
    fn draws_later(&self, place: u16) -> bool {
        self.counts_later && self.hosts[usize::from(place)].feedback == Feedback::None
    }

    fn next_of_source(&self, place: u16) -> Time {
        self.hosts[usize::from(place)].source.as_ref().map_or(Time::NEVER, Source::next_time)
    }

    /// The source of a host hands over a message.
    pub(super) fn generate(&mut self, now: Time, place: u16) {
        if self.draws_later(place) {
            self.draw(place);
            self.serve_bus(now, place);
            return;
        }
        let Some(targets) = self.next_targets(now, place) else { return };
        let is_dead = self.management.as_ref().is_some_and(|own| !own.members.is_alive(place));
        let next = self.next_of_source(place);
        if next < Time::NEVER {
            self.agenda.generate(next, place);
        }
        if !is_dead {
            self.offer_write(now, place, targets);
        }
    }

    /// The last store of a host is gone to its adapter.
    #[inline]
    pub(super) fn wait_for_source(&mut self, now: Time, place: u16) {
        if !self.draws_later(place) {
            return;
        }
        let next = self.next_of_source(place);
        if next <= now {
            self.draw(place);
        } else if next < Time::NEVER {
            self.agenda.generate(next, place);
        }
    }

    /// Hands over the next message of a source as of its time, for a bus that is looked at later.
    fn draw(&mut self, place: u16) {
        let time = self.next_of_source(place);
        if let Some(targets) = self.next_targets(time, place) {
            let what = (Purpose::Traffic, Through::Use(Use::Store));
            self.hand_over(time, place, targets, self.parts.window.write, what);
        }
    }

    /// Takes a message from a source at `now`, and says whom it is for.
    #[inline]
    fn next_targets(&mut self, now: Time, place: u16) -> Option<u64> {
        let state = &mut self.hosts[usize::from(place)];
        let source = state.source.as_mut()?;
        source.ready(now);
        let target = source.take().target;
        let share = self.parts.window.broadcast.get();
        let is_for_all = share > 0.0 && state.random.chance(share);
        Some(if is_for_all { ((1 << self.parts.hosts) - 1) & !(1 << place) } else { 1 << target })
    }
}
