//! Line codes: how many bits the line carries for the bits of a packet.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::Rate;

/// The code of a serial link. Rates elsewhere are data rates; the code determines the line rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum LineCode {
    /// Bits are sent as they are.
    #[default]
    #[serde(rename = "none")]
    Plain,
    /// Ten bits for eight (Clint 2: "the given data rates have to be increased by 25% to obtain
    /// the link rates").
    #[serde(rename = "8b10b")]
    EightToTen,
    /// Sixty-six bits for sixty-four.
    #[serde(rename = "64b66b")]
    SixtyFourToSixtySix,
}

/// How many bits a code sends, and how many they mean.
struct Bits {
    sent: NonZeroU64,
    meant: NonZeroU64,
}

impl LineCode {
    /// The rate of the line for a rate of data, exactly.
    pub const fn line_rate(self, data: Rate) -> Rate {
        let Bits { sent, meant } = self.bits();
        data.scaled(sent, meant)
    }

    /// The rate of data on a line of a rate, exactly.
    pub const fn data_rate(self, line: Rate) -> Rate {
        let Bits { sent, meant } = self.bits();
        line.scaled(meant, sent)
    }

    const fn bits(self) -> Bits {
        const EIGHT: NonZeroU64 = NonZeroU64::new(8).unwrap();
        const TEN: NonZeroU64 = NonZeroU64::new(10).unwrap();
        const SIXTY_FOUR: NonZeroU64 = NonZeroU64::new(64).unwrap();
        const SIXTY_SIX: NonZeroU64 = NonZeroU64::new(66).unwrap();
        match self {
            LineCode::Plain => Bits { sent: NonZeroU64::MIN, meant: NonZeroU64::MIN },
            LineCode::EightToTen => Bits { sent: TEN, meant: EIGHT },
            LineCode::SixtyFourToSixtySix => Bits { sent: SIXTY_SIX, meant: SIXTY_FOUR },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn megabits(rate: u64) -> Rate {
        Rate::from_bits_per_second(rate * 1_000_000)
    }

    /// Clint 2, 3.5: 2 Gbit/s of bulk data need 2.5 Gbit/s, 528 Mbit/s of quick data 660 Mbit/s.
    #[test]
    fn clints_links_run_at_five_quarters_of_their_data_rates() {
        assert_eq!(LineCode::EightToTen.line_rate(megabits(2_000)), megabits(2_500));
        assert_eq!(LineCode::EightToTen.line_rate(megabits(528)), megabits(660));
    }

    #[test]
    fn a_code_undoes_itself() {
        for code in [LineCode::Plain, LineCode::EightToTen, LineCode::SixtyFourToSixtySix] {
            for rate in [megabits(1), megabits(528), megabits(10_000)] {
                assert_eq!(code.data_rate(code.line_rate(rate)), rate, "{code:?}");
            }
        }
        assert_eq!(
            LineCode::SixtyFourToSixtySix.line_rate(megabits(10_000)),
            Rate::from_ratio(33, 3_200)
        );
    }
}
