//! Programs over a scheduled channel that is driven by events: with signalling in packets, or with
//! faults.

use super::files::{measured, spec_of};

/// A program on the bulk channel of Clint, with so much more in the file.
fn clint(preset: &str, more: &str, program: &str) -> String {
    format!(
        "base = 'clint'\n{preset}\n[system]\nhosts = 4\n{more}\n[program]\nchannel = 'bulk'\n{program}"
    )
}

const DETAILED: &str = "preset = 'detailed'";

/// Requests are sampled, grants used and packets sent at the same instants, so a program ends in the
/// same picosecond whether its slots are driven one by one or by events. Where configurations and grants are
/// packets a host learns its number from the first grant and asks for nothing before, one slot.
#[test]
fn a_program_takes_as_long_however_the_slots_are_driven() {
    let programs = [
        "run.ping_pong = { size = '2048 B', rounds = 20 }",
        "run.ping_pong = { size = '9000 B', rounds = 7 }",
        "run.all_to_all = { size = '5000 B', rounds = 5 }",
        "run.barrier = { rounds = 9 }",
    ];
    for program in programs {
        let time = |preset: &str, more: &str| {
            let runs = spec_of(&clint(preset, more, program)).expect(program);
            measured(&runs, "program_time_us")
        };
        // Buffers that are kept until the acknowledgment, as where a transfer may fail.
        let kept = "[channel.bulk.adapter]\nrelease = 'acknowledgment'";
        let slots = time("", kept);
        assert!(slots > 100.0, "{program}: {slots}");
        let recovery = "[channel.bulk.recovery]\nattempts = 3";
        assert_eq!(time("", &format!("{kept}\n{recovery}")), slots, "{program}");
        let learning = time(DETAILED, "") - time("", "");
        assert!((learning - 8.941_053).abs() < 1e-5, "{program}: {learning}");
    }
}

/// By hand: the first transmission of the first message is damaged. Its silence is known two slots
/// after its start, and the packet goes in the next slot whose requests are sampled after that, the
/// third: three slots of 8941.053 ns, (8344 + 150) / 0.95, later than without.
#[test]
fn a_damaged_packet_costs_a_program_its_slots() {
    let program = "run.ping_pong = { size = '2048 B', rounds = 1 }";
    let kept = "[channel.bulk.adapter]\nrelease = 'acknowledgment'";
    let damaged = format!("{kept}\n[channel.bulk.errors]\npackets = [{{ host = 0, packet = 0 }}]");
    for preset in ["", DETAILED] {
        let time = |more: &str| {
            let runs = spec_of(&clint(preset, more, program)).expect(more);
            measured(&runs, "program_time_us")
        };
        let cost = time(&damaged) - time(kept);
        assert!((cost - 3.0 * 8.941_053).abs() < 1e-5, "{preset}: {cost}");
    }
}

#[test]
fn a_message_that_is_given_up_is_named() {
    let more = "[channel.bulk.adapter]\nrelease = 'acknowledgment'\n\
                [channel.bulk.errors]\npackets = [{ host = 0, packet = 0 }]\n\
                [channel.bulk.recovery]\nattempts = 1\non_error = 'give_up'";
    let text = clint(DETAILED, more, "run.ping_pong = { size = '2048 B', rounds = 1 }");
    let error = spec_of(&text).expect_err("nothing to answer").to_string();
    assert!(error.contains("channel bulk lost a message of 2 KiB from rank 0"), "{error}");
}

#[test]
fn what_a_program_cannot_have_beside_it_is_refused_with_its_key() {
    let run = "run.ping_pong = { size = '64 B', rounds = 1 }";
    let cases = [
        (
            clint(DETAILED, "[workload.quick]\nload = 0.1", run),
            "workload.quick = given does not fit",
        ),
        (clint("preset = 'interface'", "", run), "channel.bulk.interface = given does not fit"),
        (
            clint("preset = 'shared_link'", "", run),
            "channel.bulk.switch.scheduled.signalling.carried.shared_link = given does not fit",
        ),
        (
            format!(
                "base = 'clint'\n{DETAILED}\n[program]\n\
                 route = [{{ up_to = '32 B', channel = 'quick' }}, {{ channel = 'bulk' }}]\n{run}"
            ),
            "channel.bulk.switch.scheduled.signalling.carried.by = quick does not fit",
        ),
    ];
    for (text, expected) in cases {
        let error = spec_of(&text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\nlacks: {expected}");
    }
}
