//! The driver of channels that act together: a bulk channel under a global schedule whose
//! configurations, grants and acknowledgments travel on the quick channel (Clint 3.3), both in one
//! simulation. A scheduled channel with ideal signalling on which packets are lost, refused or
//! disabled is driven here as well, without a second channel.
//!
//! One cycle of the bulk pipeline, counted from the instant at which its requests are sampled:
//!
//! | instant | what happens |
//! |---|---|
//! | 0 | every adapter samples its send buffers and sends `cfg` |
//! | `cfg` + cable | the last byte is at the switch: arbitration begins |
//! | + arbitration | `gnt` enters the output stages of the switch, at all ports together |
//! | + switch + `gnt` + cable | the grants are at the adapters |
//! | lead | the granted packets are sent on the bulk channel |
//! | lead + transit | the last byte is at the target, which answers by `back` or stays silent |
//! | lead + 2 slots | an initiator without `back` knows that its transfer failed |
//!
//! All instants are fixed, so that the adapters know when grants come. The slot of a packet in the
//! trace is the one of its stage: arbitration in slot `n`, transfer in `n + 1`, acknowledgment in
//! `n + 2`.

mod bulk;
mod carrier;
mod distances;
mod halves;
mod outlet;
mod sender;
mod settings;
mod signalling;
mod timing;

use weft_fabric::link::SharedLinks;
use weft_kernel::{Halt, Id, Queue, Stopped};
use weft_units::Time;

use super::carrier::{Carrier as _, MessageId};
use super::engine::Engine;
use super::trace::TraceEntry;

pub use bulk::{BulkChannel, BulkParts, ClusterCounters};
pub use distances::Distances;
pub use halves::Half;
pub use sender::{BulkPacket, Sender};
pub(crate) use settings::is_detailed;
pub use settings::{Alignment, CarriedSettings, OnError, RecoverySettings, SignallingSettings};
pub use signalling::Signalling;
pub use timing::{CarriedTiming, Timing};

use bulk::Transfer;

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
    signalling: Option<Signalling>,
    queue: Queue<Event>,
    steps: u64,
    started: bool,
    /// When something happens next, while a program sends messages.
    next: Time,
}

impl Cluster {
    /// Both channels at time zero. Where `signalling` is absent it is ideal.
    pub fn new(bulk: BulkChannel, signalling: Option<Signalling>) -> Cluster {
        let queue = Queue::new();
        Cluster { bulk, signalling, queue, steps: 0, started: false, next: Time::ZERO }
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
        let Cluster { bulk, signalling, queue, .. } = self;
        let mut schedule = |time, event| queue.push(time, event);
        signalling.as_mut().is_some_and(|own| own.step(until, bulk, &mut schedule))
    }

    /// Notes every transmission on both channels from now on.
    pub fn record_trace(&mut self) {
        self.bulk.record_trace();
        if let Some(signalling) = &mut self.signalling {
            signalling.record_trace();
        }
    }

    /// The transmissions noted so far on the bulk channel, and on the one that carries its
    /// signalling.
    pub fn take_traces(&mut self) -> (Vec<TraceEntry>, Vec<TraceEntry>) {
        let quick = self.signalling.as_mut().map(Signalling::take_trace).unwrap_or_default();
        (self.bulk.take_trace(), quick)
    }

    /// Where two packets met that the schedule keeps apart, or a transfer did not keep to its slot,
    /// if any did.
    pub fn broken_schedule(&self) -> Option<String> {
        let channel = self.signalling.as_ref()?.channel();
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
        let Some(signalling) = &self.signalling else { return columns };
        let quick = signalling.channel();
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
        self.steps + self.signalling.as_ref().map_or(0, |own| own.channel().steps())
    }

    /// The channel that carries the signalling, if one does.
    fn quick(&self) -> Option<&Engine> {
        self.signalling.as_ref().map(Signalling::channel)
    }

    /// The two channels; ends the cluster.
    pub fn into_channels(self) -> (BulkChannel, Option<Engine>) {
        (self.bulk, self.signalling.map(Signalling::into_channel))
    }

    fn start(&mut self) {
        self.started = true;
        let queue = &mut self.queue;
        self.bulk.start(&mut |time, event| queue.push(time, event));
        queue.push(Time::ZERO, Event::Sample(0));
    }

    fn handle(&mut self, now: Time, event: Event) {
        let Cluster { bulk, signalling, queue, .. } = self;
        let mut schedule = |time, event| queue.push(time, event);
        match event {
            Event::Generate(host) => bulk.generate(now, host, &mut schedule),
            Event::Sample(cycle) => {
                schedule(now, Event::Sampled(cycle));
                schedule(bulk.first_transfer(cycle), Event::Transfer(cycle));
                schedule(bulk.timing().sampling(cycle + 1), Event::Sample(cycle + 1));
            }
            Event::Sampled(cycle) => match signalling {
                Some(signalling) => {
                    signalling.configure(now, cycle, bulk);
                    schedule(signalling.configured(now), Event::Arbitrate);
                }
                None => bulk.arbitrate_at_once(now),
            },
            Event::Arbitrate => {
                if let Some(signalling) = signalling {
                    schedule(signalling.arbitrate(now, bulk), Event::Grant);
                }
            }
            Event::Grant => {
                if let Some(signalling) = signalling {
                    signalling.grant(now, bulk);
                }
            }
            Event::Transfer(cycle) => {
                let links = signalling.as_mut().and_then(Signalling::begin_slot);
                bulk.transfer(now, cycle, links, &mut schedule);
            }
            Event::Left(host, message) => {
                let end = signalling.as_ref().and_then(|signalling| signalling.departure(host));
                match end.filter(|end| *end > now) {
                    Some(end) => schedule(end, event),
                    None => bulk.leave(now, message),
                }
            }
            Event::Start(host) => bulk.start_transfer(now, host, None, &mut schedule),
            Event::Arrive(id) => {
                let target = bulk.in_transfer(id).packet.target;
                let end = signalling.as_ref().and_then(|signalling| signalling.arrival(target));
                if let Some(end) = end.filter(|end| *end > now) {
                    return bulk.prolong(id, end, &mut schedule);
                }
                let answers = bulk.arrive(now, id, &mut schedule);
                if let Some(signalling) = signalling.as_mut().filter(|_| answers) {
                    schedule(now + signalling.turn_around(), Event::Acknowledge(id));
                }
            }
            Event::Acknowledge(id) => {
                if let Some(signalling) = signalling {
                    signalling.acknowledge(now, id, bulk);
                }
            }
            Event::Interface(host) => bulk.serve(now, host, &mut schedule),
            Event::Conclude(id) => bulk.conclude(now, id, &mut schedule),
        }
    }
}
