//! The steps of a recovery, of its manager and of every node.

use weft_protocol::window::{PathState, Retransmission, Survey, plan};
use weft_units::Time;

use super::super::{Answer, Members};
use super::{
    BATCH, ENTRY, Kind, Manager, Phase, RECEIVED, RecoveryMessage, RecoverySoftware, SENT,
    SoftwareAct, SoftwareTimer,
};

impl<P: Copy> RecoverySoftware<P> {
    /// The software of a node has heard of its error, or looks after itself while it is halted.
    pub fn report(&mut self, now: Time, node: u16, members: &Members) {
        self.of(node).path.recover();
        let manager = members.manager_of(node);
        if manager != node {
            // A node whose path is as usual missed the end of this recovery and nothing else.
            let own = self.of(node);
            let is_usual = own.path.state() == PathState::Normal;
            let number = if is_usual { own.recovery } else { 0 };
            self.tell(node, 1 << manager, 0, (Kind::Report, number));
        } else if self.manager.phase == Phase::Idle || self.manager.node != node {
            self.begin(now, node, members);
        }
        self.nag_later(node);
    }

    /// Looks after a node as long as it is not as usual.
    pub fn nag_later(&mut self, node: u16) {
        if !std::mem::replace(&mut self.of(node).is_nagging, true) {
            self.acts.push_back(SoftwareAct::After(self.rules.retry, SoftwareTimer::Nag(node)));
        }
    }

    /// A node looks after itself: it reports again if it has heard nothing.
    pub fn nag(&mut self, now: Time, node: u16, members: &Members) {
        let retry = self.rules.retry;
        let own = self.of(node);
        own.is_nagging = false;
        let is_usual = !own.is_halted && own.path.state() == PathState::Normal;
        if !members.is_alive(node) || is_usual {
            return;
        }
        if now.since(own.heard) >= retry {
            self.report(now, node, members);
        }
        self.nag_later(node);
    }

    /// A recovery begins, or begins again, with this manager.
    pub fn begin(&mut self, now: Time, node: u16, members: &Members) {
        self.open(now);
        self.recoveries += 1;
        self.counts.recoveries += u64::from(self.manager.phase == Phase::Idle);
        self.manager.node = node;
        self.manager.number = self.recoveries;
        self.manager.phase = Phase::Halting;
        self.manager.waiting = members.view(node) & !(1 << node);
        self.halt(node);
        self.ask_again(now, members);
    }

    /// Sends the message of the phase to the nodes that have not answered; if all have, the next
    /// phase begins.
    fn ask_again(&mut self, now: Time, members: &Members) {
        let Manager { node, phase, number, survey, waiting, .. } = self.manager;
        self.manager.progress += 1;
        let message = match phase {
            Phase::Idle | Phase::Replaying => return,
            Phase::Halting if waiting == 0 => return self.survey(now, members),
            Phase::Surveying if waiting == 0 => return self.make_plan(now, members),
            Phase::Opening if waiting == 0 => return self.resume(now, members),
            Phase::Halting => (Kind::Halt, number),
            Phase::Surveying => (Kind::Survey, survey),
            Phase::Opening => (Kind::Open, survey),
        };
        self.await_progress();
        self.tell(node, waiting, 0, message);
    }

    /// A step of the manager had no effect in time.
    pub fn retry(&mut self, now: Time, progress: u32, members: &Members) {
        let Manager { node, phase, .. } = self.manager;
        if progress != self.manager.progress || !members.is_alive(node) {
            return;
        }
        match phase {
            Phase::Idle => {}
            Phase::Halting | Phase::Surveying | Phase::Opening => self.ask_again(now, members),
            Phase::Replaying => self.survey(now, members),
        }
    }

    /// A node has switched to the standby network. If it is the manager, what it knew from a survey
    /// is no longer valid.
    pub fn survey_again(&mut self, now: Time, node: u16, members: &Members) {
        let Manager { node: manager, phase, .. } = self.manager;
        if manager == node && !matches!(phase, Phase::Idle | Phase::Halting) {
            self.survey(now, members);
        }
    }

    fn halt(&mut self, node: u16) {
        let own = self.of(node);
        own.path.recover();
        own.is_halted = true;
        self.nag_later(node);
    }

    fn survey(&mut self, now: Time, members: &Members) {
        self.surveys += 1;
        let node = self.manager.node;
        self.manager.survey = self.surveys;
        self.manager.phase = Phase::Surveying;
        self.manager.waiting = members.view(node) & !(1 << node);
        self.manager.answers.clear();
        self.manager.parts.clear();
        self.answer_survey(node);
        self.ask_again(now, members);
    }

    /// A node says what it sent and received up to the first time that it is asked in a survey.
    /// Returns how many bytes that takes.
    fn answer_survey(&mut self, node: u16) -> u64 {
        let own = &mut self.nodes[usize::from(node)];
        if std::mem::replace(&mut own.survey, self.surveys) != self.surveys {
            (own.is_spoilt, own.parts) = (false, 0);
            own.next = self.logs.next_name(node).number;
            self.manager.answers.insert(node, self.logs.answer(node));
        }
        self.manager.answers.get(&node).map_or(0, |answer| {
            SENT * answer.sent.len() as u64 + RECEIVED * answer.received.len() as u64
        })
    }

    /// The manager knows what is missing, and in which order it must be retransmitted.
    fn make_plan(&mut self, now: Time, members: &Members) {
        let node = self.manager.node;
        let mut survey = Survey::default();
        for place in 0..self.nodes.len() as u16 {
            let answer = self.manager.answers.remove(&place);
            let Answer { first, sent, received } = answer.unwrap_or_default();
            survey.first.push(first);
            survey.sent.push(sent);
            survey.received.push(received);
        }
        let again = match plan(&survey, members.view(node)) {
            Ok(again) => again,
            Err(error) => {
                self.acts.push_back(SoftwareAct::Contradiction(error.to_string()));
                return;
            }
        };
        self.manager.plan.clear();
        self.manager.is_late = false;
        // No node retransmits before the plan is made, so none of these packets was lost here.
        self.of(node).is_spoilt = false;
        for mut one in again {
            // An acknowledgment of an adapter may still be in flight: it is late and not lost.
            let Some(entry) = self.logs.entry(one.packet) else { continue };
            one.targets &= !entry.taken;
            self.manager.is_late |= one.targets & !entry.lost != 0;
            one.targets &= entry.lost;
            if one.targets != 0 {
                self.manager.plan.push_back(one);
            }
        }
        self.go_on(now, members);
    }

    /// The next packets of the plan, all of one sender; behind the last one everything is surveyed
    /// again, and if nothing was missing, the paths are opened.
    fn go_on(&mut self, now: Time, members: &Members) {
        let node = self.manager.node;
        let is_clean = self.manager.phase == Phase::Surveying;
        let Some(first) = self.manager.plan.front() else {
            if !is_clean || self.manager.is_late || !self.open_path(node) {
                return self.survey(now, members);
            }
            self.manager.phase = Phase::Opening;
            self.manager.waiting = members.view(node) & !(1 << node);
            return self.ask_again(now, members);
        };
        let sender = first.packet.sender;
        self.manager.phase = Phase::Replaying;
        let same = |one: &&Retransmission| one.packet.sender == sender;
        let count = self.manager.plan.iter().take_while(same).take(BATCH).count();
        self.manager.batch = self.manager.plan.drain(..count).collect();
        self.manager.progress += 1;
        self.await_progress();
        let survey = self.manager.survey;
        let sender = u16::from(sender.0);
        if sender == node {
            self.send_again(sender);
            self.tell(node, 1 << node, 0, (Kind::SentAgain, survey));
        } else {
            let bytes = count as u64 * ENTRY;
            self.tell(node, 1 << sender, bytes, (Kind::SendAgain, survey));
        }
    }

    /// A node sends the packets of a request again, over pages enabled under error.
    fn send_again(&mut self, node: u16) {
        let survey = self.manager.survey;
        let batch = std::mem::take(&mut self.manager.batch);
        for Retransmission { packet: name, targets } in batch {
            let Some(entry) = self.logs.entry(name) else { continue };
            // A node that was isolated since the plan was made misses it for good, and that was
            // counted.
            let targets = targets & entry.lost;
            if targets == 0 {
                continue;
            }
            entry.lost &= !targets;
            let (number, packet) = (name.number, entry.packet);
            self.counts.again += u64::from(targets.count_ones());
            let again = SoftwareAct::Again { from: node, targets, number, survey, packet };
            self.acts.push_back(again);
        }
        self.acts.push_back(SoftwareAct::Wake(node));
    }

    /// A node takes ordinary packets again, unless its adapter has answered a request since the
    /// node was surveyed, which may have been lost.
    fn open_path(&mut self, node: u16) -> bool {
        let next = self.logs.next_name(node).number;
        let survey = self.manager.survey;
        let own = self.of(node);
        if own.opened == survey {
            return true;
        }
        if own.next == next {
            own.opened = survey;
            own.path.recover();
            own.path.resume();
        }
        own.next == next
    }

    fn resume(&mut self, now: Time, members: &Members) {
        let Manager { node, number, .. } = self.manager;
        self.manager.phase = Phase::Idle;
        let others = members.view(node) & !(1 << node);
        self.tell(node, others, 0, (Kind::Resume, number));
        self.go(now, node, members);
    }

    /// A node sends ordinary packets again.
    fn go(&mut self, now: Time, node: u16, members: &Members) {
        self.of(node).is_halted = false;
        self.acts.push_back(SoftwareAct::Wake(node));
        self.look_for_the_end(now, members);
    }

    /// The recovery is over when everybody is as usual and nothing is missing.
    fn look_for_the_end(&mut self, now: Time, members: &Members) {
        let on_line = members.alive() & !members.isolated();
        let is_usual = self.nodes.iter().enumerate().all(|(node, own)| {
            let is_there = on_line >> node & 1 == 1;
            !is_there || (own.path.state() == PathState::Normal && !own.is_halted)
        });
        if is_usual
            && !self.logs.is_anything_lost()
            && let Some(since) = self.open_since.take()
        {
            self.counts.spans.push(now.since(since));
            self.logs.forget_all();
        }
    }

    /// A message of the recovery is in the memory of a node.
    pub fn hear(
        &mut self,
        now: Time,
        (node, from): (u16, u16),
        message: RecoveryMessage,
        members: &Members,
    ) {
        let RecoveryMessage { kind, number, parts, .. } = message;
        self.of(node).heard = now;
        let survey = self.manager.survey;
        let is_manager = self.manager.node == node;
        match kind {
            Kind::Report => {
                let is_idle = self.manager.phase == Phase::Idle || !is_manager;
                if is_manager && is_idle && number != 0 && number == self.recoveries {
                    self.tell(node, 1 << from, 0, (Kind::Resume, number));
                } else if members.manager_of(node) == node && is_idle {
                    self.begin(now, node, members);
                }
            }
            Kind::Halt if number == self.recoveries => {
                self.of(node).recovery = number;
                self.halt(node);
                self.tell(node, 1 << from, 0, (Kind::Halted, number));
            }
            Kind::Survey if number == survey => {
                let named = self.answer_survey(node);
                self.tell(node, 1 << from, named, (Kind::Surveyed, number));
            }
            Kind::SendAgain if number == survey => {
                let own = self.of(node);
                own.parts += 1;
                if own.parts == parts {
                    own.parts = 0;
                    self.send_again(node);
                    self.tell(node, 1 << from, 0, (Kind::SentAgain, number));
                }
            }
            Kind::Open if number == survey => {
                let kind = if self.open_path(node) { Kind::Opened } else { Kind::Late };
                self.tell(node, 1 << from, 0, (kind, number));
            }
            Kind::Resume if number == self.of(node).recovery => {
                let state = self.of(node).path.state();
                if state == PathState::Normal && number == self.recoveries {
                    self.go(now, node, members);
                }
            }
            _ if is_manager => self.hear_answer(now, from, message, members),
            _ => {}
        }
    }

    /// The manager hears a response.
    fn hear_answer(&mut self, now: Time, from: u16, message: RecoveryMessage, members: &Members) {
        let RecoveryMessage { kind, number, part, parts } = message;
        let manager = &mut self.manager;
        match (kind, manager.phase) {
            (Kind::Halted, Phase::Halting) if number == manager.number => {}
            (Kind::Opened, Phase::Opening) if number == manager.survey => {}
            (Kind::Surveyed, Phase::Surveying) if number == manager.survey => {
                manager.parts.insert((from, part));
                let came = manager.parts.range((from, 0)..=(from, u32::MAX)).count();
                if came < parts as usize {
                    // It had an effect: only silence makes the manager ask again.
                    manager.progress += 1;
                    return self.await_progress();
                }
            }
            (Kind::Late, Phase::Opening) if number == manager.survey => {
                return self.survey(now, members);
            }
            (Kind::SentAgain, Phase::Replaying) if number == manager.survey => {
                return self.go_on(now, members);
            }
            _ => return,
        }
        manager.waiting &= !(1 << from);
        if manager.waiting == 0 {
            self.ask_again(now, members);
        }
    }
}
