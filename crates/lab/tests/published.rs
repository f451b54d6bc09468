//! What the documents publish comes out: as a first look runs it, no number and no statement is outside
//! of its band, and as many are decided as ever were. Clint, of which a first look takes a minute, is held
//! by the tables of its page and by `event::saturation`.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]

use weft_lab::{Options, Table, reproduce};

/// Reproduces a system and returns how many printed numbers and statements are within their bands,
/// each once.
fn within(system: &str) -> usize {
    let quick = Options { quick: true, ..Options::default() };
    let all = reproduce(system, &quick, &mut |_, _, _| true).expect(system);
    let found = all.summary.tables.into_iter().find(|(name, _)| *name == "checks");
    let checks = found.expect("the table of a reproduction").1;
    let outside: Vec<String> = rows(&checks, "outside");
    assert!(outside.is_empty(), "{}", outside.join("\n"));
    rows(&checks, "within").len()
}

/// The rows of a verdict, in words, without those in which a number stands again.
fn rows(checks: &Table, verdict: &str) -> Vec<String> {
    let text = |row: usize, column: &str| {
        checks.get(row, column).map_or_else(String::new, |cell| cell.to_string())
    };
    let counts = |row: &usize| text(*row, "verdict") == verdict && text(*row, "counted") == "1";
    let columns = ["experiment", "quantity", "at", "published", "statement", "measured", "band"];
    let said = |row: usize| columns.map(|column| text(row, column)).join(" | ");
    (0..checks.rows()).filter(counts).map(said).collect()
}

#[test]
fn what_maestro_publishes_comes_out() {
    assert_eq!(within("maestro"), 15);
}

#[test]
fn what_clan_publishes_comes_out() {
    assert_eq!(within("clan"), 37);
}

#[test]
fn what_scilan_publishes_comes_out() {
    assert_eq!(within("scilan"), 23);
}

#[test]
fn what_memory_channel_publishes_comes_out() {
    assert_eq!(within("memory-channel"), 15);
}
