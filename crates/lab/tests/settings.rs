//! Settings as they stand in files.

#![allow(clippy::panic, reason = "the helpers of a test may fail the test")]

use serde::de::DeserializeOwned;
use weft_lab::spec::{SpecError, Tree};

/// Reads settings as the laboratory does: another reader would have to be compiled for all of their types.
pub fn read<T: DeserializeOwned>(text: &str) -> T {
    try_to_read(text).unwrap_or_else(|error| panic!("{error}"))
}

pub fn try_to_read<T: DeserializeOwned>(text: &str) -> Result<T, SpecError> {
    Tree::parse("settings.toml", text)?.read()
}
