//! Quantities of a simulated interconnect and how each is written in a file.
//!
//! Time is an integer number of picoseconds, sizes are bytes, rates are exact ratios. A rate gives
//! the span of a whole packet, never of a byte, so that a rate that does not divide
//! 8 000 000 000 000 does not drift. This crate depends on no other crate of Weft.
//!
//! In a file a quantity is a string that carries its unit (`"2 Gbit/s"`, `"1.5 ns"`); numbers
//! without a dimension ([`Fraction`], [`Load`], [`PositiveCount`], [`Limit`]) are bare. Every
//! decimal number is read exactly: what cannot be kept is refused, never rounded.
//!
//! ```
//! use weft_units::{Bytes, Rate, Span};
//!
//! let rate: Rate = "2 Gbit/s".parse()?;
//! assert_eq!(rate.span(Bytes(2086)), "8.344 us".parse::<Span>()?);
//! let error = "850".parse::<Span>().unwrap_err();
//! assert_eq!(error.to_string(), "write the unit, for example \"850 ns\"");
//! # Ok::<(), weft_units::QuantityError>(())
//! ```

mod cable;
mod decimal;
mod number;
mod quantity;
mod spelling;
mod text;

pub use cable::{Decibel, DecibelPerLength, Length, SpanPerLength};
pub use number::{Factor, Fraction, Limit, Load, PositiveCount};
pub use quantity::{Bytes, Rate, Span, Time};
pub use text::QuantityError;
