//! A value that a setting of a part may not have.

use std::borrow::Cow;
use std::fmt::Display;

/// What is wrong with the settings of a part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: accepted is {accepted}")]
pub struct Misfit {
    /// The key, from the part on.
    pub key: Cow<'static, str>,
    /// The value that it has, as a file writes it.
    pub value: String,
    /// What is accepted instead, and why.
    pub accepted: String,
}

impl Misfit {
    /// A key, the value that it has, and what is accepted instead.
    pub fn new(
        key: impl Into<Cow<'static, str>>,
        value: impl Display,
        accepted: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), value: value.to_string(), accepted: accepted.into() }
    }

    /// Puts the key of the part before that of its setting.
    #[must_use]
    pub fn under(self, key: impl Display) -> Self {
        Self { key: format!("{key}.{}", self.key).into(), ..self }
    }
}
