//! The text form of every quantity with a unit: one parser, one printer, one schema.

use std::fmt;

use crate::decimal::{Decimal, Inexact};
use crate::spelling::meant;
use crate::{Bytes, Rate, Span, Time};

/// Why a text is not the quantity that it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// A number without a unit, where a quantity with a unit is read.
    #[error("write the unit, for example \"{number} {unit}\"")]
    MissingUnit {
        /// The number as it was written.
        number: String,
        /// The unit that such a quantity most often has.
        unit: &'static str,
    },
    /// The text after the number is no unit of this quantity.
    #[error("unknown unit `{unit}`; use {accepted}{}", did_you_mean(meant.as_deref()))]
    UnknownUnit {
        /// The unit as it was written.
        unit: String,
        /// The units that are understood, as a phrase.
        accepted: String,
        /// The quantity with the unit that was probably meant, if there is one.
        meant: Option<String>,
    },
    /// The text does not begin with a decimal number.
    #[error("`{text}` is not a decimal number with a unit; write for example \"{example}\"")]
    NotANumber {
        /// The text as it was written.
        text: String,
        /// A quantity of this kind.
        example: &'static str,
    },
    /// The quantity is not a whole number of the steps in which it is kept.
    #[error("finer than {step}, the finest {kind} that is kept")]
    TooFine {
        /// The text as it was written.
        text: String,
        /// What kind of quantity this is.
        kind: &'static str,
        /// One step.
        step: &'static str,
    },
    /// The quantity lies outside its range.
    #[error("{kind} must lie in {range}, got {text}")]
    OutOfRange {
        /// The text as it was written.
        text: String,
        /// What kind of quantity this is.
        kind: &'static str,
        /// The range, both ends included unless it says otherwise.
        range: String,
    },
}

fn did_you_mean(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!("; did you mean \"{meant}\"?"))
}

/// A unit, and how many steps (picoseconds, bytes, ...) it is.
#[derive(Clone, Copy)]
pub(crate) struct Unit {
    pub name: &'static str,
    pub steps: u128,
    /// Understood but neither printed nor listed in errors.
    pub alias: bool,
}

pub(crate) const fn unit(name: &'static str, steps: u128) -> Unit {
    Unit { name, steps, alias: false }
}

pub(crate) const fn alias(name: &'static str, steps: u128) -> Unit {
    Unit { name, steps, alias: true }
}

/// The text form of a kind of quantity. Units are ordered from small to large.
pub(crate) struct Scale {
    /// The kind in words, as errors say it.
    pub kind: &'static str,
    /// A quantity of this kind, as errors show it.
    pub example: &'static str,
    /// The unit proposed where none was written.
    pub usual: &'static str,
    /// The finest quantity that is kept.
    pub step: &'static str,
    pub units: &'static [Unit],
    /// The largest magnitude, in steps.
    pub max: u128,
    pub signed: bool,
}

impl Scale {
    /// The unit called `name`, after a number.
    fn unit(&self, number: Decimal, name: &str) -> Result<Unit, QuantityError> {
        self.units.iter().copied().find(|unit| unit.name == name).ok_or_else(|| {
            let meant = meant(name, self.units).map(|ours| format!("{number} {ours}"));
            QuantityError::UnknownUnit { unit: name.to_owned(), accepted: self.accepted(), meant }
        })
    }

    fn names(&self) -> Vec<&'static str> {
        self.units.iter().filter(|unit| !unit.alias).map(|unit| unit.name).collect()
    }

    fn accepted(&self) -> String {
        match self.names().as_slice() {
            [names @ .., last] if !names.is_empty() => format!("{} or {last}", names.join(", ")),
            names => names.join(", "),
        }
    }

    /// Splits `text` into its number and the name of its unit.
    pub fn split<'a>(&self, text: &'a str) -> Result<(Decimal, &'a str), QuantityError> {
        let text = text.trim();
        let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
        let end = text.find(|c| !is_number(c)).unwrap_or(text.len());
        let (number, name) = (&text[..end], text[end..].trim_start());
        let not_a_number =
            QuantityError::NotANumber { text: text.to_owned(), example: self.example };
        // No unit has a digit, so this is a number in a notation that is not read: 1e3, 1_000, 1,5.
        if name.contains(|c: char| c.is_ascii_digit()) {
            return Err(not_a_number);
        }
        let decimal = Decimal::parse(number).ok_or(not_a_number)?;
        if name.is_empty() {
            return Err(QuantityError::MissingUnit { number: number.to_owned(), unit: self.usual });
        }
        Ok((decimal.map_err(|inexact| self.refuse(inexact, text))?, name))
    }

    /// The signed number of steps that `text` says.
    pub fn parse(&self, text: &str) -> Result<i128, QuantityError> {
        let (decimal, name) = self.split(text)?;
        let unit = self.unit(decimal, name)?;
        let steps =
            decimal.steps(unit.steps).map_err(|inexact| self.refuse(inexact, text.trim()))?;
        if steps > self.max || (decimal.negative && steps > 0 && !self.signed) {
            return Err(self.refuse(Inexact::TooLarge, text.trim()));
        }
        // Every `max` is far below 2^127.
        Ok(if decimal.negative { -(steps as i128) } else { steps as i128 })
    }

    fn refuse(&self, inexact: Inexact, text: &str) -> QuantityError {
        let text = text.to_owned();
        match inexact {
            Inexact::TooFine => QuantityError::TooFine { text, kind: self.kind, step: self.step },
            Inexact::TooLarge => {
                let max = self.write_decimal(self.max as i128);
                let min = if self.signed { format!("-{max}") } else { format!("0 {}", self.usual) };
                QuantityError::OutOfRange { text, kind: self.kind, range: format!("{min}..={max}") }
            }
        }
    }

    /// In the largest unit of which there is at least one, with at most twelve decimals: `1.5 ns`.
    pub fn write_decimal(&self, steps: i128) -> String {
        let magnitude = steps.unsigned_abs();
        let sign = if steps < 0 { "-" } else { "" };
        self.units
            .iter()
            .rev()
            .filter(|unit| !unit.alias && unit.steps <= magnitude)
            .find_map(|unit| Some((Decimal::of_ratio(magnitude, unit.steps, 12)?, unit.name)))
            .map_or_else(
                || self.write_in_usual(steps),
                |(number, name)| format!("{sign}{number} {name}"),
            )
    }

    /// In the usual unit, whatever the magnitude: `0.003 dB`.
    pub fn write_in_usual(&self, steps: i128) -> String {
        let per_unit =
            self.units.iter().find(|unit| unit.name == self.usual).map_or(1, |unit| unit.steps);
        let places = per_unit.ilog10();
        let mut digits = steps.unsigned_abs();
        let mut kept = places;
        while kept > 0 && digits.is_multiple_of(10) {
            digits /= 10;
            kept -= 1;
        }
        let number = Decimal { negative: steps < 0, digits, places: kept };
        format!("{number} {}", self.usual)
    }

    /// In the largest unit of which there is a whole number: `2086 B`, `2 KiB`.
    pub fn write_whole(&self, steps: u128) -> String {
        self.units
            .iter()
            .rev()
            .find(|unit| !unit.alias && steps >= unit.steps && steps.is_multiple_of(unit.steps))
            .map_or_else(
                || format!("{steps} {}", self.usual),
                |unit| format!("{} {}", steps / unit.steps, unit.name),
            )
    }

    /// A regular expression (ECMA 262) of the texts that are understood, ranges aside.
    pub fn pattern(&self) -> String {
        let sign = if self.signed { "-?" } else { "" };
        let names: Vec<_> = self.units.iter().map(|unit| unit.name).collect();
        format!("^{sign}[0-9]+(\\.[0-9]+)? ?({})$", names.join("|"))
    }

    /// The listed units, as the schema's `x-unit` says them.
    pub fn x_unit(&self) -> String {
        self.names().join(", ")
    }
}

/// A quantity that files write as a string.
pub(crate) trait Written: Sized {
    const SCALE: &'static Scale;
    fn read(text: &str) -> Result<Self, QuantityError>;
    fn write(&self) -> String;
    fn pattern() -> String {
        Self::SCALE.pattern()
    }
}

/// Reads a [`Written`] quantity; a bare number is refused with a hint at the missing unit.
pub(crate) struct TextVisitor<T>(pub std::marker::PhantomData<T>);

impl<T: Written> TextVisitor<T> {
    fn bare<E: serde::de::Error>(number: impl fmt::Display) -> Result<T, E> {
        let (number, unit) = (number.to_string(), T::SCALE.usual);
        Err(E::custom(QuantityError::MissingUnit { number, unit }))
    }
}

impl<T: Written> serde::de::Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} with its unit, for example \"{}\"", T::SCALE.kind, T::SCALE.example)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        T::read(text).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        Self::bare(number)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        Self::bare(number)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        Self::bare(number)
    }
}

macro_rules! text_form {
    ($($type:ident),*) => {$(
        impl std::str::FromStr for $type {
            type Err = $crate::QuantityError;
            fn from_str(text: &str) -> Result<$type, $crate::QuantityError> {
                <$type as $crate::text::Written>::read(text)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&<$type as $crate::text::Written>::write(self))
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
                if !d.is_human_readable() {
                    return d.deserialize_str($crate::text::TextVisitor(std::marker::PhantomData));
                }
                // `any`, not `str`: formats would refuse a bare number before it can be explained.
                d.deserialize_any($crate::text::TextVisitor(std::marker::PhantomData))
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            // Inline, so that what a field adds is not dropped beside a `$ref`.
            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let scale = <$type as $crate::text::Written>::SCALE;
                schemars::json_schema!({
                    "type": "string",
                    "pattern": <$type as $crate::text::Written>::pattern(),
                    "x-unit": scale.x_unit(),
                    "examples": [scale.example],
                })
            }
        }
    )*};
}
pub(crate) use text_form;

const NS: u128 = 1_000;
const US: u128 = 1_000 * NS;
const MS: u128 = 1_000 * US;
const S: u128 = 1_000 * MS;

/// The longest time that is read, a day: a sum of two hundred such times fits 64 bits.
const LONGEST: u128 = 86_400 * S;

/// The largest size that is read, a tebibyte: at 1 Mbit/s its time still fits 64 bits.
const LARGEST: u128 = 1 << 40;

static SPAN: Scale = Scale {
    kind: "time",
    example: "850 ns",
    usual: "ns",
    step: "1 ps",
    units: &[
        unit("ps", 1),
        unit("ns", NS),
        unit("us", US),
        alias("\u{b5}s", US),
        alias("\u{3bc}s", US),
        unit("ms", MS),
        unit("s", S),
    ],
    max: LONGEST,
    signed: false,
};

static BYTES: Scale = Scale {
    kind: "size",
    example: "2086 B",
    usual: "B",
    step: "1 B",
    units: &[
        unit("B", 1),
        unit("KB", 1_000),
        alias("kB", 1_000),
        unit("KiB", 1 << 10),
        unit("MB", 1_000_000),
        unit("MiB", 1 << 20),
        unit("GB", 1_000_000_000),
        unit("GiB", 1 << 30),
    ],
    max: LARGEST,
    signed: false,
};

/// Steps are bits per second.
static RATE: Scale = Scale {
    kind: "rate",
    example: "2 Gbit/s",
    usual: "Gbit/s",
    step: "a ratio of 64-bit numbers",
    units: &[
        unit("bit/s", 1),
        unit("kbit/s", 1_000),
        unit("Mbit/s", 1_000_000),
        unit("Gbit/s", 1_000_000_000),
        unit("B/s", 8),
        unit("KB/s", 8_000),
        alias("kB/s", 8_000),
        unit("MB/s", 8_000_000),
        unit("GB/s", 8_000_000_000),
        alias("Tbit/s", 1_000_000_000_000),
        alias("TB/s", 8_000_000_000_000),
        alias("KiB/s", 8 << 10),
        alias("MiB/s", 8 << 20),
        alias("GiB/s", 8 << 30),
    ],
    max: u64::MAX as u128,
    signed: false,
};

/// Steps are bits: the numerator of a rate written as `32 bit/30 ns`.
static BITS: Scale = Scale {
    kind: "number of bits",
    example: "32 bit",
    usual: "bit",
    step: "1 bit",
    units: &[unit("bit", 1), unit("B", 8), unit("KB", 8_000), unit("KiB", 8 << 10)],
    max: u64::MAX as u128,
    signed: false,
};

impl Written for Span {
    const SCALE: &'static Scale = &SPAN;

    fn read(text: &str) -> Result<Span, QuantityError> {
        // `max` is less than u64::MAX and no sign is allowed.
        SPAN.parse(text).map(|ps| Span(ps as u64))
    }

    fn write(&self) -> String {
        SPAN.write_decimal(self.0.into())
    }
}

impl Written for Time {
    const SCALE: &'static Scale = &SPAN;

    fn read(text: &str) -> Result<Time, QuantityError> {
        Span::read(text).map(|span| Time(span.0))
    }

    fn write(&self) -> String {
        Span(self.0).write()
    }
}

impl Written for Bytes {
    const SCALE: &'static Scale = &BYTES;

    fn read(text: &str) -> Result<Bytes, QuantityError> {
        BYTES.parse(text).map(|bytes| Bytes(bytes as u64))
    }

    fn write(&self) -> String {
        BYTES.write_whole(self.0.into())
    }
}

impl Rate {
    /// `bits / per` in lowest terms, if it lies in 1 bit/s..=10^15 bit/s. The bounds exist to be
    /// named in an error; no interconnect comes near either.
    fn checked(bits: u128, per: u128, text: &str) -> Result<Rate, QuantityError> {
        let (slow, fast) = (bits.saturating_mul(S) < per, bits > per.saturating_mul(1_000));
        if slow || fast {
            return Err(Rate::out_of_range(text));
        }
        let divisor = gcd(bits, per).max(1);
        match (u64::try_from(bits / divisor), u64::try_from(per / divisor)) {
            (Ok(bits), Ok(per)) => {
                Rate::checked_ratio(bits, per).ok_or_else(|| Rate::out_of_range(text))
            }
            _ => Err(RATE.refuse(Inexact::TooFine, text.trim())),
        }
    }

    fn out_of_range(text: &str) -> QuantityError {
        let range = "1 bit/s..=1000000 Gbit/s".to_owned();
        QuantityError::OutOfRange { text: text.trim().to_owned(), kind: RATE.kind, range }
    }

    /// `32 bit/30 ns`: the form of a rate that is no finite decimal number of bits per second.
    fn read_ratio(bits: &str, span: &str, text: &str) -> Result<Rate, QuantityError> {
        let bits = BITS.parse(bits)?;
        let span = Span::read(span)?;
        Rate::checked(bits.unsigned_abs(), span.0.into(), text)
    }
}

impl Written for Rate {
    const SCALE: &'static Scale = &RATE;

    fn read(text: &str) -> Result<Rate, QuantityError> {
        if let Some((bits, span)) = text.split_once('/')
            && span.trim_start().starts_with(|c: char| c.is_ascii_digit())
        {
            return Rate::read_ratio(bits, span, text);
        }
        let (number, name) = RATE.split(text)?;
        let unit = RATE.unit(number, name)?;
        if number.negative {
            return Err(Rate::out_of_range(text));
        }
        let bits = number.digits.checked_mul(unit.steps);
        let per = 10_u128.checked_pow(number.places).and_then(|p| p.checked_mul(S));
        match (bits, per) {
            (Some(bits), Some(per)) => Rate::checked(bits, per, text),
            _ => Err(RATE.refuse(Inexact::TooFine, text.trim())),
        }
    }

    fn write(&self) -> String {
        // At most 2^64 × 10^12, below 2^104.
        let bits = u128::from(self.bits()) * S;
        let per = u128::from(self.per());
        RATE.units[..4]
            .iter()
            .rev()
            .filter(|unit| unit.steps * per <= bits || unit.steps == 1)
            .find_map(|unit| {
                // More than twelve decimals are no more readable than the ratio itself.
                let number = Decimal::of_ratio(bits, per * unit.steps, 12)?;
                Some(format!("{number} {}", unit.name))
            })
            .unwrap_or_else(|| format!("{} bit/{}", self.bits(), Span(self.per())))
    }

    fn pattern() -> String {
        let number = "[0-9]+(\\.[0-9]+)? ?";
        let units: Vec<_> = RATE.units.iter().map(|unit| unit.name).collect();
        let (units, bits) = (units.join("|"), "bit|B|KB|KiB");
        format!("^{number}({units}|({bits})/{number}(ps|ns|us|\u{b5}s|\u{3bc}s|ms|s))$")
    }
}

text_form!(Time, Span, Bytes, Rate);

const fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
