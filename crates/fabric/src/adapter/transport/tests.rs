use std::collections::BTreeMap;

use weft_kernel::{Stream, Streams};
use weft_protocol::congestion::{
    CongestionControlSettings, DcqcnSettings, DctcpSettings, InfinibandSettings, RcccSettings,
};
use weft_protocol::transport::LossRecovery;
use weft_units::PositiveCount;

use super::*;

/// 100 Gbit/s: a packet of 1000 bytes, 950 of them payload, takes 80 ns, an acknowledgment 5.12 ns.
const RATE: Rate = Rate::from_bits_per_second(100_000_000_000);

fn settings() -> TransportSettings {
    TransportSettings {
        reliability: LossRecovery::GoBackN,
        congestion_control: None,
        window: None,
        acknowledgment: Bytes(64),
        acknowledgment_class: 0,
        timeout: Span::from_ns(100_000),
        reordering: PositiveCount::ONE,
        acknowledged_after: None,
        queue_pairs: QueuePairs::PerFlow,
        spraying: None,
    }
}

fn flow(start_ns: u64, from: u32, to: u32, size: u64) -> FlowDemand {
    let start = Time::ZERO + Span::from_ns(start_ns);
    FlowDemand { start, size: Bytes(size), from, to, group: 0, class: 0 }
}

/// Two hosts and a delay of 1 us between them; what starts at a host takes its time on the link.
struct Pair {
    own: Transports,
    free: [Time; 2],
    /// By time and order: what happens.
    due: BTreeMap<(Time, u32), Happening>,
    order: u32,
    /// When each packet of flows started, in nanoseconds, with its flow and number.
    starts: Vec<(u64, u32, u32)>,
    /// Which packets were acknowledged, in order.
    answers: Vec<u32>,
    /// Which of the packets are lost, by their place in `starts`; which are marked.
    lost: Vec<usize>,
    /// How many of the next grants are lost.
    lost_grants: u32,
    /// What share of all others is lost at random.
    loss: Option<(Stream, f64)>,
    is_marked: bool,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Wakes(u32),
    Free,
    Comes(Segment),
}

impl Pair {
    fn new(settings: TransportSettings, flows: Vec<FlowDemand>) -> Pair {
        let (payload, overhead, rates) = (Bytes(950), Bytes(50), vec![RATE; 2]);
        let (classes, from) = (1, Time::ZERO);
        let key = 0;
        let planes = 1;
        let parts = TransportParts {
            settings,
            payload,
            overhead,
            rates,
            planes,
            classes,
            flows,
            loops: Vec::new(),
            from,
            key,
        };
        let own = Transports::new(parts);
        let (free, due, starts) = ([Time::ZERO; 2], BTreeMap::new(), Vec::new());
        let answers = Vec::new();
        Pair {
            own,
            free,
            due,
            order: 0,
            starts,
            answers,
            lost: Vec::new(),
            lost_grants: 0,
            loss: None,
            is_marked: false,
        }
    }

    fn at(&mut self, time: Time, what: Happening) {
        self.order += 1;
        self.due.insert((time, self.order), what);
    }

    fn start(&mut self, now: Time, out: Outgoing) {
        let from = 1 - out.to as usize;
        let start = self.free[from].max(now);
        self.free[from] = start + RATE.span(out.size);
        let mut is_lost = false;
        if let Content::Data { number, .. } = out.segment.content {
            let drawn = self.loss.as_mut().is_some_and(|(random, share)| random.chance(*share));
            is_lost = drawn || self.lost.contains(&self.starts.len());
            self.starts.push((start.0 / 1_000, out.segment.flow, number));
        }
        if let Content::Grant { .. } = out.segment.content
            && self.lost_grants > 0
        {
            self.lost_grants -= 1;
            is_lost = true;
        }
        if let Content::Acknowledgment { answer, .. } = out.segment.content {
            self.answers.push(answer.number);
        }
        self.at(self.free[from], Happening::Free);
        if !is_lost {
            self.at(self.free[from] + Span::from_ns(1_000), Happening::Comes(out.segment));
        }
    }

    fn run(&mut self, until: Time) {
        loop {
            let wakes: Vec<Wake> = self.own.take_wakes().collect();
            wakes.into_iter().for_each(|wake| self.at(wake.time, Happening::Wakes(wake.item)));
            let due = self.due.first_entry().filter(|due| due.key().0 <= until);
            let Some(((now, _), what)) = due.map(|due| due.remove_entry()) else { return };
            match what {
                Happening::Wakes(item) => {
                    let said = self.own.wake(now, item).says;
                    said.into_iter().for_each(|out| self.start(now, out));
                }
                Happening::Free => {}
                Happening::Comes(segment) => {
                    self.own.arrive(
                        now,
                        &segment,
                        SeenOnPath { is_marked: self.is_marked, hops: 1 },
                        &[],
                    );
                    let answers = self.own.take_answers();
                    answers.into_iter().for_each(|out| self.start(now, out));
                }
            }
            for host in 0..2 {
                if self.free[host as usize] <= now
                    && let Some(out) = self.own.next(now, host, 0, |_, _| true)
                {
                    self.start(now, out);
                }
            }
        }
    }

    fn ends(&self) -> Vec<u64> {
        self.own.outcomes().map(|(_, outcome)| outcome.end.0 / 1_000).collect()
    }
}

const END: Time = Time(1_000_000_000_000);

#[test]
fn a_flow_is_sent_packet_behind_packet() {
    let mut pair = Pair::new(settings(), vec![flow(10, 0, 1, 2_000)]);
    pair.run(END);
    assert_eq!(pair.starts, [(10, 0, 0), (90, 0, 1), (170, 0, 2)]);
    // The last one has 100 bytes of payload: 12 ns and 1 us.
    assert_eq!((pair.ends(), pair.own.held()), (vec![170 + 12 + 1_000], HeldPackets::default()));
    assert_eq!(pair.own.counts().payload, 2_000);
}

#[test]
fn flows_of_a_host_take_turns() {
    let flows = vec![flow(0, 0, 1, 2_850), flow(40, 0, 1, 1_900)];
    let mut pair = Pair::new(settings(), flows);
    pair.run(END);
    let flows: Vec<(u32, u32)> = pair.starts.iter().map(|start| (start.1, start.2)).collect();
    assert_eq!(flows, [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1)]);
}

#[test]
fn a_window_allows_so_many_packets_a_round_trip() {
    let window = Some(Bytes(3_999));
    let mut pair =
        Pair::new(TransportSettings { window, ..settings() }, vec![flow(0, 0, 1, 7_600)]);
    pair.run(END);
    // Three at once; each further one with the acknowledgment of the one three before: 80 ns, 1 us,
    // 5.12 ns and 1 us later.
    let starts: Vec<u64> = pair.starts.iter().map(|start| start.0).collect();
    assert_eq!(starts, [0, 80, 160, 2_085, 2_165, 2_245, 4_170, 4_250]);
}

#[test]
fn go_back_n_sends_again_from_the_gap_on() {
    let mut pair = Pair::new(settings(), vec![flow(0, 0, 1, 950 * 30)]);
    pair.lost = vec![2];
    pair.run(END);
    // 2 is lost, and 3 comes at 320 + 1000; the refusal is there at 2325.12. Up to then 30 packets
    // have started, the last one at 2320. From 2400 on, when that is sent, everything from 2 on is
    // sent again.
    assert_eq!(pair.starts[30], (2_400, 0, 2));
    assert_eq!((pair.starts.len(), pair.own.counts().retransmitted), (58, 28));
    assert_eq!(pair.ends(), [2_400 + 28 * 80 + 1_000]);
    assert_eq!((pair.own.counts().gaps, pair.own.counts().unneeded), (1, 27));
}

#[test]
fn selective_repeat_sends_what_was_lost() {
    let selective = TransportSettings { reliability: LossRecovery::SelectiveRepeat, ..settings() };
    let mut pair = Pair::new(selective, vec![flow(0, 0, 1, 950 * 30)]);
    pair.lost = vec![2];
    pair.run(END);
    assert_eq!(pair.starts[30], (2_400, 0, 2));
    assert_eq!((pair.starts.len(), pair.ends()), (31, vec![2_480 + 1_000]));
    assert_eq!((pair.own.counts().out_of_order, pair.own.counts().unneeded), (1, 0));
}

/// Three packets are owed when the third came after the first, which is acknowledged alone; the window of six is
/// full with the sixth, which asks; so does the last one.
#[test]
fn a_target_acknowledges_after_so_many_bytes_or_when_asked() {
    let own = TransportSettings {
        reliability: LossRecovery::SelectiveRepeat,
        acknowledged_after: Some(Bytes(3_000)),
        window: Some(Bytes(6_999)),
        ..settings()
    };
    let mut pair = Pair::new(own, vec![flow(0, 0, 1, 950 * 10)]);
    pair.run(END);
    // 0 is acknowledged at 1080, 3 at 1320, with 1 and 2, and 5 at 1480, with 4: each is heard 1005.12
    // later. What the first frees, 6, fills the window and asks; so does 9.
    let starts: Vec<u64> = pair.starts.iter().map(|start| start.0).collect();
    assert_eq!(starts, [0, 80, 160, 240, 320, 400, 2_085, 2_325, 2_405, 2_485]);
    assert_eq!(pair.answers, [0, 3, 5, 6, 9]);
}

#[test]
fn what_is_marked_late_or_comes_twice_is_acknowledged_at_once() {
    let own = TransportSettings {
        reliability: LossRecovery::SelectiveRepeat,
        acknowledged_after: Some(Bytes(1_000_000)),
        ..settings()
    };
    let mut pair = Pair::new(own.clone(), vec![flow(0, 0, 1, 950 * 4)]);
    pair.is_marked = true;
    pair.run(END);
    assert_eq!(pair.answers, [0, 1, 2, 3]);
    let mut pair = Pair::new(own, vec![flow(0, 0, 1, 950 * 4)]);
    pair.lost = vec![1];
    pair.run(END);
    // The last one asks, and everything is there only with the one that was lost and asks, too.
    assert_eq!(pair.answers, [0, 3, 1]);
    assert_eq!(
        pair.own.outcomes().map(|own| own.1.acknowledged.0 / 1_000).collect::<Vec<_>>(),
        [pair.ends()[0] + 1_005]
    );
}

/// Packet 2, which asks for an acknowledgment, overtakes packet 1. Once 1 arrives the target acknowledges both,
/// although 1 itself did not ask.
#[test]
fn who_asked_is_told_again_when_nothing_is_missing() {
    let own = TransportSettings {
        reliability: LossRecovery::SelectiveRepeat,
        acknowledged_after: Some(Bytes(1_000_000)),
        ..settings()
    };
    let mut pair = Pair::new(own, vec![flow(0, 0, 1, 950 * 5)]);
    let wakes: Vec<Wake> = pair.own.take_wakes().collect();
    let begun: Vec<Option<u32>> =
        wakes.into_iter().map(|wake| pair.own.wake(wake.time, wake.item).begins).collect();
    assert_eq!(begun, [Some(0)]);
    let mut tells = |number, asks| {
        let content = Content::Data { number, asks, pull_target: 0 };
        let segment = Segment { flow: 0, content, sent: Time::ZERO, spray: 0 };
        pair.own.arrive(Time(1), &segment, SeenOnPath { is_marked: false, hops: 1 }, &[]).answers
            == 1
    };
    let told = [(0, false), (2, true), (1, false), (3, false)].map(|own| tells(own.0, own.1));
    assert_eq!(told, [true, true, true, false]);
}

#[test]
fn the_timer_sends_again_what_nothing_tells_of() {
    for reliability in [LossRecovery::GoBackN, LossRecovery::SelectiveRepeat] {
        let own = TransportSettings { reliability, ..settings() };
        let mut pair = Pair::new(own, vec![flow(0, 0, 1, 1_900)]);
        // The last one is lost, and again.
        pair.lost = vec![1, 2];
        pair.run(END);
        // The acknowledgment of the first came at 2085.12; the second attempt is 100 us old.
        assert_eq!(pair.starts, [(0, 0, 0), (80, 0, 1), (102_085, 0, 1), (202_085, 0, 1)]);
        assert_eq!((pair.ends(), pair.own.counts().timeouts), (vec![203_165], 2));
    }
}

#[test]
fn a_notification_halves_the_rate_of_a_flow_from_its_next_packet_on() {
    let congestion_control = Some(CongestionControlSettings::Dcqcn(DcqcnSettings::default()));
    let own = TransportSettings { congestion_control, ..settings() };
    let mut pair = Pair::new(own, vec![flow(0, 0, 1, 950 * 40)]);
    pair.is_marked = true;
    pair.run(END);
    // The first packet is marked: its notification leaves behind its acknowledgment and comes at 1080 +
    // 10.24 + 1000. The packet at 2080 has started; that at 2160 is followed 160 ns later.
    let starts: Vec<u64> = pair.starts[26..30].iter().map(|start| start.0).collect();
    assert_eq!(starts, [2_080, 2_160, 2_320, 2_480]);
    assert_eq!((pair.own.counts().marked, pair.own.counts().notifications), (40, 1));
}

/// The first flow is halved by a notification, and its timer of 55 us has not raised it when the second one
/// begins. Its marks bring about a notification of their own only where the first one, 50 us ago at the
/// least, was that of another queue pair.
#[test]
fn a_queue_pair_that_is_kept_goes_on_at_its_rate() {
    let congestion_control = Some(CongestionControlSettings::Dcqcn(DcqcnSettings::default()));
    for (queue_pairs, gap, notifications) in
        [(QueuePairs::PerFlow, 80, 2), (QueuePairs::Kept, 160, 1)]
    {
        let congestion_control = congestion_control.clone();
        let own = TransportSettings { congestion_control, queue_pairs, ..settings() };
        let flows = vec![flow(0, 0, 1, 950 * 40), flow(20_000, 0, 1, 950 * 3)];
        let mut pair = Pair::new(own, flows);
        pair.is_marked = true;
        pair.run(END);
        let starts: Vec<u64> = pair.starts[40..].iter().map(|start| start.0).collect();
        assert_eq!(starts, [20_000, 20_000 + gap, 20_000 + 2 * gap]);
        assert_eq!(pair.own.counts().notifications, notifications);
    }
}

/// Flows of a packet are done before the notification that follows their acknowledgment comes. The first one
/// lets the queue pair wait 8 us behind each packet, so that the third flow, which begins 3 us behind the
/// second, sends at 20 + 8.08 us. Each of the three packets is marked and notified.
#[test]
fn a_queue_pair_that_is_kept_hears_and_waits_between_flows_of_a_packet() {
    let infiniband = InfinibandSettings {
        index_increase: PositiveCount::new(127).unwrap(),
        timer: Span::from_ns(1_000_000_000),
        ..InfinibandSettings::default()
    };
    for (queue_pairs, last, notifications) in
        [(QueuePairs::PerFlow, 23_000, 0), (QueuePairs::Kept, 28_080, 3)]
    {
        let congestion_control = CongestionControlSettings::Infiniband(infiniband.clone());
        let congestion_control = Some(congestion_control);
        let own = TransportSettings { congestion_control, queue_pairs, ..settings() };
        let flows = [0, 20_000, 23_000].map(|start| flow(start, 0, 1, 950));
        let mut pair = Pair::new(own, flows.into());
        pair.is_marked = true;
        pair.run(END);
        let starts: Vec<u64> = pair.starts.iter().map(|start| start.0).collect();
        assert_eq!(starts, [0, 20_000, last]);
        assert_eq!(pair.own.counts().notifications, notifications);
    }
}

/// Of two flows at once the second one has a queue pair of its own, and so has a flow in the other
/// direction; a flow after both uses the queue pair that was used last.
#[test]
fn a_queue_pair_is_kept_for_its_ends_and_serves_one_flow_at_a_time() {
    let congestion_control = Some(CongestionControlSettings::Dctcp(DctcpSettings::default()));
    let own = TransportSettings { congestion_control, queue_pairs: QueuePairs::Kept, ..settings() };
    let flows = vec![
        flow(0, 0, 1, 950 * 400),
        flow(100, 0, 1, 950 * 2),
        flow(2_000_000, 0, 1, 950 * 40),
        flow(2_000_000, 1, 0, 950 * 40),
    ];
    let mut pair = Pair::new(own, flows);
    pair.is_marked = true;
    let window = |pair: &mut Pair, ns: u64, flow| {
        let now = Time::ZERO + Span::from_ns(ns);
        pair.run(now);
        pair.own.allowed(now, flow).expect("under way").window
    };
    let [first, second] = [window(&mut pair, 0, 0), window(&mut pair, 100, 1)];
    assert_eq!(first, second);
    let last = window(&mut pair, 30_000, 0);
    assert!(last < first, "{last} of {first}");
    pair.run(Time::ZERO + Span::from_ns(1_999_999));
    let [behind, other] = [2, 3].map(|flow| window(&mut pair, 2_000_000, flow));
    assert!(behind <= last && other == first, "{behind}, {last}; {other}, {first}");
    pair.run(END);
    assert_eq!(pair.own.held(), HeldPackets::default());
    assert!(pair.ends().iter().all(|end| *end < 3_000_000), "{:?}", pair.ends());
}

#[test]
fn what_goes_on_must_be_a_congestion_control_of_the_initiator() {
    let own = TransportSettings { queue_pairs: QueuePairs::Kept, ..settings() };
    let credits = TransportSettings { queue_pairs: QueuePairs::Kept, ..by_credits() };
    for wrong in [own, credits] {
        assert_eq!(wrong.check().map_err(|wrong| wrong.key), Err("queue_pairs".into()));
    }
}

/// Credits of a round trip of 1 us: a first window of 18 750 B, and grants of at most 14 times 256 B.
fn by_credits() -> TransportSettings {
    let own = RcccSettings::new(Span::from_ns(1_000));
    TransportSettings {
        reliability: LossRecovery::SelectiveRepeat,
        congestion_control: Some(CongestionControlSettings::Rccc(own)),
        ..settings()
    }
}

#[test]
fn a_flow_is_sent_by_credits_after_its_first_window() {
    let mut pair = Pair::new(by_credits(), vec![flow(0, 0, 1, 950 * 40)]);
    pair.run(END);
    let starts: Vec<u64> = pair.starts.iter().map(|start| start.0).collect();
    // Any credit is enough for a packet: 19, up to 1440. The first comes at 1080 and asks for 1000 B, which
    // are 4 x 256; the grant follows its acknowledgment, and 24 B of it are left. Grants are 4 x 20.48 /
    // 0.99 ns apart and wait for acknowledgments at 1160 and 1240: they leave at 1085.12, 1165.12,
    // 1245.49 and 1328.24, and are heard 1005.12 ns later.
    assert_eq!(starts[17..23], [1_360, 1_440, 2_090, 2_170, 2_250, 2_333]);
    assert_eq!(
        (starts.len(), pair.own.counts().timeouts, pair.own.held()),
        (40, 0, HeldPackets::default())
    );
    assert!(pair.own.counts().grants > 5);
}

/// All of the first window is lost, and then the grant for what is asked in vain.
#[test]
fn who_waits_for_credits_in_vain_asks_again() {
    let mut pair = Pair::new(by_credits(), vec![flow(0, 0, 1, 950 * 30)]);
    pair.lost = (0..19).collect();
    pair.lost_grants = 1;
    pair.run(END);
    // 0 was sent at 0: at 100 us all count as lost. The request is there 1005.12 ns later and asks for the
    // window and the 250 B that the last packet took too much. Its grant is lost. That which follows it, 14
    // quanta later, tells of both: 28 x 256 B less 250 are 7 packets.
    let resent: Vec<(u64, u32, u32)> = pair.starts[19..27].to_vec();
    let at = |number: u64| (102_299 + 80 * number, 0, number as u32);
    assert_eq!(resent[..7], (0..7).map(at).collect::<Vec<_>>());
    assert_eq!((pair.own.counts().timeouts, pair.own.held()), (1, HeldPackets::default()));
    assert_eq!(pair.own.counts().retransmitted, 19);
}

/// A flow of one packet needs no credits when that packet starts. If a switch trims it, its header
/// asks for the credits to send it again.
#[test]
fn a_packet_that_was_cut_is_granted_credits() {
    let mut pair = Pair::new(by_credits(), vec![flow(0, 0, 1, 950)]);
    let wakes: Vec<Wake> = pair.own.take_wakes().collect();
    for wake in wakes {
        assert_eq!(pair.own.wake(wake.time, wake.item).begins, Some(0));
    }
    let sent = pair.own.next(Time(0), 0, 0, |_, _| true).expect("a packet");
    let arrived = pair.own.arrive_cut(Time(1_080_000), &sent.segment, 1);
    assert_eq!(arrived, Arrived { answers: 2, payload: None });
    let [refusal, grant] = [0, 1].map(|number| pair.own.answers[number].segment);
    pair.own.arrive(Time(2_085_000), &refusal, SeenOnPath { is_marked: false, hops: 1 }, &[]);
    assert_eq!(
        pair.own.next(Time(2_085_000), 0, 0, |_, _| true),
        None,
        "the first window has ended"
    );
    pair.own.arrive(Time(2_090_000), &grant, SeenOnPath { is_marked: false, hops: 1 }, &[]);
    let again = pair.own.next(Time(2_090_000), 0, 0, |_, _| true).expect("it again").segment;
    assert!(matches!(again.content, Content::Data { number: 0, asks: true, .. }));
}

/// Go-back-N under random losses: each costs the packet itself and all that is sent until the refusal
/// arrives, 28 packets of 80 ns in 2245.12 ns as above. If the first retransmission is lost too, which is
/// not refused again, it costs the time of the timer, 1250 packets. So n / (1 + 28 p + 1250 p^2) of n
/// packets are useful, if no second loss falls into the 28: for small p.
#[test]
fn go_back_n_gets_through_as_its_formula_says() {
    for share in [0.0005, 0.002, 0.005] {
        let mut pair = Pair::new(settings(), vec![flow(0, 0, 1, 950 * 400_000)]);
        pair.loss = Some((Streams::new(7).stream("loss", 0), share));
        pair.run(Time(u64::MAX - 1));
        let took = pair.ends()[0] as f64 / 80.0;
        let expected = 1.0 / (1.0 + 28.0 * share + 1_250.0 * share * share);
        let got = 400_000.0 / took;
        assert!((got / expected - 1.0).abs() < 0.02, "{share}: {got} for {expected}");
    }
}
