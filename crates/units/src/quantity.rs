//! The integer quantities themselves, without their text form. Sums and products that exceed 64 bits
//! are the largest quantity there is: an instant so far away never comes.

use std::iter::Sum;
use std::num::NonZeroU64;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use crate::number::Fraction;

/// An instant of simulated time: picoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A length of simulated time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A data rate as an exact ratio, which is neither zero nor infinite: bits in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    bits: NonZeroU64,
    per: NonZeroU64,
}

impl Time {
    /// The start of every run.
    pub const ZERO: Time = Time(0);
    /// Later than any event; used as "never".
    pub const NEVER: Time = Time(u64::MAX);

    /// The span since an earlier instant; zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// A span of whole nanoseconds.
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns * 1_000)
    }

    /// The span in seconds, for presentation.
    pub fn as_secs(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// The span in microseconds, for presentation.
    pub fn as_us(self) -> f64 {
        self.0 as f64 * 1e-6
    }
}

impl Rate {
    /// A rate in bits per second as a constant in code.
    ///
    /// # Panics
    /// If it is zero; the compiler reports that for a constant.
    pub const fn from_bits_per_second(bits: u64) -> Rate {
        Rate::from_ratio(bits, 1_000_000_000_000)
    }

    /// `bits` bits in `per` picoseconds, in lowest terms: a rate as a constant in code.
    ///
    /// # Panics
    /// If either is zero; the compiler reports that for constants.
    #[expect(clippy::panic, reason = "the rate stands in code, where it is seen not to be zero")]
    pub const fn from_ratio(bits: u64, per: u64) -> Rate {
        match Rate::checked_ratio(bits, per) {
            Some(rate) => rate,
            None => panic!("a rate is neither zero nor infinite"),
        }
    }

    /// `bits` bits in `per` picoseconds, in lowest terms; `None` if either is zero.
    pub const fn checked_ratio(bits: u64, per: u64) -> Option<Rate> {
        let divisor = if bits == 0 { 1 } else { gcd(bits, per) };
        match (NonZeroU64::new(bits / divisor), NonZeroU64::new(per / divisor)) {
            (Some(bits), Some(per)) => Some(Rate { bits, per }),
            _ => None,
        }
    }

    /// The numerator of the ratio, in bits.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.bits.get()
    }

    /// The denominator of the ratio, in picoseconds.
    #[inline]
    pub const fn per(self) -> u64 {
        self.per.get()
    }

    /// `times / of` of the rate. It is exact for all rates that a file can name.
    pub const fn scaled(self, times: NonZeroU64, of: NonZeroU64) -> Rate {
        // Reduced crosswise, the products fit; no factor of a product becomes zero.
        let (one, other) = (gcd(self.bits(), of.get()), gcd(times.get(), self.per()));
        let bits = (self.bits() / one).saturating_mul(times.get() / other);
        let per = (self.per() / other).saturating_mul(of.get() / one);
        Rate::from_ratio(bits, per)
    }

    /// The time that `size` occupies a link of this rate, rounded to the nearest picosecond, and at
    /// most `u64::MAX` picoseconds.
    pub const fn span(self, size: Bytes) -> Span {
        // Nearly every size is small enough for a division of one word.
        if let Some(bits) = size.0.checked_mul(8)
            && let Some(numerator) = bits.checked_mul(self.per())
            && let Some(rounded) = numerator.checked_add(self.bits() / 2)
        {
            return Span(rounded / self.bits());
        }
        let bits = size.0 as u128 * 8;
        let numerator = bits.saturating_mul(self.per() as u128);
        let rate = self.bits() as u128;
        let ps = numerator.saturating_add(rate / 2) / rate;
        Span(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }

    /// This fraction of the rate, to the millionth; at least a millionth.
    pub fn share(self, share: Fraction) -> Rate {
        const WHOLE: NonZeroU64 = NonZeroU64::new(1_000_000).unwrap();
        let millionths = (share.get() * WHOLE.get() as f64).round() as u64;
        let millionths = NonZeroU64::new(millionths).unwrap_or(NonZeroU64::MIN);
        self.scaled(millionths, WHOLE)
    }

    /// This many times the rate; once for a count of zero.
    #[must_use]
    pub fn times(self, count: u32) -> Rate {
        self.scaled(NonZeroU64::new(count.into()).unwrap_or(NonZeroU64::MIN), NonZeroU64::MIN)
    }

    /// The rate in bytes per second, for presentation.
    pub fn bytes_per_second(self) -> f64 {
        self.bits() as f64 / 8.0 / (self.per() as f64 * 1e-12)
    }
}

/// Times are unsigned, so that a negative one would be the end of time.
#[cold]
#[track_caller]
#[expect(clippy::panic, reason = "going on with a wrong time would give a false number")]
fn negative() -> ! {
    panic!("a time before the start of the run, or a negative span: a defect of Weft")
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Add<Span> for Time {
    type Output = Time;
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    #[inline]
    fn sub(self, span: Span) -> Time {
        match self.0.checked_sub(span.0) {
            Some(time) => Time(time),
            None => negative(),
        }
    }
}

impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, other: Span) -> Span {
        match self.0.checked_sub(other.0) {
            Some(span) => Span(span),
            None => negative(),
        }
    }
}

impl SubAssign for Span {
    #[inline]
    fn sub_assign(&mut self, other: Span) {
        *self = *self - other;
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, times: u64) -> Span {
        Span(self.0.saturating_mul(times))
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    #[inline]
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    #[inline]
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    #[inline]
    fn mul(self, times: u64) -> Bytes {
        Bytes(self.0.saturating_mul(times))
    }
}
