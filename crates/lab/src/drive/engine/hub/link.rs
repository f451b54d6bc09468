//! The links: when a packet is committed to a time, when it would be at the far end of its cable, and
//! when its link is looked at again. What goes first on a link is [`weft_fabric::link::LaneSender`]'s.

use weft_fabric::link::{Commitment, Room};
use weft_fabric::switch::HubRequest;
use weft_kernel::Id;
use weft_units::{Span, Time};

use super::host::Packet;
use super::{HubParts, HubStep, State};

impl HubParts {
    /// The room of an input of the hub, as the adapter before it knows it.
    pub(super) fn input_room(&self) -> Room {
        let buffer = self.hub.buffer().unwrap_or(self.window.receive_buffers);
        Room::of(buffer.get(), self.window.places_per_control.get())
    }

    /// The room of an adapter, as the hub or the other adapter knows it.
    pub(super) fn adapter_room(&self) -> Room {
        // Beside a bus control has lines of its own, and tells of each place.
        let at_once = if self.hub.is_bus() { 1 } else { self.window.places_per_control.get() };
        Room::of(self.window.receive_buffers.get(), at_once)
    }

    /// The room of an adapter between bus and link, which it knows itself; none if without limit.
    pub(super) fn send_room(&self) -> Option<Room> {
        self.send_buffers.count().map(|count| Room::of(count.get(), 1))
    }
}

impl HubStep<'_> {
    /// Sends what has known room at the far end of the link.
    pub(super) fn feed_link(&mut self, place: u16) {
        let direct = self.own.parts.hub.is_direct();
        let is_long = self.own.times.is_long;
        while let Some(id) = self.own.hosts[usize::from(place)].link.next(is_long) {
            if direct {
                (0..2).for_each(|end| self.own.learn_of_adapter(self.own.now, end));
            } else {
                self.own.learn_of_input(place);
            }
            let packet = &mut self.own.packets[id];
            let to = if packet.targets == 1 << place { place } else { place ^ 1 };
            let far = if direct {
                &mut self.own.adapters[usize::from(to)]
            } else {
                &mut self.own.inputs[usize::from(place)]
            };
            let start = match self.own.hosts[usize::from(place)].link.commit(far) {
                Some(Commitment::Starts { start, .. }) => start,
                Some(Commitment::NoRoom { earliest, span }) => {
                    return self.wait_for_room(place, to, earliest, span);
                }
                None => return,
            };
            packet.start = start;
            if is_long {
                self.leaves_adapter(id);
            }
            let there = start + self.own.times.cable;
            if there == self.own.now {
                self.leave_cable(there, id);
            } else {
                self.agenda().reach(there, id, place);
            }
        }
    }

    /// A packet that could begin at `earliest` has no room. Its link is looked at again before it
    /// can be at the far end, and before its last byte has left.
    fn wait_for_room(&mut self, place: u16, to: u16, earliest: Time, span: Span) {
        let lane = if self.own.parts.hub.is_direct() {
            self.own.hosts[usize::from(to)].link.lane()
        } else {
            self.own.hub.lane(place)
        };
        let Some(told) = lane.next_start() else { return };
        let begin = earliest.max(told + self.own.times.notice);
        let host = &self.own.hosts[usize::from(place)];
        let time = host.link.look_again(begin, span, self.own.times.cable);
        self.own.lines.look_at_link(place, time);
    }

    /// The first byte of a packet would be at the far end of its cable, and another one may follow.
    pub(super) fn reach(&mut self, now: Time, id: Id<Packet>) {
        let place = self.own.packets[id].from;
        self.leave_cable(now, id);
        if !self.own.hosts[usize::from(place)].link.is_empty() {
            self.feed_link(place);
        }
    }

    /// The place of a packet between bus and link is free when its last byte has left, as far as is
    /// known now.
    fn leaves_adapter(&mut self, id: Id<Packet>) {
        let packet = &self.own.packets[id];
        let place = packet.from;
        let bus = &mut self.own.hosts[usize::from(place)].bus;
        if let Some(room) = bus.room_mut()
            && packet.is_stored()
        {
            room.give(packet.start + packet.span);
            if !bus.has_no_stores() {
                self.wake_bus(self.own.now, place);
            }
        }
    }

    fn leave_cable(&mut self, now: Time, id: Id<Packet>) {
        if !self.own.parts.hub.is_bus() && self.gives_way(id) {
            return;
        }
        if self.own.parts.hub.is_direct() {
            let packet = &mut self.own.packets[id];
            packet.granted = packet.start + self.own.times.wire;
            let there = self.own.times.at_target(packet.granted, packet.span);
            let Packet { from, targets, start, .. } = *packet;
            self.seen.attempt(start);
            let to = if targets == 1 << from { from } else { from ^ 1 };
            self.agenda().arrive(there, id, to);
        } else if self.reaches(now, id) {
            let Packet { from, targets, span, .. } = self.own.packets[id];
            self.own.hub.request(from, HubRequest { targets, span, key: id });
            self.wake_hub(now);
        }
    }

    /// Whether control packets go before a packet, so that it begins later.
    fn gives_way(&mut self, id: Id<Packet>) -> bool {
        let packet = &mut self.own.packets[id];
        let (place, host) = (packet.from, &mut self.own.hosts[usize::from(packet.from)]);
        let is_of_the_dead = self
            .own
            .management
            .as_ref()
            .is_some_and(|own| own.members.is_from_before_death(packet.sent()));
        if packet.is_settled || packet.rail != host.rail || is_of_the_dead {
            return false;
        }
        packet.is_settled = true;
        let start = host.link.settle(packet.start, packet.span);
        self.graph.occupy(start, self.graph.host_port(place.into()), packet.span);
        let is_later = start != packet.start;
        if is_later {
            packet.start = start;
            let there = start + self.own.times.cable;
            self.agenda().reach(there, id, place);
        }
        if !self.own.times.is_long {
            self.leaves_adapter(id);
        }
        is_later
    }

    /// A place in an adapter is free from `time` on.
    pub(super) fn free_adapter(&mut self, place: u16, time: Time) {
        let known = time + self.own.times.notice;
        let own = &mut self.own.adapters[usize::from(place)];
        if self.own.parts.hub.is_bus() {
            own.give(known);
        } else if own.free_one() {
            self.own.hosts[usize::from(place)].link.lane_mut().insert(time);
            self.own.telling |= 1 << place;
        } else {
            return;
        }
        if self.own.parts.hub.is_direct() {
            let peer = 1 - place;
            if !self.own.hosts[usize::from(peer)].link.is_empty() {
                self.feed_link(peer);
            }
        } else if self.own.hub.is_wanted(known, place) {
            self.wake_hub(known);
        }
    }

    /// The hub sends information to a node immediately. Returns when its control packet begins.
    pub(super) fn tell_node(&mut self, now: Time, node: u16) -> Time {
        let lane = self.own.hub.lane(node);
        if self.own.parts.hub.is_bus() { lane.free().max(now) } else { lane.send(now) }
    }
}

impl State {
    /// What control packets of the hub have told an adapter by now, or will.
    fn learn_of_input(&mut self, place: u16) {
        let room = &mut self.inputs[usize::from(place)];
        room.learn(self.hub.lane(place), self.now, self.times.notice);
    }

    /// How many control packets there were, and their share of the time of the links.
    pub(super) fn control_columns(&self, until: Time) -> Vec<(&'static str, f64)> {
        if self.parts.hub.is_bus() || self.times.control.0 == 0 {
            return Vec::new();
        }
        let adapters: u64 = self.hosts.iter().map(|host| host.link.lane().sent()).sum();
        let packets = adapters + self.hub.control_packets();
        let directions = if self.parts.hub.is_direct() { 1 } else { 2 };
        let time = until.0.max(1) as f64 * directions as f64 * self.hosts.len() as f64;
        let share = packets as f64 * self.times.control.0 as f64 / time;
        vec![("control_packets", packets as f64), ("control_link_share", share)]
    }
}
