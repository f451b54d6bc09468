//! One run: a pure function of the specification and a seed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weft_fabric::measure::{Latency, Observations, Recorder};
use weft_fabric::workload::WorkloadSettings;
use weft_kernel::{Halt, Stopped, Streams};
use weft_units::{Bytes, Span, Time};

use crate::assemble::{Driver, Site};
use crate::composition::{ChannelSettings, Spec};
use crate::couple;
use crate::drive::Channel;
use crate::drive::carrier::Carrier;
use crate::drive::engine::{Alone, Course, Engine, FastForward, FlowReport, NetworkReport, OfBoth};
use crate::drive::interface::HandlerReport;
use crate::drive::trace::TraceEntry;
use crate::error::Error;
use crate::experiment::Regime;
use crate::program::RankReport;
use crate::program::background::offers;
use crate::program::settings::{ProgramRun, ProgramSettings};
use crate::statistics::{
    BATCHES, Ending, Estimate, Judgement, Verdict, batch_means, in_parts, judge, mser, steady_state,
};
use crate::threads::Threads;

/// The results of one run for one channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChannelRun {
    /// The channel.
    pub channel: String,
    /// The seed of the run.
    pub seed: u64,
    /// How many hosts there are.
    pub hosts: u32,
    /// How many ports they have on it in all.
    pub ends: u32,
    /// The observations.
    pub observations: Observations,
    /// From where on it was recorded.
    pub from: Time,
    /// When the run was to end.
    pub until: Time,
    /// Packets at the end whose transmission had not begun.
    pub backlog: u64,
    /// Packets in flight at the end.
    pub in_flight: u64,
    /// Slots or events that it took.
    pub steps: u64,
    /// Whether its traffic came to an end, as that of a program does.
    pub ended: bool,
    /// Why it ended early, if it did.
    #[serde(with = "stopped")]
    pub stopped: Option<Stopped>,
    /// The time that a packet occupies its link.
    pub packet: Span,
    /// Its size on the wire.
    pub packet_size: Bytes,
    /// The least time of a packet: on its links, their cables, and through one switch.
    pub unloaded: Span,
    /// The time from slot to slot, if there are slots.
    pub slot: Option<Span>,
    /// What waits for what, if packets were in flight and nothing was left to happen.
    pub waiting: Vec<String>,
    /// Further counts and measurements, with the names of their columns.
    pub counters: Vec<(Cow<'static, str>, f64)>,
    /// Every transmission, if they were recorded.
    pub trace: Vec<TraceEntry>,
    /// The results of streams and cables, in a fabric whose driver records them.
    pub network: Option<NetworkReport>,
    /// The outcomes of flows, on a channel with flows.
    pub flows: Option<FlowReport>,
    /// The results of handlers, on a channel whose messages call some.
    pub handlers: Option<HandlerReport>,
    /// How the throughput changed over time, on a channel whose driver records it.
    pub course: Vec<Course>,
    /// What was skipped because it repeats itself, if that was requested.
    pub forwarded: Option<FastForward>,
    /// The results of the ranks of the program; stored with the first of the channels that could take
    /// its messages.
    pub ranks: Option<RankReport>,
    /// The mean of each definition of latency under the regime of the run, in microseconds.
    pub means: [Option<Estimate>; Latency::ALL.len()],
    /// The usual latency over the run, in microseconds, in a few hundred parts of equally many packets,
    /// oldest first; empty where [`means`](Self::means) leave the beginning out.
    pub course_of_latency: Vec<f64>,
    /// Whether the run settled.
    pub judgement: Judgement,
}

/// An interrupted run is no result and is not stored, so that stored runs know only one reason for
/// their end.
mod stopped {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use weft_kernel::Stopped;

    #[allow(clippy::ref_option, reason = "the signature is serde's")]
    pub fn serialize<S: Serializer>(stopped: &Option<Stopped>, s: S) -> Result<S::Ok, S::Error> {
        stopped.is_some().serialize(s)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Stopped>, D::Error> {
        bool::deserialize(d).map(|stopped| stopped.then_some(Stopped::StepLimit))
    }
}

/// By how much a share of the time may exceed one because of rounding.
const ROUNDING: f64 = 1e-9;

/// Runs what `spec` describes, once, with one seed, on one thread: one element per channel that has a workload.
pub fn simulate(spec: &Spec, seed: u64, halt: &Halt) -> Result<Vec<ChannelRun>, Error> {
    simulate_on(&Threads::one(), spec, seed, halt)
}

/// Like [`simulate`], on several threads if that is worthwhile. Results do not depend on them.
pub fn simulate_on(
    threads: &Threads,
    spec: &Spec,
    seed: u64,
    halt: &Halt,
) -> Result<Vec<ChannelRun>, Error> {
    let until = Time::ZERO + spec.run.length;
    let from = match spec.run.regime {
        Regime::FromEmpty | Regime::Steady => Time::ZERO,
        Regime::Skip(span) => Time::ZERO + span,
    };
    let halt = halt.with_step_limit(spec.run.step_limit);
    let mut runs = match spec.running_program() {
        Some(program) => run_program(spec, program, seed, &halt, threads)?,
        None => run_channels(spec, from, until, seed, &halt, threads)?,
    };
    // A channel that carries the signalling of another one ran together with it.
    runs.sort_by(|a, b| a.channel.cmp(&b.channel));
    if spec.run.fast_forward {
        for run in &mut runs {
            run.forwarded.get_or_insert_with(|| FastForward::forbidden("traffic of sources"));
        }
    }
    runs.iter_mut().for_each(|run| run.settle(spec.run.regime));
    Ok(runs)
}

/// Each channel that has traffic of its own, recorded between the two instants.
fn run_channels(
    spec: &Spec,
    from: Time,
    until: Time,
    seed: u64,
    halt: &Halt,
    threads: &Threads,
) -> Result<Vec<ChannelRun>, Error> {
    let streams = Streams::new(seed);
    let carriers: Vec<&str> = spec.channel.values().filter_map(ChannelSettings::carrier).collect();
    let mut runs = Vec::new();
    for (name, settings) in &spec.channel {
        if carriers.contains(&name.as_str()) {
            continue;
        }
        let (hosts, sample) = (spec.system.hosts, spec.run.sample);
        let site = Site { name, hosts, streams: &streams, from, until, sample };
        if let Some(schedule) = settings.coupled_schedule() {
            threads.note(name, Alone::Kind);
            runs.extend(run_coupled(spec, settings, schedule, site, seed, halt)?);
        } else if let Some(workload) = spec.workload.get(name) {
            let single = Single { spec, settings, workload };
            runs.push(run_alone(single, site, seed, halt, threads)?);
        }
    }
    Ok(runs)
}

/// A program, and its effect on each channel that could take its messages, with the measurements of
/// the program stored with each of them. The other channels carry their traffic for the same time.
fn run_program(
    spec: &Spec,
    program: &ProgramSettings,
    seed: u64,
    halt: &Halt,
    threads: &Threads,
) -> Result<Vec<ChannelRun>, Error> {
    let ProgramRun { end, metrics, ranks, channels, forwarded } = program.run(spec, seed, halt)?;
    let mut ranks = Some(ranks);
    let streams = Streams::new(seed);
    let hosts = spec.system.hosts;
    let mut runs = Vec::new();
    let until = end.max(Time(1));
    let offered_until = until.min(Time::ZERO + spec.run.length);
    let mut others = Cow::Borrowed(spec);
    let mut forwarded = forwarded.into_iter();
    for (name, channel) in channels {
        threads.note(&name, Alone::Kind);
        let site =
            Site { name: &name, hosts, streams: &streams, from: Time::ZERO, until, sample: None };
        let packet = spec.channel[&name].demand_span(spec.workload.get(&name));
        let (driver, background) =
            channel.into_driver(&name, hosts as u16, packet, offered_until, seed)?;
        if spec.workload.contains_key(&name) {
            others.to_mut().workload.remove(&name);
        }
        let own = [metrics.clone(), background].concat();
        let mut run = ChannelRun::finish(&spec.channel[&name], driver, site, seed)?;
        run.ended = true;
        run.ranks = ranks.take();
        run.forwarded = forwarded.next();
        run.counters.splice(0..0, named(own));
        runs.push(run);
    }
    if others.workload.values().any(offers) {
        others.to_mut().workload.retain(|_, workload| offers(workload));
        runs.extend(run_channels(&others, Time::ZERO, until, seed, halt, threads)?);
    }
    Ok(runs)
}

/// A channel that runs on its own, and the point that it is of.
#[derive(Clone, Copy)]
struct Single<'a> {
    spec: &'a Spec,
    settings: &'a ChannelSettings,
    workload: &'a WorkloadSettings,
}

fn run_alone(
    single: Single<'_>,
    site: Site<'_>,
    seed: u64,
    halt: &Halt,
    threads: &Threads,
) -> Result<ChannelRun, Error> {
    let Single { spec, settings, workload } = single;
    let mut driver = match on_ranks(single, site, seed, threads)? {
        Some(driver) => driver,
        None => Driver::new(settings, Some(workload), site)?,
    };
    threads.spread(site.name, &mut driver, halt.step_limit.is_some());
    if spec.run.trace {
        driver.record_trace();
    }
    let stopped = driver.run(site.until, halt);
    let waiting = driver.waiting();
    let run = ChannelRun::finish(settings, driver, site, seed)?;
    let packet = settings.demand_span(Some(workload));
    Ok(ChannelRun { stopped, waiting, packet, ..run })
}

/// The channel divided among ranks, if there are several and it can be divided.
fn on_ranks(
    Single { spec, settings, workload }: Single<'_>,
    site: Site<'_>,
    seed: u64,
    threads: &Threads,
) -> Result<Option<Driver>, Error> {
    let Some(ranks) = threads.ranks() else { return Ok(None) };
    let divided = ranks.divide(spec, settings, workload, site, seed)?;
    match &divided {
        Ok(Driver::Engine(engine)) => threads.note_idle(site.name, engine.ranks_with_a_part()),
        Ok(_) => {}
        Err(why) => threads.note(site.name, *why),
    }
    Ok(divided.ok())
}

/// Checks that a channel behind hosts accounts for each packet that they submitted to it.
fn check_behind_hosts(
    behind: Option<(Observations, u64)>,
    name: &str,
    seed: u64,
) -> Result<(), Error> {
    let Some((observations, held)) = behind else { return Ok(()) };
    observations.conserve(held).map_err(|error| Error::Conservation {
        channel: name.to_owned(),
        seed,
        problem: format!("behind its hosts, {error}"),
    })
}

/// A channel under a schedule, and the one that carries its signalling: a run of each that has a workload.
fn run_coupled(
    spec: &Spec,
    settings: &ChannelSettings,
    schedule: couple::Schedule<'_>,
    site: Site<'_>,
    seed: u64,
    halt: &Halt,
) -> Result<Vec<ChannelRun>, Error> {
    let mut coupled = couple::coupled(spec, settings, schedule, site)?;
    if spec.run.trace {
        coupled.record_traces();
    }
    let stopped = coupled.run(site.until, halt);
    if let Some(problem) = coupled.broken_schedule() {
        let channel = site.name.to_owned();
        return Err(Error::Schedule { channel, seed, problem });
    }
    let traces = coupled.take_traces();
    let (steps, counters) = (coupled.steps(), named(coupled.columns(site.until)));
    let OfBoth { bulk, quick } = coupled.into_channels();
    let run = |settings: &ChannelSettings, site: Site<'_>, channel: Engine, trace| ChannelRun {
        backlog: channel.backlog(),
        in_flight: channel.in_flight(),
        steps,
        stopped,
        waiting: channel.waiting(),
        counters: named(channel.counters(site.until)),
        trace,
        handlers: channel.handlers(),
        observations: channel.into_observations(),
        ..ChannelRun::of(settings, site, seed)
    };
    let by = &schedule.1.by;
    let mut runs = vec![
        ChannelRun { counters, ..run(settings, site, bulk, traces.bulk) },
        run(&spec.channel[by], Site { name: by, ..site }, quick, traces.quick),
    ];
    runs.iter().try_for_each(ChannelRun::check_conservation)?;
    runs.iter().try_for_each(ChannelRun::check_capacity)?;
    // A trace is worth a row of its own; nothing else of a channel without traffic is.
    runs.retain(|run| spec.workload.contains_key(&run.channel) || !run.trace.is_empty());
    Ok(runs)
}

impl ChannelRun {
    /// A run of a channel in which nothing happened.
    fn of(settings: &ChannelSettings, site: Site<'_>, seed: u64) -> ChannelRun {
        ChannelRun {
            channel: site.name.to_owned(),
            seed,
            hosts: site.hosts,
            ends: site.hosts * settings.planes.get(),
            observations: Observations::default(),
            from: site.from,
            until: site.until,
            backlog: 0,
            in_flight: 0,
            steps: 0,
            ended: false,
            stopped: None,
            packet: settings.packet_at_host(),
            packet_size: settings.packet,
            unloaded: settings.packet_span()
                + settings.link.propagation() * 2
                + settings.switch_latency(),
            slot: settings.slot(),
            waiting: Vec::new(),
            counters: Vec::new(),
            trace: Vec::new(),
            network: None,
            flows: None,
            handlers: None,
            course: Vec::new(),
            forwarded: None,
            ranks: None,
            means: [None; Latency::ALL.len()],
            course_of_latency: Vec::new(),
            judgement: judge(&[], Ending::default(), None),
        }
    }

    /// The results of a run, unless it means nothing: a buffer overflowed that must not, an
    /// ordering rule was broken, or a packet is unaccounted for.
    fn finish(
        settings: &ChannelSettings,
        mut driver: Driver,
        site: Site<'_>,
        seed: u64,
    ) -> Result<ChannelRun, Error> {
        let channel = || site.name.to_owned();
        if let Some(problem) = driver.overrun() {
            let problem = problem.to_owned();
            return Err(Error::Overrun { channel: channel(), seed, problem });
        }
        if let Some(problem) = driver.broken_order() {
            return Err(Error::Order { channel: channel(), seed, problem });
        }
        let run = ChannelRun {
            network: driver.network(),
            flows: driver.flows(),
            handlers: driver.handlers(),
            course: driver.course(),
            backlog: driver.backlog(),
            in_flight: driver.in_flight(),
            steps: driver.steps(),
            counters: named(driver.counters(site.until)),
            trace: driver.take_trace(),
            ..ChannelRun::of(settings, site, seed)
        };
        let (observations, behind) = driver.into_accounts();
        check_behind_hosts(behind, site.name, seed)?;
        let run = ChannelRun { observations, ..run };
        run.check_conservation()?;
        run.check_capacity()?;
        Ok(run)
    }

    /// Draws from the course of the run what needs all of it: the means after the warm-up, and
    /// the verdict.
    fn settle(&mut self, regime: Regime) {
        self.means = Latency::ALL.map(|latency| mean(self.observations.recorder(latency), regime));
        if self.ended {
            return;
        }
        let series = self.usual().series().means_ps();
        let mean = self.means[self.usual_latency() as usize];
        if mean.is_some_and(|mean| mean.truncated == 0) {
            self.course_of_latency = in_parts(&series).iter().map(|mean| mean * 1e-6).collect();
        }
        let warm_up = match regime {
            Regime::Steady => Some(mser(&series)),
            Regime::FromEmpty | Regime::Skip(_) => None,
        };
        let progress = self.observations.progress(self.until);
        let standing =
            self.standing(progress.get(progress.len() / 2).map_or(self.from, |at| at.time));
        let ending = Ending {
            stopped: self.stopped.is_some(),
            standing: standing.len(),
            unreachable: self.flows.as_ref().map_or(0, |own| own.unreachable),
            unloaded: self.unloaded.max(self.packet),
        };
        self.judgement = judge(&progress, ending, warm_up);
        if self.judgement.verdict == Verdict::PartlyStuck {
            self.waiting.insert(0, name_standing(&standing));
        }
    }

    /// The hosts with packets in flight, none of which has arrived since an instant; empty if
    /// packets are given up, or not all hosts are watched.
    fn standing(&self, since: Time) -> Vec<usize> {
        let standing = &self.observations.standing;
        let are_all_watched = standing.under_way() == self.backlog + self.in_flight;
        match self.observations.abandoned == 0 && are_all_watched {
            true => standing.since(since),
            false => Vec::new(),
        }
    }

    /// The latency that every packet has: messages over hosts have no queueing of their own.
    pub fn usual(&self) -> &Recorder {
        self.observations.recorder(self.usual_latency())
    }

    /// Its definition.
    pub fn usual_latency(&self) -> Latency {
        match self.observations.recorder(Latency::Queueing).count() {
            0 => Latency::OneWay,
            _ => Latency::Queueing,
        }
    }

    /// Mean time from generation to the start of the transmission that succeeds.
    pub fn mean_queueing(&self) -> Option<Span> {
        let mean = self.observations.recorder(Latency::Queueing).mean_ps()?;
        Some(Span(mean.round() as u64))
    }

    /// How long the measured part was.
    pub fn measured(&self) -> Span {
        self.until.since(self.from)
    }

    /// Packets generated as a fraction of what the links carry.
    pub fn offered_load(&self) -> f64 {
        let time = self.until.since(Time::ZERO);
        let offered = self.network.as_ref().and_then(|network| network.offered);
        let of_packets = offered.map(|own| own.0 as f64 / (time.0 as f64 * f64::from(self.ends)));
        if let Some(flows) = &self.flows {
            return self.load_of_bytes(flows.offered, time) + of_packets.unwrap_or(0.0);
        }
        of_packets.unwrap_or_else(|| self.load(self.observations.generated, time))
    }

    /// Packets delivered in the measured part, as a fraction of what the links carry.
    pub fn accepted_load(&self) -> f64 {
        // Messages differ in size: what they take on a link counts.
        let all = self.measured().0 as f64 * f64::from(self.ends);
        let of_packets = self.network.as_ref().map(|network| network.carried.0 as f64 / all);
        if let Some(flows) = &self.flows {
            return self.load_of_bytes(flows.accepted, self.measured()) + of_packets.unwrap_or(0.0);
        }
        of_packets
            .unwrap_or_else(|| self.load(self.observations.delivered_measured, self.measured()))
    }

    /// The load of flows, which is defined without headers.
    fn load_of_bytes(&self, bytes: u64, time: Span) -> f64 {
        let per_byte = self.packet.0 as f64 / self.packet_size.0 as f64;
        bytes as f64 * per_byte / (time.0 as f64 * f64::from(self.hosts))
    }

    fn load(&self, packets: u64, time: Span) -> f64 {
        let capacity = time.0 as f64 / self.packet.0 as f64 * f64::from(self.hosts);
        packets as f64 / capacity
    }

    /// No link has carried more than it can.
    fn check_capacity(&self) -> Result<(), Error> {
        let (window, busy) = (self.measured(), self.observations.busy());
        let ports = self.network.iter().flat_map(|network| &network.ports);
        let overloaded =
            ports.filter(|port| port.load > 1.0 + ROUNDING).map(|port| port.name.clone());
        let links = busy.iter().enumerate().filter(|(_, busy)| **busy > window);
        let problem = links
            .map(|(link, busy)| format!("link {link} was busy for {busy} of {window}"))
            .chain(overloaded.map(|name| format!("{name} carried more than the cable can")))
            .next();
        match problem {
            None => Ok(()),
            Some(problem) => {
                Err(Error::Capacity { channel: self.channel.clone(), seed: self.seed, problem })
            }
        }
    }

    /// Every packet is delivered, given up by a stated rule, or held by a part.
    fn check_conservation(&self) -> Result<(), Error> {
        self.observations.conserve(self.backlog + self.in_flight).map_err(|error| {
            Error::Conservation {
                channel: self.channel.clone(),
                seed: self.seed,
                problem: error.to_string(),
            }
        })
    }
}

/// Hosts that are named one by one.
const MOST_NAMED: usize = 16;

fn name_standing(hosts: &[usize]) -> String {
    let mut names: Vec<String> = hosts.iter().take(MOST_NAMED).map(usize::to_string).collect();
    if hosts.len() > MOST_NAMED {
        names.push(format!("{} more", hosts.len() - MOST_NAMED));
    }
    let noun = if hosts.len() == 1 { "host" } else { "hosts" };
    format!(
        "no packet of {noun} {} arrived in the second half of the run, though some are in flight",
        names.join(", ")
    )
}

/// The mean of a run in microseconds, under its regime.
fn mean(recorder: &Recorder, regime: Regime) -> Option<Estimate> {
    let series: Vec<f64> = recorder.series().means_ps().iter().map(|mean| mean * 1e-6).collect();
    let steady = match regime {
        Regime::Steady => steady_state(&series),
        Regime::FromEmpty | Regime::Skip(_) => None,
    };
    let Some((estimate, _)) = steady else {
        let mean = recorder.mean_ps()? * 1e-6;
        let batches = batch_means(&series, BATCHES);
        let half_width_95 = batches.and_then(|batches| batches.half_width_95);
        return Some(Estimate { mean, half_width_95, batches: 0, truncated: 0, lag_1: 0.0 });
    };
    Some(estimate)
}

/// Counters as they are stored, where a name has no lifetime.
fn named(counters: Vec<(&'static str, f64)>) -> Vec<(Cow<'static, str>, f64)> {
    counters.into_iter().map(|(name, value)| (name.into(), value)).collect()
}
