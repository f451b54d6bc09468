//! Physical limits, checked for files and their columns: a link carries no more than its rate, a
//! queue holds no more than its capacity, and no verdict contradicts its own tables.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]

mod invariants;
mod star;
mod streams;
mod verdicts;

use weft_lab::{Options, Outcome, Request, run};

/// The results of a file.
fn written(text: &str) -> Outcome {
    run(&Request::of_text("my.toml", text), &Options::default(), &mut |_, _| true)
        .unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// A number in the first row of the points.
fn number(outcome: &Outcome, column: &str) -> f64 {
    let points = outcome.table("points");
    points.number(0, column).unwrap_or_else(|| panic!("no number in {column}"))
}

/// A text in the first row of the points.
fn word(outcome: &Outcome, column: &str) -> String {
    outcome.table("points").get(0, column).map_or_else(String::new, |cell| cell.to_string())
}

/// Numbers of a column of a table.
fn numbers(outcome: &Outcome, table: &str, column: &str) -> Vec<f64> {
    let table = outcome.table(table);
    (0..table.rows()).filter_map(|row| table.number(row, column)).collect()
}
