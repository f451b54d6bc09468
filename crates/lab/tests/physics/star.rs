//! One switch with queues at its outputs: hosts send over a cable of a finite rate like anybody.

use crate::physics::{number, numbers, word, written};

/// Cells of 1 us without propagation, around one output-queued switch.
fn star(hosts: u16, channel: &str, rest: &str) -> String {
    let buffers = match channel.contains("send_buffers") {
        true => "",
        false => "adapter.send_buffers = 'unlimited'\n",
    };
    format!(
        "[system]\ntitle = 'star'\nhosts = {hosts}\n\
         [channel.d]\npacket = '1000 B'\npayload = '1000 B'\nlink.rate = '8 Gbit/s'\n\
         {buffers}switch.output_queued.latency = '0 ns'\n\
         {channel}\n{rest}"
    )
}

/// The same switch as a table of cables.
fn table(hosts: u16) -> String {
    let cables: Vec<String> =
        (0..hosts).map(|host| format!("{{ from = 'host {host}', to = 'one.{host}' }}")).collect();
    format!(
        "fabric.table = {{ switches = [{{ name = 'one', ports = {hosts} }}], cables = [{}] }}",
        cables.join(", ")
    )
}

#[test]
fn a_host_sends_no_more_than_its_cable_carries() {
    let flows = "pattern.flows = [{ from = 0, to = 1 }, { from = 0, to = 2 }]";
    let outcome = written(&star(
        3,
        "",
        &format!("[workload.d]\nload = 1.6\n{flows}\n[run]\nlength = '20 ms'\n"),
    ));
    let accepted = number(&outcome, "accepted_mb_per_s");
    assert!((999.0..=1000.0).contains(&accepted), "{accepted} MB/s");
    assert_eq!(word(&outcome, "verdict"), "saturated");
    let loads = numbers(&outcome, "links", "link_load");
    let most = loads.iter().copied().fold(0.0, f64::max);
    assert!((0.999..=1.0).contains(&most), "{loads:?}");
}

/// One host to four targets waits at its own cable alone, as M/D/1 does: rho / (2 (1 - rho)).
#[test]
fn one_host_to_four_targets_is_an_m_d_1_queue() {
    let flows: Vec<String> = (1..5).map(|to| format!("{{ from = 0, to = {to} }}")).collect();
    let traffic = format!(
        "[workload.d]\nload = 0.9\npattern.flows = [{}]\n[run]\nlength = '400 ms'\n",
        flows.join(", ")
    );
    let outcome = written(&star(5, "", &traffic));
    let waits = number(&outcome, "one_way_mean_us") - 1.0;
    assert!((waits / 4.5 - 1.0).abs() < 0.03, "{waits} us");
}

#[test]
fn a_star_is_a_table_of_one_switch() {
    let cases = [
        ("", "load = 0.8\nburst.length.uniform = [1, 5]"),
        ("adapter.send_buffers = 3", "source = 'greedy'"),
        ("routes.per_packet = 'adaptive'\nswitch.output_queued.buffers = 2", "load = 0.9"),
        ("routes.per_connection = 'random'", "load = 0.7\narrivals = 'bernoulli'"),
    ];
    for (channel, traffic) in cases {
        let rest = format!("[workload.d]\n{traffic}\n[run]\nlength = '5 ms'\nseeds = 2\n");
        let of = |fabric: &str| written(&star(6, &format!("{channel}\n{fabric}"), &rest));
        let (one, other) = (of(""), of(&table(6)));
        for name in ["points", "replications", "histograms", "budget"] {
            let (one, other) = (one.table(name), other.table(name));
            assert!(one.rows() > 0, "{name}");
            assert_eq!(format!("{one:?}"), format!("{other:?}"), "{name} of {channel}");
        }
    }
}

/// Three blocks of 100 KB for three targets leave one cable one after the other.
#[test]
fn a_program_sends_over_one_cable_at_a_time() {
    let program = "[program]\ntrace.collective = { operation = 'scatter_v', sizes = ['0 B', \
                   '100000 B', '100000 B', '100000 B'] }\n";
    let outcome = written(&star(4, "", program));
    let took = number(&outcome, "program_time_us");
    assert!((300.0..302.0).contains(&took), "{took} us");
}
