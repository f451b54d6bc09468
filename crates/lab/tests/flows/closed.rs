//! Closed loops: a flow begins when one of its host has ended.

use weft_units::Span;

use super::{Channel, count};

/// Both hosts of a star send 950 B at once. The last byte is there 80 + 10 + 300 + 10 ns later, the acknowledgment
/// (64 B, 5.12 ns) another 325.12 ns later, and the next flow begins after 100 ns: every 825.12 ns.
#[test]
fn the_next_flow_begins_when_its_host_knows_that_one_has_ended() {
    let workload =
        "x = { sizes.constant = '950 B', closed = { outstanding = 1, think = '100 ns' } }";
    let run = Channel { hosts: 2, workload, ..Channel::default() }.run();
    // Flow 121 of each host begins at 99 839.52 ns and ends after the run.
    assert_eq!(run.observations.generated, 2 * 122);
    assert_eq!(run.observations.delivered, 2 * 121);
    let report = run.flows.as_ref().expect("flows");
    assert_eq!(report.unfinished, 2);
    let [bin] = &report.bins[..] else { panic!("one size") };
    for (recorder, expected) in [(&bin.completion, 400_000), (&bin.acknowledged, 725_120)] {
        assert_eq!((recorder.count(), recorder.max()), (242, Some(Span(expected))));
        assert_eq!(recorder.mean_ps(), Some(expected as f64));
    }
}

/// Little's law: so many flows are under way or wait for their host to think, whatever the fabric does to them.
#[test]
fn flows_times_their_time_are_what_is_outstanding() {
    for (outstanding, think, control) in
        [(1, 3_000_000, "dctcp"), (4, 0, "dctcp"), (16, 3_000_000, "swift")]
    {
        let workload = format!(
            "x = {{ sizes.constant = '20 kB', closed = {{ outstanding = {outstanding}, think = '{think} ps' }} }}"
        );
        let run = Channel {
            hosts: 8,
            fabric: "fabric.leaf_spine = { hosts_per_leaf = 4, leaves = 2, spines = 2 }",
            switch: "memory = '1 MB', classes.0.ecn = { at = 'enqueue', law.step.threshold = '30 kB' }",
            transport: &format!("congestion_control.{control} = {{}}"),
            workload: &workload,
            run: "length = '4 ms'\nregime = 'from_empty'",
            ..Channel::default()
        };
        let run = run.run();
        let report = run.flows.as_ref().expect("flows");
        let of = |bin: &weft_lab::drive::engine::FlowBin| {
            let flows = bin.acknowledged.count() as f64;
            flows * (bin.acknowledged.mean_ps().unwrap_or(0.0) + f64::from(think))
        };
        let sum: f64 = report.bins.iter().map(of).sum();
        let expected = 8.0 * f64::from(outstanding) * 4e9;
        // Those that the end of the run cuts off are missing.
        assert!(sum <= expected && sum > 0.99 * expected, "{outstanding}: {sum} of {expected}");
        assert_eq!(count(&run, "timeouts"), 0.0);
    }
}

/// A timeout that is shorter than the queue has flows sent again that arrive all the same: their hosts hear of them
/// more than once, and begin one flow for each all the same.
#[test]
fn a_flow_that_is_heard_of_twice_is_followed_by_one() {
    let workload = "x = { sizes.constant = '3 kB', pattern.hot_spot = { target = 0, fraction = 1.0 }, \
                    closed.outstanding = 16 }";
    let text = Channel { hosts: 8, workload, ..Channel::default() }.text();
    let text =
        text.replace("timeout = '1 ms'", "timeout = '5 us'\nreliability = 'selective_repeat'");
    let run = super::run(&text, 1);
    assert!(count(&run, "timeouts") > 100.0 && count(&run, "retransmitted_packets") > 100.0);
    let report = run.flows.as_ref().expect("flows");
    // Sixteen of each host are under way when the run ends, some of which have come.
    assert!(report.unfinished <= 8 * 16, "{} flows", report.unfinished);
    let begun = run.observations.generated / 4;
    let ended: u64 = report.bins.iter().map(|bin| bin.acknowledged.count()).sum();
    assert_eq!(begun - ended, 8 * 16);
}

#[test]
fn flows_that_begin_when_others_end_have_no_load() {
    for (own, key) in [
        ("load = 0.3, sizes = 'web_search', closed.outstanding = 1", "load"),
        ("incast.senders = 2, sizes = 'web_search', closed.outstanding = 1", "incast"),
        ("list = [{ from = 0, to = 1, size = '1 kB' }], closed.outstanding = 1", "closed"),
        ("closed.outstanding = 1", "sizes"),
        ("sizes = 'web_search', closed.outstanding = 1000000000", "closed.outstanding"),
        ("sizes = 'web_search'", "load"),
    ] {
        let workload = format!("x = {{ {own} }}");
        let why = Channel { workload: &workload, ..Channel::default() }.refusal();
        assert!(why.contains("source.flows.x") && why.contains(key), "{own}: {why}");
    }
}
