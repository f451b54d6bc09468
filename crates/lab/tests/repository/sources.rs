//! Files of code keep to a length, and no file holds what belongs to one machine or to later.

use crate::repository::files::{self, File, Finding, assert_none};

/// The longest file of code, in lines, without its tests.
const LONGEST: usize = 600;

/// Files that may be longer. Empty, and meant to stay so.
const LONG: &[&str] = &[];

/// Beginnings of paths that exist on one machine. Written in two pieces, since this file is looked
/// at too.
const PLACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/tm", "p/"),
    concat!("/Us", "ers/"),
    concat!("C:", "\\"),
];

/// What says that something is missing.
const LATER: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X "),
    concat!("unimple", "mented!"),
    concat!("to", "do!("),
    concat!("NotImple", "mentedError"),
];

/// Settings that make a build depend on where its packages come from.
const REGISTRIES: &[&str] = &[
    concat!("--index", "-url"),
    concat!("--extra-index", "-url"),
    concat!("index", "-url ="),
    concat!("replace", "-with"),
    concat!("registry", " ="),
    concat!("sparse", "+http"),
];

/// The only sources of packages that a lock file may name.
const PUBLIC: &[&str] = &["registry+https://github.com/rust-lang/crates.io-index"];

fn too_long(files: &[File]) -> Vec<Finding> {
    let code = files.iter().filter(|file| file.ends_with(".rs") || file.ends_with(".py"));
    let long = code.filter(|file| !LONG.contains(&file.path.as_str()));
    long.filter_map(|file| {
        let lines = length(file);
        (lines > LONGEST).then(|| {
            let message = format!("{lines} lines without tests, more than {LONGEST}");
            file.finding(LONGEST + 1, message)
        })
    })
    .collect()
}

/// Lines up to the tests at the foot of the file.
fn length(file: &File) -> usize {
    let lines: Vec<&str> = file.text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests"));
    tests.unwrap_or(lines.len())
}

/// Texts in which a run of spaces stands between two words, which a lost continuation of a line
/// leaves behind.
fn torn(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.ends_with(".rs")) {
        for (number, line) in file.lines().take(length(file)) {
            let code = line.trim_start();
            if !code.starts_with("//") && has_gap(code) {
                let message = "a run of spaces in a text: was the end of a line lost?";
                findings.push(file.finding(number, message));
            }
        }
    }
    findings
}

/// Whether a text on the line has six spaces or more behind a word or its punctuation.
fn has_gap(line: &str) -> bool {
    let Some((before, after)) = line.split_once("      ") else { return false };
    let in_text = before.matches('"').count() % 2 == 1 || !before.contains('"');
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || ",;:.`".contains(c));
    in_text && word(before.chars().last()) && word(after.trim_start().chars().next())
}

fn out_of_place(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let is_lock = file.ends_with(".lock");
        for (number, line) in file.lines() {
            let mut refuse = |message: String| findings.push(file.finding(number, message));
            for place in PLACES {
                if names_place(line, place) {
                    refuse(format!("`{place}` is a place on one machine"));
                }
            }
            for word in LATER.iter().filter(|word| line.contains(**word) && !is_lock) {
                refuse(format!("`{word}`: finish it or leave it out", word = word.trim()));
            }
            for setting in REGISTRIES.iter().filter(|setting| line.contains(**setting)) {
                refuse(format!("`{setting}` ties the build to one registry"));
            }
            let source = line.strip_prefix("source = \"").and_then(|rest| rest.split('"').next());
            if let Some(source) = source.filter(|source| is_lock && !PUBLIC.contains(source)) {
                refuse(format!("`{source}` is not the public registry"));
            }
        }
    }
    findings
}

/// Whether a path that begins so stands in the line, and not in the middle of a longer one.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-)}".contains(c))
    })
}

#[test]
fn no_text_has_a_gap_of_a_lost_line_end() {
    let sources = files::ending(".rs").into_iter().filter(|file| file.path.contains("/src/"));
    assert_none(&torn(&sources.collect::<Vec<_>>()));
    let bad = File::new("a.rs", "let a = \"stop_go: a switch              quenches\";\n");
    assert_eq!(torn(&[bad]).len(), 1);
    let good = File::new("a.rs", "let a = 1;      // beside\n    \"    3 | x\"\n");
    assert_eq!(torn(&[good]), []);
}

#[test]
fn files_of_code_keep_to_a_length() {
    assert_none(&too_long(&files::all()));
}

#[test]
fn no_file_belongs_to_one_machine_or_to_later() {
    assert_none(&out_of_place(&files::all()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        out_of_place(&[File::new(path, text)]).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let line = "let x = 1;\n";
        let tests = "#[cfg(test)]\nmod tests {\n".to_owned() + &line.repeat(400) + "}\n";
        let short = File::new("a.rs", &(line.repeat(LONGEST) + &tests));
        assert_eq!(too_long(&[short]), []);
        let long = File::new("a.rs", &(line.repeat(LONGEST + 1) + &tests));
        let found = too_long(&[long]);
        assert_eq!(found[0].to_string(), "a.rs:601: 601 lines without tests, more than 600");
        let python = File::new("a.py", &"x = 1\n".repeat(LONGEST + 1));
        assert_eq!(too_long(&[python]).len(), 1);
        let text = File::new("a.md", &"x\n".repeat(LONGEST + 1));
        assert_eq!(too_long(&[text]), []);
    }

    #[test]
    fn a_place_on_one_machine_is_found() {
        for place in PLACES {
            let text = format!("fine\nlet path = \"{place}x\";\n");
            let message = format!("a.rs:2: `{place}` is a place on one machine");
            assert_eq!(found("a.rs", &text), [message]);
            // A part of a path within the project is none.
            let inside = format!("see docs{place}x and ..{place}x\n");
            assert_eq!(found("a.md", &inside), Vec::<String>::new());
        }
    }

    #[test]
    fn what_is_left_for_later_is_found() {
        for word in LATER {
            assert_eq!(found("a.py", &format!("# {word} later\n")).len(), 1, "{word}");
        }
    }

    #[test]
    fn a_registry_is_found() {
        for setting in REGISTRIES {
            assert_eq!(found("pyproject.toml", &format!("{setting} x\n")).len(), 1, "{setting}");
        }
        let lock = format!("source = \"{}\"\nsource = \"registry+https://x.example\"\n", PUBLIC[0]);
        assert_eq!(
            found("Cargo.lock", &lock),
            ["Cargo.lock:2: `registry+https://x.example` is not the public registry"]
        );
    }
}
