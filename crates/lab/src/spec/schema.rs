//! The JSON schema of a specification, for editors.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The JSON schema (draft 2020-12) of the files that describe a `T`.
///
/// It accepts what [`Tree::parse`](super::Tree::parse) does: every value may be written as
/// `{ value = ..., stated = "..." }`, and every table may carry an origin.
pub fn schema<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    let definitions = schema.get("$defs").cloned().unwrap_or_default();
    allow_origins(&mut schema, &definitions);
    schema
}

const ORIGIN_KEYS: [(&str, &str); 4] = [
    ("stated", "The section of the source that states it."),
    ("derived", "The arithmetic by which it follows from what the source states."),
    ("calibrated", "The published number that it was fitted to; needs `predicts`."),
    ("predicts", "A published number that it reproduces without having been fitted to it."),
];

/// Keys that describe a value rather than constrain it, and so belong to both of its forms.
const DESCRIPTIVE: [&str; 4] = ["title", "description", "default", "x-unit"];

fn allow_origins(schema: &mut Value, definitions: &Value) {
    let Value::Object(schema) = schema else { return };
    for key in ["$defs", "patternProperties"] {
        if let Some(Value::Object(schemas)) = schema.get_mut(key) {
            schemas.values_mut().for_each(|schema| allow_origins(schema, definitions));
        }
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(Value::Array(schemas)) = schema.get_mut(key) {
            schemas.iter_mut().for_each(|schema| allow_origins(schema, definitions));
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get_mut(key) {
            allow_origins(schema, definitions);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            allow_origins(property, definitions);
            if !is_table(property, definitions) {
                *property = value_or_leaf(property.take());
            }
        }
        add_origin_keys(properties);
    }
}

/// Whether the schema describes a table, whose origin is among its own keys.
fn is_table(schema: &Value, definitions: &Value) -> bool {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/$defs/"));
    let schema = name.and_then(|name| definitions.get(name)).unwrap_or(schema);
    schema.get("type") == Some(&json!("object"))
}

/// The value itself, or a table of the value with its origin.
fn value_or_leaf(schema: Value) -> Value {
    let Value::Object(mut value) = schema else { return schema };
    let mut outer = Map::new();
    for key in DESCRIPTIVE {
        if let Some(text) = value.shift_remove(key) {
            outer.insert(key.to_owned(), text);
        }
    }
    let mut properties = Map::new();
    properties.insert("value".to_owned(), Value::Object(value.clone()));
    add_origin_keys(&mut properties);
    let leaf = json!({
        "type": "object",
        "properties": properties,
        "required": ["value"],
        "additionalProperties": false,
    });
    outer.insert("anyOf".to_owned(), json!([value, leaf]));
    Value::Object(outer)
}

fn add_origin_keys(properties: &mut Map<String, Value>) {
    for (key, description) in ORIGIN_KEYS {
        properties.insert(key.to_owned(), json!({ "type": "string", "description": description }));
    }
}
