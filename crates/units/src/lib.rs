//! Quantities of a simulated interconnect and how each is written in a file.
//!
//! Time is an integer number of picoseconds, sizes are bytes, rates are exact ratios. A rate gives
//! the span of a whole packet, never of a byte, so that a rate that does not divide 8 000 000 000 000
//! does not drift. This crate depends on no other crate of Weft.

mod quantity;

pub use quantity::{Bytes, Rate, Span, Time};
