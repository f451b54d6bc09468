//! Dependencies among crates point only where the drawing in ARCHITECTURE.md says.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::repository::files::{self, File, Finding, assert_none};

const DRAWING: &str = "## Which way dependencies point";

/// Crates that are not layers: they may use any layer below the extension module, and no crate may
/// use them.
const TOOLS: &[&str] = &["bench"];

/// Crates that may use less than their place in the drawing allows.
const ONLY: &[(&str, &[&str])] =
    &[("live", &["units", "protocol"]), ("messages", &["units", "protocol"]), ("python", &["lab"])];

/// The layer of each crate: the number of the line of the drawing on which it stands. A crate may
/// use those on the lines above it, and none on its own.
fn layers(architecture: &str, crates: &[String]) -> BTreeMap<String, usize> {
    let after = architecture.split(DRAWING).nth(1).unwrap_or_default();
    let drawing = after.split("```").nth(1).unwrap_or_default();
    let mut layers = BTreeMap::new();
    for (line, text) in drawing.lines().enumerate() {
        for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if crates.iter().any(|name| name == word) {
                layers.entry(word.to_owned()).or_insert(line);
            }
        }
    }
    layers
}

/// The crates of this workspace that a manifest names as dependencies of any kind.
fn used(manifest: &Table) -> Vec<String> {
    let mut used = Vec::new();
    let mut tables = vec![manifest];
    if let Some(Value::Table(targets)) = manifest.get("target") {
        tables.extend(targets.values().filter_map(Value::as_table));
    }
    for table in tables {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let names = table.get(kind).and_then(Value::as_table).into_iter().flatten();
            used.extend(names.filter_map(|(name, value)| {
                let package = value.get("package").and_then(Value::as_str).unwrap_or(name);
                package.strip_prefix("weft-").map(str::to_owned)
            }));
        }
    }
    used
}

fn name(manifest: &Table) -> Option<String> {
    let name = manifest.get("package")?.get("name")?.as_str()?;
    Some(name.strip_prefix("weft-").unwrap_or(name).to_owned())
}

fn check(architecture: &str, manifests: &[File]) -> Vec<Finding> {
    let parsed: Vec<(&File, String, Table)> = manifests
        .iter()
        .map(|file| (file, file.text.parse::<Table>().expect("a manifest that cargo reads")))
        .filter_map(|(file, table)| Some((file, name(&table)?, table)))
        .collect();
    let crates: Vec<String> = parsed.iter().map(|(_, name, _)| name.clone()).collect();
    let layers = layers(architecture, &crates);
    let mut findings = Vec::new();
    for (file, name, table) in &parsed {
        let own = layers.get(name).copied();
        let is_tool = TOOLS.contains(&name.as_str());
        if own.is_none() && !is_tool {
            findings.push(file.finding(1, format!("{name} is not drawn in ARCHITECTURE.md")));
            continue;
        }
        for other in used(table) {
            let below = match (layers.get(&other), own) {
                (Some(other), Some(own)) => *other < own,
                (Some(_), None) => other != "python",
                (None, _) => false,
            };
            let only = ONLY.iter().find(|(limited, _)| limited == name);
            if !below || only.is_some_and(|(_, only)| !only.contains(&other.as_str())) {
                let line = file.lines().find(|(_, line)| {
                    line.strip_prefix("weft-").is_some_and(|rest| rest.starts_with(&other))
                });
                let line = line.map_or(1, |(number, _)| number);
                let message = format!("{name} -> {other} is not drawn in ARCHITECTURE.md");
                findings.push(file.finding(line, message));
            }
        }
    }
    findings
}

#[test]
fn dependencies_point_as_drawn() {
    let manifests = files::ending("Cargo.toml");
    let architecture = files::ending("ARCHITECTURE.md");
    let found = layers(&architecture[0].text, &["units", "python"].map(str::to_owned));
    assert!(found["units"] < found["python"], "the drawing is not where it was");
    assert_none(&check(&architecture[0].text, &manifests));
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: &str = "## Which way dependencies point\n\n```\n    units\n   /    \\\nkernel  \
                         protocol\n   \\   /\n   fabric\n    |\n   lab\n    |\n  python\n```\n";

    fn manifest(name: &str, kind: &str, used: &[&str]) -> File {
        let used: String = used.iter().map(|u| format!("weft-{u}.workspace = true\n")).collect();
        let text = format!("[package]\nname = \"weft-{name}\"\n\n[{kind}]\n{used}");
        File::new(&format!("crates/{name}/Cargo.toml"), &text)
    }

    fn found(manifests: &[File]) -> Vec<String> {
        let others = ["units", "kernel", "protocol", "fabric", "lab", "python"];
        let mut all = manifests.to_vec();
        let missing = others.iter().filter(|other| {
            !manifests.iter().any(|file| file.path == format!("crates/{other}/Cargo.toml"))
        });
        all.extend(missing.map(|other| manifest(other, "dependencies", &[])));
        check(DRAWN, &all).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn edges_against_or_beside_the_arrows_are_refused() {
        let cases = [
            ("protocol", "dependencies", "kernel"),
            ("kernel", "dependencies", "protocol"),
            ("lab", "dependencies", "python"),
            ("units", "dev-dependencies", "lab"),
            ("fabric", "build-dependencies", "lab"),
            ("python", "dependencies", "fabric"),
            ("kernel", "target.'cfg(unix)'.dependencies", "fabric"),
        ];
        for (name, kind, used) in cases {
            let bad = manifest(name, kind, &[used]);
            let message = format!(
                "crates/{name}/Cargo.toml:5: {name} -> {used} is not drawn in ARCHITECTURE.md"
            );
            assert_eq!(found(&[bad]), [message]);
        }
    }

    #[test]
    fn edges_along_the_arrows_are_accepted() {
        let lab = manifest("lab", "dependencies", &["units", "kernel", "protocol", "fabric"]);
        let bench = manifest("bench", "dependencies", &["lab", "units"]);
        assert_eq!(found(&[lab, bench]), Vec::<String>::new());
    }

    #[test]
    fn a_crate_that_is_not_drawn_is_found() {
        let message = "crates/magic/Cargo.toml:1: magic is not drawn in ARCHITECTURE.md";
        assert_eq!(found(&[manifest("magic", "dependencies", &[])]), [message]);
    }

    #[test]
    fn nobody_uses_the_tools() {
        let lab = manifest("lab", "dev-dependencies", &["bench"]);
        let bench = manifest("bench", "dependencies", &[]);
        let message = "crates/lab/Cargo.toml:5: lab -> bench is not drawn in ARCHITECTURE.md";
        assert_eq!(found(&[lab, bench]), [message]);
    }
}
