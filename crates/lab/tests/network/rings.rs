//! Rings among switches, in exact picoseconds worked by hand and by laws.
//!
//! A packet of 80 B takes 400 ns on a link of a ring and on a cable, an acknowledgment of 8 B takes
//! 40, every link and cable delays by 10 ns, a bypass by 100, a bridge by 50 and a switch by 90.

use std::fmt::Write as _;

use proptest::prelude::*;
use weft_fabric::measure::{Latency, Stage};
use weft_kernel::Halt;
use weft_lab::statistics::Verdict;
use weft_lab::{Cell, ChannelRun, Options, Plan, Request, simulate};

use super::{refusal, run, table};

pub(super) const RING: &str = "acknowledgment = '8 B', bypass = '100 ns'";

/// A channel of some switches and cables; `channel` has further keys.
pub(super) fn file(hosts: u32, table: &str, channel: &str, workload: &str, length: &str) -> String {
    format!(
        "[system]\ntitle = 'rings'\nhosts = {hosts}\n\
         [channel.c]\npacket = '80 B'\npayload = '64 B'\nadapter.send_buffers = 'unlimited'\n\
         link = {{ rate = '200 MB/s', length = '2 m', delay_per_metre = '5 ns' }}\n\
         switch.output_queued.latency = '90 ns'\n{table}\n{channel}\n\
         [workload.c]\n{workload}\n[run]\nlength = '{length}'\nregime = 'from_empty'\n"
    )
}

/// Hosts 0 to 2 on the ring r, 3 to 5 on q, 6 at the switch s between them.
fn two_rings(cable: &str) -> String {
    let hosts = [
        ("host 0", "r.0"),
        ("host 1", "r.1"),
        ("host 2", "r.2"),
        ("host 3", "q.0"),
        ("host 4", "q.1"),
        ("host 5", "q.2"),
        ("host 6", "s.2"),
    ];
    let cables = [&hosts[..], &[("r.3", "s.0"), ("q.3", "s.1")]].concat();
    table(&[("r", 4), ("q", 4), ("s", 3)], &cables, cable)
}

/// The rings r and q, whose bridges hold so many requests.
fn bridges(r: u32, q: u32) -> String {
    let ring = |name: &str, buffer: u32| {
        format!(
            "switches.{name}.ring = {{ {RING}, \
             bridge = {{ buffer = {buffer}, latency = '50 ns' }} }}\n"
        )
    };
    ring("r", r) + &ring("q", q)
}

/// Packets, each a time in nanoseconds, an initiator and a target.
pub(super) fn listed(packets: &[(u64, u32, u32)]) -> String {
    let one = |(ns, from, to): &(u64, u32, u32)| {
        format!("{{ time = '{ns} ns', from = {from}, to = {to} }}")
    };
    let packets: Vec<String> = packets.iter().map(one).collect();
    format!("source.list = [{}]", packets.join(", "))
}

/// One-way latencies of all packets together, in nanoseconds, and how many stations and switches
/// they passed.
pub(super) fn one_way(run: &ChannelRun) -> (u64, u64, f64) {
    let seen = run.observations.recorder(Latency::OneWay);
    let ns = |ps: u128| {
        assert_eq!(ps % 1_000, 0);
        (ps / 1_000) as u64
    };
    let most = seen.max().expect("a packet").0;
    (ns(seen.sum_ps()), ns(most.into()), run.observations.hops.mean().expect("a packet"))
}

fn spent(run: &ChannelRun) -> [u128; 6] {
    let stages = [
        Stage::SlotWait,
        Stage::Retry,
        Stage::Transmission,
        Stage::Wire,
        Stage::Switch,
        Stage::SwitchWait,
    ];
    stages.map(|stage| run.observations.budget.sum_ps(stage) / 1_000)
}

fn count(run: &ChannelRun, name: &str) -> u64 {
    run.counters.iter().find(|own| own.0 == name).expect(name).1 as u64
}

/// What a run shows but for the names of places.
fn shown(run: &ChannelRun) -> String {
    let seen = &run.observations;
    let sums = Latency::ALL.map(|kind| (seen.recorder(kind).sum_ps(), seen.recorder(kind).max()));
    format!("{sums:?} {:?} {:?} {:?} {:?}", seen.budget, seen.hops, seen.attempts, run.counters)
}

/// A table of one ring, each host of which is in the port with a number.
fn one_ring(ports: [u32; 4]) -> String {
    let ends = (0..4).zip(ports).map(|(host, port)| (format!("host {host}"), format!("r.{port}")));
    let ends: Vec<(String, String)> = ends.collect();
    let cables: Vec<(&str, &str)> =
        ends.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
    table(&[("r", 4)], &cables, "")
}

/// Sources and errors belong to hosts, links and their errors to stations, of which a star has one
/// for each host in their order.
#[test]
fn a_table_of_one_ring_is_a_ring() {
    let ring = "switch.ring = { acknowledgment = '8 B', bypass = '100 ns', retries = 3, \
                links = [{}, { rate = '100 MB/s', errors.packet_error_rate = 0.3 }, {}, \
                { length = '9 m' }] }";
    let receiver = "receiver = { buffers = 2, service = '500 ns' }";
    let errors = format!("{receiver}\nerrors.packet_error_rate = 0.05");
    // Where hosts are in other ports, the star has the packets of the hosts in the same places.
    let ports = [2, 0, 3, 1];
    let packets: Vec<(u64, u32, u32)> = (0_u32..80)
        .map(|number| (450 * u64::from(number), number % 4, (number + 1 + number / 4 % 3) % 4))
        .collect();
    let of_star: Vec<(u64, u32, u32)> = packets
        .iter()
        .map(|(ns, from, to)| (*ns, ports[*from as usize], ports[*to as usize]))
        .collect();
    let load = "load = 0.2".to_owned();
    for (ports, channel, of_star, workload) in [
        ([0, 1, 2, 3], errors.as_str(), load.clone(), load),
        (ports, receiver, listed(&of_star), listed(&packets)),
    ] {
        for message in ["", "\nmessage = '200 B'"] {
            let run_in = |fabric: &str, workload: &str| {
                let text = file(4, fabric, channel, &format!("{workload}{message}"), "400 us");
                run(&text.replace("switch.output_queued.latency = '90 ns'", ring), 3)
            };
            let (star, laid) = (run_in("", &of_star), run_in(&one_ring(ports), &workload));
            assert_eq!(shown(&star), shown(&laid));
            assert_eq!(star.observations.busy(), laid.observations.busy());
            assert_eq!(star.steps, laid.steps);
            let delivered = star.observations.delivered;
            assert!(delivered > 40 && count(&star, "ring_damaged") > 0, "{delivered}");
        }
    }
}

#[test]
fn one_packet_over_two_rings_by_hand() {
    let over = |from, to| {
        let text = file(7, &two_rings(""), &bridges(8, 8), &listed(&[(0, from, to)]), "100 us");
        run(&text, 1)
    };
    // It passes 1 and 2 and is whole in the bridge of r at 630 ns. That begins at 680, s at 780; it
    // is whole in the bridge of q at 1190, which begins at 1240.
    let all = over(0, 3);
    assert_eq!(one_way(&all), (1_650, 1_650, 3.0));
    assert_eq!(spent(&all), [0, 0, 1_200, 60, 390, 0]);
    let counters = ["ring_requests", "bridge_accepted", "bridge_refused"];
    assert_eq!(counters.map(|name| count(&all, name)), [2, 1, 0]);
    // The links of r carry the request up to the bridge, then its acknowledgment; those of q the
    // other way round.
    let busy = all.observations.busy();
    let ns: Vec<u64> = busy.iter().map(|span| span.0 / 1_000).collect();
    // Ports of r, of q, of s, of hosts, then links of r and of q.
    assert_eq!(ns[..4 + 4 + 3], [0, 0, 0, 400, 0, 0, 0, 0, 0, 400, 0]);
    assert_eq!(ns[11..18], [0; 7]);
    assert_eq!(ns[18..], [400, 400, 400, 40, 40, 40, 40, 400]);
    // From s at 100 ns it is whole in the bridge at 510.
    let inward = over(6, 3);
    assert_eq!(one_way(&inward), (970, 970, 1.0));
    assert_eq!(spent(&inward), [0, 0, 800, 30, 140, 0]);
    // It leaves s at 780, and its last byte is at host 6 at 1190.
    let outward = over(0, 6);
    assert_eq!(one_way(&outward), (1_190, 1_190, 3.0));
    assert_eq!(spent(&outward), [0, 0, 800, 50, 340, 0]);
}

/// Whole in the bridge of r at 410 ns, in that of q at 870.
#[test]
fn two_rings_may_share_a_bridge_by_a_cable() {
    let cables = [("host 0", "r.0"), ("host 1", "q.0"), ("r.1", "q.1")];
    let rings = table(&[("r", 2), ("q", 2)], &cables, "");
    let seen = run(&file(2, &rings, &bridges(1, 1), &listed(&[(0, 0, 1)]), "100 us"), 1);
    assert_eq!(one_way(&seen), (1_330, 1_330, 0.0));
    assert_eq!(spent(&seen), [0, 0, 1_200, 30, 100, 0]);
}

/// The cable from r to s takes 800 ns, from 460 on, so that the second request finds the one place
/// taken at 810 and is back with its host at 1080. It comes again at 1490, and from the slow cable
/// it leaves s at 2040.
#[test]
fn a_busy_bridge_refuses_and_is_asked_again() {
    let table = two_rings(", link = { rate = '100 MB/s' }");
    let packets = listed(&[(0, 2, 6), (0, 2, 6)]);
    let one = run(&file(7, &table, &bridges(1, 8), &packets, "100 us"), 1);
    assert_eq!(one_way(&one), (1_370 + 2_450, 2_450, 1.0));
    let counters = ["ring_requests", "ring_refused", "bridge_refused", "bridge_accepted"];
    assert_eq!(counters.map(|name| count(&one, name)), [3, 1, 1, 2]);
    assert_eq!(spent(&one)[..2], [400, 680]);
    // With a second place it waits in the bridge for the cable, from 860 to 1260.
    let two = run(&file(7, &table, &bridges(2, 8), &packets, "100 us"), 1);
    assert_eq!(one_way(&two), (1_370 + 2_170, 2_170, 1.0));
    assert_eq!((count(&two, "bridge_refused"), spent(&two)[5]), (0, 400));
}

/// What crosses a bridge has its place there, whether its cable has to wait (for a bridge) or not
/// (for s). The first request is whole in the bridge at 410 ns and is sent from 1410 to 1810. With
/// one place the second is refused at 810 and at 1490, and accepted at 2170.
#[test]
fn what_crosses_a_bridge_has_a_place_in_it() {
    let channel = |buffer: u32| {
        format!(
            "switches.r.ring = {{ {RING}, bridge = {{ buffer = {buffer}, latency = '1 us' }} }}\n\
             switches.q.ring = {{ {RING}, bridge = {{ buffer = 8, latency = '50 ns' }} }}"
        )
    };
    let counters = ["ring_requests", "ring_refused", "bridge_refused", "bridge_accepted"];
    let counts = |run: &ChannelRun| counters.map(|name| count(run, name));
    // From the bridge to host 6 it takes 510 ns.
    let to_s = |buffer| {
        let packets = listed(&[(0, 2, 6), (0, 2, 6)]);
        run(&file(7, &two_rings(""), &channel(buffer), &packets, "100 us"), 1)
    };
    let (one, two) = (to_s(1), to_s(2));
    assert_eq!(one_way(&one), (1_920 + 3_680, 3_680, 1.0));
    assert_eq!(one_way(&two), (1_920 + 2_320, 2_320, 1.0));
    assert_eq!([counts(&one), counts(&two)], [[4, 2, 2, 2], [2, 0, 0, 2]]);
    // From the bridge to host 3, over that of q, it takes 870.
    let hosts = [("host 0", "r.0"), ("host 1", "r.1"), ("host 2", "r.2"), ("host 3", "q.0")];
    let cables = [&hosts[..], &[("r.3", "q.1")]].concat();
    let rings = table(&[("r", 4), ("q", 2)], &cables, "");
    let to_q = |buffer| {
        let packets = listed(&[(0, 2, 3), (0, 2, 3)]);
        run(&file(4, &rings, &channel(buffer), &packets, "100 us"), 1)
    };
    let (one, two) = (to_q(1), to_q(2));
    assert_eq!(one_way(&one), (2_280 + 4_040, 4_040, 0.0));
    assert_eq!(one_way(&two), (2_280 + 2_680, 2_680, 0.0));
    assert_eq!([counts(&one), counts(&two)], [[6, 2, 2, 2], [4, 0, 0, 2]]);
}

/// The bridge of q sends the first request from 1020 to 1430 and has its acknowledgment at 1700 ns.
/// Until 1710 the second one waits in s, where it came through at 960.
#[test]
fn a_bridge_keeps_a_request_until_its_ring_has_accepted_it() {
    let packets = listed(&[(0, 2, 3), (0, 2, 3)]);
    let one = run(&file(7, &two_rings(""), &bridges(8, 1), &packets, "100 us"), 1);
    assert_eq!(one_way(&one), (1_430 + 2_580, 2_580, 1.0));
    assert_eq!((spent(&one)[0], spent(&one)[5]), (400, 750));
    let two = run(&file(7, &two_rings(""), &bridges(8, 2), &packets, "100 us"), 1);
    assert_eq!(one_way(&two), (1_430 + 1_830, 1_830, 1.0));
}

/// Three rings in a row, whose middle one has no host, with or without a switch with a clock after
/// it.
fn row(clocked: bool) -> String {
    let more = match clocked {
        true => "switches.s.input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 2 }",
        false => "switches.s.output_queued = { latency = '90 ns', buffers = 'unlimited' }",
    };
    let hosts = [("host 0", "a.0"), ("host 1", "a.1"), ("host 2", "a.2")];
    let others = [("host 3", "c.0"), ("host 4", "c.1"), ("host 5", "c.2")];
    let cables = [("a.3", "b.1"), ("b.0", "s.0"), ("s.1", "c.3")];
    let switches = [("a", 4), ("b", 2), ("c", 4), ("s", 2)];
    table(&switches, &[&hosts[..], &others, &cables].concat(), "") + "\n" + more
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever is handed to rings with errors, small receivers and small bridges comes through,
    /// once, or is given up; and every request but the accepted ones was repeated or given up.
    #[test]
    fn rings_lose_nothing(
        packets in prop::collection::vec((0u64..40_000, 0u32..6, 1u32..6), 1..60),
        buffers in [1u32..4, 1..4, 1..4],
        error_rate in 0.0f64..0.2,
        retries in 0u32..5,
        outstanding in 1u32..4,
        clocked in any::<bool>(),
        seed in 1u64..1_000,
    ) {
        let limit = if retries == 0 { "'unlimited'".to_owned() } else { retries.to_string() };
        let mut channel = "receiver = { buffers = 1, service = '700 ns' }\n".to_owned();
        writeln!(channel, "errors.packet_error_rate = {error_rate}").expect("a string");
        for (name, buffer) in ["a", "b", "c"].iter().zip(buffers) {
            writeln!(
                channel,
                "switches.{name}.ring = {{ {RING}, bridge.buffer = {buffer}, retries = {limit}, \
                 outstanding = {outstanding}, retry_after = '300 ns' }}"
            ).expect("a string");
        }
        let packets: Vec<_> =
            packets.iter().map(|(ns, from, step)| (*ns, *from, (from + step) % 6)).collect();
        let own = run(&file(6, &row(clocked), &channel, &listed(&packets), "2 ms"), seed);
        let seen = &own.observations;
        prop_assert_eq!(seen.generated as usize, packets.len());
        prop_assert_eq!((own.backlog, own.in_flight), (0, 0));
        prop_assert_eq!(seen.delivered + seen.abandoned, seen.generated);
        prop_assert_eq!(seen.abandoned, count(&own, "ring_given_up"));
        prop_assert!(retries > 0 || seen.abandoned == 0);
        let accepted = seen.delivered + count(&own, "bridge_accepted");
        let again = count(&own, "ring_damaged") + count(&own, "ring_refused");
        prop_assert_eq!(count(&own, "ring_requests"), accepted + again);
        // A packet between a and c leaves two rings by bridges, unless it is given up on its way,
        // and any other none.
        let is_far = |&&(_, from, to): &&(u64, u32, u32)| (from < 3) != (to < 3);
        let far = packets.iter().filter(is_far).count() as u64;
        let crossed = count(&own, "bridge_accepted");
        prop_assert!(crossed <= 2 * far && (seen.abandoned > 0 || crossed == 2 * far));
        let one_way = seen.recorder(Latency::OneWay);
        prop_assert_eq!(one_way.sum_ps(), seen.budget.total_ps());
    }
}

/// Sources under load, with hosts at rings and at a switch, alike with a trace and without.
#[test]
fn sources_share_rings_and_a_switch() {
    for (switch, flow_control) in [
        ("", ""),
        ("switches.s.output_queued = { latency = '90 ns', buffers = 2 }", ""),
        (
            "switches.s.input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 4 }",
            "flow_control.virtual_channel_credits.channels = 2",
        ),
        ("switches.s.hub = { ports = 3, latency = '90 ns', transfer.bus.buffer = 4 }", ""),
    ] {
        let channel = format!("{}\n{switch}\n{flow_control}", bridges(2, 4));
        let text = file(7, &two_rings(""), &channel, "load = 0.1", "400 us");
        let (plain, traced) = (run(&text, 5), run(&(text + "trace = true\n"), 5));
        let seen = &plain.observations;
        assert!(seen.delivered > 400, "{switch}: {}", seen.delivered);
        let held = plain.backlog + plain.in_flight;
        assert_eq!(seen.generated, seen.delivered + seen.abandoned + held);
        assert_eq!(shown(&plain), shown(&traced));
        assert_eq!(traced.trace.len() as u64, seen.delivered);
    }
}

/// Messages of five packets, one from each host to each other, over bridges and without.
#[test]
fn messages_cross_bridges() {
    let ways: Vec<(u64, u32, u32)> = (0_u32..42)
        .map(|way| (3_000 * u64::from(way), way % 7, (way % 7 + 1 + way / 7) % 7))
        .collect();
    let workload = format!("message = '300 B'\n{}", listed(&ways));
    let seen = run(&file(7, &two_rings(""), &bridges(2, 1), &workload, "1 ms"), 2);
    let all = &seen.observations;
    assert_eq!((all.generated, all.delivered, all.abandoned), (42, 42, 0));
    assert_eq!((seen.backlog, seen.in_flight), (0, 0));
    // Each of six hosts on rings has four targets that are not on its ring.
    assert_eq!(count(&seen, "bridge_accepted"), 6 * 4 * 5);
}

/// Five rings in a cycle, each with a host and two bridges.
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

/// A file of these rings, whose bridges have one place in each direction.
fn in_a_cycle(channel: &str, workload: &str, length: &str) -> String {
    let ring = format!("switch.ring = {{ {RING}, bridge.buffer = 1 }}");
    let text = file(5, &cycle(), channel, workload, length);
    text.replace("switch.output_queued.latency = '90 ns'", &ring)
}

/// Over a cycle of rings bridges can wait for each other: busy ones refuse, but what they hold
/// waits for the next.
#[test]
fn a_cycle_of_bridges_is_found() {
    let two_further = "pattern.shift = 2\nload = 0.9";
    let said = refusal(&in_a_cycle("", two_further, "200 us"));
    assert!(said.contains("a cycle of buffers") && said.contains("of switch a"), "{said}");
    assert!(said.contains("one queue for all virtual channels"), "{said}");
    // All send two rings further, and each bridge holds a packet that the next one refuses.
    let seen = run(&in_a_cycle("deadlock = 'allowed'", two_further, "200 us"), 1);
    assert!(count(&seen, "bridge_refused") > 10 && seen.backlog > 0);
    // One ring further no bridge holds what another one has to take.
    let one_further = "pattern.shift = 1\nload = 0.1";
    let near = run(&in_a_cycle("deadlock = 'allowed'", one_further, "200 us"), 1);
    assert!(near.observations.delivered > 100);
}

/// Each host sends two packets two rings further. The first is in the bridge of the next ring at
/// 820 ns, where the place before the next cable has been taken since 810 by the second packet of
/// the host there. That one waits for the place of such a first packet. All go round and are
/// refused from then on, and a run names the cycle at whatever instant of that it ends.
#[test]
fn a_run_names_the_cycle_of_bridges_whenever_it_ends() {
    let packets: Vec<(u64, u32, u32)> =
        (0..5).flat_map(|from| [(0, from, (from + 2) % 5); 2]).collect();
    for length in (300_000..302_000).step_by(100) {
        let length = format!("{length} ns");
        let seen = run(&in_a_cycle("deadlock = 'allowed'", &listed(&packets), &length), 1);
        assert_eq!((seen.observations.delivered, seen.backlog, seen.in_flight), (0, 0, 10));
        assert_eq!(seen.judgement.verdict, Verdict::Stuck, "{length}");
        let named = seen.waiting.iter().find(|line| line.contains("a cycle of switches"));
        let named = named.unwrap_or_else(|| panic!("{length}: {:?}", seen.waiting));
        for ring in ["a", "b", "c", "d", "e"] {
            assert!(named.contains(&format!("switch {ring}")), "{named}");
            let bridge =
                format!("1 packets wait in the bridge at port 2 of switch {ring} until a station");
            let is_said = seen.waiting.iter().any(|line| line.starts_with(&bridge));
            assert!(is_said, "{length}: {:?}", seen.waiting);
        }
    }
}

/// The runs of a file, or why it is refused, before it runs or when it is put together.
fn tried(text: &str) -> Result<Vec<ChannelRun>, weft_lab::Error> {
    let plan = Plan::new(&Request::of_text("rings.toml", text))?;
    simulate(&plan.points[0].spec, 1, &Halt::new())
}

/// A program ends when nothing is left to happen, but bridges that wait for each other ask again
/// for ever.
#[test]
fn a_program_may_not_stand_still_unseen() {
    let text = in_a_cycle("deadlock = 'allowed'", "load = 0.1", "10 us");
    let (channel, _) = text.split_once("[workload.c]").expect("a workload");
    let program = "[program]\nrun.ping_pong = { size = '64 B', rounds = 3, pair = [0, 3] }\n";
    let said = tried(&format!("{channel}{program}")).map(drop).expect_err("a refusal").to_string();
    assert!(said.contains("channel.c.deadlock = allowed"), "{said}");
    assert!(said.contains("stations ask for ever again"), "{said}");
    // Two rings have no cycle.
    let text = file(7, &two_rings(""), &bridges(1, 1), "load = 0.1", "10 us");
    let (channel, _) = text.split_once("[workload.c]").expect("a workload");
    tried(&format!("{channel}{program}")).expect("a run");
}

/// What does not go together has its reason in what stations and bridges are.
#[test]
fn a_ring_among_switches_says_what_it_needs() {
    let (rings, bridges) = (two_rings(""), bridges(2, 2));
    let file = |table: &str, channel: &str| file(7, table, channel, "load = 0.1", "10 us");
    let no_bridge =
        bridges.replacen("bridge = { buffer = 2, latency = '50 ns' }", "retries = 2", 1);
    let on_a_host = rings.replace("to = 'r.0'", "to = 'r.0', link = { length = '9 m' }");
    for (text, said) in [
        (file(&rings, &no_bridge), "the bridge at port 3 of switch r, which stores"),
        (file(&on_a_host, &bridges), "the adapter of a host is the station itself"),
        (
            file(
                &rings,
                &format!(
                    "{bridges}flow_control.stop_go = {{ stop = 4, go = 2, reaction = '70 ns' }}"
                ),
            ),
            "until it is acknowledged and then give a credit",
        ),
        (
            file(&rings, &format!("{bridges}receiver = {{ buffers = 2, service = '1 us' }}")),
            "it where all hosts are on rings",
        ),
        (
            file(&rings, &format!("{bridges}errors.packet_error_rate = 0.1")),
            "it where all hosts are",
        ),
        (
            file(&rings, &bridges.replacen("bridge =", "links = [{}], bridge =", 1)),
            "4, the link of each port to the next",
        ),
        (
            file(
                &rings,
                &format!("{bridges}switches.s.shared_memory = {{ latency = '1 ns', buffer = 8 }}"),
            ),
            "ring, output_queued, input_queued or hub beside a ring",
        ),
        (file(&rings, &format!("{bridges}planes = 2")), "a host is one station"),
        (
            file(&rings, &format!("{bridges}flow_control.virtual_channel_credits.channels = 4")),
            "channel.c.switches.r.ring.bridge.buffer",
        ),
    ] {
        let own = refusal(&text);
        assert!(own.contains(said), "{said}: {own}");
    }
    let messages = bridges.replacen("bridge =", "retries = 3, bridge =", 1);
    let text = file(&rings, &messages).replace("load = 0.1", "load = 0.1\nmessage = '99 B'");
    assert!(refusal(&text).contains("its initiator is not told of a loss"));
    let alone = "switch.ring = { acknowledgment = '8 B', bridge.buffer = 2 }";
    let text = file("", "").replace("switch.output_queued.latency = '90 ns'", alone);
    assert!(refusal(&text).contains("it only where a cable leads from a port of the ring"));
    // A table of one ring has as little choice as a star.
    let routes = format!("switches.r.ring = {{ {RING} }}\nroutes.per_packet = 'random'");
    let text = self::file(4, &one_ring([0, 1, 2, 3]), &routes, "load = 0.1", "10 us");
    assert!(refusal(&text).contains("no routes on a ring, which has one way round"));
}

/// The ends of the links that a run shows.
fn links_of(text: &str) -> Vec<(String, String)> {
    let request = Request::of_text("rings.toml", text);
    let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true).expect("a run");
    let links = outcome.table("links");
    let shown = |row: usize| {
        let text = |column: &str| match links.get(row, column) {
            Some(Cell::Text(text)) => Some(text),
            _ => None,
        };
        (text("from").expect("a name"), text("to").expect("a name"))
    };
    (0..links.rows()).map(shown).collect()
}

fn owned(ends: &[(&str, &str)]) -> Vec<(String, String)> {
    ends.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
}

/// Each station has a link to the next, and each bridge a cable; a host has none beside its
/// station.
#[test]
fn links_of_rings_have_the_names_of_their_stations() {
    let text = file(7, &two_rings(""), &bridges(2, 2), "load = 0.05", "50 us");
    let expected = [
        ("switch r", "switch s"),
        ("switch q", "switch s"),
        ("switch s", "switch r"),
        ("switch s", "switch q"),
        ("switch s", "host 6"),
        ("host 6", "switch s"),
        ("host 0", "host 1"),
        ("host 1", "host 2"),
        ("host 2", "port 3 of switch r"),
        ("port 3 of switch r", "host 0"),
        ("host 3", "host 4"),
        ("host 4", "host 5"),
        ("host 5", "port 3 of switch q"),
        ("port 3 of switch q", "host 3"),
    ];
    assert_eq!(links_of(&text), owned(&expected));
}

/// The one switch of a table is what is given for it by its name, and not what is given for all.
#[test]
fn one_switch_may_be_a_ring_or_none() {
    let fabric = "fabric.table = { switches = [{ name = 'r', ports = 4, unused = [1] }], \
                  cables = [{ from = 'host 0', to = 'r.2' }, { from = 'host 1', to = 'r.0' }, \
                  { from = 'host 2', to = 'r.3' }] }";
    let (ring, queued) = (format!("ring = {{ {RING} }}"), "output_queued.latency = '90 ns'");
    let of = |all: &str, own: &str, more: &str| {
        let channel = format!("switches.r.{own}\n{more}");
        let text = file(3, fabric, &channel, "load = 0.05", "50 us");
        text.replace("switch.output_queued.latency = '90 ns'", &format!("switch.{all}"))
    };
    let stations = [
        ("host 1", "port 1 of switch r"),
        ("port 1 of switch r", "host 0"),
        ("host 0", "host 2"),
        ("host 2", "host 1"),
    ];
    assert_eq!(links_of(&of(queued, &ring, "")), owned(&stations));
    let ports = [
        ("switch r", "host 1"),
        ("switch r", "host 0"),
        ("switch r", "host 2"),
        ("host 0", "switch r"),
        ("host 1", "switch r"),
        ("host 2", "switch r"),
    ];
    assert_eq!(links_of(&of(&ring, queued, "")), owned(&ports));
    // Without a ring no station refuses and repeats.
    let said = refusal(&of(&ring, queued, "receiver = { buffers = 2, service = '1 us' }"));
    assert!(said.contains("it only with control.request_acknowledge"), "{said}");
}
