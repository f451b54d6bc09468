//! What holds whatever the traffic, and what the network can do at most.

use proptest::prelude::*;
use weft_fabric::measure::Latency;
use weft_kernel::Halt;
use weft_lab::drive::Channel as _;
use weft_units::Time;

use super::operations::with_sources;
use super::{megabytes_per_second, run};

const PAIR: &str =
    "workload.memory={ source = 'greedy', pattern = { flows = [{ from = 0, to = 1 }] } }";

fn stream(preset: &str, write: &str) -> f64 {
    let write = format!("channel.memory.window.write={write}");
    let skip = "run.regime={ skip = '20 us' }";
    megabytes_per_second(&run(
        "memory-channel-2",
        preset,
        &[PAIR, &write, "run.length=520 us", skip],
    ))
}

/// MC-R1, MC-R2: payload / (payload / 2 + 6 cycles of 15 ns).
#[test]
fn the_network_limit_by_packet_size() {
    let published = [
        ("4 B", 33.3),
        ("8 B", 53.3),
        ("16 B", 76.2),
        ("32 B", 97.0),
        ("64 B", 112.3),
        ("128 B", 121.9),
        ("256 B", 127.4),
    ];
    for (write, limit) in published {
        for preset in ["virtual_hub+network", "network"] {
            let found = stream(preset, write);
            assert!((found / limit - 1.0).abs() < 0.005, "{preset} {write}: {found} not {limit}");
        }
    }
}

/// MC-R3: 12 cycles of the bus for each 32 bytes.
#[test]
fn a_processor_streams_at_88_mb_per_second() {
    let found = stream("virtual_hub", "32 B");
    assert!((found / 88.0 - 1.0).abs() < 0.005, "{found}");
}

/// A load is a share of the time of the links, whatever the size of the writes.
#[test]
fn a_load_keeps_the_links_busy_for_as_much() {
    for write in ["4 B", "32 B", "256 B"] {
        let write = format!("channel.memory.window.write={write}");
        let set = ["workload.memory.load=0.3", &write, "run.length=1 ms", "run.regime=from_empty"];
        let run = run("memory-channel-2", "network", &set);
        let hosts = run.hosts as usize;
        let busy: u64 = run.observations.busy()[hosts..].iter().map(|span| span.0).sum();
        let share = busy as f64 / hosts as f64 / run.measured().0 as f64;
        assert!((run.offered_load() / 0.3 - 1.0).abs() < 0.1, "{write}: {}", run.offered_load());
        assert!((share / run.accepted_load() - 1.0).abs() < 0.02, "{write}: {share}");
    }
}

/// Control packets without length, so that what is left is the arbiter.
const NO_CONTROL: &str = "channel.memory.window.control=0 B";

/// The one place between bus and link is free when the last byte has left, also when control packets
/// went before the first: then the next packet is taken in, and is ready 375 ns later.
#[test]
fn a_place_of_the_adapter_is_taken_until_its_packet_has_left() {
    let set = [
        "channel.memory.adapter.send_buffers=1",
        "channel.memory.window.write=256 B",
        "workload.memory={ source = 'greedy', pattern = 'uniform' }",
        "run.length=200 us",
        "run.trace=true",
    ];
    let run = run("memory-channel-2", "network+compare", &set);
    let mut closest = u64::MAX;
    for host in 0..16 {
        let own = run.trace.iter().filter(|entry| entry.initiator == Some(host));
        let starts: Vec<u64> = own.map(|entry| entry.time.0).collect();
        assert!(starts.len() > 30, "host {host} sent {} packets", starts.len());
        closest = starts
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .min()
            .map_or(closest, |gap| closest.min(gap));
    }
    // 134 cycles of 15 ns on the link, 2.048 ns on the bus of this preset, and the adapter.
    assert_eq!(closest, 2_010_000 + 2_048 + 375_000);
}

/// Parts move by editing the composition alone: Clint's scheduler decides in the hub.
#[test]
fn a_scheduler_takes_the_place_of_request_sampling() {
    let crossbar = "channel.memory.switch.hub.transfer.crossbar";
    let streams = |arbiter: &str| {
        let arbiter = format!("{crossbar}.arbiter.{arbiter}");
        let uniform = "workload.memory={ source = 'greedy', pattern = 'uniform' }";
        let all = [
            uniform,
            "run.length=300 us",
            "run.regime={ skip = '50 us' }",
            "channel.memory.window.check_order=true",
            NO_CONTROL,
            arbiter.as_str(),
        ];
        megabytes_per_second(&run("memory-channel-2", "network", &all))
    };
    let sampled = {
        let uniform = "workload.memory={ source = 'greedy', pattern = 'uniform' }";
        let all = [uniform, NO_CONTROL, "run.length=300 us", "run.regime={ skip = '50 us' }"];
        megabytes_per_second(&run("memory-channel-2", "network", &all))
    };
    // Queues are first in, first out at the inputs: 8 of them carry 0.618 of eight links of 97 MB/s.
    for carried in [
        sampled,
        streams("scheduler.least_choice_first.round_robin=true"),
        streams("scheduler.islip.iterations=2"),
    ] {
        assert!((carried / (0.618 * 8.0 * 96.97) - 1.0).abs() < 0.05, "{carried}");
    }
}

/// What only counts is counted later, and a store behind another one is drawn later, unless anything
/// can go wrong: then both are events. What is seen of the two runs is the same to the last bit.
fn is_observed_all_the_same(name: &str, preset: &str, set: &[&str]) {
    let observed = |set: &[&str]| {
        let run = run(name, preset, set);
        let series =
            Latency::ALL.map(|kind| format!("{:?}", run.observations.recorder(kind).series()));
        let seen = serde_json::to_string(&run.observations).expect("plain data");
        (run.steps, format!("{} {} {series:?} {seen}", run.backlog, run.in_flight))
    };
    let (later, seen) = observed(set);
    let can_go_wrong = "channel.memory.errors.packet_error_rate=1e-300";
    let (at_once, expected) = observed(&[set, &[can_go_wrong]].concat());
    assert!(later < at_once, "{later} steps, {at_once}");
    assert!(seen == expected, "{name} {preset} {set:?}:\n{seen}\n{expected}");
}

#[test]
fn what_is_put_off_is_observed_all_the_same() {
    for (name, preset, write) in [
        ("memory-channel-2", "compare", "32 B"),
        ("memory-channel-2", "network+compare", "4 B"),
        ("memory-channel-2", "flag", "12 B"),
        ("memory-channel-2", "virtual_hub", "256 B"),
        ("memory-channel-1", "", "32 B"),
    ] {
        for (load, broadcast) in [("0.05", "0.2"), ("0.3", "0"), ("0.9", "0"), ("0.9", "0.2")] {
            let write = format!("channel.memory.window.write={write}");
            let broadcast = format!("channel.memory.window.broadcast={broadcast}");
            let load = format!("workload.memory.load={load}");
            let end = ["run.length=300 us", "run.regime={ skip = '20 us' }"];
            let set = [[write.as_str(), &broadcast, &load].as_slice(), &end].concat();
            is_observed_all_the_same(name, preset, &set);
        }
    }
}

/// Counters that are noted at the very instants of stores or of deliveries, each 4020 ns.
#[test]
fn what_is_put_off_counts_from_its_own_instant_on() {
    let flow = "workload.memory={ load = 0.5, arrivals = 'constant', \
        pattern = { flows = [{ from = 0, to = 1 }] } }";
    let alone = run("memory-channel-2", "compare", &[flow, "run.length=9 us", "run.trace=true"]);
    let span = |kind| alone.observations.recorder(kind).min().expect("one packet").0;
    let delivery = alone.trace[0].time.0 + span(Latency::Transit);
    for instant in [delivery, delivery + 4_020_000 - span(Latency::OneWay)] {
        let skip = format!("run.regime={{ skip = '{instant} ps' }}");
        let length = format!("run.length={} ps", instant + 64 * 4_020_000);
        is_observed_all_the_same("memory-channel-2", "compare", &[flow, &skip, &length]);
    }
}

/// Whoever watches a run sees each delivery once, in the order of time, and changes nothing.
#[test]
fn whoever_watches_sees_every_delivery() {
    let load = "workload.memory.load=0.5";
    let watched = |is_watched: bool| {
        let mut engine = with_sources(&[load, "channel.memory.window.broadcast=0.1"]);
        let (until, mut seen) = (Time(300_000_000), Vec::new());
        match is_watched {
            true => engine.run_watched(until, &Halt::new(), |one| seen.push(one)),
            false => engine.run(until, &Halt::new()),
        };
        (seen, engine.into_observations())
    };
    let ((seen, observed), (nothing, alone)) = (watched(true), watched(false));
    assert!(nothing.is_empty() && observed.delivered > 1_000);
    assert_eq!((seen.len() as u64, observed.delivered), (alone.delivered, alone.delivered));
    assert!(seen.is_sorted_by_key(|one| one.end));
    let latency: u128 = seen.iter().map(|one| u128::from(one.end.since(one.generated).0)).sum();
    assert_eq!(latency, observed.recorder(Latency::OneWay).sum_ps());
    assert_eq!(latency, alone.recorder(Latency::OneWay).sum_ps());
    assert!(seen.iter().all(|one| one.hops == 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any load, any pattern, any buffers, any share of broadcasts, with damaged
    /// packets and without, either generation: the three rules hold, and every packet is accounted for
    /// (each run is checked for that).
    #[test]
    fn the_order_holds_under_any_traffic(
        load in 0.05_f64..1.0,
        pattern in prop::sample::select(vec!["uniform = {}", "shift = 1",
            "hot_spot = { target = 0, fraction = 0.5 }"]),
        buffers in 1_u32..5,
        preset in prop::sample::select(vec!["", "network", "flag"]),
        write in prop::sample::select(vec!["4 B", "32 B", "256 B"]),
        second in any::<bool>(),
        errors in prop::sample::select(vec!["0", "0.02"]),
        broadcast in prop::sample::select(vec!["0", "0.05", "1"]),
    ) {
        let workload = format!("workload.memory={{ load = {load:.3}, pattern = {{ {pattern} }} }}");
        let buffers = [
            format!("channel.memory.window.receive_buffers={buffers}"),
            format!("channel.memory.switch.hub.transfer.crossbar.buffer={buffers}"),
            format!("channel.memory.adapter.send_buffers={buffers}"),
            format!("channel.memory.window.write={write}"),
            format!("channel.memory.window.broadcast={broadcast}"),
            format!("channel.memory.errors.packet_error_rate={errors}"),
            "channel.memory.window.recovery=3 us".to_owned(),
        ];
        let mut all = vec![workload.as_str(), "run.length=200 us", "run.regime=from_empty",
            "channel.memory.window.check_order=true"];
        all.extend(buffers.iter().map(String::as_str));
        let name = if write == "32 B" && !second { "memory-channel-1" } else { "memory-channel-2" };
        if name == "memory-channel-1" {
            all.retain(|key| !key.contains("crossbar"));
        }
        let preset = if name == "memory-channel-1" { "" } else { preset };
        let run = run(name, preset, &all);
        prop_assert!(run.observations.delivered > 0);
    }
}
