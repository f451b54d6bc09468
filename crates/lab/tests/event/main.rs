//! The event-driven driver against hand-worked cycle counts, a byte-by-byte model, and laws.

mod byte_tick;
mod cycle_counts;
mod laws;
mod oracle;
mod parts;
