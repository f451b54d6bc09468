//! An end of the model whose descriptor is passed to code without this library.

use super::{Flaw, Model};
use crate::detour::{Begun, Detour};
use crate::migration::Role;
use crate::migration::back::{self, Answer, Departure, Found, Hearing, Waited};

/// How far an end has departed whose descriptor is passed to code without this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Leaving {
    /// It may yet begin.
    NotYet,
    /// It has refused the rest, or could not, and is to look what is left.
    Refused { has_left: bool, is_before: bool },
    /// It waits for the other end to hear of it.
    Hearing,
    /// Both directions return.
    Settling,
    /// The refusal stands, and the process that has the descriptor reads only the kernel's stream.
    Stands,
    /// Both directions have returned, and the process that has the descriptor reads only the
    /// kernel's stream.
    Done,
    /// It could not leave, and reads the ring itself.
    Stays,
}

/// What an end knows, beside the words, that waits for the other to hear of a refusal.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    waited: Waited,
    is_alone: bool,
    is_wanted: bool,
}

/// It has only just begun to wait; it has waited for long, alone; it has waited too long, with a
/// call inside that wants to read, or without one.
pub(super) const PATIENCE: [Patience; 4] = [
    Patience { waited: Waited::Briefly, is_alone: false, is_wanted: false },
    Patience { waited: Waited::Long, is_alone: true, is_wanted: false },
    Patience { waited: Waited::TooLong, is_alone: false, is_wanted: true },
    Patience { waited: Waited::TooLong, is_alone: false, is_wanted: false },
];

impl Model {
    /// Brings an end a step further whose descriptor leaves.
    pub(super) fn leave(&mut self, role: Role) -> Option<()> {
        let (end, joined) = (&self.ends[role as usize], self.has_joined(role));
        let leaving = match end.leaving {
            Leaving::NotYet if joined => self.refuse_rest(role),
            Leaving::Refused { has_left, is_before } if end.ended == 2 => {
                self.look_what_is_left(role, has_left, is_before)
            }
            _ => return None,
        };
        self.end(role).leaving = leaving;
        Some(())
    }

    fn refuse_rest(&mut self, role: Role) -> Leaving {
        self.look(role);
        if Detour::with(self.ways[role.peer() as usize].words).begun() == Begun::NotYet {
            // It could not be refused, and never begins.
            for way in &mut self.ways {
                way.with(|_, words, ring| words.end(ring));
            }
            self.end(role).ended = 2;
        }
        if self.flaw == Flaw::RefusesNothing {
            return Leaving::Settling;
        }
        self.ways[role.peer() as usize].with(|it, words, _| {
            let is_before = matches!(words.begun(), Begun::After(begun) if begun > it.taken);
            let has_left = it.receiver.leave(words, &it.ring.reader, it.taken);
            Leaving::Refused { has_left, is_before }
        })
    }

    fn look_what_is_left(&mut self, role: Role, has_left: bool, is_before: bool) -> Leaving {
        self.ways[role.peer() as usize].with(|it, words, ring| {
            let is_rest = it.ring.reader.available(ring, u64::MAX).unwrap() > 0;
            let found = Found { has_left, is_rest, is_before, refusal: words.refusal() };
            match back::depart(found) {
                Departure::Stay => Leaving::Stays,
                Departure::Hear => Leaving::Hearing,
                Departure::Withdraw => {
                    it.receiver.withdraw(words);
                    Leaving::Settling
                }
                Departure::Settle => Leaving::Settling,
            }
        })
    }

    /// Looks whether the other end has heard of the refusal.
    pub(super) fn hear(&mut self, role: Role, patience: Patience) -> Option<()> {
        // An end that leaves sends first what the other has refused.
        let hears = self.end(role).leaving == Leaving::Hearing && self.sends_by_kernel(role);
        hears.then_some(())?;
        let is_over = !self.end(role.peer()).lives;
        let Patience { waited, is_alone, is_wanted } = patience;
        let way = &mut self.ways[role.peer() as usize];
        let leaving = way.with(|it, words, _| {
            let refusal = words.refusal();
            let can_copy = true;
            let known = Hearing { refusal, is_over, waited, is_alone, is_wanted, can_copy };
            Some(match back::hear(known) {
                Answer::Heard => Leaving::Settling,
                Answer::Stand => Leaving::Stands,
                Answer::Gone => Leaving::Stays,
                Answer::TakeBack if it.receiver.withdraw(words) => Leaving::Stays,
                Answer::TakeBack | Answer::Wait => return None,
            })
        })?;
        self.end(role).leaving = leaving;
        Some(())
    }
}
