//! Composition before cleverness: parts move between systems by editing TOML alone. Each system
//! here is run, its packets are accounted for (every run is checked for conservation before its
//! numbers are seen), and a law that can be worked out by hand holds.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]
#![allow(missing_docs, reason = "a test's items speak for themselves")]

use std::num::NonZeroUsize;
use std::thread;

use weft_lab::{Cell, Options, Outcome, Request, run, show};

fn carry_out(request: &Request) -> Outcome {
    run(request, &Options::default(), &mut |_, _| true).unwrap_or_else(|error| panic!("{error}"))
}

/// Clint with overrides.
fn clint(overrides: &[&str]) -> Outcome {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    carry_out(&Request::new("clint", None, &overrides))
}

/// Clint with a preset and overrides.
fn clint_with(preset: &str, overrides: &[&str]) -> Outcome {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    carry_out(&Request::new("clint", Some(preset), &overrides))
}

/// A file that a user wrote.
fn written(text: &str) -> Outcome {
    carry_out(&Request::of_text("my.toml", text))
}

/// A number in the first row of a channel.
fn number(outcome: &Outcome, channel: &str, column: &str) -> f64 {
    let points = outcome.table("points");
    let row = (0..points.rows())
        .find(|row| points.get(*row, "channel").is_some_and(|name| name.to_string() == channel))
        .unwrap_or_else(|| panic!("no row of {channel}"));
    points.number(row, column).unwrap_or_else(|| panic!("no number in {column}"))
}

fn text(outcome: &Outcome, column: &str) -> String {
    outcome.table("points").get(0, column).map_or_else(String::new, |cell| cell.to_string())
}

#[track_caller]
fn assert_us(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-6, "{found} us instead of {wanted} us");
}

#[track_caller]
fn assert_within(found: f64, wanted: f64, share: f64) {
    assert!((found / wanted - 1.0).abs() <= share, "{found} instead of {wanted}");
}

const SCHEDULERS: [&str; 7] = [
    "least_choice_first.round_robin=true",
    "least_choice_first_distributed={ iterations = 4, round_robin = true }",
    "islip.iterations=4",
    "pim.iterations=4",
    "wavefront={}",
    "maximum_matching={}",
    "random_maximal={}",
];

fn scheduler(settings: &str) -> String {
    format!("channel.bulk.switch.scheduled.scheduler.{settings}")
}

/// A slot is (8344 ns + 190 ns gap) / 0.95 = 8.983158 us. A packet of 1 us is seen at the start of
/// the next slot and leaves 1.88 us later, whoever decides.
#[test]
fn one_packet_waits_for_its_slot_under_every_scheduler() {
    for settings in SCHEDULERS {
        let outcome = clint(&[
            &scheduler(settings),
            "channel.bulk.switch.scheduled.gap=190 ns",
            "channel.bulk.switch.scheduled.lead=1880 ns",
            "run.length=1 ms",
            "workload.bulk.source.list=[{ time = \"1 us\", from = 0, to = 1 }]",
        ]);
        let queueing = 8.983_158 - 1.0 + 1.88;
        assert_us(number(&outcome, "bulk", "queueing_mean_us"), queueing);
        let transit = 8.344 + 2.0 * 0.025 + 0.0015;
        assert_us(number(&outcome, "bulk", "one_way_mean_us"), queueing + transit);
    }
}

/// Maximum matching serves most packets a slot, least choice first comes close, and the others
/// follow: the order that the authors of least choice first claim for it.
#[test]
fn clints_bulk_channel_with_other_schedulers_keeps_their_order() {
    let wait = |settings: &str| {
        let outcome = clint(&[
            &scheduler(settings),
            "channel.bulk.adapter.send_buffers=unlimited",
            "workload.bulk.load=0.8",
            "run.length=20 ms",
            "run.regime=from_empty",
        ]);
        number(&outcome, "bulk", "queueing_mean_us")
    };
    let [least, distributed, islip, pim, wavefront, maximum, random] = SCHEDULERS.map(wait);
    assert!(maximum < least, "maximum matching {maximum} us, least choice first {least} us");
    for (name, other) in [
        ("distributed least choice first", distributed),
        ("iSLIP", islip),
        ("PIM", pim),
        ("wavefront", wavefront),
        ("random maximal", random),
    ] {
        assert!(least < other, "least choice first {least} us, {name} {other} us");
    }
}

/// Clint's scheduler in a switch for cells of 64 B: 256 ns a slot. Output queueing waits
/// rho / (2 (1 - rho)) (N - 1) / N slots (Karol, Hluchyj and Morgan 1987), and no scheduler waits
/// less.
#[test]
fn least_choice_first_schedules_a_cell_switch() {
    let cells = |switch: &str| {
        let text = format!(
            "base = \"clint\"\n\
             [channel.bulk]\npacket = \"64 B\"\npayload = \"48 B\"\n\
             [channel.bulk.adapter]\nsend_buffers = \"unlimited\"\n\
             [channel.bulk.switch.{switch}]\n\
             [workload.bulk]\nload = 0.8\narrivals = \"bernoulli\"\n\
             pattern.uniform.self_included = true\n\
             [run]\nlength = \"25.6 ms\"\nregime.skip = \"2.56 ms\"\n"
        );
        // All but the length of a cell and the two cables is waiting.
        number(&written(&text), "bulk", "one_way_mean_us") - 0.256 - 0.05
    };
    let slots = 15.0 / 16.0 * 0.8 / (2.0 * 0.2);
    let bound = cells("output_queued");
    assert_within(bound, slots * 0.256, 0.02);
    let least = cells("input_queued.scheduler.least_choice_first");
    assert!((1.2 * bound..2.0 * bound).contains(&least), "{least} us against {bound} us");
}

/// A user's own file on top of Clint with an output-buffered switch on the bulk channel: a lone
/// packet of 2086 B leaves at once and takes 8.344 us, two cables of 25 ns and the switch.
#[test]
fn a_file_on_top_of_clint_changes_the_switch() {
    let outcome = written(
        "base = \"clint\"\n\
         [channel.bulk.switch.output_buffered]\n\
         latency = \"100 ns\"\nbuffers = \"unlimited\"\nwriters = \"unlimited\"\n\
         [workload.bulk]\nsource.list = [{ time = \"1 us\", from = 3, to = 9 }]\n\
         [run]\nlength = \"1 ms\"\n",
    );
    assert_us(number(&outcome, "bulk", "queueing_mean_us"), 0.0);
    assert_us(number(&outcome, "bulk", "one_way_mean_us"), 8.344 + 0.05 + 0.1);
}

/// Four hosts and two channels of one's own. Data: 1000 B at 1 Gbit/s are 8 us, and a slot is as
/// long; a packet of 1 us waits for the slot at 8 us. Control: 100 B are 800 ns, there and back
/// with an acknowledgment of 10 B and two passes of 100 ns through the switch.
#[test]
fn a_system_written_from_scratch() {
    let outcome = written(
        r#"
[system]
title = "Four hosts"
hosts = 4

[channel.data]
packet = "1000 B"
payload = "960 B"
link.rate = "1 Gbit/s"
adapter.send_buffers = 8
switch.input_queued.scheduler.islip.iterations = 2

[channel.control]
packet = "100 B"
payload = "64 B"
link.rate = "1 Gbit/s"
adapter.send_buffers = 2
switch.crossbar = { latency = "100 ns", contention = "drop" }
control.request_acknowledge = { timeout = "3 us", outstanding = 2, acknowledgment = "10 B" }

[workload]
data.source.list = [{ time = "1 us", from = 0, to = 3 }]
control.source.list = [{ time = "1 us", from = 3, to = 0 }]
"#,
    );
    assert_us(number(&outcome, "data", "queueing_mean_us"), 7.0);
    assert_us(number(&outcome, "data", "one_way_mean_us"), 7.0 + 8.0);
    assert_us(number(&outcome, "control", "queueing_mean_us"), 0.0);
    assert_us(number(&outcome, "control", "round_trip_mean_us"), 0.8 + 0.08 + 2.0 * 0.1);
}

/// Back pressure on the quick channel, acknowledgments kept: what would be dropped waits instead,
/// so that nothing collides, nothing is sent twice, and more gets through than by dropping.
#[test]
fn back_pressure_with_acknowledgments() {
    let outcome = |contention: &str| {
        let contention = format!("channel.quick.switch.crossbar.contention={contention}");
        let timeout = "channel.quick.control.request_acknowledge.timeout=1 ms";
        let mut overrides = vec![
            "workload.quick.load=0.45",
            "run.length=4 ms",
            "run.regime=from_empty",
            &contention,
        ];
        overrides.extend((contention.ends_with("back_pressure")).then_some(timeout));
        clint(&overrides)
    };
    let held = outcome("back_pressure");
    let points = held.table("points");
    assert!(!points.columns().iter().any(|column| column.name.starts_with("collisions_")));
    assert!(!points.columns().iter().any(|column| column.name.starts_with("dropped_")));
    let under_way = number(&held, "quick", "in_flight_packets");
    let delivered = number(&held, "quick", "delivered_packets");
    let attempts = number(&held, "quick", "attempts");
    assert!((delivered..=delivered + under_way).contains(&attempts), "{attempts} transmissions");
    let dropped = number(&outcome("drop"), "quick", "accepted_load");
    let accepted = number(&held, "quick", "accepted_load");
    assert!(accepted > 1.1 * dropped, "{accepted} with back pressure, {dropped} without");
}

/// The quick channel at 10 Gbit/s: 36 B and 4 B, each prolonged by the 4.9 % of the link that is
/// reserved, and two passes of 90 ns and two cables of 25 ns.
#[test]
fn the_quick_channel_at_another_rate() {
    let outcome = clint(&[
        "channel.quick.link.rate=10 Gbit/s",
        "workload.quick.source.list=[{ time = \"1 us\", from = 0, to = 1 }]",
        "run.length=1 ms",
    ]);
    let bytes = (36.0 + 4.0) * 0.8e-3 / (1.0 - 0.049);
    let passes = 2.0 * (0.09 + 2.0 * 0.025);
    assert_within(number(&outcome, "quick", "round_trip_mean_us"), bytes + passes, 1e-5);
}

/// Clint 6: what a backplane saves is cable; an optical bulk channel of five times the rate has slots of
/// (1668.8 + 150) / (1 - 0.1974) ns, so that what is left of its rate is what the relock leaves, and its
/// signalling takes more of the quick channel.
#[test]
fn clint_on_a_backplane_and_with_an_optical_bulk_channel() {
    let lone = |preset: Option<&str>| {
        let packets = "source.list=[{ time = \"1 us\", from = 0, to = 1 }]";
        let [quick, bulk] = ["quick", "bulk"].map(|name| format!("workload.{name}.{packets}"));
        let settings = [quick, bulk, "run.length=1 ms".to_owned()];
        carry_out(&Request::new("clint", preset, &settings))
    };
    let [cluster, backplane, optical] = [None, Some("backplane"), Some("optical")].map(lone);
    let one_way = |outcome: &Outcome| number(outcome, "quick", "one_way_mean_us");
    assert_us(one_way(&cluster) - one_way(&backplane), 2.0 * 22.5e-3);
    let bytes = |share: f64| 36.0 * 8.0 / 528.0 / (1.0 - share);
    assert_within(one_way(&optical) - one_way(&cluster), bytes(0.1805) - bytes(0.049), 1e-4);
    let slot = |outcome: &Outcome| {
        let derived = outcome.table("derived");
        let row = (0..derived.rows())
            .find(|row| derived.get(*row, "quantity") == Some(Cell::from("bulk.slot")));
        derived.number(row.expect("a slot"), "value").expect("its length")
    };
    assert_within(slot(&optical), (1.6688 + 0.15) / (1.0 - 0.1974), 1e-5);
    let settings =
        ["workload.bulk.source=greedy", "workload.bulk.pattern.shift=1", "run.length=2 ms"];
    let greedy = clint_with("optical", &settings);
    let carried = 1.6688 / slot(&optical);
    assert_within(number(&greedy, "bulk", "accepted_load"), carried, 0.02);
}

/// Maestro 6: its link protocol over other media, and with a bus of 16 bits at 50 MHz. A frame and two turns carry 240 bytes whatever the
/// medium, at the pace of its symbols.
#[test]
fn maestros_link_protocol_over_other_media() {
    let media = [("usb", 12e6, "2 s"), ("optical", 1e9, "20 ms"), ("bus_16", 16.0 * 50e6, "20 ms")];
    for (medium, rate, length) in media {
        let settings = [
            "channel.network.payload=65536 B",
            "workload.network={ source = 'greedy', pattern = { flows = [{ from = 0, to = 1 }] } }",
            &format!("run.length={length}"),
        ];
        let settings = settings.map(str::to_owned);
        let preset = format!("remote_dma+{medium}");
        let outcome = carry_out(&Request::new("maestro", Some(&preset), &settings));
        let symbols = f64::from(3 + 15 * 32 + 3) * 4.0 / rate;
        let wanted = 240.0 / (symbols + 2.0 * 1.08e-6) / 1e6;
        assert_within(number(&outcome, "network", "remote_dma_mb_per_s"), wanted, 0.02);
    }
}

/// The dragonfly of `slingshot` with the switches of most packet simulators: another part, and none of the credits
/// that it has no use for.
#[test]
fn a_dragonfly_with_queues_at_outputs() {
    let text = "base = \"slingshot\"\nunset = [\"channel.net.flow_control\"]\n\
                channel.net.switch.output_queued.latency = \"350 ns\"\n\
                workload.net.load = 0.3\nrun.length = \"240 us\"\n";
    let outcome = carry_out(&Request::of_text("dragonfly.toml", text));
    assert_eq!(self::text(&outcome, "verdict"), "settled");
    assert_within(number(&outcome, "net", "accepted_load"), 0.3, 0.02);
}

const STUDY: &str = r#"
base = "clint"
run = { length = "1 ms", seeds = 3 }
workload.bulk.load = 0.5
workload.quick.load = 0.2

[sweep]
"workload.bulk.load" = [0.2, 0.6]
"channel.quick.switch.crossbar.acknowledgments" = ["collide", "interleave"]
"#;

/// All tables as text: equal texts are equal bytes, since every number is printed in full.
fn tables(workers: usize) -> String {
    let options = Options { workers: NonZeroUsize::new(workers), ..Options::default() };
    let request = Request::of_text("study.toml", STUDY);
    let outcome = run(&request, &options, &mut |_, _| true).unwrap_or_else(|e| panic!("{e}"));
    assert!(!outcome.stopped);
    format!("{:?}\n{}", outcome.tables, outcome.meta)
}

#[test]
fn the_number_of_workers_changes_no_byte() {
    let alone = tables(1);
    assert!(alone.len() > 10_000, "{} bytes are not all tables", alone.len());
    assert_eq!(alone, tables(2));
    assert_eq!(alone, tables(3));
}

#[test]
fn two_simulations_in_one_process_do_not_touch_each_other() {
    let alone = tables(1);
    let both = [(); 2].map(|()| thread::spawn(|| tables(1)));
    for other in both {
        assert_eq!(alone, other.join().expect("a simulation that ends"));
    }
}

#[test]
fn a_run_that_reaches_its_step_limit_says_so() {
    let overrides = ["workload.bulk.load=0.5", "run.length=40 ms", "run.step_limit=100"];
    let outcome = clint(&overrides);
    assert_eq!(text(&outcome, "verdict"), "stopped");
    assert!(!outcome.stopped, "the study itself was carried out to its end");
    let generated = number(&outcome, "bulk", "generated_packets");
    assert!((500.0..1_500.0).contains(&generated), "{generated} packets in 100 slots");
}

#[test]
fn a_study_that_is_stopped_from_outside_keeps_what_is_finished() {
    let options = Options { workers: NonZeroUsize::new(1), ..Options::default() };
    let request = Request::of_text("study.toml", STUDY);
    let observe = &mut |done: usize, total: usize| {
        assert_eq!(total, 12);
        done < 4
    };
    let outcome = run(&request, &options, observe).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.stopped);
    assert_eq!(outcome.meta["stopped"], true);
    // Four of twelve runs: the first point with its three seeds, on two channels.
    assert_eq!(outcome.table("points").rows(), 2);
    assert_eq!(outcome.table("replications").rows(), 6);
}

/// Clint 2 names virtual channels of one shared link and did not build them; divided in time they
/// are two shares of one rate. A bulk packet takes 8344 ns / (1 - 0.209) = 10 548.673 ns, a slot
/// (that + 150 ns) / 0.95 = 11 261.761 ns; a quick packet 144 ns / (1 - 0.8012) = 724.346 ns.
#[test]
fn two_channels_of_one_link_share_it_in_time() {
    let list = "source.list=[{ time = '1 us', from = 0, to = 1 }]";
    let overrides = [
        format!("workload.bulk.{list}"),
        format!("workload.quick.{list}"),
        "run.length=100 us".to_owned(),
        "run.regime=from_empty".to_owned(),
    ];
    let outcome = carry_out(&Request::new("clint", Some("one_link"), &overrides));
    assert_us(number(&outcome, "bulk", "queueing_mean_us"), 11.261_761 + 1.88 - 1.0);
    let way = 2.0 * 0.025 + 0.09;
    assert_us(number(&outcome, "quick", "one_way_mean_us"), 0.724_346 + way);
}

/// Four leaves with 16 hosts each and a cable of 400 Gbit/s to each of four spines; the folded tree
/// of 40 switches has 4 cables up from each of its 16 lowest and 16 middle ones.
#[test]
fn a_fabric_is_described_by_its_switches_and_cables() {
    let shape = |system: &str, channel: &str| {
        let shown = show(&Request::new(system, None, &[])).expect("it is shipped").composition;
        let channel = shown.channels.into_iter().find(|own| own.name == channel);
        channel.expect("it has the channel").fabric
    };
    let fabric = shape("roce", "net").expect("it has several switches");
    let tiers: Vec<(u32, u32)> = fabric.switches.iter().map(|own| (own.tier, own.hosts)).collect();
    assert_eq!(tiers, [[(1, 16); 4], [(2, 0); 4]].concat());
    assert_eq!((fabric.kind.as_str(), fabric.cables.len()), ("leaf_spine", 16));
    assert!(fabric.cables.iter().all(|cable| cable[2..] == [1, 1]));
    assert_eq!(fabric.links[1]["rate"], "400 Gbit/s");
    let tree = shape("clan", "fabric").expect("it has several switches");
    assert_eq!(tree.cables.iter().map(|cable| cable[3]).sum::<u32>(), 2 * 64);
    assert!(shape("clint", "bulk").is_none());
}
