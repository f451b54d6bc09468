//! A fraction above 0: a gain or a reduction.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use weft_units::Fraction;

/// A number above 0 and up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "Fraction", into = "Fraction")]
pub struct Share(Fraction);

impl Share {
    /// One of `parts`.
    pub(super) fn one_in(parts: u32) -> Share {
        Share::of(1, parts)
    }

    /// `some` of `parts`; all of them if that is none, or more than there are.
    pub(super) fn of(some: u32, parts: u32) -> Share {
        let share = Fraction::new(f64::from(some) / f64::from(parts));
        share.ok().and_then(|share| Share::try_from(share).ok()).unwrap_or(Share(Fraction::MAX))
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0.get()
    }
}

impl TryFrom<Fraction> for Share {
    type Error = &'static str;

    fn try_from(share: Fraction) -> Result<Share, &'static str> {
        match share.get() > 0.0 {
            true => Ok(Share(share)),
            false => Err("it is 0; accepted is a number above 0 and up to 1"),
        }
    }
}

impl From<Share> for Fraction {
    fn from(share: Share) -> Fraction {
        share.0
    }
}

impl JsonSchema for Share {
    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "number", "exclusiveMinimum": 0, "maximum": 1, "x-unit": "1",
            "examples": [0.5],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_share() {
        assert!(Share::try_from(Fraction::default()).is_err());
        assert_eq!([Share::one_in(16).get(), Share::of(4, 5).get()], [0.0625, 0.8]);
    }
}
