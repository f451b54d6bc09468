//! What does not fit a fabric, a star, or the adapters of hosts is refused with its key, its value and what is accepted.

use super::{file, refusal, run, voq};

const TREE: &str = "fabric.k_ary_tree = { arity = 2, levels = 2 }";

fn refused(channel: &str) -> String {
    refusal(&file(4, channel, "load = 0.1", "1 ms"))
}

/// A file that asks adapters for what they cannot do is refused with the reason, in a fabric as in
/// a star.
#[test]
fn what_adapters_cannot_do_is_refused() {
    let acknowledged = "control.request_acknowledge = { timeout = '9 us', outstanding = 4, \
                        acknowledgment = '25 B' }";
    let cases = [
        ("adapter.release = 'acknowledgment'", "adapter.release = ack", "transmission, since with"),
        (
            "adapter.acknowledgments = 'interleave'",
            "adapter.acknowledgments = int",
            "wait, since only control.request_acknowledge",
        ),
        (
            &format!("adapter.acknowledgments = 'interleave'\n{acknowledged}"),
            "adapter.acknowledgments = int",
            "wait, since only a crossbar with contention = drop can follow an insertion",
        ),
        (
            &format!("adapter.release = 'transmission'\n{acknowledged}"),
            "adapter.release = transmission",
            "acknowledgment, since a packet that may be sent again keeps its send buffer",
        ),
        (
            "receiver = { buffers = 2, service = '1 us' }",
            "receiver = given",
            "it only with control.request_acknowledge",
        ),
        ("recovery = { attempts = 3 }", "recovery = given", "it only with a scheduled switch"),
        (
            &acknowledged.replace("25 B", "0 B"),
            "control.request_acknowledge.acknowledgment = 0 B",
            "a size that takes a picosecond or more",
        ),
    ];
    for (channel, key, accepted) in cases {
        let text = refused(&format!("{TREE}\n{channel}"));
        assert!(text.contains(&format!("channel.c.{key}")), "{text}");
        assert!(text.contains(accepted), "{text}");
    }
    let of = |switch: &str, channel: &str| {
        refusal(&voq(4, switch, &format!("{TREE}\n{channel}"), "load = 0.1", "1 ms"))
    };
    let sized = of("buffer = 4", acknowledged);
    assert!(sized.contains("request_acknowledge.acknowledgment = 25 B does not fit"), "{sized}");
    assert!(sized.contains("125 B, the size of a packet, with input_queued"), "{sized}");
    let whole = acknowledged.replace("25 B", "125 B");
    let beside = "switches.'0.0'.output_buffered = { latency = '90 ns', buffers = 2, writers = 2 }";
    let beside = of("buffer = 4", &format!("{whole}\n{beside}"));
    assert!(beside.contains("channel.c.switches.0.0 = output_buffered"), "{beside}");
    assert!(beside.contains("output_queued beside input_queued"), "{beside}");
    let disabled = of("buffer = 4", &format!("{whole}\ndisabled = [{{ host = 1 }}]"));
    assert!(disabled.contains("it only without input_queued"), "{disabled}");
}

/// A packet that back pressure holds must occupy its link.
#[test]
fn back_pressure_needs_short_cables() {
    let switch = "switch.crossbar = { latency = '90 ns', contention = 'back_pressure' }";
    let text = file(4, "", "load = 0.1", "1 ms")
        .replace("switch.output_queued.latency = '90 ns'", switch)
        .replace("length = '4 m'", "length = '200 m'");
    let text = refusal(&text);
    assert!(text.contains("channel.c.link.length = 200 m (1 us) does not fit"), "{text}");
    assert!(text.contains("a delay below 1 us, the shortest packet, with back_pressure"), "{text}");
}

#[test]
fn a_switch_that_is_no_stage_is_refused() {
    let text = file(4, TREE, "load = 0.1", "1 ms").replace(
        "switch.output_queued.latency = '90 ns'",
        "switch.crossbar = { latency = '90 ns', contention = 'drop' }",
    );
    let text = refusal(&text);
    assert!(text.contains("channel.c.switch = crossbar does not fit"), "{text}");
    let accepted = "a crossbar without buffers cuts packets short, or holds them on their links";
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
fn routes_around_a_hub_are_refused() {
    let text = refusal("base = 'memory-channel-2'\nchannel.memory.routes.per_packet = 'random'");
    assert!(text.contains("channel.memory.routes = given does not fit"), "{text}");
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
        (of("", "queues = 'fifo', cell = '25 B'"), "queues = fifo", "with `buffer` or `cell`"),
    ];
    for (text, value, accepted) in cases {
        assert!(text.contains(&format!("channel.c.switch.input_queued.{value}")), "{text}");
        assert!(text.contains(accepted), "{text}");
    }
    let none = of(TREE, "");
    assert!(none.contains("missing key `buffer` in channel.c.switch.input_queued"), "{none}");
    for switch in ["", "cell = '25 B'"] {
        let star = of("flow_control = 'credits'", switch);
        assert!(star.contains("channel.c.flow_control = given does not fit"), "{star}");
    }
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

/// A channel whose switches share a buffer, as `switch` says.
fn shared(switch: &str, more: &str, workload: &str) -> String {
    let text = format!("switch.shared_buffer = {{ latency = '90 ns', {switch} }}");
    file(4, more, workload, "1 ms").replace("switch.output_queued.latency = '90 ns'", &text)
}

/// Two links of 1 Gbit/s, 8 ns a byte, and 20 ns of cable: headroom for 250 bytes, and for what comes while a
/// packet (1000 ns), the pause (512 ns) and both ways of the cable (40 ns) and 90 ns pass: 205 bytes. Four
/// inputs need 1820 bytes, and a packet 125.
#[test]
fn a_buffer_that_cannot_hold_its_headroom_is_refused_with_the_number() {
    let pfc = |more: &str| {
        format!("classes.0.pfc = {{ threshold.static = {{ xoff = '500 B', xon = '0 B' }}{more} }}")
    };
    let memory =
        |bytes: u32| shared(&format!("memory = '{bytes} B', {}", pfc("")), "", "load = 0.1");
    let text = refusal(&memory(1944));
    assert!(text.contains("channel.c.switch.shared_buffer.memory = 1944 B does not fit"), "{text}");
    assert!(text.contains("at least 1945 B"), "{text}");
    assert!(text.contains("1820 B of headroom and buffers for 4 inputs and classes"), "{text}");
    assert_eq!(run(&memory(1945), 1).observations.abandoned, 0);
    let given =
        shared(&format!("memory = '1 MB', {}", pfc(", headroom = '454 B'")), "", "load = 0.1");
    let text = refusal(&given);
    assert!(text.contains("classes.0.pfc.headroom = 454 B does not fit"), "{text}");
    assert!(text.contains("at least 455 B"), "{text}");
}

#[test]
fn settings_of_classes_that_mean_nothing_are_refused() {
    let of =
        |switch: &str| refusal(&shared(&format!("memory = '1 MB', {switch}"), "", "load = 0.1"));
    let pfc = "pfc = { threshold.static = { xoff = '1 kB', xon = '1 kB' } }";
    let cases = [
        (of("classes.8 = {}"), "classes.8 = given", "a class in 0..=7"),
        (of("classes.x = {}"), "classes.x = given", "a class in 0..=7"),
        (
            of(&format!("classes.2 = {{ {pfc}, reserved = '1 B' }}")),
            "classes.2.reserved = given",
            "no reserved beside",
        ),
        (of("classes.0.trim = { header = '64 B', class = 0 }"), "class = 0", "another class"),
        (of("classes.0.limit.alpha = 0"), "limit.alpha = 0", "more than 0"),
        (
            of("classes.0.pfc = { threshold.static = { xoff = '1 kB', xon = '2 kB' } }"),
            "xon = 2 KB",
            "at most xoff",
        ),
        (
            of(
                "classes.0.ecn = { at = 'enqueue', law.red = { kmin = '2 kB', kmax = '2 kB', pmax = 1 } }",
            ),
            "kmin = 2 KB",
            "less than kmax",
        ),
    ];
    for (text, value, accepted) in cases {
        assert!(text.contains("channel.c.switch.shared_buffer.classes"), "{text}");
        assert!(text.contains(value) && text.contains(accepted), "{text}");
    }
}

/// A packet that is marked when it has left must not have come anywhere by then.
#[test]
fn marks_at_departure_are_refused_where_the_header_is_gone() {
    let ecn = "classes.1.ecn = { at = 'departure', law.step.threshold = '1 kB' }";
    let of = |switch: &str, more: &str| {
        shared(&format!("memory = '1 MB', {ecn}{switch}"), more, "load = 0.1\nclass = 1")
    };
    let whole = ", forwarding = 'store_and_forward'";
    let tree = "fabric.k_ary_tree = { arity = 2, levels = 2 }";
    let edge = "switches.'1.0'.output_queued = {}";
    for (switch, more, value, reason) in [
        ("", tree, "departure in switch 0.0, before switch 1.0", "the header is gone"),
        (whole, &format!("{tree}\n{edge}"), "before switch 1.0", "the header is gone"),
    ] {
        let text = refusal(&of(switch, more));
        assert!(text.contains("channel.c.switch.shared_buffer.classes.1.ecn.at = "), "{text}");
        assert!(text.contains(value) && text.contains(reason), "{text}");
    }
    let short = of(whole, "").replace("length = '4 m'", "length = '0 m'");
    let text = refusal(&short);
    assert!(text.contains("before host 0 does not fit"), "{text}");
    assert!(text.contains("a host at a cable without length"), "{text}");
    // Hosts read a packet when it is there whole, however their switch passes it on.
    for (switch, more) in [("", ""), (whole, tree)] {
        assert!(run(&of(switch, more), 1).observations.delivered > 0);
    }
}

#[test]
fn what_one_class_does_not_read_and_slots_beside_classes_are_refused() {
    let class = refusal(&file(4, "", "load = 0.1\nclass = 2", "1 ms"));
    assert!(
        class.contains("workload.c.class = given") && class.contains("shared_buffer"),
        "{class}"
    );
    let own = |workload: &str| refusal(&shared("memory = '1 MB'", "", workload));
    let messages = own("load = 0.1\nmessage = '99 B'\nclass = 0");
    assert!(messages.contains("workload.c.class") && messages.contains("class 0"), "{messages}");
    let start = own("load = 0.1\nstart = '1 us'");
    assert!(start.contains("workload.c.start") && start.contains("further traffic"), "{start}");
    let large = own("load = 0.1\nbeside.b = { load = 0.1, packet = '126 B' }");
    assert!(large.contains("beside.b.packet = 126 B") && large.contains("125 B"), "{large}");
    let greedy = own("load = 0.1\nbeside.b = { source = 'greedy' }");
    assert!(greedy.contains("beside.b.source") && greedy.contains("do not wait"), "{greedy}");
    let voq =
        "switches.'1.0'.input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 4 }";
    let text = refusal(&shared("memory = '1 MB'", &format!("{TREE}\n{voq}"), "load = 0.1"));
    assert!(text.contains("slots for packets of one size"), "{text}");
    let credits = refusal(&shared("memory = '1 MB'", "flow_control = 'credits'", "load = 0.1"));
    assert!(credits.contains("pause a class of their cable"), "{credits}");
}

/// Five switches in a ring: shortest routes go round it, and a class that loses nothing can wait in
/// a cycle.
#[test]
fn pauses_that_can_wait_in_a_cycle_are_refused() {
    let ring = "fabric.torus.dimensions = [5]";
    let of = |pfc: &str, more: &str| {
        let text = shared(&format!("memory = '1 MB'{pfc}"), &format!("{ring}{more}"), "load = 0.1");
        text.replace("hosts = 4", "hosts = 5")
    };
    let pfc = ", classes.0.pfc = { threshold.static = { xoff = '1 kB', xon = '1 kB' } }";
    let text = refusal(&of(pfc, ""));
    assert!(text.contains("each of which can hold up class 0"), "{text}");
    assert_eq!(run(&of("", ""), 1).observations.abandoned, 0);
    assert_eq!(run(&of(pfc, "\ndeadlock = 'allowed'"), 1).observations.abandoned, 0);
}
