//! Laws that hold whatever the numbers: every message arrives, ends of a link take turns, where
//! the time went adds up, and trees of switch boxes do not block.

use proptest::prelude::*;
use weft_fabric::measure::Latency;
use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_units::{Bytes, Time};

use super::{channel, file, listed, one_way_ns, run};

/// Two boxes below a third: hosts 0 to 3 and 4 to 7 (Maestro 3.3, "hierarchical tree network").
const TREE: &str = "fabric.table = { switches = [{ name = 'root', ports = 2 }, \
     { name = 'left', ports = 5 }, { name = 'right', ports = 5 }], cables = [CABLES] }";

fn cable(from: &str, to: &str) -> String {
    format!("{{ from = '{from}', to = '{to}' }}")
}

fn tree() -> String {
    let host = |host: u16| {
        let (switch, port) = if host < 4 { ("left", host) } else { ("right", host - 4) };
        cable(&format!("host {host}"), &format!("{switch}.{port}"))
    };
    let mut cables = vec![cable("left.4", "root.0"), cable("right.4", "root.1")];
    cables.extend((0..8).map(host));
    TREE.replace("CABLES", &cables.join(", "))
}

pub(super) fn in_tree(fifo: u64) -> String {
    format!("[channel.network]\nturns.fifo = '{fifo} B'\n{}\n", tree())
}

/// Ways between the memory of a host and its FIFOs.
const HOSTS: [&str; 5] = [
    "",
    "[channel.network.transfer]\nbus = 'shared'\nmanager.message = '700 ns'\n",
    "[channel.network.transfer]\nbus = 'shared'\npath.memory.rate = '300 Mbit/s'\n\
     manager = { translation = '300 ns', page = '256 B' }\n",
    "[channel.network.transfer]\nbus = 'independent'\npath.memory.rate = '100 Mbit/s'\npio.by = 'host'\n\
     acknowledgment = '11 B'\n",
    "[channel.network.transfer]\nreserved = '700 B'\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// In a star and in a tree, with FIFOs of any size, and whatever the way to the memory of a host,
    /// every message arrives once, in order, and nothing is left: no tree of switch boxes blocks, however long messages are and however small
    /// FIFOs.
    #[test]
    fn every_message_arrives(
        mut messages in prop::collection::vec((0_u64..300_000, 0_u16..8, 1_u16..8), 1..60),
        payload in 0_u64..600,
        packets in 1_u64..20,
        star in any::<bool>(),
        host in prop::sample::select(&HOSTS[..]),
    ) {
        messages.iter_mut().for_each(|(_, from, to)| *to = (*from + *to) % 8);
        let more = if star {
            format!("[channel.network]\nturns.fifo = '{} B'\n", packets * 16)
        } else {
            in_tree(packets * 16)
        };
        let text = merge(&listed(payload, &messages, host), &more).replace("1 ms", "60 ms");
        let run = run(&text, 1);
        prop_assert_eq!(run.observations.delivered, messages.len() as u64);
        prop_assert_eq!((run.backlog, run.in_flight, run.waiting.len()), (0, 0, 0));
        // The stages of the budget are the whole of the time.
        let total: u128 = run.observations.budget.total_ps();
        prop_assert_eq!(total, run.observations.recorder(Latency::OneWay).sum_ps());
    }
}

/// Puts the keys of a second table of the channel into the first one.
pub(super) fn merge(text: &str, more: &str) -> String {
    let keys = more.strip_prefix("[channel.network]\n").expect("keys of the channel");
    text.replacen("[channel.network]\n", &format!("[channel.network]\n{keys}"), 1)
}

/// Which targets each of these messages has come to, in the order of the messages; with keys of the
/// channel.
fn multicasts(keys: &str, messages: &[(u64, u16, u64, u64)]) -> Vec<u64> {
    let mut channel = channel(&merge(&file(""), keys));
    let mut notices = Vec::new();
    for (ticket, &(time, from, to, size)) in (0..).zip(messages) {
        let to = match to & !(1 << from) {
            0 => Destination::Host((from + 1) % 8),
            others => Destination::Hosts(others),
        };
        channel.advance(Time(time), &mut notices);
        channel.offer(Time(time), Message { from, to, size: Bytes(size), ticket: Ticket(ticket) });
    }
    channel.advance(Time(60_000_000_000), &mut notices);
    let mut reached = vec![0; messages.len()];
    for notice in notices {
        if let Notice::Delivered { ticket, to, .. } = notice {
            let own: &mut u64 = &mut reached[ticket.0 as usize];
            assert_eq!(*own & 1 << to, 0, "host {to} has a message twice");
            *own |= 1 << to;
        }
    }
    reached
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Messages to any hosts, from any hosts, in a tree of switch boxes: each arrives once at every
    /// target, however small FIFOs are, and whether messages fit them or not.
    #[test]
    fn every_multicast_arrives_in_a_tree(
        mut messages in prop::collection::vec(
            (0_u64..300_000_000, 0_u16..8, 1_u64..256, 0_u64..900), 1..40),
        packets in 1_u64..64,
    ) {
        messages.sort_unstable();
        let reached = multicasts(&in_tree(packets * 16), &messages);
        for (&(_, from, to, _), reached) in messages.iter().zip(reached) {
            let others = to & !(1 << from);
            let wanted = if others == 0 { 1 << ((from + 1) % 8) } else { others };
            prop_assert_eq!(reached, wanted);
        }
    }
}

/// "Since each node of this tree network has a pair of receiving and sending FIFO buffers, the dead
/// lock will never occur" (3.3): with multicasts it does. Two hosts below different boxes send to all
/// others at the same time. Each message holds the outputs to the neighbours of its initiator and
/// waits for room in the FIFO towards the root, behind which the other one waits for just those
/// neighbours. What does not fit a FIFO is sent as copies otherwise.
#[test]
fn two_multicasts_in_a_tree_block_each_other_unless_they_have_room() {
    // Longer than the four FIFOs between two boxes, each of eight packets.
    let crossing = [(0, 0, 0xff, 1_200), (0, 4, 0xff, 1_200)];
    let start = |rule: &str| {
        let bus = format!("switch.fifo_bus.multicast_start = '{rule}'\n");
        multicasts(&format!("{}{bus}", in_tree(128)), &crossing)
    };
    assert_eq!(start("with_room"), [0xfe, 0xef]);
    let blocked = start("at_once");
    assert!(blocked.iter().all(|reached| *reached == 0), "{blocked:?}");
    // FIFOs of 2 Kbytes hold both.
    let bus = "switch.fifo_bus.multicast_start = 'at_once'\n";
    assert_eq!(multicasts(&format!("{}{bus}", in_tree(2_048)), &crossing), [0xfe, 0xef]);
}

/// With all hosts sending all the time the ends of every link speak in turn: after a frame of one
/// end the next is one of the other.
#[test]
fn frames_of_the_two_ends_alternate() {
    let text = file("trace = true\n[workload.network]\nload = 0.9\n");
    let run = run(&text, 1);
    for link in 0..8 {
        let of_host: Vec<bool> = run
            .trace
            .iter()
            .filter(|entry| entry.sequence == link)
            .map(|entry| entry.initiator.is_some())
            .collect();
        assert!(of_host.len() > 50, "{} frames", of_host.len());
        assert!(of_host.windows(2).all(|pair| pair[0] != pair[1]), "link {link}");
    }
}

/// The same wires in a ring: five boxes, each with a host and a cable to the next. Long messages that
/// all go two boxes on wait for each other; that the tree has no such ring is what its freedom of
/// deadlock rests on, not that each box "has a pair of receiving and sending FIFO buffers" (3.3).
#[test]
fn a_ring_of_switch_boxes_blocks() {
    let switches: Vec<String> = (0..5).map(|n| format!("{{ name = 's{n}', ports = 3 }}")).collect();
    let cables: Vec<String> = (0..5)
        .flat_map(|n| {
            let (host, own, next) = (format!("host {n}"), format!("s{n}.1"), (n + 1) % 5);
            [cable(&host, &format!("s{n}.0")), cable(&own, &format!("s{next}.2"))]
        })
        .collect();
    let ring = format!(
        "[channel.network]\nturns.fifo = '64 B'\nfabric.table = {{ switches = [{}], cables = [{}] }}\n",
        switches.join(", "),
        cables.join(", ")
    );
    let messages: Vec<(u64, u16, u16)> = (0..5).map(|n| (0, n, (n + 2) % 5)).collect();
    let text = merge(&listed(4_000, &messages, "[system]\nhosts = 5\n"), &ring);
    let run = run(&text.replace("1 ms", "20 ms"), 1);
    assert_eq!((run.observations.delivered, run.in_flight), (0, 5));
    assert!(run.waiting.iter().any(|line| line.contains("switch s0 holds")), "{:?}", run.waiting);
}

/// A greedy end makes the other direction wait (Maestro 3.2). Host 0 sends to host 1 without a pause,
/// with credits of 8 bits: if the switch keeps the link of host 1 while it may, that host comes to
/// speak after up to 128 packets, with fair turns after 15.
#[test]
fn fair_turns_shorten_the_wait_of_the_other_direction() {
    let messages: Vec<(u64, u16, u16)> = (0..40).map(|n| (n, 0, 1)).collect();
    let longest = |hold: &str| {
        let keys = format!(
            "turns = {{ symbol = 'eight_bits', most = 15, phase = 'aligned', hold = '{hold}' }}\n"
        );
        let text = listed(2_000, &messages, "").replace("turns.phase = 'aligned'\n", &keys);
        let run = run(&text.replace("[run]\n", "[run]\ntrace = true\n").replace("1 ms", "8 ms"), 1);
        assert_eq!(run.observations.delivered, 40);
        let of_host_1 = run.trace.iter().filter(|entry| entry.initiator == Some(1));
        let times: Vec<Time> = of_host_1.map(|entry| entry.time).collect();
        times.windows(2).map(|pair| pair[1].since(pair[0]).0 / 1_000).max().expect("frames")
    };
    let (fair, greedy) = (longest("one_frame"), longest("while_allowed"));
    // A frame of 15 packets with a preamble of 120 ns, and a null frame, with their turn-arounds.
    assert_eq!(fair, 15 * 640 + 120 + 120 + 2 * 1_080);
    assert!(greedy > 6 * fair, "{fair} ns in turn, {greedy} ns beside a greedy end");
}

/// The seed decides on the phases alone here, and phases change times.
#[test]
fn the_same_seed_gives_the_same_run() {
    let text = file("").replace("turns.phase = 'aligned'", "payload = '100 B'")
        + "[workload.network]\nload = 0.3\n";
    let times = |seed| {
        let run = run(&text, seed);
        (run.steps, one_way_ns(&run))
    };
    assert_eq!(times(4), times(4));
    assert_ne!(times(4), times(5));
}
