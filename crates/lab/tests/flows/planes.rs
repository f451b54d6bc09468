//! Flows of hosts with a port in each of several planes.

use weft_units::Span;

use super::{Channel, completions, count};

const SPRAYED: &str = "reliability = 'selective_repeat'\nreordering = 64\nspraying.values = 16";

fn one(size: u64) -> String {
    format!("x.list = [{{ time = '1 us', from = 2, to = 1, size = '{size} B' }}]")
}

/// How long each directed port was busy from a host on.
fn by_hosts(run: &weft_lab::ChannelRun, planes: u32) -> Vec<Vec<u64>> {
    let busy = run.observations.busy();
    let ends = &busy[busy.len() - (run.hosts * planes) as usize..];
    let of = |plane: u32| {
        ends[(plane * run.hosts) as usize..((plane + 1) * run.hosts) as usize].to_vec()
    };
    (0..planes).map(|plane| of(plane).iter().map(|span| span.0).collect()).collect()
}

/// 80 ns a packet and 320 ns from its first byte in the host to its first byte at the target. Four planes take
/// four packets at a time; of 3000 bytes the last has 150 of payload, and of 8000 the ninth has 400.
#[test]
fn a_flow_whose_packets_take_ways_of_their_own_takes_all_planes_at_once() {
    for transport in [SPRAYED, "reliability = 'selective_repeat'\nreordering = 64"] {
        let routes = if transport == SPRAYED { "" } else { "\nroutes.per_packet = 'random'" };
        for (size, expected) in
            [(1, 324_080), (950, 400_000), (3_000, 400_000), (7_600, 480_000), (8_000, 516_000)]
        {
            let fabric = format!("planes = 4{routes}");
            let workload = one(size);
            let own =
                Channel { fabric: &fabric, transport, workload: &workload, ..Channel::default() };
            let span = Span(expected);
            assert_eq!(completions(&own.run()), [(span, span)], "{size}, {transport}");
        }
    }
}

/// A flow that takes one way is as fast as one plane.
#[test]
fn a_flow_that_takes_one_way_keeps_to_one_plane() {
    let workload = one(2_850);
    for planes in [1, 2, 8] {
        let fabric = format!("planes = {planes}");
        let run = Channel { fabric: &fabric, workload: &workload, ..Channel::default() }.run();
        assert_eq!(completions(&run), [(Span(560_000), Span(560_000))]);
        // Data from host 2, and acknowledgments from host 1, in the same plane.
        let busy = by_hosts(&run, planes);
        let used: Vec<&Vec<u64>> =
            busy.iter().filter(|plane| plane.iter().any(|own| *own > 0)).collect();
        assert_eq!(used.len(), 1, "{busy:?}");
        assert_eq!(*used[0], [0, 3 * 5_120, 240_000, 0]);
    }
}

#[test]
fn flows_of_a_host_are_spread_over_all_planes() {
    let flows: Vec<String> = (0..64)
        .map(|number| format!("{{ time = '{number} us', from = 2, to = 1, size = '950 B' }}"))
        .collect();
    let workload = format!("x.list = [{}]", flows.join(", "));
    let run = Channel { fabric: "planes = 4", workload: &workload, ..Channel::default() }.run();
    let packets: Vec<u64> = by_hosts(&run, 4).iter().map(|plane| plane[2] / 80_000).collect();
    assert_eq!(packets.iter().sum::<u64>(), 64);
    assert!(packets.iter().all(|own| (6..=28).contains(own)), "{packets:?}");
}

/// Eight planes of 100 Gbit/s carry a permutation of sprayed flows as one of 800 Gbit/s does, but for the length
/// of a packet, and an incast no slower.
#[test]
fn many_slow_planes_are_as_fast_as_a_fast_one_when_packets_are_sprayed() {
    let fabric = "fabric.leaf_spine = { hosts_per_leaf = 4, leaves = 4, spines = 4 }";
    let permutation: Vec<String> = (0..16)
        .map(|host| format!("{{ from = {host}, to = {}, size = '2 MB' }}", (host + 5) % 16))
        .collect();
    let incast: Vec<String> =
        (1..9).map(|host| format!("{{ from = {host}, to = 0, size = '400 kB' }}")).collect();
    for (flows, tolerance) in [(permutation, 0.15), (incast, 0.02)] {
        let workload = format!("x.list = [{}]", flows.join(", "));
        let last = |planes: u32, rate: &str| {
            let fabric = format!("{fabric}\nplanes = {planes}");
            let run = Channel {
                hosts: 16,
                rate,
                fabric: &fabric,
                transport: SPRAYED,
                switch: "memory = '100 MB'",
                workload: &workload,
                run: "length = '200 us'\nregime = 'from_empty'",
            }
            .run();
            assert_eq!(run.flows.as_ref().expect("flows").unfinished, 0);
            let bins = &run.flows.as_ref().expect("flows").bins;
            bins.iter().filter_map(|bin| bin.completion.max()).max().expect("flows").as_us()
        };
        let [many, one] = [last(8, "100 Gbit/s"), last(1, "800 Gbit/s")];
        assert!((many / one - 1.0).abs() < tolerance, "{many} and {one} us");
    }
}

/// With congestion control, pauses, receiver credits and lost packets: flows end, packets are accounted for
/// (which a run checks by itself), and the same run is the same again.
#[test]
fn every_congestion_control_goes_with_planes() {
    let ecn = "ecn = { at = 'enqueue', law.red = { kmin = '5 kB', kmax = '20 kB', pmax = 0.5 } }";
    let pfc = "pfc = { threshold.static = { xoff = '20 kB', xon = '10 kB' } }";
    let trim = "limit.bytes = '6 kB', trim = { header = '64 B', class = 1 }";
    let switches = [
        format!("memory = '60 kB', classes.0 = {{ {ecn} }}"),
        format!("memory = '4 MB', classes.0 = {{ {pfc}, {ecn} }}"),
        format!("memory = '200 kB', classes.0 = {{ {trim}, {ecn} }}"),
    ];
    let controls = [
        "",
        "dcqcn = {}",
        "dctcp = {}",
        "hpcc.base_round_trip = '4 us'",
        "nscc.base_round_trip = '4 us'",
        "rccc.base_round_trip = '4 us'",
    ];
    let flows: Vec<String> = (1..12)
        .map(|host| format!("{{ from = {host}, to = {}, size = '60 kB' }}", host % 2 * 11))
        .filter(|flow| !flow.contains("from = 11, to = 11"))
        .collect();
    let workload = format!("x.list = [{}]", flows.join(", "));
    for control in controls {
        for spraying in ["", "\nspraying = { values = 8, by = 'reps' }"] {
            for switch in &switches {
                let control = if control.is_empty() {
                    String::new()
                } else {
                    format!("\ncongestion_control.{control}")
                };
                let transport =
                    format!("reliability = 'selective_repeat'\nreordering = 32{spraying}{control}");
                let own = Channel {
                    hosts: 12,
                    fabric: "fabric.leaf_spine = { hosts_per_leaf = 3, leaves = 4, spines = 2 }\nplanes = 3",
                    transport: &transport,
                    switch,
                    workload: &workload,
                    run: "length = '20 ms'\nregime = 'from_empty'",
                    ..Channel::default()
                };
                let [one, other] = [own.run(), own.run()];
                assert_eq!(one.flows.as_ref().expect("flows").unfinished, 0, "{}", own.text());
                assert_eq!(one.observations.busy(), other.observations.busy());
                assert_eq!(count(&one, "sent_packets"), count(&other, "sent_packets"));
            }
        }
    }
}

/// Each flow draws its plane, which a listed route cannot follow.
#[test]
fn listed_routes_do_not_go_with_flows_in_planes() {
    let fabric = "fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 2, spines = 1 }\nplanes = 2\n\
                  routes.per_connection.given = [{ from = 2, to = 1, switches = ['1/0.1', '1/1.0', '1/0.0'] }]";
    let workload = one(950);
    let error = Channel { fabric, workload: &workload, ..Channel::default() }.refusal();
    assert!(error.contains("channel.c.routes.per_connection"), "{error}");
    assert!(error.contains("random or hashed beside planes"), "{error}");
}

/// The shipped experiment: sprayed over eight planes flows are about as fast as on one of their rate, but for longer
/// packets, and a flow that keeps to one plane takes at least what its link needs.
#[test]
fn the_planes_of_the_experiment_are_worth_their_sum_when_packets_are_sprayed() {
    let options = weft_lab::Options { seeds: Some(1), ..weft_lab::Options::default() };
    let request = weft_lab::Request::new("ultra-ethernet-planes", None, &[]);
    let made = weft_lab::run(&request, &options, &mut |_, _| true).expect("the experiment");
    let at = |planes, traffic, column| {
        let choice = [("planes", planes), ("traffic", traffic)];
        assert_eq!(super::roce::of(&made, &choice, "unfinished_flows"), 0.0);
        super::roce::of(&made, &choice, column)
    };
    let median = |planes, traffic| at(planes, traffic, "all_completion_p50_us");
    let (one, eight) = (median("one", "permutation"), median("eight", "permutation"));
    assert!((1.05..1.3).contains(&(eight / one)), "{eight} for {one}");
    let (one, eight) = (median("one", "incast"), median("eight", "incast"));
    assert!((0.9..1.1).contains(&(eight / one)), "{eight} for {one}");
    // 2 MB in 490 packets with 64 B each besides, at 100 Gbit/s.
    let needs = (2e6 + 490.0 * 64.0) * 8.0 / 100e3;
    let kept = median("eight_by_flow", "permutation");
    assert!((needs..1.1 * needs).contains(&kept), "{kept} for {needs}");
    // The last of those that keep to a plane share a cable; none of those that are sprayed is much later than others.
    let last = |planes, traffic| at(planes, traffic, "all_completion_p99_us");
    let kept = last("eight_by_flow", "permutation");
    assert!((2.0 * needs..3.2 * needs).contains(&kept), "{kept} for {needs}");
    for planes in ["one", "eight"] {
        for traffic in ["permutation", "incast"] {
            let (last, median) = (last(planes, traffic), median(planes, traffic));
            assert!(
                (median..1.2 * median).contains(&last),
                "{planes}, {traffic}: {last} for {median}"
            );
        }
    }
    let (one, kept) = (last("one", "incast"), last("eight_by_flow", "incast"));
    assert!(kept > 1.3 * one, "{kept} for {one}");
    // Six cables of 1 us, and 4150 B stored and sent six times over at the rate of a plane: alone.
    for (planes, rate) in [("one", 800e3), ("eight", 100e3)] {
        let probe = at(planes, "permutation", "probe_completion_p50_us");
        let alone = 6.0 * (1.0 + 4150.0 * 8.0 / rate);
        assert!((alone - 1e-3..1.1 * alone).contains(&probe), "{planes}: {probe} for {alone}");
    }
}
