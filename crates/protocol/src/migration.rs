//! The migration of a connection between the kernel's socket and shared memory, as one machine for
//! each end: what has happened goes in as an [`Event`], what to do comes out as an [`Action`].
//!
//! Both ends agree first, and never wait for each other:
//!
//! ```text
//!            client                                      server
//!   Candidate   calls at the meeting place      Candidate   waits at the meeting place
//!       |       and hands a segment over            |
//!       |                                       Listening   takes the segment
//!    Offered    sees that the server is ready       |       |
//!       |                                           |    Offered    while calls are inside
//!    Joining    keeps other calls out            Joining    keeps other calls out
//!       |  Server -> Both                           |  Nobody -> Server
//!     Ready     learns what the socket is set to  Ready     learns what the socket is set to
//!       |                                           |
//!     Joined    looks into the segment           Joined     looks into the segment
//! ```
//!
//! The words between the columns are the states of the [`Agreement`] in the segment: which ends read
//! it. Once it is [`Agreed::Both`], each direction switches and returns on its own, by its
//! own [`detour`](crate::detour); [`switch`] says when, and [`back`] what an end does to return. An end
//! whose directions have both returned is [`Phase::PLAIN`], as is one that gives up before it has
//! joined. It may give up at any moment: until both are ready it revokes the agreement, and the other
//! end, joined or not, never writes to a ring that is not read.
//!
//! The machine makes no call and has no memory of its own: its two words lie where the caller puts
//! them. [`step`] is all that it knows; `migration/model.rs` lets two ends run through every
//! interleaving of their events, also with one that dies.

pub mod back;

use crate::detour::{Detour, Outlet, Sender};
use crate::sync::{AtomicU32, Ordering};

/// Which end of the connection: also the index of its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Role {
    /// The end that called `connect`; it makes the segment.
    Client = 0,
    /// The end that `accept` returned.
    Server = 1,
}

impl Role {
    /// The other end.
    #[inline(always)]
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// How far an end has come. They are ordered: those before [`Phase::JOINED`] may yet join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Phase(u32);

impl Phase {
    /// There is no connection.
    pub const FREE: Self = Self(0);
    /// It may be accelerated; this end has nothing of the other yet.
    pub const CANDIDATE: Self = Self(1);
    /// The server waits for the client's offer.
    pub const LISTENING: Self = Self(2);
    /// The client has offered a segment, or the server has taken it.
    pub const OFFERED: Self = Self(3);
    /// This end keeps other calls out of the connection, to join.
    pub const JOINING: Self = Self(4);
    /// It has announced that it reads the segment, and learns what the calls that it kept out need.
    pub const READY: Self = Self(5);
    /// This end looks for what the other announces in the segment.
    pub const JOINED: Self = Self(6);
    /// Left to the kernel for good.
    pub const PLAIN: Self = Self(7);

    /// Whether it may still join.
    #[inline]
    pub fn may_join(self) -> bool {
        self < Self::JOINED
    }

    /// Whether one call is just joining it, which others wait for.
    #[inline]
    pub fn is_joining(self) -> bool {
        matches!(self, Self::JOINING | Self::READY)
    }
}

/// Which ends have announced that they read the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Agreed {
    /// Nobody yet: the client has offered it.
    Nobody,
    /// The server.
    Server,
    /// Both: from now on each direction may switch.
    Both,
    /// An end stays with the kernel, and so both do.
    Revoked,
}

/// The word of a segment that the two ends agree by. All zeroes is [`Agreed::Nobody`].
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Agreement {
    word: AtomicU32,
}

impl Agreement {
    /// What is agreed. A word that no end of this library writes revokes it.
    #[inline]
    pub fn agreed(&self) -> Agreed {
        match self.word.load(Ordering::SeqCst) {
            0 => Agreed::Nobody,
            1 => Agreed::Server,
            2 => Agreed::Both,
            _ => Agreed::Revoked,
        }
    }

    /// Changes what is agreed, unless the other end has done so meanwhile. Whether it did.
    fn change(&self, from: Agreed, to: Agreed) -> bool {
        let order = Ordering::SeqCst;
        self.word.compare_exchange(from as u32, to as u32, order, order).is_ok()
    }
}

/// What has happened at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A call has come that has the time to look for the other end.
    Called,
    /// The server waits at the meeting place.
    Listens,
    /// The server waits there no more, since the program needs its descriptor.
    Left,
    /// The segment is at both ends: the client has handed it over, or the server has taken it.
    Shared,
    /// A call is inside that could not be kept out.
    Busy,
    /// No call is inside, and what was ever taken out of the kernel's stream is counted.
    Prepared,
    /// All is known that a call needs which moves bytes by the segment.
    Learned,
    /// This end stays with the kernel, for a reason of its own.
    Refused,
    /// The program shuts down the kernel's sending direction, without which this end could ring no
    /// doorbell.
    Shut,
    /// Both directions are the kernel's again, or the connection is over.
    Returned,
    /// The last descriptor is closed.
    Closed,
}

/// What an end must do next. Its result is the next event; there is none if nothing comes of it,
/// because the other end is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing.
    Rest,
    /// Call at the meeting place and hand a segment over: [`Event::Shared`].
    Offer,
    /// Wait at the meeting place: [`Event::Listens`].
    Listen,
    /// See whether the client has come, and take the segment: [`Event::Shared`]. Where it cannot be used, say so at
    /// the meeting place: [`Event::Refused`].
    Take,
    /// Ask whether the server has refused the segment, or has taken it and cannot use it: [`Event::Refused`].
    AskForRefusal,
    /// Keep other calls out, and count what was ever taken out of the kernel's stream:
    /// [`Event::Prepared`], or [`Event::Busy`].
    Prepare,
    /// Learn what a call needs that moves bytes by the segment: [`Event::Learned`].
    Learn,
    /// Tell all threads that wait for the connection that this end reads the segment.
    Follow,
    /// Stay with the kernel, as the other end does: [`Event::Refused`].
    GiveUp,
    /// Apply to the kernel's socket what the program has done to the connection:
    /// [`Event::Returned`]. Until then calls do not go to the kernel alone, where they would wait
    /// for what never comes.
    TellKernel,
    /// Count the connection as left to the kernel, which it just was.
    Leave,
}

/// What an event leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition {
    /// The phase from now on.
    pub phase: Phase,
    /// What is agreed from now on.
    pub agreed: Agreed,
    /// What to do.
    pub action: Action,
}

impl Transition {
    const fn to(self, phase: Phase, action: Action) -> Self {
        Self { phase, action, ..self }
    }

    const fn agreeing(self, agreed: Agreed) -> Self {
        Self { agreed, ..self }
    }
}

/// The transition of an end in this phase and with this agreement, at an event. An event that does
/// not belong there changes nothing.
pub const fn step(phase: Phase, role: Role, agreed: Agreed, event: Event) -> Transition {
    use Role::{Client, Server};
    let stays = Transition { phase, agreed, action: Action::Rest };
    match (event, phase, role) {
        (Event::Called, ..) => called(stays, role),
        (Event::Listens, Phase::CANDIDATE, Server) => stays.to(Phase::LISTENING, Action::Rest),
        (Event::Left, Phase::LISTENING, Server) => stays.to(Phase::CANDIDATE, Action::Rest),
        // The response comes at a later call.
        (Event::Shared, Phase::CANDIDATE, Client) => stays.to(Phase::OFFERED, Action::Rest),
        (Event::Shared, Phase::LISTENING, Server) => stays.to(Phase::JOINING, Action::Prepare),
        (Event::Busy, Phase::JOINING, _) => stays.to(Phase::OFFERED, Action::Rest),
        (Event::Prepared, Phase::JOINING, _) => prepared(stays, role),
        (Event::Learned, Phase::READY, _) => stays.to(Phase::JOINED, Action::Follow),
        (Event::Refused, ..) => refused(stays),
        (Event::Shut, Phase::JOINED, _) if matches!(agreed, Agreed::Server) => {
            stays.to(Phase::JOINED, Action::TellKernel).agreeing(Agreed::Revoked)
        }
        (Event::Returned, Phase::JOINED, _) => stays.to(Phase::PLAIN, Action::Leave),
        // An end that is ready hears of it from the kernel.
        (Event::Closed, ..) if matches!(agreed, Agreed::Nobody) => stays.agreeing(Agreed::Revoked),
        _ => stays,
    }
}

const fn called(stays: Transition, role: Role) -> Transition {
    use Role::{Client, Server};
    match (stays.phase, role, stays.agreed) {
        (Phase::CANDIDATE, Client, _) => stays.to(Phase::CANDIDATE, Action::Offer),
        (Phase::CANDIDATE, Server, _) => stays.to(Phase::CANDIDATE, Action::Listen),
        (Phase::LISTENING, Server, _) => stays.to(Phase::LISTENING, Action::Take),
        (Phase::OFFERED, Client, Agreed::Nobody) => stays.to(Phase::OFFERED, Action::AskForRefusal),
        (Phase::OFFERED, Client, Agreed::Server) => stays.to(Phase::JOINING, Action::Prepare),
        (Phase::OFFERED, Server, Agreed::Nobody) => stays.to(Phase::JOINING, Action::Prepare),
        (Phase::OFFERED, ..) => stays.to(Phase::OFFERED, Action::GiveUp),
        _ => stays,
    }
}

/// Says that this end looks into the segment, unless the other has revoked the agreement.
const fn prepared(stays: Transition, role: Role) -> Transition {
    let agreed = match (role, stays.agreed) {
        (Role::Server, Agreed::Nobody) => Agreed::Server,
        (Role::Client, Agreed::Server) => Agreed::Both,
        _ => return stays.to(Phase::JOINING, Action::GiveUp),
    };
    stays.to(Phase::READY, Action::Learn).agreeing(agreed)
}

/// Gives up before this end has announced that it reads the segment. Neither direction switches
/// afterwards.
const fn refused(stays: Transition) -> Transition {
    let agreed = match stays.agreed {
        Agreed::Nobody | Agreed::Server => Agreed::Revoked,
        agreed => agreed,
    };
    match stays.phase {
        Phase::CANDIDATE | Phase::LISTENING | Phase::OFFERED | Phase::JOINING => {
            stays.to(Phase::PLAIN, Action::Leave).agreeing(agreed)
        }
        _ => stays,
    }
}

/// The word of one end, which all processes share that hold the connection. All zeroes is
/// [`Phase::FREE`].
///
/// Until an end has joined, one call at a time may report events, which the caller ensures;
/// afterwards any call may.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Migration {
    phase: AtomicU32,
}

/// How often the other end changes an agreement at most.
const CHANGES: u32 = 3;

impl Migration {
    /// How far this end is.
    #[inline(always)]
    pub fn phase(&self) -> Phase {
        Phase(self.phase.load(Ordering::SeqCst))
    }

    /// Begins a connection in [`Phase::CANDIDATE`], for a caller that has its place alone.
    pub fn begin(&self) {
        self.phase.store(Phase::CANDIDATE.0, Ordering::Release);
    }

    /// Ends the connection, for its last holder. Its place is then [`Phase::FREE`].
    pub fn free(&self) {
        self.phase.store(Phase::FREE.0, Ordering::Release);
    }

    /// Tells this end of an event. Without a segment there is no `agreement`, and nothing can be
    /// agreed.
    pub fn on(&self, role: Role, agreement: Option<&Agreement>, event: Event) -> Action {
        let mut looks = 0;
        loop {
            let phase = self.phase();
            // An end that changes it more often does not belong to this library.
            let agreement = agreement.filter(|_| looks <= CHANGES);
            let agreed = agreement.map_or(Agreed::Revoked, Agreement::agreed);
            let to = step(phase, role, agreed, event);
            looks += 1;
            let changes = to.agreed != agreed;
            if changes && agreement.is_some_and(|it| !it.change(agreed, to.agreed)) {
                continue;
            }
            let order = Ordering::SeqCst;
            if to.phase == phase
                || self.phase.compare_exchange(phase.0, to.phase.0, order, order).is_ok()
            {
                return to.action;
            }
        }
    }
}

/// What a sender is to do before its next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Switch {
    /// Nothing: it has switched, or not everybody looks into the segment.
    Stay,
    /// Begin the detour after as many bytes as were ever put into the kernel's stream.
    Begin,
    /// Begin the detour that has ended: no byte is going to take it.
    Skip,
}

/// The next step of the sending direction of an end that has joined. The caller holds the sending
/// half, without which no thread sends through the kernel's stream.
pub fn switch(sender: &Sender, detour: &Detour, agreement: &Agreement) -> Switch {
    if sender.outlet() != Outlet::Before {
        Switch::Stay
    } else if detour.has_ended() {
        Switch::Skip
    } else if agreement.agreed() == Agreed::Both {
        Switch::Begin
    } else {
        Switch::Stay
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a model that cannot go on fails its test")]
mod model;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PHASES: [Phase; 8] = [
        Phase::FREE,
        Phase::CANDIDATE,
        Phase::LISTENING,
        Phase::OFFERED,
        Phase::JOINING,
        Phase::READY,
        Phase::JOINED,
        Phase::PLAIN,
    ];
    const AGREED: [Agreed; 4] = [Agreed::Nobody, Agreed::Server, Agreed::Both, Agreed::Revoked];
    const EVENTS: [Event; 11] = [
        Event::Called,
        Event::Listens,
        Event::Left,
        Event::Shared,
        Event::Busy,
        Event::Prepared,
        Event::Learned,
        Event::Refused,
        Event::Shut,
        Event::Returned,
        Event::Closed,
    ];
    const ROLES: [Role; 2] = [Role::Client, Role::Server];

    fn each() -> impl Iterator<Item = Given> {
        let roles = ROLES.into_iter();
        roles.flat_map(|role| {
            PHASES.into_iter().flat_map(move |phase| {
                AGREED.into_iter().flat_map(move |agreed| {
                    EVENTS.into_iter().map(move |event| Given { phase, role, agreed, event })
                })
            })
        })
    }

    #[derive(Clone, Copy, Debug)]
    struct Given {
        phase: Phase,
        role: Role,
        agreed: Agreed,
        event: Event,
    }

    impl Given {
        fn step(self) -> Transition {
            step(self.phase, self.role, self.agreed, self.event)
        }

        fn stays(self) -> Transition {
            Transition { phase: self.phase, agreed: self.agreed, action: Action::Rest }
        }
    }

    /// The steps of a client and a server that meet, one after the other.
    #[test]
    fn two_ends_that_meet_both_join() {
        use Role::{Client, Server};
        let (ends, word) = ([Migration::default(), Migration::default()], Agreement::default());
        ends.iter().for_each(Migration::begin);
        let steps = [
            (Client, Event::Called, Action::Offer, Phase::CANDIDATE, Agreed::Nobody),
            (Server, Event::Called, Action::Listen, Phase::CANDIDATE, Agreed::Nobody),
            (Server, Event::Listens, Action::Rest, Phase::LISTENING, Agreed::Nobody),
            (Server, Event::Left, Action::Rest, Phase::CANDIDATE, Agreed::Nobody),
            (Server, Event::Listens, Action::Rest, Phase::LISTENING, Agreed::Nobody),
            (Client, Event::Called, Action::Offer, Phase::CANDIDATE, Agreed::Nobody),
            (Client, Event::Shared, Action::Rest, Phase::OFFERED, Agreed::Nobody),
            (Client, Event::Called, Action::AskForRefusal, Phase::OFFERED, Agreed::Nobody),
            (Server, Event::Called, Action::Take, Phase::LISTENING, Agreed::Nobody),
            (Server, Event::Shared, Action::Prepare, Phase::JOINING, Agreed::Nobody),
            (Server, Event::Busy, Action::Rest, Phase::OFFERED, Agreed::Nobody),
            (Server, Event::Called, Action::Prepare, Phase::JOINING, Agreed::Nobody),
            (Server, Event::Prepared, Action::Learn, Phase::READY, Agreed::Server),
            (Server, Event::Learned, Action::Follow, Phase::JOINED, Agreed::Server),
            (Client, Event::Called, Action::Prepare, Phase::JOINING, Agreed::Server),
            (Client, Event::Busy, Action::Rest, Phase::OFFERED, Agreed::Server),
            (Client, Event::Called, Action::Prepare, Phase::JOINING, Agreed::Server),
            (Client, Event::Prepared, Action::Learn, Phase::READY, Agreed::Both),
            (Client, Event::Learned, Action::Follow, Phase::JOINED, Agreed::Both),
            (Server, Event::Returned, Action::Leave, Phase::PLAIN, Agreed::Both),
            (Client, Event::Returned, Action::Leave, Phase::PLAIN, Agreed::Both),
        ];
        for (at, (role, event, action, phase, agreed)) in steps.into_iter().enumerate() {
            let end = &ends[role as usize];
            assert_eq!(end.on(role, Some(&word), event), action, "step {at}");
            assert_eq!((end.phase(), word.agreed()), (phase, agreed), "step {at}");
        }
        ends[0].free();
        assert_eq!(ends[0].phase(), Phase::FREE);
    }

    #[test]
    fn an_end_that_gives_up_revokes_what_is_not_agreed_by_both() {
        for given in each().filter(|it| it.event == Event::Refused) {
            let gives_up = given.phase >= Phase::CANDIDATE && given.phase <= Phase::JOINING;
            let agreed = match given.agreed {
                Agreed::Both => Agreed::Both,
                _ => Agreed::Revoked,
            };
            let to = Transition { phase: Phase::PLAIN, agreed, action: Action::Leave };
            assert_eq!(given.step(), if gives_up { to } else { given.stays() }, "{given:?}");
        }
    }

    #[test]
    fn who_finds_the_agreement_revoked_gives_up() {
        for role in ROLES {
            let called = step(Phase::OFFERED, role, Agreed::Revoked, Event::Called);
            assert_eq!((called.phase, called.action), (Phase::OFFERED, Action::GiveUp));
            let prepared = step(Phase::JOINING, role, Agreed::Revoked, Event::Prepared);
            assert_eq!((prepared.phase, prepared.action), (Phase::JOINING, Action::GiveUp));
        }
    }

    #[test]
    fn an_end_that_cannot_switch_any_more_takes_its_word_back_until_the_other_has_heard_it() {
        for given in each().filter(|it| it.event == Event::Shut) {
            let takes_back = given.phase == Phase::JOINED && given.agreed == Agreed::Server;
            let to = given.stays().to(Phase::JOINED, Action::TellKernel);
            let to = to.agreeing(Agreed::Revoked);
            assert_eq!(given.step(), if takes_back { to } else { given.stays() }, "{given:?}");
        }
    }

    #[test]
    fn an_offer_that_nobody_has_taken_goes_with_its_connection() {
        for given in each().filter(|it| it.event == Event::Closed) {
            let revokes = given.agreed == Agreed::Nobody;
            let agreed = if revokes { Agreed::Revoked } else { given.agreed };
            assert_eq!(given.step(), Transition { agreed, ..given.stays() }, "{given:?}");
        }
    }

    /// Another thread that shuts the connection down meanwhile has nothing to take back.
    #[test]
    fn the_kernel_is_told_before_the_connection_is_its() {
        let (end, word) = (Migration::default(), Agreement::default());
        end.begin();
        for event in [Event::Listens, Event::Shared, Event::Prepared, Event::Learned] {
            end.on(Role::Server, Some(&word), event);
        }
        let on = |event| (end.on(Role::Server, Some(&word), event), end.phase(), word.agreed());
        assert_eq!(on(Event::Shut), (Action::TellKernel, Phase::JOINED, Agreed::Revoked));
        assert_eq!(on(Event::Shut), (Action::Rest, Phase::JOINED, Agreed::Revoked));
        assert_eq!(on(Event::Returned), (Action::Leave, Phase::PLAIN, Agreed::Revoked));
        assert_eq!(on(Event::Returned), (Action::Rest, Phase::PLAIN, Agreed::Revoked));
    }

    /// What each event may lead to, in whichever phase: all the rest changes nothing.
    #[test]
    fn events_that_do_not_belong_to_a_phase_change_nothing() {
        use Role::{Client, Server};
        let mut belonging = 0;
        for given in each() {
            let belongs = match (given.event, given.phase, given.role) {
                (Event::Called, Phase::CANDIDATE | Phase::OFFERED, _)
                | (Event::Called | Event::Left, Phase::LISTENING, Server)
                | (Event::Listens, Phase::CANDIDATE, Server)
                | (Event::Shared, Phase::CANDIDATE, Client)
                | (Event::Shared, Phase::LISTENING, Server)
                | (Event::Busy | Event::Prepared, Phase::JOINING, _)
                | (Event::Learned, Phase::READY, _)
                | (Event::Returned, Phase::JOINED, _) => true,
                (Event::Refused, phase, _) => Phase::FREE < phase && phase < Phase::READY,
                (Event::Shut, phase, _) => phase == Phase::JOINED && given.agreed == Agreed::Server,
                (Event::Closed, ..) => given.agreed == Agreed::Nobody,
                _ => false,
            };
            assert_eq!(given.step() != given.stays(), belongs, "{given:?}");
            belonging += u32::from(belongs);
        }
        assert_eq!(belonging, 118);
    }

    /// The word lies in the other end's reach.
    #[test]
    fn an_agreement_that_never_stands_still_is_taken_as_revoked() {
        let word = Agreement { word: AtomicU32::new(7) };
        assert_eq!(word.agreed(), Agreed::Revoked);
        let end = Migration::default();
        end.begin();
        assert_eq!(end.on(Role::Client, Some(&word), Event::Shared), Action::Rest);
        assert_eq!(end.on(Role::Client, Some(&word), Event::Called), Action::GiveUp);
        assert_eq!(end.on(Role::Client, None, Event::Refused), Action::Leave);
        assert_eq!(end.phase(), Phase::PLAIN);
    }
}
