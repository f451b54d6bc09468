//! What happens to a packet at its target, and what an observer of a run sees of a delivery or a loss.

use weft_fabric::fabric::HostPair;
use weft_fabric::measure::{Budget, Drop, Instants, Observations};
use weft_fabric::switch::Loss;
use weft_kernel::{Halt, Stopped};
use weft_units::{Span, Time};

use super::Engine;
use super::packets::{Forwarding, Packet};

/// A packet, or a message of several of a connection, that has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// When it was submitted.
    pub generated: Time,
    /// When its first byte left the initiator.
    pub start: Time,
    /// When its last byte reached the target, or its completion.
    pub end: Time,
    /// How many switches it passed.
    pub hops: u16,
}

impl Delivery {
    /// What an observer sees of a delivery.
    #[inline]
    pub(super) fn of(one: &Instants) -> Delivery {
        let Instants { from, to, generated, started: start, delivered: end, hops, .. } = *one;
        Delivery { from, to, generated, start, end, hops }
    }
}

impl Engine {
    /// [`Channel::run`](crate::drive::Channel::run), showing every delivery to `watch`.
    pub fn run_watched(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: impl FnMut(Delivery),
    ) -> Option<Stopped> {
        if let Some(hub) = &mut self.hub {
            hub.show_deliveries();
        }
        self.run_until(until, halt, watch)
    }

    /// The last byte of a packet is at its target.
    #[inline(never)]
    pub(super) fn deliver(
        &mut self,
        now: Time,
        end: u32,
        id: u32,
        watch: &mut impl FnMut(Delivery),
    ) {
        self.deliver_one(now, end, id, watch);
    }

    /// [`deliver`](Self::deliver), for a loop over several packets.
    #[inline(always)]
    pub(super) fn deliver_one(
        &mut self,
        now: Time,
        end: u32,
        id: u32,
        watch: &mut impl FnMut(Delivery),
    ) {
        if self.memories.is_on {
            return self.arrive(now, end, id, watch);
        }
        let Forwarding { hops, to: host, .. } = self.packets.forwarding[id as usize];
        let spent = match self.packets.spent(id) {
            Some(spent) => spent,
            None => self.graph.spent_alike(hops),
        };
        if self.ring.is_some() {
            return self.deliver_over_rings(now, host, id, spent, watch);
        }
        let Packet { generated, start, from, message } = self.packets.packets[id as usize];
        self.packets.remove(id);
        let pair = HostPair { from, to: host };
        if self.tells_deliveries
            && let Some(time) = self.supply.arrived(now, pair, message)
        {
            self.schedule(time, self.places.generates + host, 0);
        }
        let instants = Instants {
            from,
            to: host,
            generated,
            started: start,
            delivered: now,
            hops,
            class: 0,
            payload: self.payload,
            transmission: spent.transmission,
            wire: spent.wire,
            switches: spent.switches,
            initiator: Span::ZERO,
            target: Span::ZERO,
        };
        self.observe_delivery(instants, watch);
    }

    /// Observes a delivery and shows it; in a divided graph, and where events happen node by node, both
    /// happen at the end of the window.
    #[inline(always)]
    pub(super) fn observe_delivery(
        &mut self,
        instants: Instants,
        watch: &mut impl FnMut(Delivery),
    ) {
        if self.parts.counts_at_once() {
            complete(&mut self.observations, instants, watch);
        } else {
            // A copy, so that the instants are only put together in memory where they are needed there.
            let hops = instants.hops;
            self.parts.note_delivered(&mut self.observations, Instants { hops, ..instants });
        }
    }

    /// A packet finds no room in a switch that drops packets then.
    #[cold]
    pub(super) fn drop(&mut self, now: Time, id: u32) {
        if self.adapters.is_on {
            return self.lose(now, id, Loss::Overflow);
        }
        let Packet { from, .. } = self.packets.packets[id as usize];
        self.packets.remove(id);
        self.observe_loss(now, from, Drop::Overflow);
    }

    /// Observes that a packet of a host is given up, and why, in the same way.
    pub(super) fn observe_loss(&mut self, now: Time, host: u32, why: Drop) {
        match self.parts.counts_at_once() {
            true => give_up(&mut self.observations, now, host, why),
            false => self.parts.note_dropped(now, host, why),
        }
    }
}

/// Observes a delivery, and shows it.
#[inline(always)]
pub(super) fn complete(seen: &mut Observations, one: Instants, watch: &mut impl FnMut(Delivery)) {
    seen.complete(&one);
    watch(Delivery::of(&one));
}

/// Observes a delivery whose time per stage was recorded on its way; `spend` adds these stages.
#[inline]
pub(super) fn complete_in_stages(
    seen: &mut Observations,
    one: &Instants,
    spend: impl FnOnce(&mut Budget),
    watch: impl FnOnce(Delivery),
) {
    seen.complete_in_stages(one, spend);
    watch(Delivery::of(one));
}

/// Observes the delivery of a packet that is no whole message: others of it follow, or no program waits for
/// it.
#[inline]
pub(super) fn count(seen: &mut Observations, one: &Instants) {
    seen.count_delivery(one);
}

/// Observes that a packet is given up: when, whose it was, and why.
pub(super) fn give_up(seen: &mut Observations, now: Time, from: u32, why: Drop) {
    seen.drop(why, now);
    seen.abandon_from(from as usize, now);
}
