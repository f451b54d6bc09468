//! Messages and hosts before the bulk channel whose schedule itself tells them of their packets.

use weft_fabric::measure::Latency;

use super::{channel, counter, runs};

/// The slot of these tests, in picoseconds.
const SLOT: u64 = 8_983_158;

/// The time from the program to the program of one message that takes `packets` slots, of whose packets
/// the first is damaged or none.
fn one_way(packets: u64, is_damaged: bool, more: &[&str]) -> u64 {
    let message = format!("workload.bulk.message={} B", packets * 2048);
    let mut overrides = vec![
        "system.hosts=2",
        "run.length=300 us",
        "run.regime=from_empty",
        "channel.bulk.adapter.release=acknowledgment",
        "channel.bulk.recovery.attempts=5",
        "workload.bulk.source.list=[{ time = '500 ns', from = 0, to = 1 }]",
        &message,
    ];
    if is_damaged {
        overrides.push("channel.bulk.errors.packets=[{ host = 0, packet = 0 }]");
    }
    overrides.extend(more);
    let runs = runs("clint", None, &overrides, 1);
    let run = channel(&runs, "bulk");
    let seen = &run.observations;
    assert_eq!((seen.delivered, seen.generated, run.backlog, run.in_flight), (1, 1, 0, 0));
    assert_eq!(counter(run, "duplicates"), 0.0);
    seen.recorder(Latency::OneWay).max().unwrap().0
}

/// By hand: the packet of 500 ns is sampled at the end of slot 0, sent 1880 ns after and there 8395.5 ns
/// later; each further packet takes a slot. That the first is damaged is known two slots after its start,
/// and the second goes again behind it. Of three packets the third has a grant for the slot that begins
/// then, in which the first goes; otherwise that has to be asked for again, in the third slot.
#[test]
fn a_message_passes_a_schedule_that_loses_packets() {
    for (packets, slots) in [(1, 3), (2, 3), (3, 2), (4, 2)] {
        let whole = SLOT - 500_000 + 1_880_000 + 8_395_500 + (packets - 1) * SLOT;
        assert_eq!(one_way(packets, false, &[]), whole);
        assert_eq!(one_way(packets, true, &[]), whole + slots * SLOT);
    }
}

/// A call of 2 us before the adapter and a poll of 3 us behind it: the message is sampled in the same slot,
/// so that only the poll is added.
#[test]
fn hosts_stand_before_a_schedule_that_loses_packets() {
    let hosts = [
        "channel.bulk.host.send=['call']",
        "channel.bulk.host.receive=['poll']",
        "channel.bulk.host.stage.call.fixed=2 us",
        "channel.bulk.host.stage.poll.fixed=3 us",
    ];
    for is_damaged in [false, true] {
        assert_eq!(one_way(2, is_damaged, &hosts), one_way(2, is_damaged, &[]) + 3_000_000);
    }
}
