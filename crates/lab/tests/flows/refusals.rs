//! What does not go with flows is refused by its key.

use super::{Channel, refusal};

const ONE: &str = "x.list = [{ from = 2, to = 1, size = '1 kB' }]";

#[test]
fn congestion_control_by_marks_needs_marks() {
    for name in ["dcqcn", "dctcp", "infiniband"] {
        let transport = format!("congestion_control.{name} = {{}}");
        let own = Channel { transport: &transport, workload: ONE, ..Channel::default() };
        let said = own.refusal();
        assert!(said.contains("channel.c.adapter.transport.congestion_control"), "{said}");
        assert!(said.contains("channel.c.switch.shared_buffer.classes.0.ecn"), "{said}");
        let switch =
            "memory = '1 MB', classes.0.ecn = { at = 'enqueue', law.step.threshold = '1 kB' }";
        Channel { switch, ..own }.run();
    }
}

#[test]
fn an_index_of_infiniband_lies_within_its_table() {
    let switch = "memory = '1 MB', classes.0.ecn = { at = 'enqueue', law.step.threshold = '1 kB' }";
    for (setting, key) in [
        ("timer = '0 ns'", "infiniband.timer = 0"),
        ("index_limit = 65536", "infiniband.index_limit = 65536"),
        ("index_least = 128", "infiniband.index_least = 128"),
    ] {
        let transport = format!("congestion_control.infiniband = {{ {setting} }}");
        let own = Channel { transport: &transport, switch, workload: ONE, ..Channel::default() };
        let said = own.refusal();
        let key = format!("channel.c.adapter.transport.congestion_control.{key}");
        assert!(said.contains(&key), "{said}");
    }
}

#[test]
fn flows_and_a_transport_go_with_each_other() {
    let text = Channel { workload: ONE, ..Channel::default() }.text();
    let without = text
        .replace("[channel.c.adapter.transport]\nacknowledgment = '64 B'\ntimeout = '1 ms'", "");
    let other = text.replace("[workload.c.source.flows]\nx.list", "[workload.c]\nsource.list");
    let other = other.replace(", size = '1 kB'", ", time = '1 us'");
    let switch = text
        .replace("shared_buffer = { latency = '300 ns', memory = '10 MB' }", "output_queued = {}");
    let cases = [
        (without, "missing key `transport` in channel.c.adapter"),
        (other, "channel.c.adapter.transport = given"),
        (switch, "channel.c.switch = output_queued"),
    ];
    for (text, expected) in cases {
        let said = refusal(&text);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn go_back_n_asks_for_no_packet_that_was_cut() {
    let switch = "memory = '1 MB', classes.0.trim = { header = '64 B', class = 1 }";
    let said = Channel { switch, workload: ONE, ..Channel::default() }.refusal();
    assert!(said.contains("channel.c.switch.shared_buffer.classes.0.trim"), "{said}");
}

#[test]
fn traffic_beside_flows_is_packets() {
    let flows = ONE.replace("x.list", "z.list");
    let workload = &format!("{ONE}\n[workload.c.beside.y.source.flows]\n{flows}");
    let said = Channel { workload, ..Channel::default() }.refusal();
    assert!(said.contains("workload.c.beside.y.source = given"), "{said}");
}

#[test]
fn settings_of_a_transport_are_within_their_bounds() {
    let cases = [
        ("reordering = 3", "adapter.transport.reordering"),
        ("acknowledgment_class = 8", "adapter.transport.acknowledgment_class"),
        (
            "congestion_control.swift.base_target = '0 ns'",
            "adapter.transport.congestion_control.swift.base_target",
        ),
        (
            "congestion_control.nscc.base_round_trip = '0 ns'",
            "congestion_control.nscc.base_round_trip",
        ),
        (
            "congestion_control.rccc.base_round_trip = '0 ns'",
            "adapter.transport.congestion_control.rccc.base_round_trip",
        ),
        (
            "congestion_control.rccc = { base_round_trip = '4 us', per_grant = '255 B' }",
            "congestion_control.rccc.per_grant = 255 B",
        ),
        ("congestion_control.rccc = { base_round_trip = '4 us', pace = 0 }", "above 0 and up to 1"),
        ("spraying.values = 48", "adapter.transport.spraying.values = 48"),
        ("acknowledged_after = '4 kB'", "selective_repeat beside acknowledged_after"),
        ("congestion_control.swift.beta = 0", "above 0 and up to 1"),
    ];
    for (transport, expected) in cases {
        let said = Channel { transport, workload: ONE, ..Channel::default() }.refusal();
        assert!(said.contains(expected), "{transport}: {said}");
    }
}

#[test]
fn switches_and_initiators_do_not_spray_both() {
    let own = Channel {
        fabric: "routes.per_packet = 'random'",
        transport: "reliability = 'selective_repeat'\nspraying.values = 64",
        workload: ONE,
        ..Channel::default()
    };
    let said = own.refusal();
    assert!(said.contains("channel.c.adapter.transport.spraying.values = 64"), "{said}");
    let hashed = Channel { fabric: "routes.per_connection = 'hashed'", ..own };
    assert_eq!(hashed.run().flows.expect("flows").unfinished, 0);
    // One value sprays nothing.
    let transport = "reliability = 'selective_repeat'\nspraying.values = 1";
    let single = Channel { fabric: "routes.per_packet = 'random'", transport, ..hashed };
    assert_eq!(single.run().flows.expect("flows").unfinished, 0);
}
