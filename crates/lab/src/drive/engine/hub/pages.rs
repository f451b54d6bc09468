//! Page control tables where stores are handed over and packets arrive. What they say is
//! [`weft_fabric::interface::window::PageTables`]'s; nothing is asked where the file maps no pages.

use weft_fabric::interface::window::{Lookup, MappedStore, PageTables, SHORT, Stores, Through};
use weft_fabric::workload::Feedback;
use weft_kernel::Id;
use weft_protocol::window::MapError;
use weft_units::{Bytes, Span, Time};

use super::host::{Packet, Purpose};
use super::{HubStep, State};

impl HubStep<'_> {
    /// A store goes where the page that it is stored to leads, and nowhere else. Its node gets a
    /// copy if the page says so.
    #[inline]
    pub(super) fn only_those_mapped(
        &mut self,
        now: Time,
        host: u16,
        stores: Stores<Purpose>,
        through: Through,
    ) -> Option<Stores<Purpose>> {
        match self.own.pages.is_some() {
            true => self.map_store(now, host, stores, through),
            false => Some(stores),
        }
    }

    fn map_store(
        &mut self,
        now: Time,
        host: u16,
        mut stores: Stores<Purpose>,
        through: Through,
    ) -> Option<Stores<Purpose>> {
        let packets = u64::from(stores.packets());
        let mapped = self.own.pages.as_mut()?.map(host, stores.targets, through, packets);
        let MappedStore { page, targets, refused, is_copied } = mapped;
        for target in (0..64).filter(|target| refused >> target & 1 == 1) {
            self.refuse_store(now, stores.purpose, packets, target);
        }
        (stores.page, stores.targets, stores.is_copied) = (page, targets, is_copied);
        if targets == 0 {
            self.go_on_after_refusal(now, host, stores.next_size());
            return None;
        }
        if is_copied {
            (0..packets).for_each(|_| self.seen.generate(now));
            self.own.waiting += packets;
        }
        Some(stores)
    }

    /// A source that always has another store submits the next one when the refused store would have
    /// left the bus.
    pub(super) fn go_on_after_refusal(&mut self, now: Time, host: u16, next: Bytes) {
        if self.own.hosts[usize::from(host)].feedback == Feedback::Ready {
            let time = now + self.own.parts.window.transaction(next) + Span(1);
            self.agenda().generate(time, host);
        }
    }

    /// The adapter of a target looks a packet up. Whether it takes it; what it does not take gives
    /// its place free and never asks for the bus.
    #[inline]
    pub(super) fn takes(&mut self, now: Time, id: Id<Packet>, target: u16) -> bool {
        self.own.pages.is_none() || self.looks_up(now, id, target)
    }

    fn looks_up(&mut self, now: Time, id: Id<Packet>, target: u16) -> bool {
        let packet = self.own.packets[id];
        let (Some(pages), Some(page)) = (&mut self.own.pages, packet.page) else { return true };
        if let Lookup::Taken { is_acknowledged } = pages.look_up(page, packet.from, target) {
            if is_acknowledged {
                self.acknowledge(now, &packet, target);
            }
            return true;
        }
        self.free_adapter(target, now);
        let missing = &mut self.own.packets[id].missing;
        *missing -= 1;
        if *missing == 0 {
            self.own.packets.remove(id);
        }
        self.let_go(now, &packet, target);
        if let Purpose::Request(place) = packet.purpose
            && packet.last
        {
            self.operate(now, |own| own.untaken(place, target));
        }
        false
    }

    /// The bus of a target has written a packet at `time`.
    #[inline]
    pub(super) fn written(&mut self, time: Time, id: Id<Packet>, target: u16) {
        if let Some(pages) = &mut self.own.pages {
            let packet = self.own.packets[id];
            if packet.page.is_some_and(|page| pages.written(page, packet.from, target)) {
                self.acknowledge(time, &packet, target);
            }
        }
    }

    /// The adapter of a target acknowledges a packet. A request has a response anyway.
    fn acknowledge(&mut self, time: Time, packet: &Packet, target: u16) {
        if packet.from != target && !matches!(packet.purpose, Purpose::Request(_)) {
            let purpose = Purpose::Acknowledgment(packet.generated);
            self.send_back(time, target, packet.from, SHORT, purpose);
        }
    }
}

impl State {
    /// Whether a program is interrupted by a packet and does not poll.
    #[inline]
    pub(super) fn interrupts(&self, packet: &Packet, target: u16) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.interrupts(packet.page, target))
    }

    /// Whether a node can ask these targets for acknowledgments.
    ///
    /// # Errors
    /// [`MapError::NoSweep`].
    pub(super) fn check_sweep(&self, from: u16, targets: u64) -> Result<(), MapError> {
        self.pages.as_ref().map_or(Ok(()), |pages| pages.check_sweep(from, targets))
    }

    /// Whether all nodes see what each stores to all of them, its own copy among it, in one order.
    pub(super) fn has_one_order(&self) -> bool {
        let is_mapped = self.pages.as_deref().is_none_or(PageTables::copies_come_back);
        is_mapped && !self.parts.hub.is_direct()
    }

    /// Whether a barrier can be made of sweeps and ordered broadcasts.
    pub(super) fn has_barrier(&self) -> bool {
        self.has_one_order() && self.pages.as_deref().is_none_or(PageTables::all_acknowledge)
    }
}
