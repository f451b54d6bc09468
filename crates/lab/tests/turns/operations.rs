//! Operations of a switch box for all hosts at once: one transfer to several, and the barrier.

use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_lab::drive::engine::Engine;
use weft_units::{Bytes, Time};

use super::laws::{in_tree, merge};
use super::{channel, column, file, run};

/// Carries a message to some hosts, and returns when each has it, in nanoseconds.
pub(super) fn carry(mut channel: Engine, to: Destination, size: u64) -> Vec<(u16, u64)> {
    let start = Time(100_000_000);
    let mut notices = Vec::new();
    channel.advance(start, &mut notices);
    channel.offer(start, Message { from: 0, to, size: Bytes(size), ticket: Ticket(7) });
    channel.advance(Time(5_000_000_000), &mut notices);
    assert_eq!(channel.next_time(), Time::NEVER, "nothing is under way any more");
    let sent = notices.iter().filter(|notice| matches!(notice, Notice::Sent { .. })).count();
    assert_eq!(sent, 1);
    let delivered = notices.iter().filter_map(|notice| match *notice {
        Notice::Delivered { time, to, ticket: Ticket(7) } => {
            Some((to, time.since(start).0 / 1_000))
        }
        _ => None,
    });
    delivered.collect()
}

/// Maestro 3.3: "permits the switch controller to multicast a message to two or more FIFO buffers at
/// once". Links are in step, so all targets have it at the same time as one alone would; copies
/// leave the initiator one after another.
#[test]
fn a_multicast_takes_as_long_as_a_message_to_one() {
    let one = carry(channel(&file("")), Destination::Host(3), 1_000);
    let all = carry(channel(&file("")), Destination::Hosts(0b1111_1110), 1_000);
    assert_eq!(all.len(), 7);
    assert!(all.iter().all(|(_, time)| *time == one[0].1), "{one:?} {all:?}");
    let copies = file("[channel.network.switch.fifo_bus]\nmulticast = false\n");
    let copies = carry(channel(&copies), Destination::Hosts(0b1111_1110), 1_000);
    let last = copies.iter().map(|(_, time)| *time).max();
    assert_eq!(copies.len(), 7);
    assert!(last > Some(5 * one[0].1), "{one:?} {copies:?}");
}

/// Hosts arrive at the barrier at different times; all leave it after the last one, and together. In
/// step, the request of the last one takes 1780 ns from the beginning of a turn; the controller counts
/// it and puts the acknowledgment on the bus (40 + 320 ns); that waits for the next turn.
#[test]
fn all_leave_the_barrier_together_after_the_last() {
    let mut channel = channel(&file(""));
    let mut notices = Vec::new();
    for host in 0..8_u16 {
        let now = Time(50_160_000 + u64::from(host) * 22_800_000 - 320_000);
        channel.advance(now, &mut notices);
        assert_eq!(notices, [], "nobody leaves before host {host} has come");
        assert!(channel.barrier(now, host, 8, Ticket(u64::from(host))));
    }
    channel.advance(Time(5_000_000_000), &mut notices);
    let mut left: Vec<(u16, u64, u64)> = notices
        .iter()
        .map(|notice| match *notice {
            Notice::Delivered { time, ticket, to } => (to, ticket.0, time.0 / 1_000),
            other => panic!("{other:?}"),
        })
        .collect();
    left.sort_unstable();
    // The last request is in its FIFO at 50160 + 7 x 22800 = 209760 = 92 x 2280 ns, and at the switch
    // at 211540, where the turns of the switch begin on every link since each has carried a request.
    // It is answered at 211900, so this turn is null, that of the host, too, and the next one begins
    // at 213820: to 215600, and it is read until 215920.
    let expected: Vec<(u16, u64, u64)> =
        (0..8).map(|host| (host, u64::from(host), 215_920)).collect();
    assert_eq!(left, expected);
}

/// In a tree of boxes a message goes up once and parts where its ways do: 0 to 3 are below one box, 4
/// to 7 below another. In step, all hosts beyond the root have it when one of them alone would.
#[test]
fn a_multicast_parts_in_the_boxes_of_a_tree() {
    let tree = || channel(&merge(&file(""), &in_tree(2_048)));
    let near = carry(tree(), Destination::Host(3), 1_000);
    let far = carry(tree(), Destination::Host(7), 1_000);
    let mut all = carry(tree(), Destination::Hosts(0b1111_1110), 1_000);
    all.sort_unstable();
    let expected: Vec<(u16, u64)> =
        (1..8).map(|host| (host, if host < 4 { near[0].1 } else { far[0].1 })).collect();
    assert_eq!(all, expected);
    assert!(far[0].1 > near[0].1);
}

/// What does not fit a FIFO leaves as copies, one after another.
#[test]
fn a_multicast_longer_than_a_fifo_leaves_as_copies_in_a_tree() {
    let tree = |size| {
        let channel = channel(&merge(&file(""), &in_tree(512)));
        carry(channel, Destination::Hosts(0b1111_1110), size).iter().map(|own| own.1).max()
    };
    // 32 packets carry 11 + 14 + 30 x 16 bytes.
    let (fits, longer) = (tree(505), tree(506));
    assert!(longer > fits.map(|time| 4 * time), "{fits:?} {longer:?}");
}

/// Each box of a tree tells the one above it when all below have come, and the uppermost one answers.
/// The requests are in the FIFOs of the hosts at 20520 = 9 x 2280 ns and at the boxes at 22300. That
/// to the root is in its FIFO 40 + 320 ns later and leaves with the turn of the box at 1140 + 10 x
/// 2280 = 23940: at the root at 25720, where it is answered until 26080. The turn of the root at 25720
/// is null, that of the box, too; the next one at 28000 brings the answer to the boxes at 29780, and
/// into the FIFOs to the hosts at 30140. Their turns are at 22300 + 4 x 2280 = 31420: to 33200, and
/// it is read until 33520.
#[test]
fn a_barrier_goes_up_and_down_a_tree() {
    let meet = |hosts: std::ops::Range<u16>, count: u16| {
        let mut channel = channel(&merge(&file(""), &in_tree(2_048)));
        let mut notices = Vec::new();
        let start = Time(20_200_000);
        channel.advance(start, &mut notices);
        assert!(hosts.clone().all(|host| channel.barrier(start, host, count, Ticket(host.into()))));
        channel.advance(Time(5_000_000_000), &mut notices);
        let mut left: Vec<(u64, u64)> =
            notices.iter().map(|own| (own.ticket().0, own.time().since(start).0 / 1_000)).collect();
        left.sort_unstable();
        left
    };
    assert_eq!(meet(0..7, 8), [], "nobody leaves before the last one has come");
    let all = meet(0..8, 8);
    let hosts: Vec<u64> = all.iter().map(|own| own.0).collect();
    assert_eq!(hosts, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(all.iter().all(|own| own.1 == all[0].1), "{all:?}");
    assert_eq!(all[0].1, 33_520 - 20_200);
}

/// A second barrier counts from zero again.
#[test]
fn a_barrier_can_be_used_again() {
    let mut channel = channel(&file(""));
    let mut notices = Vec::new();
    for round in 0..3_u64 {
        let now = Time(10_000_000_000 * (round + 1));
        channel.advance(now, &mut notices);
        assert!((0..8).all(|host| channel.barrier(now, host, 8, Ticket(round))));
    }
    channel.advance(Time(100_000_000_000), &mut notices);
    assert_eq!(notices.len(), 24);
}

/// The mean time of ten barriers in a file, in nanoseconds.
fn barrier_ns(base: &str, by: &str) -> u64 {
    let text = format!(
        "base = '{base}'\n[program]\nrun.barrier = {{ rounds = 10, by = '{by}' }}\n\
         channel = '{}'\n",
        if base.starts_with("maestro") { "network" } else { "quick" }
    );
    (column(&run(&text, 1), "program_barrier_mean_us") * 1_000.0) as u64
}

/// A program that asks for the barrier of the channel has that of the switch box on Maestro, which
/// takes two links and 360 ns, and the ranks' own where a channel keeps none.
#[test]
fn programs_use_the_barrier_of_the_channel_or_their_own() {
    assert!((5_000..9_000).contains(&barrier_ns("maestro", "channel")));
    assert!(barrier_ns("maestro", "messages") > 4 * barrier_ns("maestro", "channel"));
    assert_eq!(barrier_ns("clint", "channel"), barrier_ns("clint", "messages"));
    // A request is one packet, whatever its size.
    let single = "maestro'\npreset = 'single_64";
    assert!(barrier_ns(single, "messages") > 3 * barrier_ns(single, "channel"));
}

/// Maestro 4.1: "SB does not slow down duplex communication". A pair gets what its two links carry,
/// 480 bytes in two full frames and two turn-arounds of together 21480 ns, and two pairs twice as much.
/// The packets of four pairs fill the bus, which moves 16 bytes in 320 ns and is set up for 40 ns for
/// each message of 128 packets.
#[test]
fn four_pairs_get_what_the_bus_carries() {
    let carried = |pairs: u16| {
        let flow = |pair: u16| {
            let (one, other) = (2 * pair, 2 * pair + 1);
            format!("{{ from = {one}, to = {other} }}, {{ from = {other}, to = {one} }}")
        };
        let flows: Vec<String> = (0..pairs).map(flow).collect();
        let text = format!(
            "base = 'maestro'\n[channel.network]\npayload = '2041 B'\nadapter.send_buffers = 4\n\
             [run]\nlength = '10 ms'\nregime.skip = '1 ms'\n[workload.network]\n\
             source = 'greedy'\npattern.flows = [{}]\n",
            flows.join(", ")
        );
        let seen = run(&text, 1).observations;
        seen.delivered_measured as f64 * 2_041.0 / 9_000.0
    };
    let of_links = 480.0 / 21.48;
    let of_bus = 2_041.0 / (128.0 * 0.32 + 0.04);
    let (one, two, four) = (carried(1), carried(2), carried(4));
    assert!((0.97 * of_links..of_links).contains(&one), "{one} MB/s of {of_links}");
    assert!((two / one - 2.0).abs() < 0.04, "{two} MB/s");
    assert!((0.98 * of_bus..1.01 * of_bus).contains(&four), "{four} MB/s of {of_bus}");
}
