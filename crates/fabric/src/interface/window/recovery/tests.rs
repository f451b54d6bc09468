use weft_protocol::window::{Node, PacketName};

use super::super::Members;
use super::*;
use crate::interface::ClusterSettings;

const RETRY: Span = Span(40);

/// Three nodes whose messages arrive at once, in order; what is sent again arrives or is lost again.
struct World {
    software: RecoverySoftware<char>,
    members: Members,
    now: Time,
    /// How many copies of what is sent again are lost.
    to_lose: u32,
    /// Messages by what they say, and what is waited for.
    said: Vec<Kind>,
    timers: Vec<SoftwareTimer>,
}

impl World {
    fn new() -> World {
        let rules = RecoveryRules { retry: RETRY, tries: 8, message: Bytes(32) };
        World {
            software: RecoverySoftware::new(rules, 3),
            members: Members::new(&ClusterSettings::default(), 3),
            now: Time(10),
            to_lose: 0,
            said: Vec::new(),
            timers: Vec::new(),
        }
    }

    /// The next packet of a node, which these targets take and these lose, damaged on the way.
    fn packet(&mut self, from: u8, takes: u64, loses: u64) {
        let name = self.software.logs().next_name(from.into());
        self.software.logs().record(from.into(), takes | loses, 'p');
        for target in (0..3).filter(|target| (takes | loses) >> target & 1 == 1) {
            let is_whole = takes >> target & 1 == 1;
            let packet = PathPacket { is_whole, is_under_error: false, survey: None };
            self.arrive(target, name, packet);
        }
    }

    fn arrive(&mut self, target: u16, name: PacketName, packet: PathPacket) {
        if self.software.admit(self.now, target, packet) == Admitted::Taken {
            let is_open = self.software.is_error_open();
            self.software.logs().take(target, name, is_open);
        } else {
            self.software.logs().lose(target, name);
        }
    }

    /// Does what software does; messages arrive if `is_heard`.
    fn act(&mut self, is_heard: bool) {
        while let Some(act) = self.software.next_act() {
            match act {
                SoftwareAct::Send { from, targets, message, .. } => {
                    self.said.push(message.kind);
                    let targets = (0..3).filter(|to| is_heard && targets >> to & 1 == 1);
                    for to in targets {
                        self.software.hear(self.now, (to, from), message, &self.members);
                    }
                }
                SoftwareAct::Again { from, targets, number, survey, .. } => {
                    let name = PacketName { sender: Node(from as u8), number };
                    let is_whole = self.to_lose == 0;
                    self.to_lose -= u32::from(!is_whole);
                    let packet =
                        PathPacket { is_whole, is_under_error: true, survey: Some(survey) };
                    let targets = (0..3).filter(|target| targets >> target & 1 == 1);
                    targets.for_each(|target| self.arrive(target, name, packet));
                }
                SoftwareAct::After(span, timer) => {
                    assert_eq!(span, RETRY);
                    self.timers.push(timer);
                }
                SoftwareAct::Wake(_) => {}
                SoftwareAct::Contradiction(text) => panic!("{text}"),
            }
        }
    }

    fn report(&mut self, node: u16) {
        self.software.report(self.now, node, &self.members);
    }

    fn count(&self, kind: Kind) -> usize {
        self.said.iter().filter(|own| **own == kind).count()
    }

    fn is_over(&self) -> bool {
        let is_any_halted = (0..3).any(|node| self.software.is_halted(node));
        !is_any_halted && !self.software.is_error_open()
    }
}

/// One packet of the manager to both others, which one of them lost.
#[test]
fn what_one_node_lost_is_sent_again_and_all_go_on() {
    let mut world = World::new();
    world.packet(0, 0b100, 0b010);
    world.now = Time(30);
    world.report(1);
    world.act(true);
    // One message of the manager to both, and the answer of each.
    for (kind, count) in [
        (Kind::Report, 1),
        (Kind::Halt, 1),
        (Kind::Halted, 2),
        (Kind::Survey, 2),
        (Kind::Surveyed, 4),
        (Kind::SentAgain, 1),
        (Kind::Open, 1),
        (Kind::Opened, 2),
        (Kind::Resume, 1),
    ] {
        assert_eq!(world.count(kind), count, "{kind:?}");
    }
    assert_eq!(world.software.counts(), [1, 15, 1]);
    assert!(world.is_over());
    assert_eq!(world.software.open_us(), [Span(20).as_us(); 2]);
    // Everything is taken and forgotten.
    assert_eq!(world.software.logs().answer(0).first, 1);
}

/// What follows a damaged packet is discarded, and interrupts software once.
#[test]
fn a_path_discards_what_follows_a_damaged_packet() {
    let mut world = World::new();
    let packet = |is_whole, is_under_error| PathPacket { is_whole, is_under_error, survey: None };
    let mut admit = |is_whole, is_under_error| {
        world.software.admit(Time(10), 1, packet(is_whole, is_under_error))
    };
    let discarded =
        |is_damaged, is_first| Admitted::Discarded { is_damaged, is_first, is_failed: false };
    assert_eq!(admit(true, false), Admitted::Taken);
    assert_eq!(admit(false, false), discarded(true, true));
    assert_eq!(admit(true, false), discarded(false, false));
    assert_eq!(admit(true, true), Admitted::Taken);
}

#[test]
fn what_is_lost_once_more_is_found_by_the_next_survey() {
    let mut world = World::new();
    world.packet(0, 0b100, 0b010);
    world.to_lose = 1;
    world.report(1);
    world.act(true);
    let [recoveries, _, again] = world.software.counts();
    assert_eq!((recoveries, again, world.count(Kind::Survey)), (1, 2, 3));
    assert!(world.is_over());
}

/// Twenty packets of node 2: sixteen entries of 8 B in packets of 28 B and a field of 4 B are five, four
/// are two.
#[test]
fn a_sender_is_asked_for_some_packets_at_a_time() {
    let mut world = World::new();
    (0..20).for_each(|_| world.packet(2, 0b001, 0b010));
    world.report(1);
    world.act(true);
    assert_eq!((world.count(Kind::SendAgain), world.count(Kind::SentAgain)), (5 + 2, 2));
    assert_eq!(world.software.counts()[2], 20);
    assert!(world.is_over());
}

#[test]
fn a_step_without_an_answer_is_repeated() {
    let mut world = World::new();
    world.packet(0, 0b100, 0b010);
    world.software.begin(Time(20), 0, &world.members);
    world.act(false);
    let waits = [SoftwareTimer::Nag(0), SoftwareTimer::Retry(1)];
    assert_eq!((world.said.as_slice(), world.timers.as_slice()), (&[Kind::Halt][..], &waits[..]));
    world.software.retry(Time(60), 0, &world.members);
    world.act(false);
    assert_eq!(world.said.len(), 1, "something came of that step");
    world.software.retry(Time(60), 1, &world.members);
    world.act(true);
    assert!(world.count(Kind::Halt) == 2 && world.is_over());
}

/// The manager dies while all are halted; the lowest node that is left begins again when it hears that.
#[test]
fn another_node_manages_when_the_manager_is_gone() {
    let mut world = World::new();
    world.packet(2, 0b001, 0b010);
    world.software.begin(Time(20), 0, &world.members);
    world.act(false);
    world.software.die(0);
    world.members = Members::new(&gone(), 3);
    world.software.begin(Time(95), 1, &world.members);
    world.act(true);
    assert!(world.is_over());
    assert_eq!(world.software.counts()[2], 1);
}

/// Node 0 is not on line.
fn gone() -> ClusterSettings {
    let what = crate::interface::ClusterEventKind::Joins(0);
    let events = vec![crate::interface::ClusterEvent { at: Span(1), what }];
    ClusterSettings { events, ..ClusterSettings::default() }
}
