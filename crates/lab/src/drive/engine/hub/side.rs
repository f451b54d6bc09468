//! What the hub asks about room in the adapters of its targets, and what becomes of what it grants.

use weft_fabric::graph::Graph;
use weft_fabric::link::Room;
use weft_fabric::measure::Observations;
use weft_fabric::switch::{HubRequest, HubSide, HubTimes};
use weft_kernel::{Arena, Id};
use weft_units::Time;

use super::State;
use super::agenda::Agenda;
use super::host::{Host, Packet};

/// The parts of a channel that one decision of its hub looks at.
pub(super) struct Side<'channel> {
    pub now: Time,
    pub times: &'channel HubTimes,
    pub is_bus: bool,
    /// Whether a grant is looked at again, since anything can go wrong.
    pub is_managed: bool,
    pub isolated: u64,
    pub packets: &'channel mut Arena<Packet>,
    pub agenda: Agenda<'channel>,
    pub adapters: &'channel mut [Room],
    pub graph: &'channel mut Graph,
    pub seen: &'channel mut Observations,
    pub hosts: &'channel mut [Host],
    pub telling: &'channel mut u64,
    /// Inputs of which a packet was granted, and those packets if they are looked at again.
    pub fed: u64,
    pub granted: Vec<Id<Packet>>,
}

impl HubSide<Id<Packet>> for Side<'_> {
    fn has_room(&mut self, output: u16) -> bool {
        let place = usize::from(output);
        let Side { now, times, hosts, adapters, telling, .. } = self;
        learn(*now, times, output, telling, &mut hosts[place], &mut adapters[place]);
        self.isolated >> output & 1 == 1 || self.adapters[place].next(self.now) <= self.now
    }

    fn grant(&mut self, input: u16, request: HubRequest<Id<Packet>>) {
        let HubRequest { mut targets, span, key } = request;
        let arbitration = self.times.arbitration;
        let packet = &mut self.packets[key];
        packet.granted = self.now;
        if self.is_bus {
            packet.start = self.now + arbitration;
            if let Some(room) = self.hosts[usize::from(input)].bus.room_mut()
                && packet.is_stored()
            {
                room.give(packet.start + span);
            }
        }
        self.fed |= 1 << input;
        self.seen.attempt(packet.start);
        if self.is_bus {
            self.graph.occupy(packet.start, self.graph.host_port(input.into()), span);
        }
        let there = self.times.at_target(self.now, span);
        if self.is_managed {
            self.granted.push(key);
            return;
        }
        while targets != 0 {
            let target = targets.trailing_zeros() as u16;
            targets &= targets - 1;
            self.adapters[usize::from(target)].take(self.now);
            self.graph.occupy(self.now + arbitration, target.into(), span);
            self.agenda.arrive(there, key, target);
        }
    }
}

/// What control packets of an adapter have told the other side of its link by `now`, or will. Its bit
/// is set as long as there is more to tell.
fn learn(
    now: Time,
    times: &HubTimes,
    place: u16,
    telling: &mut u64,
    host: &mut Host,
    room: &mut Room,
) {
    if *telling >> place & 1 == 0 {
        return;
    }
    // Whatever began a cable ago or earlier is known here.
    let lane = host.link.lane_mut();
    room.learn(lane, Time(now.0.saturating_sub(times.cable.0)), times.notice);
    if lane.next_ready() == Time::NEVER {
        *telling &= !(1 << place);
    }
}

impl State {
    /// What is known of the room in an adapter by now.
    pub(super) fn learn_of_adapter(&mut self, now: Time, place: u16) {
        let State { times, telling, hosts, adapters, .. } = self;
        let at = usize::from(place);
        learn(now, times, place, telling, &mut hosts[at], &mut adapters[at]);
    }

    /// When an adapter without room may have it; [`Time::NEVER`] if it has it, or while there is
    /// nothing to tell.
    pub(super) fn next_room(&mut self, now: Time, place: u16) -> Time {
        self.learn_of_adapter(now, place);
        let known = self.adapters[usize::from(place)].next(now);
        if known < Time::NEVER {
            return if known > now { known } else { Time::NEVER };
        }
        let told = self.hosts[usize::from(place)].link.lane().next_ready();
        if told < Time::NEVER { told + self.times.notice } else { Time::NEVER }
    }
}
