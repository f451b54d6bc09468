//! Specifications end to end: small local types, every rule of the files, every refusal exactly.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of a test may fail the test")]
#![allow(missing_docs, reason = "a test's types speak for themselves")]

mod layers;
mod properties;
mod refusals;
mod settings;
