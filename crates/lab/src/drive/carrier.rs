//! The interface of a channel to what is above it: messages go in, notices come out.
//!
//! A channel that is driven as a carrier has no traffic of its own. It splits a message into whole
//! packets, as many as its payload takes (a message without payload is one packet), and tells when
//! the last byte has left its initiator and when it has reached its target.

mod messages;

use weft_units::{Bytes, Time};

use super::engine::{FastForward, Horizon, Jump};

pub(in crate::drive) use messages::{MessageId, Messages};

/// A name that the initiator gives to a message, under which its notices come back. The channel
/// reads nothing into it; messages that are under way together have different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Where a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One host, another one than the initiator.
    Host(u16),
    /// Several hosts below 64, a bit each, without the initiator and not none. A channel that
    /// cannot multicast sends a copy to each, in ascending order.
    Hosts(u64),
}

/// What a program hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The initiator.
    pub from: u16,
    /// The target, or several.
    pub to: Destination,
    /// The payload.
    pub size: Bytes,
    /// Under which its notices come back.
    pub ticket: Ticket,
}

/// A read of the memory of another host, or a write into it, by the adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAccess {
    /// The initiator.
    pub from: u16,
    /// Whose memory, not that of the initiator.
    pub target: u16,
    /// Where it begins, from the start of the window.
    pub offset: Bytes,
    /// How much.
    pub size: Bytes,
    /// Under which its notices come back.
    pub ticket: Ticket,
}

/// What became of a message. Each brings one `Sent`, and for every target a `Delivered` or a
/// `Lost`; or else `FallsThrough` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The last byte has left the initiator for the first time: what the message was in may be used
    /// again. What must be sent again is kept by the adapter.
    Sent {
        /// When.
        time: Time,
        /// Which message.
        ticket: Ticket,
    },
    /// The last byte is at the target, and so are those of all earlier messages of the pair.
    Delivered {
        /// When.
        time: Time,
        /// Which message.
        ticket: Ticket,
        /// The target.
        to: u16,
    },
    /// The channel has given a packet of the message up by one of its rules.
    Lost {
        /// When the rest of it had arrived or was given up, too.
        time: Time,
        /// Which message.
        ticket: Ticket,
        /// The target.
        to: u16,
    },
    /// The channel does not carry it: initiator and target cannot be connected over it, and the
    /// message is for the ordinary stack (SCILAN 3.3).
    FallsThrough {
        /// When that was known.
        time: Time,
        /// Which message.
        ticket: Ticket,
        /// The target.
        to: u16,
    },
}

/// That a host is gone from a channel that looks after who is on line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The host stops, with all that it has begun; nobody knows yet.
    Stops {
        /// Which.
        host: u16,
    },
    /// A host is told that another one is not on line any more.
    IsKnown {
        /// Which is gone.
        host: u16,
        /// Who is told.
        at: u16,
    },
}

/// A channel, or anything in front of one, that carries messages.
pub trait Carrier {
    /// Takes a message over; `now` is not before the last [`Carrier::advance`]. Messages wait at
    /// their initiator without a limit, and those of one pair arrive in this order.
    fn offer(&mut self, now: Time, message: Message);

    /// When something happens next; [`Time::NEVER`] while nothing is under way.
    fn next_time(&self) -> Time;

    /// Lets everything due by `now` happen and appends what there is to know, in order of time.
    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>);

    /// Whether the channel itself keeps a barrier of its hosts.
    fn keeps_barrier(&self) -> bool {
        false
    }

    /// A host has come to the barrier that the channel itself keeps for its first `hosts` hosts. When
    /// all of them have come each is told by a [`Notice::Delivered`] under its own ticket. Returns
    /// `false`, and does nothing, where the channel keeps none: hosts then send messages.
    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        let _ = (now, host, hosts, ticket);
        false
    }

    /// The adapters read the memory of a host for another one, without a message of either program.
    /// Each end hears of it by a [`Notice::Delivered`] under the ticket: the target when its memory
    /// has been read, behind all that came before on the path, and the initiator when it has the
    /// answer. Returns `false`, and does nothing, where adapters cannot: programs send messages.
    ///
    /// # Errors
    /// Why the target does not let this be read.
    fn remote_read(&mut self, now: Time, read: RemoteAccess) -> Result<bool, String> {
        let _ = (now, read);
        Ok(false)
    }

    /// Writes into the memory of a host so that it uses only what is known to be whole, without a
    /// message of either program. The target hears of it by a [`Notice::Delivered`] under the ticket
    /// when it may use what was written, the initiator by another one when it knows. If the target
    /// leaves before, the initiator hears a [`Notice::Lost`], after one for the target if that has
    /// not heard. Returns `false`, and does nothing, where adapters cannot.
    ///
    /// # Errors
    /// Why the target does not let this be written.
    fn recoverable_write(&mut self, now: Time, write: RemoteAccess) -> Result<bool, String> {
        let _ = (now, write);
        Ok(false)
    }

    /// Appends who has gone since the last call, and who was told of it, in order of time.
    fn take_departures(&mut self, departures: &mut Vec<Departure>) {
        let _ = departures;
    }

    /// Whether all hosts see messages for several of them in one order, and whether an initiator may
    /// be among its own targets: it then gets its copy at the place of the message in that order.
    fn keeps_one_order(&self) -> bool {
        false
    }

    /// From now on, detects whether the channel repeats itself, so that [`Carrier::fast_forward`]
    /// can skip whole periods.
    ///
    /// # Errors
    /// Names the part of the channel whose state is not compared, which rules this out.
    fn begin_fast_forward(&mut self) -> Result<(), String> {
        Err("a driver whose state is not compared".to_owned())
    }

    /// Skips as many whole periods as fit before the horizon, if the channel is known to repeat
    /// itself. Call it after [`Carrier::advance`].
    fn fast_forward(&mut self, horizon: Horizon) -> Option<Jump> {
        let _ = horizon;
        None
    }

    /// What was left out, where that was asked for and is possible.
    fn fast_forwarded(&self) -> Option<FastForward> {
        None
    }

    /// How many steps (events or slots) it took so far.
    fn steps(&self) -> u64;

    /// Who waits for whom in it, one sentence a line.
    fn waiting(&self) -> Vec<String>;
}

impl Destination {
    /// The targets, in ascending order.
    pub fn hosts(self) -> impl Iterator<Item = u16> {
        let (one, mut several) = match self {
            Destination::Host(host) => (Some(host), 0),
            Destination::Hosts(hosts) => (None, hosts),
        };
        let rest = std::iter::from_fn(move || {
            let lowest = several.trailing_zeros();
            several &= several.wrapping_sub(1);
            (lowest < u64::BITS).then_some(lowest as u16)
        });
        one.into_iter().chain(rest)
    }
}

impl Notice {
    /// When it is so.
    pub fn time(self) -> Time {
        match self {
            Notice::Sent { time, .. }
            | Notice::Delivered { time, .. }
            | Notice::Lost { time, .. }
            | Notice::FallsThrough { time, .. } => time,
        }
    }

    /// The same of a message under another name.
    pub fn under(mut self, name: Ticket) -> Notice {
        match &mut self {
            Notice::Sent { ticket, .. }
            | Notice::Delivered { ticket, .. }
            | Notice::Lost { ticket, .. }
            | Notice::FallsThrough { ticket, .. } => *ticket = name,
        }
        self
    }

    /// The message that it is about.
    pub fn ticket(self) -> Ticket {
        match self {
            Notice::Sent { ticket, .. }
            | Notice::Delivered { ticket, .. }
            | Notice::Lost { ticket, .. }
            | Notice::FallsThrough { ticket, .. } => ticket,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_a_destination_are_its_hosts() {
        let hosts = |to: Destination| to.hosts().collect::<Vec<u16>>();
        assert_eq!(hosts(Destination::Host(700)), [700]);
        assert_eq!(hosts(Destination::Hosts(1 | 1 << 5 | 1 << 63)), [0, 5, 63]);
    }
}
