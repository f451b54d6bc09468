//! Messages of programs by a transport: each is a flow.

use weft_units::Span;

use super::{Channel, count, run};

fn program(own: &str) -> String {
    format!("length = '10 ms'\nregime = 'from_empty'\n[program]\n{own}")
}

fn without_flows(own: &Channel<'_>) -> String {
    own.text().replace("[workload.c.source.flows]", "")
}

/// Three packets of 80 ns and the way of 320 ns, as without a transport: nothing waits for an acknowledgment, but
/// for the answers, which start behind that of the last packet before them, 5.12 ns.
#[test]
fn a_message_alone_takes_what_a_flow_does() {
    for transport in ["", "congestion_control.dctcp = {}", "congestion_control.swift = {}"] {
        let own = Channel {
            switch: "memory = '1 MB', classes.0 = { ecn = { at = 'enqueue', \
                     law.step.threshold = '90 kB' } }",
            transport,
            run: &program("run.ping_pong = { size = '2850 B', rounds = 5 }"),
            ..Channel::default()
        };
        let run = run(&without_flows(&own), 1);
        let bins = &run.flows.as_ref().expect("flows").bins;
        assert_eq!((bins.len(), bins[0].group.as_str()), (1, "messages"));
        let took = &bins[0].completion;
        let each = Span(3 * 80_000 + 320_000);
        let answer = each + Span(5_120);
        assert_eq!(took.count(), 10);
        assert_eq!((took.min(), took.max()), (Some(each), Some(answer)), "{transport}");
        assert_eq!(
            took.sum_ps(),
            u128::from(each.0 + 9 * answer.0),
            "all but the first are answers"
        );
        assert_eq!(bins[0].alone.max(), Some(each));
    }
}

/// Sixteen hosts send to each other through one spine with queues of six packets: what is cut or dropped is sent
/// again, and every message arrives.
#[test]
fn programs_run_over_switches_that_lose_packets() {
    let trim = "trim = { header = '64 B', class = 1 }, ";
    for (reliability, trim) in
        [("go_back_n", ""), ("selective_repeat", ""), ("selective_repeat", trim)]
    {
        let own = Channel {
            hosts: 16,
            fabric: "fabric.leaf_spine = { hosts_per_leaf = 4, leaves = 4, spines = 1 }",
            switch: &format!(
                "memory = '200 kB', classes.0 = {{ {trim}limit.bytes = '6 kB' }}, classes.1 = {{}}"
            ),
            transport: &format!("reliability = '{reliability}'\nacknowledgment_class = 1"),
            run: &program("run.all_to_all = { size = '20 kB', rounds = 3 }"),
            ..Channel::default()
        };
        let run = run(&without_flows(&own).replace("timeout = '1 ms'", "timeout = '50 us'"), 1);
        let flows = run.flows.as_ref().expect("flows");
        let arrived: u64 = flows.bins.iter().map(|bin| bin.completion.count()).sum();
        assert_eq!((arrived, flows.unfinished), (3 * 16 * 15, 0), "{reliability} {trim}");
        assert!(count(&run, "retransmitted_packets") > 0.0, "{reliability} {trim}");
        assert_eq!(count(&run, "cut_packets") > 0.0, !trim.is_empty());
    }
}
