//! Mapped windows between processes (Memory Channel 2, by its paper): a write to the window is reflected into the
//! copies of all members who are its targets, and a read is a look at one's own copy.
//!
//! * **Order.** All writes pass one log ([`weft_protocol::write_log`]), the point of global ordering: the writes
//!   of one sender arrive in order, those of several in the same order everywhere (rules 1 and 2).
//! * **Errors.** A record whose sender was killed while writing it is missed by all targets and counted by each
//!   ([`Window::errors`]); what follows it is taken only once that is decided (rule 3).
//! * **Consent.** A member has a copy only if it has mapped the window incoming, and writes only if it has mapped
//!   it outgoing ([`Access`]).
//!
//! Nothing here owns a thread. Whoever writes brings its writes to all members, so a member's program may just
//! look at its memory.

mod c;
mod error;
mod members;
mod memory;
mod together;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weft_protocol::interrupt_flag::Sleep;
use weft_protocol::window::{
    Barrier, Conditional, HostWrites, Lock, MAX_PAYLOAD, Node, Outcome, RecoverableAction,
};
use weft_protocol::write_log::{Claim, Ticket, Work};
use weft_units::Bytes;

use crate::meeting::Directory;
use crate::sys;
pub use error::WindowError;
pub use members::{Access, LONGEST_NAME};
use members::{Lives, Names};
pub use memory::{LOCKS, MOST_BYTES, NODES};
use memory::{Shared, TAKES, Write};

/// The usual patience.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long somebody sleeps at most before looking whether others have ended.
const LOOK: Duration = Duration::from_millis(50);

/// Whom a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// All who have mapped the window incoming; the writer's own copy too, in the same order.
    All,
    /// The same without the writer.
    Others,
    /// One.
    One(Node),
    /// Some, as a set of bits.
    Some(u64),
}

/// A member's view of a window.
#[derive(Debug)]
pub struct Window {
    shared: Shared,
    names: Names,
    own: Node,
    access: Access,
    lives: Lives,
    /// Behind the last record that this member has written.
    written: Ticket,
    /// No member's copy is further back, as far as this one has looked.
    least: Ticket,
    /// Where its own copy was at the last [`Window::wait`].
    seen: Ticket,
    locks: [Lock; LOCKS],
    barrier: Option<Barrier>,
    /// So long a member that does not end and does not go on is waited for.
    patience: Duration,
    pid: u32,
    has_left: bool,
    /// By which the others find the memory.
    _file: OwnedFd,
}

impl Window {
    /// Makes a window and joins it.
    ///
    /// # Errors
    /// [`WindowError`]; a window of this name that somebody has is not replaced.
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

    /// Joins a window that another process has made. Its copy has the bytes that the others' have.
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

    /// The rest of both; the caller holds the directory's lock.
    fn enter(
        shared: Shared,
        file: OwnedFd,
        names: Names,
        access: Access,
    ) -> Result<Window, WindowError> {
        let mut own = members::enrol(&shared, access);
        if own.is_none() {
            own = Self::free_a_number(&shared, &names, access);
        }
        let own = own.ok_or_else(|| WindowError::Crowded(names.name().to_owned()))?;
        let pid = std::process::id();
        let mut window = Window {
            written: 0,
            least: 0,
            seen: 0,
            locks: [Lock::new(own); LOCKS],
            barrier: None,
            patience: PATIENCE,
            lives: Lives::new(),
            _file: file,
            shared,
            names,
            own,
            access,
            pid,
            has_left: false,
        };
        members::remove_dead(&window.shared, &mut window.lives, &window.names, own);
        if access.takes {
            window.come_on_line()?;
        }
        window.clear_words(Some(own));
        window.names.publish(own, &window._file)?;
        window.seen = window.shared.come(own);
        Ok(window)
    }

    /// Where all numbers are taken, that of one who has ended may be had.
    fn free_a_number(shared: &Shared, names: &Names, access: Access) -> Option<Node> {
        let mut lives = Lives::new();
        let mut all = (0..NODES as u8).map(Node);
        let dead = all.find(|node| lives.is_dead(shared, *node))?;
        // It acts as the one who has ended, of whom nothing else can come.
        members::remove(shared, &mut lives, names, dead, dead);
        members::enrol(shared, access)
    }

    fn come_on_line(&mut self) -> Result<(), WindowError> {
        let mut waiting = Waiting::new(self.patience);
        loop {
            let all = (0..NODES as u8).map(Node);
            let Some(other) = all.clone().find(|node| self.shared.is_on_line(*node)) else {
                self.shared.join_first(self.own);
                return Ok(());
            };
            let own = self.own;
            let joined = self.shared.alone(other, own, |shared| shared.join_at(own, other));
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

    /// This member's own copy, [`Window::bytes`] long: others' writes appear in it. It must not be written.
    pub fn memory(&self) -> *const u8 {
        self.shared.copy(self.own)
    }

    /// Those who have mapped the window incoming, as a set.
    pub fn members(&self) -> u64 {
        self.shared.on_line()
    }

    /// Packets that this member has missed, or could not take: their sender was killed while writing them, or
    /// they named no place. To be read before and after a message that must be whole.
    pub fn errors(&self) -> u64 {
        self.shared.errors(self.own)
    }

    /// The same of another member.
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

    /// Writes bytes to all targets. When it returns they are there, except where another member brings them this
    /// very moment; see [`Window::sweep`].
    ///
    /// # Errors
    /// [`WindowError`]: outside of the window, not mapped by both sides, or a member is stopped.
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

    /// Writes anywhere in the copies, also behind the window's bytes.
    fn put(&mut self, targets: u64, offset: u64, bytes: &[u8]) -> Result<(), WindowError> {
        let whole = HostWrites { write: Bytes(MAX_PAYLOAD), payload: Bytes(MAX_PAYLOAD) };
        for (at, size) in whole.pieces(offset, Bytes(bytes.len() as u64)) {
            let begin = (at - offset) as usize;
            let bytes = &bytes[begin..begin + size.0 as usize];
            self.post(&Write { targets, offset: at, bytes, errors: None })?;
        }
        self.bring();
        Ok(())
    }

    /// Puts one packet into the log.
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

    /// Brings what is in the log to all.
    fn bring(&mut self) {
        self.shared.log().announce();
        let mut nodes = self.shared.on_line();
        while nodes != 0 {
            let node = Node(nodes.trailing_zeros() as u8);
            nodes &= nodes - 1;
            if let Work::Waits(other) = self.shared.push(node, self.own)
                && self.lives.is_dead(&self.shared, Node(other))
            {
                self.help(node);
            }
        }
    }

    /// Brings what is there to a node, also in place of those who have ended.
    fn help(&mut self, node: Node) {
        let own = self.own;
        match self.shared.push(node, own) {
            Work::Done => {}
            Work::Busy(other) => {
                if self.lives.is_dead(&self.shared, Node(other)) {
                    self.shared.take_over(node, Node(other), own);
                }
            }
            Work::Waits(other) => {
                let come = self.shared.come(node);
                if self.lives.is_dead(&self.shared, Node(other)) {
                    self.shared.log().void(&self.shared, come, other);
                    for node in (0..NODES as u8).map(Node) {
                        self.shared.push(node, own);
                    }
                }
            }
        }
    }

    /// Waits until a node has all that was written before a place of the log; at once if it is off line.
    fn reach(&mut self, node: Node, ticket: Ticket) -> Result<(), WindowError> {
        let mut waiting = Waiting::new(self.patience);
        // Off line, a position is behind all.
        while self.shared.come(node) < ticket {
            self.help(node);
            if self.shared.come(node) >= ticket {
                break;
            }
            waiting.pause(node)?;
        }
        Ok(())
    }

    /// Reads bytes of this member's own copy, each word of them at once and in order.
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

    /// Reads bytes of another member's copy as they are behind all that this member has written before.
    ///
    /// # Errors
    /// [`WindowError`]: outside of the window, no copy, or a member is stopped.
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
        while self.shared.alone(node, own, |it| it.load(node, offset, bytes)).is_none() {
            self.help(node);
            waiting.pause(node)?;
        }
        Ok(())
    }

    /// Writes one packet that its target takes only if it counts `errors` errors still, and says whether it did.
    ///
    /// # Errors
    /// [`WindowError`]; [`WindowError::TooLong`] if it would be several packets.
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
        self.bring();
        self.reach(node, ticket + 1)?;
        let refused = self.shared.was_refused(node, self.own, ticket);
        Ok(if refused { Outcome::Lost } else { Outcome::Arrived })
    }

    /// Delivers a message of any length that the target uses only when it is whole: its last packet is a
    /// conditional write, and the message is sent again if an error came between. Returns how often it was sent.
    ///
    /// # Errors
    /// [`WindowError`]; [`WindowError::Lost`] after ten times.
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

    /// Sleeps until something may have come into this member's own copy since the last call, at most so long;
    /// whether anything has.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now().checked_add(limit);
        loop {
            if self.has_left {
                return false;
            }
            self.help(self.own);
            let come = self.shared.come(self.own);
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
            if self.shared.come(self.own) == self.seen {
                sys::sleep_on(flag.word(), value, left.min(LOOK));
            }
            flag.disarm(Sleep::OnWord);
        }
    }

    /// Removes members that have ended; returns them as a set.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn remove_dead(&mut self) -> Result<u64, WindowError> {
        let locked = self.names.lock()?;
        let dead = members::remove_dead(&self.shared, &mut self.lives, &self.names, self.own);
        self.clear_words(None);
        drop(locked);
        Ok(dead)
    }

    /// Whether a member has ended, or left.
    fn is_gone(&mut self, node: Node) -> bool {
        let member = self.shared.member(node);
        member.incarnation.load(Ordering::Acquire) == 0
            || member.access.load(Ordering::Relaxed) & TAKES == 0
            || self.lives.is_dead(&self.shared, node)
    }
}

impl Window {
    /// Leaves: writes come no more, and none can be made. The copy stays as it is until the value is dropped.
    pub fn leave(&mut self) {
        // A child has a copy of this value, and is no member.
        if std::process::id() != self.pid || self.has_left {
            return;
        }
        self.has_left = true;
        self.release_all();
        self.access = Access { takes: false, writes: false };
        let Ok(_locked) = self.names.lock() else { return };
        members::remove_dead(&self.shared, &mut self.lives, &self.names, self.own);
        members::remove(&self.shared, &mut self.lives, &self.names, self.own, self.own);
        // Who waits for this member looks again.
        (0..NODES as u8).for_each(|node| self.shared.wake(Node(node)));
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.leave();
    }
}

/// How one waits for another who is at work: first by looking, then by letting others run.
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
