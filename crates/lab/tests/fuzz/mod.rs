//! Whatever a file or an override says, it is carried out or refused in a sentence: nothing panics,
//! nothing takes all memory, nothing runs for ever.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use weft_lab::composition::Spec;
use weft_lab::{Halt, Options, Outcome, Plan, Request, run, simulate};

/// Numbers in place of those that a file gives, at and beyond every limit.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "63",
    "64",
    "65",
    "1000",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "0.0",
    "0.5",
    "0.001",
    "1e-300",
    "1e308",
    "nan",
    "inf",
    "-inf",
];

/// Values of other types, and names.
const VALUES: &[&str] = &[
    "true",
    "[]",
    "[0]",
    "[1, 2, 3]",
    "[[]]",
    "{}",
    "{ a = 1 }",
    "''",
    "'0 ns'",
    "'1 us'",
    "'1e9 s'",
    "'64 B'",
    "'1 bit/s'",
    "'unlimited'",
    "'uniform'",
    "'islip'",
    "'random'",
    "'crossbar'",
    "'credits'",
    "'stop_go'",
    "'all_to_all'",
    "'clint'",
    "'host 0'",
    "'\u{fffd}'",
];

/// Another value in place of one: three times in four a number, with the unit that was there.
fn other(key: &str, own: &str, pick: &Index, kind: u8) -> String {
    if kind == 0 {
        return (*pick.get(VALUES)).to_owned();
    }
    // As many hosts as fit 16 bits are legal, and some systems keep gigabytes for them.
    let few = |number: &&&str| number.parse::<u64>().is_ok_and(|number| number <= 1_000);
    let number = match key.ends_with("hosts") {
        true => NUMBERS.iter().filter(few).nth(pick.index(8)).unwrap_or(&"1"),
        false => pick.get(NUMBERS),
    };
    match own.trim_matches(['\'', '"']).split_once(' ') {
        Some((_, unit)) if own.len() < 40 => format!("'{number} {unit}'"),
        _ => (*number).to_owned(),
    }
}

/// The texts of everything that is shipped, one line a key; and the keys that each has with its
/// defaults.
struct Seed {
    request: Request,
    lines: Vec<String>,
    keys: Vec<(String, String)>,
}

/// Switches and fabrics that no shipped system has.
const OTHERS: &[&str] = &[
    "switch.input_queued = { latency = '90 ns', buffer = 8, scheduler = 'islip' }\n\
     flow_control.virtual_channel_credits.channels = 2\nfabric.torus.dimensions = [4, 2]\n\
     routes.per_connection = 'hashed'\n",
    "switch.shared_memory = { latency = '90 ns', buffer = 16 }\nflow_control = 'credits'\n\
     fabric.k_ary_tree = { arity = 2, levels = 3 }\nroutes.per_connection = 'random'\n",
    "switch.output_queued = { latency = '90 ns' }\n\
     fabric.fat_tree = { radix = 4, tiers = 2 }\n",
    "switch.output_buffered = { latency = '90 ns', buffers = 4, writers = 'unlimited' }\n\
     control.out_of_band = { delay = '200 ns', outstanding = 4 }\n",
    "switch.crossbar = { latency = '90 ns', contention = 'drop' }\n\
     control.out_of_band = { delay = '200 ns', outstanding = 'unlimited' }\n",
    "switch.scheduled = { latency = '90 ns', lead = '100 ns', scheduler = 'islip' }\n",
];

fn in_a_channel(settings: &str) -> Request {
    let text = format!(
        "[system]\ntitle = 'any'\nhosts = 8\n[channel.d]\npacket = '64 B'\npayload = '48 B'\n\
         link = {{ rate = '1 Gbit/s', length = '2 m', delay_per_metre = '5 ns/m' }}\n\
         adapter.send_buffers = 'unlimited'\n{settings}\
         [workload.d]\nload = 0.5\n[run]\nlength = '10 us'\n"
    );
    Request::of_text("other.toml", &text)
}

static SEEDS: LazyLock<Vec<Seed>> = LazyLock::new(|| {
    let systems = weft_lab::systems().expect("shipped systems").into_iter().map(|entry| entry.name);
    let experiments =
        weft_lab::experiments().expect("shipped experiments").into_iter().map(|entry| entry.name);
    let shipped = systems.chain(experiments).map(|name| Request::new(&name, None, &[]));
    let others = OTHERS.iter().map(|channel| in_a_channel(channel));
    let seed = |request: Request| {
        let name = &request.name;
        let plan = Plan::new(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (_, tree) = plan.first.resolve::<Spec>().expect(name);
        let keys = tree.leaves().into_iter().map(|leaf| (leaf.path, leaf.value_text));
        // Published numbers and figures do not change what is simulated.
        let mut written = plan.written;
        for said in ["published", "figure", "beside"] {
            written.take(said);
        }
        let lines = written.to_toml().lines().map(str::to_owned).collect();
        Seed { lines, keys: keys.collect(), request }
    };
    shipped.chain(others).map(seed).collect()
});

/// Plans a request and carries out a little of its first and last points, and of the whole study if
/// that is small.
fn try_all(mut request: Request) {
    request.overrides.push("run.step_limit=2000".to_owned());
    let plan = match Plan::new(&request) {
        Ok(plan) => plan,
        Err(error) => return assert!(!error.to_string().trim().is_empty()),
    };
    let halt = Halt::new().with_step_limit(Some(2_000));
    for point in plan.points.first().into_iter().chain(plan.points.last()) {
        if let Err(error) = simulate(&point.spec, 1, &halt) {
            assert!(!error.to_string().trim().is_empty());
        }
    }
    if plan.points.len() <= 4 {
        let options = Options { seeds: Some(1), quick: true, ..Options::default() };
        if let Ok(outcome) = run(&request, &options, &mut |_, _| true) {
            no_panic(&outcome);
        }
    }
}

/// A panic costs a study one run, and is still one.
fn no_panic(outcome: &Outcome) {
    let runs = outcome.table("replications");
    for row in 0..runs.rows() {
        let reason = runs.get(row, "reason").map(|cell| cell.to_string()).unwrap_or_default();
        assert!(!reason.contains(": a defect of Weft: "), "{reason}");
    }
}

/// One change of a text, by the numbers of its line, of its words, and of a value.
#[derive(Clone, Debug)]
enum Edit {
    Delete(Index),
    Again(Index, Index),
    Value(Index, Index, u8),
    Foreign(Index, Index, Index),
    Cut(Index),
    Byte(Index, u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    let index = any::<Index>;
    prop_oneof![
        2 => index().prop_map(Edit::Delete),
        1 => (index(), index()).prop_map(|(from, to)| Edit::Again(from, to)),
        8 => (index(), index(), 0..4_u8)
            .prop_map(|(line, pick, kind)| Edit::Value(line, pick, kind)),
        3 => (index(), index(), index())
            .prop_map(|(seed, from, to)| Edit::Foreign(seed, from, to)),
        1 => index().prop_map(Edit::Cut),
        1 => (index(), any::<u8>()).prop_map(|(place, byte)| Edit::Byte(place, byte)),
    ]
}

impl Edit {
    fn make(&self, lines: &mut Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let place = |index: &Index| index.index(lines.len());
        match self {
            Edit::Delete(line) => drop(lines.remove(place(line))),
            Edit::Again(from, to) => {
                let (line, to) = (lines[place(from)].clone(), place(to));
                lines.insert(to, line);
            }
            Edit::Value(line, pick, kind) => {
                let line = place(line);
                if let Some((key, own)) = lines[line].split_once(" = ") {
                    lines[line] = format!("{key} = {}", other(key, own, pick, *kind));
                }
            }
            Edit::Foreign(seed, from, to) => {
                let (line, to) = (from.get(&seed.get(&SEEDS).lines).clone(), place(to));
                lines.insert(to, line);
            }
            Edit::Cut(line) => lines.truncate(place(line)),
            Edit::Byte(at, byte) => {
                let line = place(at);
                let mut bytes = lines[line].clone().into_bytes();
                let column = at.index(bytes.len() + 1);
                bytes.insert(column, *byte);
                lines[line] = String::from_utf8_lossy(&bytes).into_owned();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_text_of_a_composition_makes_a_run_panic(
        seed in any::<Index>(),
        edits in prop::collection::vec(edit(), 1..5),
    ) {
        let seed = seed.get(&SEEDS);
        let mut lines = seed.lines.clone();
        edits.iter().for_each(|edit| edit.make(&mut lines));
        let changed: Vec<&String> = lines.iter().filter(|line| !seed.lines.contains(line)).collect();
        println!("{} with {edits:?}, where these are new: {changed:?}", seed.request.name);
        try_all(Request::of_text("any.toml", &lines.join("\n")));
    }

    #[test]
    fn no_override_makes_a_run_panic(
        seed in any::<Index>(),
        settings in prop::collection::vec(
            (any::<Index>(), any::<Index>(), 0..4_u8),
            1..4,
        ),
    ) {
        let seed = seed.get(&SEEDS);
        let overrides = settings.iter().map(|(key, pick, kind)| {
            let (key, own) = key.get(&seed.keys);
            format!("{key}={}", other(key, own, pick, *kind).trim_matches('\''))
        });
        let overrides: Vec<String> = overrides.collect();
        println!("{} with {overrides:?}", seed.request.name);
        try_all(Request { overrides, ..seed.request.clone() });
    }
}

/// What once made a run panic or take all memory: a name, or the beginning of a channel of
/// [`OTHERS`]; an override; and what it is refused with, nothing if it is carried out.
const KEPT: &[(&str, &str, &str)] = &[
    ("memory-channel-2-broadcast", "channel.memory.switch.hub.ports=65", "1 to 64 ports"),
    (
        "memory-channel-2-membership",
        "channel.memory.window.bus.word=9223372036854775807 B",
        "size must lie in 0 B..=1024 GiB",
    ),
    (
        "clan-slow-host",
        "workload.fabric.source.streams.background.size=18446744073709551615 B",
        "size must lie in 0 B..=1024 GiB",
    ),
    ("clint", "workload.bulk.load=[]", "a number in 0..=2"),
    ("switch.crossbar", "channel.d.link.length=1000 m", ""),
    ("switch.output_buffered", "channel.d.link.length=1000 m", ""),
    (
        "clan-sizes",
        "workload.fabric.source.streams.elsewhere.flows.random.connections=4294967295",
        "count must lie in 1..=1000000",
    ),
    (
        "switch.input_queued",
        "channel.d.switch.input_queued.buffer=4294967295",
        "count must lie in 1..=1000000",
    ),
    (
        "maestro-figure-11",
        "channel.network.adapter.send_buffers=4294967295",
        "count must lie in 1..=1000000",
    ),
];

#[test]
fn what_once_failed_is_carried_out_or_refused() {
    for (name, setting, refused) in KEPT {
        let request = match OTHERS.iter().find(|text| text.starts_with(name)) {
            Some(text) => in_a_channel(text),
            None => Request::new(name, None, &[]),
        };
        let request = Request { overrides: vec![(*setting).to_owned()], ..request };
        let plan = Plan::new(&request).map(|_| ());
        let told = plan.map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(told.is_empty(), refused.is_empty(), "{setting}: {told}");
        assert!(told.contains(refused), "{setting}: {told}");
        try_all(request);
    }
}

/// A text that is refused before anything is changed would find nothing.
#[test]
fn every_text_is_carried_out_before_it_is_changed() {
    for seed in &*SEEDS {
        let unchanged = Request::of_text("any.toml", &seed.lines.join("\n"));
        let plan = Plan::new(&unchanged);
        assert!(plan.is_ok(), "{}: {}", seed.request.name, plan.expect_err("refused"));
    }
}
