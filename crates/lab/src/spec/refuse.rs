//! Errors of serde, kept until the place is known and then expressed in the terms of a
//! specification.

use std::fmt::Display;

use serde::de::{self, Expected, Unexpected};

use super::SpecError;
use super::error::Kind;
use super::path::join;
use super::place::Place;
use super::tree::{Content, Node};
use super::write::inline;

/// A refusal that propagates out of a type: the innermost node that it passes gives it its place.
#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
pub(super) struct ReadError(#[source] Box<Stage>);

#[derive(Debug, thiserror::Error)]
enum Stage {
    #[error("{0}")]
    Custom(String),
    #[error("expected {0}")]
    Misfit(String),
    #[error("unknown key {0}")]
    UnknownKey(String, &'static [&'static str]),
    #[error("unknown key {0}")]
    TakesNothing(String),
    #[error("unknown choice {0}")]
    UnknownChoice(String, &'static [&'static str]),
    #[error("no choice")]
    NoChoice(&'static [&'static str]),
    #[error("missing key {0}")]
    Missing(&'static str),
    #[error(transparent)]
    Placed(SpecError),
}

impl ReadError {
    fn new(stage: Stage) -> ReadError {
        ReadError(Box::new(stage))
    }

    pub fn no_choice(variants: &'static [&'static str]) -> ReadError {
        ReadError::new(Stage::NoChoice(variants))
    }

    pub fn takes_nothing(key: &str) -> ReadError {
        ReadError::new(Stage::TakesNothing(key.to_owned()))
    }

    /// The refusal of the value at `node`, unless it already has a place further in.
    pub fn place(self, node: &Node, path: &str) -> SpecError {
        let value = shortened(inline(node));
        let is_value = !matches!(node.content, Content::Table(_) | Content::List(_));
        let this = match (path, is_value) {
            ("", _) => "the file".to_owned(),
            (_, true) => format!("{path} = {value}"),
            (_, false) => path.to_owned(),
        };
        let refusal = |message| SpecError::new(path, message).value(value.clone()).at(&node.place);
        match *self.0 {
            Stage::Custom(message) => refusal(format!("{this}: {message}")),
            Stage::Misfit(expected) => {
                let kind = match &node.content {
                    Content::Table(_) => ": a table does not fit",
                    Content::List(_) => ": a list does not fit",
                    _ => " does not fit",
                };
                refusal(format!("{this}{kind}")).accepts(expected).kind(Kind::Misfit)
            }
            Stage::NoChoice(variants) if is_value => {
                refusal(format!("{this} does not fit")).names(variants, &value)
            }
            Stage::NoChoice(variants) => {
                refusal(format!("{this}: nothing is chosen")).names(variants, "").at(&node.key)
            }
            Stage::Missing(name) => {
                let message = match path {
                    "" => format!("missing key `{name}`"),
                    _ => format!("missing key `{name}` in {path}"),
                };
                SpecError::new(&join(path, name), message).at(&node.key).kind(Kind::Missing)
            }
            Stage::UnknownKey(..) | Stage::TakesNothing(_) => self.place_key(&node.key, path),
            Stage::UnknownChoice(..) => self.place_choice(&node.place, path),
            Stage::Placed(error) => error,
        }
    }

    /// The refusal of a key of the table `path`.
    pub fn place_key(self, key: &Place, path: &str) -> SpecError {
        let within = if path.is_empty() { String::new() } else { format!(" in {path}") };
        match *self.0 {
            Stage::UnknownKey(name, accepted) => {
                let message = format!("unknown key `{name}`{within}");
                let refusal = SpecError::new(&join(path, &name), message).names(accepted, &name);
                refusal.at(key).kind(Kind::UnknownKey)
            }
            Stage::TakesNothing(name) => {
                let message = format!("unknown key `{name}`{within}, which has no settings");
                SpecError::new(&join(path, &name), message).at(key)
            }
            Stage::Placed(error) => error,
            other => SpecError::new(path, other.to_string()).at(key),
        }
    }

    /// The refusal of a choice at `path`.
    pub fn place_choice(self, place: &Place, path: &str) -> SpecError {
        match *self.0 {
            Stage::UnknownChoice(name, accepted) => {
                let message = format!("unknown choice `{name}` for {path}");
                SpecError::new(path, message).value(name.clone()).names(accepted, &name).at(place)
            }
            Stage::Placed(error) => error,
            other => SpecError::new(path, other.to_string()).at(place),
        }
    }
}

impl From<SpecError> for ReadError {
    fn from(error: SpecError) -> ReadError {
        ReadError::new(Stage::Placed(error))
    }
}

impl de::Error for ReadError {
    fn custom<T: Display>(message: T) -> ReadError {
        ReadError::new(Stage::Custom(message.to_string()))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> ReadError {
        ReadError::new(Stage::Misfit(in_words(&expected.to_string())))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> ReadError {
        ReadError::new(Stage::Misfit(in_words(&expected.to_string())))
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> ReadError {
        ReadError::new(Stage::Misfit(in_words(&expected.to_string())))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> ReadError {
        ReadError::new(Stage::UnknownChoice(variant.to_owned(), expected))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> ReadError {
        ReadError::new(Stage::UnknownKey(field.to_owned(), expected))
    }

    fn missing_field(field: &'static str) -> ReadError {
        ReadError::new(Stage::Missing(field))
    }
}

/// What serde's own types expect, in the words of a file rather than of Rust.
fn in_words(expected: &str) -> String {
    let range = |min: i128, max: i128| format!("a whole number in {min}..={max}");
    match expected {
        "u8" => range(0, u8::MAX.into()),
        "u16" => range(0, u16::MAX.into()),
        "u32" => range(0, u32::MAX.into()),
        "u64" | "usize" => range(0, u64::MAX.into()),
        "i8" => range(i8::MIN.into(), i8::MAX.into()),
        "i16" => range(i16::MIN.into(), i16::MAX.into()),
        "i32" => range(i32::MIN.into(), i32::MAX.into()),
        "i64" | "isize" => range(i64::MIN.into(), i64::MAX.into()),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        _ if expected.starts_with("struct ") => "a table".to_owned(),
        _ => expected.to_owned(),
    }
}

fn shortened(value: String) -> String {
    const LONGEST: usize = 60;
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value,
    }
}
