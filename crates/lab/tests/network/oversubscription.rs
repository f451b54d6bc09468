//! Oversubscription: what leaves the leaves of a tree is what their cables up carry.

use super::{file, run};

/// Every host sends to one below another leaf, or in another pod. The hosts of a leaf get what its
/// cables up carry, which is one in `ratio` of what they could send, and all of it below that.
#[test]
fn traffic_between_leaves_gets_the_share_that_the_ratio_says() {
    let fast = "links = [{}, { rate = '4 Gbit/s' }]";
    let slow = "links = [{}, { rate = '0.5 Gbit/s' }]";
    let cases = [
        (
            "leaf_spine = { hosts_per_leaf = 6, leaves = 4, oversubscription = '3:1' }".into(),
            24,
            6,
            3.0,
        ),
        (
            "leaf_spine = { hosts_per_leaf = 6, leaves = 4, oversubscription = '3:2' }".into(),
            24,
            6,
            1.5,
        ),
        (
            format!(
                "leaf_spine = {{ hosts_per_leaf = 12, leaves = 3, oversubscription = '3:1', {fast} }}"
            ),
            36,
            12,
            3.0,
        ),
        (
            format!(
                "leaf_spine = {{ hosts_per_leaf = 4, leaves = 3, oversubscription = '2:1', {slow} }}"
            ),
            12,
            4,
            2.0,
        ),
        ("fat_tree = { radix = 8, tiers = 2, oversubscription = '3:1' }".into(), 48, 6, 3.0),
        ("fat_tree = { radix = 8, tiers = 3, oversubscription = '3:1' }".into(), 192, 24, 3.0),
    ];
    for (fabric, hosts, shift, ratio) in cases {
        let fabric: String = fabric;
        let channel = format!("fabric.{fabric}\nroutes.per_packet = 'random'");
        let at = |load: f64| {
            let workload = format!("load = {load}\npattern.shift = {shift}");
            run(&file(hosts, &channel, &workload, "4 ms"), 1)
        };
        let above = at(0.9).accepted_load();
        // Random choices among cables that are just full leave some idle now and then.
        assert!((0.98..1.0).contains(&(above * ratio)), "{fabric}: {above}");
        let below = at(0.9 / ratio);
        let lost = 1.0 - below.accepted_load() / below.offered_load();
        assert!(lost < 0.015, "{fabric}: {lost}");
    }
}
