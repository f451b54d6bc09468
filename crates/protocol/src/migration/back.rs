//! Migration of an end from shared memory back to the kernel: the next step of each of its
//! directions, and how a descriptor departs that is passed to code without this library.
//!
//! The end that migrates ends both detours. From then on each end asks [`send`] and [`receive`] for
//! the next step of its directions; once both have returned, the event is
//! [`Event::Returned`](super::Event::Returned). An end that departs first refuses what it has not
//! read, and asks [`depart`] and then [`hear`] whether the other end sends that again through the
//! kernel.
//!
//! ```text
//!   refuse the rest, end both detours
//!        |
//!     depart ---- Stay: the writer has already gone on, a relay process must copy
//!        |
//!        +------- Settle: nothing is left ---------------+
//!        |                                               |
//!      Hear: hear ---- Heard: the other end sends it ----+---- both directions return
//!        |
//!        +---- TakeBack: the other end does nothing for long, a relay process must copy
//!        +---- Stand: no relay process is possible, the rest comes with the other end's next call
//! ```

use crate::detour::{Inlet, Outlet, Refusal};

/// The next step of a receiving direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// Read where the inlet says.
    Read,
    /// Switch to the ring, after this end's own sending direction: a reader of the ring must be
    /// able to wake the other end.
    Arrive,
    /// Wait: it is not decided yet where the next byte comes from.
    Settle,
    /// Check whether the other end has announced the end of its stream in the segment, but has not
    /// yet shut down its kernel socket. If so, [wait](Reception::Settle): its next call does that.
    /// Otherwise [return](Reception::Return).
    AskForEnd,
    /// Shut down the kernel's receiving direction if this end reads no more; then the direction is
    /// the kernel's.
    Return,
}

/// The next step of a receiving direction, by where its next byte comes from. `has_arrived` says
/// whether it has switched to the ring, `is_back` whether it is the kernel's again; `refusal` is
/// called only if it matters.
#[inline(always)]
pub fn receive(
    inlet: Inlet,
    has_arrived: bool,
    is_back: bool,
    refusal: impl Fn() -> Refusal,
) -> Reception {
    match inlet {
        Inlet::Ring if !has_arrived => Reception::Arrive,
        // The refusal may yet be taken back; then a sleeping reader must read the ring, for which a
        // doorbell wakes it.
        Inlet::Doorbells(_) | Inlet::After if refusal() == Refusal::Unheard => Reception::Settle,
        Inlet::After if !is_back => Reception::AskForEnd,
        _ => Reception::Read,
    }
}

/// What follows [`Reception::AskForEnd`].
pub const fn asked_for_end(is_said: bool) -> Reception {
    if is_said { Reception::Settle } else { Reception::Return }
}

/// The next step of a sending direction whose detour has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmission {
    /// Nothing: it is the kernel's.
    Rest,
    /// Skip the detour.
    Switch,
    /// Disable the doorbell, and return to the kernel before the next byte.
    ComeBack,
    /// Send what the other end has refused through the kernel, as far as there is room.
    SendRest,
    /// Shut down the kernel's sending direction if this end sends no more; then the direction is
    /// the kernel's.
    Return,
}

/// The next step of a sending direction, by where its next byte belongs; `is_back` says whether it
/// is the kernel's again.
#[inline]
pub const fn send(outlet: Outlet, is_back: bool) -> Transmission {
    match outlet {
        Outlet::Before => Transmission::Switch,
        Outlet::Ring => Transmission::ComeBack,
        Outlet::Rest(_) => Transmission::SendRest,
        Outlet::After if !is_back => Transmission::Return,
        Outlet::After => Transmission::Rest,
    }
}

/// What an end that leaves has found when it had ended both detours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whether the receiver left the ring, by a refusal where anything might follow.
    pub has_left: bool,
    /// Whether bytes of the ring, or the end behind it, are unread.
    pub is_rest: bool,
    /// Whether bytes of the kernel's stream before the ring are unread.
    pub is_before: bool,
    /// What became of the refusal.
    pub refusal: Refusal,
}

/// How an end leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It cannot depart: it must read the ring itself, and copy for the process that gets the
    /// descriptor.
    Stay,
    /// It waits until the other end [hears](hear) of the refusal.
    Hear,
    /// Nothing was refused that is there: the refusal is taken back, and both directions return.
    Withdraw,
    /// Both directions return.
    Settle,
}

/// How an end leaves that has found this.
pub const fn depart(found: Found) -> Departure {
    let is_refused = !matches!(found.refusal, Refusal::None);
    match found {
        Found { has_left: true, is_rest: true, .. } if is_refused => Departure::Hear,
        Found { has_left: true, is_rest: true, .. } => Departure::Settle,
        Found { has_left: true, .. } => Departure::Withdraw,
        Found { is_rest: false, is_before: false, .. } => Departure::Settle,
        Found { .. } => Departure::Stay,
    }
}

/// How long the other end has not heard of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waited {
    /// It may yet do so.
    Briefly,
    /// It does nothing: the departing end checks whether it can do without the other end, as long
    /// as calls inside may end.
    Long,
    /// The calls inside do not end.
    TooLong,
}

/// What an end knows while it waits for the other to learn of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hearing {
    /// What became of the refusal.
    pub refusal: Refusal,
    /// Whether the other end has closed or died.
    pub is_over: bool,
    /// How long it has waited.
    pub waited: Waited,
    /// Whether all other calls are kept out, so that this connection can be replaced.
    pub is_alone: bool,
    /// Whether a call that is inside wants to read what was refused.
    pub is_wanted: bool,
    /// Whether a relay process can be created.
    pub can_copy: bool,
}

/// What it is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go on: the other end sends what was refused.
    Heard,
    /// Give up leaving: another thread has taken the refusal back.
    Gone,
    /// Take the refusal back, and do not depart, if the other end has not learned of it meanwhile.
    TakeBack,
    /// Let the refusal stand: what was refused comes with the other end's next call.
    Stand,
    /// Look again.
    Wait,
}

/// What an end is to do that waits for the other to hear of a refusal.
pub fn hear(it: Hearing) -> Answer {
    let is_drained = it.waited == Waited::TooLong;
    // A call that stays inside and wants to read reads the ring.
    let nobody_reads = is_drained && !it.is_alone && !it.is_wanted;
    match it.refusal {
        Refusal::Heard => Answer::Heard,
        Refusal::None => Answer::Gone,
        Refusal::Unheard if !it.is_over && (nobody_reads || it.is_alone && !it.can_copy) => {
            Answer::Stand
        }
        Refusal::Unheard if it.is_alone || is_drained => Answer::TakeBack,
        Refusal::Unheard => Answer::Wait,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_direction_returns_to_the_kernel_only_after_all_that_comes_before() {
        use Reception::{Arrive, AskForEnd, Read, Settle};
        let unheard = || Refusal::Unheard;
        let none = || Refusal::None;
        for (inlet, first, later) in [
            (Inlet::Before { left: 1 }, Read, Read),
            (Inlet::Ring, Arrive, Read),
            (Inlet::Doorbells(2), Read, Read),
            (Inlet::Settling, Read, Read),
            (Inlet::After, AskForEnd, AskForEnd),
        ] {
            assert_eq!(receive(inlet, false, false, none), first);
            assert_eq!(receive(inlet, true, false, none), later);
            let waits = matches!(inlet, Inlet::Doorbells(_) | Inlet::After);
            assert_eq!(receive(inlet, true, false, unheard) == Settle, waits, "{inlet:?}");
        }
        assert_eq!(receive(Inlet::After, false, true, none), Read);
        assert_eq!([true, false].map(asked_for_end), [Settle, Reception::Return]);
    }

    /// Every case in which nothing more is to be waited for.
    #[test]
    fn nobody_waits_for_the_dead_nor_takes_back_what_nobody_can_copy() {
        let all = [Waited::Briefly, Waited::Long, Waited::TooLong];
        let flags = [false, true];
        for (waited, is_over, is_alone) in all.into_iter().flat_map(|waited| {
            flags.into_iter().flat_map(move |over| flags.map(|alone| (waited, over, alone)))
        }) {
            for (is_wanted, can_copy) in
                flags.into_iter().flat_map(|it| flags.map(|copy| (it, copy)))
            {
                let it =
                    |refusal| Hearing { refusal, is_over, waited, is_alone, is_wanted, can_copy };
                assert_eq!(hear(it(Refusal::Heard)), Answer::Heard);
                assert_eq!(hear(it(Refusal::None)), Answer::Gone);
                let answer = hear(it(Refusal::Unheard));
                assert!(!is_over || answer != Answer::Stand, "the dead send nothing");
                assert!(waited != Waited::TooLong || answer != Answer::Wait, "a wait ends");
                let copies = answer == Answer::TakeBack && is_alone && !is_over;
                assert!(!copies || can_copy, "{:?}", it(Refusal::Unheard));
            }
        }
    }

    #[test]
    fn who_has_left_something_unread_leaves_only_by_a_refusal() {
        let flags = [false, true];
        let refusals = [Refusal::None, Refusal::Unheard, Refusal::Heard];
        for (has_left, is_rest) in flags.into_iter().flat_map(|it| flags.map(|rest| (it, rest))) {
            for (is_before, refusal) in flags.into_iter().flat_map(|it| refusals.map(|r| (it, r))) {
                let found = Found { has_left, is_rest, is_before, refusal };
                let leaves = depart(found) != Departure::Stay;
                assert_eq!(leaves, has_left || !is_rest && !is_before, "{found:?}");
                let hears = has_left && is_rest && refusal != Refusal::None;
                assert_eq!(depart(found) == Departure::Hear, hears, "{found:?}");
            }
        }
    }
}
