//! The cluster under faults: damaged packets, nodes that die and come, networks that break.

use std::collections::BTreeMap;

use proptest::prelude::*;
use weft_lab::ChannelRun;
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_lab::drive::engine::{Engine, Operation};
use weft_protocol::window::{Bid, Change, Lock, LockAction, Node};
use weft_units::{Bytes, Time};

use super::operations::{channel, delivered};
use super::run;

const CLUSTER: &str = "channel.memory.window.cluster={ heartbeat = '20 us', time_out = '60 us', \
    retry = '40 us', standby = true }";

fn counter(run: &ChannelRun, name: &str) -> f64 {
    let found = run.counters.iter().find(|(own, _)| own == name);
    found.map_or_else(|| panic!("no {name}: {:?}", run.counters), |(_, value)| *value)
}

/// A run with checked order, in which the sources stop early enough for everything to end.
fn faulty(name: &str, load: &str, events: &str, more: &[&str]) -> ChannelRun {
    let events = format!("channel.memory.window.cluster.events=[{events}]");
    let mut all = vec![
        CLUSTER,
        load,
        &events,
        "run.length=100 ms",
        "run.regime=from_empty",
        "channel.memory.window.check_order=true",
        "channel.memory.window.broadcast=0.2",
        "channel.memory.window.recovery=10 us",
        "system.hosts=4",
    ];
    all.extend(more);
    run(name, "", &all)
}

/// A list of packets up to 1 ms, so that everything is over when the run ends.
fn traffic(seed: u64, packets: u64) -> String {
    let mut random = weft_kernel::Streams::new(seed).stream("traffic", 0);
    let mut times: Vec<u64> = (0..packets).map(|_| random.below(1_000_000)).collect();
    times.sort_unstable();
    let entries: Vec<String> = times
        .iter()
        .map(|time| {
            let from = random.below(4);
            let to = (from + 1 + random.below(3)) % 4;
            format!("{{ time = '{time} ns', from = {from}, to = {to} }}")
        })
        .collect();
    format!("workload.memory.source.list=[{}]", entries.join(", "))
}

#[test]
fn damaged_packets_come_again_by_messages_on_the_channel() {
    for name in ["memory-channel-1", "memory-channel-2"] {
        let rate = "channel.memory.errors.packet_error_rate=0.01";
        let run = faulty(name, &traffic(1, 1500), "", &[rate]);
        let seen = &run.observations;
        assert_eq!((seen.delivered, seen.abandoned), (seen.generated, 0), "{:?}", run.counters);
        let counted = ["recoveries", "recovery_messages", "retransmitted_packets"]
            .map(|name| counter(&run, name));
        assert!(counted[0] >= 2.0 && counted[1] > 20.0 && counted[2] > 2.0, "{name}: {counted:?}");
        assert_eq!(counter(&run, "undetected_damage"), 0.0);
    }
}

#[test]
fn a_dead_node_is_isolated_after_the_time_out_and_the_others_go_on() {
    let events = "{ at = '300 us', what = { dies = 2 } }";
    let run = faulty("memory-channel-2", &traffic(2, 2000), events, &[]);
    let isolated = counter(&run, "isolation_max_us");
    assert!((40.0..=80.0).contains(&isolated), "{isolated}");
    assert!(run.observations.abandoned > 0);
    assert_eq!(run.backlog + run.in_flight, 0, "{:?}", run.counters);
    assert_eq!(counter(&run, "recoveries"), 1.0);
}

/// What is to be sent again to a node that is isolated is given up once, and what is to be sent again
/// behind packets that a broken network lost comes after another survey.
#[test]
fn what_changes_while_packets_are_sent_again_is_noticed() {
    let dies = |node, at| format!("{{ at = '{at} us', what = {{ dies = {node} }} }}");
    let breaks = |at| format!("{{ at = '{at} us', what = 'breaks' }}");
    for (name, seed, events, write) in [
        ("memory-channel-1", 844, dies(2, 256), "32 B"),
        ("memory-channel-1", 860, dies(2, 256), "32 B"),
        ("memory-channel-1", 885, dies(2, 400), "32 B"),
        ("memory-channel-1", 254, dies(1, 1200), "32 B"),
        ("memory-channel-2", 119, dies(2, 540), "32 B"),
        ("memory-channel-1", 70, format!("{}, {}", dies(1, 737), breaks(397)), "32 B"),
        ("memory-channel-2", 586, breaks(757), "32 B"),
        ("memory-channel-2", 770, breaks(310), "32 B"),
        ("memory-channel-2", 334, format!("{}, {}", dies(0, 581), breaks(819)), "4 B"),
    ] {
        let rate = "channel.memory.errors.packet_error_rate=0.01";
        let write = format!("channel.memory.window.write={write}");
        let run = faulty(name, &traffic(seed, 1000), &events, &[rate, &write]);
        let seen = &run.observations;
        assert_eq!(run.backlog + run.in_flight, 0, "{name} {seed}: {:?}", run.counters);
        assert_eq!(seen.delivered + seen.abandoned, seen.generated, "{name} {seed}");
    }
}

#[test]
fn a_broken_network_loses_nothing_if_another_one_stands_by() {
    for name in ["memory-channel-1", "memory-channel-2"] {
        let run = faulty(name, &traffic(3, 2000), "{ at = '300 us', what = 'breaks' }", &[]);
        let seen = &run.observations;
        assert_eq!((seen.delivered, seen.abandoned), (seen.generated, 0), "{:?}", run.counters);
        let switched = counter(&run, "switch_max_us");
        assert!((40.0..=120.0).contains(&switched), "{switched}");
        assert!(counter(&run, "without_service_max_us") > switched);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens when, on either generation: the order holds, and everything is delivered
    /// once, or given up because a node is gone; then nothing is under way any more.
    #[test]
    fn nothing_is_lost_silently(
        second in any::<bool>(),
        seed in 0_u64..1000,
        dies in proptest::option::of((1_u64..1_200, 0_u16..4, proptest::option::of(100_u64..600))),
        breaks in proptest::option::of(1_u64..1_200),
        errors in prop::sample::select(vec!["0", "0.001", "0.01"]),
        window in prop::sample::select(vec!["4 B", "32 B"]),
    ) {
        let name = if second { "memory-channel-2" } else { "memory-channel-1" };
        let mut events = Vec::new();
        if let Some((at, node, back)) = dies {
            events.push(format!("{{ at = '{at} us', what = {{ dies = {node} }} }}"));
            if let Some(back) = back {
                let back = at + back;
                events.push(format!("{{ at = '{back} us', what = {{ joins = {node} }} }}"));
            }
        }
        if let Some(at) = breaks {
            events.push(format!("{{ at = '{at} us', what = 'breaks' }}"));
        }
        let errors = format!("channel.memory.errors.packet_error_rate={errors}");
        let write = format!("channel.memory.window.write={window}");
        let run = faulty(name, &traffic(seed, 1000), &events.join(", "), &[&errors, &write]);
        let seen = &run.observations;
        prop_assert_eq!(run.backlog + run.in_flight, 0, "{:?}", run.counters);
        prop_assert_eq!(seen.delivered + seen.abandoned, seen.generated);
        if dies.is_none() {
            prop_assert_eq!(seen.abandoned, 0, "{:?}", run.counters);
        }
    }
}

#[test]
fn a_node_that_joins_takes_part() {
    let events = "{ at = '300 us', what = { joins = 2 } }";
    let run = faulty("memory-channel-2", &traffic(4, 2000), events, &[]);
    assert!(run.observations.abandoned > 0);
    assert_eq!(run.backlog + run.in_flight, 0, "{:?}", run.counters);
    let without = faulty("memory-channel-2", &traffic(4, 2000), "", &[]);
    assert!(run.observations.delivered > without.observations.delivered / 2);
}

/// What a program hands over on a node that has stopped is lost in that instant. Nothing of it waits in
/// the adapter until the node has joined again, and got its number.
#[test]
fn a_node_that_has_stopped_stores_nothing() {
    let events = "channel.memory.window.cluster.events=[{ at = '100 us', what = { dies = 0 } }, \
        { at = '400 us', what = { joins = 0 } }]";
    let numbers = "channel.memory.window.configuration={ answer = '20 us' }";
    let mut channel =
        channel("memory-channel-2", "", &["system.hosts=4", CLUSTER, events, numbers]);
    let (mut notices, mut told) = (Vec::new(), Time::ZERO);
    for (ticket, at) in [50_u64, 150, 200, 250, 900].into_iter().enumerate() {
        let at = Time(at * 1_000_000);
        while channel.next_time() <= at {
            let now = channel.next_time();
            assert!(now >= told, "{now:?} after {told:?}");
            told = now;
            channel.advance(now, &mut notices);
        }
        let (to, ticket) = (Destination::Host(1), Ticket(ticket as u64));
        channel.offer(at, Message { from: 0, to, size: Bytes(4), ticket });
        if at == Time(200_000_000) {
            let sweep = Operation::Sweep { targets: 0b10 };
            channel.begin_operation(at, 0, sweep, Ticket(10)).expect("a free slot");
        }
    }
    while channel.next_time() <= Time(1_000_000_000) {
        let now = channel.next_time();
        channel.advance(now, &mut notices);
    }
    let of = |notice: &Notice| match *notice {
        Notice::Lost { time, ticket, .. } => Some((ticket.0, time.0 / 1_000_000)),
        _ => None,
    };
    let lost: Vec<_> = notices.iter().filter_map(of).collect();
    assert_eq!(lost, [(1, 150), (2, 200), (10, 200), (3, 250)]);
    assert_eq!([0, 4].map(|ticket| delivered(&notices, ticket).len()), [1, 1]);
    assert_eq!((channel.backlog(), channel.in_flight(), channel.broken_order()), (0, 0, None));
}

/// Nodes that want the same lock again and again, over a channel on which anything happens.
struct Bidders {
    channel: Engine,
    locks: Vec<Lock>,
    alive: Vec<bool>,
    /// What each message writes.
    bids: BTreeMap<u64, Bid>,
    /// When who acts next: releases, or tries again.
    due: BTreeMap<(u64, u16), ()>,
    seen: usize,
    acquired: Vec<u32>,
    now: u64,
}

impl Bidders {
    fn new(name: &str, errors: &str, death: (u64, u16)) -> Bidders {
        let (at, node) = death;
        let cluster = format!(
            "channel.memory.window.cluster={{ heartbeat = '20 us', time_out = '60 us', retry = '40 us', \
             events = [{{ at = '{at} us', what = {{ dies = {node} }} }}] }}"
        );
        let errors = format!("channel.memory.errors.packet_error_rate={errors}");
        let recovery = "channel.memory.window.recovery=10 us";
        let all = [cluster.as_str(), &errors, recovery, "system.hosts=4"];
        let channel = channel(name, "", &all);
        let locks = (0..4).map(|node| Lock::new(Node(node))).collect();
        let due = (0..4).map(|node| ((1_000 * u64::from(node), node), ())).collect();
        Bidders {
            channel,
            locks,
            alive: vec![true; 4],
            bids: BTreeMap::new(),
            due,
            seen: 0,
            acquired: vec![0; 4],
            now: 0,
        }
    }

    fn write(&mut self, from: u16, bid: Bid) {
        let ticket = self.bids.len() as u64 + 1;
        self.bids.insert(ticket, bid);
        let to = Destination::Hosts(0b1111);
        let message = Message { from, to, size: Bytes(4), ticket: Ticket(ticket) };
        self.channel.offer(Time(self.now), message);
    }

    fn act(&mut self, node: u16, action: Option<LockAction>) {
        let turn = u64::from(node) + 1;
        match action {
            Some(LockAction::Write(bid)) => self.write(node, bid),
            Some(LockAction::Acquired) => {
                self.acquired[usize::from(node)] += 1;
                self.due.insert((self.now + 5_000_000, node), ());
            }
            Some(LockAction::BackOff | LockAction::Released) => {
                self.due.insert((self.now + 7_000_000 * turn, node), ());
            }
            None => {}
        }
    }

    fn holders(&self) -> usize {
        (0..4).filter(|node| self.alive[*node] && self.locks[*node].is_held()).count()
    }

    /// Runs until an instant; at no instant two hold the lock.
    fn run(&mut self, until: u64, death: (u64, u16)) {
        loop {
            let due = self.due.keys().next().map_or(u64::MAX, |(time, _)| *time);
            self.now = self.channel.next_time().0.min(due);
            if self.now > until {
                return;
            }
            if self.now >= death.0 * 1_000_000 {
                self.alive[usize::from(death.1)] = false;
            }
            if self.now == due
                && let Some(((_, node), ())) = self.due.pop_first()
                && self.alive[usize::from(node)]
            {
                let lock = &mut self.locks[usize::from(node)];
                let action = lock.release().or_else(|| lock.retry()).or_else(|| lock.acquire());
                self.act(node, action);
            }
            let mut notices = Vec::new();
            self.channel.advance(Time(self.now), &mut notices);
            for notice in notices {
                let Notice::Delivered { ticket, to, .. } = notice else { continue };
                if self.alive[usize::from(to)] {
                    let action = self.locks[usize::from(to)].arrive(self.bids[&ticket.0]);
                    self.act(to, action);
                }
                assert!(self.holders() <= 1, "two hold the lock at {} ps", self.now);
            }
            self.clear_words();
        }
    }

    /// The cluster manager clears the words of nodes that are gone.
    fn clear_words(&mut self) {
        let new: Vec<_> = self.channel.windows().expect("a hub").changes()[self.seen..].to_vec();
        self.seen += new.len();
        for (_, who, change) in new {
            let manager = (0..4).find(|node| self.alive[usize::from(*node)]);
            if let Change::Removed(node) = change
                && Some(who) == manager
            {
                self.write(who, Bid { node, set: false });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// MC-R21, in simulated time: whoever dies when, with damaged packets, at most one node has the
    /// lock, and afterwards all others get it again and again, also after its holder died.
    #[test]
    fn a_lock_has_one_holder_and_outlives_it(
        name in prop::sample::select(vec!["memory-channel-1", "memory-channel-2"]),
        errors in prop::sample::select(vec!["0", "0.001", "0.005"]),
        at in 20_u64..400,
        node in 0_u16..4,
    ) {
        let mut bidders = Bidders::new(name, errors, (at, node));
        bidders.run(3_000_000_000, (at, node));
        let before = bidders.acquired.clone();
        bidders.run(12_000_000_000, (at, node));
        prop_assert_eq!(bidders.channel.broken_order(), None);
        for other in (0..4).filter(|other| *other != usize::from(node)) {
            prop_assert!(bidders.acquired[other] > before[other], "{:?}", bidders.acquired);
        }
        prop_assert_eq!(bidders.acquired[usize::from(node)], before[usize::from(node)]);
    }
}

const CLOCK: &str = "channel.memory.window.cluster={ heartbeat = '1 ms', time_out = '3 ms', \
    retry = '100 us', clock = { interval = '1 ms', drift_ppm = 0, service = '1 us' } }";

/// MC-R19: 12 bytes and a cable are 140 ns at the least, and a packet of 38 bytes 330 ns more at
/// the most: 2 x 330 + 1000 ns.
#[test]
fn clocks_agree_within_the_stated_accuracy_under_load() {
    for load in ["0.01", "0.4"] {
        let load = format!("workload.memory.load={load}");
        let run = run("memory-channel-2", "", &[CLOCK, &load, "run.length=50 ms"]);
        assert!((counter(&run, "clock_bound_us") - 1.66).abs() < 1e-9);
        let apart = counter(&run, "clock_apart_max_us");
        assert!(apart > 0.5 && apart <= counter(&run, "clock_bound_seen_us"), "{apart}");
    }
    let drift = CLOCK.replace("drift_ppm = 0", "drift_ppm = 10000");
    let run =
        run("memory-channel-2", "", &[&drift, "workload.memory.load=0.2", "run.length=50 ms"]);
    let apart = counter(&run, "clock_apart_max_us");
    assert!(apart > 10.0, "clocks drift apart by up to 20 us a ms: {apart}");
    assert!(apart <= counter(&run, "clock_bound_with_drift_us"), "{apart}");
}

/// MC-R20 and MC-50: three ways against one, and four against two until the sender knows.
#[test]
fn recoverable_messages_by_round_trip_and_by_conditional_write() {
    let mean = |how: &str| {
        let how = format!("channel.memory.window.recoverable={how}");
        let one = "workload.memory.source.list=[{ time = '1 us', from = 0, to = 1 }]";
        let run = run(
            "memory-channel-2",
            "virtual_hub",
            &[
                one,
                &how,
                "run.length=40 us",
                "run.regime=from_empty",
                "channel.memory.window.write=8 B",
            ],
        );
        [weft_fabric::measure::Latency::OneWay, weft_fabric::measure::Latency::RoundTrip]
            .map(|latency| run.observations.recorder(latency).mean_ps().unwrap_or(0.0))
    };
    let [used, known] = mean("conditional_write");
    // One write of 8 bytes through a direct pair, as by hand in `times`.
    assert_eq!(used, 2_163_030.0);
    let [late_used, late_known] = mean("round_trip");
    assert!(late_used > 2.0 * used, "{late_used} {used}");
    assert!(late_known > 1.8 * known, "{late_known} {known}");
}

#[test]
fn settings_of_the_cluster_that_do_not_fit_are_refused() {
    let base = ["workload.memory.load=0.1", "run.length=10 us"];
    for (cluster, text) in [
        (
            "heartbeat = '20 us', time_out = '30 us', retry = '1 us'",
            "two heartbeats or more, 40 us",
        ),
        ("heartbeat = '0 us', time_out = '0 us', retry = '0 us'", "more than 0 ns"),
        (
            "heartbeat = '20 us', time_out = '60 us', retry = '1 us', \
             events = [{ at = '1 us', what = { dies = 9 } }]",
            "accepted: 0 to 7",
        ),
        (
            "heartbeat = '0 us', time_out = '60 us', retry = '1 us', \
             events = [{ at = '1 us', what = 'breaks' }]",
            "no node learns of the events",
        ),
    ] {
        let cluster = format!("channel.memory.window.cluster={{ {cluster} }}");
        let all = [base[0], base[1], &cluster];
        let refused = super::try_run("memory-channel-2", "", &all).map(|_| ());
        let refused = refused.expect_err("it was carried out").to_string();
        assert!(refused.contains(text), "{refused}");
    }
}
