//! The events of a hub and their order at one instant, which is that of the places at which they
//! happen, whatever scheduled them, and when. Each kind of event is kept where it costs least.
//!
//! An event for which a host waits, one at a time, has a timer; an event that follows a decision of
//! the hub or a transfer on a bus by a constant span is in a delay line; the calendar has the rest.
//! At equal times the calendar goes first: events of the file, messages between nodes and hub, what
//! software waits for, and packets that have no other place. Deliveries follow, then arrivals, then
//! the timers of hosts, beginning with the lowest host.

use std::collections::VecDeque;

use weft_fabric::interface::window::{NumberingStep, SoftwareTimer};
use weft_kernel::{Calendar, DelayLine, Event as Entry, Id, Timers};
use weft_units::Time;

use super::Event;
use super::cluster::Step;
use super::host::Packet;

/// The timers of a host, in the order in which they go at equal times.
const GENERATE: usize = 0;
const BUS: usize = 1;
const REACH: usize = 2;
const LINK: usize = 3;
const TIMERS: usize = 4;

// The kinds of events of the calendar, in their order at equal times. Each has a place for every
// host, or only the first of these.

/// One for each step, so that at one instant all adapters ask before any request is received.
const CONFIGURE: u32 = 0;
const CONFIGURED: u32 = 3;
const ACCESS: u32 = 4;
const SCRIPTED: u32 = 5;
const JOIN: u32 = 6;
const SILENCE: u32 = 7;
const HEARTBEAT: u32 = 8;
const HEARD: u32 = 9;
const BEAT: u32 = 10;
const PULSE: u32 = 11;
const STATUS: u32 = 12;
const SERVED: u32 = 13;
const INTERRUPT: u32 = 14;
const NAG: u32 = 15;
const RETRY: u32 = 16;
const SAMPLE: u32 = 17;
const GENERATED: u32 = 18;
const REACHED: u32 = 19;
const DELIVERED: u32 = 20;
const ARRIVED: u32 = 21;

const STEPS: [NumberingStep; 4] =
    [NumberingStep::Ask, NumberingStep::Heard, NumberingStep::Answer, NumberingStep::Done];

/// What the calendar has, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    kind: u32,
    host: u16,
    item: u32,
}

impl Numbers {
    fn of_step(step: Step) -> Numbers {
        let at = |kind, host| Numbers { kind, host, item: 0 };
        match step {
            Step::Scripted(place) => Numbers { kind: SCRIPTED, host: 0, item: place.into() },
            Step::Join(node) => at(JOIN, node),
            Step::Silence => at(SILENCE, 0),
            Step::Heartbeat(node) => at(HEARTBEAT, node),
            Step::Heard(node) => at(HEARD, node),
            Step::Beat => at(BEAT, 0),
            Step::Pulse => at(PULSE, 0),
            Step::Status(node) => at(STATUS, node),
            Step::Served(node) => at(SERVED, node),
            Step::Interrupt(node) => at(INTERRUPT, node),
            Step::Software(SoftwareTimer::Nag(node)) => at(NAG, node),
            Step::Software(SoftwareTimer::Retry(progress)) => {
                Numbers { kind: RETRY, host: 0, item: progress }
            }
            Step::Sample => at(SAMPLE, 0),
        }
    }

    fn event(self) -> Event {
        let Numbers { kind, host, item } = self;
        let packet = Id::at(item as usize);
        Event::Manage(match kind {
            CONFIGURE..=CONFIGURED => return Event::Configure(host, STEPS[kind as usize]),
            ACCESS => return Event::Access(item as u16),
            GENERATED => return Event::Generate(host),
            REACHED => return Event::Reach(packet),
            DELIVERED => return Event::Deliver(packet, host),
            ARRIVED => return Event::Arrive(packet, host),
            SCRIPTED => Step::Scripted(item as u16),
            JOIN => Step::Join(host),
            SILENCE => Step::Silence,
            HEARTBEAT => Step::Heartbeat(host),
            HEARD => Step::Heard(host),
            BEAT => Step::Beat,
            PULSE => Step::Pulse,
            STATUS => Step::Status(host),
            SERVED => Step::Served(host),
            INTERRUPT => Step::Interrupt(host),
            NAG => Step::Software(SoftwareTimer::Nag(host)),
            RETRY => Step::Software(SoftwareTimer::Retry(item)),
            _ => Step::Sample,
        })
    }
}

/// Timers and delay lines, and what they and the calendar need to know of each other.
#[derive(Debug)]
pub(super) struct Lines {
    /// The time of the first event of the calendar.
    calendar_next: Time,
    hosts: u32,
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

/// The events of a hub, those of the calendar of the engine among them.
#[derive(Debug)]
pub(super) struct Agenda<'a> {
    pub lines: &'a mut Lines,
    pub calendar: &'a mut Calendar,
}

impl Lines {
    /// Timers and delay lines without events, for this many hosts.
    pub fn new(hosts: usize) -> Lines {
        Lines {
            calendar_next: Time::NEVER,
            hosts: hosts as u32,
            arrivals: DelayLine::new(),
            deliveries: DelayLine::new(),
            timers: Timers::new(hosts * TIMERS),
            cables: vec![Cable::default(); hosts],
        }
    }

    /// When the next event comes; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        let lines = self.arrivals.next_time().min(self.deliveries.next_time());
        self.calendar_next.min(self.timers.next_time()).min(lines)
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

    /// What the event that was taken last was for is done.
    #[inline]
    pub fn close(&mut self) {
        self.timers.close();
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
}

impl Agenda<'_> {
    #[inline(never)]
    fn push(&mut self, time: Time, numbers: Numbers) {
        let Numbers { kind, host, item } = numbers;
        self.calendar.push(Entry { time, place: kind * self.lines.hosts + u32::from(host), item });
        self.lines.calendar_next = self.lines.calendar_next.min(time);
    }

    fn push_packet(&mut self, time: Time, kind: u32, id: Id<Packet>, host: u16) {
        self.push(time, Numbers { kind, host, item: id.index() as u32 });
    }

    /// Schedules [`Event::Manage`].
    pub fn manage(&mut self, time: Time, step: Step) {
        self.push(time, Numbers::of_step(step));
    }

    /// Schedules [`Event::Configure`].
    pub fn configure(&mut self, time: Time, host: u16, step: NumberingStep) {
        self.push(time, Numbers { kind: CONFIGURE + step as u32, host, item: 0 });
    }

    /// Schedules [`Event::Access`].
    pub fn access(&mut self, time: Time, place: u16) {
        self.push(time, Numbers { kind: ACCESS, host: 0, item: place.into() });
    }

    /// Schedules [`Event::Generate`], also for a host for which one is scheduled already.
    #[inline]
    pub fn generate(&mut self, time: Time, host: u16) {
        if !self.lines.start(host, GENERATE, time) {
            self.push(time, Numbers { kind: GENERATED, host, item: 0 });
        }
    }

    /// Schedules [`Event::Reach`] of a packet of a host, behind those of its cable that come at the
    /// same time.
    #[inline]
    pub fn reach(&mut self, time: Time, id: Id<Packet>, host: u16) {
        let lines = &mut *self.lines;
        if lines.start(host, REACH, time) {
            lines.cables[usize::from(host)].first = Some(id);
        } else {
            self.follow(time, id, host);
        }
    }

    #[inline(never)]
    fn follow(&mut self, time: Time, id: Id<Packet>, host: u16) {
        let others = &mut self.lines.cables[usize::from(host)].others;
        let first = self.lines.timers.time(usize::from(host) * TIMERS + REACH);
        if time >= others.back().map_or(first, |(last, _)| *last) {
            others.push_back((time, id));
        } else {
            // Packets that a given-up network still carries arrive later than those that follow
            // them.
            self.push_packet(time, REACHED, id, host);
        }
    }

    /// Schedules [`Event::Arrive`].
    #[inline]
    pub fn arrive(&mut self, time: Time, id: Id<Packet>, host: u16) {
        if !self.lines.arrivals.push(time, (id, host)) {
            self.push_packet(time, ARRIVED, id, host);
        }
    }

    /// Schedules [`Event::Deliver`].
    #[inline]
    pub fn deliver(&mut self, time: Time, id: Id<Packet>, host: u16) {
        if !self.lines.deliveries.push(time, (id, host)) {
            self.push_packet(time, DELIVERED, id, host);
        }
    }

    #[inline(never)]
    fn pop_calendar(&mut self) -> Option<Event> {
        let Entry { place, item, .. } = self.calendar.pop_until(self.lines.calendar_next)?;
        self.lines.calendar_next = self.calendar.earliest().unwrap_or(Time::NEVER);
        let host = (place % self.lines.hosts) as u16;
        Some(Numbers { kind: place / self.lines.hosts, host, item }.event())
    }

    /// Takes the next event if it is not after `limit`. It is to be [`close`](Lines::close)d.
    #[inline]
    pub fn pop_until(&mut self, limit: Time) -> Option<(Time, Event)> {
        // All but the calendar is behind this one pointer.
        let lines = &mut *self.lines;
        let now = lines.next_time();
        if now > limit {
            return None;
        }
        let event = if now == lines.calendar_next {
            self.pop_calendar()?
        } else if now == lines.deliveries.next_time() {
            let (_, (id, host)) = lines.deliveries.pop()?;
            Event::Deliver(id, host)
        } else if now == lines.arrivals.next_time() {
            let (_, (id, host)) = lines.arrivals.pop()?;
            Event::Arrive(id, host)
        } else {
            let timer = lines.timers.pop()?;
            let host = (timer / TIMERS) as u16;
            match timer % TIMERS {
                GENERATE => Event::Generate(host),
                BUS => Event::Bus(host),
                REACH => Event::Reach(lines.take_from_cable(host)?),
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
    fn rest(agenda: &mut Agenda<'_>) -> Vec<String> {
        let mut events = Vec::new();
        while let Some((time, event)) = agenda.pop_until(Time(u64::MAX - 1)) {
            agenda.lines.close();
            events.push(format!("{} {event:?}", time.0));
        }
        assert_eq!(agenda.lines.next_time(), Time::NEVER);
        events
    }

    /// What is to be lent to an agenda of two hosts.
    fn nothing() -> (Lines, Calendar) {
        (Lines::new(2), Calendar::new(Span(100), Span(1600)))
    }

    #[test]
    fn packets_of_a_cable_keep_their_order_and_an_earlier_one_goes_by_the_calendar() {
        let [a, b, c, d] = packets();
        let (mut lines, mut calendar) = nothing();
        let mut agenda = Agenda { lines: &mut lines, calendar: &mut calendar };
        for (time, id) in [(20, a), (20, b), (30, c), (10, d)] {
            agenda.reach(Time(time), id, 1);
        }
        assert_eq!(
            rest(&mut agenda),
            ["10 Reach(#3)", "20 Reach(#0)", "20 Reach(#1)", "30 Reach(#2)"]
        );
    }

    #[test]
    fn the_calendar_goes_first_then_deliveries_arrivals_and_the_timers_of_each_host() {
        let [a, b, ..] = packets();
        let (mut lines, mut calendar) = nothing();
        let mut agenda = Agenda { lines: &mut lines, calendar: &mut calendar };
        agenda.lines.look_at_link(0, Time(9));
        agenda.lines.look_at_link(0, Time(5));
        agenda.lines.look_at_link(0, Time(7));
        agenda.lines.look_at_bus(1, Time(3));
        agenda.lines.look_at_bus(1, Time(5));
        agenda.generate(Time(5), 1);
        agenda.generate(Time(6), 1);
        agenda.arrive(Time(5), a, 0);
        agenda.arrive(Time(4), b, 0);
        agenda.deliver(Time(5), b, 1);
        agenda.access(Time(5), 8);
        assert_eq!(agenda.lines.bus_time(1), Time(5));
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

    /// At one instant the place decides and not the order of scheduling, and what was scheduled comes
    /// back as it was.
    #[test]
    fn places_decide_about_what_happens_at_one_instant() {
        let steps = [
            Step::Scripted(3),
            Step::Scripted(4),
            Step::Join(1),
            Step::Silence,
            Step::Heartbeat(1),
            Step::Heard(0),
            Step::Heard(1),
            Step::Beat,
            Step::Pulse,
            Step::Status(0),
            Step::Served(1),
            Step::Interrupt(0),
            Step::Software(SoftwareTimer::Nag(1)),
            Step::Software(SoftwareTimer::Retry(70_000)),
            Step::Sample,
        ];
        let (mut lines, mut calendar) = nothing();
        let mut agenda = Agenda { lines: &mut lines, calendar: &mut calendar };
        steps.iter().rev().for_each(|step| agenda.manage(Time(5), *step));
        STEPS.iter().rev().for_each(|step| agenda.configure(Time(5), 1, *step));
        let numbering = STEPS.iter().map(|step| Event::Configure(1, *step));
        let all = numbering.chain(steps.iter().map(|step| Event::Manage(*step)));
        let expected: Vec<String> = all.map(|event| format!("5 {event:?}")).collect();
        assert_eq!(rest(&mut agenda), expected);
    }
}
