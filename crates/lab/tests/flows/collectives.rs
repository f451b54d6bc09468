//! The duration of a collective over the fabrics of today.

use super::roce::{of, outcome};

/// A ring of 64 ranks sends 15.75 MB from every host, which its link takes so long for, in 126 rounds. A round takes no
/// longer than its packets and a way to and fro besides: 8 us on four cables of 1 us, 14 on six. Ranks at
/// random places cross the upper switches in more rounds.
#[test]
fn an_all_reduce_takes_what_its_link_and_its_rounds_need() {
    for (experiment, packet, payload, round_trip) in [
        ("roce-all-reduce", 1082.0, 1000.0, 8.0),
        ("ultra-ethernet-all-reduce", 4150.0, 4086.0, 14.0),
    ] {
        let made = outcome(experiment, "20 ms");
        let time = |placement| of(&made, &[("placement", placement)], "program_time_us");
        let link = 15.75e6 * packet / payload / 12_500.0;
        let (ordered, random) = (time("in_order"), time("random"));
        assert!(ordered > link, "{experiment}: {ordered} for {link}");
        assert!(ordered < link + 126.0 * round_trip, "{experiment}: {ordered} for {link}");
        assert!(random > 1.05 * ordered, "{experiment}: {random} for {ordered}");
    }
}
