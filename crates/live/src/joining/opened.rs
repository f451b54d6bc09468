//! The permissions of a meeting place that is a file: every user who may enter its directory may
//! connect there, and is then asked for its identity. With the permissions that a process's `umask`
//! leaves, others could not.

use std::fmt::Write;

use libc::{c_char, c_int};

use crate::descriptors;
use crate::report::log::Line;
use crate::sys::{self, Errno, call};
use crate::table;

/// What every user may do who may enter the directory: connecting needs write permission.
const ALL: libc::mode_t = 0o666;

/// Lets every user connect to a socket's file, at which no process answers before. `path` is a C
/// string. Returns an error of the kernel's, or `EADDRINUSE` if something else is there.
pub fn let_all_call(path: *const c_char) -> Result<(), Errno> {
    let file = open(path)?;
    // A user with write access to the directory may have put another file there, which must not be
    // changed.
    let is_own =
        describe(file, c"".as_ptr(), libc::AT_EMPTY_PATH).is_some_and(|it| is_own_socket(&it));
    let opened = if is_own { let_all_write(file) } else { Err(libc::EADDRINUSE) };
    table::close_own(file);
    opened
}

/// A number of the library's own for a file, which the program cannot close: what it opened next by the same
/// number all could write to.
fn open(path: *const c_char) -> Result<c_int, Errno> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let file =
        descriptors::move_high(call!(libc::SYS_openat, libc::AT_FDCWD, path, flags)? as c_int)?;
    table::claim(file);
    Ok(file)
}

/// Lets all write to what a number stands for that only names it.
fn let_all_write(file: c_int) -> Result<(), Errno> {
    let mut name = Line::new();
    write!(name, "/proc/self/fd/{file}\0").map_err(|_| libc::ENAMETOOLONG)?;
    call!(libc::SYS_fchmodat, libc::AT_FDCWD, name.as_bytes().as_ptr(), ALL).map(drop)
}

/// Whether others may not yet call at a socket's file: its server has just made it. `path` is a C string.
pub fn is_opening(path: *const c_char) -> bool {
    let described = describe(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW);
    described.is_some_and(|it| is_socket(&it) && it.st_mode & libc::S_IWOTH == 0)
}

fn is_socket(described: &libc::stat) -> bool {
    described.st_mode & libc::S_IFMT == libc::S_IFSOCK
}

/// Whether it is a socket of this user's, which has no other name.
fn is_own_socket(described: &libc::stat) -> bool {
    // SAFETY: takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    is_socket(described) && described.st_uid == own && described.st_nlink == 1
}

/// What a file is, by its folder and its name, a C string.
fn describe(folder: i32, name: *const c_char, flags: i32) -> Option<libc::stat> {
    // SAFETY: all zeroes is a valid description, and a valid place for the result.
    let mut described: libc::stat = unsafe { std::mem::zeroed() };
    let place = &raw mut described;
    // SAFETY: the name ends with a zero.
    let asked = unsafe { sys::bare!(libc::SYS_newfstatat, folder, name, place, flags) };
    (asked == 0).then_some(described)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;
    use crate::table::Entry;

    fn rights(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn all_may_call_at_a_socket_and_nothing_else_is_opened_in_its_place() {
        let folder = std::env::temp_dir().join(format!("weft-live-opened-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let [socket, other, link, file] =
            ["socket", "other", "link", "file"].map(|name| folder.join(name));
        let written = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
        let _listeners = [&socket, &other].map(|path| UnixListener::bind(path).unwrap());
        fs::write(&file, "").unwrap();
        for path in [&socket, &other, &file] {
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
        assert!(is_opening(written(&socket).as_ptr()) && !is_opening(written(&file).as_ptr()));
        assert_eq!(let_all_call(written(&socket).as_ptr()), Ok(()));
        assert_eq!((rights(&socket), is_opening(written(&socket).as_ptr())), (0o666, false));
        symlink(&other, &link).unwrap();
        for path in [&link, &file] {
            assert_eq!(let_all_call(written(path).as_ptr()), Err(libc::EADDRINUSE));
        }
        fs::remove_file(&link).unwrap();
        fs::hard_link(&other, &link).unwrap();
        assert_eq!(let_all_call(written(&link).as_ptr()), Err(libc::EADDRINUSE));
        assert_eq!([&other, &file].map(|path| rights(path)), [0o600; 2]);
        let nothing = written(&folder.join("nothing"));
        assert_eq!(let_all_call(nothing.as_ptr()), Err(libc::ENOENT));
        let file = open(written(&file).as_ptr()).unwrap();
        assert_eq!(table::entry(file), Entry::Own, "the program's `close` leaves it alone");
        table::close_own(file);
        fs::remove_dir_all(&folder).unwrap();
    }
}
