//! What schedulers do to a slotted switch: known formulas, and waits measured independently.
//!
//! Packets of one slot, Bernoulli arrivals, uniform targets. A packet may leave in the slot in
//! which it arrives; its wait is the number of slots between.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::collections::VecDeque;

use weft_fabric::scheduler::{
    Arbiter, Counts, IslipSettings, Iterations, LeastChoiceFirstDistributedSettings,
    LeastChoiceFirstSettings, Matcher, PimSettings, RandomMaximalSettings, SchedulerSettings, Ties,
};
use weft_kernel::{Stream, Streams};

/// One request, or one connection, after another, among any number of ports.
trait OneByOne {
    /// The initiator asks for the target.
    fn ask_for(&mut self, initiator: usize, target: usize);

    /// Serves the connections that were decided on, by ascending target. `serve` says whether the initiator
    /// still asks for the target.
    fn serve(&mut self, serve: impl FnMut(usize, usize) -> bool);
}

impl<const W: usize> OneByOne for Matcher<W> {
    fn ask_for(&mut self, initiator: usize, target: usize) {
        self.requests.set(initiator, target);
    }

    fn serve(&mut self, mut serve: impl FnMut(usize, usize) -> bool) {
        for (initiator, target) in self.matching.by_target() {
            if !serve(initiator, target) {
                self.requests.clear(initiator, target);
            }
        }
    }
}

impl OneByOne for Arbiter {
    fn ask_for(&mut self, initiator: usize, target: usize) {
        match self {
            Arbiter::Narrow(own) => own.ask_for(initiator, target),
            Arbiter::Wide(own) => own.ask_for(initiator, target),
            Arbiter::Widest(own) => own.ask_for(initiator, target),
        }
    }

    fn serve(&mut self, serve: impl FnMut(usize, usize) -> bool) {
        match self {
            Arbiter::Narrow(own) => own.serve(serve),
            Arbiter::Wide(own) => own.serve(serve),
            Arbiter::Widest(own) => own.serve(serve),
        }
    }
}

/// A switch with a queue per (initiator, target) and a scheduler.
struct Switch {
    ports: usize,
    /// Slots of arrival, by initiator * ports + target.
    queues: Vec<VecDeque<u64>>,
    /// Packets that a queue holds; more are dropped.
    depth: usize,
    arbiter: Arbiter,
    random: Stream,
}

/// The measurements.
struct Measured {
    /// Mean wait in slots.
    wait: f64,
    /// Packets per port and slot.
    throughput: f64,
}

impl Switch {
    fn new(settings: &SchedulerSettings, ports: usize, depth: usize) -> Switch {
        Switch {
            ports,
            queues: vec![VecDeque::new(); ports * ports],
            depth,
            arbiter: settings.arbiter(ports).unwrap(),
            random: Streams::new(1).stream("scheduler", 0),
        }
    }

    fn arrive(&mut self, load: f64, now: u64, arrivals: &mut Stream) {
        for initiator in 0..self.ports {
            if arrivals.unit() <= load {
                let target = arrivals.below(self.ports as u64) as usize;
                let queue = &mut self.queues[initiator * self.ports + target];
                if queue.len() < self.depth {
                    queue.push_back(now);
                    self.arbiter.ask_for(initiator, target);
                }
            }
        }
    }

    fn run(&mut self, load: f64, slots: u64) -> Measured {
        let mut arrivals = Streams::new(1).stream("arrivals", 0);
        let warm_up = slots / 6;
        let (mut waited, mut served) = (0, 0);
        for now in 0..slots {
            self.arrive(load, now, &mut arrivals);
            self.arbiter.decide(&mut self.random);
            self.arbiter.serve(|initiator, target| {
                let queue = &mut self.queues[initiator * self.ports + target];
                let arrived = queue.pop_front().expect("only requests are matched");
                if now >= warm_up {
                    waited += now - arrived;
                    served += 1;
                }
                !queue.is_empty()
            });
        }
        let wait = waited as f64 / f64::from(served);
        let throughput = f64::from(served) / (slots - warm_up) as f64 / self.ports as f64;
        Measured { wait, throughput }
    }
}

fn assert_close(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let error = measured / expected - 1.0;
    println!("{what}: measured {measured:.4}, expected {expected:.4}, {:+.2} %", 100.0 * error);
    assert!(error.abs() <= tolerance, "{what}: measured {measured:.4}, expected {expected:.4}");
}

fn settings(name: &str) -> SchedulerSettings {
    let (_, settings) = SchedulerSettings::all_defaults()
        .into_iter()
        .find(|(known, _)| *known == name)
        .expect("a known scheduler");
    settings
}

/// Karol, Hluchyj and Morgan, "Input versus output queueing on a space-division packet switch",
/// IEEE Transactions on Communications 35(12), 1987, table I and the limit 2 - sqrt 2. More digits
/// and more ports by solving their Markov chain, whose states are how many heads want the same
/// target.
#[test]
fn input_queues_saturate_as_karol_et_al_found() {
    // What is above the limit halves from 16 to 32 ports; the last two are continued so.
    let known = [(2, 0.75), (4, 0.65524), (8, 0.61839), (16, 0.60162), (32, 0.59359)];
    let known = known.into_iter().chain([(128, 0.58773), (256, 0.58675)]);
    let mut last = 1.0;
    for (ports, expected) in known {
        let throughput = input_queue_saturation(ports, 1_200_000 / ports as u32);
        assert_close(&format!("{ports} ports"), throughput, expected, 0.003);
        assert!(throughput < last && throughput > 2.0 - std::f64::consts::SQRT_2);
        last = throughput;
    }
}

/// Every initiator asks for the target of the head of its queue only; with one request each, a
/// random maximal matching draws the winner among the heads of a target.
fn input_queue_saturation(ports: usize, slots: u32) -> f64 {
    let settings = SchedulerSettings::RandomMaximal(RandomMaximalSettings {});
    let mut arbiter = settings.arbiter(ports).unwrap();
    let mut random = Streams::new(2).stream("heads", 0);
    let draw = |random: &mut Stream| random.below(ports as u64) as usize;
    (0..ports).for_each(|initiator| arbiter.ask_for(initiator, draw(&mut random)));
    let (mut served, mut next) = (0, Vec::new());
    for _ in 0..slots {
        arbiter.decide(&mut random);
        served += arbiter.connections();
        arbiter.serve(|initiator, _| {
            next.push(initiator);
            false
        });
        next.sort_unstable();
        next.drain(..).for_each(|initiator| arbiter.ask_for(initiator, draw(&mut random)));
    }
    served as f64 / f64::from(slots) / ports as f64
}

/// An initiator is granted by no target with probability (1 - 1/N)^N.
#[test]
fn one_round_of_pim_connects_the_known_share() {
    let iterations = Iterations::new(1).unwrap();
    let settings = SchedulerSettings::Pim(PimSettings { iterations });
    for (ports, slots) in
        [(2, 20_000), (4, 20_000), (8, 20_000), (16, 20_000), (32, 20_000), (64, 20_000)]
            .into_iter()
            .chain([(65, 2_000), (128, 1_000), (256, 500)])
    {
        let mut arbiter = settings.arbiter(ports).unwrap();
        let mut random = Streams::new(3).stream("scheduler", 0);
        for pair in 0..ports * ports {
            arbiter.ask_for(pair / ports, pair % ports);
        }
        let mut connected = 0;
        for _ in 0..slots {
            arbiter.decide(&mut random);
            connected += arbiter.connections();
        }
        let share = connected as f64 / f64::from(slots) / ports as f64;
        let expected = 1.0 - (1.0 - 1.0 / ports as f64).powi(ports as i32);
        assert_close(&format!("{ports} ports"), share, expected, 0.005);
    }
}

/// McKeown 1999: unlike PIM, iSLIP needs one round only to carry nearly everything.
#[test]
fn one_round_of_islip_and_least_choice_first_carry_full_load() {
    let islip: SchedulerSettings =
        toml::from_str("islip.iterations = 1").expect("settings of one round");
    for (settings, least) in [(islip, 0.98), (settings("least_choice_first"), 0.99)] {
        let carried = Switch::new(&settings, 16, 50).run(1.0, 60_000).throughput;
        assert!(carried > least && carried <= 1.0, "{}: {carried:.4}", settings.name());
    }
}

/// McKeown 1999, section III: under full load the pointers of one-round iSLIP drift apart within
/// a few times the number of ports; from then on every slot is a full matching, and every initiator
/// sends to every target once in as many slots as there are ports.
#[test]
fn one_round_of_islip_serves_every_pair_of_a_large_switch_in_turn() {
    let iterations = Iterations::new(1).unwrap();
    let settings = SchedulerSettings::Islip(IslipSettings { iterations });
    for ports in [65, 128, 256, 300] {
        let mut arbiter = settings.arbiter(ports).unwrap();
        let mut random = Streams::new(1).stream("scheduler", 0);
        (0..ports * ports).for_each(|pair| arbiter.ask_for(pair / ports, pair % ports));
        (0..2 * ports).for_each(|_| arbiter.decide(&mut random));
        let mut served = vec![0; ports * ports];
        for _ in 0..ports {
            arbiter.decide(&mut random);
            assert_eq!(arbiter.connections(), ports);
            arbiter.serve(|initiator, target| {
                served[initiator * ports + target] += 1;
                true
            });
        }
        assert!(served.iter().all(|count| *count == 1), "{ports} ports");
    }
}

/// Anderson et al. 1993: on average all but a quarter of what is left is resolved in each round of
/// parallel iterative matching, so that log2 N + 4/3 rounds resolve all. Two rounds more leave next
/// to nothing, while half as many are not enough.
#[test]
fn rounds_of_pim_grow_as_the_logarithm_of_the_ports() {
    for ports in [16, 128, 256, 1024] {
        let mut random = Streams::new(4).stream("scheduler", 0);
        let mut sizes = Vec::new();
        let rounds = (ports as f64).log2() + 4.0 / 3.0;
        for rounds in [(rounds / 2.0) as u32, rounds.ceil() as u32 + 2, 1024] {
            let iterations = Iterations::new(rounds).unwrap();
            let settings = SchedulerSettings::Pim(PimSettings { iterations });
            let mut arbiter = settings.arbiter(ports).unwrap();
            for pair in 0..ports * ports {
                arbiter.ask_for(pair / ports, pair % ports);
            }
            let mut connected = 0;
            for _ in 0..20 {
                arbiter.decide(&mut random);
                connected += arbiter.connections();
            }
            sizes.push(connected as f64 / 20.0 / ports as f64);
        }
        assert_eq!(sizes[2], 1.0, "{ports} ports: all ask for all, so that a maximal one is full");
        assert!(sizes[0] < 0.999 && sizes[1] > 0.999, "{ports} ports: {sizes:?}");
    }
}

/// Karol, Hluchyj and Morgan 1987: the wait in an output queue is (N-1)/N rho / (2 (1 - rho)).
/// No scheduler takes part: this holds the arrivals and the meaning of wait that the other laws
/// use against a formula.
#[test]
fn output_queues_wait_as_the_formula_says() {
    let ports = 16;
    for (load, slots) in [(0.5, 200_000), (0.7, 300_000), (0.8, 400_000), (0.9, 1_000_000)] {
        let mut arrivals = Streams::new(1).stream("arrivals", 0);
        let mut backlog = [0_u64; 16];
        let (mut waited, mut packets) = (0, 0);
        for _ in 0..slots {
            for _ in 0..ports {
                if arrivals.unit() <= load {
                    let queue = &mut backlog[arrivals.below(ports) as usize];
                    waited += *queue;
                    packets += 1;
                    *queue += 1;
                }
            }
            backlog.iter_mut().for_each(|queue| *queue = queue.saturating_sub(1));
        }
        let expected = 15.0 / 16.0 * load / (2.0 * (1.0 - load));
        let wait = waited as f64 / f64::from(packets);
        assert_close(&format!("load {load}"), wait, expected, 0.01);
    }
}

/// One round of the distributed form is no better than one of PIM, whatever the ties: targets
/// that see the same few choices grant the same initiators.
#[test]
fn one_round_of_distributed_least_choice_first_saturates_early() {
    for ties in [Ties::Rotating, Ties::Random, Ties::Lowest] {
        let iterations = Iterations::new(1).unwrap();
        let settings = LeastChoiceFirstDistributedSettings { iterations, round_robin: true, ties };
        let settings = SchedulerSettings::LeastChoiceFirstDistributed(settings);
        let carried = Switch::new(&settings, 16, 50).run(1.0, 30_000).throughput;
        assert!((0.6..0.7).contains(&carried), "{ties:?}: {carried:.4}");
    }
}

/// Mean waits at 16 ports and loads 0.7, 0.8 and 0.9, from a simulator written independently of
/// this one.
#[allow(clippy::approx_constant, reason = "a wait of 3.14 slots is not pi")]
#[test]
fn mean_waits_are_those_of_an_independent_simulator() {
    let central = LeastChoiceFirstSettings::default();
    let no_round_robin = LeastChoiceFirstSettings { round_robin: false, ..central.clone() };
    let static_counts = LeastChoiceFirstSettings { counts: Counts::Static, ..central.clone() };
    let distributed = LeastChoiceFirstDistributedSettings::default();
    let distributed_no_round_robin =
        LeastChoiceFirstDistributedSettings { round_robin: false, ..distributed.clone() };
    let known = [
        (SchedulerSettings::LeastChoiceFirst(central), [1.54, 2.69, 6.07]),
        (SchedulerSettings::LeastChoiceFirst(no_round_robin), [1.49, 2.58, 5.95]),
        (SchedulerSettings::LeastChoiceFirst(static_counts), [1.71, 3.14, 7.93]),
        (SchedulerSettings::LeastChoiceFirstDistributed(distributed), [1.64, 2.89, 7.34]),
        (
            SchedulerSettings::LeastChoiceFirstDistributed(distributed_no_round_robin),
            [1.63, 2.88, 7.46],
        ),
        (settings("islip"), [1.98, 3.76, 9.73]),
        (settings("pim"), [1.96, 3.71, 9.67]),
        (settings("wavefront"), [2.12, 4.11, 10.7]),
        (settings("maximum_matching"), [1.32, 2.13, 4.44]),
    ];
    for (settings, waits) in known {
        for ((load, slots), expected) in
            [(0.7, 60_000), (0.8, 100_000), (0.9, 300_000)].into_iter().zip(waits)
        {
            let measured = Switch::new(&settings, 16, usize::MAX).run(load, slots);
            let what = format!("{settings:?} at load {load}");
            assert_close(&what, measured.wait, expected, 0.02);
            assert_close(&what, measured.throughput, load, 0.01);
        }
    }
}
