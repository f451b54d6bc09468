//! Programs over a scheduled channel that is driven by events: with signalling in packets, or with
//! faults.

use weft_fabric::measure::Drop;

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

/// An interface on a channel whose host, bus and handlers take round times.
pub fn interface(channel: &str, more: &str) -> String {
    format!(
        "[channel.{channel}.interface]\nhost_send_buffers = 4\nhost_receive_buffers = 4\n\
         receive_buffers = 4\nmessage = '32 B'\n{more}\n\
         [channel.{channel}.interface.bus]\nhost_write = '300 ns'\npoll = '50 ns'\n\
         dma_setup = '200 ns'\ndma_rate = '1 Gbit/s'\n\
         [channel.{channel}.interface.handlers]\ndispatch = '100 ns'\nhandler = '1 us'\n"
    )
}

/// By hand: a message of 32 B is sent 300 ns (the register) and 456 ns (its copy, 200 ns and 8 ns a
/// byte) later than without an interface. At its target another copy, a poll of 50 ns and the handler
/// of 1100 ns pass until the rank has it. The host that answers writes a register of 300 ns before, to
/// give the receive buffer back. Without an interface its answer waits for the acknowledgment, 4 B at
/// 0.528 x 0.951 Gbit/s, which has long been sent here.
#[test]
fn a_message_through_an_interface_is_there_when_its_handler_has_ended() {
    let program = "run.ping_pong = { size = '32 B', rounds = 1 }";
    let quick = |more: &str| {
        let text = format!(
            "base = 'clint'\n[system]\nhosts = 4\n{more}\n[program]\nchannel = 'quick'\n{program}"
        );
        measured(&spec_of(&text).expect(more), "program_time_us")
    };
    let cost = quick(&interface("quick", "")) - quick("");
    let one_way = 0.300 + 0.456 + 0.456 + 0.050 + 1.100;
    let expected = 2.0 * one_way + 0.300 - 0.063_729;
    assert!((cost - expected).abs() < 1e-5, "{cost}");
}

/// On the bulk channel a host asks at the beginning of a slot, so that a message begins whole slots later,
/// and its handler ends when copy, poll and handler are over.
#[test]
fn a_message_through_an_interface_of_the_bulk_channel_waits_for_its_slot() {
    let program = "run.ping_pong = { size = '2048 B', rounds = 1 }";
    let time = |more: &str| {
        let runs = spec_of(&clint("", more, program)).expect(more);
        measured(&runs, "program_time_us")
    };
    let kept = "[channel.bulk.adapter]\nrelease = 'acknowledgment'\n";
    let cost = time(&format!("{kept}{}", interface("bulk", ""))) - time(kept);
    // Copy, poll and handler at the end of the answer; slots for all before.
    let slots = (cost - (0.456 + 0.050 + 1.100)) / 8.941_053;
    assert!((slots - slots.round()).abs() < 1e-5 && slots.round() >= 1.0, "{cost}: {slots}");
}

/// Messages of many packets come whole, and each of their packets calls one handler, although hosts and
/// adapters have one receive buffer each and handlers take so long that packets are refused.
#[test]
fn programs_run_over_interfaces_that_refuse_packets() {
    for (channel, packets) in [("bulk", 5), ("quick", 282)] {
        let small = interface(channel, "")
            .replace("receive_buffers = 4", "receive_buffers = 1")
            .replace("handler = '1 us'", "handler = '20 us'");
        let text = format!(
            "base = 'clint'\n[system]\nhosts = 4\n[channel.bulk.adapter]\nrelease = 'acknowledgment'\n\
             {small}\n[program]\nchannel = '{channel}'\nrun.all_to_all = {{ size = '9000 B', rounds = 2 }}"
        );
        let runs = spec_of(&text).expect(&text);
        let of_channel = runs.iter().find(|run| run.channel == channel).expect(channel);
        assert!(of_channel.observations.dropped(Drop::NoReceiveBuffer) > 0, "{channel}");
        // Two rounds, in which each of 4 hosts sends to 3 others.
        let handled = of_channel.counters.iter().find(|(column, _)| *column == "handled_messages");
        assert_eq!(handled.map(|own| own.1), Some(f64::from(2 * 4 * 3 * packets)), "{channel}");
    }
}

/// Clint 3.1: nothing passes between virtual networks.
#[test]
fn a_program_across_virtual_networks_loses_its_message() {
    for (channel, size) in [("bulk", "9000 B"), ("quick", "64 B")] {
        let networks = interface(channel, "virtual_networks = [[0, 2], [1, 3]]");
        let text = format!(
            "base = 'clint'\n[system]\nhosts = 4\n[channel.bulk.adapter]\nrelease = 'acknowledgment'\n\
             {networks}\n[program]\nchannel = '{channel}'\n\
             run.ping_pong = {{ size = '{size}', rounds = 1 }}"
        );
        let error = spec_of(&text).expect_err(&text).to_string();
        assert!(error.contains(&format!("channel {channel} lost a message")), "{error}");
    }
}
