//! When control packets of nodes that go on line are sent and arrive, and what single programs do at a
//! time. Until it has its number an adapter takes nothing, neither from its host nor for it.

use weft_fabric::interface::AccessKind;
use weft_fabric::interface::window::{Numbering, NumberingStep, Paired, Through};
use weft_protocol::window::{Cluster, Identification, MapError, Write};
use weft_units::Time;

use super::cluster::Step;
use super::host::Purpose;
use super::{Event, HubChannel, Operation};
use crate::drive::carrier::Ticket;

impl HubChannel {
    /// Nodes that are on line from the beginning ask for their numbers; accesses are scheduled.
    pub(super) fn start_nodes(&mut self) {
        for node in 0..self.parts.hosts {
            if self.management.as_ref().is_none_or(|own| own.members.is_alive(node)) {
                self.configure(Time::ZERO, node);
            }
        }
        for (place, access) in (0..).zip(&self.parts.window.accesses) {
            self.agenda.push(Time::ZERO + access.at, Event::Access(place));
        }
    }

    /// A node begins to ask for its number. Whether it does not have one anyway.
    pub(super) fn configure(&mut self, now: Time, node: u16) -> bool {
        let Some(own) = &mut self.numbering else { return false };
        own.begin(now, node);
        self.hosts[usize::from(node)].bus.set_free(Time::NEVER);
        self.agenda.push(now, Event::Configure(node, NumberingStep::Ask));
        true
    }

    pub(super) fn number(&mut self, now: Time, node: u16, step: NumberingStep) {
        let HubChannel { parts, hosts, numbering, agenda, .. } = self;
        let is_bus = parts.hub.is_bus();
        let notice = self.times.notice;
        let Some(own) = numbering else { return };
        let answer = now + own.answer();
        match step {
            NumberingStep::Ask => {
                own.ask(node);
                let lane = hosts[usize::from(node)].link.lane_mut();
                let start = if is_bus { now } else { lane.send(now) };
                agenda.push(start + notice, Event::Configure(node, NumberingStep::Heard));
            }
            NumberingStep::Heard if parts.hub.is_direct() => match own.pair(node) {
                Paired::Known(peer) => self.go_on_line(now, peer),
                Paired::AsksAgain(peer) => {
                    agenda.push(answer, Event::Configure(peer, NumberingStep::Ask));
                }
            },
            NumberingStep::Heard => {
                agenda.push(answer, Event::Configure(node, NumberingStep::Answer));
            }
            NumberingStep::Answer => {
                own.answers();
                let start = self.tell_node(now, node);
                self.agenda.push(start + notice, Event::Configure(node, NumberingStep::Done));
            }
            NumberingStep::Done => {
                own.told(node);
                self.go_on_line(now, node);
            }
        }
    }

    /// A node has its number.
    fn go_on_line(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.numbering else { return };
        own.end(now, node);
        self.hosts[usize::from(node)].bus.set_free(now);
        self.begin_beating(now, node);
        self.wake_bus(now, node);
    }

    /// The adapter of a node that is on line tells its port so from now on.
    pub(super) fn begin_beating(&mut self, now: Time, node: u16) {
        if let Some(own) = &mut self.management
            && own.members.begin_beating(node)
        {
            self.agenda.push(now, Event::Manage(Step::Heartbeat(node)));
        }
    }

    /// The numbers that nodes have, in the order of the hosts; none where nobody asks for them.
    pub fn identities(&self) -> Vec<Identification> {
        self.numbering.iter().flat_map(Numbering::identities).collect()
    }

    fn cluster(&self) -> Option<&Cluster> {
        Some(self.pages.as_ref()?.cluster())
    }

    /// Packets are stored, each through its page. What the tables refuse was refused before the run.
    fn write_all(
        &mut self,
        now: Time,
        from: u16,
        writes: Option<Result<Vec<Write>, MapError>>,
        purpose: Purpose,
    ) {
        for Write { targets, offset, size, .. } in writes.into_iter().flatten().flatten() {
            let Some(page) = self.cluster().map(|own| own.page_of(offset)) else { return };
            self.store(now, from, targets, size, (purpose, Through::Page(page)));
        }
    }

    /// A program does what the file says.
    pub(super) fn access(&mut self, now: Time, place: u16) {
        let access = &self.parts.window.accesses[usize::from(place)];
        let from = u16::from(access.node.0);
        let operation = match access.what {
            AccessKind::Write { offset, size } => {
                let writes = self.cluster().map(|own| own.store(access.node, offset.0, size));
                return self.write_all(now, from, writes, Purpose::Traffic);
            }
            AccessKind::DeviceWrite { offset, size } => {
                let writes =
                    self.cluster().map(|own| own.device_write(access.node, offset.0, size));
                return self.write_all(now, from, writes, Purpose::Device);
            }
            AccessKind::Read { target, offset, size } => {
                Operation::Read { target: target.0.into(), offset: offset.0, size }
            }
            AccessKind::ConditionalWrite { target, offset, size } => {
                Operation::Conditional { target: target.0.into(), offset: offset.0, size }
            }
        };
        let ticket = Ticket(u64::MAX - u64::from(place));
        if let Err(error) = self.begin(now, from, operation, ticket) {
            self.problem.get_or_insert(error.to_string());
        }
    }
}
