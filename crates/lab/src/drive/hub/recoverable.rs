//! Recoverable messages: each write of a source, or what a program writes so, is one that its target
//! uses only when all of it is known to have arrived (MEMORY CHANNEL 2 Enhanced Software Support).

use weft_fabric::interface::RecoverableSettings;
use weft_fabric::measure::Latency;
use weft_protocol::window::{Conditional, Outcome, RecoverableAction, RoundTrip, Use};
use weft_units::{Bytes, Time};

use super::HubChannel;
use super::host::Purpose;
use super::operations::{Pending, SHORT, Whose};
use super::pages::Through;
use crate::drive::carrier::{Notice, RemoteAccess, Ticket};

/// One message that is being confirmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Confirmation {
    generated: Time,
    sender: Sender,
    /// What is under way lets the target use the message, and it has come there.
    is_valid: bool,
    pub is_used: bool,
    /// The program that waits for it; none of a source.
    pub ticket: Option<Ticket>,
}

#[derive(Clone, Copy, Debug)]
enum Sender {
    RoundTrip(RoundTrip),
    Conditional(Conditional),
}

impl Sender {
    fn send(&mut self) -> Option<RecoverableAction> {
        match self {
            Sender::RoundTrip(own) => own.send(),
            Sender::Conditional(own) => own.send(),
        }
    }

    fn hear(&mut self) -> Option<RecoverableAction> {
        match self {
            Sender::RoundTrip(own) => own.hear(Outcome::Arrived),
            Sender::Conditional(own) => own.hear(Outcome::Arrived),
        }
    }
}

impl HubChannel {
    /// A source has a write for these targets.
    pub(super) fn offer_write(&mut self, now: Time, from: u16, targets: u64) {
        let size = self.parts.window.write;
        let Some(how) = self.parts.window.recoverable else {
            let what = (Purpose::Traffic, Through::Use(Use::Store));
            return self.store(now, from, targets, size, what);
        };
        for target in (0..64).filter(|target| targets >> target & 1 == 1) {
            self.write_recoverably(now, (from, target), size, how, None);
        }
    }

    /// A program writes so that its target uses only what is whole: by conditional write where the
    /// adapters can, otherwise by round trip.
    pub(super) fn write_for_program(&mut self, now: Time, write: RemoteAccess) {
        let RemoteAccess { from, target, size, ticket, .. } = write;
        let how = match self.parts.window.conditional_write {
            true => RecoverableSettings::ConditionalWrite,
            false => RecoverableSettings::RoundTrip,
        };
        self.write_recoverably(now, (from, target), size, how, Some(ticket));
    }

    fn write_recoverably(
        &mut self,
        now: Time,
        (from, target): (u16, u16),
        size: Bytes,
        how: RecoverableSettings,
        ticket: Option<Ticket>,
    ) {
        let (sender, is_valid) = match how {
            RecoverableSettings::RoundTrip => (Sender::RoundTrip(RoundTrip::default()), false),
            RecoverableSettings::ConditionalWrite => {
                (Sender::Conditional(Conditional::default()), true)
            }
        };
        let mut own = Confirmation { generated: now, sender, is_valid, is_used: false, ticket };
        own.sender.send();
        let mut size = size.max(SHORT);
        if !is_valid {
            // The sweep follows all of the message.
            let what = (Purpose::Unconfirmed, Through::Use(Use::Store));
            self.store(now, from, 1 << target, size, what);
            size = SHORT;
        }
        self.ask(now, from, target, size, own);
    }

    fn ask(&mut self, now: Time, from: u16, target: u16, size: Bytes, own: Confirmation) {
        let what = match own.sender {
            Sender::RoundTrip(_) => Use::Sweep,
            Sender::Conditional(_) => Use::Conditional,
        };
        let whose = Whose::Recoverable(own);
        let pending = Pending { from, waiting: 1 << target, answer: SHORT, whose };
        self.request(now, size, pending, Through::Use(what));
    }

    /// A request is in the memory of its target: a message may be used from now on.
    pub(super) fn confirmed(&mut self, now: Time, place: u32, target: u16) {
        let Some(Pending { whose: Whose::Recoverable(own), .. }) =
            &mut self.operations[place as usize]
        else {
            return;
        };
        if !own.is_valid {
            return;
        }
        own.is_used = true;
        match own.ticket {
            Some(ticket) => self.notices.push(Notice::Delivered { time: now, ticket, to: target }),
            None => self.observations.latency(Latency::OneWay, now, now.since(own.generated)),
        }
    }

    /// The sender of a message has the answer to its request.
    pub(super) fn confirm(&mut self, now: Time, from: u16, target: u16, mut own: Confirmation) {
        if let Some(RecoverableAction::Validate(_)) = own.sender.hear() {
            own.is_valid = true;
            return self.ask(now, from, target, SHORT, own);
        }
        match own.ticket {
            Some(ticket) => {
                if !own.is_used {
                    // The adapter has taken it, and its program died before it could look.
                    self.notices.push(Notice::Lost { time: now, ticket, to: target });
                }
                self.notices.push(Notice::Delivered { time: now, ticket, to: from });
            }
            None => self.observations.latency(Latency::RoundTrip, now, now.since(own.generated)),
        }
    }
}
