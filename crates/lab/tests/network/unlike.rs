//! Cables and switches that are not alike, to the picosecond.

use weft_fabric::measure::{Latency, Stage};
use weft_fabric::scheduler::SchedulerSettings;
use weft_lab::ChannelRun;
use weft_units::Span;

use super::{MANY_PORTS, file, refusal, run, voq};

const ONE: &str = "source.list = [{ time = '1 us', from = 0, to = 2 }]";

/// Two switches with two hosts each, and a cable between them.
fn pair(cable: &str) -> String {
    format!(
        "fabric.table = {{ switches = [{{ name = 'a', ports = 3 }}, {{ name = 'b', ports = 3 }}], \
         cables = [{{ from = 'host 0', to = 'a.0' }}, {{ from = 'host 1', to = 'a.1' }}, \
         {{ from = 'host 2', to = 'b.0' }}, {{ from = 'host 3', to = 'b.1' }}, \
         {{ from = 'a.2', to = 'b.2'{cable} }}] }}"
    )
}

fn one_way(run: &ChannelRun) -> (Option<Span>, Option<Span>) {
    let seen = run.observations.recorder(Latency::OneWay);
    (seen.min(), seen.max())
}

fn only(run: &ChannelRun) -> u64 {
    assert_eq!(run.observations.delivered, 1);
    one_way(run).0.expect("a packet").0
}

fn spent(run: &ChannelRun) -> [u128; 4] {
    [Stage::Transmission, Stage::Wire, Stage::Switch, Stage::SwitchWait]
        .map(|stage| run.observations.budget.sum_ps(stage))
}

#[test]
fn two_hosts_at_one_switch() {
    let run = run(&file(4, "", ONE, "100 us"), 1);
    assert_eq!(only(&run), 1_000_000 + 2 * 20_000 + 90_000);
    assert_eq!(spent(&run), [1_000_000, 40_000, 90_000, 0]);
}

/// A packet takes 1 us to come to `a` and 0.5 us to leave: it starts 0.5 us later than it could, so
/// that its last byte leaves 90 ns after it came. From there it cuts through.
#[test]
fn a_faster_cable_waits_until_the_last_byte_comes_in_time() {
    let run = run(&file(4, &pair(", link.rate = '2 Gbit/s'"), ONE, "100 us"), 1);
    assert_eq!(only(&run), 500_000 + 1_000_000 + 3 * 20_000 + 2 * 90_000);
    assert_eq!(spent(&run), [1_500_000, 60_000, 180_000, 0]);
}

/// Into a cable that takes 4 us and out of it: the switch behind it has to wait for 3 us of them.
#[test]
fn a_slower_cable_takes_its_own_time() {
    let run = run(&file(4, &pair(", link.rate = '250 Mbit/s'"), ONE, "100 us"), 1);
    assert_eq!(only(&run), 3_000_000 + 1_000_000 + 3 * 20_000 + 2 * 90_000);
    assert_eq!(spent(&run), [4_000_000, 60_000, 180_000, 0]);
}

#[test]
fn a_cable_may_be_longer_and_a_switch_slower() {
    let own = format!(
        "{}\nswitches.b.output_queued.latency = '300 ns'",
        pair(", link = { length = '1 km' }")
    );
    let run = run(&file(4, &own, ONE, "100 us"), 1);
    assert_eq!(only(&run), 1_000_000 + 2 * 20_000 + 5_000_000 + 90_000 + 300_000);
    assert_eq!(spent(&run), [1_000_000, 5_040_000, 390_000, 0]);
}

/// Leaf, spine and leaf of a fat tree whose cables between switches are twice as fast.
#[test]
fn a_tier_has_links_of_its_own() {
    let tree = "fabric.fat_tree = { radix = 4, tiers = 2, links = [{}, { rate = '2 Gbit/s' }] }";
    let run = run(&file(4, tree, ONE, "100 us"), 1);
    assert_eq!(only(&run), 500_000 + 1_000_000 + 4 * 20_000 + 3 * 90_000);
}

/// Two hosts of a leaf send all they can over one spine to two hosts of the other leaf.
#[test]
fn a_spine_twice_as_fast_carries_two_hosts() {
    let carried = |links: &str| {
        let route = |from: u16| {
            format!("{{ from = {from}, to = {}, switches = ['0.0', '1.0', '0.1'] }}", from + 2)
        };
        let channel = format!(
            "fabric.fat_tree = {{ radix = 4, tiers = 2, links = [{links}] }}\n\
             routes.per_connection.given = [{}, {}]",
            route(0),
            route(1)
        );
        let flows = "load = 0.9\npattern.flows = [{ from = 0, to = 2 }, { from = 1, to = 3 }]";
        run(&file(4, &channel, flows, "10 ms"), 1).accepted_load() * 4.0
    };
    let (alike, faster) = (carried(""), carried("{}, { rate = '2 Gbit/s' }"));
    assert!((alike - 1.0).abs() < 0.01, "{alike} through one cable like the hosts'");
    assert!((faster - 1.8).abs() < 0.04, "{faster} through one twice as fast");
}

/// Eight hosts of each leaf of 400 Gbit/s send all they can to the other leaf, over four spines:
/// with cables of 800 Gbit/s up they all get through, with such as their own half of them do.
#[test]
fn a_spine_of_800_gbit_per_s_serves_leaves_of_400() {
    let carried = |spine: &str| {
        let text = format!(
            "[system]\ntitle = 'leaf and spine'\nhosts = 16\n\
             [channel.c]\npacket = '4096 B'\npayload = '4096 B'\n\
             link = {{ rate = '400 Gbit/s', length = '3 m', delay_per_metre = '5 ns' }}\n\
             adapter.send_buffers = 'unlimited'\nswitch.output_queued.latency = '300 ns'\n\
             routes.per_packet = 'adaptive'\n{}\n\
             [workload.c]\nload = 0.95\npattern.shift = 8\n\
             [run]\nlength = '500 us'\nregime = 'from_empty'\n",
            leaf_and_spine(2, 8, 4, spine)
        );
        run(&text, 1).accepted_load()
    };
    let (alike, faster) = (carried(""), carried(", link.rate = '800 Gbit/s'"));
    assert!((alike - 0.5).abs() < 0.01, "{alike} over 400 Gbit/s");
    assert!((faster - 0.95).abs() < 0.02, "{faster} over 800 Gbit/s");
}

/// Leaves with hosts, each with a cable to every spine.
fn leaf_and_spine(leaves: usize, hosts: usize, spines: usize, cable: &str) -> String {
    let (mut switches, mut cables) = (Vec::new(), Vec::new());
    for spine in 0..spines {
        switches.push(format!("{{ name = 'spine{spine}', ports = {leaves} }}"));
    }
    for leaf in 0..leaves {
        switches.push(format!("{{ name = 'leaf{leaf}', ports = {} }}", hosts + spines));
        for host in 0..hosts {
            let number = leaf * hosts + host;
            cables.push(format!("{{ from = 'host {number}', to = 'leaf{leaf}.{host}' }}"));
        }
        for spine in 0..spines {
            let port = hosts + spine;
            cables.push(format!(
                "{{ from = 'leaf{leaf}.{port}', to = 'spine{spine}.{leaf}'{cable} }}"
            ));
        }
    }
    format!(
        "fabric.table = {{ switches = [{}], cables = [{}] }}",
        switches.join(", "),
        cables.join(", ")
    )
}

/// The packet of host 0 is whole at 1.02 us and leaves then; that of host 1, which comes 0.1 us
/// behind its first byte over a cable ten times as fast, does not wait for it.
#[test]
fn a_packet_that_comes_slowly_holds_nobody_back() {
    let star = "fabric.table = { switches = [{ name = 's', ports = 3 }], cables = [\
                { from = 'host 0', to = 's.0' }, \
                { from = 'host 1', to = 's.1', link.rate = '10 Gbit/s' }, \
                { from = 'host 2', to = 's.2', link.rate = '10 Gbit/s' }] }";
    let two = "source.list = [{ time = '1 us', from = 0, to = 2 }, \
               { time = '1.1 us', from = 1, to = 2 }]";
    let run = run(&file(3, star, two, "100 us"), 1);
    let (least, most) = (100_000 + 40_000 + 90_000, 1_000_000 + 40_000 + 90_000);
    assert_eq!(one_way(&run), (Some(Span(least)), Some(Span(most))));
}

/// What the longest path costs at low load is what its links, cables and switches take, whatever
/// the mixture; nothing of it counts as waiting.
#[test]
fn stages_add_up_on_any_mixture() {
    let tree = "fabric.k_ary_tree = { arity = 2, levels = 3, links = [{ rate = '3 Gbit/s' }, \
                { rate = '700 Mbit/s', length = '30 m' }, { rate = '9 Gbit/s' }] }";
    let run = run(&file(8, tree, "load = 0.001", "20 ms"), 1);
    let seen = &run.observations;
    let all: u128 = spent(&run).iter().sum();
    assert!(seen.delivered > 50);
    assert_eq!(all, seen.recorder(Latency::Transit).sum_ps());
    let waited = spent(&run)[3] as f64 / all as f64;
    assert!(waited < 0.01, "{waited} of the transit is waiting");
}

#[test]
fn what_cannot_differ_is_refused() {
    let own = pair(", link.rate = '2 Gbit/s'");
    let alike = "cables and switches that are all alike, since only output_queued, output_buffered, \
                 input_queued and shared_memory switches, hubs without windows, rings, and those \
                 between links with turns, may differ";
    let latency = "switches.b.output_queued.latency = '300 ns'";
    let crossbar = "switches.b.crossbar = { latency = '90 ns', contention = 'drop' }";
    let three = "fabric.fat_tree = { radix = 4, tiers = 2, links = [{}, {}, {}] }";
    let scheduled = |channel: &str| {
        let own = "switch.scheduled = { latency = '90 ns', lead = '500 ns', scheduler = 'islip' }";
        file(4, channel, ONE, "1 ms").replace("switch.output_queued.latency = '90 ns'", own)
    };
    let cases = [
        (scheduled(&own), "channel.c.fabric = cables with links of their own", alike),
        (scheduled(&format!("{}\n{latency}", pair(""))), "channel.c.switches = given", alike),
        (
            file(4, &format!("{}\n{}", pair(""), latency.replace(".b.", ".x.")), ONE, "1 ms"),
            "channel.c.switches.x = given",
            "a switch of the fabric, such as a",
        ),
        (
            file(4, &format!("{}\n{crossbar}", pair("")), ONE, "1 ms"),
            "channel.c.switches.b = crossbar",
            "output_queued, output_buffered or input_queued in a fabric other than star: a crossbar",
        ),
        (
            file(
                4,
                &format!("{}\nswitches.b.input_queued.scheduler = 'islip'", pair("")),
                ONE,
                "1 ms",
            ),
            "missing key `buffer` in channel.c.switches.b.input_queued",
            "the cells that an input holds, at least 1",
        ),
        (
            file(4, three, ONE, "1 ms"),
            "channel.c.fabric.fat_tree.links = 3 entries",
            "at most 2, one for each tier from that of the hosts on",
        ),
    ];
    for (text, given, accepted) in cases {
        let found = refusal(&text);
        assert!(found.contains(given) && found.contains(accepted), "{found}");
    }
}

/// One switch `s` with so many ports, the first of them with hosts.
fn one_switch(hosts: u32, ports: u32) -> String {
    let cables: Vec<String> =
        (0..hosts).map(|host| format!("{{ from = 'host {host}', to = 's.{host}' }}")).collect();
    let (cables, unused) = (cables.join(", "), (hosts..ports).collect::<Vec<_>>());
    let switch = format!("{{ name = 's', ports = {ports}, unused = {unused:?} }}");
    format!("fabric.table = {{ switches = [{switch}], cables = [{cables}] }}")
}

/// More ports than fit a word: one switch, the leaves of a tree, and a switch of a table.
#[test]
fn a_switch_has_any_number_of_ports() {
    let all = "load = 0.5\npattern.shift = 1";
    let table = one_switch(130, 130);
    for fabric in ["", MANY_PORTS, &table] {
        let run = run(&file(130, fabric, all, "300 us"), 1);
        let accepted = run.accepted_load();
        assert!((accepted - 0.5).abs() < 0.02, "{fabric}: {accepted}");
    }
}

/// Queues at the inputs of one switch and of a tree whose switches have more ports than fit a word, under
/// every scheduler; and a switch of more than 256 ports.
#[test]
fn every_scheduler_serves_switches_of_many_ports() {
    let mut all: Vec<_> = SchedulerSettings::all_defaults()
        .into_iter()
        .flat_map(|(name, _)| {
            [(name, 130, one_switch(130, 130)), (name, 128, MANY_PORTS.to_owned())]
        })
        .collect();
    all.push(("islip", 300, one_switch(300, 300)));
    for (name, hosts, fabric) in all {
        let text = voq(hosts, "buffer = 64", &fabric, "load = 0.4", "120 us");
        let text = text.replace("scheduler = 'islip'", &format!("scheduler = '{name}'"));
        let run = run(&text, 1);
        let accepted = run.accepted_load();
        assert!((accepted - 0.4).abs() < 0.03, "{name}, {hosts} hosts: {accepted}");
        assert_eq!(run.observations.conserve(run.backlog + run.in_flight), Ok(()), "{name}");
    }
}

#[test]
fn a_switch_with_a_scheduler_has_a_largest_size() {
    let refused = refusal(&voq(4, "buffer = 8", &one_switch(4, 1025), "load = 0.5", "1 ms"));
    assert!(refused.contains("channel.c.fabric = switch s with 1025 ports"), "{refused}");
    assert!(refused.contains("switches with at most 1024 ports under a scheduler"), "{refused}");
    let run = run(&voq(4, "buffer = 8", &one_switch(4, 1024), "load = 0.5", "1 ms"), 1);
    assert!((run.accepted_load() - 0.5).abs() < 0.05);
}
