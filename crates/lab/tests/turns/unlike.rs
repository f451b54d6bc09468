//! Cables and switches that are not all alike, and hosts that a throttle holds back.

use weft_fabric::measure::Latency;
use weft_lab::drive::carrier::{Carrier, Destination};
use weft_lab::{Cell, Options, Request};

use super::laws::{in_tree, merge};
use super::operations::carry;
use super::{channel, file, listed, one_way_ns, run};

/// How long a message of one packet takes from host 0 to host 7 in a tree of three boxes, with `own`
/// keys, in nanoseconds.
fn through_the_root(text: &str, own: &str) -> u64 {
    let message = listed(5, &[(20_200, 0, 7)], own);
    one_way_ns(&run(&merge(&message, text), 1))
}

/// The message is in its FIFO at 20200 + 320 = 20520 = 9 x 2280, the turn of its host, and at the left
/// box at 22300, which has it in the FIFO towards the root at 24560. In step, the turns of the boxes
/// below are at 1140 + n x 2280 on these links: 26220, so that it is at the root at 28000, and in the
/// next FIFO at 30260. The turn of the root is at 31920: the right box has it at 33700 and passes it
/// until 35960. Its turn is at 37620, the host has the message at 39400 and reads it until 39720.
#[test]
fn a_tree_of_boxes_that_are_alike() {
    assert_eq!(through_the_root(&in_tree(2_048), ""), 39_720 - 20_200);
}

/// With a crossbar of 90 ns as the root: there at 28000, in the FIFO at 28090. The turn of the root is at
/// 29640; the right box has it at 31420 and passes it until 33680, its turn is at 35340, and the host has
/// read the message at 35340 + 1780 + 320.
#[test]
fn a_crossbar_among_boxes() {
    let own = "[channel.network.switches.root]\noutput_queued.latency = '90 ns'\n";
    assert_eq!(through_the_root(&in_tree(2_048), own), 37_440 - 20_200);
}

fn with_cable(end: &str, own: &str) -> String {
    let cable = format!("to = '{end}'");
    let tree = in_tree(2_048);
    assert!(tree.contains(&cable), "{tree}");
    tree.replacen(&cable, &format!("{cable}, link = {{ {own} }}"), 1)
}

/// Twice as fast from the left box to the root: null turns of 1080 + 30 ns there, so that the turns of
/// the box are at 1110 + n x 2220: 25530, and a packet takes 1080 + 30 + 320 ns. It is at the root at
/// 26960 and in the FIFO at 29220; the turn of the root on the other cable is at 29640, and the rest as
/// with the crossbar.
#[test]
fn a_fast_cable_between_two_boxes() {
    let fast = with_cable("root.0", "rate = '400 Mbit/s'");
    assert_eq!(through_the_root(&fast, ""), 37_440 - 20_200);
}

/// Half as fast to the target: null turns of 1200 ns, those of the box at 1200 + n x 2400. It has the
/// message in the FIFO at 35960 and its turn at 37200; a packet takes 1080 + 120 + 1280 ns, and 320 to
/// be read.
#[test]
fn a_slow_cable_to_a_host() {
    let slow = with_cable("right.3", "rate = '100 Mbit/s'");
    assert_eq!(through_the_root(&slow, ""), 40_000 - 20_200);
}

/// A cable of 60 m with 5 ns a metre, to the target: null turns of 1140 + 300 ns, those of the box at
/// 1440 + n x 2880: 36000, just behind the message; 1780 + 300 and 320 ns to be read.
#[test]
fn a_long_cable_to_a_host() {
    let long = with_cable("right.3", "length = '60 m', delay_per_metre = '5 ns/m'");
    assert_eq!(through_the_root(&long, ""), 38_400 - 20_200);
}

/// The stages of the budget are the whole of the time on any mixture, and everything arrives.
#[test]
fn stages_add_up_over_cables_and_switches_of_their_own() {
    let text =
        with_cable("right.3", "rate = '70 Mbit/s', length = '40 m', delay_per_metre = '5 ns/m'");
    let own = "[channel.network.switches.left]\noutput_queued.latency = '300 ns'\n";
    let messages: Vec<(u64, u16, u16)> =
        (0..60).map(|n: u16| (u64::from(n) * 4_321, n % 7, 7 - (n / 7) % 2)).collect();
    let messages: Vec<(u64, u16, u16)> =
        messages.into_iter().filter(|(_, from, to)| from != to).collect();
    let run = run(&merge(&listed(100, &messages, own), &text).replace("1 ms", "60 ms"), 1);
    let seen = &run.observations;
    assert_eq!(seen.delivered, messages.len() as u64);
    assert_eq!(seen.budget.total_ps(), seen.recorder(Latency::OneWay).sum_ps());
}

/// A multicast is one transfer and the switches keep a barrier where all of them can.
#[test]
fn what_one_switch_cannot_do_none_does() {
    let tree = |own: &str| channel(&(merge(&file(""), &in_tree(2_048)) + own));
    let last = |own: &str| {
        let all = carry(tree(own), Destination::Hosts(0b1111_1110), 1_000);
        assert_eq!(all.len(), 7);
        all.iter().map(|own| own.1).max()
    };
    let copies = "[channel.network.switches.root.fifo_bus]\nanalysis = '1900 ns'\nset_up = '40 ns'\n\
                  rate = '400 Mbit/s'\nports_per_interface = 2\nmulticast = false\n";
    assert!(last(copies) > last("").map(|time| 4 * time), "{:?} {:?}", last(copies), last(""));
    assert!(tree("").keeps_barrier());
    assert!(!tree(copies).keeps_barrier());
}

/// Of three messages at once, one each 50 us: the last one begins 100 us later.
#[test]
fn a_throttle_holds_messages_back() {
    let more = "[channel.network.adapter]\nthrottle = { requests = 1, per = '50 us' }\n";
    let queueing = |more: &str| {
        let run = run(&listed(5, &[(20_200, 0, 1); 3], more), 1);
        assert_eq!(run.observations.delivered, 3);
        run.observations.recorder(Latency::Queueing).max().map(|longest| longest.0 / 1_000)
    };
    assert_eq!(queueing(more), Some(100_000));
    assert!(queueing("") < Some(2_000));
}

/// The way through a switch follows from the file where all cables and switches are alike, and nowhere else.
#[test]
fn the_way_of_a_packet_is_derived_where_all_is_alike() {
    let derived = |text: &str| {
        let request = Request::of_text("turns.toml", text);
        let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true).expect(text);
        let table = outcome.table("derived");
        let has = |name: &str| {
            let name = Cell::from(format!("network.{name}"));
            (0..table.rows()).any(|row| table.get(row, "quantity") == Some(name.clone()))
        };
        assert!(has("burst_rate"), "{text}");
        has("path_least")
    };
    let alike = merge(&file("[workload.network]\nload = 0.1\n"), &in_tree(2_048));
    let latency = "[channel.network.switches.root]\noutput_queued.latency = '90 ns'\n";
    let slow = merge(
        &file("[workload.network]\nload = 0.1\n"),
        &with_cable("right.3", "rate = '70 Mbit/s'"),
    );
    assert!(derived(&alike));
    assert!(!derived(&slow));
    assert!(!derived(&(alike.clone() + latency)));
}
