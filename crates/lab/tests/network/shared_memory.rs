//! Switches with shared memories, in exact picoseconds worked by hand, and what each flow control
//! does.
//!
//! A packet takes 1 us on a link, a cable 20 ns and a switch 90 ns.

use weft_fabric::measure::Latency;
use weft_kernel::Halt;
use weft_lab::statistics::{Ending, Verdict, judge};
use weft_lab::{ChannelRun, Plan, Request, simulate};
use weft_units::Span;

use super::{RING, file, refusal, run};

const STAR: &str = "";
const TWO: &str = "fabric.table = { switches = [{ name = 'a', ports = 3 }, \
    { name = 'b', ports = 3 }], cables = [{ from = 'host 0', to = 'a.0' }, \
    { from = 'host 1', to = 'a.1' }, { from = 'host 2', to = 'b.0' }, \
    { from = 'host 3', to = 'b.1' }, { from = 'a.2', to = 'b.2' }] }";
const CREDITS: &str = "flow_control = 'credits'";
const STOP_GO: &str = "flow_control.stop_go = { stop = 2, go = 0, reaction = '500 ns' }";
const QUENCH: &str = "flow_control.source_quench = { quench = 4, unquench = 1, \
    indication = '25 B', link = { stop = 64, go = 32 } }";
const FLOW_CONTROLS: [&str; 4] =
    [CREDITS, "flow_control.virtual_channel_credits.channels = 2", STOP_GO, QUENCH];

/// A channel of switches with shared memories. `channel` holds further keys of it.
fn shared(hosts: u32, switch: &str, channel: &str, workload: &str, length: &str) -> String {
    let memory = format!("switch.shared_memory = {{ latency = '90 ns', {switch} }}");
    file(hosts, channel, workload, length)
        .replace("switch.output_queued.latency = '90 ns'", &memory)
        .replace("send_buffers = 'unlimited'", "send_buffers = 4")
}

/// Runs a list of packets, each a time in nanoseconds, an initiator and a target.
fn listed(switch: &str, channel: &str, packets: &[(u64, u16, u16)]) -> ChannelRun {
    let one = |(ns, from, to): &(u64, u16, u16)| {
        format!("{{ time = '{ns} ns', from = {from}, to = {to} }}")
    };
    let packets: Vec<String> = packets.iter().map(one).collect();
    let list = format!("source.list = [{}]", packets.join(", "));
    run(&shared(4, switch, channel, &list, "100 us"), 1)
}

/// Smallest and largest one-way latency in nanoseconds, and how many packets arrived.
fn one_way(switch: &str, channel: &str, packets: &[(u64, u16, u16)]) -> (u64, u64, u64) {
    let run = listed(switch, channel, packets);
    let seen = run.observations.recorder(Latency::OneWay);
    let ns = |span: Option<Span>| span.map_or(0, |span| span.0 / 1_000);
    (ns(seen.min()), ns(seen.max()), seen.count())
}

#[test]
fn two_hosts_and_one_switch() {
    for control in FLOW_CONTROLS {
        // 1000 + 2 * 20 + 90.
        assert_eq!(
            one_way("buffer = 8", control, &[(5_000, 0, 1)]),
            (1_130, 1_130, 1),
            "{control}"
        );
        // Two for one host: the second leaves when the first has left.
        let two = [(5_000, 0, 2), (5_000, 1, 2)];
        assert_eq!(one_way("buffer = 8", control, &two), (1_130, 2_130, 2), "{control}");
    }
}

#[test]
fn two_hosts_and_two_switches() {
    for control in FLOW_CONTROLS {
        let channel = format!("{control}\n{TWO}");
        // 1000 + 3 * 20 + 2 * 90.
        assert_eq!(one_way("buffer = 8", &channel, &[(5_000, 0, 2)]), (1_240, 1_240, 1));
        // Over the one cable the second follows the first.
        let two = [(5_000, 0, 2), (5_000, 1, 3)];
        assert_eq!(one_way("buffer = 8", &channel, &two), (1_240, 2_240, 2));
    }
}

/// A buffer of one cell is free when the cell has left it, at 6110 ns, and its host knows at 6130.
#[test]
fn a_credit_comes_back_over_the_cable() {
    let run = listed("buffer = 1", CREDITS, &[(5_000, 0, 1), (5_000, 0, 1)]);
    let seen = &run.observations;
    assert_eq!(seen.recorder(Latency::Queueing).max(), Some(Span(1_130_000)));
    assert_eq!(seen.recorder(Latency::OneWay).max(), Some(Span(2_260_000)));
}

/// Three hosts send two packets each to a fourth. At 5110 ns one of the first three starts to leave
/// the switch; the second of them leaves at 6110 and the third at 7110. The inputs stop at two
/// waiting cells, which is reached where a first packet still waits when the second one comes, at
/// 6110.
#[test]
fn an_input_stops_its_cable_and_lets_it_go_on() {
    let packets: Vec<(u64, u16, u16)> =
        [0, 1, 2].iter().flat_map(|host| [(5_000, *host, 3); 4]).collect();
    let run = listed("buffer = 8", STOP_GO, &packets);
    let network = run.network.as_ref().expect("a report");
    assert!(network.stops > 0);
    assert_eq!(run.observations.delivered, 12);
    // The output is never idle: twelve packets one after another.
    let last = run.observations.recorder(Latency::OneWay).max();
    assert_eq!(last, Some(Span(1_130_000 + 11_000_000)));
}

/// With connections 0 to 2 and 1 to 2 the queue of one reaches four cells at some time; its source
/// is stopped by a packet of 200 ns over the cable, and goes on when one cell is left.
#[test]
fn a_source_is_quenched_by_a_packet_that_travels_back() {
    let packets: Vec<(u64, u16, u16)> =
        [0, 1, 3].iter().flat_map(|host| [(5_000, *host, 2); 12]).collect();
    let run = listed("buffer = 64", QUENCH, &packets);
    let network = run.network.as_ref().expect("a report");
    assert!(network.quenches > 0);
    assert_eq!(run.observations.delivered, 36);
    let indications: f64 = network.ports.iter().map(|port| port.indication_load).sum();
    // Each quench has its unquench, of 200 ns each, on one cable.
    assert!((indications * 100e-6 - network.quenches as f64 * 400e-9).abs() < 1e-12);
    let most = network.ports.iter().map(|port| port.most_held).max();
    // Four cells, those of 220 ns and one that was on its way: without quench there would be eight.
    assert!(most <= Some(6), "{most:?}");
}

#[test]
fn a_lossless_channel_that_overruns_a_buffer_is_a_failed_run() {
    let flows = "source = 'greedy'\npattern.flows = [{ from = 0, to = 2 }, { from = 1, to = 2 }]";
    let slow = "flow_control.stop_go = { stop = 2, go = 0, reaction = '9 us' }";
    let text = shared(4, "buffer = 4", slow, flows, "100 us");
    let plan = Plan::new(&Request::of_text("overrun.toml", &text)).expect("a plan");
    let failed = simulate(&plan.points[0].spec, 1, &Halt::new()).map(drop);
    let message = failed.map_err(|error| error.to_string()).expect_err("an overrun");
    assert!(message.contains("whose buffer of 4 cells was full"), "{message}");
}

/// A write and a read of 125 B each at 4 Gbit/s take 500 ns: of two packets for two outputs the second
/// one leaves so much later. Both leave at once where the memory is as fast as the links.
#[test]
fn outputs_wait_for_the_memory_by_hand() {
    let two = [(5_000, 0, 2), (5_000, 1, 3)];
    for control in FLOW_CONTROLS {
        let slow = one_way("buffer = 8, bandwidth = '4 Gbit/s'", control, &two);
        assert_eq!(slow, (1_130, 1_630, 2), "{control}");
        assert_eq!(one_way("buffer = 8", control, &two), (1_130, 1_130, 2), "{control}");
    }
}

/// Four greedy hosts to four others carry 4 Gbit/s through a switch, as eight ports of 1 Gbit/s write
/// and read at 8 Gbit/s. A memory that has less carries half of what it has, whatever stops the hosts, and
/// nothing is lost; one that has more carries no more.
#[test]
fn busy_ports_carry_what_the_memory_takes() {
    let flows = "source = 'greedy'\npattern.flows = [{ from = 0, to = 1 }, { from = 1, to = 2 }, \
                 { from = 2, to = 3 }, { from = 3, to = 0 }]";
    for control in FLOW_CONTROLS {
        let delivered = |memory: &str| {
            let text = shared(4, &format!("buffer = 128{memory}"), control, flows, "500 us");
            run(&text, 1).observations.delivered as f64
        };
        for gbits in [1.0, 2.0, 4.0, 6.0, 8.0, 16.0] {
            let measured = delivered(&format!(", bandwidth = '{gbits} Gbit/s'"));
            let law = f64::min(gbits / 2.0, 4.0) * 500.0;
            assert!((measured / law - 1.0).abs() < 0.02, "{control} {gbits}: {measured}, {law}");
        }
        assert_eq!(delivered(", bandwidth = '16 Gbit/s'"), delivered(""), "{control}");
    }
}

/// GN-9: seven streams through switch 40 and seven more to its port 1, at full load, are carried as well
/// by a memory of 16 Gbit/s, and not by one of 8.
#[test]
fn sixteen_gbit_s_do_not_limit_switch_40() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/clan-port-contention.toml");
    let shipped = std::fs::read_to_string(file).expect("an experiment");
    let setting = shipped.split("[variant.").next().expect("what comes before variants");
    let shared = "channel.fabric.switch.shared_memory";
    let slow = format!("{shared}.bandwidth=\"8 Gbit/s\"");
    let carried = |preset: Option<&str>, settings: &[&str]| {
        let more = ["run.length=\"3 ms\"", "workload.fabric.source.streams.congestion.load=1.0"];
        let overrides = more.iter().chain(settings).map(|setting| (*setting).to_owned()).collect();
        let presets = preset.into_iter().map(str::to_owned).collect();
        let text = Request::of_text("switch-40.toml", setting);
        let plan = Plan::new(&Request { presets, overrides, ..text }).expect("a plan");
        let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect("a run");
        runs[0].observations.delivered as f64
    };
    let (ample, memory) = (carried(None, &[]), carried(Some("memory"), &[]));
    assert!((memory / ample - 1.0).abs() < 0.01, "{memory} and {ample}");
    let slow = carried(None, &[slow.as_str()]);
    assert!(slow < 0.8 * ample, "{slow} and {ample}");
}

/// Two greedy hosts for a third. Source quench that looks at the memory keeps what is stored below a
/// pool of 40; without flow control that knows of the pool, one of 3 is overrun.
#[test]
fn inputs_share_a_pool() {
    let flows = "source = 'greedy'\npattern.flows = [{ from = 0, to = 2 }, { from = 1, to = 2 }]";
    let outcome = |pool: u32, control: &str| {
        let switch = format!("buffer = 64, pool = {pool}");
        let text = shared(4, &switch, control, flows, "500 us");
        let plan = Plan::new(&Request::of_text("pool.toml", &text)).expect("a plan");
        let runs = simulate(&plan.points[0].spec, 1, &Halt::new());
        runs.map(|runs| runs[0].observations.delivered).map_err(|error| error.to_string())
    };
    assert!(outcome(40, QUENCH).is_ok_and(|delivered| delivered > 490));
    let credits = "flow_control = 'credits'";
    let message = outcome(3, credits).expect_err("an overrun");
    assert!(message.contains("whose memory of 3 cells was full"), "{message}");
    // Two inputs of 64 cells each.
    assert!(outcome(128, credits).is_ok_and(|delivered| delivered > 490));
}

/// Three switches in a ring, each host sends two switches further with one credit a cable: cells
/// wait for each other in a cycle, and the run says who for whom.
#[test]
fn a_ring_that_is_stuck_tells_who_waits_for_whom() {
    let flows = "source = 'greedy'\npattern.flows = [{ from = 0, to = 2 }, \
                 { from = 1, to = 0 }, { from = 2, to = 1 }]";
    let text = shared(3, "buffer = 1", RING, flows, "20 ms");
    let run = run(&text, 1);
    let judgement = judge(&run.observations.progress(run.until), Ending::default(), None);
    assert_eq!(judgement.verdict, Verdict::Stuck);
    let lines = run.waiting.join("\n");
    for (port, next) in [
        ("port 1 of switch a", "port 2 of switch b"),
        ("port 1 of switch b", "port 2 of switch c"),
        ("port 1 of switch c", "port 2 of switch a"),
    ] {
        let line = format!("wait at {port} for space in the buffer of {next}");
        assert!(lines.contains(&line), "{lines}");
    }
}

/// A hot spot at host 2, of hosts 0 and 3, and a stream from host 1 to host 3 that shares a cable
/// with one of them. What it keeps depends on one key.
#[test]
fn flow_control_is_exchanged_by_one_key() {
    let workload = "[workload.c.source.streams.hot]\nsize = '100 B'\nflows.listed = [\
        { from = 0, to = 2 }, { from = 3, to = 2 }, { from = 2, to = 2 }]\n\
        [workload.c.source.streams.other]\nsize = '100 B'\nflows.listed = [{ from = 1, to = 3 }]";
    let share = |switch: &str, control: &str| {
        let text = shared(4, switch, &format!("{control}\n{TWO}"), "", "20 ms");
        let text = text.replace("[workload.c]\n", workload);
        let run = run(&text, 1);
        let network = run.network.as_ref().expect("a report");
        let victims = network.streams.iter().filter(|own| own.is_victim).count();
        assert_eq!(victims > 0, network.streams[3].is_victim, "{control}");
        network.streams[3].mb_per_s / network.streams[3].fair_mb_per_s
    };
    let quench = share("buffer = 64", QUENCH);
    assert!(quench > 0.95, "{quench}");
    let tight = "flow_control.stop_go = { stop = 2, go = 0, reaction = '2 us' }";
    let stopped = share("buffer = 64", tight);
    assert!(stopped < 0.8, "{stopped}");
    let credits = share("buffer = 8", CREDITS);
    assert!(credits < 0.8, "{credits}");
    // With a virtual channel of its own it is not held up by the others.
    let channels = share("buffer = 32", "flow_control.virtual_channel_credits.channels = 4");
    assert!(channels > 0.95, "{channels}");
}

#[test]
fn one_queue_an_input_blocks_what_queues_an_output_let_pass() {
    let load = "load = 1.0\narrivals = 'bernoulli'\npattern.uniform.self_included = true";
    let load = load.replace("'bernoulli'", "'poisson'");
    let carried = |queues: &str| {
        let switch = format!("buffer = 256, queues = '{queues}'");
        run(&shared(16, &switch, STAR, &load, "4 ms"), 1).accepted_load()
    };
    let (fifo, per_input) = (carried("fifo"), carried("per_input"));
    // Karol, Hluchyj and Morgan, IEEE Trans. Commun. 35(12) 1987: 0.586 with many ports.
    assert!(fifo > 0.56 && fifo < 0.68, "{fifo}");
    assert!(per_input > 0.9, "{per_input}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused =
        |switch: &str, channel: &str| refusal(&shared(4, switch, channel, "load = 0.5", "1 ms"));
    let cases = [
        (
            refused("buffer = 8", "flow_control.stop_go = { stop = 2, go = 2 }"),
            "channel.c.flow_control.stop_go.go = 2",
        ),
        (
            refused("buffer = 8", "flow_control.virtual_channel_credits.channels = 9"),
            "9 or more: each of the 9 virtual channels holds 1 cell, a packet",
        ),
        (
            refused("buffer = 8", "routes.per_packet = 'random'"),
            "per_connection: a cell names the connection along which its switches pass it on",
        ),
        (
            refusal(&file(4, &format!("{TWO}\n{STOP_GO}"), "load = 0.5", "1 ms")),
            "no flow control with output_queued",
        ),
        (
            refusal(&file(
                4,
                "",
                "source.streams.one = { size = '4 B', flows.listed = [] }",
                "1 ms",
            )),
            "workload.c.source = streams",
        ),
    ];
    for (message, expected) in cases {
        assert!(message.contains(expected), "{message}");
    }
}

/// Smallest, middle and largest ratio of what streams on the 64-host tree of the AC3 Velocity
/// cluster got to their max-min fair share, as a solver finds it, and that of the sums.
fn shares(streams: &str, control: &str, seed: u64) -> [f64; 4] {
    let text = format!(
        "base = 'clan'\n[run]\nlength = '9 ms'\nregime.skip = '1 ms'\n{control}\n\
         [workload.fabric.source.streams.all]\nsize = '2048 B'\nflows.random = {{ {streams} }}"
    );
    let run = run(&text, seed);
    let rows = &run.network.as_ref().expect("a report").streams;
    assert!(rows.iter().any(|row| row.fair_mb_per_s < 60.0), "somebody has to share");
    let mut ratios: Vec<f64> = rows.iter().map(|row| row.mb_per_s / row.fair_mb_per_s).collect();
    ratios.sort_by(f64::total_cmp);
    let sum: f64 = rows.iter().map(|row| row.mb_per_s).sum();
    let fair: f64 = rows.iter().map(|row| row.fair_mb_per_s).sum();
    [ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1], sum / fair]
}

/// Turns per connection at every output and credits that a connection has for itself on every cable
/// give max-min fair shares: nobody waits for another's buffer, and a queue that a bottleneck
/// leaves is never empty there (Hahne, "Round-robin scheduling for max-min fairness in data
/// networks", IEEE JSAC 9(7) 1991). What is left is the message at either end of the window, one in
/// 110 of the smallest share, 28 MB/s: 1 %.
#[test]
fn turns_and_credits_of_its_own_give_a_connection_its_max_min_share() {
    let streams = "connections = 16, from = { first = 0, count = 16 }, \
                   to = { first = 16, count = 48 }";
    let control = "[channel.fabric.flow_control.virtual_channel_credits]\nchannels = 16";
    for seed in 1..5 {
        let [least, _, most, _] = shares(streams, control, seed);
        assert!(least > 0.99 && most < 1.01, "{seed}: {least} to {most}");
    }
}

/// Source quench does not, however long the run: it stops a source at one level and lets it go on
/// at another, and what is then on its way back comes too late for the queue, which misses turns
/// that others take. A stream loses up to a sixth by that and gains up to a tenth; the one in the
/// middle has its share, and all together 2 % less than theirs.
#[test]
fn source_quench_shares_nearly_fairly() {
    let streams = "connections = 64, from = { first = 0, count = 64 }, \
                   to = { first = 0, count = 64 }";
    for seed in 1..4 {
        let [least, middle, most, sum] = shares(streams, "", seed);
        assert!(least > 0.83 && most < 1.1, "{seed}: {least} to {most}");
        assert!((middle - 1.0).abs() < 0.01 && (sum - 0.985).abs() < 0.015, "{middle} {sum}");
    }
}
