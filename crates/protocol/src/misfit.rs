//! A value that a setting of a part may not have.

use std::fmt::Display;

/// What is wrong with the settings of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The key, from the part on.
    pub key: &'static str,
    /// The value that it has, as a file writes it.
    pub value: String,
    /// What is accepted instead, and why.
    pub accepted: &'static str,
}

impl Misfit {
    pub(crate) fn new(key: &'static str, value: impl Display, accepted: &'static str) -> Self {
        Self { key, value: value.to_string(), accepted }
    }
}
