//! Damaged packets, and the messages by which software makes good for them.
//!
//! The bytes of each packet are really made and damaged on either way, from the node to the hub and
//! from there to each target, and the code of the generation is really asked. The hub cuts packets
//! through, so that damage on the first way shows at the targets. An adapter that finds a damaged
//! packet discards everything behind it, except on pages enabled under error.
//!
//! Over such pages the software of the lowest node, the manager, restores order, message by message
//! through the hub: all halt; all tell what they sent and in which order they received; what is
//! missing is sent again in an order that agrees with everybody's; when nothing is missing, all
//! open their paths and go on. A message that is damaged itself is missed at its answer, and the
//! survey begins again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_fabric::measure::Drop;
use weft_kernel::Id;
use weft_protocol::window::{
    Admission, Command, DataPacket, Node, Path, PathState, Payload, Retransmission, Survey, plan,
};
use weft_units::{Bytes, Span, Time};

use super::cluster::{Management, Step};
use super::host::{Packet, Purpose, Run};
use super::logs::Answer;
use super::{Event, HubChannel};

/// A message of the recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recovery {
    pub kind: Kind,
    /// Of the recovery, or of the survey within it.
    pub number: u32,
    /// Which packet of the message it is, and how many make it up.
    part: u32,
    parts: u32,
}

/// What a message of the recovery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// To the manager: there is an error, or a node that has been halted for long.
    Report,
    /// To all: send nothing new.
    Halt,
    Halted,
    /// To all: what did you send and receive?
    Survey,
    Surveyed,
    /// To one: send these again.
    SendAgain,
    SentAgain,
    /// To all: nothing is missing, take ordinary packets again.
    Open,
    Opened,
    /// An adapter has answered a request since the survey.
    Late,
    /// To all: go on.
    Resume,
}

/// What the manager waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Idle,
    Halting,
    Surveying,
    Replaying,
    Opening,
}

/// The manager of a recovery.
#[derive(Debug, Default)]
pub(super) struct Manager {
    pub node: u16,
    pub phase: Phase,
    /// The recovery, and the survey within it.
    number: u32,
    survey: u32,
    /// Nodes that have not answered, and the packets of their answers that have come.
    waiting: u64,
    parts: BTreeSet<(u16, u32)>,
    answers: BTreeMap<u16, Answer>,
    plan: VecDeque<Retransmission>,
    /// Something had been sent and was neither taken nor discarded.
    is_late: bool,
    batch: Vec<Retransmission>,
    /// Counts the steps, so that a repetition knows whether anything came of the last one.
    progress: u32,
}

/// The most packets that one node sends again before others have their turn.
const BATCH: usize = 16;

/// Bytes of one packet in a request, its number and its targets; in a survey by its sender, its
/// targets; and in a survey by its target, who sent it, since those of one sender come in order.
const ENTRY: u64 = 8;
const SENT: u64 = 4;
const RECEIVED: u64 = 1;

impl Management {
    /// Whether a packet is taken for whole behind one of its ways, by the errors of that way.
    fn is_whole(&mut self, packet: &Packet, to: u16, is_upstream: bool) -> bool {
        let errors = if is_upstream { &mut self.upstream } else { &mut self.downstream };
        let place = usize::from(if is_upstream { packet.from } else { to });
        let Some(errors) = errors.get_mut(place) else { return true };
        // The codes of the smallest and of odd payloads are those of the next even ones.
        let payload = packet.size.0.clamp(4, 256).next_multiple_of(2);
        if !errors.damages_next(None, Bytes(payload + 12)) {
            return true;
        }
        let number = packet.number.unwrap_or(0);
        let bytes = (0..payload).map(|place| (place ^ number) as u8).collect();
        let Ok(payload) = Payload::new(bytes) else { return true };
        let sent = DataPacket {
            destination: Node(packet.targets.trailing_zeros() as u8),
            sender: Node(packet.from as u8),
            command: Command { broadcast: packet.missing > 1, ..Command::WRITE },
            address: number as u32 * 256,
            payload,
        };
        let size = Bytes(sent.cycles() * 2);
        let count = 1 + errors.wrong_bit(Bytes(1)) % 4;
        let bits: Vec<u64> = (0..count).map(|_| errors.wrong_bit(size)).collect();
        let is_whole = self.detection.accepts(&sent, &bits);
        let unchanged = bits.iter().all(|bit| bits.iter().filter(|own| *own == bit).count() == 2);
        self.counts.undetected += u64::from(is_whole && !unchanged);
        is_whole
    }

    /// An error is open from now on, if none was.
    pub fn open(&mut self, now: Time) {
        self.open_since.get_or_insert(now);
    }
}

impl HubChannel {
    /// Damage on the way to the hub: the hub passes the packet on and does not look.
    pub(super) fn damage_upstream(&mut self, id: Id<Packet>) {
        let Some(own) = &mut self.management else { return };
        let packet = &mut self.packets[id];
        packet.is_whole &= own.is_whole(packet, packet.from, true);
    }

    /// Whether the adapter of a target takes a packet that comes; otherwise it is lost for now.
    pub(super) fn admits(&mut self, now: Time, id: Id<Packet>, target: u16) -> bool {
        let Some(own) = &mut self.management else { return true };
        let packet = self.packets[id];
        if Some(packet.rail) != own.up || !own.is_alive(target) {
            self.lose(now, id, target);
            return false;
        }
        let whole = own.is_whole(&packet, target, false) && packet.is_whole && !own.is_cut(&packet);
        let node = &mut own.nodes[usize::from(target)];
        let before = node.path.state();
        let admission = node.path.arrive(whole, packet.is_under_error());
        let is_late = packet.survey.is_some_and(|survey| node.is_spoilt || survey != node.survey);
        if admission == Admission::Accept && !is_late {
            return true;
        }
        node.is_spoilt = true;
        let is_first = before == PathState::Normal;
        let failed = node.path.state() == PathState::Failed;
        own.open(now);
        let rule = if admission == Admission::Damaged { Drop::Corrupted } else { Drop::OutOfOrder };
        self.observations.drop(rule, now);
        if is_first {
            let step = Step::Interrupt(target);
            self.agenda.push(now + self.parts.window.recovery, Event::Manage(step));
        }
        if failed {
            self.give_up_rail(now, target);
        }
        self.free_adapter(target, now);
        self.lose(now, id, target);
        false
    }

    /// Software sends a message of the recovery: before anything ordinary of its node.
    fn tell(&mut self, now: Time, from: u16, targets: u64, bytes: u64, message: (Kind, u32)) {
        if targets == 0 {
            return;
        }
        let size = self.parts.window.write.min(self.parts.payload).max(Bytes(8));
        let parts = bytes.div_ceil(size.0 - 4).max(1) as u32;
        let (kind, number) = message;
        let size = if bytes == 0 { Bytes(8) } else { size };
        for part in 0..parts {
            let message = Recovery { kind, number, part, parts };
            self.push_urgent(now, from, targets, size, Purpose::Recovery(message));
        }
        if let Some(own) = &mut self.management {
            own.counts.messages += u64::from(parts);
        }
        self.wake_bus(now, from);
    }

    fn push_urgent(&mut self, now: Time, from: u16, targets: u64, size: Bytes, purpose: Purpose) {
        let mut pieces = self.parts.window.writes(self.parts.payload).pieces(0, size);
        let next = pieces.next().map_or(size, |(_, size)| size);
        let ready = now + self.spans.store;
        let run = Run {
            targets,
            generated: now,
            ready,
            pieces,
            next,
            left: 0,
            purpose,
            page: None,
            is_copied: false,
        };
        let runs = &mut self.hosts[usize::from(from)].runs;
        let place = runs.iter().position(|run| !run.purpose.is_urgent()).unwrap_or(runs.len());
        runs.insert(place, run);
    }

    /// The software of a node has heard of its error, or looks after itself while it is halted.
    pub(super) fn report(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        own.nodes[usize::from(node)].path.recover();
        let manager = own.manager_of(node);
        if manager != node {
            // A node whose path is as usual missed the end of this recovery and nothing else.
            let state = &own.nodes[usize::from(node)];
            let is_usual = state.path.state() == PathState::Normal;
            let number = if is_usual { state.recovery } else { 0 };
            self.tell(now, node, 1 << manager, 0, (Kind::Report, number));
        } else if own.manager.phase == Phase::Idle || own.manager.node != node {
            self.begin_recovery(now, node);
        }
        self.nag_later(now, node);
    }

    /// Looks after a node as long as it is not as usual.
    pub(super) fn nag_later(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        let retry = own.settings.retry;
        let state = &mut own.nodes[usize::from(node)];
        if !std::mem::replace(&mut state.is_nagging, true) {
            self.agenda.push(now + retry, Event::Manage(Step::Nag(node)));
        }
    }

    pub(super) fn nag(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        let (retry, is_alive) = (own.settings.retry, own.is_alive(node));
        let state = &mut own.nodes[usize::from(node)];
        state.is_nagging = false;
        let is_halted = self.hosts[usize::from(node)].is_halted;
        if !is_alive || (!is_halted && state.path.state() == PathState::Normal) {
            return;
        }
        if now.since(state.heard) >= retry {
            self.report(now, node);
        }
        self.nag_later(now, node);
    }

    /// A recovery begins, or begins again, with this manager.
    pub(super) fn begin_recovery(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        own.open(now);
        own.recoveries += 1;
        own.counts.recoveries += u64::from(own.manager.phase == Phase::Idle);
        own.manager.node = node;
        own.manager.number = own.recoveries;
        own.manager.phase = Phase::Halting;
        own.manager.waiting = own.view(node) & !(1 << node);
        self.halt(now, node);
        self.ask_again(now);
    }

    /// Sends what the phase is about to those that have not answered; if all have, the next begins.
    fn ask_again(&mut self, now: Time) {
        let Some(own) = &mut self.management else { return };
        let Manager { node, phase, number, survey, waiting, .. } = own.manager;
        own.manager.progress += 1;
        let step = Step::Retry(own.manager.progress);
        let message = match phase {
            Phase::Idle | Phase::Replaying => return,
            Phase::Halting if waiting == 0 => return self.survey(now),
            Phase::Surveying if waiting == 0 => return self.make_plan(now),
            Phase::Opening if waiting == 0 => return self.resume(now),
            Phase::Halting => (Kind::Halt, number),
            Phase::Surveying => (Kind::Survey, survey),
            Phase::Opening => (Kind::Open, survey),
        };
        let retry = own.settings.retry;
        self.agenda.push(now + retry, Event::Manage(step));
        self.tell(now, node, waiting, 0, message);
    }

    /// Nothing came of a step of the manager in time.
    pub(super) fn retry(&mut self, now: Time, progress: u32) {
        let Some(own) = &self.management else { return };
        let Manager { node, phase, .. } = own.manager;
        if progress != own.manager.progress || !own.is_alive(node) {
            return;
        }
        match phase {
            Phase::Idle => {}
            Phase::Halting | Phase::Surveying | Phase::Opening => self.ask_again(now),
            Phase::Replaying => self.survey(now),
        }
    }

    /// A node goes over to the standby network. If it is the manager, what it knew of a survey is
    /// not true any more.
    pub(super) fn manager_switches(&mut self, now: Time, node: u16) {
        let Some(own) = &self.management else { return };
        let Manager { node: manager, phase, .. } = own.manager;
        if manager == node && !matches!(phase, Phase::Idle | Phase::Halting) {
            self.survey(now);
        }
    }

    fn halt(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        own.nodes[usize::from(node)].path.recover();
        self.hosts[usize::from(node)].is_halted = true;
        self.nag_later(now, node);
    }

    fn survey(&mut self, now: Time) {
        let Some(own) = &mut self.management else { return };
        own.surveys += 1;
        let node = own.manager.node;
        own.manager.survey = own.surveys;
        own.manager.phase = Phase::Surveying;
        own.manager.waiting = own.view(node) & !(1 << node);
        own.manager.answers.clear();
        own.manager.parts.clear();
        self.answer_survey(node);
        self.ask_again(now);
    }

    /// A node says what it sent and received up to the first time that it is asked in a survey.
    /// Returns how many bytes that takes.
    fn answer_survey(&mut self, node: u16) -> u64 {
        let Some(own) = &mut self.management else { return 0 };
        let state = &mut own.nodes[usize::from(node)];
        if std::mem::replace(&mut state.survey, own.surveys) != own.surveys {
            (state.is_spoilt, state.parts) = (false, 0);
            state.next = own.logs.next_name(node).number;
            own.manager.answers.insert(node, own.logs.answer(node));
        }
        own.manager.answers.get(&node).map_or(0, |answer| {
            SENT * answer.sent.len() as u64 + RECEIVED * answer.received.len() as u64
        })
    }

    /// The manager knows what is missing, and in which order it comes again.
    fn make_plan(&mut self, now: Time) {
        let Some(own) = &mut self.management else { return };
        let node = own.manager.node;
        let mut survey = Survey::default();
        for place in 0..own.nodes.len() as u16 {
            let Answer { first, sent, received } =
                own.manager.answers.remove(&place).unwrap_or_default();
            survey.first.push(first);
            survey.sent.push(sent);
            survey.received.push(received);
        }
        let again = match plan(&survey, own.view(node)) {
            Ok(again) => again,
            Err(error) => {
                self.problem.get_or_insert(error.to_string());
                return;
            }
        };
        own.manager.plan.clear();
        own.manager.is_late = false;
        // Nobody sends again before the plan is made: nothing of it has been lost here.
        own.nodes[usize::from(node)].is_spoilt = false;
        for mut one in again {
            // An acknowledgment of an adapter may still be on its way: it is late and not lost.
            let Some(entry) = own.logs.entry(one.packet) else { continue };
            one.targets &= !entry.taken;
            own.manager.is_late |= one.targets & !entry.lost != 0;
            one.targets &= entry.lost;
            if one.targets != 0 {
                own.manager.plan.push_back(one);
            }
        }
        self.go_on(now);
    }

    /// The next packets of the plan, all of one sender; behind the last one everything is surveyed
    /// again, and if nothing was missing, the paths are opened.
    fn go_on(&mut self, now: Time) {
        let Some(own) = &mut self.management else { return };
        let node = own.manager.node;
        let is_clean = own.manager.phase == Phase::Surveying;
        let Some(first) = own.manager.plan.front() else {
            if !is_clean || own.manager.is_late || !self.open_path(node) {
                return self.survey(now);
            }
            let Some(own) = &mut self.management else { return };
            own.manager.phase = Phase::Opening;
            own.manager.waiting = own.view(node) & !(1 << node);
            return self.ask_again(now);
        };
        let sender = first.packet.sender;
        own.manager.phase = Phase::Replaying;
        let same = |one: &&Retransmission| one.packet.sender == sender;
        let count = own.manager.plan.iter().take_while(same).take(BATCH).count();
        own.manager.batch = own.manager.plan.drain(..count).collect();
        own.manager.progress += 1;
        let step = Step::Retry(own.manager.progress);
        let (retry, survey) = (own.settings.retry, own.manager.survey);
        self.agenda.push(now + retry, Event::Manage(step));
        let sender = u16::from(sender.0);
        if sender == node {
            self.send_again(now, sender);
            self.tell(now, node, 1 << node, 0, (Kind::SentAgain, survey));
        } else {
            let bytes = count as u64 * ENTRY;
            self.tell(now, node, 1 << sender, bytes, (Kind::SendAgain, survey));
        }
    }

    /// A node sends the packets of a request again, over pages enabled under error.
    fn send_again(&mut self, now: Time, node: u16) {
        let Some(own) = &mut self.management else { return };
        let survey = own.manager.survey;
        let batch = std::mem::take(&mut own.manager.batch);
        for Retransmission { packet, targets } in batch {
            let Some(own) = &mut self.management else { return };
            let Some(entry) = own.logs.entry(packet) else { continue };
            // Who was isolated since the plan was made misses it for good, and that was counted.
            let targets = targets & entry.lost;
            if targets == 0 {
                continue;
            }
            entry.lost &= !targets;
            let size = entry.packet.size;
            own.counts.again += u64::from(targets.count_ones());
            let purpose = Purpose::Again(packet.number, survey);
            self.push_urgent(now, node, targets, size, purpose);
        }
        self.wake_bus(now, node);
    }

    /// A node takes ordinary packets again, unless its adapter has answered a request since the
    /// node was surveyed, which may have been lost.
    fn open_path(&mut self, node: u16) -> bool {
        let Some(own) = &mut self.management else { return false };
        let next = own.logs.next_name(node).number;
        let (survey, state) = (own.manager.survey, &mut own.nodes[usize::from(node)]);
        if state.opened == survey {
            return true;
        }
        if state.next == next {
            state.opened = survey;
            state.path.recover();
            state.path.resume();
        }
        state.next == next
    }

    fn resume(&mut self, now: Time) {
        let Some(own) = &mut self.management else { return };
        let Manager { node, number, .. } = own.manager;
        own.manager.phase = Phase::Idle;
        let others = own.view(node) & !(1 << node);
        self.tell(now, node, others, 0, (Kind::Resume, number));
        self.go(now, node);
    }

    /// A node sends ordinary packets again.
    fn go(&mut self, now: Time, node: u16) {
        self.hosts[usize::from(node)].is_halted = false;
        self.wake_bus(now, node);
        self.look_for_the_end(now);
    }

    /// The recovery is over when everybody is as usual and nothing is missing.
    fn look_for_the_end(&mut self, now: Time) {
        let Some(own) = &mut self.management else { return };
        let members = own.alive & !own.isolated;
        let is_usual = (0..own.nodes.len()).filter(|node| members >> node & 1 == 1).all(|node| {
            own.nodes[node].path.state() == PathState::Normal && !self.hosts[node].is_halted
        });
        if is_usual
            && !own.logs.is_anything_lost()
            && let Some(since) = own.open_since.take()
        {
            own.counts.spans.push(now.since(since));
            own.logs.forget_all();
        }
    }

    /// A message of the recovery is in the memory of a node.
    pub(super) fn hear(&mut self, now: Time, node: u16, from: u16, message: Recovery) {
        let Recovery { kind, number, parts, .. } = message;
        self.follow_rail(now, node);
        let Some(own) = &mut self.management else { return };
        own.nodes[usize::from(node)].heard = now;
        let survey = own.manager.survey;
        let is_manager = own.manager.node == node;
        match kind {
            Kind::Report => {
                let is_idle = own.manager.phase == Phase::Idle || !is_manager;
                if is_manager && is_idle && number != 0 && number == own.recoveries {
                    self.tell(now, node, 1 << from, 0, (Kind::Resume, number));
                } else if own.manager_of(node) == node && is_idle {
                    self.begin_recovery(now, node);
                }
            }
            Kind::Halt if number == own.recoveries => {
                own.nodes[usize::from(node)].recovery = number;
                self.halt(now, node);
                self.tell(now, node, 1 << from, 0, (Kind::Halted, number));
            }
            Kind::Survey if number == survey => {
                let named = self.answer_survey(node);
                self.tell(now, node, 1 << from, named, (Kind::Surveyed, number));
            }
            Kind::SendAgain if number == survey => {
                let state = &mut own.nodes[usize::from(node)];
                state.parts += 1;
                if state.parts == parts {
                    state.parts = 0;
                    self.send_again(now, node);
                    self.tell(now, node, 1 << from, 0, (Kind::SentAgain, number));
                }
            }
            Kind::Open if number == survey => {
                let kind = if self.open_path(node) { Kind::Opened } else { Kind::Late };
                self.tell(now, node, 1 << from, 0, (kind, number));
            }
            Kind::Resume if number == own.nodes[usize::from(node)].recovery => {
                let state = own.nodes[usize::from(node)].path.state();
                if state == PathState::Normal && number == own.recoveries {
                    self.go(now, node);
                }
            }
            _ if is_manager => self.hear_answer(now, from, message),
            _ => {}
        }
    }

    /// The manager hears an answer.
    fn hear_answer(&mut self, now: Time, from: u16, message: Recovery) {
        let Some(own) = &mut self.management else { return };
        let Recovery { kind, number, part, parts } = message;
        let manager = &mut own.manager;
        match (kind, manager.phase) {
            (Kind::Halted, Phase::Halting) if number == manager.number => {}
            (Kind::Opened, Phase::Opening) if number == manager.survey => {}
            (Kind::Surveyed, Phase::Surveying) if number == manager.survey => {
                manager.parts.insert((from, part));
                let came = manager.parts.range((from, 0)..=(from, u32::MAX)).count();
                if came < parts as usize {
                    // Something comes of it: only silence is answered by asking again.
                    manager.progress += 1;
                    let step = Step::Retry(manager.progress);
                    let retry = own.settings.retry;
                    self.agenda.push(now + retry, Event::Manage(step));
                    return;
                }
            }
            (Kind::Late, Phase::Opening) if number == manager.survey => return self.survey(now),
            (Kind::SentAgain, Phase::Replaying) if number == manager.survey => {
                return self.go_on(now);
            }
            _ => return,
        }
        manager.waiting &= !(1 << from);
        if manager.waiting == 0 {
            self.ask_again(now);
        }
    }

    /// How long errors were open, in microseconds: on average, and at the most.
    pub(super) fn recovery_spans(own: &Management) -> (f64, f64) {
        let spans = &own.counts.spans;
        let sum: u64 = spans.iter().map(|span| span.0).sum();
        let mean = Span(sum / (spans.len() as u64).max(1));
        (mean.as_us(), spans.iter().max().copied().unwrap_or(Span::ZERO).as_us())
    }
}

/// A path on which nothing ordinary is taken before a recovery.
pub(super) fn path_in_recovery(tries: u8) -> Path {
    let mut path = Path::new(tries);
    path.arrive(false, false);
    path.recover();
    path
}
