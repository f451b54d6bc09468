//! Packets of other traffic beside flows on one channel.

use weft_fabric::measure::Drop;
use weft_units::Span;

use super::{Channel, completions};

/// Both packets of the flow and the other one are for host 1. The first of the flow comes to the output from the
/// lower port, the other one leaves behind it and holds up the second for its 80 ns.
#[test]
fn a_packet_beside_a_flow_takes_its_turn() {
    let workload = "x.list = [{ time = '1 us', from = 2, to = 1, size = '1900 B' }]\n\
                    [workload.c.beside.y]\nsource.list = [{ time = '1 us', from = 3, to = 1 }]\nclass = ";
    for (class, took) in [(0, 560_000), (1, 560_000)] {
        let workload = format!("{workload}{class}");
        let switch = "memory = '1 MB', classes.1.schedule = { weight = 1 }";
        let run = Channel { workload: &workload, switch, ..Channel::default() }.run();
        assert_eq!(completions(&run), [(Span(took), Span(480_000))], "{class}");
        assert_eq!(run.observations.delivered, 3);
        assert_eq!((run.backlog, run.in_flight), (0, 0));
    }
}

/// Of one class at a host, too: what comes by itself waits there, and the flow sends when nothing waits.
#[test]
fn packets_of_a_host_go_before_its_flows_of_the_same_class() {
    let workload = "x.list = [{ time = '1 us', from = 2, to = 1, size = '1900 B' }]\n\
                    [workload.c.beside.y]\nsource.list = [{ time = '1 us', from = 2, to = 1 }, { time = '1 us', \
                    from = 2, to = 3 }]";
    let run = Channel { workload, ..Channel::default() }.run();
    // The packets of the list are submitted after the first of the flow.
    assert_eq!(completions(&run), [(Span(480_000 + 160_000), Span(480_000))]);
}

/// Loads add up, all is accounted for (which a run checks by itself), and what comes by itself is lost for good
/// while flows send again.
#[test]
fn flows_and_packets_share_what_there_is() {
    let workload = "x = { load = 0.25, sizes = 'ali_storage_2019' }\n\
                    [workload.c.beside.y]\nload = 0.25\npacket = '500 B'\nclass = 1";
    let own = Channel {
        hosts: 8,
        fabric: "fabric.leaf_spine = { hosts_per_leaf = 4, leaves = 2, spines = 4 }",
        workload,
        run: "length = '2 ms'\nregime = 'from_empty'",
        ..Channel::default()
    };
    let run = own.run();
    for load in [run.offered_load(), run.accepted_load()] {
        assert!((load - 0.5).abs() < 0.04, "{load}");
    }
    for (switch, why) in [
        ("memory = '20 kB'", Drop::Overflow),
        (
            "memory = '1 MB', classes.1 = { limit.bytes = '2 kB', trim = { header = '64 B', class = 2 } }",
            Drop::Trimmed,
        ),
    ] {
        let transport = "reliability = 'selective_repeat'\nreordering = 8";
        let run = Channel { switch, transport, ..own }.run_with(3);
        assert!(run.observations.dropped(why) > 0, "{switch}");
        assert!(
            run.flows.as_ref().expect("flows").bins.iter().all(|bin| bin.completion.count() > 0)
        );
    }
}
