//! What happens next: the events of a channel, each kind where it costs least.
//!
//! What a host waits for once at a time has a timer; what comes a constant span after a decision of
//! the hub or after a transfer on a bus stands in a delay line; the queue has the rest. Of equal
//! times the queue goes first, then deliveries, arrivals and timers, those of the lowest host first.

use std::collections::VecDeque;

use weft_kernel::{DelayLine, Id, Queue, Timers};
use weft_units::Time;

use super::Event;
use super::host::Packet;

/// The timers of a host, in the order in which they go at equal times.
const GENERATE: usize = 0;
const BUS: usize = 1;
const REACH: usize = 2;
const LINK: usize = 3;
const TIMERS: usize = 4;

/// The events of a channel.
#[derive(Debug)]
pub(super) struct Agenda {
    queue: Queue<Event>,
    queue_next: Time,
    arrivals: DelayLine<(Id<Packet>, u16)>,
    deliveries: DelayLine<(Id<Packet>, u16)>,
    timers: Timers,
    cables: Vec<Cable>,
}

/// What is on the first cable of a host: the packet that its timer is for, and those behind it.
#[derive(Clone, Debug, Default)]
struct Cable {
    first: Option<Id<Packet>>,
    others: VecDeque<(Time, Id<Packet>)>,
}

impl Agenda {
    pub fn new(hosts: usize) -> Agenda {
        Agenda {
            queue: Queue::new(),
            queue_next: Time::NEVER,
            arrivals: DelayLine::new(),
            deliveries: DelayLine::new(),
            timers: Timers::new(hosts * TIMERS),
            cables: vec![Cable::default(); hosts],
        }
    }

    /// Schedules an event that has no cheaper place.
    #[inline(never)]
    pub fn push(&mut self, time: Time, event: Event) {
        self.queue.push(time, event);
        self.queue_next = self.queue_next.min(time);
    }

    /// Schedules [`Event::Generate`], also for a host for which one is scheduled already.
    #[inline]
    pub fn generate(&mut self, time: Time, host: u16) {
        if !self.start(host, GENERATE, time) {
            self.push(time, Event::Generate(host));
        }
    }

    /// Schedules [`Event::Reach`] of a packet of a host, behind those of its cable that come at the
    /// same time.
    #[inline]
    pub fn reach(&mut self, time: Time, id: Id<Packet>, host: u16) {
        if self.start(host, REACH, time) {
            self.cables[usize::from(host)].first = Some(id);
        } else {
            self.follow(time, id, host);
        }
    }

    #[inline(never)]
    fn follow(&mut self, time: Time, id: Id<Packet>, host: u16) {
        let others = &mut self.cables[usize::from(host)].others;
        let first = self.timers.time(usize::from(host) * TIMERS + REACH);
        if time >= others.back().map_or(first, |(last, _)| *last) {
            others.push_back((time, id));
        } else {
            // What a network that is given up still carries comes later than what follows it.
            self.push(time, Event::Reach(id));
        }
    }

    /// The packet at the end of the cable of a host, whose timer was taken.
    #[inline]
    fn take_from_cable(&mut self, host: u16) -> Option<Id<Packet>> {
        let cable = &mut self.cables[usize::from(host)];
        let first = cable.first.take();
        if let Some((time, next)) = cable.others.pop_front() {
            cable.first = Some(next);
            self.timers.set(usize::from(host) * TIMERS + REACH, time);
        }
        first
    }

    /// Schedules [`Event::Arrive`].
    #[inline]
    pub fn arrive(&mut self, time: Time, id: Id<Packet>, host: u16) {
        if !self.arrivals.push(time, (id, host)) {
            self.push(time, Event::Arrive(id, host));
        }
    }

    /// Schedules [`Event::Deliver`].
    #[inline]
    pub fn deliver(&mut self, time: Time, id: Id<Packet>, host: u16) {
        if !self.deliveries.push(time, (id, host)) {
            self.push(time, Event::Deliver(id, host));
        }
    }

    /// Starts a timer that has no time.
    #[inline]
    fn start(&mut self, host: u16, kind: usize, time: Time) -> bool {
        let timer = usize::from(host) * TIMERS + kind;
        let is_idle = self.timers.time(timer) == Time::NEVER;
        if is_idle {
            self.timers.set(timer, time);
        }
        is_idle
    }

    /// When the bus of a host is looked at.
    #[inline]
    pub fn bus_time(&self, host: u16) -> Time {
        self.timers.time(usize::from(host) * TIMERS + BUS)
    }

    /// The bus of a host is looked at at `time`, and at no other.
    #[inline]
    pub fn look_at_bus(&mut self, host: u16, time: Time) {
        self.timers.set(usize::from(host) * TIMERS + BUS, time);
    }

    /// The link of a host is looked at at `time`, if not earlier.
    pub fn look_at_link(&mut self, host: u16, time: Time) {
        let timer = usize::from(host) * TIMERS + LINK;
        if time < self.timers.time(timer) {
            self.timers.set(timer, time);
        }
    }

    /// When the next event comes; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        let lines = self.arrivals.next_time().min(self.deliveries.next_time());
        self.queue_next.min(self.timers.next_time()).min(lines)
    }

    /// What the event that was taken last was for is done.
    #[inline]
    pub fn close(&mut self) {
        self.timers.close();
    }

    /// Takes the next event if it is not after `limit`. It is to be [`close`](Self::close)d.
    #[inline]
    pub fn pop_until(&mut self, limit: Time) -> Option<(Time, Event)> {
        let now = self.next_time();
        if now > limit {
            return None;
        }
        let event = if now == self.queue_next {
            let (_, event) = self.queue.pop()?;
            self.queue_next = self.queue.next_time().unwrap_or(Time::NEVER);
            event
        } else if now == self.deliveries.next_time() {
            let (_, (id, host)) = self.deliveries.pop()?;
            Event::Deliver(id, host)
        } else if now == self.arrivals.next_time() {
            let (_, (id, host)) = self.arrivals.pop()?;
            Event::Arrive(id, host)
        } else {
            let timer = self.timers.pop()?;
            let host = (timer / TIMERS) as u16;
            match timer % TIMERS {
                GENERATE => Event::Generate(host),
                BUS => Event::Bus(host),
                REACH => Event::Reach(self.take_from_cable(host)?),
                _ => Event::Link(host),
            }
        };
        Some((now, event))
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Arena;
    use weft_protocol::window::Rail;
    use weft_units::{Bytes, Span};

    use super::super::host::Purpose;
    use super::*;

    fn packets() -> [Id<Packet>; 4] {
        let mut arena = Arena::new();
        [(); 4].map(|()| {
            arena.insert(Packet {
                from: 1,
                targets: 1,
                size: Bytes(4),
                span: Span(10),
                last: true,
                purpose: Purpose::Traffic,
                page: None,
                is_copied: false,
                missing: 1,
                number: None,
                generated: Time::ZERO,
                taken: Time::ZERO,
                ready: Time::ZERO,
                start: Time::ZERO,
                granted: Time::ZERO,
                rail: Rail::First,
                is_whole: true,
                survey: None,
                is_settled: false,
            })
        })
    }

    /// The events until the end, each with its time.
    fn rest(agenda: &mut Agenda) -> Vec<String> {
        let mut events = Vec::new();
        while let Some((time, event)) = agenda.pop_until(Time(u64::MAX - 1)) {
            agenda.close();
            events.push(format!("{} {event:?}", time.0));
        }
        assert_eq!(agenda.next_time(), Time::NEVER);
        events
    }

    #[test]
    fn packets_of_a_cable_keep_their_order_and_an_earlier_one_goes_by_the_queue() {
        let [a, b, c, d] = packets();
        let mut agenda = Agenda::new(2);
        for (time, id) in [(20, a), (20, b), (30, c), (10, d)] {
            agenda.reach(Time(time), id, 1);
        }
        assert_eq!(
            rest(&mut agenda),
            ["10 Reach(#3)", "20 Reach(#0)", "20 Reach(#1)", "30 Reach(#2)"]
        );
    }

    #[test]
    fn the_queue_goes_first_then_deliveries_arrivals_and_the_timers_of_each_host() {
        let [a, b, ..] = packets();
        let mut agenda = Agenda::new(2);
        agenda.look_at_link(0, Time(9));
        agenda.look_at_link(0, Time(5));
        agenda.look_at_link(0, Time(7));
        agenda.look_at_bus(1, Time(3));
        agenda.look_at_bus(1, Time(5));
        agenda.generate(Time(5), 1);
        agenda.generate(Time(6), 1);
        agenda.arrive(Time(5), a, 0);
        agenda.arrive(Time(4), b, 0);
        agenda.deliver(Time(5), b, 1);
        agenda.push(Time(5), Event::Access(8));
        assert_eq!(agenda.bus_time(1), Time(5));
        let order = [
            "4 Arrive(#1, 0)",
            "5 Access(8)",
            "5 Deliver(#1, 1)",
            "5 Arrive(#0, 0)",
            "5 Link(0)",
            "5 Generate(1)",
            "5 Bus(1)",
            "6 Generate(1)",
        ];
        assert_eq!(rest(&mut agenda), order);
    }
}
