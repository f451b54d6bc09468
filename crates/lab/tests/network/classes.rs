//! Channels with traffic classes, bare: the headroom of a pause to the byte, and random compositions, in
//! which nothing is lost but by a rule and every division shows the same bytes.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use proptest::prelude::*;
use weft_fabric::fabric::{FabricSettings, Peer, Routes, RoutesSettings};
use weft_fabric::graph::SwitchParts;
use weft_fabric::link::{FlowControl, LinkSettings};
use weft_fabric::measure::Observations;
use weft_fabric::switch::shared_buffer::{
    ClassSettings, HeadroomParts, Memory, MemoryParts, SwitchRule, headroom,
};
use weft_fabric::switch::{OutputQueuedSettings, SharedBufferSettings};
use weft_fabric::workload::{ChannelFacts, WorkloadSettings};
use weft_kernel::{Halt, Streams};
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::Carrier as _;
use weft_lab::drive::engine::{Alone, ClassedParts, ConnectionParts, Engine, EngineParts, Traffic};
use weft_units::{Bytes, Limit, Span, Time};

use super::parts::random_table;
use crate::settings;

#[derive(serde::Deserialize)]
struct Parts {
    classes: usize,
    /// Whether switches write into packets.
    telemetry: bool,
    fabric: FabricSettings,
    routes: RoutesSettings,
    link: LinkSettings,
    switch: SharedBufferSettings,
    /// Every switch whose number has no bit in `shared`.
    other: OutputQueuedSettings,
    shared: u32,
    workload: WorkloadSettings,
    beside: BTreeMap<String, WorkloadSettings>,
}

const PACKET: Bytes = Bytes(1000);

/// A channel of packets of up to 1000 bytes that ends at `until`; an input keeps so much less for pauses than
/// it should.
fn channel(text: &str, hosts: u32, (seed, until): (u64, Time), less: u64) -> Engine {
    let parts: Parts = settings::read(text);
    let streams = Streams::new(seed);
    let wiring = parts.fabric.wiring(hosts, parts.link.rate).expect(text);
    let routes = Routes::new(&parts.routes, &wiring, streams.stream("c.routes", 0)).expect(text);
    let facts = |name, packet| ChannelFacts {
        name,
        hosts,
        packet,
        packet_span: parts.link.span(packet),
        slot_span: None,
    };
    let mut by_class = parts.switch.by_class().expect(text);
    by_class.resize(parts.classes, ClassSettings::default());
    let links = wiring.links(&parts.link);
    let kept = |port: u32, class: &ClassSettings| match (&class.pfc, wiring.peer(port)) {
        (None, _) | (_, Peer::Unused) => Bytes(0),
        (Some(pfc), _) => {
            let (link, latency) = (&links[wiring.link_of(port)], parts.switch.latency);
            let own = HeadroomParts { link, packet: PACKET, response: pfc.response, latency };
            Bytes(headroom(own).0 - less)
        }
    };
    let switches: Vec<SwitchRule> = (0..wiring.switches())
        .map(|number| {
            let random = streams.stream("c.marks", number as usize);
            if parts.shared >> number & 1 == 0 {
                let most = parts.other.buffers.count().map_or(u32::MAX, |count| count.get());
                let (latency, forwarding) = (parts.other.latency, Default::default());
                let classes = Vec::new();
                return SwitchRule { latency, forwarding, most, classes, memory: None, random };
            }
            let ports = wiring.ports_of(number);
            let of_port = |own| {
                let port = wiring.port(number, own);
                by_class.iter().map(move |class| (port, class))
            };
            let headroom = (0..ports).flat_map(of_port).map(|(port, own)| kept(port, own));
            SwitchRule {
                latency: parts.switch.latency,
                forwarding: parts.switch.forwarding,
                most: u32::MAX,
                classes: by_class.clone(),
                memory: Some(Memory::new(MemoryParts {
                    memory: parts.switch.memory,
                    ports: ports as usize,
                    classes: &by_class,
                    headroom: headroom.collect(),
                })),
                random,
            }
        })
        .collect();
    let of_graph = |own: &SwitchRule| {
        let (latency, buffers) = (own.latency, Limit::Unlimited);
        SwitchParts::OutputQueued(OutputQueuedSettings { latency, buffers })
    };
    let traffic = parts.beside.iter().map(|(name, own)| {
        let packet = own.packet.unwrap_or(PACKET);
        Traffic {
            sources: own.build(&facts(name, packet), &streams).expect(text),
            class: own.class.unwrap_or(0),
            packet,
            payload: Bytes(packet.0 - 50),
            start: own.start.unwrap_or(Span::ZERO),
            end: until,
        }
    });
    Engine::new(EngineParts {
        switches: switches.iter().map(of_graph).collect(),
        routes,
        flow: FlowControl { channels: 1, has_credits: false, stop_go: None, quench: None },
        packet: PACKET,
        payload: Bytes(950),
        send_buffers: Limit::Unlimited,
        sources: parts.workload.build(&facts("c", PACKET), &streams).expect(text),
        observations: Observations::over(Time(until.0 / 10), until)
            .of_hosts(hosts as usize)
            .of_classes(parts.classes),
        until,
        ring: None,
        turns: None,
        hub: None,
        connections: ConnectionParts::default(),
        adapters: None,
        flows: None,
        classed: Some(ClassedParts {
            switches,
            classes: parts.classes,
            hosts: by_class.iter().map(|own| own.schedule).collect(),
            class: parts.workload.class.unwrap_or(0),
            overhead: Bytes(50),
            traffic: traffic.collect(),
            has_telemetry: parts.telemetry,
            sample: None,
            cables: None,
        }),
        wiring,
        link: parts.link,
    })
}

/// Everything that a run shows, how many packets it delivered and gave up, and how many events that took.
fn shown(mut engine: Engine, until: Time) -> (String, usize, u64, u64) {
    let mut delivered = Vec::new();
    assert_eq!(engine.run_watched(until, &Halt::new(), |one| delivered.push(one)), None);
    let held = (engine.backlog(), engine.in_flight());
    let (report, waiting, steps) = (engine.network(), engine.waiting(), engine.steps());
    let seen = engine.into_observations();
    assert_eq!(seen.conserve(held.0 + held.1), Ok(()));
    let drops = seen.abandoned;
    let text = format!("{delivered:?}\n{held:?}\n{waiting:?}\n{report:?}\n{seen:?}");
    (text, delivered.len(), drops, steps)
}

/// Host 0 sends to host 2, whose cable is so slow that nothing leaves meanwhile. Its k-th packet (from 0)
/// leaves at 1000 + 80 k ns and is in the memory at 1390 + 80 k. Three fit below xoff; the fourth, at 1630, brings
/// a pause about. Hosts 1 and 3 keep the cable back to host 0 busy: a packet of 80 ns begins on it at 1630. The
/// pause leaves from 1710 on, takes 5.12 ns and the 10 ns of the cable, and is heeded 74.88 ns later, at
/// 1800, when packet 10 has just begun. So packets 3 to 10 come without room below xoff: 8000 bytes. That
/// is what `headroom` gives: two packets, and at 80 ps a byte 80 + 5.12 + 20 + 74.88 + 300 ns, 6000 bytes.
#[test]
fn the_headroom_is_just_enough() {
    let packets = |from: u32, to: u32, count: usize| {
        vec![format!("{{ time = '1 us', from = {from}, to = {to} }}"); count]
    };
    let list = [packets(0, 2, 20), packets(1, 0, 20), packets(3, 0, 20)].concat().join(", ");
    let text = format!(
        "classes = 8\ntelemetry = true\nroutes.per_packet = 'random'\nshared = 1\nother = {{}}\nbeside = {{}}\n\
         link = {{ rate = '100 Gbit/s', length = '2 m', delay_per_metre = '5 ns' }}\n\
         workload = {{ source.list = [{list}] }}\n\
         [fabric.table]\nswitches = [{{ name = 's', ports = 4 }}]\n\
         cables = [{{ from = 'host 0', to = 's.0' }}, {{ from = 'host 1', to = 's.1' }}, \
         {{ from = 'host 2', to = 's.2', link = {{ rate = '1 Gbit/s' }} }}, \
         {{ from = 'host 3', to = 's.3' }}]\n\
         [switch]\nlatency = '300 ns'\nmemory = '2 MB'\nforwarding = 'store_and_forward'\n\
         classes.0.pfc = {{ threshold.static = {{ xoff = '3000 B', xon = '0 B' }}, \
         response = '74880 ps' }}\n"
    );
    let until = Time(1_000_000_000);
    let run = |less| shown(channel(&text, 4, (1, until), less), until);
    let (_, delivered, drops, _) = run(0);
    assert_eq!((delivered, drops), (60, 0));
    let (_, delivered, drops, _) = run(1);
    assert_eq!((delivered, drops), (59, 1));
}

/// Classes that lose nothing beside others, of several sizes, over random switches and cables.
fn compositions() -> impl Strategy<Value = (String, u32, usize)> {
    let wiring = (
        prop::collection::vec((0_usize..100, 1_u32..4, 0_u32..200), 1..9),
        prop::collection::vec((0_usize..100, 0_usize..100), 0..5),
    );
    let rule = prop::sample::select(vec![
        "per_packet = 'random'",
        "per_packet = 'adaptive'",
        "per_connection = 'random'",
    ]);
    let pause = prop::sample::select(vec![
        "static = { xoff = '3 kB', xon = '1 kB' }",
        "static = { xoff = '0 B', xon = '0 B' }",
        "dynamic = { alpha = 0.125, below = '2 kB' }",
        "dynamic = { alpha = 1, below = '0 B' }",
    ]);
    let lossy = prop::sample::select(vec![
        "limit.alpha = 0.5",
        "limit.bytes = '5 kB', trim = { header = '64 B', class = 6 }",
        "reserved = '1500 B', ecn = { at = 'dequeue', law.step.threshold = '4 kB' }",
        "reserved = '1500 B', ecn = { at = 'dequeue', law.step.threshold = '0 B' }",
        "ecn = { at = 'enqueue', law.red = { kmin = '1 kB', kmax = '9 kB', pmax = 0.5 } }",
    ]);
    let rest = (
        prop::sample::select(vec!["cut_through", "store_and_forward"]),
        prop::sample::select(vec!["'strict'", "{ weight = 3 }"]),
        prop::sample::select(vec![0x3ff_u32, 0x3ff, 0b11_0110_0110]),
        // Beside telemetry no departure is planned.
        (50_u64..1000, any::<bool>()),
    );
    (wiring, rule, pause, lossy, rest).prop_map(|((links, more), rule, pause, lossy, rest)| {
        let (forwarding, schedule, shared, (packet, telemetry)) = rest;
        let (table, hosts) = random_table(&links, &more);
        let text = format!(
            "classes = 8\ntelemetry = {telemetry}\nroutes.{rule}\nshared = {shared}\nother = {{ latency = '40 ns' }}\n\
             link = {{ rate = '2 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n{table}\n\
             [switch]\nlatency = '300 ns'\nmemory = '400 kB'\nforwarding = '{forwarding}'\n\
             classes.0 = {{ {lossy} }}\n\
             classes.3 = {{ schedule = {schedule}, \
             pfc = {{ threshold.{pause}, response = '100 ns' }} }}\n\
             [workload]\nload = 0.5\nclass = 3\n\
             [beside]\nsmall = {{ load = 0.4, packet = '{packet} B' }}\n\
             late = {{ class = 3, load = 0.3, packet = '64 B', start = '90 us' }}\n"
        );
        (text, hosts, links.len() + 1)
    })
}

/// Packets of one class and several sizes: what is planned is held back by pauses. Over random switches and cables,
/// or the six routers of a dragonfly, where UGAL weighs what is planned at its own switch and at others.
fn of_one_class() -> impl Strategy<Value = (String, u32, usize)> {
    prop_oneof![3 => over_a_table().boxed(), 1 => over_a_dragonfly().boxed()]
        .prop_flat_map(|of| (Just(of), class_of_one()))
        .prop_map(|((fabric, hosts, switches), rest)| {
            let (class, forwarding, other, shared, packet) = rest;
            // What is marked when it has left must not have come anywhere by then.
            let (forwarding, shared) = match class.contains("departure") {
                true => ("store_and_forward", 0x3ff),
                false => (forwarding, shared),
            };
            let text = format!(
                "classes = 1\ntelemetry = false\nshared = {shared}\nother = {other}\n\
                 link = {{ rate = '2 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n{fabric}\n\
                 [switch]\nlatency = '300 ns'\nmemory = '100 kB'\nforwarding = '{forwarding}'\n\
                 classes.0 = {{ {class} }}\n\
                 [workload]\nload = 0.6\n\
                 [beside]\nsmall = {{ load = 0.4, packet = '{packet} B' }}\n\
                 late = {{ load = 0.3, packet = '64 B', start = '90 us' }}\n"
            );
            (text, hosts, switches)
        })
}

/// Random switches and cables with their routes, and how many hosts and switches there are.
fn over_a_table() -> impl Strategy<Value = (String, u32, usize)> {
    let wiring = (
        prop::collection::vec((0_usize..100, 1_u32..4, 0_u32..200), 1..9),
        prop::collection::vec((0_usize..100, 0_usize..100), 0..5),
    );
    let rule = prop::sample::select(vec!["per_packet = 'random'", "per_packet = 'adaptive'"]);
    (wiring, rule).prop_map(|((links, more), rule)| {
        let (table, hosts) = random_table(&links, &more);
        (format!("routes.{rule}\n{table}"), hosts, links.len() + 1)
    })
}

/// A dragonfly of six routers with a host each, the same.
fn over_a_dragonfly() -> impl Strategy<Value = (String, u32, usize)> {
    let rule = prop::sample::select(vec!["ugal", "ugal_global", "adaptive"]);
    let between = prop::sample::select(vec!["1 Gbit/s", "2 Gbit/s"]);
    (rule, between).prop_map(|(rule, between)| {
        let text = format!(
            "routes.per_packet = '{rule}'\n[fabric.dragonfly]\nhosts_per_router = 1\n\
             links = [{{}}, {{}}, {{ rate = '{between}' }}]"
        );
        (text, 6, 6)
    })
}

/// The class, how switches forward, those without a shared memory, which have one, and the size of small packets.
fn class_of_one() -> impl Strategy<Value = (&'static str, &'static str, &'static str, u32, u64)> {
    let class = prop::sample::select(vec![
        "pfc = { threshold.static = { xoff = '3 kB', xon = '1 kB' }, response = '100 ns' }",
        "pfc.threshold.static = { xoff = '0 B', xon = '0 B' }",
        "pfc.threshold.dynamic = { alpha = 0.125, below = '2 kB' }, \
         ecn = { at = 'enqueue', law.red = { kmin = '1 kB', kmax = '9 kB', pmax = 0.5 } }",
        "pfc.threshold.dynamic = { alpha = 1, below = '0 B' }",
        "limit.alpha = 0.5",
        "limit.bytes = '5 kB', ecn = { at = 'dequeue', law.step.threshold = '2 kB' }",
        "limit.bytes = '5 kB', ecn = { at = 'departure', law.step.threshold = '1 kB' }",
        "reserved = '1500 B', ecn = { at = 'enqueue', law.step.threshold = '2 kB' }",
    ]);
    (
        class,
        prop::sample::select(vec!["cut_through", "store_and_forward"]),
        prop::sample::select(vec!["{ latency = '40 ns' }", "{ latency = '0 ns', buffers = 3 }"]),
        prop::sample::select(vec![0x3ff_u32, 0x3ff, 0b11_0110_0110, 0]),
        50_u64..1000,
    )
}

/// Shows a channel as it runs, node by node, and with an event for every departure. Returns how many events either took.
fn compare_with_all_told(text: &str, hosts: u32, seed: u64) -> Result<(u64, u64), TestCaseError> {
    let until = Time(1_000_000_000);
    let (own, delivered, _, steps) = shown(channel(text, hosts, (seed, until), 0), until);
    prop_assert!(delivered > 50, "{} packets", delivered);
    let mut by_nodes = channel(text, hosts, (seed, until), 0);
    by_nodes.run_node_by_node();
    prop_assert_eq!(&own, &shown(by_nodes, until).0, "{}", text);
    let mut told = channel(text, hosts, (seed, until), 0);
    told.tell_every_departure();
    let (told, _, _, more) = shown(told, until);
    prop_assert_eq!(&own, &told, "{}", text);
    Ok((steps, more))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_division_shows_the_same_bytes_and_pauses_lose_nothing(
        (text, hosts, switches) in compositions(),
        part in prop::collection::vec(0_u32..6, 10),
        threads in 1_usize..5,
        seed in any::<u64>(),
    ) {
        let until = Time(400_000_000);
        let (whole, delivered, ..) = shown(channel(&text, hosts, (seed, until), 0), until);
        prop_assert!(delivered > 50, "{delivered} packets");
        let mut divided = channel(&text, hosts, (seed, until), 0);
        let threads = NonZeroUsize::new(threads).expect("one or more");
        let spread = divided.spread_over(&part[..switches], threads);
        // Pauses take no time on a cable without a length.
        let is_whole = part[..switches].iter().all(|one| *one == part[0]);
        prop_assert!(spread.is_ok() || spread == Err(Alone::Whole));
        prop_assert!(spread.is_ok() || is_whole || text.contains("length = '0 m'"), "{}", text);
        let (divided, ..) = shown(divided, until);
        prop_assert_eq!(&whole, &divided, "{}", text);
        prop_assert!(whole.contains("(\"class_3_dropped\", 0.0)"), "{}", text);
    }

    /// Among so few packets nothing is prefetched, and no output chosen ahead of an arrival, unless a test asks for it.
    #[test]
    fn what_is_prefetched_changes_nothing(
        (text, hosts, _) in compositions(),
        seed in any::<u64>(),
    ) {
        let until = Time(400_000_000);
        let usual = shown(channel(&text, hosts, (seed, until), 0), until);
        let mut ahead = channel(&text, hosts, (seed, until), 0);
        ahead.prefetch_in_any_graph();
        prop_assert_eq!(usual, shown(ahead, until), "{}", text);
    }

    #[test]
    fn departures_that_nobody_is_told_of_change_nothing(
        (text, hosts, _) in compositions(),
        seed in any::<u64>(),
    ) {
        let (steps, more) = compare_with_all_told(&text, hosts, seed)?;
        // What is planned and then revoked, as by frequent pauses, takes an event more.
        let may_plan = text.contains("telemetry = false");
        prop_assert!(may_plan || steps < more, "{} events of {}", steps, more);
    }

    #[test]
    fn departures_that_are_planned_change_nothing(
        (text, hosts, _) in of_one_class(),
        seed in any::<u64>(),
    ) {
        compare_with_all_told(&text, hosts, seed)?;
    }
}
