//! What is at the ends of the links of a slotted channel, whatever its switch: packets that come
//! from the workload or as messages, and packets on their way.

use std::collections::VecDeque;

use weft_fabric::measure::{Latency, Observations, Passage};
use weft_fabric::workload::{Demand, Feedback, Source};
use weft_units::{Bytes, Span, Time};

use super::SlotTiming;
use crate::drive::carrier::{Message, MessageId, Messages, Notice};

/// The ends of all links.
#[derive(Debug)]
pub struct Ends {
    payload: Bytes,
    arrivals: Arrivals,
    in_flight: InFlight,
    /// What is handed over as messages; absent while packets come from sources.
    posted: Option<Box<Posted>>,
    pub(super) observations: Observations,
}

/// The sources of all hosts.
#[derive(Debug)]
struct Arrivals {
    sources: Vec<Source>,
    /// When each source hands over its next packet: a dense copy, since every slot looks at all.
    next: Vec<Time>,
    /// Hosts whose source hands over a packet whenever the adapter has space.
    greedy: Vec<usize>,
    /// Whether any source answers what it receives.
    answers: bool,
}

/// Transmissions whose last byte has not arrived. All take the same time, so they arrive in the
/// order in which they began.
#[derive(Debug, Default)]
struct InFlight {
    /// When the last byte arrives, from which host, at which.
    packets: VecDeque<(Time, u16, u16)>,
}

impl Ends {
    pub(super) fn new(payload: Bytes, sources: Vec<Source>, observations: Observations) -> Ends {
        let (arrivals, in_flight) = (Arrivals::new(sources), InFlight::default());
        Ends { payload, arrivals, in_flight, posted: None, observations }
    }

    /// Hands every packet that is due by `now` to `accept`, host by host; to a host whose source is
    /// greedy first none. `accept` returns whether the adapter has space for another one.
    pub(super) fn take(
        &mut self,
        now: Time,
        mut accept: impl FnMut(usize, Option<Demand>) -> bool,
    ) {
        self.arrivals.take(now, &mut self.observations, &mut accept);
        if let Some(posted) = &mut self.posted {
            posted.take(now, |host, demand| {
                accept(host, Some(demand));
            });
        }
    }

    /// A packet that was handed over at `generated` is sent, from a host to another one.
    #[inline]
    pub(super) fn send(
        &mut self,
        start: Time,
        (from, to): (usize, usize),
        generated: Time,
        timing: &SlotTiming,
    ) {
        let (queueing, transit) = (start.since(generated), timing.transit());
        self.observations.attempt(start);
        self.observations.latency(Latency::Queueing, start, queueing);
        self.observations.latency(Latency::OneWay, start, queueing + transit);
        let end = start + transit;
        self.observations.pass(Passage { from: from as u32, to: to as u32, start, end });
        // The links to all hosts come first, then those from them.
        let hosts = self.observations.busy().len() / 2;
        self.observations.occupy(to, start, timing.packet);
        self.observations.occupy(hosts + from, start, timing.packet);
        self.in_flight.send(from, to, end);
        if let Some(posted) = &mut self.posted {
            posted.start(from, to, start + timing.packet);
        }
    }

    /// Counts what has arrived by `now`.
    pub(super) fn arrive(&mut self, now: Time) {
        self.in_flight.arrive(now, self.payload, &mut self.arrivals, &mut self.observations);
    }

    /// Packets that no slot has taken over.
    pub(super) fn unfed(&self) -> u64 {
        self.posted.as_ref().map_or(0, |posted| posted.waiting())
    }

    /// Packets on their way.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight.packets.len() as u64
    }

    pub(super) fn carries_messages(&self) -> bool {
        self.posted.is_some()
    }

    /// Takes a message over, of one of so many hosts.
    pub(super) fn offer(&mut self, now: Time, message: Message, hosts: usize) {
        let payload = self.payload;
        let posted = self.posted.get_or_insert_with(|| Box::new(Posted::new(hosts, payload)));
        posted.post(now, message, &mut self.observations);
    }

    /// When something is next to be told, or to be done in a slot: `slot` is the length of a slot
    /// and `sampled` the beginning of the next one.
    pub(super) fn next_time(&self, slot: Span, sampled: Time) -> Time {
        let posted = self.posted.as_ref();
        posted.map_or(Time::NEVER, |own| own.next_time(&self.in_flight, slot, sampled))
    }

    /// Notes what has left its initiator or reached its target by `now`.
    pub(super) fn tell(&mut self, now: Time) {
        if let Some(posted) = &mut self.posted {
            posted.tell(now, &mut self.in_flight, self.payload, &mut self.observations);
        }
    }

    /// Appends what there is to know.
    pub(super) fn take_notices(&mut self, notices: &mut Vec<Notice>) {
        if let Some(posted) = &mut self.posted {
            posted.take_notices(notices);
        }
    }
}

impl Arrivals {
    fn new(sources: Vec<Source>) -> Arrivals {
        let wants = |feedback: Feedback| {
            let hosts = sources.iter().enumerate();
            hosts.filter(move |(_, source)| source.feedback() == feedback).map(|(host, _)| host)
        };
        Arrivals {
            next: sources.iter().map(Source::next_time).collect(),
            greedy: wants(Feedback::Ready).collect(),
            answers: wants(Feedback::Delivered).next().is_some(),
            sources,
        }
    }

    /// Hands every packet that is due by `now` to `accept`, host by host. `accept` returns whether
    /// the adapter has space for another one.
    fn take(
        &mut self,
        now: Time,
        observations: &mut Observations,
        mut accept: impl FnMut(usize, Option<Demand>) -> bool,
    ) {
        for host in 0..self.next.len() {
            while self.next[host] <= now {
                let demand = self.sources[host].take();
                self.next[host] = self.sources[host].next_time();
                observations.generate_from(host, demand.time);
                accept(host, Some(demand));
            }
        }
        for &host in &self.greedy {
            let mut space = accept(host, None);
            while space {
                self.sources[host].ready(now);
                let demand = self.sources[host].take();
                observations.generate_from(host, demand.time);
                space = accept(host, Some(demand));
            }
        }
    }

    fn delivered(&mut self, now: Time, from: u16, to: u16) {
        let host = usize::from(to);
        self.sources[host].delivered(now, from.into());
        self.next[host] = self.sources[host].next_time();
    }
}

impl InFlight {
    fn send(&mut self, from: usize, to: usize, arrival: Time) {
        self.packets.push_back((arrival, from as u16, to as u16));
    }

    /// Counts the packets whose last byte has arrived by `now`, and tells sources that answer.
    fn arrive(
        &mut self,
        now: Time,
        payload: Bytes,
        arrivals: &mut Arrivals,
        observations: &mut Observations,
    ) {
        while let Some(&(arrival, from, to)) = self.packets.front() {
            if arrival > now {
                break;
            }
            self.packets.pop_front();
            observations.deliver_from(usize::from(from), arrival, payload);
            if arrivals.answers {
                arrivals.delivered(arrival, from, to);
            }
        }
    }
}

/// Messages in place of sources.
#[derive(Debug)]
struct Posted {
    messages: Messages,
    /// What each host has handed over since the last slot: when, for whom, how many packets.
    hosts: Vec<VecDeque<(Time, u16, u32)>>,
    /// Packets in `hosts`, and packets that a slot has taken and not sent.
    waiting: u64,
    taken: u64,
    /// When the first of `hosts` were handed over; nothing earlier waits.
    oldest: Time,
    /// Messages whose last packet is on its link, and when its last byte leaves.
    leaving: VecDeque<(Time, MessageId)>,
}

impl Posted {
    fn new(hosts: usize, payload: Bytes) -> Posted {
        Posted {
            messages: Messages::new(hosts, payload),
            hosts: vec![VecDeque::new(); hosts],
            waiting: 0,
            taken: 0,
            oldest: Time::NEVER,
            leaving: VecDeque::new(),
        }
    }

    fn post(&mut self, now: Time, message: Message, observations: &mut Observations) {
        let host = &mut self.hosts[usize::from(message.from)];
        self.messages.post(message, |_, to, packets| {
            let from = usize::from(message.from);
            (0..packets).for_each(|_| observations.generate_from(from, now));
            host.push_back((now, to, packets));
            self.waiting += u64::from(packets);
        });
        self.oldest = self.oldest.min(now);
    }

    /// Hands what was offered by `now` to `accept`, host by host.
    fn take(&mut self, now: Time, mut accept: impl FnMut(usize, Demand)) {
        if self.oldest > now {
            return;
        }
        self.oldest = Time::NEVER;
        for host in 0..self.hosts.len() {
            while let Some(&(time, target, packets)) = self.hosts[host].front() {
                if time > now {
                    self.oldest = self.oldest.min(time);
                    break;
                }
                self.hosts[host].pop_front();
                (0..packets).for_each(|_| accept(host, Demand { time, target: target.into() }));
                self.waiting -= u64::from(packets);
                self.taken += u64::from(packets);
            }
        }
    }

    /// A packet is sent in a slot; its last byte leaves at `end`.
    fn start(&mut self, from: usize, to: usize, end: Time) {
        self.taken -= 1;
        if let Some(message) = self.messages.start_next(from as u16, to as u16) {
            self.leaving.push_back((end, message));
        }
    }

    /// Packets that no slot has taken.
    fn waiting(&self) -> u64 {
        self.waiting
    }

    /// When something is next to be told, or to be done in a slot: `slot` is the length of a slot
    /// and `sampled` the beginning of the next one.
    fn next_time(&self, in_flight: &InFlight, slot: Span, sampled: Time) -> Time {
        if let Some(notice) = self.messages.next_notice() {
            return notice;
        }
        let sampling = match (self.taken, self.waiting) {
            (0, 0) => Time::NEVER,
            (0, _) => sampled.max(Time(self.oldest.0.div_ceil(slot.0) * slot.0)),
            _ => sampled,
        };
        sampling.min(self.next_telling(in_flight))
    }

    fn next_telling(&self, in_flight: &InFlight) -> Time {
        let leaving = self.leaving.front().map_or(Time::NEVER, |(time, _)| *time);
        leaving.min(in_flight.packets.front().map_or(Time::NEVER, |(time, _, _)| *time))
    }

    /// Notes what has left its initiator or reached its target by `now`.
    fn tell(
        &mut self,
        now: Time,
        in_flight: &mut InFlight,
        payload: Bytes,
        observations: &mut Observations,
    ) {
        loop {
            let next = self.next_telling(in_flight);
            if next > now || next == Time::NEVER {
                return;
            }
            if let Some(&(_, message)) = self.leaving.front().filter(|(time, _)| *time == next) {
                self.leaving.pop_front();
                self.messages.sent(next, message);
            } else if let Some((time, from, to)) = in_flight.packets.pop_front() {
                observations.deliver_from(usize::from(from), time, payload);
                self.messages.arrive_next(time, from, to, 1);
            }
        }
    }

    /// Appends what there is to know.
    fn take_notices(&mut self, notices: &mut Vec<Notice>) {
        self.messages.take_notices(notices);
    }
}
