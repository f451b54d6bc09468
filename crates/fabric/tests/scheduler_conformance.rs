//! What every scheduler owes its switch. A scheduler is tested here because it exists: the suite
//! runs over `SchedulerSettings::variants()`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use proptest::prelude::*;
use weft_fabric::scheduler::{
    AnyScheduler, IslipSettings, Iterations, LeastChoiceFirstSettings, Matching, PortSet, Requests,
    Scheduler, SchedulerSettings,
};
use weft_kernel::{Stream, Streams};

/// Sizes of switches whose sets of ports are a word, and of some whose sets are several.
const PORTS: [usize; 8] = [1, 2, 3, 5, 8, 16, 33, 64];
const MORE_PORTS: [usize; 3] = [65, 128, 256];

/// A scheduler with what it needs to run.
struct Bench<const W: usize = 1> {
    scheduler: AnyScheduler<W>,
    random: Stream,
    matching: Matching<W>,
}

impl<const W: usize> Bench<W> {
    fn new(settings: &SchedulerSettings, ports: usize) -> Bench<W> {
        Bench {
            scheduler: settings.build(ports).unwrap(),
            random: Streams::new(7).stream("scheduler", 0),
            matching: Matching::new(ports),
        }
    }

    fn schedule(&mut self, requests: &Requests<W>) -> &Matching<W> {
        self.scheduler.schedule(requests, &mut self.random, &mut self.matching);
        &self.matching
    }
}

/// Requests with the given probability, in 256ths, of each pair.
fn sprinkled<const W: usize>(ports: usize, density: u64, random: &mut Stream) -> Requests<W> {
    let mut requests = Requests::new(ports);
    for initiator in 0..ports {
        for target in 0..ports {
            if random.bits() & 255 < density {
                requests.set(initiator, target);
            }
        }
    }
    requests
}

fn full<const W: usize>(ports: usize) -> Requests<W> {
    sprinkled(ports, 256, &mut Streams::new(0).stream("full", 0))
}

/// A few slots of requests, some nearly empty, some nearly full.
fn slots_of_requests<const W: usize>(ports: usize) -> impl Strategy<Value = Vec<Requests<W>>> {
    (any::<u64>(), prop::collection::vec(0_u64..=256, 1..4)).prop_map(move |(seed, densities)| {
        let mut random = Streams::new(seed).stream("requests", 0);
        densities.into_iter().map(|density| sprinkled(ports, density, &mut random)).collect()
    })
}

type Checked = Result<(), TestCaseError>;

fn for_sizes<const W: usize>(
    sizes: &[usize],
    cases: u32,
    check: impl Fn(usize, &[Requests<W>]) -> Checked,
) {
    for &ports in sizes {
        let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
        proptest!(config, |(slots in slots_of_requests(ports))| check(ports, &slots)?);
    }
}

/// Checks with sets of a word, of several, and of all that there can be.
macro_rules! for_every_size {
    ($cases:expr, $check:ident) => {
        for_sizes(&PORTS, $cases, $check::<1>);
        for_sizes(&MORE_PORTS, ($cases / 12).max(2), $check::<4>);
        for_sizes(&[257], 1, $check::<16>);
    };
}

/// A lone request leaves a scheduler as the whole algorithm does: what it decides afterwards is the
/// same.
#[test]
fn a_lone_request_is_scheduled_as_among_others() {
    fn check<const W: usize>(ports: usize, slots: &[Requests<W>]) -> Checked {
        for settings in SchedulerSettings::variants() {
            let mut short = Bench::new(&settings, ports);
            let mut whole = Bench::new(&settings, ports);
            for (place, requests) in slots.iter().enumerate() {
                let (initiator, target) = (place * 7 % ports, place * 5 % ports);
                let mut lone = Requests::new(ports);
                lone.set(initiator, target);
                prop_assert_eq!(whole.schedule(&lone).target_of(initiator), Some(target));
                if !short.scheduler.schedule_lone(initiator, target) {
                    short.schedule(&lone);
                }
                let pairs: Vec<_> = whole.schedule(requests).iter().collect();
                prop_assert_eq!(short.schedule(requests).iter().collect::<Vec<_>>(), pairs);
            }
        }
        Ok(())
    }
    for_every_size!(16, check);
}

#[test]
fn connections_are_requested_free_of_conflict_and_maximal_where_promised() {
    fn check<const W: usize>(ports: usize, slots: &[Requests<W>]) -> Checked {
        for settings in SchedulerSettings::variants() {
            let mut bench = Bench::new(&settings, ports);
            for requests in slots {
                let matching = bench.schedule(requests);
                let (mut initiators, mut targets) = (PortSet::<W>::EMPTY, PortSet::<W>::EMPTY);
                for (initiator, target) in matching.iter() {
                    prop_assert!(requests.contains(initiator, target), "{settings:?}");
                    prop_assert_eq!(matching.target_of(initiator), Some(target));
                    prop_assert_eq!(matching.initiator_of(target), Some(initiator));
                    initiators.insert(initiator);
                    targets.insert(target);
                }
                prop_assert_eq!(initiators.len(), matching.len());
                prop_assert_eq!(targets.len(), matching.len());
                prop_assert_eq!(
                    PortSet::below(ports) - initiators,
                    matching.unmatched_initiators()
                );
                prop_assert_eq!(PortSet::below(ports) - targets, matching.unmatched_targets());
                let missed = matching.unmatched_initiators().into_iter();
                let missed = missed.map(|initiator| requests.row(initiator) - targets);
                let is_missed = missed.into_iter().any(|row| !row.is_empty());
                prop_assert!(!(is_missed && settings.is_maximal()), "{settings:?}");
                prop_assert_eq!(matching.is_empty(), requests == &Requests::new(ports));
            }
        }
        Ok(())
    }
    for_every_size!(48, check);
}

/// What a scheduler decides on up to 64 ports does not depend on how wide its sets are.
#[test]
fn wider_sets_decide_the_same() {
    fn widened<const W: usize>(requests: &Requests) -> Requests<W> {
        let mut wide = Requests::new(requests.ports());
        for initiator in 0..requests.ports() {
            let row = requests.row(initiator).into_iter();
            row.for_each(|target| wide.set(initiator, target));
        }
        wide
    }
    for_sizes::<1>(&[1, 2, 5, 16, 63, 64], 6, |ports, slots| {
        for settings in SchedulerSettings::variants() {
            let mut narrow = Bench::<1>::new(&settings, ports);
            let mut wide = Bench::<4>::new(&settings, ports);
            let mut widest = Bench::<16>::new(&settings, ports);
            for requests in slots.iter().cycle().take(6) {
                let pairs: Vec<_> = narrow.schedule(requests).iter().collect();
                let of_wide = wide.schedule(&widened(requests));
                prop_assert_eq!(of_wide.iter().collect::<Vec<_>>(), &pairs[..]);
                let of_widest = widest.schedule(&widened(requests));
                prop_assert_eq!(of_widest.iter().collect::<Vec<_>>(), &pairs[..]);
                let by_target: Vec<_> = narrow.matching.by_target().collect();
                prop_assert_eq!(wide.matching.by_target().collect::<Vec<_>>(), by_target);
            }
            let drawn = [wide.random.bits(), widest.random.bits()];
            prop_assert_eq!(drawn, [narrow.random.bits(); 2], "{:?}", settings);
        }
        Ok(())
    });
}

/// Every connection and the random number that comes after the last one, as they were when a set of
/// ports was a word in every scheduler.
#[test]
fn the_matchings_of_up_to_64_ports_are_those_of_before() {
    let mut digests: Vec<(&str, u64)> = Vec::new();
    for settings in SchedulerSettings::variants() {
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |value: u64| digest = (digest ^ value).wrapping_mul(0x100_0000_01b3);
        let mut random = Streams::new(17).stream("requests", 0);
        for ports in PORTS {
            let mut bench = Bench::<1>::new(&settings, ports);
            for density in [3, 40, 128, 220, 256].into_iter().cycle().take(20) {
                let requests = sprinkled(ports, density, &mut random);
                for (initiator, target) in bench.schedule(&requests).iter() {
                    add((initiator * 64 + target) as u64);
                }
                add(u64::MAX);
            }
            add(bench.random.bits());
        }
        match digests.last_mut() {
            Some((name, all)) if *name == settings.name() => {
                *all = all.wrapping_mul(31).wrapping_add(digest)
            }
            _ => digests.push((settings.name(), digest)),
        }
    }
    assert_eq!(digests, BEFORE);
}

const BEFORE: [(&str, u64); 7] = [
    ("least_choice_first", 0xfbfa_7848_b633_28f2),
    ("least_choice_first_distributed", 0x47b1_abfe_fe5e_ec2f),
    ("islip", 0xeec5_e8c6_cf0a_e4a5),
    ("pim", 0xa93b_5f72_993b_523a),
    ("wavefront", 0xcfa4_b5e8_d8af_e811),
    ("maximum_matching", 0x27b9_2c13_cf26_e5f4),
    ("random_maximal", 0x5f78_8a25_a9da_2772),
];

#[test]
fn a_lone_request_is_served_at_once_in_any_state() {
    lone_requests_are_served::<1>(&PORTS, 200);
    lone_requests_are_served::<4>(&MORE_PORTS, 12);
}

fn lone_requests_are_served<const W: usize>(sizes: &[usize], times: usize) {
    let mut random = Streams::new(3).stream("test", 0);
    for settings in SchedulerSettings::variants() {
        for &ports in sizes {
            let mut bench = Bench::<W>::new(&settings, ports);
            for _ in 0..times {
                bench.schedule(&sprinkled(ports, 100, &mut random));
                let initiator = random.below(ports as u64) as usize;
                let target = random.below(ports as u64) as usize;
                let mut requests = Requests::new(ports);
                requests.set(initiator, target);
                let served: Vec<_> = bench.schedule(&requests).iter().collect();
                assert_eq!(served, [(initiator, target)], "{settings:?}");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    fn check<const W: usize>(ports: usize, slots: &[Requests<W>]) -> Checked {
        for settings in SchedulerSettings::variants() {
            let [mut one, mut other] = [0, 1].map(|_| Bench::new(&settings, ports));
            for requests in slots.iter().cycle().take(12) {
                let expected: Vec<_> = one.schedule(requests).iter().collect();
                prop_assert_eq!(other.schedule(requests).iter().collect::<Vec<_>>(), expected);
            }
        }
        Ok(())
    }
    for_every_size!(8, check);
}

/// How the other requests try to starve a permanent one.
#[derive(Clone, Copy, Debug)]
enum Adversary {
    /// Anything.
    Random,
    /// All others ask for the same target only, and its initiator for everything.
    FewerChoices,
    /// Everybody asks for everything.
    Full,
}

impl Adversary {
    fn requests<const W: usize>(
        self,
        initiator: usize,
        target: usize,
        ports: usize,
        at: &mut Stream,
    ) -> Requests<W> {
        let mut requests = match self {
            Adversary::Random => {
                let density = at.below(257);
                sprinkled(ports, density, at)
            }
            Adversary::Full => full(ports),
            Adversary::FewerChoices => {
                let mut requests = Requests::new(ports);
                for port in 0..ports {
                    requests.set(port, target);
                    requests.set(initiator, port);
                }
                requests
            }
        };
        requests.set(initiator, target);
        requests
    }
}

#[test]
fn a_standing_request_is_served_in_bounded_time_where_promised() {
    let all = [Adversary::Random, Adversary::FewerChoices, Adversary::Full];
    for settings in SchedulerSettings::variants() {
        standing_requests_are_served::<1>(&settings, &[1, 2, 3, 5, 8, 16], &all, 4);
    }
    // The largest sizes for each algorithm as it comes, since the bound grows as their square.
    for (_, settings) in SchedulerSettings::all_defaults() {
        standing_requests_are_served::<4>(&settings, &[65, 128], &all[1..2], 1);
    }
}

/// Each of the adversaries, for so many times the bound.
fn standing_requests_are_served<const W: usize>(
    settings: &SchedulerSettings,
    sizes: &[usize],
    adversaries: &[Adversary],
    times: u64,
) {
    let mut random = Streams::new(5).stream("test", 0);
    for &ports in sizes {
        let Some(bound) = settings.serves_within(ports) else { continue };
        for &adversary in adversaries {
            let initiator = random.below(ports as u64) as usize;
            let target = random.below(ports as u64) as usize;
            let mut bench = Bench::<W>::new(settings, ports);
            let mut waited = 0;
            for _ in 0..times * bound {
                let requests = adversary.requests(initiator, target, ports, &mut random);
                let served = bench.schedule(&requests).target_of(initiator) == Some(target);
                waited = if served { 0 } else { waited + 1 };
                assert!(waited < bound, "{settings:?} against {adversary:?}, {ports} ports");
            }
        }
    }
}

/// Without the round robin an initiator with many choices never beats those with one.
#[test]
fn least_choice_first_without_round_robin_can_starve_a_request() {
    let settings =
        LeastChoiceFirstSettings { round_robin: false, ..LeastChoiceFirstSettings::default() };
    let settings = SchedulerSettings::LeastChoiceFirst(settings);
    let mut random = Streams::new(5).stream("test", 0);
    let mut bench = Bench::<1>::new(&settings, 4);
    for _ in 0..1000 {
        let requests = Adversary::FewerChoices.requests(1, 2, 4, &mut random);
        assert_ne!(bench.schedule(&requests).target_of(1), Some(2));
    }
    assert_eq!(settings.serves_within(4), None);
}

/// Requests (0, 2) and (1, 2) come in turn, each while its initiator prefers target 1: target 2
/// grants them in vain, its pointer stays, and it never comes to initiator 2.
#[test]
fn islip_can_starve_a_request_if_others_are_withdrawn() {
    let settings =
        SchedulerSettings::Islip(IslipSettings { iterations: Iterations::new(1).unwrap() });
    let mut bench = Bench::<1>::new(&settings, 3);
    for slot in 0..1000 {
        let mut requests = Requests::new(3);
        let (idle, busy) = (slot % 2, 1 - slot % 2);
        for (initiator, target) in [(idle, 0), (busy, 1), (busy, 2), (2, 2)] {
            requests.set(initiator, target);
        }
        assert_eq!(bench.schedule(&requests).target_of(2), None, "slot {slot}");
    }
    assert_eq!(settings.serves_within(3), None);
}

#[test]
fn every_one_of_unchanging_requests_is_served_in_bounded_time_where_promised() {
    let mut random = Streams::new(9).stream("test", 0);
    for settings in SchedulerSettings::variants() {
        for ports in [1, 2, 3, 5, 8, 16] {
            let Some(bound) = settings.serves_unchanged_within(ports) else { continue };
            for density in [40, 128, 256] {
                let mut bench = Bench::<1>::new(&settings, ports);
                for _ in 0..50 {
                    bench.schedule(&sprinkled(ports, 80, &mut random));
                }
                let requests = sprinkled(ports, density, &mut random);
                let mut left = requests.clone();
                for _ in 0..bound {
                    bench.schedule(&requests).iter().for_each(|(from, to)| left.clear(from, to));
                }
                assert_eq!(left, Requests::new(ports), "{settings:?} with {ports} ports");
            }
        }
    }
}

/// Full load is shared equally by every algorithm as it comes: exactly by those that rotate
/// (iSLIP after its pointers have drifted apart), within five deviations by those that draw.
#[test]
fn full_load_is_shared_equally() {
    for (name, settings) in SchedulerSettings::all_defaults() {
        for ports in [1, 2, 3, 5, 8, 16] {
            let requests = full(ports);
            let mut bench = Bench::<1>::new(&settings, ports);
            for _ in 0..4 * ports {
                bench.schedule(&requests);
            }
            let turns = 16 * ports as u32;
            let mut served = [[0_u32; 16]; 16];
            for _ in 0..16 * ports * ports {
                bench.schedule(&requests).iter().for_each(|(from, to)| served[from][to] += 1);
            }
            let drawn = matches!(name, "pim" | "random_maximal");
            let tolerance = if drawn { 5.0 * f64::from(turns).sqrt() } else { 0.0 };
            for (initiator, targets) in served[..ports].iter().enumerate() {
                for (target, &count) in targets[..ports].iter().enumerate() {
                    assert!(
                        f64::from(count.abs_diff(turns)) <= tolerance,
                        "{name}, {ports} ports: ({initiator}, {target}) {count} times of {turns}"
                    );
                }
            }
        }
    }
}

#[test]
fn no_matching_is_larger_than_the_maximum() {
    fn check<const W: usize>(ports: usize, slots: &[Requests<W>]) -> Checked {
        for settings in SchedulerSettings::variants() {
            let maximum = SchedulerSettings::MaximumMatching(Default::default());
            let mut maximum = Bench::new(&maximum, ports);
            let mut bench = Bench::new(&settings, ports);
            for requests in slots {
                let size = bench.schedule(requests).len();
                let largest = maximum.schedule(requests).len();
                prop_assert!(size <= largest, "{settings:?}: {size} > {largest}");
                let at_least = if settings.is_maximal() { largest.div_ceil(2) } else { 0 };
                prop_assert!(size >= at_least, "{settings:?}: {size} of {largest}");
            }
        }
        Ok(())
    }
    for_every_size!(24, check);
}

/// The largest number of connections, by trying every target for every initiator.
fn exhaustive(requests: &Requests, initiator: usize, taken: u64) -> usize {
    if initiator == requests.ports() {
        return 0;
    }
    let without = exhaustive(requests, initiator + 1, taken);
    (0..requests.ports())
        .filter(|&target| requests.contains(initiator, target) && taken >> target & 1 == 0)
        .map(|target| 1 + exhaustive(requests, initiator + 1, taken | 1 << target))
        .fold(without, usize::max)
}

#[test]
fn maximum_matching_is_as_large_as_exhaustive_search_finds() {
    let mut random = Streams::new(11).stream("test", 0);
    let maximum = SchedulerSettings::variants()
        .into_iter()
        .filter(|settings| matches!(settings, SchedulerSettings::MaximumMatching(_)));
    for settings in maximum {
        for ports in 1..=6 {
            let mut bench = Bench::<1>::new(&settings, ports);
            for _ in 0..300 {
                let density = random.below(200);
                let requests = sprinkled(ports, density, &mut random);
                assert_eq!(bench.schedule(&requests).len(), exhaustive(&requests, 0, 0));
            }
        }
    }
}
