//! The page of each system answers for every feature and every result of its document, and the tests
//! that it names are there.

use std::collections::BTreeSet;

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

/// The rows and points of a page that begin with an id of its document.
fn rows<'a>(page: &'a File, prefix: &str) -> Vec<(usize, &'a str)> {
    let begins = |line: &str| {
        let text = line.trim_start_matches(['|', '*', ' ']);
        text.len() < line.len() && text.starts_with(&format!("{prefix}-"))
    };
    page.lines().filter(|(_, line)| begins(line)).collect()
}

/// The ids at the beginning of a row: `GN-12 to GN-16`, `GN-R8, R9, R12`.
fn ids(row: &str, prefix: &str) -> Vec<Id> {
    let mut found: Vec<Id> = Vec::new();
    let mut is_range = false;
    for word in row.trim_start_matches(['|', '*', ' ']).split([' ', ',']) {
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

/// What the page of a system does not answer for.
fn unanswered(page: &File, prefix: &str, features: u32, results: u32) -> Vec<Finding> {
    let told: BTreeSet<Id> =
        rows(page, prefix).into_iter().flat_map(|(_, row)| ids(row, prefix)).collect();
    let all = (1..=features).map(|number| (false, number));
    let all = all.chain((1..=results).map(|number| (true, number)));
    let missing = all.filter(|id| !told.contains(id) && !GAPS.contains(&(prefix, *id)));
    let name =
        |(is_result, number)| format!("{prefix}-{}{number}", if is_result { "R" } else { "" });
    missing.map(|id| page.finding(1, format!("no row begins with {}", name(id)))).collect()
}

/// The names in a row that look like those of tests.
fn names(row: &str) -> impl Iterator<Item = &str> {
    let is_name = |span: &&str| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        span.matches('_').count() > 2 && span.chars().all(is_plain)
    };
    row.split('`').skip(1).step_by(2).filter(is_name)
}

#[test]
fn every_id_of_a_document_has_a_row() {
    let pages = files::ending(".md");
    let mut findings = Vec::new();
    for (path, prefix, features, results) in PAGES {
        let page = pages.iter().find(|file| file.path == path).expect(path);
        findings.extend(unanswered(page, prefix, features, results));
    }
    assert_none(&findings);
}

/// A name in a row is that of a test, or of a column.
#[test]
fn tests_named_beside_an_id_are_there() {
    let code: String = files::all()
        .into_iter()
        .filter(|file| file.ends_with(".rs") || file.ends_with(".py"))
        .map(|file| file.text)
        .collect();
    let mut count = 0;
    let mut findings = Vec::new();
    let pages = files::ending(".md");
    for (path, prefix, ..) in PAGES {
        let page = pages.iter().find(|file| file.path == path).expect(path);
        for (line, row) in rows(page, prefix) {
            for name in names(row) {
                count += 1;
                let written =
                    [format!("fn {name}("), format!("def {name}("), format!("\"{name}\"")];
                if !written.iter().any(|text| code.contains(text.as_str())) {
                    findings.push(page.finding(line, format!("there is no test `{name}`")));
                }
            }
        }
    }
    assert!(count > 100, "{count} names were found; are they still recognised?");
    assert_none(&findings);
}

#[test]
fn ids_are_read_one_by_one_and_as_ranges() {
    let page = File::new(
        "p.md",
        "| GN-2 to GN-4 fabric |\n| GN-R1, R3 and R4 |\n* GN-7 and GN-8 are facts.\n",
    );
    let found: Vec<Vec<Id>> = rows(&page, "GN").iter().map(|(_, row)| ids(row, "GN")).collect();
    assert_eq!(found[0], [(false, 2), (false, 3), (false, 4)]);
    assert_eq!(found[1], [(true, 1), (true, 3), (true, 4)]);
    assert_eq!(found[2], [(false, 7), (false, 8)]);
    let missing = unanswered(&page, "GN", 3, 1);
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].to_string(), "p.md:1: no row begins with GN-1");
}
