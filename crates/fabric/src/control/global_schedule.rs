//! The global schedule of a bufferless channel: arbitration, transfer, acknowledgment (Clint 3.3).
//!
//! Each stage is one slot long, so in any slot three sets of connections are alive: those granted
//! in it, those that transfer (granted one slot before) and those whose acknowledgments come back
//! (granted two slots before) over the inverted connections. Nothing in the switch can collide and
//! nothing needs a buffer there.
//!
//! The caller reports what arrives, and the part returns what happens next. A slotted driver with
//! ideal control keeps the requests up to date and calls [`GlobalSchedule::advance`] once a slot;
//! an event driver begins a cycle, hands over each configuration as its packet arrives, advances,
//! and sends the grants and acknowledgments as packets of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;
use weft_protocol::adapter::TransmissionError;
use weft_protocol::packet::{
    Configuration, FieldError, Grant, Port, SlotNumber, TransmissionReport,
};

use super::Speculation;
use crate::scheduler::{
    AnyScheduler, Matching, PortSet, Requests, Scheduler, SchedulerError, SchedulerSettings,
};

/// The largest switch under a global schedule: what a node asks for and accepts are words.
const MAX_PORTS: usize = PortSet::<1>::MOST;

/// Settings of a global schedule.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobalScheduleSettings {
    /// The algorithm that turns requests into grants.
    pub scheduler: SchedulerSettings,
    /// Whether unmatched initiators and targets are granted without request. An option that the
    /// paper names and does not describe.
    #[serde(default)]
    pub speculation: Speculation,
}

/// A node's request at the beginning of an arbitration cycle: the content of `cfg`. Sets of ports,
/// one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeConfiguration {
    /// The targets for which the initiator has a full send buffer.
    pub requests: u64,
    /// The initiators from which the target accepts bulk requests.
    pub bulk_enable: u64,
    /// The initiators from which the target accepts quick requests.
    pub quick_enable: u64,
}

/// The arbiter's response to a node at the end of an arbitration cycle: the content of `gnt`. Every
/// node gets one at the same time, which keeps the nodes in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantNotice {
    /// The switch port from which the grant leaves: the node's identifier (Clint 3.3).
    pub node: usize,
    /// The slot in which the transfer takes place.
    pub slot: u64,
    /// The granted target.
    pub target: Option<usize>,
    /// Whether the target was granted without a request. Not a field of the packet: the node
    /// notices it if it has nothing to send.
    pub speculative: bool,
}

/// How a target received the request packet of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// It was whole, and a receive buffer took it.
    Accepted,
    /// It was whole, and no receive buffer was free.
    NoReceiveBuffer,
    /// Its check code was wrong. The target stays silent, since the initiator that the packet names
    /// may be the wrong one.
    Corrupted,
}

/// What an initiator knows of its transfer when the acknowledgment stage is over (`trErr`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferReport {
    /// The initiator.
    pub initiator: usize,
    /// The target.
    pub target: usize,
    /// The outcome.
    pub outcome: Result<(), TransmissionError>,
}

/// The bulk pipeline of one channel.
#[derive(Clone, Debug)]
pub struct GlobalSchedule {
    speculation: Speculation,
    scheduler: AnyScheduler,
    ports: usize,
    /// The requests, whether or not the targets accept them.
    asked: Requests,
    /// The requests that targets accept: the scheduler's input.
    admitted: Requests,
    bulk_enable: [PortSet; MAX_PORTS],
    slot: u64,
    granted: Matching,
    speculative: PortSet,
    transferring: Transfers,
    acknowledging: Transfers,
}

/// The connections of one slot and what was sent over them.
#[derive(Clone, Debug)]
struct Transfers {
    matching: Matching,
    /// Initiators that have sent.
    sent: PortSet,
    /// By target.
    receptions: [Option<Reception>; MAX_PORTS],
}

impl GlobalScheduleSettings {
    /// The pipeline in its initial state: nothing requested, all initiators enabled, slot zero.
    ///
    /// # Errors
    /// [`SchedulerError`] for a number of ports that the scheduler does not support.
    pub fn build(&self, ports: usize) -> Result<GlobalSchedule, SchedulerError> {
        Ok(GlobalSchedule {
            speculation: self.speculation,
            scheduler: self.scheduler.build(ports)?,
            ports,
            asked: Requests::new(ports),
            admitted: Requests::new(ports),
            bulk_enable: [PortSet::below(ports); MAX_PORTS],
            slot: 0,
            granted: Matching::new(ports),
            speculative: PortSet::EMPTY,
            transferring: Transfers::new(ports),
            acknowledging: Transfers::new(ports),
        })
    }
}

impl GlobalSchedule {
    /// The number of ports.
    pub fn ports(&self) -> usize {
        self.ports
    }

    /// The current slot: how often the pipeline has advanced.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    // Arbitration stage: what initiators request and targets accept.

    /// Begins an arbitration cycle in which each node's requests arrive anew. A node whose
    /// configuration does not arrive requests nothing; what it accepts stays as it was.
    pub fn begin_cycle(&mut self) {
        self.asked.clear_all();
        self.admitted.clear_all();
    }

    /// Takes over the requests and the bulk enable vector of a node, as its configuration reaches
    /// the scheduler. The quick enable vector is not used here: the quick switch obeys it.
    pub fn configure(&mut self, node: usize, configuration: NodeConfiguration) {
        for target in 0..self.ports {
            let is_asked = configuration.requests >> target & 1 == 1;
            self.set_request(node, target, is_asked);
        }
        self.set_bulk_enable(node, configuration.bulk_enable);
    }

    /// An initiator requests a target, or no longer does.
    #[inline]
    pub fn set_request(&mut self, initiator: usize, target: usize, is_asked: bool) {
        if is_asked {
            self.asked.set(initiator, target);
        } else {
            self.asked.clear(initiator, target);
        }
        self.admit(initiator, target);
    }

    /// A target accepts bulk requests from these initiators only. Any other one is disabled, for
    /// example because it is suspected to malfunction (Clint 3.3).
    pub fn set_bulk_enable(&mut self, target: usize, initiators: u64) {
        let initiators = PortSet::from_words(&[initiators]) & PortSet::below(self.ports);
        let before = std::mem::replace(&mut self.bulk_enable[target], initiators);
        for initiator in (before - initiators) | (initiators - before) {
            self.admit(initiator, target);
        }
    }

    /// Whether a target accepts bulk requests from an initiator.
    pub fn is_bulk_enabled(&self, initiator: usize, target: usize) -> bool {
        self.bulk_enable[target].contains(initiator)
    }

    /// The requests that the scheduler sees: requested and accepted.
    pub fn requests(&self) -> &Requests {
        &self.admitted
    }

    fn admit(&mut self, initiator: usize, target: usize) {
        if self.asked.contains(initiator, target) && self.is_bulk_enabled(initiator, target) {
            self.admitted.set(initiator, target);
        } else {
            self.admitted.clear(initiator, target);
        }
    }

    /// Ends a slot: its requests become the grants for the slot that begins, and every transfer
    /// moves one stage on. Returns the connections that transfer in the slot that begins.
    pub fn advance(&mut self, random: &mut Stream) -> &Matching {
        self.arbitrate(random);
        self.begin_slot()
    }

    /// The first half of [`advance`](GlobalSchedule::advance): calculates the grants. An event
    /// driver sends them before the slot ends.
    pub fn arbitrate(&mut self, random: &mut Stream) {
        self.scheduler.schedule(&self.admitted, random, &mut self.granted);
        let enabled = |target: usize| self.bulk_enable[target];
        self.speculative = self.speculation.extend(&self.admitted, enabled, &mut self.granted);
        debug_assert!(is_conflict_free(&self.granted), "{:?}", self.granted);
    }

    /// The second half of [`advance`](GlobalSchedule::advance): the slot boundary. Grants are
    /// good for one slot; without another arbitration the slot after it has none.
    pub fn begin_slot(&mut self) -> &Matching {
        std::mem::swap(&mut self.transferring, &mut self.acknowledging);
        self.transferring.clear();
        std::mem::swap(&mut self.transferring.matching, &mut self.granted);
        self.slot += 1;
        &self.transferring.matching
    }

    /// The grant for each node at the end of the arbitration stage, by ascending node.
    pub fn grants(&self) -> impl Iterator<Item = GrantNotice> {
        (0..self.ports).map(|node| self.grant(node))
    }

    /// The grant for one node at the end of the arbitration stage.
    pub fn grant(&self, node: usize) -> GrantNotice {
        let target = self.granted.target_of(node);
        let speculative = self.speculative.contains(node);
        GrantNotice { node, slot: self.slot + 1, target, speculative }
    }

    // Transfer stage.

    /// The connections of the bulk switch in this slot.
    pub fn transferring(&self) -> &Matching {
        &self.transferring.matching
    }

    /// An initiator uses its grant. Returns the target, or `None` without a grant.
    pub fn transmit(&mut self, initiator: usize) -> Option<usize> {
        let target = self.transferring.matching.target_of(initiator)?;
        self.transferring.sent.insert(initiator);
        Some(target)
    }

    /// A target has seen the end of the request packet of this slot. Without a connection to it
    /// there is no packet, and nothing happens.
    pub fn receive(&mut self, target: usize, reception: Reception) {
        if self.transferring.matching.initiator_of(target).is_some() {
            self.transferring.receptions[target] = Some(reception);
        }
    }

    // Acknowledgment stage.

    /// The connections of the quick switch for the acknowledgments of this slot: as (target,
    /// initiator), the connections of the transfer stage before in the opposite direction.
    pub fn acknowledgment_paths(&self) -> Matching {
        let paths = inverted(&self.acknowledging.matching, self.ports);
        debug_assert!(is_conflict_free(&paths), "{paths:?}");
        paths
    }

    /// The initiator to which an acknowledgment from `target` goes in this slot.
    pub fn acknowledgment_path(&self, target: usize) -> Option<usize> {
        self.acknowledging.matching.initiator_of(target)
    }

    /// What targets acknowledge in this slot, by ascending initiator.
    pub fn acknowledgments(&self) -> impl Iterator<Item = TransmissionReport> + use<'_> {
        let Transfers { matching, receptions, .. } = &self.acknowledging;
        matching.iter().filter_map(|(_, target)| receptions[target]?.acknowledgment())
    }

    /// The outcomes that initiators know at the end of this slot, by ascending initiator.
    pub fn reports(&self) -> impl Iterator<Item = TransferReport> + use<'_> {
        let Transfers { matching, sent, receptions } = &self.acknowledging;
        let senders = matching.iter().filter(move |(initiator, _)| sent.contains(*initiator));
        senders.map(|(initiator, target)| {
            let outcome = match receptions[target].and_then(Reception::acknowledgment) {
                Some(TransmissionReport::Accepted) => Ok(()),
                Some(TransmissionReport::NoReceiveBuffer) => {
                    Err(TransmissionError::NoReceiveBuffer)
                }
                None => Err(TransmissionError::NoAcknowledgment),
            };
            TransferReport { initiator, target, outcome }
        })
    }
}

impl Reception {
    /// The acknowledgment that the target sends, if any (Clint 3.3).
    pub const fn acknowledgment(self) -> Option<TransmissionReport> {
        match self {
            Reception::Accepted => Some(TransmissionReport::Accepted),
            Reception::NoReceiveBuffer => Some(TransmissionReport::NoReceiveBuffer),
            Reception::Corrupted => None,
        }
    }
}

impl GrantNotice {
    /// The notice as a packet.
    ///
    /// # Errors
    /// [`FieldError::Port`] beyond the 16 ports that the packet has room for.
    pub fn packet(&self) -> Result<Grant, FieldError> {
        Ok(Grant {
            node: Port::new(self.node)?,
            slot: SlotNumber::of(self.slot),
            target: self.target.map(Port::new).transpose()?,
        })
    }
}

impl From<Configuration> for NodeConfiguration {
    fn from(packet: Configuration) -> NodeConfiguration {
        NodeConfiguration {
            requests: packet.requests.0.into(),
            bulk_enable: packet.bulk_enable.0.into(),
            quick_enable: packet.quick_enable.0.into(),
        }
    }
}

impl Transfers {
    fn new(ports: usize) -> Transfers {
        Transfers {
            matching: Matching::new(ports),
            sent: PortSet::EMPTY,
            receptions: [None; MAX_PORTS],
        }
    }

    fn clear(&mut self) {
        for (_, target) in self.matching.iter() {
            self.receptions[target] = None;
        }
        self.matching.clear();
        self.sent = PortSet::EMPTY;
    }
}

/// The connections in the opposite direction.
fn inverted(matching: &Matching, ports: usize) -> Matching {
    let mut paths = Matching::new(ports);
    for (initiator, target) in matching.iter() {
        paths.pair(target, initiator);
    }
    paths
}

/// Whether no initiator and no target occurs twice, and both directions agree.
fn is_conflict_free(matching: &Matching) -> bool {
    let mut targets: PortSet = PortSet::EMPTY;
    matching.iter().all(|(initiator, target)| {
        let is_first = !targets.contains(target);
        targets.insert(target);
        is_first && matching.initiator_of(target) == Some(initiator)
    })
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;
    use crate::scheduler::{Counts, LeastChoiceFirstSettings, Ties};

    fn schedule(ports: usize, speculation: Speculation) -> (GlobalSchedule, Stream) {
        let scheduler = SchedulerSettings::LeastChoiceFirst(LeastChoiceFirstSettings {
            round_robin: false,
            counts: Counts::Remaining,
            ties: Ties::Lowest,
        });
        let settings = GlobalScheduleSettings { scheduler, speculation };
        let random = Streams::new(1).stream("scheduler", 0);
        (settings.build(ports).expect("a number of ports that fits"), random)
    }

    /// One packet from 0 to 1 through the three stages.
    fn transfer(reception: Option<Reception>) -> (Vec<TransmissionReport>, Vec<TransferReport>) {
        let (mut schedule, mut random) = schedule(2, Speculation::Off);
        schedule.set_request(0, 1, true);
        schedule.advance(&mut random);
        schedule.set_request(0, 1, false);
        assert_eq!(schedule.transmit(0), Some(1));
        if let Some(reception) = reception {
            schedule.receive(1, reception);
        }
        assert_eq!(schedule.reports().count(), 0, "nothing is known in the transfer stage");
        schedule.advance(&mut random);
        assert_eq!(schedule.acknowledgment_path(1), Some(0));
        let acknowledgments = schedule.acknowledgments().collect();
        let reports = schedule.reports().collect();
        schedule.advance(&mut random);
        assert_eq!(schedule.reports().count() + schedule.acknowledgments().count(), 0);
        (acknowledgments, reports)
    }

    /// Clint 3.3: the four ways in which a transfer ends.
    #[test]
    fn a_transfer_ends_in_one_of_four_ways() {
        let report = |outcome| vec![TransferReport { initiator: 0, target: 1, outcome }];
        let silence = report(Err(TransmissionError::NoAcknowledgment));
        let refused = report(Err(TransmissionError::NoReceiveBuffer));
        assert_eq!(
            transfer(Some(Reception::Accepted)),
            (vec![TransmissionReport::Accepted], report(Ok(())))
        );
        assert_eq!(
            transfer(Some(Reception::NoReceiveBuffer)),
            (vec![TransmissionReport::NoReceiveBuffer], refused)
        );
        assert_eq!(transfer(Some(Reception::Corrupted)), (vec![], silence.clone()));
        assert_eq!(transfer(None), (vec![], silence));
    }

    #[test]
    fn what_a_target_saw_is_not_remembered_beyond_its_slot() {
        let (mut schedule, mut random) = schedule(2, Speculation::Off);
        schedule.set_request(0, 1, true);
        for is_received in [true, true, false, false, false] {
            schedule.advance(&mut random);
            schedule.transmit(0);
            if is_received {
                schedule.receive(1, Reception::Accepted);
            }
        }
        assert_eq!(schedule.acknowledgments().count(), 0);
        assert!(schedule.reports().all(|report| report.outcome.is_err()));
        assert_eq!(schedule.reports().count(), 1);
    }

    #[test]
    fn a_grant_that_is_not_used_is_not_reported() {
        let (mut schedule, mut random) = schedule(2, Speculation::Off);
        schedule.set_request(0, 1, true);
        schedule.advance(&mut random);
        schedule.advance(&mut random);
        assert_eq!((schedule.reports().count(), schedule.acknowledgments().count()), (0, 0));
    }

    /// CL-49: an initiator that a target disables is masked there and nowhere else.
    #[test]
    fn a_disabled_initiator_is_not_granted() {
        let (mut schedule, mut random) = schedule(3, Speculation::FixedPriority);
        schedule.set_bulk_enable(2, !0b001);
        for target in 0..3 {
            schedule.set_request(0, target, true);
        }
        assert_eq!(schedule.requests().row(0), PortSet::from_words(&[0b011]));
        assert!(!schedule.is_bulk_enabled(0, 2) && schedule.is_bulk_enabled(0, 1));
        schedule.set_request(0, 0, false);
        schedule.set_request(0, 1, false);
        for _ in 0..9 {
            assert_ne!(schedule.advance(&mut random).initiator_of(2), Some(0));
        }
        schedule.set_bulk_enable(2, u64::MAX);
        assert_eq!(schedule.advance(&mut random).target_of(0), Some(2), "the request still stands");
    }

    #[test]
    fn a_configuration_replaces_what_the_node_said_before() {
        let (mut schedule, _) = schedule(2, Speculation::Off);
        let configuration =
            NodeConfiguration { requests: 0b11, bulk_enable: 0b10, quick_enable: 0b01 };
        schedule.configure(0, configuration);
        assert_eq!(
            schedule.requests().row(0),
            PortSet::only(1),
            "target 0 does not accept initiator 0"
        );
        schedule
            .configure(0, NodeConfiguration { requests: 0b01, bulk_enable: 0b11, ..configuration });
        assert_eq!(schedule.requests().row(0), PortSet::only(0));
        schedule.begin_cycle();
        assert_eq!(schedule.requests(), &Requests::new(2));
        assert!(schedule.is_bulk_enabled(0, 0), "what a target accepts outlives the cycle");
    }

    #[test]
    fn every_node_is_told_its_port_and_only_some_a_target() {
        let (mut schedule, mut random) = schedule(3, Speculation::FewestRequests);
        schedule.set_request(2, 0, true);
        schedule.arbitrate(&mut random);
        let told: Vec<_> = schedule.grants().collect();
        let notice = |node, target, speculative| GrantNotice { node, slot: 1, target, speculative };
        assert_eq!(
            told,
            [notice(0, Some(1), true), notice(1, Some(2), true), notice(2, Some(0), false)]
        );
        let packet = told[2].packet().unwrap();
        assert_eq!((packet.node.index(), packet.target.map(Port::index)), (2, Some(0)));
        let far = GrantNotice { node: 16, slot: 1, target: None, speculative: false };
        assert!(far.packet().is_err());
    }
}
