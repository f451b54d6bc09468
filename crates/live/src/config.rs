//! What the environment sets. Read once, before the first connection.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `WEFT_LIVE` | `off` leaves everything to the kernel | on |
//! | `WEFT_LIVE_RING` | bytes of one direction's ring, a power of two from 4096 | 262144 |
//! | `WEFT_LIVE_LIMIT` | connections in shared memory at one time | 2048, fewer with little memory |
//! | `WEFT_LIVE_DIRECTORY` | where ends in different network namespaces meet; its group is trusted | nowhere |
//! | `WEFT_LIVE_LOG` | a file, or `stderr`, for what becomes of each connection | none |

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::means;
use crate::report::log;
use crate::sys;

static RING: AtomicU64 = AtomicU64::new(256 * 1024);
/// The configured number, or [`MOST`] and no more than memory allows, once it has been asked for.
static LIMIT: OnceLock<u64> = OnceLock::new();
const MOST: u64 = 2048;
/// The rings of all connections may take at most one part in this many of the memory.
const PART: u64 = 4;

/// A path of a directory, copied: programs write over their environment.
#[derive(Debug)]
struct Directory {
    /// With a zero at the end.
    bytes: [u8; LONGEST + 1],
    length: usize,
}

/// As long as a directory's path may be: with a name in it, it is the path of a Unix socket.
const LONGEST: usize = 78;
static DIRECTORY: OnceLock<Directory> = OnceLock::new();

/// The value of a variable.
fn variable(name: &CStr) -> Option<&'static str> {
    // SAFETY: the name is a C string. The value stays where it is as long as nobody changes the
    // environment, which nobody can before `main`.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: the environment consists of C strings.
    unsafe { CStr::from_ptr(value) }.to_str().ok()
}

/// Reads the settings; false if the library is to do nothing.
pub fn read() -> bool {
    // SAFETY: takes no memory.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if secure || variable(c"WEFT_LIVE") == Some("off") {
        return false;
    }
    let number = |name| variable(name).and_then(|value| value.parse::<u64>().ok());
    if let Some(bytes) = number(c"WEFT_LIVE_RING")
        && bytes.is_power_of_two()
        && (4096..=1 << 28).contains(&bytes)
    {
        RING.store(bytes, Ordering::Relaxed);
    }
    if let Some(limit) = number(c"WEFT_LIVE_LIMIT") {
        // The first process to read it is the only one.
        let _ = LIMIT.set(limit);
    }
    if let Some(path) = variable(c"WEFT_LIVE_DIRECTORY")
        && path.starts_with('/')
        && path.len() <= LONGEST
    {
        let mut bytes = [0; LONGEST + 1];
        bytes[..path.len()].copy_from_slice(path.as_bytes());
        // The first process to read it is the only one.
        let _ = DIRECTORY.set(Directory { bytes, length: path.len() });
    }
    if let Some(path) = variable(c"WEFT_LIVE_LOG") {
        log::begin(path);
    }
    true
}

pub fn ring_bytes() -> u64 {
    RING.load(Ordering::Relaxed)
}

pub fn limit() -> u64 {
    *LIMIT.get_or_init(|| {
        let there_is_room = |memory: u64| (memory / PART / (2 * ring_bytes())).min(MOST);
        means::of_control_group().map_or(MOST, there_is_room)
    })
}

/// The directory in which ends of connections between network namespaces meet.
pub fn directory() -> Option<&'static [u8]> {
    DIRECTORY.get().map(|it| &it.bytes[..it.length])
}

/// The group with whose members this user shares memory: that of the directory, if it may write
/// there and others may not. The directory is checked each time, so that a change of it takes
/// effect immediately.
pub fn trusted_group() -> Option<u32> {
    let path = DIRECTORY.get()?.bytes.as_ptr();
    // SAFETY: all zeroes is a valid `stat`, and a valid place for the result.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    let place = &raw mut about;
    // SAFETY: the path ends with a zero.
    let asked = unsafe { sys::bare!(libc::SYS_newfstatat, libc::AT_FDCWD, path, place, 0) };
    let may = |bits| about.st_mode & bits == bits;
    let is_groups = asked == 0
        && about.st_mode & libc::S_IFMT == libc::S_IFDIR
        && may(libc::S_IWGRP | libc::S_IXGRP)
        && !may(libc::S_IWOTH);
    (is_groups && about.st_gid != UNMAPPED).then_some(about.st_gid)
}

/// What the kernel gives for a group, or user, that has no number in this user namespace.
const UNMAPPED: u32 = 65534;
