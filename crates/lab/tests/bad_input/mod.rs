//! Refusals, through the interface that people use, on shipped systems: the exact messages.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]
#![allow(missing_docs, reason = "a test's items speak for themselves")]

mod hints;

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};
use weft_lab::{Error, Options, Plan, Request, run};

/// Carries out a request that must be refused.
fn refusal(request: &Request) -> Error {
    let options = Options { length: Some("10 us".to_owned()), ..Options::default() };
    run(request, &options, &mut |_, _| true).expect_err("the request was carried out")
}

/// Overrides of Clint that must be refused.
fn clint(overrides: &[&str], message: Expect) {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    message.assert_eq(&refusal(&Request::new("clint", None, &overrides)).to_string());
}

/// A file on top of Clint that must be refused.
fn file(name: &str, text: &str, message: Expect) -> Error {
    let error = refusal(&Request::of_text(name, text));
    message.assert_eq(&error.to_string());
    error
}

#[test]
fn an_unknown_key_names_the_nearest() {
    file(
        "typo.toml",
        "base = \"clint\"\n\n[channel.bulk.link]\nlenght = \"3 m\"\n",
        expect![[r#"
            typo.toml:4:1: unknown key `lenght` in channel.bulk.link
                4 | lenght = "3 m"
                  | ^^^^^^
                accepted: `rate`, `length`, `delay_per_metre`, `reserved`; did you mean `length`?"#]],
    );
    clint(
        &["channel.bulk.adapter.send_bufers=8"],
        expect![[r#"
        --set channel.bulk.adapter.send_bufers=8: unknown key `send_bufers` in channel.bulk.adapter
            accepted: `send_buffers`, `feed`, `release`, `acknowledgments`, `throttle`, `transport`; did you mean `send_buffers`?"#]],
    );
}

#[test]
fn a_wrong_unit_is_told_the_right_ones() {
    file(
        "unit.toml",
        "base = \"clint\"\n\n[channel.bulk]\npacket = \"2 us\"\n",
        expect![[r#"
            unit.toml:4:10: channel.bulk.packet = "2 us": unknown unit `us`; use B, KB, KiB, MB, MiB, GB or GiB
                4 | packet = "2 us"
                  |          ^^^^^^"#]],
    );
    clint(
        &["channel.bulk.link.rate=2 Gbits"],
        expect![[
            r#"--set channel.bulk.link.rate=2 Gbits: channel.bulk.link.rate = "2 Gbits": unknown unit `Gbits`; use bit/s, kbit/s, Mbit/s, Gbit/s, B/s, KB/s, MB/s or GB/s; did you mean "2 Gbit/s"?"#
        ]],
    );
}

#[test]
fn a_missing_unit_is_told_an_example() {
    file(
        "no-unit.toml",
        "base = \"clint\"\nchannel.bulk.switch.scheduled.gap = 190\n",
        expect![[r#"
            no-unit.toml:2:37: channel.bulk.switch.scheduled.gap = 190: write the unit, for example "190 ns"
                2 | channel.bulk.switch.scheduled.gap = 190
                  |                                     ^^^"#]],
    );
    clint(
        &["channel.bulk.link.length=5"],
        expect![[
            r#"--set channel.bulk.link.length=5: channel.bulk.link.length = 5: write the unit, for example "5 m""#
        ]],
    );
}

#[test]
fn a_value_out_of_range_is_told_the_range() {
    let error = file(
        "load.toml",
        "base = \"clint\"\n\n[workload.bulk]\nload = 2.5\n",
        expect![[r#"
            load.toml:4:8: workload.bulk.load = 2.5: load must lie in 0..=2, got 2.5
                4 | load = 2.5
                  |        ^^^"#]],
    );
    let details = error.details();
    assert_eq!((details.line, details.column), (Some(4), Some(8)));
    assert_eq!(details.key.as_deref(), Some("workload.bulk.load"));
    assert_eq!(details.value.as_deref(), Some("2.5"));
    clint(
        &["channel.bulk.adapter.send_buffers=0"],
        expect![
            "--set channel.bulk.adapter.send_buffers=0: channel.bulk.adapter.send_buffers = 0: count must lie in 1..=1000000, got 0"
        ],
    );
    clint(
        &["channel.bulk.switch.scheduled.relock=1"],
        expect![[r#"
        --set channel.bulk.switch.scheduled.relock=1: channel.bulk.switch.scheduled.relock = 1 does not fit
            accepted: a fraction below 1"#]],
    );
}

#[test]
fn two_switches_in_one_file_are_both_named() {
    file(
        "two.toml",
        "base = \"clint\"\n\n[channel.bulk.switch.output_queued]\n\n\
         [channel.bulk.switch.input_queued.scheduler.wavefront]\n",
        expect![[r#"
            two.toml:5:22: two parts where one fits: `input_queued` here, `output_queued` at two.toml:3:22
                5 | [channel.bulk.switch.input_queued.scheduler.wavefront]
                  |                      ^^^^^^^^^^^^
                accepted: one choice for channel.bulk.switch"#]],
    );
}

#[test]
fn an_unknown_part_names_the_parts() {
    clint(
        &["channel.bulk.switch.scheduled.scheduler=iSLIP"],
        expect![[r#"
        --set channel.bulk.switch.scheduled.scheduler=iSLIP: unknown choice `iSLIP` for channel.bulk.switch.scheduled.scheduler
            accepted: `least_choice_first`, `least_choice_first_distributed`, `islip`, `pim`, `wavefront`, `maximum_matching`, `random_maximal`; did you mean `islip`?"#]],
    );
    clint(
        &["channel.bulk.switch.scheduled.scheduler.roundrobin.iterations=4"],
        expect![[r#"
        --set channel.bulk.switch.scheduled.scheduler.roundrobin.iterations=4: unknown choice `roundrobin` for channel.bulk.switch.scheduled.scheduler
            accepted: `least_choice_first`, `least_choice_first_distributed`, `islip`, `pim`, `wavefront`, `maximum_matching`, `random_maximal`"#]],
    );
}

#[test]
fn an_unknown_preset_names_the_presets() {
    expect![[r#"
        unknown preset `fited`
            accepted: `interface`, `literal`, `fitted`, `b1`, `b2`, `b3`, `q2`, `detailed`, `one_link`, `shared_link`, `backplane`, `optical`, `compare`, `today`; did you mean `fitted`?"#]]
    .assert_eq(&refusal(&Request::new("clint", Some("fited"), &[])).to_string());
}

#[test]
fn an_unknown_system_names_the_systems() {
    let error = refusal(&Request::new("clnt", None, &[]));
    expect!["`clnt` is not shipped; accepted: a name that `weft systems` lists, or the path of a file that ends in .toml; did you mean `clint`?"]
        .assert_eq(&error.to_string());
    assert_eq!(error.details().accepted.as_deref(), Some("clint"));
}

#[test]
fn what_is_reproduced_is_a_system_or_a_family() {
    let shipped = weft_lab::systems().expect("the systems are read");
    let mut names: Vec<String> = shipped.into_iter().map(|system| system.name).collect();
    names.extend(["memory-channel", "simulators"].map(str::to_owned));
    names.sort();
    let accepted = names.join(", ");
    for (written, meant) in [("clit", "clint"), ("memory-chanel", "memory-channel")] {
        let refused = weft_lab::reproduce(written, &Options::default(), &mut |_, _, _| true);
        let error = refused.expect_err("no such system is shipped").to_string();
        let text = format!(
            "there is no shipped system `{written}`; accepted: {accepted}; did you mean `{meant}`?"
        );
        assert_eq!(error, text);
    }
}

#[test]
fn an_override_without_an_equals_sign_is_told_the_form() {
    clint(
        &["run.seeds"],
        expect![
            "override `run.seeds` has no `=`; write it as key.path=value, for example run.seeds=5"
        ],
    );
}

#[test]
fn a_parameter_that_no_part_reads_is_refused() {
    file(
        "acknowledgments.toml",
        "base = \"clint\"\n\n[channel.bulk.adapter]\nacknowledgments = \"interleave\"\n",
        expect![[r#"
            acknowledgments.toml:4:1: channel.bulk.adapter.acknowledgments = interleave does not fit
                4 | acknowledgments = "interleave"
                  | ^^^^^^^^^^^^^^^
                accepted: wait, since only control.request_acknowledge sends acknowledgments"#]],
    );
    clint(
        &[
            "channel.bulk.switch.output_queued.latency=0 ns",
            "channel.bulk.adapter.release=acknowledgment",
        ],
        expect![[r#"
            --set channel.bulk.adapter.release=acknowledgment: channel.bulk.adapter.release = acknowledgment does not fit
                accepted: transmission, since with control = unacknowledged nothing tells of an arrival"#]],
    );
    clint(
        &["workload.bulk.source=greedy", "workload.bulk.load=0.5"],
        expect![[r#"
        --set workload.bulk.load=0.5: workload.bulk.load = given with source = greedy does not fit
            accepted: no such setting for this source"#]],
    );
}

#[test]
fn a_scheduler_has_a_largest_number_of_ports() {
    file(
        "hosts.toml",
        "base = \"clint\"\nsystem.hosts = 1025\n",
        expect![[r#"
        hosts.toml:2:8: system.hosts = 1025 does not fit
            2 | system.hosts = 1025
              |        ^^^^^
            accepted: 2 to 1024 on a switch with a scheduler"#]],
    );
    clint(
        &["system.hosts=65", "channel.bulk.switch.scheduled.speculation=fixed_priority"],
        expect![[r#"
        --set system.hosts=65: system.hosts = 65 does not fit
            accepted: 2 to 64 where a schedule tells hosts of their packets (as with speculation or recovery), since the requests of a host are one word"#]],
    );
    clint(
        &["system.hosts=1"],
        expect![[r#"
        --set system.hosts=1: system.hosts = 1 does not fit
            accepted: a whole number in 2..=1048576"#]],
    );
    for hosts in ["0", "1048577", "-1", "2.5", "many"] {
        let error = refusal(&Request::new("clint", None, &[format!("system.hosts={hosts}")]));
        assert_eq!(error.details().accepted.as_deref(), Some("a whole number in 2..=1048576"));
    }
}

#[test]
fn a_payload_fits_into_its_packet() {
    file(
        "payload.toml",
        "base = \"clint\"\n\n[channel.bulk]\npayload = \"2087 B\"\n",
        expect![[r#"
            payload.toml:4:1: channel.bulk.payload = 2087 B does not fit
                4 | payload = "2087 B"
                  | ^^^^^^^
                accepted: at most the packet that carries it, 2086 B"#]],
    );
    clint(
        &["channel.quick.payload=64 B"],
        expect![[r#"
        --set channel.quick.payload=64 B: channel.quick.payload = 64 B does not fit
            accepted: at most the packet that carries it, 36 B"#]],
    );
}

#[test]
fn traffic_is_for_a_channel_that_there_is() {
    file(
        "workload.toml",
        "base = \"clint\"\n\n[workload.bluk]\nload = 0.5\n",
        expect![[r#"
            workload.toml:3:11: there is no channel `bluk`
                3 | [workload.bluk]
                  |           ^^^^
                accepted: `bulk`, `quick`; did you mean `bulk`?"#]],
    );
}

#[test]
fn a_pattern_names_hosts_that_there_are() {
    file(
        "pattern.toml",
        "base = \"clint\"\n\n[workload.bulk]\nload = 0.5\n\
         pattern.hot_spot = { target = 16, fraction = 0.5 }\n",
        expect![[r#"
            pattern.toml:5:22: workload.bulk.pattern.hot_spot.target = 16 does not fit
                5 | pattern.hot_spot = { target = 16, fraction = 0.5 }
                  |                      ^^^^^^
                accepted: a host, below 16"#]],
    );
}

#[test]
fn a_run_measures_something() {
    clint(
        &["run.regime.skip=10 us"],
        expect![[r#"
        --set run.regime.skip=10 us: run.regime.skip = 10 us does not fit
            accepted: less than run.length, 10 us"#]],
    );
    clint(
        &["run.seeds=0"],
        expect!["--set run.seeds=0: run.seeds = 0: count must lie in 1..=1000000, got 0"],
    );
}

#[test]
fn an_axis_is_narrowed_to_values_that_it_has() {
    let error = refusal(&Request::new("clint-table-2-bulk", None, &["traffic=burst".to_owned()]));
    expect!["traffic = `burst` is not one of its values; accepted: single, bursty"]
        .assert_eq(&error.to_string());
}

/// The part that a label names is the one that runs: nothing laid over a variant, a preset or a
/// swept part may replace it.
#[test]
fn a_labelled_part_is_not_replaced_by_another() {
    let study = "base = 'clan'\n[run]\nlength = '100 us'\n[workload.fabric]\nload = 0.1\n\
        [variant.flow.link_level]\nchannel.fabric.flow_control.stop_go = { stop = 8, go = 4, reaction = '2 us' }\n\
        [variant.flow.source_quench]\n";
    let asked = |more: &str, overrides: &[&str]| {
        let mut request = Request::of_text("study.toml", &format!("{study}{more}"));
        request.overrides = overrides.iter().map(|text| (*text).to_owned()).collect();
        request
    };
    let quench = "channel.fabric.flow_control.source_quench.quench";
    expect![[r#"
        --set channel.fabric.flow_control.source_quench.quench=9: `source_quench` here takes the place of `stop_go`, which flow = link_level chose at study.toml:7:29: its rows would be those of another part
            accepted: settings of `stop_go`, or this with `flow` narrowed to where `source_quench` runs"#]].assert_eq(&refusal(&asked("", &[&format!("{quench}=9")])).to_string());
    let swept = format!("[sweep]\n'{quench}' = [5, 9]\n");
    expect![[r#"
        study.toml:10:55: `source_quench` here takes the place of `stop_go`, which flow = link_level chose at study.toml:7:29: its rows would be those of another part
            10 | 'channel.fabric.flow_control.source_quench.quench' = [5, 9]
               |                                                       ^
            accepted: settings of `stop_go`, or this with `flow` narrowed to where `source_quench` runs"#]].assert_eq(&refusal(&asked(&swept, &[])).to_string());
    // A variant of a shipped experiment that chose its part by a preset of the system.
    let shipped = Request::new("clan-port-contention", None, &[format!("{quench}=9")]);
    let said = Plan::new(&shipped).expect_err("a part of another").to_string();
    let [set, chosen] = [
        "--set channel.fabric.flow_control.source_quench.quench=9",
        "flow_control = link_level chose at systems/clan.toml:",
    ];
    assert!(said.contains(set) && said.contains(chosen), "{said}");
    // Where the variants are narrowed to those that run the part, it can be set.
    let narrowed = asked(&swept, &["flow=source_quench"]);
    assert_eq!(Plan::new(&narrowed).expect("one variant").points.len(), 2);
}

#[test]
fn files_that_name_each_other_are_refused() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loop.toml");
    fs::write(&path, "base = \"loop.toml\"\n").expect("the folder of the tests can be written");
    let error = refusal(&Request::new(&path.to_string_lossy(), None, &[]));
    expect![
        "`base` leads through more than 16 files; the last is loop.toml: do two name each other?"
    ]
    .assert_eq(&error.to_string());
}

/// Two pages of a cluster: node 0 maps the first outgoing to node 1, which does not let it be read.
const WINDOW: &str = "base = \"memory-channel-2\"\n\n[workload.memory]\nload = 0.1\n\n\
    [channel.memory.window]\nmappings = \"listed\"\n\
    incoming = [{ node = 1, page = 0, entry = {} }]\n";
const OUTGOING: &str = "outgoing = [{ node = 0, page = 0, entry = { reach = { point = 1 } } }]\n";

#[test]
fn a_page_mapped_outgoing_that_nobody_maps_incoming() {
    let text = format!("{WINDOW}{}", OUTGOING.replace("page = 0", "page = 3"));
    file(
        "consent.toml",
        &text,
        expect![[r#"
            consent.toml:9:1: channel.memory.window.outgoing = given does not fit
                9 | outgoing = [{ node = 0, page = 3, entry = { reach = { point = 1 } } }]
                  | ^^^^^^^^
                accepted: what both sides agree on; node 0 maps page 3 outgoing to node 1, which maps it incoming nowhere: both sides must consent"#]],
    );
}

#[test]
fn a_remote_read_of_a_page_without_the_attribute() {
    let read = "accesses = [{ at = \"1 us\", node = 0, \
                what.read = { target = 1, offset = \"0 B\", size = \"8 B\" } }]\n";
    file(
        "read.toml",
        &format!("{WINDOW}{OUTGOING}{read}"),
        expect![[r#"
            read.toml:10:1: channel.memory.window.accesses = node 0 reads 8 B at 0 B of node 1 does not fit
                10 | accesses = [{ at = "1 us", node = 0, what.read = { target = 1, offset = "0 B", size = "8 B" } }]
                   | ^^^^^^^^
                accepted: what the page control tables allow; page 0 of node 1 has no attribute remote_read: it can be written and not read"#]],
    );
}

#[test]
fn a_write_past_the_window() {
    let write = "accesses = [{ at = \"1 us\", node = 0, \
                 what.write = { offset = \"128 MiB\", size = \"8 B\" } }]\n";
    file(
        "past.toml",
        &format!("{WINDOW}{OUTGOING}{write}"),
        expect![[r#"
            past.toml:10:1: channel.memory.window.accesses = node 0 writes 8 B at 128 MiB does not fit
                10 | accesses = [{ at = "1 us", node = 0, what.write = { offset = "128 MiB", size = "8 B" } }]
                   | ^^^^^^^^
                accepted: what the page control tables allow; 8 B at offset 134217728 of a window of 128 MiB: accepted is what ends within it"#]],
    );
}

#[test]
fn seventeen_nodes_on_sixteen_ports() {
    let text = "base = \"memory-channel-2\"\n\n[system]\nhosts = 17\n\n\
                [workload.memory]\nload = 0.1\n";
    file(
        "nodes.toml",
        text,
        expect![[r#"
        nodes.toml:4:1: system.hosts = 17 does not fit
            4 | hosts = 17
              | ^^^^^
            accepted: at most the 16 ports of channel.memory.switch.hub"#]],
    );
}

/// Programs on top of Clint whose ranks cannot be placed, or lack what they share.
#[test]
fn what_several_ranks_on_a_host_lack_is_named() {
    let program = |name: &str, more: &str, message: Expect| {
        let (system, program) = match more.strip_prefix("system.") {
            Some(more) => (format!("system.{more}"), ""),
            None => (String::new(), more),
        };
        let run = "run.all_to_all = { size = \"64 B\" }";
        let text = format!(
            "base = \"clint\"\n{system}\n[program]\nchannel = \"bulk\"\n{run}\n{program}\n"
        );
        file(name, &text, message);
    };
    program(
        "no-memory.toml",
        "ranks_per_host = 4",
        expect![[r#"
            no-memory.toml:6:1: program.ranks_per_host = 4 does not fit
                6 | ranks_per_host = 4
                  | ^^^^^^^^^^^^^^
                accepted: one rank a host, or system.memory = { latency = "...", rate = "..." } of a copy between ranks 0 and 1, which are both on host 0"#]],
    );
    program(
        "half.toml",
        "system.memory = { latency = \"1 us\" }",
        expect![[r#"
            half.toml:2:8: missing key `rate` in system.memory
                2 | system.memory = { latency = "1 us" }
                  |        ^^^^^^
                accepted: `latency`, a text with its unit (ps, ns, us, ms, s); `rate`, a text with its unit (bit/s, kbit/s, Mbit/s, Gbit/s, B/s, KB/s, MB/s, GB/s). For example: memory = { latency = "850 ns", rate = "2 Gbit/s" }"#]],
    );
    let rate = "system.memory = { latency = \"1 us\", rate = \"2 us\" }";
    program(
        "speed.toml",
        rate,
        expect![[r#"
        speed.toml:2:44: system.memory.rate = "2 us": unknown unit `us`; use bit/s, kbit/s, Mbit/s, Gbit/s, B/s, KB/s, MB/s or GB/s
            2 | system.memory = { latency = "1 us", rate = "2 us" }
              |                                            ^^^^^^"#]],
    );
    program(
        "none.toml",
        "ranks_per_host = 0",
        expect![[r#"
        none.toml:6:18: program.ranks_per_host = 0: count must lie in 1..=1000000, got 0
            6 | ranks_per_host = 0
              |                  ^"#]],
    );
    program(
        "idle.toml",
        "system.processors = 0",
        expect![[r#"
        idle.toml:2:21: system.processors = 0: count must lie in 1..=1000000, got 0
            2 | system.processors = 0
              |                     ^"#]],
    );
    program(
        "many.toml",
        "ranks = 20",
        expect![[r#"
        many.toml:6:1: program.ranks = 20 does not fit
            6 | ranks = 20
              | ^^^^^
            accepted: 1 to 16, one a host unless program.ranks_per_host says otherwise"#]],
    );
    program(
        "too-many.toml",
        "ranks = 70\nranks_per_host = 4",
        expect![[r#"
        too-many.toml:6:1: program.ranks = 70 does not fit
            6 | ranks = 70
              | ^^^^^
            accepted: 1 to 64, 4 on each of 16 hosts"#]],
    );
    program(
        "round.toml",
        "placement = \"round_robin\"",
        expect![[r#"
        round.toml:6:13: unknown choice `round_robin` for program.placement
            6 | placement = "round_robin"
              |             ^^^^^^^^^^^^^
            accepted: `block`, `linear`, `cyclic`, `random`, `hosts`"#]],
    );
    program(
        "list.toml",
        "placement.hosts = [0, 0, 16]",
        expect![[r#"
        list.toml:6:1: program.placement = host 16 does not fit
            6 | placement.hosts = [0, 0, 16]
              | ^^^^^^^^^
            accepted: hosts from 0 to 15"#]],
    );
    let crowded = "placement.hosts = [3, 1, 3, 3]\nranks_per_host = 2";
    program(
        "crowded.toml",
        crowded,
        expect![[r#"
            crowded.toml:6:1: program.placement = 3 times host 3 does not fit
                6 | placement.hosts = [3, 1, 3, 3]
                  | ^^^^^^^^^
                accepted: each host at most as often as program.ranks_per_host, 2"#]],
    );
    program(
        "shared-list.toml",
        "placement.hosts = [3, 1, 3]",
        expect![[r#"
            shared-list.toml:6:1: program.placement = [3, 1, 3] does not fit
                6 | placement.hosts = [3, 1, 3]
                  | ^^^^^^^^^
                accepted: one rank a host, or system.memory = { latency = "...", rate = "..." } of a copy between ranks 0 and 2, which are both on host 3"#]],
    );
}

#[test]
fn a_trace_of_more_ranks_than_hosts_take_is_told_the_key() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wide.goal");
    let ranks: String = (0..40).map(|rank| format!("rank {rank} {{\na: calc 1\n}}\n")).collect();
    fs::write(&path, format!("num_ranks 40\n{ranks}")).expect("the folder can be written");
    let text = |more: &str| {
        format!(
            "base = \"clint\"\n[program]\nchannel = \"bulk\"\ntrace.goal.file = \"{}\"\n{more}",
            path.display()
        )
    };
    let message = refusal(&Request::of_text("wide.toml", &text(""))).to_string();
    assert!(message.contains("the trace has 40 ranks, where at most 16"), "{message}");
    assert!(message.contains("ranks_per_host"), "{message}");
    let shared = "ranks_per_host = 3\n[system.memory]\nlatency = \"1 us\"\nrate = \"1 GB/s\"\n";
    let options = Options::default();
    let run = run(&Request::of_text("wide.toml", &text(shared)), &options, &mut |_, _| true);
    assert_eq!(run.map(|own| own.table("ranks").rows()).ok(), Some(40));
}

#[test]
fn a_broadcast_to_more_ranks_than_a_set_holds_is_refused() {
    let text = "base = \"clan\"\n[program]\nranks = 65\nranks_per_host = 2\n\
                run.broadcast = { size = \"64 B\" }\n\
                [system.memory]\nlatency = \"1 us\"\nrate = \"1 GB/s\"\n";
    file(
        "set.toml",
        text,
        expect![[r#"
        set.toml:5:5: program.run.broadcast.copies = false does not fit
            5 | run.broadcast = { size = "64 B" }
              |     ^^^^^^^^^
            accepted: true among more than 64 ranks"#]],
    );
}

#[test]
fn what_is_published_is_a_number_with_a_band_or_a_statement() {
    let study = |lines: &str| {
        format!(
            "base = \"clint\"\nworkload.bulk.load = 0.5\n\n[[published]]\n\
            quantity = \"queueing_mean_us\"\nsection = \"4.2\"\n{lines}"
        )
    };
    file(
        "relative.toml",
        &study("band = { relative = 0.1 }\n"),
        expect![[r#"
        relative.toml:7:1: published[0] (queueing_mean_us) has a band around a number in print without the `value`
            7 | band = { relative = 0.1 }
              | ^^^^
            accepted: a `value`, or { between = [low, high] } where no number is printed"#]],
    );
    file(
        "both.toml",
        &study("value = 1.0\nstatement = \"it is slow\"\nband = { relative = 0.1 }\n"),
        expect![[r#"
            both.toml:8:1: published[0] (queueing_mean_us) has a `statement` beside a `value`
                8 | statement = "it is slow"
                  | ^^^^^^^^^
                accepted: a `value` where a number is printed, a `statement` where none is"#]],
    );
}
