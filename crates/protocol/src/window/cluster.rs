//! The mappings of a whole cluster: who may write where, what memory that takes, and what a store,
//! a load and a packet do (MEMORY CHANNEL Address Space Mapping, Figures 1 and 2).

use weft_units::Bytes;

use super::error::Target;
use super::{
    ControlTable, HostWrites, MapError, NetworkPage, Node, PageSize, Reach, ReceivePage,
    TransmitPage, members,
};

/// A physical page of a node, by its number among the pages that the node gave to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u32);

/// A packet that a store becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The node that stores.
    pub from: Node,
    /// The targets; the sender is one of them if the page is copied back.
    pub targets: u64,
    /// Offset into the window.
    pub offset: u64,
    /// Payload.
    pub size: Bytes,
    /// The attributes of the page.
    pub page: TransmitPage,
}

/// What a packet does at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is written to memory: where on the PCI, and whether it interrupts the processor.
    Written {
        /// The address on the PCI of the target.
        address: u64,
        /// Whether the processor is interrupted.
        interrupt: bool,
    },
    /// It is a request: the page is read, and what was read goes back as a write to the same
    /// offset.
    Read {
        /// The address on the PCI of the target.
        address: u64,
    },
    /// It is a conditional write; a status goes back.
    Conditional {
        /// The address on the PCI of the target.
        address: u64,
    },
    /// No page is mapped there, or it is not enabled: filtered out.
    Filtered,
}

/// An incoming page of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Incoming {
    page: ReceivePage,
    frame: Frame,
    maps: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Tables {
    transmit: ControlTable<TransmitPage>,
    receive: ControlTable<Incoming>,
    free: Vec<Frame>,
    frames: u32,
}

/// The page control tables of all adapters of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    page: PageSize,
    writes: HostWrites,
    nodes: Vec<Tables>,
}

impl Cluster {
    /// A cluster without mappings. `window` is rounded down to whole pages.
    ///
    /// # Errors
    /// [`MapError::Ports`] if the nodes do not fit the hub.
    pub fn new(
        nodes: u16,
        ports: u16,
        page: PageSize,
        window: Bytes,
        writes: HostWrites,
    ) -> Result<Cluster, MapError> {
        let ports = ports.min(Node::MOST);
        if !(2..=ports).contains(&nodes) {
            return Err(MapError::Ports { nodes, ports });
        }
        let pages = (window.0 / page.bytes().0) as u32;
        let tables = Tables {
            transmit: ControlTable::new(pages),
            receive: ControlTable::new(pages),
            free: Vec::new(),
            frames: 0,
        };
        Ok(Cluster { page, writes, nodes: vec![tables; nodes.into()] })
    }

    /// Maps a page outgoing on a node: an entry of its transmit table, and no memory.
    ///
    /// # Errors
    /// [`MapError`] if there is no such node or page, or the page is mapped with other attributes.
    pub fn map_outgoing(
        &mut self,
        node: Node,
        page: NetworkPage,
        entry: TransmitPage,
    ) -> Result<(), MapError> {
        if let Reach::Point(target) = entry.reach {
            self.tables(target)?;
        }
        let pages = self.pages();
        let tables = self.tables_mut(node)?;
        let slot = tables.transmit.slot(page).ok_or(MapError::NoPage { page, pages })?;
        if slot.is_some_and(|before| before != entry) {
            return Err(MapError::OtherAttributes { page, node, direction: "outgoing" });
        }
        *slot = Some(entry);
        Ok(())
    }

    /// Maps a page incoming on a node. The first map takes a physical page, later ones share it.
    ///
    /// # Errors
    /// [`MapError`] if there is no such node or page, or the page is mapped with other attributes.
    pub fn map_incoming(
        &mut self,
        node: Node,
        page: NetworkPage,
        entry: ReceivePage,
    ) -> Result<Frame, MapError> {
        let pages = self.pages();
        let last = ((1_u64 << 32) / self.page.bytes().0 - 1) as u32;
        if let Some(remap) = entry.remap.filter(|remap| *remap > last) {
            return Err(MapError::PastBus { page, node, remap, last });
        }
        let tables = self.tables_mut(node)?;
        let frames = tables.frames;
        let slot = tables.receive.slot(page).ok_or(MapError::NoPage { page, pages })?;
        match slot {
            Some(incoming) if incoming.page != entry => {
                Err(MapError::OtherAttributes { page, node, direction: "incoming" })
            }
            Some(incoming) => {
                incoming.maps += 1;
                Ok(incoming.frame)
            }
            None => {
                let frame = tables.free.pop().unwrap_or(Frame(frames));
                tables.frames = frames.max(frame.0 + 1);
                *slot = Some(Incoming { page: entry, frame, maps: 1 });
                Ok(frame)
            }
        }
    }

    /// Takes back one map of an incoming page. The last one frees its memory.
    ///
    /// # Errors
    /// [`MapError`] if the page is not mapped.
    pub fn unmap_incoming(&mut self, node: Node, page: NetworkPage) -> Result<(), MapError> {
        let refused = MapError::NotMapped { page, node, direction: "incoming" };
        let tables = self.tables_mut(node)?;
        let slot = tables.receive.slot(page).ok_or(refused)?;
        let incoming = slot.as_mut().ok_or(refused)?;
        incoming.maps -= 1;
        if incoming.maps == 0 {
            tables.free.push(incoming.frame);
            *slot = None;
        }
        Ok(())
    }

    /// Whether both sides consent to every connection: each outgoing page is mapped incoming by its
    /// target, a broadcast one by at least one other node.
    ///
    /// # Errors
    /// [`MapError::NoConsent`] names the first that is not.
    pub fn check_consent(&self) -> Result<(), MapError> {
        for (node, tables) in self.numbered() {
            for (page, entry) in tables.transmit.mapped() {
                let takes = |other: Node| self.incoming(other, page).is_some();
                let (consent, target) = match entry.reach {
                    Reach::Point(target) => (takes(target), Target::Node(target)),
                    Reach::Broadcast => {
                        let others = members(self.all() & !node.bit());
                        (others.into_iter().any(takes), Target::All)
                    }
                };
                if !consent {
                    return Err(MapError::NoConsent { page, node, target });
                }
            }
        }
        Ok(())
    }

    /// The physical memory that a node has given to the network: page size x incoming pages.
    pub fn memory(&self, node: Node) -> Bytes {
        let pages = self.nodes.get(node.index()).map_or(0, |own| own.receive.mapped().count());
        Bytes(self.page.bytes().0 * pages as u64)
    }

    /// The packets that a run of stores becomes.
    ///
    /// # Errors
    /// [`MapError`] for stores past the window, or into a page that is not mapped or not enabled.
    pub fn store(&self, node: Node, offset: u64, size: Bytes) -> Result<Vec<Write>, MapError> {
        self.packets(node, offset, size, self.writes)
    }

    /// The packets of what a device of a node writes over the PCI by DMA: no write buffer of a
    /// processor makes them smaller than the maximum size.
    ///
    /// # Errors
    /// Those of [`Cluster::store`].
    pub fn device_write(
        &self,
        node: Node,
        offset: u64,
        size: Bytes,
    ) -> Result<Vec<Write>, MapError> {
        self.packets(node, offset, size, self.writes.of_device())
    }

    fn packets(
        &self,
        node: Node,
        offset: u64,
        size: Bytes,
        writes_of: HostWrites,
    ) -> Result<Vec<Write>, MapError> {
        let tables = self.tables(node)?;
        self.check_window(offset, size)?;
        let mut writes = Vec::new();
        for (offset, size) in writes_of.pieces(offset, size) {
            let (page, _) = self.page.locate(offset);
            let direction = "outgoing";
            let refused = MapError::NotMapped { page, node, direction };
            let entry = *tables.transmit.get(page).ok_or(refused)?;
            if !entry.enabled {
                return Err(MapError::NotEnabled { page, node });
            }
            let others = match entry.reach {
                Reach::Point(target) => target.bit(),
                Reach::Broadcast => self.all() & !node.bit(),
            };
            let copy = if entry.local_copy { node.bit() } else { 0 };
            writes.push(Write { from: node, targets: others | copy, offset, size, page: entry });
        }
        Ok(writes)
    }

    /// What a packet does at one of its targets.
    pub fn receive(&self, target: Node, offset: u64) -> Effect {
        let (page, within) = self.page.locate(offset);
        let Some(incoming) = self.incoming(target, page).filter(|own| own.page.enabled) else {
            return Effect::Filtered;
        };
        // Without remapping in the adapter the network address is the PCI address, and the host's
        // own bridge maps it (generation 1).
        let base = incoming.page.remap.unwrap_or(page.0);
        let address = u64::from(base) * self.page.bytes().0 + within;
        match incoming.page {
            ReceivePage { remote_read: true, .. } => Effect::Read { address },
            ReceivePage { conditional_write: true, .. } => Effect::Conditional { address },
            ReceivePage { interrupt, .. } => Effect::Written { address, interrupt },
        }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The page that an offset into the window lies in.
    pub fn page_of(&self, offset: u64) -> NetworkPage {
        self.page.locate(offset).0
    }

    /// The pages that a node maps outgoing, in order.
    pub fn outgoing_pages(&self, node: Node) -> impl Iterator<Item = (NetworkPage, &TransmitPage)> {
        self.nodes.get(node.index()).into_iter().flat_map(|own| own.transmit.mapped())
    }

    /// The entry of a page that a node maps outgoing.
    #[inline]
    pub fn outgoing_page(&self, node: Node, page: NetworkPage) -> Option<&TransmitPage> {
        self.nodes.get(node.index())?.transmit.get(page)
    }

    /// The entry of a page that a node maps incoming.
    #[inline]
    pub fn incoming_page(&self, node: Node, page: NetworkPage) -> Option<&ReceivePage> {
        Some(&self.incoming(node, page)?.page)
    }

    /// Whether `from` can read a page of `target`: it maps the page outgoing to it, the receive
    /// table there says that packets are requests, and it maps the page incoming itself, since what
    /// is read comes back as a write to the same address.
    ///
    /// # Errors
    /// [`MapError`] tells what is missing.
    pub fn check_read(&self, from: Node, target: Node, offset: u64) -> Result<(), MapError> {
        self.attribute(
            target,
            offset,
            |page| page.remote_read,
            |page| MapError::NoRemoteRead { page, target },
        )?;
        self.check_way(from, target, offset)?;
        self.load(from, offset, Bytes(1)).map(|_| ())
    }

    /// Whether `from` can write conditionally to a page of `target`.
    ///
    /// # Errors
    /// [`MapError`] tells what is missing.
    pub fn check_conditional(&self, from: Node, target: Node, offset: u64) -> Result<(), MapError> {
        let refusal = |page| MapError::NoConditionalWrite { page, target };
        self.attribute(target, offset, |page| page.conditional_write, refusal)?;
        self.check_way(from, target, offset)
    }

    /// Checks that these packets may be stores: at no target is their page for requests.
    ///
    /// # Errors
    /// [`MapError::NoStore`] names the first such page.
    pub fn check_stores(&self, writes: &[Write]) -> Result<(), MapError> {
        for write in writes {
            let page = self.page_of(write.offset);
            for target in members(write.targets) {
                let attribute = match self.incoming_page(target, page) {
                    Some(ReceivePage { remote_read: true, .. }) => "remote_read",
                    Some(ReceivePage { conditional_write: true, .. }) => "conditional_write",
                    _ => continue,
                };
                return Err(MapError::NoStore { page, target, attribute });
            }
        }
        Ok(())
    }

    /// Where in its own memory a node loads from: the frame of an incoming page, and the offset in
    /// it. A load never leaves the node.
    ///
    /// # Errors
    /// [`MapError`] for a load past the window or of a page that is not mapped incoming.
    pub fn load(&self, node: Node, offset: u64, size: Bytes) -> Result<(Frame, u64), MapError> {
        self.tables(node)?;
        self.check_window(offset, size)?;
        let (page, within) = self.page.locate(offset);
        let refused = MapError::NotMapped { page, node, direction: "incoming" };
        Ok((self.incoming(node, page).ok_or(refused)?.frame, within))
    }

    fn attribute(
        &self,
        target: Node,
        offset: u64,
        has: impl FnOnce(&ReceivePage) -> bool,
        refusal: impl FnOnce(NetworkPage) -> MapError,
    ) -> Result<(), MapError> {
        self.load(target, offset, Bytes(1))?;
        let (page, _) = self.page.locate(offset);
        match self.incoming(target, page) {
            Some(incoming) if has(&incoming.page) => Ok(()),
            _ => Err(refusal(page)),
        }
    }

    /// Whether the page at an offset is mapped outgoing on `from`, enabled, and leads to `target`.
    fn check_way(&self, from: Node, target: Node, offset: u64) -> Result<(), MapError> {
        let page = self.page_of(offset);
        let refused = MapError::NotMapped { page, node: from, direction: "outgoing" };
        let entry = self.outgoing_page(from, page).ok_or(refused)?;
        if !entry.enabled {
            return Err(MapError::NotEnabled { page, node: from });
        }
        match entry.reach {
            Reach::Point(only) if only != target => {
                Err(MapError::Elsewhere { page, node: from, target })
            }
            _ => Ok(()),
        }
    }

    fn check_window(&self, offset: u64, size: Bytes) -> Result<(), MapError> {
        let window = Bytes(u64::from(self.pages()) * self.page.bytes().0);
        if offset.saturating_add(size.0) > window.0 {
            return Err(MapError::PastWindow { offset, size, window });
        }
        Ok(())
    }

    fn pages(&self) -> u32 {
        self.nodes.first().map_or(0, |tables| tables.transmit.pages())
    }

    /// All nodes, as bits.
    fn all(&self) -> u64 {
        (1 << self.nodes.len()) - 1
    }

    fn numbered(&self) -> impl Iterator<Item = (Node, &Tables)> {
        (0..).map(Node).zip(&self.nodes)
    }

    fn incoming(&self, node: Node, page: NetworkPage) -> Option<&Incoming> {
        self.nodes.get(node.index())?.receive.get(page)
    }

    fn tables(&self, node: Node) -> Result<&Tables, MapError> {
        let nodes = self.nodes.len() as u16;
        self.nodes.get(node.index()).ok_or(MapError::NoNode { node, nodes })
    }

    fn tables_mut(&mut self, node: Node) -> Result<&mut Tables, MapError> {
        let nodes = self.nodes.len() as u16;
        self.nodes.get_mut(node.index()).ok_or(MapError::NoNode { node, nodes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITES: HostWrites = HostWrites { write: Bytes(32), payload: Bytes(256) };
    const PAGE: u64 = 8192;

    fn cluster(nodes: u16) -> Cluster {
        Cluster::new(nodes, 8, PageSize::EightKb, Bytes(16 * PAGE), WRITES).unwrap()
    }

    fn said<T: std::fmt::Debug>(refused: Result<T, MapError>) -> String {
        refused.unwrap_err().to_string()
    }

    /// Figure 1, with nodes counted from 0: node 1 outgoing to 3 and 4 and incoming to itself, node
    /// 4 outgoing to 2. Four arrows point at nodes: four physical pages.
    #[test]
    fn the_mapping_of_figure_1() {
        let mut cluster = cluster(5);
        let (shared, other) = (NetworkPage(3), NetworkPage(7));
        // Outgoing to two nodes is a broadcast that the others do not map; the copy comes back.
        let out = TransmitPage { local_copy: true, ..TransmitPage::to(Reach::Broadcast) };
        cluster.map_outgoing(Node(1), shared, out).unwrap();
        for node in [1, 3, 4] {
            cluster.map_incoming(Node(node), shared, ReceivePage::default()).unwrap();
        }
        cluster.map_outgoing(Node(4), other, TransmitPage::to(Reach::Point(Node(2)))).unwrap();
        cluster.map_incoming(Node(2), other, ReceivePage::default()).unwrap();
        cluster.check_consent().unwrap();

        let memory: Vec<u64> = (0..5).map(|node| cluster.memory(Node(node)).0 / PAGE).collect();
        assert_eq!(memory, [0, 1, 1, 1, 1]);
        let writes = cluster.store(Node(1), 3 * PAGE + 64, Bytes(8)).unwrap();
        assert_eq!((writes.len(), writes[0].targets), (1, 0b11111));
        let takes = |node| cluster.receive(Node(node), writes[0].offset) != Effect::Filtered;
        assert_eq!([0, 1, 2, 3, 4].map(takes), [false, true, false, true, true]);
        assert_eq!(cluster.load(Node(1), 3 * PAGE + 64, Bytes(8)), Ok((Frame(0), 64)));
        assert!(cluster.load(Node(0), 3 * PAGE, Bytes(8)).is_err());
    }

    #[test]
    fn the_first_map_allocates_later_ones_share_and_the_last_unmap_frees() {
        let mut cluster = cluster(2);
        let map = |cluster: &mut Cluster, page| {
            cluster.map_incoming(Node(0), NetworkPage(page), ReceivePage::default()).unwrap()
        };
        assert_eq!([2, 2, 5].map(|page| map(&mut cluster, page)), [Frame(0), Frame(0), Frame(1)]);
        assert_eq!(cluster.memory(Node(0)), Bytes(2 * PAGE));
        cluster.unmap_incoming(Node(0), NetworkPage(2)).unwrap();
        assert_eq!(cluster.memory(Node(0)), Bytes(2 * PAGE));
        cluster.unmap_incoming(Node(0), NetworkPage(2)).unwrap();
        assert_eq!(cluster.memory(Node(0)), Bytes(PAGE));
        assert_eq!(map(&mut cluster, 9), Frame(0), "a page that was freed is used again");
        let refused = said(cluster.unmap_incoming(Node(0), NetworkPage(2)));
        assert_eq!(refused, "page 2 is not mapped incoming on node 0");
    }

    #[test]
    fn a_page_is_remapped_to_any_address_on_the_receiver() {
        let mut cluster = cluster(2);
        let page = ReceivePage { remap: Some(0x7_ffff), interrupt: true, ..Default::default() };
        cluster.map_incoming(Node(1), NetworkPage(1), page).unwrap();
        let address = 0x7_ffff * PAGE + 40;
        let written = Effect::Written { address, interrupt: true };
        assert_eq!(cluster.receive(Node(1), PAGE + 40), written);
        cluster.map_incoming(Node(0), NetworkPage(1), ReceivePage::default()).unwrap();
        let same = Effect::Written { address: PAGE + 40, interrupt: false };
        assert_eq!(cluster.receive(Node(0), PAGE + 40), same);
        let past = ReceivePage { remap: Some(1 << 19), ..Default::default() };
        let refused = said(cluster.map_incoming(Node(0), NetworkPage(2), past));
        assert_eq!(refused, "page 2 of node 0 is remapped to page 524288: accepted is 0 to 524287");
    }

    #[test]
    fn attributes_decide_what_a_packet_does() {
        let mut cluster = cluster(2);
        let out = TransmitPage::to(Reach::Point(Node(1)));
        for page in [0, 1] {
            cluster.map_outgoing(Node(0), NetworkPage(page), out).unwrap();
        }
        let pages = [
            ReceivePage { remote_read: true, ..Default::default() },
            ReceivePage { conditional_write: true, ..Default::default() },
            ReceivePage { enabled: false, ..Default::default() },
        ];
        for (page, entry) in (0..).map(NetworkPage).zip(pages) {
            cluster.map_incoming(Node(1), page, entry).unwrap();
        }
        assert_eq!(cluster.receive(Node(1), 4), Effect::Read { address: 4 });
        assert_eq!(cluster.receive(Node(1), PAGE), Effect::Conditional { address: PAGE });
        assert_eq!(cluster.receive(Node(1), 2 * PAGE), Effect::Filtered);
        let read = |offset| cluster.check_read(Node(0), Node(1), offset);
        let write = |offset| cluster.check_conditional(Node(0), Node(1), offset);
        assert_eq!(said(read(0)), "page 0 is not mapped incoming on node 0");
        assert_eq!(write(PAGE), Ok(()));
        let refused = said(read(PAGE));
        assert_eq!(
            refused,
            "page 1 of node 1 has no attribute remote_read: it can be written and not read"
        );
        assert_eq!(said(write(0)), "page 0 of node 1 has no attribute conditional_write");
        let stores = cluster.store(Node(0), PAGE, Bytes(4)).unwrap();
        assert_eq!(
            said(cluster.check_stores(&stores)),
            "page 1 of node 1 has the attribute conditional_write: it takes no stores"
        );
        cluster.map_incoming(Node(0), NetworkPage(0), ReceivePage::default()).unwrap();
        assert_eq!(cluster.check_read(Node(0), Node(1), 0), Ok(()));
        let back = said(cluster.check_conditional(Node(1), Node(1), PAGE));
        assert_eq!(back, "page 1 is not mapped outgoing on node 1");
    }

    #[test]
    fn a_read_goes_only_where_its_page_leads() {
        let mut cluster = cluster(3);
        let out = TransmitPage::to(Reach::Point(Node(2)));
        cluster.map_outgoing(Node(0), NetworkPage(0), out).unwrap();
        let page = ReceivePage { remote_read: true, ..Default::default() };
        cluster.map_incoming(Node(1), NetworkPage(0), page).unwrap();
        let refused = said(cluster.check_read(Node(0), Node(1), 0));
        assert_eq!(refused, "page 0 of node 0 is mapped outgoing, and not to node 1");
    }

    #[test]
    fn stores_are_refused_with_their_reason() {
        let mut cluster = cluster(3);
        let out = TransmitPage::to(Reach::Point(Node(1)));
        cluster.map_outgoing(Node(0), NetworkPage(0), out).unwrap();
        assert_eq!(
            said(cluster.check_consent()),
            "node 0 maps page 0 outgoing to node 1, which maps it incoming nowhere: both sides \
             must consent"
        );
        assert_eq!(
            said(cluster.store(Node(0), 16 * PAGE - 4, Bytes(8))),
            "8 B at offset 131068 of a window of 128 KiB: accepted is what ends within it"
        );
        assert_eq!(
            said(cluster.store(Node(0), PAGE - 4, Bytes(8))),
            "page 1 is not mapped outgoing on node 0"
        );
        let off = TransmitPage { enabled: false, ..out };
        cluster.map_outgoing(Node(2), NetworkPage(0), off).unwrap();
        let refused = said(cluster.store(Node(2), 0, Bytes(4)));
        assert_eq!(refused, "page 0 of node 2 is not enabled for transmission");
        assert_eq!(
            said(cluster.map_outgoing(Node(2), NetworkPage(0), out)),
            "page 0 of node 2 is mapped outgoing already, with other attributes: a later map \
             shares the first one"
        );
        let refused = said(cluster.map_outgoing(Node(2), NetworkPage(16), out));
        assert_eq!(refused, "page 16 of a window of 16 pages: accepted is a number below 16");
        let refused = said(cluster.map_incoming(Node(3), NetworkPage(0), ReceivePage::default()));
        assert_eq!(refused, "node 3 of a cluster of 3: accepted is 0 to 2");
        let refused = Cluster::new(17, 16, PageSize::FourKb, Bytes(1 << 20), WRITES);
        assert_eq!(said(refused), "17 nodes on a hub of 16 ports: accepted is 2 to 16");
    }

    #[test]
    fn a_run_of_stores_is_split_into_writes_and_carries_its_attributes() {
        let mut cluster = cluster(2);
        let out = TransmitPage { sweep: true, ..TransmitPage::to(Reach::Point(Node(1))) };
        cluster.map_outgoing(Node(0), NetworkPage(0), out).unwrap();
        let writes = cluster.store(Node(0), 16, Bytes(64)).unwrap();
        let sizes: Vec<_> = writes.iter().map(|write| (write.offset, write.size.0)).collect();
        assert_eq!(sizes, [(16, 16), (32, 32), (64, 16)]);
        assert!(writes.iter().all(|write| write.targets == 0b10 && write.page.sweep));
    }
}
