//! Fabrics in which all switches have queues without limits at their outputs, and all of them and all cables
//! are alike: packets cross them in a loop of their own.

use weft_kernel::{Halt, Stopped};
use weft_lab::drive::carrier::Carrier as _;
use weft_lab::drive::engine::Engine;

use super::parts::{build, shown, told};

/// A fabric, its routes and its traffic.
fn plain(fabric: &str, routes: &str, workload: &str) -> String {
    format!(
        "routes.{routes}\nswitch = {{ latency = '90 ns', buffers = 'unlimited' }}\n\
         other = {{ buffer = 60, scheduler.islip = {{}} }}\nclocked = 0\n\
         memory = {{ latency = '70 ns', buffer = 8 }}\nshared = 0\nflow_control = 'credits'\n\
         link = {{ rate = '1 Gbit/s', length = '200 m', delay_per_metre = '5 ns' }}\n\
         {fabric}\n[workload]\nload = 0.6\n{workload}\n"
    )
}

/// The larger tree has so many ports that what events need is prefetched.
#[test]
fn packets_that_cross_switches_together_show_the_same_as_one_by_one() {
    let fabrics = [
        ("fabric.fat_tree = { radix = 8, tiers = 3 }", 100, 10_000),
        ("fabric.fat_tree = { radix = 16, tiers = 2 }", 128, 15_000),
        ("fabric.fat_tree = { radix = 16, tiers = 3 }", 600, 60_000),
        ("fabric.torus.dimensions = [3, 3]", 9, 1_000),
    ];
    let routes = ["per_packet = 'random'", "per_packet = 'adaptive'", "per_connection = 'hashed'"];
    for (fabric, hosts, least) in fabrics {
        for routes in routes {
            for workload in ["", "arrivals = 'bernoulli'"] {
                let text = plain(fabric, routes, workload);
                let (usual, delivered, steps) = shown(&text, hosts, 3, |_| {});
                let alone = shown(&text, hosts, 3, Engine::process_events_one_by_one);
                assert!(delivered > least, "{delivered} packets, {text}");
                assert_eq!((steps, delivered), (alone.2, alone.1), "{text}");
                // Not both, which are long.
                assert!(usual == alone.0, "{text}");
            }
        }
    }
}

/// Wherever a run stops, it goes on as if it had not.
#[test]
fn packets_that_cross_switches_together_stop_at_the_limit_of_steps() {
    let fabric = "fabric.fat_tree = { radix = 8, tiers = 3 }";
    let text = plain(fabric, "per_packet = 'random'", "arrivals = 'bernoulli'");
    let (whole, _, steps) = shown(&text, 100, 3, |_| {});
    let (mut engine, until, _) = build(&text, 100, 3, &|_| true);
    let pieces = [1, 2, 3, 10, 1_000, 4_095, 4_096, 4_097];
    let mut limit = 0;
    for piece in pieces {
        limit += piece;
        let halt = Halt::new().with_step_limit(Some(limit));
        let stopped = engine.run_watched(until, &halt, |_| {});
        assert_eq!((stopped, engine.steps()), (Some(Stopped::StepLimit), limit));
    }
    let halt = Halt::new();
    halt.ask();
    let stopped = engine.run_watched(until, &halt, |_| {});
    assert_eq!((stopped, engine.steps()), (Some(Stopped::Asked), limit.next_multiple_of(4_096)));
    assert!(steps > 2 * limit, "{steps} steps");
    let (rest, _, in_all) = told(engine, until);
    // Without the deliveries, which are of the rest alone.
    let behind = |text: &str| text.split_once('\n').map(|(_, behind)| behind.to_owned());
    assert_eq!(in_all, steps);
    assert!(behind(&rest) == behind(&whole), "{rest}");
}
