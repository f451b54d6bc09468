//! Published values are reproduced: in a first look, no number and no statement is outside of its band,
//! and as many are reproduced as before. Clint, of which a first look takes a minute, is held by the
//! tables of its page and by `adapters::saturation`.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]

use weft_lab::{Options, Table, reproduce};

/// The contents of a document: numbers that a run predicts, numbers that follow without a run, numbers
/// that calibrated a parameter, and statements.
const KINDS: [&str; 4] = ["number", "closed form", "calibrated", "statement"];

/// Reproduces a system and returns of each kind how many came out and how many are known to be missed,
/// each once.
fn found(system: &str) -> [(usize, usize); 4] {
    let quick = Options { quick: true, ..Options::default() };
    let all = reproduce(system, &quick, &mut |_, _, _| true).expect(system);
    let found = all.summary.tables.into_iter().find(|(name, _)| *name == "checks");
    let checks = found.expect("the table of a reproduction").1;
    let outside: Vec<String> = rows(&checks, "outside");
    assert!(outside.is_empty(), "{}", outside.join("\n"));
    let of = |kind: &str, verdict: &str| {
        rows(&checks, verdict).iter().filter(|row| row.starts_with(kind)).count()
    };
    KINDS.map(|kind| (of(kind, "within"), of(kind, "missed")))
}

/// The rows of a verdict, in words, without repetitions of a number.
fn rows(checks: &Table, verdict: &str) -> Vec<String> {
    let text = |row: usize, column: &str| {
        checks.get(row, column).map_or_else(String::new, |cell| cell.to_string())
    };
    let counts = |row: &usize| text(*row, "verdict") == verdict && text(*row, "counted") == "1";
    let columns =
        ["kind", "experiment", "quantity", "at", "published", "statement", "measured", "band"];
    let said = |row: usize| columns.map(|column| text(row, column)).join(" | ");
    (0..checks.rows()).filter(counts).map(said).collect()
}

#[test]
fn what_maestro_publishes_comes_out() {
    assert_eq!(found("maestro"), [(3, 8), (0, 0), (4, 0), (6, 0)]);
}

#[test]
fn what_clan_publishes_comes_out() {
    assert_eq!(found("clan"), [(14, 19), (0, 0), (5, 1), (5, 0)]);
}

#[test]
fn what_scilan_publishes_comes_out() {
    assert_eq!(found("scilan"), [(1, 1), (8, 0), (4, 1), (8, 0)]);
}

#[test]
fn what_is_published_of_the_stacks_beside_scilan_comes_out() {
    assert_eq!(found("scilan-stacks"), [(0, 0), (0, 0), (5, 0), (2, 0)]);
}

#[test]
fn what_memory_channel_publishes_comes_out() {
    assert_eq!(found("memory-channel"), [(5, 1), (0, 0), (8, 1), (2, 0)]);
}

/// The numbers of one run of another simulator are judged by the spread of many seeds, which a first look has
/// not.
#[test]
fn what_is_published_of_ultra_ethernet_comes_out() {
    assert_eq!(found("ultra-ethernet"), [(2, 2), (0, 0), (0, 0), (0, 0)]);
}

/// That ASTRA-sim's number is missed by four passes over a memory bus and nothing else is held here.
#[test]
fn what_other_simulators_print_of_programs_comes_out() {
    assert_eq!(found("simulators"), [(1, 1), (0, 0), (0, 0), (0, 0)]);
    let all = reproduce("simulators", &Options::default(), &mut |_, _, _| true).expect("both");
    let found = all.summary.tables.into_iter().find(|(name, _)| *name == "checks");
    let missed = rows(&found.expect("checks").1, "missed");
    // 4 x (14 x (500 + 610 + 10) + 7 x 3 x 655) ns.
    assert!(missed[0].contains(" | 117.74"), "{missed:?}");
}

#[test]
fn what_is_published_of_slingshot_comes_out() {
    assert_eq!(found("slingshot"), [(0, 0), (0, 0), (0, 0), (4, 0)]);
}
