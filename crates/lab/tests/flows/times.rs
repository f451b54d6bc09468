//! Completion times by hand, to the picosecond.

use weft_fabric::measure::Stage;
use weft_units::Span;

use super::{Channel, completions, count};

fn one(size: u64) -> String {
    format!("x.list = [{{ time = '1 us', from = 2, to = 1, size = '{size} B' }}]")
}

#[test]
fn a_flow_in_a_star_takes_its_packets_one_after_another_and_the_way_once() {
    // 80 ns a packet of 1000 B; along each cable 10 ns, in the switch 300 ns. Behind two full packets the
    // last one starts at 160 ns, and its last byte is there 10 + 300 + 80 + 10 ns later. One with 100 bytes
    // of payload has 150 B and takes 12 ns in place of 80.
    for (size, expected) in [(1, 324_080), (950, 400_000), (2_850, 560_000), (2_000, 492_000)] {
        let run = Channel { workload: &one(size), ..Channel::default() }.run();
        let span = Span(expected);
        assert_eq!(completions(&run), [(span, span)], "{size}");
        assert_eq!(run.flows.as_ref().expect("flows").accepted, size);
        assert_eq!(run.observations.delivered, size.div_ceil(950));
    }
}

#[test]
fn a_switch_that_waits_for_the_last_byte_costs_its_length_once_more() {
    let switch = "memory = '1 MB', forwarding = 'store_and_forward'";
    let run = Channel { workload: &one(2_850), switch, ..Channel::default() }.run();
    assert_eq!(completions(&run), [(Span(640_000), Span(640_000))]);
}

#[test]
fn two_flows_to_one_host_take_as_long_as_their_packets() {
    let workload = "x.list = [\n{ from = 2, to = 1, size = '950 kB' },\n{ from = 3, to = 1, size = '9.5 MB' },\n]";
    let run =
        Channel { workload, run: "length = '2 ms'\nregime = 'from_empty'", ..Channel::default() }
            .run();
    // 1000 and 10000 packets: at the output they take turns, that from the lower port first, so that the
    // shorter one ends with the 1999th and the longer one with the last of all. The first byte takes
    // 320 ns.
    let [short, long] = completions(&run)[..] else { panic!("two bins") };
    assert_eq!(
        (short.0, long.0),
        (Span(80_000 * 1_999 + 320_000), Span(80_000 * 11_000 + 320_000))
    );
    assert_eq!(
        (short.1, long.1),
        (Span(80_000 * 1_000 + 320_000), Span(80_000 * 10_000 + 320_000))
    );
}

#[test]
fn what_a_flow_takes_alone_is_what_it_takes_in_any_fabric_of_unlike_links() {
    let fabrics = [
        "fabric.leaf_spine = { hosts_per_leaf = 4, spines = 2, leaves = 2, links = [{}, { rate = '40 Gbit/s' }] }",
        "fabric.leaf_spine = { hosts_per_leaf = 4, spines = 2, leaves = 2, links = [{}, { rate = '400 Gbit/s' }] }",
    ];
    for fabric in fabrics {
        for forwarding in ["cut_through", "store_and_forward"] {
            for size in [1, 950, 951, 1_900, 20_000, 123_456] {
                let switch = format!("memory = '1 MB', forwarding = '{forwarding}'");
                let workload = format!("x.list = [{{ from = 1, to = 6, size = '{size} B' }}]");
                let own = Channel {
                    hosts: 8,
                    fabric,
                    switch: &switch,
                    workload: &workload,
                    ..Channel::default()
                };
                let run = own.run();
                let [(took, alone)] = completions(&run)[..] else { panic!("one flow") };
                assert_eq!(took, alone, "{fabric} {forwarding} {size}");
            }
        }
    }
}

#[test]
fn what_is_lost_is_sent_again_and_everything_is_accounted_for() {
    let unneeded = ["go_back_n", "selective_repeat"].map(|reliability| {
        let own = Channel {
            hosts: 8,
            switch: "memory = '40 kB'",
            transport: &format!("reliability = '{reliability}'"),
            workload: "x = { load = 0.1, sizes.constant = '50 kB', incast.senders = 5 }",
            run: "length = '5 ms'\nregime = 'from_empty'",
            ..Channel::default()
        };
        // The run itself checks that no packet is made up or lost.
        let run = own.run();
        assert!(count(&run, "retransmitted_packets") > 100.0, "{reliability}");
        let flows = run.flows.as_ref().expect("flows");
        let finished: u64 = flows.bins.iter().map(|bin| bin.completion.count()).sum();
        assert!(finished > 100, "{reliability}: {finished}");
        count(&run, "unneeded_packets")
    });
    // Acknowledgments are lost, too, so that some of what came is sent again in any case.
    assert!(unneeded[0] > 2.0 * unneeded[1], "{unneeded:?}");
}

/// The queue to host 1 has room for one of two packets that come at once. The other one goes on as 64 bytes,
/// ahead of which the first one takes until 390 ns: its last byte is there at 405.12 ns. The refusal starts
/// then, behind the acknowledgment of the first, and is there 5.12 + 320 ns later; what starts at 730.24 ns
/// takes 400 ns.
#[test]
fn a_packet_that_was_cut_is_refused_and_sent_again() {
    let own = Channel {
        switch: "memory = '1 MB', classes.0 = { limit.bytes = '1500 B', trim = { header = '64 B', class = 1 } }, \
                 classes.1.schedule = 'strict'",
        transport: "reliability = 'selective_repeat'\nacknowledgment_class = 1",
        workload: "x.list = [{ from = 2, to = 1, size = '950 B' }]\n\
                   y.list = [{ from = 3, to = 1, size = '950 B' }]",
        ..Channel::default()
    };
    let run = own.run();
    let took: Vec<Span> = completions(&run).into_iter().map(|own| own.0).collect();
    assert_eq!(took, [Span(400_000), Span(1_130_240)]);
    // The initiator knows another 325.12 ns later.
    let bins = &run.flows.as_ref().expect("flows").bins;
    let known: Vec<Option<Span>> = bins.iter().map(|bin| bin.acknowledged.max()).collect();
    assert_eq!(known, [Some(Span(725_120)), Some(Span(1_455_360))]);
    assert_eq!(["cut_packets", "retransmitted_packets"].map(|name| count(&run, name)), [1.0, 1.0]);
}

#[test]
fn a_run_has_the_same_bytes_again() {
    let own = Channel {
        hosts: 8,
        workload: "x = { load = 0.6, sizes = 'web_search' }",
        run: "length = '2 ms'\nregime = 'from_empty'",
        ..Channel::default()
    };
    let [one, other] =
        [own.run(), own.run()].map(|run| serde_json::to_string(&run).expect("written"));
    assert!(one == other && one.contains("completion"));
}

/// One packet of 80 ns between leaves, over four cables of 10 ns and three switches of 300 ns. With cables
/// of 20 ns between switches each cable is counted by itself; with cables of one kind the stages follow from the
/// number of switches, and nothing is left for a wait.
#[test]
fn the_budget_of_a_packet_alone_has_no_wait() {
    let stages = [Stage::Transmission, Stage::Wire, Stage::Switch, Stage::SwitchWait];
    for (links, wire) in [("", 40_000), (", links = [{}, { length = '4 m' }]", 60_000)] {
        for (forwarding, times) in [("cut_through", 1), ("store_and_forward", 4)] {
            let fabric = format!(
                "fabric.leaf_spine = {{ hosts_per_leaf = 2, spines = 2, leaves = 2{links} }}"
            );
            let switch = format!("memory = '1 MB', forwarding = '{forwarding}'");
            let workload = "x.list = [{ from = 1, to = 2, size = '950 B' }]";
            let run = Channel { fabric: &fabric, switch: &switch, workload, ..Channel::default() };
            let run = run.run();
            let spent = stages.map(|stage| run.observations.budget.sum_ps(stage));
            assert_eq!(spent, [80_000 * times, wire, 900_000, 0], "{links} {forwarding}");
        }
    }
}
