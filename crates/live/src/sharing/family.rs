//! Which processes share this one's connections.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::c_int;

use crate::sys;

/// What the file of the connections is called in a list of mappings.
const NAME: &[u8] = b"/memfd:weft-live (deleted)";
/// A line of such a list that ends with it is shorter.
const LINE: usize = 160;

/// The number of the file of the connections; zero before there is one.
static FILE: AtomicU64 = AtomicU64::new(0);

/// Remembers the file of the connections.
pub fn begin(file: c_int) {
    FILE.store(number(file), Ordering::Relaxed);
}

/// Whether a descriptor is that of the connections' file.
pub fn is_file(fd: c_int) -> bool {
    let file = FILE.load(Ordering::Relaxed);
    file != 0 && number(fd) == file
}

/// The number of a descriptor's file; zero if there is none.
fn number(fd: c_int) -> u64 {
    // SAFETY: all zeroes are a valid place for the result.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &mut about) == 0 { about.st_ino } else { 0 }
    }
}

/// Whether a thread's process has the connections in its memory, as far as that can be found out.
pub fn has(thread: u32) -> bool {
    let number = FILE.load(Ordering::Relaxed);
    if number == 0 {
        return true;
    }
    let _errno = sys::KeepErrno::new();
    let Some(list) = open_memory_list(thread) else { return true };
    let (mut buffer, mut held) = ([0u8; 4096], 0);
    let found = loop {
        let room = &mut buffer[held..];
        // SAFETY: there is that much room.
        let read = unsafe { sys::bare!(libc::SYS_read, list, room.as_mut_ptr(), room.len()) };
        match read {
            1.. => {
                held += read as usize;
                if names(&buffer[..held], number) {
                    break true;
                }
                // A line may go on in the next part.
                let kept = held.min(LINE);
                buffer.copy_within(held - kept..held, 0);
                held = kept;
            }
            0 => break false,
            _ => break true,
        }
    };
    sys::close(list);
    found
}

/// The list of what a thread's process has in its memory.
fn open_memory_list(thread: u32) -> Option<c_int> {
    let mut path = [0u8; 32];
    let end = path.len() - 1;
    write!(&mut path[..end], "/proc/{thread}/maps").ok()?;
    let (at, flags) = (libc::AT_FDCWD, libc::O_RDONLY | libc::O_CLOEXEC);
    // SAFETY: the path ends with a zero.
    let list = unsafe { sys::bare!(libc::SYS_openat, at, path.as_ptr(), flags, 0) };
    (list >= 0).then_some(list as c_int)
}

/// Whether a part of a list names the file of this number.
fn names(part: &[u8], number: u64) -> bool {
    let starts = part.windows(NAME.len()).enumerate().filter(|(_, it)| *it == NAME);
    starts.into_iter().any(|(at, _)| {
        let before = part[..at].trim_ascii_end();
        let digits = before.iter().rev().take_while(|it| it.is_ascii_digit()).count();
        let value = before[before.len() - digits..]
            .iter()
            .try_fold(0u64, |value, it| value.checked_mul(10)?.checked_add(u64::from(it - b'0')));
        digits > 0 && value == Some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::sharing::lock::{self, Lock};

    #[test]
    fn a_list_names_the_file_of_the_number() {
        let line = b"7f12-7f34 rw-s 00000000 00:01 1032          /memfd:weft-live (deleted)\n";
        assert!(names(line, 1032));
        assert!(!names(line, 32) && !names(&line[..40], 1032) && !names(b"1032\n", 1032));
    }

    #[test]
    fn this_process_is_of_the_family_and_another_program_is_not() {
        let _sample = Sample::new();
        assert!(has(lock::thread()));
        let mut other = std::process::Command::new("cat");
        let mut other = other.stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(!has(other.id()));
        drop(other.stdin.take());
        other.wait().unwrap();
    }

    /// A child that was killed with the lock held, and for which nobody has waited.
    #[test]
    fn a_lock_of_who_has_ended_is_taken_over() {
        let _sample = Sample::new();
        // SAFETY: makes a file of this size.
        let file = unsafe {
            let file = libc::memfd_create(c"lock".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::ftruncate(file, 4096), 0);
            file
        };
        let memory = sys::map(Some(file), 4096).unwrap();
        // SAFETY: the memory is shared with the child, and zeroes are a free lock.
        let lock = unsafe { &*memory.cast::<Lock>() };
        // SAFETY: the child takes the lock and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            lock::forget_thread();
            std::mem::forget(lock.lock());
            // SAFETY: ends the child.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        // SAFETY: all zeroes are a valid place; the child stays to be waited for.
        unsafe {
            let mut what: libc::siginfo_t = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOWAIT;
            assert_eq!(libc::waitid(libc::P_PID, child as libc::id_t, &mut what, how), 0);
        }
        assert!(lock.is_held());
        assert!(lock.lock().is_some());
        // SAFETY: waits for the child.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    }
}
