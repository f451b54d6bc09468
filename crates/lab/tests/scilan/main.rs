//! SCILAN and the ring under it: what follows without a run, and a lone message by hand.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod ring;

use weft_lab::{Cell, Options, Outcome, Request};

/// A short run of SCILAN with presets and settings.
fn run(presets: &str, settings: &[(&str, &str)]) -> Outcome {
    let traffic = [
        ("workload.sci.source.ping_pong.pairs", "[{ from = 0, to = 1 }]"),
        ("run.length", "\"2 ms\""),
        ("run.regime", "\"from_empty\""),
    ];
    let written = |(key, value): &(&str, &str)| format!("{key}={value}");
    let all: Vec<String> = traffic.iter().chain(settings).map(written).collect();
    let preset = (!presets.is_empty()).then_some(presets);
    let request = Request::new("scilan", preset, &all);
    weft_lab::run(&request, &Options::default(), &mut |_, _| true).unwrap()
}

fn derived(outcome: &Outcome, quantity: &str) -> f64 {
    let table = outcome.table("derived");
    let row = (0..table.rows())
        .find(|row| table.get(*row, "quantity") == Some(Cell::from(quantity)))
        .unwrap();
    table.number(row, "value").unwrap()
}

/// SCILAN 5.5 and the conclusion: three, five at worst over U-Net, one with active messages; two
/// with memory on the adapter (4.9).
#[test]
fn traversals_of_the_receivers_bus() {
    let of = |preset| derived(&run(preset, &[]), "sci.receive.system_bus_traversals");
    let all = ["", "u_net", "active_messages", "adapter_memory"].map(of);
    assert_eq!(all, [3.0, 5.0, 1.0, 2.0]);
}

/// SCILAN 4.2 and 4.3: on the Pentium both say 21.76 MB/s; on the UltraSPARC the formula says less
/// than the 67 that were measured, and occupancy what the adapter takes.
#[test]
fn the_serial_formula_and_occupancy() {
    let of = |preset| {
        let outcome = run(preset, &[]);
        ["sci.serial_limit", "sci.occupancy_limit"].map(|name| derived(&outcome, name))
    };
    let rounded = |values: [f64; 2]| values.map(|value| (value * 10.0).round() / 10.0);
    assert_eq!(rounded(of("")), [21.8, 21.8]);
    assert_eq!(rounded(of("ultrasparc")), [62.4, 88.0]);
}

/// Send call 3.44, check 4, PCI 0.585, 80 B on the ring 0.4 and in 3 m of cable 0.015, receive call
/// 7.66: 16.1 us (Table 3). The stages of the budget add up to it.
#[test]
fn a_message_without_bytes_by_hand() {
    let outcome = run("", &[("workload.sci.message", "\"0 B\"")]);
    let points = outcome.table("points");
    let latency = points.number(0, "one_way_mean_us").unwrap();
    assert!((latency - 16.1).abs() < 1e-9, "{latency}");
    let budget = outcome.table("budget");
    let spent = (0..budget.rows()).map(|row| budget.number(row, "mean_us").unwrap());
    let stage = |name: &str| {
        let of = (0..budget.rows()).find(|row| budget.get(*row, "stage") == Some(Cell::from(name)));
        budget.number(of.unwrap(), "mean_us").unwrap()
    };
    assert!((stage("channel") - 0.415).abs() < 1e-9);
    assert!((stage("receive_call") - 7.66).abs() < 1e-9);
    // A message at the end of the run has left some stages and not arrived.
    let all: f64 = spent.sum();
    assert!((all / latency - 1.0).abs() < 0.02, "{all}");
}

/// A message of 64 KiB in a buffer of 4 KiB gets through, although no more than that is ever under
/// way (SC-43: nothing is lost, the sender waits).
#[test]
fn a_message_larger_than_the_receiver_buffer_gets_through() {
    let chunk = "\"2 KiB\"";
    let host = |key: &str| format!("channel.sci.host.{key}");
    let stages = ["interrupt", "kernel_return", "wake_up", "receive_call", "read_pointer"];
    let units = stages.map(|stage| host(&format!("stage.{stage}.unit.chunk")));
    let mut settings: Vec<(&str, &str)> = units.iter().map(|key| (key.as_str(), chunk)).collect();
    let (buffer, length) = (host("window.buffer"), "\"20 ms\"");
    settings.push((&buffer, "\"4 KiB\""));
    settings.push(("workload.sci.message", "\"64 KiB\""));
    settings.push(("run.length", length));
    let outcome = run("", &settings);
    let delivered = outcome.table("points").number(0, "delivered_packets").unwrap();
    assert!(delivered >= 3.0, "{delivered}");
}

/// SC-39: eight hosts, on one ring and at a switch, under the same hosts.
#[test]
fn eight_hosts_on_a_ring_or_at_a_switch() {
    for preset in ["eight", "eight+switched", "eight+lc2"] {
        let pairs = "[{ from = 0, to = 5 }, { from = 6, to = 2 }]";
        let settings =
            [("workload.sci.source.ping_pong.pairs", pairs), ("workload.sci.message", "\"256 B\"")];
        let outcome = run(preset, &settings);
        let delivered = outcome.table("points").number(0, "delivered_packets").unwrap();
        assert!(delivered > 100.0, "{preset}: {delivered}");
    }
}

/// The programs of the library over hosts, a receiver buffer and a ring. A ping-pong of nothing
/// takes twice the time of the workload's.
#[test]
fn programs_run_over_hosts() {
    let programs = [
        ("ping_pong", "{ size = '0 B' }"),
        ("ping_ping", "{ size = '1500 B' }"),
        ("stream", "{ size = '4 KiB' }"),
        ("all_to_all", "{ size = '256 B' }"),
        ("barrier", "{}"),
        ("broadcast", "{ size = '256 B' }"),
        ("hot_spot", "{ size = '256 B' }"),
    ];
    for (name, settings) in programs {
        let text = format!("base = 'scilan'\npreset = 'eight'\n[program.run]\n{name} = {settings}");
        let request = Request::of_text("program.toml", &text);
        let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true);
        let outcome = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(outcome.table("budget").rows() > 5, "{name}");
        let points = outcome.table("points");
        assert!(points.number(0, "delivered_packets").unwrap() >= 8.0, "{name}");
        if name == "ping_pong" {
            let latency = points.number(0, "one_way_mean_us").unwrap();
            // Eight in a ring: the way back passes six adapters more.
            assert!((16.1..16.9).contains(&latency), "{latency}");
        }
    }
}
