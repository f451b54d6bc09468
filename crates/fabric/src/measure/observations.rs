//! All that a run observes about one channel.

use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Span, Time};

use super::progress::Sampler;
use super::{Budget, Fairness, Hops, Instants, LinkUse, Progress, Recorder, Stage, Standing};

/// The latency definitions of the papers, each by its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Latency {
    /// Generation of the packet to the start of the transmission that succeeds (Clint 4.1).
    Queueing,
    /// Generation of the packet to the start of its first transmission.
    FirstAttempt,
    /// Generation of the packet to the arrival of its last byte at the target.
    OneWay,
    /// Start of the transmission that succeeds to the arrival of the last byte at the target.
    Transit,
    /// Start of the transmission that succeeds to the end of its acknowledgment (Clint 3.2).
    RoundTrip,
}

/// Why a packet was dropped. Each is a stated rule of some part; nothing is lost otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Drop {
    /// It lost against another packet in a bufferless switch.
    Collision,
    /// The output buffer of the switch was full.
    Overflow,
    /// The target had no receive buffer.
    NoReceiveBuffer,
    /// Its check code was wrong at the target.
    Corrupted,
    /// The target had disabled its initiator.
    Disabled,
    /// An older packet of its pair had not arrived, and packets of a pair arrive in order.
    OutOfOrder,
    /// Initiator and target belong to different virtual networks.
    Protected,
    /// A switch had trimmed it to its header, and its initiator does not retransmit it.
    Trimmed,
    /// It was on a cable that failed, or was sent over a failed cable.
    FailedCable,
}

/// What a packet collided with in a bufferless switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collision {
    /// Another request packet.
    Request,
    /// An acknowledgment packet.
    Acknowledgment,
    /// A packet of the schedule of another channel.
    Control,
    /// A transfer of another channel on the same link, which had no room for it.
    Transfer,
}

/// The counters and recorders of one channel of one run. Attempts are counted apart from packets:
/// a dropped attempt that is sent again is not a lost packet.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Observations {
    /// Records and counters of throughput start here (end of warm-up).
    pub from: Time,
    /// Packets submitted by the workload, whole run; counted by [`generate`](Self::generate).
    pub generated: u64,
    /// Packets delivered to their target, whole run.
    pub delivered: u64,
    /// Packets given up by a stated rule (retry limit), whole run; counted by
    /// [`abandon`](Self::abandon).
    pub abandoned: u64,
    /// Packets delivered since `from`.
    pub delivered_measured: u64,
    /// Payload delivered since `from`.
    pub payload_measured: Bytes,
    /// Transmissions started, retries included, since `from`.
    pub attempts: u64,
    /// Deliveries since `from` by initiator; counts nothing unless [`of_hosts`](Self::of_hosts).
    pub fairness: Fairness,
    /// How many packets each initiator has in flight, and since when none of them has arrived:
    /// finds stalled initiators. Watches no host unless [`of_hosts`](Self::of_hosts).
    pub standing: Standing,
    /// Deliveries since `from` by the number of switches passed; empty if there is only one switch.
    pub hops: Hops,
    /// The latency budget of packets delivered since `from`.
    pub budget: Budget,
    /// Deliveries since `from` by traffic class; empty where packets have none.
    pub classes: Vec<ClassSeen>,
    /// Which packets were in flight when, if that is recorded; not stored with the rest.
    #[serde(skip)]
    pub(super) passages: Option<Vec<Passage>>,
    /// The deliveries since [`note_deliveries`](Self::note_deliveries), to be repeated.
    #[serde(skip)]
    pub(super) noted: Option<Vec<Instants>>,
    links: LinkUse,
    /// The end of the run, if it is known.
    until: Time,
    pub(super) sampler: Sampler,
    pub(super) latencies: [Recorder; Latency::ALL.len()],
    pub(super) drops: [u64; Drop::ALL.len()],
    collisions: [u64; Collision::ALL.len()],
}

/// The deliveries of a traffic class.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ClassSeen {
    /// Payload.
    pub payload: Bytes,
    /// From handing a packet over to its delivery.
    pub one_way: Recorder,
}

/// A packet or a message from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// When it began: for a packet the start of its transmission, for a message its submission.
    pub start: Time,
    /// When its last byte reached the target.
    pub end: Time,
}

/// Parts and counters of a channel disagree: a packet was lost or made up by no stated rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConservationError {
    /// More packets left than entered.
    #[error(
        "{delivered} packets were delivered and {abandoned} given up, but only {generated} \
         generated"
    )]
    MadeUp {
        /// Packets generated.
        generated: u64,
        /// Packets delivered.
        delivered: u64,
        /// Packets given up.
        abandoned: u64,
    },
    /// The parts do not hold what is neither delivered nor given up.
    #[error(
        "{outstanding} of {generated} generated packets are neither delivered nor given up, but \
         the parts hold {held}"
    )]
    Unaccounted {
        /// Packets generated.
        generated: u64,
        /// Packets neither delivered nor given up.
        outstanding: u64,
        /// Packets that the parts hold.
        held: u64,
    },
}

impl Latency {
    /// Every definition, in the order of the columns.
    pub const ALL: [Latency; 5] = [
        Latency::Queueing,
        Latency::FirstAttempt,
        Latency::OneWay,
        Latency::Transit,
        Latency::RoundTrip,
    ];

    /// The name in columns, to which statistic and unit are added: `queueing_mean_us`.
    pub const fn name(self) -> &'static str {
        match self {
            Latency::Queueing => "queueing",
            Latency::FirstAttempt => "first_attempt",
            Latency::OneWay => "one_way",
            Latency::Transit => "transit",
            Latency::RoundTrip => "round_trip",
        }
    }
}

impl Drop {
    /// Every rule, in the order of the columns.
    pub const ALL: [Drop; 9] = [
        Drop::Collision,
        Drop::Overflow,
        Drop::NoReceiveBuffer,
        Drop::Corrupted,
        Drop::Disabled,
        Drop::OutOfOrder,
        Drop::Protected,
        Drop::Trimmed,
        Drop::FailedCable,
    ];

    /// The name in columns.
    pub const fn name(self) -> &'static str {
        match self {
            Drop::Collision => "collision",
            Drop::Overflow => "overflow",
            Drop::NoReceiveBuffer => "no_receive_buffer",
            Drop::Corrupted => "corrupted",
            Drop::Disabled => "disabled",
            Drop::OutOfOrder => "out_of_order",
            Drop::Protected => "protected",
            Drop::Trimmed => "trimmed",
            Drop::FailedCable => "failed_cable",
        }
    }
}

impl Collision {
    /// Every kind, in the order of the columns.
    pub const ALL: [Collision; 4] =
        [Collision::Request, Collision::Acknowledgment, Collision::Control, Collision::Transfer];

    /// The name in columns.
    pub const fn name(self) -> &'static str {
        match self {
            Collision::Request => "request",
            Collision::Acknowledgment => "acknowledgment",
            Collision::Control => "control",
            Collision::Transfer => "transfer",
        }
    }
}

impl Observations {
    /// Observations that start to record at `from`.
    pub fn starting(from: Time) -> Observations {
        Observations { from, ..Observations::default() }
    }

    /// Observations of a run that ends at `until`: [`starting`](Self::starting) at `from`, and
    /// [`watch`](Self::watch)ed.
    pub fn over(from: Time, until: Time) -> Observations {
        let mut observations = Observations::starting(from);
        observations.watch(until);
        observations
    }

    /// Notes the counters at 64 equal steps of the window from `from` to `until`, from which the
    /// verdict is formed. To be called before the first event.
    pub fn watch(&mut self, until: Time) {
        self.sampler = Sampler::new(self.from, until);
        self.until = until;
    }

    /// Also counts deliveries by initiator, for `hosts` hosts.
    #[must_use]
    pub fn of_hosts(self, hosts: usize) -> Observations {
        let standing = Standing::among(hosts);
        Observations { fairness: Fairness::among(hosts), standing, ..self }
    }

    /// Also counts the deliveries of `count` traffic classes separately.
    #[must_use]
    pub fn of_classes(self, count: usize) -> Observations {
        Observations { classes: vec![ClassSeen::default(); count], ..self }
    }

    /// Also takes links whose busy times are known.
    #[must_use]
    pub fn with_busy(self, busy: Vec<Span>) -> Observations {
        Observations { links: LinkUse::known(busy), ..self }
    }

    /// How long each direction of each cable was busy since `from`; empty if that is not recorded.
    pub fn busy(&self) -> &[Span] {
        self.links.busy()
    }

    /// Takes the busy times of links from the observations of the channel behind the hosts.
    pub fn take_links(&mut self, behind: &Observations) {
        self.links = behind.links.clone();
    }

    /// Counts one packet submitted by the workload.
    #[inline]
    pub fn generate(&mut self, now: Time) {
        self.sample(now);
        self.generated += 1;
    }

    /// Counts one packet submitted by the workload, and its initiator.
    #[inline]
    pub fn generate_from(&mut self, initiator: usize, now: Time) {
        self.generate(now);
        self.standing.hand_over(initiator, now);
    }

    /// Counts one packet of each of these initiators, submitted at the same instant.
    pub fn generate_from_each(&mut self, initiators: &[u32], now: Time) {
        self.sample(now);
        self.generated += initiators.len() as u64;
        for initiator in initiators {
            self.standing.hand_over(*initiator as usize, now);
        }
    }

    /// Counts this many packets submitted together by one initiator.
    pub fn generate_all_from(&mut self, initiator: usize, now: Time, packets: u64) {
        self.sample(now);
        self.generated += packets;
        self.standing.hand_over_all(initiator, packets, now);
    }

    /// Counts one packet given up by a stated rule.
    #[inline]
    pub fn abandon(&mut self, now: Time) {
        self.sample(now);
        self.abandoned += 1;
    }

    /// Counts one packet given up by a stated rule, and whose it was.
    #[inline]
    pub fn abandon_from(&mut self, initiator: usize, now: Time) {
        self.abandon(now);
        self.standing.give_up(initiator);
    }

    /// Records one latency known at `now`, unless `now` lies in the warm-up.
    #[inline]
    pub fn latency(&mut self, kind: Latency, now: Time, span: Span) {
        if now >= self.from {
            self.latencies[kind as usize].record(now, span);
        }
    }

    /// Counts one delivery of `payload` bytes.
    #[inline]
    pub fn deliver(&mut self, now: Time, payload: Bytes) {
        self.sample(now);
        self.delivered += 1;
        if now >= self.from {
            self.delivered_measured += 1;
            self.payload_measured += payload;
        }
    }

    /// Counts one delivery of `payload` bytes, and its initiator.
    #[inline]
    pub fn deliver_from(&mut self, initiator: usize, now: Time, payload: Bytes) {
        self.deliver(now, payload);
        self.standing.deliver(initiator, now);
        if now >= self.from {
            self.fairness.count(initiator);
        }
    }

    /// Prefetches what the delivery of a packet of an initiator writes.
    #[inline]
    pub fn prefetch_of(&self, initiator: usize) {
        self.standing.prefetch(initiator);
        self.fairness.prefetch(initiator);
    }

    /// Adds the span that a packet delivered at `now` spent in a stage.
    #[inline]
    pub fn spend(&mut self, stage: Stage, now: Time, span: Span) {
        if now >= self.from {
            self.budget.add(stage, span);
        }
    }

    /// Notes passages from now on.
    pub fn note_passages(&mut self) {
        self.passages = Some(Vec::new());
    }

    /// Records a passage, if passages are recorded.
    #[inline]
    pub fn pass(&mut self, passage: Passage) {
        if let Some(passages) = &mut self.passages {
            passages.push(passage);
        }
    }

    /// The passages recorded so far, in order of their beginnings.
    pub fn take_passages(&mut self) -> Vec<Passage> {
        let mut passages = self.passages.as_mut().map(std::mem::take).unwrap_or_default();
        passages.sort_by_key(|passage| (passage.start, passage.from, passage.to));
        passages
    }

    /// Counts one start of a transmission.
    #[inline]
    pub fn attempt(&mut self, now: Time) {
        if now >= self.from {
            self.attempts += 1;
        }
    }

    /// Counts one dropped transmission.
    #[inline]
    pub fn drop(&mut self, rule: Drop, now: Time) {
        if now >= self.from {
            self.drops[rule as usize] += 1;
        }
    }

    /// Counts one collision.
    #[inline]
    pub fn collide(&mut self, with: Collision, now: Time) {
        if now >= self.from {
            self.collisions[with as usize] += 1;
        }
    }

    /// The recorder of one latency definition.
    pub fn recorder(&self, kind: Latency) -> &Recorder {
        &self.latencies[kind as usize]
    }

    /// How many transmissions were dropped by a rule.
    pub fn dropped(&self, rule: Drop) -> u64 {
        self.drops[rule as usize]
    }

    /// How many collisions there were with one kind of packet.
    pub fn collisions(&self, with: Collision) -> u64 {
        self.collisions[with as usize]
    }

    /// Packets that are neither delivered nor given up: what the parts must still hold. Zero if
    /// more left than entered, which [`conserve`](Self::conserve) refuses.
    pub fn outstanding(&self) -> u64 {
        self.counters(Time::ZERO).backlog()
    }

    /// Checks that generated = delivered + given up + `held`, the packets that the parts hold in
    /// queues, in buffers, on wires and for retransmission, each once.
    pub fn conserve(&self, held: u64) -> Result<(), ConservationError> {
        let Observations { generated, delivered, abandoned, .. } = *self;
        if delivered + abandoned > generated {
            return Err(ConservationError::MadeUp { generated, delivered, abandoned });
        }
        let outstanding = self.outstanding();
        if outstanding != held {
            return Err(ConservationError::Unaccounted { generated, outstanding, held });
        }
        Ok(())
    }

    /// The counters from the end of the warm-up to `now`, the end of the run or the instant at
    /// which it was stopped: at the steps of [`over`](Self::over) up to then, and at `now`.
    pub fn progress(&self, now: Time) -> Vec<Progress> {
        let mut sampler = self.sampler.clone();
        sampler.take(self.counters(now));
        let mut progress = sampler.into_samples();
        // The last step is recorded before the events of its instant, which belong to the run.
        progress.pop_if(|last| last.time == now);
        progress.push(self.counters(now));
        progress
    }

    /// When the counters are recorded next; [`Time::NEVER`] if not again. A caller that counts
    /// later than things happen must have counted everything before that instant, and nothing after
    /// it, when it calls [`sample`](Self::sample).
    #[inline]
    pub fn next_sample(&self) -> Time {
        self.sampler.due()
    }

    /// Notes the counters if that is due; also called before a counter changes at `now`.
    #[inline]
    pub fn sample(&mut self, now: Time) {
        if self.sampler.is_due(now) {
            self.sampler.take(self.counters(now));
        }
    }

    pub(super) fn counters(&self, time: Time) -> Progress {
        let Observations { generated, delivered, abandoned, .. } = *self;
        Progress { time, generated, delivered, abandoned }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: Bytes = Bytes(16);

    #[test]
    fn what_happens_in_the_warm_up_is_conserved_but_not_measured() {
        let mut seen = Observations::starting(Time(100)).of_hosts(2);
        for now in [Time(50), Time(100)] {
            seen.generate(now);
            seen.attempt(now);
            seen.drop(Drop::Collision, now);
            seen.collide(Collision::Request, now);
            seen.latency(Latency::OneWay, now, Span(7));
            seen.spend(Stage::Wire, now, Span(7));
            seen.deliver_from(1, now, PAYLOAD);
        }
        assert_eq!((seen.generated, seen.delivered, seen.outstanding()), (2, 2, 0));
        assert_eq!((seen.delivered_measured, seen.payload_measured), (1, PAYLOAD));
        assert_eq!((seen.attempts, seen.dropped(Drop::Collision)), (1, 1));
        assert_eq!(seen.collisions(Collision::Request), 1);
        assert_eq!(seen.recorder(Latency::OneWay).count(), 1);
        assert_eq!(seen.fairness.delivered(), [0, 1]);
        assert_eq!(u128::from(seen.budget.count(Stage::Wire)), seen.budget.total_ps() / 7);
    }

    #[test]
    fn conservation_names_what_is_wrong() {
        let mut seen = Observations::default();
        (0..5).for_each(|now| seen.generate(Time(now)));
        seen.deliver(Time(6), PAYLOAD);
        seen.abandon(Time(7));
        assert_eq!(seen.conserve(3), Ok(()));
        let refused = seen.conserve(2).map_err(|error| error.to_string());
        let expected = "3 of 5 generated packets are neither delivered nor given up, but the parts \
                        hold 2";
        assert_eq!(refused, Err(expected.to_owned()));

        (0..4).for_each(|_| seen.deliver(Time(8), PAYLOAD));
        let refused = seen.conserve(0).map_err(|error| error.to_string());
        let expected = "5 packets were delivered and 1 given up, but only 5 generated";
        assert_eq!((refused, seen.outstanding()), (Err(expected.to_owned()), 0));
    }

    #[test]
    fn progress_is_what_stood_at_each_step() {
        let mut seen = Observations::over(Time(0), Time(6400));
        (0..64).for_each(|step| seen.generate(Time(step * 100)));
        seen.deliver(Time(6350), PAYLOAD);
        seen.deliver(Time(6400), PAYLOAD);
        let progress = seen.progress(Time(6400));
        assert_eq!(progress.len(), 65);
        // What is generated at the very instant of a step belongs to the next one.
        for (step, sample) in progress[..64].iter().enumerate() {
            assert_eq!((sample.time, sample.backlog()), (Time(step as u64 * 100), step as u64));
        }
        assert_eq!((progress[64].generated, progress[64].backlog()), (64, 62));
    }

    #[test]
    fn progress_of_a_stopped_run_ends_there() {
        let mut seen = Observations::over(Time(0), Time(6400));
        seen.generate(Time(10));
        let progress = seen.progress(Time(150));
        let times: Vec<_> = progress.iter().map(|sample| sample.time.0).collect();
        assert_eq!(times, [0, 100, 150]);
        assert_eq!(progress[2].backlog(), 1);
    }

    #[test]
    fn every_name_is_a_place_of_its_own() {
        let places = |all: Vec<usize>| all.into_iter().enumerate().all(|(at, place)| at == place);
        assert!(places(Latency::ALL.iter().map(|&kind| kind as usize).collect()));
        assert!(places(Drop::ALL.iter().map(|&rule| rule as usize).collect()));
        assert!(places(Collision::ALL.iter().map(|&with| with as usize).collect()));
    }
}
