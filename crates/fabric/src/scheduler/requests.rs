//! Requests of initiators for targets: the input of a scheduler.

use super::MAX_PORTS;
use super::bits::{Members, only};

/// The request matrix of one slot. Both directions are kept, so that a scheduler reads a row or a
/// column as one word. The owner keeps it up to date between slots; it need not be rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    ports: usize,
    rows: [u64; MAX_PORTS],
    columns: [u64; MAX_PORTS],
}

impl Requests {
    /// No requests among `ports` initiators and as many targets; `ports` is 1 to [`MAX_PORTS`].
    pub const fn new(ports: usize) -> Requests {
        debug_assert!(ports >= 1 && ports <= MAX_PORTS);
        Requests { ports, rows: [0; MAX_PORTS], columns: [0; MAX_PORTS] }
    }

    /// Number of initiators, and of targets.
    #[inline]
    pub const fn ports(&self) -> usize {
        self.ports
    }

    /// The initiator asks for the target.
    #[inline]
    pub fn set(&mut self, initiator: usize, target: usize) {
        debug_assert!(initiator < self.ports && target < self.ports);
        self.rows[initiator] |= only(target);
        self.columns[target] |= only(initiator);
    }

    /// The initiator asks for the target no longer.
    #[inline]
    pub fn clear(&mut self, initiator: usize, target: usize) {
        debug_assert!(initiator < self.ports && target < self.ports);
        self.rows[initiator] &= !only(target);
        self.columns[target] &= !only(initiator);
    }

    /// The initiator, who asks for nothing, asks for all of these targets.
    #[inline]
    pub fn set_row(&mut self, initiator: usize, targets: u64) {
        debug_assert!(self.row(initiator) == 0, "a row is set once");
        self.rows[initiator & (MAX_PORTS - 1)] = targets;
        for target in Members(targets) {
            self.columns[target] |= only(initiator);
        }
    }

    /// The initiator asks for nothing.
    #[inline]
    pub fn clear_row(&mut self, initiator: usize) {
        let targets = std::mem::take(&mut self.rows[initiator & (MAX_PORTS - 1)]);
        for target in Members(targets) {
            self.columns[target] &= !only(initiator);
        }
    }

    /// Nobody asks for anything.
    pub fn clear_all(&mut self) {
        self.rows[..self.ports].fill(0);
        self.columns[..self.ports].fill(0);
    }

    /// Whether the initiator asks for the target.
    #[inline]
    pub const fn contains(&self, initiator: usize, target: usize) -> bool {
        self.row(initiator) & only(target) != 0
    }

    /// The targets that the initiator asks for, one bit each.
    #[inline]
    pub const fn row(&self, initiator: usize) -> u64 {
        self.rows[initiator & (MAX_PORTS - 1)]
    }

    /// The initiators that ask for the target, one bit each.
    #[inline]
    pub const fn column(&self, target: usize) -> u64 {
        self.columns[target & (MAX_PORTS - 1)]
    }

    /// All columns in groups of four; the last group is filled up with empty sets.
    #[inline]
    pub(super) fn columns_by_four(&self) -> &[[u64; 4]] {
        let (groups, _) = self.columns.as_chunks();
        &groups[..self.ports.div_ceil(4)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_tell_the_same() {
        let mut requests = Requests::new(64);
        requests.set(63, 0);
        requests.set(2, 0);
        requests.set(2, 5);
        requests.clear(63, 0);
        assert_eq!((requests.row(2), requests.row(63)), (0b10_0001, 0));
        assert_eq!((requests.column(0), requests.column(5)), (0b100, 0b100));
        assert!(requests.contains(2, 5) && !requests.contains(63, 0));
        requests.clear_all();
        assert_eq!(requests, Requests::new(64));
        requests.set_row(7, 1 << 63 | 1);
        assert_eq!(
            (requests.row(7), requests.column(63), requests.column(0)),
            (1 << 63 | 1, 128, 128)
        );
        requests.clear_row(7);
        assert_eq!(requests, Requests::new(64));
    }
}
