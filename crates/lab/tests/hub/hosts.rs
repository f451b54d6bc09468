//! Several ranks on a host of a hub: the barrier of its hosts, the order that its hosts see, hosts
//! that die with all their ranks.

use std::cell::RefCell;
use std::rc::Rc;

use weft_fabric::host::MemorySettings;
use weft_kernel::{Halt, Streams};
use weft_lab::assemble::{Driver, Site};
use weft_lab::drive::carrier::Destination;
use weft_lab::program::{Crew, Machine, Policy};
use weft_lab::{Plan, Request};
use weft_units::{Bytes, Rate, Span};

use super::run;

const MEMORY: &str = "system.memory={ latency = '300 ns', rate = '1 GB/s' }";

fn measured(overrides: &[&str], column: &str) -> f64 {
    let run = run("memory-channel-2", "", overrides);
    let found = run.counters.iter().find(|(name, _)| name == column);
    found.unwrap_or_else(|| panic!("no {column} in {:?}", run.counters)).1
}

/// Ranks on hosts of Memory Channel 2, in whose memory a byte takes a nanosecond, and 300 ns more.
fn placed(hosts: &[u16], overrides: &[&str]) -> Crew<Driver> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let plan = Plan::new(&Request::new("memory-channel-2", None, &overrides));
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let spec = &plan.points[0].spec;
    let streams = Streams::new(1);
    let (from, until) = (weft_units::Time::ZERO, weft_units::Time(1_000_000_000));
    let (name, parts) = spec.channel.iter().next_back().expect("a channel");
    let site =
        Site { name, hosts: spec.system.hosts, streams: &streams, from, until, sample: None };
    let driver = Driver::new(parts, None, site).unwrap_or_else(|error| panic!("{error}"));
    let channels = vec![(name.clone(), driver)];
    let machine = Machine::new(hosts.len() as u16, channels, Policy::first(), true);
    let rate = Rate::from_bits_per_second(8_000_000_000);
    let memory = MemorySettings { latency: Span(300_000), rate };
    Crew::new(machine.placed(hosts.to_vec()).on_hosts(Some(memory), None))
}

/// The hosts are at their barrier when the others of each have told its first rank, which is told
/// first, and tells them.
#[test]
fn ranks_of_a_host_meet_before_the_barrier_of_hosts_and_part_behind_it() {
    let barrier = "program.run.barrier={ rounds = 1, by = 'channel' }";
    let four = ["system.hosts=4", barrier];
    let alone = measured(&four, "program_barrier_max_us");
    for placement in ["block", "cyclic"] {
        let placement = format!("program.placement='{placement}'");
        let shared = [&four[..], &[MEMORY, &placement, "program.ranks_per_host=3"]].concat();
        let [least, most] =
            ["min", "max"].map(|name| measured(&shared, &format!("program_barrier_{name}_us")));
        assert!((least - alone - 0.3).abs() < 1e-9, "{placement}: {least} {alone}");
        assert!((most - alone - 0.6).abs() < 1e-9, "{placement}: {most} {alone}");
        // Two of three ranks on each host notify the first, and are notified.
        assert_eq!(measured(&shared, "program_memory_messages"), 16.0);
    }
    let many = ["program.run.barrier={ rounds = 20, by = 'channel' }", "system.hosts=4"];
    let shared = [&many[..], &[MEMORY, "program.ranks_per_host=3"]].concat();
    assert_eq!(measured(&shared, "program_memory_messages"), 20.0 * 16.0);
}

#[test]
fn one_lock_over_ranks_that_share_hosts_is_held_by_one() {
    let lock = "program.run.ordered_lock={ rounds = 4, hold = '2 us', back_off = '2 us' }";
    let shared = ["system.hosts=3", MEMORY, "program.ranks_per_host=2", lock];
    let time = measured(&shared, "program_time_us");
    assert!(time > 6.0 * 4.0 * 2.0, "{time}");
    let one = ["system.hosts=3", MEMORY, "program.placement.hosts=[1, 1]", lock];
    let refused = super::try_run("memory-channel-2", "", &one).map(drop);
    let error = refused.expect_err("nothing orders what stays in a host").to_string();
    assert!(error.contains("ranks, on more than one host"), "{error}");
}

/// One broadcast is in the memory of each host: its ranks see it together, those of the initiator's
/// host at the place that it has in the order of the hub.
#[test]
fn a_broadcast_reaches_all_ranks_of_a_host_at_once() {
    let mut crew = placed(&[0, 0, 1, 1, 2], &["system.hosts=3"]);
    let seen = Rc::new(RefCell::new(vec![0; 5]));
    for me in crew.nodes() {
        let seen = Rc::clone(&seen);
        crew.start(me.clone(), async move {
            if me.rank() == 0 {
                me.store_to(Destination::Hosts(0b11111), 7, 1, Bytes(4)).await;
            }
            me.until(7, 1).await;
            seen.borrow_mut()[usize::from(me.rank())] = me.now().0;
        });
    }
    crew.run(&Halt::new().with_step_limit(Some(1_000_000)))
        .unwrap_or_else(|error| panic!("{error}"));
    let seen = seen.take();
    assert!(seen[0] > 0 && seen.iter().all(|time| *time == seen[0]), "{seen:?}");
    let machine = crew.into_machine();
    assert_eq!((machine.messages(), machine.copied()), (4, Some(0)), "all through the hub");
}

#[test]
fn a_host_takes_all_its_ranks_with_it() {
    let cluster = "channel.memory.window.cluster={ heartbeat = '20 us', time_out = '60 us', \
                   retry = '40 us', events = [{ at = '50 us', what = { dies = 1 } }] }";
    let mut crew = placed(&[0, 1, 2, 0, 1, 2], &["system.hosts=4", cluster]);
    crew.nodes().first().into_iter().for_each(|server| crew.serve_locks(server));
    let told = Rc::new(RefCell::new(vec![Vec::new(); 6]));
    for me in crew.nodes() {
        let told = Rc::clone(&told);
        crew.start(me.clone(), async move {
            if me.rank() == 4 {
                // It dies while it holds the lock.
                me.lock(0, 0).await;
                me.compute(Span(1_000_000_000)).await;
            }
            for number in 0..2 {
                let gone = me.departure(number).await.from;
                told.borrow_mut()[usize::from(me.rank())].push(gone);
            }
            me.lock(0, 0).await;
            me.unlock(0, 0).await;
        });
    }
    crew.run(&Halt::new().with_step_limit(Some(1_000_000)))
        .unwrap_or_else(|error| panic!("{error}"));
    let none = Vec::new();
    let both = vec![1, 4];
    let expected = [&both, &none, &both, &both, &none, &both].map(Clone::clone);
    assert_eq!(*told.borrow(), expected);
}

/// The first ranks of the remaining hosts arrive for all; the barrier does not wait for the dead
/// host.
#[test]
fn a_barrier_outlives_a_host_of_several_ranks() {
    let cluster = "channel.memory.window.cluster={ heartbeat = '20 us', time_out = '60 us', \
                   retry = '40 us', events = [{ at = '50 us', what = { dies = 1 } }] }";
    let mut crew = placed(&[0, 1, 2, 3, 0, 1, 2, 3], &["system.hosts=4", cluster]);
    let left = Rc::new(RefCell::new(Vec::new()));
    for me in crew.nodes() {
        let left = Rc::clone(&left);
        crew.start(me.clone(), async move {
            // One rank of the host that dies is there, the other one never comes.
            if me.rank() == 5 {
                me.compute(Span(1_000_000_000)).await;
            }
            me.barrier_of_channel().expect("a hub keeps one").await;
            left.borrow_mut().push(me.rank());
        });
    }
    crew.run(&Halt::new().with_step_limit(Some(1_000_000)))
        .unwrap_or_else(|error| panic!("{error}"));
    let mut left = left.take();
    left.sort_unstable();
    assert_eq!(left, [0, 2, 3, 4, 6, 7]);
}
