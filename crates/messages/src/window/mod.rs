//! Mapped windows between processes (Memory Channel 2): a write to the window is reflected into the copies of all
//! target members, and a member reads its own copy.
//!
//! * **Order.** All writes pass one log ([`weft_protocol::write_log`]), the point of global ordering: writes of one
//!   sender arrive in order, and writes of several senders in the same order everywhere (rules 1 and 2).
//! * **Errors.** A packet whose sender was killed while writing it is missed and counted by all targets
//!   ([`Window::errors`]); later packets are applied only once that is decided (rule 3).
//! * **Consent.** A member has a copy only if it has mapped the window incoming, and writes only if it has mapped
//!   it outgoing ([`Access`]).
//!
//! Nothing here owns a thread. A writer applies its writes to the copies of all targets, so a reader need only look
//! at its memory.

mod c;
mod collective;
mod error;
mod members;
mod memory;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weft_protocol::interrupt_flag::Sleep;
use weft_protocol::window::{
    Barrier, Conditional, HostWrites, Lock, MAX_PAYLOAD, Node, Outcome, RecoverableAction,
};
use weft_protocol::write_log::{Claim, Ticket, Work};
use weft_units::Bytes;

use crate::rendezvous::Directory;
use crate::sys;
pub use error::WindowError;
pub use members::{Access, LONGEST_NAME};
use members::{Liveness, Names};
pub use memory::{LOCKS, MOST_BYTES, NODES};
use memory::{Shared, TAKES, Write};

/// How long a member that makes no progress is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest sleep between checks for dead members.
const LOOK: Duration = Duration::from_millis(50);

/// The targets of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All members that mapped the window incoming, the writer included.
    All,
    /// All except the writer.
    Others,
    /// One member.
    One(Node),
    /// Several members, as a bit set.
    Some(u64),
}

/// A member's view of a window.
#[derive(Debug)]
pub struct Window {
    shared: Shared,
    names: Names,
    own: Node,
    access: Access,
    liveness: Liveness,
    /// The log position behind the last write of this member.
    written: Ticket,
    /// A lower bound of all members' positions, as last read.
    least: Ticket,
    /// The position of its own copy at the last [`Window::wait`].
    seen: Ticket,
    locks: [Lock; LOCKS],
    barrier: Option<Barrier>,
    /// How long a live member that makes no progress is waited for.
    patience: Duration,
    pid: u32,
    has_left: bool,
    /// Kept open: others find the memory through it.
    _file: OwnedFd,
}

impl Window {
    /// Creates a window and joins it.
    ///
    /// # Errors
    /// [`WindowError`]; an existing window of this name is not replaced.
    pub fn create(directory: Directory, name: &str, bytes: u64) -> Result<Window, WindowError> {
        if !(1..=MOST_BYTES).contains(&bytes) {
            return Err(WindowError::Size(bytes));
        }
        let names = Names::new(directory, name)?;
        let locked = names.lock()?;
        if names.find().is_some() {
            return Err(WindowError::Exists(name.to_owned()));
        }
        let (shared, file) = Shared::create(bytes).map_err(WindowError::Kernel)?;
        let window = Self::enter(shared, file, names, Access::FULL);
        drop(locked);
        window
    }

    /// Joins a window that another process created. The new copy starts with the bytes of the others.
    ///
    /// # Errors
    /// [`WindowError`].
    pub fn attach(directory: Directory, name: &str, access: Access) -> Result<Window, WindowError> {
        let place = directory.path().display().to_string();
        let names = Names::new(directory, name)?;
        let locked = names.lock()?;
        let Some((shared, file)) = names.find() else {
            return Err(WindowError::Missing { name: name.to_owned(), directory: place });
        };
        let window = Self::enter(shared, file, names, access);
        drop(locked);
        window
    }

    /// The common part of `create` and `attach`; the caller holds the directory's lock.
    fn enter(
        shared: Shared,
        file: OwnedFd,
        names: Names,
        access: Access,
    ) -> Result<Window, WindowError> {
        let mut own = members::register(&shared, access);
        if own.is_none() {
            own = Self::reuse_number(&shared, &names, access);
        }
        let own = own.ok_or_else(|| WindowError::Full(names.name().to_owned()))?;
        let pid = std::process::id();
        let mut window = Window {
            written: 0,
            least: 0,
            seen: 0,
            locks: [Lock::new(own); LOCKS],
            barrier: None,
            patience: PATIENCE,
            liveness: Liveness::new(),
            _file: file,
            shared,
            names,
            own,
            access,
            pid,
            has_left: false,
        };
        members::remove_dead(&window.shared, &mut window.liveness, &window.names, own);
        if access.takes {
            window.go_on_line()?;
        }
        window.clear_words(Some(own));
        window.names.publish(own, &window._file)?;
        window.seen = window.shared.position_of(own);
        Ok(window)
    }

    /// If all numbers are in use, frees that of a dead member.
    fn reuse_number(shared: &Shared, names: &Names, access: Access) -> Option<Node> {
        let mut liveness = Liveness::new();
        let mut all = (0..NODES as u8).map(Node);
        let dead = all.find(|node| liveness.is_dead(shared, *node))?;
        // It acts as the dead member, which cannot interfere.
        members::remove(shared, &mut liveness, names, dead, dead);
        members::register(shared, access)
    }

    fn go_on_line(&mut self) -> Result<(), WindowError> {
        let mut waiting = Waiting::new(self.patience);
        loop {
            let all = (0..NODES as u8).map(Node);
            let Some(other) = all.clone().find(|node| self.shared.is_on_line(*node)) else {
                self.shared.join_first(self.own);
                return Ok(());
            };
            let own = self.own;
            let joined = self.shared.exclusively(other, own, |shared| shared.join_at(own, other));
            if joined == Some(true) {
                self.shared.push(own, own);
                return Ok(());
            }
            self.help(other);
            waiting.pause(other)?;
        }
    }

    /// This member's number.
    pub const fn node(&self) -> Node {
        self.own
    }

    /// How many bytes the window has.
    pub const fn bytes(&self) -> u64 {
        self.shared.bytes()
    }

    /// This member's own copy of [`Window::bytes`] bytes, in which writes appear. It must not be written directly.
    pub fn memory(&self) -> *const u8 {
        self.shared.copy(self.own)
    }

    /// The members that mapped the window incoming, as a set.
    pub fn members(&self) -> u64 {
        self.shared.on_line()
    }

    /// The number of packets that this member has missed: their sender was killed while writing them, or their offset
    /// was invalid. Compare it before and after a message that must be intact.
    pub fn errors(&self) -> u64 {
        self.shared.errors(self.own)
    }

    /// The error count of another member.
    ///
    /// # Errors
    /// [`WindowError::NotIncoming`].
    pub fn errors_of(&self, node: Node) -> Result<u64, WindowError> {
        self.mask(Targets::One(node)).map(|_| self.shared.errors(node))
    }

    fn bounds(&self, offset: u64, length: u64) -> Result<(), WindowError> {
        let bytes = self.bytes();
        match offset.checked_add(length) {
            Some(end) if end <= bytes => Ok(()),
            _ => Err(WindowError::Outside { offset, length, bytes }),
        }
    }

    fn mask(&self, targets: Targets) -> Result<u64, WindowError> {
        let there = if self.has_left { 0 } else { self.shared.on_line() };
        let wanted = match targets {
            Targets::All => return Ok(there),
            Targets::Others => return Ok(there & !self.own.bit()),
            Targets::One(node) => 1_u64.checked_shl(node.0.into()).unwrap_or(0),
            Targets::Some(set) => set,
        };
        let missing = wanted & !there;
        if missing == 0 && wanted != 0 {
            return Ok(wanted);
        }
        let all = (0..NODES as u8).filter(|node| there >> node & 1 == 1);
        let accepted = all.map(|node| node.to_string()).collect::<Vec<_>>().join(", ");
        let node = match targets {
            Targets::One(node) => node.0,
            _ => missing.trailing_zeros() as u8,
        };
        Err(WindowError::NotIncoming(node, accepted))
    }

    /// Writes bytes to all targets. On return they are in all copies, except where another member is applying them at
    /// this moment; see [`Window::sweep`].
    ///
    /// # Errors
    /// [`WindowError`]: outside of the window, not mapped by both sides, or a member makes no progress.
    pub fn write(
        &mut self,
        targets: Targets,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), WindowError> {
        self.bounds(offset, bytes.len() as u64)?;
        let targets = self.mask(targets)?;
        self.put(targets, offset, bytes)
    }

    /// Writes anywhere in the copies, including the control words behind the window's bytes.
    fn put(&mut self, targets: u64, offset: u64, bytes: &[u8]) -> Result<(), WindowError> {
        let whole = HostWrites { write: Bytes(MAX_PAYLOAD), payload: Bytes(MAX_PAYLOAD) };
        for (at, size) in whole.pieces(offset, Bytes(bytes.len() as u64)) {
            let begin = (at - offset) as usize;
            let bytes = &bytes[begin..begin + size.0 as usize];
            self.post(&Write { targets, offset: at, bytes, errors: None })?;
        }
        self.apply_all();
        Ok(())
    }

    /// Appends one packet to the log.
    fn post(&mut self, write: &Write<'_>) -> Result<Ticket, WindowError> {
        if !self.access.writes {
            return Err(WindowError::NotOutgoing);
        }
        let log = self.shared.log();
        let mut waiting = Waiting::new(self.patience);
        loop {
            match log.claim(&self.shared, self.own.0, &mut self.least)? {
                Claim::Claimed(ticket) => {
                    self.shared.fill(ticket, write);
                    log.publish(&self.shared, ticket, self.own.0);
                    self.written = ticket + 1;
                    return Ok(ticket);
                }
                Claim::Behind(node) => {
                    let node = Node(node as u8);
                    self.help(node);
                    waiting.pause(node)?;
                }
            }
        }
    }

    /// Applies the log to the copies of all members.
    fn apply_all(&mut self) {
        self.shared.log().announce();
        let mut nodes = self.shared.on_line();
        while nodes != 0 {
            let node = Node(nodes.trailing_zeros() as u8);
            nodes &= nodes - 1;
            if let Work::Waits(other) = self.shared.push(node, self.own)
                && self.liveness.is_dead(&self.shared, Node(other))
            {
                self.help(node);
            }
        }
    }

    /// Applies the log to a node's copy, taking over from dead members.
    fn help(&mut self, node: Node) {
        let own = self.own;
        match self.shared.push(node, own) {
            Work::Done => {}
            Work::Busy(other) => {
                if self.liveness.is_dead(&self.shared, Node(other)) {
                    self.shared.take_over(node, Node(other), own);
                }
            }
            Work::Waits(other) => {
                let come = self.shared.position_of(node);
                if self.liveness.is_dead(&self.shared, Node(other)) {
                    self.shared.log().void(&self.shared, come, other);
                    for node in (0..NODES as u8).map(Node) {
                        self.shared.push(node, own);
                    }
                }
            }
        }
    }

    /// Waits until a node's copy includes everything before a log position; returns immediately if
    /// it is off line.
    fn reach(&mut self, node: Node, ticket: Ticket) -> Result<(), WindowError> {
        let mut waiting = Waiting::new(self.patience);
        // The position of a node that is off line is greater than all others.
        while self.shared.position_of(node) < ticket {
            self.help(node);
            if self.shared.position_of(node) >= ticket {
                break;
            }
            waiting.pause(node)?;
        }
        Ok(())
    }

    /// Reads this member's own copy, in order, each aligned word atomically.
    ///
    /// # Errors
    /// [`WindowError::Outside`], and [`WindowError::NotIncoming`] if it has none.
    pub fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), WindowError> {
        self.bounds(offset, bytes.len() as u64)?;
        self.mask(Targets::One(self.own))?;
        self.help(self.own);
        self.shared.load(self.own, offset, bytes);
        Ok(())
    }

    /// Reads another member's copy, after all earlier writes of this member have reached it.
    ///
    /// # Errors
    /// [`WindowError`]: outside of the window, no copy, or a member makes no progress.
    pub fn read_remote(
        &mut self,
        node: Node,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<(), WindowError> {
        self.bounds(offset, bytes.len() as u64)?;
        self.mask(Targets::One(node))?;
        self.reach(node, self.written)?;
        let mut waiting = Waiting::new(self.patience);
        let own = self.own;
        while self.shared.exclusively(node, own, |it| it.load(node, offset, bytes)).is_none() {
            self.help(node);
            waiting.pause(node)?;
        }
        Ok(())
    }

    /// Writes one packet that its target applies only if its error count is still `errors`; returns whether it did.
    ///
    /// # Errors
    /// [`WindowError`]; [`WindowError::TooLong`] if it does not fit one packet.
    pub fn write_conditional(
        &mut self,
        node: Node,
        offset: u64,
        bytes: &[u8],
        errors: u64,
    ) -> Result<Outcome, WindowError> {
        self.bounds(offset, bytes.len() as u64)?;
        let targets = self.mask(Targets::One(node))?;
        let length = bytes.len() as u64;
        if length == 0 || offset / MAX_PAYLOAD != (offset + length - 1) / MAX_PAYLOAD {
            return Err(WindowError::TooLong(length));
        }
        let ticket = self.post(&Write { targets, offset, bytes, errors: Some(errors) })?;
        self.apply_all();
        self.reach(node, ticket + 1)?;
        let refused = self.shared.was_refused(node, self.own, ticket);
        Ok(if refused { Outcome::Lost } else { Outcome::Arrived })
    }

    /// Delivers a message of any length intact: its last packet is a conditional write, and the message is sent again if
    /// an error occurred in between. Returns the number of attempts.
    ///
    /// # Errors
    /// [`WindowError`]; [`WindowError::Lost`] after ten attempts.
    pub fn deliver(&mut self, node: Node, offset: u64, bytes: &[u8]) -> Result<u32, WindowError> {
        const TIMES: u32 = 10;
        let length = bytes.len() as u64;
        self.bounds(offset, length)?;
        let end = (offset + length).saturating_sub(1);
        let last = ((end - end % MAX_PAYLOAD).max(offset) - offset) as usize;
        let mut sender = Conditional::default();
        let mut action = sender.send();
        for times in 1..=TIMES {
            let errors = self.errors_of(node)?;
            self.write(Targets::One(node), offset, &bytes[..last])?;
            let at = offset + last as u64;
            let outcome = self.write_conditional(node, at, &bytes[last..], errors)?;
            action = if action.is_some() { sender.hear(outcome) } else { None };
            if let Some(RecoverableAction::Done(_)) = action {
                return Ok(times);
            }
        }
        Err(WindowError::Lost(node.0, TIMES))
    }

    /// Waits until this member's copy has changed since the last call, at most for `limit`; returns whether it has.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now().checked_add(limit);
        loop {
            if self.has_left {
                return false;
            }
            self.help(self.own);
            let come = self.shared.position_of(self.own);
            if come != self.seen {
                self.seen = come;
                return true;
            }
            let left = deadline.map_or(LOOK, |it| it.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            let flag = self.shared.flag(self.own);
            let value = flag.arm(Sleep::OnWord);
            if self.shared.position_of(self.own) == self.seen {
                sys::sleep_on(flag.word(), value, left.min(LOOK));
            }
            flag.disarm(Sleep::OnWord);
        }
    }

    /// Removes dead members; returns them as a set.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remove_dead(&mut self) -> Result<u64, WindowError> {
        let locked = self.names.lock()?;
        let dead = members::remove_dead(&self.shared, &mut self.liveness, &self.names, self.own);
        self.clear_words(None);
        drop(locked);
        Ok(dead)
    }

    /// Whether a member has ended, or left.
    fn has_ended(&mut self, node: Node) -> bool {
        let member = self.shared.member(node);
        member.incarnation.load(Ordering::Acquire) == 0
            || member.access.load(Ordering::Relaxed) & TAKES == 0
            || self.liveness.is_dead(&self.shared, node)
    }
}

impl Window {
    /// Leaves the window: no more writes arrive or can be made. The copy stays readable until the value is dropped.
    pub fn leave(&mut self) {
        // A forked child has a copy of this value, but is not a member.
        if std::process::id() != self.pid || self.has_left {
            return;
        }
        self.has_left = true;
        self.release_all();
        self.access = Access { takes: false, writes: false };
        let Ok(_locked) = self.names.lock() else { return };
        members::remove_dead(&self.shared, &mut self.liveness, &self.names, self.own);
        members::remove(&self.shared, &mut self.liveness, &self.names, self.own, self.own);
        // Members that wait for this one check again.
        (0..NODES as u8).for_each(|node| self.shared.wake(Node(node)));
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Waiting for another member: first spins, then yields, then sleeps.
#[derive(Debug)]
struct Waiting {
    looks: u32,
    began: Option<Instant>,
    limit: Duration,
}

impl Waiting {
    const fn new(limit: Duration) -> Self {
        Self { looks: 0, began: None, limit }
    }

    fn pause(&mut self, other: Node) -> Result<(), WindowError> {
        self.looks += 1;
        if self.looks < 64 {
            std::hint::spin_loop();
            return Ok(());
        }
        let began = *self.began.get_or_insert_with(Instant::now);
        if began.elapsed() > self.limit {
            return Err(WindowError::Stalled(other.0, self.limit));
        }
        if self.looks < 256 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
