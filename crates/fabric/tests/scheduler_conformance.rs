//! What every scheduler owes its switch. A scheduler is tested here because it exists: the suite
//! runs over `SchedulerSettings::variants()`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use proptest::prelude::*;
use weft_fabric::scheduler::{
    AnyScheduler, IslipSettings, Iterations, LeastChoiceFirstSettings, MAX_PORTS, Matching,
    Requests, Scheduler, SchedulerSettings,
};
use weft_kernel::{Stream, Streams};

const PORTS: [usize; 8] = [1, 2, 3, 5, 8, 16, 33, 64];

/// A scheduler with what it needs to run.
struct Bench {
    scheduler: AnyScheduler,
    random: Stream,
    matching: Matching,
}

impl Bench {
    fn new(settings: &SchedulerSettings, ports: usize) -> Bench {
        Bench {
            scheduler: settings.build(ports).unwrap(),
            random: Streams::new(7).stream("scheduler", 0),
            matching: Matching::new(ports),
        }
    }

    fn schedule(&mut self, requests: &Requests) -> &Matching {
        self.scheduler.schedule(requests, &mut self.random, &mut self.matching);
        &self.matching
    }
}

/// Requests with the given probability, in 256ths, of each pair.
fn sprinkled(ports: usize, density: u64, random: &mut Stream) -> Requests {
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

fn full(ports: usize) -> Requests {
    sprinkled(ports, 256, &mut Streams::new(0).stream("full", 0))
}

/// A few slots of requests, some nearly empty, some nearly full.
fn slots_of_requests(ports: usize) -> impl Strategy<Value = Vec<Requests>> {
    (any::<u64>(), prop::collection::vec(0_u64..=256, 1..4)).prop_map(move |(seed, densities)| {
        let mut random = Streams::new(seed).stream("requests", 0);
        densities.into_iter().map(|density| sprinkled(ports, density, &mut random)).collect()
    })
}

fn for_every_size(cases: u32, check: impl Fn(usize, Vec<Requests>) -> Result<(), TestCaseError>) {
    for ports in PORTS {
        let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
        proptest!(config, |(slots in slots_of_requests(ports))| check(ports, slots)?);
    }
}

/// A lone request leaves a scheduler as the whole algorithm does: what it decides afterwards is the
/// same.
#[test]
fn a_lone_request_is_scheduled_as_among_others() {
    for_every_size(16, |ports, slots| {
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
    });
}

#[test]
fn connections_are_requested_free_of_conflict_and_maximal_where_promised() {
    for_every_size(48, |ports, slots| {
        for settings in SchedulerSettings::variants() {
            let mut bench = Bench::new(&settings, ports);
            for requests in &slots {
                let matching = bench.schedule(requests);
                let (mut initiators, mut targets) = (0_u64, 0_u64);
                for (initiator, target) in matching.iter() {
                    prop_assert!(requests.contains(initiator, target), "{settings:?}");
                    prop_assert_eq!(matching.target_of(initiator), Some(target));
                    prop_assert_eq!(matching.initiator_of(target), Some(initiator));
                    initiators |= 1 << initiator;
                    targets |= 1 << target;
                }
                prop_assert_eq!(initiators.count_ones() as usize, matching.len());
                prop_assert_eq!(targets.count_ones() as usize, matching.len());
                prop_assert_eq!(initiators & matching.unmatched_initiators(), 0);
                prop_assert_eq!(targets & matching.unmatched_targets(), 0);
                let missed = (0..ports).any(|initiator| {
                    initiators >> initiator & 1 == 0 && requests.row(initiator) & !targets != 0
                });
                prop_assert!(!(missed && settings.is_maximal()), "{settings:?}");
                prop_assert_eq!(matching.is_empty(), requests == &Requests::new(ports));
            }
        }
        Ok(())
    });
}

#[test]
fn a_lone_request_is_served_at_once_in_any_state() {
    let mut random = Streams::new(3).stream("test", 0);
    for settings in SchedulerSettings::variants() {
        for ports in PORTS {
            let mut bench = Bench::new(&settings, ports);
            for _ in 0..200 {
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
    for_every_size(8, |ports, slots| {
        for settings in SchedulerSettings::variants() {
            let [mut one, mut other] = [0, 1].map(|_| Bench::new(&settings, ports));
            for requests in slots.iter().cycle().take(12) {
                let expected: Vec<_> = one.schedule(requests).iter().collect();
                prop_assert_eq!(other.schedule(requests).iter().collect::<Vec<_>>(), expected);
            }
        }
        Ok(())
    });
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
    fn requests(self, initiator: usize, target: usize, ports: usize, at: &mut Stream) -> Requests {
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
    let mut random = Streams::new(5).stream("test", 0);
    for settings in SchedulerSettings::variants() {
        for ports in [1, 2, 3, 5, 8, 16] {
            let Some(bound) = settings.serves_within(ports) else { continue };
            for adversary in [Adversary::Random, Adversary::FewerChoices, Adversary::Full] {
                let initiator = random.below(ports as u64) as usize;
                let target = random.below(ports as u64) as usize;
                let mut bench = Bench::new(&settings, ports);
                let mut waited = 0;
                for _ in 0..4 * bound {
                    let requests = adversary.requests(initiator, target, ports, &mut random);
                    let served = bench.schedule(&requests).target_of(initiator) == Some(target);
                    waited = if served { 0 } else { waited + 1 };
                    assert!(waited < bound, "{settings:?} against {adversary:?}, {ports} ports");
                }
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
    let mut bench = Bench::new(&settings, 4);
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
    let mut bench = Bench::new(&settings, 3);
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
                let mut bench = Bench::new(&settings, ports);
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
            let mut bench = Bench::new(&settings, ports);
            for _ in 0..4 * ports {
                bench.schedule(&requests);
            }
            let turns = 16 * ports as u32;
            let mut served = [[0_u32; MAX_PORTS]; MAX_PORTS];
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
    for_every_size(24, |ports, slots| {
        for settings in SchedulerSettings::variants() {
            let maximum = SchedulerSettings::MaximumMatching(Default::default());
            let mut maximum = Bench::new(&maximum, ports);
            let mut bench = Bench::new(&settings, ports);
            for requests in &slots {
                let size = bench.schedule(requests).len();
                let largest = maximum.schedule(requests).len();
                prop_assert!(size <= largest, "{settings:?}: {size} > {largest}");
                let at_least = if settings.is_maximal() { largest.div_ceil(2) } else { 0 };
                prop_assert!(size >= at_least, "{settings:?}: {size} of {largest}");
            }
        }
        Ok(())
    });
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
            let mut bench = Bench::new(&settings, ports);
            for _ in 0..300 {
                let density = random.below(200);
                let requests = sprinkled(ports, density, &mut random);
                assert_eq!(bench.schedule(&requests).len(), exhaustive(&requests, 0, 0));
            }
        }
    }
}
