//! The software that restores order, and the adapters that interrupt it: what it says becomes packets
//! and events. What it does is [`weft_fabric::interface::window::RecoverySoftware`]'s.

use weft_fabric::interface::window::{
    Admitted, Leg, Members, RecoveryMessage, RecoverySoftware, SoftwareAct, Stores,
};
use weft_fabric::measure::Drop;
use weft_kernel::Id;
use weft_units::{Bytes, Time};

use super::HubStep;
use super::cluster::{Management, Step};
use super::host::{Packet, Purpose};

impl HubStep<'_> {
    /// Damage on the way to the hub: the hub passes the packet on and does not look.
    pub(super) fn damage_upstream(&mut self, id: Id<Packet>) {
        let Some(own) = &mut self.own.management else { return };
        let packet = &mut self.own.packets[id];
        packet.is_whole &= own.damage.is_whole(packet.bytes(), Leg::ToHub);
    }

    /// Whether the adapter of a target takes a packet that comes; otherwise it is lost for now.
    #[inline]
    pub(super) fn admits(&mut self, now: Time, id: Id<Packet>, target: u16) -> bool {
        self.own.management.is_none() || self.looks_whole(now, id, target)
    }

    fn looks_whole(&mut self, now: Time, id: Id<Packet>, target: u16) -> bool {
        let Some(own) = &mut self.own.management else { return true };
        let packet = self.own.packets[id];
        if Some(packet.rail) != own.members.up() || !own.members.is_alive(target) {
            self.lose(now, id, target);
            return false;
        }
        let is_whole = own.damage.is_whole(packet.bytes(), Leg::ToTarget(target))
            && packet.is_whole
            && !own.members.is_cut(packet.sent());
        let admitted = own.software.admit(now, target, packet.on_path(is_whole));
        let Admitted::Discarded { is_damaged, is_first, is_failed } = admitted else { return true };
        let rule = if is_damaged { Drop::Corrupted } else { Drop::OutOfOrder };
        self.seen.drop(rule, now);
        if is_first {
            let handled = now + self.own.parts.window.recovery;
            self.agenda().manage(handled, Step::Interrupt(target));
        }
        if is_failed {
            self.give_up_rail(now, target);
        }
        self.free_adapter(target, now);
        self.lose(now, id, target);
        false
    }

    /// Tells the software of the nodes something, and does what it does then.
    pub(super) fn recover(
        &mut self,
        now: Time,
        tell: impl FnOnce(&mut RecoverySoftware<Packet>, &Members),
    ) {
        let Some(own) = &mut self.own.management else { return };
        let Management { software, members, .. } = &mut **own;
        tell(software, members);
        while let Some(act) = self.own.management.as_mut().and_then(|own| own.software.next_act()) {
            match act {
                SoftwareAct::Send { from, targets, size, message } => {
                    self.push_urgent(now, from, targets, size, Purpose::Recovery(message));
                }
                SoftwareAct::Again { from, targets, number, survey, packet } => {
                    let purpose = Purpose::Again(number, survey);
                    self.push_urgent(now, from, targets, packet.size, purpose);
                }
                SoftwareAct::Wake(node) => self.wake_bus(now, node),
                SoftwareAct::After(span, timer) => {
                    self.agenda().manage(now + span, Step::Software(timer));
                }
                SoftwareAct::Contradiction(text) => {
                    self.own.problem.get_or_insert(text);
                }
            }
        }
    }

    /// A packet of software is stored before everything ordinary of its node.
    fn push_urgent(&mut self, now: Time, from: u16, targets: u64, size: Bytes, purpose: Purpose) {
        let mut pieces = self.own.parts.window.writes(self.own.parts.payload).pieces(0, size);
        let next = pieces.next().map_or(size, |(_, size)| size);
        let times = (now, now + self.own.times.store);
        let stores = Stores::one(purpose.stores(targets), next, times);
        self.own.hosts[usize::from(from)].bus.push(stores);
    }

    /// A message of the recovery is in the memory of a node.
    pub(super) fn hear(&mut self, now: Time, node: u16, from: u16, message: RecoveryMessage) {
        self.follow_rail(now, node);
        self.recover(now, |software, members| {
            software.hear(now, (node, from), message, members);
        });
    }
}
