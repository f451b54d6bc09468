//! Programs over channels: times by hand, the same text everywhere, and what happens to a program
//! that waits for ever.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod beside;
mod both_channels;
mod cluster;
mod fast_forward;
mod files;
mod hosts;
mod memory;

use std::cell::RefCell;
use std::rc::Rc;

use weft_kernel::{Halt, Streams};
use weft_lab::assemble::{Driver, Site};
use weft_lab::program::{Crew, Machine, Node, Policy, ProgramError};
use weft_lab::{Plan, Request};
use weft_units::{Bytes, Span, Time};

/// Hosts around a crossbar: packets of 125 B that carry 100 B take 1 us, cables 20 ns, the switch
/// 10 ns. A packet is there 1.05 us after it was handed over.
pub const STAR: &str = "
[channel.c]
packet = '125 B'
payload = '100 B'
link = { rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }
adapter.send_buffers = 'unlimited'
switch.crossbar = { latency = '10 ns', contention = 'back_pressure' }
";

/// The same packets through a tree of small switches.
pub const TREE: &str = "
[channel.c]
packet = '125 B'
payload = '100 B'
link = { rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }
adapter.send_buffers = 'unlimited'
fabric.k_ary_tree = { arity = 2, levels = 2 }
routes.per_connection = 'hashed'
switch.output_queued.latency = '10 ns'
";

const PACKET: u64 = 1_000_000;
const WAY: u64 = PACKET + 50_000;

/// Ranks without a program yet, on the channel `c` of a text.
pub fn crew(hosts: u16, channel: &str) -> Crew<Driver> {
    Crew::new(machine(hosts, channel))
}

/// What moves their messages.
pub fn machine(hosts: u16, channel: &str) -> Machine<Driver> {
    let text = format!("[system]\ntitle = 'programs'\nhosts = {hosts}\n{channel}");
    let plan = Plan::new(&Request::of_text("program.toml", &text)).expect("a legal text");
    let settings = &plan.points[0].spec.channel["c"];
    let streams = Streams::new(1);
    let until = Time(1_000_000_000);
    let site = Site {
        name: "c",
        hosts: hosts.into(),
        streams: &streams,
        from: Time::ZERO,
        until,
        sample: None,
    };
    let driver = Driver::new(settings, None, site).expect("a legal channel");
    Machine::new(hosts, vec![("c".to_owned(), driver)], Policy::first(), true)
}

/// Notes of several ranks, in the order in which they were made.
pub type Log<T> = Rc<RefCell<Vec<T>>>;

/// Runs one program on every rank.
fn run<F: Future<Output = ()> + 'static>(
    crew: &mut Crew<Driver>,
    program: impl Fn(Node<Driver>) -> F,
) -> Result<Time, ProgramError> {
    for me in crew.nodes() {
        crew.start(me.clone(), program(me));
    }
    crew.run(&Halt::new())
}

#[test]
fn a_message_to_and_fro_in_exact_picoseconds() {
    let mut crew = crew(2, STAR);
    let log: Log<(u16, Time)> = Log::default();
    let end = run(&mut crew, |me| {
        let log = Rc::clone(&log);
        async move {
            if me.rank() == 0 {
                me.send(1, 7, Bytes(250)).await;
                log.borrow_mut().push((0, me.now()));
                let back = me.receive(1, None).await;
                assert_eq!((back.from, back.tag, back.size), (1, 8, Bytes(100)));
            } else {
                assert_eq!(me.receive(0, 7).await.size, Bytes(250));
                log.borrow_mut().push((1, me.now()));
                me.compute(Span(500)).await;
                me.send(0, 8, Bytes(100)).await;
            }
        }
    });
    // Three packets out, one back.
    let there = 3 * PACKET + 50_000;
    assert_eq!(*log.borrow(), [(0, Time(3 * PACKET)), (1, Time(there))]);
    assert_eq!(end, Ok(Time(there + 500 + WAY)));
    let machine = crew.into_machine();
    let spent = &machine.account().ranks()[0];
    assert_eq!(spent.sending, Span(3 * PACKET));
    assert_eq!(spent.waiting_for, [(Some(1), Span(50_000 + 500 + WAY))]);
    assert_eq!(machine.account().ranks()[1].computing, Span(500));
    assert_eq!(machine.account().passages().len(), 2);
}

#[test]
fn a_dissemination_barrier_takes_a_message_and_a_way_for_each_round() {
    // Five ranks: three rounds of one packet each, and no rank leaves before the last one arrived.
    let mut crew = crew(5, STAR);
    let left: Log<Time> = Log::default();
    let end = run(&mut crew, |me| {
        let left = Rc::clone(&left);
        async move {
            if me.rank() == 3 {
                me.compute(Span(9_000_000)).await;
            }
            me.barrier().await;
            left.borrow_mut().push(me.now());
        }
    });
    assert!(left.borrow().iter().all(|time| *time >= Time(9_000_000 + WAY)), "{left:?}");
    // What rank 3 tells reaches the last of the others in the third round.
    assert_eq!(end, Ok(Time(9_000_000 + 3 * WAY)));
    assert_eq!(crew.into_machine().messages(), 15);
}

#[test]
fn one_rank_at_a_time_holds_a_lock() {
    for channel in [STAR, TREE] {
        let mut crew = crew(4, channel);
        crew.serve_locks(&crew.nodes()[0]);
        let held: Log<(Time, Time)> = Log::default();
        let end = run(&mut crew, |me| {
            let held = Rc::clone(&held);
            async move {
                for _ in 0..5 {
                    me.lock(0, 3).await;
                    let begun = me.now();
                    me.compute(Span(70_000)).await;
                    held.borrow_mut().push((begun, me.now()));
                    me.unlock(0, 3).await;
                }
            }
        });
        assert!(end.is_ok(), "{end:?}");
        let held = held.borrow();
        assert_eq!(held.len(), 20);
        assert!(held.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{held:?}");
    }
}

#[test]
fn the_same_program_text_runs_on_every_channel() {
    let program = |me: Node<Driver>| async move {
        let next = (me.rank() + 1) % me.ranks();
        let before = (me.rank() + me.ranks() - 1) % me.ranks();
        for round in 0..10 {
            let sent = me.send(next, round, Bytes(330));
            me.receive(before, round).await;
            sent.await;
            me.barrier().await;
        }
    };
    let quick = "
[channel.c]
packet = '36 B'
payload = '32 B'
link = { rate = '0.528 Gbit/s', length = '5 m', delay_per_metre = '5 ns' }
adapter.send_buffers = 4
control.request_acknowledge = { timeout = '1.6 us', outstanding = 4, acknowledgment = '4 B' }
switch.crossbar = { latency = '90 ns', contention = 'drop' }";
    let slots = "
[channel.c]
packet = '125 B'
payload = '100 B'
link = { rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }
adapter.send_buffers = 2
switch.scheduled = { latency = '10 ns', lead = '300 ns', scheduler = 'least_choice_first' }";
    for channel in [STAR, TREE, quick, slots] {
        let once = run(&mut crew(4, channel), program).expect(channel);
        assert_eq!(run(&mut crew(4, channel), program), Ok(once));
    }
}

#[test]
fn a_program_that_waits_for_ever_says_who_waits_for_whom() {
    let stuck = run(&mut crew(3, STAR), |me| async move {
        let other = (me.rank() + 1) % 3;
        me.compute(Span(50)).await;
        me.receive(other, 4).await;
        me.send(other, 4, Bytes(1)).await;
    });
    let line = |rank, other| format!("rank {rank} waits for a message of rank {other} with tag 4");
    let waiting = vec![line(0, 1), line(1, 2), line(2, 0)];
    assert_eq!(stuck, Err(ProgramError::Deadlock { time: Time(50), waiting }));
}

#[test]
fn what_a_channel_loses_is_named_when_somebody_waits_for_it() {
    let lossy = STAR.replace("back_pressure", "drop");
    let stuck = run(&mut crew(3, &lossy), |me| async move {
        match me.rank() {
            0 => {
                me.receive(1, 0).await;
                me.receive(2, 0).await;
            }
            rank => {
                me.compute(Span(u64::from(rank))).await;
                me.send(0, 0, Bytes(9)).await;
            }
        }
    });
    let Err(ProgramError::Deadlock { waiting, .. }) = stuck else { panic!("{stuck:?}") };
    assert_eq!(waiting[0], "rank 0 waits for a message of rank 2 with tag 0");
    assert!(waiting[1].starts_with("channel c lost a message of 9 B from rank 2 to rank 0"));
}

#[test]
fn a_rank_that_there_is_not_is_refused() {
    let refused = run(&mut crew(2, STAR), |me| async move {
        me.send(2, 0, Bytes(1)).await;
    });
    assert_eq!(refused, Err(ProgramError::UnknownRank { rank: 0, other: 2, ranks: 2 }));
}

#[test]
fn the_oldest_message_that_fits_is_received() {
    let order: Log<u64> = Log::default();
    let end = run(&mut crew(3, STAR), |me| {
        let order = Rc::clone(&order);
        async move {
            match me.rank() {
                0 => {
                    me.compute(Span(20_000_000)).await;
                    for (from, tag) in [(None, Some(9)), (Some(2), None), (None, None)] {
                        let value = me.receive(from, tag).await.value;
                        order.borrow_mut().push(value);
                    }
                }
                rank => {
                    me.compute(Span(u64::from(rank) * 3_000_000)).await;
                    me.send_value(0, 8, Bytes(1), u64::from(rank)).await;
                    if rank == 2 {
                        me.send_value(0, 9, Bytes(1), 20).await;
                    }
                }
            }
        }
    });
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(*order.borrow(), [20, 2, 1]);
}

#[test]
fn a_dropped_operation_goes_on() {
    let end = run(&mut crew(2, STAR), |me| async move {
        if me.rank() == 0 {
            drop(me.send(1, 0, Bytes(100)));
            drop(me.receive(1, 5));
        } else {
            me.receive(0, 0).await;
        }
    });
    assert_eq!(end, Ok(Time(WAY)));
}
