//! The words of SimGrid's time-independent traces: data types, names of requests, ranks.

use weft_lab::trace::settings::TraceSettings;
use weft_lab::trace::{Action, Schedule, independent};
use weft_units::{Bytes, Time};

use super::{PACKET, WAY, messages, run};

fn read(text: &str, ranks: u16) -> Schedule {
    independent::read(text.as_bytes(), ranks, 1e9).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str, ranks: u16) -> String {
    independent::read(text.as_bytes(), ranks, 1e9).expect_err(text).to_string()
}

/// The messages that are sent, in order of ranks and lines.
fn sent(schedule: &Schedule) -> Vec<u64> {
    let all = schedule.ranks.iter().flat_map(|script| script.operations());
    let size = |own: &weft_lab::trace::Operation| match own.action {
        Action::Send { size, .. } => Some(size.0),
        _ => None,
    };
    all.filter_map(size).collect()
}

#[test]
fn a_count_is_taken_times_the_size_of_its_type() {
    // 1000 doubles are 8000 B, which are 80 packets of 1 us, the last 50 ns under way.
    let text = "0 init\n1 init\n0 send 1 0 1000 0\n1 recv 0 0 1000 0\n";
    let played = run(&read(text, 2)).expect("an end");
    assert_eq!(played.ends, [Time(80 * PACKET), Time(80 * PACKET + 50_000)]);
    // Sizes in C on a machine with 64-bit pointers.
    let types = [
        (0, 8),   // MPI_DOUBLE
        (1, 4),   // MPI_INT
        (2, 1),   // MPI_CHAR
        (3, 2),   // MPI_SHORT
        (4, 8),   // MPI_LONG
        (5, 4),   // MPI_FLOAT
        (6, 1),   // MPI_BYTE
        (14, 16), // MPI_LONG_DOUBLE
        (26, 16), // MPI_C_DOUBLE_COMPLEX
        (34, 8),  // MPI_2INT
        (53, 1),  // MPI_PACKED
        (55, 8),  // MPI_COUNT
    ];
    for (number, size) in types {
        let text = format!("0 isend 1 3 10 {number}\n1 recv 0 3 10 {number}\n");
        assert_eq!(sent(&read(&text, 2)), [10 * size], "type {number}");
    }
    for word in ["40", "44", "51", "54", "56", "-1", "MPI_INT", "+1", "1.0"] {
        let error = refused(&format!("0 send 1 3 10 {word}\n"), 2);
        assert!(error.contains(&format!("line 1: `{word}` where the number of a data type")));
    }
}

#[test]
fn the_type_of_counts_without_one_is_that_of_init() {
    let with = |init: &str| {
        let text = format!("0 {init}\n1 {init}\n0 send 1 0 10\n1 recv 0 0 10\n");
        sent(&read(&text, 2))
    };
    assert_eq!((with("init"), with("init 1")), (vec![10], vec![80]));
    let error = refused("0 init\n1 init 1\n", 2);
    assert!(error.contains("line 2: `init, for counts of double` where `init` as the lines"));
    // Bytes were taken for granted in line 1.
    assert!(refused("0 send 1 0 10\n0 init 1\n", 2).starts_with("line 2: "));
}

#[test]
fn two_types_of_a_collective_are_the_same_bytes_or_refused() {
    let all = |line: &str| format!("0 {line}\n1 {line}\n");
    // Two doubles are 16 B, and so are four integers and sixteen bytes.
    for (line, size) in [("allGather 2 4 0 1", 16), ("allToAll 2 16 0 6", 16)] {
        assert_eq!(sent(&read(&all(line), 2)), [size, size], "{line}");
    }
    let error = refused(&all("allGather 2 2 0 6"), 2);
    assert!(error.contains("line 1: `16 B sent and 2 B received` where as many bytes"), "{error}");
    // What the others would receive from a gather, and the root would get from itself, is not read.
    let text = "0 gather 4 4 0 0 0\n1 gather 4 0 0 0 6\n";
    assert_eq!(sent(&read(text, 2)), [32]);
    let text = "0 scatter 4 8 0 0 1\n1 scatter 0 8 0 6 1\n";
    assert_eq!(sent(&read(text, 2)), [32]);
    let error = refused("0 gather 4 5 0 0 0\n", 2);
    assert!(error.contains("`32 B sent and 40 B received`"), "{error}");
}

#[test]
fn what_a_rank_computes_in_a_collective_is_its_own() {
    // Two ranks reduce 100 B: rank 1 sends one packet, which is there after 1.05 us.
    let text = "0 reduce 100 3000\n1 reduce 100 5000\n";
    let played = run(&read(text, 2)).expect("an end");
    assert_eq!(played.ends, [Time(WAY + 3_000_000), Time(PACKET + 5_000_000)]);
}

#[test]
fn a_wait_is_for_the_request_that_it_names() {
    let text = "0 init\n1 init\n2 init\n0 irecv 1 1 1000 6\n0 irecv 2 2 1000 6\n0 wait 1 0 1\n\
                0 compute 50000\n0 wait 2 0 2\n1 send 0 1 1000 6\n2 compute 50000\n\
                2 send 0 2 1000 6\n";
    // Ten packets of rank 1 are there at 10.05 us, then 50 us are computed; those of rank 2, which
    // computed for 50 us before, are there in the same instant.
    let end = 10 * PACKET + 50_000 + 50_000_000;
    assert_eq!(run(&read(text, 3)).expect("an end").ends[0], Time(end));
    // Without names a wait is for the youngest: of rank 2 at 60.05 us, and 50 us are computed then.
    let youngest = text.replace("wait 1 0 1", "wait").replace("wait 2 0 2", "wait");
    assert_eq!(run(&read(&youngest, 3)).expect("an end").ends[0], Time(end + 50_000_000));
    let twice = "0 irecv 1 1 100\n0 irecv 1 1 200\n0 wait 1 0 1\n0 compute 5000\n0 wait 1 0 1\n\
                 1 send 0 1 100\n1 compute 9000\n1 send 0 1 200\n";
    // Two of one name: the first is there at 1.05 us, so that 5 us are over when the second comes,
    // which was sent at 10 us.
    assert_eq!(run(&read(twice, 2)).expect("an end").ends[0], Time(10_000_000 + PACKET + WAY));
}

#[test]
fn a_wait_for_what_is_not_open_is_refused() {
    let one = "0 irecv 1 5 10\n";
    let cases = [
        ("0 wait 1 0 4\n", "line 2: `wait 1 0 4` where an open request of this rank: sender"),
        ("0 wait 0 1 5\n", "line 2: `wait 0 1 5` where an open request"),
        ("0 wait 1 0 5\n0 wait 1 0 5\n", "line 3: `wait 1 0 5` where an open request"),
        ("0 wait 1 0\n", "line 2: `` where a tag"),
        ("0 wait 1 0 5 6\n", "line 2: `6` where the end of the line"),
        ("0 waitall 0\n", "line 2: `waitall 0` where `waitall` for all open requests, which are 1"),
        ("0 waitany 1\n", "line 2: `waitany` where init, finalize"),
        ("0 test 1 0 5\n", "line 2: `test` where init, finalize"),
    ];
    for (text, expected) in cases {
        let error = refused(&format!("{one}{text}"), 2);
        assert!(error.contains(expected), "{error}\nlacks: {expected}");
    }
    // A count may name requests that were null in the program: here one that the trace has.
    read("0 irecv 1 5 10\n1 send 0 5 10\n0 waitall 3\n", 2);
}

#[test]
fn a_collective_that_a_rank_never_reaches_is_refused() {
    let text = "0 compute 5000\n0 barrier\n1 barrier\n2 compute 5\n";
    let expected = "line 2: rank 2 never reaches the `barrier` of this line";
    assert!(refused(text, 3).starts_with(expected), "{}", refused(text, 3));
    let behind = "0 barrier\n1 barrier\n0 bcast 5\n0 compute 7\n";
    let expected = "line 3: rank 1 never reaches the `broadcast` of this line";
    assert!(refused(behind, 2).starts_with(expected), "{}", refused(behind, 2));
}

#[test]
fn a_trace_has_as_many_ranks_as_do_something() {
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/pair.trace");
    let schedule_for = |text: &str, ranks| {
        std::fs::write(file, text).expect("a file");
        TraceSettings::TimeIndependent { file: file.to_owned(), speed: 1e9 }.schedule_for(ranks)
    };
    let text = "0 comm_size 2\n0 barrier\n1 barrier\n";
    let schedule = schedule_for(text, 64).expect("fewer ranks than hosts");
    assert_eq!((schedule.ranks.len(), schedule.traffic()), (2, messages(2, 2)));
    let error = schedule_for("9 init\n", 4).expect_err("ten ranks on four hosts").to_string();
    assert!(error.contains("pair.trace: the trace has 10 ranks, where at most 4"), "{error}");
    let error = schedule_for("18446744073709551615 init\n", 4).expect_err("too many").to_string();
    assert!(error.contains("ranks, where at most 4 are accepted"), "{error}");
    let error = schedule_for("0 comm_size 8\n1 init\n", 4).expect_err("2 ranks").to_string();
    assert!(error.contains("line 1: `8` where 2, as many as the trace has ranks"), "{error}");
    let error = schedule_for("# nothing\n", 4).expect_err("no rank").to_string();
    assert!(error.ends_with("the trace ends where an action such as `0 init` is accepted"));
}

#[test]
fn a_receive_of_nothing_takes_a_message_of_any_size() {
    let text = "0 send 1 4 70\n0 send 1 4 30\n1 recv 0 4 0\n1 recv 0 4 30\n";
    let schedule = read(text, 2);
    let asked: Vec<_> = schedule.ranks[1].operations().iter().map(|own| own.action).collect();
    let receive = |size| Action::Receive { from: 0, tag: 4, size: Bytes(size) };
    assert_eq!(asked, [receive(70), receive(30)]);
    assert_eq!(run(&schedule).expect("an end").shorter, 0);
}

#[test]
fn ranks_one_behind_another_are_read_in_linear_time() {
    // Were what lies behind each barrier handled again at every other one, these would be some
    // 5 10^9 steps.
    const BARRIERS: usize = 100_000;
    let text: String = (0..2).map(|rank| format!("{rank} barrier\n").repeat(BARRIERS)).collect();
    let schedule = read(&text, 2);
    assert_eq!((schedule.len(), schedule.traffic().messages), (4 * BARRIERS, 2 * BARRIERS as u64));
}
