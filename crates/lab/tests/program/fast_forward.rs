//! Fast-forward: with it and without it a run shows the same to the last digit, and what it leaves out and
//! why not is said.

use std::cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use weft_fabric::measure::Latency;
use weft_kernel::{Halt, Streams};
use weft_lab::assemble::{Driver, Site};
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::Carrier as _;
use weft_lab::program::{Machine, Policy};
use weft_lab::trace::{goal, play};
use weft_lab::{Cell, ChannelRun, Options, Plan, Request, simulate};
use weft_units::Time;

use super::STAR;

/// Packets of 125 B that carry 100 B take 1 us.
const LINK: &str = "packet = '125 B'\npayload = '100 B'\nadapter.send_buffers = 'unlimited'\n\
                    link = { rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }\n\
                    switch.output_queued = { latency = '10 ns' }\n";

/// With 8 hosts, ways that do not depend on when packets are sent.
const FABRICS: [&str; 7] = [
    "",
    "fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 4, spines = 2 }\nroutes.per_connection = 'hashed'\n",
    "fabric.k_ary_tree = { arity = 2, levels = 3 }\nroutes.per_connection = 'random'\n",
    "fabric.torus = { dimensions = [4, 2] }\nroutes.per_connection = 'hashed'\n",
    "fabric.leaf_spine = { hosts_per_leaf = 4, leaves = 2, spines = 1, links = [{}, { rate = '3 Gbit/s', \
     length = '7 m' }] }\n",
    "planes = 2\n",
    "planes = 3\nroutes.per_connection = 'hashed'\n",
];

fn text(fabric: &str, rest: &str) -> String {
    format!("[system]\ntitle = 'periods'\nhosts = 8\n[channel.c]\n{LINK}{fabric}\n{rest}\n")
}

fn runs(text: &str) -> Vec<ChannelRun> {
    let plan = Plan::new(&Request::of_text("periods.toml", text)).expect(text);
    simulate(&plan.points[0].spec, 1, &Halt::new()).expect(text)
}

/// All that a run shows, but for what was left out.
fn shown(mut run: ChannelRun) -> String {
    run.forwarded = None;
    let series = Latency::ALL.map(|kind| format!("{:?}", run.observations.recorder(kind).series()));
    let stored = serde_json::to_string(&run).expect("a run that can be stored");
    format!("{stored} {run:?} {series:?}")
}

#[test]
fn a_long_message_is_left_out_but_for_its_ends() {
    let program = "[program]\nrun.stream = { size = '100 MB', window = 2, rounds = 1 }\n[run]\n";
    let plain = runs(&text("", program)).remove(0);
    let fast = runs(&text("", &format!("{program}fast_forward = true"))).remove(0);
    let own = fast.forwarded.clone().expect("a report");
    assert_eq!(own.forbidden, None);
    assert!(own.packets > 1_900_000 && own.packets < 2_000_000, "{own:?}");
    assert!(own.jumps > 60 && own.compared > 16, "{own:?}");
    assert_eq!(plain.forwarded, None);
    assert_eq!(shown(fast), shown(plain));
}

#[test]
fn an_all_reduce_is_the_same_on_every_fabric() {
    let program = "[program]\ntrace.collective = { operation = 'allreduce_ring', size = '400 kB', reduction \
                   = '900 MB/s' }\n[run]\n";
    for fabric in FABRICS {
        let plain = runs(&text(fabric, program)).remove(0);
        let fast = runs(&text(fabric, &format!("{program}fast_forward = true"))).remove(0);
        let own = fast.forwarded.clone().expect("a report");
        assert!(2 * own.packets > plain.observations.delivered, "{fabric}: {own:?}");
        assert_eq!(shown(fast), shown(plain), "{fabric}");
    }
}

/// Messages: from, to, packets, how long after the one before of its rank, and whether it waits for the last
/// one that its rank receives.
type Messages = Vec<(usize, usize, u64, u64, bool)>;

fn script(messages: &Messages) -> String {
    let mut ranks = vec![String::new(); 8];
    let mut last = [None; 8];
    let mut received = [None; 8];
    for (tag, (from, to, packets, after, waits)) in messages.iter().enumerate() {
        let (to, size) = ((from + to) % 8, packets * 100 - 7);
        let own = &mut ranks[*from];
        own.push_str(&format!("c{tag}: calc {after}\ns{tag}: send {size}b to {to} tag {tag}\n"));
        own.push_str(&format!("s{tag} requires c{tag}\n"));
        if let Some(before) = last[*from].replace(tag) {
            own.push_str(&format!("c{tag} irequires s{before}\n"));
        }
        if let Some(before) = received[*from].filter(|_| *waits) {
            own.push_str(&format!("c{tag} requires r{before}\n"));
        }
        ranks[to].push_str(&format!("r{tag}: recv {size}b from {from} tag {tag}\n"));
        received[to] = Some(tag);
    }
    let ranks = ranks.iter().enumerate();
    let blocks = ranks.map(|(rank, text)| format!("rank {rank} {{\n{text}}}\n"));
    format!("num_ranks 8\n{}", blocks.collect::<String>())
}

/// What playing a schedule shows, and how many packets were left out.
fn played(script: &str, fabric: &str, is_fast: bool, limit: Option<u64>) -> (String, u64) {
    let text = text(fabric, "");
    let plan = Plan::new(&Request::of_text("periods.toml", &text)).expect(&text);
    let streams = Streams::new(1);
    let (from, until) = (Time::ZERO, Time(3_000_000_000));
    let site = Site { name: "c", hosts: 8, streams: &streams, from, until, sample: None };
    let driver = Driver::new(&plan.points[0].spec.channel["c"], None, site).expect(&text);
    let mut machine = Machine::new(8, vec![("c".to_owned(), driver)], Policy::first(), true);
    if is_fast {
        machine.begin_fast_forward();
    }
    let schedule = goal::read(script.as_bytes()).expect(script);
    let halt = Halt::new().with_step_limit(limit);
    let played = match play(&schedule, machine, &halt, &mut |_, _| true) {
        Ok(played) => played,
        Err(error) => return (error.to_string(), 0),
    };
    let machine = played.machine;
    let packets = machine.fast_forwarded().iter().map(|own| own.packets).sum();
    let mut shown = format!("{:?} {:?} {}", played.ends, machine.account(), machine.steps());
    for (_, channel) in machine.into_channels() {
        shown += &format!("{} {} {}", channel.steps(), channel.backlog(), channel.in_flight());
        shown += &format!("{:?}", channel.into_observations());
    }
    (shown, packets)
}

/// Random schedules of messages between eight hosts, most of which share ports with others, on all fabrics; and up
/// to a limit of steps.
#[test]
fn with_and_without_it_any_schedule_shows_the_same() {
    let message = (0_usize..8, 1_usize..8, 1_u64..1_500, 0_u64..40_000, any::<bool>());
    let cases = (prop::collection::vec(message, 1..14), 0..FABRICS.len(), 1_u64..20_000);
    let (left_out, all) = (cell::Cell::new(0), cell::Cell::new(0));
    let mut runner = TestRunner::default();
    let outcome = runner.run(&cases, |(messages, fabric, limit)| {
        let script = script(&messages);
        let [fast, plain] =
            [true, false].map(|is_fast| played(&script, FABRICS[fabric], is_fast, None));
        prop_assert_eq!(fast.0, plain.0);
        left_out.set(left_out.get() + fast.1);
        all.set(all.get() + messages.iter().map(|own| own.2).sum::<u64>());
        let [fast, plain] =
            [true, false].map(|is_fast| played(&script, FABRICS[fabric], is_fast, Some(limit)));
        prop_assert_eq!(fast.0, plain.0);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let share = left_out.get() as f64 / all.get() as f64;
    assert!(share > 0.2, "{share} of the packets were left out, so that little was compared");
}

#[test]
fn what_was_left_out_and_what_proved_it_stands_with_the_results() {
    let program = "[program]\nrun.stream = { size = '1 MB', window = 1, rounds = 1 }\n[run]\nfast_forward = true";
    let request = Request::of_text("periods.toml", &text("", program));
    let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true).expect("a run");
    let note = outcome.meta["notes"][0].as_str().expect("a note");
    assert!(note.starts_with("channel c: fast-forward left out "), "{note}");
    assert!(note.ends_with(" was what it had been a period before"), "{note}");
    let runs = outcome.table("replications");
    assert_eq!(runs.get(0, "fast_forward"), Some(note.replacen("channel c: ", "", 1).into()));
    let packets = runs.get(0, "skipped_packets");
    assert!(matches!(packets, Some(Cell::Number(Some(count))) if count > 9_000.0), "{packets:?}");
}

#[test]
fn what_forbids_it_is_said() {
    let program =
        "[program]\nrun.stream = { size = '1 MB', rounds = 1 }\n[run]\nfast_forward = true";
    let drawn = "fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 4, spines = 2 }\n";
    let star = |program: &str| format!("[system]\ntitle = 'periods'\nhosts = 2\n{STAR}{program}\n");
    let traffic = "[workload.c]\nload = 0.1\n[run]\nlength = '1 ms'\nfast_forward = true";
    for (text, why) in [
        (text(drawn, program), "routes that choose at random for each packet"),
        (text("", traffic), "traffic of sources"),
        (
            text(
                "",
                &format!("{traffic}\n[program]\nrun.stream = {{ size = '1 MB', rounds = 1 }}"),
            ),
            "a workload beside the program",
        ),
        (star(program), "adapters with acknowledgments, timers or buffers of their own"),
    ] {
        let own = runs(&text).remove(0).forwarded.expect("a report");
        assert_eq!((own.forbidden.as_deref(), own.periods), (Some(why), 0), "{text}");
    }
}
