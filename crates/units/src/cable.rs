//! Quantities of a cable: length, delay and attenuation per length.

use crate::Span;
use crate::text::{QuantityError, Scale, Written, text_form, unit};

/// A length in micrometres, written `"5 m"`, `"1.5 km"`, `"20 cm"` or `"3 mm"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Length(pub u64);

/// A propagation delay per length in femtoseconds per metre, written `"5 ns/m"` or `"4.9 us/km"`.
///
/// Where the key already says "per metre" (`delay_per_metre = "5 ns"`), the `/m` may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanPerLength(pub u64);

/// A ratio of powers in thousandths of a decibel, written `"3 dB"` or `"-0.5 dB"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decibel(pub i64);

/// An attenuation per length in thousandths of a decibel per metre, written `"0.35 dB/m"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecibelPerLength(pub i64);

const MICROMETRES_PER_METRE: u128 = 1_000_000;

impl SpanPerLength {
    /// The time that a signal takes over `length`, rounded to the nearest picosecond; the longest
    /// span if it exceeds that.
    pub const fn span(self, length: Length) -> Span {
        const PER_PICOSECOND: u128 = 1_000 * MICROMETRES_PER_METRE;
        let ps = (self.0 as u128 * length.0 as u128 + PER_PICOSECOND / 2) / PER_PICOSECOND;
        Span(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }
}

impl DecibelPerLength {
    /// The attenuation over `length`, rounded to the nearest thousandth of a decibel (halves away
    /// from zero); the extreme value if it exceeds that.
    pub const fn over(self, length: Length) -> Decibel {
        let product = self.0 as i128 * length.0 as i128;
        let half = MICROMETRES_PER_METRE as i128 / 2;
        let nearest =
            (product + if product < 0 { -half } else { half }) / MICROMETRES_PER_METRE as i128;
        if nearest > i64::MAX as i128 {
            Decibel(i64::MAX)
        } else if nearest < i64::MIN as i128 {
            Decibel(i64::MIN)
        } else {
            Decibel(nearest as i64)
        }
    }
}

static LENGTH: Scale = Scale {
    kind: "length",
    example: "5 m",
    usual: "m",
    step: "1 micrometre",
    units: &[
        unit("mm", 1_000),
        unit("cm", 10_000),
        unit("m", 1_000_000),
        unit("km", 1_000_000_000),
    ],
    max: 1_000 * 1_000 * MICROMETRES_PER_METRE,
    signed: false,
};

static SPAN_PER_LENGTH: Scale = Scale {
    kind: "delay per length",
    example: "5 ns/m",
    usual: "ns/m",
    step: "1 fs/m",
    units: &[
        unit("ps/m", 1_000),
        unit("ns/m", 1_000_000),
        unit("us/km", 1_000_000),
        unit("us/m", 1_000_000_000),
    ],
    max: 1_000_000_000_000,
    signed: false,
};

static DECIBEL: Scale = Scale {
    kind: "level",
    example: "3 dB",
    usual: "dB",
    step: "0.001 dB",
    units: &[unit("dB", 1_000)],
    max: 1_000_000_000,
    signed: true,
};

static DECIBEL_PER_LENGTH: Scale = Scale {
    kind: "attenuation",
    example: "0.35 dB/m",
    usual: "dB/m",
    step: "0.001 dB/m",
    units: &[unit("dB/m", 1_000)],
    max: 1_000_000_000,
    signed: true,
};

impl Written for Length {
    const SCALE: &'static Scale = &LENGTH;

    fn read(text: &str) -> Result<Length, QuantityError> {
        LENGTH.parse(text).map(|um| Length(um as u64))
    }

    fn write(&self) -> String {
        // Cables are measured in metres: 0.2 m reads better than 20 cm, but 3 mm than 0.003 m.
        LENGTH.write_decimal(self.0.into())
    }
}

impl Written for SpanPerLength {
    const SCALE: &'static Scale = &SPAN_PER_LENGTH;

    fn read(text: &str) -> Result<SpanPerLength, QuantityError> {
        let per_metre = match SPAN_PER_LENGTH.split(text)?.1 {
            "ps" | "ns" | "us" => format!("{}/m", text.trim_end()),
            _ => text.to_owned(),
        };
        SPAN_PER_LENGTH.parse(&per_metre).map(|fs| SpanPerLength(fs as u64))
    }

    fn write(&self) -> String {
        // Always ns/m: the unit in which cables are compared, 5 ns/m being two thirds of light.
        SPAN_PER_LENGTH.write_in_usual(self.0.into())
    }

    fn pattern() -> String {
        "^[0-9]+(\\.[0-9]+)? ?(ps(/m)?|ns(/m)?|us(/m)?|us/km)$".to_owned()
    }
}

impl Written for Decibel {
    const SCALE: &'static Scale = &DECIBEL;

    fn read(text: &str) -> Result<Decibel, QuantityError> {
        DECIBEL.parse(text).map(|steps| Decibel(steps as i64))
    }

    fn write(&self) -> String {
        DECIBEL.write_decimal(self.0.into())
    }
}

impl Written for DecibelPerLength {
    const SCALE: &'static Scale = &DECIBEL_PER_LENGTH;

    fn read(text: &str) -> Result<DecibelPerLength, QuantityError> {
        DECIBEL_PER_LENGTH.parse(text).map(|steps| DecibelPerLength(steps as i64))
    }

    fn write(&self) -> String {
        DECIBEL_PER_LENGTH.write_decimal(self.0.into())
    }
}

text_form!(Length, SpanPerLength, Decibel, DecibelPerLength);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_proportional_to_length() {
        let delay: SpanPerLength = "5 ns/m".parse().unwrap();
        assert_eq!(delay.span("5 m".parse().unwrap()), Span::from_ns(25));
        assert_eq!(delay.span("30 cm".parse().unwrap()), Span(1_500));
        assert_eq!(delay.span(Length(100)), Span(1), "half a picosecond rounds up");
        assert_eq!(SpanPerLength(u64::MAX).span(Length(u64::MAX)), Span(u64::MAX));
    }

    #[test]
    fn attenuation_is_proportional_to_length() {
        let loss: DecibelPerLength = "0.35 dB/m".parse().unwrap();
        assert_eq!(loss.over("10 m".parse().unwrap()).to_string(), "3.5 dB");
        let gain: DecibelPerLength = "-0.001 dB/m".parse().unwrap();
        assert_eq!(gain.over("50 cm".parse().unwrap()), Decibel(-1), "halves leave zero");
        assert_eq!(DecibelPerLength(i64::MIN).over(Length(u64::MAX)), Decibel(i64::MIN));
    }

    #[test]
    fn a_delay_per_metre_may_leave_out_the_metre_but_not_the_time() {
        let full: SpanPerLength = "5 ns/m".parse().unwrap();
        assert_eq!("5 ns".parse(), Ok(full));
        assert_eq!("5 us/km".parse(), Ok(full));
        assert_eq!(
            "5".parse::<SpanPerLength>().unwrap_err().to_string(),
            "write the unit, for example \"5 ns/m\""
        );
    }
}
