//! Buffers of hosts: one for each connection, or one that all transmitters share and lock in turn.

use std::sync::Arc;

use weft_fabric::host::{Connection, Host, HostSettings, SharedBuffer, SharedWindowSettings};
use weft_units::{Span, Time};

use super::{Due, HostPath};
use crate::drive::carrier::{Carrier, Notice};

/// How long transmitters waited for the lock of shared receive buffers, over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounters {
    /// Locks taken: messages that were written into a shared receive buffer.
    pub turns: u64,
    /// Attempts that found another one writing.
    pub locked_out: u64,
    /// From the first attempt until the write pointer is known, over all turns.
    pub waited: Span,
    /// The longest time of one.
    pub longest: Span,
}

/// The buffers that many share, by host.
#[derive(Debug)]
pub(super) struct Turns {
    settings: SharedWindowSettings,
    buffers: Vec<Arc<SharedBuffer>>,
    counters: TurnCounters,
}

/// The progress of a transmitter with the lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    from: u16,
    to: u16,
    since: Time,
    what: Reads,
}

/// How much of the other host's memory it has read.
#[derive(Clone, Copy, Debug)]
enum Reads {
    /// The word of the lock, which it has incremented.
    Lock,
    /// The write pointer.
    Pointer,
}

impl Turns {
    /// None if each connection has a buffer of its own.
    pub fn new(settings: &HostSettings, hosts: &mut [Host]) -> Option<Turns> {
        let shared = settings.window.as_ref()?.shared.clone()?;
        let all = hosts.len() as u16;
        let buffer = |host: &mut Host| {
            let buffer = Arc::new(SharedBuffer::new(all, settings.flag));
            host.own(&buffer);
            buffer
        };
        let buffers = hosts.iter_mut().map(buffer).collect();
        Some(Turns { settings: shared, buffers, counters: TurnCounters::default() })
    }
}

impl<C: Carrier> HostPath<C> {
    /// How long transmitters waited for the lock, if several share a buffer.
    pub fn turns(&self) -> Option<TurnCounters> {
        self.turns.as_ref().map(|turns| turns.counters)
    }

    /// Ensures that a host has a buffer of another one to write to, if it needs one.
    pub(super) fn connect(&mut self, from: u16, to: u16) {
        if !self.hosts[usize::from(from)].lacks_connection(to) {
            return;
        }
        match &self.turns {
            None => {
                let connection = Arc::new(Connection::new(self.flag));
                self.hosts[usize::from(from)].connect(to, &connection);
                self.hosts[usize::from(to)].accept(from, &connection);
            }
            Some(turns) => {
                let buffer = &turns.buffers[usize::from(to)];
                self.hosts[usize::from(from)].share(from, to, buffer);
            }
        }
    }

    /// A host begins to try to lock the buffer of another one.
    pub(super) fn wish_turn(&mut self, now: Time, from: u16, to: u16) {
        self.read(now, Step { from, to, since: now, what: Reads::Lock });
    }

    /// The next response out of the other host's memory is awaited.
    fn read(&mut self, now: Time, step: Step) {
        let Some(turns) = &self.turns else { return };
        let span = match step.what {
            Reads::Lock => turns.settings.lock,
            Reads::Pointer => turns.settings.pointer,
        };
        self.due.push(now + span, Due::Turn(step));
    }

    /// That response has arrived.
    pub(super) fn turn(&mut self, now: Time, step: Step, notices: &mut Vec<Notice>) {
        let Some(turns) = &mut self.turns else { return };
        let Step { from, to, since, what } = step;
        let host = &mut self.hosts[usize::from(from)];
        match what {
            Reads::Lock if host.try_turn(to) => {
                self.read(now, Step { what: Reads::Pointer, ..step });
            }
            Reads::Lock => {
                turns.counters.locked_out += 1;
                self.read(now, step);
            }
            Reads::Pointer => {
                let (waited, counters) = (now.since(since), &mut turns.counters);
                counters.turns += 1;
                counters.waited += waited;
                counters.longest = counters.longest.max(waited);
                host.begin_turn(now, to, &mut self.out);
                self.settle(now, from, notices);
            }
        }
    }

    /// The last store of a turn is in the memory of `owner`.
    pub(super) fn end_turn(&mut self, now: Time, from: u16, owner: u16) {
        self.hosts[usize::from(from)].turn_ended(now, owner, &mut self.out);
        self.put_out(from);
    }
}
