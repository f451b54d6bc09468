//! The page of a system has one row for every feature and every result of its document. A row says
//! where the feature is built and which test holds it, or why it is not built; the files and the
//! tests that it names are there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::repository::files::{self, File, Finding, assert_none};

/// The page of a system, what the ids of its document begin with, how many features the document
/// has and how many results (`GN-1` to `GN-30`, `GN-R1` to `GN-R23`).
const PAGES: [(&str, &str, u32, u32); 5] = [
    ("docs/systems/clint.md", "CL", 80, 18),
    ("docs/systems/maestro.md", "MA", 49, 18),
    ("docs/systems/clan.md", "GN", 30, 23),
    ("docs/systems/scilan.md", "SC", 51, 17),
    ("docs/systems/memory-channel.md", "MC", 50, 22),
];

/// A feature or, with `true`, a result.
type Id = (bool, u32);

/// Ids that were never given.
const GAPS: [(&str, Id); 2] = [("MA", (false, 43)), ("MA", (false, 44))];

/// How the row of a feature begins to say that there is nothing to test, before it says why.
const NOT_BUILT: [&str; 2] = ["not built: ", "fact: "];

/// What the mark of a result has one of: what it is worth that it comes out.
const MARKS: [&str; 9] = [
    "predicted",
    "put in",
    "arithmetic",
    "statement",
    "missed",
    "not counted",
    "not claimed",
    "definition",
    "misprint",
];

/// A row of a table that begins with ids.
struct Row<'a> {
    line: usize,
    ids: Vec<Id>,
    cells: Vec<&'a str>,
}

impl Row<'_> {
    fn is_result(&self) -> bool {
        self.ids.first().is_some_and(|id| id.0)
    }
}

/// The rows of the tables of a page whose first cell is made of ids.
fn rows<'a>(page: &'a File, prefix: &str) -> Vec<Row<'a>> {
    let row = |(line, text): (usize, &'a str)| {
        let cells = text.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
        let cells: Vec<&str> = cells.collect();
        let ids = ids(cells.first()?, prefix);
        (!ids.is_empty()).then_some(Row { line, ids, cells })
    };
    page.lines().filter_map(row).collect()
}

/// The ids of a cell: `GN-12 to GN-16`, `GN-R8, R9, R12`.
fn ids(cell: &str, prefix: &str) -> Vec<Id> {
    let mut found: Vec<Id> = Vec::new();
    let mut is_range = false;
    for word in cell.split([' ', ',']) {
        let bare = word.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
        let number = bare.unwrap_or(word);
        let (is_result, digits) =
            number.strip_prefix('R').map_or((false, number), |rest| (true, rest));
        match (word, digits.parse::<u32>()) {
            ("" | "and", _) => {}
            ("to", _) => is_range = true,
            (_, Ok(to)) if bare.is_some() || is_result => {
                let from = found.last().filter(|_| is_range).map_or(to, |last| last.1 + 1);
                found.extend((from..=to).map(|number| (is_result, number)));
                is_range = false;
            }
            _ => break,
        }
    }
    found
}

/// Ids without a row or with several, and ids that the document does not have.
fn unanswered(page: &File, prefix: &str, features: u32, results: u32) -> Vec<Finding> {
    let name =
        |(is_result, number)| format!("{prefix}-{}{number}", if is_result { "R" } else { "" });
    let all = (1..=features).map(|number| (false, number));
    let all: Vec<Id> = all
        .chain((1..=results).map(|number| (true, number)))
        .filter(|id| !GAPS.contains(&(prefix, *id)))
        .collect();
    let mut lines: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
    for row in rows(page, prefix) {
        for id in row.ids {
            lines.entry(id).or_default().push(row.line);
        }
    }
    let missing = all.iter().filter(|id| !lines.contains_key(id));
    let mut findings: Vec<Finding> =
        missing.map(|id| page.finding(1, format!("no row for {}", name(*id)))).collect();
    for (id, lines) in &lines {
        if !all.contains(id) {
            findings.push(page.finding(lines[0], format!("there is no {}", name(*id))));
        }
        if let [first, second, ..] = lines[..] {
            let message = format!("a second row for {}, after line {first}", name(*id));
            findings.push(page.finding(second, message));
        }
    }
    findings
}

/// What stands between backquotes.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The files and folders that a cell names.
fn paths(cell: &str) -> Vec<&str> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
    let is_path = |span: &&str| span.contains('/') && span.chars().all(is_plain);
    spans(cell).filter(is_path).collect()
}

/// The names in a cell that look like those of tests, of `least` words or more.
fn names(cell: &str, least: usize) -> Vec<&str> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_name =
        |span: &&str| span.matches('_').count() + 1 >= least && span.chars().all(is_plain);
    spans(cell).filter(is_name).collect()
}

/// What a row says that is not so, or does not say. `is_there` knows paths, `is_test` tests.
fn wrong(
    row: &Row,
    is_there: &dyn Fn(&str) -> bool,
    is_test: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let [_, what, third, fourth] = row.cells[..] else {
        return vec!["a row has four cells".to_owned()];
    };
    let mut wrong = Vec::new();
    let text = row.cells.join(" ");
    let dead = paths(&text).into_iter().filter(|path| !is_there(path));
    wrong.extend(dead.map(|path| format!("`{path}` is not there")));
    if what.is_empty() {
        wrong.push("nothing says what it is".to_owned());
    }
    if row.is_result() {
        if !MARKS.iter().any(|mark| third.contains(mark)) {
            wrong.push(format!("`{third}` is no mark"));
        }
        let shown = !paths(fourth).is_empty() || names(fourth, 4).into_iter().any(is_test);
        if !shown && !third.starts_with("not claimed") {
            wrong.push("no experiment, system or test shows it".to_owned());
        }
        return wrong;
    }
    let reason = NOT_BUILT.iter().find_map(|begin| third.strip_prefix(begin));
    match reason {
        Some("") => wrong.push("why it is not built is not said".to_owned()),
        Some(_) => {}
        None if paths(third).is_empty() => {
            wrong.push("names no file, and is not `not built: ` or `fact: `".to_owned());
        }
        None if names(fourth, 2).is_empty() => wrong.push("is built and names no test".to_owned()),
        None => {}
    }
    let unknown = names(fourth, 2).into_iter().filter(|name| !is_test(name));
    wrong.extend(unknown.map(|name| format!("there is no test `{name}`")));
    wrong
}

/// The names of the tests of a file of code.
fn tests(file: &File) -> Vec<String> {
    let (word, mut is_next) =
        if file.ends_with(".py") { ("def test_", true) } else { ("fn ", false) };
    let mut found = Vec::new();
    for (_, line) in file.lines() {
        let text = line.trim_start();
        is_next |= text == "#[test]";
        if let Some(rest) = text.strip_prefix(word).filter(|_| is_next) {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            found.push(word.trim_start_matches("def ").trim_start_matches("fn ").to_owned() + name);
            is_next = file.ends_with(".py");
        }
    }
    found
}

#[test]
fn every_id_of_a_document_has_one_row() {
    let pages = files::ending(".md");
    let mut findings = Vec::new();
    for (path, prefix, features, results) in PAGES {
        let page = pages.iter().find(|file| file.path == path).expect(path);
        findings.extend(unanswered(page, prefix, features, results));
    }
    assert_none(&findings);
}

#[test]
fn rows_say_where_a_feature_is_built_and_tested_or_why_not() {
    let tests: BTreeSet<String> = files::all().iter().flat_map(tests).collect();
    let root = files::root();
    let is_there = |path: &str| root.join(Path::new(path)).exists();
    let is_test = |name: &str| tests.contains(name);
    let mut count = 0;
    let mut findings = Vec::new();
    let pages = files::ending(".md");
    for (path, prefix, ..) in PAGES {
        let page = pages.iter().find(|file| file.path == path).expect(path);
        for row in rows(page, prefix) {
            count += names(row.cells.last().unwrap_or(&""), 2).len();
            let wrong = wrong(&row, &is_there, &is_test);
            findings.extend(wrong.into_iter().map(|message| page.finding(row.line, message)));
        }
    }
    assert!(count > 250, "{count} names were found; are they still recognised?");
    assert_none(&findings);
}

#[test]
fn ids_are_read_one_by_one_and_as_ranges() {
    let page = File::new(
        "p.md",
        "| GN-2 to GN-4 | fabric |\n| GN-R1, R3 and R4 | x |\n| GN-4 | again |\n| GN-9 | x |\n\
         | fabric | GN-1 |\n",
    );
    let found: Vec<Vec<Id>> = rows(&page, "GN").into_iter().map(|row| row.ids).collect();
    assert_eq!(found[0], [(false, 2), (false, 3), (false, 4)]);
    assert_eq!(found[1], [(true, 1), (true, 3), (true, 4)]);
    let found = unanswered(&page, "GN", 4, 4);
    let found: Vec<String> = found.iter().map(Finding::to_string).collect();
    assert_eq!(
        found,
        [
            "p.md:1: no row for GN-1",
            "p.md:1: no row for GN-R2",
            "p.md:3: a second row for GN-4, after line 1",
            "p.md:4: there is no GN-9",
        ]
    );
}

#[test]
fn only_tests_are_tests() {
    let rust = "fn help() {}\n\n#[test]\n#[ignore]\nfn it_is_so() {}\n\nfn other() {}\n";
    assert_eq!(tests(&File::new("a.rs", rust)), ["it_is_so"]);
    let python = "def help():\n    pass\n\n\ndef test_it():\n    pass\n";
    assert_eq!(tests(&File::new("a.py", python)), ["test_it"]);
}

#[test]
fn a_row_is_held_to_what_it_says() {
    let found = |cells: &str| {
        let page = File::new("p.md", &format!("| {cells} |"));
        let row = rows(&page, "GN").remove(0);
        let is_there = |path: &str| path == "crates/a.rs" || path == "experiments/a.toml";
        wrong(&row, &is_there, &|name: &str| name == "it_is_so")
    };
    let sound = [
        "GN-1 | x | `crates/a.rs` | `it_is_so`",
        "GN-1 | x | not built: nothing is said of it | ",
        "GN-R1 | x | predicted | `experiments/a.toml`: 1.2",
        "GN-R1 | x | not claimed | a quotation",
    ];
    for cells in sound {
        assert_eq!(found(cells), Vec::<String>::new(), "{cells}");
    }
    let unsound = [
        ("GN-1 | x | `crates/b.rs`, `crates/a.rs` | `it_is_so`", "`crates/b.rs` is not there"),
        ("GN-1 | x | `crates/a.rs` | `it_is_not`", "there is no test `it_is_not`"),
        ("GN-1 | x | `crates/a.rs` | its own tests", "is built and names no test"),
        (
            "GN-1 | x | the driver | `it_is_so`",
            "names no file, and is not `not built: ` or `fact: `",
        ),
        ("GN-1 | x | not built | ", "names no file, and is not `not built: ` or `fact: `"),
        ("GN-R1 | x | exact | `experiments/a.toml`", "`exact` is no mark"),
        ("GN-R1 | x | predicted | the same", "no experiment, system or test shows it"),
    ];
    for (cells, message) in unsound {
        assert_eq!(found(cells), [message], "{cells}");
    }
}
