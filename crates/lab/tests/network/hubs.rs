//! Hubs with a bus among switches, in exact picoseconds worked by hand and by laws. Those with a
//! crossbar are in `hub_crossbars`.
//!
//! A packet takes 1 us on a link and a cable 20 ns. In a hub or a switch it may leave 90 ns after
//! its first byte came; the bus of a hub takes 50 ns for a decision, so that it is free 1050 ns after
//! it has begun to decide, where the cable behind it is not slower than the others.

use proptest::prelude::*;
use weft_fabric::measure::{Latency, Stage};
use weft_lab::ChannelRun;
use weft_lab::statistics::Verdict;

use super::{file, refusal, run, table};

/// A hub whose ports hold so many packets each.
fn hub(buffer: u32) -> String {
    format!(
        "hub = {{ ports = 8, latency = '90 ns', \
         transfer.bus = {{ arbitration = '50 ns', buffer = {buffer} }} }}"
    )
}

/// Hosts 0 to 2 at the hub h, hosts 3 and 4 at the switch s behind it.
pub(super) fn behind_a_hub(more: &str) -> String {
    let hosts = [
        ("host 0", "h.0"),
        ("host 1", "h.1"),
        ("host 2", "h.2"),
        ("host 3", "s.1"),
        ("host 4", "s.2"),
    ];
    let fabric = table(&[("h", 4), ("s", 3)], &[&hosts[..], &[("h.3", "s.0")]].concat(), more);
    format!("{fabric}\nswitches.h.{}", hub(8))
}

/// Hosts 0 and 1 at the first of two hubs, hosts 2 and 3 at the second.
pub(super) fn two_hubs(first: &str, second: &str) -> String {
    let hosts = [("host 0", "h.0"), ("host 1", "h.1"), ("host 2", "g.0"), ("host 3", "g.1")];
    let fabric = table(&[("h", 3), ("g", 3)], &[&hosts[..], &[("h.2", "g.2")]].concat(), "");
    format!("{fabric}\nswitches.h.{first}\nswitches.g.{second}")
}

/// A file of hosts around one hub.
pub(super) fn star(hosts: u32, hub: &str, channel: &str, workload: &str, length: &str) -> String {
    file(hosts, channel, workload, length)
        .replace("switch.output_queued.latency = '90 ns'", &format!("switch.{hub}"))
}

/// Packets, each a time in nanoseconds, an initiator and a target.
pub(super) fn listed(packets: &[(u64, u32, u32)]) -> String {
    let one = |(ns, from, to): &(u64, u32, u32)| {
        format!("{{ time = '{ns} ns', from = {from}, to = {to} }}")
    };
    let packets: Vec<String> = packets.iter().map(one).collect();
    format!("source.list = [{}]", packets.join(", "))
}

/// The sum and the largest of the one-way latencies, in nanoseconds, and how many there are.
pub(super) fn one_way(run: &ChannelRun) -> (u64, u64, u64) {
    let seen = run.observations.recorder(Latency::OneWay);
    let ns = |ps: u128| {
        assert_eq!(ps % 1_000, 0);
        (ps / 1_000) as u64
    };
    (ns(seen.sum_ps()), ns(seen.max().expect("a packet").0.into()), seen.count())
}

fn spent(run: &ChannelRun) -> [u128; 4] {
    [Stage::Transmission, Stage::Wire, Stage::Switch, Stage::SwitchWait]
        .map(|stage| run.observations.budget.sum_ps(stage) / 1_000)
}

#[test]
fn one_packet_through_a_hub_by_hand() {
    let over = |from, to| run(&file(5, &behind_a_hub(""), &listed(&[(0, from, to)]), "100 us"), 1);
    // It is at h at 20 and on the cable behind it from 160 ns on.
    let near = over(0, 1);
    assert_eq!((one_way(&near), spent(&near)), ((1_180, 1_180, 1), [1_000, 40, 140, 0]));
    // It leaves s at 270.
    let out = over(0, 3);
    assert_eq!((one_way(&out), spent(&out)), ((1_290, 1_290, 1), [1_000, 60, 230, 0]));
    // It leaves s at 110 and h at 270.
    let back = over(3, 1);
    assert_eq!((one_way(&back), spent(&back)), ((1_290, 1_290, 1), [1_000, 60, 230, 0]));
    assert_eq!(back.observations.hops.mean(), Some(2.0));
}

/// It is at s at 180 ns and may leave it at 270: it does from a memory, and at the edge at 1000 where
/// slots are 1 us long.
#[test]
fn a_hub_has_switches_of_other_kinds_behind_it() {
    for (switch, latency) in [
        ("shared_memory = { latency = '90 ns', buffer = 8 }", 1_290),
        ("input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 8 }", 2_020),
    ] {
        let channel = format!("{}\nswitches.s.{switch}", behind_a_hub(""));
        let seen = run(&file(5, &channel, &listed(&[(0, 0, 3)]), "100 us"), 1);
        assert_eq!(one_way(&seen), (latency, latency, 1), "{switch}");
    }
}

/// An acknowledgment crosses the bus like a request.
#[test]
fn an_acknowledgment_crosses_a_hub() {
    let acknowledged = "control.request_acknowledge = { timeout = '9 us', outstanding = 4, \
                        acknowledgment = '125 B' }";
    let round_trips = |packets: &[(u64, u32, u32)]| {
        let seen = run(&star(4, &hub(8), acknowledged, &listed(packets), "100 us"), 1);
        let seen = seen.observations.recorder(Latency::RoundTrip);
        (seen.sum_ps() / 1_000, seen.max().expect("an answer").0 / 1_000)
    };
    assert_eq!(round_trips(&[(0, 0, 1)]), (2_360, 2_360));
    // The second request crosses at 1160 ns. The first acknowledgment may cross at 1290, and does at
    // 2210, the second one may at 2340, and does at 3260.
    assert_eq!(round_trips(&[(0, 0, 1), (0, 2, 3)]), (3_280 + 4_330, 4_330));
}

/// Both may cross the bus of h at 110 ns, to different outputs. The first one does, and the other at
/// 1160: it leaves s at 1320.
#[test]
fn one_packet_at_a_time_crosses_a_hub() {
    let seen = run(&file(5, &behind_a_hub(""), &listed(&[(0, 0, 1), (0, 2, 3)]), "100 us"), 1);
    assert_eq!(one_way(&seen), (1_180 + 2_340, 2_340, 2));
    assert_eq!(spent(&seen), [2_000, 100, 370, 1_050]);
    // As on a bus among windows, at whose hub the same two meet.
    let star = run(&star(4, &hub(8), "", &listed(&[(0, 0, 1), (0, 2, 3)]), "100 us"), 1);
    assert_eq!(one_way(&star), (1_180 + 2_230, 2_230, 2));
}

/// On the cable between h and s a packet takes 2 us. Towards s it holds the bus for as long: that of
/// host 1 crosses at 2160 ns. The first is at s at 180 and leaves it 1 us later than it could.
#[test]
fn a_packet_holds_the_bus_for_as_long_as_the_cable_behind_takes() {
    let slow = behind_a_hub(", link.rate = '500 Mbit/s'");
    let seen = run(&file(5, &slow, &listed(&[(0, 0, 3), (0, 1, 2)]), "100 us"), 1);
    assert_eq!(one_way(&seen), (2_290 + 3_230, 3_230, 2));
    // From s it may cross when its last byte comes in time, at 1220 ns, and takes the bus for 1 us: a
    // packet that may cross at 1230 follows, and one that may at 1210 goes first.
    let seen = run(&file(5, &slow, &listed(&[(0, 3, 0), (1_120, 1, 2)]), "100 us"), 1);
    assert_eq!(one_way(&seen), (2_290 + 2_220, 2_290, 2));
    let seen = run(&file(5, &slow, &listed(&[(0, 3, 0), (1_100, 1, 2)]), "100 us"), 1);
    assert_eq!(one_way(&seen), (3_330 + 1_180, 3_330, 2));
}

/// The first packet is at g at 180, crosses its bus at 270 and has left it at 1320 ns, so that h has
/// its credit at 1340.
#[test]
fn what_waits_for_room_behind_a_hub_lets_others_pass() {
    let over = |buffer, packets: &[(u64, u32, u32)]| {
        one_way(&run(&file(4, &two_hubs(&hub(8), &hub(buffer)), &listed(packets), "100 us"), 1))
    };
    // With one place the second crosses h at 1340 and g at 1500, with two at 1160 and 1320.
    let both = [(0, 0, 2), (0, 1, 3)];
    assert_eq!(over(1, &both), (1_340 + 2_570, 2_570, 2));
    assert_eq!(over(2, &both), (1_340 + 2_390, 2_390, 2));
    // The third may cross h from 1110 on, and does at 1160 where the second waits: that one then
    // crosses at 2210.
    let three = [(0, 0, 2), (0, 1, 3), (0, 1, 0)];
    assert_eq!(over(1, &three), (1_340 + 2_230 + 3_440, 3_440, 3));
    assert_eq!(over(2, &three), (1_340 + 2_390 + 3_280, 3_280, 3));
}

/// A port of the hub that holds a packet stops its cable, which hears that 1020 ns later. Packets of
/// hosts 0 and 1 may cross at 110, and do then and at 1110 ns. Host 1 is stopped from 1130 to 2130.
#[test]
fn a_hub_stops_a_host() {
    let bus = "hub = { ports = 3, latency = '90 ns', transfer.bus.buffer = 4 }";
    let packets = listed(&[(0, 0, 2), (0, 1, 2), (1_200, 1, 2)]);
    let of = |flow: &str| one_way(&run(&star(3, bus, flow, &packets, "100 us"), 1));
    assert_eq!(of(""), (1_130 + 2_130 + 1_930, 2_130, 3));
    let stop = "flow_control.stop_go = { stop = 1, go = 0, reaction = '1 us' }";
    assert_eq!(of(stop), (1_130 + 2_130 + 2_060, 2_130, 3));
}

/// Like above, but the bus takes 50 ns for a decision. The packet of host 1 is chosen at 1160 ns and
/// leaves at 1210: it counts as having left at 1160, so that host 1 goes on at 2180.
#[test]
fn a_port_lets_go_when_its_packet_is_chosen() {
    let packets = listed(&[(0, 0, 2), (0, 1, 2), (1_200, 1, 2)]);
    let of = |flow: &str| one_way(&run(&star(3, &hub(4), flow, &packets, "100 us"), 1));
    assert_eq!(of(""), (1_180 + 2_230 + 2_080, 2_230, 3));
    let stop = "flow_control.stop_go = { stop = 1, go = 0, reaction = '1 us' }";
    assert_eq!(of(stop), (1_180 + 2_230 + 2_160, 2_230, 3));
}

/// When each packet has arrived, in order, in picoseconds.
pub(super) fn arrivals(run: &ChannelRun) -> Vec<u64> {
    let mut ends: Vec<u64> = run.trace.iter().map(|entry| entry.until.0).collect();
    ends.sort_unstable();
    ends
}

pub(super) fn traced(text: &str, seed: u64) -> ChannelRun {
    run(&text.replace("[run]", "[run]\ntrace = true"), seed)
}

/// Random packets among five hosts.
pub(super) fn any_packets() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    let packets = prop::collection::vec((0_u64..40_000, 0_u32..5, 1_u32..5), 1..60);
    packets.prop_map(|packets| {
        packets.into_iter().map(|(ns, from, step)| (ns, from, (from + step) % 5)).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A hub with room for all is one server. It is never idle while a packet waits anywhere: what
    /// waits in a host is behind one that is on its link to the hub, and the bus takes that one no
    /// sooner, and for no less time. So packets arrive when those of a single queue would, whichever
    /// hosts they come from.
    #[test]
    fn a_hub_is_a_single_server(packets in any_packets(), arbitration in 0_u64..400) {
        let hub = format!(
            "hub = {{ ports = 8, latency = '90 ns', \
             transfer.bus = {{ arbitration = '{arbitration} ns', buffer = 64 }} }}"
        );
        let seen = traced(&star(5, &hub, "", &listed(&packets), "1 ms"), 1);
        let mut ready: Vec<u64> = packets.iter().map(|(ns, ..)| ns + 110).collect();
        ready.sort_unstable();
        let mut free = 0;
        let expected = ready.into_iter().map(|ready| {
            let crosses = free.max(ready);
            free = crosses + arbitration + 1_000;
            (free + 20) * 1_000
        });
        prop_assert_eq!(arrivals(&seen), expected.collect::<Vec<u64>>());
    }

    /// Where all packets are for one host, a crossbar is no better than a bus. It has a slot of 8 ns,
    /// a byte, into which all times fit.
    #[test]
    fn for_one_output_a_bus_is_a_crossbar(
        packets in prop::collection::vec((0_u64..5_000, 0_u32..4), 1..60),
    ) {
        let packets: Vec<_> = packets.into_iter().map(|(slot, from)| (8 * slot, from, 4)).collect();
        let of = |switch: &str| {
            let text = star(5, switch, "", &listed(&packets), "1 ms").replace("'4 m'", "'4.8 m'");
            arrivals(&traced(&text, 1))
        };
        let bus = of("hub = { ports = 5, latency = '96 ns', transfer.bus.buffer = 64 }");
        let crossbar = of("input_queued = { latency = '96 ns', buffer = 8000, cell = '1 B', \
                           scheduler = 'islip' }");
        prop_assert_eq!(bus.len(), packets.len());
        prop_assert_eq!(bus, crossbar);
    }

    /// Around the bus of mapped windows a packet waits in its adapter, and its cables come after the
    /// decision: altogether it takes as long. Hosts cost no time there, and have room for all.
    #[test]
    fn a_hub_takes_as_long_as_that_of_windows(packets in any_packets(), arbitration in 0_u64..400) {
        let of = |buffer: &str, channel: &str| {
            let hub = format!(
                "hub = {{ ports = 8, latency = '90 ns', \
                 transfer.bus = {{ arbitration = '{arbitration} ns'{buffer} }} }}"
            );
            one_way(&run(&star(5, &hub, channel, &listed(&packets), "1 ms"), 1))
        };
        let window = "window = { mappings = 'all', page = '8 KiB', size = '1 MiB', \
                      write = '100 B', receive_buffers = 64, control = '0 B' }";
        let (plain, mapped) = (of(", buffer = 64", ""), of("", window));
        prop_assert_eq!((plain.0, plain.2), (mapped.0, mapped.2));
    }

    /// Nothing is lost or doubled between hubs with small buffers, under any flow control.
    #[test]
    fn hubs_lose_nothing(
        packets in any_packets(),
        buffers in [2_u32..5, 2..5, 2..5],
        flow in prop::sample::select(vec![
            "flow_control = 'credits'",
            "flow_control.virtual_channel_credits.channels = 2",
            "flow_control.stop_go = { stop = 1, go = 0 }",
        ]),
    ) {
        let hosts =
            [("host 0", "a.0"), ("host 1", "a.1"), ("host 2", "b.0"), ("host 3", "c.0"), ("host 4", "s.0")];
        let cables = [("a.2", "b.1"), ("b.2", "s.1"), ("s.2", "c.1")];
        let fabric =
            table(&[("a", 3), ("b", 3), ("c", 2), ("s", 3)], &[&hosts[..], &cables].concat(), "");
        let [a, b, c] = buffers.map(hub);
        let channel = format!("{fabric}\nswitches.a.{a}\nswitches.b.{b}\nswitches.c.{c}\n{flow}");
        let seen = traced(&file(5, &channel, &listed(&packets), "1 ms"), 1);
        prop_assert_eq!((seen.backlog, seen.in_flight), (0, 0));
        prop_assert_eq!(seen.observations.delivered as usize, packets.len());
        let budget = seen.observations.budget.total_ps();
        prop_assert_eq!(seen.observations.recorder(Latency::OneWay).sum_ps(), budget);
        let plain = run(&file(5, &channel, &listed(&packets), "1 ms"), 1);
        prop_assert_eq!(one_way(&plain), one_way(&seen));
    }
}

/// Eight hosts with Poisson arrivals are one queue at their total load, whose mean wait, in hosts
/// and in the hub together, is that of M/D/1: rho / (2 (1 - rho)) services (Kleinrock, Queueing
/// Systems I, 5.7). A service is the packet and the decision.
#[test]
fn a_hub_waits_like_m_d_1_at_the_load_of_all() {
    for (arbitration, rho) in [(0, 0.5), (250, 0.7)] {
        let hub = format!(
            "hub = {{ ports = 8, latency = '90 ns', \
             transfer.bus = {{ arbitration = '{arbitration} ns', buffer = 64 }} }}"
        );
        let service = 1.0 + f64::from(arbitration) * 1e-3;
        let load = format!("load = {}\narrivals = 'poisson'", rho / service / 8.0);
        let seen = run(&star(8, &hub, "", &load, "300 ms"), 1);
        let mean = seen.observations.recorder(Latency::OneWay).mean_ps().expect("packets") * 1e-6;
        let waited = mean - (service + 0.13);
        let expected = service * rho / (2.0 * (1.0 - rho));
        assert!((waited / expected - 1.0).abs() < 0.05, "{waited} us, not {expected}");
    }
}

/// Hosts that always send share the bus alike, and keep it busy: a packet every 1050 ns.
#[test]
fn a_full_hub_is_shared() {
    let greedy = "source = 'greedy'\npattern = 'uniform'";
    let text = star(8, &hub(4), "adapter.send_buffers = 4", greedy, "5 ms");
    let text = text.replace("adapter.send_buffers = 'unlimited'\n", "");
    let seen = run(&text, 1);
    let delivered = seen.observations.delivered as f64;
    assert!((delivered * 1.05 / 5_000.0 - 1.0).abs() < 0.005, "{delivered}");
    let by_host = seen.observations.fairness.delivered();
    let (least, most) = (by_host.iter().min(), by_host.iter().max());
    let (least, most) = (least.expect("hosts"), most.expect("hosts"));
    assert!(most - least <= most / 20, "{by_host:?}");
}

/// Five hubs in a cycle, each with a host.
fn cycle() -> String {
    let names = ["a", "b", "c", "d", "e"];
    let switches: Vec<(&str, u32)> = names.iter().map(|name| (*name, 3)).collect();
    let ends: Vec<(String, String)> = (0..5)
        .flat_map(|own: usize| {
            let (name, next) = (names[own], names[(own + 1) % 5]);
            [
                (format!("host {own}"), format!("{name}.0")),
                (format!("{name}.1"), format!("{next}.2")),
            ]
        })
        .collect();
    let cables: Vec<(&str, &str)> =
        ends.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    table(&switches, &cables, "")
}

/// Each of five hubs in a cycle, which hold one packet at each port, has a host that sends two packets
/// two hubs further: the next hub has no place for what comes by the cable between them.
pub(super) fn stands_still(hub: &str) {
    let packets: Vec<(u64, u32, u32)> =
        (0..5).flat_map(|from| [(0, from, (from + 2) % 5); 2]).collect();
    let of = |deadlock: &str| {
        let channel = format!("{}\n{deadlock}", cycle());
        star(5, hub, &channel, &listed(&packets), "300 us")
    };
    let said = refusal(&of(""));
    assert!(said.contains("a cycle of buffers") && said.contains("of switch a"), "{said}");
    let seen = run(&of("deadlock = 'allowed'"), 1);
    assert_eq!((seen.observations.delivered, seen.backlog + seen.in_flight), (0, 10));
    assert_eq!(seen.judgement.verdict, Verdict::Stuck, "{:?}", seen.waiting);
    for hub in ["a", "b", "c", "d", "e"] {
        assert!(seen.waiting[0].contains(&format!("switch {hub}")), "{:?}", seen.waiting);
    }
}

#[test]
fn a_cycle_of_hubs_is_found() {
    stands_still(&hub(1));
}

/// What does not go together has its reason in what a hub is.
#[test]
fn a_hub_among_switches_says_what_it_needs() {
    let of = |hub: &str, channel: &str| {
        let fabric = behind_a_hub("");
        let fabric = fabric.split("\nswitches.h.").next().expect("a fabric").to_owned();
        refusal(&file(5, &format!("{fabric}\nswitches.h.{hub}\n{channel}"), "load = 0.05", "1 ms"))
    };
    let with =
        |ports: u32, transfer: &str| format!("hub = {{ ports = {ports}, transfer.{transfer} }}");
    let acknowledged = "control.request_acknowledge = { timeout = '9 us', outstanding = 4, \
                        acknowledgment = '25 B' }";
    let disabled =
        format!("{}\ndisabled = [{{ host = 1 }}]", acknowledged.replace("25 B", "125 B"));
    for (hub, channel, said) in [
        (with(4, "bus = {}"), "", "missing key `buffer` in channel.c.switches.h.hub.transfer.bus"),
        (with(4, "bus = {}"), "", "the packets that each port of the hub holds"),
        (with(3, "bus.buffer = 4"), "", "channel.c.switches.h.hub.ports = 3 does not fit"),
        (with(3, "bus.buffer = 4"), "", "4 or more, since so many cables"),
        (with(65, "bus.buffer = 4"), "", "1 to 64 ports, with `window` and without"),
        (
            "hub = { ports = 4, transfer = 'direct' }".to_owned(),
            "",
            "a direct cable, with nothing in its middle",
        ),
        (
            with(4, "crossbar = { buffer = 4, arbiter = 'request_sampling' }"),
            "flow_control.virtual_channel_credits.channels = 2",
            "1 where switches.h is a hub with a crossbar: each of its inputs has one queue",
        ),
        (
            hub(3),
            "flow_control.virtual_channel_credits.channels = 4",
            "channel.c.switches.h.hub.transfer.bus.buffer = 3",
        ),
        (hub(4), acknowledged, "when a packet of that size has passed it"),
        (hub(4), &disabled, "it only without hub, which does not ask"),
        (
            hub(4),
            "switches.s.shared_buffer = { latency = '90 ns', memory = '1 MB' }",
            "it gives credits for packets of one size",
        ),
    ] {
        let own = of(&hub, channel);
        assert!(own.contains(said), "{said}: {own}");
    }
    // Windows belong around the one hub of a star, and what waits for that waits in its host.
    let window = "window = { mappings = 'all', page = '8 KiB', size = '1 MiB', write = '100 B', \
                  receive_buffers = 16 }";
    let load = "load = 0.05";
    let buffered = refusal(&star(4, &hub(4), window, load, "1 ms"));
    assert!(buffered.contains("channel.c.switch.hub.transfer.bus.buffer = 4"), "{buffered}");
    assert!(buffered.contains("whose packets wait in their adapters"), "{buffered}");
    let tree = format!("{window}\nfabric.k_ary_tree = {{ arity = 2, levels = 2 }}");
    let tree = refusal(&star(4, &hub(4), &tree, load, "1 ms"));
    assert!(tree.contains("one hub sees them all"), "{tree}");
}
