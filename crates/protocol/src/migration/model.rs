//! Two ends of a connection in every state that they can reach, whatever the order of their events:
//! each joins, or gives up, or dies, or migrates back, or hands its descriptor over, while both
//! send and receive.

mod leaving;
mod searches;
mod way;

use leaving::{Leaving, PATIENCE};
use way::Way;

use super::back::{self, Reception, Transmission};
use super::*;
use crate::detour::{Inlet, Refusal};

const ROLES: [Role; 2] = [Role::Client, Role::Server];

/// The meeting place, where the server's socket is, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Meeting {
    Nobody,
    Waiting,
    /// The client has brought the segment.
    Brought,
    Taken,
    /// The server has received the client's segment, cannot use it, and has said so at the meeting
    /// place.
    Declined,
}

/// One end, beside its two halves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct End {
    phase: Phase,
    /// What its call is about to do.
    action: Action,
    /// Of how many directions it has ended the detour.
    ended: u8,
    lives: bool,
    /// Whether another call may yet be found inside when it wants to join.
    may_be_busy: bool,
    /// Whether it has shut down the kernel's sending direction, without which it can ring no doorbell.
    is_shut: bool,
    leaving: Leaving,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Model {
    agreement: u32,
    meeting: Meeting,
    ends: [End; 2],
    /// By the end that writes.
    ways: [Way; 2],
    /// What the ends leave out that they should do.
    flaw: Flaw,
}

/// A defect that the search is to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Flaw {
    None,
    /// An end that gives up, or shuts its sending down, does not revoke the agreement.
    KeepsAgreement,
    /// A client does not hear that the server has left the meeting place with what it brought.
    HearsNoRefusal,
    /// A server that cannot use what it has taken does not say so.
    DeclinesSilently,
    /// An end leaves without a refusal of what it has not read.
    RefusesNothing,
    /// An end returns while the other has not yet learned of a refusal.
    ReturnsUnheard,
}

/// What the model lets happen.
#[derive(Clone, Copy)]
struct Limits {
    /// How many bytes each end writes.
    bytes: [u8; 2],
    /// Whether ends come back.
    returns: bool,
    /// Whether ends give up or die.
    fails: bool,
    /// Whose descriptor leaves.
    leaves: Option<Role>,
}

impl Model {
    fn new() -> Self {
        Self::with(Flaw::None)
    }

    fn with(flaw: Flaw) -> Self {
        let end = End {
            phase: Phase::CANDIDATE,
            action: Action::Rest,
            ended: 0,
            lives: true,
            may_be_busy: true,
            is_shut: false,
            leaving: Leaving::NotYet,
        };
        Self {
            agreement: 0,
            meeting: Meeting::Nobody,
            ends: [end.clone(), end],
            ways: [Way::new(), Way::new()],
            flaw,
        }
    }

    /// Two ends that have just joined.
    fn joined(flaw: Flaw) -> Self {
        let mut it = Self::with(flaw);
        (it.agreement, it.meeting) = (Agreed::Both as u32, Meeting::Taken);
        it.ends.iter_mut().for_each(|end| end.phase = Phase::JOINED);
        it
    }

    /// The state after a step; `None` if the step is not possible.
    fn after(&self, step: impl FnOnce(&mut Self) -> Option<()>) -> Option<Self> {
        let mut next = self.clone();
        step(&mut next)?;
        (next != *self).then_some(next)
    }

    fn end(&mut self, role: Role) -> &mut End {
        &mut self.ends[role as usize]
    }

    /// Tells an end of an event; what it is to do is its next step.
    fn tell(&mut self, role: Role, event: Event) -> Option<()> {
        let end = Migration { phase: AtomicU32::new(self.end(role).phase.0) };
        let agreement = Agreement { word: AtomicU32::new(self.agreement) };
        // Neither has a segment before the client has handed it over.
        let shared = self.end(role).phase >= Phase::OFFERED || event == Event::Shared;
        let action = end.on(role, shared.then_some(&agreement), event);
        if self.flaw != Flaw::KeepsAgreement || agreement.agreed() != Agreed::Revoked {
            self.agreement = agreement.word.load(Ordering::SeqCst);
        }
        (self.end(role).phase, self.end(role).action) = (end.phase(), action);
        Some(())
    }

    /// Does what an end is to do.
    fn act(&mut self, role: Role) -> Option<()> {
        let action = std::mem::replace(&mut self.end(role).action, Action::Rest);
        match action {
            Action::Rest => None,
            Action::Offer if self.meeting == Meeting::Waiting => {
                self.meeting = Meeting::Brought;
                self.tell(role, Event::Shared)
            }
            Action::Listen => {
                self.meeting = Meeting::Waiting;
                self.tell(role, Event::Listens)
            }
            Action::Take if self.meeting == Meeting::Brought => {
                self.meeting = Meeting::Taken;
                self.tell(role, Event::Shared)
            }
            Action::AskForRefusal
                if matches!(self.meeting, Meeting::Nobody | Meeting::Declined)
                    && self.flaw != Flaw::HearsNoRefusal =>
            {
                self.tell(role, Event::Refused)
            }
            Action::Prepare => self.tell(role, Event::Prepared),
            Action::Learn => self.tell(role, Event::Learned),
            Action::GiveUp => self.tell(role, Event::Refused),
            Action::TellKernel => {
                self.end(role).is_shut = true;
                self.tell(role, Event::Returned)
            }
            Action::Offer
            | Action::Take
            | Action::AskForRefusal
            | Action::Follow
            | Action::Leave => Some(()),
        }
    }

    /// Takes what the client has brought, and cannot use it: there is no word yet by which the two agree.
    fn decline(&mut self, role: Role) -> Option<()> {
        if self.end(role).action != Action::Take || self.meeting != Meeting::Brought {
            return None;
        }
        let is_said = self.flaw != Flaw::DeclinesSilently;
        self.meeting = if is_said { Meeting::Declined } else { Meeting::Taken };
        self.tell(role, Event::Refused)
    }

    /// Finds another call inside.
    fn be_busy(&mut self, role: Role) -> Option<()> {
        let end = self.end(role);
        if end.action != Action::Prepare || !end.may_be_busy {
            return None;
        }
        end.may_be_busy = false;
        self.tell(role, Event::Busy)
    }

    /// Leaves the meeting place, where no client has come yet.
    fn stop_waiting(&mut self, role: Role) -> Option<()> {
        let waits = role == Role::Server && self.meeting == Meeting::Waiting;
        if !waits || self.end(role).action != Action::Rest || !self.end(role).may_be_busy {
            return None;
        }
        self.end(role).may_be_busy = false;
        self.meeting = Meeting::Nobody;
        self.tell(role, Event::Left)
    }

    /// Gives up, and with it what it has at the meeting place.
    fn refuse(&mut self, role: Role) -> Option<()> {
        self.leave_meeting(role);
        self.tell(role, Event::Refused)
    }

    /// The server's socket is closed, and with it goes a segment of the client that was not received.
    fn leave_meeting(&mut self, role: Role) {
        if role == Role::Server && matches!(self.meeting, Meeting::Waiting | Meeting::Brought) {
            self.meeting = Meeting::Nobody;
        }
    }

    fn die(&mut self, role: Role) -> Option<()> {
        if self.ends.iter().any(|end| !end.lives) {
            return None;
        }
        self.leave_meeting(role);
        self.end(role).lives = false;
        Some(())
    }

    /// Whether calls move bytes at this end: while it joins they are kept out.
    fn moves(&self, role: Role) -> bool {
        !self.ends[role as usize].phase.is_joining()
    }

    fn has_joined(&self, role: Role) -> bool {
        self.ends[role as usize].phase == Phase::JOINED
    }

    fn write(&mut self, role: Role, limits: Limits) -> Option<()> {
        let joined = self.has_joined(role);
        let moves = self.moves(role);
        let (is_shut, way) = (self.ends[role as usize].is_shut, &mut self.ways[role as usize]);
        if !moves || is_shut || way.next > limits.bytes[role as usize] {
            return None;
        }
        match way.sender.outlet() {
            Outlet::Ring if joined => way.publish()?,
            Outlet::Before | Outlet::After => way.put(),
            Outlet::Ring | Outlet::Rest(_) => return None,
        }
        Some(())
    }

    /// Switches the sending direction, if it is time.
    fn switch(&mut self, role: Role) -> Option<()> {
        if !self.has_joined(role) {
            return None;
        }
        let agreement = Agreement { word: AtomicU32::new(self.agreement) };
        self.ways[role as usize].with(|it, words, _| {
            match switch(&it.sender, words, &agreement) {
                Switch::Stay => return None,
                Switch::Skip => it.sender.begin(words, 0),
                Switch::Begin => it.sender.begin(words, it.put_in),
            }
            Some(())
        })
    }

    fn read(&mut self, role: Role) -> Option<()> {
        if !self.moves(role) {
            return None;
        }
        if !self.has_joined(role) || self.end(role).leaving == Leaving::Stands {
            let is_back = self.ways[role.peer() as usize].read_of[1..] != [false; 2];
            return self.ways[role.peer() as usize].take(if is_back { 2 } else { 0 });
        }
        let (inlet, reception) = self.look(role);
        let way = &mut self.ways[role.peer() as usize];
        match (reception, inlet) {
            (Reception::Settle, _) => None,
            // The direction may have gone over without a byte.
            (Reception::Arrive, _) => way.empty().or(Some(())),
            (_, Inlet::Before { left: 1.. }) => way.take(0),
            (_, Inlet::Ring) => way.empty(),
            (_, Inlet::After) => way.take(2),
            (_, inlet) => panic!("{inlet:?} without a doorbell"),
        }
    }

    /// Where the next byte to read comes from, and what is to be done for it. A direction that goes over to the
    /// ring does so here.
    fn look(&mut self, role: Role) -> (Inlet, Reception) {
        let flaw = self.flaw;
        let way = &mut self.ways[role.peer() as usize];
        let has_arrived = way.receiver.is_in_ring();
        let inlet = way.inlet();
        let refusal = || match Detour::with(way.words).refusal() {
            Refusal::Unheard if flaw == Flaw::ReturnsUnheard => Refusal::None,
            refusal => refusal,
        };
        // A direction that has returned looks as one that is about to.
        let reception = back::receive(inlet, has_arrived, false, refusal);
        if reception == Reception::Arrive {
            // This end's own direction switches first.
            let _ = self.switch(role);
        }
        (inlet, reception)
    }

    /// Ends one detour after the other.
    fn turn_back(&mut self, role: Role) -> Option<()> {
        let ended = self.end(role).ended;
        if !self.has_joined(role) || ended == 2 {
            return None;
        }
        self.ways[usize::from(ended)].with(|_, words, ring| words.end(ring));
        self.end(role).ended += 1;
        Some(())
    }

    /// Brings the sending direction a step further whose detour has ended.
    fn come_back(&mut self, role: Role) -> Option<()> {
        let joined = self.has_joined(role);
        self.ways[role as usize].with(|it, words, _| {
            (joined && words.has_ended()).then_some(())?;
            match back::send(it.sender.outlet(), true) {
                Transmission::Switch => it.sender.begin(words, 0),
                Transmission::ComeBack => it.sender.come_back(words, &it.ring.writer).unwrap(),
                Transmission::SendRest => {
                    let Outlet::Rest(from) = it.sender.outlet() else { panic!("there is no rest") };
                    it.first.push(it.ring.written_at(from));
                    it.sender.sent_rest(words, &it.ring.writer, 1);
                }
                Transmission::Rest | Transmission::Return => return None,
            }
            Some(())
        })
    }

    /// Whether the sending direction is the kernel's again, or as good as that.
    fn sends_by_kernel(&self, role: Role) -> bool {
        let outlet = self.ways[role as usize].sender.outlet();
        back::send(outlet, false) == Transmission::Return
    }

    /// Leaves the connection to the kernel once both directions are its again.
    fn settle(&mut self, role: Role) -> Option<()> {
        if !self.has_joined(role) || !self.sends_by_kernel(role) {
            return None;
        }
        let leaving = self.end(role).leaving;
        let looks = self.flaw != Flaw::RefusesNothing || leaving != Leaving::Settling;
        if looks && self.look(role).1 != Reception::AskForEnd {
            return None;
        }
        if matches!(leaving, Leaving::Settling | Leaving::Stands) {
            self.end(role).leaving = Leaving::Done;
        }
        self.tell(role, Event::Returned)
    }

    fn successors(&self, limits: Limits) -> Vec<Self> {
        let mut next = Vec::new();
        for role in ROLES.into_iter().filter(|role| self.ends[*role as usize].lives) {
            let rests = self.ends[role as usize].action == Action::Rest;
            next.extend([
                self.after(|it| rests.then(|| it.tell(role, Event::Called))?),
                self.after(|it| it.act(role)),
                self.after(|it| it.be_busy(role)),
                self.after(|it| it.stop_waiting(role)),
                self.after(|it| it.write(role, limits)),
                self.after(|it| it.switch(role)),
                self.after(|it| it.read(role)),
            ]);
            if limits.returns {
                next.extend([
                    self.after(|it| it.turn_back(role)),
                    self.after(|it| it.come_back(role)),
                    self.after(|it| it.settle(role)),
                ]);
            }
            if limits.leaves == Some(role) {
                next.push(self.after(|it| it.leave(role)));
                next.extend(PATIENCE.map(|patience| self.after(|it| it.hear(role, patience))));
            }
            if limits.fails {
                next.extend([
                    self.after(|it| rests.then(|| it.refuse(role))?),
                    self.after(|it| rests.then(|| it.tell(role, Event::Shut))?),
                    self.after(|it| it.decline(role)),
                    self.after(|it| it.die(role)),
                ]);
            }
        }
        next.into_iter().flatten().collect()
    }

    /// Whether all is read that was written to an end that lives.
    fn is_read(&self) -> bool {
        ROLES.into_iter().all(|role| {
            !self.ends[role.peer() as usize].lives || self.ways[role as usize].is_read()
        })
    }

    /// Whether each end has joined and writes by the ring.
    fn is_accelerated(&self) -> bool {
        ROLES.into_iter().all(|role| {
            self.has_joined(role) && self.ways[role as usize].sender.outlet() == Outlet::Ring
        })
    }

    /// Whether an end writes where the other, which has given up, does not look.
    fn writes_to_nobody(&self) -> bool {
        ROLES.into_iter().any(|role| {
            let peer = role.peer() as usize;
            let gave_up = self.ends[peer].phase == Phase::PLAIN
                && self.ways[peer].sender.outlet() == Outlet::Before;
            gave_up && self.ways[role as usize].sender.outlet() == Outlet::Ring
        })
    }

    /// Whether an end waits for what the other is to do: for its word, or for a wake-up once it writes to
    /// the ring. The kernel tells it of one that has died.
    fn waits(&self) -> bool {
        let word = Agreement { word: AtomicU32::new(self.agreement) };
        let awaits_word = |role| match (role, self.ends[role as usize].phase, word.agreed()) {
            (Role::Client, Phase::OFFERED, Agreed::Nobody)
            | (Role::Server, Phase::JOINED, Agreed::Server) => true,
            (_, Phase::JOINED, _) => {
                let is_in_ring = self.ways[role as usize].sender.outlet() == Outlet::Ring;
                is_in_ring && self.ends[role.peer() as usize].is_shut
            }
            _ => false,
        };
        self.ends.iter().all(|end| end.lives) && ROLES.into_iter().any(awaits_word)
    }
}
