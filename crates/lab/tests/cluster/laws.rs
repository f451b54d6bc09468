//! Laws of the coupled channels: equality with slots by themselves, conservation, order.

use proptest::prelude::*;
use weft_fabric::measure::{Collision, Drop, Latency};
use weft_lab::drive::trace::TraceEntry;
use weft_units::Time;

use super::{channel, counter, runs, trace};

/// A length at whose end no transfer is under way: all transfers of a slot start together, and the
/// last byte of a packet is there half a microsecond before the next ones start.
fn between_transfers(slots: u64) -> String {
    format!("run.length={} ps", slots * 8_983_158 + 1_880_000 + 8_500_000)
}

/// The coupled driver makes the schedule of slots by themselves: same arrivals, same requests, same
/// grants, transfers in the same picosecond.
#[test]
fn without_faults_all_drivers_make_one_schedule() {
    let length = between_transfers(400);
    for (load, burst) in [("0.3", "[1, 1]"), ("0.7", "[1, 5]"), ("0.9", "[1, 5]")] {
        let load = format!("workload.bulk.load={load}");
        let burst = format!("workload.bulk.burst.length.uniform={burst}");
        let common = [length.as_str(), "run.regime=from_empty", &load, &burst];
        let of = |preset: &str, more: &[&str]| {
            let overrides: Vec<&str> = common.iter().chain(more).copied().collect();
            let runs = runs("clint", Some(preset), &overrides, 7);
            let run = channel(&runs, "bulk");
            let seen = &run.observations;
            let latency = |kind| {
                let recorder = seen.recorder(kind);
                (recorder.count(), recorder.mean_ps(), recorder.max(), recorder.quantile(0.9))
            };
            let latencies = (latency(Latency::Queueing), latency(Latency::OneWay));
            let counts = (seen.generated, seen.delivered, seen.attempts, run.backlog);
            (counts, latencies, seen.fairness.delivered().to_vec())
        };
        let slotted = of("fitted", &[]);
        assert!(slotted.0.1 > 1000);
        let recovering = ["channel.bulk.recovery={ attempts = 1 }"];
        assert_eq!(of("fitted", &recovering), slotted, "with ideal signalling and recovery");
        assert_eq!(of("fitted+detailed", &[]), slotted, "with signalling that travels");
        let quick = ["workload.quick.load=0.2"];
        assert_eq!(of("fitted+detailed", &quick), slotted, "beside quick traffic");
        assert_eq!(of("fitted+q2+detailed", &quick), slotted, "beside interleaved quick traffic");
    }
}

/// Quick latency in detail against the mode of the document's own simulation, with 4.9 % less
/// bandwidth: a tenth to a third more, since packets of the schedule come in the way one by one.
/// They kill no request by `cfg` or `gnt`; `back` kills some in Q1, and now and then meets a `qack`
/// of another target, which the document's argument that high-priority packets cannot collide
/// leaves out: it speaks of `cfg`, `gnt` and `back` among themselves only.
#[test]
fn detail_and_reduced_bandwidth_agree_on_quick_latency() {
    for (architecture, load) in [("q1", "0.1"), ("q1", "0.3"), ("q2", "0.1"), ("q2", "0.3")] {
        let load = format!("workload.quick.load={load}");
        let run = |detail: bool| {
            let preset = match (architecture, detail) {
                ("q2", true) => Some("q2+detailed"),
                ("q2", false) => Some("q2"),
                (_, true) => Some("detailed"),
                (_, false) => None,
            };
            let bulk = "workload.bulk.load=0.6";
            let overrides = ["run.length=4 ms", "run.regime=from_empty", &load, bulk];
            let runs = runs("clint", preset, &overrides, 3);
            let quick = channel(&runs, "quick");
            let seen = &quick.observations;
            let killed = if detail {
                counter(channel(&runs, "bulk"), "quick_acknowledgments_killed")
            } else {
                0.0
            };
            let attempts = seen.attempts as f64;
            let control = seen.collisions(Collision::Control) as f64 / attempts;
            (seen.recorder(Latency::Queueing).mean_ps().unwrap() * 1e-6, control, killed / attempts)
        };
        let (reduced, ..) = run(false);
        let (detailed, control, killed) = run(true);
        println!(
            "{architecture} {load}: reduced {reduced:.3} us, detailed {detailed:.3} us, against \
             control {control:.4}, acknowledgments killed {killed:.5}"
        );
        assert!((0.7..1.4).contains(&(detailed / reduced)), "{detailed} {reduced}");
        assert!(control < 0.05 && killed < 0.01);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever goes wrong: every packet is delivered, given up by rule or held (the run itself is
    /// refused otherwise), and what a pair delivers comes in order (`out_of_order` is what the
    /// target refuses for that).
    #[test]
    fn packets_are_conserved_whatever_goes_wrong(
        bulk_errors in 0.0..0.3_f64,
        quick_errors in 0.0..0.05_f64,
        buffers in 1..4_u32,
        attempts in 1..4_u32,
        gives_up: bool,
        disabled in 0..4_u16,
        by in 0..4_u16,
        carried: bool,
        interleaved: bool,
        seed: u64,
    ) {
        let settings = [
            "system.hosts=4".to_owned(),
            "run.length=600 us".to_owned(),
            "run.regime=from_empty".to_owned(),
            "workload.bulk.load=0.6".to_owned(),
            "workload.quick.load=0.15".to_owned(),
            "channel.bulk.adapter.release=acknowledgment".to_owned(),
            format!("channel.bulk.errors.packet_error_rate={bulk_errors}"),
            format!("channel.quick.errors.packet_error_rate={quick_errors}"),
            format!("channel.bulk.receiver={{ buffers = {buffers}, service = '12 us' }}"),
            format!("channel.quick.receiver={{ buffers = {buffers}, service = '1 us' }}"),
            format!("channel.bulk.recovery.attempts={attempts}"),
            format!(
                "channel.bulk.recovery.on_error={}",
                if gives_up { "give_up" } else { "send_again" }
            ),
            format!("channel.bulk.disabled=[{{ host = {disabled}, from = '300 us' }}]"),
            format!(
                "channel.quick.disabled=[{{ host = {disabled}, from = '300 us', by = [{by}] }}]"
            ),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let mut presets = Vec::new();
        if interleaved {
            presets.push("q2");
        }
        if carried {
            presets.push("detailed");
        }
        let preset = presets.join("+");
        let preset = Some(preset.as_str()).filter(|preset| !preset.is_empty());
        let runs = runs("clint", preset, &settings, seed);
        let bulk = channel(&runs, "bulk");
        prop_assert!(bulk.observations.delivered > 20);
        prop_assert_eq!(gives_up || bulk.observations.abandoned == 0, true);
        prop_assert!(channel(&runs, "quick").observations.delivered > 20);
    }
}

/// Listed errors: each damages one transfer and costs it, and the next one of the pair, a turn.
#[test]
fn a_damaged_packet_is_sent_again_in_order() {
    let overrides = [
        "system.hosts=2",
        "run.length=200 us",
        "run.regime=from_empty",
        "channel.bulk.errors.packets=[{ host = 0, packet = 1 }]",
        "channel.bulk.adapter.release=acknowledgment",
        "workload.bulk.source.list=[\
            { time = '1 us', from = 0, to = 1 }, { time = '1 us', from = 0, to = 1 }, \
            { time = '1 us', from = 0, to = 1 }, { time = '1 us', from = 0, to = 1 }]",
        "run.trace=true",
    ];
    for preset in [None, Some("detailed")] {
        let runs = runs("clint", preset, &overrides, 1);
        let bulk = channel(&runs, "bulk");
        let sent: Vec<u64> = bulk.trace.iter().map(|entry| entry.sequence).collect();
        // Packet 1 is damaged; its silence is known two slots later, after 2 has been sent.
        assert_eq!(sent, [0, 1, 2, 1, 2, 3], "{preset:?}");
        let seen = &bulk.observations;
        assert_eq!((seen.delivered, seen.dropped(Drop::Corrupted)), (4, 1));
        assert_eq!(seen.dropped(Drop::OutOfOrder), 1);
        assert_eq!(counter(bulk, "reported_errors"), 0.0);
    }
}

/// A negative acknowledgment comes back within a slot, and the packet goes again.
#[test]
fn without_a_receive_buffer_the_target_refuses() {
    let overrides = [
        "system.hosts=2",
        "run.length=200 us",
        "run.regime=from_empty",
        "channel.bulk.receiver={ buffers = 1, service = '20 us' }",
        "channel.bulk.adapter.release=acknowledgment",
        "channel.bulk.recovery={ attempts = 1, on_error = 'give_up' }",
        "workload.bulk.source.list=[\
            { time = '1 us', from = 0, to = 1 }, { time = '1 us', from = 0, to = 1 }, \
            { time = '30 us', from = 0, to = 1 }]",
        "run.trace=true",
    ];
    let runs = runs("clint", Some("detailed"), &overrides, 1);
    let bulk = channel(&runs, "bulk");
    let seen = &bulk.observations;
    assert_eq!((seen.delivered, seen.abandoned, seen.generated), (2, 1, 3));
    assert_eq!(seen.dropped(Drop::NoReceiveBuffer), 1);
    assert_eq!(counter(bulk, "reported_errors"), 1.0);
    let quick = channel(&runs, "quick");
    let reports: Vec<&str> = quick
        .trace
        .iter()
        .filter(|entry| entry.kind == "back")
        .map(|entry| entry.content.as_str())
        .collect();
    assert_eq!(reports, ["accepted", "no receive buffer", "accepted"]);
}

/// CL-49: from its time on a disabled initiator gets no grants, and its quick requests are not
/// forwarded; others go on.
#[test]
fn a_disabled_initiator_sends_nothing_any_more() {
    let overrides = [
        "system.hosts=4",
        "run.length=400 us",
        "run.regime=from_empty",
        "channel.bulk.disabled=[{ host = 2, from = '200 us' }]",
        "channel.quick.disabled=[{ host = 2, from = '200 us' }]",
        "workload.bulk.load=0.5",
        "workload.quick.load=0.1",
        "run.trace=true",
    ];
    let runs = runs("clint", Some("detailed"), &overrides, 1);
    let bulk = channel(&runs, "bulk");
    let last = |host| {
        let of_host = bulk.trace.iter().filter(|entry| entry.initiator == Some(host));
        of_host.map(|entry| entry.time.0).max().unwrap()
    };
    // Earlier requests are still granted: at most one slot and the lead later.
    assert!(last(2) < 202_000_000, "{}", last(2));
    assert!(last(1) > 350_000_000);
    assert!(channel(&runs, "quick").observations.dropped(Drop::Disabled) > 0);
}

/// CL-48, CL-49: target 1 disables host 2 on the quick channel from 200 us on. The configuration that
/// says so is sampled with cycle 23, at 23 x 8983.158 ns = 206 612.6 ns, and is at the switch 288 ns
/// of `cfg` and 25 ns of cable later, at 206 925.5 ns. So the request of 205 us passes and the one of
/// 210 us does not; others pass, and so does the bulk channel, whose vector leaves nobody out.
/// Without packets of signalling the switch knows at once.
#[test]
fn a_target_disables_an_initiator_on_the_quick_channel() {
    let overrides = [
        "system.hosts=4",
        "run.length=240 us",
        "run.regime=from_empty",
        "run.trace=true",
        "channel.quick.disabled=[{ host = 2, from = '200 us', by = [1] }]",
        "workload.quick.source.list=[{ time = '205 us', from = 2, to = 1 }, \
            { time = '210 us', from = 2, to = 1 }, { time = '210 us', from = 2, to = 3 }, \
            { time = '212 us', from = 0, to = 1 }]",
        "workload.bulk.source.list=[{ time = '210 us', from = 2, to = 1 }]",
    ];
    for (preset, passes) in [(None, 2), (Some("detailed"), 3)] {
        let runs = runs("clint", preset, &overrides, 1);
        let quick = channel(&runs, "quick");
        assert_eq!(quick.observations.delivered, passes, "{preset:?}");
        assert!(quick.observations.dropped(Drop::Disabled) > 10, "it is sent again and again");
        let answers = quick.trace.iter().filter(|entry| entry.kind == "qack");
        let pair = |entry: &TraceEntry| (entry.initiator, entry.target);
        let to_2 = answers.filter(|entry| pair(entry) == (Some(1), Some(2)));
        assert!(to_2.clone().all(|entry| entry.time.0 < 207_000_000));
        assert_eq!(to_2.count() as u64, passes - 2);
        assert_eq!(channel(&runs, "bulk").observations.delivered, 1);
    }
}

/// CL-48: as above, with both vectors, but the configuration of target 1 in cycle 23, the 24th packet of
/// that host, is damaged. Neither vector changes by it: what comes before the next one, sampled at
/// 24 x 8983.158 ns = 215 595.8 ns and at the switch 313 ns later, passes on both channels.
#[test]
fn a_damaged_configuration_changes_no_enable_vector() {
    let delivered = |damaged: &[&str]| {
        let mut overrides = vec![
            "system.hosts=4",
            "run.length=240 us",
            "run.regime=from_empty",
            "channel.bulk.adapter.release=acknowledgment",
            "channel.quick.disabled=[{ host = 2, from = '200 us', by = [1] }]",
            "channel.bulk.disabled=[{ host = 2, from = '200 us', by = [1] }]",
            "workload.quick.source.list=[{ time = '210 us', from = 2, to = 1 }, \
                { time = '217 us', from = 2, to = 1 }]",
            "workload.bulk.source.list=[{ time = '203 us', from = 2, to = 1 }, \
                { time = '214 us', from = 2, to = 1 }]",
        ];
        overrides.extend(damaged);
        let runs = runs("clint", Some("detailed"), &overrides, 1);
        let lost = counter(channel(&runs, "bulk"), "lost_configurations");
        (lost, ["bulk", "quick"].map(|name| channel(&runs, name).observations.delivered))
    };
    assert_eq!(delivered(&[]), (0.0, [0, 0]));
    let damaged = "channel.quick.errors.packets=[{ host = 1, packet = 23 }]";
    assert_eq!(delivered(&[damaged]), (1.0, [1, 1]));
}

/// CL-9, CL-36: every node is initiator and target on both channels at once. What an initiator asks
/// for with a request packet its target answers with an acknowledgment packet, to that initiator.
#[test]
fn every_node_has_four_agents() {
    let overrides = [
        "system.hosts=3",
        "run.length=400 us",
        "run.regime=from_empty",
        "workload.bulk.load=0.3",
        "workload.quick.load=0.05",
        "run.trace=true",
    ];
    let runs = runs("clint", Some("detailed"), &overrides, 1);
    let trace = trace(&runs);
    for (request, answer) in [("breq", "back"), ("qreq", "qack")] {
        let of = |kind: &str| {
            let of_kind = trace.iter().filter(|entry| entry.kind == kind);
            let pair = |entry: &&TraceEntry| (entry.initiator.unwrap(), entry.target.unwrap());
            of_kind.map(|entry| (pair(entry), entry.until)).collect::<Vec<_>>()
        };
        let (requests, answers) = (of(request), of(answer));
        for node in 0..3 {
            assert!(requests.iter().any(|((from, _), _)| *from == node), "{node} asks {request}");
            assert!(answers.iter().any(|((from, _), _)| *from == node), "{node} tells {answer}");
        }
        for ((target, initiator), time) in answers {
            let asked = |((from, to), at): &((u32, u32), Time)| {
                (*from, *to) == (initiator, target) && *at < time
            };
            assert!(requests.iter().any(asked), "{answer} of {target} to {initiator}");
        }
    }
}

/// CL-49: one target disables an initiator on the bulk channel, and the initiator sends to others.
#[test]
fn a_target_disables_an_initiator_on_the_bulk_channel() {
    let overrides = [
        "system.hosts=4",
        "run.length=100 us",
        "run.regime=from_empty",
        "run.trace=true",
        "channel.bulk.disabled=[{ host = 2, by = [1, 0] }]",
        "workload.quick.source.list=[{ time = '20 us', from = 2, to = 1 }]",
        "workload.bulk.source.list=[{ time = '1 us', from = 2, to = 1 }, \
            { time = '1 us', from = 2, to = 3 }, { time = '1 us', from = 3, to = 1 }]",
    ];
    for preset in [None, Some("detailed")] {
        let runs = runs("clint", preset, &overrides, 1);
        let bulk = channel(&runs, "bulk");
        let mut sent: Vec<_> = bulk.trace.iter().map(|e| (e.initiator, e.target)).collect();
        sent.sort_unstable();
        assert_eq!(sent, [(Some(2), Some(3)), (Some(3), Some(1))], "{preset:?}");
        assert_eq!((bulk.observations.delivered, bulk.backlog), (2, 1));
        assert_eq!(channel(&runs, "quick").observations.delivered, 1, "its vector is another one");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Clint 3.2: "packets are transferred in order" for a pair. By what the targets acknowledge:
    /// each pair's packets are accepted by number, without a gap unless some are given up.
    #[test]
    fn packets_of_a_pair_arrive_in_order(
        errors in 0.0..0.4_f64,
        quick_errors in 0.0..0.1_f64,
        gives_up: bool,
        seed: u64,
    ) {
        let on_error = if gives_up { "give_up" } else { "send_again" };
        let settings = [
            "system.hosts=4".to_owned(),
            "run.length=1 ms".to_owned(),
            "run.regime=from_empty".to_owned(),
            "run.trace=true".to_owned(),
            "workload.bulk.load=0.6".to_owned(),
            "workload.bulk.burst.length.uniform=[1, 5]".to_owned(),
            "channel.bulk.adapter.release=acknowledgment".to_owned(),
            format!("channel.bulk.errors.packet_error_rate={errors}"),
            format!("channel.quick.errors.packet_error_rate={quick_errors}"),
            "channel.bulk.receiver={ buffers = 2, service = '9 us' }".to_owned(),
            format!("channel.bulk.recovery={{ attempts = 2, on_error = '{on_error}' }}"),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let runs = runs("clint", Some("detailed"), &settings, seed);
        let mut expected = [[0_u64; 4]; 4];
        let trace = trace(&runs);
        let accepted = trace.iter().filter(|e| e.kind == "back" && e.content == "accepted");
        for entry in accepted {
            // `back` goes from the target of the transfer to its initiator.
            let (target, initiator) = (entry.initiator.unwrap(), entry.target.unwrap());
            let expected = &mut expected[initiator as usize][target as usize];
            if gives_up {
                *expected = (*expected).max(entry.sequence + 1);
            } else {
                prop_assert!(entry.sequence <= *expected, "{} before {expected}", entry.sequence);
                *expected = (*expected).max(entry.sequence + 1);
            }
        }
        let numbered: u64 = expected.iter().flatten().sum();
        let delivered = channel(&runs, "bulk").observations.delivered;
        let given_up = channel(&runs, "bulk").observations.abandoned;
        // A pair may have one packet more: delivered, and its `back` damaged or on its way.
        prop_assert!(delivered <= numbered + 12 && numbered <= delivered + given_up);
    }
}

/// CL-62, an option: at light load a grant by guess saves the wait for the next sampling where the
/// guess is right. With two hosts it mostly is.
#[test]
fn speculation_saves_time_at_light_load() {
    let mean = |speculation: &str| {
        let speculation = format!("channel.bulk.switch.scheduled.speculation={speculation}");
        let overrides =
            ["system.hosts=2", "run.length=20 ms", "workload.bulk.load=0.1", &speculation];
        let runs = runs("clint", Some("fitted"), &overrides, 1);
        let seen = &channel(&runs, "bulk").observations;
        seen.recorder(Latency::Queueing).mean_ps().unwrap() * 1e-6
    };
    let (off, on) = (mean("off"), mean("fixed_priority"));
    println!("speculation: {off:.3} us without, {on:.3} us with");
    // The lead of 1.88 us is what a right guess saves.
    assert!(off - on > 1.0 && off - on < 1.95, "{off} {on}");
}
