//! The results of the shipped RoCE system and its experiments, at a size that a test can run.

use weft_lab::{Options, Outcome, Request, run};

/// Runs a shipped experiment once, for this long.
pub(super) fn outcome(experiment: &str, length: &str) -> Outcome {
    let options = Options { seeds: Some(1), length: Some(length.to_owned()), ..Options::default() };
    run(&Request::new(experiment, None, &[]), &options, &mut |_, _| true).expect(experiment)
}

/// A column of the point with these settings.
pub(super) fn of(outcome: &Outcome, settings: &[(&str, &str)], column: &str) -> f64 {
    let points = outcome.table("points");
    let is_it = |row: &usize| {
        settings.iter().all(|(key, value)| {
            points.get(*row, key).is_some_and(|cell| cell.to_string() == *value)
        })
    };
    let row = (0..points.rows()).find(is_it).expect("the point");
    points.number(row, column).unwrap_or_else(|| panic!("{settings:?} has no {column}"))
}

/// Flows that share cables with hot traffic and go elsewhere pay for pauses, and DCQCN spares them that; a
/// class without pauses loses packets in their place.
#[test]
fn congestion_spreads_by_pauses_and_dcqcn_ends_it() {
    let spreading = outcome("roce-spreading", "3 ms");
    let at =
        |loss, control, column| of(&spreading, &[("loss", loss), ("control", control)], column);
    assert!(at("lossless", "none", "class_0_pauses") > 500.0);
    assert!(at("lossless", "dcqcn", "class_0_pauses") < 100.0);
    assert_eq!(at("lossless", "none", "class_0_dropped"), 0.0);
    assert_eq!(at("lossless", "dcqcn", "class_0_dropped"), 0.0);
    assert!(at("lossy", "none", "class_1_dropped") > 10_000.0);
    assert_eq!(at("lossy", "none", "class_1_pauses"), 0.0);
    for loss in ["lossless", "lossy"] {
        assert_eq!(at(loss, "dcqcn", "victims_flows"), 3.0);
        let slowdown = at(loss, "dcqcn", "victims_slowdown_mean");
        assert!((1.0..1.1).contains(&slowdown), "{loss}: {slowdown}");
    }
    assert!(at("lossless", "none", "victims_flows") < 3.0);
}

/// Controls that keep queues short spare calls the wait behind an incast, which then takes longer itself;
/// DCQCN cuts rates more often in its preset `firmware`, so that incasts take longer.
#[test]
fn calls_wait_less_where_an_incast_is_slowed_down() {
    let incast = outcome("roce-incast", "1 ms");
    let at = |control, column| of(&incast, &[("control", control)], column);
    for control in ["none", "dcqcn", "dcqcn_firmware", "dctcp", "swift", "hpcc"] {
        assert_eq!(at(control, "class_0_dropped"), 0.0, "{control}");
    }
    let paper = at("dcqcn", "incast_completion_p50_us");
    let firmware = at("dcqcn_firmware", "incast_completion_p50_us");
    assert!(firmware > 1.02 * paper, "{firmware} for {paper}");
    for control in ["dctcp", "swift", "hpcc"] {
        assert_eq!(at(control, "class_0_pauses"), 0.0, "{control}");
        let (held, bare) = (at(control, "calls_slowdown_p99"), at("none", "calls_slowdown_p99"));
        assert!(held < 0.5 * bare, "{control}: {held} for {bare}");
        assert!(at(control, "incast_completion_p50_us") > at("none", "incast_completion_p50_us"));
    }
}

/// An even share of 0.95 of the cable, in which a packet of 1082 B carries 1000, from the start of the second flow on.
#[test]
fn two_senders_under_hpcc_share_what_it_leaves_and_no_queue() {
    let two = outcome("roce-two-senders", "12 ms");
    let rate = 0.95 * 1000.0 / 1082.0 * 100e3 / 8.0;
    let expected = 2.0 * 40e6 / rate - 1_000.0;
    for column in ["all_acknowledged_min_us", "all_acknowledged_max_us"] {
        let took = of(&two, &[], column);
        assert!((took / expected - 1.0).abs() < 0.02, "{column}: {took} for {expected}");
    }
    // Two cables of 1 us and a packet twice; a queue of two packets at the most.
    let packet = 1082.0 * 8.0 / 100e3;
    let transit = of(&two, &[], "transit_p99_us");
    assert!((2.0 + 2.0 * packet..2.0 + 4.0 * packet).contains(&transit), "{transit}");
}

/// How many packets each sender has under way when it is paused, and when the leaf lets it go on, follow from the
/// rate, the cables and the thresholds; the note of the experiment has the steps.
#[test]
fn pauses_begin_and_end_when_arithmetic_says() {
    let pause = outcome("roce-pause", "1 ms");
    let (packet, frame) = (1082.0 * 8.0 / 100e3, 64.0 * 8.0 / 100e3);
    assert_eq!(of(&pause, &[], "class_0_pauses"), 2.0);
    let paused = of(&pause, &[], "class_0_paused_us");
    assert!((paused - 2.0 * 69.0 * packet).abs() < 1e-6, "{paused}");
    let last = of(&pause, &[], "one_way_max_us");
    assert!((last - (141.0 * packet + frame + 4.0)).abs() < 1e-6, "{last}");
    assert_eq!(of(&pause, &[], "class_0_dropped"), 0.0);
}
