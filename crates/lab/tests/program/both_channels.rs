//! Programs over a scheduled channel and the one that carries its signalling, in one simulation: the
//! bulk and the quick channel of Clint with the preset `detailed`.

use std::num::NonZeroUsize;
use std::path::Path;

use weft_lab::{ChannelRun, Options, Request, run};

use super::cluster::interface;
use super::files::{measured, spec_of};

/// By size, over both channels.
const BY_SIZE: &str = "route = [{ up_to = '32 B', channel = 'quick' }, { channel = 'bulk' }]";

fn text(preset: &str, (hosts, more): (u32, &str), program: &str) -> String {
    format!(
        "base = 'clint'\npreset = '{preset}'\n[system]\nhosts = {hosts}\n{more}\n[program]\n{program}\n"
    )
}

fn runs(preset: &str, hosts: (u32, &str), program: &str) -> Vec<ChannelRun> {
    let text = text(preset, hosts, program);
    spec_of(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn of<'a>(runs: &'a [ChannelRun], channel: &str) -> &'a ChannelRun {
    runs.iter().find(|run| run.channel == channel).expect(channel)
}

fn counter(runs: &[ChannelRun], channel: &str, name: &str) -> f64 {
    let found = of(runs, channel).counters.iter().find(|(column, _)| *column == name);
    found.unwrap_or_else(|| panic!("no {name} of {channel}")).1
}

/// Rank 0 computes for some time, which is a file of its own, and sends so many bytes to rank 1.
fn sent_after(ns: u32, bytes: u32) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("after-{ns}-{bytes}.goal"));
    let text = format!(
        "num_ranks 2\nrank 0 {{\na: calc {ns}\nb: send {bytes}b to 1\nb requires a\n}}\n\
         rank 1 {{\na: recv {bytes}b from 0\n}}\n"
    );
    std::fs::write(&path, text).expect("the folder of the tests can be written");
    format!("trace.goal.file = '{}'\n{BY_SIZE}", path.display())
}

fn assert_ps(us: f64, ps: u64) {
    assert!((us * 1e6 - ps as f64).abs() < 0.5, "{us} us, where {ps} ps are expected");
}

/// 36 B take 545.455 ns, cables 50, the switch 90: 685.455 ns in all. The link of a host is clear when its
/// configuration has left, at 287.879 ns. A request that would be at the output at 1572.879 ns, with
/// the grants, starts behind them, at 1608.485 ns (see `cluster::times`). Where no program uses the bulk
/// channel there are none.
#[test]
fn a_quick_message_keeps_clear_of_configurations_and_grants() {
    for (after, start) in [(0, 287_879), (500, 500_000), (1002, 1_002_000), (1003, 1_608_485)] {
        let program = sent_after(after, 32);
        let both = runs("detailed", (2, ""), &program);
        assert_ps(measured(&both, "program_time_us"), start + 685_455);
        assert_eq!(of(&both, "quick").observations.delivered, 1);
        let alone = program.replace(BY_SIZE, "channel = 'quick'");
        let alone = runs("detailed", (2, ""), &alone);
        assert_ps(measured(&alone, "program_time_us"), u64::from(after) * 1000 + 685_455);
    }
}

/// A slot is (8344 + 150) / 0.95 = 8941.053 ns. A host has its number from the first grant and asks in
/// the second slot; a packet starts 1880 ns after its request was sampled and takes 8395.5 ns.
#[test]
fn a_bulk_message_takes_the_slot_that_it_would_alone() {
    for (after, slot) in [(0, 1), (8_941, 1), (8_942, 2), (100_000, 12)] {
        let program = sent_after(after, 2048);
        let both = runs("detailed", (2, ""), &program);
        let alone = runs("detailed", (2, ""), &program.replace(BY_SIZE, "channel = 'bulk'"));
        assert_ps(measured(&both, "program_time_us"), slot * 8_941_053 + 10_275_500);
        assert_eq!(measured(&alone, "program_time_us"), measured(&both, "program_time_us"));
        assert_eq!(of(&both, "bulk").observations.delivered, 1);
    }
}

/// The request of 32 B is there at 973.334 ns, so that the reply is asked for in slot 1 and there
/// 10 275.5 ns after that was sampled.
#[test]
fn a_reply_takes_another_channel_than_its_request() {
    let program = "run.request_reply = { size = '32 B', reply = '2 KiB', rounds = 1 }";
    let both = runs("detailed", (2, ""), &format!("{program}\n{BY_SIZE}"));
    assert_ps(measured(&both, "program_time_us"), 8_941_053 + 10_275_500);
    let delivered = |name| of(&both, name).observations.delivered;
    assert_eq!((delivered("bulk"), delivered("quick")), (1, 1));
    // On the bulk channel alone the request takes as long, and the reply is asked for in slot 3.
    let bulk = runs("detailed", (2, ""), &format!("{program}\nchannel = 'bulk'"));
    assert_ps(measured(&bulk, "program_time_us"), 3 * 8_941_053 + 10_275_500);
}

/// The answer is at hand at 973.334 ns, behind the acknowledgment of 60.606 ns, at 1033.940 ns, too late to
/// be through before the grants: it starts behind them, at 1608.485 ns.
#[test]
fn an_answer_waits_for_its_acknowledgment_and_for_the_grants() {
    let program = format!("run.ping_pong = {{ size = '32 B', rounds = 1 }}\n{BY_SIZE}");
    let both = runs("detailed", (2, ""), &program);
    assert_ps(measured(&both, "program_time_us"), 1_608_485 + 685_455);
}

const MIXED: &str = "run.request_reply = { size = '32 B', reply = '9000 B', rounds = 4 }";

/// Packets of the schedule go first: the bulk channel serves a program in the same picosecond, however
/// many quick packets are beside it.
#[test]
fn quick_packets_take_nothing_from_the_bulk_channel() {
    let time = |load: &str| {
        let more = format!("[run]\nlength = '400 us'\n[workload.quick]\nload = {load}");
        let program = format!("run.all_to_all = {{ size = '5 kB', rounds = 3 }}\n{BY_SIZE}");
        let both = runs("detailed", (8, &more), &program);
        let beside = counter(&both, "quick", "background_delivered_messages");
        (measured(&both, "program_time_us"), beside)
    };
    let (few, many) = (time("1e-9"), time("0.3"));
    assert_eq!(few.0, many.0);
    assert!(few.1 == 0.0 && many.1 > 1000.0, "{few:?} {many:?}");
}

/// The packet of rank 1 is at rank 2 at 19 216.553 ns, which answers at once: 25 ns later the acknowledgment
/// is at the output to rank 1. There a request of rank 0, sent at 18 800 ns, is on its way through from
/// 18 825 to 19 370.455 ns, and is dropped. It is sent again when its timer of 1590 ns runs out.
#[test]
fn an_acknowledgment_of_a_bulk_packet_drops_a_quick_one_that_it_meets() {
    let time = |bulk: [&str; 2]| {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("meet-{}.goal", bulk[0].len()));
        let goal = format!(
            "num_ranks 3\nrank 0 {{\na: calc 18800\nb: send 32b to 1 tag 1\nb requires a\n}}\n\
             rank 1 {{\n{}a: recv 32b from 0 tag 1\n}}\nrank 2 {{\n{}}}\n",
            bulk[0], bulk[1]
        );
        std::fs::write(&path, goal).expect("the folder of the tests can be written");
        let program = format!("trace.goal.file = '{}'\n{BY_SIZE}", path.display());
        measured(&runs("detailed", (3, ""), &program), "program_time_us")
    };
    assert_ps(time(["", ""]), 18_800_000 + 685_455);
    let met = time(["b: send 2048b to 2\n", "b: recv 2048b from 1\n"]);
    assert_ps(met, 18_800_000 + 1_590_000 + 685_455);
}

/// Traffic of the bulk channel signals beside a program that uses the quick channel alone.
#[test]
fn a_program_on_one_of_two_channels_has_the_traffic_of_the_other_beside_it() {
    let seen = |more: &str, route: &str| {
        let program = "run.ping_pong = { size = '32 B', rounds = 200 }";
        runs("detailed", (8, more), &format!("{program}\n{route}"))
    };
    let load = "[run]\nlength = '400 us'\n[workload.bulk]\nload = 0.8";
    let one_way = |runs: &[ChannelRun]| counter(runs, "quick", "program_one_way_mean_us");
    let (alone, beside) = (seen("", "channel = 'quick'"), seen(load, "channel = 'quick'"));
    assert!(one_way(&beside) > one_way(&alone), "{} {}", one_way(&alone), one_way(&beside));
    assert!(counter(&beside, "bulk", "background_delivered_messages") > 100.0);
    assert_eq!(one_way(&beside), one_way(&seen(load, BY_SIZE)));
    assert_eq!(alone.len(), 1);
}

/// Whatever is on either channel, of the program and beside it, is accounted for: by each channel (or
/// there is no run), and by kind.
#[test]
fn what_both_channels_carry_at_once_is_conserved() {
    let more =
        "[run]\nlength = '300 us'\n[workload.bulk]\nload = 0.6\n[workload.quick]\nload = 0.2";
    let both = runs("detailed", (16, more), &format!("{MIXED}\n{BY_SIZE}"));
    // 15 clients ask 4 times; a reply is 5 packets.
    for (channel, packets) in [("bulk", 15.0 * 4.0 * 5.0), ("quick", 15.0 * 4.0)] {
        let beside = |what: &str| counter(&both, channel, &format!("background_{what}_messages"));
        let kept = beside("delivered") + beside("under_way");
        assert_eq!(beside("generated"), kept, "{channel}");
        assert!(beside("delivered") > 100.0, "{channel}");
        let seen = &of(&both, channel).observations;
        assert_eq!(seen.generated as f64, packets + beside("generated"), "{channel}");
        assert_eq!(seen.delivered as f64, packets + beside("delivered"), "{channel}");
    }
    assert_eq!(of(&both, "bulk").until, of(&both, "quick").until);
}

/// Which of the two a file names first, and so which ends first, says nothing.
#[test]
fn the_order_of_the_channels_changes_nothing() {
    let of_route = |route: &str| {
        let both = runs("detailed", (8, ""), &format!("{MIXED}\nroute = [{route}]"));
        ["bulk", "quick"].map(|name| {
            let run = of(&both, name);
            let seen = format!("{:?}", run.observations);
            (run.counters.clone(), run.steps, run.until, run.backlog, run.in_flight, seen)
        })
    };
    let (quick, bulk) = ("{ up_to = '32 B', channel = 'quick' }", "{ channel = 'bulk' }");
    // No reply is a store.
    let first = "{ kind = 'store', channel = 'bulk' }";
    assert_eq!(
        of_route(&format!("{quick}, {bulk}")),
        of_route(&format!("{first}, {quick}, {bulk}"))
    );
}

/// Channels that each host sees through an interface, with both in use. A message of 32 B is in the
/// adapter after a register of 300 ns and a copy of 456 ns. There it starts at 756 ns, is at the other one
/// 685.455 ns later, and its handler ends after a copy of 456, a poll of 50 and 1100 ns.
#[test]
fn messages_go_through_interfaces_of_both_channels() {
    let kept = "[channel.bulk.adapter]\nrelease = 'acknowledgment'\n";
    let more = format!("{kept}{}{}", interface("quick", ""), interface("bulk", ""));
    let quick = runs("detailed", (2, &more), &sent_after(0, 32));
    assert_ps(
        measured(&quick, "program_time_us"),
        756_000 + 685_455 + 456_000 + 50_000 + 1_100_000,
    );
    // A bulk packet is asked for when it is in the adapter, in slot 1, and is there as above.
    let bulk = runs("detailed", (2, &more), &sent_after(0, 2048));
    let handled = 8_941_053 + 10_275_500 + 456_000 + 50_000 + 1_100_000;
    assert_ps(measured(&bulk, "program_time_us"), handled);
    let both = runs("detailed", (4, &more), &format!("{MIXED}\n{BY_SIZE}"));
    assert_eq!(counter(&both, "quick", "handled_messages"), 3.0 * 4.0);
    assert_eq!(counter(&both, "bulk", "handled_messages"), 3.0 * 4.0 * 5.0);
}

/// Hosts whose stages stand before both channels: a register, a fetch and the bus before a message, the bus,
/// a deposit and a poll behind it. 32 B take 60.606 ns of the bus, 2 KiB 3878.788.
#[test]
fn hosts_stand_before_both_channels() {
    for (bytes, bus, started_to_there) in [
        (32, 60_606, 330_000 + 330_000 + 60_606 + 685_455),
        (2048, 3_878_788, 8_941_053 + 10_275_500),
    ] {
        let both = runs("compare+detailed", (2, ""), &sent_after(0, bytes));
        let there = started_to_there + bus + 330_000 + 400_000;
        assert_ps(measured(&both, "program_time_us"), there);
    }
    let both = runs("compare+detailed", (4, ""), &format!("{MIXED}\n{BY_SIZE}"));
    // Replies are one message each, of 5 packets.
    assert_eq!(of(&both, "bulk").observations.delivered, 3 * 4);
    assert_eq!(of(&both, "quick").observations.delivered, 3 * 4);
}

/// Damaged packets on either channel are retransmitted, and every message arrives.
#[test]
fn a_program_goes_on_over_channels_that_damage_packets() {
    let errors = |channel: &str| format!("[channel.{channel}.errors]\npacket_error_rate = 0.05\n");
    let more = format!(
        "[channel.bulk.adapter]\nrelease = 'acknowledgment'\n{}{}",
        errors("bulk"),
        errors("quick")
    );
    let both = runs("detailed", (8, &more), &format!("{MIXED}\n{BY_SIZE}"));
    let delivered = |name| of(&both, name).observations.delivered;
    assert_eq!((delivered("bulk"), delivered("quick")), (7 * 4 * 5, 7 * 4));
    let whole = runs("detailed", (8, ""), &format!("{MIXED}\n{BY_SIZE}"));
    assert!(measured(&both, "program_time_us") > measured(&whole, "program_time_us"));
}

/// On one shared link a slot is (8344 + 1106) / 0.95 = 9947.368 ns and both channels take 90 ns through the
/// switch. The configuration of slot 2, 19 B at 2 Gbit/s, goes before the last bytes of the transfer of
/// slot 1 and makes it 76 ns later.
#[test]
fn programs_run_over_two_channels_of_one_link() {
    let transfer = 9_947_368 + 1_880_000 + 8_344_000 + 76_000;
    for route in ["channel = 'bulk'", BY_SIZE] {
        let program = sent_after(0, 2048).replace(BY_SIZE, route);
        let one = runs("shared_link", (2, ""), &program);
        assert_ps(measured(&one, "program_time_us"), transfer + 50_000 + 90_000);
        // The memory of a message may be reused when its last byte has left.
        let ranks = one.iter().find_map(|run| run.ranks.as_ref()).expect("the ranks");
        assert_eq!(ranks.ends[0].0, transfer);
    }
    // A quick message in the midst of it takes 144 ns of it.
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-link.goal");
    let goal = "num_ranks 2\nrank 0 {\na: send 2048b to 1\nb: calc 15000\nc: send 32b to 1 tag 1\n\
                c requires b\n}\nrank 1 {\na: recv 2048b from 0\nb: recv 32b from 0 tag 1\n}\n";
    std::fs::write(&path, goal).expect("the folder of the tests can be written");
    let program = format!("trace.goal.file = '{}'\n{BY_SIZE}", path.display());
    let both = runs("shared_link", (2, ""), &program);
    assert_ps(measured(&both, "program_time_us"), transfer + 144_000 + 50_000 + 90_000);
}

/// A run is a matter of its point and its seed, whatever the number of threads of a study.
#[test]
fn a_study_of_both_channels_has_the_same_tables_on_any_number_of_threads() {
    let more = "[run]\nlength = '60 us'\nseeds = 2\n[workload.bulk]\nload = 0.5\n\
                [workload.quick]\nload = 0.1\n[sweep]\n'workload.bulk.load' = [0.2, 0.5]";
    let request = Request::of_text(
        "threads.toml",
        &text("detailed", (8, more), &format!("{MIXED}\n{BY_SIZE}")),
    );
    let tables = |workers: usize| {
        let options = Options { workers: NonZeroUsize::new(workers), ..Options::default() };
        let outcome = run(&request, &options, &mut |_, _| true).expect("a study");
        format!("{:?}", outcome.tables)
    };
    assert_eq!(tables(1), tables(3));
}

/// One channel cannot carry the signalling of two that a program uses at once.
#[test]
fn one_channel_signals_for_one_other() {
    let more = "[channel.second]\npacket = '2086 B'\npayload = '2048 B'\n\
                link = { rate = '2 Gbit/s', length = '5 m', delay_per_metre = '5 ns' }\n\
                adapter.send_buffers = 16\n\
                [channel.second.switch.scheduled]\nlatency = '1.5 ns'\nrelock = 0.05\n\
                gap = '150 ns'\nlead = '1880 ns'\nscheduler.least_choice_first.round_robin = true\n\
                [channel.second.switch.scheduled.signalling.carried]\nby = 'quick'\n\
                configuration = '19 B'\ngrant = '4 B'\nacknowledgment = '4 B'\narbitration = '1.26 us'";
    let program = "run.ping_pong.size = '32 B'\n\
                   route = [{ up_to = '32 B', channel = 'quick' }, { up_to = '1 kB', channel = 'second' }, \
                   { channel = 'bulk' }]";
    let error = spec_of(&text("detailed", (4, more), program)).expect_err("two").to_string();
    let key = "channel.second.switch.scheduled.signalling.carried.by = quick does not fit";
    assert!(error.contains(key) && error.contains("channel.bulk"), "{error}");
    let fewer = program.replace("{ up_to = '1 kB', channel = 'second' }, ", "");
    assert!(spec_of(&text("detailed", (4, more), &fewer)).is_ok());
}
