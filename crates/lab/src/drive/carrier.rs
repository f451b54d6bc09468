//! The interface of a channel to the layer above it: messages go in, notices come out.
//!
//! A channel that is driven as a carrier has no traffic of its own. It splits a message into whole
//! packets, as many as its payload takes (a message without payload is one packet), and reports
//! when the last byte has left its initiator and when it has reached its target.

mod messages;

use weft_units::{Bytes, Time};

use super::engine::{FastForward, Horizon, Jump};

pub(in crate::drive) use messages::{MessageId, Messages};

/// A name that the initiator gives to a message, which its notices carry. The channel does not
/// interpret it; messages that are in flight together have different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The targets of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One host, not the initiator.
    Host(u16),
    /// Several hosts below 64, a bit each, without the initiator and not none. A channel that
    /// cannot multicast sends a copy to each, in ascending order.
    Hosts(u64),
}

/// What a program submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The initiator.
    pub from: u16,
    /// The target, or several.
    pub to: Destination,
    /// The payload.
    pub size: Bytes,
    /// The name that its notices carry.
    pub ticket: Ticket,
}

/// A read of the memory of another host, or a write into it, by the adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteAccess {
    /// The initiator.
    pub from: u16,
    /// The host whose memory is accessed, not the initiator.
    pub target: u16,
    /// Where it begins, from the start of the window.
    pub offset: Bytes,
    /// How many bytes.
    pub size: Bytes,
    /// The name that its notices carry.
    pub ticket: Ticket,
}

/// What became of a message. Each message causes one `Sent`, and for every target a `Delivered` or
/// a `Lost`; or else a single `FallsThrough`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The last byte has left the initiator for the first time: the memory of the message may be
    /// reused. The adapter keeps what must be retransmitted.
    Sent {
        /// When.
        time: Time,
        /// The message.
        ticket: Ticket,
    },
    /// The last byte has reached the target, and so have those of all earlier messages of the pair.
    Delivered {
        /// When.
        time: Time,
        /// The message.
        ticket: Ticket,
        /// The target.
        to: u16,
    },
    /// The channel has given a packet of the message up by one of its rules.
    Lost {
        /// When the rest of it had also arrived or was given up.
        time: Time,
        /// The message.
        ticket: Ticket,
        /// The target.
        to: u16,
    },
    /// The channel does not carry it: initiator and target cannot be connected over it, and the
    /// message is for the ordinary stack (SCILAN 3.3).
    FallsThrough {
        /// When that became known.
        time: Time,
        /// The message.
        ticket: Ticket,
        /// The target.
        to: u16,
    },
}

/// A host has left a channel with membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The host stops, with everything that it has begun; no other host knows yet.
    Stops {
        /// The host.
        host: u16,
    },
    /// A host learns that another one is no longer on line.
    IsKnown {
        /// The host that has left.
        host: u16,
        /// The host that learns of it.
        at: u16,
    },
}

/// A channel, or anything in front of one, that carries messages.
pub trait Carrier {
    /// Accepts a message; `now` is not before the last [`Carrier::advance`]. Messages wait at their
    /// initiator without a limit, and those of one pair arrive in this order.
    fn offer(&mut self, now: Time, message: Message);

    /// When something happens next; [`Time::NEVER`] while nothing is in progress.
    fn next_time(&self) -> Time;

    /// Processes everything due by `now` and appends its notices, in order of time.
    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>);

    /// Whether the channel itself provides a barrier of its hosts.
    fn keeps_barrier(&self) -> bool {
        false
    }

    /// A host has reached the barrier that the channel itself provides for its first `hosts` hosts.
    /// When all of them have, each gets a [`Notice::Delivered`] under its own ticket. Returns
    /// `false`, and does nothing, if the channel provides no barrier: hosts then send messages.
    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        let _ = (now, host, hosts, ticket);
        false
    }

    /// The adapters read the memory of a host for another one, without a message of either program.
    /// Each end gets a [`Notice::Delivered`] under the ticket: the target when its memory has been
    /// read, after everything that came before on the path, and the initiator when it has the
    /// answer. Returns `false`, and does nothing, if adapters cannot do this: programs then send
    /// messages.
    ///
    /// # Errors
    /// Why the target does not let this be read.
    fn remote_read(&mut self, now: Time, read: RemoteAccess) -> Result<bool, String> {
        let _ = (now, read);
        Ok(false)
    }

    /// Writes into the memory of a host such that the host uses only what is known to be complete,
    /// without a message of either program. The target gets a [`Notice::Delivered`] under the
    /// ticket when it may use what was written, the initiator another one when it knows that. If
    /// the target leaves before, the initiator gets a [`Notice::Lost`], after one for the target if
    /// that has had none. Returns `false`, and does nothing, if adapters cannot do this.
    ///
    /// # Errors
    /// Why the target does not let this be written.
    fn recoverable_write(&mut self, now: Time, write: RemoteAccess) -> Result<bool, String> {
        let _ = (now, write);
        Ok(false)
    }

    /// Appends which hosts have left since the last call, and which hosts learned of it, in order
    /// of time.
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
    /// Names the part of the channel whose state is not compared, which prevents this.
    fn begin_fast_forward(&mut self) -> Result<(), String> {
        Err("a driver whose state is not compared".to_owned())
    }

    /// Skips as many whole periods as fit before the horizon, if the channel is known to repeat
    /// itself. Call it after [`Carrier::advance`].
    fn fast_forward(&mut self, horizon: Horizon) -> Option<Jump> {
        let _ = horizon;
        None
    }

    /// What fast-forward skipped, if that was requested and is possible.
    fn fast_forwarded(&self) -> Option<FastForward> {
        None
    }

    /// How many steps (events or slots) it has taken.
    fn steps(&self) -> u64;

    /// What waits for what in the channel, one sentence per line.
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
    /// When it happens.
    pub fn time(self) -> Time {
        match self {
            Notice::Sent { time, .. }
            | Notice::Delivered { time, .. }
            | Notice::Lost { time, .. }
            | Notice::FallsThrough { time, .. } => time,
        }
    }

    /// Returns the notice with another ticket.
    pub fn under(mut self, name: Ticket) -> Notice {
        match &mut self {
            Notice::Sent { ticket, .. }
            | Notice::Delivered { ticket, .. }
            | Notice::Lost { ticket, .. }
            | Notice::FallsThrough { ticket, .. } => *ticket = name,
        }
        self
    }

    /// The message that the notice concerns.
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
