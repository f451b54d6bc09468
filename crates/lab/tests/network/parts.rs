//! A run is the same however the graph is divided, whether or not credits are counted as soon as they
//! are given, and whether or not anybody looks.

use std::num::NonZeroUsize;
use std::thread::Builder;

use proptest::prelude::*;
use weft_fabric::fabric::{FabricSettings, Routes, RoutesSettings};
use weft_fabric::graph::{ClockedBusParts, ClockedHubParts, ClockedParts, SwitchParts};
use weft_fabric::link::{FlowControl, LinkSettings};
use weft_fabric::measure::Observations;
use weft_fabric::switch::{
    HubScheduler, InputQueuedSettings, OutputQueuedSettings, SharedMemorySettings,
};
use weft_fabric::workload::{ChannelFacts, Source, WorkloadSettings};
use weft_kernel::{Halt, Streams};
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::Carrier as _;
use weft_lab::drive::engine::{Alone, ConnectionParts, Engine, EngineParts};
use weft_lab::{Options, Request};
use weft_protocol::flow::FlowControlSettings;
use weft_units::{Bytes, Limit, PositiveCount, Span, Time};

use super::ranks::Pipes;
use super::{file, voq};
use crate::settings;

#[derive(serde::Deserialize)]
struct Parts {
    fabric: FabricSettings,
    routes: RoutesSettings,
    link: LinkSettings,
    switch: OutputQueuedSettings,
    /// Every switch whose number has a bit in `clocked`.
    other: InputQueuedSettings,
    clocked: u32,
    /// Those of them that are hubs: every other one has a crossbar if it has one virtual channel, the
    /// rest a bus.
    #[serde(default)]
    hubs: u32,
    /// Every other one whose number has a bit in `shared`.
    memory: SharedMemorySettings,
    shared: u32,
    flow_control: FlowControlSettings,
    workload: WorkloadSettings,
}

/// A channel that has not run, with the sources of some hosts, and when its run ends; the sources of those hosts
/// once more.
pub(super) fn build(
    text: &str,
    hosts: u32,
    seed: u64,
    is_needed: &dyn Fn(u32) -> bool,
) -> (Engine, Time, Vec<Source>) {
    let parts: Parts = settings::read(text);
    let streams = Streams::new(seed);
    let packet = Bytes(125);
    let span = parts.link.span(packet);
    let facts = ChannelFacts { name: "c", hosts, packet, packet_span: span, slot_span: Some(span) };
    let wiring = parts.fabric.wiring(hosts, parts.link.rate).expect(text);
    let routes = Routes::new(&parts.routes, &wiring, streams.stream("c.routes", 0)).expect(text);
    let until = Time(span.0 * 300);
    let flow = FlowControl::new(&parts.flow_control, 8).expect(text);
    // Those behind the last bit have queues at their outputs.
    let has = |bits: u32, number| bits.checked_shr(number).unwrap_or(0) & 1 != 0;
    let switches = (0..wiring.switches()).map(|number| {
        if !has(parts.clocked, number) && has(parts.shared, number) {
            return SwitchParts::SharedMemory(parts.memory.clone());
        }
        if !has(parts.clocked, number) {
            return SwitchParts::OutputQueued(parts.switch.clone());
        }
        let InputQueuedSettings { latency, cell, buffer, scheduler, .. } = &parts.other;
        if has(parts.hubs, number) {
            let (latency, buffer) = (*latency, buffer.expect(text).get());
            if number % 2 == 0 || flow.channels > 1 {
                let arbitration = Span(30_000);
                return SwitchParts::Bus(ClockedBusParts { latency, arbitration, buffer });
            }
            let ports = wiring.ports_of(number) as usize;
            let random = streams.stream("c.scheduler", number as usize);
            let scheduler = (number % 4 == 1)
                .then(|| Box::new(HubScheduler::new(scheduler, ports, random).expect(text)));
            return SwitchParts::FifoCrossbar(ClockedHubParts { latency, buffer, scheduler });
        }
        SwitchParts::InputQueued(Box::new(ClockedParts {
            latency: *latency,
            cell: cell.unwrap_or(packet),
            buffer: buffer.expect(text).get(),
            arbiter: scheduler.arbiter(wiring.ports_of(number) as usize).expect(text),
            random: streams.stream("c.scheduler", number as usize),
        }))
    });
    let switches = switches.collect();
    let sources = || {
        let built = parts.workload.build_those(&facts, &streams, is_needed);
        built.expect(text)
    };
    let engine = Engine::new(EngineParts {
        wiring,
        routes,
        link: parts.link,
        packet,
        payload: Bytes(100),
        switches,
        flow,
        send_buffers: Limit::AtMost(PositiveCount::ONE),
        sources: sources(),
        observations: Observations::over(Time(span.0 * 20), until).of_hosts(hosts as usize),
        until,
        ring: None,
        turns: None,
        hub: None,
        connections: ConnectionParts::default(),
        classed: None,
        adapters: None,
        flows: None,
    });
    (engine, until, sources())
}

/// Everything that a run shows: deliveries in order, what was observed, what is left, who waits for whom, and
/// which buffer was written while it was full; and how many packets were delivered and how many events
/// there were.
pub(super) fn shown(
    text: &str,
    hosts: u32,
    seed: u64,
    change: impl Fn(&mut Engine),
) -> (String, usize, u64) {
    let (mut engine, until, _) = build(text, hosts, seed, &|_| true);
    change(&mut engine);
    told(engine, until)
}

fn told(engine: Engine, until: Time) -> (String, usize, u64) {
    told_with(engine, until, &Halt::new())
}

fn told_with(mut engine: Engine, until: Time, halt: &Halt) -> (String, usize, u64) {
    let mut delivered = Vec::new();
    let stopped = engine.run_watched(until, halt, |one| delivered.push(one));
    assert_eq!(stopped, None);
    let held = (engine.backlog(), engine.in_flight());
    let steps = engine.steps();
    let progress = engine.observations_mut().map(|seen| seen.progress(until));
    let ends = (engine.waiting(), engine.overrun().map(str::to_owned));
    let seen = engine.into_observations();
    assert_eq!(seen.conserve(held.0 + held.1), Ok(()));
    (format!("{delivered:?}\n{held:?}\n{ends:?}\n{progress:?}\n{seen:?}"), delivered.len(), steps)
}

/// The same on several ranks, by the rank that has each switch; `None` where it may not be divided so.
fn on_ranks(
    text: &str,
    hosts: u32,
    (seed, ranks): (u64, u32),
    part: &[u32],
) -> Option<(String, usize, u64)> {
    let shown = Pipes::run(ranks, |exchange| {
        let (mut engine, until, _) = build(text, hosts, seed, &|_| false);
        if seed % 2 == 0 {
            engine.number_few_sums();
        }
        let kept = match engine.keep_rank(part, &exchange) {
            Ok(kept) => kept,
            Err(why) => {
                assert_eq!(why, Alone::Whole);
                return None;
            }
        };
        let (.., sources) = build(text, hosts, seed, &|host| kept[host as usize]);
        engine.give_sources(sources, Limit::AtMost(PositiveCount::ONE));
        if exchange.rank() == 0 {
            return Some(told(engine, until));
        }
        assert_eq!(engine.run_watched(until, &Halt::new(), |_| {}), None);
        None
    });
    shown.into_iter().next().flatten()
}

/// A random connected wiring: switch `n` has a cable to a random earlier one, some more cables
/// close cycles, every switch has two hosts, and each cable a rate and a length of its own.
pub(super) fn random_table(links: &[(usize, u32, u32)], more: &[(usize, usize)]) -> (String, u32) {
    let switches = links.len() + 1;
    let mut used = vec![0; switches];
    let mut take = |switch: usize| {
        used[switch] += 1;
        format!("s{switch}.{}", used[switch] - 1)
    };
    let mut cables = Vec::new();
    for host in 0..2 * switches {
        cables.push(format!("{{ from = 'host {host}', to = '{}' }}", take(host / 2)));
    }
    for (index, (link, rate, length)) in links.iter().enumerate() {
        let (one, other) = (take(index + 1), take(link % (index + 1)));
        cables.push(format!(
            "{{ from = '{one}', to = '{other}', link = {{ rate = '{rate} Gbit/s', \
             length = '{length} m' }} }}"
        ));
    }
    for (one, other) in more.iter().map(|(one, other)| (one % switches, other % switches)) {
        if one != other {
            let (one, other) = (take(one), take(other));
            cables.push(format!("{{ from = '{one}', to = '{other}' }}"));
        }
    }
    let list = |(name, ports): (usize, &u32)| format!("{{ name = 's{name}', ports = {ports} }}");
    let listed: Vec<String> = used.iter().enumerate().map(list).collect();
    let (listed, cables) = (listed.join(", "), cables.join(",\n"));
    (format!("[fabric.table]\nswitches = [{listed}]\ncables = [{cables}]"), 2 * switches as u32)
}

const WORKLOADS: [&str; 5] = [
    "load = 0.6",
    "load = 0.7\narrivals = 'bernoulli'\npattern.uniform.self_included = true",
    "load = 1.3\narrivals = 'constant'",
    "source = 'greedy'",
    "load = 0.4\nburst.length.uniform = [1, 9]",
];

/// A composition with another set of switches.
fn with(text: &str, key: &str, switches: u32) -> String {
    let start = text.find(&format!("{key} = ")).expect("a line for the key");
    let end = start + text[start..].find('\n').expect("the end of the line");
    format!("{}{key} = {switches}{}", &text[..start], &text[end..])
}

/// Which switches there are besides those with queues at their outputs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Others {
    Nothing,
    /// Some with queues at their inputs.
    Clocked,
    /// And some with a shared memory.
    Shared,
}

/// A composition of switches of several kinds, and how many hosts and switches it has.
fn compositions(others: Others) -> impl Strategy<Value = (String, u32, usize)> {
    let length = prop_oneof![0_u32..40, 0_u32..900];
    let wiring = (
        prop::collection::vec((0_usize..100, 1_u32..4, length), 1..9),
        prop::collection::vec((0_usize..100, 0_usize..100), 0..5),
    );
    let rule = prop::sample::select(vec![
        "per_packet = 'random'",
        "per_packet = 'adaptive'",
        "per_connection = 'random'",
    ]);
    let workload = prop::sample::select(WORKLOADS.to_vec());
    let buffers = prop::sample::select(vec!["'unlimited'", "3", "1"]);
    let other = prop::sample::select(vec![
        "scheduler.islip = {}",
        "cell = '25 B', scheduler.pim = {}",
        "latency = '90 ns', scheduler.wavefront = {}",
    ]);
    let flow = prop::sample::select(vec![
        "'credits'",
        "{ virtual_channel_credits.channels = 2 }",
        "{ stop_go = { stop = 3, go = 1, reaction = '70 ns' } }",
    ]);
    let some = |least: Others, kinds: Vec<u32>| {
        prop::sample::select(if others < least { vec![0] } else { kinds })
    };
    let clocked = some(Others::Clocked, vec![0_u32, 0b101_1010, 0x3ff, 1]);
    let hubs = prop::sample::select(vec![0_u32, 0, 0b1_0101_0011, 0x3ff]);
    // Which switches have a shared memory, and how packets wait there.
    let shared = some(Others::Shared, vec![0_u32, 0, 0x3ff, 0b11_0110_0110]);
    let memory = prop::sample::select(vec!["per_connection", "per_input", "fifo"]);
    let quench = prop::bool::ANY;
    let queues = (buffers, other, 10_u32..60, flow, (clocked, hubs), (shared, memory, quench));
    (wiring, rule, workload, queues).prop_map(|((links, more), rule, workload, queues)| {
        let (buffers, other, buffer, flow, (clocked, hubs), (shared, memory, quench)) = queues;
        let has_memories = shared & !clocked & ((2 << links.len()) - 1) != 0;
        // Connections keep to one way and lose nothing.
        let (rule, buffers) = match has_memories {
            true => ("per_connection = 'random'", "'unlimited'"),
            false => (rule, buffers),
        };
        let flow = match has_memories && quench {
            true => {
                "{ source_quench = { quench = 2, unquench = 0, indication = '40 B', \
                 link = { stop = 4, go = 2 } } }"
            }
            false => flow,
        };
        let (table, hosts) = random_table(&links, &more);
        let text = format!(
            "routes.{rule}\nswitch = {{ latency = '90 ns', buffers = {buffers} }}\n\
             other = {{ buffer = {buffer}, {other} }}\nclocked = {clocked}\nhubs = {hubs}\n\
             memory = {{ latency = '70 ns', buffer = {buffer}, queues = '{memory}' }}\n\
             shared = {shared}\nflow_control = {flow}\n\
             link = {{ rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n\
             {table}\n[workload]\n{workload}\n"
        );
        (text, hosts, links.len() + 1)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_division_among_threads_shows_the_same_bytes(
        (text, hosts, switches) in compositions(Others::Nothing),
        part in prop::collection::vec(0_u32..6, 10),
        threads in 1_usize..5,
        seed in any::<u64>(),
    ) {
        let (whole, delivered, steps) = shown(&text, hosts, seed, |_| {});
        prop_assert!(delivered > 50, "{delivered} packets");
        let is_whole = part[..switches].iter().all(|one| *one == part[0]);
        let (divided, _, sum) = shown(&text, hosts, seed, |engine| {
            let threads = NonZeroUsize::new(threads).expect("one or more");
            let expected = if is_whole { Err(Alone::Whole) } else { Ok(()) };
            assert_eq!(engine.spread_over(&part[..switches], threads), expected);
        });
        prop_assert_eq!((whole, steps), (divided, sum), "{}", text);
    }

    /// How many events there are is looked at below. Parts that have too many sums of times to number them store
    /// them, while others may not.
    #[test]
    fn any_division_of_switches_with_clocks_among_threads_shows_the_same_bytes(
        (text, hosts, switches) in compositions(Others::Clocked),
        part in prop::collection::vec(0_u32..6, 10),
        threads in 1_usize..5,
        seed in any::<u64>(),
    ) {
        let (whole, delivered, _) = shown(&text, hosts, seed, |_| {});
        prop_assert!(delivered > 50, "{delivered} packets");
        let is_whole = part[..switches].iter().all(|one| *one == part[0]);
        let (divided, ..) = shown(&text, hosts, seed, |engine| {
            if seed % 2 == 0 {
                engine.number_few_sums();
            }
            let threads = NonZeroUsize::new(threads).expect("one or more");
            let spread = engine.spread_over(&part[..switches], threads);
            // Cables without any length keep parts together only where packets wait for their far ends.
            assert!(spread.is_ok() || spread == Err(Alone::Whole));
            assert!(spread.is_ok() || is_whole || text.contains("length = '0 m'"), "{text}");
        });
        prop_assert_eq!(whole, divided, "{}", text);
    }

    /// How many events there are depends on the division for two reasons: switches of one part share a clock,
    /// and within a part most credits count at once, without an event. Without both it does not.
    #[test]
    fn the_number_of_events_depends_on_shared_clocks_and_credits_alone(
        (text, hosts, switches) in compositions(Others::Clocked),
        alone in 0_usize..10,
        part in prop::collection::vec(0_u32..6, 10),
        seed in any::<u64>(),
    ) {
        // Cables are shorter than the slots that a clock looks ahead, so that all of its edges are shared. A bus
        // has no slots, so that none are.
        prop_assume!(!text.contains("25 B"));
        let text = with(&text, "hubs", 0);
        let one = with(&text, "clocked", 1 << (alone % switches));
        let threads = NonZeroUsize::new(2).expect("two");
        let events = |text: &str, reports: bool, divides: bool| {
            let (.., events) = shown(text, hosts, seed, |engine| {
                if reports {
                    engine.report_every_credit();
                }
                if divides {
                    // What may not be divided is not.
                    let spread = engine.spread_over(&part[..switches], threads);
                    assert!(spread.is_ok() || spread == Err(Alone::Whole));
                }
            });
            events
        };
        prop_assert_eq!(events(&one, true, false), events(&one, true, true), "{}", one);
        // With them a division adds events, and leaves none out.
        prop_assert!(events(&text, false, false) <= events(&text, false, true), "{}", text);
    }

    /// Ranks share nothing but what they give each other as bytes.
    #[test]
    fn any_division_among_ranks_shows_the_same_bytes(
        (text, hosts, switches) in compositions(Others::Clocked),
        part in prop::collection::vec(0_u32..4, 10),
        ranks in 2_u32..5,
        seed in any::<u64>(),
    ) {
        let (whole, delivered, _) = shown(&text, hosts, seed, |_| {});
        prop_assert!(delivered > 50, "{delivered} packets");
        let part: Vec<u32> = part[..switches].iter().map(|part| part % ranks).collect();
        let is_whole = part.iter().all(|one| *one == part[0]);
        let divided = on_ranks(&text, hosts, (seed, ranks), &part);
        // Cables without any length keep parts together only where packets wait for their far ends.
        prop_assert!(divided.is_some() || is_whole || text.contains("length = '0 m'"), "{}", text);
        if let Some((divided, ..)) = divided {
            prop_assert_eq!(whole, divided, "{}", text);
        }
    }

    /// These graphs are so small that nothing is prefetched unless a test asks for it.
    #[test]
    fn what_is_prefetched_changes_nothing(
        (text, hosts, _) in compositions(Others::Shared),
        seed in any::<u64>(),
    ) {
        let usual = shown(&text, hosts, seed, |_| {});
        prop_assert_eq!(usual, shown(&text, hosts, seed, Engine::prefetch_in_any_graph), "{}", text);
    }

    /// Switches of which each packet is a cell, and that have slots of one length: together, or each by itself.
    #[test]
    fn switches_that_decide_together_decide_what_each_would(
        (text, hosts, _) in compositions(Others::Clocked),
        buffer in 2_u32..20,
        has_rates in prop::bool::weighted(0.1),
        seed in any::<u64>(),
    ) {
        let text = with(&with(&with(&text, "clocked", 0x3ff), "hubs", 0), "shared", 0);
        let text = text
            .replace("cell = '25 B', ", "")
            .replace("{ stop_go = { stop = 3, go = 1, reaction = '70 ns' } }", "'credits'");
        let buffers = "other = { buffer = ";
        let start = text.find(buffers).expect("the buffers of an input") + buffers.len();
        let text = format!("{}{buffer}{}", &text[..start], &text[start + 2..]);
        let text = match has_rates {
            true => text,
            false => text.replace("'2 Gbit/s'", "'1 Gbit/s'").replace("'3 Gbit/s'", "'1 Gbit/s'"),
        };
        let (mut engine, until, _) = build(&text, hosts, seed, &|_| true);
        prop_assert_eq!(engine.run_watched(until, &Halt::new(), |_| {}), None);
        prop_assert!(has_rates || engine.decides_together(), "{}", text);
        let usual = shown(&text, hosts, seed, |_| {});
        prop_assert_eq!(&usual, &shown(&text, hosts, seed, Engine::decide_apart), "{}", text);
        // Credits that are reported are events more.
        let reported = shown(&text, hosts, seed, Engine::report_every_credit);
        prop_assert_eq!(&usual.0, &reported.0, "{}", text);
        let apart = shown(&text, hosts, seed, |engine| {
            engine.report_every_credit();
            engine.decide_apart();
        });
        prop_assert_eq!(reported, apart, "{}", text);
        let prefetched = shown(&text, hosts, seed, Engine::prefetch_in_any_graph);
        prop_assert_eq!(usual, prefetched, "{}", text);
    }

    /// Hosts that submit packets in slots have one event for each slot, but one for each packet where steps are
    /// limited.
    #[test]
    fn one_event_for_the_hosts_of_a_slot_changes_nothing(
        (text, hosts, _) in compositions(Others::Clocked),
        seed in any::<u64>(),
    ) {
        let channel = text.split_once("[workload]").map_or("", |(channel, _)| channel);
        let text = format!("{channel}[workload]\n{}\n", WORKLOADS[1]);
        let usual = shown(&text, hosts, seed, |_| {});
        let (engine, until, _) = build(&text, hosts, seed, &|_| true);
        let limit = Halt::new().with_step_limit(Some(u64::MAX));
        prop_assert_eq!(usual, told_with(engine, until, &limit), "{}", text);
    }

    /// What packets spend on their routes is numbered, or stored by each where there are too many sums.
    #[test]
    fn what_packets_spend_is_the_same_numbered_and_stored(
        (text, hosts, _) in compositions(Others::Clocked),
        seed in any::<u64>(),
    ) {
        let usual = shown(&text, hosts, seed, |_| {});
        prop_assert_eq!(usual, shown(&text, hosts, seed, Engine::number_few_sums), "{}", text);
    }

    /// A credit that nobody can wait for before it is back counts from when it is given. So does no
    /// other one, whichever cables and buffers there are.
    #[test]
    fn credits_that_are_counted_at_once_change_nothing(
        (text, hosts, _) in compositions(Others::Shared),
        seed in any::<u64>(),
    ) {
        let (usual, ..) = shown(&text, hosts, seed, |_| {});
        let (said, ..) = shown(&text, hosts, seed, Engine::report_every_credit);
        prop_assert_eq!(usual, said, "{}", text);
    }
}

/// Slots of several lengths, long cables, and room for two packets at each input, so that no credit counts at once.
#[test]
fn switches_with_slots_of_several_lengths_show_the_same_among_threads() {
    let text = "routes.per_packet = 'random'\nswitch = { latency = '90 ns', buffers = 'unlimited' }\n\
        other = { buffer = 10, cell = '25 B', scheduler.pim = {} }\nclocked = 90\n\
        memory = { latency = '70 ns', buffer = 10, queues = 'per_connection' }\nshared = 0\n\
        flow_control = 'credits'\n\
        link = { rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }\n\
        [fabric.table]\n\
        switches = [{ name = 's0', ports = 5 }, { name = 's1', ports = 3 }, { name = 's2', ports = 3 }, \
        { name = 's3', ports = 4 }, { name = 's4', ports = 3 }]\n\
        cables = [{ from = 'host 0', to = 's0.0' }, { from = 'host 1', to = 's0.1' }, \
        { from = 'host 2', to = 's1.0' }, { from = 'host 3', to = 's1.1' }, { from = 'host 4', to = 's2.0' }, \
        { from = 'host 5', to = 's2.1' }, { from = 'host 6', to = 's3.0' }, { from = 'host 7', to = 's3.1' }, \
        { from = 'host 8', to = 's4.0' }, { from = 'host 9', to = 's4.1' }, \
        { from = 's1.2', to = 's0.2', link = { rate = '1 Gbit/s', length = '280 m' } }, \
        { from = 's2.2', to = 's0.3', link = { rate = '1 Gbit/s', length = '280 m' } }, \
        { from = 's3.2', to = 's0.4', link = { rate = '1 Gbit/s', length = '280 m' } }, \
        { from = 's4.2', to = 's3.3', link = { rate = '3 Gbit/s', length = '641 m' } }]\n\
        [workload]\nload = 0.6\n";
    let seed = 15_595_744_745_522_956_089;
    let (whole, delivered, _) = shown(text, 10, seed, |_| {});
    assert!(delivered > 50, "{delivered} packets");
    for part in [[0, 0, 0, 1, 0], [0, 1, 0, 1, 2], [4, 3, 2, 1, 0]] {
        for threads in 1..4 {
            let threads = NonZeroUsize::new(threads).expect("one or more");
            let spread = |engine: &mut Engine| {
                assert_eq!(engine.spread_over(&part, threads), Ok(()));
            };
            let (divided, ..) = shown(text, 10, seed, spread);
            assert_eq!(whole, divided, "{part:?} on {threads}");
        }
    }
}

/// The same where most credits are counted at once, so that there is something to compare.
#[test]
fn most_credits_are_counted_at_once_where_buffers_are_large() {
    let (table, hosts) = random_table(&[(0, 1, 4), (1, 2, 4), (2, 1, 40)], &[]);
    let text = format!(
        "routes.per_packet = 'random'\nswitch = {{ latency = '90 ns', buffers = 'unlimited' }}\n\
         other = {{ buffer = 60, scheduler.islip = {{}} }}\nclocked = 15\n\
         memory = {{ latency = '70 ns', buffer = 8 }}\nshared = 0\n\
         flow_control = 'credits'\n\
         link = {{ rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n\
         {table}\n[workload]\nload = 0.6\n"
    );
    let (usual, delivered, few) = shown(&text, hosts, 1, |_| {});
    let (said, _, many) = shown(&text, hosts, 1, Engine::report_every_credit);
    assert_eq!(usual, said);
    assert!(many > few + 2 * delivered as u64, "{few} events, {many} with those of credits");
}

/// Threads that the system refuses, such as those with stacks larger than all memory, are not needed: the
/// others do their work, in the end the only one.
#[test]
fn threads_that_are_refused_change_nothing() {
    let (table, hosts) = random_table(&[(0, 1, 4), (1, 2, 4), (2, 1, 40)], &[]);
    let text = format!(
        "routes.per_packet = 'random'\nswitch = {{ latency = '90 ns', buffers = 'unlimited' }}\n\
         other = {{ buffer = 60, scheduler.islip = {{}} }}\nclocked = 5\n\
         memory = {{ latency = '70 ns', buffer = 8 }}\nshared = 0\nflow_control = 'credits'\n\
         link = {{ rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n\
         {table}\n[workload]\nload = 0.6\n"
    );
    let refused = || Builder::new().stack_size(1 << 60);
    assert!(std::thread::scope(|scope| refused().spawn_scoped(scope, || ()).is_err()));
    let (whole, ..) = shown(&text, hosts, 1, |_| {});
    let starts: [fn(usize) -> Builder; 3] = [
        |_| Builder::new(),
        |member| if member == 1 { Builder::new() } else { Builder::new().stack_size(1 << 60) },
        |_| Builder::new().stack_size(1 << 60),
    ];
    for starts in starts {
        let (divided, ..) = shown(&text, hosts, 1, |engine| {
            let threads = NonZeroUsize::new(4).expect("four");
            assert_eq!(engine.spread_over(&[0, 1, 2, 3], threads), Ok(()));
            engine.start_threads_by(starts);
        });
        assert_eq!(whole, divided);
    }
}

#[test]
fn looking_changes_nothing() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }\nroutes.per_packet = 'adaptive'";
    let spine = "switches.'1.0'.input_queued = { scheduler = 'islip', buffer = 3 }";
    let leaves = "switches.'0.0'.output_queued = { latency = '90 ns', buffers = 2 }";
    let stop = "flow_control.stop_go = { stop = 4, go = 2 }";
    let load = "load = 0.9";
    for text in [
        file(9, &format!("{tree}\nswitch.output_queued.buffers = 2"), load, "300 us"),
        voq(9, "buffer = 2", tree, load, "300 us"),
        voq(9, "buffer = 40, cell = '25 B'", &format!("{tree}\n{stop}"), load, "300 us"),
        file(9, &format!("{tree}\n{spine}"), load, "300 us"),
        voq(9, "buffer = 3", &format!("{tree}\n{leaves}"), load, "300 us"),
    ] {
        let of = |run: &str| {
            let text = format!("{text}{run}");
            let request = Request::of_text("network.toml", &text);
            let outcome =
                weft_lab::run(&request, &Options::default(), &mut |_, _| true).expect(&text);
            ["points", "replications", "histograms", "links", "budget"]
                .map(|name| format!("{:?}", outcome.table(name)))
        };
        let plain = of("");
        assert!(plain.iter().all(|table| table.len() > 100), "{plain:?}");
        for looks in ["trace = true\n", "sample = '10 us'\n", "step_limit = 10000000\n"] {
            assert_eq!(of(looks), plain, "{text}{looks}");
        }
    }
}
