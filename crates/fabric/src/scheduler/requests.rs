//! Requests of initiators for targets: the input of a scheduler.

use super::ports::{PerPort, PortSet};

/// The request matrix of one slot. Both directions are kept, so that a scheduler reads a row or a
/// column as one set. The owner keeps it up to date between slots; it need not be rebuilt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests<const W: usize = 1> {
    ports: usize,
    rows: PerPort<PortSet<W>, W>,
    columns: PerPort<PortSet<W>, W>,
    /// The targets that any initiator asks for.
    asked: PortSet<W>,
}

impl<const W: usize> Requests<W> {
    /// No requests among `ports` initiators and as many targets; `ports` is 1 to
    /// [`PortSet::MOST`].
    pub fn new(ports: usize) -> Requests<W> {
        debug_assert!(ports >= 1 && ports <= PortSet::<W>::MOST);
        let none = || PerPort::new(PortSet::EMPTY);
        Requests { ports, rows: none(), columns: none(), asked: PortSet::EMPTY }
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
        self.rows[initiator].insert(target);
        self.columns[target].insert(initiator);
        self.asked.insert(target);
    }

    /// The initiator asks for the target no longer.
    #[inline]
    pub fn clear(&mut self, initiator: usize, target: usize) {
        debug_assert!(initiator < self.ports && target < self.ports);
        self.rows[initiator].remove(target);
        self.withdraw(initiator, target);
    }

    /// A target has lost a request.
    #[inline]
    fn withdraw(&mut self, initiator: usize, target: usize) {
        let column = &mut self.columns[target];
        column.remove(initiator);
        if column.is_empty() {
            self.asked.remove(target);
        }
    }

    /// The initiator, who asks for nothing, asks for all of these targets.
    #[inline]
    pub fn set_row(&mut self, initiator: usize, targets: PortSet<W>) {
        debug_assert!(self.row(initiator).is_empty(), "a row is set once");
        self.rows[initiator] = targets;
        self.asked |= targets;
        for target in targets {
            self.columns[target].insert(initiator);
        }
    }

    /// The initiator asks for nothing.
    #[inline]
    pub fn clear_row(&mut self, initiator: usize) {
        for target in std::mem::take(&mut self.rows[initiator]) {
            self.withdraw(initiator, target);
        }
    }

    /// Removes all requests.
    pub fn clear_all(&mut self) {
        self.rows.fill(self.ports, PortSet::EMPTY);
        self.columns.fill(self.ports, PortSet::EMPTY);
        self.asked = PortSet::EMPTY;
    }

    /// Whether the initiator asks for the target.
    #[inline]
    pub fn contains(&self, initiator: usize, target: usize) -> bool {
        self.row(initiator).contains(target)
    }

    /// The targets that the initiator asks for.
    #[inline]
    pub fn row(&self, initiator: usize) -> PortSet<W> {
        self.rows[initiator]
    }

    /// The initiators that ask for the target.
    #[inline]
    pub fn column(&self, target: usize) -> PortSet<W> {
        self.columns[target]
    }

    /// The targets that any initiator asks for: all whose columns have members.
    #[inline]
    pub fn asked(&self) -> PortSet<W> {
        self.asked
    }

    /// Prefetches all entries.
    #[inline]
    pub fn prefetch(&self) {
        self.rows.prefetch(self.ports);
        self.columns.prefetch(self.ports);
    }

    /// All columns in groups of four; the last group is filled up with empty sets.
    #[inline]
    pub(super) fn columns_by_four(&self) -> impl Iterator<Item = &[PortSet<W>; 4]> {
        self.columns.by_four(self.ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_and_columns_tell_the_same_of<const W: usize>() {
        let last = 64 * W - 1;
        let set = |members: &[usize]| members.iter().copied().collect::<PortSet<W>>();
        let mut requests = Requests::<W>::new(64 * W);
        requests.set(last, 0);
        requests.set(2, 0);
        requests.set(2, 5);
        requests.clear(last, 0);
        assert_eq!(requests.asked(), set(&[0, 5]));
        assert_eq!((requests.row(2), requests.row(last)), (set(&[0, 5]), PortSet::EMPTY));
        assert_eq!((requests.column(0), requests.column(5)), (set(&[2]), set(&[2])));
        assert!(requests.contains(2, 5) && !requests.contains(last, 0));
        requests.clear_all();
        assert_eq!(requests, Requests::new(64 * W));
        requests.set_row(7, set(&[0, last]));
        assert_eq!(requests.row(7), set(&[0, last]));
        assert_eq!((requests.column(last), requests.column(0)), (set(&[7]), set(&[7])));
        assert_eq!(requests.asked(), set(&[0, last]));
        requests.clear_row(7);
        assert_eq!(requests, Requests::new(64 * W));
    }

    #[test]
    fn rows_and_columns_tell_the_same() {
        rows_and_columns_tell_the_same_of::<1>();
        rows_and_columns_tell_the_same_of::<4>();
        rows_and_columns_tell_the_same_of::<16>();
    }
}
