//! Units that are stored again: what the check of a sender finds has not arrived (SCILAN 3.2), where the
//! adapters have given a packet up.
//!
//! The document says that the sender knows immediately, but not what it does then. Here it stores
//! the unit again, checks that, and announces it; the message ends when the target has all of it.
//! Messages of a pair end in order, so that programs see neither an error nor another order.

use weft_fabric::host::Piece;
use weft_units::{Bytes, Time};

use super::{Held, HostPath};
use crate::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};

/// Messages that are stored again on a channel.
#[derive(Debug)]
pub(super) struct Repairs {
    /// The size of a unit that is checked.
    unit: Bytes,
    open: Vec<Repair>,
    ends: Vec<End>,
    /// Units that were stored again.
    pub resent: u64,
}

/// The ends of units in order: of all messages of a pair, or of the pieces of one unit that is
/// stored again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Pair(u16, u16),
    Again(u32),
}

/// A unit of which something has not arrived.
#[derive(Debug)]
struct Repair {
    message: u32,
    lane: Lane,
    /// Where it ends in the message, and its size.
    end: u64,
    bytes: Bytes,
    /// The pieces of it that the target lacks.
    pieces: Vec<Piece>,
    /// The message that stores it again, from when all of it is known.
    again: Option<u32>,
}

/// The end of a message, without bytes, that waits until everything before it in its pair has arrived. It
/// no longer counts as in flight, whether it arrived or is stored again.
#[derive(Debug)]
struct End {
    lane: Lane,
    piece: Piece,
}

impl Repairs {
    pub fn new(unit: Bytes) -> Repairs {
        Repairs { unit, open: Vec::new(), ends: Vec::new(), resent: 0 }
    }

    fn waits(&self, lane: Lane) -> bool {
        self.open.iter().any(|repair| repair.lane == lane)
    }

    fn is_open(&self, message: u32) -> bool {
        self.open.iter().any(|repair| repair.message == message)
    }

    /// A piece that begins at a place of its message has not arrived.
    fn note(&mut self, lane: Lane, begin: u64, piece: Piece) {
        let (unit, message) = (self.unit.0, piece.message);
        let (end, bytes) = match begin + piece.bytes.0 {
            end if piece.bytes.0 == 0 => (end, Bytes(0)),
            end => {
                let first = (end - 1) / unit * unit;
                let end = (first + unit).min(piece.size.0);
                (end, Bytes(end - first))
            }
        };
        let same = |own: &&mut Repair| {
            own.message == message && own.end == end && own.bytes == bytes && own.again.is_none()
        };
        let place = match self.open.iter_mut().find(same) {
            Some(repair) => repair,
            None => {
                let (pieces, again) = (Vec::new(), None);
                self.open.push(Repair { message, lane, end, bytes, pieces, again });
                // It has just been pushed.
                let Some(repair) = self.open.last_mut() else { return };
                repair
            }
        };
        match piece.last {
            true => self.ends.push(End { lane, piece }),
            false => place.pieces.push(piece),
        }
    }

    /// A unit that is not stored again yet, and all of whose packets are accounted for, now that
    /// this much of its message is.
    fn complete(&mut self, message: u32, told: u64) -> Option<&mut Repair> {
        let is_whole =
            |own: &&mut Repair| own.message == message && own.again.is_none() && told >= own.end;
        self.open.iter_mut().find(is_whole)
    }

    /// The oldest end of a lane, if it need no longer wait.
    fn next_end(&mut self, lane: Lane) -> Option<End> {
        if self.waits(lane) {
            return None;
        }
        let place = self.ends.iter().position(|end| end.lane == lane)?;
        Some(self.ends.remove(place))
    }
}

impl Held {
    /// Whether its sender checks whether it has arrived: a message for one host, or one that stores a
    /// unit of such a message again.
    pub(super) fn is_checked(&self) -> bool {
        let is_said = self.said.is_some() || self.barrier.is_some();
        !is_said && matches!(self.to, Destination::Host(_))
    }

    fn lane(&self, number: u32, to: u16) -> Lane {
        match self.repairs {
            None => Lane::Pair(self.from, to),
            Some(_) => Lane::Again(number),
        }
    }
}

/// A message that stores a unit of another one again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub again: u32,
    pub of: u32,
}

impl<C: Carrier> HostPath<C> {
    /// How many units were stored again, if senders do that.
    pub fn units_resent(&self) -> Option<u64> {
        self.repairs.as_ref().map(|repairs| repairs.resent)
    }

    /// A packet has reached its target, or was given up. Packets of a pair are reported in order.
    pub(super) fn checked(
        &mut self,
        now: Time,
        to: u16,
        piece: Piece,
        given_up: bool,
        notices: &mut Vec<Notice>,
    ) {
        let number = piece.message;
        let held = self.messages.get(number);
        let begin = held.told;
        held.told += piece.bytes.0;
        let (from, told, lane) = (held.from, held.told, held.lane(number, to));
        let Some(repairs) = &mut self.repairs else { return };
        if given_up {
            repairs.note(lane, begin, piece);
            self.make_room(now, from);
        } else if piece.last && repairs.waits(lane) {
            repairs.ends.push(End { lane, piece });
            self.make_room(now, from);
        } else {
            self.hosts[usize::from(to)].receive(now, piece, &mut self.out);
        }
        self.settle(now, to, notices);
        self.store_again(now, number, told, notices);
        self.go_on(now, number, notices);
    }

    /// Stores units of a message again: those all of whose packets are accounted for, and that are
    /// not complete at the target.
    fn store_again(&mut self, now: Time, number: u32, told: u64, notices: &mut Vec<Notice>) {
        let Held { from, to, .. } = *self.messages.get(number);
        while let Some(repair) = self.repairs.as_mut().and_then(|own| own.complete(number, told)) {
            let message = Message { from, to, size: repair.bytes, ticket: Ticket::default() };
            let held = Held { repairs: Some(number), ..Held::new(now, message) };
            let again = self.messages.insert(held);
            repair.again = Some(again);
            let (size, last) = (repair.bytes, true);
            let piece = held.piece(Piece::new(again, None, size, size, last));
            self.hosts[usize::from(from)].store_again(now, piece, &mut self.out);
            self.settle(now, from, notices);
            if let Some(repairs) = &mut self.repairs {
                repairs.resent += 1;
            }
        }
    }

    /// The message that stores a unit again is complete at the target.
    pub(super) fn repaired(
        &mut self,
        now: Time,
        to: u16,
        Stored { again, of: number }: Stored,
        notices: &mut Vec<Notice>,
    ) {
        let lane = self.messages.get(number).lane(number, to);
        let Some(repairs) = &mut self.repairs else { return };
        let Some(place) = repairs.open.iter().position(|own| own.again == Some(again)) else {
            return;
        };
        for piece in repairs.open.remove(place).pieces {
            self.hosts[usize::from(to)].receive_stored(now, piece, &mut self.out);
        }
        while let Some(end) = self.repairs.as_mut().and_then(|own| own.next_end(lane)) {
            self.hosts[usize::from(to)].receive_stored(now, end.piece, &mut self.out);
        }
        self.put_out(to);
        self.go_on(now, number, notices);
    }

    /// Whether the program of a message has to wait until the target has all that it stored.
    pub(super) fn is_awaited(&mut self, number: u32) -> bool {
        let Some(repairs) = &self.repairs else { return false };
        let held = *self.messages.get(number);
        held.is_checked() && (held.told < held.size.0 || repairs.is_open(number))
    }

    /// A program that waited for that goes on.
    fn go_on(&mut self, now: Time, number: u32, notices: &mut Vec<Notice>) {
        if self.messages.get(number).sent_waits && !self.is_awaited(number) {
            self.messages.get(number).sent_waits = false;
            self.sent(now, number, notices);
        }
    }
}
