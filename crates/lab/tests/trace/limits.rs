//! Where messages and clocks end: what does not fit is said, and nothing is free unseen.

use weft_fabric::host::MemorySettings;
use weft_kernel::Halt;
use weft_lab::program::Passage;
use weft_lab::trace::{Played, Schedule, play};
use weft_units::{Rate, Span, Time};

use super::{Driver, PACKET, WAY, goal, machine, run};

/// Picoseconds of 100 days, where a clock ends, and the same in the nanoseconds of GOAL.
const END: u64 = 8_640_000_000_000_000_000;
const END_NS: u64 = END / 1_000;

fn alone(body: &str) -> Schedule {
    goal(&format!("num_ranks 1\nrank 0 {{\n{body}\n}}\n"))
}

#[test]
fn a_clock_goes_to_its_end_and_no_further() {
    let all = alone(&format!("a: calc {END_NS}"));
    assert_eq!(run(&all).expect("an end").ends, [Time(END)]);
    let more = alone(&format!("a: calc {END_NS}\nb: calc 3\nb requires a"));
    assert_eq!(
        run(&more).expect_err("past the end").to_string(),
        "rank 0 (line 4) computes for 3 ns from 8640000 s on, which is past 8640000 s (100 days), \
         where the clock of a program ends"
    );
    let message = goal(&format!(
        "num_ranks 2\nrank 0 {{\na: calc {END_NS}\nb: send 8b to 1\nb requires a\n}}\n\
         rank 1 {{\nrecv 8b from 0\n}}\n"
    ));
    assert_eq!(
        run(&message).expect_err("past the end").to_string(),
        "at 8640000 s the program is not over, and its clock ends at 8640000 s (100 days)"
    );
}

#[test]
fn messages_that_are_not_received_are_refused_with_their_line() {
    let refused = |first: &str, second: &str| {
        let text = format!("num_ranks 2\nrank 0 {{\n{first}\n}}\nrank 1 {{\n{second}\n}}\n");
        let error = weft_lab::trace::goal::read(text.as_bytes()).expect_err(&text);
        error.to_string()
    };
    assert_eq!(
        refused("send 8b to 1 tag 3\nsend 8b to 1 tag 3", "recv 8b from 0 tag 3"),
        "line 4: rank 0 sends 2 messages to rank 1 with tag 3, which receives 1 such messages; \
         accepted: as many received as sent"
    );
    assert_eq!(
        refused("calc 1", "recv 8b from 0 tag 2"),
        "line 6: rank 0 sends 0 messages to rank 1 with tag 2, which receives 1 such messages; \
         accepted: as many received as sent"
    );
    assert!(refused("send 8b to 1 tag 1", "recv 8b from 0 tag 2").starts_with("line 3: rank 0"));
}

#[test]
fn a_message_that_is_longer_than_its_receive_is_refused_and_a_shorter_one_counted() {
    let of = |sent: u64, received: u64| {
        let text = format!(
            "num_ranks 2\nrank 0 {{\nsend {sent}b to 1 tag 7\n}}\nrank 1 {{\n\
             recv {received}b from 0 tag 7\n}}\n"
        );
        run(&goal(&text))
    };
    assert_eq!(
        of(1000, 500).expect_err("a message that does not fit").to_string(),
        "rank 1 (line 6) receives 500 B of a message of 1000 B that rank 0 sends with tag 7; \
         accepted: a receive of 1000 B or more"
    );
    let Played { ends, shorter, .. } = of(100, 500).expect("MPI takes it");
    assert_eq!((ends[1], shorter), (Time(WAY), 1), "one packet, as it was sent");
    assert_eq!(of(500, 500).expect("an end").shorter, 0);
}

#[test]
fn a_message_of_a_rank_to_itself_is_seen() {
    let schedule =
        alone("a: send 1000b to 0 tag 1\nb: recv 1000b from 0 tag 1\nc: calc 5\nc requires b");
    let passage = |delivered| Passage {
        from: 0,
        to: 0,
        offered: Time::ZERO,
        delivered: Time(delivered),
        size: 1000,
    };
    let played = run(&schedule).expect("an end");
    assert_eq!(played.ends, [Time(5_000)], "nothing says what a copy costs");
    assert_eq!((played.machine.messages(), played.machine.to_self()), (1, 1));
    assert_eq!(played.machine.account().passages(), [passage(0)]);
    assert_eq!(played.machine.copied(), None);

    // A byte a nanosecond, and 300 ns until the target has it: 1 us and 1.3 us.
    let rate = Rate::from_bits_per_second(8_000_000_000);
    let memory = MemorySettings { latency: Span(300_000), rate };
    let machine = machine(2).on_hosts(Some(memory), None);
    let played: Played<Driver> =
        play(&schedule, machine, &Halt::new(), &mut |_, _| true).expect("an end");
    assert_eq!(played.ends, [Time(1_300_000 + 5_000)]);
    assert_eq!((played.machine.messages(), played.machine.to_self()), (1, 1));
    assert_eq!(played.machine.account().passages(), [passage(1_300_000)]);
    assert_eq!(played.machine.account().ranks()[0].sending, Span(PACKET), "the copy, of 1 us");
    assert_eq!(played.machine.copied(), Some(1));
}
