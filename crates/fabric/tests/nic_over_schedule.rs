//! Whole nodes over the global schedule: adapters with costs, a bufferless switch, errors by list
//! and by rate, and virtual networks.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use proptest::prelude::*;
use weft_fabric::control::{GlobalSchedule, GlobalScheduleSettings, Reception, Speculation};
use weft_fabric::interface::{BusSettings, Nic, NicSettings};
use weft_fabric::link::{DamagedPacket, ErrorSettings, Errors};
use weft_fabric::scheduler::{LeastChoiceFirstSettings, SchedulerSettings};
use weft_kernel::{Stream, Streams};
use weft_protocol::adapter::{Prefetch, ReceiveState, Release, SendState, TransmissionError};
use weft_protocol::ring::BufferId;
use weft_units::{Bytes, Fraction, Span, Time};

const NODES: usize = 4;
const SLOT: Span = Span(8_984_000);

/// The packet that a message travels in, by its number.
type Number = u32;

struct Cluster {
    nics: Vec<Nic<Number>>,
    errors: Vec<Errors>,
    schedule: GlobalSchedule,
    random: Stream,
    traffic: Stream,
    now: Time,
    /// By slot of the pipeline: the buffer that a node has in flight.
    in_flight: [[Option<BufferId>; NODES]; 2],
    submitted: Vec<(usize, usize)>,
    reported: Vec<(Number, Result<(), TransmissionError>)>,
    consumed: Vec<Number>,
    damaged: Vec<Number>,
    refused: Vec<Number>,
}

fn nic_settings(bus: BusSettings, prefetch: Prefetch) -> NicSettings {
    NicSettings {
        host_send_buffers: 6,
        send_buffers: 3,
        host_receive_buffers: 4,
        receive_buffers: 2,
        message: Bytes(2080),
        entry: Bytes(8),
        prefetch,
        release: Release::Acknowledgment,
        bus,
    }
}

impl Cluster {
    fn new(seed: u64, nic: &NicSettings, errors: &ErrorSettings, guess: Speculation) -> Cluster {
        let streams = Streams::new(seed);
        let least_choice_first = LeastChoiceFirstSettings::default();
        let scheduler = SchedulerSettings::LeastChoiceFirst(least_choice_first);
        let settings = GlobalScheduleSettings { scheduler, speculation: guess };
        Cluster {
            nics: (0..NODES).map(|_| nic.build(NODES as u16)).collect(),
            errors: (0..NODES).map(|node| errors.build(&streams, "bulk", node as u16)).collect(),
            schedule: settings.build(NODES).unwrap(),
            random: streams.stream("scheduler", 0),
            traffic: streams.stream("traffic", 0),
            now: Time::ZERO,
            in_flight: [[None; NODES]; 2],
            submitted: Vec::new(),
            reported: Vec::new(),
            consumed: Vec::new(),
            damaged: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// One slot: arbitration over what the adapters hold, transfers, outcomes, hosts.
    fn slot(&mut self, offers_traffic: bool, consumes: bool) {
        if offers_traffic {
            self.offer();
        }
        for node in 0..NODES {
            let wanted: Vec<u16> = self.nics[node].requests(self.now).collect();
            for target in 0..NODES {
                let is_asked = wanted.contains(&(target as u16));
                self.schedule.set_request(node, target, is_asked);
            }
        }
        self.schedule.advance(&mut self.random);
        self.in_flight.swap(0, 1);
        self.in_flight[0] = [None; NODES];
        self.transfer();
        for report in self.schedule.reports() {
            let buffer = self.in_flight[1][report.initiator].unwrap();
            self.nics[report.initiator].complete(self.now, buffer, report.outcome).unwrap();
        }
        for node in 0..NODES {
            self.run_host(node, consumes);
        }
        self.now += SLOT;
    }

    fn offer(&mut self) {
        for node in 0..NODES {
            let target = self.traffic.below(NODES as u64) as u16;
            let number = self.submitted.len() as Number;
            if self.nics[node].submit(self.now, target, number).is_ok() {
                self.submitted.push((node, target.into()));
            }
        }
    }

    fn transfer(&mut self) {
        let connections: Vec<_> = self.schedule.transferring().iter().collect();
        for (initiator, target) in connections {
            let Some(buffer) = self.nics[initiator].transmit(self.now, target as u16) else {
                continue;
            };
            assert_eq!(self.schedule.transmit(initiator), Some(target));
            self.in_flight[0][initiator] = Some(buffer);
            let number = *self.nics[initiator].send_side().message(buffer).unwrap();
            let slot = self.schedule.slot();
            let reception = if self.errors[initiator].damages_next(Some(slot), Bytes(2086)) {
                self.damaged.push(number);
                Reception::Corrupted
            } else if self.nics[target].arrive(self.now, number).is_err() {
                self.refused.push(number);
                Reception::NoReceiveBuffer
            } else {
                Reception::Accepted
            };
            self.schedule.receive(target, reception);
        }
    }

    fn run_host(&mut self, node: usize, consumes: bool) {
        let nic = &mut self.nics[node];
        if let (_, Some(completion)) = nic.poll_completion(self.now) {
            self.reported.push((completion.message, completion.outcome));
        }
        if !consumes {
            return;
        }
        if let (_, Some((buffer, number))) = nic.poll_message(self.now) {
            self.consumed.push(*number);
            nic.give_back(self.now, buffer).unwrap();
        }
    }

    fn failed(&self, error: TransmissionError) -> Vec<Number> {
        let failed = self.reported.iter().filter(|(_, outcome)| *outcome == Err(error));
        sorted(failed.map(|(number, _)| *number).collect())
    }
}

fn sorted(mut numbers: Vec<Number>) -> Vec<Number> {
    numbers.sort_unstable();
    numbers
}

fn free() -> ErrorSettings {
    ErrorSettings::default()
}

/// CL-55: the host of each damaged packet learns of it (`trErr`), and no other host does.
#[test]
fn exactly_the_listed_packets_are_reported_as_lost() {
    let packets = [(0, 3), (2, 3), (1, 8), (3, 20)]
        .map(|(host, packet)| DamagedPacket { host, packet })
        .to_vec();
    let errors = ErrorSettings { packets, ..free() };
    let nic = nic_settings(BusSettings::default(), Prefetch::DifferentTargets);
    let mut cluster = Cluster::new(7, &nic, &errors, Speculation::Off);
    (0..40).for_each(|_| cluster.slot(true, true));
    (0..40).for_each(|_| cluster.slot(false, true));
    assert_eq!(cluster.damaged.len(), 4);
    assert_eq!(
        cluster.failed(TransmissionError::NoAcknowledgment),
        sorted(cluster.damaged.clone())
    );
}

/// CL-55: a host that does not return its receive buffers makes its senders see negative
/// acknowledgments, and nothing else.
#[test]
fn a_host_that_consumes_nothing_refuses() {
    let nic = nic_settings(BusSettings::default(), Prefetch::Fifo);
    let mut cluster = Cluster::new(7, &nic, &free(), Speculation::Off);
    (0..60).for_each(|_| cluster.slot(true, false));
    // Four buffers of the host and two of the adapter at each of four nodes.
    let accepted = cluster.reported.iter().filter(|(_, outcome)| outcome.is_ok()).count();
    assert_eq!(accepted, 4 * (4 + 2));
    assert!(!cluster.refused.is_empty());
    assert_eq!(cluster.failed(TransmissionError::NoAcknowledgment), [0; 0]);
}

/// A grant that came by guess carries a packet one slot earlier when the network is idle: a packet
/// that is there after the requests were sampled is sent in the slot after nevertheless.
#[test]
fn a_guess_carries_what_came_after_the_requests() {
    let waits = [Speculation::Off, Speculation::FixedPriority].map(|guess| {
        let nic = nic_settings(BusSettings::default(), Prefetch::Fifo);
        let mut cluster = Cluster::new(7, &nic, &free(), guess);
        for (initiator, target) in (0..NODES).flat_map(|i| (0..NODES).map(move |t| (i, t))) {
            cluster.schedule.set_request(initiator, target, false);
        }
        cluster.schedule.advance(&mut cluster.random);
        cluster.nics[1].submit(cluster.now, 0, 0).unwrap();
        let is_sent_at_once = cluster.schedule.transmit(1) == Some(0)
            && cluster.nics[1].transmit(cluster.now, 0).is_some();
        if is_sent_at_once {
            return 0;
        }
        cluster.schedule.set_request(1, 0, true);
        cluster.schedule.advance(&mut cluster.random);
        assert_eq!(cluster.schedule.transmit(1), Some(0));
        1
    });
    assert_eq!(waits, [1, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Conservation over whatever costs, errors and policies: every message is reported once;
    /// consumed are exactly those reported as accepted; lost are exactly the damaged ones, and
    /// refused exactly those without a receive buffer; pairs stay in order; all buffers come back.
    #[test]
    fn every_message_is_reported_once_and_truly(
        seed in any::<u64>(),
        rate in 0.0..0.5,
        host_write in 0_u64..2_000,
        setup in 0_u64..4_000,
        policy in 0..3,
        guess in 0..3_usize,
    ) {
        let bus = BusSettings {
            host_write: Span::from_ns(host_write),
            poll: Span::from_ns(host_write / 10),
            dma_setup: Span::from_ns(setup),
            dma_rate: None,
        };
        let prefetch = match policy {
            0 => Prefetch::Fifo,
            1 => Prefetch::DifferentTargets,
            _ => Prefetch::PerTarget { limit: 1 },
        };
        let guess =
            [Speculation::Off, Speculation::FixedPriority, Speculation::FewestRequests][guess];
        let errors = ErrorSettings { packet_error_rate: Fraction::new(rate).unwrap(), ..free() };
        let mut cluster = Cluster::new(seed, &nic_settings(bus, prefetch), &errors, guess);
        for slot in 0..80 {
            cluster.slot(true, slot % 3 > 0);
        }
        for _ in 0..120 {
            cluster.slot(false, true);
        }

        let numbers = sorted(cluster.reported.iter().map(|(number, _)| *number).collect());
        prop_assert_eq!(numbers, (0..cluster.submitted.len() as Number).collect::<Vec<_>>());
        let good = cluster.reported.iter().filter(|(_, outcome)| outcome.is_ok());
        let good = sorted(good.map(|(number, _)| *number).collect());
        prop_assert_eq!(good, sorted(cluster.consumed.clone()));
        let lost = cluster.failed(TransmissionError::NoAcknowledgment);
        prop_assert_eq!(lost, sorted(cluster.damaged.clone()));
        let refused = cluster.failed(TransmissionError::NoReceiveBuffer);
        prop_assert_eq!(refused, sorted(cluster.refused.clone()));
        for (initiator, target) in (0..NODES).flat_map(|i| (0..NODES).map(move |t| (i, t))) {
            let pair = (initiator, target);
            let of_pair = |number: &&Number| cluster.submitted[**number as usize] == pair;
            let order: Vec<Number> = cluster.consumed.iter().filter(of_pair).copied().collect();
            prop_assert_eq!(&order, &sorted(order.clone()));
        }
        for nic in &cluster.nics {
            prop_assert_eq!(nic.send_side().count(SendState::Free), 6);
            prop_assert_eq!(nic.receive_side().count(ReceiveState::Free), 4);
        }
    }
}
