//! Autoconfiguration when a node goes on line (MEMORY CHANNEL 2 Link Protocol): the mode of the
//! link, and node numbers without an operator.
//!
//! A hub numbers its nodes by their ports. Two adapters without a hub number themselves: each tells
//! the other a number that it drew, and the lower one is node 0. Equal numbers are drawn again. The
//! document states that this works without jumpers, and not how.

use super::Node;

/// The data path widths that a side can drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Widths(pub u8);

/// What one side of a link can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities {
    /// Transfers per second in units of a megahertz, highest first by choice: a side can do every
    /// lower one.
    pub megahertz: u16,
    /// A bit for each width: bit n is 2^n data lines.
    pub widths: Widths,
}

/// What both sides of a link agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkMode {
    /// Transfers per second in units of a megahertz.
    pub megahertz: u16,
    /// Data lines.
    pub width: u16,
}

/// How one side of a hubless pair finds its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identification {
    /// It has told its number and waits for the other's.
    Told(u32),
    /// Both drew the same: draw again and tell.
    DrawAgain,
    /// It knows.
    Known(Node),
}

/// The fastest mode that both sides can do; `None` if they share no width (adapters of the two
/// generations cannot be cabled together).
pub fn negotiate(one: Capabilities, other: Capabilities) -> Option<LinkMode> {
    let common = one.widths.0 & other.widths.0;
    let widest = 7_u32.checked_sub(common.leading_zeros())?;
    Some(LinkMode { megahertz: one.megahertz.min(other.megahertz), width: 1 << widest })
}

impl Identification {
    /// The other side told its number.
    #[must_use]
    pub fn hear(self, other: u32) -> Identification {
        match self {
            Identification::Told(own) if own == other => Identification::DrawAgain,
            Identification::Told(own) => Identification::Known(Node(u8::from(own > other))),
            known => known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Capabilities = Capabilities { megahertz: 33, widths: Widths(0b0010_0000) };
    const SECOND: Capabilities = Capabilities { megahertz: 66, widths: Widths(0b0001_0000) };

    #[test]
    fn both_sides_agree_on_the_slower_and_widest() {
        let next = Capabilities { megahertz: 100, widths: Widths(0b0001_1000) };
        let agreed = Some(LinkMode { megahertz: 66, width: 16 });
        assert_eq!(negotiate(SECOND, next), agreed);
        assert_eq!(negotiate(next, SECOND), agreed);
        assert_eq!(negotiate(FIRST, SECOND), None);
    }

    /// Every pair of draws up to a few rounds: the two never take the same number, and never wait
    /// for each other once their draws differ.
    #[test]
    fn a_hubless_pair_numbers_itself() {
        for draws in 0..4_u32.pow(4) {
            let mut draws = (0..).map(|round| draws / 4_u32.pow(round) % 4);
            let (mut one, mut other) = (Identification::DrawAgain, Identification::DrawAgain);
            for _ in 0..2 {
                if one != Identification::DrawAgain {
                    break;
                }
                let told = (draws.next().unwrap_or(0), draws.next().unwrap_or(0));
                one = Identification::Told(told.0).hear(told.1);
                other = Identification::Told(told.1).hear(told.0);
                match (one, other) {
                    (Identification::Known(a), Identification::Known(b)) => {
                        assert_eq!(a.0 + b.0, 1, "one is node 0 and the other node 1");
                    }
                    same => {
                        assert_eq!(same, (Identification::DrawAgain, Identification::DrawAgain));
                        assert_eq!(told.0, told.1);
                    }
                }
            }
            assert_eq!(one == Identification::DrawAgain, other == Identification::DrawAgain);
        }
    }
}
