//! Every settings field says what it means, and every quantity in the schema says its unit.

use serde_json::{Value, json};

use crate::repository::files::{self, File, Finding, assert_none};

/// Numbers that are multiples or weights of something else, so that no unit would be true.
const PURE: &[(&str, &str)] = &[
    ("ArrivalsSettings", "low"),
    ("ArrivalsSettings", "high"),
    ("BurstLength", "geometric"),
    ("Flow", "share"),
    ("Published", "value"),
    ("Published", "times"),
    ("Band", "between"),
    ("Band", "spread"),
];

/// A field of a settings type that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    settings: String,
    field: String,
    message: &'static str,
}

fn faults(schema: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let definitions = schema["$defs"].as_object().into_iter().flatten();
    let root = schema["title"].as_str().unwrap_or("Spec");
    look(root, schema, &mut faults);
    for (name, definition) in definitions {
        look(name, definition, &mut faults);
    }
    faults
}

/// Looks at the fields of one settings type: those of a table, or of the tables that are its
/// choices.
fn look(settings: &str, schema: &Value, faults: &mut Vec<Fault>) {
    let is_choice = schema.get("oneOf").is_some();
    let tables = schema["oneOf"].as_array().map_or(vec![schema], |all| all.iter().collect());
    for table in tables {
        for (field, property) in table["properties"].as_object().into_iter().flatten() {
            let mut fault = |message| {
                faults.push(Fault { settings: settings.into(), field: field.clone(), message });
            };
            let described = property.get("description").or(table.get("description"));
            let own = if is_choice { described } else { property.get("description") };
            if own.is_none() {
                fault("has no description");
            }
            let pure = PURE.contains(&(settings, field.as_str()));
            if property.get("x-unit").is_none() && !pure && needs_unit(property) {
                fault("is a quantity without `x-unit`");
            }
            if property.get("properties").is_some() {
                look(settings, property, faults);
            }
        }
    }
}

/// Whether the schema accepts a number that is not a count, or a text of a fixed form, and does
/// not say the unit itself. Tables within it are looked at for themselves.
fn needs_unit(schema: &Value) -> bool {
    if schema.get("x-unit").is_some() {
        return false;
    }
    let kind = &schema["type"];
    let is = |name: &str| kind == name || kind.as_array().is_some_and(|k| k.contains(&json!(name)));
    let is_quantity = is("number") || (is("string") && schema.get("pattern").is_some());
    let branches = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| schema[key].as_array());
    is_quantity || branches.flatten().any(needs_unit) || schema.get("items").is_some_and(needs_unit)
}

/// The line of the source where the field of a settings type stands.
fn find(fault: &Fault, sources: &[File]) -> Finding {
    let starts =
        [format!("pub struct {} ", fault.settings), format!("pub enum {} ", fault.settings)];
    let message = format!("{}.{} {}", fault.settings, fault.field, fault.message);
    for file in sources {
        let mut lines = file.lines().skip_while(|(_, l)| !starts.iter().any(|s| l.starts_with(s)));
        let Some((first, _)) = lines.next() else { continue };
        let field = format!("{}:", fault.field);
        let found = lines.take_while(|(_, line)| *line != "}").find(|(_, line)| {
            let line = line.trim_start();
            line.trim_start_matches("pub ").starts_with(&field)
        });
        return file.finding(found.map_or(first, |(line, _)| line), message);
    }
    Finding { path: "the schema".to_owned(), line: 1, message }
}

#[test]
fn every_settings_field_has_a_description_and_every_quantity_a_unit() {
    let schema = weft_lab::schema();
    assert!(schema["$defs"]["LinkSettings"]["properties"]["rate"]["x-unit"].is_string());
    let sources = files::ending(".rs");
    let findings: Vec<Finding> = faults(&schema).iter().map(|f| find(f, &sources)).collect();
    assert_none(&findings);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(properties: &Value) -> Vec<String> {
        let table = json!({ "type": "object", "properties": properties });
        let schema = json!({ "title": "Spec", "$defs": { "LinkSettings": table } });
        let source =
            "/// A link.\npub struct LinkSettings {\n    pub rate: f64,\n    pub code: u8,\n}\n";
        let sources = [File::new("link.rs", source)];
        faults(&schema).iter().map(|fault| find(fault, &sources).to_string()).collect()
    }

    #[test]
    fn a_field_without_description_is_found_where_it_stands() {
        let properties = json!({ "code": { "type": "integer" } });
        assert_eq!(found(&properties), ["link.rs:4: LinkSettings.code has no description"]);
    }

    #[test]
    fn a_quantity_without_unit_is_found_in_every_form() {
        let forms = [
            json!({ "description": "x", "type": "number" }),
            json!({ "description": "x", "type": ["number", "null"] }),
            json!({ "description": "x", "anyOf": [{ "type": "string", "pattern": "^[0-9]+ B$" }] }),
            json!({ "description": "x", "type": "array", "items": { "type": "number" } }),
        ];
        for form in forms {
            let message = "link.rs:3: LinkSettings.rate is a quantity without `x-unit`";
            assert_eq!(found(&json!({ "rate": form })), [message]);
        }
    }

    #[test]
    fn counts_texts_and_quantities_with_units_pass() {
        let properties = json!({
            "rate": { "description": "x", "x-unit": "bit/s", "anyOf": [{ "type": "number" }] },
            "code": { "description": "x", "type": "integer", "format": "uint16" },
            "title": { "description": "x", "type": "string" },
        });
        assert_eq!(found(&properties), Vec::<String>::new());
    }

    #[test]
    fn a_choice_may_be_described_where_it_is_named() {
        let named = json!({ "description": "x", "properties": { "pim": { "type": "object" } } });
        let schema = json!({ "$defs": { "S": { "oneOf": [named] } } });
        assert_eq!(faults(&schema), []);
        let schema = json!({ "$defs": { "S": { "oneOf": [{ "properties": { "pim": {} } }] } } });
        assert_eq!(faults(&schema)[0].message, "has no description");
    }
}
