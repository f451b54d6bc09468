//! The documents link to what exists, and the changelog is open for the next change.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use weft_fabric::measure::Latency;

use crate::repository::files::{self, File, Finding, assert_none};

/// The links of a Markdown file that lead into the repository, with their lines. Code is skipped.
fn links(file: &File) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    let mut in_code = false;
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        for rest in prose.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            let outside = target.contains("://") || target.starts_with("mailto:");
            if !outside && !target.is_empty() {
                links.push((number, target.to_owned()));
            }
        }
    }
    links
}

/// The paths into the repository that stand between backquotes. Those with a name in capitals
/// (`systems/NAME.toml`) stand for any.
fn named_paths(file: &File) -> Vec<(usize, String)> {
    let mut in_code = false;
    let mut paths = Vec::new();
    for (number, line) in file.lines() {
        in_code ^= line.starts_with("```");
        let spans = line.split('`').skip(1).step_by(2).filter(|_| !in_code);
        let is_path = |span: &&str| {
            let folders = ["crates/", "systems/", "experiments/", "docs/", "python/", "tests/"];
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
            folders.iter().any(|folder| span.starts_with(folder)) && span.chars().all(is_plain)
        };
        paths.extend(spans.filter(is_path).map(|span| (number, span.to_owned())));
    }
    paths
}

fn dead_paths(files: &[File], exists: &dyn Fn(&Path) -> bool) -> Vec<Finding> {
    let of_file = |file: &File| {
        let dead = named_paths(file).into_iter().filter(|(_, path)| !exists(Path::new(path)));
        dead.map(|(line, path)| file.finding(line, format!("`{path}` is not there")))
            .collect::<Vec<_>>()
    };
    files.iter().flat_map(of_file).collect()
}

/// The names that a heading can be linked by, as the usual renderers make them.
fn anchors(file: &File) -> Vec<String> {
    let mut in_code = false;
    let headings = file.lines().filter_map(|(_, line)| {
        in_code ^= line.starts_with("```");
        (!in_code).then_some(line).filter(|line| line.starts_with('#'))
    });
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

fn dead_links(files: &[File], exists: &dyn Fn(&Path) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".md")) {
        for (line, target) in links(file) {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
            let path = match path {
                "" => PathBuf::from(&file.path),
                path => plain(&folder.join(path)),
            };
            if !exists(&path) {
                let message = format!("`{target}` leads to nothing");
                findings.push(file.finding(line, message));
                continue;
            }
            let other = files.iter().find(|other| Path::new(&other.path) == path);
            let known = other.is_none_or(|other| anchors(other).iter().any(|own| own == anchor));
            if !anchor.is_empty() && !known {
                let message = format!("`{target}`: no heading of that name");
                findings.push(file.finding(line, message));
            }
        }
    }
    findings
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

fn changelog(file: &File) -> Vec<Finding> {
    let first = file.lines().find(|(_, line)| line.starts_with("## "));
    match first {
        Some((_, "## Unreleased")) => Vec::new(),
        Some((line, _)) => vec![file.finding(line, "the first section is not `## Unreleased`")],
        None => vec![file.finding(1, "there is no `## Unreleased` section")],
    }
}

#[test]
fn links_in_documents_lead_somewhere() {
    let root = files::root();
    let documents = files::ending(".md");
    let count: usize = documents.iter().map(|file| links(file).len()).sum();
    assert!(count >= 3, "{count} links were found; are they still recognised?");
    assert_none(&dead_links(&documents, &|path| root.join(path).exists()));
}

#[test]
fn paths_in_documents_are_there() {
    let root = files::root();
    let documents = files::ending(".md");
    let count: usize = documents.iter().map(|file| named_paths(file).len()).sum();
    assert!(count >= 10, "{count} paths were found; are they still recognised?");
    assert_none(&dead_paths(&documents, &|path| root.join(path).exists()));
}

/// The names that a document does not mention between backquotes.
fn unmentioned<'a>(document: &File, names: &[&'a str]) -> Vec<&'a str> {
    let is_missing = |name: &&&str| !document.text.contains(&format!("`{name}`"));
    names.iter().filter(is_missing).copied().collect()
}

/// The parts among which a settings type chooses.
fn parts(schema: &Value, settings: &str) -> Vec<String> {
    let choices = schema["$defs"][settings]["oneOf"].as_array().into_iter().flatten();
    let names = choices.flat_map(|choice| {
        let keyed = choice["properties"].as_object().into_iter().flat_map(|all| all.keys());
        let one = choice["const"].as_str().into_iter().map(str::to_owned);
        let some = choice["enum"].as_array().into_iter().flatten();
        let some = some.filter_map(|name| name.as_str().map(str::to_owned));
        keyed.filter(|key| *key != "value").cloned().chain(one).chain(some).collect::<Vec<_>>()
    });
    names
        .filter(|name| !["stated", "derived", "calibrated", "predicts"].contains(&&**name))
        .collect()
}

#[test]
fn the_page_on_files_names_every_part() {
    let page = &files::ending("docs/files.md")[0];
    let schema = weft_lab::schema();
    for settings in [
        "SwitchSettings",
        "SchedulerSettings",
        "ControlSettings",
        "Feed",
        "SourceSettings",
        "ArrivalsSettings",
        "PatternSettings",
        "Regime",
        "FigureKind",
    ] {
        let parts = parts(&schema, settings);
        assert!(parts.len() >= 2, "{settings} has the parts {parts:?}; is it still a choice?");
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        assert_eq!(unmentioned(page, &names), [""; 0], "{settings} in {}", page.path);
    }
}

#[test]
fn the_page_on_measures_names_every_latency_and_verdict() {
    let page = &files::ending("docs/measures.md")[0];
    assert_eq!(unmentioned(page, &Latency::ALL.map(Latency::name)), [""; 0]);
    let verdicts = ["settled", "transient", "saturated", "stuck", "stopped"];
    assert_eq!(unmentioned(page, &verdicts), [""; 0]);
}

#[test]
fn the_changelog_is_open() {
    assert_none(&changelog(&files::ending("CHANGELOG.md")[0]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let files = [File::new("docs/a.md", text), File::new("README.md", "# The Read me, v2\n")];
        let exists = |path: &Path| [Path::new("README.md"), Path::new("docs/a.md")].contains(&path);
        dead_links(&files, &exists).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_dead_link_is_found_with_its_line() {
        assert_eq!(
            found("# A\n\nSee [b](b.md) and [r](../README.md).\n[x](#b)\n"),
            ["docs/a.md:3: `b.md` leads to nothing", "docs/a.md:4: `#b`: no heading of that name"]
        );
        assert_eq!(
            found("[r](../README.md#the-read-you-v2)"),
            ["docs/a.md:1: `../README.md#the-read-you-v2`: no heading of that name"]
        );
    }

    #[test]
    fn live_links_code_and_the_web_are_left_alone() {
        let text = "# A\n[a](#a) [r](../README.md#the-read-me-v2) [w](https://example.org/x)\n\
                    `[b](b.md)`\n```\n[c](c.md)\n```\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn a_path_that_is_not_there_is_found() {
        let text =
            "`crates/a.rs`, `crates/NAME.rs`, `b.rs` and `systems/x.toml`\n\n```\n`docs/c`\n";
        let files = [File::new("a.md", text)];
        let found = dead_paths(&files, &|path| path == Path::new("systems/x.toml"));
        let found: Vec<String> = found.iter().map(Finding::to_string).collect();
        assert_eq!(found, ["a.md:1: `crates/a.rs` is not there"]);
    }

    #[test]
    fn a_name_that_is_not_mentioned_is_found() {
        let page = File::new("a.md", "`islip`, pim");
        assert_eq!(unmentioned(&page, &["islip", "pim"]), ["pim"]);
        let schema = serde_json::json!({ "$defs": { "S": { "oneOf": [
            { "const": "off" },
            { "properties": { "islip": {}, "stated": {} } },
            { "enum": ["a", "b"] },
        ] } } });
        assert_eq!(parts(&schema, "S"), ["off", "islip", "a", "b"]);
    }

    #[test]
    fn a_closed_changelog_is_found() {
        let finding = |text: &str| changelog(&File::new("CHANGELOG.md", text));
        assert_eq!(finding("# Changelog\n\n## 0.1\n")[0].line, 3);
        assert_eq!(finding("# Changelog\n").len(), 1);
        assert_eq!(finding("# Changelog\n\n## Unreleased\n\n## 0.1\n"), []);
    }
}
