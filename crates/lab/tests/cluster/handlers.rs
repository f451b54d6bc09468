//! Messages that call handlers, with arguments and payload (Clint 3.1, Figure 1): what the handlers
//! leave in memory, when they run, and what they answer.

use proptest::prelude::*;
use weft_fabric::measure::Drop;
use weft_lab::drive::interface::{CallOutcome, HandlerReport};
use weft_lab::{ChannelRun, Options, Request, run};

use super::{channel, counter, runs, try_runs};

/// Handlers that count, draw numbers from a counter and keep them, and write and read memory.
const TABLE: &str = "table = { count = 'count', keep = 'put', sum = 'add', \
                     draw = { fetch_add = { reply = 'keep' } }, \
                     read = { get = { reply = 'keep' } }, \
                     echo = { echo = { reply = 'count' } } }, memory = '40 B'";

fn interface(message: &str, more: &str) -> String {
    format!(
        "{{ host_send_buffers = 400, host_receive_buffers = 400, receive_buffers = 100, \
         message = '{message}', {more} }}"
    )
}

fn with_list(channel: &str, interface: &str, list: &str) -> Vec<String> {
    vec![
        "system.hosts=3".to_owned(),
        "run.length=60 us".to_owned(),
        "run.regime=from_empty".to_owned(),
        "channel.quick.link.reserved=0".to_owned(),
        "channel.bulk.adapter.release=acknowledgment".to_owned(),
        format!("channel.{channel}.interface={interface}"),
        format!("workload.{channel}.source.list=[{list}]"),
    ]
}

fn run_of(name: &str, preset: Option<&str>, overrides: &[String]) -> ChannelRun {
    let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
    channel(&runs("clint", preset, &overrides, 1), name).clone()
}

fn report(run: &ChannelRun) -> &HandlerReport {
    run.handlers.as_ref().unwrap()
}

/// The memory of the only endpoint of a host.
fn memory(run: &ChannelRun, host: u16) -> &[u32] {
    let mut of_host = report(run).endpoints.iter().filter(|own| own.host == host);
    let own = of_host.next().unwrap();
    assert!(of_host.next().is_none());
    &own.memory
}

/// Each handler that ran: its name, where, and when it was handed over, began and ended.
fn ran(run: &ChannelRun) -> Vec<(&str, u16, [u64; 3])> {
    let calls = report(run).calls.iter();
    let name = |index: u16| report(run).names[usize::from(index)].as_str();
    let times = calls
        .map(|call| (name(call.handler), call.host, [call.posted.0, call.start.0, call.end.0]));
    times.collect()
}

/// By hand, over a bus that takes no time: a quick packet takes 685.455 ns to its target (see
/// `times`), dispatch 100 ns and a handler 900 ns. The message of 2 us is there at 2685.455 ns, its
/// handler answers at 3685.455 ns, and the answer is kept at 4370.910 ns + 1000 ns. The counter was 7
/// by the message before.
#[test]
fn a_number_is_drawn_from_a_counter_and_kept() {
    let handlers = format!("handlers = {{ dispatch = '100 ns', handler = '900 ns', {TABLE} }}");
    let list = "{ time = '0 us', from = 2, to = 0, handler = 'sum', arguments = [4, 7] }, \
                { time = '2 us', from = 1, to = 0, handler = 'draw', arguments = [4, 1, 9] }";
    let overrides = with_list("quick", &interface("32 B", &handlers), list);
    let run = run_of("quick", None, &overrides);
    let [sum, draw, keep] = [
        ("sum", 0, [0, 685_455, 1_685_455]),
        ("draw", 0, [2_000_000, 2_685_455, 3_685_455]),
        ("keep", 1, [3_685_455, 4_370_910, 5_370_910]),
    ];
    assert_eq!(ran(&run), [sum, draw, keep]);
    let outcomes: Vec<_> = report(&run).calls.iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [CallOutcome::Done, CallOutcome::Answered, CallOutcome::Done]);
    assert_eq!(report(&run).calls[2].arguments, [9, 7, 0, 0, 0]);
    assert_eq!(memory(&run, 0), [0, 0, 0, 0, 8, 0, 0, 0, 0, 0]);
    assert_eq!(memory(&run, 1), [0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
    assert_eq!(memory(&run, 2), [0; 10]);
    assert_eq!((run.observations.generated, run.observations.delivered), (3, 3));
    assert_eq!(counter(&run, "handled_messages"), 3.0);
    // Beside the signalling of the bulk channel the same happens, where configurations and grants
    // do not come in between.
    let list = list.replace("'0 us'", "'300 ns'");
    let overrides = with_list("quick", &interface("32 B", &handlers), &list);
    let detailed = run_of("quick", Some("detailed"), &overrides);
    assert_eq!(ran(&detailed)[1..], [draw, keep]);
}

/// By hand: the register write takes 300 ns, the copy 200 + 32 ns, so that the message of 2 us is sent
/// at 2532 ns and at its target at 3217.455 ns. The copy with its entry takes 200 + 40 ns, the poll 50
/// ns and the handler 900 ns, to 4407.455 ns. Then the host writes to `RecvCmplReg`, 300 ns, and hands
/// the answer over: 300 + 232 + 685.455 ns, and 240 + 50 + 900 ns to the end of its handler.
#[test]
fn an_answer_goes_through_registers_buffers_and_rings() {
    let more = format!(
        "entry = '8 B', bus = {{ host_write = '300 ns', poll = '50 ns', dma_setup = '200 ns', \
         dma_rate = '8 Gbit/s' }}, handlers = {{ handler = '900 ns', {TABLE} }}"
    );
    let list = "{ time = '2 us', from = 1, to = 0, handler = 'draw', arguments = [0, 1, 1] }";
    let run = run_of("quick", None, &with_list("quick", &interface("32 B", &more), list));
    let draw = ("draw", 0, [2_000_000, 3_507_455, 4_407_455]);
    let keep = ("keep", 1, [4_407_455, 6_214_910, 7_114_910]);
    assert_eq!(ran(&run), [draw, keep]);
}

/// By hand, in slots of 8983.158 ns, without costs of hosts (see `times`): of two messages at 500 ns
/// one is transferred in cycle 1, there at 19 258.658 ns, and one in cycle 2, there at 28 241.816 ns.
/// The answer is sampled in cycle 4, at 35 932.632 ns, sent 1880 ns after, and there 8395.5 ns later.
#[test]
fn words_are_written_and_read_over_the_bulk_channel() {
    let handlers = format!("handlers = {{ {TABLE} }}");
    let list = "{ time = '500 ns', from = 0, to = 1, handler = 'keep', arguments = [2], \
                  payload = [7, 8, 4294967295] }, \
                { time = '500 ns', from = 0, to = 1, handler = 'read', arguments = [2, 3, 5] }";
    let overrides = with_list("bulk", &interface("2080 B", &handlers), list);
    for preset in [None, Some("detailed")] {
        let run = run_of("bulk", preset, &overrides);
        let put = ("keep", 1, [500_000, 19_258_658, 19_258_658]);
        let get = ("read", 1, [500_000, 28_241_816, 28_241_816]);
        let kept = ("keep", 0, [28_241_816, 46_208_132, 46_208_132]);
        assert_eq!(ran(&run), [put, get, kept], "{preset:?}");
        let words: Vec<u32> = report(&run).calls.iter().map(|call| call.payload_words).collect();
        assert_eq!(words, [3, 0, 3]);
        assert_eq!(memory(&run, 1), [0, 0, 7, 8, u32::MAX, 0, 0, 0, 0, 0]);
        assert_eq!(memory(&run, 0), [0, 0, 0, 0, 0, 7, 8, u32::MAX, 0, 0]);
    }
}

/// A quick message has no room for the payload that three words need, there are ten words of memory,
/// and an echo answers with what it got.
#[test]
fn a_handler_that_cannot_do_it_does_nothing_and_is_counted() {
    let handlers = format!("handlers = {{ {TABLE} }}");
    let list = "{ time = '1 us', from = 1, to = 0, handler = 'read', arguments = [0, 3, 1] }, \
                { time = '1 us', from = 1, to = 0, handler = 'sum', arguments = [10, 1] }, \
                { time = '1 us', from = 1, to = 0 }, \
                { time = '1 us', from = 1, to = 0, handler = 'echo', arguments = [1, 2, 3, 4, 5] }";
    let run = run_of("quick", None, &with_list("quick", &interface("32 B", &handlers), list));
    let outcomes: Vec<_> = report(&run).calls.iter().map(|call| call.outcome).collect();
    let [done, answered, failed] = [CallOutcome::Done, CallOutcome::Answered, CallOutcome::Failed];
    assert_eq!(outcomes, [failed, failed, done, answered, done]);
    assert_eq!(report(&run).calls[4].arguments, [1, 2, 3, 4, 5]);
    let own = &report(&run).endpoints[0];
    assert_eq!(report(&run).names, ["", "count", "draw", "echo", "keep", "read", "sum"]);
    assert_eq!((own.failed, &own.calls[..]), (2, &[1, 0, 0, 1, 0, 1, 1][..]));
    assert_eq!(memory(&run, 0), [0; 10]);
    assert_eq!(run.observations.generated, 5);
}

/// CL-14: a message goes between the endpoints of the network that it names, and is refused where one
/// of the hosts is not in it. The answer comes back in the same network.
#[test]
fn a_message_names_the_virtual_network_of_its_endpoints() {
    let more = format!("virtual_networks = [[0, 1], [2, 1, 0]], handlers = {{ {TABLE} }}");
    let list = "{ time = '1 us', from = 1, to = 0, handler = 'draw', arguments = [0, 5, 1] }, \
                { time = '5 us', from = 1, to = 0, handler = 'draw', arguments = [0, 3, 1], network = 1 }, \
                { time = '9 us', from = 1, to = 0, handler = 'draw', arguments = [0, 3, 1], network = 1 }, \
                { time = '9 us', from = 2, to = 0, handler = 'sum', arguments = [7, 9], network = 0 }";
    for (name, message) in [("quick", "32 B"), ("bulk", "2080 B")] {
        let mut overrides = with_list(name, &interface(message, &more), list);
        overrides.push("run.length=100 us".to_owned());
        let run = run_of(name, None, &overrides);
        let held = |host, network| {
            let endpoints = &mut report(&run).endpoints.iter();
            let own = endpoints.find(|own| (own.host, own.network) == (host, network));
            own.map(|own| own.memory[..2].to_vec())
        };
        assert_eq!((held(0, 0), held(1, 0)), (Some(vec![5, 0]), Some(vec![0, 0])), "{name}");
        assert_eq!((held(0, 1), held(1, 1)), (Some(vec![6, 0]), Some(vec![0, 3])), "{name}");
        assert_eq!((held(2, 0), held(2, 1)), (None, Some(vec![0, 0])));
        let seen = &run.observations;
        assert_eq!((seen.generated, seen.dropped(Drop::Protected)), (7, 1), "{name}");
        assert_eq!(counter(&run, "unclaimed_messages"), 0.0);
    }
}

/// A message that says nothing calls the handler that does nothing; a list that says nothing notes no
/// handlers, and its run is the same.
#[test]
fn what_says_nothing_is_as_before() {
    let plain = "{ time = '1 us', from = 1, to = 0 }, { time = '1 us', from = 0, to = 1 }";
    let named = plain.replace("to = 0 }", "to = 0, arguments = [1] }");
    let handlers = format!("handlers = {{ handler = '1 us', {TABLE} }}");
    for (name, message) in [("quick", "32 B"), ("bulk", "2080 B")] {
        let of = |list| run_of(name, None, &with_list(name, &interface(message, &handlers), list));
        let (without, with) = (of(plain), of(&named));
        assert!(without.handlers.is_none());
        assert_eq!(report(&with).endpoints[0].calls[0], 1);
        assert_eq!(without.counters, with.counters);
        assert_eq!(without.steps, with.steps);
    }
}

#[test]
fn what_cannot_be_said_is_refused_with_what_can() {
    let handlers = format!("handlers = {{ {TABLE} }}");
    let quick = interface("32 B", &handlers);
    let refuse = |interface: &str, said: &str| {
        let list = format!("{{ time = '1 us', from = 1, to = 0, {said} }}");
        let overrides = with_list("quick", interface, &list);
        let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
        try_runs("clint", None, &overrides, 1).unwrap_err().to_string()
    };
    let says = |refusal: String, key: &str, value: &str, accepted: &str| {
        let expected = format!("{key} = {value} does not fit\n    accepted: {accepted}");
        assert!(refusal.ends_with(&expected), "{refusal}\n{expected}");
    };
    let cases = [
        (
            "handler = 'swap'",
            "handler",
            "swap",
            "one of channel.quick.interface.handlers.table: count, draw, echo, keep, read, sum",
        ),
        ("arguments = [1, 2, 3, 4, 5, 6]", "arguments", "6 arguments", "up to 5"),
        (
            "payload = [1]",
            "payload",
            "1 words",
            "up to 0 words of 4 B: of channel.quick.interface.message = 32 B, handler and \
             arguments take 32 B",
        ),
        (
            "network = 1",
            "network",
            "1",
            "a virtual network of channel.quick.interface.virtual_networks, below 1",
        ),
    ];
    for (said, key, value, accepted) in cases {
        let key = format!("workload.quick.source.list.{key}");
        says(refuse(&quick, said), &key, value, accepted);
    }
    let table = "channel.quick.interface.handlers.table";
    says(
        refuse(&interface("32 B", "entry = '4 B'"), "handler = 'keep'"),
        "workload.quick.source.list.handler",
        "keep",
        &format!("none, since there is no {table}"),
    );
    says(
        refuse(&interface("31 B", &handlers), "handler = 'keep'"),
        "channel.quick.interface.message",
        "31 B",
        "32 B or more, the size of a message that has handler",
    );
    let memory = "a multiple of 4 B, up to 1 MB";
    let tables = [
        (
            "table = { draw = { fetch_add = { reply = 'keep' } } }",
            "table.draw.fetch_add.reply",
            "keep",
            "one of channel.quick.interface.handlers.table: draw",
        ),
        (
            "table = { none = 'count' }",
            "table.none",
            "given",
            "another name: in tables it stands for messages that name no handler",
        ),
        ("memory = '6 B'", "memory", "6 B", memory),
        ("memory = '1000004 B'", "memory", "1000004 B", memory),
    ];
    for (handlers, key, value, accepted) in tables {
        let interface = interface("32 B", &format!("handlers = {{ {handlers} }}"));
        let key = format!("channel.quick.interface.handlers.{key}");
        says(refuse(&interface, "arguments = [1]"), &key, value, accepted);
    }
}

/// Without an interface nothing reads the content of a message.
#[test]
fn handlers_need_an_interface() {
    let list = "workload.quick.source.list=[{ time = '1 us', from = 1, to = 0, handler = 'keep' }]";
    for (name, list) in [("quick", list.to_owned()), ("bulk", list.replace("quick", "bulk"))] {
        for preset in [None, Some("detailed")] {
            let refusal = try_runs("clint", preset, &["run.length=60 us", &list], 1).unwrap_err();
            let expected = format!(
                "workload.{name}.source.list.handler = given does not fit\n    accepted: it only \
                 with channel.{name}.interface, whose endpoints have handlers"
            );
            assert!(refusal.to_string().ends_with(&expected), "{refusal}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever collides, is damaged or finds no buffer: every host draws as many numbers as it asks
    /// for, no number is drawn twice and none is left out.
    #[test]
    fn a_counter_gives_every_number_once(
        rounds in 1..4_usize,
        errors in 0.0..0.1_f64,
        receive in 1..4_u16,
        handler in 0..5000_u64,
        detailed: bool,
        is_quick: bool,
        seed: u64,
    ) {
        let (name, message) = if is_quick { ("quick", "32 B") } else { ("bulk", "2080 B") };
        let asks = (0..rounds).flat_map(|round| (1..4).map(move |host| format!(
            "{{ time = '{} ns', from = {host}, to = 0, handler = 'draw', \
             arguments = [0, 1, {round}] }}", 400 * round
        )));
        let overrides = [
            "system.hosts=4".to_owned(),
            "run.length=2 ms".to_owned(),
            "run.regime=from_empty".to_owned(),
            "channel.bulk.adapter.release=acknowledgment".to_owned(),
            format!("channel.{name}.errors.packet_error_rate={errors}"),
            format!(
                "channel.{name}.interface={{ host_send_buffers = 3, host_receive_buffers = 2, \
                 receive_buffers = {receive}, message = '{message}', \
                 bus = {{ host_write = '100 ns', poll = '50 ns' }}, \
                 handlers = {{ handler = '{handler} ns', {TABLE} }} }}"
            ),
            format!("workload.{name}.source.list=[{}]", asks.collect::<Vec<_>>().join(", ")),
        ];
        let overrides: Vec<&str> = overrides.iter().map(String::as_str).collect();
        let runs = runs("clint", Some("detailed").filter(|_| detailed), &overrides, seed);
        let run = channel(&runs, name);
        let mut drawn: Vec<u32> =
            (1..4).flat_map(|host| memory(run, host)[..rounds].to_vec()).collect();
        drawn.sort_unstable();
        prop_assert_eq!(drawn, (0..3 * rounds as u32).collect::<Vec<_>>());
        prop_assert_eq!(memory(run, 0)[0], 3 * rounds as u32);
    }
}

/// The shipped experiment: fifteen hosts draw numbers from a counter, all at once.
#[test]
fn fifteen_hosts_draw_numbers_from_one_counter() {
    let request = Request::new("clint-handlers", None, &[]);
    let outcome = run(&request, &Options::default(), &mut |_, _| true).unwrap();
    let (handlers, endpoints) = (outcome.table("handlers"), outcome.table("endpoints"));
    let points = outcome.table("points");
    let text = |table: &weft_lab::Table, row, name: &str| table.get(row, name).unwrap().to_string();
    for point in 0..points.rows() / 2 {
        let of_point = |row: &usize, channel: &str| {
            endpoints.number(*row, "point") == Some(point as f64)
                && text(&endpoints, *row, "channel") == channel
        };
        let quick: Vec<usize> =
            (0..endpoints.rows()).filter(|row| of_point(row, "quick")).collect();
        assert_eq!(text(&endpoints, quick[0], "memory"), "15");
        let mut drawn: Vec<String> =
            quick[1..].iter().map(|row| text(&endpoints, *row, "memory")).collect();
        drawn.sort_by_key(String::len);
        assert_eq!(drawn.len(), 15);
        // The number zero is not written out.
        assert_eq!(drawn.iter().filter(|own| own.is_empty()).count(), 1);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 15, "each number once");
        assert_eq!(endpoints.number(quick[0], "calls_draw"), Some(15.0));
        assert_eq!(endpoints.number(quick[0], "failed_calls"), Some(0.0));
        let bulk = (0..endpoints.rows()).filter(|row| of_point(row, "bulk"));
        let held: Vec<String> = bulk.map(|row| text(&endpoints, row, "memory")).collect();
        assert_eq!(held[..3], ["", "3 1 4 1 5 9 2 6", "0 0 0 0 0 0 0 0 3 1 4 1 5 9 2 6"]);
    }
    assert_eq!(handlers.rows(), points.rows() / 2 * (30 + 3));
}
