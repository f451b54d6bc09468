//! Cables that fail, come back or run at a fraction of their rate: times by hand, what is lost and where it
//! goes instead, and refusals.

use proptest::prelude::*;
use weft_fabric::measure::Drop;
use weft_lab::statistics::Verdict;
use weft_lab::{ChannelRun, Options, Request};
use weft_units::Span;

use super::{Channel, completions, count, ends_the_same_with_every_flow, refusal, run};

const LONG: &str = "length = '3 ms'\nregime = 'from_empty'";

/// A flow of one packet of 80 ns in a star from host 2 to host 1, beginning at 1 us: its first byte is at the
/// switch at 1.010 us and leaves for host 1 at 1.310, its last byte is there at 1.400. Lost, it is sent again
/// a millisecond after it was.
fn one_packet(failures: &str, forwarding: &str) -> ChannelRun {
    let fabric = format!("failures = {{ detection = '0 ns', {failures} }}");
    let own = Channel {
        fabric: &fabric,
        switch: &format!("memory = '1 MB', forwarding = '{forwarding}'"),
        workload: "x.list = [{ time = '1 us', from = 2, to = 1, size = '950 B' }]",
        run: LONG,
        ..Channel::default()
    };
    own.run()
}

fn lost(run: &ChannelRun) -> u64 {
    run.observations.dropped(Drop::FailedCable)
}

#[test]
fn a_slower_cable_multiplies_what_a_packet_takes_from_its_instant_on() {
    // At a quarter of the rate 80 ns are 320. What starts at the instant itself is slower, and what starts
    // at the end is not any more; what has begun keeps its rate.
    let cases = [
        ("at = '1310 ns'", 640_000),
        ("at = '1310001 ps'", 400_000),
        ("at = '1 us', until = '1310 ns'", 400_000),
        ("at = '1 us', until = '1310001 ps'", 640_000),
    ];
    for (when, expected) in cases {
        let text = format!("cables = [{{ from = 'host 1', {when}, rate = 0.25 }}]");
        let run = one_packet(&text, "cut_through");
        // Alone it is with all of the rate.
        assert_eq!(completions(&run), [(Span(expected), Span(400_000))], "{when}");
        assert_eq!(lost(&run), 0);
    }
    // The cable before the switch: what comes within 320 ns leaves 240 ns later, whole with the last byte.
    let slow = "cables = [{ from = 'host 2', at = '0 ns', rate = 0.25 }]";
    assert_eq!(completions(&one_packet(slow, "cut_through"))[0].0, Span(640_000));
    assert_eq!(completions(&one_packet(slow, "store_and_forward"))[0].0, Span(720_000));
}

#[test]
fn a_packet_is_lost_up_to_the_picosecond_at_which_its_last_byte_is_there() {
    let again = 1_000_400_000;
    let cases = [
        ("at = '1399999 ps', until = '1401 ns'", again, 1),
        ("at = '1 us', until = '1310 ns'", 400_000, 0),
        ("at = '1 us', until = '1310001 ps'", again, 1),
        // The packet is there, and its acknowledgment is lost that starts then.
        ("at = '1400 ns', until = '1401 ns'", 400_000, 1),
        ("at = '1401 ns', until = '1402 ns'", 400_000, 1),
        ("at = '1415121 ps', until = '1416 ns'", 400_000, 0),
    ];
    for (when, expected, count_lost) in cases {
        let text = format!("cables = [{{ from = 'host 1', {when} }}]");
        let run = one_packet(&text, "cut_through");
        assert_eq!(completions(&run)[0].0, Span(expected), "{when}");
        assert_eq!(
            (lost(&run), count(&run, "timeouts")),
            (count_lost, count_lost as f64),
            "{when}"
        );
    }
}

/// The cable between host 2 and the switch fails while the packet comes, from 1.010 to 1.090 us. A switch that
/// waits for all of it never has it; one that does not passes on what is damaged, up to the target.
#[test]
fn what_a_switch_has_begun_to_pass_on_is_damaged() {
    let failures = "cables = [{ from = 'host 2', at = '1050 ns', until = '1060 ns' }]";
    for forwarding in ["cut_through", "store_and_forward"] {
        let run = one_packet(failures, forwarding);
        let whole = if forwarding == "cut_through" { 400_000 } else { 480_000 };
        assert_eq!(completions(&run)[0].0, Span(1_000_000_000 + whole), "{forwarding}");
        assert_eq!(lost(&run), 1);
        // From host to host twice, or once and to the switch.
        let busy = run.observations.busy();
        let to_target = if forwarding == "cut_through" { 2 } else { 1 };
        assert_eq!(busy[1], Span(80_000 * to_target), "{forwarding}");
    }
}

#[test]
fn ports_that_hold_send_when_the_cable_is_back() {
    // From 1 to 5 us host 2 holds its packet; the acknowledgment is back in time.
    let failures = "ports = 'hold', cables = [{ from = 'host 2', at = '500 ns', until = '5 us' }]";
    let run = one_packet(failures, "cut_through");
    assert_eq!(completions(&run)[0].0, Span(4_400_000));
    assert_eq!((lost(&run), count(&run, "timeouts")), (0, 0.0));
    // Packets on the cable are lost nevertheless.
    let failures = "ports = 'hold', cables = [{ from = 'host 2', at = '1 ns', until = '2 ns' }, \
                    { from = 'host 2', at = '1089 ns', until = '5 us' }]";
    assert_eq!(completions(&one_packet(failures, "store_and_forward"))[0].0, Span(1_000_480_000));
}

/// Two leaves with two hosts each below two spines.
fn leaves<'a>(failures: &'a str, run: &'a str) -> Channel<'a> {
    Channel {
        fabric: failures,
        workload: "x.list = [{ time = '1 us', from = 0, to = 2, size = '950 B' }]",
        run,
        ..Channel::default()
    }
}

fn with_leaves(failures: &str) -> String {
    format!(
        "fabric.leaf_spine = {{ hosts_per_leaf = 2, spines = 2, leaves = 2 }}\nfailures = {failures}"
    )
}

/// Over four cables and three switches a packet takes 80 + 40 + 900 ns.
#[test]
fn routes_avoid_a_cable_once_its_failure_is_known() {
    let whole = Span(1_020_000);
    let mut uses = 0;
    // Which spine the flow goes by, its hash decides; what fails is on the way up or down.
    for (leaf, spine) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let cable = format!("from = '0.{leaf}', to = '1.{spine}'");
        let known = with_leaves(&format!(
            "{{ detection = '1 us', cables = [{{ {cable}, at = '0 ns' }}] }}"
        ));
        let run = leaves(&known, LONG).run();
        assert_eq!((completions(&run)[0].0, lost(&run)), (whole, 0), "{cable}");
        let late = with_leaves(&format!(
            "{{ detection = '500 us', cables = [{{ {cable}, at = '0 ns' }}] }}"
        ));
        let run = leaves(&late, LONG).run();
        let is_used = lost(&run) > 0;
        uses += u32::from(is_used);
        let again = Span(1_000_000_000 + whole.0);
        assert_eq!(completions(&run)[0].0, if is_used { again } else { whole }, "{cable}");
        // The failure is not known before the packet is retransmitted, and so it is retransmitted
        // again after two milliseconds.
        let never = with_leaves(&format!(
            "{{ detection = '1 s', cables = [{{ {cable}, at = '0 ns', until = '1002 us' }}] }}"
        ));
        let run = leaves(&never, LONG).run();
        let twice = Span(2_000_000_000 + whole.0);
        assert_eq!(completions(&run)[0].0, if is_used { twice } else { whole }, "{cable}");
    }
    assert_eq!(uses, 2, "one of the cables up and one of those down");
}

#[test]
fn a_flow_without_a_way_is_named() {
    let both = "{ detection = '2 us', cables = [{ from = '0.0', to = '1.0', at = '1 us' }, \
                { from = '0.1', to = '1.1', at = '7 us', until = '2 ms' }] }";
    let both = with_leaves(both);
    let run = leaves(&both, "length = '1 ms'\nregime = 'from_empty'").run();
    assert_eq!(run.judgement.verdict, Verdict::Settled, "it ended before");
    let own = Channel {
        workload: "x.list = [{ time = '8 us', from = 0, to = 2, size = '950 B' }, \
                   { time = '8 us', from = 0, to = 1, size = '1 kB' }]",
        ..leaves(&both, "length = '1 ms'\nregime = 'from_empty'")
    };
    let run = own.run();
    assert_eq!(run.judgement.verdict, Verdict::Unreachable);
    assert_eq!(run.judgement.verdict.to_string(), "unreachable");
    assert_eq!(run.waiting[0], "flow 0 (x) from host 0 to host 2 has had no way left since 9 us");
    let flows = run.flows.as_ref().expect("flows");
    assert_eq!((flows.unfinished, flows.unreachable), (1, 1));
    // Once the cable is back there is a way.
    let run = Channel { run: "length = '4 ms'\nregime = 'from_empty'", ..own }.run();
    assert_eq!(run.flows.as_ref().map(|own| (own.unfinished, own.unreachable)), Some((0, 0)));
}

#[test]
fn whoever_waits_for_a_cable_is_named() {
    let held = "failures = { detection = '1 s', ports = 'hold', cables = [{ from = 'host 1', at = '1 us' }] }";
    let own = Channel {
        fabric: held,
        workload: "x.list = [{ time = '2 us', from = 0, to = 1, size = '950 B' }]",
        run: "length = '500 us'\nregime = 'from_empty'",
        ..Channel::default()
    };
    let run = own.run();
    assert_eq!(run.judgement.verdict, Verdict::Stuck);
    let said =
        "1 packets of class 0 wait at port 1 of switch 0.0 until its cable to host 1 is back";
    assert_eq!(run.waiting, [said]);
}

/// A run that ends before anything happens has the bytes of one without. Where cables fail no departure is planned,
/// which takes more events.
#[test]
fn nothing_differs_before_a_cable_fails() {
    for forwarding in ["cut_through", "store_and_forward"] {
        let fabric = |failures: &str| {
            format!(
                "fabric.leaf_spine = {{ hosts_per_leaf = 4, spines = 2, leaves = 2 }}\n{failures}"
            )
        };
        let shown = |failures: &str| {
            let own = Channel {
                hosts: 8,
                fabric: &fabric(failures),
                switch: &format!("memory = '100 kB', forwarding = '{forwarding}'"),
                transport: "reliability = 'selective_repeat'",
                workload: "x = { load = 0.7, sizes = 'web_search' }",
                run: "length = '300 us'\nregime = 'from_empty'",
                ..Channel::default()
            };
            let run = ChannelRun { steps: 0, ..own.run() };
            serde_json::to_string(&run).expect("written")
        };
        let later = "failures = { detection = '1 us', cables = [\
            { from = '0.0', to = '1.0', at = '300001 ns' }, { from = 'host 3', at = '300001 ns', rate = 0.5 }] }";
        assert!(shown("") == shown(later), "{forwarding}");
        let before = later.replace("300001 ns", "299 us");
        assert!(shown("") != shown(&before), "{forwarding}");
    }
}

/// Pauses are those of a cable: one that was asked for over a cable that failed is taken back when that is
/// back, and both ends go on.
#[test]
fn pauses_end_with_their_cable() {
    for ports in ["send", "hold"] {
        let fabric = with_leaves(&format!(
            "{{ detection = '10 ms', ports = '{ports}', cables = [\
             {{ from = '0.0', to = '1.0', at = '50 us', until = '150 us' }}, \
             {{ from = '0.0', to = '1.1', at = '51 us', until = '151 us' }}, \
             {{ from = 'host 3', at = '60 us', until = '100 us' }}] }}"
        ));
        let own = Channel {
            fabric: &fabric,
            switch: "memory = '400 kB', classes.0.pfc.threshold.dynamic = { alpha = 0.125, below = '1 kB' }",
            transport: "reliability = 'selective_repeat'",
            workload: "x.list = [{ from = 0, to = 2, size = '1 MB' }, { from = 1, to = 2, size = '1 MB' }, \
                       { from = 3, to = 2, size = '1 MB' }, { from = 2, to = 0, size = '1 MB' }]",
            run: "length = '60 ms'\nregime = 'from_empty'",
            ..Channel::default()
        };
        let run = own.run();
        assert_eq!(run.flows.as_ref().expect("flows").unfinished, 0, "{ports}: {:?}", run.waiting);
        assert!(lost(&run) > 0, "{ports}");
        let paused = run.network.as_ref().expect("pauses").pauses.iter().map(|own| own.stops);
        assert!(paused.sum::<u64>() > 10, "{ports}");
    }
}

/// Packets that come alone are lost for good, and counted.
#[test]
fn packets_without_a_transport_are_given_up() {
    let text = Channel { workload: "x.load = 0.5", ..Channel::default() }.text();
    let text = text.replace(
        "[channel.c.adapter.transport]\nacknowledgment = '64 B'\ntimeout = '1 ms'",
        "[channel.c.failures]\ndetection = '1 ms'\n\
         cables = [{ from = 'host 1', at = '20 us', until = '60 us' }, \
         { from = 'host 2', at = '0 ns', rate = 0.125 }]",
    );
    let text = text.replace("[workload.c.source.flows]\nx.load = 0.5", "[workload.c]\nload = 0.2");
    let run = run(&text, 1);
    // A fifth of the rate for 40 us from host 1, and as much to it.
    let lost = lost(&run);
    assert_eq!(run.observations.abandoned, lost);
    assert!((150..250).contains(&lost), "{lost}");
}

/// A program whose message has no way comes to no end, and says which flow it is. The cable of host 1 is known to
/// have failed at 15 us, and nothing is left after two timeouts of 1 ms.
#[test]
fn a_program_without_a_way_is_stuck() {
    let text = |until: &str| {
        let own = Channel { switch: "memory = '1 MB'", ..Channel::default() };
        let failures = format!(
            "[channel.c.failures]\ndetection = '10 us'\ncables = [{{ from = 'host 1', at = '5 us'{until} }}]\n"
        );
        let program = format!("{failures}[program.run.ping_pong]\nsize = '1 kB'\nrounds = 100\n");
        own.text().replace("[workload.c.source.flows]\n", &program)
    };
    let said = refusal(&text(""));
    assert!(said.contains("the program is stuck at"), "{said}");
    assert!(
        said.contains("on c, flow ") && said.contains(" has had no way left since 15 us"),
        "{said}"
    );
    let run = run(&text(", until = '300 us'"), 1);
    assert_eq!(run.observations.delivered, run.observations.generated);
    assert!(lost(&run) > 0);
}

const FABRICS: [&str; 3] = [
    "fabric.leaf_spine = { hosts_per_leaf = 2, spines = 3, leaves = 4 }",
    "fabric.fat_tree = { radix = 4, tiers = 3 }",
    "fabric.dragonfly = { hosts_per_router = 2, routers_per_group = 2, groups = 2, global_links_per_router = 1 }",
];

/// A cable of a fabric of [`FABRICS`] with eight hosts.
fn cable(fabric: usize, draw: usize) -> String {
    match (fabric, draw % 3) {
        (_, 0) => format!("from = 'host {}'", draw / 3 % 8),
        (0, _) => format!("from = '0.{}', to = '1.{}'", draw / 3 % 4, draw / 12 % 3),
        (1, 1) => format!("from = '0.{}.{}'", draw / 3 % 4, 2 + draw / 12 % 2),
        (1, _) => format!("from = '1.{}.{}'", draw / 3 % 4, 2 + draw / 12 % 2),
        _ => format!("from = '{}.0', to = '{}.1'", draw / 3 % 2, draw / 3 % 2),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Under any failures every packet is accounted for, which the run itself checks; another run has the same
    /// bytes; and flows end once all cables are back.
    #[test]
    fn nothing_is_lost_but_by_a_failure(
        fabric in 0..FABRICS.len(),
        draws in prop::collection::vec((0_usize..144, 0_u32..400, 1_u32..600, 0_u32..3), 1..6),
        (detection, seed) in (0_u32..200, 0_u64..1000),
        ports in prop::sample::select(vec!["send", "hold"]),
        forwarding in prop::sample::select(vec!["cut_through", "store_and_forward"]),
        (reliability, routes) in prop::sample::select(vec![
            ("go_back_n", ""), ("selective_repeat", "routes.per_packet = 'random'"),
            ("selective_repeat", "routes.per_packet = 'adaptive'"),
            ("selective_repeat", "routes.per_connection = 'random'"),
        ]),
        (pauses, marks) in any::<(bool, bool)>(),
    ) {
        let mut seen = Vec::new();
        let mut cables = Vec::new();
        for (draw, at, length, rate) in draws {
            let own = cable(fabric, draw);
            if !seen.contains(&own) {
                let rate = [0.0, 0.0, 0.3][rate as usize];
                cables.push(format!("{{ {own}, at = '{at} us', until = '{} us', rate = {rate:?} }}", at + length));
                seen.push(own);
            }
        }
        let fabric = format!(
            "{}\n{routes}\nfailures = {{ detection = '{detection} us', ports = '{ports}', cables = [{}] }}",
            FABRICS[fabric], cables.join(", ")
        );
        let pfc = if pauses { ", classes.0.pfc.threshold.dynamic = { alpha = 0.125, below = '1 kB' }" } else { "" };
        // A packet that is marked when it has left may have been lost by then.
        let at = if forwarding == "cut_through" { "enqueue" } else { "departure" };
        let ecn = format!(", classes.0.ecn = {{ at = '{at}', law.step.threshold = '2 kB' }}");
        let (ecn, control) = if marks { (&ecn[..], "congestion_control.dctcp = {}") } else { ("", "") };
        let memory = if pauses { "1 MB" } else { "60 kB" };
        let own = Channel {
            hosts: 8,
            fabric: &fabric,
            switch: &format!("memory = '{memory}', forwarding = '{forwarding}'{pfc}{ecn}"),
            transport: &format!("reliability = '{reliability}'\ntimeout = '200 us'\n{control}"),
            workload: "x = { load = 0.4, sizes.constant = '40 kB', end = '500 us' }",
            run: "length = '40 ms'\nregime = 'from_empty'",
            ..Channel::default()
        };
        let text = own.text().replacen("timeout = '1 ms'\n", "", 1);
        ends_the_same_with_every_flow(&text, seed)?;
    }
}

#[test]
fn what_cannot_be_is_refused_by_its_key() {
    let cases = [
        (
            "cables = [{ from = '0.0', to = '2.0', at = '1 us' }]",
            "failures.cables = from = 0.0, to = 2.0",
        ),
        (
            "cables = [{ from = '0.0', to = '1.0', at = '2 us', until = '1 us' }]",
            "an end after at = 2 us",
        ),
        (
            "cables = [{ from = '0.0', to = '1.0', at = '1 us', rate = -0.5 }]",
            "fraction must lie in 0..=1",
        ),
        (
            "cables = [{ from = '0.0', to = '1.0', at = '1 us', rate = 1.5 }]",
            "fraction must lie in 0..=1",
        ),
        ("cables = [{ from = '0.0', to = '1.0' }]", "missing key `at`"),
        ("cables = [{ from = '0.0', to = '1.0', at = 5 }]", "channel.c.failures.cables[0].at"),
        ("ports = 'drop', cables = []", "accepted: `send`, `hold`"),
    ];
    for (text, expected) in cases {
        let fabric = with_leaves(&format!("{{ detection = '0 ns', {text} }}"));
        let said = leaves(&fabric, LONG).refusal();
        // Line 9 has the failures.
        assert!(said.contains(expected) && said.starts_with("c.toml:9:"), "{text}: {said}");
    }
    let fabric = with_leaves("{ cables = [{ from = '0.0', to = '1.0', at = '1 us' }] }");
    let said = leaves(&fabric, LONG).refusal();
    assert!(said.contains("missing key `detection` in channel.c.failures"), "{said}");
}

#[test]
fn cables_fail_only_where_something_reads_of_it() {
    let fails = "failures = { detection = '0 ns', cables = [{ from = 'host 1', at = '1 us' }] }";
    let slows = "failures.cables = [{ from = 'host 1', at = '1 us', rate = 0.5 }]";
    let flows = Channel { fabric: fails, workload: "x.load = 0.1", ..Channel::default() }.text();
    let others = [
        "switch.output_queued = {}",
        "switch.input_queued = { scheduler = 'islip' }",
        "switch.scheduled = { latency = '1 ns', lead = '1 ns', scheduler = 'islip' }",
        "switch.crossbar = { latency = '1 ns', contention = 'drop' }",
    ];
    let alone = |switch: &str, failures: &str| {
        let text = flows
            .replace("[channel.c.adapter.transport]\nacknowledgment = '64 B'\ntimeout = '1 ms'", "")
            .replace("[workload.c.source.flows]\nx.load = 0.1", "[workload.c]\nload = 0.1")
            .replace("switch.shared_buffer = { latency = '300 ns', memory = '10 MB' }", switch)
            .replace(fails, failures);
        refusal(&text)
    };
    for switch in others {
        let said = alone(switch, slows);
        assert!(
            said.contains("channel.c.failures = given") && said.contains("shared_buffer"),
            "{switch}: {said}"
        );
    }
    let given = "routes.per_connection.given = []\nfabric.leaf_spine = { hosts_per_leaf = 2, spines = 2, leaves = 2 }\n";
    let said = refusal(&flows.replace(fails, &format!("{given}{fails}")));
    assert!(said.contains("channel.c.routes.per_connection = given"), "{said}");
    let messages = "switch.shared_buffer = { latency = '300 ns', memory = '10 MB', \
                    classes.0.pfc.threshold.dynamic = { alpha = 0.125, below = '1 kB' } }";
    let text = flows
        .replace("[channel.c.adapter.transport]\nacknowledgment = '64 B'\ntimeout = '1 ms'", "")
        .replace(
            "[workload.c.source.flows]\nx.load = 0.1",
            "[workload.c]\nload = 0.1\nmessage = '10 kB'",
        )
        .replace("switch.shared_buffer = { latency = '300 ns', memory = '10 MB' }", messages);
    let said = refusal(&text);
    assert!(said.contains("channel.c.failures.cables = a cable that fails"), "{said}");
    assert!(said.contains("adapter.transport"), "{said}");
    let plain = "memory = '10 MB' }";
    let credits = "memory = '10 MB', classes.0.credits = '10 kB' }";
    let said = refusal(&flows.replace(plain, credits));
    assert!(said.contains("channel.c.failures.cables = a cable that fails"), "{said}");
    assert!(said.contains("credits"), "{said}");
}

/// Three switches with a cable between any two. While one of them is down two packets go by a third
/// switch, which closes no cycle of inputs that pause each other. If each is down in its turn, what
/// is left of one time can wait for what is left of another, all around.
#[test]
fn routes_of_different_times_close_no_cycle_together() {
    let table = "[channel.c.fabric.table]\nswitches = [{ name = 'a', ports = 3 }, { name = 'b', ports = 3 }, \
                 { name = 'c', ports = 3 }]\n\
                 cables = [{ from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'b.0' }, { from = 'host 2', to = 'c.0' }, \
                 { from = 'a.1', to = 'b.1' }, { from = 'b.2', to = 'c.1' }, { from = 'c.2', to = 'a.2' }]\n";
    let text = |cables: &str| {
        let own = Channel {
            hosts: 3,
            switch: "memory = '1 MB', classes.0.pfc.threshold.dynamic = { alpha = 0.125, below = '1 kB' }",
            workload: "x = { load = 0.3, sizes.constant = '10 kB', end = '80 us' }",
            run: LONG,
            ..Channel::default()
        };
        let failures =
            format!("{table}[channel.c.failures]\ndetection = '0 ns'\ncables = [{cables}]\n");
        own.text()
            .replace("[workload.c.source.flows]", &format!("{failures}[workload.c.source.flows]"))
    };
    let one = "{ from = 'a', to = 'b', at = '10 us', until = '20 us' }";
    let run = run(&text(one), 1);
    assert_eq!(run.flows.as_ref().expect("flows").unfinished, 0);
    assert!(
        run.observations.hops.mean().is_some_and(|mean| mean > 2.0),
        "some go by a third switch"
    );
    let all = format!(
        "{one}, {{ from = 'b', to = 'c', at = '30 us', until = '40 us' }}, {{ from = 'c', to = 'a', at = '50 us' }}"
    );
    let said = refusal(&text(&all));
    assert!(said.contains("channel.c.deadlock = refused (a cycle"), "{said}");
}

/// The shipped permutation: the median of sprayed flows stays, and the last flow waits for a timeout; the
/// eight flows of the leaf do, in place of the two that ECMP has on the cable.
#[test]
fn the_median_of_a_sprayed_permutation_notices_no_failure() {
    let options = Options { seeds: Some(1), ..Options::default() };
    let request = Request::new("permutation-failed-links", None, &[]);
    let outcome = weft_lab::run(&request, &options, &mut |_, _| true).expect("the experiment");
    let points = outcome.table("points");
    let at = |routes: &str, failed: &str, column: &str| {
        let is_it = |row: &usize| {
            let cells =
                ["routes", "failed"].map(|key| points.get(*row, key).expect(key).to_string());
            cells == [routes, failed]
        };
        let row = (0..points.rows()).find(is_it).expect("the point");
        points.number(row, column).unwrap_or_else(|| panic!("{routes}, {failed}: no {column}"))
    };
    for routes in ["ecmp", "oblivious", "mixed", "adaptive"] {
        let last = |failed| at(routes, failed, "all_acknowledged_max_us");
        let median = |failed| at(routes, failed, "all_completion_p50_us");
        for failed in ["0", "1", "2", "4"] {
            assert_eq!(at(routes, failed, "all_flows"), 128.0, "{routes} {failed}");
            assert_eq!(at(routes, failed, "unfinished_flows"), 0.0);
            let lost = at(routes, failed, "dropped_failed_cable");
            assert_eq!(failed == "0", lost == 0.0, "{routes} {failed}: {lost}");
        }
        if routes == "ecmp" {
            assert_eq!(at(routes, "1", "timeouts"), 2.0);
            assert!(last("1") < 1.1 * last("0"));
        } else {
            assert_eq!(at(routes, "1", "timeouts"), 8.0, "{routes}");
            assert!((median("4") / median("0") - 1.0).abs() < 0.03, "{routes}");
            assert!(last("1") > 2.0 * last("0"), "{routes}: {} and {}", last("0"), last("1"));
        }
    }
}
