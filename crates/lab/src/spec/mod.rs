//! Specifications: TOML layers, one tree that knows where everything was written, and the very
//! types that run.
//!
//! ```text
//! systems/clint.toml ─┐
//! [preset.fitted]    ─┤ merge   resolve
//! user's file        ─┼──────► Tree ──────► settings of the parts
//! --set a.b=c        ─┘          │
//!                                └──► leaves with origins, TOML, JSON, canonical form
//! ```
//!
//! A [`Tree`] knows no types: it merges tables by key and keeps, for every node, the file, line,
//! column and layer. [`Tree::resolve`] reads it into any `Deserialize` type; the type alone says
//! which keys exist, and every refusal is a [`SpecError`] that points at the place.
//!
//! Choices among parts are externally tagged enums. When two layers name two variants, the variant
//! of the higher layer is read, whole; two variants within one layer are refused.
//!
//! ```
//! use serde::Deserialize;
//! use weft_lab::spec::Tree;
//! use weft_units::Span;
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Link { delay: Span }
//!
//! let mut tree = Tree::parse("link.toml", "delay = { value = \"25 ns\", stated = \"4.1\" }")?;
//! assert_eq!(tree.read::<Link>()?.delay, Span::from_ns(25));
//! tree.set("dealy", "30 ns")?;
//! let error = tree.read::<Link>().err().ok_or("a typo was accepted")?;
//! assert_eq!(error.nearest.as_deref(), Some("delay"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod layer;
mod nearest;
mod parse;
mod path;
mod place;
mod read;
mod refuse;
mod schema;
mod tree;
mod write;

pub(crate) use error::Kind;
pub(crate) use nearest::nearest;
pub(crate) use path::split;

pub use error::{Refusal, SpecError};
pub use place::Place;
pub use schema::schema;
pub use tree::{Leaf, Node, Origin, OriginKind, Tree};
