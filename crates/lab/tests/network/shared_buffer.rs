//! Switches that share a memory among their ports: hand-worked instants, and the laws of queues, pauses
//! and marks.

use weft_fabric::measure::{Drop, Latency};
use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, simulate};
use weft_units::Span;

/// A star at 100 Gbit/s, 80 ps a byte, with cables of 10 ns, packets of 1000 bytes and a latency of 300 ns.
pub(super) fn star(hosts: u32, switch: &str, workload: &str, length: &str) -> ChannelRun {
    let text = format!(
        "[system]\ntitle = 'star'\nhosts = {hosts}\n\
         [channel.c]\npacket = '1000 B'\npayload = '950 B'\n\
         link = {{ rate = '100 Gbit/s', length = '2 m', delay_per_metre = '5 ns' }}\n\
         adapter.send_buffers = 'unlimited'\nswitch.shared_buffer = {{ latency = '300 ns', {switch} }}\n\
         [workload.c]\n{workload}\n[run]\nlength = '{length}'\nregime = 'from_empty'\n"
    );
    run(&text)
}

pub(super) fn run(text: &str) -> ChannelRun {
    let plan = Plan::new(&Request::of_text("c.toml", text)).expect(text);
    let runs = simulate(&plan.points[0].spec, 1, &Halt::new()).expect(text);
    runs.into_iter().next().expect("the channel")
}

pub(super) fn column(run: &ChannelRun, name: &str) -> f64 {
    let columns = &run.network.as_ref().expect("a report").classes;
    columns.iter().find(|column| column.0 == name).expect(name).1
}

/// 80 ns on each cable for its length, 10 ns along it and 300 ns in the switch, which waits for the last
/// byte or does not.
#[test]
fn a_lone_packet_takes_its_length_once_or_at_every_link() {
    let lone = "source.list = [{ time = '1 us', from = 2, to = 1 }]";
    for (forwarding, expected) in [("cut_through", 400), ("store_and_forward", 480)] {
        let switch = format!("memory = '1 MB', forwarding = '{forwarding}'");
        let run = star(3, &switch, lone, "9 us");
        let one_way = run.observations.recorder(Latency::OneWay).max().expect("a delivery");
        assert_eq!(one_way, Span(expected * 1000), "{forwarding}");
    }
}

/// Two packets at one instant: the second leaves when the first one has left.
#[test]
fn packets_to_one_output_leave_one_behind_the_other() {
    let two =
        "source.list = [{ time = '1 us', from = 2, to = 1 }, { time = '1 us', from = 0, to = 1 }]";
    let run = star(3, "memory = '1 MB', forwarding = 'store_and_forward'", two, "9 us");
    let recorder = run.observations.recorder(Latency::OneWay);
    let expected = (Some(Span(480_000)), Some(Span(560_000)));
    assert_eq!((recorder.min(), recorder.max()), expected);
}

#[test]
fn a_full_memory_drops() {
    let burst = "load = 0.9\npattern.hot_spot = { target = 0, fraction = 1.0 }";
    let run = star(4, "memory = '10 kB'", burst, "100 us");
    assert!(run.observations.dropped(Drop::Overflow) > 100);
    assert_eq!(column(&run, "class_0_dropped"), run.observations.dropped(Drop::Overflow) as f64);
}

/// Two inputs to one output at 100 Gbit/s, with pauses at 3000 bytes from an input.
///
/// Hosts 0 and 1 send 20 packets each to host 2 from 1 us on, one every 80 ns. The k-th of each (from 0) is
/// in the memory at 1000 + 80 (k + 1) + 10 + 300 = 1390 + 80 k ns. The output takes one every 80 ns, from
/// host 0 and host 1 in turn, from 1390 ns on, and frees it 80 ns later. Input 0 holds 1, 1, 2, 2, 3, 3
/// packets as they come, where what has left at that instant is gone before; input 1 holds 1, 2, 2, 3, 3 and
/// then 4. So input 1 pauses first: with its packet k = 5, at 1790 ns. Nothing else is sent to its host, so that
/// the pause is on the cable for 64 x 80 ps = 5.12 ns from then on, 10 ns along it, and is heeded at
/// 1805.12 ns.
#[test]
fn a_pause_is_sent_when_a_packet_does_not_fit_and_heeded_when_it_came() {
    let flows: Vec<String> = (0..20)
        .flat_map(|_| [0, 1])
        .map(|from| format!("{{ time = '1 us', from = {from}, to = 2 }}"))
        .collect();
    let list = format!("source.list = [{}]", flows.join(", "));
    let pfc = "{ threshold.static = { xoff = '3000 B', xon = '2000 B' } }";
    let switch =
        format!("memory = '100 kB', forwarding = 'store_and_forward', classes.0.pfc = {pfc}");
    // The run ends where the pause has just been heeded.
    let at = |end: &str| star(3, &switch, &list, end);
    let before = at("1805119 ps");
    assert!(before.network.as_ref().expect("a report").pauses.is_empty());
    let after = at("1805121 ps");
    let pauses = &after.network.as_ref().expect("a report").pauses;
    let shown: Vec<_> =
        pauses.iter().map(|own| (own.stopped.as_str(), own.class, own.stops)).collect();
    assert_eq!(shown, [("host 1", 0, 1)]);
    assert_eq!(pauses[0].time, Span(1));
    // In the end all are there, and the cable that paused was paused for some time.
    let whole = at("20 us");
    assert_eq!((whole.observations.delivered, whole.observations.abandoned), (40, 0));
    assert!(column(&whole, "class_0_pauses") >= 2.0 && column(&whole, "class_0_paused_us") > 0.1);
}

/// A class that is strict waits for the packet that is being sent and for its own; at a single server
/// with Poisson arrivals and constant service its mean wait is `R / (1 - a)`, that of the other
/// `R / ((1 - a) (1 - a - b))`, where `a` and `b` are their loads and `R = (a + b) s / 2` what is left of the
/// service met (Cobham 1954, for M/D/1).
#[test]
fn strict_priority_waits_as_queueing_theory_says() {
    let (urgent, usual) = (0.3, 0.4);
    let switch =
        "memory = '100 MB', classes.1.schedule = 'strict', classes.0.limit.bytes = '90 MB'";
    // Sixteen hosts send to one, so that the cable to it is the only one that is full.
    let hosts = 16;
    let share = |load: f64| load / f64::from(hosts - 1);
    let flows: Vec<String> =
        (1..hosts).map(|from| format!("{{ from = {from}, to = 0 }}")).collect();
    let flows = flows.join(", ");
    let workload = format!(
        "load = {:.9}\npattern.flows = [{flows}]\n\
         beside.urgent = {{ class = 1, load = {:.9}, pattern.flows = [{flows}] }}",
        share(usual),
        share(urgent)
    );
    let run = star(hosts, switch, &workload, "20 ms");
    // Without waiting: 80 ns, two cables, and the switch. At the hosts nearly nothing waits.
    let (service, least) = (0.08, 0.4);
    let left = (urgent + usual) * service / 2.0;
    let expected = [left / ((1.0 - urgent) * (1.0 - urgent - usual)), left / (1.0 - urgent)];
    for (class, expected) in expected.into_iter().enumerate() {
        let mean = column(&run, &format!("class_{class}_one_way_mean_us"));
        let at_host = (urgent + usual) / 15.0 * service / 2.0;
        let wait = mean - least - at_host;
        assert!((wait - expected).abs() < 0.03 * expected + 0.002, "{class}: {wait}, {expected}");
    }
}

/// Classes that want more than there is get shares of bytes by their weights, whatever their sizes.
#[test]
fn weighted_classes_share_a_full_cable() {
    let switch = "memory = '100 kB', classes.0.schedule.weight = 1, classes.1.schedule.weight = 3";
    let workload = "load = 1.0\npattern.flows = [{ from = 0, to = 3 }]\n\
                    beside.small = { class = 1, load = 1.0, packet = '300 B', \
                    pattern.flows = [{ from = 1, to = 3 }, { from = 1, to = 3 }] }";
    let run = star(4, switch, workload, "2 ms");
    let [one, three] = [0, 1].map(|class| column(&run, &format!("class_{class}_mb_per_s")));
    // Payload is 950 of 1000 and 250 of 300 bytes.
    let share = (three / 250.0 * 300.0) / (one / 950.0 * 1000.0);
    assert!((share - 3.0).abs() < 0.05, "{share}");
}

/// RED marks with the probability of its line: at a constant queue of 59 kB between 20 and 100 kB with
/// `pmax` 0.4, every fifth packet, or 0.195 of them.
#[test]
fn marks_come_with_the_probability_of_the_line() {
    for (law, low, high) in [
        ("red = { kmin = '20 kB', kmax = '100 kB', pmax = 0.4 }", 0.19, 0.21),
        ("step.threshold = '57 kB'", 0.99, 1.0),
        ("step.threshold = '61 kB'", 0.0, 0.001),
    ] {
        for at in ["enqueue", "dequeue", "departure"] {
            // The queue fills up to its limit and stays there, as more comes than leaves.
            let switch = format!(
                "memory = '1 MB', classes.0 = {{ limit.bytes = '61 kB', \
                 ecn = {{ at = '{at}', law.{law} }} }}"
            );
            let workload = "load = 1.0\narrivals = 'constant'\n\
                            pattern.flows = [{ from = 0, to = 3 }, { from = 1, to = 3 }, \
                            { from = 2, to = 3 }]";
            let run = star(4, &switch, workload, "4 ms");
            let share = column(&run, "class_0_marked") / run.observations.delivered as f64;
            assert!((low..=high).contains(&share), "{law} at {at}: {share}");
        }
    }
}

/// Five packets to host 3. What is handed over at t is in the queue at t + 390 ns, and leaves 80 ns after the one
/// before it. A comes at 1390 ns, starts and has left at 1470; B, at 1410, has left at 1550, C, at 1420, at 1630,
/// D, at 1490, at 1710, and E, which comes as C leaves, at 1790.
///
/// With K = 1500 bytes two packets that wait are too many. At enqueue B, C, D and E find 0, 1, 1 and 0 of them; at
/// dequeue B, C and D leave 1, 1 and 0 behind. When A has left B and C wait, and when B has left C and D; when C has
/// left D waits alone, since E comes after that, and E when D has left. So A is marked at 1470 ns and B at 1550.
#[test]
fn a_mark_at_departure_is_on_the_packet_that_leaves_too_much_behind() {
    let list = [(0, 1000), (1, 1020), (2, 1030), (0, 1100), (1, 1240)];
    let list = list.map(|(from, at)| format!("{{ time = '{at} ns', from = {from}, to = 3 }}"));
    let list = format!("source.list = [{}]", list.join(", "));
    let marked = |at: &str, bytes: u32, end: &str| {
        let switch = format!(
            "memory = '1 MB', forwarding = 'store_and_forward', \
             classes.0.ecn = {{ at = '{at}', law.step.threshold = '{bytes} B' }}"
        );
        let run = star(4, &switch, &list, end);
        assert_eq!(run.observations.abandoned, 0);
        column(&run, "class_0_marked")
    };
    for (at, bytes, expected) in [
        ("enqueue", 1500, 0.0),
        ("dequeue", 1500, 0.0),
        ("departure", 1500, 2.0),
        ("departure", 2000, 0.0),
        ("departure", 1999, 2.0),
        ("departure", 999, 4.0),
        ("dequeue", 999, 2.0),
    ] {
        assert_eq!(marked(at, bytes, "9 us"), expected, "{at} at {bytes} B");
    }
    let ends = ["1469999 ps", "1470001 ps", "1549999 ps", "1550001 ps"];
    assert_eq!(ends.map(|end| marked("departure", 1500, end)), [0.0, 1.0, 1.0, 2.0]);
}

/// What finds its queue full goes on as a header of 64 bytes, ahead of what waits; nothing is dropped.
#[test]
fn trimmed_headers_arrive_ahead() {
    let switch = "memory = '1 MB', classes.0 = { limit.bytes = '8 kB', \
                  trim = { header = '64 B', class = 7 } }, classes.7.schedule = 'strict'";
    let workload = "load = 1.0\npattern.flows = [{ from = 0, to = 3 }, { from = 1, to = 3 }, \
                    { from = 2, to = 3 }]";
    let run = star(4, switch, workload, "1 ms");
    let trimmed = run.observations.dropped(Drop::Trimmed);
    assert_eq!(run.observations.dropped(Drop::Overflow), 0);
    // Two of three are cut, but for what their headers take.
    let share = trimmed as f64 / (trimmed + run.observations.delivered) as f64;
    assert!((0.66..0.71).contains(&share), "{share}");
    assert!(column(&run, "class_0_trimmed") >= trimmed as f64);
}

/// A class that loses nothing and one that does, of two sizes, in every fabric and by every rule for routes.
/// Every run checks that no packet is unaccounted for.
#[test]
fn classes_go_through_every_fabric_by_every_route() {
    let fabrics = [
        (16, "fabric.leaf_spine = { leaves = 4, hosts_per_leaf = 4, spines = 2 }"),
        (16, "fabric.fat_tree = { radix = 4, tiers = 3 }"),
        (16, "fabric.k_ary_tree = { arity = 2, levels = 4 }"),
        (72, "fabric.dragonfly = { hosts_per_router = 2 }"),
        (16, "fabric.torus.dimensions = [4, 4]"),
        (16, "fabric.mesh.dimensions = [4, 4]"),
        (16, "fabric.hyperx = { dimensions = [4, 4], hosts_per_switch = 1 }"),
    ];
    for (hosts, fabric) in fabrics {
        let routes =
            ["per_packet = 'random'", "per_packet = 'adaptive'", "per_connection = 'hashed'"];
        let detours = ["per_packet = 'valiant'", "per_packet = 'ugal'"];
        let has_detours =
            ["dragonfly", "torus", "mesh", "hyperx"].iter().any(|own| fabric.contains(own));
        let detours = if has_detours { &detours[..] } else { &[] };
        for route in routes.iter().chain(detours) {
            let pfc = "pfc = { threshold.dynamic = { alpha = 0.5, below = '2 kB' } }";
            let switch = format!("memory = '400 kB', classes.1 = {{ {pfc} }}");
            let workload = "load = 0.3\nbeside.b = { class = 1, load = 0.3, packet = '300 B' }";
            let more = format!("{fabric}\nroutes.{route}\ndeadlock = 'allowed'");
            let run = star(hosts, &format!("{switch} }}\n{more}\n#"), workload, "50 us");
            assert!(run.observations.delivered > 1000, "{fabric} {route}");
            assert_eq!(column(&run, "class_1_dropped"), 0.0, "{fabric} {route}");
        }
    }
}

/// Five switches in a ring whose hosts all send to the next but one: inputs that pause each other in a
/// cycle stand still, and the run reports which input waits for which.
#[test]
fn pauses_in_a_cycle_are_found_during_a_run() {
    let pfc = "pfc = { threshold.static = { xoff = '1 kB', xon = '1 kB' } }";
    let more = "fabric.torus.dimensions = [5]\ndeadlock = 'allowed'";
    let switch = format!("memory = '100 kB', classes.0 = {{ {pfc} }} }}\n{more}\n#");
    let run = star(5, &switch, "load = 1.0\npattern.shift = 2", "400 us");
    assert!(run.judgement.verdict.is_stuck(), "{:?}", run.judgement.verdict);
    let waiting = run.waiting.join("\n");
    assert!(waiting.contains("the buffers of a cycle of switches are full"), "{waiting}");
    assert!(waiting.contains("packets of class 0 wait at"), "{waiting}");
}

/// A message of 2000 bytes is two packets of 950 and one of 100 bytes and its overhead of 50: 1000, 1000 and 150
/// bytes on the wire are 172 ns, two cables 20 ns and the switch 300 ns. What may lose a message is refused.
#[test]
fn the_last_packet_of_a_message_is_as_long_as_what_is_left() {
    let lone = "message = '2000 B'\nsource.list = [{ time = '1 us', from = 2, to = 1 }]";
    let pfc = "pfc = { threshold.static = { xoff = '9 kB', xon = '9 kB' } }";
    let run = star(3, &format!("memory = '1 MB', classes.0 = {{ {pfc} }}"), lone, "9 us");
    let one_way = run.observations.recorder(Latency::OneWay).max().expect("a delivery");
    assert_eq!(one_way, Span(492_000));
    let text = super::file(4, "", "load = 0.1\nmessage = '2000 B'", "9 us")
        .replace("output_queued.latency = '90 ns'", "shared_buffer.memory = '1 MB'");
    let text = super::refusal(&text);
    assert!(text.contains("classes = 0 without pfc or credits does not fit"), "{text}");
}
