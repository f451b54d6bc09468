//! Reading the memory of another rank, by the adapters or by messages.

use weft_units::Bytes;

use super::{Cargo, Machine, Parcel};
use crate::drive::carrier::{Carrier, Destination, RemoteAccess, Ticket};
use crate::program::error::ProgramError;
use crate::program::operation::{Doing, OpId, Outgoing, Received};
use crate::program::policy::Kind;

/// The size of a message that asks for a remote read: an address and a length.
const ASKING: Bytes = Bytes(16);

impl<C: Carrier> Machine<C> {
    /// A rank reads the memory of another one without involving that rank's program: through the
    /// adapters if they can, otherwise by a request and a response of `size`. On one host it is a
    /// copy, with the content that the memory has when the copy begins.
    pub fn read(&mut self, rank: u16, target: u16, address: u64, size: Bytes) -> OpId {
        let op = self.begin(rank, Doing::Read { target });
        if self.places.share(rank, target) {
            self.read_beside(rank, target, address, size, op);
            return op;
        }
        if self.fetch(rank, target, address, size, op) {
            return op;
        }
        let asking = Outgoing {
            from: rank,
            to: Destination::Host(target),
            tag: 0,
            size: ASKING,
            value: 0,
            channel: None,
            nic: 0,
        };
        self.dispatch(asking, Kind::Read, Cargo::Ask { address, size, op }, OpId::NONE);
        op
    }

    /// A rank copies from the memory of another one on the same host.
    fn read_beside(&mut self, rank: u16, from: u16, address: u64, size: Bytes, answered: OpId) {
        let cargo = Cargo::Answer { value: self.load(from, address), op: answered };
        let (op, to, offered) = (OpId::NONE, Destination::Host(rank), self.now);
        let (uses, leaving) = (2, 1);
        let place = self.insert(Parcel { from, to, size, cargo, op, offered, uses, leaving });
        self.copy(rank, place, size, 1);
    }

    /// Leaves a read to the adapters; `false` if they cannot.
    fn fetch(&mut self, rank: u16, target: u16, address: u64, size: Bytes, op: OpId) -> bool {
        if rank == target || !self.knows(rank, target) {
            return false;
        }
        let Some(channel) = self.policy.channel(size, Kind::Read, 0) else { return false };
        // Both ends get a notice.
        let cargo = Cargo::Fetch { address, target, op };
        let (to, offered, uses, leaving) = (Destination::Host(target), self.now, 2, 0);
        let own = OpId::NONE;
        let parcel = Parcel { from: rank, to, size, cargo, op: own, offered, uses, leaving };
        let place = self.insert(parcel);
        let read = RemoteAccess {
            from: self.host(rank),
            target: self.host(target),
            offset: Bytes(address),
            size,
            ticket: Ticket(place.into()),
        };
        match self.channels[channel].1.remote_read(self.now, read) {
            Ok(true) => {
                self.messages += 2;
                self.expected += 2;
                return true;
            }
            Ok(false) => {}
            Err(problem) => self
                .fail(ProgramError::Program(format!("rank {rank} reads rank {target}: {problem}"))),
        }
        self.parcels[place as usize].uses = 1;
        self.use_up(place);
        false
    }

    /// An end gets the notice of a read by the adapters: its target when the memory has been read,
    /// then its initiator.
    pub(super) fn fetched(&mut self, to: u16, place: u32) {
        let Parcel { cargo, size, .. } = self.parcels[place as usize];
        match cargo {
            Cargo::Fetch { address, target, op } => {
                let value = self.load(to, address);
                let parcel = &mut self.parcels[place as usize];
                parcel.cargo = Cargo::Fetched { value, target, op };
                parcel.offered = self.now;
            }
            Cargo::Fetched { value, target, op } => {
                self.complete(op, Received { from: target, size, value, ..Received::default() });
            }
            _ => return,
        }
        self.use_up(place);
    }
}
