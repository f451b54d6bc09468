//! A tree as text: TOML for people, JSON for programs, and one canonical form for hashing.

use serde_json::{Map, Value};

use super::path::{join, key, quote};
use super::tree::{Content, Entry, Node, Tree};

impl Tree {
    /// The specification as TOML, without origins; reading it back gives an equal tree.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        match &self.root.content {
            Content::Table(entries) => write_table(entries, "", &mut text),
            _ => text.push_str(&inline(&self.root)),
        }
        text
    }

    /// The specification as JSON, without origins, in file order.
    pub fn to_json(&self) -> Value {
        json(&self.root)
    }

    /// One line that is equal for equal trees: JSON with sorted keys, each number in its shortest
    /// form (`1.0` as `1`). Texts are taken as they are, so that `"1000 ns"` and `"1 us"` differ.
    pub fn canonical(&self) -> String {
        let mut value = self.to_json();
        value.sort_all_objects();
        value.to_string()
    }
}

/// The value on one line, as TOML.
pub(super) fn inline(node: &Node) -> String {
    match &node.content {
        Content::Text(text) => quote(text),
        Content::Whole(number) => number.to_string(),
        // The debug form of a finite number always has a point or an exponent, as TOML demands.
        Content::Number(number) => format!("{number:?}"),
        Content::Flag(flag) => flag.to_string(),
        Content::List(elements) => {
            let elements: Vec<_> = elements.iter().map(inline).collect();
            format!("[{}]", elements.join(", "))
        }
        Content::Table(entries) if entries.is_empty() => "{}".to_owned(),
        Content::Table(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|entry| format!("{} = {}", key(&entry.name), inline(&entry.node)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

fn write_table(entries: &[Entry], path: &str, text: &mut String) {
    let is_section = |node: &Node| matches!(node.content, Content::Table(_)) || is_sections(node);
    // A key below a header belongs to the header, so the plain keys of a table come first.
    for entry in entries.iter().filter(|entry| !is_section(&entry.node)) {
        text.push_str(&format!("{} = {}\n", key(&entry.name), inline(&entry.node)));
    }
    for entry in entries {
        let path = join(path, &entry.name);
        match &entry.node.content {
            Content::Table(inner) => {
                // A table of tables alone needs no header of its own.
                if inner.is_empty() || inner.iter().any(|entry| !is_section(&entry.node)) {
                    header(&format!("[{path}]"), text);
                }
                write_table(inner, &path, text);
            }
            Content::List(elements) if is_sections(&entry.node) => {
                for element in elements {
                    header(&format!("[[{path}]]"), text);
                    if let Content::Table(inner) = &element.content {
                        write_table(inner, &path, text);
                    }
                }
            }
            _ => {}
        }
    }
}

fn header(line: &str, text: &mut String) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
}

/// Whether the node is a list that TOML writes as repeated sections.
pub(super) fn is_sections(node: &Node) -> bool {
    node.elements().is_some_and(|elements| {
        !elements.is_empty() && elements.iter().all(|node| node.entries().is_some())
    })
}

fn json(node: &Node) -> Value {
    match &node.content {
        Content::Text(text) => Value::from(text.as_str()),
        Content::Whole(number) => whole(*number),
        Content::Number(number) => shortest(*number),
        Content::Flag(flag) => Value::from(*flag),
        Content::List(elements) => elements.iter().map(json).collect(),
        Content::Table(entries) => {
            let entries = entries.iter().map(|entry| (entry.name.clone(), json(&entry.node)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
    }
}

fn whole(number: i128) -> Value {
    u64::try_from(number).map_or_else(|_| Value::from(number as i64), Value::from)
}

/// Whole numbers below 2^53 without a point: beyond, a double does not name one whole number.
fn shortest(number: f64) -> Value {
    let exact = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
    if exact { Value::from(number as i64) } else { Value::from(number) }
}
