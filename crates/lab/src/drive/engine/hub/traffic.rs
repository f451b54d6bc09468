//! Traffic of the sources, and deliveries that are only counted.
//!
//! Both are processed when they matter, not when they happen, where nothing else depends on them: a
//! store that would wait behind another one is drawn when that one is gone, and deliveries are
//! counted in batches. What is observed of a run is the same to the picosecond.

use weft_fabric::interface::window::Through;
use weft_fabric::workload::Feedback;
use weft_kernel::{Halt, Id, Stopped};
use weft_protocol::window::Use;
use weft_units::{Limit, Time};

use super::host::{Packet, Purpose};
use super::{Delivery, Host, HubStep, State, Supply};

/// How many deliveries may join those that are not yet due before the due ones are counted; more
/// would only fill the cache with packets.
const UNCOUNTED: usize = 32;

impl HubStep<'_> {
    /// Schedules the first message of every source; a greedy one keeps as many stores posted as the
    /// adapter has buffers.
    pub(super) fn begin_sources(&mut self, send_buffers: Limit) {
        let is_fed = matches!(self.supply, Supply::Messages(_));
        self.own.counts_later = !is_fed && self.own.can_count_later();
        for (host, first) in self.supply.begin(send_buffers) {
            if first < Time::NEVER {
                self.agenda().generate(first, host as u16);
            }
        }
    }

    /// Runs until `until`, and stops between two events if it is asked to.
    pub(super) fn run_traffic(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: &mut impl FnMut(Delivery),
    ) -> Option<Stopped> {
        loop {
            // Counters are sampled at certain instants, at which they must be up to date.
            let sample = self.seen.next_sample();
            let pause = Time(sample.0.saturating_sub(1)).min(until);
            while self.step(pause) {
                self.own.notices.clear();
                let stopped = halt.check(*self.steps);
                if stopped.is_some() {
                    self.catch_up(self.own.now);
                    self.show(watch);
                    return stopped;
                }
                self.show(watch);
            }
            self.catch_up(pause);
            self.show(watch);
            if pause == until {
                return None;
            }
            self.seen.sample(sample);
        }
    }

    /// Shows what was delivered; most events deliver nothing.
    #[inline]
    fn show(&mut self, watch: &mut impl FnMut(Delivery)) {
        if !self.shown.deliveries.is_empty() {
            self.shown.deliveries.drain(..).for_each(watch);
        }
    }

    /// Counts what was generated and delivered until `until`.
    fn catch_up(&mut self, until: Time) {
        self.count_deliveries(until);
        for place in 0..self.own.parts.hosts {
            if self.own.draws_later(place)
                && !self.own.hosts[usize::from(place)].bus.has_no_stores()
            {
                while self.next_of_source(place) <= until {
                    self.draw(place);
                }
            }
        }
    }

    /// Counts the deliveries until `until` that were put off.
    pub(super) fn count_deliveries(&mut self, until: Time) {
        while self.own.uncounted.next_time() <= until
            && let Some((time, (id, host))) = self.own.uncounted.pop()
        {
            self.deliver(time, id, host);
        }
    }

    /// A program will have a packet at `time`.
    #[inline]
    pub(super) fn will_deliver(&mut self, time: Time, id: Id<Packet>, host: u16) {
        if !self.own.counts_later || !self.own.uncounted.push(time, (id, host)) {
            self.agenda().deliver(time, id, host);
        } else if self.own.uncounted.len() > self.own.count_at {
            self.count_deliveries(self.own.now);
            self.own.count_at = self.own.uncounted.len() + UNCOUNTED;
        }
    }

    fn next_of_source(&mut self, place: u16) -> Time {
        self.supply.source(place.into()).map_or(Time::NEVER, |source| source.next_time())
    }

    /// The source of a host hands over a message.
    pub(super) fn generate(&mut self, now: Time, place: u16) {
        if self.own.draws_later(place) {
            self.draw(place);
            self.serve_bus(now, place);
            return;
        }
        let Some(targets) = self.next_targets(now, place) else { return };
        let is_dead = self.own.management.as_ref().is_some_and(|own| !own.members.is_alive(place));
        let next = self.next_of_source(place);
        if next < Time::NEVER {
            self.agenda().generate(next, place);
        }
        if !is_dead {
            self.offer_write(now, place, targets);
        }
    }

    /// The last store of a host is gone to its adapter.
    #[inline]
    pub(super) fn wait_for_source(&mut self, now: Time, place: u16) {
        if !self.own.draws_later(place) {
            return;
        }
        let next = self.next_of_source(place);
        if next <= now {
            self.draw(place);
        } else if next < Time::NEVER {
            self.agenda().generate(next, place);
        }
    }

    /// Hands over the next message of a source as of its time, for a bus that is looked at later.
    fn draw(&mut self, place: u16) {
        let time = self.next_of_source(place);
        if let Some(targets) = self.next_targets(time, place) {
            let what = (Purpose::Traffic, Through::Use(Use::Store));
            self.hand_over(time, place, targets, self.own.parts.window.write, what);
        }
    }

    /// Takes a message from a source at `now`, and says whom it is for.
    #[inline]
    fn next_targets(&mut self, now: Time, place: u16) -> Option<u64> {
        let source = self.supply.source(place.into())?;
        source.ready(now);
        let target = source.take().target;
        let share = self.own.parts.window.broadcast.get();
        let is_for_all = share > 0.0 && self.own.hosts[usize::from(place)].random.chance(share);
        Some(if is_for_all {
            ((1 << self.own.parts.hosts) - 1) & !(1 << place)
        } else {
            1 << target
        })
    }
}

impl State {
    /// Whether nothing but what is observed depends on a delivery.
    fn can_count_later(&self) -> bool {
        let window = &self.parts.window;
        // What a page refuses leaves no store behind which the next one could be drawn.
        let is_plain =
            window.recoverable.is_none() && window.accesses.is_empty() && self.pages.is_none();
        let is_heard = |host: &Host| host.feedback == Feedback::Delivered;
        self.management.is_none() && is_plain && !self.hosts.iter().any(is_heard)
    }

    /// Whether the stores of a source behind the first one are drawn when they come first.
    #[inline]
    fn draws_later(&self, place: u16) -> bool {
        self.counts_later && self.hosts[usize::from(place)].feedback == Feedback::None
    }
}
