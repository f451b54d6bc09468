//! SCILAN and the ring under it: what follows without a run, and a lone message by hand.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod resend;
mod ring;
mod ring_files;

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
/// with memory on the adapter, and one if a processor there copies (4.9).
#[test]
fn traversals_of_the_receivers_bus() {
    let of = |preset| derived(&run(preset, &[]), "sci.receive.system_bus_traversals");
    let on_board = "adapter_memory+protocol_processor";
    let presets = ["", "u_net", "active_messages", "adapter_memory", on_board];
    assert_eq!(presets.map(of), [3.0, 5.0, 1.0, 2.0, 1.0]);
    // SC-34: PCI behind the bridge carries each byte once, in on its way or out of the adapter.
    let of = |preset| derived(&run(preset, &[]), "sci.receive.pci_traversals");
    assert_eq!(presets.map(of), [1.0; 5]);
    let of = |preset| derived(&run(preset, &[]), "sci.send.pci_traversals");
    assert_eq!(["", "memcpy", "memcpy+dma"].map(of), [1.0; 3]);
}

/// SCILAN 4.9: a processor on the adapter copies while that of the host does nothing, so that a receiver
/// is as fast as one that need not copy at all, and its sender is what limits.
#[test]
fn a_processor_on_the_adapter_takes_the_copy_off_the_host() {
    let settings = [
        ("workload.sci.source", "greedy"),
        ("workload.sci.pattern.flows", "[{ from = 0, to = 1 }]"),
        ("workload.sci.message", "\"16 KiB\""),
        ("run.length", "\"50 ms\""),
    ];
    let of =
        |preset| run(preset, &settings).table("points").number(0, "accepted_mb_per_s").unwrap();
    let [memory, processor, nothing] =
        ["adapter_memory", "adapter_memory+protocol_processor", "active_messages"].map(of);
    assert!(processor > 1.3 * memory, "{memory} {processor}");
    assert!((processor / nothing - 1.0).abs() < 0.02, "{processor} {nothing}");
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
    assert!((stage("transmission") - 0.4).abs() < 1e-9);
    assert!((stage("wire") - 0.015).abs() < 1e-9);
    assert!((stage("receive_call") - 7.66).abs() < 1e-9);
    // A message at the end of the run has left some stages and not arrived.
    let all: f64 = spent.sum();
    assert!((all / latency - 1.0).abs() < 0.02, "{all}");
}

/// A message of 64 KiB in a buffer of 4 KiB gets through, although no more than that is ever in
/// flight (SC-43: nothing is lost, the sender waits).
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

/// SC-39, of nothing from 0 to 5 and back. On a ring of eight four adapters are passed on the way
/// there and two on the way back, 100 ns and a cable of 15 each, 345 on average. LC-2 sends 80 B in
/// 160 ns in place of 400. At a switch there is a second cable and 500 ns.
#[test]
fn eight_hosts_on_a_ring_or_at_a_switch() {
    let one_way = |preset| {
        let pairs = "[{ from = 0, to = 5 }]";
        let settings =
            [("workload.sci.source.ping_pong.pairs", pairs), ("workload.sci.message", "\"0 B\"")];
        run(preset, &settings).table("points").number(0, "one_way_mean_us").unwrap()
    };
    let by_hand = [("eight", 16.445), ("eight+lc2", 16.205), ("eight+switched", 16.615)];
    for (preset, expected) in by_hand {
        let measured = one_way(preset);
        // An odd number of ways has one more there than back.
        assert!((measured - expected).abs() < 0.003, "{preset}: {measured}");
    }
}

/// Messages of 64 B at instants in us, for a program that polls for 100 us.
fn messages_for_who_backs_off(presets: &str, instants: &[u64]) -> Outcome {
    let at = |time: &u64| format!("{{ time = '{time} us', from = 0, to = 1 }}");
    let list = instants.iter().map(at).collect::<Vec<_>>().join(", ");
    let text = format!(
        "base = 'scilan'\npreset = [{presets}]\n[channel.sci.host]\nprogram.spin = '100 us'\n\
         [workload.sci]\nmessage = '64 B'\nsource.list = [{list}]\n\
         [run]\nlength = '6 ms'\nregime = 'from_empty'"
    );
    let request = Request::of_text("back-off.toml", &text);
    weft_lab::run(&request, &Options::default(), &mut |_, _| true).unwrap()
}

/// SC-27: messages that come 40 us apart find a program that polls for 100 us, and messages that
/// come 400 us apart each interrupt it.
#[test]
fn polling_backs_off_to_interrupts() {
    let interrupts = |gap: u64| {
        let instants: Vec<u64> = (1..=10).map(|n| n * gap).collect();
        let outcome = messages_for_who_backs_off("", &instants);
        outcome.table("points").number(0, "interrupts_per_message").unwrap()
    };
    assert_eq!([interrupts(40), interrupts(400)], [0.0, 1.0]);
}

/// SC-16 and SC-17: of ten messages three interrupt, and the word of the flag counts the other seven.
/// No time is another one than with the word that counts nothing.
#[test]
fn the_counting_word_is_seen_in_a_run() {
    let instants = [10, 30, 50, 500, 510, 1000, 1010, 1020, 1030, 2000];
    let of = |presets| messages_for_who_backs_off(presets, &instants);
    let (counting, sleepers) = (of("'counting'"), of(""));
    let number = |outcome: &Outcome, column| outcome.table("points").number(0, column);
    assert_eq!(number(&counting, "interrupts_per_message"), Some(0.3));
    assert_eq!(number(&counting, "stimuli_counted"), Some(7.0));
    for column in ["interrupts_per_message", "one_way_mean_us", "one_way_max_us"] {
        let (one, other) = (number(&counting, column), number(&sleepers, column));
        assert!(one.is_some() && one == other, "{column}: {one:?} and {other:?}");
    }
    assert_eq!(number(&sleepers, "stimuli_counted"), None);
}

/// One message of a size at 1 ms, under presets.
fn lone_message(presets: &str, size: &str, settings: &str) -> f64 {
    let text = format!(
        "base = 'scilan'\npreset = [{presets}]\n[workload.sci]\nmessage = '{size}'\n\
         source.list = [{{ time = '1 ms', from = 0, to = 1 }}]\n{settings}\n\
         [run]\nlength = '6 ms'\nregime = 'from_empty'"
    );
    let request = Request::of_text("lone.toml", &text);
    let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true).unwrap();
    outcome.table("points").number(0, "one_way_mean_us").unwrap()
}

/// SC-22: a test-and-set over the ring, a request and an answer of 64 B like any message of that
/// size, and a kernel entry on either side to map the buffer of the other; then the message.
#[test]
fn what_a_connection_costs() {
    for waiting in ["", "'interrupt', "] {
        let connected = format!("{waiting}'connect'");
        let bare = |size| lone_message(waiting, size, "");
        let by_hand = 2.0 + 2.0 * (bare("64 B") + 30.0) + bare("0 B");
        let measured = lone_message(&connected, "0 B", "");
        assert!((measured - by_hand).abs() < 1e-6, "{measured} and {by_hand}");
        // A host that accepts at 5 ms makes a message of 1 ms wait, and the messages after it.
        let late = "[channel.sci.host]\nsockets.accept_from = '5 ms'";
        let waits = 4000.0 + 30.0 + bare("64 B") + 30.0 + bare("0 B");
        let measured = lone_message(&connected, "0 B", late);
        assert!((measured - waits).abs() < 1e-6, "{measured} and {waits}");
    }
}

/// SC-6 to SC-8: the native API is fastest, a thin layer above it slower by its two calls, and
/// sockets, which check for errors and copy out of the receiver buffer, slower than that.
#[test]
fn ways_to_the_interconnect_in_the_order_of_what_they_do() {
    let of = |presets, size| lone_message(presets, size, "");
    let [native, mpi, sockets] = ["'memcpy'", "'memcpy', 'mpi'", ""].map(|own| of(own, "0 B"));
    assert!((mpi - native - 3.44 - 7.66).abs() < 1e-9, "{native} and {mpi}");
    assert!((sockets - mpi - 4.0).abs() < 1e-9, "{mpi} and {sockets}: the check");
    let [mpi, sockets] = ["'memcpy', 'mpi'", ""].map(|own| of(own, "4 KiB"));
    assert!(sockets > mpi + 100.0, "4 KiB at 36 MB/s are 114 us: {mpi} and {sockets}");
}

/// The ordinary stack of the tests below: 50 us and 100 Mbit/s.
const LAN: &str = "[channel.lan]\npacket = '1500 B'\npayload = '1460 B'\n\
    link = { rate = '100 Mbit/s', length = '3 m', delay_per_metre = '5 ns' }\n\
    adapter.send_buffers = 'unlimited'\n\
    switch.output_buffered = { latency = '0 ns', buffers = 'unlimited', writers = 'unlimited' }\n\
    host = { send = ['stack'], stage = { stack = { fixed = '50 us' } } }\n";

/// SC-2, SC-21 and SC-41: the same program, with the same calls, over SCI with whom the cluster
/// knows and who listens, over the ordinary stack with others.
#[test]
fn what_sci_does_not_connect_falls_through_to_the_ordinary_stack() {
    let messages = |partner: u16, lan: &str| {
        let text = format!(
            "base = 'scilan'\npreset = 'connect'\nsystem.hosts = 4\n[channel.sci.host.sockets]\n\
             without_listener = [3]\naddresses = [{{ host = 2, address = '129.240.64.1' }}]\n\
             {LAN}[program]\nrun.ping_pong = {{ size = '64 B', rounds = 5, pair = [0, {partner}] }}\n\
             [[program.route]]\nchannel = 'sci'\n{lan}"
        );
        let request = Request::of_text("outside.toml", &text);
        let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true);
        outcome.map(|outcome| {
            let points = outcome.table("points");
            let of = |channel: &str| {
                let row = (0..points.rows())
                    .find(|row| points.get(*row, "channel") == Some(Cell::from(channel)));
                row.map(|row| points.number(row, "delivered_packets").unwrap())
            };
            let row = 0;
            (of("sci"), of("lan"), points.number(row, "messages_fallen_through"))
        })
    };
    let both = "[[program.route]]\nchannel = 'lan'\n";
    let fallen = |partner| messages(partner, both).unwrap();
    let (inside, outside, refused) = (fallen(1), fallen(2), fallen(3));
    assert_eq!((inside.0, inside.1), (Some(10.0), Some(0.0)));
    assert_eq!((outside.0, outside.1), (Some(0.0), Some(10.0)));
    assert_eq!((refused.0, refused.1), (Some(0.0), Some(10.0)));
    let error = messages(2, "").unwrap_err().to_string();
    assert!(
        error.contains("the sockets of channel sci do not connect rank 0 to rank 2"),
        "{error}"
    );
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
