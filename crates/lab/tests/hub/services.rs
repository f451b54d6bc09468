//! What programs have of the cluster: conditional writes, locks that outlive their holders, barriers
//! that outlive those who should come.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;

use proptest::prelude::*;
use weft_kernel::{Halt, Streams};
use weft_lab::assemble::{Driver, Site};
use weft_lab::drive::Channel;
use weft_lab::program::{Crew, Machine, Node, OrderedLock, Policy};
use weft_lab::{Plan, Request};
use weft_units::{Bytes, Span, Time};

use super::pages::mapped;

type Me = Node<Driver>;

const WORD: Bytes = Bytes(8);
const US: Span = Span(1_000_000);

pub fn crew(name: &str, preset: &str, overrides: &[&str]) -> Crew<Driver> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let plan = Plan::new(&Request::new(name, Some(preset), &overrides));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let spec = &plan.points[0].spec;
    let streams = Streams::new(1);
    let (from, until) = (Time::ZERO, Time(1_000_000_000));
    let (channel, parts) = spec.channel.iter().next_back().expect("a channel");
    let hosts = spec.system.hosts;
    let site = Site { name: channel, hosts, streams: &streams, from, until, sample: None };
    let driver = Driver::new(parts, None, site).unwrap_or_else(|error| panic!("{error}"));
    let channels = vec![(channel.to_string(), driver)];
    Crew::new(Machine::new(hosts as u16, channels, Policy::first(), true))
}

/// Four hosts, one of which dies, with packets damaged now and then.
fn mortal(name: &str, death: (u64, u16), errors: &str) -> Crew<Driver> {
    mortals(name, &[death], errors)
}

/// Four hosts, some of which die, at these times in microseconds.
fn mortals(name: &str, deaths: &[(u64, u16)], errors: &str) -> Crew<Driver> {
    let dies = |(at, node): &(u64, u16)| format!("{{ at = '{at} us', what.dies = {node} }}");
    let events: Vec<String> = deaths.iter().map(dies).collect();
    let cluster = format!(
        "channel.memory.window.cluster={{ heartbeat = '20 us', time_out = '60 us', \
         retry = '40 us', events = [{}] }}",
        events.join(", ")
    );
    let errors = format!("channel.memory.errors.packet_error_rate={errors}");
    let all = [
        &cluster,
        &errors,
        "channel.memory.window.check_order=true",
        "channel.memory.window.recovery=10 us",
        "system.hosts=4",
    ];
    crew(name, "", &all)
}

pub fn start<F: Future<Output = ()> + 'static>(crew: &mut Crew<Driver>, program: impl Fn(Me) -> F) {
    for me in crew.nodes() {
        crew.start(me.clone(), program(me));
    }
}

/// Runs all programs to their end, but no further: a stuck program is reported, not waited for.
fn finish(mut crew: Crew<Driver>) -> Result<Time, String> {
    let halt = Halt::new().with_step_limit(Some(3_000_000));
    let end = crew.run(&halt).map_err(|error| error.to_string())?;
    for (_, channel) in crew.into_machine().into_channels() {
        if let Driver::Engine(channel) = channel {
            assert_eq!(channel.broken_order(), None);
        }
    }
    Ok(end)
}

/// When the target of one conditional write of 8 bytes has the word, and when its initiator knows.
fn conditional(name: &str, preset: &str, overrides: &[&str]) -> [u64; 2] {
    let mut crew = crew(name, preset, overrides);
    let seen = Rc::new(RefCell::new([0; 2]));
    start(&mut crew, |me| {
        let seen = Rc::clone(&seen);
        async move {
            if me.rank() == 0 {
                let written = me.conditional_write(1, 5, 42, WORD).await;
                assert_eq!((written.from, written.value), (1, 1));
                seen.borrow_mut()[1] = me.now().0;
            }
            if me.rank() == 1 {
                me.until(5, 1).await;
                assert_eq!(me.load(5), 42);
                seen.borrow_mut()[0] = me.now().0;
            }
        }
    });
    finish(crew).unwrap_or_else(|error| panic!("{name}: {error}"));
    seen.take()
}

/// There as any write of 8 bytes; the adapter answers when its bus is done with it, 4 bytes, which
/// the initiator polls: as in `a_sweep_and_a_read_by_hand`.
#[test]
fn a_program_writes_conditionally_in_hand_worked_time() {
    let bus_done = 330_000 + 151_515 + 750_000 + 150_000 + 50_000 + 151_515;
    let back = 750_000 + 120_000 + 50_000 + 121_212 + 580_000;
    let found = conditional("memory-channel-2", "virtual_hub", &[]);
    assert_eq!(found, [bus_done + 580_000, bus_done + back]);
}

/// MC-38 and MC-50 in a program's hands: one way against three until the word may be used, one round
/// trip against two until its writer knows.
#[test]
fn by_round_trip_it_takes_more_than_twice_as_long() {
    let whole = ["channel.memory.window.conditional_write=false"];
    let [used, known] = conditional("memory-channel-2", "virtual_hub", &[]);
    let [late, last] = conditional("memory-channel-2", "virtual_hub", &whole);
    assert!(late > 2 * used && last * 10 > 18 * known, "{used} {known} {late} {last}");
    assert!(late < 4 * used && last < 3 * known, "{used} {known} {late} {last}");
}

/// The same program text: by sweeps in generation 1, by four messages where adapters know nothing of
/// it.
#[test]
fn the_same_program_writes_conditionally_on_every_system() {
    for (name, preset) in [
        ("memory-channel-1", ""),
        ("memory-channel-1", "virtual_hub"),
        ("clint", ""),
        ("clan", ""),
        ("maestro", ""),
    ] {
        let [used, known] = conditional(name, preset, &[]);
        assert!(0 < used && used < known, "{name}: {used} {known}");
        // The third of four messages lets it be used.
        let by_messages = !name.starts_with("memory");
        assert!(!by_messages || 3 * used > 2 * known, "{name}: {used} {known}");
    }
}

#[test]
fn a_conditional_write_to_a_page_without_the_attribute_is_refused() {
    let write = |entry: &str| {
        let pages = mapped(&[(0, 0, "reach = { point = 1 }")], &[(1, 0, entry)]);
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        let mut crew = crew("memory-channel-2", "", &pages);
        start(&mut crew, |me| async move {
            if me.rank() == 0 {
                me.conditional_write(1, 0, 1, WORD).await;
            }
        });
        finish(crew).map(|_| ())
    };
    let text = "rank 0 writes conditionally to rank 1: page 0 of node 1 has no attribute \
                conditional_write";
    assert_eq!(write(""), Err(text.to_owned()));
    assert_eq!(write("conditional_write = true"), Ok(()));
}

/// Requests to a rank that is gone: the writer is notified, before the loss is known and after; a
/// read and a receive have no answer, and the program is reported stuck instead of running on.
#[test]
fn what_is_asked_of_a_rank_that_is_gone() {
    for (name, delay) in
        [("memory-channel-1", 1), ("memory-channel-2", 1), ("memory-channel-2", 500)]
    {
        let mut crew = mortal(name, (2, 3), "0");
        let taken = Rc::new(RefCell::new(Vec::new()));
        start(&mut crew, |me| {
            let taken = Rc::clone(&taken);
            async move {
                me.compute(US * delay).await;
                if me.rank() == 0 {
                    let written = me.conditional_write(3, 0, 1, WORD).await;
                    taken.borrow_mut().push(written.value);
                    assert_eq!(me.departed(), [3]);
                }
            }
        });
        finish(crew).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(taken.take(), [0], "{name}");
    }
    for delay in [1, 500] {
        let mut crew = mortal("memory-channel-2", (2, 3), "0");
        start(&mut crew, |me| async move {
            me.compute(US * delay).await;
            match me.rank() {
                0 => drop(me.read(3, 0, WORD).await),
                1 => drop(me.receive(3, 0).await),
                _ => {}
            }
        });
        let stuck = finish(crew).expect_err("nobody answers");
        let waits = ["rank 1 waits for a message of rank 3", "in the memory of rank 3"];
        assert!(waits.iter().all(|text| stuck.contains(text)), "{stuck}");
    }
}

/// A lock that rank 0 serves: its holder dies, and the next one has it when the server is told.
#[test]
fn a_served_lock_outlives_its_holder_and_those_who_wait() {
    for name in ["memory-channel-1", "memory-channel-2"] {
        for node in [1, 2] {
            let mut crew = mortal(name, (100, node), "0");
            let server = crew.nodes().swap_remove(0);
            crew.serve_locks(&server);
            let held = Rc::new(RefCell::new(Vec::new()));
            start(&mut crew, |me| {
                let held = Rc::clone(&held);
                async move {
                    // Rank 1 has it at first, 2 and 3 wait behind it in this order.
                    me.compute(US * (10 * u64::from(me.rank()) + 1)).await;
                    if me.rank() == 0 {
                        return;
                    }
                    me.lock(0, 7).await;
                    held.borrow_mut().push((me.rank(), me.now()));
                    me.compute(US * 150).await;
                    me.unlock(0, 7).await;
                }
            });
            finish(crew).unwrap_or_else(|error| panic!("{name}: {error}"));
            let held = held.take();
            let ranks: Vec<u16> = held.iter().map(|(rank, _)| *rank).collect();
            assert_eq!(ranks, if node == 1 { vec![1, 2, 3] } else { vec![1, 3] }, "{name}");
            // Dead at 100 us, isolated within the time-out and a heartbeat.
            let next = held[1].1.0 / US.0;
            assert!(node == 2 || (140..190).contains(&next), "{name}: {next} us");
        }
    }
}

/// Rank 1 has the lock until 100 us; rank 2, which never had it, gives it back at 50.
#[test]
fn a_served_lock_is_given_back_by_its_holder_alone() {
    let mut crew = crew("memory-channel-2", "", &["system.hosts=4"]);
    let server = crew.nodes().swap_remove(0);
    crew.serve_locks(&server);
    let held = Rc::new(RefCell::new(Time::ZERO));
    start(&mut crew, |me| {
        let held = Rc::clone(&held);
        async move {
            match me.rank() {
                1 => {
                    me.lock(0, 7).await;
                    me.compute(Time(100_000_000).since(me.now())).await;
                    me.unlock(0, 7).await;
                }
                2 => {
                    me.compute(US * 50).await;
                    me.unlock(0, 7).await;
                }
                3 => {
                    me.compute(US * 20).await;
                    me.lock(0, 7).await;
                    *held.borrow_mut() = me.now();
                }
                _ => {}
            }
        }
    });
    finish(crew).unwrap_or_else(|error| panic!("{error}"));
    assert!(held.take() > Time(100_000_000));
}

/// Every rank takes the lock of ordered broadcasts again and again; the holders at each instant.
fn bid(name: &str, death: (u64, u16), errors: &str) -> Result<BTreeMap<u16, u32>, String> {
    let mut crew = mortal(name, death, errors);
    crew.keep_ordered_lock();
    let holders = Rc::new(RefCell::new(BTreeSet::new()));
    let taken = Rc::new(RefCell::new(BTreeMap::new()));
    start(&mut crew, |me| {
        let (holders, taken) = (Rc::clone(&holders), Rc::clone(&taken));
        async move {
            let mut lock = OrderedLock::new(me.clone(), US * 7).expect("the hub keeps an order");
            for _ in 0..12 {
                lock.acquire().await;
                // A rank that died with the lock is the only other one that may still be in the set.
                let is_dead = me.now() >= Time::ZERO + US * death.0;
                let mut now = holders.borrow().clone();
                now.retain(|rank| !is_dead || *rank != death.1);
                assert_eq!(now, BTreeSet::new(), "beside rank {} at {}", me.rank(), me.now());
                holders.borrow_mut().insert(me.rank());
                *taken.borrow_mut().entry(me.rank()).or_default() += 1;
                me.compute(US * 5).await;
                holders.borrow_mut().remove(&me.rank());
                lock.release().await;
            }
        }
    });
    finish(crew)?;
    Ok(taken.take())
}

/// Rank 0 has the lock of ordered broadcasts when it dies; it was the manager, too.
#[test]
fn an_ordered_lock_outlives_its_holder() {
    for name in ["memory-channel-1", "memory-channel-2"] {
        let mut crew = mortal(name, (50, 0), "0");
        crew.keep_ordered_lock();
        let times = Rc::new(RefCell::new(Vec::new()));
        start(&mut crew, |me| {
            let times = Rc::clone(&times);
            async move {
                let mut lock = OrderedLock::new(me.clone(), US * 2).expect("an order");
                me.compute(US * (1 + 20 * u64::from(me.rank().min(1)))).await;
                lock.acquire().await;
                times.borrow_mut().push((me.rank(), me.now().0 / US.0));
                assert!(lock.is_held());
                if me.rank() == 0 {
                    me.compute(US * 1_000_000).await;
                }
                lock.release().await;
            }
        });
        finish(crew).unwrap_or_else(|error| panic!("{name}: {error}"));
        let times = times.take();
        let ranks: BTreeSet<u16> = times.iter().map(|(rank, _)| *rank).collect();
        assert_eq!((times[0].0, times.len(), ranks.len()), (0, 4, 4), "{name}: {times:?}");
        assert!((90..160).contains(&times[1].1), "{name}: {times:?}");
    }
}

/// Rank 2 has the lock and dies; the manager dies before it hears of that, and the next one clears the
/// bids of both when it is the manager.
#[test]
fn the_next_manager_clears_what_the_last_one_left() {
    for name in ["memory-channel-1", "memory-channel-2"] {
        let mut crew = mortals(name, &[(50, 2), (100, 0)], "0");
        crew.keep_ordered_lock();
        let times = Rc::new(RefCell::new(Vec::new()));
        start(&mut crew, |me| {
            let times = Rc::clone(&times);
            async move {
                let mut lock = OrderedLock::new(me.clone(), US * 5).expect("an order");
                me.compute(US * if me.rank() == 2 { 1 } else { 21 }).await;
                lock.acquire().await;
                times.borrow_mut().push((me.rank(), me.now().0 / US.0));
                me.compute(US * if me.rank() == 2 { 1_000 } else { 10 }).await;
                lock.release().await;
            }
        });
        finish(crew).unwrap_or_else(|error| panic!("{name}: {error}"));
        let times = times.take();
        let ranks: BTreeSet<u16> = times.iter().map(|(rank, _)| *rank).collect();
        assert_eq!((times[0].0, times.len()), (2, 3), "{name}: {times:?}");
        assert_eq!(ranks, BTreeSet::from([1, 2, 3]), "{name}: {times:?}");
        // The manager is isolated within the time-out and a heartbeat.
        assert!(times[1].1 >= 140, "{name}: {times:?}");
    }
}

/// Rank 0 has the lock until 65 us. Rank 1 waits 20 and 40 us after its failed bids of 10 us, rank 2
/// waits 30 and 60; a bid takes less than 5.
#[test]
fn each_rank_backs_off_for_a_time_of_its_own() {
    let mut crew = crew("memory-channel-2", "", &["system.hosts=4"]);
    let times = Rc::new(RefCell::new(BTreeMap::new()));
    start(&mut crew, |me| {
        let times = Rc::clone(&times);
        async move {
            let mut lock = OrderedLock::new(me.clone(), US * 10).expect("an order");
            if me.rank() == 3 {
                return;
            }
            me.compute(US * if me.rank() == 0 { 0 } else { 10 }).await;
            lock.acquire().await;
            times.borrow_mut().insert(me.rank(), me.now().0 / US.0);
            if me.rank() == 0 {
                me.compute(Time(65_000_000).since(me.now())).await;
            }
            lock.release().await;
        }
    });
    finish(crew).unwrap_or_else(|error| panic!("{error}"));
    let times = times.take();
    assert!((70..85).contains(&times[&1]), "{times:?}");
    assert!((100..115).contains(&times[&2]), "{times:?}");
}

/// What a rank waits for by number is the one of that number, also if it is known already; a program
/// whose ranks wait for nothing else is not stuck while it will be told.
#[test]
fn departures_are_told_by_number() {
    let mut crew = mortals("memory-channel-2", &[(20, 3), (300, 2)], "0");
    let told = Rc::new(RefCell::new(Vec::new()));
    start(&mut crew, |me| {
        let told = Rc::clone(&told);
        async move {
            match me.rank() {
                0 => {
                    me.compute(US * 30).await;
                    let first = me.departure(0).await;
                    me.compute(Time(310_000_000).since(me.now())).await;
                    let second = me.departure(1).await;
                    told.borrow_mut().extend([first.from, second.from]);
                    assert_eq!((me.departure(0).await.from, me.departed()), (3, vec![3, 2]));
                }
                1 => {
                    let second = me.departure(1).await;
                    told.borrow_mut().push(second.from);
                }
                _ => {}
            }
        }
    });
    finish(crew).unwrap_or_else(|error| panic!("{error}"));
    let mut told = told.take();
    told.sort_unstable();
    assert_eq!(told, [2, 2, 3]);
}

/// Whatever a rank does that dies, and whatever was asked of it: what the others wait for afterwards
/// and never get is told.
#[test]
fn a_program_that_is_stuck_after_a_death_is_told() {
    for name in ["memory-channel-1", "memory-channel-2"] {
        // What the rank began is in flight when it dies, or has not left it.
        for (at, last) in (0..5).flat_map(|last| [(17_500_000, last), (19_700_000, last)]) {
            let mut crew = mortal(name, (20, 2), "0");
            start(&mut crew, |me| async move {
                let is_gone = me.rank() == 2;
                me.compute(Span(if is_gone { at } else { 17_500_000 })).await;
                match (last, me.rank()) {
                    (0, 2) => drop(me.conditional_write(1, 3, 1, WORD).await),
                    (1, 2) => drop(me.read(1, 3, WORD).await),
                    (2, 1) => drop(me.conditional_write(2, 3, 1, WORD).await),
                    // At 4 another one does not come either.
                    (3, _) | (4, 0..3) => {
                        me.compute(US * if is_gone { 0 } else { 400 }).await;
                        me.barrier_of_channel().expect("the hub keeps one").await;
                    }
                    _ => {}
                }
                if me.rank() == 0 {
                    me.compute(US * 500).await;
                    me.receive(1, 0).await;
                }
            });
            let stuck = finish(crew).expect_err("nobody sends anything");
            assert!(stuck.contains("rank 0 waits"), "{name}, {last} at {at}: {stuck}");
        }
    }
}

/// Whatever its target has done of an operation when it dies, also if its adapter has answered and
/// its program has not looked: who asked goes on, and who then waits for nothing is told.
#[test]
fn an_operation_ends_wherever_its_target_dies() {
    // Without a read by the adapter the rank that died would have to answer.
    for (name, is_read) in
        [("memory-channel-1", false), ("memory-channel-2", false), ("memory-channel-2", true)]
    {
        for begin in 160..=202 {
            let mut crew = mortal(name, (20, 2), "0");
            start(&mut crew, |me| async move {
                me.compute(Span(begin * 100_000)).await;
                match (me.rank(), is_read) {
                    (1, true) => drop(me.read(2, 3, WORD).await),
                    (1, false) => drop(me.conditional_write(2, 3, 1, WORD).await),
                    _ => {}
                }
                if me.rank() == 0 {
                    me.compute(US * 500).await;
                    me.receive(1, 0).await;
                }
            });
            let stuck = finish(crew).expect_err("nobody sends anything");
            // A read has no other end than a value, which the dead do not give.
            let goes_on = is_read || !stuck.contains("rank 1 waits");
            let is_told = stuck.contains("rank 0 waits") && goes_on;
            assert!(is_told, "{name}, {is_read} at {begin}: {stuck}");
        }
    }
}

/// No rank reaches the first barrier before one is known to be gone.
#[test]
fn a_barrier_begins_without_those_who_are_gone() {
    for name in ["memory-channel-1", "memory-channel-2"] {
        let mut crew = mortal(name, (20, 1), "0");
        start(&mut crew, |me| async move {
            me.compute(US * 500).await;
            for _ in 0..3 {
                me.barrier_of_channel().expect("the hub keeps one").await;
            }
        });
        assert!(finish(crew).is_ok(), "{name}");
    }
}

/// Two hosts on one cable have no point of ordering: neither a barrier of the channel, with hosts in
/// front of it or without, nor a lock by ordered broadcast.
#[test]
fn a_cable_keeps_neither_barrier_nor_order() {
    let host = "channel.memory.host={ send = ['copy'], stage.copy.fixed = '500 ns' }";
    for with in [&[][..], &[host]] {
        let mut crew = crew("memory-channel-2", "virtual_hub", with);
        start(&mut crew, |me| async move {
            assert!(me.barrier_of_channel().is_none());
            assert!(OrderedLock::new(me.clone(), US).is_err());
            me.barrier().await;
        });
        assert!(finish(crew).is_ok());
    }
}

/// No rank passes a barrier before all ranks that are left have arrived, and all of them pass every
/// barrier, whichever ranks die when.
fn meet(name: &str, death: (u64, u16), errors: &str) -> Result<(), String> {
    const ROUNDS: u32 = 15;
    let mut crew = mortal(name, death, errors);
    let come = Rc::new(RefCell::new([0_u32; 4]));
    start(&mut crew, |me| {
        let come = Rc::clone(&come);
        async move {
            for round in 1..=ROUNDS {
                me.compute(US * (3 + 4 * u64::from((round + u32::from(me.rank())) % 4))).await;
                come.borrow_mut()[usize::from(me.rank())] = round;
                me.barrier_of_channel().expect("the hub keeps one").await;
                let gone = me.departed();
                let there = (0..4).filter(|rank| !gone.contains(rank));
                let all = there.map(|rank| come.borrow()[usize::from(rank)]).min();
                assert!(all >= Some(round), "rank {} passes {round}: {come:?}", me.rank());
            }
        }
    });
    finish(crew)?;
    let come = come.take();
    for rank in (0..4).filter(|rank| *rank != death.1) {
        assert_eq!(come[usize::from(rank)], ROUNDS);
    }
    Ok(())
}

#[test]
fn a_barrier_of_messages_does_not_survive_and_says_who_is_missed() {
    let mut crew = mortal("memory-channel-2", (20, 2), "0");
    start(&mut crew, |me| async move {
        for _ in 0..50 {
            me.barrier().await;
        }
    });
    let stuck = finish(crew).expect_err("one is gone");
    assert!(stuck.contains("waits for a message of rank 2"), "{stuck}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// MC-19 and MC-21: at most one has the lock, and all who are left have it as often as they want.
    #[test]
    fn at_most_one_rank_has_the_ordered_lock_and_all_others_go_on(
        name in prop::sample::select(vec!["memory-channel-1", "memory-channel-2"]),
        errors in prop::sample::select(vec!["0", "0.002", "0.01"]),
        at in 5_u64..500,
        node in 0_u16..4,
    ) {
        let taken = bid(name, (at, node), errors);
        prop_assert!(taken.is_ok(), "{taken:?}");
        for (rank, times) in taken.unwrap_or_default() {
            prop_assert!(rank == node || times == 12);
        }
    }

    /// MC-18 and MC-21: the barrier of the channel does not wait for hosts that are gone.
    #[test]
    fn the_barrier_of_the_channel_outlives_any_rank(
        name in prop::sample::select(vec!["memory-channel-1", "memory-channel-2"]),
        errors in prop::sample::select(vec!["0", "0.002", "0.01"]),
        at in 5_u64..400,
        node in 0_u16..4,
    ) {
        prop_assert_eq!(meet(name, (at, node), errors), Ok(()));
    }
}
