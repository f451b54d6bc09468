//! What faults do to packets and nodes: what is lost for now and what for good, a node that stops
//! or begins, a network that breaks.

use weft_fabric::interface::window::{Entry, Joining, Stores};
use weft_fabric::workload::Feedback;
use weft_kernel::Id;
use weft_protocol::window::{Node, PacketName, Rail};
use weft_units::Time;

use super::cluster::Step;
use super::host::{Packet, Purpose, purpose_at};
use super::{Departure, HubStep, Notice};

impl HubStep<'_> {
    /// A node knows that another one is gone: it sends nothing more to it, and waits for no
    /// response.
    pub(super) fn forget_peer(&mut self, now: Time, node: u16, other: u16) {
        let given_up = self.own.hosts[usize::from(node)].bus.remove_target(other);
        for (purpose, packets) in given_up {
            match purpose {
                Purpose::Again(number, _) => self.take_back(now, node, number, 1 << other),
                _ => self.refuse_for_good(now, purpose, packets, other),
            }
        }
        self.expect_nothing_of(now, node, other);
        self.wake_bus(now, node);
    }

    /// A packet that was to be sent again is not: it is still missed by those of its targets that
    /// are on line, and lost for good to others.
    fn take_back(&mut self, now: Time, node: u16, number: u64, targets: u64) {
        let name = PacketName { sender: Node(node as u8), number };
        let Some(own) = &mut self.own.management else { return };
        let Some((packet, gone)) = own.software.logs().take_back(name, targets) else { return };
        for target in (0..64).filter(|target| gone >> target & 1 == 1) {
            self.give_up(now, &packet, target);
        }
    }

    /// Packets that were handed over and will not be sent to a target.
    pub(super) fn refuse_store(&mut self, now: Time, purpose: Purpose, packets: u64, target: u16) {
        if purpose.is_urgent() {
            return;
        }
        self.own.waiting -= packets;
        (0..packets).for_each(|_| self.seen.abandon(now));
        match purpose {
            Purpose::Message(ticket) => {
                self.own.notices.push(Notice::Lost { time: now, ticket, to: target });
            }
            Purpose::Request(place) => self.operate(now, |own| own.unanswered(place, target)),
            _ => {}
        }
    }

    /// Like [`refuse_store`](Self::refuse_store), because one of the nodes is gone: these packets
    /// are counted separately.
    fn refuse_for_good(&mut self, now: Time, purpose: Purpose, packets: u64, target: u16) {
        self.refuse_store(now, purpose, packets, target);
        if let Some(own) = &mut self.own.management
            && !purpose.is_urgent()
        {
            own.refused += packets;
        }
    }

    /// A store goes to the targets that are on line, and is refused for others. A node that has stopped
    /// stores nothing.
    pub(super) fn only_those_on_line(
        &mut self,
        now: Time,
        host: u16,
        mut stores: Stores<Purpose>,
    ) -> Option<Stores<Purpose>> {
        let Some(own) = &self.own.management else { return Some(stores) };
        if !own.members.is_alive(host) {
            // Its requests are lost, as those are that were pending when it stopped.
            self.operate(now, |own| own.orphan(host));
            self.drop_stores(now, host, &stores);
            return None;
        }
        let refused = stores.targets & !(own.members.view(host) | 1 << host);
        if refused == 0 {
            return Some(stores);
        }
        stores.targets &= !refused;
        for target in (0..64).filter(|target| refused >> target & 1 == 1) {
            self.refuse_for_good(now, stores.purpose, u64::from(stores.packets()), target);
        }
        if stores.targets == 0 {
            self.go_on_after_refusal(now, host, stores.next_size());
        }
        (stores.targets != 0).then_some(stores)
    }

    /// Names a packet that an adapter has accepted, and records it at its sender; a retransmitted
    /// packet takes over the content and name of the original. Returns whether there is such a
    /// packet.
    #[inline]
    pub(super) fn name(&mut self, packet: &mut Packet) -> bool {
        let sender = Node(packet.from as u8);
        match packet.purpose {
            Purpose::Recovery(_) => {}
            Purpose::Again(number, survey) => {
                let Some(own) = &mut self.own.management else { return false };
                let name = PacketName { sender, number };
                // The sender retransmits a packet before it answers the survey after which the
                // packet may be forgotten.
                let logs = own.software.logs();
                let Some(Entry { packet: first, .. }) = logs.entry(name) else { return false };
                *packet = Packet {
                    targets: packet.targets,
                    missing: packet.missing,
                    ready: packet.ready,
                    taken: packet.taken,
                    start: packet.start,
                    rail: packet.rail,
                    survey: Some(survey),
                    ..*first
                };
            }
            _ => {
                let name = self.own.checker.as_mut().map(|own| own.send(sender, packet.targets));
                packet.number = name.map(|name| name.number);
                if let Some(own) = &mut self.own.management {
                    let logs = own.software.logs();
                    packet.number = Some(logs.next_name(packet.from).number);
                    logs.record(packet.from, packet.targets, *packet);
                }
            }
        }
        true
    }

    /// A packet that the hub granted goes to those of its targets that are not isolated.
    pub(super) fn let_through(&mut self, now: Time, id: Id<Packet>) {
        let packet = self.own.packets[id];
        let held_back = self.held_back(&packet);
        for target in (0..64).filter(|target| packet.targets >> target & 1 == 1) {
            if held_back >> target & 1 == 1 {
                self.lose(now, id, target);
            } else {
                self.own.adapters[usize::from(target)].take(now);
                let start = now + self.own.times.arbitration;
                self.graph.occupy(start, target.into(), packet.span);
                let there = self.own.times.at_target(packet.granted, packet.span);
                self.agenda().arrive(there, id, target);
            }
        }
    }

    /// Whether the room of a packet counts in the network that works.
    pub(super) fn is_on_working_rail(&self, rail: Rail) -> bool {
        self.own.management.as_ref().is_none_or(|own| own.members.up() == Some(rail))
    }

    /// A copy of a packet does not reach its target now. Its sender sends it again, unless one of
    /// them is gone.
    pub(super) fn lose(&mut self, now: Time, id: Id<Packet>, target: u16) {
        let packet = &mut self.own.packets[id];
        packet.missing -= 1;
        let lost = *packet;
        if lost.missing == 0 {
            self.own.packets.remove(id);
        }
        let (Some(own), Some(name)) = (&mut self.own.management, lost.name()) else { return };
        let is_there = own.members.isolated() >> target & 1 == 0;
        if is_there && own.software.logs().lose(target, name) {
            own.software.open(now);
        } else {
            self.give_up(now, &lost, target);
        }
    }

    /// A copy of a packet is lost for good: its sender or its target is gone.
    pub(super) fn give_up(&mut self, now: Time, packet: &Packet, target: u16) {
        if let Some(own) = &mut self.own.management {
            own.given_up += 1;
        }
        self.let_go(now, packet, target);
    }

    /// A copy of a packet does not come to its target, and is not sent again.
    pub(super) fn let_go(&mut self, now: Time, packet: &Packet, target: u16) {
        self.own.flying -= 1;
        self.seen.abandon(now);
        if let Some(own) = &mut self.own.management
            && let Some(name) = packet.name()
        {
            own.software.logs().let_go(target, name);
        }
        if let (Some(checker), Some(name)) = (&mut self.own.checker, packet.name()) {
            checker.abandon(Node(target as u8), name);
        }
        if let Purpose::Message(ticket) = packet.purpose_at(target)
            && packet.last
        {
            self.own.notices.push(Notice::Lost { time: now, ticket, to: target });
        }
    }

    /// Whether a packet in memory is no message to a program: the node is dead, or it is one of the
    /// recovery.
    pub(super) fn is_for_cluster(&mut self, now: Time, id: Id<Packet>, target: u16) -> bool {
        let Some(own) = &mut self.own.management else { return false };
        let is_alive = own.members.is_alive(target);
        let Packet { from, size, .. } = self.own.packets[id];
        let purpose = self.own.packets[id].purpose_at(target);
        if is_alive && !purpose.is_urgent() {
            own.note_delivery(now, size);
            return false;
        }
        let packet = &mut self.own.packets[id];
        packet.missing -= 1;
        if packet.missing == 0 {
            self.own.packets.remove(id);
        }
        match purpose {
            Purpose::Recovery(message) if is_alive => self.hear(now, target, from, message),
            Purpose::Recovery(_) => {}
            // It was in the memory of a node that died before its program looked.
            _ => {
                self.own.flying -= 1;
                self.seen.abandon(now);
                if let Some(own) = &mut self.own.management {
                    own.given_up += 1;
                }
                if let Purpose::Message(ticket) = purpose {
                    self.own.notices.push(Notice::Lost { time: now, ticket, to: target });
                }
            }
        }
        true
    }

    pub(super) fn lose_all(&mut self, now: Time, id: Id<Packet>) {
        let mut targets = self.own.packets[id].targets;
        while targets != 0 {
            let target = targets.trailing_zeros() as u16;
            targets &= targets - 1;
            self.lose(now, id, target);
        }
    }

    /// Whether a packet whose first byte should be at the hub is there.
    pub(super) fn reaches(&mut self, now: Time, id: Id<Packet>) -> bool {
        let Some(own) = &self.own.management else { return true };
        let is_bus = self.own.parts.hub.is_bus();
        let packet = self.own.packets[id];
        let members = &own.members;
        let is_isolated = members.isolated() >> packet.from & 1 == 1;
        let is_unsent = members.is_unsent(packet.sent(), is_bus);
        if Some(packet.rail) == members.up() && !is_isolated && !is_unsent {
            self.damage_upstream(id);
            return true;
        }
        self.leave_adapter(now, &packet);
        self.lose_all(now, id);
        false
    }

    /// A packet that waited in its adapter for a bus waits no more.
    pub(super) fn leave_adapter(&mut self, now: Time, packet: &Packet) {
        if let Some(room) = self.own.hosts[usize::from(packet.from)].bus.room_mut()
            && self.own.parts.hub.is_bus()
            && packet.is_stored()
        {
            room.give(now);
        }
    }

    /// The targets of a packet that the hub grants which it does not let through.
    pub(super) fn held_back(&self, packet: &Packet) -> u64 {
        let Some(own) = &self.own.management else { return 0 };
        let members = &own.members;
        let is_gone = self.own.parts.hub.is_bus() && members.is_unsent(packet.sent(), true);
        if is_gone { packet.targets } else { packet.targets & members.isolated() }
    }

    /// A node stops in the middle of everything.
    pub(super) fn die(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.own.management else { return };
        if !own.members.die(now, node) {
            return;
        }
        self.own.departures.push(Departure::Stops { host: node });
        let mut gone: Vec<(Packet, u16)> = Vec::new();
        let mut lost_at = |entry: &Entry<Packet>, set: u64| {
            let targets = (0..64).filter(|target| set >> target & 1 == 1);
            gone.extend(targets.map(|target| (entry.packet, target)));
        };
        let host = &mut self.own.hosts[usize::from(node)];
        let all_stores = host.bus.take_stores(|_| true);
        let logs = own.software.logs();
        for stores in &all_stores {
            if let Purpose::Again(number, _) = stores.purpose
                && let Some(entry) = logs.entry(PacketName { sender: Node(node as u8), number })
            {
                lost_at(entry, stores.targets);
            }
        }
        logs.remove_sender(node).iter().for_each(|entry| lost_at(entry, entry.lost));
        let (links, incoming) = (host.link.take_waiting(), host.bus.take_all_incoming());
        own.software.die(node);
        if let Some(checker) = &mut self.own.checker {
            // The order that it has seen is lost with it, and binds no other node.
            checker.remove(Node(node as u8));
        }
        self.operate(now, |own| own.orphan(node));
        for (packet, target) in gone {
            self.give_up(now, &packet, target);
        }
        all_stores.into_iter().for_each(|stores| self.drop_stores(now, node, &stores));
        links.for_each(|id| self.lose_all(now, id));
        incoming.into_iter().for_each(|id| self.lose(now, id, node));
    }

    /// Stores are gone with the node that was to make them.
    fn drop_stores(&mut self, now: Time, node: u16, stores: &Stores<Purpose>) {
        if let Purpose::Message(ticket) = stores.purpose {
            // What it was in is gone with the node.
            self.own.notices.push(Notice::Sent { time: now, ticket });
        }
        for to in (0..64).filter(|target| stores.targets >> target & 1 == 1) {
            let purpose = purpose_at(stores.purpose, stores.is_copied && to == node);
            self.refuse_for_good(now, purpose, u64::from(stores.packets()), to);
        }
    }

    /// A node comes on line. It has nothing to retransmit, and sends nothing before the cluster has
    /// been surveyed.
    pub(super) fn join(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.own.management else { return };
        let rail = match own.members.join(now, node) {
            Joining::Already => return,
            Joining::Later(again) => {
                return self.agenda().manage(again, Step::Join(node));
            }
            Joining::Joined(rail) => rail,
        };
        own.software.join(now, node);
        self.own.inputs[usize::from(node)] = self.own.parts.input_room();
        self.own.hub.lane(node).forget();
        let send = self.own.parts.send_buffers.count().map(|count| count.get());
        let host = &mut self.own.hosts[usize::from(node)];
        host.bus.set_room(self.own.parts.send_room());
        host.bus.set_free(now);
        host.link.restart(now);
        host.rail = rail;
        if host.feedback == Feedback::Ready {
            let posted = send.unwrap_or(1);
            (0..posted).for_each(|_| self.agenda().generate(now, node));
        }
        if !self.configure(now, node) {
            self.begin_beating(now, node);
        }
        self.recover(now, |software, _| software.nag_later(node));
    }

    /// The active network breaks, with all that is on it.
    pub(super) fn break_rail(&mut self, now: Time) {
        let Some(own) = &mut self.own.management else { return };
        if !own.members.break_rail(now) {
            return;
        }
        own.software.open(now);
        self.own.adapters.iter_mut().for_each(|room| *room = self.own.parts.adapter_room());
        self.own.hosts.iter_mut().for_each(|host| host.link.lane_mut().forget());
        for request in self.own.hub.drain() {
            let packet = self.own.packets[request.key];
            self.leave_adapter(now, &packet);
            self.lose_all(now, request.key);
        }
    }

    /// A node found its path beyond repair: the network is given up, if another one stands by.
    pub(super) fn give_up_rail(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.own.management else { return };
        if own.members.can_give_up() {
            self.break_rail(now);
            self.switch(now, node);
        } else {
            own.software.try_again(node);
        }
    }

    /// A message came over the standby network.
    pub(super) fn follow_rail(&mut self, now: Time, node: u16) {
        if self.own.management.as_ref().is_some_and(|own| own.members.is_behind(node)) {
            self.switch(now, node);
        }
    }

    /// The packets that a node was to retransmit follow packets that the first network lost: they
    /// are sent after another survey.
    fn survey_again(&mut self, now: Time, node: u16) {
        let is_again = |stores: &Stores<Purpose>| matches!(stores.purpose, Purpose::Again(..));
        for stores in self.own.hosts[usize::from(node)].bus.take_stores(is_again) {
            if let Purpose::Again(number, _) = stores.purpose {
                self.take_back(now, node, number, stores.targets);
            }
        }
        self.recover(now, |software, members| software.survey_again(now, node, members));
    }

    /// A node goes over to the standby network. What it had given to the first one is to be sent
    /// again.
    pub(super) fn switch(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.own.management else { return };
        if !own.members.switch(now, node) {
            return;
        }
        own.software.switch(now, node);
        self.own.inputs[usize::from(node)] = self.own.parts.input_room();
        self.own.hub.lane(node).forget();
        let host = &mut self.own.hosts[usize::from(node)];
        let queued = host.link.take_waiting();
        host.link.restart(now);
        host.rail = Rail::Second;
        if !self.own.parts.hub.is_bus() {
            host.bus.set_room(self.own.parts.send_room());
        }
        queued.for_each(|id| self.lose_all(now, id));
        self.survey_again(now, node);
        let handled = now + self.own.parts.window.recovery;
        self.agenda().manage(handled, Step::Interrupt(node));
        self.wake_bus(now, node);
    }
}
