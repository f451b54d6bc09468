//! Decimal numbers as they are written: exact, without a detour through `f64`.

use std::fmt;

/// A decimal number `±digits / 10^places`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub negative: bool,
    pub digits: u128,
    pub places: u32,
}

/// Why a scaled decimal is not a whole number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inexact {
    /// The number has a part below one step.
    TooFine,
    /// The number of steps exceeds `u128`.
    TooLarge,
}

impl Decimal {
    /// The decimal number that `text` is, or `None` if it is none. No exponents: a reader must not
    /// have to shift the point in the head.
    pub fn parse(text: &str) -> Option<Result<Decimal, Inexact>> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, part) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
        let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(part) {
            return None;
        }
        let part = part.trim_end_matches('0');
        let digits = whole.bytes().chain(part.bytes()).try_fold(0_u128, |sum, byte| {
            sum.checked_mul(10)?.checked_add(u128::from(byte - b'0'))
        });
        Some(match digits {
            Some(digits) => Ok(Decimal { negative, digits, places: part.len() as u32 }),
            None if whole.trim_start_matches('0').len() > 20 => Err(Inexact::TooLarge),
            None => Err(Inexact::TooFine),
        })
    }

    /// The magnitude in steps, where one unit is `steps_per_unit` steps.
    pub fn steps(self, steps_per_unit: u128) -> Result<u128, Inexact> {
        let numerator = self.digits.checked_mul(steps_per_unit).ok_or(Inexact::TooLarge)?;
        // 10^39 exceeds every u128, so that many places are finer than any step.
        let denominator = 10_u128.checked_pow(self.places).ok_or(Inexact::TooFine)?;
        if numerator % denominator == 0 {
            Ok(numerator / denominator)
        } else {
            Err(Inexact::TooFine)
        }
    }

    /// `numerator / denominator` as a decimal number, if it has at most `places` places.
    pub fn of_ratio(numerator: u128, denominator: u128, places: u32) -> Option<Decimal> {
        let mut digits = numerator / denominator;
        let mut rest = numerator % denominator;
        let mut used = 0;
        while rest != 0 {
            if used == places {
                return None;
            }
            rest = rest.checked_mul(10)?;
            digits = digits.checked_mul(10)?.checked_add(rest / denominator)?;
            rest %= denominator;
            used += 1;
        }
        Some(Decimal { negative: false, digits, places: used })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negative {
            f.write_str("-")?;
        }
        let text = format!("{:0>width$}", self.digits, width = self.places as usize + 1);
        let (whole, part) = text.split_at(text.len() - self.places as usize);
        if part.is_empty() { f.write_str(whole) } else { write!(f, "{whole}.{part}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap().unwrap()
    }

    #[test]
    fn a_decimal_keeps_what_was_written_without_superfluous_zeros() {
        for (text, canonical) in
            [("1.50", "1.5"), ("0.528", "0.528"), ("007", "7"), ("-0.25", "-0.25"), ("3.0", "3")]
        {
            assert_eq!(decimal(text).to_string(), canonical);
        }
    }

    #[test]
    fn only_digits_around_one_point_are_a_number() {
        for text in ["", ".", "1.", ".5", "1e3", "1.2.3", "+1", "--1", "1_000", "inf", "NaN", "٣"]
        {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn steps_are_exact_or_refused() {
        assert_eq!(decimal("1.5").steps(1_000), Ok(1_500));
        assert_eq!(decimal("1.0005").steps(1_000), Err(Inexact::TooFine));
        assert_eq!(decimal("1").steps(u128::MAX), Ok(u128::MAX));
        assert_eq!(decimal("2").steps(u128::MAX), Err(Inexact::TooLarge));
        let long = format!("0.{}1", "0".repeat(60));
        assert_eq!(decimal(&long).steps(1_000), Err(Inexact::TooFine));
        assert_eq!(Decimal::parse(&"9".repeat(60)), Some(Err(Inexact::TooLarge)));
    }

    #[test]
    fn a_ratio_that_never_ends_is_no_decimal() {
        assert_eq!(Decimal::of_ratio(1, 3, 30), None);
        assert_eq!(Decimal::of_ratio(1, 8, 3).unwrap().to_string(), "0.125");
        assert_eq!(Decimal::of_ratio(1, 8, 2), None);
    }
}
