//! What other simulators publish, run from files of theirs.

use std::path::{Path, PathBuf};

use weft_kernel::Halt;
use weft_lab::{Plan, Request, simulate};

/// LogGOPSim's defaults: L 2500 ns, o 1500 ns, G 6 ns a byte. The first byte of a message takes no G
/// there, so that the cables to the switch and from it take 2494 ns.
const LOGGP: &str = "
[channel.net]
packet = '1 B'
payload = '1 B'
link = { rate = '166666667 B/s', length = '1 m', delay_per_metre = '1247 ns' }
adapter.send_buffers = 'unlimited'
switch.output_queued = { latency = '0 ns' }

[channel.net.host]
send = ['overhead']
receive = ['receive_overhead']
program = { processor = 'cpu', spin = '1 s' }

[channel.net.host.resource.cpu]

[channel.net.host.stage.overhead]
unit = 'message'
fixed = '1500 ns'
uses = { cpu = 0 }

[channel.net.host.stage.receive_overhead]
unit = 'message'
fixed = '1500 ns'
uses = { cpu = 0 }
";

/// The default network of uet-htsim: three tiers, 100 Gbit/s, 1 us a cable, packets of 4150 B. A flow of
/// 2 MB has 490 of them.
const FAT_TREE: &str = "
[channel.net]
packet = '4150 B'
payload = '4086 B'
link = { rate = '100 Gbit/s', length = '200 m', delay_per_metre = '5 ns' }
adapter.send_buffers = 'unlimited'
switch.output_queued = { latency = '0 ns' }
fabric.fat_tree = { tiers = 3, radix = 4 }
";

fn put(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("the folder of the tests can be written");
    path
}

/// The time of the program that a trace says, in microseconds, on 16 hosts.
fn time_of(channel: &str, kind: &str, file: &Path) -> f64 {
    let text = format!(
        "[system]\ntitle = 'peers'\nhosts = 16\n{channel}\n[program]\n\
         trace.{kind} = {{ file = '{}' }}\n",
        file.display()
    );
    let plan = Plan::new(&Request::of_text("peers.toml", &text)).expect("a legal text");
    let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect("a run");
    let found = runs[0].counters.iter().find(|(column, _)| *column == "program_time_us");
    found.expect("the time of the program").1
}

/// What LogGOPSim prints for `dissemination_16.goal`, which this writes again: four rounds of a
/// message of 1 byte, each sent when the one of the round before has been received.
#[test]
fn the_dissemination_of_loggopsim_takes_22_000_ns() {
    let mut text = "num_ranks 16\n".to_owned();
    for rank in 0..16 {
        text += &format!("rank {rank} {{\n");
        for (round, distance) in (0..).zip([1, 2, 4, 8]) {
            let (to, from) = ((rank + distance) % 16, (rank + 16 - distance) % 16);
            text +=
                &format!("s{round}: send 1b to {to} tag 0\nr{round}: recv 1b from {from} tag 0\n");
            if round > 0 {
                text += &format!("s{round} requires r{}\n", round - 1);
            }
        }
        text += "}\n";
    }
    assert_eq!(time_of(LOGGP, "goal", &put("dissemination_16.goal", &text)), 22.0);
}

/// A message of s bytes takes o + L + (s - 1) G + o (Alexandrov et al., "LogGP", SPAA 1995).
#[test]
fn a_message_takes_what_loggp_says() {
    let text = "num_ranks 2\nrank 0 {\ns: send 1001b to 1\n}\nrank 1 {\nr: recv 1001b from 0\n}\n";
    let time = time_of(LOGGP, "goal", &put("one-message.goal", text));
    assert_eq!(time, 1.5 + 2.5 + 1000.0 * 0.006 + 1.5);
}

/// The cable to the target carries 15 flows of 490 packets, which takes 2440.2 us. uet-htsim prints
/// 2478.53 us with NSCC and 2464.44 us with RCCC.
#[test]
fn an_incast_of_15_flows_is_within_2_percent_of_the_bound_of_the_wire() {
    let flows: String = (1..16).map(|from| format!("{from}->0 start 0 size 2000000\n")).collect();
    let matrix = put("incast_15.cm", &format!("Nodes 16\nConnections 15\n{flows}"));
    let time = time_of(FAT_TREE, "connection_matrix", &matrix);
    let bound = f64::from(15 * 490 * 4150 * 8) / 100e3;
    assert!((bound..1.02 * bound).contains(&time), "{time} us for {bound}");
}
