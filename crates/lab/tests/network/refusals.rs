//! What does not fit a fabric, or a star, is refused with its key, its value and what is accepted.

use super::{file, refusal, voq};

const TREE: &str = "fabric.k_ary_tree = { arity = 2, levels = 2 }";

fn refused(channel: &str) -> String {
    refusal(&file(4, channel, "load = 0.1", "1 ms"))
}

#[test]
fn what_the_driver_of_a_fabric_does_not_read_is_refused() {
    let cases = [
        ("adapter.feed.per_target.limit = 2", "adapter.feed = per_target", "fifo in a fabric"),
        ("adapter.release = 'acknowledgment'", "adapter.release = ack", "transmission, since"),
        ("adapter.acknowledgments = 'interleave'", "adapter.acknowledgments = int", "wait, since"),
        (
            "adapter.throttle = { requests = 1, per = '1 us' }",
            "adapter.throttle = given",
            "no throttle in a fabric",
        ),
        (
            "control.out_of_band = { delay = '1 us', outstanding = 2 }",
            "control = given",
            "no control in a fabric other than star",
        ),
    ];
    for (channel, key, accepted) in cases {
        let text = refused(&format!("{TREE}\n{channel}"));
        assert!(text.contains(&format!("channel.c.{key}")), "{text}");
        assert!(text.contains(accepted), "{text}");
    }
}

#[test]
fn a_switch_that_is_no_stage_is_refused() {
    let text = file(4, TREE, "load = 0.1", "1 ms").replace(
        "switch.output_queued.latency = '90 ns'",
        "switch.crossbar = { latency = '90 ns', contention = 'drop' }",
    );
    let text = refusal(&text);
    assert!(text.contains("channel.c.switch = crossbar does not fit"), "{text}");
    let accepted = "output_queued, input_queued or shared_memory in a fabric other than star";
    assert!(text.contains(accepted), "{text}");
}

#[test]
fn a_buffer_that_is_missing_or_too_small_is_the_one_to_blame() {
    let torus = "fabric.torus.dimensions = [2, 2]";
    let of = |switch: &str, channel: &str| {
        refusal(&voq(4, switch, &format!("{torus}\n{channel}"), "load = 0.1", "1 ms"))
    };
    let text = of("queues = 'voq'", "");
    assert!(text.contains("missing key `buffer` in channel.c.switch.input_queued"), "{text}");
    assert!(text.contains("accepted: the cells that an input holds, at least 1"), "{text}");
    let apart = "flow_control.virtual_channel_credits.channels = 4";
    let cases = [
        (
            "buffer = 3",
            "buffer = 3 does",
            "4 or more: each of the 4 virtual channels holds 1 cell, a",
        ),
        (
            "buffer = 9, cell = '25 B'",
            "buffer = 9 does",
            "20 or more: each of the 4 virtual channels",
        ),
    ];
    for (switch, key, accepted) in cases {
        let text = of(switch, apart);
        assert!(text.contains(&format!("channel.c.switch.input_queued.{key}")), "{text}");
        assert!(text.contains(accepted), "{text}");
    }
    let text = of("buffer = 64", &apart.replace('4', "32"));
    assert!(text.contains("virtual_channel_credits.channels = 32 does not fit"), "{text}");
    assert!(text.contains("accepted: at most 16"), "{text}");
}

#[test]
fn routes_in_a_star_are_refused() {
    let routes = "routes.per_packet = 'random'";
    let text = refusal(&voq(4, "queues = 'voq'", routes, "load = 0.1", "1 ms"));
    assert!(text.contains("channel.c.routes = given does not fit"), "{text}");
    assert!(text.contains("no routes in a star"), "{text}");
}

#[test]
fn refusals_of_a_wiring_stand_at_their_place_in_the_file() {
    let text = refusal(&file(5, TREE, "load = 0.1", "1 ms"));
    assert!(text.contains("network.toml:3"), "{text}");
    assert!(text.contains("system.hosts = 5 does not fit"), "{text}");
    assert!(text.contains("at most 4, the ports for hosts of a 2-ary 2-tree"), "{text}");
    let given = format!(
        "{TREE}\nroutes.per_connection.given = \
         [{{ from = 0, to = 3, switches = ['0.0', '1.0', '0.0', '1.1', '0.1'] }}]"
    );
    let text = refused(&given);
    assert!(text.contains("network.toml:11"), "{text}");
    let value = "channel.c.routes.per_connection.given = host 0 to host 3 by 0.0, 1.0, 0.0, 1.1, \
                 0.1 does not fit";
    assert!(text.contains(value), "{text}");
    assert!(text.contains("a route that visits switch 0.0 once"), "{text}");
}

#[test]
fn a_fabric_of_no_such_kind_is_refused_with_the_kinds_there_are() {
    let text = refused("fabric.hypercube = { dimension = 3 }");
    for kind in ["k_ary_tree", "fat_tree", "folded_tree", "table", "star"] {
        assert!(text.contains(kind), "{text}");
    }
}

#[test]
fn buffers_that_cannot_be_are_refused() {
    let of = |channel: &str, switch: &str| refusal(&voq(4, switch, channel, "load = 0.1", "1 ms"));
    let cases = [
        (of(TREE, "cell = '25 B', buffer = 4"), "buffer = 4", "at least 5, those of a packet"),
        (of(TREE, "queues = 'fifo', buffer = 4"), "queues = fifo", "voq in a fabric other"),
        (of("", "queues = 'fifo', buffer = 4"), "queues = fifo", "voq in a fabric other"),
        (of("", "cell = '25 B'"), "cell = given", "no cell in a star without `buffer`"),
    ];
    for (text, value, accepted) in cases {
        assert!(text.contains(&format!("channel.c.switch.input_queued.{value}")), "{text}");
        assert!(text.contains(accepted), "{text}");
    }
    let none = of(TREE, "");
    assert!(none.contains("missing key `buffer` in channel.c.switch.input_queued"), "{none}");
    let star = of("flow_control = 'credits'", "");
    assert!(star.contains("channel.c.flow_control = given does not fit"), "{star}");
    let unlimited = refused(&format!("{TREE}\nflow_control = 'credits'"));
    assert!(unlimited.contains("no flow control with output_queued"), "{unlimited}");
}

/// The ports of a switch without a cable to the other.
const APART: &str = "3, unused = [2]";

/// Whatever is wrong with a wiring, the file is refused as a whole, with the names that it gave.
#[test]
fn a_table_that_cannot_be_wired_is_refused_with_its_names() {
    let table = |left: &str, cables: &str, more: &str| {
        let right = if left == APART { APART } else { "3" };
        let text = format!(
            "fabric.table = {{ switches = [{{ name = 'left', ports = {left} }}, \
             {{ name = 'right', ports = {right} }}], cables = [{cables}] }}\n{more}"
        );
        refused(&text)
    };
    let hosts = "{ from = 'host 0', to = 'left.0' }, { from = 'host 1', to = 'left.1' }, \
                 { from = 'host 2', to = 'right.0' }, { from = 'host 3', to = 'right.1' }";
    let whole = format!("{hosts}, {{ from = 'left.2', to = 'right.2' }}");
    let twice = whole.replace("'left.1'", "'left.0'");
    let back = "routes.per_connection.given = [\
                { from = 0, to = 3, switches = ['left', 'right', 'left', 'right'] }]";
    let cases = [
        (table("4", &whole, ""), "dangling port 3 of switch left"),
        (table("3", &twice, ""), "left.0 with a cable to host 0 and one to host 1"),
        (table(APART, hosts, ""), "host 2 at switch right, out of reach of host 0 at switch left"),
        (table("3", &whole, back), "a route that visits switch left once"),
        (refusal(&file(9, TREE, "load = 0.1", "1 ms")), "system.hosts = 9 does not fit"),
    ];
    for (text, expected) in cases {
        assert!(text.contains(expected), "{expected}: {text}");
        assert!(text.contains("network.toml:"), "{text}");
    }
}
