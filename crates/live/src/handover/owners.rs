//! Which process has a socket, as far as `/proc` tells. Needs no heap.

use std::fmt::Arguments;
use std::io::Write;

use libc::c_int;

use crate::sys;

const ROOM: usize = 48;

/// A short text with the zero at its end.
fn text(said: Arguments<'_>) -> [u8; ROOM] {
    let mut bytes = [0; ROOM];
    let _ = (&mut bytes[..ROOM - 1]).write_fmt(said);
    bytes
}

/// The number of a socket in the kernel's list of files.
pub fn number_of(socket: c_int) -> u64 {
    // SAFETY: all zeroes are a valid place for the result.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the place is of this type.
    let asked = unsafe { sys::bare!(libc::SYS_fstat, socket, &raw mut about) };
    if asked == 0 { about.st_ino } else { 0 }
}

/// Whether a process has the socket of this number; `None` if that cannot be found out.
pub fn has(process: u32, socket: u64) -> Option<bool> {
    search(process, socket).map(|found| found.is_some())
}

/// Whether a process has the socket of this number no more. It is asked twice: a program may give it a lower
/// number, and close the one before, while the list of its numbers is read.
pub fn lacks(process: u32, socket: u64) -> bool {
    (0..2).all(|_| has(process, socket) == Some(false))
}

/// The lowest number that a process seems to have for the socket of this number, if it has any.
pub fn descriptor_of(process: u32, socket: u64) -> Option<c_int> {
    search(process, socket).flatten()
}

fn search(process: u32, socket: u64) -> Option<Option<c_int>> {
    let folder = sys::open_for_reading(text(format_args!("/proc/{process}/fd")).as_ptr()).ok()?;
    let wanted = text(format_args!("socket:[{socket}]"));
    let mut found = None;
    any_number_in(folder, |fd| {
        let (name, mut link) = (text(format_args!("{fd}")), [0; ROOM]);
        let (from, to) = (name.as_ptr(), link.as_mut_ptr());
        // SAFETY: the name ends with a zero, and there is that much room.
        let read = unsafe { sys::bare!(libc::SYS_readlinkat, folder, from, to, ROOM - 1) };
        found = Some(fd as c_int).filter(|_| read > 0 && link == wanted);
        found.is_some()
    });
    sys::close(folder);
    Some(found)
}

/// A process other than this one that has the socket of this number, if one is seen.
pub fn of(socket: u64) -> Option<u32> {
    let folder = sys::open_for_reading(c"/proc".as_ptr().cast()).ok()?;
    let (own, mut owner) = (sys::process(), None);
    any_number_in(folder, |process| {
        owner = Some(process).filter(|it| *it != own && has(*it, socket) == Some(true));
        owner.is_some()
    });
    sys::close(folder);
    owner
}

/// Whether any number that names something in a folder is accepted; no further is looked.
fn any_number_in(folder: c_int, mut accepts: impl FnMut(u32) -> bool) -> bool {
    let mut buffer = [0u64; 256];
    let room = size_of_val(&buffer);
    loop {
        // SAFETY: there is that much room.
        let read = unsafe { sys::bare!(libc::SYS_getdents64, folder, buffer.as_mut_ptr(), room) };
        let Ok(read @ 1..) = usize::try_from(read) else { return false };
        // SAFETY: the kernel has written that many bytes there.
        let mut rest =
            unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), read.min(room)) };
        // A number, an offset, a length, a kind, and the name, which ends with a zero.
        while rest.len() > 19 {
            let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
            let (entry, after) = rest.split_at(length.clamp(20, rest.len()));
            let name = entry[19..].split(|byte| *byte == 0).next().unwrap_or_default();
            let number = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok());
            if number.is_some_and(&mut accepts) {
                return true;
            }
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptors::Process;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    #[test]
    fn whoever_has_a_socket_is_found() {
        let (near, far) = UnixStream::pair().unwrap();
        let number = number_of(near.as_raw_fd());
        assert_ne!(number, number_of(far.as_raw_fd()));
        let own = sys::process();
        assert_eq!(has(own, number), Some(true));
        assert_eq!((has(own, u64::MAX), of(number)), (Some(false), None));
        assert_eq!(descriptor_of(own, number), Some(near.as_raw_fd()));
        let near = Stdio::from(OwnedFd::from(near));
        let mut child = Command::new("sleep").arg("60").stdin(near).spawn().unwrap();
        // It has left this process with the command.
        assert_eq!((has(own, number), of(number)), (Some(false), Some(child.id())));
        assert_eq!(
            (descriptor_of(own, number), descriptor_of(child.id(), number)),
            (None, Some(0))
        );
        let again = Process::open(child.id()).copy_of(0).unwrap();
        assert_eq!(number_of(again), number);
        sys::close(again);
        assert_eq!(Process::open(child.id()).copy_of(77), Err(libc::EBADF));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((has(child.id(), number), of(number)), (None, None));
    }
}
