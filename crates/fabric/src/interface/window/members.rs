//! Membership: nodes that die or come on line while traffic runs, a network that breaks and a standby
//! network (Memory Channel 2, Additional MEMORY CHANNEL Network Features).
//!
//! Control packets of each adapter tell its port that the node is alive. A port that receives none
//! for the time-out isolates its node, and the hub tells all others which nodes are on line; a node
//! that receives nothing from the hub switches over to the standby network. The part has no events:
//! it is told what is received and when, and returns which nodes have left or joined, and when to
//! check again.

use weft_protocol::window::{Change, Membership, Node, Rail, Rails};
use weft_units::{Span, Time};

use crate::interface::{ClusterEventKind, ClusterSettings};

/// A packet as far as the life of its sender matters to it.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Its sender.
    pub from: u16,
    /// When the bus of its host began to take it in.
    pub taken: Time,
    /// When its first byte is sent.
    pub start: Time,
    /// When its last byte is.
    pub end: Time,
}

/// The result of an attempt to come on line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// It is on line already.
    Already,
    /// Its port still takes it for the one that died: it tries again then.
    Later(Time),
    /// It joins, and sends on this network.
    Joined(Rail),
}

/// What a node hears of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// The nodes that are gone, a bit each.
    pub gone: u64,
    /// Whether anything changed.
    pub is_new: bool,
}

/// What ports find that have not heard of their nodes for the time-out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// The nodes, which are isolated from now on.
    pub nodes: Vec<u16>,
    /// When to look again.
    pub next: Time,
}

/// A node as the others and the hub see it.
#[derive(Debug)]
struct Member {
    /// The nodes on line, as far as it knows, a bit each.
    view: u64,
    /// When it heard of the hub last.
    status: Time,
    /// Whether its adapter sends control packets at the interval.
    is_beating: bool,
    rails: Rails,
    died: Option<Time>,
}

/// All nodes of a cluster.
#[derive(Debug)]
pub struct Members {
    nodes: Vec<Member>,
    alive: u64,
    /// Nodes that the ports let nothing through of or to.
    isolated: u64,
    ports: Membership,
    changes: Vec<(Time, u16, Change)>,
    /// The network that works, whether another one stands by, and when one broke.
    up: Option<Rail>,
    has_standby: bool,
    broken: Option<Time>,
    heartbeat: Span,
    time_out: Span,
    isolations: Vec<Span>,
    switches: Vec<Span>,
}

/// Nodes whose first event is to join.
fn first_to_join(settings: &ClusterSettings) -> u64 {
    let (mut seen, mut absent) = (0_u64, 0);
    for event in &settings.events {
        let (node, joins) = match event.what {
            ClusterEventKind::Dies(node) => (node, false),
            ClusterEventKind::Joins(node) => (node, true),
            ClusterEventKind::Breaks => continue,
        };
        if seen >> node & 1 == 0 && joins {
            absent |= 1 << node;
        }
        seen |= 1 << node;
    }
    absent
}

impl Members {
    /// A cluster of 1 to 64 nodes. All are on line but those whose first event is to join.
    pub fn new(settings: &ClusterSettings, nodes: u16) -> Members {
        let all = u64::MAX >> (64 - nodes);
        let absent = first_to_join(settings);
        let member = |_| Member {
            view: all & !absent,
            status: Time::ZERO,
            is_beating: false,
            rails: Rails::default(),
            died: None,
        };
        let mut ports = Membership::new(nodes, settings.time_out);
        for node in (0..nodes as u8).filter(|node| absent >> node & 1 == 0) {
            ports.hear(Time::ZERO, Node(node));
        }
        Members {
            nodes: (0..nodes).map(member).collect(),
            alive: all & !absent,
            isolated: absent,
            ports,
            changes: Vec::new(),
            up: Some(Rail::First),
            has_standby: settings.standby,
            broken: None,
            heartbeat: settings.heartbeat,
            time_out: settings.time_out,
            isolations: Vec::new(),
            switches: Vec::new(),
        }
    }

    fn of(&self, node: u16) -> &Member {
        &self.nodes[usize::from(node)]
    }

    fn of_mut(&mut self, node: u16) -> &mut Member {
        &mut self.nodes[usize::from(node)]
    }

    /// Whether a node has not stopped.
    #[inline]
    pub fn is_alive(&self, node: u16) -> bool {
        self.alive >> node & 1 == 1
    }

    /// The nodes that have not stopped, a bit each.
    pub fn alive(&self) -> u64 {
        self.alive
    }

    /// The nodes that the ports let nothing through of or to, a bit each.
    #[inline]
    pub fn isolated(&self) -> u64 {
        self.isolated
    }

    /// Nodes on line, as the ports know it.
    pub fn on_line(&self) -> u64 {
        self.ports.on_line()
    }

    /// The nodes on line, as a node knows them, a bit each.
    #[inline]
    pub fn view(&self, node: u16) -> u64 {
        self.of(node).view
    }

    /// The lowest node on line manages recoveries, as a node knows it.
    pub fn manager_of(&self, node: u16) -> u16 {
        (self.view(node) | 1 << node).trailing_zeros() as u16
    }

    /// The network that works.
    #[inline]
    pub fn up(&self) -> Option<Rail> {
        self.up
    }

    /// Whether the sender of a packet died while it sent it.
    pub fn is_cut(&self, packet: Sent) -> bool {
        let died = self.of(packet.from).died;
        died.is_some_and(|died| packet.start <= died && packet.end > died)
    }

    /// Whether the sender of a packet died after it took it in.
    #[inline]
    pub fn is_from_before_death(&self, packet: Sent) -> bool {
        self.of(packet.from).died.is_some_and(|died| packet.taken <= died)
    }

    /// Whether the sender of a packet died before it could send it. On a bus a packet waits in its
    /// adapter, so that it is sent only when the hub lets it.
    pub fn is_unsent(&self, packet: Sent, is_bus: bool) -> bool {
        let died = self.of(packet.from).died;
        self.is_from_before_death(packet)
            && (is_bus || died.is_some_and(|died| packet.start > died))
    }

    /// The adapter of a node is to tell its port from now on that it is there. Whether it did not yet.
    pub fn begin_beating(&mut self, node: u16) -> bool {
        let is_due = self.heartbeat > Span::ZERO && self.is_alive(node);
        is_due && !std::mem::replace(&mut self.of_mut(node).is_beating, true)
    }

    /// The adapter of a node sends its heartbeat to its port, and checks whether the hub has been
    /// silent. Returns whether it has; `None` if the node has stopped.
    pub fn beat(&mut self, now: Time, node: u16) -> Option<bool> {
        if !self.is_alive(node) {
            self.of_mut(node).is_beating = false;
            return None;
        }
        Some(now.since(self.of(node).status) >= self.time_out)
    }

    /// A control packet of a node is at its port. Whether it was not on line there.
    pub fn hear(&mut self, now: Time, node: u16) -> bool {
        let is_new = self.is_alive(node) && self.ports.hear(now, Node(node as u8)).is_some();
        if is_new {
            self.isolated &= !(1 << node);
        }
        is_new
    }

    /// Ports take off line the nodes that they have not heard of for the time-out.
    pub fn expire(&mut self, now: Time) -> Silent {
        let removed = self.ports.expire(now);
        let node = |change: &Change| {
            let (Change::Removed(node) | Change::Added(node)) = change;
            u16::from(node.0)
        };
        let nodes = removed.iter().map(node).collect();
        let next = self.ports.next_time_out().map_or(now, |member| member.heard);
        Silent { nodes, next: (next + self.time_out).max(now + Span(1)) }
    }

    /// A port lets nothing through any more. Whether its node is alive: its control packets were lost.
    pub fn isolate(&mut self, now: Time, node: u16) -> bool {
        self.isolated |= 1 << node;
        match self.of(node).died {
            Some(died) if !self.is_alive(node) => {
                self.isolations.push(now.since(died));
                false
            }
            _ => true,
        }
    }

    /// A control packet of the hub is at a node: it knows who is on line. `None` if it does not hear it.
    pub fn hear_status(&mut self, now: Time, node: u16) -> Option<News> {
        let on_line = self.ports.on_line();
        let (alive, up) = (self.alive, self.up);
        let own = self.of_mut(node);
        let is_heard = up.is_some() && own.rails.active() == up;
        if !is_heard || (alive & on_line) >> node & 1 == 0 {
            return None;
        }
        own.status = now;
        let before = std::mem::replace(&mut own.view, on_line);
        let changed = before ^ on_line;
        for other in (0..64_u8).filter(|other| changed >> other & 1 == 1) {
            let is_there = on_line >> other & 1 == 1;
            let other = Node(other);
            let change = if is_there { Change::Added(other) } else { Change::Removed(other) };
            self.changes.push((now, node, change));
        }
        Some(News { gone: before & !on_line, is_new: changed != 0 })
    }

    /// A node stops, in the middle of everything. Whether it had not.
    pub fn die(&mut self, now: Time, node: u16) -> bool {
        let was_alive = self.is_alive(node);
        if was_alive {
            self.alive &= !(1 << node);
            self.of_mut(node).died = Some(now);
        }
        was_alive
    }

    /// A node comes on line. It does not know of other nodes yet.
    pub fn join(&mut self, now: Time, node: u16) -> Joining {
        if self.is_alive(node) {
            return Joining::Already;
        }
        if self.isolated >> node & 1 == 0 {
            return Joining::Later(now + self.heartbeat.max(Span(1)));
        }
        self.alive |= 1 << node;
        let up = self.up;
        let own = self.of_mut(node);
        (own.view, own.status) = (1 << node, now);
        if own.rails.active() != up && up.is_some() {
            own.rails.fail(Rail::First);
        }
        Joining::Joined(own.rails.active().unwrap_or_default())
    }

    /// The active network breaks. Whether there was one.
    pub fn break_rail(&mut self, now: Time) -> bool {
        if self.up.is_none() {
            return false;
        }
        let stands_by = self.can_give_up();
        self.up = stands_by.then_some(Rail::Second);
        self.broken = Some(now);
        true
    }

    /// Whether another network stands by for the one that works.
    pub fn can_give_up(&self) -> bool {
        self.has_standby && self.up == Some(Rail::First)
    }

    /// Whether a node still sends on a network that does not work.
    pub fn is_behind(&self, node: u16) -> bool {
        self.up.is_some() && self.of(node).rails.active() != self.up
    }

    /// A node goes over to the standby network. Whether it can.
    pub fn switch(&mut self, now: Time, node: u16) -> bool {
        if !self.has_standby || self.of(node).rails.active() != Some(Rail::First) {
            return false;
        }
        let own = self.of_mut(node);
        own.rails.fail(Rail::First);
        own.status = now;
        if let Some(broken) = self.broken {
            self.switches.push(now.since(broken));
        }
        true
    }

    /// Changes of the membership as nodes learned of them: when, which node, what.
    pub fn changes(&self) -> &[(Time, u16, Change)] {
        &self.changes
    }

    /// The longest times until a dead node was isolated, and until a node went over to the standby
    /// network, in microseconds; 0 without any.
    pub fn longest_us(&self) -> [f64; 2] {
        let longest = |spans: &[Span]| spans.iter().max().map_or(0.0, |span| span.as_us());
        [longest(&self.isolations), longest(&self.switches)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::ClusterEvent;

    const BEAT: Span = Span(20);
    const TIME_OUT: Span = Span(60);

    fn members(standby: bool, events: &[ClusterEventKind]) -> Members {
        let event = |what: &ClusterEventKind| ClusterEvent { at: Span(1), what: *what };
        let events = events.iter().map(event).collect();
        let settings = ClusterSettings {
            heartbeat: BEAT,
            time_out: TIME_OUT,
            standby,
            events,
            ..ClusterSettings::default()
        };
        Members::new(&settings, 3)
    }

    #[test]
    fn a_silent_node_is_isolated_after_the_time_out_and_the_others_hear_it() {
        let mut members = members(false, &[]);
        assert!(members.die(Time(10), 2) && !members.die(Time(11), 2));
        [0, 1].into_iter().for_each(|node| assert!(!members.hear(Time(50), node)));
        assert!(!members.hear(Time(50), 2), "what it had sent counts no more");
        let silent = members.expire(Time(60));
        assert_eq!(silent, Silent { nodes: vec![2], next: Time(50 + 60) });
        assert!(!members.isolate(Time(60), 2));
        assert_eq!((members.isolated(), members.view(0)), (0b100, 0b111));
        assert_eq!(members.hear_status(Time(70), 0), Some(News { gone: 0b100, is_new: true }));
        assert_eq!(members.hear_status(Time(75), 0), Some(News { gone: 0, is_new: false }));
        assert_eq!(members.hear_status(Time(75), 2), None);
        assert_eq!((members.view(0), members.view(1)), (0b011, 0b111));
        assert_eq!(members.changes(), [(Time(70), 0, Change::Removed(Node(2)))]);
        assert_eq!(members.longest_us()[0], Span(50).as_us());
    }

    #[test]
    fn a_node_joins_when_its_port_has_forgotten_it() {
        let mut members = members(false, &[ClusterEventKind::Joins(1), ClusterEventKind::Dies(1)]);
        assert_eq!((members.alive(), members.isolated()), (0b101, 0b010), "its first event");
        assert_eq!(members.join(Time(5), 1), Joining::Joined(Rail::First));
        assert_eq!(members.join(Time(5), 1), Joining::Already);
        assert_eq!((members.view(1), members.manager_of(1)), (0b010, 1));
        assert!(members.begin_beating(1) && !members.begin_beating(1));
        assert!(members.hear(Time(7), 1) && !members.hear(Time(8), 1));
        members.die(Time(9), 1);
        assert_eq!(members.join(Time(10), 1), Joining::Later(Time(30)));
        assert_eq!(members.beat(Time(20), 1), None);
    }

    #[test]
    fn a_node_that_hears_nothing_goes_over_to_the_standby_network() {
        let mut members = members(true, &[]);
        assert_eq!(members.beat(Time(59), 0), Some(false));
        assert!(members.break_rail(Time(30)));
        assert_eq!(members.hear_status(Time(40), 0), None);
        assert!(members.beat(Time(60), 0) == Some(true) && members.is_behind(0));
        assert!(members.switch(Time(90), 0) && !members.switch(Time(91), 0));
        assert!(!members.is_behind(0) && members.hear_status(Time(95), 0).is_some());
        assert_eq!(members.longest_us()[1], Span(60).as_us());
        // Nothing stands by any more.
        assert!(members.break_rail(Time(100)) && !members.break_rail(Time(101)));
        assert_eq!(members.up(), None);
    }

    /// A packet that was taken in at 10 ps and is on the link from 20 to 50 ps.
    #[test]
    fn the_death_of_a_sender_cuts_what_it_sends_and_loses_what_it_has_not_sent() {
        let sent = Sent { from: 1, taken: Time(10), start: Time(20), end: Time(50) };
        for (death, is_from_before, is_cut, is_unsent) in [
            (9, false, false, false),
            (15, true, false, true),
            (30, true, true, false),
            (60, true, false, false),
        ] {
            let mut members = members(false, &[]);
            members.die(Time(death), 1);
            let seen = (members.is_from_before_death(sent), members.is_cut(sent));
            assert_eq!(seen, (is_from_before, is_cut), "{death}");
            assert_eq!(members.is_unsent(sent, false), is_unsent, "{death}");
            assert_eq!(members.is_unsent(sent, true), is_from_before, "{death}: a bus");
        }
    }
}
