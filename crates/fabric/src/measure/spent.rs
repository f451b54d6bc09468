//! What packets spend on their way apart from waiting, and a table of it.

use weft_units::Span;

/// The times of a packet apart from waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On cables.
    pub wire: Span,
    /// In switches.
    pub switches: Span,
    /// For its length.
    pub transmission: Span,
}

impl Spent {
    /// The same, including what another step used.
    #[must_use]
    pub fn and(self, other: Spent) -> Spent {
        Spent {
            wire: self.wire + other.wire,
            switches: self.switches + other.switches,
            transmission: self.transmission + other.transmission,
        }
    }

    /// The same without a step that is taken back.
    #[must_use]
    pub fn without(self, other: Spent) -> Spent {
        Spent {
            wire: Span(self.wire.0 - other.wire.0),
            switches: Span(self.switches.0 - other.switches.0),
            transmission: Span(self.transmission.0 - other.transmission.0),
        }
    }
}

/// The sums that packets have spent so far, each stored once. Where networks have a few kinds of cables and switches
/// there are a few dozen of them, so that a packet stores the number of its sum, one byte, instead of three times,
/// and passes from one number to the next at each switch.
#[derive(Clone, Debug)]
pub struct SpentTable {
    sums: Vec<Spent>,
    /// How many kinds of steps there are that packets take, from host or switch to the next one.
    steps: usize,
    /// How many sums may be numbered.
    most: usize,
    /// By sum and step, the number of the sum after it.
    next: Vec<u8>,
}

impl SpentTable {
    /// The number of nothing.
    pub const NOTHING: u8 = 0;

    /// The most steps of which there may be a table.
    pub const MOST_STEPS: usize = 1_024;

    const UNKNOWN: u8 = u8::MAX;

    /// A table that holds nothing yet, for so many kinds of steps.
    pub fn new(steps: usize) -> SpentTable {
        SpentTable::of_few(steps, SpentTable::UNKNOWN)
    }

    /// The same for at most so many sums, nothing included.
    pub fn of_few(steps: usize, most: u8) -> SpentTable {
        let next = vec![SpentTable::UNKNOWN; steps];
        SpentTable { sums: vec![Spent::default()], steps, most: most.into(), next }
    }

    /// A table that holds nothing, for the same steps.
    #[must_use]
    pub fn emptied(&self) -> SpentTable {
        SpentTable { most: self.most, ..SpentTable::new(self.steps) }
    }

    /// How many kinds of steps there are.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The number of the sum after a step; `None` before it is [noted](Self::note).
    #[inline]
    pub fn after(&self, sum: u8, step: usize) -> Option<u8> {
        let next = self.next[usize::from(sum) * self.steps + step];
        (next != SpentTable::UNKNOWN).then_some(next)
    }

    /// Adds to the table that packets which have spent a sum spend so much more in a step. Returns the number of the
    /// new sum; `None` if there are too many sums to be numbered.
    pub fn note(&mut self, sum: u8, step: usize, spent: Spent) -> Option<u8> {
        let both = self.number(self.sum(sum).and(spent))?;
        self.next[usize::from(sum) * self.steps + step] = both;
        Some(both)
    }

    /// The number of a sum, which may be new; `None` if there are too many sums to be numbered.
    pub fn number(&mut self, spent: Spent) -> Option<u8> {
        if let Some(place) = self.sums.iter().position(|sum| *sum == spent) {
            return u8::try_from(place).ok();
        }
        let number = self.sums.len();
        if number >= self.most {
            return None;
        }
        self.sums.push(spent);
        self.next.resize(self.sums.len() * self.steps, SpentTable::UNKNOWN);
        u8::try_from(number).ok()
    }

    /// The sum of a number.
    #[inline]
    pub fn sum(&self, number: u8) -> Spent {
        self.sums[usize::from(number)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(wire: u64) -> Spent {
        Spent { wire: Span(wire), switches: Span(2 * wire), transmission: Span(1) }
    }

    #[test]
    fn the_same_sum_by_other_steps_has_the_same_number() {
        let mut table = SpentTable::new(2);
        let steps = [spent(10), spent(70)];
        assert_eq!(table.after(SpentTable::NOTHING, 1), None);
        let mut walk = |order: [usize; 3]| {
            order.into_iter().fold(SpentTable::NOTHING, |sum, step| {
                let known = table.after(sum, step);
                let number = table.note(sum, step, steps[step]).expect("few sums");
                assert!(known.is_none_or(|known| known == number));
                assert_eq!(table.after(sum, step), Some(number));
                number
            })
        };
        let ends = [walk([0, 1, 1]), walk([1, 0, 1]), walk([1, 1, 0])];
        assert_eq!(ends, [ends[0]; 3]);
        let whole = spent(10).and(spent(70)).and(spent(70));
        assert_eq!((table.sum(ends[0]), table.number(whole)), (whole, Some(ends[0])));
        assert_eq!(table.emptied().after(SpentTable::NOTHING, 0), None);
    }

    #[test]
    fn a_table_says_when_it_is_full() {
        let mut table = SpentTable::new(1);
        let mut sum = SpentTable::NOTHING;
        let mut count = 0;
        while let Some(next) = table.note(sum, 0, spent(5)) {
            (sum, count) = (next, count + 1);
        }
        assert_eq!((count, table.after(sum, 0)), (254, None));
        assert_eq!((table.number(spent(5)), table.number(spent(6))), (Some(1), None));
        let mut few = SpentTable::of_few(1, 2);
        assert_eq!([5, 6, 5].map(|wire| few.number(spent(wire))), [Some(1), None, Some(1)]);
    }
}
