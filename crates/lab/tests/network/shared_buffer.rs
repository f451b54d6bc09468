//! Switches that share a memory among their ports: hand-worked instants, and the laws of queues, pauses
//! and marks.

use weft_fabric::measure::{Drop, Latency};
use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, simulate};
use weft_units::Span;

/// A star at 100 Gbit/s, 80 ps a byte, with cables of 10 ns, packets of 1000 bytes and a latency of 300 ns.
fn star(hosts: u32, switch: &str, workload: &str, length: &str) -> ChannelRun {
    let text = format!(
        "[system]\ntitle = 'star'\nhosts = {hosts}\n\
         [channel.c]\npacket = '1000 B'\npayload = '950 B'\n\
         link = {{ rate = '100 Gbit/s', length = '2 m', delay_per_metre = '5 ns' }}\n\
         adapter.send_buffers = 'unlimited'\nswitch.shared_buffer = {{ latency = '300 ns', {switch} }}\n\
         [workload.c]\n{workload}\n[run]\nlength = '{length}'\nregime = 'from_empty'\n"
    );
    run(&text)
}

fn run(text: &str) -> ChannelRun {
    let plan = Plan::new(&Request::of_text("c.toml", text)).expect(text);
    let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect(text);
    runs.into_iter().next().expect("the channel")
}

fn column(run: &ChannelRun, name: &str) -> f64 {
    let columns = &run.network.as_ref().expect("a report").classes;
    columns.iter().find(|column| column.0 == name).expect(name).1
}

/// 80 ns on each cable for its length, 10 ns along it and 300 ns in the switch, which waits for the last
/// byte or does not.
#[test]
fn a_lone_packet_takes_its_length_once_or_at_every_link() {
    let lone = "source.list = [{ time = '1 us', from = 2, to = 1 }]";
    for (forwarding, expected) in [("cut_through", 400), ("store_and_forward", 480)] {
        let switch = format!("memory = '1 MB', forwarding = '{forwarding}'");
        let run = star(3, &switch, lone, "9 us");
        let one_way = run.observations.recorder(Latency::OneWay).max().expect("a delivery");
        assert_eq!(one_way, Span(expected * 1000), "{forwarding}");
    }
}

/// Two packets at one instant: the second leaves when the first one has left.
#[test]
fn packets_to_one_output_leave_one_behind_the_other() {
    let two =
        "source.list = [{ time = '1 us', from = 2, to = 1 }, { time = '1 us', from = 0, to = 1 }]";
    let run = star(3, "memory = '1 MB', forwarding = 'store_and_forward'", two, "9 us");
    let recorder = run.observations.recorder(Latency::OneWay);
    let expected = (Some(Span(480_000)), Some(Span(560_000)));
    assert_eq!((recorder.min(), recorder.max()), expected);
}

#[test]
fn a_full_memory_drops() {
    let burst = "load = 0.9\npattern.hot_spot = { target = 0, fraction = 1.0 }";
    let run = star(4, "memory = '10 kB'", burst, "100 us");
    assert!(run.observations.dropped(Drop::Overflow) > 100);
    assert_eq!(column(&run, "class_0_dropped"), run.observations.dropped(Drop::Overflow) as f64);
}
