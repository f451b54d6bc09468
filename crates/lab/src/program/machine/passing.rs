//! How messages travel from rank to rank: by a channel, or through the memory of the host on which
//! both are.

use weft_units::Bytes;

use super::{Cargo, Machine, Parcel};
use crate::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use crate::program::account::Passage;
use crate::program::error::ProgramError;
use crate::program::matching::RESERVED_TAGS;
use crate::program::operation::{OpId, Outgoing, Received};
use crate::program::policy::Kind;

impl<C: Carrier> Machine<C> {
    /// Submits a message to the channel that takes it, or copies it between ranks on the same host.
    /// What a rank stores in its own memory, requests from itself or sends itself at a barrier
    /// arrives immediately.
    pub(super) fn dispatch(&mut self, message: Outgoing, kind: Kind, cargo: Cargo, op: OpId) {
        let Outgoing { from, to, size, channel, nic, .. } = message;
        for target in to.hosts() {
            if !self.knows(from, target) {
                return;
            }
        }
        if let (Destination::Host(target), Cargo::Program { tag, .. }) = (to, cargo)
            && target == from
            && tag < RESERVED_TAGS
        {
            let offered = self.now;
            let parcel = Parcel { from, to, size, cargo, op, offered, uses: 0, leaving: 0 };
            return self.send_to_self(parcel);
        }
        let own = match to {
            Destination::Host(target) => target == from,
            Destination::Hosts(ranks) => from < 64 && ranks >> from & 1 == 1,
        };
        let near = match self.places.are_shared() {
            true => to.hosts().filter(|target| self.places.share(from, *target)).count() as u32,
            false => 0,
        };
        let others = match to {
            Destination::Host(_) => u32::from(!own),
            Destination::Hosts(hosts) => hosts.count_ones() - u32::from(own),
        };
        let far = others - near;
        // A channel with one order of its own puts the copies of the initiator's host into it.
        let in_order =
            (own || near > 0) && far > 0 && self.keeps_one_order(channel, size, kind, nic);
        let copied = if in_order { 0 } else { near };
        let leaving = u8::from(far > 0) + u8::from(copied > 0);
        let uses = others + u32::from(leaving) + u32::from(own);
        let to = match to {
            Destination::Hosts(ranks) if own && !in_order => {
                Destination::Hosts(ranks & !(1 << from))
            }
            to => to,
        };
        let place =
            self.insert(Parcel { from, to, size, cargo, op, offered: self.now, uses, leaving });
        if far > 0 {
            let beyond = match to {
                Destination::Hosts(ranks) if copied > 0 => {
                    Destination::Hosts(ranks & !self.places.among(ranks, self.host(from)))
                }
                to => to,
            };
            self.messages += u64::from(others - copied);
            self.hand_over(Outgoing { to: beyond, ..message }, kind, place);
        }
        if copied > 0 {
            self.copy(from, place, size, copied);
        }
        if leaving == 0 && op != OpId::NONE {
            self.complete(op, Received::default());
        }
        if own && !in_order {
            self.deliver(from, place);
        }
    }

    /// Hands a message for ranks on other hosts over to the channel that takes it.
    fn hand_over(&mut self, message: Outgoing, kind: Kind, place: u32) {
        let Outgoing { from, to, size, channel, nic, .. } = message;
        let Some(channel) = channel.or_else(|| self.policy.channel(size, kind, nic)) else {
            let channels = self.channels.iter().map(|(name, _)| name.clone()).collect();
            return self.fail(ProgramError::NoRoute { size: size.0, channels });
        };
        let Some(to) = self.places.hosts_of(to) else {
            let problem = "several targets at once are on hosts below 64";
            return self.fail(ProgramError::Program(problem.to_owned()));
        };
        let (from, ticket) = (self.host(from), Ticket(place.into()));
        // One when it has left, and one for each host, whether or not that of the initiator is
        // among them.
        self.expected += 1 + to.hosts().count() as u64;
        self.channels[channel].1.offer(self.now, Message { from, to, size, ticket });
    }

    /// Whether the channel that takes a message keeps messages to several ranks in one order.
    /// Messages between hosts have that order, so there is none among the ranks of one host alone.
    pub fn is_ordered(&self, channel: Option<usize>, size: Bytes) -> bool {
        self.keeps_one_order(channel, size, Kind::Store, 0)
            && (!self.places.are_shared() || self.hosts_in_use() > 1)
    }

    fn keeps_one_order(&self, channel: Option<usize>, size: Bytes, kind: Kind, nic: u16) -> bool {
        let channel = channel.or_else(|| self.policy.channel(size, kind, nic));
        channel.is_some_and(|channel| self.channels[channel].1.keeps_one_order())
    }

    pub(super) fn insert(&mut self, parcel: Parcel) -> u32 {
        match self.free_parcels.pop() {
            Some(place) => {
                self.parcels[place as usize] = parcel;
                place
            }
            None => {
                self.parcels.push(parcel);
                (self.parcels.len() - 1) as u32
            }
        }
    }

    pub(super) fn heed(&mut self, notice: Notice, channel: usize) {
        let place = notice.ticket().0 as u32;
        self.expected -= 1;
        match notice {
            Notice::Sent { .. } => {
                let parcel = &mut self.parcels[place as usize];
                parcel.leaving -= 1;
                if parcel.leaving == 0 && parcel.op != OpId::NONE {
                    let op = parcel.op;
                    self.complete(op, Received::default());
                }
                self.use_up(place);
            }
            Notice::Delivered { time, to: host, .. } => {
                let Parcel { mut from, size, offered, cargo, .. } = self.parcels[place as usize];
                if let Cargo::Fetched { target, .. } = cargo {
                    from = target;
                }
                for to in self.ranks_at(place, host).hosts() {
                    self.account.pass(Passage { from, to, offered, delivered: time, size: size.0 });
                    self.deliver(to, place);
                }
            }
            Notice::Lost { time, to: host, .. } => {
                let Parcel { mut from, size, cargo, .. } = self.parcels[place as usize];
                if let Cargo::Fetched { target, .. } = cargo {
                    from = target;
                }
                for to in self.ranks_at(place, host).hosts() {
                    let name = &self.channels[channel].0;
                    self.lost.push(format!(
                        "channel {name} lost a message of {size} from rank {from} to rank {to} at \
                         {time}"
                    ));
                    if let Cargo::Confirmed(word) = cargo
                        && to == word.from
                    {
                        self.confirm(word, false);
                    }
                    self.use_up(place);
                }
            }
            Notice::FallsThrough { to, .. } => self.fall_through(place, to, channel),
        }
    }

    /// The ranks on a host that get a notice of a message there.
    pub(super) fn ranks_at(&self, place: u32, host: u16) -> Destination {
        if !self.places.are_shared() {
            return Destination::Host(self.places.rank_on(host));
        }
        let Parcel { from, to, cargo, .. } = self.parcels[place as usize];
        match (cargo, to) {
            (Cargo::Fetch { target, .. }, _) => Destination::Host(target),
            (Cargo::Fetched { .. }, _) => Destination::Host(from),
            // Both ends get a notice.
            (Cargo::Confirmed(word), _) => {
                let is_there = self.host(word.target) == host;
                Destination::Host(if is_there { word.target } else { word.from })
            }
            (_, Destination::Hosts(ranks)) => Destination::Hosts(self.places.among(ranks, host)),
            (_, one) => one,
        }
    }

    pub(super) fn deliver(&mut self, to: u16, place: u32) {
        let Parcel { from, cargo, .. } = self.parcels[place as usize];
        match cargo {
            Cargo::Program { tag, .. } => {
                let matching = &mut self.ranks[usize::from(to)].matching;
                if let Some(op) = matching.arrive(from, tag, place) {
                    self.take(OpId::new(op as usize), place);
                }
            }
            Cargo::Store { address, value } => {
                self.write(to, address, value);
                self.use_up(place);
            }
            Cargo::Ask { address, size, op } => {
                let value = self.load(to, address);
                self.use_up(place);
                let answer = Outgoing {
                    from: to,
                    to: Destination::Host(from),
                    tag: 0,
                    size,
                    value,
                    channel: None,
                    nic: 0,
                };
                self.dispatch(answer, Kind::Read, Cargo::Answer { value, op }, OpId::NONE);
            }
            Cargo::Fetch { .. } | Cargo::Fetched { .. } => self.fetched(to, place),
            Cargo::Confirmed(word) => self.confirmed(to, place, word),
            Cargo::RoundTrip(word, leg) => {
                self.use_up(place);
                self.arrive(word, leg);
            }
            Cargo::Barrier { op, channel } => self.pass_barrier(op, channel, place),
            Cargo::Comes { channel } => {
                self.use_up(place);
                self.come(to, channel);
            }
            Cargo::Released { op } => {
                self.complete(op, Received::default());
                self.use_up(place);
            }
            Cargo::Answer { value, op } => {
                let Parcel { from, size, .. } = self.parcels[place as usize];
                self.complete(op, Received { from, size, value, ..Received::default() });
                self.use_up(place);
            }
        }
    }

    pub(super) fn write(&mut self, rank: u16, address: u64, value: u64) {
        let own = &mut self.ranks[usize::from(rank)];
        own.memory.insert(address, value);
        let mut watchers = std::mem::take(&mut own.watchers);
        watchers.retain(|own| {
            let met = own.address == address && value >= own.least;
            if met {
                self.complete(own.op, Received { value, ..Received::default() });
            }
            !met
        });
        self.ranks[usize::from(rank)].watchers = watchers;
    }

    /// A receive takes a message that has arrived.
    pub(super) fn take(&mut self, op: OpId, place: u32) {
        let Parcel { from, size, cargo, .. } = self.parcels[place as usize];
        if let Cargo::Program { tag, value } = cargo {
            self.complete(op, Received { time: self.now, from, tag, size, value });
        }
        self.use_up(place);
    }

    pub(super) fn use_up(&mut self, place: u32) {
        let parcel = &mut self.parcels[place as usize];
        parcel.uses -= 1;
        if parcel.uses == 0 {
            self.free_parcels.push(place);
        }
    }
}
