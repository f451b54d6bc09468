//! The round robin over the cells of the request matrix.

use super::ports::after;

/// The cell (initiator, target) from which a slot starts, and with it the diagonal of favoured
/// cells: the target `k` places after that of the cell favours the initiator `k` places after.
///
/// Every cell starts a slot once in `ports`² slots. The first slot starts from the last cell:
/// with this start, and no other, Figure 4 of TR-2002-115 comes out as drawn.
#[derive(Clone, Debug)]
pub(super) struct Diagonal {
    ports: usize,
    pub(super) initiator: usize,
    pub(super) target: usize,
}

impl Diagonal {
    pub(super) const fn new(ports: usize) -> Diagonal {
        Diagonal { ports, initiator: ports - 1, target: ports - 1 }
    }

    /// Moves to the start of the next slot.
    #[inline]
    pub(super) const fn advance(&mut self) {
        self.initiator = after(self.initiator, self.ports);
        if self.initiator == 0 {
            self.target = after(self.target, self.ports);
        }
    }

    /// The initiator that the target favours in this slot.
    #[inline]
    pub(super) const fn favoured_by(&self, target: usize) -> usize {
        let places = self.initiator + target + self.ports - self.target;
        places % self.ports
    }

    /// The target that favours the initiator in this slot.
    #[inline]
    pub(super) const fn favouring(&self, initiator: usize) -> usize {
        let places = self.target + initiator + self.ports - self.initiator;
        places % self.ports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_cell_starts_once_in_a_round() {
        let mut diagonal = Diagonal::new(3);
        let mut starts = HashSet::new();
        for _ in 0..9 {
            starts.insert((diagonal.initiator, diagonal.target));
            diagonal.advance();
        }
        assert_eq!((starts.len(), diagonal.initiator, diagonal.target), (9, 2, 2));
    }

    #[test]
    fn favour_is_mutual_and_runs_along_the_diagonal() {
        let diagonal = Diagonal { ports: 4, initiator: 1, target: 3 };
        assert_eq!([3, 0, 1, 2].map(|target| diagonal.favoured_by(target)), [1, 2, 3, 0]);
        assert!((0..4).all(|target| diagonal.favouring(diagonal.favoured_by(target)) == target));
    }
}
