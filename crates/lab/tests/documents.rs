//! The documents, run: every file that they show under a name is carried out, and every table that
//! they show must be what comes out. `UPDATE_EXPECT=1` writes the tables anew.

#![allow(clippy::expect_used, clippy::panic, reason = "the helpers of a test may fail the test")]
#![allow(missing_docs, reason = "a test's items speak for themselves")]

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use weft_lab::{Cell, Options, Outcome, Request, Table, run, side_by_side};

/// The folder into which the files of the tour are written.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tour");
    fs::create_dir_all(&folder).expect("the folder of the tests can be written");
    folder
}

fn carry_out(file: &str, text: &str) -> Outcome {
    let path = folder().join(file);
    fs::write(&path, text).expect("the folder of the tests can be written");
    let request = Request::new(&path.to_string_lossy(), None, &[]);
    run(&request, &Options::default(), &mut |_, _| true)
        .unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The named columns of a table, aligned, numbers to four digits.
fn show(table: &Table, columns: &[&str]) -> String {
    let names = columns.iter().map(|name| (*name).to_owned()).collect();
    let mut rows: Vec<Vec<String>> = vec![names];
    for row in 0..table.rows() {
        let cell = |name: &&str| match table.get(row, name) {
            Some(Cell::Number(Some(value))) => four_digits(value),
            Some(Cell::Number(None)) => "-".to_owned(),
            Some(Cell::Text(text)) => text,
            None => panic!("no column {name}"),
        };
        rows.push(columns.iter().map(cell).collect());
    }
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

fn four_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = usize::try_from(3 - magnitude).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The document with the tables that its files give.
fn regenerated(document: &str) -> String {
    let mut text = String::new();
    let mut outcome: Option<Outcome> = None;
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(text, "{line}");
        let Some(fence) = line.strip_prefix("```").filter(|fence| !fence.is_empty()) else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let (language, name) = fence.split_once(' ').unwrap_or((fence, ""));
        let mut shown = block.iter().fold(String::new(), |text, line| text + line + "\n");
        match (language, name) {
            ("toml", file) if !file.is_empty() => outcome = Some(carry_out(file, &shown)),
            ("text", beside) if beside.starts_with("beside ") => {
                let family = beside.trim_start_matches("beside ");
                let table = side_by_side(family, &Options::default());
                let table = table.unwrap_or_else(|error| panic!("{family}: {error}"));
                let columns: Vec<&str> = block[0].split_whitespace().collect();
                shown = show(&table, &columns);
            }
            ("text", table) if !table.is_empty() => {
                let outcome = outcome.as_ref().expect("a table follows a file");
                let columns: Vec<&str> = block[0].split_whitespace().collect();
                shown = show(&outcome.table(table), &columns);
            }
            _ => {}
        }
        text.push_str(&shown);
        text.push_str("```\n");
    }
    text
}

/// Compares the tables of a document with at least this many files with what the files give.
fn check(name: &str, least: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let document = fs::read_to_string(&path).expect("the document is there");
    let files = document.lines().filter(|line| line.starts_with("```toml ")).count();
    assert!(files >= least, "{files} files were found in {name}; are they still recognised?");
    let found = regenerated(&document);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &found).expect("the document can be written");
        return;
    }
    let differs = document.lines().zip(found.lines()).position(|(shown, found)| shown != found);
    if let Some(line) = differs {
        let (shown, found) = (document.lines().nth(line), found.lines().nth(line));
        panic!(
            "{name}:{}: shown is {shown:?}, what comes out is {found:?}; UPDATE_EXPECT=1 writes \
             the tables anew",
            line + 1
        );
    }
    assert_eq!(document, found);
}

#[test]
fn the_tour_shows_what_comes_out() {
    check("docs/tour.md", 7);
}

#[test]
fn the_page_of_files_shows_what_comes_out() {
    check("docs/files.md", 1);
}

#[test]
fn the_page_of_today_shows_what_comes_out() {
    check("docs/today.md", 2);
}

#[test]
fn the_page_of_clint_shows_what_comes_out() {
    check("docs/systems/clint.md", 2);
}

#[test]
fn the_page_of_programs_shows_what_comes_out() {
    check("docs/programs.md", 3);
}

#[test]
fn the_page_of_maestro_shows_what_comes_out() {
    check("docs/systems/maestro.md", 6);
}

#[test]
fn the_page_of_scilan_shows_what_comes_out() {
    check("docs/systems/scilan.md", 2);
}

#[test]
fn the_page_of_memory_channel_shows_what_comes_out() {
    check("docs/systems/memory-channel.md", 5);
}

#[test]
fn a_table_that_is_not_what_comes_out_is_found() {
    let document = "```toml one.toml\nbase = \"clint\"\nrun.length = \"100 us\"\n\
                    channel.bulk.switch.scheduled = { gap = \"190 ns\", lead = \"1880 ns\" }\n\
                    workload.bulk.source.list = [{ time = \"1 us\", from = 0, to = 1 }]\n```\n\
                    ```text points\nchannel  queueing_mean_us\nbulk     1\n```\n";
    let found = regenerated(document);
    assert!(found.ends_with("```text points\nchannel  queueing_mean_us\nbulk     9.863\n```\n"));
}

#[test]
fn numbers_are_shown_to_four_digits() {
    for (value, text) in [(0.0, "0"), (12.5, "12.5"), (0.123_456, "0.1235"), (98_765.4, "98765")] {
        assert_eq!(four_digits(value), text);
    }
}
