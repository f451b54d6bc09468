//! What the page control tables do to a store and to a packet (MEMORY CHANNEL Address Space Mapping,
//! Figure 2; The MEMORY CHANNEL 2 PCI Adapter Card).
//!
//! A store goes through the entry of its page at its initiator, which says where it goes, and at
//! each target, which is looked at when the packet is checked and before it asks for the bus. Both
//! are numbers of tables; nothing is asked where the file maps no pages.

use weft_fabric::workload::Feedback;
use weft_kernel::Id;
use weft_protocol::window::{Cluster, Connections, MapError, NetworkPage, Node, TransmitPage, Use};
use weft_units::{Bytes, Span, Time};

use super::HubChannel;
use super::host::{Packet, Purpose, Run};
use super::operations::{SHORT, Whose};
use crate::drive::carrier::Notice;

/// Which page a store goes through.
#[derive(Clone, Copy, Debug)]
pub(super) enum Through {
    /// The first one that leads to its targets for this.
    Use(Use),
    /// The one that its program names.
    Page(NetworkPage),
}

/// The page control tables of all nodes, and what they did.
#[derive(Debug)]
pub(super) struct Pages {
    pub cluster: Cluster,
    connections: Connections,
    /// Whether a store of every node comes to all of them and back to itself, in one order; whether
    /// each can ask all others for acknowledgments.
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

impl Pages {
    pub fn new(cluster: Cluster) -> Pages {
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
        Pages {
            copies_come_back: nodes().all(|from| reaches_all(from, Use::Store, true)),
            all_acknowledge: nodes().all(|from| reaches_all(from, Use::Sweep, false)),
            connections,
            counts: Counts::default(),
            cluster,
        }
    }

    /// Whether the processor of a target is interrupted by a packet.
    #[inline]
    fn interrupts(&self, packet: &Packet, target: u16) -> bool {
        let entry = packet.page.and_then(|page| self.cluster.incoming_page(node(target), page));
        entry.is_some_and(|entry| entry.interrupt)
    }
}

fn node(host: u16) -> Node {
    Node(host as u8)
}

impl HubChannel {
    /// A store goes where the page that it is stored to leads, and nowhere else. Its node gets a
    /// copy if the page says so.
    #[inline]
    pub(super) fn only_those_mapped(
        &mut self,
        now: Time,
        host: u16,
        run: Run,
        through: Through,
    ) -> Option<Run> {
        if self.pages.is_none() { Some(run) } else { self.map_store(now, host, run, through) }
    }

    fn map_store(&mut self, now: Time, host: u16, mut run: Run, through: Through) -> Option<Run> {
        let pages = self.pages.as_ref()?;
        let page = match through {
            Through::Use(what) => pages.connections.page(node(host), run.targets, what),
            Through::Page(page) => Some(page),
        };
        let entry = page.and_then(|page| pages.cluster.outgoing_page(node(host), page));
        let entry = entry.filter(|entry| entry.enabled).copied();
        let own = 1 << host;
        let packets = u64::from(run.left) + 1;
        let refused = match entry {
            None => run.targets,
            Some(entry) if !entry.local_copy => run.targets & own,
            Some(_) => 0,
        };
        for target in (0..64).filter(|target| refused >> target & 1 == 1) {
            self.refuse_store(now, run.purpose, packets, target);
        }
        if let Some(pages) = &mut self.pages {
            pages.counts.unmapped += packets * u64::from(refused.count_ones());
        }
        run.page = page;
        run.targets &= !refused;
        if run.targets == 0 {
            self.go_on_after_refusal(now, host, run.next);
            return None;
        }
        if refused == 0 && run.targets & own == 0 && entry.is_some_and(|entry| entry.local_copy) {
            run.targets |= own;
            run.is_copied = true;
            (0..packets).for_each(|_| self.observations.generate(now));
            self.waiting += packets;
        }
        Some(run)
    }

    /// A source that always has another store has the next one when the one that nobody takes would
    /// have been on the bus.
    pub(super) fn go_on_after_refusal(&mut self, now: Time, host: u16, next: Bytes) {
        if self.hosts[usize::from(host)].feedback == Feedback::Ready {
            let time = now + self.parts.window.transaction(next) + Span(1);
            self.agenda.generate(time, host);
        }
    }

    /// The adapter of a target looks a packet up. Whether it takes it; what it does not take gives
    /// its place free and never asks for the bus.
    #[inline]
    pub(super) fn takes(&mut self, now: Time, id: Id<Packet>, target: u16) -> bool {
        self.pages.is_none() || self.looks_up(now, id, target)
    }

    fn looks_up(&mut self, now: Time, id: Id<Packet>, target: u16) -> bool {
        let packet = self.packets[id];
        let (Some(pages), Some(page)) = (&mut self.pages, packet.page) else { return true };
        let entry = pages.cluster.incoming_page(node(target), page);
        if entry.is_some_and(|entry| entry.enabled) {
            let out = pages.cluster.outgoing_page(node(packet.from), page);
            if out.is_some_and(|out| out.acknowledge && !out.sweep) {
                self.acknowledge(now, &packet, target);
            }
            return true;
        }
        pages.counts.filtered += 1;
        self.free_adapter(target, now);
        let missing = &mut self.packets[id].missing;
        *missing -= 1;
        if *missing == 0 {
            self.packets.remove(id);
        }
        self.let_go(now, &packet, target);
        if let Purpose::Request(place) = packet.purpose
            && packet.last
        {
            self.unheard(now, place, target);
        }
        false
    }

    /// The bus of a target has written a packet at `time`.
    #[inline]
    pub(super) fn written(&mut self, time: Time, id: Id<Packet>, target: u16) {
        if self.pages.is_some() {
            self.heed_page(time, id, target);
        }
    }

    fn heed_page(&mut self, time: Time, id: Id<Packet>, target: u16) {
        let packet = self.packets[id];
        let (Some(pages), Some(page)) = (&mut self.pages, packet.page) else { return };
        let Some(entry) = pages.cluster.incoming_page(node(target), page) else { return };
        pages.counts.interrupts += u64::from(entry.interrupt);
        pages.counts.remapped += u64::from(entry.remap.is_some());
        let out = pages.cluster.outgoing_page(node(packet.from), page);
        if out.is_some_and(|out| out.sweep) {
            self.acknowledge(time, &packet, target);
        }
    }

    /// The adapter of a target acknowledges a packet. A request has an answer anyway.
    fn acknowledge(&mut self, time: Time, packet: &Packet, target: u16) {
        if packet.from != target && !matches!(packet.purpose, Purpose::Request(_)) {
            let purpose = Purpose::Acknowledgment(packet.generated);
            self.send_back(time, target, packet.from, SHORT, purpose);
        }
    }

    /// The acknowledgment of what was stored at `since` is in memory.
    pub(super) fn acknowledged(&mut self, now: Time, since: Time) {
        if let Some(pages) = &mut self.pages {
            pages.counts.acknowledged += 1;
            pages.counts.waited += u128::from(now.since(since).0);
        }
    }

    /// Whether a program is interrupted by a packet and does not poll.
    #[inline]
    pub(super) fn interrupts(&self, packet: &Packet, target: u16) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.interrupts(packet, target))
    }

    /// A target did not take a request, and its adapter does not answer it.
    fn unheard(&mut self, now: Time, place: u32, target: u16) {
        let Some(pending) = &mut self.operations[place as usize] else { return };
        let Whose::Program(ticket) = pending.whose else {
            return self.unanswered(now, place, target);
        };
        pending.whose = Whose::Nobody;
        self.notices.push(Notice::Lost { time: now, ticket, to: pending.from });
        self.answered(now, place, target);
    }

    /// Whether a node can ask these targets for acknowledgments.
    ///
    /// # Errors
    /// [`MapError::NoSweep`].
    pub(super) fn check_sweep(&self, from: u16, targets: u64) -> Result<(), MapError> {
        let page = |pages: &Pages| pages.connections.page(node(from), targets, Use::Sweep);
        let is_mapped = self.pages.as_ref().is_none_or(|pages| page(pages).is_some());
        is_mapped.then_some(()).ok_or(MapError::NoSweep { node: node(from) })
    }

    /// Whether all nodes see what each stores to all of them, its own copy among it, in one order.
    pub(super) fn has_one_order(&self) -> bool {
        let is_mapped = self.pages.as_ref().is_none_or(|pages| pages.copies_come_back);
        is_mapped && !self.parts.hub.is_direct()
    }

    /// Whether a barrier can be made of sweeps and ordered broadcasts.
    pub(super) fn has_barrier(&self) -> bool {
        self.has_one_order() && self.pages.as_ref().is_none_or(|pages| pages.all_acknowledge)
    }

    /// What the tables did to packets, and the memory that all nodes gave to the network.
    pub(super) fn page_columns(&self) -> Vec<(&'static str, f64)> {
        let Some(Pages { cluster, counts, .. }) = self.pages.as_deref() else { return Vec::new() };
        let nodes = (0..cluster.nodes() as u8).map(Node);
        let memory: Vec<u64> = nodes.map(|node| cluster.memory(node).0).collect();
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
        let asks = |entry: &TransmitPage| entry.sweep || entry.acknowledge;
        if self.parts.window.outgoing.iter().any(|page| asks(&page.entry)) {
            let mean = counts.waited as f64 / counts.acknowledged.max(1) as f64;
            columns.push(("acknowledgment_mean_us", mean * 1e-6));
        }
        columns
    }
}
