//! How nodes go on line, as control packets on their links (MEMORY CHANNEL 2 Link Protocol), and what
//! single programs do at a time.
//!
//! At a hub the adapter asks, and the port answers with its number. On one cable each adapter tells
//! the other a number that it drew, and draws again if both are the same. Until it has its number an
//! adapter takes nothing, neither from its host nor for it.

use weft_fabric::interface::{AccessKind, ConfigurationSettings};
use weft_kernel::{Stream, Streams};
use weft_protocol::window::{Cluster, Identification, MapError, Node, Write};
use weft_units::{Span, Time};

use super::cluster::Step;
use super::host::Purpose;
use super::pages::Through;
use super::{Event, HubChannel, HubParts, Operation};
use crate::drive::carrier::Ticket;

/// How far a node is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exchange {
    /// Its adapter sends a control packet; it is at the other side.
    Ask,
    Heard,
    /// Its port answers; that is at the adapter.
    Answer,
    Done,
}

/// The numbers of all nodes.
#[derive(Debug)]
pub(super) struct Configuration {
    settings: ConfigurationSettings,
    nodes: Vec<Numbering>,
    packets: u64,
    longest: Span,
}

#[derive(Debug)]
struct Numbering {
    began: Time,
    random: Stream,
    drawn: u32,
    identity: Identification,
}

/// The number that an adapter draws stands in the field of a node number.
const DRAWN: u64 = 1 << 6;

impl Configuration {
    pub fn new(parts: &HubParts, streams: &Streams) -> Option<Configuration> {
        let settings = parts.window.configuration.clone()?;
        let purpose = format!("{}.configuration", parts.name);
        let node = |node: u16| Numbering {
            began: Time::ZERO,
            random: streams.stream(&purpose, node.into()),
            drawn: 0,
            identity: Identification::DrawAgain,
        };
        let nodes = (0..parts.hosts).map(node).collect();
        Some(Configuration { settings, nodes, packets: 0, longest: Span::ZERO })
    }
}

impl HubChannel {
    /// Nodes that are on line from the beginning ask for their numbers; accesses are scheduled.
    pub(super) fn start_nodes(&mut self) {
        for node in 0..self.parts.hosts {
            if self.management.as_ref().is_none_or(|own| own.is_alive(node)) {
                self.configure(Time::ZERO, node);
            }
        }
        for (place, access) in (0..).zip(&self.parts.window.accesses) {
            self.agenda.push(Time::ZERO + access.at, Event::Access(place));
        }
    }

    /// A node begins to ask for its number. Whether it does not have one anyway.
    pub(super) fn configure(&mut self, now: Time, node: u16) -> bool {
        let Some(own) = &mut self.configuration else { return false };
        own.nodes[usize::from(node)].began = now;
        self.hosts[usize::from(node)].bus_free = Time::NEVER;
        self.agenda.push(now, Event::Configure(node, Exchange::Ask));
        true
    }

    pub(super) fn exchange(&mut self, now: Time, node: u16, step: Exchange) {
        let is_bus = self.parts.hub.is_bus();
        let notice = self.spans.notice;
        let Some(own) = &mut self.configuration else { return };
        let answer = now + own.settings.answer;
        match step {
            Exchange::Ask => {
                own.packets += 1;
                let numbering = &mut own.nodes[usize::from(node)];
                numbering.drawn = numbering.random.below(DRAWN) as u32;
                numbering.identity = Identification::Told(numbering.drawn);
                let lane = &mut self.hosts[usize::from(node)].lane;
                let start = if is_bus { now } else { lane.send(now) };
                self.agenda.push(start + notice, Event::Configure(node, Exchange::Heard));
            }
            Exchange::Heard if self.parts.hub.is_direct() => {
                let told = own.nodes[usize::from(node)].drawn;
                let peer = 1 - node;
                let other = &mut own.nodes[usize::from(peer)];
                other.identity = other.identity.hear(told);
                match other.identity {
                    Identification::Known(_) => self.go_on_line(now, peer),
                    Identification::DrawAgain | Identification::Told(_) => {
                        self.agenda.push(answer, Event::Configure(peer, Exchange::Ask));
                    }
                }
            }
            Exchange::Heard => self.agenda.push(answer, Event::Configure(node, Exchange::Answer)),
            Exchange::Answer => {
                own.packets += 1;
                let start = self.tell_node(now, node);
                self.agenda.push(start + notice, Event::Configure(node, Exchange::Done));
            }
            Exchange::Done => {
                own.nodes[usize::from(node)].identity = Identification::Known(Node(node as u8));
                self.go_on_line(now, node);
            }
        }
    }

    /// A node has its number.
    fn go_on_line(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.configuration else { return };
        let began = own.nodes[usize::from(node)].began;
        own.longest = own.longest.max(now.since(began));
        self.hosts[usize::from(node)].bus_free = now;
        self.begin_beating(now, node);
        self.wake_bus(now, node);
    }

    /// The adapter of a node that is on line tells its port so from now on.
    pub(super) fn begin_beating(&mut self, now: Time, node: u16) {
        if let Some(own) = &mut self.management
            && own.settings.heartbeat > Span::ZERO
            && own.is_alive(node)
            && !std::mem::replace(&mut own.nodes[usize::from(node)].is_beating, true)
        {
            self.agenda.push(now, Event::Manage(Step::Heartbeat(node)));
        }
    }

    /// The numbers that nodes have, in the order of the hosts; none where nobody asks for them.
    pub fn identities(&self) -> Vec<Identification> {
        let own = self.configuration.iter().flat_map(|own| &own.nodes);
        own.map(|numbering| numbering.identity).collect()
    }

    /// How many control packets it took, and the longest time from power to number.
    pub(super) fn configuration_columns(&self) -> Vec<(&'static str, f64)> {
        let Some(own) = &self.configuration else { return Vec::new() };
        let packets = own.packets as f64;
        vec![("configuration_packets", packets), ("configuration_max_us", own.longest.as_us())]
    }

    fn cluster(&self) -> Option<&Cluster> {
        Some(&self.pages.as_ref()?.cluster)
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
