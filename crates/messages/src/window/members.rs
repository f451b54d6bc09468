//! The members of a window: how a window is found by name, and which members are alive.
//!
//! A window is a memfd. Each member keeps a symbolic link in the rendezvous directory to its descriptor in `/proc`,
//! which dangles once the member has ended. Members join, leave and are removed under the directory's advisory
//! lock, which the kernel releases when its holder dies.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use weft_protocol::window::Node;

use super::WindowError;
use super::memory::{NODES, Shared, TAKES, WRITES};
use crate::rendezvous::Directory;
use crate::sys;

/// The longest name of a window.
pub const LONGEST_NAME: usize = 64;

/// How a member maps the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Incoming: it has a copy, which other members write.
    pub takes: bool,
    /// Outgoing: it may write.
    pub writes: bool,
}

impl Access {
    /// Both.
    pub const FULL: Access = Access { takes: true, writes: true };

    const fn bits(self) -> u32 {
        (if self.takes { TAKES } else { 0 }) | (if self.writes { WRITES } else { 0 })
    }
}

/// The links of one window in the rendezvous directory.
#[derive(Debug)]
pub struct Names {
    directory: Directory,
    name: String,
}

/// Holds a directory's lock until it is dropped.
#[derive(Debug)]
pub struct Locked(#[allow(dead_code, reason = "closed when it is dropped")] File);

impl Names {
    /// The links of the window with this name.
    pub fn new(directory: Directory, name: &str) -> Result<Self, WindowError> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
            return Err(WindowError::Name(name.to_owned()));
        }
        Ok(Self { directory, name: name.to_owned() })
    }

    /// The window's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the directory's lock.
    pub fn lock(&self) -> Result<Locked, WindowError> {
        let file = File::open(self.directory.path());
        let file = file.map_err(|error| WindowError::Kernel(sys::number(&error)))?;
        sys::lock(&file).map_err(WindowError::Kernel)?;
        Ok(Locked(file))
    }

    fn link(&self, node: Node) -> PathBuf {
        self.directory.path().join(format!("window.{}.{node}", self.name))
    }

    /// Finds the memory of the window through any live member. Dangling links are removed.
    pub fn find(&self) -> Option<(Shared, OwnedFd)> {
        for node in (0..NODES as u8).map(Node) {
            let link = self.link(node);
            if fs::symlink_metadata(&link).is_err() {
                continue;
            }
            let opened = File::options().read(true).write(true).open(&link).map(OwnedFd::from);
            let file = opened.ok().and_then(|file| Some((Shared::join(&file).ok()?, file)));
            match file.filter(|(shared, _)| is_alive(shared, node)) {
                Some(found) => return Some(found),
                None => drop(fs::remove_file(&link)),
            }
        }
        None
    }

    /// Creates the link of a member whose process holds the window's descriptor.
    pub fn publish(&self, node: Node, file: &OwnedFd) -> Result<(), WindowError> {
        let link = self.link(node);
        let _ = fs::remove_file(&link);
        let target = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        symlink(target, link).map_err(|error| WindowError::Kernel(sys::number(&error)))
    }

    /// Removes the link of a member.
    pub fn withdraw(&self, node: Node) {
        let _ = fs::remove_file(self.link(node));
    }
}

/// Assigns a free member number; the caller holds the directory's lock.
pub fn register(shared: &Shared, access: Access) -> Option<Node> {
    let mut nodes = (0..NODES as u8).map(Node);
    let node = nodes.find(|node| shared.member(*node).incarnation.load(Ordering::Acquire) == 0)?;
    let member = shared.member(node);
    let pid = std::process::id();
    member.pid.store(pid, Ordering::Relaxed);
    member.access.store(access.bits(), Ordering::Relaxed);
    member.began.store(sys::start_time(pid).unwrap_or(0), Ordering::Relaxed);
    member.incarnation.store(shared.next_incarnation(), Ordering::Release);
    Some(node)
}

/// The process of a member.
#[derive(Debug)]
struct Process {
    incarnation: u64,
    process: OwnedFd,
}

/// Cached process descriptors, to tell which members are alive.
#[derive(Debug)]
pub struct Liveness([Option<Process>; NODES]);

impl Liveness {
    /// An empty cache.
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| None))
    }

    /// Whether the process of a registered member has ended.
    pub fn is_dead(&mut self, shared: &Shared, node: Node) -> bool {
        let member = shared.member(node);
        let incarnation = member.incarnation.load(Ordering::Acquire);
        if incarnation == 0 {
            return false;
        }
        let known = &mut self.0[usize::from(node.0) % NODES];
        if known.as_ref().is_none_or(|pidfd| pidfd.incarnation != incarnation) {
            let pid = member.pid.load(Ordering::Relaxed);
            let Ok(process) = sys::pidfd(pid as libc::pid_t) else { return true };
            // The number may have been reused by another process.
            if sys::start_time(pid) != Some(member.began.load(Ordering::Relaxed)) {
                return true;
            }
            *known = Some(Process { incarnation, process });
        }
        known.as_ref().is_some_and(|pidfd| sys::is_readable(&pidfd.process))
    }
}

fn is_alive(shared: &Shared, node: Node) -> bool {
    let incarnation = shared.member(node).incarnation.load(Ordering::Acquire);
    incarnation != 0 && !Liveness::new().is_dead(shared, node)
}

/// Removes a member that has ended, or the caller itself: its unfinished writes become void, and nobody waits for it
/// any more. The caller holds the directory's lock and acts as `who`.
pub fn remove(shared: &Shared, liveness: &mut Liveness, names: &Names, gone: Node, who: Node) {
    shared.abandon(gone);
    while shared.is_on_line(gone) {
        if shared.exclusively(gone, who, |shared| shared.leave_line(gone)).is_some() {
            break;
        }
        for worker in (0..NODES as u8).map(Node) {
            if worker != who && liveness.is_dead(shared, worker) {
                shared.take_over(gone, worker, who);
            }
        }
        std::thread::yield_now();
    }
    names.withdraw(gone);
    shared.member(gone).incarnation.store(0, Ordering::Release);
}

/// Removes all members that have ended and returns them as a set. The caller holds the directory's lock.
pub fn remove_dead(shared: &Shared, liveness: &mut Liveness, names: &Names, who: Node) -> u64 {
    let all = (0..NODES as u8).map(Node).filter(|node| *node != who);
    let dead: Vec<Node> = all.filter(|node| liveness.is_dead(shared, *node)).collect();
    // Dead members may have been working for each other, so take over everything before removing any.
    for gone in &dead {
        shared.abandon(*gone);
        (0..NODES as u8).for_each(|node| shared.take_over(Node(node), *gone, who));
    }
    dead.iter().for_each(|gone| remove(shared, liveness, names, *gone, who));
    dead.iter().map(|gone| gone.bit()).sum()
}
