//! When control packets of nodes that go on line are sent and arrive, and what single programs do at a
//! time. Until it has its number an adapter takes nothing, neither from its host nor for it.

use weft_fabric::interface::AccessKind;
use weft_fabric::interface::window::{Numbering, NumberingStep, Paired, Through};
use weft_protocol::window::{Cluster, Identification, MapError, Write};
use weft_units::Time;

use super::agenda::Agenda;
use super::cluster::Step;
use super::host::Purpose;
use super::{HubStep, Operation, State, Windows};
use crate::drive::carrier::Ticket;

impl HubStep<'_> {
    /// Nodes that are on line from the beginning ask for their numbers; accesses are scheduled.
    pub(super) fn start_nodes(&mut self) {
        for node in 0..self.own.parts.hosts {
            if self.own.management.as_ref().is_none_or(|own| own.members.is_alive(node)) {
                self.configure(Time::ZERO, node);
            }
        }
        let State { parts, lines, .. } = self.own;
        let mut agenda = Agenda { lines, calendar: self.calendar };
        for (place, access) in (0..).zip(&parts.window.accesses) {
            agenda.access(Time::ZERO + access.at, place);
        }
    }

    /// A node begins to ask for its number. Whether it does not have one anyway.
    pub(super) fn configure(&mut self, now: Time, node: u16) -> bool {
        let Some(own) = &mut self.own.numbering else { return false };
        own.begin(now, node);
        self.own.hosts[usize::from(node)].bus.set_free(Time::NEVER);
        self.agenda().configure(now, node, NumberingStep::Ask);
        true
    }

    pub(super) fn number(&mut self, now: Time, node: u16, step: NumberingStep) {
        let State { parts, hosts, numbering, lines, .. } = self.own;
        let mut agenda = Agenda { lines, calendar: self.calendar };
        let is_bus = parts.hub.is_bus();
        let notice = self.own.times.notice;
        let Some(own) = numbering else { return };
        let answer = now + own.answer();
        match step {
            NumberingStep::Ask => {
                own.ask(node);
                let lane = hosts[usize::from(node)].link.lane_mut();
                let start = if is_bus { now } else { lane.send(now) };
                agenda.configure(start + notice, node, NumberingStep::Heard);
            }
            NumberingStep::Heard if parts.hub.is_direct() => match own.pair(node) {
                Paired::Known(peer) => self.go_on_line(now, peer),
                Paired::AsksAgain(peer) => {
                    agenda.configure(answer, peer, NumberingStep::Ask);
                }
            },
            NumberingStep::Heard => {
                agenda.configure(answer, node, NumberingStep::Answer);
            }
            NumberingStep::Answer => {
                own.answers();
                let start = self.tell_node(now, node);
                self.agenda().configure(start + notice, node, NumberingStep::Done);
            }
            NumberingStep::Done => {
                own.told(node);
                self.go_on_line(now, node);
            }
        }
    }

    /// A node has its number.
    fn go_on_line(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.own.numbering else { return };
        own.end(now, node);
        self.own.hosts[usize::from(node)].bus.set_free(now);
        self.begin_beating(now, node);
        self.wake_bus(now, node);
    }

    /// The adapter of a node that is on line tells its port so from now on.
    pub(super) fn begin_beating(&mut self, now: Time, node: u16) {
        if let Some(own) = &mut self.own.management
            && own.members.begin_beating(node)
        {
            self.agenda().manage(now, Step::Heartbeat(node));
        }
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
            let Some(page) = self.own.cluster().map(|own| own.page_of(offset)) else { return };
            self.store(now, from, targets, size, (purpose, Through::Page(page)));
        }
    }

    /// A program does what the file says.
    pub(super) fn access(&mut self, now: Time, place: u16) {
        let access = &self.own.parts.window.accesses[usize::from(place)];
        let from = u16::from(access.node.0);
        let operation = match access.what {
            AccessKind::Write { offset, size } => {
                let writes = self.own.cluster().map(|own| own.store(access.node, offset.0, size));
                return self.write_all(now, from, writes, Purpose::Traffic);
            }
            AccessKind::DeviceWrite { offset, size } => {
                let writes =
                    self.own.cluster().map(|own| own.device_write(access.node, offset.0, size));
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
            self.own.problem.get_or_insert(error.to_string());
        }
    }
}

impl State {
    fn cluster(&self) -> Option<&Cluster> {
        Some(self.pages.as_ref()?.cluster())
    }
}

impl Windows {
    /// The numbers that nodes have, in the order of the hosts; none where nobody asks for them.
    pub fn identities(&self) -> Vec<Identification> {
        self.state.numbering.iter().flat_map(Numbering::identities).collect()
    }
}
