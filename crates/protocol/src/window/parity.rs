//! The horizontal and vertical parity of generation 1 (Figure 3): one sideband bit for each 32-bit
//! word of the channel, and one word at the end of the packet.

/// The parity of a packet of 32-bit words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parity {
    /// One bit per word: odd number of ones in it.
    pub horizontal: Vec<bool>,
    /// The words added without carry: one bit per column.
    pub vertical: u32,
}

impl Parity {
    /// The parity of words as they are sent.
    pub fn of(words: &[u32]) -> Parity {
        Parity {
            horizontal: words.iter().map(|word| word.count_ones() % 2 == 1).collect(),
            vertical: words.iter().fold(0, |sum, word| sum ^ word),
        }
    }

    /// Whether words that arrived agree with the parity that arrived. One, two or three wrong bits
    /// always show; four at the corners of a rectangle do not.
    pub fn accepts(&self, words: &[u32]) -> bool {
        Parity::of(words) == *self
    }
}

#[cfg(test)]
mod tests {
    use super::super::ReedSolomon;
    use super::*;

    const WORDS: [u32; 4] = [0x1234_5678, 0, 0xffff_ffff, 0x8000_0001];

    #[test]
    fn up_to_three_wrong_bits_show() {
        let parity = Parity::of(&WORDS);
        assert!(parity.accepts(&WORDS));
        let bits: Vec<u32> = (0..128).collect();
        for &a in &bits {
            for &b in &bits[a as usize..] {
                for c in [a, 5, 70] {
                    let mut words = WORDS;
                    let mut flipped = std::collections::BTreeSet::new();
                    for bit in [a, b, c] {
                        if !flipped.insert(bit) {
                            flipped.remove(&bit);
                        }
                        words[bit as usize / 32] ^= 1 << (bit % 32);
                    }
                    assert_eq!(parity.accepts(&words), flipped.is_empty(), "{a} {b} {c}");
                }
            }
        }
    }

    /// What generation 2 detects and generation 1 does not.
    #[test]
    fn a_rectangle_passes_parity_and_not_reed_solomon() {
        let mut words = WORDS;
        for word in [1, 2] {
            words[word] ^= 1 << 3 | 1 << 20;
        }
        assert!(Parity::of(&WORDS).accepts(&words));
        let bytes = |words: &[u32]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_be_bytes()).collect()
        };
        assert_ne!(ReedSolomon::of(&bytes(&words)), ReedSolomon::of(&bytes(&WORDS)));
    }
}
