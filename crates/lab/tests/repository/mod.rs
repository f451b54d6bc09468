//! Tests of the house rules: where dependencies point, where parameters come from, what the documents
//! link to, how long files are, which words do not belong in them.
//!
//! Each rule is a function from files to findings, so that tests also give it bad files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]
#![allow(missing_docs, reason = "a test's items speak for themselves")]

mod dependencies;
mod documents;
mod experiments;
mod files;
mod inventory;
mod layers;
mod parameters;
mod schema;
mod sources;
