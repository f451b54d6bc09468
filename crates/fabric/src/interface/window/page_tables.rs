//! What the page control tables do to a store and to a packet (MEMORY CHANNEL Address Space Mapping,
//! Figure 2; The MEMORY CHANNEL 2 PCI Adapter Card).
//!
//! A store passes the entry of its page at its initiator, which determines its targets, and the
//! entry at each target, which is read when the packet is checked and before it requests the bus. A
//! store and a packet carry only the number of the page, by which both tables are looked up.

use weft_protocol::window::{Cluster, Connections, MapError, NetworkPage, Node, TransmitPage, Use};
use weft_units::Time;

/// Which page a store goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// The first one that leads to its targets for this.
    Use(Use),
    /// The one that its program names.
    Page(NetworkPage),
}

/// Where the tables let a store go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedStore {
    /// The page that it goes through, if there is one.
    pub page: Option<NetworkPage>,
    /// Its targets, a bit each: those of the page, and its own node only if the page makes it one.
    pub targets: u64,
    /// Targets that the page does not lead to.
    pub refused: u64,
    /// Whether its node is a target only since the page copies what is stored to it.
    pub is_copied: bool,
}

/// What a receive table says about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It is taken, and acknowledged immediately if the page asks for that.
    Taken {
        /// Whether it is.
        is_acknowledged: bool,
    },
    /// Its page is not mapped or not enabled here: it goes no further.
    Filtered,
}

/// The page control tables of all nodes, and what they did.
#[derive(Debug)]
pub struct PageTables {
    cluster: Cluster,
    connections: Connections,
    /// Whether a store of every node reaches all of them and itself, in one order; and whether each
    /// can request acknowledgments from all others.
    copies_come_back: bool,
    all_acknowledge: bool,
    counts: Counts,
}

/// Packets, for each target one.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Their initiator maps no page that leads there.
    unmapped: u64,
    /// Their target does not map the page, or has not enabled it.
    filtered: u64,
    interrupts: u64,
    remapped: u64,
    acknowledged: u64,
    /// From the stores to their acknowledgments.
    waited: u128,
}

fn node(host: u16) -> Node {
    Node(host as u8)
}

impl PageTables {
    /// The tables as they are mapped.
    pub fn new(cluster: Cluster) -> PageTables {
        let connections = Connections::of(&cluster);
        let nodes = || (0..cluster.nodes() as u8).map(Node);
        let all = nodes().fold(0, |all, node| all | node.bit());
        let takes = |node, page| cluster.incoming_page(node, page).is_some_and(|own| own.enabled);
        let reaches_all = |from: Node, what, has_copy: bool| {
            connections.page(from, all, what).is_some_and(|page| {
                let entry = cluster.outgoing_page(from, page);
                let is_right = !has_copy || entry.is_some_and(|entry| entry.local_copy);
                is_right && nodes().all(|node| (node == from && !has_copy) || takes(node, page))
            })
        };
        PageTables {
            copies_come_back: nodes().all(|from| reaches_all(from, Use::Store, true)),
            all_acknowledge: nodes().all(|from| reaches_all(from, Use::Sweep, false)),
            connections,
            counts: Counts::default(),
            cluster,
        }
    }

    /// The tables themselves.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Where a store of `packets` packets of a node goes: where its page leads, and nowhere else.
    pub fn map(&mut self, from: u16, targets: u64, through: Through, packets: u64) -> MappedStore {
        let page = match through {
            Through::Use(what) => self.connections.page(node(from), targets, what),
            Through::Page(page) => Some(page),
        };
        let entry = page.and_then(|page| self.cluster.outgoing_page(node(from), page));
        let entry = entry.filter(|entry| entry.enabled);
        let has_copy = entry.is_some_and(|entry| entry.local_copy);
        let own = 1 << from;
        let refused = match entry {
            None => targets,
            Some(_) if !has_copy => targets & own,
            Some(_) => 0,
        };
        self.counts.unmapped += packets * u64::from(refused.count_ones());
        let targets = targets & !refused;
        let is_copied = targets != 0 && refused == 0 && targets & own == 0 && has_copy;
        let targets = if is_copied { targets | own } else { targets };
        MappedStore { page, targets, refused, is_copied }
    }

    /// The adapter of a target looks a packet of a page up.
    pub fn look_up(&mut self, page: NetworkPage, from: u16, target: u16) -> Lookup {
        let entry = self.cluster.incoming_page(node(target), page);
        if entry.is_some_and(|entry| entry.enabled) {
            let out = self.cluster.outgoing_page(node(from), page);
            let is_acknowledged = out.is_some_and(|out| out.acknowledge && !out.sweep);
            Lookup::Taken { is_acknowledged }
        } else {
            self.counts.filtered += 1;
            Lookup::Filtered
        }
    }

    /// The bus of a target has written a packet of a page. Returns whether its adapter acknowledges
    /// that, and with it everything that came before on the path.
    pub fn written(&mut self, page: NetworkPage, from: u16, target: u16) -> bool {
        let Some(entry) = self.cluster.incoming_page(node(target), page) else { return false };
        self.counts.interrupts += u64::from(entry.interrupt);
        self.counts.remapped += u64::from(entry.remap.is_some());
        self.cluster.outgoing_page(node(from), page).is_some_and(|out| out.sweep)
    }

    /// The acknowledgment of what was stored at `since` is in memory.
    pub fn acknowledged(&mut self, now: Time, since: Time) {
        self.counts.acknowledged += 1;
        self.counts.waited += u128::from(now.since(since).0);
    }

    /// Whether the processor of a target is interrupted by a packet of a page, and does not poll.
    #[inline]
    pub fn interrupts(&self, page: Option<NetworkPage>, target: u16) -> bool {
        let entry = page.and_then(|page| self.cluster.incoming_page(node(target), page));
        entry.is_some_and(|entry| entry.interrupt)
    }

    /// Whether a node can ask these targets for acknowledgments.
    ///
    /// # Errors
    /// [`MapError::NoSweep`].
    pub fn check_sweep(&self, from: u16, targets: u64) -> Result<(), MapError> {
        let page = self.connections.page(node(from), targets, Use::Sweep);
        page.map(|_| ()).ok_or(MapError::NoSweep { node: node(from) })
    }

    /// Whether all nodes see what each stores to all of them, its own copy among it, in one order.
    pub fn copies_come_back(&self) -> bool {
        self.copies_come_back
    }

    /// Whether each node can ask all others for acknowledgments.
    pub fn all_acknowledge(&self) -> bool {
        self.all_acknowledge
    }

    /// What the tables did to packets, and the memory that all nodes gave to the network, with the
    /// names of their columns.
    pub fn columns(&self) -> Vec<(&'static str, f64)> {
        let PageTables { cluster, counts, .. } = self;
        let nodes = || (0..cluster.nodes() as u8).map(Node);
        let memory: Vec<u64> = nodes().map(|node| cluster.memory(node).0).collect();
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        let mut columns = vec![
            ("mapped_memory_kib", kib(memory.iter().sum())),
            ("mapped_memory_max_kib", kib(memory.into_iter().max().unwrap_or(0))),
            ("unmapped_packets", counts.unmapped as f64),
            ("filtered_packets", counts.filtered as f64),
            ("interrupts", counts.interrupts as f64),
            ("remapped_packets", counts.remapped as f64),
            ("acknowledged_packets", counts.acknowledged as f64),
        ];
        let is_asked = |entry: &TransmitPage| entry.sweep || entry.acknowledge;
        if nodes().any(|node| cluster.outgoing_pages(node).any(|(_, entry)| is_asked(entry))) {
            let mean = counts.waited as f64 / counts.acknowledged.max(1) as f64;
            columns.push(("acknowledgment_mean_us", mean * 1e-6));
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::window::{HostWrites, PageSize, Reach, ReceivePage};
    use weft_units::Bytes;

    use super::*;

    /// Three nodes. Node 0 has page 0 to node 1, page 1 to all with a copy for itself, page 2 to node 2
    /// where each packet is acknowledged and node 2 has not enabled it.
    fn tables() -> PageTables {
        let writes = HostWrites { write: Bytes(32), payload: Bytes(256) };
        let size = PageSize::EightKb;
        let mut cluster = Cluster::new(3, 8, size, Bytes(1 << 20), writes).unwrap();
        let page = NetworkPage;
        let plain = |to| TransmitPage::to(Reach::Point(Node(to)));
        let all = TransmitPage::to(Reach::Broadcast);
        let all = TransmitPage { local_copy: true, sweep: true, ..all };
        let asking = TransmitPage { acknowledge: true, ..plain(2) };
        for (place, entry) in [(0, plain(1)), (1, all), (2, asking)] {
            cluster.map_outgoing(Node(0), page(place), entry).unwrap();
        }
        let taken = ReceivePage::default();
        let off = ReceivePage { enabled: false, ..taken };
        let interrupting = ReceivePage { interrupt: true, ..taken };
        for (node, place, entry) in
            [(1, 0, interrupting), (0, 1, taken), (1, 1, taken), (2, 1, taken), (2, 2, off)]
        {
            cluster.map_incoming(Node(node), page(place), entry).unwrap();
        }
        PageTables::new(cluster)
    }

    fn count(tables: &PageTables, name: &str) -> f64 {
        tables.columns().iter().find(|(own, _)| *own == name).unwrap().1
    }

    #[test]
    fn a_store_goes_where_its_page_leads_and_nowhere_else() {
        let mut tables = tables();
        let to_one = tables.map(0, 0b010, Through::Use(Use::Store), 3);
        let page = Some(NetworkPage(0));
        let (refused, is_copied) = (0, false);
        assert_eq!(to_one, MappedStore { page, targets: 0b010, refused, is_copied });
        let copied = tables.map(0, 0b110, Through::Page(NetworkPage(1)), 1);
        assert_eq!((copied.targets, copied.refused, copied.is_copied), (0b111, 0, true));
        let asked_for = tables.map(0, 0b111, Through::Page(NetworkPage(1)), 1);
        assert_eq!((asked_for.targets, asked_for.is_copied), (0b111, false));
        // Node 1 has no page; a page without a copy does not lead to its own node.
        let none = tables.map(1, 0b101, Through::Use(Use::Store), 2);
        assert_eq!((none.targets, none.refused), (0, 0b101));
        let own = tables.map(0, 0b011, Through::Page(NetworkPage(0)), 1);
        assert_eq!((own.targets, own.refused, own.is_copied), (0b010, 0b001, false));
        assert_eq!(count(&tables, "unmapped_packets"), 2.0 * 2.0 + 1.0);
    }

    #[test]
    fn a_target_takes_what_it_has_enabled_and_says_what_the_page_asks_for() {
        let mut tables = tables();
        let plain = Lookup::Taken { is_acknowledged: false };
        assert_eq!(tables.look_up(NetworkPage(0), 0, 1), plain);
        assert_eq!(tables.look_up(NetworkPage(1), 0, 2), plain, "a sweep is answered later");
        assert_eq!(tables.look_up(NetworkPage(2), 0, 2), Lookup::Filtered);
        assert_eq!(tables.look_up(NetworkPage(0), 0, 2), Lookup::Filtered, "not mapped at all");
        assert_eq!(count(&tables, "filtered_packets"), 2.0);
        assert!(tables.written(NetworkPage(1), 0, 2) && !tables.written(NetworkPage(0), 0, 1));
        assert!(tables.interrupts(Some(NetworkPage(0)), 1) && !tables.interrupts(None, 1));
        assert_eq!(count(&tables, "interrupts"), 1.0);
    }

    #[test]
    fn acknowledgments_are_waited_for_from_the_stores_on() {
        let mut tables = tables();
        tables.acknowledged(Time(5_000_000), Time(1_000_000));
        tables.acknowledged(Time(9_000_000), Time(1_000_000));
        let mean = count(&tables, "acknowledgment_mean_us");
        assert!((mean - 6.0).abs() < 1e-9, "{mean}");
        assert_eq!(tables.check_sweep(0, 0b110), Ok(()));
        assert_eq!(tables.check_sweep(1, 0b100), Err(MapError::NoSweep { node: Node(1) }));
        assert!(!tables.copies_come_back() && !tables.all_acknowledge());
    }
}
