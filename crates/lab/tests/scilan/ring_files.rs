//! Rings from files: sources without hosts in front, links that differ, traces, and what is refused.

use weft_kernel::Halt;
use weft_lab::{Plan, Request, simulate};

/// Four hosts on a ring with a slow link from 1 to 2; each packet takes 400 ns on the others.
fn file(channel: &str, workload: &str, run: &str) -> String {
    format!(
        "[system]\ntitle = 'ring'\nhosts = 4\n\
         [channel.c]\npacket = '80 B'\npayload = '64 B'\nadapter.send_buffers = 'unlimited'\n\
         link = {{ rate = '200 MB/s', length = '2 m', delay_per_metre = '5 ns' }}\n\
         switch.ring = {{ acknowledgment = '8 B', bypass = '100 ns', \
         links = [{{}}, {{ rate = '100 MB/s' }}, {{ length = '4 m' }}, {{}}] }}\n{channel}\n\
         [workload.c]\n{workload}\n[run]\nregime = 'from_empty'\n{run}"
    )
}

/// Why a file is refused, before it runs or when it is put together.
fn refused(text: &str) -> String {
    match Plan::new(&Request::of_text("ring.toml", text)) {
        Err(error) => error.to_string(),
        Ok(plan) => simulate(&plan.points[0].spec, 1, &Halt::new()).unwrap_err().to_string(),
    }
}

/// Sources hand packets over to the ring itself. Every one is accounted for, the same with a trace as
/// without, and the trace has each that arrived.
#[test]
fn sources_and_traces_on_a_ring_with_errors() {
    let channel = "receiver = { buffers = 2, service = '500 ns' }\nerrors.packet_error_rate = 0.05";
    let run = |trace: &str| {
        let text = file(channel, "load = 0.2", &format!("length = '400 us'\n{trace}"));
        let plan = Plan::new(&Request::of_text("ring.toml", &text)).unwrap();
        simulate(&plan.points[0].spec, 1, &Halt::new()).unwrap().remove(0)
    };
    let (plain, traced) = (run(""), run("trace = true"));
    let seen = &plain.observations;
    assert!(seen.delivered > 500, "{} packets", seen.delivered);
    assert_eq!(seen.generated, seen.delivered + plain.backlog + plain.in_flight);
    let shown = |own: &weft_lab::ChannelRun| {
        let seen = &own.observations;
        let sums = weft_fabric::measure::Latency::ALL.map(|kind| seen.recorder(kind).sum_ps());
        format!("{sums:?} {:?} {:?} {:?} {}", seen.busy(), seen.budget, own.counters, own.steps)
    };
    assert_eq!(shown(&plain), shown(&traced));
    assert_eq!((traced.trace.len() as u64, plain.trace.len()), (seen.delivered, 0));
    assert!(plain.counters.iter().any(|(name, count)| name == "ring_damaged" && *count > 0.0));
    // The slow link carries what the others do and takes twice as long.
    let busy: Vec<u64> = seen.busy().iter().map(|span| span.0).collect();
    assert!(busy[1] > busy[0] * 3 / 2 && busy[1] > busy[2] * 3 / 2, "{busy:?}");
}

/// Errors of one link stand in the file of the ring, and damage what passes it.
#[test]
fn a_link_of_a_file_has_errors_of_its_own() {
    let text = file("", "load = 0.2", "length = '400 us'")
        .replace("{ length = '4 m' }", "{ length = '4 m', errors.packet_error_rate = 0.5 }");
    let plan = Plan::new(&Request::of_text("ring.toml", &text)).unwrap();
    let run = simulate(&plan.points[0].spec, 1, &Halt::new()).unwrap().remove(0);
    let count = |name: &str| run.counters.iter().find(|own| own.0 == name).unwrap().1;
    // Half of all pass that link, each twice until it comes whole: two attempts of three there, of which half are damaged.
    let share = count("ring_damaged") / count("ring_requests");
    assert!((0.3..0.37).contains(&share), "{share}");
    let said = refused(&text.replace("errors.packet_error_rate", "errors.packets"));
    assert!(said.contains("unknown key `packets`"), "{said}");
}

/// No cable has the link of the channel where each link of a ring has its own: a packet would take
/// no picosecond on it, and takes 300 ns on those.
#[test]
fn links_of_a_ring_may_replace_that_of_the_channel() {
    let own = ["{ rate = '200 MB/s' }"; 4].join(", ");
    let text = file("", "source.list = [{ time = '0 ns', from = 0, to = 1 }]", "length = '10 us'")
        .replace("packet = '80 B'\npayload = '64 B'", "packet = '60 B'\npayload = '44 B'")
        .replace("link = { rate = '200 MB/s'", "link = { rate = '1000000 Gbit/s'")
        .replace("{}, { rate = '100 MB/s' }, { length = '4 m' }, {}", &own);
    let plan = Plan::new(&Request::of_text("ring.toml", &text)).unwrap();
    let run = simulate(&plan.points[0].spec, 1, &Halt::new()).unwrap().remove(0);
    let one_way = run.observations.recorder(weft_fabric::measure::Latency::OneWay);
    assert_eq!((run.observations.delivered, run.backlog), (1, 0));
    assert_eq!(one_way.max(), Some(weft_units::Span::from_ns(310)));
}

/// A source that hands over whatever there is room for needs send buffers that end.
#[test]
fn a_greedy_source_fills_its_buffers() {
    let text =
        file("", "source = 'greedy'\npattern.flows = [{ from = 0, to = 1 }]", "length = '41 us'");
    let said = refused(&text);
    assert!(said.contains("adapter.send_buffers"), "{said}");
    let text = text.replace("send_buffers = 'unlimited'", "send_buffers = 2");
    let plan = Plan::new(&Request::of_text("ring.toml", &text)).unwrap();
    let run = simulate(&plan.points[0].spec, 1, &Halt::new()).unwrap().remove(0);
    // One after the other: the last byte of the nth is there at n * 400 + 10 ns.
    assert_eq!((run.observations.delivered, run.backlog), (102, 2));
}

/// What stays refused has its reason in what a ring is.
#[test]
fn a_ring_says_what_it_has_no_place_for() {
    for (channel, reason) in [
        ("fabric.torus.dimensions = [4]", "the link of each port to the next"),
        ("switches.a.output_queued.latency = '1 ns'", "`switch.ring.links`"),
        ("routes.per_packet = 'random'", "one way round"),
        (
            "turns = { turn_around = '100 ns', fifo = '2048 B', phase = 'aligned' }\n\
             transfer.dma = { set_up = '100 ns', rate = '2 Gbit/s' }",
            "whose links lead one way",
        ),
        ("flow_control = 'credits'", "`switch.ring.outstanding` limits requests"),
        ("control = 'unacknowledged'", "acknowledge and repeat by themselves"),
        ("adapter.feed.per_target.limit = 1", "all targets lie behind one link"),
        ("adapter.acknowledgments = 'interleave'", "a packet that has begun is not cut"),
        (
            "adapter.throttle = { requests = 2, per = '5 us' }",
            "`switch.ring.outstanding` holds an adapter back",
        ),
        ("errors.slots = [{ host = 1, slot = 3 }]", "`errors.packets` on this channel"),
        ("errors.packets = [{ host = 4, packet = 3 }]", "a host below 4"),
    ] {
        let said = refused(&file(channel, "load = 0.1", "length = '10 us'"));
        assert!(said.contains(reason), "{channel}: {said}");
    }
    let text = file("", "load = 0.1", "length = '10 us'").replace("hosts = 4", "hosts = 5");
    let said = refused(&text);
    assert!(
        said.contains("4 links") && said.contains("the link of each host to the next"),
        "{said}"
    );
}
