//! Slots without events against slots of events, and what hosts do in slots besides.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use weft_fabric::measure::{Drop, Latency};
use weft_fabric::scheduler::SchedulerSettings;
use weft_kernel::{Halt, Stopped, Streams};
use weft_lab::assemble::{Driver, Site};
use weft_lab::composition::SwitchSettings;
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::Carrier as _;
use weft_lab::drive::trace::TraceEntry;
use weft_lab::{ChannelRun, Plan, Request, simulate};
use weft_units::{Span, Time};

/// Packets of 1 us, and cables of so many nanoseconds.
fn channel(hosts: u32, propagation: u32, rest: &str) -> String {
    format!(
        r#"
        system = {{ title = "slots", hosts = {hosts} }}
        [run]
        length = "100 us"
        regime = "from_empty"
        [channel.c]
        packet = "1000 B"
        payload = "900 B"
        link = {{ rate = "8 Gbit/s", length = "1 m", delay_per_metre = "{propagation} ns" }}
        {rest}
        "#
    )
}

/// Everything that a run of so many slots shows, and how many steps it took.
struct Shown {
    all: String,
    delivered: u64,
    steps: u64,
}

fn shown(
    text: &str,
    scheduler: &SchedulerSettings,
    (slots, seed): (u64, u64),
    events: bool,
) -> Shown {
    let plan = Plan::new(&Request::of_text("test.toml", text)).expect(text);
    let spec = &plan.points[0].spec;
    let mut settings = spec.channel["c"].clone();
    match &mut settings.switch {
        SwitchSettings::Scheduled(own) => own.scheduler = scheduler.clone(),
        SwitchSettings::InputQueued(own) => own.scheduler = scheduler.clone(),
        other => unreachable!("{}", other.name()),
    }
    let slot = settings.slot().expect("slots");
    let until = Time(slot.0 * slots + seed * 123_457 % slot.0);
    let streams = Streams::new(seed);
    let (from, hosts) = (Time(until.0 / 7), spec.system.hosts);
    let site = Site { name: "c", hosts, streams: &streams, from, until, sample: None };
    let driver = Driver::new(&settings, spec.workload.get("c"), site).expect(text);
    let Driver::Engine(mut engine) = driver else { unreachable!("{text}") };
    if events {
        engine.keep_to_events();
    }
    engine.observations_mut().expect("what is seen").note_passages();
    assert_eq!(engine.run(until, &Halt::new()), None);
    let (held, steps) = ((engine.backlog(), engine.in_flight()), engine.steps());
    let progress = engine.observations_mut().map(|seen| seen.progress(until));
    let seen = engine.into_observations();
    assert_eq!(seen.conserve(held.0 + held.1), Ok(()));
    let delivered = seen.delivered;
    Shown { all: format!("{held:?}\n{progress:?}\n{seen:?}"), delivered, steps }
}

fn any_switch() -> impl Strategy<Value = String> {
    let scheduled = (0_u32..3_000, 0_u32..2, 0_u32..3).prop_map(|(lead, gap, relock)| {
        format!(
            "switch.scheduled = {{ latency = '13 ns', lead = '{lead} ns', gap = '{gap} ns', \
             relock = 0.0{relock}, scheduler = 'islip' }}"
        )
    });
    let queued = (0_u32..2_000, prop::bool::ANY).prop_map(|(latency, fifo)| {
        let queues = if fifo { "fifo" } else { "voq" };
        format!(
            "switch.input_queued = {{ latency = '{latency} ns', queues = '{queues}', \
             scheduler = 'islip' }}"
        )
    });
    prop_oneof![scheduled, queued]
}

/// Buffers, and whether they have a limit.
fn any_adapter() -> impl Strategy<Value = (String, bool)> {
    let release = prop::sample::select(vec![
        "",
        ", release = 'transmission'",
        ", release = 'acknowledgment'",
    ]);
    let feed = prop::sample::select(vec![
        "",
        ", feed.per_target.limit = 1",
        ", feed.per_target.limit = 2",
    ]);
    (0_u32..5, release, feed).prop_map(|(buffers, release, feed)| {
        let is_limited = buffers > 0;
        let buffers = if is_limited { buffers.to_string() } else { "'unlimited'".to_owned() };
        (format!("adapter = {{ send_buffers = {buffers}{release}{feed} }}"), is_limited)
    })
}

fn any_workload(is_limited: bool) -> impl Strategy<Value = String> {
    let load = (1_u32..12, prop::sample::select(vec!["poisson", "bernoulli"]), 0_u32..3);
    let open = load.prop_map(|(load, arrivals, pattern)| {
        let pattern = ["", "pattern.shift = 1", "pattern = { uniform = { self_included = true } }"]
            [pattern as usize];
        let load = f64::from(load) / 10.0;
        let load = if arrivals == "bernoulli" { load.min(1.0) } else { load };
        format!("load = {load}\narrivals = '{arrivals}'\n{pattern}")
    });
    let to_and_fro = Just("source.ping_pong = { pairs = [{ from = 0, to = 1 }] }".to_owned());
    let greedy = prop::sample::select(vec!["", "pattern.shift = 1"])
        .prop_map(|pattern| format!("source = 'greedy'\n{pattern}"));
    match is_limited {
        true => prop_oneof![4 => open, 1 => to_and_fro, 2 => greedy].boxed(),
        false => prop_oneof![4 => open, 1 => to_and_fro].boxed(),
    }
}

fn any_text() -> impl Strategy<Value = String> {
    let traffic = any_adapter().prop_flat_map(|(adapter, is_limited)| {
        any_workload(is_limited).prop_map(move |workload| (adapter.clone(), workload))
    });
    (2_u32..10, 0_u32..2_500, any_switch(), traffic).prop_map(
        |(hosts, propagation, switch, (adapter, workload))| {
            let rest = format!("{switch}\n{adapter}\n[workload.c]\n{workload}");
            channel(hosts, propagation, &rest)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The same packets in the same picoseconds, observed in the same way, with an event for each step
    /// of each packet and with none.
    #[test]
    fn events_change_nothing(
        text in any_text(),
        scheduler in prop::sample::select(SchedulerSettings::variants()),
        slots in 1_u64..300,
        seed in 0_u64..1_000,
    ) {
        let [without, with] =
            [false, true].map(|events| shown(&text, &scheduler, (slots, seed), events));
        prop_assert_eq!(without.all, with.all, "{}", text);
        // One step a slot.
        prop_assert!(without.steps <= slots + 1);
        prop_assert!(with.delivered == 0 || with.steps > with.delivered);
    }
}

const VOQ: &str = "switch.input_queued.scheduler = 'islip'";

/// Requests are sampled 300 ns before they are sent, and the switch takes 10 ns.
const SCHEDULED: &str =
    "switch.scheduled = { latency = '10 ns', lead = '300 ns', scheduler = 'islip' }";

const UNLIMITED: &str = "adapter.send_buffers = 'unlimited'";

const ACKNOWLEDGED: &str = "control.request_acknowledge = { timeout = '20 us', outstanding = 4, \
                            acknowledgment = '25 B' }";

fn run(text: &str) -> ChannelRun {
    let plan = Plan::new(&Request::of_text("test.toml", text)).expect(text);
    let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect(text);
    runs.into_iter().next().expect("a channel with a workload")
}

/// Runs packets from host 0 to host 1 over cables of 5 ns, handed over at 500 ns.
fn two(packets: usize, rest: &str) -> ChannelRun {
    let list = vec!["{ time = '500 ns', from = 0, to = 1 }"; packets].join(", ");
    run(&channel(3, 5, &format!("{rest}\n[workload.c]\nsource.list = [{list}]")))
}

/// The greatest of a latency.
fn greatest(run: &ChannelRun, kind: Latency) -> Span {
    run.observations.recorder(kind).max().expect("a packet")
}

#[test]
fn an_adapter_and_a_fabric_that_ask_for_nothing_change_nothing() {
    let islip = SchedulerSettings::all_defaults().swap_remove(2).1;
    let table = "fabric.table = { switches = [{ name = 'a', ports = 4 }], cables = [\
                 { from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'a.1' }, \
                 { from = 'host 2', to = 'a.2' }, { from = 'host 3', to = 'a.3' }] }";
    for switch in [VOQ, SCHEDULED] {
        for traffic in ["load = 0.8", "source = 'greedy'"] {
            let of = |more: &str| {
                let rest = format!("{switch}\n{more}\n[workload.c]\n{traffic}");
                shown(&channel(4, 5, &rest), &islip, (250, 3), false)
            };
            let without = of("adapter.send_buffers = 3");
            assert!(without.delivered > 300 && without.steps < 260);
            let never = "adapter = { send_buffers = 3, throttle = { requests = 1, per = '1 ps' } }";
            let with = of(never);
            assert!(with.steps > with.delivered, "by events");
            assert_eq!(with.all, without.all);
            for way in [table, "routes.per_packet = 'random'"] {
                assert_eq!(of(&format!("adapter.send_buffers = 3\n{way}")).all, without.all);
            }
        }
    }
}

/// More hosts than a word has bits, under every scheduler.
#[test]
fn events_change_nothing_among_many_hosts() {
    for (name, scheduler) in SchedulerSettings::all_defaults() {
        for (hosts, switch) in [(65, VOQ), (130, SCHEDULED), (257, VOQ)] {
            let rest = format!("{switch}\nadapter.send_buffers = 3\n[workload.c]\nload = 0.7");
            let text = channel(hosts, 5, &rest);
            let [slots, events] =
                [false, true].map(|events| shown(&text, &scheduler, (40, 3), events));
            assert_eq!(slots.all, events.all, "{name}, {hosts} hosts");
            assert!(slots.delivered > 15 * u64::from(hosts), "{name}: {}", slots.delivered);
            // Slots 0 to 40 begin by the end of the run; each packet that arrives is an event.
            assert!(slots.steps <= 41 && events.steps > events.delivered, "{name}");
        }
    }
}

/// What is sampled at 1 us is sent from 1.3 us, whatever the numbers of the hosts.
#[test]
fn hosts_take_slots_whatever_their_numbers() {
    let fifo = "switch.input_queued = { queues = 'fifo', latency = '10 ns', scheduler = 'islip' }";
    for (from, to) in [(0, 1), (0, 64), (64, 0), (129, 70), (63, 128)] {
        let of = |switch: &str| {
            let list = format!("source.list = [{{ time = '500 ns', from = {from}, to = {to} }}]");
            let rest = format!("{switch}\n{UNLIMITED}\n{ACKNOWLEDGED}\n[workload.c]\n{list}");
            let run = run(&channel(130, 5, &rest));
            assert_eq!((run.observations.attempts, run.backlog, run.in_flight), (1, 0, 0));
            [Latency::Queueing, Latency::OneWay, Latency::RoundTrip]
                .map(|kind| greatest(&run, kind).0)
        };
        assert_eq!(of(SCHEDULED), [800_000, 1_820_000, 3_345_000 - 1_300_000], "{from} to {to}");
        assert_eq!(of(fifo)[..2], [500_000, 1_520_000], "{from} to {to}");
    }
}

/// Between packets that are thousands of slots apart the scheduler takes as many turns by events as slot by slot, however
/// few of them are caught up with at a time.
#[test]
fn long_pauses_change_nothing() {
    let packets: Vec<String> = (0..40)
        .map(|number| {
            let (time, from) = (500 + number / 4 * 3_000_000_u64, number % 4);
            format!(
                "{{ time = '{time} ns', from = {from}, to = {} }}",
                (from + 1 + number / 4 % 3) % 4
            )
        })
        .collect();
    let workload = format!("[workload.c]\nsource.list = [{}]", packets.join(", "));
    for (name, scheduler) in SchedulerSettings::all_defaults() {
        for switch in [VOQ, SCHEDULED] {
            let text = channel(4, 5, &format!("{switch}\n{UNLIMITED}\n{workload}"));
            let [slots, events] =
                [false, true].map(|events| shown(&text, &scheduler, (30_000, 3), events));
            assert_eq!((slots.delivered, events.delivered), (40, 40), "{name}");
            assert_eq!(slots.all, events.all, "{name}");
        }
    }
}

/// An hour has 3.6 billion empty slots, in which the scheduler still moves its priorities: a run can be interrupted
/// in them.
#[test]
fn a_run_stops_in_a_pause() {
    let list = "source.list = [{ time = '500 ns', from = 0, to = 1 }, { time = '3600 s', from = 0, to = 1 }]";
    let text = channel(3, 5, &format!("{VOQ}\n{UNLIMITED}\n{ACKNOWLEDGED}\n[workload.c]\n{list}"));
    let text = text.replace("\"100 us\"", "\"3601 s\"");
    let plan = Plan::new(&Request::of_text("test.toml", &text)).expect(&text);
    let halt = Halt::new();
    halt.ask();
    let run = simulate(&plan.points[0].spec, 1, &halt).expect(&text).remove(0);
    assert_eq!(run.stopped, Some(Stopped::Asked));
    assert_eq!((run.observations.generated, run.observations.delivered), (2, 1));
}

/// The two packets are sampled at 1 us, and sent in slot 2 from 1.3 us and in slot 3 from 2.3 us.
#[test]
fn a_trace_of_a_schedule_shows_each_transmission_and_changes_nothing() {
    let of = |rest: &str, trace: bool| {
        let text = channel(3, 5, &format!("{SCHEDULED}\n{UNLIMITED}\n[workload.c]\n{rest}"));
        let from_empty = "regime = \"from_empty\"";
        run(&text.replace(from_empty, &format!("{from_empty}\ntrace = {trace}")))
    };
    let listed = ["{ time = '500 ns', from = 0, to = 1 }"; 2].join(", ");
    let shown = of(&format!("source.list = [{listed}]"), true);
    let entry = |entry: &TraceEntry| {
        let ends = (entry.initiator, entry.target, entry.slot);
        (entry.kind, entry.sequence, entry.time.0, entry.until.0, ends)
    };
    let both = [
        ("breq", 0, 1_300_000, 2_320_000, (Some(0), Some(1), Some(2))),
        ("breq", 1, 2_300_000, 3_320_000, (Some(0), Some(1), Some(3))),
    ];
    assert_eq!(shown.trace.iter().map(entry).collect::<Vec<_>>(), both);
    let [untraced, traced] = [false, true].map(|trace| of("load = 0.7", trace));
    assert!(
        traced.trace.len() as u64 == traced.observations.attempts && traced.steps > untraced.steps
    );
    assert_eq!(format!("{:?}", traced.observations), format!("{:?}", untraced.observations));
    assert_eq!(traced.counters, untraced.counters);
    assert_eq!((traced.backlog, traced.in_flight), (untraced.backlog, untraced.in_flight));
}

#[test]
fn an_acknowledgment_takes_a_slot_of_its_own() {
    // Sampled at 1 us, sent from 1.3 us, there 1 us + 10 ns + 10 ns later, at 2.32 us. Its
    // acknowledgment is sampled at 3 us, sent from 3.3 us, and there 25 ns + 20 ns later.
    let run = two(1, &format!("{SCHEDULED}\n{UNLIMITED}\n{ACKNOWLEDGED}"));
    assert_eq!(greatest(&run, Latency::Queueing), Span(800_000));
    assert_eq!(greatest(&run, Latency::OneWay), Span(1_820_000));
    assert_eq!(greatest(&run, Latency::RoundTrip), Span(3_345_000 - 1_300_000));
    assert_eq!((run.observations.attempts, run.backlog, run.in_flight), (1, 0, 0));
}

#[test]
fn what_is_damaged_is_sent_again_in_a_slot() {
    // Sent from 1 us; the timer runs out at 21 us, an edge at which it is requested again.
    let damaged = "errors.packets = [{ host = 0, packet = 0 }]";
    let text = format!("{VOQ}\n{UNLIMITED}\n{ACKNOWLEDGED}");
    let run = two(1, &format!("{text}\n{damaged}"));
    assert_eq!(run.observations.dropped(Drop::Corrupted), 1);
    assert_eq!((run.observations.attempts, run.observations.delivered), (2, 1));
    assert_eq!(greatest(&run, Latency::Queueing), Span(20_500_000));
    // The same by the slot: what is sampled at 1 us is sent in slot 2.
    let run = two(1, &format!("{text}\nerrors.slots = [{{ host = 0, slot = 2 }}]"));
    assert_eq!((run.observations.attempts, run.observations.delivered), (2, 1));
}

#[test]
fn a_throttle_holds_packets_back_from_the_scheduler() {
    let throttle = ", throttle = { requests = 1, per = '3 us' }";
    let of = |throttle| two(4, &format!("{VOQ}\nadapter = {{ send_buffers = 4{throttle} }}"));
    assert_eq!(greatest(&of(""), Latency::Queueing), Span(3_500_000));
    assert_eq!(greatest(&of(throttle), Latency::Queueing), Span(9_500_000));
}

#[test]
fn acknowledged_packets_wait_behind_the_first_of_one_queue() {
    let of = |queues: &str| {
        let packets = [(400, 1, 2), (500, 0, 2), (500, 0, 1)];
        let one = |(time, from, to)| format!("{{ time = '{time} ns', from = {from}, to = {to} }}");
        let list = packets.map(one).join(", ");
        let switch = format!(
            "switch.input_queued = {{ queues = '{queues}', scheduler.least_choice_first.ties = 'lowest' }}"
        );
        let rest = format!("{switch}\n{UNLIMITED}\n{ACKNOWLEDGED}");
        let run = run(&channel(3, 5, &format!("{rest}\n[workload.c]\nsource.list = [{list}]")));
        assert_eq!((run.observations.delivered, run.in_flight), (3, 0));
        run.observations.recorder(Latency::Queueing).sum_ps()
    };
    assert!(of("fifo") > of("voq"));
}

#[test]
fn a_slot_has_room_for_a_packet_on_the_slowest_cable() {
    let table = "fabric.table = { switches = [{ name = 'a', ports = 3 }], cables = [\
                 { from = 'host 0', to = 'a.0' }, { from = 'host 2', to = 'a.2' }, \
                 { from = 'host 1', to = 'a.1', link.rate = '4 Gbit/s' }] }";
    // Sampled at 2 us, sent from 2.3 us, and there after 2 us, two cables and the switch.
    let run = two(2, &format!("{SCHEDULED}\n{UNLIMITED}\n{table}"));
    assert_eq!(greatest(&run, Latency::Queueing), Span(1_800_000 + 2_000_000));
    assert_eq!(greatest(&run, Latency::Transit), Span(2_020_000));
}

/// Cells of a quarter of a packet: without a limit as with one that is never reached, and not as with
/// one at which hosts have to wait.
#[test]
fn cells_need_no_limit_around_one_switch() {
    let of = |buffer: &str| {
        let switch = format!("{{ cell = '250 B', scheduler = 'islip'{buffer} }}");
        let rest = format!("switch.input_queued = {switch}\n{UNLIMITED}\n[workload.c]\nload = 0.9");
        let run = run(&channel(4, 5, &rest));
        assert!(run.observations.delivered > 250);
        assert_eq!(run.observations.conserve(run.backlog + run.in_flight), Ok(()));
        format!("{} {} {:?}", run.backlog, run.in_flight, run.observations)
    };
    let unlimited = of("");
    assert_eq!(of(", buffer = 100000"), unlimited);
    assert_ne!(of(", buffer = 8"), unlimited);
}

#[test]
fn a_message_leaves_slot_by_slot() {
    // Two packets, sent from 1.3 us and 2.3 us; the second is there at 3.32 us.
    let list = "message = '1800 B'\nsource.list = [{ time = '500 ns', from = 0, to = 1 }]";
    let text = format!("{SCHEDULED}\n{UNLIMITED}\n[workload.c]\n{list}");
    let run = run(&channel(3, 5, &text));
    assert_eq!(greatest(&run, Latency::OneWay), Span(2_820_000));
}

#[test]
fn an_interface_feeds_the_slots() {
    let interface = "interface = { host_send_buffers = 8, host_receive_buffers = 8, \
                     receive_buffers = 4, message = '932 B', entry = '4 B', \
                     prefetch = 'different_targets', bus = { host_write = '330 ns', \
                     poll = '400 ns', dma_setup = '330 ns', dma_rate = '4.224 Gbit/s' } }";
    let text = format!("{VOQ}\nadapter.send_buffers = 4\n{ACKNOWLEDGED}\n{interface}");
    let run = run(&channel(4, 5, &format!("{text}\n[workload.c]\nload = 0.2")));
    assert!(run.observations.delivered > 20);
    assert!(run.observations.budget.sum_ps(weft_fabric::measure::Stage::InitiatorHost) > 0);
}
