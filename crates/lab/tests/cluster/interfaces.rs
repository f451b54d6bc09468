//! Hosts with interfaces in front of both channels. The state machines beneath assert that no ring
//! and no free list ever overflows; these runs have assertions on.

use proptest::prelude::*;
use weft_fabric::measure::{Drop, Latency};

use super::{channel, counter, runs};

const AMPLE: &str = "{ host_send_buffers = 4000, host_receive_buffers = 400, \
                     receive_buffers = 100, message = '2080 B' }";

/// An interface that costs nothing and always has room changes nothing.
#[test]
fn an_ideal_interface_is_as_good_as_none() {
    let of = |interface: Option<String>| {
        let mut overrides = vec![
            "run.length=1 ms",
            "run.regime=from_empty",
            "workload.bulk.load=0.6",
            "workload.quick.load=0.1",
            "channel.bulk.adapter.release=acknowledgment",
        ];
        let bulk = interface.as_ref().map(|text| format!("channel.bulk.interface={text}"));
        let quick = interface.as_ref().map(|text| format!("channel.quick.interface={text}"));
        overrides.extend(bulk.as_deref());
        overrides.extend(quick.as_deref());
        let runs = runs("clint", Some("detailed"), &overrides, 5);
        ["bulk", "quick"].map(|name| {
            let run = channel(&runs, name);
            let queueing = run.observations.recorder(Latency::Queueing);
            (run.observations.delivered, run.backlog, queueing.mean_ps(), queueing.max())
        })
    };
    let without = of(None);
    assert!(without[0].0 > 500 && without[1].0 > 1000);
    assert_eq!(of(Some(AMPLE.to_owned())), without);
}

/// By hand: handed over at 500 ns; the register write takes 300, the copy 200 + 2080 ns: there at
/// 3080 ns, in time for the sampling at 8983.158 ns. The packet is at its target at 19 258.658 ns
/// (see `times`); the copy with its entry takes 200 + 2088 ns, the poll 50, dispatch 100 and the
/// handler 900 ns: done at 22 596.658 ns, 22 096.658 ns after it was handed over.
#[test]
fn one_message_from_program_to_handler() {
    let overrides = [
        "system.hosts=2",
        "run.length=60 us",
        "run.regime=from_empty",
        "channel.bulk.adapter.release=acknowledgment",
        "channel.bulk.interface={ host_send_buffers = 4, host_receive_buffers = 4, \
         receive_buffers = 2, message = '2080 B', entry = '8 B', \
         bus = { host_write = '300 ns', poll = '50 ns', dma_setup = '200 ns', \
         dma_rate = '8 Gbit/s' }, handlers = { dispatch = '100 ns', handler = '900 ns' } }",
        "workload.bulk.source.list=[{ time = '500 ns', from = 0, to = 1 }]",
    ];
    for preset in [None, Some("detailed")] {
        let runs = runs("clint", preset, &overrides, 1);
        let bulk = channel(&runs, "bulk");
        assert_eq!(counter(bulk, "handled_messages"), 1.0);
        let handled = counter(bulk, "handled_mean_us");
        assert!((handled - 22.096_658).abs() < 1e-9, "{preset:?}: {handled}");
        // SendReg and RecvCmplReg once each; one look each for completion and message; fetch,
        // store and report.
        let counted = ["host_writes", "polls", "copies"].map(|name| counter(bulk, name));
        assert_eq!(counted, [2.0, 2.0, 3.0]);
    }
}

/// CL-14: two virtual networks of two hosts each. Of the three targets that a host draws, one is in
/// its own network.
#[test]
fn virtual_networks_do_not_see_each_other() {
    let interface = "{ host_send_buffers = 40, host_receive_buffers = 40, receive_buffers = 20, \
                     message = '2080 B', virtual_networks = [[0, 1], [2, 3]] }";
    let bulk = format!("channel.bulk.interface={interface}");
    let quick = format!("channel.quick.interface={interface}");
    let overrides = [
        "system.hosts=4",
        "run.length=2 ms",
        "run.regime=from_empty",
        "run.trace=true",
        "channel.bulk.adapter.release=acknowledgment",
        "workload.bulk.load=0.5",
        "workload.quick.load=0.1",
        bulk.as_str(),
        quick.as_str(),
    ];
    let runs = runs("clint", Some("detailed"), &overrides, 1);
    for (name, kind) in [("bulk", "breq"), ("quick", "qreq")] {
        let run = channel(&runs, name);
        let seen = &run.observations;
        let refused = seen.dropped(Drop::Protected);
        assert_eq!(refused, seen.abandoned);
        let share = refused as f64 / seen.generated as f64;
        assert!((0.6..0.73).contains(&share), "{share}");
        assert_eq!(counter(run, "unclaimed_messages"), 0.0, "refused before it is sent");
        let requests = run.trace.iter().filter(|entry| entry.kind == kind);
        let network = |host: Option<u32>| host.unwrap() / 2;
        assert!(requests.clone().count() > 100);
        assert!(requests.clone().all(|r| network(r.initiator) == network(r.target)));
    }
}

/// CL-35, by hand, over a bus that takes no time. Host 0 has two messages for host 1 and one for
/// host 2 at 500 ns. A transfer of cycle 1 starts at 10 863.158 ns, and its outcome is known two slots
/// of 8983.158 ns later, at 28 829.474 ns; the next message that is fetched then is sampled in cycle 4,
/// and its outcome known at 55 778.948 ns. The run is 60 us of three hosts.
#[test]
fn blocking_at_the_head_is_seen_where_it_arises() {
    let blocked = |host_send: u16, send: u16, prefetch: &str| {
        let overrides = [
            "system.hosts=3".to_owned(),
            "run.length=60 us".to_owned(),
            "run.regime=from_empty".to_owned(),
            "channel.bulk.adapter.release=acknowledgment".to_owned(),
            format!("channel.bulk.adapter.send_buffers={send}"),
            format!(
                "channel.bulk.interface={{ host_send_buffers = {host_send}, \
                 host_receive_buffers = 4, receive_buffers = 2, message = '2080 B', \
                 prefetch = {prefetch} }}"
            ),
            "workload.bulk.source.list=[{ time = '500 ns', from = 0, to = 1 }, \
             { time = '500 ns', from = 0, to = 1 }, { time = '500 ns', from = 0, to = 2 }]"
                .to_owned(),
        ];
        let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
        let runs = runs("clint", None, &overrides, 1);
        let bulk = channel(&runs, "bulk");
        ["blocked_at_host", "blocked_at_prefetch"]
            .map(|name| (counter(bulk, name) * 180e6).round() as u64)
    };
    // The third message waits for host memory until the first is done with, and then for the
    // adapter until the second is.
    assert_eq!(blocked(2, 1, "'fifo'"), [28_329_474, 26_949_474]);
    // All three are in host memory; the adapter holds the first two until the first is done with.
    assert_eq!(blocked(4, 2, "'fifo'"), [0, 28_329_474]);
    // The second message for host 1 is skipped, and waits only for one to its own target.
    assert_eq!(blocked(4, 2, "{ per_target = { limit = 1 } }"), [0, 0]);
}

/// CL-14: host 1 is in both networks and has an endpoint in each; hosts 0 and 2 see it, and not each
/// other. Every message calls the handler of the endpoint that it names.
#[test]
fn a_host_has_an_endpoint_in_each_of_its_networks() {
    let interface = "{ host_send_buffers = 40, host_receive_buffers = 40, receive_buffers = 20, \
                     message = '32 B', virtual_networks = [[0, 1], [2, 1]] }";
    let pairs = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)];
    let list = pairs.map(|(from, to)| format!("{{ time = '1 us', from = {from}, to = {to} }}"));
    for (name, other) in [("bulk", "quick"), ("quick", "bulk")] {
        let overrides = [
            "system.hosts=3".to_owned(),
            "run.length=100 us".to_owned(),
            "run.regime=from_empty".to_owned(),
            "run.trace=true".to_owned(),
            "channel.bulk.adapter.release=acknowledgment".to_owned(),
            format!("channel.{name}.interface={interface}"),
            format!("workload.{name}.source.list=[{}]", list.join(", ")),
            format!("workload.{other}.source.list=[{}]", list[0]),
        ];
        let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
        let runs = runs("clint", Some("detailed"), &overrides, 1);
        let run = channel(&runs, name);
        let seen = &run.observations;
        assert_eq!((seen.delivered, seen.dropped(Drop::Protected)), (4, 2), "{name}");
        assert_eq!(counter(run, "handled_messages"), 4.0);
        assert_eq!(counter(run, "unclaimed_messages"), 0.0);
        let kind = if name == "bulk" { "breq" } else { "qreq" };
        let requests = run.trace.iter().filter(|entry| entry.kind == kind);
        let passed = requests.map(|entry| (entry.initiator.unwrap(), entry.target.unwrap()));
        assert!(passed.clone().all(|pair| pairs[..4].contains(&pair)));
        assert_eq!(passed.collect::<std::collections::BTreeSet<_>>().len(), 4);
    }
}

/// CL-33, CL-35 with the shipped preset: what the experiment on the prefetch shows.
#[test]
fn a_different_order_of_fetches_blocks_fewer_messages() {
    let of = |prefetch: &str| {
        let prefetch = format!("channel.bulk.interface.prefetch={prefetch}");
        let overrides = [
            "run.length=4 ms",
            "run.regime=from_empty",
            "channel.bulk.adapter.send_buffers=4",
            "workload.bulk.load=0.7",
            "workload.bulk.burst.length={ uniform = [1, 5] }",
            &prefetch,
        ];
        let runs = runs("clint", Some("interface"), &overrides, 1);
        let bulk = channel(&runs, "bulk");
        (counter(bulk, "blocked_at_prefetch"), bulk.observations.delivered)
    };
    let [fifo, limited, different] =
        ["fifo", "{ per_target = { limit = 2 } }", "different_targets"].map(of);
    assert!(fifo.0 > 1.1 * limited.0 && limited.0 > 1.5 * different.0, "{fifo:?} {limited:?}");
    assert!(different.1 as f64 > 1.05 * fifo.1 as f64, "{different:?} {fifo:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Small pools, costly buses and damaged packets: every packet is delivered, given up by a rule
    /// or held (the run itself is refused otherwise), and no pool is ever over-full.
    #[test]
    fn interfaces_lose_nothing(
        pools in prop::array::uniform3(1..6_u16),
        host_write in 0..2000_u64,
        dma_setup in 0..2000_u64,
        handler in 0..20_000_u64,
        errors in 0.0..0.2_f64,
        attempts in 1..4_u32,
        prefetch in prop::sample::select(vec!["fifo", "different_targets"]),
        gives_up: bool,
        detailed: bool,
        seed: u64,
    ) {
        let [host_send, host_receive, receive] = pools;
        let interface = format!(
            "{{ host_send_buffers = {host_send}, host_receive_buffers = {host_receive}, \
             receive_buffers = {receive}, message = '2080 B', entry = '8 B', \
             prefetch = '{prefetch}', bus = {{ host_write = '{host_write} ns', poll = '50 ns', \
             dma_setup = '{dma_setup} ns', dma_rate = '4 Gbit/s' }}, \
             handlers = {{ handler = '{handler} ns' }} }}"
        );
        let on_error = if gives_up { "give_up" } else { "send_again" };
        let settings = [
            "system.hosts=4".to_owned(),
            "run.length=500 us".to_owned(),
            "run.regime=from_empty".to_owned(),
            "workload.bulk.load=0.5".to_owned(),
            "workload.quick.load=0.1".to_owned(),
            "channel.bulk.adapter.release=acknowledgment".to_owned(),
            format!("channel.bulk.errors.packet_error_rate={errors}"),
            format!("channel.quick.errors.packet_error_rate={}", errors / 10.0),
            format!("channel.bulk.recovery={{ attempts = {attempts}, on_error = '{on_error}' }}"),
            format!("channel.bulk.interface={interface}"),
            format!("channel.quick.interface={}", interface.replace("2080 B", "32 B")),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let preset = Some("detailed").filter(|_| detailed);
        let runs = runs("clint", preset, &settings, seed);
        prop_assert!(channel(&runs, "bulk").observations.delivered > 5);
        prop_assert!(channel(&runs, "quick").observations.delivered > 5);
    }
}
