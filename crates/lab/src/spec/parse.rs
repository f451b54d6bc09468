//! Text to tree.

use std::sync::Arc;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SpecError;
use super::path::join;
use super::place::{Place, Source};
use super::tree::{Content, Entry, Node, Origin, OriginKind, Tree};

const VALUE: &str = "value";
const PREDICTS: &str = "predicts";

impl Tree {
    /// The specification in a TOML text; `name` is what errors call the file.
    ///
    /// A table with `value` and one of `stated`, `derived` and `calibrated` is that value with its
    /// origin. A table without `value` may carry the origin of the choice that it makes. These
    /// keys are therefore no parameter's name.
    pub fn parse(name: &str, text: &str) -> Result<Tree, SpecError> {
        let source = Source::file(name, text);
        let document = DeTable::parse(text).map_err(|error| syntax(&source, &error))?;
        let root = Place::new(&source, 0..0);
        let content = table(&source, document.get_ref(), "")?;
        Ok(Tree::of(finish(Node::new(content, root.clone(), root), "")?))
    }

    /// The specification in a JSON value, as a program passes it; errors call it `name`. There are
    /// no lines to point at, so errors name only the key.
    pub fn from_json(name: &str, value: &Value) -> Result<Tree, SpecError> {
        let place = Place::new(&Source::without_lines(name.to_owned()), 0..0);
        Ok(Tree::of(from_json(value, &place, "")?))
    }

    /// The specification that a program wrote down as JSON text from the types which are to read it, for another
    /// process; errors call it `name`. A null is a key that is left out.
    ///
    /// All types read themselves from a [`Tree`]: to read them from JSON directly would need the code of all of them
    /// once more.
    pub fn from_written(name: &str, text: &str) -> Result<Tree, SpecError> {
        let mut value = serde_json::from_str(text).map_err(|error| {
            let source = Source::without_lines(name.to_owned());
            SpecError::new("", format!("this is no JSON: {error}")).at(&Place::new(&source, 0..0))
        })?;
        drop_nulls(&mut value);
        Tree::from_json(name, &value)
    }

    pub(super) fn of(root: Node) -> Tree {
        Tree { root, layers: 1, prefix: String::new() }
    }
}

/// The value in the text of a `--set` option: TOML if it is a TOML value, else a string.
pub(super) fn option_value(path: &str, text: &str, place: &Place) -> Result<Node, SpecError> {
    let source = Source::file("", text);
    let value = DeValue::parse(text).map(|value| {
        let is_list_or_table = value.get_ref().is_array() || value.get_ref().is_table();
        (is_list_or_table, node(&source, &value, place.clone(), path))
    });
    let mut node = match value {
        Ok((_, Ok(node))) => node,
        Ok((true, Err(error))) => return Err(error.at(place)),
        // A value that a file would refuse (a date, `inf`) is read as a text here.
        _ => Node::new(Content::Text(text.to_owned()), place.clone(), place.clone()),
    };
    node.for_each(&mut |node| {
        node.key = place.clone();
        node.place = place.clone();
    });
    Ok(node)
}

fn syntax(source: &Arc<Source>, error: &toml::de::Error) -> SpecError {
    let end = source.text.len();
    let message = format!("this is no TOML: {}", error.message().replace('\n', ", "));
    SpecError::new("", message).at(&Place::new(source, error.span().unwrap_or(end..end)))
}

fn table(source: &Arc<Source>, table: &DeTable<'_>, path: &str) -> Result<Content, SpecError> {
    let mut keys: Vec<_> = table.iter().collect();
    // The parser sorts by name; people and reports want the order of the file.
    keys.sort_by_key(|(name, _)| name.span().start);
    let entries = keys.into_iter().map(|(name, value)| {
        let key = Place::new(source, name.span());
        let path = join(path, name.get_ref());
        let node = node(source, value, key, &path)?;
        Ok(Entry { name: name.get_ref().to_string(), node })
    });
    Ok(Content::Table(entries.collect::<Result<_, SpecError>>()?))
}

fn node(
    source: &Arc<Source>,
    value: &Spanned<DeValue<'_>>,
    key: Place,
    path: &str,
) -> Result<Node, SpecError> {
    let place = Place::new(source, value.span());
    let refuse = |message: &str, accepted: &str| {
        let written = source.text.get(value.span()).unwrap_or_default();
        SpecError::new(path, format!("{path} = {written}: {message}"))
            .value(written.to_owned())
            .accepts(accepted)
            .at(&place)
    };
    let content = match value.get_ref() {
        DeValue::String(text) => Content::Text(text.to_string()),
        DeValue::Integer(number) => {
            let number = i128::from_str_radix(number.as_str(), number.radix()).ok();
            let range = i128::from(i64::MIN)..=i128::from(u64::MAX);
            Content::Whole(number.filter(|number| range.contains(number)).ok_or_else(|| {
                refuse("this is no whole number of 64 bits", "a whole number of 64 bits")
            })?)
        }
        DeValue::Float(number) => {
            let number = number.as_str().parse().ok().filter(|number: &f64| number.is_finite());
            Content::Number(
                number.ok_or_else(|| refuse("this is no finite number", "a finite number"))?,
            )
        }
        DeValue::Boolean(flag) => Content::Flag(*flag),
        DeValue::Datetime(_) => {
            return Err(refuse("no parameter is a date", "a number, or a text in quotes"));
        }
        DeValue::Array(elements) => {
            let elements = elements.iter().enumerate().map(|(index, element)| {
                let key = Place::new(source, element.span());
                node(source, element, key, &format!("{path}[{index}]"))
            });
            Content::List(elements.collect::<Result<_, _>>()?)
        }
        DeValue::Table(entries) => table(source, entries, path)?,
    };
    finish(Node::new(content, key, place), path)
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(drop_nulls),
        Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

fn from_json(value: &Value, place: &Place, path: &str) -> Result<Node, SpecError> {
    let content = match value {
        Value::String(text) => Content::Text(text.clone()),
        Value::Bool(flag) => Content::Flag(*flag),
        Value::Number(number) => match (number.as_i128(), number.as_f64()) {
            (Some(whole), _) => Content::Whole(whole),
            (None, Some(number)) => Content::Number(number),
            (None, None) => return Err(absent(path, place)),
        },
        Value::Null => return Err(absent(path, place)),
        Value::Array(elements) => {
            let elements = elements.iter().enumerate();
            let elements = elements.map(|(i, v)| from_json(v, place, &format!("{path}[{i}]")));
            Content::List(elements.collect::<Result<_, _>>()?)
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(name, value)| {
                let node = from_json(value, place, &join(path, name))?;
                Ok(Entry { name: name.clone(), node })
            });
            Content::Table(entries.collect::<Result<_, SpecError>>()?)
        }
    };
    finish(Node::new(content, place.clone(), place.clone()), path)
}

fn absent(path: &str, place: &Place) -> SpecError {
    SpecError::new(path, format!("{path} has no value"))
        .value("null".to_owned())
        .accepts("a value; leave the key out for its default")
        .at(place)
}

/// Turns the reserved keys of a table into its origin.
fn finish(mut node: Node, path: &str) -> Result<Node, SpecError> {
    let Content::Table(entries) = &mut node.content else { return Ok(node) };
    let Some(origin) = origin(entries, path)? else { return Ok(node) };
    let reserved =
        |name: &str| name == PREDICTS || OriginKind::ALL.iter().any(|kind| kind.name() == name);
    entries.retain(|entry| !reserved(&entry.name));
    if let Some(value) = entries.iter().position(|entry| entry.name == VALUE) {
        let value = entries.remove(value).node;
        if let Some(extra) = entries.first() {
            let message = format!("unknown key `{}` beside the value of {path}", extra.name);
            let kinds = OriginKind::ALL.map(OriginKind::name);
            let accepted = [&[VALUE], kinds.as_slice(), &[PREDICTS]].concat();
            return Err(SpecError::new(&join(path, &extra.name), message)
                .names(&accepted, &extra.name)
                .at(&extra.node.key));
        }
        node.content = value.content;
        node.place = value.place;
    }
    node.origin = Some(origin);
    Ok(node)
}

fn origin(entries: &[Entry], path: &str) -> Result<Option<Origin>, SpecError> {
    let find = |name: &str| entries.iter().find(|entry| entry.name == name);
    let mut found = OriginKind::ALL.into_iter().filter_map(|kind| Some((kind, find(kind.name())?)));
    let predicts = find(PREDICTS);
    let refuse = |entry: &Entry, message: String| {
        SpecError::new(&join(path, &entry.name), message).at(&entry.node.key)
    };
    let Some((kind, entry)) = found.next() else {
        return match predicts {
            Some(entry) => Err(refuse(
                entry,
                format!("`{PREDICTS}` in {path} goes with `calibrated`, which is not there"),
            )),
            None => Ok(None),
        };
    };
    if let Some((second, entry)) = found.next() {
        return Err(refuse(entry, format!("{path} has two origins, `{kind}` and `{second}`"))
            .accepts("one origin for one value"));
    }
    let predicts = match (kind, predicts) {
        (OriginKind::Calibrated, Some(entry)) => Some(text(entry, path)?),
        (OriginKind::Calibrated, None) => {
            return Err(refuse(entry, format!("{path} is calibrated but predicts nothing"))
                .accepts("`predicts` beside it: a published number that it was not fitted to"));
        }
        (_, Some(entry)) => {
            let message = format!("{path} is {kind}; only what is calibrated `{PREDICTS}`");
            return Err(refuse(entry, message));
        }
        (_, None) => None,
    };
    Ok(Some(Origin { kind, text: text(entry, path)?, predicts }))
}

fn text(entry: &Entry, path: &str) -> Result<String, SpecError> {
    entry.node.as_str().map(str::to_owned).ok_or_else(|| {
        let (path, written) = (join(path, &entry.name), entry.node.text());
        SpecError::new(&path, format!("{path} = {written} does not fit"))
            .value(written)
            .accepts("a text in quotes: the section, the arithmetic or the number")
            .at(&entry.node.place)
    })
}
