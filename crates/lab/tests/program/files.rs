//! Programs as files name them.

use weft_fabric::measure::Latency;
use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, simulate};

use super::{STAR, TREE};

pub fn spec_of(text: &str) -> Result<Vec<ChannelRun>, weft_lab::Error> {
    let plan = Plan::new(&Request::of_text("program.toml", text))?;
    simulate(&plan.points[0].spec, 1, &Halt::new())
}

pub fn file(hosts: u16, channel: &str, program: &str) -> String {
    format!("[system]\ntitle = 'programs'\nhosts = {hosts}\n{channel}\n[program]\n{program}\n")
}

pub fn measured(runs: &[ChannelRun], name: &str) -> f64 {
    let found = runs[0].counters.iter().find(|(column, _)| *column == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", runs[0].counters)).1
}

#[test]
fn ping_pong_takes_two_ways() {
    let text = file(2, STAR, "run.ping_pong = { size = '64 B', rounds = 3 }");
    let runs = spec_of(&text).expect("a run");
    assert_eq!(measured(&runs, "program_round_trip_mean_us"), 2.1);
    assert_eq!(measured(&runs, "program_one_way_mean_us"), 1.05);
    assert!((measured(&runs, "program_mb_per_s") - 64.0 / 1.05).abs() < 1e-9);
    assert_eq!(measured(&runs, "program_messages"), 6.0);
    assert_eq!(measured(&runs, "program_time_us"), 6.3);
    assert_eq!(runs[0].observations.delivered, 6);
}

/// Three round trips of 2.1 us, in each of which a rank sends for 1 us. Rank 0 waits for the other 1.1;
/// so does rank 1, but 1.05 the first time. Stretch by stretch it is told only if it is asked for.
#[test]
fn ranks_tell_what_they_did_with_their_time() {
    let text = file(2, STAR, "run.ping_pong = { size = '64 B', rounds = 3 }");
    let tables = |more: &str| {
        let request = Request::of_text("program.toml", &format!("{text}[run]\nseeds = 2\n{more}"));
        weft_lab::run(&request, &weft_lab::Options::default(), &mut |_, _| true).expect("a run")
    };
    let outcome = tables("");
    let ranks = outcome.table("ranks");
    assert_eq!(ranks.rows(), 4, "two ranks in two runs");
    let us = |row, name: &str| match ranks.get(row, name) {
        Some(weft_lab::Cell::Number(Some(us))) => us,
        other => panic!("{name}: {other:?}"),
    };
    for row in 0..4 {
        let (end, waited) = if row % 2 == 0 { (6.3, 3.3) } else { (6.25, 3.25) };
        let spent: f64 = ["computing", "sending", "waiting", "idle"]
            .iter()
            .map(|name| us(row, &format!("{name}_us")))
            .sum();
        assert!((spent - us(row, "end_us")).abs() < 1e-9, "rank {row}: {spent}");
        assert!((us(row, "end_us") - end).abs() < 1e-9, "rank {row}: {}", us(row, "end_us"));
        assert!((us(row, "waiting_us") - waited).abs() < 1e-9, "{row}: {}", us(row, "waiting_us"));
    }
    assert_eq!((outcome.table("intervals").rows(), outcome.table("messages").rows()), (0, 0));
    let traced = tables("trace = true\n");
    assert_eq!(traced.table("messages").rows(), 12, "six messages in two runs");
    assert!(traced.table("intervals").rows() >= 12);
    assert_eq!(traced.table("ranks"), ranks, "looking changes nothing");
}

#[test]
fn both_directions_at_once_take_one_way() {
    let text = file(2, STAR, "run.ping_ping = { size = '100 B' }");
    let runs = spec_of(&text).expect("a run");
    assert_eq!(measured(&runs, "program_exchange_mean_us"), 1.05);
    assert!((measured(&runs, "program_mb_per_s") - 200.0 / 1.05).abs() < 1e-9);
}

/// A barrier before each exchange is no part of what is timed: two ranks exchange as without it, and
/// the program takes one message longer each time. Among four those that exchange nothing meet, too.
#[test]
fn a_barrier_before_an_exchange_is_not_timed() {
    let of = |ranks, more: &str| {
        let program = format!("run.ping_ping = {{ size = '100 B', rounds = 5{more} }}");
        let runs = spec_of(&file(ranks, STAR, &program)).expect("a run");
        ["program_exchange_max_us", "program_time_us"].map(|name| measured(&runs, name))
    };
    let (without, after) = (of(2, ""), of(2, ", barrier = 'messages'"));
    assert_eq!(after[0], without[0]);
    let of_one = (after[1] - without[1]) / 5.0;
    assert!((0.5..1.1).contains(&of_one), "a barrier of {of_one} us");
    assert!(of(4, ", barrier = 'messages'")[1] > after[1]);
}

#[test]
fn a_stream_fills_the_link_but_for_the_way_there_and_back() {
    let text = file(2, STAR, "run.stream = { size = '100 B', window = 100, rounds = 2 }");
    let runs = spec_of(&text).expect("a run");
    let window = 100.0 + 0.05 + 1.05;
    assert!((measured(&runs, "program_window_mean_us") - window).abs() < 1e-9);
    assert!((measured(&runs, "program_mb_per_s") - 10_000.0 / window).abs() < 1e-6);
}

#[test]
fn every_program_of_the_library_runs_on_a_star_and_on_a_tree() {
    let programs = [
        "run.ping_pong = { size = '64 B', pair = [1, 3] }",
        "run.ping_ping = { size = '250 B' }",
        "run.stream = { size = '250 B', window = 8 }",
        "run.all_to_all = { size = '250 B' }",
        "run.barrier = { rounds = 20 }",
        "run.lock = { rounds = 5, hold = '1 us', server = 2 }",
        "run.hot_spot = { size = '250 B', target = 1 }",
        "run.request_reply = { size = '16 B', reply = '500 B', service = '100 ns' }",
    ];
    for program in programs {
        let [star, tree] = [STAR, TREE].map(|channel| {
            let runs = spec_of(&file(4, channel, program)).expect(program);
            // No rank waits for the last release of a lock.
            assert!(runs[0].backlog + runs[0].in_flight <= 1, "{program}");
            (measured(&runs, "program_messages"), measured(&runs, "program_time_us"))
        });
        assert_eq!(star.0, tree.0, "{program}: the messages are those of the program");
        assert!(star.1 > 0.0 && tree.1 > 0.0, "{program}");
    }
}

/// Three hosts send to the fourth through switches that are heard too late: what a buffer loses, a
/// program loses, with hosts in front or without.
#[test]
fn a_program_over_a_buffer_that_overflows_is_a_failed_run() {
    let switches = [
        "switch.shared_memory = { latency = '10 ns', buffer = 4 }",
        "switch.input_queued = { latency = '10 ns', buffer = 4, scheduler.islip = {} }",
    ];
    for switch in switches {
        let stop = "flow_control.stop_go = { stop = 2, go = 0, reaction = '90 us' }";
        let late = format!("{switch}\n{stop}");
        let channel = TREE.replace("switch.output_queued.latency = '10 ns'", &late);
        for hosts in ["", "[channel.c.host]\n"] {
            let program = "run.hot_spot = { size = '5000 B', target = 3 }";
            let text = file(4, &format!("{channel}{hosts}"), program);
            let failed = spec_of(&text).map(drop).map_err(|error| error.to_string());
            let message = failed.expect_err(&text);
            assert!(message.contains("whose buffer of 4 cells was full"), "{message}");
        }
    }
}

/// Messages of 1 us one after the other: a pair that the hot spot does not concern keeps its link
/// through a crossbar, whatever goes to the hot spot. Over the bus of Memory Channel 1 it does not.
#[test]
fn a_hot_spot_and_a_pair_that_has_no_part_in_it() {
    let rates = |hosts, channel: &str, more: &str| {
        let size = "run.hot_spot = { size = '100 B', rounds = 20, victim = [3, 4]";
        let text = file(hosts, channel, &format!("{size}, {more} }}"));
        let runs = spec_of(&text).expect(more);
        assert_eq!(runs[0].backlog + runs[0].in_flight, 0, "{more}");
        assert_eq!(measured(&runs, "program_messages"), runs[0].observations.delivered as f64);
        (measured(&runs, "program_mb_per_s"), measured(&runs, "program_victim_mb_per_s"))
    };
    let alone = 2000.0 / 20.05;
    let (_, victim) = rates(5, STAR, "senders = 0");
    assert!((victim - alone).abs() < 1e-9, "{victim}");
    for senders in ["senders = 1", "senders = 2"] {
        let (hot, victim) = rates(5, STAR, senders);
        assert!((victim - alone).abs() < 1e-9, "{senders}: {victim}");
        assert!(hot > 90.0 && hot < 100.0, "{senders}: {hot}");
    }
    // A rank that sends to both takes turns: the hot spot leaves it a third, and so to the other.
    let (_, own) = {
        let text = "run.hot_spot = { size = '100 B', rounds = 20, victim = [1, 4], senders = 3 }";
        let runs = spec_of(&file(5, STAR, text)).expect(text);
        (measured(&runs, "program_mb_per_s"), measured(&runs, "program_victim_mb_per_s"))
    };
    assert!(own > 0.3 * alone && own < 0.37 * alone, "{own}");
    let on = |system: &str, senders: &str| {
        let text = format!(
            "base = '{system}'\n[program]\nrun.hot_spot = {{ size = '1 KB', rounds = 20, \
             victim = [3, 4], senders = {senders} }}\nranks = 8\n"
        );
        measured(&spec_of(&text).expect(senders), "program_victim_mb_per_s")
    };
    assert!(on("memory-channel-1", "5") < 0.5 * on("memory-channel-1", "0"));
    // With a window the next message waits at the adapter, while the one before it leaves the host.
    let (one, eight) = (on("memory-channel-2", "0"), on("memory-channel-2", "0, window = 8"));
    assert!(eight > one + 0.5, "{one} to {eight}");
}

#[test]
fn small_messages_take_one_channel_and_large_ones_another() {
    let text = "base = 'clint'\n[program]\nrun.request_reply = { size = '32 B', reply = '1 kB' }\n\
                [[program.route]]\nup_to = '32 B'\nchannel = 'quick'\n\
                [[program.route]]\nchannel = 'bulk'\n";
    let runs = spec_of(text).expect("a run");
    let delivered: Vec<(&str, u64)> =
        runs.iter().map(|run| (run.channel.as_str(), run.observations.delivered)).collect();
    assert_eq!(delivered, [("bulk", 150), ("quick", 150)]);
}

#[test]
fn what_a_program_names_must_be_there() {
    let ping_pong = "run.ping_pong = { size = '64 B' }";
    let clint = |program: &str| format!("base = 'clint'\n[program]\n{program}\n{ping_pong}");
    let cases = [
        (clint(""), "missing key `channel` in program"),
        (clint("channel = 'fast'"), "program.channel = fast does not fit"),
        (clint("channel = 'bulk'\nroute = [{ channel = 'quick' }]"), "program.route = given"),
        (clint("channel = 'bulk'\nranks = 17"), "program.ranks = 17 does not fit"),
        (clint("channel = 'bulk'\nranks = 1"), "program.ranks = 1 does not fit"),
        (
            file(2, STAR, "run.ping_pong = { size = '64 B', pair = [0, 2] }"),
            "program.run = rank 2 does not fit",
        ),
        (
            file(2, STAR, "run.ping_pong = { size = '64 B', pair = [1, 1] }"),
            "program.run = pair = [1, 1] does not fit",
        ),
        (
            file(4, STAR, "run.hot_spot = { size = '64 B', victim = [1, 4] }"),
            "program.run = rank 4 does not fit",
        ),
        (
            file(4, STAR, "run.hot_spot = { size = '64 B', victim = [1, 0] }"),
            "program.run.hot_spot.victim = [1, 0], which names rank 0 twice does not fit",
        ),
        (
            file(4, STAR, "run.hot_spot = { size = '64 B', victim = [1, 2], senders = 3 }"),
            "program.run.hot_spot.senders = 3 does not fit",
        ),
        (
            file(4, STAR, "run.hot_spot = { size = '64 B', senders = 0 }"),
            "program.run.hot_spot.senders = 0 does not fit",
        ),
        (file(2, STAR, "run.ping_pong.size = '64'"), "unit"),
    ];
    for (text, expected) in cases {
        let error = spec_of(&text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\nlacks: {expected}");
    }
}

#[test]
fn the_arrivals_of_a_preset_are_not_traffic() {
    let text = "base = 'clint'\npreset = 'fitted'\n[program]\nchannel = 'quick'\n\
                run.barrier.rounds = 2";
    assert_eq!(spec_of(text).expect("a run").len(), 1);
}

#[test]
fn a_trace_is_what_its_file_holds() {
    let file = |name: &str, text: &str| {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, text).expect("the folder of the tests can be written");
        path.display().to_string()
    };
    let path = file("identity.goal", "num_ranks 2\nrank 0 {\na: calc 5\n}\n");
    let text = self::file(2, STAR, &format!("trace.goal = {{ file = '{path}' }}"));
    let plan = Plan::new(&Request::of_text("program.toml", &text)).expect("a legal text");
    let identity = || weft_lab::identity(&plan.points[0].spec).expect("a readable trace");
    let before = identity();
    assert_eq!(measured(&spec_of(&text).expect("a run"), "program_time_us"), 0.005);
    file("identity.goal", "num_ranks 2\nrank 0 {\na: calc 6\n}\n");
    assert_ne!(identity(), before);
    file("identity.goal", "num_ranks 2\nrank 0 {\na: calc 6 ns\n}\n");
    let error = spec_of(&text).expect_err("a unit").to_string();
    assert!(error.contains("line 3: `ns` where"), "{error}");
}

#[test]
fn what_a_trace_counts_stands_in_columns_over_its_own_ranks() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("columns.trace");
    let text = "0 compute 500\n0 isend 0 1 8\n0 recv 0 1 20\n1 compute 500\n";
    std::fs::write(&path, text).expect("the folder of the tests can be written");
    let trace = format!("trace.time_independent = {{ file = '{}', speed = 1e9 }}", path.display());
    // Two ranks on four hosts compute from the beginning to the end.
    let runs = spec_of(&file(4, STAR, &trace)).expect("fewer ranks than hosts");
    assert_eq!(measured(&runs, "program_time_us"), 0.5);
    assert_eq!(measured(&runs, "program_computing_share"), 1.0);
    assert_eq!(measured(&runs, "program_messages"), 1.0);
    assert_eq!(measured(&runs, "program_self_messages"), 1.0);
    assert_eq!(measured(&runs, "program_shorter_messages"), 1.0);
}

#[test]
fn a_trace_is_looked_for_beside_the_file_that_names_it() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("beside");
    std::fs::create_dir_all(folder.join("traces")).expect("a folder");
    let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect(name);
    put("traces/one.goal", "num_ranks 2\nrank 0 {\na: calc 5\n}\n");
    put("traces/two.goal", "num_ranks 2\nrank 0 {\na: calc 8\n}\n");
    put("base.toml", &file(2, STAR, "trace.goal.file = 'traces/one.goal'"));
    put(
        "over.toml",
        "base = 'base.toml'\n[sweep]\n'program.trace.goal.file' = ['traces/one.goal', \
         'traces/two.goal']\n",
    );
    let plan = |name: &str, overrides: &[String]| {
        let path = folder.join(name).display().to_string();
        Plan::new(&Request::new(&path, None, overrides)).unwrap_or_else(|error| panic!("{error}"))
    };
    let times = |plan: &Plan| -> Vec<f64> {
        let runs = plan.points.iter().map(|point| simulate(&point.spec, 1, &Halt::new()));
        runs.map(|runs| measured(&runs.expect("a run"), "program_time_us")).collect()
    };
    assert_eq!(times(&plan("base.toml", &[])), [0.005]);
    let swept = plan("over.toml", &[]);
    assert_eq!(times(&swept), [0.005, 0.008]);
    // A stored request means the same in another folder.
    let written = swept.written.to_toml();
    let again = Plan::new(&Request::of_text("spec.toml", &written)).expect("a legal text");
    assert_eq!(times(&again), [0.005, 0.008]);
    // An override is of the current folder, as everything on a command line.
    let missing = ["program.trace.goal.file=traces/one.goal".to_owned()];
    let path = folder.join("base.toml").display().to_string();
    let error = Plan::new(&Request::new(&path, None, &missing)).expect_err("another folder");
    assert!(error.to_string().contains("traces/one.goal: No such file"), "{error}");
    // The same trace under another name is the same run.
    std::fs::copy(folder.join("traces/one.goal"), folder.join("same.goal")).expect("a copy");
    let same = [format!("program.trace.goal.file={}", folder.join("same.goal").display())];
    let key = |plan: &Plan| weft_lab::identity(&plan.points[0].spec).expect("a readable trace");
    assert_eq!(key(&plan("base.toml", &same)), key(&plan("base.toml", &[])));
}

#[test]
fn a_policy_without_a_rule_for_a_message_ends_the_run() {
    let text = "base = 'clint'\n[program]\nrun.ping_pong.size = '64 B'\n\
                [[program.route]]\nup_to = '32 B'\nchannel = 'quick'\n";
    let error = spec_of(text).expect_err("no rule").to_string();
    assert!(error.contains("no rule says which channel takes a message of 64 bytes"), "{error}");
}

/// A comparison: every interconnect as it was and at rates of today, which make its messages faster
/// and leave nothing in flight.
#[test]
fn every_interconnect_runs_at_rates_of_today() {
    for system in weft_lab::systems().expect("the shipped systems") {
        let has = |preset: &str| system.presets.iter().any(|own| own == preset);
        if system.name == "scilan-stacks" {
            assert!(!has("today"), "the stacks are fits to one table");
            continue;
        }
        if ["roce", "infiniband", "ultra-ethernet", "slingshot"].contains(&system.name.as_str())
            || system.name.starts_with("simulators-")
        {
            assert!(!has("today"), "it is of today as it is, or of no time");
            continue;
        }
        let name = system.name.as_str();
        let one_way = |presets: &[&str]| {
            let presets: Vec<&str> = presets.iter().copied().filter(|own| has(own)).collect();
            let overrides = [
                "program.run.ping_pong={ size = '8 B', rounds = 3 }".to_owned(),
                "run.regime='from_empty'".to_owned(),
            ];
            let routed = presets.contains(&"compare") || system.channels.len() == 1;
            let channel = [format!("program.channel='{}'", system.channels[0])];
            let more = if routed { &[][..] } else { &channel };
            let all = [&overrides[..], more].concat();
            let plan = Plan::new(&Request::new(name, Some(&presets.join("+")), &all)).expect(name);
            let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect(name);
            let used = runs.iter().find(|run| run.observations.delivered > 0).expect(name);
            assert_eq!(used.observations.delivered, 6, "{name}");
            let spent = used.observations.budget.total_ps();
            let one_way = used.observations.recorder(Latency::OneWay).sum_ps();
            assert_eq!(spent, one_way, "{name}: where the time went");
            one_way
        };
        assert!(has("today"), "{name}");
        assert!(one_way(&["compare", "today"]) < one_way(&["compare"]), "{name}");
        assert!(one_way(&["today"]) > 0, "{name}: by itself");
    }
}

/// The stages of hosts stand around those of the channel, each side in the order of the way.
#[test]
fn the_budget_of_a_message_follows_its_way() {
    let set = ["program.run.ping_pong={ size = '8 B', rounds = 3 }", "run.regime='from_empty'"];
    let plan = Plan::new(&Request::new("clint", Some("compare"), &set.map(str::to_owned)));
    let runs = simulate(&plan.expect("a plan").points[0].spec, 1, &Halt::new()).expect("a run");
    let used = runs.iter().find(|run| run.observations.delivered > 0).expect("a message");
    let names: Vec<&str> = used.observations.budget.rows(1).map(|row| row.stage).collect();
    assert_eq!(
        names.join(" "),
        "doorbell fetch bus_out buffer_wait slot_wait retry transmission wire switch switch_wait \
         bus_in deposit poll"
    );
}

#[test]
fn a_ping_pong_runs_on_every_channel_of_every_shipped_system() {
    for system in weft_lab::systems().expect("the shipped systems") {
        let name = system.name;
        let plan = Plan::new(&Request::new(&name, None, &[])).expect(&name);
        for channel in plan.points[0].spec.channel.keys() {
            let text = format!(
                "base = '{name}'\n[program]\nchannel = '{channel}'\n\
                 run.ping_pong = {{ size = '64 B', rounds = 3 }}\n"
            );
            let runs = spec_of(&text).unwrap_or_else(|error| panic!("{name}, {channel}: {error}"));
            let there = measured(&runs, "program_one_way_mean_us");
            assert!(there > 0.1 && there < 1000.0, "{name}, {channel}: {there} us");
        }
    }
}
