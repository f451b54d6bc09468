//! Barriers that channels provide, and ranks that are gone.
//!
//! A channel provides a barrier of hosts. The ranks of a host first meet in its memory: each notifies
//! the first of them, which arrives at the channel's barrier for all of them, and notifies each when
//! all hosts have arrived.
//!
//! A rank stops with its host. The others continue; each learns of it when the software of its own
//! host does, which is when locks are released and barriers no longer wait.

use weft_units::Bytes;

use super::{Cargo, Machine, Parcel};
use crate::drive::carrier::{Carrier, Departure, Destination, Ticket};
use crate::program::operation::{Doing, OpId, Outgoing, Received};
use crate::program::policy::Kind;

/// The ranks of a host that are meeting before the barrier of a channel.
#[derive(Clone, Debug)]
pub(super) struct Gathering {
    channel: usize,
    /// The first of them, and how many it knows to have arrived.
    first: u16,
    come: usize,
    /// The ranks that wait, and in which operation.
    waiting: Vec<(u16, OpId)>,
}

/// A host that is at the barrier of a channel, and the message under which it waits there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// The first rank on it.
    rank: u16,
    parcel: u32,
    /// Whether all have arrived, so that a notice will follow.
    is_met: bool,
}

impl<C: Carrier> Machine<C> {
    /// A rank reaches the barrier that a channel itself provides for all ranks: the channel that
    /// `channel` names, or the one that takes the shortest messages. `None` if that channel provides
    /// none.
    pub fn barrier(&mut self, rank: u16, channel: Option<usize>) -> Option<OpId> {
        let channel = channel.or_else(|| self.policy.channel(Bytes(0), Kind::Message, 0))?;
        // A channel keeps a barrier of its first hosts.
        let hosts = self.places.first_hosts(self.ranks())?;
        if !self.channels[channel].1.keeps_barrier() {
            return None;
        }
        let op = self.begin(rank, Doing::Barrier);
        if self.places.are_shared() {
            self.gather(rank, channel, op);
        } else {
            self.enter(rank, channel, hosts, op);
        }
        Some(op)
    }

    /// A host reaches the barrier of a channel, through its first rank.
    fn enter(&mut self, rank: u16, channel: usize, hosts: u16, op: OpId) {
        let (cargo, size, to) = (Cargo::Barrier { op, channel }, Bytes(0), Destination::Host(rank));
        let (offered, uses, leaving) = (self.now, 1, 0);
        let parcel =
            self.insert(Parcel { from: rank, to, size, cargo, op, offered, uses, leaving });
        let (host, ticket) = (self.host(rank), Ticket(parcel.into()));
        self.channels[channel].1.barrier(self.now, host, hosts, ticket);
        self.at_barrier[channel].push(Waiting { rank, parcel, is_met: false });
        self.meet(channel);
    }

    /// A rank reaches the meeting point of its host, and notifies the first rank there.
    fn gather(&mut self, rank: u16, channel: usize, op: OpId) {
        let first = self.places.rank_on(self.host(rank));
        let mut there = self.gathering.iter_mut();
        match there.find(|own| (own.channel, own.first) == (channel, first)) {
            Some(own) => own.waiting.push((rank, op)),
            None => {
                let waiting = vec![(rank, op)];
                self.gathering.push(Gathering { channel, first, come: 0, waiting });
            }
        }
        if rank == first {
            self.come(first, channel);
        } else {
            self.tell_beside(rank, first, Cargo::Comes { channel });
        }
    }

    /// The first rank of a host knows of one more rank that has arrived, and arrives at the
    /// channel's barrier for all of them with the last.
    pub(super) fn come(&mut self, first: u16, channel: usize) {
        let mut there = self.gathering.iter_mut();
        let own = there.find(|own| (own.channel, own.first) == (channel, first));
        // None if the host is gone.
        let Some(own) = own else { return };
        own.come += 1;
        let (come, waiting) = (own.come, own.waiting.iter().find(|(rank, _)| *rank == first));
        let op = waiting.map_or(OpId::NONE, |(_, op)| *op);
        let all = self.places.ranks_on(self.host(first)).count();
        if come == all
            && let Some(hosts) = self.places.first_hosts(self.ranks())
        {
            self.enter(first, channel, hosts, op);
        }
    }

    /// A word without payload to another rank on the same host.
    fn tell_beside(&mut self, from: u16, to: u16, cargo: Cargo) {
        let to = Destination::Host(to);
        let word = Outgoing { from, to, tag: 0, size: Bytes(0), value: 0, channel: None, nic: 0 };
        self.dispatch(word, Kind::Message, cargo, OpId::NONE);
    }

    /// When every host that is still on line has arrived, each will get a notice.
    fn meet(&mut self, channel: usize) {
        let places = &self.places;
        let is_first =
            |rank: u16| !places.are_shared() || places.rank_on(places.host(rank)) == rank;
        let ranks = self.ranks.iter().zip(0..);
        let there = ranks.filter(|(own, rank)| !own.is_gone && is_first(*rank)).count();
        let come = &mut self.at_barrier[channel];
        let new = come.iter().filter(|own| !own.is_met).count();
        if new >= there && there > 0 {
            come.iter_mut().for_each(|own| own.is_met = true);
            self.expected += new as u64;
        }
    }

    /// A host learns that all have reached the barrier of a channel.
    pub(super) fn pass_barrier(&mut self, op: OpId, channel: usize, place: u32) {
        self.at_barrier[channel].retain(|own| own.parcel != place);
        let first = self.parcels[place as usize].from;
        self.complete(op, Received::default());
        self.use_up(place);
        let mut there = self.gathering.iter();
        let own = there.position(|own| (own.channel, own.first) == (channel, first));
        if let Some(own) = own {
            let others = self.gathering.remove(own).waiting;
            for (rank, op) in others.into_iter().filter(|(rank, _)| *rank != first) {
                self.tell_beside(first, rank, Cargo::Released { op });
            }
        }
    }

    /// A rank waits until it learns that another one is gone: the `number`th of which it learns,
    /// counted from 0.
    pub fn departure(&mut self, rank: u16, number: usize) -> OpId {
        let op = self.begin(rank, Doing::Departure);
        let own = &mut self.ranks[usize::from(rank)];
        match own.departed.get(number) {
            Some(&from) => self.complete(op, Received { from, ..Received::default() }),
            None => own.mourners.push((number, op)),
        }
        op
    }

    /// The ranks of which a rank has learned that they are gone, in that order.
    pub fn departed(&self, rank: u16) -> &[u16] {
        &self.ranks[usize::from(rank)].departed
    }

    /// Appends the ranks that have stopped since the last call: their programs do not continue.
    pub fn take_stopped(&mut self, stopped: &mut Vec<u16>) {
        stopped.append(&mut self.stopped);
    }

    /// Whether any rank has yet to learn of a rank that is gone.
    pub(super) fn awaits_tidings(&self) -> bool {
        !self.tidings.is_empty()
    }

    pub(super) fn heed_departures(&mut self, channel: usize) {
        let mut departures = std::mem::take(&mut self.departures);
        self.channels[channel].1.take_departures(&mut departures);
        for departure in departures.drain(..) {
            match departure {
                Departure::Stops { host } => {
                    let ranks: Vec<u16> = self.places.ranks_on(host).collect();
                    ranks.into_iter().for_each(|rank| self.stop(rank));
                }
                Departure::IsKnown { host, at } => {
                    let gone: Vec<u16> = self.places.ranks_on(host).collect();
                    let told: Vec<u16> = self.places.ranks_on(at).collect();
                    let pairs = told.iter().flat_map(|at| gone.iter().map(move |own| (*at, *own)));
                    pairs.for_each(|(at, gone)| self.tell(at, gone));
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
        self.gathering.retain(|own| own.first != rank);
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

    /// A rank learns that another one is gone.
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
