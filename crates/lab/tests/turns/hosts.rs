//! Hosts in front of links with turns, and links that damage packets.

use weft_fabric::measure::Latency;
use weft_kernel::Halt;
use weft_lab::{Plan, Request, simulate};

use super::{column, file, listed, refusal, run};

/// A call of 1 us and a copy of 1 us for 100 bytes before the channel, a copy of the same behind it.
const HOST: &str = "[channel.network.host]\nsend = ['call', 'copy']\nreceive = ['out']\n\
     [channel.network.host.resource.processor]\n\
     [channel.network.host.stage.call]\nfixed = '1 us'\nunit = 'message'\nuses.processor = 0\n\
     [channel.network.host.stage.copy]\nrate = '100 MB/s'\nuses.processor = 0\n\
     [channel.network.host.stage.out]\nrate = '100 MB/s'\nuses.processor = 0\n";

/// In step with the turns, a message of 100 bytes that its program submits 2 us before the channel
/// gets it has all its times on the channel as without hosts, and 1 us more behind it.
#[test]
fn hosts_add_their_stages_to_the_times_of_the_channel() {
    let alone = run(&listed(100, &[(10_000, 0, 1)], ""), 1);
    let hosted = run(&listed(100, &[(8_000, 0, 1)], HOST), 1);
    let (alone, hosted) = (&alone.observations, &hosted.observations);
    let one_way = |seen: &weft_fabric::measure::Observations| {
        seen.recorder(Latency::OneWay).max().expect("delivered").0
    };
    assert_eq!(one_way(hosted), one_way(alone) + 3_000_000);
    assert_eq!(hosted.budget.total_ps(), u128::from(one_way(hosted)));
}

/// Random traffic of messages of several packets, cut off in the middle: hosts account for messages,
/// the channel behind them for packets (a run that does not is an error).
#[test]
fn hosts_and_the_channel_behind_them_account_for_everything() {
    for load in [0.05, 0.9] {
        let text = file(&format!("{HOST}[workload.network]\nload = {load}\nmessage = '400 B'\n"))
            .replace("turns.phase = 'aligned'", "payload = '100 B'");
        for seed in 1..4 {
            let run = run(&text, seed);
            let seen = &run.observations;
            assert!(seen.delivered > 20, "{}", seen.delivered);
            assert_eq!(seen.generated, seen.delivered + run.backlog + run.in_flight);
        }
    }
}

/// A program over hosts in front of the links, whose barrier its ranks keep by messages then.
#[test]
fn a_program_runs_over_hosts() {
    let program =
        "[program]\nrun.ping_pong = { size = '100 B', rounds = 10 }\nchannel = 'network'\n";
    let time = |more: &str| {
        let text = format!("base = 'maestro'\n{more}{program}");
        let plan = Plan::new(&Request::of_text("hosts.toml", &text)).expect(&text);
        let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect(&text);
        column(&runs[0], "program_one_way_mean_us")
    };
    let longer = time(HOST) - time("");
    assert!((1.0..6.0).contains(&longer), "{longer}");
}

/// The third of seven packets of the second message, on its first link: its target has the message and
/// cannot use it; every other one arrives.
#[test]
fn a_damaged_packet_spoils_its_message_and_no_other() {
    let errors = "[channel.network.errors]\npackets = [{ host = 0, packet = 9 }]\n";
    let messages: Vec<(u64, u16, u16)> = (0..4).map(|n| (n * 1_000, 0, 1)).collect();
    let run = run(&listed(100, &messages, errors), 1);
    let seen = &run.observations;
    assert_eq!((seen.generated, seen.delivered, seen.abandoned), (4, 3, 1));
    assert_eq!(column(&run, "damaged_packets"), 1.0);
    assert_eq!((run.backlog, run.in_flight), (0, 0));
}

/// At a bit error rate of 1e-4 a packet of 128 bits has a wrong one with 1.27 %, and a message of seven
/// packets on two links is whole with (1 - 0.0127)^14 = 0.836.
#[test]
fn bit_errors_spoil_messages_by_their_length() {
    let errors = "[channel.network.errors]\nbit_error_rate = 1e-4\n";
    let text = file(&format!("{errors}[workload.network]\nload = 0.2\n"))
        .replace("turns.phase = 'aligned'", "payload = '100 B'")
        .replace("1 ms", "20 ms");
    let run = run(&text, 1);
    let seen = &run.observations;
    let whole = seen.delivered as f64 / (seen.delivered + seen.abandoned) as f64;
    // Some 7000 messages: four standard deviations are 0.018.
    assert!(seen.delivered > 5_000, "{}", seen.delivered);
    assert!((whole - 0.836).abs() < 0.018, "{whole}");
}

#[test]
fn errors_that_no_link_with_turns_has_are_refused() {
    let refused = |keys: &str| {
        refusal(&file(&format!(
            "[workload.network]\nload = 0.1\n[channel.network.errors]\n{keys}\n"
        )))
    };
    let slots = refused("slots = [{ host = 0, slot = 3 }]");
    assert!(slots.contains("channel.network.errors.slots"), "{slots}");
    let beyond = refused("packets = [{ host = 8, packet = 3 }]");
    assert!(beyond.contains("a host below 8"), "{beyond}");
}
