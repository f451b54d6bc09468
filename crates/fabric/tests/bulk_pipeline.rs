//! Conformance of the global schedule with Clint, figures 4 and 5, and its laws.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::collections::VecDeque;
use std::fmt::Write;

use expect_test::expect;
use proptest::collection::vec;
use proptest::prelude::*;
use weft_fabric::control::{
    BulkNode, GlobalSchedule, GlobalScheduleSettings, NodeConfiguration, Reception, SlotTiming,
    SlotTimingSettings, Speculation,
};
use weft_fabric::scheduler::{
    Counts, LeastChoiceFirstSettings, Matching, PortSet, SchedulerSettings, Ties,
};
use weft_kernel::{Queue, Stream, Streams};
use weft_protocol::adapter::{Prefetch, Release, SendSettings, SendSide};
use weft_protocol::order::{Arrival, Numbering, OrderCheck};
use weft_protocol::packet::{
    BulkAcknowledgment, BulkRequest, EndpointName, Message, Packet, Payload, Port,
    TransmissionReport,
};
use weft_protocol::ring::{BufferId, SendRequest};
use weft_units::{Bytes, Fraction, Rate, Span, Time};

/// Least choice first as section 3.3 describes it, without the round robin: figure 4 does not tell
/// where the round robin stands, and its settings are those of "lowest number wins a tie".
fn least_choice_first(ports: usize, speculation: Speculation) -> (GlobalSchedule, Stream) {
    let scheduler = SchedulerSettings::LeastChoiceFirst(LeastChoiceFirstSettings {
        round_robin: false,
        counts: Counts::Remaining,
        ties: Ties::Lowest,
    });
    let schedule = GlobalScheduleSettings { scheduler, speculation }.build(ports).unwrap();
    (schedule, Streams::new(1).stream("scheduler", 0))
}

fn pairs(matching: &Matching) -> Vec<(usize, usize)> {
    matching.iter().collect()
}

/// Figure 4: five packets, two nodes, slots s0 to s4. Packets are (number, initiator, target) and
/// become available in the slot in which the figure first shows their request.
///
/// The text says that the last two requests "are granted in slot s3 and the corresponding packets
/// [...] are transferred in slot s3"; the figure and the length of the pipeline have them granted
/// in s2.
#[test]
fn figure_4_five_packets_through_the_pipeline() {
    let arrivals: [&[(u32, usize, usize)]; 5] =
        [&[(1, 0, 0), (4, 1, 0)], &[(2, 0, 0), (3, 0, 1), (5, 1, 1)], &[], &[], &[]];
    let (mut schedule, mut random) = least_choice_first(2, Speculation::Off);
    let mut waiting = vec![VecDeque::new(); 4];
    let mut in_transfer = Vec::new();
    let mut text = String::new();
    for (slot, arrivals) in arrivals.into_iter().enumerate() {
        let acknowledged: Vec<_> = schedule.acknowledgments().collect();
        assert!(acknowledged.iter().all(|report| *report == TransmissionReport::Accepted));
        for (number, initiator, target) in arrivals {
            waiting[initiator * 2 + target].push_back(*number);
        }
        for (initiator, target) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let is_asked = !waiting[initiator * 2 + target].is_empty();
            schedule.set_request(initiator, target, is_asked);
        }
        let bits = |set: PortSet| set.into_iter().fold(0, |bits, port| bits | 1_u64 << port);
        let rows = [0, 1].map(|initiator| bits(schedule.requests().row(initiator)));
        let paths: Vec<_> = schedule.acknowledgment_paths().iter().collect();
        writeln!(
            text,
            "s{slot}: requests {:02b} {:02b}, switch {:?}, breq {in_transfer:?}, back {paths:?}",
            rows[0],
            rows[1],
            pairs(schedule.transferring()),
        )
        .unwrap();
        assert_eq!(acknowledged.len(), paths.len());
        schedule.advance(&mut random);
        in_transfer.clear();
        for (initiator, target) in pairs(schedule.transferring()) {
            assert_eq!(schedule.transmit(initiator), Some(target));
            schedule.receive(target, Reception::Accepted);
            in_transfer.push(waiting[initiator * 2 + target].pop_front().unwrap());
        }
    }
    expect![[r#"
        s0: requests 01 01, switch [], breq [], back []
        s1: requests 11 11, switch [(0, 0)], breq [1], back []
        s2: requests 10 01, switch [(0, 0), (1, 1)], breq [2, 5], back [(0, 0)]
        s3: requests 00 00, switch [(0, 1), (1, 0)], breq [3, 4], back [(0, 0), (1, 1)]
        s4: requests 00 00, switch [], breq [], back [(0, 1), (1, 0)]
    "#]]
    .assert_eq(&text);
}

const QUICK: Rate = Rate::from_bits_per_second(528_000_000);
const BULK: Rate = Rate::from_bits_per_second(2_000_000_000);
const WIRE: Span = Span(25_000);
const QUICK_SWITCH: Span = Span(90_000);
const BULK_SWITCH: Span = Span(1_500);
const ARBITRATION: Span = Span(1_260_000);

/// What happens to two nodes and their switch. Packets travel as bytes.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A slot begins at the nodes: configurations and acknowledgments are sent.
    Slot(u64),
    /// The last byte of a configuration is at the switch.
    Configuration(usize, [u8; 19]),
    /// Grants leave the switch.
    Grants,
    /// The last byte of a grant is at its node.
    Grant(usize, [u8; 4]),
    /// The packet of a slot leaves its node.
    Transfer(usize),
    /// The last byte of the bulk request in flight to this node is there.
    Request(usize),
    /// The last byte of an acknowledgment is at its node.
    Acknowledgment(usize, [u8; 4]),
}

struct Node {
    schedule: BulkNode,
    send: SendSide<BulkRequest>,
    numbering: Numbering,
    check: OrderCheck,
    granted: Option<Port>,
    in_flight: Option<BufferId>,
    /// To be sent in this slot.
    leaving: Vec<u8>,
    /// On the wire to this node.
    arriving: Vec<u8>,
    /// When the quick link to the switch is free.
    quick_free: Time,
}

struct Cluster {
    timing: SlotTiming,
    schedule: GlobalSchedule,
    random: Stream,
    nodes: [Node; 2],
    queue: Queue<Event>,
    log: String,
}

impl Node {
    fn new() -> Node {
        Node {
            schedule: BulkNode::new(),
            send: SendSide::new(SendSettings {
                buffers: 4,
                adapter_buffers: 4,
                targets: 2,
                prefetch: Prefetch::Fifo,
                release: Release::Acknowledgment,
            }),
            numbering: Numbering::default(),
            check: OrderCheck::default(),
            granted: None,
            in_flight: None,
            leaving: Vec::new(),
            arriving: Vec::new(),
            quick_free: Time::ZERO,
        }
    }

    fn submit(&mut self, own: u16, other: u16) {
        let buffer = self.send.take_buffer().unwrap();
        let name = |node| EndpointName { node, endpoint: 0 };
        let message = Message { initiator: name(own), target: name(other), ..Message::default() };
        let request = BulkRequest {
            target: Port::new(other.into()).unwrap(),
            sequence: self.numbering.assign(),
            message,
            payload: Payload::new(vec![own as u8; 2048]).unwrap(),
        };
        self.send.write(buffer, request).unwrap();
        self.send.post(SendRequest { buffer, target: other }).unwrap();
        self.send.begin_fetch().unwrap();
        self.send.end_fetch(buffer).unwrap();
    }
}

impl Cluster {
    fn new() -> Cluster {
        let (schedule, random) = least_choice_first(2, Speculation::Off);
        let settings = SlotTimingSettings {
            gap: Span(640_000),
            relock: Fraction::default(),
            lead: Span::ZERO,
        };
        let mut queue = Queue::new();
        queue.push(Time::ZERO, Event::Slot(0));
        Cluster {
            timing: settings.build(BULK.span(Bytes(2086))).unwrap(),
            schedule,
            random,
            nodes: [Node::new(), Node::new()],
            queue,
            log: String::new(),
        }
    }

    fn run(&mut self, slots: u64) {
        while let Some((now, event)) = self.queue.pop() {
            if now >= self.timing.start(slots) {
                return;
            }
            self.handle(now, event);
        }
    }

    fn note(&mut self, now: Time, what: &str) {
        let slot = self.timing.slot_at(now);
        let into = now.since(self.timing.start(slot)).as_us();
        writeln!(self.log, "s{slot} {into:.3} us: {what}").unwrap();
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Slot(slot) => self.begin_slot(now, slot),
            Event::Configuration(node, bytes) => {
                let Ok(Packet::Configuration(packet)) = Packet::decode(&bytes) else {
                    unreachable!("the links of this test damage nothing")
                };
                self.note(now, &format!("cfg {node},s requests {:02b}", packet.requests.0));
                self.schedule.configure(node, NodeConfiguration::from(packet));
                if node == 1 {
                    self.schedule.arbitrate(&mut self.random);
                    self.queue.push(now + ARBITRATION, Event::Grants);
                }
            }
            Event::Grants => {
                let arrival = now + QUICK.span(Bytes(4)) + WIRE;
                for notice in self.schedule.grants() {
                    let bytes = notice.packet().unwrap().encode();
                    self.queue.push(arrival, Event::Grant(notice.node, bytes));
                }
            }
            Event::Grant(node, bytes) => self.take_grant(now, node, &bytes),
            Event::Transfer(node) => self.transfer(now, node),
            Event::Request(node) => self.take_request(now, node),
            Event::Acknowledgment(node, bytes) => self.take_acknowledgment(now, node, &bytes),
        }
    }

    fn begin_slot(&mut self, now: Time, slot: u64) {
        if slot > 0 {
            self.schedule.begin_slot();
            self.nodes.iter_mut().for_each(|node| node.schedule.begin_slot());
        }
        self.schedule.begin_cycle();
        for own in 0..2 {
            let node = &mut self.nodes[own];
            // The granted packet is taken first: it must not be requested once more.
            if let Some(target) = node.granted.take() {
                let (buffer, request) = node.send.send(target.index() as u16).unwrap();
                node.leaving = request.encode();
                node.in_flight = Some(buffer);
                self.queue.push(self.timing.transfer(slot), Event::Transfer(own));
            }
            let wanted = node.send.requests().map(|target| Port::new(target.into()).unwrap());
            let configuration = node.schedule.configuration(wanted).encode();
            node.quick_free = now + QUICK.span(Bytes(19));
            let arrival = node.quick_free + WIRE;
            self.queue.push(arrival, Event::Configuration(own, configuration));
        }
        self.queue.push(self.timing.start(slot + 1), Event::Slot(slot + 1));
    }

    fn take_grant(&mut self, now: Time, node: usize, bytes: &[u8]) {
        let Ok(Packet::Grant(packet)) = Packet::decode(bytes) else {
            unreachable!("the links of this test damage nothing")
        };
        let granted = self.nodes[node].schedule.grant(&packet).unwrap();
        self.nodes[node].granted = granted.target;
        self.note(now, &format!("gnt s,{node} target {:?}", granted.target.map(Port::index)));
    }

    fn transfer(&mut self, now: Time, node: usize) {
        let other = self.schedule.transmit(node).unwrap();
        self.nodes[other].arriving = std::mem::take(&mut self.nodes[node].leaving);
        self.note(now, &format!("breq {node},{other} begins"));
        let arrival = now + BULK.span(Bytes(2086)) + WIRE + BULK_SWITCH + WIRE;
        self.queue.push(arrival, Event::Request(other));
    }

    /// The acknowledgment leaves as soon as the quick link is free, in the slot after the request.
    fn take_request(&mut self, now: Time, own: usize) {
        let bytes = std::mem::take(&mut self.nodes[own].arriving);
        let Ok(Packet::BulkRequest(request)) = Packet::decode(&bytes) else {
            unreachable!("the links of this test damage nothing")
        };
        assert_eq!(request.target.index(), own);
        assert_eq!(self.nodes[own].check.accept(request.sequence), Arrival::InOrder);
        let initiator = Port::new(request.message.initiator.node.into()).unwrap();
        // The switch does not read where the packet goes: the inverted schedule is set.
        let path = self.schedule.acknowledgment_paths().target_of(own);
        assert_eq!(path, Some(initiator.index()));
        let (sequence, report) = (request.sequence, TransmissionReport::Accepted);
        let bytes = BulkAcknowledgment { initiator, sequence, report }.encode();
        let start = now.max(self.nodes[own].quick_free);
        let arrival = start + QUICK.span(Bytes(4)) + WIRE + QUICK_SWITCH + WIRE;
        self.queue.push(arrival, Event::Acknowledgment(initiator.index(), bytes));
        self.note(now, &format!("breq {},{own} ends", initiator.index()));
    }

    fn take_acknowledgment(&mut self, now: Time, node: usize, bytes: &[u8]) {
        let Ok(Packet::BulkAcknowledgment(packet)) = Packet::decode(bytes) else {
            unreachable!("the links of this test damage nothing")
        };
        let buffer = self.nodes[node].in_flight.take().unwrap();
        self.nodes[node].send.complete(buffer, Ok(())).unwrap();
        self.note(now, &format!("back {},{node} {:?}", 1 - node, packet.report));
    }
}

/// Figure 5: node 0 sends to node 1 and node 1 to node 0; `cfg` and `gnt` in slot n-1, `breq` in n,
/// `back` in n+1. Slot 0 assigns the identifiers, so n is 2. Every packet is real bytes.
#[test]
fn figure_5_packets_of_two_crossing_pairs() {
    let mut cluster = Cluster::new();
    cluster.nodes[0].submit(0, 1);
    cluster.nodes[1].submit(1, 0);
    cluster.run(4);
    for node in &mut cluster.nodes {
        assert!(node.send.poll().unwrap().outcome.is_ok());
        assert_eq!(node.schedule.slot(), 3);
    }
    expect![[r#"
        s0 0.313 us: cfg 0,s requests 00
        s0 0.313 us: cfg 1,s requests 00
        s0 1.658 us: gnt s,0 target None
        s0 1.658 us: gnt s,1 target None
        s1 0.313 us: cfg 0,s requests 10
        s1 0.313 us: cfg 1,s requests 01
        s1 1.658 us: gnt s,0 target Some(1)
        s1 1.658 us: gnt s,1 target Some(0)
        s2 0.313 us: cfg 0,s requests 00
        s2 0.313 us: cfg 1,s requests 00
        s2 0.640 us: breq 0,1 begins
        s2 0.640 us: breq 1,0 begins
        s2 1.658 us: gnt s,0 target None
        s2 1.658 us: gnt s,1 target None
        s3 0.051 us: breq 0,1 ends
        s3 0.051 us: breq 1,0 ends
        s3 0.313 us: cfg 0,s requests 00
        s3 0.313 us: cfg 1,s requests 00
        s3 0.488 us: back 1,0 Accepted
        s3 0.488 us: back 0,1 Accepted
        s3 1.658 us: gnt s,0 target None
        s3 1.658 us: gnt s,1 target None
    "#]]
    .assert_eq(&cluster.log);
}

/// The pipeline of any driver: what is granted in a slot transfers in the next one and is
/// acknowledged in the one after, over connections that share no port, the other way round.
fn check_stages(rows: &[Vec<u8>], speculation: Speculation) -> Result<(), TestCaseError> {
    const PORTS: usize = 8;
    let (mut schedule, mut random) = least_choice_first(PORTS, speculation);
    let mut history: Vec<Vec<(usize, usize)>> = vec![Vec::new(), Vec::new()];
    for (slot, row) in rows.iter().enumerate() {
        schedule.begin_cycle();
        for (node, requests) in row.iter().enumerate() {
            let configuration = NodeConfiguration {
                requests: u64::from(*requests),
                bulk_enable: !(u64::from(*requests) & 1),
                quick_enable: u64::MAX,
            };
            schedule.configure(node, configuration);
        }
        schedule.arbitrate(&mut random);
        let granted: Vec<_> =
            schedule.grants().filter_map(|notice| Some((notice.node, notice.target?))).collect();
        for notice in schedule.grants() {
            prop_assert_eq!(notice.slot, slot as u64 + 1);
            let Some(target) = notice.target else { continue };
            prop_assert!(schedule.is_bulk_enabled(notice.node, target));
            prop_assert_ne!(notice.speculative, schedule.requests().contains(notice.node, target));
        }
        for side in [|pair: &(usize, usize)| pair.0, |pair: &(usize, usize)| pair.1] {
            let mut ports: Vec<_> = granted.iter().map(side).collect();
            ports.sort_unstable();
            ports.dedup();
            prop_assert_eq!(ports.len(), granted.len());
        }
        let transferring = pairs(schedule.begin_slot());
        prop_assert_eq!(&transferring, &granted);
        let mut returning = pairs(&schedule.acknowledgment_paths());
        returning.iter_mut().for_each(|pair| *pair = (pair.1, pair.0));
        returning.sort_unstable();
        prop_assert_eq!(&returning, history.last().unwrap());
        history.push(transferring);
    }
    Ok(())
}

proptest! {
    #[test]
    fn stages_follow_each_other_and_never_conflict(
        rows in vec(vec(any::<u8>(), 8), 1..20),
        speculation in prop_oneof![
            Just(Speculation::Off),
            Just(Speculation::FixedPriority),
            Just(Speculation::FewestRequests),
        ],
    ) {
        check_stages(&rows, speculation)?;
    }

    /// Speculation takes nothing from a request: the requested connections are those without it.
    #[test]
    fn speculation_leaves_every_requested_grant_as_it_was(rows in vec(vec(any::<u8>(), 8), 1..20)) {
        let (mut plain, mut random) = least_choice_first(8, Speculation::Off);
        let (mut guessing, _) = least_choice_first(8, Speculation::FewestRequests);
        for row in &rows {
            for schedule in [&mut plain, &mut guessing] {
                for (initiator, target) in (0..8).flat_map(|i| (0..8).map(move |t| (i, t))) {
                    schedule.set_request(initiator, target, row[initiator] >> target & 1 == 1);
                }
                schedule.arbitrate(&mut random);
            }
            for (without, with) in plain.grants().zip(guessing.grants()) {
                let requested = if with.speculative { None } else { with.target };
                prop_assert_eq!(without.target, requested);
            }
            plain.begin_slot();
            guessing.begin_slot();
        }
    }
}
