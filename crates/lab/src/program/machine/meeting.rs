//! Barriers that channels keep, and ranks that are gone.
//!
//! A rank stops with its host. The others go on; each is told when the software of its own host knows,
//! which is when locks are released and barriers no longer wait.

use weft_units::Bytes;

use super::{Cargo, Machine, Parcel};
use crate::drive::carrier::{Carrier, Departure, Ticket};
use crate::program::operation::{Doing, OpId, Received, State};
use crate::program::policy::Kind;

/// A rank that is at the barrier of a channel, and the message under which it waits there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    rank: u16,
    parcel: u32,
    /// Whether all have come, so that it will be told.
    is_met: bool,
}

impl<C: Carrier> Machine<C> {
    /// A rank comes to the barrier that a channel itself keeps for all ranks: the one that `channel`
    /// names, or the one that takes the shortest messages. `None` where that channel keeps none.
    pub fn barrier(&mut self, rank: u16, channel: Option<usize>) -> Option<OpId> {
        let channel = channel.or_else(|| self.policy.channel(Bytes(0), Kind::Message, 0))?;
        let op = self.begin(rank, Doing::Barrier);
        let cargo = Cargo::Barrier { op, channel };
        let size = Bytes(0);
        let parcel = Parcel { from: rank, size, cargo, op, offered: self.now, uses: 1 };
        let place = self.insert(parcel);
        let (host, ranks, ticket) = (self.host(rank), self.ranks(), Ticket(place.into()));
        // A channel keeps a barrier of its first hosts.
        if self.places.are_below(ranks)
            && self.channels[channel].1.barrier(self.now, host, ranks, ticket)
        {
            self.at_barrier[channel].push(Waiting { rank, parcel: place, is_met: false });
            self.meet(channel);
            return Some(op);
        }
        self.use_up(place);
        self.ops[op.index()].state = State::Free;
        self.free_ops.push(op);
        None
    }

    /// When everybody has come who is still there, each will be told.
    fn meet(&mut self, channel: usize) {
        let there = self.ranks.iter().filter(|rank| !rank.is_gone).count();
        let come = &mut self.at_barrier[channel];
        let new = come.iter().filter(|own| !own.is_met).count();
        if new >= there && there > 0 {
            come.iter_mut().for_each(|own| own.is_met = true);
            self.expected += new as u64;
        }
    }

    /// A rank is told that all have come to the barrier of a channel.
    pub(super) fn pass_barrier(&mut self, op: OpId, channel: usize, place: u32) {
        self.at_barrier[channel].retain(|own| own.parcel != place);
        self.complete(op, Received::default());
        self.use_up(place);
    }

    /// A rank waits until it is told that another one is gone: the one that is the `number`th, from
    /// 0, of which it is told.
    pub fn departure(&mut self, rank: u16, number: usize) -> OpId {
        let op = self.begin(rank, Doing::Departure);
        let own = &mut self.ranks[usize::from(rank)];
        match own.departed.get(number) {
            Some(&from) => self.complete(op, Received { from, ..Received::default() }),
            None => own.mourners.push((number, op)),
        }
        op
    }

    /// The ranks of which a rank has been told that they are gone, in that order.
    pub fn departed(&self, rank: u16) -> &[u16] {
        &self.ranks[usize::from(rank)].departed
    }

    /// Appends the ranks that have stopped since the last call: their programs go on no more.
    pub fn take_stopped(&mut self, stopped: &mut Vec<u16>) {
        stopped.append(&mut self.stopped);
    }

    /// Whether somebody will be told of a rank that is gone.
    pub(super) fn awaits_tidings(&self) -> bool {
        !self.tidings.is_empty()
    }

    pub(super) fn heed_departures(&mut self, channel: usize) {
        let mut departures = std::mem::take(&mut self.departures);
        self.channels[channel].1.take_departures(&mut departures);
        for departure in departures.drain(..) {
            match departure {
                Departure::Stops { host } => self.stop(self.places.rank_on(host)),
                Departure::IsKnown { host, at } => {
                    self.tell(self.places.rank_on(at), self.places.rank_on(host));
                }
            }
        }
        self.departures = departures;
    }

    fn stop(&mut self, rank: u16) {
        let ranks = self.ranks();
        let Some(own) = self.ranks.get_mut(usize::from(rank)) else { return };
        if std::mem::replace(&mut own.is_gone, true) {
            return;
        }
        self.stopped.push(rank);
        self.tidings.retain(|(at, _)| *at != rank);
        let others = (0..ranks).filter(|other| !self.ranks[usize::from(*other)].is_gone);
        self.tidings.extend(others.map(|other| (other, rank)));
        for channel in 0..self.channels.len() {
            let own = self.at_barrier[channel].iter().position(|own| own.rank == rank);
            if let Some(place) = own {
                let own = self.at_barrier[channel].remove(place);
                self.expected -= u64::from(own.is_met);
                self.use_up(own.parcel);
            }
            self.meet(channel);
        }
    }

    /// A rank is told that another one is gone.
    fn tell(&mut self, at: u16, gone: u16) {
        self.tidings.remove(&(at, gone));
        let known = usize::from(gone) < self.ranks.len();
        let Some(own) = self.ranks.get_mut(usize::from(at)).filter(|_| known) else { return };
        if own.departed.contains(&gone) {
            return;
        }
        let number = own.departed.len();
        own.departed.push(gone);
        let (told, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut own.mourners).into_iter().partition(|(own, _)| *own == number);
        own.mourners = rest;
        for (_, op) in told {
            self.complete(op, Received { from: gone, ..Received::default() });
        }
    }
}
