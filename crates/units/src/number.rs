//! Numbers without a dimension whose range is part of the type.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::text::QuantityError;

/// A share or a probability: a bare number in 0..=1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Fraction(f64);

/// An offered load: a bare number in 0..=2, as a fraction of the bandwidth of the link on which it
/// is offered. Above 1 the sources offer more than the link carries, as studies of overload do;
/// twice the bandwidth is the bound because beyond it a larger load changes nothing but memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Load(f64);

/// How many times as much as something else: a bare number in 0..=1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Factor(f64);

macro_rules! bounded_number {
    ($type:ident, $kind:literal, $max:literal, $example:literal, $x_unit:literal) => {
        impl $type {
            /// The largest value.
            pub const MAX: $type = $type($max);

            #[doc = concat!("`value` if it lies in 0..=", stringify!($max), ".")]
            pub fn new(value: f64) -> Result<$type, QuantityError> {
                if (0.0..=$max).contains(&value) {
                    // The sum turns -0.0 into 0.0, so that equal values are printed alike.
                    return Ok($type(value + 0.0));
                }
                let range = format!("0..={}", $max);
                Err(QuantityError::OutOfRange { text: value.to_string(), kind: $kind, range })
            }

            /// The number.
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        // A value is never NaN.
        impl Eq for $type {}

        // Nor is it -0.0, so that equal values have equal bits.
        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.to_bits().hash(state);
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_f64(self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
                struct NumberVisitor;

                impl Visitor<'_> for NumberVisitor {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "a number in 0..={}, for example {}", $max, $example)
                    }

                    fn visit_f64<E: Error>(self, value: f64) -> Result<$type, E> {
                        $type::new(value).map_err(E::custom)
                    }

                    fn visit_u64<E: Error>(self, value: u64) -> Result<$type, E> {
                        self.visit_f64(value as f64)
                    }

                    fn visit_i64<E: Error>(self, value: i64) -> Result<$type, E> {
                        self.visit_f64(value as f64)
                    }
                }

                d.deserialize_any(NumberVisitor)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "number", "minimum": 0, "maximum": $max, "x-unit": $x_unit,
                    "examples": [$example],
                })
            }
        }
    };
}

bounded_number!(Fraction, "fraction", 1.0, 0.1, "1");
bounded_number!(Load, "load", 2.0, 0.5, "fraction of the link's bandwidth");
bounded_number!(Factor, "factor", 1024.0, 1.0, "1");

/// A count of things of which there is at least one: a bare whole number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PositiveCount(NonZeroU32);

impl PositiveCount {
    /// One.
    pub const ONE: PositiveCount = PositiveCount(NonZeroU32::MIN);
    /// The largest count that is read from a file: what is counted is kept in memory, often once a
    /// host, and more of it was not meant.
    pub const MOST_READ: u32 = 1_000_000;

    /// `count` unless it is zero.
    pub const fn new(count: u32) -> Option<PositiveCount> {
        match NonZeroU32::new(count) {
            Some(count) => Some(PositiveCount(count)),
            None => None,
        }
    }

    /// The count.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The count, as lengths and indices need it.
    pub const fn as_usize(self) -> usize {
        self.0.get() as usize
    }
}

/// A bound on how many may be held at once: a bare whole number from 1, or `"unlimited"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Limit {
    /// No bound.
    #[default]
    Unlimited,
    /// A bound.
    AtMost(PositiveCount),
}

impl Limit {
    /// At most `count`; `None` for a count of zero.
    pub const fn at_most(count: u32) -> Option<Limit> {
        match PositiveCount::new(count) {
            Some(count) => Some(Limit::AtMost(count)),
            None => None,
        }
    }

    /// Whether one more fits where `held` are held already.
    #[inline]
    pub const fn admits(self, held: usize) -> bool {
        match self {
            Limit::Unlimited => true,
            Limit::AtMost(count) => held < count.as_usize(),
        }
    }

    /// The bound as a count, if there is one.
    pub const fn count(self) -> Option<PositiveCount> {
        match self {
            Limit::Unlimited => None,
            Limit::AtMost(count) => Some(count),
        }
    }
}

impl fmt::Display for PositiveCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Unlimited => f.pad("unlimited"),
            Limit::AtMost(count) => count.fmt(f),
        }
    }
}

impl Serialize for PositiveCount {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u32(self.get())
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Limit::Unlimited => s.serialize_str("unlimited"),
            Limit::AtMost(count) => count.serialize(s),
        }
    }
}

struct CountVisitor;

impl Visitor<'_> for CountVisitor {
    type Value = PositiveCount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {}", PositiveCount::MOST_READ)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<PositiveCount, E> {
        let count = u32::try_from(value).ok().filter(|count| *count <= PositiveCount::MOST_READ);
        count.and_then(PositiveCount::new).ok_or_else(|| out_of_range(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<PositiveCount, E> {
        u64::try_from(value).map_err(|_| out_of_range(value)).and_then(|v| self.visit_u64(v))
    }
}

fn out_of_range<E: Error>(value: impl fmt::Display) -> E {
    let range = format!("1..={}", PositiveCount::MOST_READ);
    E::custom(QuantityError::OutOfRange { text: value.to_string(), kind: "count", range })
}

impl<'de> Deserialize<'de> for PositiveCount {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<PositiveCount, D::Error> {
        d.deserialize_any(CountVisitor)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Limit, D::Error> {
        struct LimitVisitor;

        impl Visitor<'_> for LimitVisitor {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                CountVisitor.expecting(f)?;
                f.write_str(", or \"unlimited\"")
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Limit, E> {
                CountVisitor.visit_u64(value).map(Limit::AtMost)
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Limit, E> {
                CountVisitor.visit_i64(value).map(Limit::AtMost)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Limit, E> {
                if text == "unlimited" {
                    return Ok(Limit::Unlimited);
                }
                Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        d.deserialize_any(LimitVisitor)
    }
}

impl JsonSchema for PositiveCount {
    fn schema_name() -> Cow<'static, str> {
        "PositiveCount".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": PositiveCount::MOST_READ, "x-unit": "count" })
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "type": "integer", "minimum": 1, "maximum": PositiveCount::MOST_READ },
                { "const": "unlimited" },
            ],
            "x-unit": "count",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: for<'de> Deserialize<'de> + fmt::Debug>(json: &str) -> String {
        let error = serde_json::from_str::<T>(json).unwrap_err().to_string();
        error.split(" at line").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_bounded_number_is_in_its_range_or_is_refused() {
        assert_eq!(serde_json::from_str::<Fraction>("1").unwrap(), Fraction::MAX);
        assert_eq!(Fraction::new(-0.0).unwrap().to_string(), "0");
        assert_eq!(refusal::<Fraction>("1.9"), "fraction must lie in 0..=1, got 1.9");
        assert_eq!(refusal::<Load>("2.5"), "load must lie in 0..=2, got 2.5");
        assert_eq!(refusal::<Load>("-1"), "load must lie in 0..=2, got -1");
        assert!(Load::new(f64::NAN).is_err());
        assert_eq!(
            refusal::<Fraction>("\"10 %\""),
            "invalid type: string \"10 %\", expected a number in 0..=1, for example 0.1"
        );
    }

    #[test]
    fn a_count_starts_at_one() {
        assert_eq!(serde_json::from_str::<PositiveCount>("16").unwrap().get(), 16);
        for bad in ["0", "-3", "1000001"] {
            assert_eq!(
                refusal::<PositiveCount>(bad),
                format!("count must lie in 1..=1000000, got {bad}")
            );
        }
        assert_eq!(
            refusal::<PositiveCount>("1.5"),
            "invalid type: floating point `1.5`, expected a whole number from 1 to 1000000"
        );
    }

    #[test]
    fn a_limit_admits_up_to_its_count() {
        let four: Limit = serde_json::from_str("4").unwrap();
        assert!(four.admits(3) && !four.admits(4));
        let unlimited: Limit = serde_json::from_str("\"unlimited\"").unwrap();
        assert!(unlimited.admits(usize::MAX));
        assert_eq!(serde_json::to_string(&[four, unlimited]).unwrap(), "[4,\"unlimited\"]");
        assert_eq!(
            refusal::<Limit>("\"many\""),
            "invalid value: string \"many\", expected a whole number from 1 to 1000000, \
             or \"unlimited\""
        );
    }
}
