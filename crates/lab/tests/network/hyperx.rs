//! `HyperX`: what minimal routes carry, by cables counted by hand (Ahn, Binkert, Davis, McLaren and
//! Schreiber, SC 2009).

use weft_lab::ChannelRun;
use weft_lab::statistics::Verdict;

use super::{file, refusal, run, voq};

const SPRAYED: &str = "per_packet = 'random'";
const HASHED: &str = "per_connection = 'hashed'";
const ADAPTIVE: &str = "per_packet = 'adaptive'";
const VALIANT: &str = "per_packet = 'valiant'";
const UGAL: &str = "per_packet = 'ugal'";

/// With queues without a limit at the outputs.
fn queued(hosts: u32, fabric: &str, rule: &str, workload: &str, length: &str) -> ChannelRun {
    run(&file(hosts, &format!("fabric.hyperx = {fabric}\nroutes.{rule}"), workload, length), 1)
}

/// The part of what was offered that was not accepted.
fn lost(run: &ChannelRun) -> f64 {
    1.0 - run.accepted_load() / run.offered_load()
}

/// Half of the switches to the other half, cut across a dimension of `size` with `cables` of `rate`
/// between each two, where there are `rows` and `hosts` in all: `(size/2)^2 rows cables` cables for
/// half of the hosts, each of which sends `(hosts/2) / (hosts - 1)` of its packets across.
fn bound(hosts: u32, (size, rows): (u32, u32), cables: u32, rate: f64) -> f64 {
    let across = f64::from((size / 2) * (size / 2) * rows * cables) * rate;
    across / (f64::from(hosts * hosts) / 4.0 / f64::from(hosts - 1))
}

/// Uniform traffic fills the cables of the narrowest bisection, and is carried whole below that.
#[test]
fn uniform_traffic_is_carried_up_to_the_bisection() {
    // A complete graph: 4 cables for 16 hosts, of whose packets 16 in 31 go across.
    let one = ("dimensions = [4], hosts_per_switch = 8", bound(32, (4, 1), 1, 1.0));
    // Each dimension: 4 rows with 4 cables each for 64 hosts, of whose packets 64 in 127 go across.
    let two = ("dimensions = [4, 4], hosts_per_switch = 8", bound(128, (4, 4), 1, 1.0));
    // Twice the cables along rows, and columns at half the rate: columns decide.
    let unlike = (
        "dimensions = [4, 4], hosts_per_switch = 8, parallel_cables = [2, 1], \
         links = [{}, {}, { rate = '0.5 Gbit/s' }]",
        bound(128, (4, 4), 1, 0.5),
    );
    assert!((one.1 - 31.0 / 64.0).abs() < 1e-12);
    assert!((two.1 - 127.0 / 256.0).abs() < 1e-12);
    assert!((unlike.1 - 127.0 / 512.0).abs() < 1e-12);
    for ((fabric, bound), hosts) in [(one, 32), (two, 128), (unlike, 128)] {
        for (order, rule) in [("listed", SPRAYED), ("any", SPRAYED), ("any", ADAPTIVE)] {
            let fabric = format!("{{ {fabric}, order = '{order}' }}");
            let at = |load: f64| queued(hosts, &fabric, rule, &format!("load = {load}"), "6 ms");
            let below = at(0.93 * bound);
            assert!(lost(&below) < 0.015, "{fabric}, {rule}: {}", lost(&below));
            let above = at(1.1 * bound);
            assert_eq!(above.judgement.verdict, Verdict::Saturated, "{fabric}, {rule}");
            // What stays in a quarter of each row of four goes on.
            let stays = f64::from(hosts / 4 - 1) / f64::from(hosts - 1);
            let most = bound * (1.0 + 0.1 * stays);
            let accepted = above.accepted_load();
            assert!((0.95 * bound..1.005 * most).contains(&accepted), "{fabric}: {accepted}");
        }
    }
}

/// Every host sends to the next switch of its row: the four hosts of a switch share its two cables.
#[test]
fn traffic_to_one_switch_shares_the_cables_to_it() {
    let fabric = "{ dimensions = [4], hosts_per_switch = 4, parallel_cables = [2] }";
    for rule in [SPRAYED, ADAPTIVE] {
        let run = queued(16, fabric, rule, "load = 0.9\npattern.shift = 4", "6 ms");
        let accepted = run.accepted_load();
        assert!((0.49..=0.5).contains(&accepted), "{rule}: {accepted}");
    }
}

/// Eight switches of four hosts, each of which sends to the next switch. On the minimal route they
/// share one cable: 1/4. By one of six others, the cable from switch I to J, J not I + 1, carries a
/// sixth of what I sends and a sixth of what J - 1 sends: full at 6/8.
#[test]
fn valiant_spreads_what_one_cable_would_carry() {
    let fabric = "{ dimensions = [8], hosts_per_switch = 4 }";
    let at = |rule: &str, load: f64| {
        queued(32, fabric, rule, &format!("load = {load}\npattern.shift = 4"), "6 ms")
    };
    let accepted = at(SPRAYED, 0.5).accepted_load();
    assert!((accepted - 0.25).abs() < 0.003, "{accepted}");
    let bound = 6.0 / 8.0;
    let below = at(VALIANT, 0.95 * bound);
    assert!(lost(&below) < 0.02, "{}", lost(&below));
    let above = at(VALIANT, 1.1 * bound);
    assert_eq!(above.judgement.verdict, Verdict::Saturated);
    assert!(above.accepted_load() < 1.005 * bound, "{}", above.accepted_load());
    // The minimal route carries a part of it, too.
    let ugal = at(UGAL, 0.95 * bound);
    assert!(lost(&ugal) < 0.02, "{}", lost(&ugal));
    // What every pair of switches shares takes the minimal route: one cable for 16/31 of a host's
    // packets.
    let uniform = queued(32, fabric, UGAL, "load = 0.9", "6 ms");
    assert!(lost(&uniform) < 0.01, "{}", lost(&uniform));
}

/// Four hosts send 50 packets of 1 us each to the opposite corner. By the dimensions in their order
/// there is one route, which carries 150 in 150 us less the latency; in any order there are two.
#[test]
fn any_order_has_a_route_through_each_corner() {
    let packets: Vec<String> = (0..200)
        .map(|number| {
            let (from, to) = (number % 4, 12 + number % 4);
            format!("{{ time = '{} ns', from = {from}, to = {to} }}", 1 + number)
        })
        .collect();
    let list = format!("source.list = [{}]", packets.join(", "));
    let left = |order: &str, rule: &str| {
        let fabric = format!("{{ dimensions = [2, 2], hosts_per_switch = 4, order = '{order}' }}");
        let run = queued(16, &fabric, rule, &list, "150 us");
        run.backlog + run.in_flight
    };
    for rule in [SPRAYED, ADAPTIVE] {
        assert!((50..=53).contains(&left("listed", rule)), "{}", left("listed", rule));
        assert_eq!(left("any", rule), 0, "{rule}");
    }
}

/// Every host sends to half of all others at once, over buffers of one packet.
#[test]
fn no_order_stands_still_with_the_channels_that_it_needs() {
    let one = |from: u32, far: u32| {
        format!("{{ time = '1 ns', from = {from}, to = {} }}", (from + far) % 54)
    };
    let far = (0..27).map(|step| 1 + 2 * step);
    let packets: Vec<String> =
        far.flat_map(|far| (0..54).map(move |from| one(from, far))).collect();
    let list = format!("source.list = [{}]", packets.join(", "));
    let text = |(order, rule): (&str, &str), channels: u32, more: &str| {
        let channel = format!(
            "fabric.hyperx = {{ dimensions = [3, 3, 3], hosts_per_switch = 2, order = '{order}' }}\n\
             routes.{rule}\nflow_control.virtual_channel_credits.channels = {channels}\n{more}"
        );
        let buffer = format!("buffer = {channels}");
        voq(54, &buffer, &channel, &list, "3 ms").replace("'islip'", "'pim'")
    };
    for rule in [VALIANT, UGAL] {
        for (order, needed) in [("listed", 2), ("any", 6)] {
            let run = run(&text((order, rule), needed, ""), 1);
            let left = run.backlog + run.in_flight;
            assert_eq!(left, 0, "{order}, {rule}: {:?}", run.waiting);
            let error = refusal(&text((order, rule), 1, ""));
            let accepted = format!("a multiple of {needed} virtual channels");
            assert!(error.contains(&accepted), "{error}");
        }
    }
    for rule in [SPRAYED, HASHED, ADAPTIVE] {
        for (order, channels) in [("listed", 1), ("listed", 2), ("any", 3), ("any", 6)] {
            let run = run(&text((order, rule), channels, ""), 1);
            let left = run.backlog + run.in_flight;
            assert_eq!(left, 0, "{order}, {rule}, {channels}: {:?}", run.waiting);
        }
        for channels in [1, 2, 4] {
            let error = refusal(&text(("any", rule), channels, ""));
            assert!(error.contains("channel.c.deadlock = refused"), "{error}");
            assert!(error.contains("a multiple of 3 virtual channels"), "{error}");
        }
        let stuck = run(&text(("any", rule), 1, "deadlock = 'allowed'"), 1);
        assert!(stuck.waiting[0].contains("a cycle of switches"), "{rule}: {:?}", stuck.waiting);
    }
}
