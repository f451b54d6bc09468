//! Messages that a receiver uses only when they are known to be complete (MEMORY CHANNEL 2 Enhanced
//! Software Support).
//!
//! Generation 1 needs a round trip: the message, an acknowledgment that all of it arrived, and then
//! a word that declares it valid. The receiver may use it after three one-way latencies. With a
//! conditional write the receiver uses it after one, and a single acknowledgment notifies the
//! sender.
//!
//! How a conditional write works is not described. Interpretation: a target takes it only while the
//! path has no pending error, so that what it takes is complete and in order; the acknowledgment
//! says whether it did, and a message that was not taken is sent again after recovery.

/// What a sender does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoverableAction {
    /// Sends the message with this number, its last packet a sweep or a conditional write.
    Message(u32),
    /// Declares the message with this number valid.
    Validate(u32),
    /// The message has been delivered: its buffer may be used again.
    Done(u32),
}

/// What a sender learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All of it arrived.
    Arrived,
    /// It, or something before it, was damaged; the path has been recovered since.
    Lost,
}

/// The sender of recoverable messages by round trip (generation 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RoundTrip {
    number: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum State {
    #[default]
    Idle,
    Sent,
    Validated,
}

/// The sender of recoverable messages by conditional write (generation 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditional {
    number: u32,
    sent: bool,
}

impl RoundTrip {
    /// How many one-way latencies lie between the message and its use by the receiver.
    pub const WAYS: u32 = 3;

    /// Sends a message; does nothing while another one is in progress.
    pub fn send(&mut self) -> Option<RecoverableAction> {
        (self.state == State::Idle).then(|| {
            self.state = State::Sent;
            RecoverableAction::Message(self.number)
        })
    }

    /// The sweep after the last message is answered, or its path failed and was recovered.
    pub fn hear(&mut self, outcome: Outcome) -> Option<RecoverableAction> {
        let (state, action) = match (self.state, outcome) {
            (State::Idle, _) => return None,
            (State::Sent, Outcome::Arrived) => {
                (State::Validated, RecoverableAction::Validate(self.number))
            }
            (State::Sent, Outcome::Lost) => (State::Sent, RecoverableAction::Message(self.number)),
            (State::Validated, Outcome::Lost) => {
                (State::Validated, RecoverableAction::Validate(self.number))
            }
            (State::Validated, Outcome::Arrived) => {
                let done = RecoverableAction::Done(self.number);
                self.number += 1;
                (State::Idle, done)
            }
        };
        self.state = state;
        Some(action)
    }
}

impl Conditional {
    /// How many one-way latencies lie between the message and its use by the receiver.
    pub const WAYS: u32 = 1;

    /// Sends a message; does nothing while another one is in progress.
    pub fn send(&mut self) -> Option<RecoverableAction> {
        (!self.sent).then(|| {
            self.sent = true;
            RecoverableAction::Message(self.number)
        })
    }

    /// The status of the conditional write comes, or its path failed and was recovered.
    pub fn hear(&mut self, outcome: Outcome) -> Option<RecoverableAction> {
        if !self.sent {
            return None;
        }
        if outcome == Outcome::Lost {
            return Some(RecoverableAction::Message(self.number));
        }
        let done = RecoverableAction::Done(self.number);
        *self = Conditional { number: self.number + 1, sent: false };
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_round_trip_validates_after_the_acknowledgment() {
        let mut sender = RoundTrip::default();
        assert_eq!(sender.send(), Some(RecoverableAction::Message(0)));
        assert_eq!(sender.send(), None);
        assert_eq!(sender.hear(Outcome::Lost), Some(RecoverableAction::Message(0)));
        assert_eq!(sender.hear(Outcome::Arrived), Some(RecoverableAction::Validate(0)));
        assert_eq!(sender.hear(Outcome::Lost), Some(RecoverableAction::Validate(0)));
        assert_eq!(sender.hear(Outcome::Arrived), Some(RecoverableAction::Done(0)));
        assert_eq!(sender.hear(Outcome::Arrived), None);
    }

    proptest! {
        /// A receiver that drops repetitions by number sees each message once, in order, however
        /// often messages and their acknowledgments are lost.
        #[test]
        fn each_message_is_delivered_once(losses in proptest::collection::vec(0_u8..3, 1..200)) {
            let (mut sender, mut expected, mut done) = (Conditional::default(), 0, 0);
            for loss in losses {
                let message = sender.send().or_else(|| sender.hear(Outcome::Lost));
                let Some(RecoverableAction::Message(number)) = message else {
                    return Err(TestCaseError::fail(format!("not sent again: {message:?}")));
                };
                prop_assert!(number == expected || number + 1 == expected);
                if loss > 0 {
                    expected = expected.max(number + 1);
                }
                if loss > 1 {
                    let end = sender.hear(Outcome::Arrived);
                    prop_assert_eq!(end, Some(RecoverableAction::Done(number)));
                    done += 1;
                }
            }
            prop_assert!(expected == done || expected == done + 1);
        }
    }
}
