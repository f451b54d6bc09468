//! How a specification is refused: where, what, and what would be accepted.

use std::fmt;
use std::ops::Deref;

use serde::Serialize;

use super::nearest::nearest;
use super::place::Place;

/// The refusal of a specification.
///
/// `Display` shows it to a person, over several lines; the fields of [`Refusal`], which this
/// dereferences to, serve programs.
#[derive(Clone, Debug)]
pub struct SpecError(Box<Refusal>);

/// The content of a [`SpecError`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The file, or the whole `--set` option.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// The column in characters, counted from 1.
    pub column: Option<usize>,
    /// The dotted key; empty for the whole file.
    pub key: String,
    /// The value as it was written, shortened if it is long; empty if the key itself is refused.
    pub value: String,
    /// What is wrong, in one line.
    pub message: String,
    /// What would be accepted instead: names, or one description.
    pub accepted: Vec<String>,
    /// The accepted name that is nearest to the one written, if any is near.
    pub nearest: Option<String>,
    /// What kind of refusal it is, for what a schema can add to it.
    #[serde(skip)]
    pub(crate) kind: Kind,
    /// The line of the file with carets under the place.
    #[serde(skip)]
    excerpt: Option<String>,
}

/// Kinds of refusals to which a schema can add what would be accepted, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A table lacks a key.
    Missing,
    /// A table has a key that it does not know.
    UnknownKey,
    /// A value has the wrong type.
    Misfit,
    /// Anything else.
    #[default]
    Other,
}

impl SpecError {
    /// A refusal that concerns `key`, as yet without a place.
    pub(super) fn new(key: &str, message: String) -> SpecError {
        SpecError(Box::new(Refusal { key: key.to_owned(), message, ..Refusal::default() }))
    }

    /// Returns the refusal located at `place`: for a value that was read earlier and proves wrong,
    /// such as a preset's name.
    #[must_use]
    pub fn at(mut self, place: &Place) -> SpecError {
        self.0.file = place.file().to_owned();
        self.0.line = place.line();
        self.0.column = place.column();
        self.0.excerpt = place.excerpt();
        self
    }

    pub(super) fn kind(mut self, kind: Kind) -> SpecError {
        self.0.kind = kind;
        self
    }

    /// Says that the key belongs to other tables than the one in which it was written.
    pub(crate) fn belongs(mut self, tables: &[String]) -> SpecError {
        let name = self.key.rsplit('.').next().unwrap_or_default();
        self.0.message =
            format!("{}: `{name}` belongs in {}", self.message, tables.join(" or in "));
        self.0.nearest = None;
        self
    }

    pub(crate) fn value(mut self, value: String) -> SpecError {
        self.0.value = value;
        self
    }

    /// Names what would be accepted instead of `written`, and the nearest of it.
    #[must_use]
    pub fn names<S: AsRef<str>>(mut self, accepted: &[S], written: &str) -> SpecError {
        let others = accepted.iter().map(AsRef::as_ref).filter(|name| *name != written);
        self.0.nearest = nearest(written, others).map(str::to_owned);
        self.0.accepted = accepted.iter().map(|name| name.as_ref().to_owned()).collect();
        self
    }

    /// Describes what would be accepted.
    #[must_use]
    pub fn accepts(mut self, description: impl Into<String>) -> SpecError {
        self.0.accepted = vec![description.into()];
        self
    }
}

impl Deref for SpecError {
    type Target = Refusal;

    fn deref(&self) -> &Refusal {
        &self.0
    }
}

impl std::error::Error for SpecError {}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, ":{line}:{column}")?;
        }
        if !self.file.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.message)?;
        if let Some(excerpt) = &self.excerpt {
            write!(f, "\n{excerpt}")?;
        }
        if self.accepted.is_empty() {
            return Ok(());
        }
        let accepted: Vec<_> = self.accepted.iter().map(|text| quoted(text)).collect();
        write!(f, "\n    accepted: {}", accepted.join(", "))?;
        // The only name that is accepted needs no second mention.
        match self.nearest.as_ref().filter(|_| self.accepted.len() > 1) {
            Some(name) => write!(f, "; did you mean {}?", quoted(name)),
            None => Ok(()),
        }
    }
}

/// Names are in backquotes, descriptions (which have spaces) are not.
fn quoted(text: &str) -> String {
    if text.contains(' ') { text.to_owned() } else { format!("`{text}`") }
}
