//! Laws of merging and of the written form, for any tree.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use weft_lab::spec::Tree;

/// Any value of a specification. No key is reserved, and no list holds tables beside values, so
/// that what is compared is the law and not the grammar of origins.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), table(inner),]
    })
}

fn table(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let key = prop_oneof![4 => "[a-d]", 1 => "[a-d.\" \\\\\u{e9}]{0,3}"];
    prop::collection::vec((key, inner), 0..5)
        .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>()))
}

/// The text of an option with the value that it means.
fn option() -> impl Strategy<Value = (String, Value)> {
    prop_oneof![
        any::<i64>().prop_map(|number| (number.to_string(), Value::from(number))),
        any::<bool>().prop_map(|flag| (flag.to_string(), Value::from(flag))),
        "[0-9]{1,3}\\.[0-9]{1,3} (ns|B|Gbit/s)".prop_map(|text| (text.clone(), json!(text))),
        "x[a-z_]{0,8}".prop_map(|text| (text.clone(), json!(text))),
        any::<String>()
            .prop_map(|text| (json!(text).to_string(), json!(text)))
            .prop_filter("an escape that TOML has too", |(text, _)| !text.contains("\\u")),
    ]
}

fn tree(value: &Value) -> Tree {
    Tree::from_json("generated", value).unwrap()
}

/// What merging means, said in four lines.
fn merged(base: &Value, over: &Value) -> Value {
    let (Value::Object(base), Value::Object(over)) = (base, over) else { return over.clone() };
    let mut merged = base.clone();
    for (key, value) in over {
        let below = base.get(key).unwrap_or(&Value::Null);
        merged.insert(key.clone(), self::merged(below, value));
    }
    Value::Object(merged)
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in table(value())) {
        let tree = tree(&value);
        let back = Tree::parse("written.toml", &tree.to_toml());
        prop_assert_eq!(&back.unwrap(), &tree);
        prop_assert_eq!(Tree::from_json("json", &tree.to_json()).unwrap(), tree);
    }

    #[test]
    fn merging_is_the_merging_of_tables(a in table(value()), b in table(value())) {
        prop_assert_eq!(tree(&a).merge(tree(&b)), tree(&merged(&a, &b)));
    }

    #[test]
    fn nothing_changes_what_it_is_merged_with(a in table(value())) {
        let empty = Value::Object(Map::new());
        prop_assert_eq!(tree(&a).merge(tree(&empty)), tree(&a));
        prop_assert_eq!(tree(&empty).merge(tree(&a)), tree(&a));
        prop_assert_eq!(tree(&a).merge(tree(&a)), tree(&a));
    }

    #[test]
    fn an_option_is_a_layer(
        a in table(value()),
        names in prop::collection::vec("[a-d]", 1..4),
        (text, value) in option(),
    ) {
        let path = names.join(".");
        let mut with_option = tree(&a);
        with_option.set(&path, &text).unwrap();
        let layer = names.iter().rfold(value, |value, name| json!({ name: value }));
        prop_assert_eq!(&with_option, &tree(&a).merge(tree(&layer)));
        let place = with_option.get(&path).unwrap().place().to_string();
        prop_assert_eq!(place, format!("--set {path}={text}"));
    }

    #[test]
    fn a_refused_text_has_a_place_within_the_text(text in "[a-c=\\[\\]{}\"\n .0-9]{0,40}") {
        if let Err(error) = Tree::parse("any.toml", &text) {
            let lines = text.split('\n').count();
            prop_assert!(text.is_empty() || error.line.is_some_and(|line| line <= lines));
        }
    }

    #[test]
    fn a_value_of_any_type_is_read_as_it_is(value in table(value())) {
        let read: Value = tree(&value).read().unwrap();
        prop_assert_eq!(tree(&read), tree(&value));
    }
}
