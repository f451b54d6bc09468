//! The text form of every quantity: exact, readable, and the same after a round trip.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may fail the test")]

use std::fmt::{Debug, Display};
use std::num::NonZeroU64;
use std::str::FromStr;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use weft_units::{
    Bytes, Decibel, DecibelPerLength, Fraction, Length, Limit, Load, PositiveCount, QuantityError,
    Rate, Span, SpanPerLength, Time,
};

fn refused<T: FromStr<Err = QuantityError> + Debug>(text: &str, message: Expect) {
    message.assert_eq(&text.parse::<T>().unwrap_err().to_string());
}

#[test]
fn decimals_are_read_exactly() {
    let spans = [
        ("1.5 ns", 1_500),
        ("0 s", 0),
        ("850ns", 850_000),
        (" 2.086 us ", 2_086_000),
        ("12.8 \u{b5}s", 12_800_000),
        ("40 ms", 40_000_000_000),
        ("0.000000000001 s", 1),
        ("86400 s", 86_400_000_000_000_000),
    ];
    for (text, ps) in spans {
        assert_eq!(text.parse(), Ok(Span(ps)), "{text}");
        assert_eq!(text.parse(), Ok(Time(ps)), "{text}");
    }
    for (text, bytes) in [("2086 B", 2086), ("1 KB", 1000), ("1.5 KiB", 1536), ("2 MiB", 2 << 20)] {
        assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
    }
    assert_eq!("0.528 Gbit/s".parse(), Ok(Rate::from_bits_per_second(528_000_000)));
    assert_eq!("66 MB/s".parse(), Ok(Rate::from_bits_per_second(528_000_000)));
    assert_eq!("4 B/30 ns".parse(), Ok(Rate::from_ratio(32, 30_000)));
    assert_eq!("1.5 m".parse(), Ok(Length(1_500_000)));
    assert_eq!("-0.5 dB".parse(), Ok(Decibel(-500)));
}

#[test]
fn the_printed_form_is_the_one_a_person_would_write() {
    let printed = |spans: &[&dyn Display]| {
        spans.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    expect!["0 ns, 500 ps, 1.5 ns, 640 ns, 2.5 us, 40 ms, 3 s, 1 us"].assert_eq(&printed(&[
        &Span(0),
        &Span(500),
        &Span(1_500),
        &Span(640_000),
        &Span(2_500_000),
        &Span(40_000_000_000),
        &Span(3_000_000_000_000),
        &Time(1_000_000),
    ]));
    expect!["0 B, 2086 B, 2 KiB, 64 KB, 64 KiB, 1 MiB"].assert_eq(&printed(&[
        &Bytes(0),
        &Bytes(2086),
        &Bytes(2048),
        &Bytes(64_000),
        &Bytes(65_536),
        &Bytes(1 << 20),
    ]));
    expect!["2 Gbit/s, 528 Mbit/s, 1.25 Gbit/s, 1 bit/s, 1 bit/1.5 ns"].assert_eq(&printed(&[
        &Rate::from_bits_per_second(2_000_000_000),
        &Rate::from_bits_per_second(528_000_000),
        &Rate::from_bits_per_second(1_250_000_000),
        &Rate::from_bits_per_second(1),
        &Rate::from_ratio(2, 3_000),
    ]));
    expect!["5 m, 20 cm, 1.2 km, 0.0003 m, 5 ns/m, 4.9 ns/m, -0.5 dB, 0.35 dB/m"].assert_eq(
        &printed(&[
            &Length(5_000_000),
            &Length(200_000),
            &Length(1_200_000_000),
            &Length(300),
            &SpanPerLength(5_000_000),
            &SpanPerLength(4_900_000),
            &Decibel(-500),
            &DecibelPerLength(350),
        ]),
    );
}

#[test]
fn a_missing_or_unknown_unit_names_what_to_write() {
    refused::<Span>("850", expect![[r#"write the unit, for example "850 ns""#]]);
    refused::<Bytes>("2048", expect![[r#"write the unit, for example "2048 B""#]]);
    refused::<Rate>("2", expect![[r#"write the unit, for example "2 Gbit/s""#]]);
    refused::<Span>("850 nanos", expect!["unknown unit `nanos`; use ps, ns, us, ms or s"]);
    refused::<Bytes>(
        "2048 bytes",
        expect![[
            r#"unknown unit `bytes`; use B, KB, KiB, MB, MiB, GB or GiB; did you mean "2048 B"?"#
        ]],
    );
    refused::<Rate>(
        "2 Gb/s",
        expect![[
            r#"unknown unit `Gb/s`; use bit/s, kbit/s, Mbit/s, Gbit/s, B/s, KB/s, MB/s or GB/s; did you mean "2 Gbit/s"?"#
        ]],
    );
    refused::<Length>("5 ft", expect!["unknown unit `ft`; use mm, cm, m or km"]);
    refused::<Decibel>("3 db", expect![[r#"unknown unit `db`; use dB; did you mean "3 dB"?"#]]);
}

#[test]
fn what_cannot_be_kept_is_refused_and_not_rounded() {
    refused::<Span>("1.0005 ns", expect!["finer than 1 ps, the finest time that is kept"]);
    refused::<Bytes>("0.5 B", expect!["finer than 1 B, the finest size that is kept"]);
    refused::<Rate>(
        "1.00000000000000000001 Gbit/s",
        expect!["finer than a ratio of 64-bit numbers, the finest rate that is kept"],
    );
    refused::<Span>("-5 ns", expect!["time must lie in 0 ns..=86400 s, got -5 ns"]);
    refused::<Span>("18446745 s", expect!["time must lie in 0 ns..=86400 s, got 18446745 s"]);
    refused::<Bytes>(
        "99999999999 GiB",
        expect!["size must lie in 0 B..=1024 GiB, got 99999999999 GiB"],
    );
    refused::<Rate>("0 Gbit/s", expect!["rate must lie in 1 bit/s..=1000000 Gbit/s, got 0 Gbit/s"]);
    refused::<Rate>(
        "-2 Gbit/s",
        expect!["rate must lie in 1 bit/s..=1000000 Gbit/s, got -2 Gbit/s"],
    );
    refused::<Rate>(
        "8 bit/0 ns",
        expect!["rate must lie in 1 bit/s..=1000000 Gbit/s, got 8 bit/0 ns"],
    );
    refused::<Decibel>(
        "9999999999999999 dB",
        expect![
            "level must lie in -1000000 dB..=1000000 dB, \
             got 9999999999999999 dB"
        ],
    );
}

#[test]
fn what_is_no_number_is_refused_with_an_example() {
    refused::<Span>(
        "",
        expect![[r#"`` is not a decimal number with a unit; write for example "850 ns""#]],
    );
    refused::<Span>(
        "1e3 ns",
        expect![[r#"`1e3 ns` is not a decimal number with a unit; write for example "850 ns""#]],
    );
    refused::<Span>(
        "1,5 ns",
        expect![[r#"`1,5 ns` is not a decimal number with a unit; write for example "850 ns""#]],
    );
    refused::<Rate>(
        "fast",
        expect![[r#"`fast` is not a decimal number with a unit; write for example "2 Gbit/s""#]],
    );
    refused::<Span>(
        "1.2.3 ns",
        expect![[r#"`1.2.3 ns` is not a decimal number with a unit; write for example "850 ns""#]],
    );
}

#[test]
fn a_bare_number_in_a_file_is_told_to_write_the_unit() {
    let message = serde_json::from_str::<Span>("850").unwrap_err().to_string();
    assert!(message.starts_with("write the unit, for example \"850 ns\""), "{message}");
    let message = serde_json::from_str::<Rate>("2.5").unwrap_err().to_string();
    assert!(message.starts_with("write the unit, for example \"2.5 Gbit/s\""), "{message}");
    let message = serde_json::from_str::<Span>("true").unwrap_err().to_string();
    let expected = "invalid type: boolean `true`, expected a time with its unit, \
                    for example \"850 ns\"";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn every_schema_says_its_unit() {
    fn unit<T: schemars::JsonSchema>() -> String {
        let schema = schemars::schema_for!(T);
        schema.get("x-unit").and_then(|unit| unit.as_str()).unwrap_or_default().to_owned()
    }
    assert_eq!(unit::<Span>(), "ps, ns, us, ms, s");
    assert_eq!(unit::<Bytes>(), "B, KB, KiB, MB, MiB, GB, GiB");
    assert_eq!(unit::<Rate>(), "bit/s, kbit/s, Mbit/s, Gbit/s, B/s, KB/s, MB/s, GB/s");
    assert_eq!(unit::<SpanPerLength>(), "ps/m, ns/m, us/km, us/m");
    for unit in [
        unit::<Time>(),
        unit::<Length>(),
        unit::<Decibel>(),
        unit::<DecibelPerLength>(),
        unit::<Fraction>(),
        unit::<Load>(),
        unit::<PositiveCount>(),
        unit::<Limit>(),
    ] {
        assert!(!unit.is_empty());
    }
    let schema = schemars::schema_for!(Span);
    let pattern = schema.get("pattern").and_then(|pattern| pattern.as_str());
    assert_eq!(pattern, Some("^[0-9]+(\\.[0-9]+)? ?(ps|ns|us|\u{b5}s|\u{3bc}s|ms|s)$"));
}

fn returns<T>(value: T) -> Result<(), TestCaseError>
where
    T: Display + FromStr<Err = QuantityError> + PartialEq + Debug,
    T: serde::Serialize + serde::de::DeserializeOwned,
{
    let read = value.to_string().parse::<T>();
    prop_assert_eq!(read.as_ref(), Ok(&value));
    let json = serde_json::to_string(&value).map_err(|e| TestCaseError::fail(e.to_string()))?;
    let back = serde_json::from_str::<T>(&json).map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(back, value);
    Ok(())
}

/// Numbers of every magnitude: uniform numbers of 64 bits would almost never be small.
fn any_magnitude() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0_u32..64, 0_u32..12).prop_map(|(bits, shift, zeros)| {
        let number = bits >> shift;
        number.checked_mul(10_u64.pow(zeros)).unwrap_or(number)
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(a in any_magnitude(), signed in any::<i64>()) {
        let level = signed % 1_000_000_001;
        returns(Span(a.min(86_400_000_000_000_000)))?;
        returns(Time(a.min(86_400_000_000_000_000)))?;
        returns(Bytes(a.min(1 << 40)))?;
        returns(Length(a.min(1_000_000_000_000)))?;
        returns(SpanPerLength(a.min(1_000_000_000_000)))?;
        returns(Decibel(level))?;
        returns(DecibelPerLength(level))?;
    }

    #[test]
    fn a_rate_that_is_no_decimal_is_read_back_too(
        bits in any_magnitude(),
        per in any_magnitude(),
    ) {
        // From 1 bit/s to 1000 bit/ps.
        let bits = bits.max(1);
        let slowest = bits.saturating_mul(1_000_000_000_000).min(86_400_000_000_000_000);
        let per = per.clamp(bits.div_ceil(1_000), slowest);
        returns(Rate::from_ratio(bits, per))?;
    }

    #[test]
    fn a_bare_number_is_read_back(x in 0.0..=2.0_f64, count in 1..=PositiveCount::MOST_READ) {
        let load = Load::new(x).unwrap();
        let json = serde_json::to_string(&load).unwrap();
        prop_assert_eq!(serde_json::from_str::<Load>(&json).unwrap(), load);
        let limit = Limit::at_most(count).unwrap();
        let json = serde_json::to_string(&limit).unwrap();
        prop_assert_eq!(serde_json::from_str::<Limit>(&json).unwrap(), limit);
    }

    #[test]
    fn no_text_makes_the_parser_panic(
        text in ".{0,24}",
        digits in "[-0-9./]{0,50} ?(ns|B|bit/s)?",
    ) {
        for text in [&text, &digits] {
            let _ = (text.parse::<Span>(), text.parse::<Rate>(), text.parse::<Bytes>());
            let _ = (text.parse::<SpanPerLength>(), text.parse::<Decibel>());
        }
    }
}

/// 8 bits of 3 x 10^15 bytes times 1000 ps do not fit 64 bits; the quotient does.
#[test]
fn the_time_of_a_size_is_right_beyond_one_word() {
    let rate = Rate::from_bits_per_second(3_000_000_000);
    assert_eq!(rate.span(Bytes(3_000_000_000_000_000)), Span(8_000_000_000_000_000_000));
    assert_eq!(rate.span(Bytes(3)), Span(8_000));
    assert_eq!(Rate::from_bits_per_second(7).span(Bytes(1)), Span(1_142_857_142_857));
}

/// A quarter of 100 Gbit/s is 25; a millionth is the least.
#[test]
fn a_share_of_a_rate_is_exact() {
    let of = |rate: Rate, share| rate.share(Fraction::new(share).expect("a share"));
    let rate = Rate::from_bits_per_second(100_000_000_000);
    assert_eq!(of(rate, 0.25), Rate::from_bits_per_second(25_000_000_000));
    assert_eq!(of(rate, 1.0), rate);
    assert_eq!(of(rate, 0.3).span(Bytes(3_000)), Span(800_000));
    assert_eq!(of(Rate::from_ratio(3, 7), 0.000_001), Rate::from_ratio(3, 7_000_000));
    assert_eq!(of(rate, 0.0), of(rate, 0.000_001));
}

/// What takes longer than 64 bits of picoseconds never comes, rather than soon.
#[test]
fn what_exceeds_a_quantity_is_the_largest() {
    let rate = Rate::from_bits_per_second(1);
    assert_eq!(rate.span(Bytes(1 << 40)), Span(u64::MAX));
    assert_eq!(rate.span(Bytes(u64::MAX)), Span(u64::MAX));
    assert_eq!(Time(1) + Span(u64::MAX), Time::NEVER);
    assert_eq!(Span(u64::MAX) * 2 + Span(1), Span(u64::MAX));
    assert_eq!(Bytes(u64::MAX) * 2 + Bytes(1), Bytes(u64::MAX));
    let mut instant = Time(5);
    instant += Span(u64::MAX);
    assert_eq!(instant, Time::NEVER);
}

/// A rate by ten bits for eight and back is the rate that it was, however large its terms.
#[test]
fn a_scaled_rate_keeps_its_ratio() {
    let (ten, eight) = (NonZeroU64::new(10).unwrap(), NonZeroU64::new(8).unwrap());
    for rate in [Rate::from_ratio(33, 3_200), Rate::from_ratio(u64::MAX / 16, u64::MAX / 16 - 1)] {
        assert_eq!(rate.scaled(ten, eight).scaled(eight, ten), rate);
    }
    assert_eq!(Rate::from_ratio(2, 1).scaled(ten, eight), Rate::from_ratio(5, 2));
}

/// Nothing is a rate of no bits, or of no time.
#[test]
fn a_rate_is_neither_zero_nor_infinite() {
    assert_eq!(
        [(0, 1), (1, 0), (0, 0)].map(|(bits, per)| Rate::checked_ratio(bits, per)),
        [None; 3]
    );
    assert_eq!(Rate::checked_ratio(6, 4), Some(Rate::from_ratio(3, 2)));
}

/// Times are unsigned; what would be negative is a defect and no instant far away.
#[test]
#[should_panic(expected = "before the start of the run")]
fn an_instant_before_the_start_is_a_defect() {
    let _ = Time(3) - Span(4);
}
