//! Adapters of hosts against hand-worked cycle counts, a byte-by-byte model, and laws.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

mod byte_tick;
mod cycle_counts;
mod fabrics;
mod laws;
mod oracle;
mod parts;
mod saturation;
mod scheduled;
mod settings;
