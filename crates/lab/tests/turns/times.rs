//! Times worked out by hand, to the nanosecond. All links begin with the turn of the host at time
//! zero and turn every 2280 ns while nothing is sent: twice 1080 ns of turn-around and 60 ns of null
//! frame. A packet takes 640 ns on a link, 320 ns by DMA or bus; a set-up takes 40 ns, the analysis of
//! a header 1900 ns.

use weft_fabric::measure::Latency;
use weft_lab::{Cell, Request};

use super::{column, listed, one_way_ns, run};

/// In the FIFO at 11400 ns, the very beginning of a turn: 1780 ns on the link, to 13180; 2260 ns in
/// the switch, to 15440. The switch speaks next at 17100 (1140 + 7 x 2280): to 18880. It is read until
/// 19200. The host handed it over 320 ns before it was in the FIFO.
#[test]
fn one_packet_at_the_beginning_of_a_turn() {
    let run = run(&listed(11, &[(11_080, 0, 1)], ""), 1);
    assert_eq!(one_way_ns(&run), 19_200 - 11_080);
    let legs = ["uplink_min_us", "switch_min_us", "downlink_min_us"];
    assert_eq!(legs.map(|leg| column(&run, leg)), [1.78, 2.26, 3.44]);
    // t2 and t3 of Maestro 4.1.
    assert_eq!(column(&run, "switch_analysis_max_us"), 1.9);
    assert_eq!(column(&run, "switch_transfer_max_us"), 0.36);
}

/// A single packet of 64 bytes is moved as a whole by everything (Maestro 4.2). In the FIFO at 11400
/// ns, 1280 ns after it was handed over: 1080 + 60 + 2560 ns on the link, to 15100; the header is
/// read when the packet is there, 1900 ns, and then 40 + 1280 ns on the bus, to 18320. The switch
/// speaks at 19380: to 23080. It is read for 1280 ns.
#[test]
fn a_packet_of_64_bytes_is_one_on_all_of_its_way() {
    let single = "[channel.network.turns.burst.single]\npackets = 4\n";
    let run = run(&listed(11, &[(10_120, 0, 1)], single), 1);
    assert_eq!(one_way_ns(&run), 23_080 + 1_280 - 10_120);
    let legs = ["uplink_min_us", "switch_min_us", "downlink_min_us", "switch_transfer_min_us"];
    let times = legs.map(|leg| (column(&run, leg) * 1e3).round());
    assert_eq!(times, [3_700.0, 3_220.0, 4_760.0, 1_320.0]);
    assert_eq!(column(&run, "packets_per_frame"), 1.0);
}

/// Two messages whose headers are at the switch at the same time: the second waits 1900 ns for the
/// processor, which is part of its time in the switch, and neither of its own analysis nor of its
/// transfer. 300 bytes, analysed at 15080 ns (see below), are under way on the bus until their last
/// packet has come at 27620 and passed in 320 ns: for 12860 ns.
#[test]
fn analysis_and_transfer_are_told_apart_and_without_waits() {
    let two = run(&listed(11, &[(11_080, 0, 1), (11_080, 2, 3)], ""), 1);
    let columns = ["switch_min_us", "switch_max_us"];
    assert_eq!(columns.map(|name| column(&two, name)), [2.26, 1.9 + 2.26]);
    for (name, time) in [("switch_analysis", 1.9), ("switch_transfer", 0.36)] {
        for which in ["min", "mean", "max"] {
            assert_eq!(column(&two, &format!("{name}_{which}_us")), time, "{name}");
        }
    }
    let long = run(&listed(300, &[(10_000, 0, 1)], ""), 1);
    assert_eq!(column(&long, "switch_analysis_max_us"), 1.9);
    assert_eq!(column(&long, "switch_transfer_max_us"), 12.86);
}

/// Maestro 4.1, PingPing: of two hosts the one whose answers take longer counts. One begins at the
/// beginning of a turn, the other just after it, and so their round trips differ.
#[test]
fn the_worse_of_two_hosts_is_told() {
    let keys = "[channel.network.transfer]\nacknowledgment = '11 B'\n";
    let run = run(&listed(100, &[(10_000, 0, 1), (11_000, 1, 0)], keys), 1);
    let answers = run.observations.recorder(Latency::RoundTrip);
    let [least, most] = [answers.min(), answers.max()].map(|span| span.expect("two").as_us());
    assert!(most > least + 0.5, "{least} {most}");
    assert_eq!(column(&run, "remote_dma_worst_mb_per_s"), 100.0 / most);
    assert_eq!(column(&run, "remote_dma_mb_per_s"), 200.0 / (least + most));
    assert_eq!(column(&run, "round_trip_min_us"), least);
    let ways = run.observations.recorder(Latency::OneWay);
    assert_eq!(column(&run, "one_way_min_us"), ways.min().expect("two").as_us());
}

/// Maestro 4.1: t1 is the time of a message that comes as the end releases the link, after its null
/// frame: 11400 + 1140 = 12540 ns. It waits for the null turn of the other end, 1140 ns, and then has
/// the 1780 ns of any message. One that comes a nanosecond after the decision at 11400 ns waits for
/// the end of its own null turn as well.
#[test]
fn a_packet_at_the_release_and_one_just_after_the_decision() {
    let uplink = |time| column(&run(&listed(11, &[(time, 0, 1)], ""), 1), "uplink_min_us");
    assert_eq!(uplink(12_540 - 320), 2.92);
    assert_eq!(uplink(11_401 - 320), 2.279 + 1.78);
}

/// The greatest times of Maestro 4.1, on both links: the link of the target begins its turns at 1760
/// ns, so that the switch has just released it when the packet comes to its FIFO, at 12540 + 2920 +
/// 2260 = 17720 = 1760 + 7 x 2280 ns. It is later by another null turn if both ends have just decided
/// on one: at 11401 ns, and at 17720 where the turn of the switch began at 619 + 1140 + 7 x 2280.
#[test]
fn both_links_can_be_met_at_their_release_or_just_after_a_decision() {
    let path = |time: u64, phase: u64| {
        let phases = format!("turns.phase = {{ at = ['0 ns', '{phase} ns'] }}");
        let text =
            listed(11, &[(time - 320, 0, 1)], "").replace("turns.phase = 'aligned'", &phases);
        (column(&run(&text, 1), "path_max_us") * 1e3).round()
    };
    assert_eq!(path(11_400, 620), 5_820.0);
    assert_eq!(path(12_540, 1_760), 5_820.0 + 2.0 * 1_140.0);
    assert_eq!(path(11_401, 619), 5_820.0 + 2.0 * 2_279.0);
}

/// Decided after the turn-around, hosts at 0 + k x 2280 ns and the switch at 1140 + k x 2280. In the FIFO
/// at 11400 ns, as the host decides: 700 ns on the link, to 12100; 2260 ns in the switch, to 14360. The
/// switch decides at 14820: to 15520. It is read until 15840. One that is in the FIFO a nanosecond
/// later waits for the next decision of the host at 13680; one that comes as the host releases the
/// link, at 11460, too.
#[test]
fn a_decision_after_the_turn_around_lets_a_packet_go_at_once() {
    let late = "turns.phase = 'aligned'\nturns.decision = 'after_turn_around'";
    let one = |time| {
        let text = listed(11, &[(time, 0, 1)], "").replace("turns.phase = 'aligned'", late);
        run(&text, 1)
    };
    let at_once = one(11_080);
    assert_eq!(one_way_ns(&at_once), 15_840 - 11_080);
    let legs = ["uplink_min_us", "switch_min_us", "downlink_min_us"];
    assert_eq!(legs.map(|leg| column(&at_once, leg)), [0.70, 2.26, 1.16]);
    let uplink_ns = |time| (column(&one(time), "uplink_min_us") * 1e3).round();
    assert_eq!(uplink_ns(11_081), 2_279.0 + 700.0);
    assert_eq!(uplink_ns(11_460 - 320), 2_220.0 + 700.0);
}

/// The message of 300 bytes of Maestro 3.4, Figure 7: 20 packets in two frames of 15 and 5 on each
/// link, and between them a turn of the other end.
///
/// Handed over at 10000 ns. The first packet is in the FIFO at 10360, the others 320 ns apart. Turn
/// at 11400: 15 packets, the first at the switch at 13180, the last at 22140; null turn to 23280; 5
/// packets, at 25060 to 27620. The header is analysed at 15080, and the first packet in the other
/// FIFO at 15440. Turn at 17100: 15 packets, at 18880 to 27840, for every packet passes the bus in
/// time; null turn to 28980; 5 packets, at 30760 to 33320, and in memory at 33640.
#[test]
fn three_hundred_bytes_frame_by_frame() {
    let run = run(&listed(300, &[(10_000, 0, 1)], ""), 1);
    assert_eq!(one_way_ns(&run), 33_640 - 10_000);
    assert_eq!(column(&run, "data_frames"), 4.0);
    assert_eq!(column(&run, "packets_per_frame"), 10.0);
}

/// The same, as the table of frames shows it.
#[test]
fn three_hundred_bytes_as_a_trace() {
    let text = listed(300, &[(10_000, 0, 1)], "").replace("[run]\n", "[run]\ntrace = true\n");
    let run = run(&text, 1);
    let frames: Vec<_> = run
        .trace
        .iter()
        .filter(|entry| entry.kind == "frame")
        .map(|entry| {
            let ends = (entry.initiator, entry.target);
            (entry.time.0 / 1_000, entry.until.0 / 1_000, ends, entry.content.as_str())
        })
        .collect();
    let expected = [
        (12_480, 22_140, (Some(0), None), "15 packets, credits 15 and 15"),
        (18_180, 27_840, (None, Some(1)), "15 packets, credits 15 and 15"),
        (24_360, 27_620, (Some(0), None), "5 packets, credits 15 and 15"),
        (30_060, 33_320, (None, Some(1)), "5 packets, credits 15 and 15"),
    ];
    assert_eq!(frames, expected);
    assert_eq!(one_way_ns(&run), 23_640);
}

/// No measure depends on whether the null frames are shown.
#[test]
fn a_trace_changes_nothing() {
    let load = "[run]\nlength = '2 ms'\nregime = 'from_empty'\n[workload.network]\nload = 0.2\n";
    let plain = format!("base = 'maestro'\n[channel.network]\npayload = '100 B'\n{load}");
    let traced = plain.replace("[run]\n", "[run]\ntrace = true\n");
    let (plain, traced) = (run(&plain, 3), run(&traced, 3));
    assert_eq!(one_way_ns(&plain), one_way_ns(&traced));
    assert_eq!(plain.observations.delivered, traced.observations.delivered);
    assert!(plain.trace.is_empty() && traced.trace.len() > 1_000);
}

/// Message-based: the sender holds the 20 packets back until the last one is in the FIFO at 16440,
/// the receiver until the last one has come. Turn at 18240 (8 x 2280): packets at 20020 to 28980; null
/// turn to 30120; 31900 to 34460. The switch passes them on as they come: the first is in the other
/// FIFO at 22280. Turn at 23940: 25720 to 34680; null turn to 35820; 37600 to 40160. Then 20 packets
/// are read in 40 + 20 x 320 = 6440 ns.
#[test]
fn a_message_is_held_back_by_both_hosts() {
    let text =
        listed(300, &[(10_000, 0, 1)], "[channel.network.transfer]\nforwarding = 'messages'\n");
    assert_eq!(one_way_ns(&run(&text, 1)), 40_160 + 6_440 - 10_000);
}

/// The same two frames, each way: 60 ns of preamble and 20 packets of 640 ns in two frames. Null
/// frames do not count.
#[test]
fn a_link_is_busy_with_the_frames_that_carry_packets() {
    let run = run(&listed(300, &[(10_000, 0, 1)], ""), 1);
    let busy = run.observations.busy();
    let hosts = run.hosts as usize;
    assert_eq!(busy.len(), 2 * hosts, "a port for each host, and the hosts");
    let carried = busy.iter().enumerate().filter(|(_, span)| span.0 > 0);
    let carried: Vec<(usize, u64)> = carried.map(|(link, span)| (link, span.0 / 1_000)).collect();
    assert_eq!(carried, [(1, 2 * 60 + 20 * 640), (hosts, 2 * 60 + 20 * 640)]);
}

/// A cable of 20 m at 5 ns a metre is 100 ns each way, which the arithmetic shows.
#[test]
fn what_follows_from_turns_shows_the_cable() {
    let overrides =
        ["channel.network.link.length=20 m", "channel.network.link.delay_per_metre=5 ns"];
    let overrides = overrides.map(str::to_owned).into();
    let request =
        Request { overrides, ..Request::of_text("turns.toml", &listed(11, &[(0, 0, 1)], "")) };
    let outcome = weft_lab::run(&request, &weft_lab::Options::default(), &mut |_, _| true);
    let derived = outcome.expect("a run").table("derived");
    let shown = |quantity: &str| {
        let is_it = |row: &usize| derived.get(*row, "quantity") == Some(Cell::from(quantity));
        let row = (0..derived.rows()).find(is_it).expect(quantity);
        (
            derived.number(row, "value").expect(quantity),
            derived.get(row, "arithmetic").expect(quantity).to_string(),
        )
    };
    let (rate, arithmetic) = shown("network.burst_rate");
    assert!((rate - 240.0 / (9.66 + 0.06 + 2.0 * 1.08 + 2.0 * 0.1)).abs() < 1e-6, "{rate}");
    assert_eq!(arithmetic, "240 B / (9.66 us + 60 ns + 2 x 1.08 us + 2 x 100 ns cable)");
    let (release, arithmetic) = shown("network.release_to_turn");
    assert!(
        (release - 1.24).abs() < 1e-9 && arithmetic.ends_with(" + 60 ns null frame + 100 ns cable"),
        "{arithmetic}"
    );
}

/// A frame has fifteen packets at the most, and no more than the FIFO at the other end holds: 128 B are eight.
#[test]
fn a_full_frame_has_no_more_packets_than_a_fifo() {
    for (fifo, packets) in [("2048 B", 15.0), ("128 B", 8.0), ("256 B", 15.0)] {
        let overrides = vec![format!("channel.network.turns.fifo={fifo}")];
        let text = listed(11, &[(0, 0, 1)], "");
        let request = Request { overrides, ..Request::of_text("turns.toml", &text) };
        let outcome = weft_lab::run(&request, &weft_lab::Options::default(), &mut |_, _| true);
        let derived = outcome.expect(fifo).table("derived");
        let value = |quantity: &str| {
            let is_it = |row: &usize| derived.get(*row, "quantity") == Some(Cell::from(quantity));
            let row = (0..derived.rows()).find(is_it).expect(quantity);
            derived.number(row, "value").expect(quantity)
        };
        let full = 0.06 + packets * 0.64;
        assert!((value("network.full_frame") - full).abs() < 1e-9, "{fifo}");
        // Behind the frame a null frame and two turn-arounds of 1.08 us.
        let round = full + 0.06 + 2.0 * 1.08;
        assert!((value("network.burst_rate") - packets * 16.0 / round).abs() < 1e-6, "{fifo}");
    }
}
