//! Modules of the live library use only those of the layers beneath their own, as ARCHITECTURE.md
//! draws them.

use std::collections::BTreeMap;

use crate::repository::files::{self, File, Finding, assert_none};

const DRAWING: &str = "## The layers of the live library";
const SOURCES: &str = "crates/live/src/";

/// The layer of each module: the number of the line of the drawing on which it stands, from above.
/// The names stand before the first gap of two spaces, what they are after it.
fn layers(architecture: &str) -> BTreeMap<String, usize> {
    let after = architecture.split(DRAWING).nth(1).unwrap_or_default();
    let drawing = after.split("```").nth(1).unwrap_or_default();
    let names = drawing.lines().enumerate().flat_map(|(layer, line)| {
        let names = line.split("  ").next().unwrap_or_default();
        names.split_whitespace().map(move |name| (name.to_owned(), layer))
    });
    names.collect()
}

/// The module at the root of the crate that a file belongs to, and how many modules above it lead there.
fn module(path: &str) -> Option<(&str, usize)> {
    let inside = path.strip_prefix(SOURCES)?.strip_suffix(".rs")?;
    if inside == "lib" || inside.starts_with("bin/") {
        return None;
    }
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    Some((inside.split('/').next().unwrap_or(inside), inside.split('/').count()))
}

/// The code of a file without comments and without its unit tests, which may use anything.
fn code(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    before_tests.lines().map(|line| without_comment(line) + "\n").collect()
}

/// The modules at the root that code names by `crate::` or by `super::` that leads there, each with its line.
fn used(code: &str, depth: usize) -> Vec<(usize, String)> {
    let to_root = ["crate::".to_owned(), "super::".repeat(depth)];
    let mut used = Vec::new();
    for prefix in to_root {
        for (at, _) in code.match_indices(&prefix) {
            let is_inside =
                code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if !is_inside {
                let line = code[..at].matches('\n').count() + 1;
                used.extend(heads(&code[at + prefix.len()..]).map(|head| (line, head.to_owned())));
            }
        }
    }
    used
}

/// The first names of a path, or of each in braces.
fn heads(path: &str) -> impl Iterator<Item = &str> {
    let list = path.strip_prefix('{');
    let mut depth = 0;
    let end = list.map_or(0, |list| {
        list.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0
        })
        .unwrap_or(list.len())
    });
    let mut inner = 0;
    let paths = list.map_or(path, |list| &list[..end]).split(move |c| {
        inner += i32::from(c == '{') - i32::from(c == '}');
        list.is_some() && c == ',' && inner == 0
    });
    let paths = paths.map(|path| {
        let path = path.trim_start();
        path.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
    });
    paths.filter(|head| !head.is_empty())
}

/// The uses against the layers.
fn check(architecture: &str, sources: &[File]) -> Vec<Finding> {
    let layers = layers(architecture);
    let mut findings = Vec::new();
    for file in sources {
        let Some((own, depth)) = module(&file.path) else { continue };
        let Some(layer) = layers.get(own) else {
            findings.push(file.finding(1, format!("{own} stands on no layer in ARCHITECTURE.md")));
            continue;
        };
        for (line, other) in used(&code(&file.text), depth) {
            // Only modules of the root are on a layer.
            if other != own && layers.get(&other).is_some_and(|it| it <= layer) {
                let message = format!("{own} uses {other}, which is not beneath it");
                findings.push(file.finding(line, message));
            }
        }
    }
    findings
}

#[test]
fn live_stands_on_its_layers() {
    let architecture = files::ending("ARCHITECTURE.md");
    let sources: Vec<File> =
        files::ending(".rs").into_iter().filter(|file| file.path.starts_with(SOURCES)).collect();
    assert!(sources.len() > 50, "the sources are not where they were");
    assert_none(&check(&architecture[0].text, &sources));
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: &str = "## The layers of the live library\n\n```\nhooks       above all\nready epoll  \
                         events of sockets\nsys\n```\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> =
            files.iter().map(|(path, text)| File::new(&format!("{SOURCES}{path}"), text)).collect();
        check(DRAWN, &files).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn uses_of_higher_layers_and_of_neighbours_are_found() {
        let cases = [
            ("sys/calls.rs", "\nuse crate::ready;\n", 2, "sys uses ready"),
            ("sys/mod.rs", "fn a() {\n    crate::hooks::real::b();\n}\n", 2, "sys uses hooks"),
            ("ready.rs", "use super::epoll::wait;\n", 1, "ready uses epoll"),
            ("ready/sets.rs", "use super::super::hooks;\n", 1, "ready uses hooks"),
            ("sys.rs", "use crate::{\n    sys::a,\n    ready::{b, c},\n};\n", 1, "sys uses ready"),
            ("epoll/mod.rs", "a!($crate::hooks::b);\n", 1, "epoll uses hooks"),
        ];
        for (path, text, line, uses) in cases {
            let message = format!("{SOURCES}{path}:{line}: {uses}, which is not beneath it");
            assert_eq!(found(&[(path, text)]), [message]);
        }
    }

    #[test]
    fn uses_of_lower_layers_and_those_of_tests_are_accepted() {
        let text = "use crate::sys;\nuse super::ready;\n// crate::hooks\n#[cfg(test)]\nmod tests {\n    use \
                    crate::hooks;\n}\n";
        assert_eq!(found(&[("ready/sets.rs", text)]), Vec::<String>::new());
        assert_eq!(found(&[("hooks/mod.rs", "use crate::epoll;\n")]), Vec::<String>::new());
    }

    #[test]
    fn a_module_that_is_not_drawn_is_found() {
        let message = format!("{SOURCES}magic.rs:1: magic stands on no layer in ARCHITECTURE.md");
        assert_eq!(found(&[("magic.rs", "")]), [message]);
    }
}
