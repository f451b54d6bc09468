//! What the schema knows about a key: its meaning, the keys of its table, and where else it
//! belongs.

use serde_json::Value;

use crate::composition::Spec;
use crate::spec::{Kind, Node, SpecError, Tree, schema as schema_of, split};

/// Reads a composition. A refusal is completed by what the schema knows: the keys of a table that
/// lacks one, and the table to which a misplaced key belongs.
pub fn read(tree: &Tree) -> Result<Spec, SpecError> {
    resolve(tree).map(|(spec, _)| spec)
}

/// Reads a composition, and returns it with the tree of its values.
pub fn resolve(tree: &Tree) -> Result<(Spec, Tree), SpecError> {
    tree.resolve().map_err(|error| complete(tree, error))
}

/// The documentation of the field at a dotted path.
pub fn describe(schema: &Value, path: &str) -> Option<String> {
    let mut at = schema;
    for name in path.split('.') {
        at = step(schema, follow(schema, at), name)?;
    }
    let text = at.get("description").or_else(|| follow(schema, at).get("description"))?;
    // What a person reads in a table is one paragraph without line breaks.
    let paragraph = text.as_str()?.split("\n\n").next()?;
    Some(paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn complete(tree: &Tree, error: SpecError) -> SpecError {
    let Some(mut names) = split(&error.key) else { return error };
    let Some(name) = names.pop() else { return error };
    let schema = schema_of::<Spec>();
    match error.kind {
        Kind::Missing => match keys_of(&schema, &names) {
            Some(keys) => error.accepts(keys),
            None => error,
        },
        Kind::UnknownKey | Kind::Misfit => {
            let tables = homes(&schema, tree, &names, &name, error.kind);
            if tables.is_empty() { error } else { error.belongs(&tables) }
        }
        Kind::Other => error,
    }
}

/// The tables one level away that know the key: those within its own table, or the one around it.
fn homes(schema: &Value, tree: &Tree, around: &[String], name: &str, kind: Kind) -> Vec<String> {
    let knows = |path: &[String]| {
        let table = at(schema, path).and_then(|at| table(schema, at));
        table.and_then(|table| table.get("properties")?.get(name)).is_some()
    };
    // A key that its table knows has a wrong value, not a wrong place.
    if knows(around) {
        return Vec::new();
    }
    let own = around.join(".");
    let node = if around.is_empty() { Some(tree.root()) } else { tree.get(&own) };
    let tables = node.and_then(Node::entries).into_iter().flatten();
    let mut within: Vec<&str> =
        tables.filter(|(_, node)| node.entries().is_some()).map(|(table, _)| table).collect();
    if own == "workload" {
        // Its tables have the names of the channels, whether or not they are there yet.
        within = tree
            .get("channel")
            .and_then(Node::entries)
            .into_iter()
            .flatten()
            .map(|c| c.0)
            .collect();
    }
    let mut found: Vec<String> = Vec::new();
    for table in within.into_iter().filter(|table| *table != name) {
        let path = [around, &[table.to_owned()]].concat();
        // A table of channels has no keys of its own: what it holds says which channels there are.
        let has = tree.get(&[&path[..], &[name.to_owned()]].concat().join(".")).is_some();
        if knows(&path) || (kind == Kind::UnknownKey && has) {
            found.push(path.join("."));
        }
    }
    if let Some((_, outer)) = around.split_last().filter(|_| kind == Kind::UnknownKey)
        && knows(outer)
    {
        found.push(if outer.is_empty() { "the file itself".to_owned() } else { outer.join(".") });
    }
    found
}

/// The schema at a path.
fn at<'a>(schema: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(schema, |at, name| step(schema, follow(schema, at), name))
}

/// The table among the forms that a value may have.
fn table<'a>(schema: &'a Value, at: &'a Value) -> Option<&'a Value> {
    let at = follow(schema, at);
    if at.get("properties").is_some() {
        return Some(at);
    }
    at.get("anyOf")?.as_array()?.iter().find_map(|form| table(schema, form))
}

/// Larger tables are shown by the keys that they need, and the names of the others.
const MOST_SHOWN: usize = 6;

/// The keys of the table at a path: what each takes, which are needed, and an example.
fn keys_of(schema: &Value, path: &[String]) -> Option<String> {
    let table = table(schema, at(schema, path)?)?;
    let needed: Vec<&str> =
        table.get("required")?.as_array()?.iter().filter_map(Value::as_str).collect();
    let origins = ["stated", "derived", "calibrated", "predicts"];
    let keys = table.get("properties")?.as_object()?;
    let keys: Vec<_> = keys.iter().filter(|(name, _)| !origins.contains(&name.as_str())).collect();
    let is_needed = |name: &str| needed.contains(&name);
    let shown = |name: &str, key: &Value| format!("`{name}`, {}", takes(schema, key));
    let (must, may): (Vec<_>, Vec<_>) = keys.iter().partition(|(name, _)| is_needed(name));
    let mut parts: Vec<String> = must.iter().map(|(name, key)| shown(name, key)).collect();
    if !may.is_empty() {
        let brief = keys.len() > MOST_SHOWN;
        let names = may.iter().map(|(name, key)| match brief {
            true => format!("`{name}`"),
            false => shown(name, key),
        });
        parts.push(format!("and if wanted {}", names.collect::<Vec<_>>().join(", ")));
    }
    let examples: Option<Vec<String>> = must
        .iter()
        .map(|(name, key)| Some(format!("{name} = {}", example(schema, key)?)))
        .collect();
    let example = examples.filter(|examples| !examples.is_empty()).map(|examples| {
        let name = path.last().map_or("", String::as_str);
        format!(". For example: {name} = {{ {} }}", examples.join(", "))
    });
    Some(format!("{}{}", parts.join("; "), example.unwrap_or_default()))
}

/// The plain form of a value, without its origin.
fn plain<'a>(schema: &'a Value, key: &'a Value) -> &'a Value {
    let key = follow(schema, key);
    let first = key.get("anyOf").and_then(Value::as_array).and_then(|forms| forms.first());
    first.map_or(key, |form| plain(schema, form))
}

/// What a key takes, in words.
fn takes(schema: &Value, key: &Value) -> String {
    let value = plain(schema, key);
    let unit = [key, value].into_iter().find_map(|at| at.get("x-unit")?.as_str());
    let text = |name: &str| value.get(name).map(ToString::to_string);
    match (value.get("type").and_then(Value::as_str), unit) {
        (Some("string"), Some(unit)) => format!("a text with its unit ({unit})"),
        (Some("integer"), _) => {
            let least = text("minimum").unwrap_or_else(|| "0".to_owned());
            format!("a whole number from {least}")
        }
        (Some("number"), _) => "a number".to_owned(),
        (Some("boolean"), _) => "true or false".to_owned(),
        (Some("array"), _) => "a list".to_owned(),
        (Some("string"), None) => "a text".to_owned(),
        _ if value.get("oneOf").is_some() => "a choice".to_owned(),
        _ => "a table".to_owned(),
    }
}

/// A value of a key: the example of its documentation, or the least number that it takes.
fn example(schema: &Value, key: &Value) -> Option<String> {
    let value = plain(schema, key);
    let given = [key, value].into_iter().find_map(|at| at.get("examples")?.get(0));
    match (given, value.get("type").and_then(Value::as_str)) {
        (Some(given), _) => Some(given.to_string()),
        (None, Some("integer")) => Some(
            value.get("minimum").map_or(1, |least| least.as_u64().unwrap_or(1).max(1)).to_string(),
        ),
        (None, Some("boolean")) => Some("true".to_owned()),
        _ => None,
    }
}

fn follow<'a>(schema: &'a Value, at: &'a Value) -> &'a Value {
    let reference = at.get("$ref").and_then(Value::as_str);
    let found = reference.and_then(|to| schema.pointer(to.trim_start_matches('#')));
    found.unwrap_or(at)
}

/// The schema of one key: a property, a value of a map, or the variant of a choice.
fn step<'a>(schema: &'a Value, at: &'a Value, name: &str) -> Option<&'a Value> {
    if let Some(property) = at.get("properties").and_then(|properties| properties.get(name)) {
        return Some(property);
    }
    if let Some(value) = at.get("additionalProperties").filter(|value| value.is_object()) {
        return Some(value);
    }
    let variants = at.get("oneOf").or_else(|| at.get("anyOf"))?.as_array()?;
    variants.iter().find_map(|variant| step(schema, follow(schema, variant), name))
}
