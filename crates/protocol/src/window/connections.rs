//! Which page a store uses if its program names targets and no address: the first page in the
//! window that its node maps outgoing to exactly these targets, and that they map incoming.

use super::{Cluster, Node, Reach, ReceivePage};
use super::{NetworkPage, TransmitPage};

/// What a store is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Data.
    Store,
    /// To be acknowledged after everything that came before on its path.
    Sweep,
    /// To be taken only without a pending error.
    Conditional,
}

/// The pages of a cluster, by sender, target and use. They are looked up with every store, in a
/// table and without a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    nodes: usize,
    /// For each use, initiator and target; a page to all others stands at the initiator itself.
    pages: [Vec<Option<NetworkPage>>; 3],
}

impl Connections {
    /// The pages of a cluster as they are mapped, except those that are not enabled for
    /// transmission.
    pub fn of(cluster: &Cluster) -> Connections {
        let nodes = cluster.nodes();
        let empty = vec![None; nodes * nodes];
        let mut all = Connections { nodes, pages: [empty.clone(), empty.clone(), empty] };
        for from in (0..nodes as u8).map(Node) {
            let outgoing = cluster.outgoing_pages(from).filter(|(_, entry)| entry.enabled);
            outgoing.for_each(|(page, entry)| all.add(cluster, from, page, entry));
        }
        all
    }

    /// The page through which `from` stores to these targets, a bit each, with or without its own
    /// copy. Several targets must be those of a broadcast, or some of them.
    #[inline]
    pub fn page(&self, from: Node, targets: u64, what: Use) -> Option<NetworkPage> {
        let others = targets & !from.bit();
        let to =
            if others.is_power_of_two() { others.trailing_zeros() as usize } else { from.index() };
        self.pages[what as usize].get(from.index() * self.nodes + to).copied().flatten()
    }

    fn add(&mut self, cluster: &Cluster, from: Node, page: NetworkPage, entry: &TransmitPage) {
        let is_pair = self.nodes == 2;
        let to = match entry.reach {
            Reach::Point(target) => target,
            Reach::Broadcast if is_pair => Node(1 - from.0),
            Reach::Broadcast => from,
        };
        let is_answered = entry.sweep || entry.acknowledge;
        let uses = match cluster.incoming_page(to, page) {
            _ if to == from => [Some(Use::Store), is_answered.then_some(Use::Sweep)],
            Some(ReceivePage { remote_read: true, .. }) => [None, None],
            Some(ReceivePage { conditional_write: true, .. }) => [Some(Use::Conditional), None],
            _ => [Some(Use::Store), is_answered.then_some(Use::Sweep)],
        };
        for what in uses.into_iter().flatten() {
            let place = &mut self.pages[what as usize][from.index() * self.nodes + to.index()];
            place.get_or_insert(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Bytes;

    use super::super::{HostWrites, PageSize};
    use super::*;

    fn cluster(nodes: u16) -> Cluster {
        let writes = HostWrites { write: Bytes(32), payload: Bytes(256) };
        Cluster::new(nodes, 8, PageSize::EightKb, Bytes(1 << 20), writes).unwrap()
    }

    #[test]
    fn a_store_goes_through_the_first_page_to_exactly_its_targets() {
        let mut cluster = cluster(4);
        let to_one = TransmitPage::to(Reach::Point(Node(1)));
        let entries = [
            (2, TransmitPage { enabled: false, ..to_one }, ReceivePage::default()),
            (3, to_one, ReceivePage { remote_read: true, ..Default::default() }),
            (4, to_one, ReceivePage { conditional_write: true, ..Default::default() }),
            (5, to_one, ReceivePage::default()),
            (6, TransmitPage { sweep: true, ..to_one }, ReceivePage::default()),
            (7, TransmitPage::to(Reach::Broadcast), ReceivePage::default()),
        ];
        for (page, out, incoming) in entries {
            cluster.map_outgoing(Node(0), NetworkPage(page), out).unwrap();
            cluster.map_incoming(Node(1), NetworkPage(page), incoming).unwrap();
        }
        let pages = Connections::of(&cluster);
        let page = |targets, what| pages.page(Node(0), targets, what).map(|page| page.0);
        let uses = [Use::Store, Use::Sweep, Use::Conditional];
        assert_eq!(uses.map(|what| page(0b10, what)), [Some(5), Some(6), Some(4)]);
        // Three others are reached by the broadcast page, with or without the own copy.
        assert_eq!([0b1110, 0b1111, 0b1010].map(|to| page(to, Use::Store)), [Some(7); 3]);
        assert_eq!(page(0b1110, Use::Sweep), None);
        assert_eq!(page(0b100, Use::Store), None, "a broadcast page leads to more than one");
        assert_eq!(pages.page(Node(1), 1, Use::Store), None, "connections are one way");
    }

    #[test]
    fn of_two_nodes_a_broadcast_is_for_the_other_one() {
        let mut cluster = cluster(2);
        let all = TransmitPage::to(Reach::Broadcast);
        cluster.map_outgoing(Node(1), NetworkPage(3), all).unwrap();
        cluster.map_incoming(Node(0), NetworkPage(3), ReceivePage::default()).unwrap();
        let page = Connections::of(&cluster).page(Node(1), 1, Use::Store);
        assert_eq!(page, Some(NetworkPage(3)));
    }
}
