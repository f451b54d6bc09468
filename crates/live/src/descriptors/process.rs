//! Other processes and their threads: noticing that one has ended, or sleeps.

use std::io::Write;

use libc::c_int;

use super::{move_high, with_room};
use crate::sys::{Errno, call, close, is_there, open_for_reading, poll_now, read_at};

/// A process whose end can be noticed.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    number: u32,
    /// The descriptor that shows when it has ended; -1 if there is none.
    fd: c_int,
    /// Whether that is a `pidfd`, which can be waited for. Otherwise it is a file of the process in
    /// `/proc`, which the kernel never connects to another process with the same number.
    can_be_waited_for: bool,
}

impl Process {
    /// `pidfd_open` came with Linux 5.3, and filters of older containers refuse it.
    pub fn open(number: u32) -> Self {
        let opened = with_room(|| call!(libc::SYS_pidfd_open, number, 0));
        if let Ok(fd) = opened.and_then(|fd| move_high(fd as c_int)) {
            return Self { number, fd, can_be_waited_for: true };
        }
        let mut path = [0u8; 32];
        let _ = (&mut path[..31]).write_fmt(format_args!("/proc/{number}/stat"));
        let fd = with_room(|| open_for_reading(path.as_ptr())).and_then(move_high);
        Self { number, fd: fd.unwrap_or(-1), can_be_waited_for: false }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn fd(&self) -> Option<c_int> {
        (self.fd >= 0).then_some(self.fd)
    }

    /// The descriptor to wait for together with others; -1 if there is none.
    pub fn end(&self) -> c_int {
        if self.can_be_waited_for { self.fd } else { -1 }
    }

    /// Whether it has ended, waited for or not.
    pub fn has_ended(&self) -> bool {
        if self.can_be_waited_for {
            return poll_now(self.fd, libc::POLLIN) != 0;
        }
        if self.fd < 0 {
            return !is_there(self.number);
        }
        let mut buffer = [0u8; 512];
        match read_at(self.fd, buffer.as_mut_ptr(), buffer.len(), 0) {
            Ok(read) => is_of_an_ended_process(&buffer[..read]),
            Err(_) => true,
        }
    }

    /// Duplicates a descriptor of the process, where the kernel lets the caller inspect it.
    ///
    /// # Errors
    /// The kernel's error, most often `EPERM`. The call came with Linux 5.6.
    pub fn copy_of(&self, fd: c_int) -> Result<c_int, Errno> {
        call!(libc::SYS_pidfd_getfd, self.end(), fd, 0).and_then(|copy| move_high(copy as c_int))
    }

    pub fn close(self) {
        self.fd().into_iter().for_each(close);
    }
}

/// Whether `/proc/PID/stat` is of a process that has ended and was not waited for. Its first thread
/// may have ended before the others.
fn is_of_an_ended_process(stat: &[u8]) -> bool {
    // The number of threads is the 17th word after the state.
    let threads = after_name(stat).nth(17).unwrap_or_default();
    matches!(state(stat), b"Z" | b"X") && matches!(threads, b"0" | b"1")
}

/// The words of a `stat` after the name, which stands in parentheses and may have any.
fn after_name(stat: &[u8]) -> impl Iterator<Item = &[u8]> {
    let after = stat.iter().rposition(|byte| *byte == b')').map_or(0, |at| at + 2);
    stat.get(after..).unwrap_or_default().split(|byte| *byte == b' ')
}

fn state(stat: &[u8]) -> &[u8] {
    after_name(stat).next().unwrap_or_default()
}

/// Whether a thread of this process sleeps in the kernel, or is stopped; also where the kernel does not tell.
pub fn is_asleep(thread: u32) -> bool {
    let mut path = [0u8; 48];
    let _ = (&mut path[..47]).write_fmt(format_args!("/proc/self/task/{thread}/stat"));
    let Ok(fd) = with_room(|| open_for_reading(path.as_ptr())) else { return true };
    let mut buffer = [0u8; 512];
    let read = read_at(fd, buffer.as_mut_ptr(), buffer.len(), 0).unwrap_or(0);
    close(fd);
    !matches!(state(&buffer[..read]), b"R" | b"D")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The process as a kernel without `pidfd_open` shows it.
    fn seen_in_proc(number: u32) -> Process {
        let path = format!("/proc/{number}/stat\0");
        let fd = open_for_reading(path.as_ptr()).unwrap();
        Process { number, fd, can_be_waited_for: false }
    }

    #[test]
    fn who_has_ended_is_noticed_before_and_after_it_was_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let number = child.id();
        let bare = Process { number, fd: -1, can_be_waited_for: false };
        let seen = [Process::open(number), seen_in_proc(number)];
        assert!(seen[0].end() >= 0 && seen[1].end() < 0);
        assert!(seen.iter().chain([&bare]).all(|process| !process.has_ended()));
        child.kill().unwrap();
        while !seen[0].has_ended() {
            std::thread::yield_now();
        }
        assert!(seen[1].has_ended(), "nobody has waited for it");
        child.wait().unwrap();
        assert!(seen.iter().chain([&bare]).all(Process::has_ended));
        seen.into_iter().for_each(Process::close);
    }

    #[test]
    fn a_name_with_parentheses_and_a_first_thread_that_has_ended_mislead_nobody() {
        let rest = "0 0 0 0 0 0 0 0 0 0 0 0 0 20 0";
        let stat = |name: &str, state: char, threads: u32| {
            is_of_an_ended_process(format!("7 ({name}) {state} 1 {rest} {threads} 0 9").as_bytes())
        };
        assert!(stat("x", 'Z', 1) && stat(") R 1", 'Z', 1) && stat("x", 'X', 0));
        assert!(!stat("x", 'Z', 2) && !stat(") Z 1", 'S', 1) && !stat("x", 'R', 1));
    }
}
