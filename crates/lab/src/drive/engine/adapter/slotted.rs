//! A fast path: a star in slots without acknowledgments is run slot by slot, with one pass of the
//! scheduler and one look at the sources each, and no event. The result equals that of events to
//! the picosecond, which a test checks.

use std::collections::VecDeque;

use weft_fabric::adapter::{AdapterSettings, HeldPackets, SendBuffers};
use weft_fabric::graph::Graph;
use weft_fabric::measure::{Latency, Observations, Passage, Stage};
use weft_fabric::scheduler::{Arbiter, Matcher, Scheduler};
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Halt, Stopped, Stream};
use weft_units::{Bytes, Span, Time};

use super::slots::{SlotParts, Slots};
use super::{Engine, Host};
use crate::drive::engine::supply::Supply;

/// What a run borrows.
#[derive(Debug)]
struct Surroundings<'a> {
    graph: &'a mut Graph,
    seen: &'a mut Observations,
    sources: &'a mut [Source],
    payload: Bytes,
    adapter: &'a AdapterSettings,
    random: &'a mut Stream,
    /// From the start of a transmission until its send buffer is free again.
    release: Span,
}

/// One run, slot by slot, whose sets of hosts have a number of words that its type says: nothing
/// asks for it while it runs.
#[derive(Debug)]
struct Loop<'a, const W: usize> {
    matcher: &'a mut Matcher<W>,
    random: &'a mut Stream,
    release: Span,
    graph: &'a mut Graph,
    seen: &'a mut Observations,
    sources: &'a mut [Source],
    payload: Bytes,
    hosts: Vec<SendingHost>,
    /// When each host next submits a packet or has a free send buffer: a dense copy, since every
    /// slot scans all of them.
    due: Vec<Time>,
    /// The port of the switch before each host.
    outputs: Vec<u32>,
    /// What the links from and to each host have carried while everything on them counts as busy:
    /// counted here, and recorded once.
    carried: Vec<[u64; 2]>,
    /// Whether any source answers what it receives.
    answers: bool,
    /// Transmissions whose last byte has not arrived. All take the same time, so that they arrive
    /// in the order in which they began.
    flying: VecDeque<Flying>,
    /// From the start of a transmission to its arrival.
    transit: Span,
}

/// The packets of one host.
#[derive(Debug)]
struct SendingHost {
    buffers: SendBuffers,
    /// Send buffers in use by transmissions: when each becomes free, and its target.
    held: VecDeque<(Time, u16)>,
    /// Its source submits a packet whenever there is space.
    is_greedy: bool,
}

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
struct Flying {
    start: Time,
    generated: Time,
    buffered: Time,
    from: u16,
    to: u16,
}

impl Engine {
    /// Whether all that happens between two edges can be caught up with at the second one.
    pub(super) fn needs_no_events(&self) -> bool {
        let is_bare = |host: &Host| {
            let is_free = host.initiator.throttle.is_none() && host.receiver.is_unlimited();
            let is_whole = host.errors.is_none() && host.disabled.is_empty();
            is_free && is_whole && host.interface.is_none()
        };
        let slots = self.adapters.slots.as_ref();
        slots.is_some_and(|slots| !slots.by_events && !slots.parts.heads)
            && self.sends_once_in_slots()
            && matches!(self.supply, Supply::Sources(_))
            && !self.graph.is_mixed()
            && self.steps == 0
            && self.adapters.trace.is_none()
            && self.adapters.hosts.iter().all(is_bare)
    }

    /// Runs every slot whose transmissions begin by `until`.
    pub(super) fn run_in_slots(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        let Engine { adapters, graph, observations: seen, supply, steps, payload, .. } = self;
        let (Some(slots), Supply::Sources(sources)) = (&mut adapters.slots, supply) else {
            return None;
        };
        let Slots { parts, adapter, left, .. } = &mut **slots;
        let SlotParts { slot, lead, release, arbiter, random, .. } = parts;
        let (slot, payload, release) = (*slot, *payload, *release);
        let run = Surroundings { graph, seen, sources, payload, adapter, random, release };
        let times = Times { slot, lead: *lead, until };
        let (stopped, rest) = match arbiter {
            Arbiter::Narrow(own) => Loop::new(run, own).run(times, steps, halt),
            Arbiter::Wide(own) => Loop::new(run, own).run(times, steps, halt),
            Arbiter::Widest(own) => Loop::new(run, own).run(times, steps, halt),
        };
        *left = Some(rest);
        if stopped.is_some() {
            self.now = Time((self.steps - 1) * slot.0);
        }
        stopped
    }
}

/// When slots are.
#[derive(Clone, Copy, Debug)]
struct Times {
    slot: Span,
    lead: Span,
    until: Time,
}

impl<'a, const W: usize> Loop<'a, W> {
    fn new(surroundings: Surroundings<'a>, matcher: &'a mut Matcher<W>) -> Loop<'a, W> {
        let Surroundings { graph, seen, sources, payload, adapter, random, release } = surroundings;
        let host = |source: &Source| SendingHost {
            buffers: SendBuffers::new(adapter, sources.len()),
            held: VecDeque::new(),
            is_greedy: source.feedback() == Feedback::Ready,
        };
        let spent = graph.spent_alike(1);
        let output = |host| graph.peer(graph.host_port(host)).unwrap_or_default();
        Loop {
            hosts: sources.iter().map(host).collect(),
            due: sources.iter().map(Source::next_time).collect(),
            outputs: (0..graph.hosts()).map(output).collect(),
            carried: vec![[0; 2]; sources.len()],
            answers: sources.iter().any(|source| source.feedback() == Feedback::Delivered),
            flying: VecDeque::new(),
            transit: spent.transmission + spent.wire + spent.switches,
            matcher,
            random,
            release,
            graph,
            seen,
            sources,
            payload,
        }
    }

    /// Runs every slot from number `next` on. Returns why it stopped early, if it did, and the
    /// packets that have not arrived then.
    fn run(mut self, times: Times, next: &mut u64, halt: &Halt) -> (Option<Stopped>, HeldPackets) {
        let Times { slot, lead, until } = times;
        loop {
            let sampled = Time(*next * slot.0);
            if sampled + lead > until {
                self.catch_up(until);
                return (None, self.finish());
            }
            self.catch_up(sampled);
            self.pass(sampled + lead);
            *next += 1;
            let stopped = halt.check(*next);
            if stopped.is_some() {
                return (stopped, self.finish());
            }
        }
    }

    /// Processes everything due by `now`; what happened before counters are due to be recorded is
    /// processed before they are.
    fn catch_up(&mut self, now: Time) {
        loop {
            let noted = self.seen.next_sample();
            if noted > now {
                break;
            }
            if noted > Time::ZERO {
                self.advance(Time(noted.0 - 1));
            }
            self.seen.sample(noted);
        }
        self.advance(now);
    }

    fn advance(&mut self, now: Time) {
        while let Some(&one) = self.flying.front()
            && one.start + self.transit <= now
        {
            self.flying.pop_front();
            self.arrive(one);
        }
        for host in 0..self.due.len() {
            while self.due[host] <= now {
                self.serve(host);
            }
        }
    }

    /// The last byte of a packet is at its target.
    #[inline]
    fn arrive(&mut self, one: Flying) {
        let Flying { start, generated, buffered, from, to } = one;
        let end = start + self.transit;
        let queueing = start.since(generated);
        let seen = &mut *self.seen;
        seen.latency(Latency::Queueing, end, queueing);
        seen.latency(Latency::OneWay, end, queueing + self.transit);
        seen.spend(Stage::BufferWait, end, buffered.since(generated));
        seen.spend(Stage::SlotWait, end, start.since(buffered));
        seen.deliver_from(from.into(), end, self.payload);
        seen.pass(Passage { from: from.into(), to: to.into(), start, end });
        if self.answers {
            self.sources[usize::from(to)].delivered(end, from.into());
            self.look_at(to.into());
        }
    }

    /// Processes what is due first at a host: a send buffer becomes free, or its source submits a
    /// packet.
    fn serve(&mut self, host: usize) {
        let SendingHost { buffers, held, is_greedy } = &mut self.hosts[host];
        let now = self.due[host];
        let requested = if let Some(&(free, target)) = held.front()
            && free == now
        {
            held.pop_front();
            buffers.release(now, target.into())
        } else {
            let demand = self.sources[host].take();
            self.seen.generate_from(host, demand.time);
            buffers.accept(demand)
        };
        if let Some(target) = requested {
            self.matcher.requests.set(host, target);
        }
        if *is_greedy && buffers.has_space() {
            self.sources[host].ready(now);
        }
        self.look_at(host);
    }

    /// Finds out when a host is due.
    #[inline]
    fn look_at(&mut self, host: usize) {
        let free = self.hosts[host].held.front().map_or(Time::NEVER, |(free, _)| *free);
        self.due[host] = self.sources[host].next_time().min(free);
    }

    /// The scheduler decides, and what it lets through starts.
    fn pass(&mut self, start: Time) {
        let Matcher { scheduler, requests, matching } = &mut *self.matcher;
        scheduler.schedule(requests, self.random, matching);
        let is_whole = self.graph.is_in_window(start, start + self.transit);
        for (from, to) in matching.by_target() {
            let SendingHost { buffers, held, .. } = &mut self.hosts[from];
            let Some((packet, more)) = buffers.take(to) else { continue };
            if !more {
                requests.clear(from, to);
            }
            if buffers.is_limited() {
                let free = start + self.release;
                held.push_back((free, to as u16));
                self.due[from] = self.due[from].min(free);
            }
            self.seen.attempt(start);
            if is_whole {
                self.carried[from][0] += 1;
                self.carried[to][1] += 1;
            } else {
                let at_switch = self.graph.send(start, from as u32).arrival;
                self.graph.pass(at_switch + self.graph.latency(0), self.outputs[to]);
            }
            let (generated, buffered) = (packet.generated, packet.since);
            let (from, to) = (from as u16, to as u16);
            self.flying.push_back(Flying { start, generated, buffered, from, to });
        }
    }

    /// Adds the times that every packet has in common. Returns the packets that have not arrived.
    fn finish(self) -> HeldPackets {
        let spent = self.graph.spent_alike(1);
        let delivered = self.seen.delivered_measured;
        for (stage, span) in [
            (Stage::Transmission, spent.transmission),
            (Stage::Wire, spent.wire),
            (Stage::Switch, spent.switches),
        ] {
            self.seen.budget.add_times(stage, span, delivered);
        }
        for (host, [sent, received]) in (0..).zip(self.carried) {
            self.graph.count_sent(self.graph.host_port(host), sent);
            self.graph.count_sent(self.outputs[host as usize], received);
        }
        let unsent = self.hosts.iter().map(|host| host.buffers.backlog()).sum();
        HeldPackets { unsent, under_way: self.flying.len() as u64 }
    }
}
