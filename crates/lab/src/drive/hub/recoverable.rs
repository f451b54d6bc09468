//! Recoverable messages: each write of a source is one that its target uses only when all of it is
//! known to have arrived (MEMORY CHANNEL 2 Enhanced Software Support).

use weft_fabric::interface::RecoverableSettings;
use weft_fabric::measure::Latency;
use weft_protocol::window::{Conditional, Outcome, RecoverableAction, RoundTrip};
use weft_units::Time;

use super::HubChannel;
use super::host::Purpose;
use super::operations::{Pending, SHORT, Whose};

/// One message that is being confirmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Confirmation {
    generated: Time,
    sender: Sender,
    /// What is under way lets the target use the message.
    is_valid: bool,
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
        let (sender, is_valid) = match self.parts.window.recoverable {
            None => return self.store(now, from, targets, size, Purpose::Traffic),
            Some(RecoverableSettings::RoundTrip) => {
                (Sender::RoundTrip(RoundTrip::default()), false)
            }
            Some(RecoverableSettings::ConditionalWrite) => {
                (Sender::Conditional(Conditional::default()), true)
            }
        };
        for target in (0..64).filter(|target| targets >> target & 1 == 1) {
            let mut own = Confirmation { generated: now, sender, is_valid };
            own.sender.send();
            let size = if is_valid {
                size.max(SHORT)
            } else {
                // The sweep follows all of the message.
                self.store(now, from, 1 << target, size, Purpose::Unconfirmed);
                SHORT
            };
            self.ask(now, from, target, size, own);
        }
    }

    fn ask(
        &mut self,
        now: Time,
        from: u16,
        target: u16,
        size: weft_units::Bytes,
        own: Confirmation,
    ) {
        let whose = Whose::Recoverable(own);
        self.request(now, size, Pending { from, waiting: 1 << target, answer: SHORT, whose });
    }

    /// A request is in the memory of its target: a message may be used from now on.
    pub(super) fn confirmed(&mut self, now: Time, place: u32) {
        let Some(Pending { whose: Whose::Recoverable(own), .. }) = self.operations[place as usize]
        else {
            return;
        };
        if own.is_valid {
            self.observations.latency(Latency::OneWay, now, now.since(own.generated));
        }
    }

    /// The sender of a message has the answer to its request.
    pub(super) fn confirm(&mut self, now: Time, from: u16, target: u16, mut own: Confirmation) {
        match own.sender.hear() {
            Some(RecoverableAction::Validate(_)) => {
                own.is_valid = true;
                self.ask(now, from, target, SHORT, own);
            }
            _ => self.observations.latency(Latency::RoundTrip, now, now.since(own.generated)),
        }
    }
}
