//! Programs on hosts that a file chooses, and beside traffic.

use weft_lab::ChannelRun;

use super::files::{file, measured, spec_of};
use super::{STAR, TREE};

fn counter(run: &ChannelRun, name: &str) -> f64 {
    let found = run.counters.iter().find(|(column, _)| *column == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", run.counters)).1
}

#[test]
fn a_rank_runs_on_the_host_that_the_file_says() {
    let time = |program: &str| {
        let runs = spec_of(&file(4, TREE, program)).expect(program);
        measured(&runs, "program_round_trip_mean_us")
    };
    let near = time("run.ping_pong = { size = '64 B', pair = [0, 1] }");
    let far = time("run.ping_pong = { size = '64 B', pair = [0, 2] }");
    assert!(far > near, "one switch against three: {near}, {far}");
    let placed = |list: &str| {
        time(&format!("placement.hosts = {list}\nrun.ping_pong = {{ size = '64 B' }}"))
    };
    assert_eq!(placed("[0, 2, 1, 3]"), far);
    assert_eq!(placed("[3, 2]"), near);
    assert_eq!(placed("[1, 3]"), far);
    let random: Vec<f64> = (0..20)
        .map(|seed| {
            let program = "placement = 'random'\nrun.ping_pong = { size = '64 B' }";
            let text = file(4, TREE, program);
            let plan = weft_lab::Plan::new(&weft_lab::Request::of_text("p.toml", &text));
            let spec = &plan.expect("a legal text").points[0].spec;
            let runs = weft_lab::simulate(spec, seed, &weft_kernel::Halt::new()).expect("a run");
            measured(&runs, "program_round_trip_mean_us")
        })
        .collect();
    // One of the three other hosts is near.
    assert!(random.contains(&near) && random.contains(&far), "{random:?}");
}

#[test]
fn a_placement_that_places_nobody_is_refused_with_its_key() {
    let cases = [
        ("placement.hosts = [0, 4]", "program.placement = host 4 does not fit"),
        (
            "ranks_per_host = 1\nplacement.hosts = [1, 1]",
            "program.placement = 2 times host 1 does not fit",
        ),
        ("ranks = 3\nplacement.hosts = [1, 0]", "program.placement = a list of 2 does not fit"),
        ("placement = 'round'", "`round`"),
    ];
    for (program, expected) in cases {
        let program = format!("{program}\nrun.ping_pong = {{ size = '64 B' }}");
        let error = spec_of(&file(4, STAR, &program)).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\nlacks: {expected}");
    }
}

const EXCHANGE: &str = "run.all_to_all = { size = '300 B', rounds = 40 }";

fn beside(load: &str) -> Vec<ChannelRun> {
    let text = file(8, STAR, &format!("{EXCHANGE}\n[workload.c]\nload = {load}"));
    spec_of(&text).expect("a run")
}

#[test]
fn a_program_takes_longer_the_more_there_is_beside_it() {
    let alone = spec_of(&file(8, STAR, EXCHANGE)).expect("a run");
    let times: Vec<f64> = ["1e-9", "0.2", "0.4", "0.6"]
        .into_iter()
        .map(|load| measured(&beside(load), "program_time_us"))
        .collect();
    assert_eq!(times[0], measured(&alone, "program_time_us"), "next to nothing changes nothing");
    assert!(times.is_sorted_by(|a, b| *a * 1.02 < *b), "{times:?}");
}

#[test]
fn what_is_beside_a_program_is_counted_apart_and_nothing_is_lost() {
    let runs = beside("0.4");
    let run = &runs[0];
    let of = |name: &str| counter(run, name);
    let (generated, delivered) =
        (of("background_generated_messages"), of("background_delivered_messages"));
    assert_eq!(generated, delivered + of("background_under_way_messages"));
    assert_eq!(of("background_lost_messages"), 0.0);
    assert!((of("background_offered_load") - 0.4).abs() < 0.05, "{run:?}");
    // 300 B are three packets, and a message beside the program is one.
    let program = 3.0 * of("program_messages");
    assert_eq!(of("program_messages"), 40.0 * 8.0 * 7.0);
    assert_eq!(run.observations.delivered as f64, program + delivered);
    assert_eq!(run.observations.generated as f64, program + generated);
    assert!(of("background_one_way_mean_us") > 1.05);
}

#[test]
fn traffic_on_another_channel_runs_as_long_as_the_program() {
    let text = "base = 'clint'\npreset = 'fitted'\n[program]\nchannel = 'quick'\n\
                run.all_to_all = { size = '32 B', rounds = 60 }";
    let alone = spec_of(text).expect("a run");
    let both = spec_of(&format!("{text}\n[workload.bulk]\nload = 0.5")).expect("a run");
    let names: Vec<&str> = both.iter().map(|run| run.channel.as_str()).collect();
    assert_eq!(names, ["bulk", "quick"]);
    assert_eq!(both[0].until, both[1].until);
    assert!(both[0].observations.delivered > 100);
    assert!((both[0].offered_load() - 0.5).abs() < 0.1, "{}", both[0].offered_load());
    assert_eq!(both[1].counters, alone[0].counters);
}

#[test]
fn a_program_ends_beside_more_than_the_hosts_can_send() {
    let text = format!(
        "{EXCHANGE}\n[workload.c]\nload = 0.9\npattern.hot_spot = {{ target = 0, fraction = 0.9 }}\n\
         [run]\nlength = '300 us'"
    );
    let runs = spec_of(&file(8, STAR, &text)).expect("an end");
    assert!(measured(&runs, "program_time_us") > 300.0);
    assert!((measured(&runs, "background_offered_load") - 0.9).abs() < 0.1);
}

#[test]
fn a_program_that_waits_for_ever_beside_traffic_ends() {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("stuck.goal");
    std::fs::write(
        &path,
        "num_ranks 2\nrank 0 {\na: recv 8b from 1\nb: send 8b to 1\nb requires a\n}\n\
         rank 1 {\na: recv 8b from 0\nb: send 8b to 0\nb requires a\n}\n",
    )
    .expect("the folder of the tests can be written");
    let program = format!("trace.goal.file = '{}'\n[workload.c]\nload = 0.3", path.display());
    let error = spec_of(&file(4, STAR, &program)).expect_err("a deadlock").to_string();
    assert!(error.contains("rank 0 waits for a message of rank 1"), "{error}");
}

#[test]
fn a_ping_pong_beside_traffic_runs_on_every_channel_of_every_shipped_system() {
    for system in weft_lab::systems().expect("the shipped systems") {
        let name = system.name;
        let request = weft_lab::Request::new(&name, None, &[]);
        let plan = weft_lab::Plan::new(&request).expect(&name);
        for (channel, settings) in &plan.points[0].spec.channel {
            let text = |load: &str| {
                format!(
                    "base = '{name}'\n[program]\nchannel = '{channel}'\n\
                     run.ping_pong = {{ size = '64 B', rounds = 40 }}\n\
                     [run]\nlength = '1 ms'\n{load}"
                )
            };
            let load = format!("[workload.{channel}]\nload = 0.2");
            // A transport carries flows alone, and no flows run beside a program.
            if settings.adapter.transport.is_some() {
                let refused = spec_of(&text(&load)).expect_err(&name).to_string();
                assert!(refused.contains("a transport only for flows"), "{refused}");
                let flows = format!(
                    "[workload.{channel}.source.flows]\n\
                     x = {{ sizes.constant = '1 kB', load = 0.2 }}"
                );
                let refused = spec_of(&text(&flows)).expect_err(&name).to_string();
                assert!(
                    refused.contains(&format!("workload.{channel}.source = flows")),
                    "{refused}"
                );
                continue;
            }
            let [alone, both] = ["", &load].map(|load| {
                spec_of(&text(load)).unwrap_or_else(|error| panic!("{name}, {channel}: {error}"))
            });
            let time = |runs: &[ChannelRun]| measured(runs, "program_time_us");
            assert!(time(&both) >= time(&alone), "{name}, {channel}");
            assert!(counter(&both[0], "background_delivered_messages") > 0.0, "{name}, {channel}");
        }
    }
}

#[test]
fn a_barrier_that_the_hub_keeps_ends_beside_traffic() {
    let text =
        "base = 'memory-channel-2'\n[program]\nrun.barrier = { rounds = 20, by = 'channel' }\n";
    let alone = spec_of(text).expect("a run");
    let channel = alone[0].channel.clone();
    let both = spec_of(&format!("{text}[workload.{channel}]\nload = 0.2")).expect("a run");
    assert!(measured(&both, "program_time_us") > measured(&alone, "program_time_us"));
}
