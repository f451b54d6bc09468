use super::super::pattern::Flow;
use super::*;
use weft_units::Rate;

const GBIT_100: Rate = Rate::from_bits_per_second(100_000_000_000);

fn facts(hosts: u32) -> ChannelFacts<'static> {
    let packet = Bytes(1_000);
    ChannelFacts {
        name: "main",
        hosts,
        packet,
        packet_span: GBIT_100.span(packet),
        slot_span: None,
    }
}

fn groups(groups: &[(&str, FlowGroup)]) -> BTreeMap<String, FlowGroup> {
    groups.iter().map(|(name, group)| ((*name).to_owned(), group.clone())).collect()
}

fn drawn(load: f64, sizes: FlowSizes) -> FlowGroup {
    let (load, sizes) = (Load::new(load).ok(), Some(sizes));
    FlowGroup { load, sizes, ..FlowGroup::default() }
}

fn flows(own: &[(&str, FlowGroup)], hosts: u32, until: Time) -> Vec<FlowDemand> {
    build(&groups(own), &facts(hosts), &Streams::new(3), until).expect("flows").flows
}

#[test]
fn hosts_offer_the_load_in_bytes_of_flows() {
    let until = Time(20_000_000_000_000);
    for (load, sizes) in [(0.6, FlowSizes::WebSearch), (0.3, FlowSizes::Constant(Bytes(10_000)))] {
        let own = flows(&[("all", drawn(load, sizes.clone()))], 4, Time(until.0 / 10));
        let bytes: u64 = own.iter().map(|flow| flow.size.0).sum();
        let offered = bytes as f64 * 8.0 / (until.since(Time::ZERO).as_secs() / 10.0 * 4.0 * 100e9);
        // Some 280,000 and 3,000,000 flows; a web search has a deviation of 2.5 means.
        assert!((offered / load - 1.0).abs() < 0.02, "{sizes:?}: {offered}");
        assert!(own.is_sorted_by_key(|flow| flow.start));
        assert!(own.iter().all(|flow| flow.from != flow.to && flow.size.0 > 0));
    }
}

#[test]
fn an_incast_has_so_many_senders_at_once_and_offers_the_load() {
    let incast = IncastSettings { senders: PositiveCount::new(5).unwrap(), target: None };
    let group =
        FlowGroup { incast: Some(incast), ..drawn(0.2, FlowSizes::Constant(Bytes(50_000))) };
    let until = Time(1_000_000_000_000);
    let own = flows(&[("incast", group)], 8, until);
    for event in own.chunk_by(|one, other| one.start == other.start) {
        assert_eq!(event.len(), 5);
        assert!(event.iter().all(|flow| flow.to == event[0].to && flow.from != flow.to));
        // In the order of the senders, each once.
        assert!(event.is_sorted_by(|one, other| one.from < other.from));
    }
    let offered = own.len() as f64 * 400_000.0 / (until.since(Time::ZERO).as_secs() * 8.0 * 100e9);
    // Some 80,000 events: 1 % are 2.8 deviations.
    assert!((offered / 0.2 - 1.0).abs() < 0.02, "{offered}");
}

#[test]
fn flows_begin_between_start_and_end_and_do_not_depend_on_other_groups() {
    let times = FlowGroup {
        start: Span(10_000_000_000),
        end: Some(Span(30_000_000_000)),
        class: 3,
        ..drawn(0.5, FlowSizes::Constant(Bytes(1_000)))
    };
    let alone = flows(&[("b", times.clone())], 4, Time(50_000_000_000));
    assert!(alone.len() > 100);
    let within = Time(10_000_000_000)..Time(30_000_000_000);
    assert!(alone.iter().all(|flow| within.contains(&flow.start) && flow.class == 3));
    let list = vec![
        ListedFlow { time: Span(20), from: 2, to: 1, size: Bytes(7) },
        ListedFlow { time: Span(10), from: 3, to: 0, size: Bytes(9) },
    ];
    let listed = FlowGroup { list, ..FlowGroup::default() };
    let both = flows(&[("a", listed), ("b", times)], 4, Time(50_000_000_000));
    assert_eq!((both[0].from, both[0].size, both[1].from), (3, Bytes(9), 2));
    let rest: Vec<FlowDemand> =
        both[2..].iter().map(|own| FlowDemand { group: 0, ..*own }).collect();
    assert_eq!(rest, alone);
}

#[test]
fn what_makes_no_sense_is_refused_by_its_key() {
    let one = ListedFlow { time: Span(0), from: 1, to: 1, size: Bytes(1) };
    let refused = |group: FlowGroup| {
        let own = groups(&[("x", group)]);
        build(&own, &facts(4), &Streams::new(1), Time(1_000_000_000_000)).unwrap_err().key
    };
    let sizes = FlowSizes::Constant(Bytes(1_000));
    let incast = Some(IncastSettings { senders: PositiveCount::new(4).unwrap(), target: None });
    let lists = |list| FlowGroup { list, ..FlowGroup::default() };
    let cases = [
        (FlowGroup::default(), "load"),
        (FlowGroup { sizes: None, ..drawn(0.5, sizes.clone()) }, "sizes"),
        (FlowGroup { class: 8, ..drawn(0.5, sizes.clone()) }, "class"),
        (FlowGroup { incast, ..drawn(0.5, sizes.clone()) }, "incast.senders"),
        (drawn(0.5, FlowSizes::Constant(Bytes(0))), "sizes.constant"),
        (drawn(2.0, FlowSizes::Constant(Bytes(1))), "load"),
        (lists(vec![one]), "list.to"),
        (lists(vec![ListedFlow { from: 4, ..one }]), "list.from"),
        (lists(vec![ListedFlow { from: 0, size: Bytes(0), ..one }]), "list.size"),
        (FlowGroup { list: vec![one], ..drawn(0.5, sizes) }, "sizes"),
    ];
    for (group, key) in cases {
        assert_eq!(refused(group), format!("source.flows.x.{key}"));
    }
}

#[test]
fn a_closed_loop_begins_so_many_flows_a_host_and_the_next_after_the_time_to_think() {
    let group = FlowGroup {
        sizes: Some(FlowSizes::Constant(Bytes(10_000))),
        closed: Some(ClosedLoop { outstanding: PositiveCount::new(3).unwrap(), think: Span(70) }),
        start: Span(40),
        end: Some(Span(1_000)),
        class: 2,
        ..FlowGroup::default()
    };
    let (own, until) =
        (groups(&[("a", drawn(0.1, FlowSizes::Constant(Bytes(1)))), ("b", group)]), Time(900));
    let list = build(&own, &facts(4), &Streams::new(3), until).expect("flows");
    let first: Vec<_> = list.flows.iter().filter(|flow| flow.group == 1).collect();
    assert_eq!(first.len(), 12);
    assert!(
        first.iter().all(|flow| (flow.start, flow.class) == (Time(40), 2) && flow.from != flow.to)
    );
    let [mut own] = <[FlowLoop; 1]>::try_from(list.loops).expect("one loop");
    assert!(own.is_of(1) && !own.is_of(0));
    let next = own.next(3, Time(500)).expect("before the end");
    assert_eq!((next.start, next.from, next.group), (Time(570), 3, 1));
    // The run ends before the group does, and nothing begins then.
    assert_eq!(own.next(3, Time(830)), None);
    assert!(own.next(3, Time(829)).is_some());
}

/// A host that a pattern gives no other one sends nothing, in place of a flow to itself.
#[test]
fn a_closed_loop_has_no_flows_to_oneself() {
    let closed = Some(ClosedLoop { outstanding: PositiveCount::ONE, think: Span::ZERO });
    let (sizes, pattern) =
        (Some(FlowSizes::WebSearch), Some(PatternSettings::Uniform { self_included: true }));
    let group = FlowGroup { sizes, closed, pattern, ..FlowGroup::default() };
    let own = groups(&[("x", group)]);
    let mut list = build(&own, &facts(2), &Streams::new(1), Time(1_000_000)).expect("flows");
    assert_eq!(list.flows.len(), 2);
    for _ in 0..100 {
        let next = list.loops[0].next(1, Time(5)).expect("another");
        assert_eq!((next.from, next.to), (1, 0));
    }
    let flow = |to, share| Flow { from: 1, to, share };
    let weighted = Some(PatternSettings::Flows(vec![flow(1, 99.0), flow(0, 1.0)]));
    let group = groups(&[("x", FlowGroup { pattern: weighted, ..own["x"].clone() })]);
    let mut list = build(&group, &facts(2), &Streams::new(1), Time(1_000_000)).expect("flows");
    assert!((0..100).all(|_| list.loops[0].next(1, Time(5)).is_some_and(|next| next.to == 0)));
    let shift = FlowGroup { pattern: Some(PatternSettings::Shift(2)), ..own["x"].clone() };
    let list = build(&groups(&[("x", shift)]), &facts(2), &Streams::new(1), Time(1_000_000));
    assert!(list.expect("none").flows.is_empty());
}
