//! Messages that a channel leaves to the ordinary protocol stack: the program uses the same calls
//! for both (SCILAN 3.3, Figure 1).

use super::{Cargo, Machine, Parcel};
use crate::drive::carrier::{Carrier, Destination, Message, Ticket};
use crate::program::error::ProgramError;
use crate::program::policy::Kind;

impl<C: Carrier> Machine<C> {
    /// A message that its channel leaves to the ordinary stack takes the channel of the next rule.
    pub(super) fn fall_through(&mut self, place: u32, to: u16, channel: usize) {
        let Parcel { from, size, cargo, .. } = self.parcels[place as usize];
        let kind = match cargo {
            Cargo::Store { .. } => Kind::Store,
            Cargo::Ask { .. } | Cargo::Answer { .. } => Kind::Read,
            _ => Kind::Message,
        };
        let Some(other) = self.policy.channel_behind(channel, size, kind) else {
            let other = self.ranks_at(place, to).hosts().next().unwrap_or(u16::MAX);
            let channel = self.channels[channel].0.clone();
            return self.fail(ProgramError::NoOrdinaryStack { channel, rank: from, other });
        };
        self.expected += 1;
        let (from, to, ticket) = (self.host(from), Destination::Host(to), Ticket(place.into()));
        self.channels[other].1.offer(self.now, Message { from, to, size, ticket });
    }
}
