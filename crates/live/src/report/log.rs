//! `WEFT_LIVE_LOG`: one line for each connection that is accelerated, stays with the kernel, or goes back
//! to it, with the reason.
//!
//! Lines are written whole, in one call, to a file that is opened for each: so the program's own
//! descriptors stay as they are, and processes share one file. Nothing here uses the heap.

use std::cell::UnsafeCell;
use std::fmt::{Arguments, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

use crate::sys;

const LONGEST: usize = 256;

struct Path(UnsafeCell<[u8; LONGEST]>);
// SAFETY: written once before `main`, when there is one thread, and only read from then on.
unsafe impl Sync for Path {}

static PATH: Path = Path(UnsafeCell::new([0; LONGEST]));
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Remembers where lines go: `stderr`, or a file. Called once, before `main`.
pub fn begin(path: &str) {
    let bytes = path.as_bytes();
    if bytes.is_empty() || bytes.len() >= LONGEST {
        return;
    }
    // SAFETY: see `Path`; the last byte stays zero.
    unsafe { (&mut *PATH.0.get())[..bytes.len()].copy_from_slice(bytes) };
    LENGTH.store(bytes.len(), Ordering::Release);
}

/// A line of limited length; what is too long is cut off.
pub struct Line {
    bytes: [u8; 320],
    length: usize,
}

impl Line {
    pub fn new() -> Self {
        Self { bytes: [0; 320], length: 0 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let count = text.len().min(self.bytes.len() - 1 - self.length);
        self.bytes[self.length..self.length + count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// Says what happened to the connection of a descriptor, whose socket has this number too.
pub fn line(fd: c_int, socket: c_int, what: Arguments) {
    let length = LENGTH.load(Ordering::Acquire);
    if length == 0 {
        return;
    }
    let _errno = sys::KeepErrno::new();
    let mut line = Line::new();
    let _ = write!(line, "weft live [{}] descriptor {fd}", sys::process());
    if let Some([own, peer]) = sys::addresses(socket) {
        let _ = write!(line, ", {own} to {peer}");
    }
    let _ = write!(line, ": {what}");
    line.bytes[line.length] = b'\n';
    // SAFETY: see `Path`.
    let path = unsafe { &*PATH.0.get() };
    let text = &line.bytes[..=line.length];
    if &path[..length] == b"stderr" {
        sys::append(2, text);
    } else if let Ok(file) = sys::open_for_appending(path.as_ptr()) {
        sys::append(file, text);
        sys::close(file);
    }
}
