//! Decides when accelerating a connection pays off.
//!
//! Joining costs as much as some tens of operations save, and the length of a connection is not
//! known in advance (the ski-rental problem). Earlier connections are the best predictor: after a
//! join that did not pay off, the next connections wait twice as long before they join, after one
//! that did, half as long. Each wasted join except the first few is therefore preceded by one that
//! paid off. Whatever the connections do, together they lose no more than the cost of a few joins,
//! and of joins so late that they hardly matter.

/// What became of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It saved at least twice what it cost.
    Repaid,
    /// The connection ended before.
    Lost,
}

/// After how many operations to join a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BreakEven {
    after: u32,
}

impl BreakEven {
    /// The fewest operations before a join: a connection with a few requests and their responses is
    /// over before, and has asked for nothing.
    pub const SOONEST: u32 = 12;
    /// The largest number: by then the kernel has taken so long that a wasted join costs only a few
    /// percent more.
    pub const LATEST: u32 = Self::SOONEST << Self::DOUBLINGS;
    /// How often the wait doubles between the two.
    pub const DOUBLINGS: u32 = 6;

    /// Decodes a word of shared memory; zero is the initial state, and an invalid word becomes the
    /// nearest state.
    pub const fn from_word(word: u32) -> Self {
        let after = if word < Self::SOONEST { Self::SOONEST } else { word };
        Self { after: if after > Self::LATEST { Self::LATEST } else { after } }
    }

    /// The state after this many doublings of the first wait, or after the largest number of
    /// doublings.
    pub const fn doubled(doublings: u32) -> Self {
        let most = Self::DOUBLINGS;
        Self { after: Self::SOONEST << if doublings < most { doublings } else { most } }
    }

    /// How often the first wait was doubled; rounded down for an invalid word.
    pub const fn doublings(self) -> u32 {
        (self.after / Self::SOONEST).ilog2()
    }

    /// The word for [`BreakEven::from_word`].
    pub const fn word(self) -> u32 {
        self.after
    }

    /// The operation before which a connection is not to be joined.
    pub const fn after(self) -> u32 {
        self.after
    }

    /// Learns from a connection that was joined, or tried to be.
    pub fn learn(&mut self, outcome: Outcome) {
        *self = Self::from_word(match outcome {
            Outcome::Repaid => self.after / 2,
            Outcome::Lost => self.after * 2,
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A join costs as much as this many accelerated operations save.
    const COST: i64 = 40;

    /// What all connections of these lengths have saved, at the lowest point and at the end. The
    /// latest possible joins cost nothing here: they are a few percent of what the kernel has taken
    /// by then.
    fn saved(lengths: &[u32]) -> (i64, i64) {
        let mut state = BreakEven::from_word(0);
        let (mut sum, mut lowest) = (0, 0);
        for length in lengths {
            if *length >= state.after() {
                let accelerated = i64::from(length - state.after());
                sum += accelerated - if state.after() < BreakEven::LATEST { COST } else { 0 };
                let repaid = accelerated >= 2 * COST;
                state.learn(if repaid { Outcome::Repaid } else { Outcome::Lost });
            }
            lowest = lowest.min(sum);
        }
        (lowest, sum)
    }

    #[test]
    fn connections_of_one_length_lose_a_few_joins_or_win() {
        for length in [1, 12, 13, 30, 60] {
            let (lowest, sum) = saved(&[length; 1000]);
            assert!(lowest >= -4 * COST, "{length}: {lowest}");
            assert_eq!(lowest, sum, "{length}: none is paid back");
        }
        let (lowest, sum) = saved(&[1000; 1000]);
        assert_eq!((lowest, sum), (0, 1000 * (988 - COST)));
    }

    #[test]
    fn whoever_lasts_long_at_last_brings_the_early_join_back() {
        let mut state = BreakEven::from_word(0);
        for _ in 0..20 {
            state.learn(Outcome::Lost);
        }
        assert_eq!(state.after(), BreakEven::LATEST);
        for _ in 0..BreakEven::DOUBLINGS {
            state.learn(Outcome::Repaid);
        }
        assert_eq!(state.after(), BreakEven::SOONEST);
    }

    #[test]
    fn any_word_is_a_state() {
        for word in [0, 1, 5, u32::MAX] {
            let after = BreakEven::from_word(word).after();
            assert!((BreakEven::SOONEST..=BreakEven::LATEST).contains(&after));
        }
    }

    proptest! {
        #[test]
        fn no_sequence_of_connections_loses_more_than_a_few_joins(
            lengths in prop::collection::vec(prop_oneof![0u32..150, 700u32..900, 0u32..2000], 0..500),
        ) {
            let (lowest, _) = saved(&lengths);
            prop_assert!(lowest >= -i64::from(BreakEven::DOUBLINGS) * COST);
        }
    }
}
