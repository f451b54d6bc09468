//! Traces: what they say, what is refused with its line, and what running them shows.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod chakra;
mod collectives;
mod flows;
mod independent_words;
mod limits;
mod mutations;
mod peers;

use weft_kernel::Halt;
use weft_lab::assemble::Driver;
use weft_lab::program::{Machine, ProgramError};
use weft_lab::trace::{Played, Schedule, Sent, goal, independent, play};
use weft_units::{Bytes, Span, Time};

use crate::program;

/// Packets of 125 B that carry 100 B take 1 us, cables 20 ns, the switch 10 ns.
const STAR: &str = "
[channel.c]
packet = '125 B'
payload = '100 B'
link = { rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }
adapter.send_buffers = 'unlimited'
switch.crossbar = { latency = '10 ns', contention = 'back_pressure' }
";

const PACKET: u64 = 1_000_000;
const WAY: u64 = PACKET + 50_000;

fn machine(hosts: u16) -> Machine<Driver> {
    program::machine(hosts, STAR)
}

fn run(schedule: &Schedule) -> Result<Played<Driver>, ProgramError> {
    play(schedule, machine(schedule.ranks.len().max(2) as u16), &Halt::new(), &mut |_, _| true)
}

fn goal(text: &str) -> Schedule {
    goal::read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// This many messages, with this much payload in total.
fn messages(messages: u64, payload: u64) -> Sent {
    Sent { messages, payload: Bytes(payload) }
}

#[test]
fn a_goal_trace_in_exact_picoseconds() {
    let schedule = goal(
        "# a remark\nnum_ranks 2\nrank 0 {\n  l1: calc 100 cpu 0 // ns\n\
         l2: send 150b to 1 tag 3 cpu 0 nic 0\nl2 requires l1\n}\n\
         rank 1 {\nready: recv 150b from 0 tag 3\nl5: calc 40\nl5 requires ready\n\
         l6: calc 2000 cpu 1\n}\n",
    );
    assert_eq!((schedule.len(), schedule.traffic().messages), (5, 1));
    let played = run(&schedule).expect("an end");
    let there = 100_000 + 2 * PACKET + 50_000;
    assert_eq!(played.ends, [Time(100_000 + 2 * PACKET), Time(there + 40_000)]);
    let spent = played.machine.account().ranks();
    assert_eq!((spent[0].computing, spent[0].sending), (Span(100_000), Span(2 * PACKET)));
    // The second processor of rank 1 computes until 2 us; it waits only from then on.
    assert_eq!(spent[1].computing, Span(2_000_000 + 40_000));
    assert_eq!(spent[1].waiting_for, [(Some(0), Span(there - 2_000_000))]);
}

#[test]
fn what_begins_is_not_what_is_over() {
    let with = |verb: &str| {
        let text = format!(
            "num_ranks 2\nrank 0 {{\na: send 100b to 1\nb: calc 10\nb {verb} a\n}}\n\
             rank 1 {{\nc: recv 100b from 0\n}}\n"
        );
        run(&goal(&text)).expect("an end").ends[0]
    };
    assert_eq!(with("requires"), Time(PACKET + 10_000));
    assert_eq!(with("irequires"), Time(PACKET), "beside the message");
}

#[test]
fn computations_of_one_processor_follow_each_other() {
    let schedule = goal(
        "num_ranks 1\nrank 0 {\na: calc 10\nb: calc 20\nc: calc 5 cpu 1\nd: calc 1 cpu 1\n\
         d requires b\n}\n",
    );
    assert_eq!(run(&schedule).expect("an end").ends, [Time(31_000)]);
}

#[test]
fn a_trace_that_cannot_be_meant_is_refused_with_its_line() {
    let rank = |body: &str| format!("num_ranks 2\nrank 0 {{\n{body}\n}}\n");
    let cases = [
        (rank("a: send 8b to 2"), "line 3: rank 2 where 0 to 1 are accepted"),
        (rank("a: send 8k to 1"), "line 3: `8k` where a number of bytes such as `8b`"),
        (rank("a: send 8b from 1"), "line 3: `from` where `to`"),
        (rank("a: calc 8ns"), "line 3: `8ns` where a number of nanoseconds"),
        (rank("a: calc 8640000000000001"), "where a number of nanoseconds without unit, no more"),
        (rank("a: send 8b to 1 core 1"), "line 3: `core` where `tag N`, `cpu N` or `nic N`"),
        (rank("a: calc 8 nic 1"), "line 3: `nic` where `cpu N`"),
        (rank("a: calc 8 cpu 1 cpu 2"), "line 3: `cpu` was given before"),
        (rank("a: calc 8 cpu 256"), "line 3: `cpu 256` where `cpu N`, a number from 0 to 255"),
        (rank("a: send 8b to 1 tag"), "line 3: `tag ` where `tag N`, a number from 0 to 42949"),
        ("num_ranks 1\nrank 0 {\n} 7\n".to_owned(), "line 3: `7` where the end of the line"),
        (
            rank("a: send 68719476737b to 1"),
            "line 3: a message of 68719476737 B where up to 64 GiB (2^36 B) are accepted",
        ),
        (rank("a: put 8b to 1"), "line 3: `put` where `send`, `recv` or `calc`"),
        (rank("a: calc 8 core 1"), "line 3: `core` where `cpu N`"),
        (rank("a: calc 1\na: calc 2"), "line 4: `a` was given before"),
        (rank("l7: calc 1\nl7: calc 2"), "line 4: `l7` was given before"),
        (rank("a: calc 1\na requires b"), "line 4: no operation of this rank is called `b`"),
        (
            rank("a: calc 1\nb: calc 1\nc: calc 1\nb requires c\nc irequires b\na requires b"),
            "rank 0: the operations of the lines 3, 4, 5 wait for each other",
        ),
        (format!("{}rank 0 {{\n}}\n", rank("")), "line 5: `rank 0` was given before"),
        ("rank 0 {".to_owned(), "line 1: `rank` where `num_ranks N`"),
        (
            "0 init\n".to_owned(),
            "line 1: `0` where `num_ranks N`; a trace of SimGrid is run with a",
        ),
        ("num_ranks 0".to_owned(), "line 1: `0` where a number of ranks from 1"),
        ("num_ranks 2\nrank 0 {\n".to_owned(), "the trace ends where `}` is accepted"),
        (String::new(), "the trace ends where `num_ranks N` is accepted"),
    ];
    for (text, expected) in cases {
        let error = goal::read(text.as_bytes()).expect_err(&text).to_string();
        assert!(error.contains(expected), "{error}\nlacks: {expected}");
    }
}

#[test]
fn ranks_that_wait_for_each_other_are_named_with_their_lines() {
    let rank = |rank: u16, other: u16| {
        format!(
            "rank {rank} {{\na: recv 8b from {other} tag 2\nb: send 8b to {other} tag 2\n\
             b requires a\n}}\n"
        )
    };
    let schedule = goal(&format!("num_ranks 2\n{}{}", rank(0, 1), rank(1, 0)));
    let Err(ProgramError::Deadlock { waiting, time }) = run(&schedule) else { panic!("an end") };
    assert_eq!(
        waiting,
        [
            "rank 0 waits for a message of rank 1 with tag 2 (line 3)",
            "rank 1 waits for a message of rank 0 with tag 2 (line 8)"
        ]
    );
    assert_eq!(time, Time::ZERO);
}

#[test]
fn a_time_independent_trace_in_exact_picoseconds() {
    let text = "0 init\n1 init\n0 compute 1e3 # a microsecond\n0 isend 1 100\n0 irecv 1 5 100\n\
                1 recv 0 1e2\n1 compute 500\n1 send 0 5 100 6\n0 waitall\n0 compute 2e3\n\
                0 finalize\n1 finalize\n";
    let schedule = independent::read(text.as_bytes(), 2, 1e9).expect("a legal text");
    let played = run(&schedule).expect("an end");
    let back = 1_000_000 + WAY + 500_000 + WAY;
    assert_eq!(played.ends, [Time(back + 2_000_000), Time(back - 50_000)]);
}

#[test]
fn collectives_of_a_time_independent_trace_wait_for_all_ranks() {
    let text: String = (0..3)
        .map(|rank| {
            format!(
                "{rank} compute {}\n{rank} barrier\n{rank} allReduce 80 1e3\n\
                 {rank} bcast 100 2\n{rank} reduce 8 0 1\n{rank} allToAll 10 10\n\
                 {rank} gather 4 4\n{rank} scatter 4 4 1\n{rank} gatherV {own} 4 5 6 2 6 6\n\
                 {rank} scatterV 4 5 6 {own} 0\n{rank} allGather 10 10\n\
                 {rank} allgatherv {own} 4 5 6\n{rank} reduceScatter 4 5 6 1e3 6\n",
                rank * 5000,
                own = 4 + rank
            )
        })
        .collect();
    let schedule = independent::read(text.as_bytes(), 3, 1e9).expect("a legal text");
    let first = (6 + 4 + 2 + 2 + 6 + 2, 6 + 4 * 80 + 2 * 100 + 2 * 8 + 6 * 10 + 2 * 4);
    // What the root has itself is not sent: 6 of gatherV and 4 of scatterV.
    let second = (2 + 2 + 2 + 6 + 6 + 6, 2 * 4 + (4 + 5) + (5 + 6) + 6 * 10 + 2 * 15 + 2 * 15);
    assert_eq!(schedule.traffic(), messages(first.0 + second.0, first.1 + second.1));
    let played = run(&schedule).expect("an end");
    assert!(played.ends.iter().all(|end| *end > Time(10_000_000)), "{:?}", played.ends);
    assert_eq!(played.machine.account().ranks()[0].computing, Span(2_000_000));
}

#[test]
fn a_time_independent_trace_that_cannot_be_meant_is_refused() {
    let cases = [
        ("0 send 4 10\n", "line 1: rank 4 where 0 to 1 are accepted"),
        ("0 init\n0 send 1 10kB\n", "line 2: `10kB` where a number of elements, whole and"),
        ("num_ranks 2\n", "line 1: `num_ranks` where the number of a rank; a GOAL text is run"),
        ("0 wait\n", "line 1: `wait` where an open request"),
        ("0 sleep 4\n", "line 1: `sleep` where init, finalize"),
        (
            "0 barrier\n1 bcast 5\n",
            "line 2: `broadcast of 5 B, root 0` where `barrier` as in line 1",
        ),
        ("0 compute -1\n", "line 1: `-1` where a number of instructions"),
        ("0 gatherV 1 4\n", "line 1: `` where a number of elements"),
        ("0 gatherV 4 4 4 2\n", "line 1: rank 2 where 0 to 1 are accepted"),
    ];
    for (text, expected) in cases {
        let error = independent::read(text.as_bytes(), 2, 1e9).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}\nlacks: {expected}");
    }
}
