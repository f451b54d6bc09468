//! Runs on several threads are those on one.

use std::num::NonZeroUsize;

use weft_kernel::{Halt, Stopped};
use weft_lab::{
    ChannelRun, Options, Outcome, Plan, Point, Request, Threads, simulate, simulate_on,
};
use weft_units::Span;

use super::{MANY_PORTS, file, voq};

fn threads(count: usize) -> Threads {
    Threads::at_most(NonZeroUsize::new(count).expect("one or more"))
}

/// What runs show. Of input-queued switches the number of events is left out, since those of clocks that switches of
/// several parts share are as many as there are parts, and of those with a shared buffer, since parts plan no
/// departures.
fn text(mut runs: Vec<ChannelRun>, depends_on_parts: bool) -> String {
    if depends_on_parts {
        runs.iter_mut().for_each(|run| run.steps = 0);
    }
    serde_json::to_string(&runs).expect("text")
}

/// The results of a request on this many threads, even if they are slower, and why it used one, if
/// it did.
fn shown(request: &Request, count: usize) -> (Vec<String>, Vec<String>) {
    let plan = Plan::new(request).expect("a plan");
    let threads = threads(count).even_if_slower();
    let runs = plan.points.iter().map(|point| {
        let runs = simulate_on(&threads, &point.spec, point.spec.run.seed, &Halt::new());
        let channels = format!("{:?}", point.spec.channel);
        let is_counted =
            !["InputQueued", "SharedBuffer"].iter().any(|kind| channels.contains(kind));
        text(runs.expect("a run"), !is_counted)
    });
    (runs.collect(), threads.alone())
}

fn is_the_same_on_two_and_three(request: &Request, what: &str) {
    let (one, alone) = shown(request, 1);
    assert!(alone.is_empty());
    for count in [2, 3] {
        let (runs, alone) = shown(request, count);
        assert!(alone.is_empty(), "{what}: {alone:?}");
        assert_eq!(runs, one, "{what} on {count} threads");
    }
}

#[test]
fn fabrics_show_the_same_on_any_number_of_threads() {
    let (tree, torus) = ("k_ary_tree = { arity = 3, levels = 2 }", "torus.dimensions = [3, 3]");
    let (random, adaptive) = ("routes.per_packet = 'random'", "routes.per_packet = 'adaptive'");
    let groups = "dragonfly.hosts_per_router = 2";
    let row = "hyperx = { dimensions = [4], hosts_per_switch = 4 }";
    for (hosts, fabric, more, load) in [
        (9, tree, random, "load = 0.8"),
        (9, tree, adaptive, "load = 0.9\narrivals = 'constant'"),
        (9, tree, random, "source = 'greedy'"),
        (9, tree, random, "source.ping_pong.pairs = [{ from = 0, to = 8 }, { from = 4, to = 3 }]"),
        (9, torus, "switch.output_queued.buffers = 2", "load = 1.1"),
        (9, torus, "", "load = 0.7\nburst.length.uniform = [1, 9]"),
        (72, groups, "routes.per_packet = 'valiant'", "load = 0.3"),
        (72, groups, "routes.per_packet = 'ugal'", "load = 0.4"),
        (9, torus, "routes.per_packet = 'valiant'", "load = 0.3"),
        (16, row, "routes.per_packet = 'ugal'", "load = 0.4\npattern.shift = 4"),
    ] {
        let text = file(hosts, &format!("fabric.{fabric}\n{more}"), load, "1 ms");
        let text = match load.contains("greedy") {
            true => text.replace("send_buffers = 'unlimited'", "send_buffers = 2"),
            false => text,
        };
        for looks in ["", "trace = true\n"] {
            let text = format!("{text}{looks}");
            is_the_same_on_two_and_three(&Request::of_text("network.toml", &text), &text);
        }
    }
}

/// The header of a packet that has left is in another part, where nobody marks it.
#[test]
fn marks_at_departure_have_one_thread() {
    let run = |at: &str| {
        let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }";
        let text = file(9, tree, "load = 0.8", "100 us");
        let ecn = format!("classes.0.ecn = {{ at = '{at}', law.step.threshold = '300 B' }}");
        let switch = format!(
            "switch.shared_buffer = {{ latency = '90 ns', memory = '1 MB', \
             forwarding = 'store_and_forward', {ecn} }}"
        );
        let text = text.replace("switch.output_queued.latency = '90 ns'", &switch);
        let request = Request::of_text("network.toml", &text);
        let [one, two] = [1, 2].map(|count| shown(&request, count));
        assert_eq!(one.0, two.0);
        two.1.concat()
    };
    assert_eq!(run("dequeue"), "");
    let alone = run("departure");
    assert!(alone.contains("packets are marked when they have left"), "{alone}");
}

#[test]
fn fabrics_with_limited_buffers_show_the_same_on_any_number_of_threads() {
    let (tree, torus) = ("k_ary_tree = { arity = 3, levels = 2 }", "torus.dimensions = [3, 3]");
    let stop = "flow_control.stop_go = { stop = 9, go = 3 }";
    let groups = "dragonfly.hosts_per_router = 2";
    let ugal = "routes.per_packet = 'ugal'\nflow_control.virtual_channel_credits.channels = 3";
    let plain = "switches.'1.0'.output_queued = { latency = '90 ns', buffers = 2 }";
    for (hosts, fabric, switch, more, load) in [
        (9, tree, "buffer = 9", "routes.per_packet = 'adaptive'", "load = 0.9"),
        (9, tree, "buffer = 1", "", "source = 'greedy'"),
        (9, tree, "buffer = 40, cell = '25 B'", stop, "load = 0.8"),
        (9, tree, "buffer = 3", plain, "load = 0.9"),
        (9, torus, "buffer = 8", "flow_control.virtual_channel_credits.channels = 2", "load = 1.1"),
        (72, groups, "buffer = 16", ugal, "load = 0.4"),
    ] {
        let text = voq(hosts, switch, &format!("fabric.{fabric}\n{more}"), load, "1 ms");
        let text = match load.contains("greedy") {
            true => text.replace("send_buffers = 'unlimited'", "send_buffers = 2"),
            false => text,
        };
        for looks in ["", "trace = true\n"] {
            let text = format!("{text}{looks}");
            is_the_same_on_two_and_three(&Request::of_text("network.toml", &text), &text);
        }
    }
}

/// Switches of 140 ports, whose sets of ports have several words.
#[test]
fn switches_of_many_ports_show_the_same_on_any_number_of_threads() {
    let text = voq(128, "buffer = 4", MANY_PORTS, "load = 0.7", "30 us");
    is_the_same_on_two_and_three(&Request::of_text("network.toml", &text), &text);
}

const SHARED: &str = "switch.shared_buffer = { latency = '90 ns', memory = '1 MB'";

/// The same of switches with a shared buffer, with further settings of it.
fn shared(channel: &str, load: &str, switch: &str) -> String {
    let switch = format!("{SHARED}, {switch} }}");
    file(9, channel, load, "1 ms").replace("switch.output_queued.latency = '90 ns'", &switch)
}

#[test]
fn fabrics_with_traffic_classes_show_the_same_on_any_number_of_threads() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }";
    let pauses = "classes.0.pfc = { threshold.static = { xoff = '500 B', xon = '0 B' }, \
                  response = '100 ns' }";
    for (routes, switch, load) in [
        ("random", "forwarding = 'store_and_forward'", "load = 0.8"),
        ("adaptive", "classes.0.limit.bytes = '1 kB'", "load = 1.1"),
        ("random", pauses, "load = 0.9"),
        ("random", "classes.0.credits = '4 kB'", "load = 0.9"),
    ] {
        let text = shared(&format!("{tree}\nroutes.per_packet = '{routes}'"), load, switch);
        for looks in ["", "trace = true\n"] {
            let text = format!("{text}{looks}");
            is_the_same_on_two_and_three(&Request::of_text("network.toml", &text), &text);
        }
    }
}

/// Channels that several threads do not divide say why, and show the same results.
#[test]
fn every_shipped_experiment_shows_the_same() {
    let mut spread = Vec::new();
    for name in weft_lab::experiments().expect("the list") {
        let is_spread = |mut point: Point| {
            let spec = &mut point.spec;
            // The fabrics with the most packets have the shortest runs, so a quarter is left of each.
            spec.run.length = Span(spec.run.length.0 / 4).min(Span(200_000_000));
            let run = |threads: &Threads| {
                let runs = simulate_on(threads, &point.spec, 1, &Halt::new());
                runs.map(|runs| text(runs, true)).map_err(|why| why.to_string())
            };
            let (one, two) = (Threads::one(), threads(2).even_if_slower());
            let whole = run(&one);
            assert!(whole.is_ok(), "{}: {whole:?}", name.name);
            assert_eq!(whole, run(&two), "{}", name.name);
            assert!(one.alone().is_empty());
            two.alone().is_empty()
        };
        let plan = Plan::new(&Request::new(&name.name, None, &[])).expect("a plan");
        let mut points = plan.points.into_iter();
        // The last point of a study differs from the first one as much as any does.
        let first = points.next().is_some_and(is_spread);
        if points.next_back().is_none_or(is_spread) && first {
            spread.push(name.name);
        }
    }
    // The others have adapters, programs, planes, cables that fail, marks at departure, or a single switch.
    let expected = [
        "infiniband-credits",
        "infiniband-incast",
        "roce-incast",
        "roce-pause",
        "roce-rails",
        "roce-spreading",
        "roce-two-senders",
        "slingshot-all-to-all",
    ];
    assert_eq!(spread, expected);
}

#[test]
fn what_has_one_thread_says_why() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }\nroutes.per_packet = 'random'";
    let load = "load = 0.5";
    let adapters = "control.request_acknowledge = { timeout = '90 us', outstanding = 4, \
                    acknowledgment = '10 B' }";
    let deciding = "switch.output_buffered = { latency = '90 ns', buffers = 4, writers = 2 }";
    let deciding =
        file(9, tree, load, "300 us").replace("switch.output_queued.latency = '90 ns'", deciding);
    let memory = file(9, tree, load, "300 us")
        .replace(
            "switch.output_queued.latency = '90 ns'",
            "switch.shared_memory = { latency = '90 ns', buffer = 8 }",
        )
        .replace("routes.per_packet", "routes.per_connection");
    let sampled = shared(tree, load, "forwarding = 'cut_through'");
    let weighed = "fabric.dragonfly.hosts_per_router = 2\nroutes.per_packet = 'ugal_global'";
    for (text, why) in [
        (file(9, "", load, "300 us"), "cannot be divided into parts"),
        (memory, "connections share the memories of switches"),
        (format!("{sampled}sample = '10 us'\n"), "queues are noted at intervals"),
        (file(9, &format!("{tree}\n{adapters}"), load, "300 us"), "hosts without adapters"),
        (deciding, "choose among packets of one instant"),
        (file(72, weighed, load, "300 us"), "weigh the queues of other switches"),
        (format!("{}step_limit = 9\n", file(9, tree, load, "300 us")), "counted event by event"),
    ] {
        let (runs, alone) = shown(&Request::of_text("network.toml", &text), 2);
        assert_eq!(runs, shown(&Request::of_text("network.toml", &text), 1).0);
        assert!(alone.len() == 1 && alone[0].contains(why), "{text}: {alone:?}");
    }
}

/// If threads were requested, the notes mention them, and only then.
#[test]
fn windows_that_are_too_short_are_told() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }";
    let request = Request::of_text("network.toml", &file(9, tree, "load = 0.5", "300 us"));
    let outcome = |threads: Option<usize>| -> Outcome {
        let threads = threads.and_then(NonZeroUsize::new);
        let options = Options { threads, ..Options::default() };
        weft_lab::run(&request, &options, &mut |_, _| true).expect("a run")
    };
    let (usual, asked) = (outcome(None), outcome(Some(2)));
    assert_eq!(format!("{:?}", usual.tables), format!("{:?}", asked.tables));
    let notes = |outcome: &Outcome| outcome.meta["notes"].as_array().expect("a list").clone();
    let expected = "channel c was simulated on one thread: parts of the network are 110 ns apart, in which \
                    about 2 events happen, and more threads or ranks are worth it from 4000 on";
    assert_eq!(notes(&asked), [notes(&usual), vec![expected.into()]].concat());
}

#[test]
fn a_run_on_threads_stops_when_it_is_asked_to() {
    let tree = "fabric.k_ary_tree = { arity = 3, levels = 2 }";
    let text = file(9, tree, "load = 0.5", "10 s");
    let plan = Plan::new(&Request::of_text("network.toml", &text)).expect("a plan");
    let halt = Halt::new();
    let runs = std::thread::scope(|scope| {
        let (spec, ends) = (&plan.points[0].spec, &halt);
        let threads = threads(2).even_if_slower();
        let run = scope.spawn(move || simulate_on(&threads, spec, 1, ends).expect("a run"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        halt.ask();
        run.join().expect("a thread")
    });
    assert_eq!(runs[0].stopped, Some(Stopped::Asked));
}

/// Cables of a microsecond, and 8192 hosts.
#[test]
fn a_large_fabric_is_worth_several_threads() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/threads-8192.toml");
    let plan = Plan::new(&Request::new(file, None, &["run.length=8 us".to_owned()]));
    let spec = &plan.expect("a plan").points[0].spec;
    let two = threads(2);
    let runs = simulate_on(&two, spec, 1, &Halt::new()).expect("a run");
    assert_eq!(two.alone(), Vec::<String>::new());
    let one = simulate(spec, 1, &Halt::new()).expect("a run");
    assert!(one[0].observations.delivered > 8_192);
    assert_eq!(runs[0].steps, one[0].steps);
    assert_eq!(text(runs, false), text(one, false));
}
