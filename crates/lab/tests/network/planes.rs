//! Hosts with a port in each of several planes, which hand over packets of one size.

use weft_fabric::measure::Latency;
use weft_kernel::Halt;
use weft_lab::{Options, Plan, Request, simulate};
use weft_units::Span;

use super::{file, run, voq};

/// Four packets of 1 us at once.
const FOUR: &str = "source.list = [{ time = '5 us', from = 0, to = 2 }, { time = '5 us', from = 0, to = 2 }, \
                    { time = '5 us', from = 0, to = 2 }, { time = '5 us', from = 0, to = 2 }]";

/// The same file with queues at the outputs, at the inputs, and in a shared buffer.
fn kinds(hosts: u32, channel: &str, workload: &str, length: &str) -> [String; 3] {
    let queues = file(hosts, channel, workload, length);
    let shared = "switch.shared_buffer = { latency = '90 ns', memory = '1 MB' }";
    [
        queues.replace("switch.output_queued.latency = '90 ns'", shared),
        voq(hosts, "buffer = 64", channel, workload, length),
        queues,
    ]
}

/// The longest that a packet waited in its host, and how many directed links carried anything.
fn waits(text: &str) -> (Span, usize) {
    let run = run(text, 1);
    assert_eq!(run.observations.delivered, 4, "{text}");
    let longest = run.observations.recorder(Latency::Queueing).max().expect(text);
    let busy = run.observations.busy().iter().filter(|busy| **busy > Span::ZERO).count();
    (longest, busy)
}

#[test]
fn packets_leave_by_all_planes_at_once_and_those_of_a_connection_by_one() {
    let fabric = "fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 2, spines = 1 }";
    for (planes, routes, expected) in [
        (1, "per_packet = 'random'", (3, 4)),
        (2, "per_packet = 'random'", (1, 8)),
        (4, "per_packet = 'random'", (0, 16)),
        (4, "per_packet = 'adaptive'", (0, 16)),
        (4, "per_connection = 'hashed'", (3, 4)),
        (4, "per_connection = 'random'", (3, 4)),
    ] {
        let channel = format!("{fabric}\nplanes = {planes}\nroutes.{routes}");
        for text in kinds(4, &channel, FOUR, "100 us") {
            let (wait, links) = waits(&text);
            assert_eq!((wait.as_us().round() as u32, links), expected, "{text}");
        }
    }
}

/// A channel of four planes with a listed route from host 0 to host 2.
fn listed(switches: &str) -> String {
    format!(
        "fabric.leaf_spine = {{ hosts_per_leaf = 2, leaves = 2, spines = 2 }}\nplanes = 4\n\
         routes.per_connection.given = [{{ from = 0, to = 2, switches = {switches} }}]"
    )
}

#[test]
fn a_listed_route_is_taken_in_the_plane_that_it_names() {
    for (plane, spine) in [(0, 1), (2, 0), (3, 1)] {
        let channel = listed(&format!("['{plane}/0.0', '{plane}/1.{spine}', '{plane}/0.1']"));
        for text in kinds(4, &channel, FOUR, "100 us") {
            let busy = run(&text, 1).observations.busy().to_vec();
            let used: Vec<usize> = (0..busy.len()).filter(|at| busy[*at] > Span::ZERO).collect();
            // Two leaves of four ports and two spines of two in each plane, and behind all of them the hosts.
            let first = plane * 12;
            let expected =
                [first + 2 + spine, first + 4, first + 8 + 2 * spine + 1, 48 + 4 * plane];
            let mut expected = expected.to_vec();
            expected.sort_unstable();
            assert_eq!(used, expected, "{text}");
        }
    }
}

#[test]
fn a_listed_route_through_two_planes_is_refused() {
    let channel = listed("['3/0.0', '2/1.0', '3/0.1']");
    for text in kinds(4, &channel, FOUR, "100 us") {
        let error =
            Plan::new(&Request::of_text("planes.toml", &text)).expect_err(&text).to_string();
        assert!(error.contains("a cable between switch 3/0.0 and switch 2/1.0"), "{error}");
    }
}

#[test]
fn links_are_named_by_plane() {
    let text = file(4, "planes = 2\nroutes.per_packet = 'random'", FOUR, "100 us");
    let request = Request::of_text("planes.toml", &text);
    let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true).expect(&text);
    let table = outcome.table("links");
    assert_eq!(table.rows(), 16);
    let names: Vec<String> = (0..16).map(|row| format!("{:?}", table.get(row, "name"))).collect();
    let has = |name: &str| names.iter().any(|own| own.contains(name));
    assert!(has("host 0 in plane 1 to switch 1/0.0"), "{names:?}");
    assert!(has("port 2 of switch 0/0.0 to host 2 in plane 0"), "{names:?}");
}

/// A load is a fraction of what all ports of a host carry, and all of it comes.
#[test]
fn a_load_is_that_of_all_planes_together() {
    for text in kinds(8, "planes = 4\nroutes.per_packet = 'random'", "load = 0.6", "4 ms") {
        let run = run(&text, 1);
        let loads = [run.offered_load(), run.accepted_load()];
        assert!(loads.iter().all(|load| (load - 0.6).abs() < 0.02), "{loads:?}: {text}");
        let measured = run.measured().0 as f64;
        for (link, busy) in run.observations.busy().iter().enumerate() {
            assert!((busy.0 as f64 / measured - 0.6).abs() < 0.1, "{link}: {text}");
        }
    }
}

/// Whatever the fabric and its routes: every packet is accounted for, which a run checks by itself, nothing
/// depends on when it is asked, and detours and virtual channels stay in their planes.
#[test]
fn every_fabric_may_have_planes() {
    let channels = "flow_control.virtual_channel_credits.channels = 3";
    for (hosts, fabric) in [
        (
            16,
            "fabric.fat_tree = { radix = 4, tiers = 3 }\nroutes.per_packet = 'adaptive'".to_owned(),
        ),
        (
            12,
            "fabric.leaf_spine = { hosts_per_leaf = 3, leaves = 4, spines = 2, rails = 2 }"
                .to_owned(),
        ),
        (12, format!("fabric.torus.dimensions = [4, 3]\n{}", channels.replace('3', "2"))),
        (
            72,
            format!(
                "fabric.dragonfly.hosts_per_router = 2\nroutes.per_packet = 'ugal'\n{channels}"
            ),
        ),
        (
            72,
            format!(
                "fabric.dragonfly.hosts_per_router = 2\nroutes.per_packet = 'valiant'\n{channels}"
            ),
        ),
        (
            9,
            "fabric.hyperx = { dimensions = [3, 3], order = 'any' }\n\
             flow_control.virtual_channel_credits.channels = 2"
                .to_owned(),
        ),
    ] {
        let channel = format!("{fabric}\nplanes = 3");
        let text = voq(hosts, "buffer = 12", &channel, "load = 0.4", "300 us");
        let [one, other] = [(); 2].map(|()| run(&text, 5));
        assert!(one.observations.delivered > 10 * u64::from(hosts), "{text}");
        assert_eq!(one.observations.delivered, other.observations.delivered);
        assert_eq!(one.observations.busy(), other.observations.busy());
    }
}

#[test]
fn what_has_one_port_by_nature_has_no_planes() {
    let cases = [
        (
            "switch.shared_memory = { latency = '90 ns', buffer = 8 }",
            "a connection is laid along one way",
        ),
        ("switch.input_queued.scheduler = 'islip'", "they keep account of one port"),
        (
            "switch.crossbar = { latency = '90 ns', contention = 'back_pressure' }",
            "they keep account of one port",
        ),
        (
            "switch.output_queued = {}\ncontrol.request_acknowledge = { timeout = '9 us', outstanding = 4, \
             acknowledgment = '25 B' }",
            "they keep account of one port",
        ),
    ];
    for (switch, expected) in cases {
        let text = file(4, "planes = 2", "load = 0.1", "1 ms")
            .replace("switch.output_queued.latency = '90 ns'", switch);
        let plan = Plan::new(&Request::of_text("planes.toml", &text));
        let said = match plan {
            Ok(plan) => {
                simulate(&plan.points[0].spec, 1, &Halt::new()).expect_err(&text).to_string()
            }
            Err(error) => error.to_string(),
        };
        assert!(said.contains("channel.c.planes = 2") && said.contains(expected), "{said}");
    }
    let most = file(4, "planes = 3000000", "load = 0.1", "1 ms");
    let said = Plan::new(&Request::of_text("planes.toml", &most)).expect_err(&most).to_string();
    assert!(said.contains("channel.c.planes = 3000000"), "{said}");
}
