//! Both channels as virtual channels of one link, shared on demand: hand-worked times, and laws.

use proptest::prelude::*;
use weft_fabric::measure::{Collision, Latency, Stage};
use weft_lab::ChannelRun;

use super::{channel, counter, runs, try_runs};

const SHARED: Option<&str> = Some("shared_link");
/// As in `systems/clint.toml`; the tests of this folder fix the gap besides.
const GAP: &str = "channel.bulk.switch.scheduled.gap=1106 ns";
const BULK: &str = "workload.bulk.source.list=[{ time = '500 ns', from = 0, to = 1 }]";

fn shared(hosts: u16, quick: &[(&str, u16, u16)]) -> Vec<ChannelRun> {
    let packet = |(time, from, to): &(&str, u16, u16)| {
        format!("{{ time = '{time}', from = {from}, to = {to} }}")
    };
    let quick: Vec<String> = quick.iter().map(packet).collect();
    let quick = format!("workload.quick.source.list=[{}]", quick.join(", "));
    let hosts = format!("system.hosts={hosts}");
    let fixed = ["run.length=60 us", "run.trace=true", "run.regime=from_empty"];
    let mut overrides = vec![GAP, BULK, hosts.as_str(), quick.as_str()];
    overrides.extend(fixed);
    runs("clint", SHARED, &overrides, 1)
}

/// Start and end of every packet of a kind, in nanoseconds and picoseconds.
fn times(runs: &[ChannelRun], kind: &str) -> Vec<(u64, u64)> {
    let of_kind = runs.iter().flat_map(|run| &run.trace).filter(|entry| entry.kind == kind);
    of_kind.map(|entry| (entry.time.0, entry.until.0)).collect()
}

/// The slot is (8344 + 1106) / 0.95 = 9947.368 ns. The packet is sampled at that time and sent
/// 1880 ns later, at 11 827.368 ns. It takes 8344 ns, 50 ns of cable and 90 ns of switch, and 76 ns
/// more, since its adapter sends the next `cfg` of 19 bytes meanwhile, at 19 894.736 ns.
#[test]
fn a_transfer_alone_stretches_by_a_configuration() {
    let runs = shared(2, &[]);
    assert_eq!(times(&runs, "breq"), [(11_827_368, 20_387_368)]);
    assert_eq!(times(&runs, "back"), [(20_387_368, 20_387_368 + 16_000 + 140_000)]);
    let seen = &channel(&runs, "bulk").observations;
    assert_eq!(seen.recorder(Latency::Transit).max().map(|span| span.0), Some(8_560_000));
    assert_eq!(seen.budget.sum_ps(Stage::SwitchWait), 76_000);
}

/// A quick packet takes 144 ns and two ways of 70 ns, whether a transfer is on its links or not;
/// one from the same adapter makes the hole in the transfer through which it leaves the switch, so
/// that it delays it by 144 ns once. One from another adapter makes the switch keep 144 ns of the
/// transfer, of which the hole of the `cfg` that follows lets 76 ns go.
#[test]
fn a_quick_packet_goes_first_and_the_transfer_later() {
    for (from, later) in [(0, 144_000), (2, 144_000 - 76_000)] {
        let runs = shared(3, &[("15 us", from, 1)]);
        assert_eq!(times(&runs, "qreq"), [(15_000_000, 15_284_000)], "from {from}");
        assert_eq!(times(&runs, "qack"), [(15_284_000, 15_440_000)], "from {from}");
        assert_eq!(times(&runs, "breq"), [(11_827_368, 20_387_368 + later)], "from {from}");
    }
}

/// From another adapter to another target: the two do not meet.
#[test]
fn a_quick_packet_elsewhere_delays_nothing() {
    let runs = shared(4, &[("15 us", 2, 3)]);
    assert_eq!(times(&runs, "breq"), [(11_827_368, 20_387_368)]);
}

/// Five packets of 144 ns and 156 ns for what is scheduled are in the guard of 956 ns, a sixth one
/// waits for the end of the transfer on the link: 11 827.368 + 8344 + 5 x 144 + 76 ns.
#[test]
fn what_the_guard_has_no_room_for_waits_in_the_adapter() {
    let six = ["12 us", "12.5 us", "13 us", "13.5 us", "14 us", "14.5 us"];
    let runs = shared(2, &six.map(|time| (time, 0, 1)));
    let starts: Vec<u64> = times(&runs, "qreq").iter().map(|packet| packet.0 / 1000).collect();
    assert_eq!(starts, [12_000, 12_500, 13_000, 13_500, 14_000, 20_967]);
    assert_eq!(times(&runs, "breq"), [(11_827_368, 20_387_368 + 5 * 144_000)]);
}

/// The same five, and one of another adapter to the same target: the switch holds no packets, so
/// it is dropped, and sent again until the transfer is over.
#[test]
fn what_the_guard_has_no_room_for_is_dropped_in_the_switch() {
    let mut packets = ["12 us", "12.5 us", "13 us", "13.5 us", "14 us"].map(|t| (t, 0, 1)).to_vec();
    packets.push(("15 us", 2, 1));
    let runs = shared(3, &packets);
    let quick = &channel(&runs, "quick").observations;
    // Every 760 ns: at 15 us + 7 x 760 ns = 20.32 us the transfer still has 0.8 us to go, at
    // 21.08 us it has passed.
    assert_eq!(quick.collisions(Collision::Transfer), 8);
    assert_eq!(times(&runs, "qreq").last().map(|packet| packet.0), Some(21_080_000));
    assert_eq!((quick.delivered, quick.attempts), (6, 5 + 9));
    assert_eq!(times(&runs, "breq"), [(11_827_368, 20_387_368 + 5 * 144_000)]);
}

/// One link carries no more than it can, and what one channel leaves the other one gets: at a bulk
/// load of 0.8 of the link and with as many quick packets as there is room for.
#[test]
fn one_link_carries_both_and_no_more_than_it_can() {
    let of = |preset, bulk: &str, quick: &str, more: &[&str]| {
        let bulk = format!("workload.bulk.load={bulk}");
        let quick = format!("workload.quick.load={quick}");
        let mut overrides = vec!["run.length=10 ms", "run.regime=from_empty", &bulk, &quick];
        overrides.extend(more);
        let runs = runs("clint", Some(preset), &overrides, 1);
        let load = |name| channel(&runs, name).accepted_load();
        let signalling = counter(channel(&runs, "bulk"), "signalling_share_to_switch");
        (load("bulk"), load("quick"), signalling)
    };
    let (bulk, quick, signalling) = of("shared_link", "0.8", "0.3", &[GAP]);
    println!("bulk {bulk:.3}, quick {quick:.3}, signalling {signalling:.4} of one link");
    assert!(bulk + quick + signalling < 1.0);
    assert!(bulk > 0.75, "{bulk}");
    // Divided in time, 0.791 of the link is the most that transfers could ever have.
    let (alone, ..) = of("shared_link", "0.95", "0", &[GAP]);
    assert!(alone > 0.8, "{alone}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is offered and goes wrong: packets are conserved and no transfer runs out of its
    /// slot (the run itself is refused otherwise), and none is shorter than it is alone.
    #[test]
    fn transfers_keep_to_their_slots(
        bulk in 0.1..1.0_f64,
        quick in 0.01..0.6_f64,
        guard in 300..1106_u64,
        errors in 0.0..0.1_f64,
        hosts in 2..6_u16,
        seed: u64,
    ) {
        let settings = [
            GAP.to_owned(),
            format!("system.hosts={hosts}"),
            "run.length=600 us".to_owned(),
            "run.regime=from_empty".to_owned(),
            format!("workload.bulk.load={bulk}"),
            format!("workload.quick.load={quick}"),
            format!(
                "channel.bulk.switch.scheduled.signalling.carried.shared_link.guard={guard} ns"
            ),
            "channel.bulk.adapter.release=acknowledgment".to_owned(),
            format!("channel.bulk.errors.packet_error_rate={errors}"),
            format!("channel.quick.errors.packet_error_rate={errors}"),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let runs = try_runs("clint", SHARED, &settings, seed);
        let runs = runs.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let seen = &channel(&runs, "bulk").observations;
        let transit = seen.recorder(Latency::Transit);
        if let (Some(least), Some(most)) = (transit.min(), transit.max()) {
            prop_assert!(least.0 >= 8_484_000 && most.0 <= 8_484_000 + guard * 1000);
        }
        for run in &runs {
            let one_way = run.observations.recorder(Latency::OneWay);
            prop_assert_eq!(run.observations.budget.total_ps(), one_way.sum_ps());
        }
    }
}
