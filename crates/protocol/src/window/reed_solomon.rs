//! The 32-bit Reed-Solomon detection code of generation 2.
//!
//! The document says "two 16-bit cycles of Reed-Solomon error detection code" and no more. Choice:
//! symbols of 16 bits, the width of the link, over GF(2^16) with x^16 + x^12 + x^3 + x + 1, and two
//! check symbols with the roots 1 and 2. Any damage that is confined to two cycles is detected,
//! wherever they lie; other damage passes with probability 2^-32. Symbols of 8 bits would need an
//! interleaved code, since 256 bytes and a header exceed its 255 symbols.

/// The check code of a packet, computed cycle by cycle as on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReedSolomon {
    high: u16,
    low: u16,
}

/// x^16 in terms of lower powers.
const REDUCTION: u16 = 0x100b;

impl ReedSolomon {
    /// How many bytes the code adds.
    pub const SIZE: usize = 4;

    /// The code of bytes that make up whole cycles; a last odd byte counts as one with a zero.
    pub fn of(bytes: &[u8]) -> ReedSolomon {
        let mut code = ReedSolomon::default();
        for cycle in bytes.chunks(2) {
            code.push(u16::from_be_bytes([cycle[0], *cycle.get(1).unwrap_or(&0)]));
        }
        code
    }

    /// Takes in one cycle. The generator is (x + 1)(x + 2) = x^2 + 3x + 2.
    #[inline]
    pub fn push(&mut self, cycle: u16) {
        let feedback = cycle ^ self.high;
        let double = double(feedback);
        self.high = self.low ^ double ^ feedback;
        self.low = double;
    }

    /// The two cycles that follow the data.
    pub fn bytes(self) -> [u8; ReedSolomon::SIZE] {
        let ([a, b], [c, d]) = (self.high.to_be_bytes(), self.low.to_be_bytes());
        [a, b, c, d]
    }

    /// Whether bytes with their code at the end are as they were sent, as far as the code can tell.
    pub fn accepts(bytes: &[u8]) -> bool {
        bytes.len() > ReedSolomon::SIZE && ReedSolomon::of(bytes) == ReedSolomon::default()
    }
}

fn double(symbol: u16) -> u16 {
    let carry = symbol >> 15;
    (symbol << 1) ^ (REDUCTION * carry)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(data: &[u8]) -> Vec<u8> {
        let mut bytes = data.to_vec();
        bytes.extend_from_slice(&ReedSolomon::of(data).bytes());
        bytes
    }

    /// One symbol s: s x^2 mod (x^2 + 3x + 2) = 3s x + 2s.
    #[test]
    fn a_single_symbol_by_hand() {
        assert_eq!(ReedSolomon::of(&[0x00, 0x05]).bytes(), [0, 0x0f, 0, 0x0a]);
        assert_eq!(ReedSolomon::of(&[0x80, 0x00]).bytes(), [0x90, 0x0b, 0x10, 0x0b]);
    }

    /// The polynomial is primitive: two positions of a packet never look alike.
    #[test]
    fn doubling_returns_after_all_symbols_and_not_before() {
        let mut symbol = double(1);
        let mut order = 1;
        while symbol != 1 {
            symbol = double(symbol);
            order += 1;
        }
        assert_eq!(order, 65_535);
    }

    proptest! {
        #[test]
        fn any_damage_within_two_cycles_is_detected(
            data in proptest::collection::vec(any::<u8>(), 4..300),
            first in any::<prop::sample::Index>(),
            second in any::<prop::sample::Index>(),
            masks in any::<(u16, u16)>(),
        ) {
            let even = data.len() / 2 * 2;
            let whole = sealed(&data[..even]);
            prop_assert!(ReedSolomon::accepts(&whole));
            let mut damaged = whole.clone();
            for (place, mask) in [(first, masks.0), (second, masks.1)] {
                let cycle = place.index(damaged.len() / 2) * 2;
                damaged[cycle] ^= (mask >> 8) as u8;
                damaged[cycle + 1] ^= mask as u8;
            }
            prop_assert_eq!(ReedSolomon::accepts(&damaged), damaged == whole);
        }
    }
}
