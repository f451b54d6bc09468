//! One run: a pure function of what is run and a seed.

use weft_fabric::measure::{Latency, Observations};
use weft_kernel::{Halt, Stopped, Streams};
use weft_units::{Span, Time};

use crate::assemble::{Driver, Site};
use crate::composition::Spec;
use crate::error::Error;
use crate::experiment::Regime;

/// What one run showed of one channel.
#[derive(Clone, Debug)]
pub struct ChannelRun {
    /// The channel.
    pub channel: String,
    /// The seed of the run.
    pub seed: u64,
    /// How many hosts there are.
    pub hosts: u16,
    /// What was counted and recorded.
    pub observations: Observations,
    /// From where on it was recorded.
    pub from: Time,
    /// When the run was to end.
    pub until: Time,
    /// Packets at the end whose transmission had not begun.
    pub backlog: u64,
    /// Packets at the end on their way.
    pub in_flight: u64,
    /// Slots or events that it took.
    pub steps: u64,
    /// Why it ended early, if it did.
    pub stopped: Option<Stopped>,
    /// The time that a packet occupies its link.
    pub packet: Span,
    /// The time from slot to slot, where there are slots.
    pub slot: Option<Span>,
    /// Who waits for whom, if packets were under way and nothing was to happen any more.
    pub waiting: Vec<String>,
}

/// Runs what `spec` describes, once, with one seed: one element per channel that has a workload.
pub fn simulate(spec: &Spec, seed: u64, halt: &Halt) -> Result<Vec<ChannelRun>, Error> {
    let streams = Streams::new(seed);
    let until = Time::ZERO + spec.run.length;
    let from = match spec.run.regime {
        Regime::FromEmpty | Regime::Steady => Time::ZERO,
        Regime::Skip(span) => Time::ZERO + span,
    };
    let halt = halt.with_step_limit(spec.run.step_limit);
    let mut runs = Vec::new();
    for (name, settings) in &spec.channel {
        let Some(workload) = spec.workload.get(name) else { continue };
        let site = Site { name, hosts: spec.system.hosts, streams: &streams, from, until };
        let mut driver = Driver::new(settings, Some(workload), site)?;
        let stopped = driver.run(until, &halt);
        let run = ChannelRun {
            channel: name.clone(),
            seed,
            hosts: spec.system.hosts,
            backlog: driver.backlog(),
            in_flight: driver.in_flight(),
            steps: driver.steps(),
            stopped,
            packet: settings.packet_span(),
            slot: settings.slot(),
            waiting: driver.waiting(),
            observations: driver.into_observations(),
            from,
            until,
        };
        run.check_conservation()?;
        runs.push(run);
    }
    Ok(runs)
}

impl ChannelRun {
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
        self.load(self.observations.generated, self.until.since(Time::ZERO))
    }

    /// Packets delivered in the measured part, as a fraction of what the links carry.
    pub fn accepted_load(&self) -> f64 {
        self.load(self.observations.delivered_measured, self.measured())
    }

    fn load(&self, packets: u64, time: Span) -> f64 {
        let capacity = time.0 as f64 / self.packet.0 as f64 * f64::from(self.hosts);
        packets as f64 / capacity
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
