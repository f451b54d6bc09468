//! Who is a member of a window, by what name it is found, and whether a member still lives.
//!
//! A window is memory without a name. Each member leaves a link in the meeting directory through which the
//! others reach that memory by way of `/proc`, and which leads nowhere once the member has ended. Who joins,
//! leaves or is removed holds the directory's lock meanwhile, which the kernel takes back from the dead.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use weft_protocol::window::Node;

use super::WindowError;
use super::memory::{NODES, Shared, TAKES, WRITES};
use crate::meeting::Directory;
use crate::sys;

/// The longest name of a window.
pub const LONGEST_NAME: usize = 64;

/// What a member maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Incoming: it has a copy, which others write.
    pub takes: bool,
    /// Outgoing: it writes.
    pub writes: bool,
}

impl Access {
    /// Both.
    pub const FULL: Access = Access { takes: true, writes: true };

    const fn bits(self) -> u32 {
        (if self.takes { TAKES } else { 0 }) | (if self.writes { WRITES } else { 0 })
    }
}

/// A directory in which windows are found.
#[derive(Debug)]
pub struct Names {
    directory: Directory,
    name: String,
}

/// Holds a directory's lock until it is dropped.
#[derive(Debug)]
pub struct Locked(#[allow(dead_code, reason = "closed when it is dropped")] File);

impl Names {
    /// The links of one window.
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

    /// Finds the memory of the window by any member that lives. Links that lead nowhere are removed.
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

    /// Leaves the link of a member whose process holds the window's file.
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

/// Takes a free number; the caller holds the directory's lock.
pub fn enrol(shared: &Shared, access: Access) -> Option<Node> {
    let mut nodes = (0..NODES as u8).map(Node);
    let node = nodes.find(|node| shared.member(*node).incarnation.load(Ordering::Acquire) == 0)?;
    let member = shared.member(node);
    let pid = std::process::id();
    member.pid.store(pid, Ordering::Relaxed);
    member.access.store(access.bits(), Ordering::Relaxed);
    member.began.store(sys::began(pid).unwrap_or(0), Ordering::Relaxed);
    member.incarnation.store(shared.next_incarnation(), Ordering::Release);
    Some(node)
}

/// What is known of a member's life.
#[derive(Debug)]
struct Life {
    incarnation: u64,
    process: OwnedFd,
}

/// Knows of members whether they live.
#[derive(Debug)]
pub struct Lives([Option<Life>; NODES]);

impl Lives {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| None))
    }

    /// Whether a member's process has ended, that has not been removed yet.
    pub fn is_dead(&mut self, shared: &Shared, node: Node) -> bool {
        let member = shared.member(node);
        let incarnation = member.incarnation.load(Ordering::Acquire);
        if incarnation == 0 {
            return false;
        }
        let known = &mut self.0[usize::from(node.0) % NODES];
        if known.as_ref().is_none_or(|life| life.incarnation != incarnation) {
            let pid = member.pid.load(Ordering::Relaxed);
            let Ok(process) = sys::process(pid as libc::pid_t) else { return true };
            // The number may be another process's by now.
            if sys::began(pid) != Some(member.began.load(Ordering::Relaxed)) {
                return true;
            }
            *known = Some(Life { incarnation, process });
        }
        known.as_ref().is_some_and(|life| sys::is_readable(&life.process))
    }
}

fn is_alive(shared: &Shared, node: Node) -> bool {
    let incarnation = shared.member(node).incarnation.load(Ordering::Acquire);
    incarnation != 0 && !Lives::new().is_dead(shared, node)
}

/// Removes a member which has ended, or which is the caller itself: what it had begun is ended, and nobody waits
/// for it any more. The caller holds the directory's lock and acts as `who`.
pub fn remove(shared: &Shared, lives: &mut Lives, names: &Names, gone: Node, who: Node) {
    shared.give_up(gone);
    while shared.is_on_line(gone) {
        if shared.alone(gone, who, |shared| shared.leave_line(gone)).is_some() {
            break;
        }
        for worker in (0..NODES as u8).map(Node) {
            if worker != who && lives.is_dead(shared, worker) {
                shared.take_over(gone, worker, who);
            }
        }
        std::thread::yield_now();
    }
    names.withdraw(gone);
    shared.member(gone).incarnation.store(0, Ordering::Release);
}

/// Removes all who have ended; those are returned as a set. The caller holds the directory's lock.
pub fn remove_dead(shared: &Shared, lives: &mut Lives, names: &Names, who: Node) -> u64 {
    let all = (0..NODES as u8).map(Node).filter(|node| *node != who);
    let dead: Vec<Node> = all.filter(|node| lives.is_dead(shared, *node)).collect();
    // Those who are dead may have worked for each other, so nobody is waited for.
    for gone in &dead {
        shared.give_up(*gone);
        (0..NODES as u8).for_each(|node| shared.take_over(Node(node), *gone, who));
    }
    dead.iter().for_each(|gone| remove(shared, lives, names, *gone, who));
    dead.iter().map(|gone| gone.bit()).sum()
}
