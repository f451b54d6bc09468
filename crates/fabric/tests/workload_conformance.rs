//! What every arrival process must do, whatever its law, and what the whole workload promises.

#![allow(clippy::expect_used, reason = "a test fails by it")]

use expect_test::expect;
use weft_fabric::workload::{
    ArrivalsSettings, BurstLength, BurstSettings, BurstTargets, ChannelFacts, Demand, Feedback,
    Listed, PatternSettings, PermutationSettings, Source, SourceSettings, WorkloadSettings,
};
use weft_kernel::Streams;
use weft_units::{Bytes, Load, PositiveCount, Span, Time};

/// Clint's bulk channel: 2086 B at 2 Gbit/s, and a slot with a gap of 640 ns.
const PACKET: Span = Span(8_344_000);
const SLOT: Span = Span(8_984_000);

fn facts(hosts: u32) -> ChannelFacts<'static> {
    ChannelFacts {
        name: "bulk",
        hosts,
        packet: Bytes(2086),
        packet_span: PACKET,
        slot_span: Some(SLOT),
    }
}

fn offered(load: f64, arrivals: ArrivalsSettings) -> WorkloadSettings {
    WorkloadSettings {
        load: Some(Load::new(load).expect("in range")),
        arrivals: Some(arrivals),
        ..WorkloadSettings::default()
    }
}

fn sources(workload: &WorkloadSettings, hosts: u32, seed: u64) -> Vec<Source> {
    workload.build(&facts(hosts), &Streams::new(seed)).expect("a good workload")
}

fn take(source: &mut Source, packets: usize) -> Vec<Demand> {
    (0..packets).map(|_| source.take()).collect()
}

fn count(count: u32) -> PositiveCount {
    PositiveCount::new(count).expect("positive")
}

fn bursts(length: BurstLength, targets: BurstTargets, spacing: Span) -> Vec<BurstSettings> {
    vec![BurstSettings { length, targets, spacing }]
}

/// Single packets and bursts of every kind; spacings in whole slots, as bernoulli wants them.
fn all_bursts() -> Vec<Option<BurstSettings>> {
    let clint = || BurstLength::Uniform(count(1), count(5));
    let mut all = vec![None];
    all.extend(bursts(clint(), BurstTargets::Same, Span::ZERO).into_iter().map(Some));
    all.extend(bursts(clint(), BurstTargets::Independent, SLOT).into_iter().map(Some));
    let geometric = BurstLength::Geometric(2.5);
    all.extend(bursts(geometric, BurstTargets::Same, SLOT).into_iter().map(Some));
    let fixed = BurstLength::Fixed(count(4));
    all.extend(bursts(fixed, BurstTargets::Same, Span::ZERO).into_iter().map(Some));
    all
}

/// Every arrival process with every kind of bursts, at load 0.4.
fn every_process(mut check: impl FnMut(&WorkloadSettings)) {
    for arrivals in ArrivalsSettings::all() {
        for burst in all_bursts() {
            check(&WorkloadSettings { burst, ..offered(0.4, arrivals.clone()) });
        }
    }
}

#[test]
fn offers_the_load_that_is_asked_for() {
    every_process(|workload| {
        let slotted = workload.arrivals == Some(ArrivalsSettings::Bernoulli);
        let unit = if slotted { SLOT } else { PACKET };
        let mut source = sources(workload, 16, 1).swap_remove(3);
        let packets = 400_000;
        let end = take(&mut source, packets)[packets - 1].time;
        let load = packets as f64 * unit.0 as f64 / end.0 as f64;
        assert!((load / 0.4 - 1.0).abs() < 0.01, "{workload:?}: load {load}");
    });
}

#[test]
fn times_never_go_back() {
    every_process(|workload| {
        for source in &mut sources(workload, 4, 2) {
            let demands = take(source, 2_000);
            assert!(demands.is_sorted_by_key(|demand| demand.time), "{workload:?}");
            assert_eq!(source.feedback(), Feedback::None);
        }
    });
}

#[test]
fn the_seed_decides() {
    every_process(|workload| {
        let first = |seed, host| take(&mut sources(workload, 4, seed)[host], 50);
        assert_eq!(first(1, 2), first(1, 2), "{workload:?}");
        assert_ne!(first(1, 2), first(2, 2), "{workload:?}");
        assert_ne!(first(1, 2), first(1, 3), "{workload:?}");
    });
}

/// More hosts leave the times of the others, and their targets where the pattern names them.
#[test]
fn a_host_more_leaves_the_others_as_they_were() {
    every_process(|workload| {
        let pattern = |hosts: u32| {
            let targets = (0..hosts).map(|host| host ^ 1).collect();
            let pattern = PatternSettings::Permutation(PermutationSettings(Some(targets)));
            WorkloadSettings { pattern: Some(pattern), ..workload.clone() }
        };
        let mut few = sources(&pattern(4), 4, 1);
        let mut more = sources(&pattern(6), 6, 1);
        for host in 0..4 {
            assert_eq!(take(&mut few[host], 200), take(&mut more[host], 200), "{workload:?}");
        }
    });
}

/// Another pattern, or other bursts of targets, leaves the times; another channel does not share
/// them.
#[test]
fn each_purpose_has_its_own_stream() {
    let times = |workload: &WorkloadSettings, name| -> Vec<Time> {
        let channel = ChannelFacts { name, ..facts(16) };
        let mut sources = workload.build(&channel, &Streams::new(1)).expect("a good workload");
        take(&mut sources[5], 300).iter().map(|demand| demand.time).collect()
    };
    let uniform = offered(0.4, ArrivalsSettings::Poisson);
    let shifted = WorkloadSettings { pattern: Some(PatternSettings::Shift(1)), ..uniform.clone() };
    assert_eq!(times(&uniform, "bulk"), times(&shifted, "bulk"));
    assert_ne!(times(&uniform, "bulk"), times(&uniform, "quick"));
}

#[test]
fn a_burst_keeps_its_target_and_its_spacing() {
    let length = BurstLength::Fixed(count(3));
    let workload = |targets| WorkloadSettings {
        burst: bursts(length.clone(), targets, Span(1_000)).pop(),
        ..offered(0.4, ArrivalsSettings::Poisson)
    };
    let demands = take(&mut sources(&workload(BurstTargets::Same), 16, 1)[0], 3_000);
    for burst in demands.chunks(3) {
        for pair in burst.windows(2) {
            assert_eq!(pair[1], Demand { time: pair[0].time + Span(1_000), ..pair[0] });
        }
    }
    let demands = take(&mut sources(&workload(BurstTargets::Independent), 16, 1)[0], 3_000);
    let same = demands.chunks(3).filter(|burst| burst[0].target == burst[1].target).count();
    // One in fifteen by chance.
    assert!((40..95).contains(&same), "{same} of 1000 bursts began with one target twice");
}

#[test]
fn bernoulli_packets_come_at_the_beginning_of_slots_and_at_most_one_in_each() {
    for load in [0.05, 0.9, 1.0] {
        let workload = offered(load, ArrivalsSettings::Bernoulli);
        let slots: Vec<u64> = take(&mut sources(&workload, 16, 1)[2], 100_000)
            .iter()
            .map(|demand| {
                assert_eq!(demand.time.0 % SLOT.0, 0);
                demand.time.0 / SLOT.0
            })
            .collect();
        assert!(slots.windows(2).all(|pair| pair[0] < pair[1]));
        let share = slots.len() as f64 / (slots[slots.len() - 1] + 1) as f64;
        assert!((share / load - 1.0).abs() < 0.01, "{share} of the slots at load {load}");
    }
}

#[test]
fn a_paced_source_keeps_its_rate() {
    let rate = "300 Mbit/s".parse().expect("a rate");
    let source = SourceSettings::Paced { rate };
    let workload = WorkloadSettings { source, ..WorkloadSettings::default() };
    let demands = take(&mut sources(&workload, 16, 1)[9], 30_001);
    let span = demands[30_000].time.since(demands[0].time);
    // 2086 B at 300 Mbit/s take 55 626 666.67 ps.
    assert!(span.0.abs_diff(1_668_800_000_000) <= 1, "{span}");
}

/// The first packets of four hosts: the same in every version and on every machine.
#[test]
fn golden() {
    let mut text = String::new();
    for arrivals in ArrivalsSettings::all() {
        let length = BurstLength::Uniform(count(1), count(5));
        let burst = bursts(length, BurstTargets::Same, Span::ZERO).pop();
        let workload = WorkloadSettings { burst, ..offered(0.5, arrivals.clone()) };
        text += &format!("{arrivals:?}\n");
        for source in &mut sources(&workload, 4, 1) {
            let demands = take(source, 5);
            let demands = demands.iter().map(|d| format!("{}>{}", d.time.0, d.target));
            text += &format!("  {}\n", demands.collect::<Vec<_>>().join(" "));
        }
    }
    expect![[r#"
        Poisson
          14421380>3 14421380>3 14421380>3 14421380>3 57161118>2
          22768576>0 22768576>0 22768576>0 28603793>2 28603793>2
          98988833>0 172690850>3 172690850>3 174615397>3 283606939>3
          3947188>1 10572924>1 24503195>2 24503195>2 58822146>1
        Uniform { low: 0.0, high: 2.0 }
          56641950>3 56641950>3 56641950>3 56641950>3 107057015>2
          36710309>0 36710309>0 36710309>0 60221014>2 60221014>2
          95818171>0 185401664>3 185401664>3 190818261>3 276473583>3
          5841727>1 34022002>1 64735927>2 64735927>2 91290733>1
        Uniform { low: 0.5, high: 1.5 }
          53352975>3 53352975>3 53352975>3 53352975>3 103592508>2
          43387155>0 43387155>0 43387155>0 80174507>2 80174507>2
          72941086>0 142764833>3 142764833>3 170505131>3 238364792>3
          27952863>1 67075001>1 107463963>2 107463963>2 145773366>1
        Constant
          28320975>3 28320975>3 28320975>3 28320975>3 78384975>2
          18355155>0 18355155>0 18355155>0 68419155>2 68419155>2
          47909086>0 97973086>3 97973086>3 148037086>3 198101086>3
          2920863>1 52984863>1 103048863>2 103048863>2 153112863>1
        Bernoulli
          8984000>3 8984000>3 8984000>3 8984000>3 53904000>2
          17968000>0 17968000>0 17968000>0 26952000>2 26952000>2
          89840000>0 170696000>3 170696000>3 179680000>3 287488000>3
          0>1 8984000>1 26952000>2 26952000>2 62888000>1
    "#]]
    .assert_eq(&text);
}

#[test]
fn a_list_is_handed_over_as_it_stands() {
    let listed = |time, from, to| Listed { time: Span(time), from, to, ..Listed::default() };
    let list = vec![listed(20, 1, 0), listed(10, 1, 2), listed(20, 0, 2)];
    let source = SourceSettings::List(list);
    let mut sources = sources(&WorkloadSettings { source, ..Default::default() }, 3, 1);
    let demand = |time, target| Demand { time: Time(time), target };
    assert_eq!(take(&mut sources[0], 1), [demand(20, 2)]);
    assert_eq!(take(&mut sources[1], 2), [demand(10, 2), demand(20, 0)]);
    assert!(sources.iter().all(|source| source.next_time() == Time::NEVER));
}

fn read(text: &str) -> Result<WorkloadSettings, String> {
    toml::from_str(text).map_err(|error| error.message().to_string())
}

#[test]
fn files_read_and_written_again_say_the_same() {
    let files = [
        "load = 0.5",
        "load = 0.5\narrivals = \"bernoulli\"\npattern = \"bit_complement\"",
        "load = 0.5\narrivals = { uniform = { low = 0.5, high = 1.5 } }",
        "load = 0.5\nburst = { length = { uniform = [1, 5] }, spacing = \"2 us\" }",
        "load = 0.5\nburst = { length = { geometric = 2.5 }, targets = \"independent\" }",
        "load = 0.5\npattern = { permutation = {} }",
        "load = 0.5\npattern = { permutation = [1, 2, 0] }",
        "load = 0.5\npattern = { uniform = { self_included = true } }",
        "load = 0.5\npattern = { hot_spot = { target = 0, fraction = 0.1 } }",
        "source = \"greedy\"\npattern = { flows = [{ from = 0, to = 1 }] }",
        "source = { paced = { rate = \"300 Mbit/s\" } }\npattern = { shift = 1 }",
        "source = { ping_pong = { pairs = [{ from = 0, to = 1 }] } }",
        "source = { list = [{ time = \"5 ns\", from = 0, to = 1 }] }",
    ];
    for file in files {
        let workload = read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let again = toml::to_string(&workload).expect("writable");
        assert_eq!(read(&again), Ok(workload.clone()), "{again}");
        let hosts = if file.contains("[1, 2, 0]") { 3 } else { 4 };
        assert_eq!(sources(&workload, hosts, 1).len(), hosts as usize, "{file}");
    }
}

#[test]
fn refusals_name_key_value_and_what_is_accepted() {
    let errors = [
        "pattern = \"bit_complement\"",
        "source = \"greedy\"\nload = 0.5",
        "source = { list = [] }\npattern = \"bit_complement\"",
        "load = 1.5\narrivals = \"bernoulli\"",
        "load = 0.5\nburst = { length = { fixed = 4 }, spacing = \"40 us\" }",
        "load = 0.1\narrivals = \"bernoulli\"\n\
         burst = { length = { fixed = 4 }, spacing = \"1 us\" }",
        "source = { ping_pong = { pairs = [{ from = 0, to = 1 }, { from = 1, to = 2 }] } }",
        "source = { list = [{ time = \"5 ns\", from = 0, to = 4 }] }",
        "load = 0.5\npattern = { permutation = [1, 2, 0] }",
    ];
    let text: String = errors
        .iter()
        .map(|file| {
            let workload = read(file).expect("well formed");
            let refused = workload.build(&facts(4), &Streams::new(1));
            format!("{}\n", refused.expect_err("refused"))
        })
        .collect();
    expect![[r#"
        workload.bulk.load = (none): accepted is an offered load, such as 0.5
        workload.bulk.load = given with source = greedy: accepted is no such setting for this source
        workload.bulk.pattern = given with source = list: accepted is no such setting for this source
        workload.bulk.arrivals = bernoulli with a probability of 1.5: accepted is a mean of at least one slot from a packet or burst to the next
        workload.bulk.burst.spacing = 40 us: accepted is a spacing at which the mean burst is shorter than its share of the load
        workload.bulk.burst.spacing = 1 us: accepted is a multiple of the slot of 8.984 us with bernoulli arrivals
        workload.bulk.source.ping_pong.pairs = { from = 1, to = 2 }: accepted is two hosts that belong to no other pair
        workload.bulk.source.list.to = 4: accepted is a host, below 4
        workload.bulk.pattern.permutation = [1, 2, 0]: accepted is each host below 4 once
    "#]].assert_eq(&text);
}
