//! A level with hysteresis: it becomes high at one mark and low again at another.

/// The thresholds at which a level becomes high, and low again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The level becomes high when it reaches this many.
    pub high: u32,
    /// The level becomes low again when it falls to this many; less than `high`.
    pub low: u32,
}

/// A change of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// It was low and is high.
    High,
    /// It was high and is low.
    Low,
}

/// A number of cells, and whether it is too high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hysteresis {
    held: u32,
    is_high: bool,
}

impl Hysteresis {
    /// One cell more.
    #[inline]
    pub fn raise(&mut self, marks: Marks) -> Option<Crossing> {
        self.held += 1;
        self.check_high(marks)
    }

    /// One cell less; there must be one.
    #[inline]
    pub fn lower(&mut self, marks: Marks) -> Option<Crossing> {
        debug_assert!(self.held > 0, "a cell left that was not held");
        self.held = self.held.saturating_sub(1);
        let falls = self.is_high && self.held <= marks.low;
        self.is_high &= !falls;
        falls.then_some(Crossing::Low)
    }

    /// Whether the level is high by marks that may have moved since it was raised.
    #[inline]
    pub fn check_high(&mut self, marks: Marks) -> Option<Crossing> {
        let rises = !self.is_high && self.held >= marks.high;
        self.is_high |= rises;
        rises.then_some(Crossing::High)
    }

    /// How many cells are held.
    #[inline]
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Whether the level is high.
    #[inline]
    pub fn is_high(&self) -> bool {
        self.is_high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MARKS: Marks = Marks { high: 3, low: 1 };

    #[test]
    fn a_level_stays_high_between_the_marks() {
        let mut level = Hysteresis::default();
        let up: Vec<_> = (0..4).map(|_| level.raise(MARKS)).collect();
        assert_eq!(up, [None, None, Some(Crossing::High), None]);
        let down: Vec<_> = (0..4).map(|_| level.lower(MARKS)).collect();
        assert_eq!(down, [None, None, Some(Crossing::Low), None]);
        assert_eq!((level.held(), level.is_high()), (0, false));
    }

    #[test]
    fn a_mark_of_one_and_zero_reports_every_cell_alone() {
        let marks = Marks { high: 1, low: 0 };
        let mut level = Hysteresis::default();
        for _ in 0..3 {
            assert_eq!(level.raise(marks), Some(Crossing::High));
            assert_eq!(level.lower(marks), Some(Crossing::Low));
        }
    }

    proptest! {
        /// Reports alternate, so that a counter of them is never wrong by more than one.
        #[test]
        fn reports_alternate(
            steps in prop::collection::vec(any::<bool>(), 0..200), high in 1_u32..9, low in 0_u32..9,
        ) {
            let low = low % high;
            let (mut level, mut held, mut last) = (Hysteresis::default(), 0, Crossing::Low);
            for up in steps {
                let report = match up {
                    true => { held += 1; level.raise(Marks { high, low }) }
                    false if held > 0 => { held -= 1; level.lower(Marks { high, low }) }
                    false => None,
                };
                if let Some(report) = report {
                    prop_assert_ne!(report, last);
                    last = report;
                }
                prop_assert_eq!(level.is_high(), last == Crossing::High);
                prop_assert!(level.is_high() || held < high);
                prop_assert!(!level.is_high() || held > low);
            }
        }
    }
}
