//! What rails are worth, by the shipped experiment.

use super::roce::{of, outcome};

/// 2 MB at 100 Gbit/s take 173 us in packets of 1082 B for 1000; a flow alone on its cables takes little more.
#[test]
fn rails_keep_what_goes_from_place_to_place_off_the_spines() {
    let made = outcome("roce-rails", "20 ms");
    let at = |wiring, traffic, column| {
        let choice = [("wiring", wiring), ("traffic", traffic)];
        assert_eq!(of(&made, &choice, "unfinished_flows"), 0.0, "{wiring}, {traffic}");
        of(&made, &choice, column)
    };
    let alone = 2e6 * 1.082 * 8.0 / 100e3;
    for (wiring, near, far) in [("by_server", "next", "same_rail"), ("rails", "same_rail", "next")]
    {
        let last = at(wiring, near, "all_completion_p99_us");
        assert!((alone..1.15 * alone).contains(&last), "{wiring}: {last} for {alone}");
        let median = at(wiring, far, "all_completion_p50_us");
        assert!(median > 3.0 * last, "{wiring}: {median} for {last}");
    }
    // Below the switch of a server at its rate; between servers up to four flows are on one cable.
    assert!(at("in_server", "next", "all_completion_p50_us") < alone / 30.0);
    let median = at("in_server", "same_rail", "all_completion_p50_us");
    assert!((1.8 * alone..3.0 * alone).contains(&median), "{median} for {alone}");
    let last = at("in_server", "same_rail", "all_completion_p99_us");
    assert!(last > 3.0 * alone, "{last} for {alone}");
}
