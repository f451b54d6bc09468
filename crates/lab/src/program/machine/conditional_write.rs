//! Writes into the memory of another rank such that it uses only what is complete, through the
//! adapters or by messages.

use weft_units::Bytes;

use super::{Cargo, Machine, Parcel};
use crate::drive::carrier::{Carrier, Destination, RemoteAccess, Ticket};
use crate::program::error::ProgramError;
use crate::program::operation::{Doing, OpId, Outgoing, Received};
use crate::program::policy::Kind;

/// The size of an acknowledgment, and of a message that declares another one valid.
const CONFIRMING: Bytes = Bytes(4);

/// A word that is written in this way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub address: u64,
    pub value: u64,
    /// The initiator and the target.
    pub from: u16,
    pub target: u16,
    pub op: OpId,
}

/// The kind of a message of a round trip: the word, the acknowledgment that it has arrived, the
/// message that it is valid, the acknowledgment of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    Message,
    Acknowledgment,
    Validation,
    Confirmation,
}

impl<C: Carrier> Machine<C> {
    /// A rank writes a word, in a message of `size`, into the memory of another one, which sees it
    /// only when all of it and everything before it on the path is known to be complete. The
    /// operation ends when the rank knows; its value is 1 if the word was accepted, 0 if the target
    /// left the cluster. It goes through the adapters if they can; otherwise by round trip, in four
    /// messages.
    pub fn conditional_write(
        &mut self,
        rank: u16,
        target: u16,
        address: u64,
        value: u64,
        size: Bytes,
    ) -> OpId {
        let op = self.begin(rank, Doing::Confirm { target });
        let word = Word { address, value, from: rank, target, op };
        if !self.knows(rank, target) {
            return op;
        }
        if rank == target {
            self.write(rank, address, value);
            self.confirm(word, true);
        } else if self.places.share(rank, target) {
            // A copy in memory is whole when it is seen.
            let to = Destination::Host(target);
            let copy = Outgoing { from: rank, to, tag: 0, size, value, channel: None, nic: 0 };
            self.dispatch(copy, Kind::Store, Cargo::Confirmed(word), OpId::NONE);
        } else if !self.leave_to_adapters(word, size) {
            self.leg(word, Leg::Message, size);
        }
        op
    }

    /// Leaves a write to the adapters; `false` if they cannot.
    fn leave_to_adapters(&mut self, word: Word, size: Bytes) -> bool {
        let Word { from: rank, target, .. } = word;
        let Some(channel) = self.policy.channel(size, Kind::Store, 0) else { return false };
        // Both ends get a notice.
        let cargo = Cargo::Confirmed(word);
        let (op, to, offered) = (OpId::NONE, Destination::Host(target), self.now);
        let (uses, leaving) = (2, 0);
        let place = self.insert(Parcel { from: rank, to, size, cargo, op, offered, uses, leaving });
        let write = RemoteAccess {
            from: self.host(rank),
            target: self.host(target),
            offset: Bytes(word.address),
            size,
            ticket: Ticket(place.into()),
        };
        match self.channels[channel].1.recoverable_write(self.now, write) {
            Ok(true) => {
                self.messages += 2;
                self.expected += 2;
                return true;
            }
            Ok(false) => {}
            Err(problem) => self.fail(ProgramError::Program(format!(
                "rank {rank} writes conditionally to rank {target}: {problem}"
            ))),
        }
        self.parcels[place as usize].uses = 1;
        self.use_up(place);
        false
    }

    /// An end gets the notice of a write by the adapters: its target when it may use the word, then
    /// its initiator.
    pub(super) fn confirmed(&mut self, to: u16, place: u32, word: Word) {
        if to == word.target {
            self.write(to, word.address, word.value);
        }
        if to != word.target || self.places.share(word.from, to) {
            self.confirm(word, true);
        }
        self.use_up(place);
    }

    pub(super) fn confirm(&mut self, word: Word, is_taken: bool) {
        let Word { target: from, op, .. } = word;
        let value = u64::from(is_taken);
        self.complete(op, Received { from, value, ..Received::default() });
    }

    fn leg(&mut self, word: Word, leg: Leg, size: Bytes) {
        let (from, to) = match leg {
            Leg::Message | Leg::Validation => (word.from, word.target),
            Leg::Acknowledgment | Leg::Confirmation => (word.target, word.from),
        };
        let to = Destination::Host(to);
        let message = Outgoing { from, to, tag: 0, size, value: 0, channel: None, nic: 0 };
        self.dispatch(message, Kind::Store, Cargo::RoundTrip(word, leg), OpId::NONE);
    }

    /// A message of a round trip has arrived.
    pub(super) fn arrive(&mut self, word: Word, leg: Leg) {
        match leg {
            Leg::Message => self.leg(word, Leg::Acknowledgment, CONFIRMING),
            Leg::Acknowledgment => self.leg(word, Leg::Validation, CONFIRMING),
            Leg::Validation => {
                self.write(word.target, word.address, word.value);
                self.leg(word, Leg::Confirmation, CONFIRMING);
            }
            Leg::Confirmation => self.confirm(word, true),
        }
    }
}
