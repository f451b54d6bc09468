//! The driver of channels that act together: a bulk channel under a global schedule whose
//! configurations, grants and acknowledgments travel on the quick channel (Clint 3.3), both in one
//! simulation. A scheduled channel with ideal signalling on which packets are lost, refused or
//! disabled is driven here as well, without a second channel.
//!
//! What happens when in a cycle is a part (`weft_fabric::control::Pipeline`), and so is what becomes of
//! its transfers (`weft_fabric::control::Transfers`); here are the events. The slot of a packet in the
//! trace is the one of its stage: arbitration in slot `n`, transfer in `n + 1`, acknowledgment in
//! `n + 2`.

mod bulk;
mod carrier;
mod carrying;
mod halves;
mod outlet;

use weft_fabric::control::{Heard, ScheduledArrival, Transfer};
use weft_fabric::link::SharedLinks;
use weft_kernel::{Halt, Id, Queue, Stopped};
use weft_units::Time;

use super::carrier::{Carrier as _, MessageId};
use super::engine::Engine;
use super::trace::TraceEntry;

pub use bulk::{BulkChannel, BulkParts, ClusterCounters};
pub use carrying::CarryingChannel;
pub use halves::Half;

/// Something that happens in a cluster at a certain time.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The source of a host hands over packets for the bulk channel.
    Generate(u16),
    /// The requests of a cycle are sampled.
    Sample(u64),
    /// All that is handed over in the picosecond of the sampling is known.
    Sampled(u64),
    /// The configurations of a cycle are at the switch.
    Arbitrate,
    /// The grants of a cycle enter the output stages.
    Grant,
    /// The granted packets of a cycle are sent.
    Transfer(u64),
    /// The same of one host, at a distance of its own.
    Start(u16),
    /// The last byte of a message has left this initiator.
    Left(u16, MessageId),
    /// The last byte of a packet is at its target.
    Arrive(Id<Transfer>),
    /// The acknowledgment of a transfer is ready to be sent.
    Acknowledge(Id<Transfer>),
    /// Something is due at the interface of a host.
    Interface(u16),
    /// The acknowledgment stage of a transfer is over.
    Conclude(Id<Transfer>),
}

/// A bulk channel, and the channel that carries its signalling if one does.
#[derive(Debug)]
pub struct Cluster {
    bulk: BulkChannel,
    carrying: Option<CarryingChannel>,
    queue: Queue<Event>,
    steps: u64,
    started: bool,
    /// When something happens next, while a program sends messages.
    next: Time,
}

impl Cluster {
    /// Both channels at time zero. Where `carrying` is absent the signalling is ideal.
    pub fn new(bulk: BulkChannel, carrying: Option<CarryingChannel>) -> Cluster {
        let queue = Queue::new();
        Cluster { bulk, carrying, queue, steps: 0, started: false, next: Time::ZERO }
    }

    /// Runs up to and including `until`, or until `halt` stops it. A later call goes on from there.
    pub fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        if !self.started {
            self.start();
        }
        loop {
            let stopped = halt.check(self.steps());
            if stopped.is_some() {
                return stopped;
            }
            let next = self.queue.next_time().unwrap_or(Time::NEVER);
            if self.step_signalling(next.min(until)) {
                continue;
            }
            let (now, event) = self.queue.pop_until(until)?;
            self.steps += 1;
            self.handle(now, event);
        }
    }

    /// Lets one event happen on the channel that carries the signalling, if one is due by `until`: what
    /// arrives at an instant is there before the schedule does anything in it. Returns whether it did.
    fn step_signalling(&mut self, until: Time) -> bool {
        let Some(carrying) = &mut self.carrying else { return false };
        let Some(now) = carrying.step(until) else { return false };
        for arrival in carrying.arrivals() {
            self.hear(now, arrival);
        }
        true
    }

    /// A packet of the signalling has arrived.
    fn hear(&mut self, now: Time, arrival: ScheduledArrival) {
        let Cluster { bulk, carrying: Some(carrying), queue, .. } = self else { return };
        carrying.note(|| bulk.trace_entry(now, arrival));
        let Some(heard) = bulk.pipeline().hear(arrival.token, arrival.damaged) else { return };
        if let Heard::Configuration { host, configuration } = heard {
            carrying.channel_mut().accept_requests(host, configuration.quick_enable);
        }
        bulk.heard(now, &heard, &mut |time, event| queue.push(time, event));
    }

    /// Notes every transmission on both channels from now on.
    pub fn record_trace(&mut self) {
        self.bulk.record_trace();
        if let Some(carrying) = &mut self.carrying {
            carrying.record_trace();
        }
    }

    /// The transmissions noted so far on the bulk channel, and on the one that carries its
    /// signalling.
    pub fn take_traces(&mut self) -> (Vec<TraceEntry>, Vec<TraceEntry>) {
        let quick = self.carrying.as_mut().map(CarryingChannel::take_trace).unwrap_or_default();
        (self.bulk.take_trace(), quick)
    }

    /// Where two packets met that the schedule keeps apart, or a transfer did not keep to its slot,
    /// if any did.
    pub fn broken_schedule(&self) -> Option<String> {
        let channel = self.carrying.as_ref()?.channel();
        let overrun = channel.shared_links().and_then(SharedLinks::overrun);
        let met = channel.broken_schedule().map(str::to_owned);
        met.or_else(|| overrun.map(|to| format!("a transfer to host {to} ran out of its slot")))
    }

    /// What was counted and measured besides, with the names of its columns; shares are those of
    /// the links between zero and `until`.
    pub fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        let counters = self.bulk.counters();
        let mut columns = vec![
            ("reported_errors", counters.reported_errors as f64),
            ("duplicates", counters.duplicates as f64),
            ("unused_grants", counters.unused_grants as f64),
        ];
        columns
            .extend(self.bulk.misalignment().map(|span| ("misalignment_ns", span.as_us() * 1e3)));
        columns.extend(self.bulk.interface_columns(until));
        let Some(quick) = self.quick() else { return columns };
        let (up, down) = quick.scheduled_time();
        let links = until.0 as f64 * f64::from(self.bulk.hosts());
        let against = quick.control_counters().acknowledgments_against_schedule;
        columns.extend([
            ("lost_configurations", counters.lost_configurations as f64),
            ("lost_grants", counters.lost_grants as f64),
            ("lost_acknowledgments", counters.lost_acknowledgments as f64),
            ("signalling_share", (up + down).0 as f64 / links),
            ("signalling_share_to_switch", up.0 as f64 / links),
            ("quick_acknowledgments_killed", against as f64),
        ]);
        columns
    }

    /// How many events have happened.
    pub fn steps(&self) -> u64 {
        self.steps + self.quick().map_or(0, Engine::steps)
    }

    /// The channel that carries the signalling, if one does.
    fn quick(&self) -> Option<&Engine> {
        self.carrying.as_ref().map(CarryingChannel::channel)
    }

    /// The two channels; ends the cluster.
    pub fn into_channels(self) -> (BulkChannel, Option<Engine>) {
        (self.bulk, self.carrying.map(CarryingChannel::into_channel))
    }

    fn start(&mut self) {
        self.started = true;
        let queue = &mut self.queue;
        self.bulk.start(&mut |time, event| queue.push(time, event));
        queue.push(Time::ZERO, Event::Sample(0));
    }

    fn handle(&mut self, now: Time, event: Event) {
        let Cluster { bulk, carrying, queue, .. } = self;
        let mut schedule = |time, event| queue.push(time, event);
        match event {
            Event::Generate(host) => bulk.generate(now, host, &mut schedule),
            Event::Sample(cycle) => {
                schedule(now, Event::Sampled(cycle));
                schedule(bulk.pipeline().first_transfer(cycle), Event::Transfer(cycle));
                schedule(bulk.timing().sampling(cycle + 1), Event::Sample(cycle + 1));
            }
            Event::Sampled(cycle) => {
                let mut carrying = carrying.as_mut();
                bulk.sample(now, cycle, |packet| {
                    if let Some(carrying) = &mut carrying {
                        carrying.send(now, packet);
                    }
                });
                match bulk.timing().carried {
                    Some(carried) => schedule(now + carried.configured(), Event::Arbitrate),
                    None => bulk.pipeline().arbitrate(),
                }
            }
            Event::Arbitrate => {
                bulk.pipeline().arbitrate();
                if let Some(carried) = bulk.timing().carried {
                    schedule(now + carried.arbitration, Event::Grant);
                }
            }
            Event::Grant => {
                for host in 0..bulk.hosts() {
                    if let (Some(carrying), Some(packet)) =
                        (carrying.as_mut(), bulk.pipeline().grant(host))
                    {
                        carrying.send(now, packet);
                    }
                }
            }
            Event::Transfer(cycle) => {
                let links = carrying.as_mut().and_then(CarryingChannel::links);
                bulk.transfer(now, cycle, links, &mut schedule);
            }
            Event::Left(host, message) => {
                let end = carrying.as_ref().and_then(|carrying| carrying.departure(host));
                match end.filter(|end| *end > now) {
                    Some(end) => schedule(end, event),
                    None => bulk.leave(now, message),
                }
            }
            Event::Start(host) => bulk.start_transfer(now, host, None, &mut schedule),
            Event::Arrive(id) => {
                let target = bulk.transfer_of(id).packet.target;
                let end = carrying.as_ref().and_then(|carrying| carrying.arrival(target));
                if let Some(end) = end.filter(|end| *end > now) {
                    return bulk.prolong(id, end, &mut schedule);
                }
                let answers = bulk.arrive(now, id, &mut schedule);
                if let Some(carried) = bulk.timing().carried.filter(|_| answers) {
                    schedule(now + carried.turn_around, Event::Acknowledge(id));
                }
            }
            Event::Acknowledge(id) => {
                if let (Some(carrying), Some(packet)) = (carrying.as_mut(), bulk.acknowledgment(id))
                {
                    carrying.send(now, packet);
                }
            }
            Event::Interface(host) => bulk.serve(now, host, &mut schedule),
            Event::Conclude(id) => bulk.conclude(now, id, &mut schedule),
        }
    }
}
