//! Every word of a trace is read or refused, and no bytes make the readers or the player panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use weft_kernel::Halt;
use weft_lab::trace::{Action, Edge, Schedule, TraceError, goal, independent, play};

use super::machine;

/// Every kind of line of GOAL, without a word that says what is so anyway.
const GOAL: &str = "num_ranks 3
rank 0 {
  a: calc 100 cpu 1
  b: send 150b to 1 tag 3 cpu 2 nic 4
  b requires a
  c: recv 30b from 2
  c irequires b
  send 40b to 2 tag 5
}
rank 1 {
  l1: recv 150b from 0 tag 3
  l2: calc 50 cpu 3
  l2 requires l1
}
rank 2 {
  send 30b to 0
  recv 40b from 0 tag 5 nic 6 cpu 7
}
";

/// Every action of SimGrid's, of three ranks, without a word that says what is so anyway.
fn simgrid() -> String {
    let mut text = String::new();
    for rank in 0..3 {
        let (next, last, own) = ((rank + 1) % 3, (rank + 2) % 3, 4 + rank);
        text += &format!(
            "{rank} init 1\n{rank} comm_size 3\n{rank} compute 1e3\n{rank} isend {next} 2 10 1\n\
             {rank} irecv {last} 2 10 1\n{rank} compute 2e3\n{rank} wait {rank} {next} 2\n\
             {rank} compute 3e3\n{rank} wait {last} {rank} 2\n{rank} isend {next} 5 20 2\n\
             {rank} recv {last} 5 20 2\n{rank} waitall 1\n{rank} barrier\n{rank} bcast 11 1 2\n\
             {rank} reduce 12 1e4 2 1\n{rank} allReduce 13 1e5 3\n{rank} allToAll 14 7 3 1\n\
             {rank} gather 15 30 2 1 3\n{rank} scatter 16 32 2 1 3\n\
             {rank} gatherV {own} 4 5 6 2 3 3\n{rank} scatterV 4 5 6 {own} 1 3 3\n\
             {rank} allGather 17 34 1 3\n{rank} allGatherV {own} 4 5 6 3 3\n\
             {rank} reduceScatter 7 8 9 1e3 3\n{rank} finalize\n"
        );
    }
    text
}

/// Words in place of those that are there, or between them.
const WORDS: [&str; 26] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "14",
    "-1",
    "1.5",
    "1e3",
    "1e400",
    "NaN",
    "inf",
    "65535",
    "65536",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "8b",
    "b",
    "{",
    "}",
    "a",
    "l2:",
    "requires",
    "finalize",
    "\u{fffd}",
];

type Reader = fn(&str) -> Result<Schedule, TraceError>;

fn read_goal(text: &str) -> Result<Schedule, TraceError> {
    goal::read(text.as_bytes())
}

fn read_simgrid(text: &str) -> Result<Schedule, TraceError> {
    independent::read(text.as_bytes(), 3, 1e9)
}

/// The operations of a rank, with the processor and adapter of each, and what waits for what.
type Said = (Vec<(Action, u16, u16)>, Vec<Edge>);

/// What a schedule does, wherever it stands in its file.
fn said(schedule: &Schedule) -> Vec<Said> {
    let script = |script: &weft_lab::trace::Script| {
        let operations = script.operations().iter().map(|own| (own.action, own.cpu, own.nic));
        (operations.collect(), script.edges().to_vec())
    };
    schedule.ranks.iter().map(script).collect()
}

fn lines(text: &str) -> Vec<Vec<String>> {
    text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn text(lines: &[Vec<String>]) -> String {
    lines.iter().map(|words| words.join(" ") + "\n").collect()
}

/// A line with one word deleted, said twice, replaced or put before another, in every way.
fn mutations(words: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut all = Vec::new();
    for place in 0..words.len() {
        let mut without = words.to_vec();
        without.remove(place);
        let mut twice = words.to_vec();
        twice.insert(place, words[place].clone());
        all.extend([(place, without), (place, twice)]);
        let value = |word: &str| word.parse::<f64>().ok();
        for word in WORDS {
            let is_same = word == words[place]
                || value(word).is_some_and(|new| value(&words[place]) == Some(new));
            if !is_same {
                let mut other = words.to_vec();
                word.clone_into(&mut other[place]);
                all.push((place, other));
            }
        }
    }
    for place in 0..=words.len() {
        for word in WORDS {
            let mut more = words.to_vec();
            more.insert(place, word.to_owned());
            all.push((place, more));
        }
    }
    all
}

/// What the manual says is not looked at in a time-independent trace: who says how many ranks there
/// are, which word stands behind `init`, how many more requests than are open a `waitall` counts, and
/// what MPI has no meaning for: the receiving side of a gather where nothing is gathered, the sending
/// side of a scatter where nothing is scattered from.
fn is_ignored(line: &[String], place: usize, changed: &[String]) -> bool {
    let rank = &line[0];
    match line[1].as_str() {
        "comm_size" => place == 0,
        "init" | "waitall" => place == 2,
        // A receive of nothing takes what is sent.
        "recv" | "irecv" => place == 4 && changed.len() == line.len() && changed[4] == "0",
        "gather" => *rank != line[4] && (place == 3 || place == 6),
        "scatter" => *rank != line[4] && (place == 2 || place == 5),
        _ => false,
    }
}

/// A name that no order names says nothing.
fn is_name(line: &[String], place: usize, changed: &[String]) -> bool {
    place == 0 && changed.len() > line.len() && changed[0].ends_with(':')
}

fn every_word_counts(
    valid: &str,
    read: Reader,
    is_ignored: fn(&[String], usize, &[String]) -> bool,
) {
    let before = said(&read(valid).expect("a legal trace"));
    let original = lines(valid);
    let mut wrong = Vec::new();
    for (number, line) in original.iter().enumerate() {
        for (place, words) in mutations(line) {
            let mut changed = original.clone();
            changed[number].clone_from(&words);
            let problem = match catch_unwind(AssertUnwindSafe(|| read(&text(&changed)))) {
                Err(_) => "panics".to_owned(),
                Ok(Err(error)) if error.to_string().contains("line") => continue,
                Ok(Err(error)) => format!("is refused without a line: {error}"),
                Ok(Ok(schedule)) if said(&schedule) != before => continue,
                Ok(Ok(_)) if is_ignored(line, place, &words) => continue,
                Ok(Ok(_)) => "says the same".to_owned(),
            };
            wrong.push(format!("line {}: {} {problem}", number + 1, words.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_word_of_a_goal_text_counts() {
    every_word_counts(GOAL, read_goal, is_name);
}

#[test]
fn every_word_of_a_time_independent_trace_counts() {
    every_word_counts(&simgrid(), read_simgrid, is_ignored);
}

#[test]
fn a_remark_does_not_count() {
    let remarked = GOAL.replace("tag 3\n", "tag 3 // tag 4\n").replace("}\n", "} # }\n");
    assert_ne!(remarked, GOAL);
    assert_eq!(said(&read_goal(&remarked).expect("legal")), said(&read_goal(GOAL).expect("legal")));
    let valid = simgrid();
    let remarked = valid.replace("compute 1e3", "compute 1e3 # 7 send");
    assert_ne!(remarked, valid);
    assert_eq!(
        said(&read_simgrid(&remarked).expect("legal")),
        said(&read_simgrid(&valid).expect("legal"))
    );
}

/// Reads, and plays for some steps what can be read.
fn try_all(text: &[u8]) {
    let schedules = [
        goal::read(text).ok(),
        independent::ranks(text)
            .ok()
            .filter(|ranks| *ranks <= 8)
            .and_then(|ranks| independent::read(text, ranks as u16, 1e9).ok()),
    ];
    for schedule in schedules.into_iter().flatten().filter(|schedule| schedule.ranks.len() <= 8) {
        let machine = machine(schedule.ranks.len().max(2) as u16);
        let halt = Halt::new().with_step_limit(Some(2_000));
        // Whether it comes to an end is not asked.
        drop(play(&schedule, machine, &halt, &mut |_, _| true));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        try_all(&bytes);
        try_all(&[b"num_ranks 2\nrank 0 {\n", &bytes[..]].concat());
        try_all(&[b"0 ", &bytes[..]].concat());
    }

    #[test]
    fn no_mutations_of_a_trace_make_it_panic(
        is_goal in any::<bool>(),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..WORDS.len(), 0..3_u8),
            1..6,
        ),
    ) {
        let mut lines = lines(&if is_goal { GOAL.to_owned() } else { simgrid() });
        for (line, place, word, kind) in changes {
            let count = lines.len();
            let words = &mut lines[line.index(count)];
            let place = place.index(words.len() + 1);
            match kind {
                0 if place < words.len() => drop(words.remove(place)),
                1 if place < words.len() => WORDS[word].clone_into(&mut words[place]),
                _ => words.insert(place, WORDS[word].to_owned()),
            }
        }
        try_all(text(&lines).as_bytes());
    }
}
