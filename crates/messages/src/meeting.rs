//! How processes find each other: names, a directory of sockets, and the handing over of a segment.
//!
//! Each endpoint listens at a Unix socket in a directory that only its user can enter. Who wants to
//! send there connects and passes the segment through which it will send. Each side asks the kernel
//! whose process the other is, and goes on only with its own user's.

use std::fs::{self, DirBuilder};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::segment::{Segment, VERSION};
use crate::sys::{self, Errno};

/// The directory in which processes meet, if not the usual one.
pub const DIRECTORY: &str = "WEFT_MESSAGES_DIRECTORY";
/// The longest path of a directory, in bytes: a name must fit behind it.
pub const LONGEST_DIRECTORY: usize = sys::LONGEST_PATH - NAME_LENGTH - 2;
const NAME_LENGTH: usize = 8 + 1 + 8 + 1 + 16;

const MAGIC: [u8; 8] = *b"weft-msg";

/// Names an endpoint among all that there ever were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The host, and its start.
    pub host: u64,
    /// The process, as it calls itself.
    pub pid: u32,
    /// Which endpoint of the process.
    pub serial: u32,
    /// Tells it from earlier ones with the same numbers.
    pub nonce: u64,
}

impl Name {
    /// The bytes of a name.
    pub const LENGTH: usize = 32;

    /// A name that no other endpoint has.
    pub fn new() -> Self {
        // A new hasher's keys are random, and no two in a process are the same.
        let random = |salt: u64| {
            use std::hash::{BuildHasher, RandomState};
            RandomState::new().hash_one(salt)
        };
        let serial = random(1) as u32;
        Self { host: host(), pid: std::process::id(), serial, nonce: random(2) }
    }

    /// As programs exchange it.
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.host.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[20..24].copy_from_slice(&self.serial.to_ne_bytes());
        bytes[24..].copy_from_slice(&self.nonce.to_ne_bytes());
        bytes
    }

    /// Reads what [`Name::to_bytes`] wrote.
    pub fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Option<Self> {
        let four = |at: usize| <[u8; 4]>::try_from(&bytes[at..at + 4]).map(u32::from_ne_bytes);
        let eight = |at: usize| <[u8; 8]>::try_from(&bytes[at..at + 8]).map(u64::from_ne_bytes);
        (bytes[..8] == MAGIC).then_some(())?;
        let (host, nonce) = (eight(8).ok()?, eight(24).ok()?);
        Some(Self { host, pid: four(16).ok()?, serial: four(20).ok()?, nonce })
    }

    /// Whether it is of this host, since its start.
    pub fn is_here(&self) -> bool {
        self.host == host()
    }

    fn file(self) -> String {
        format!("{:08x}-{:08x}-{:016x}", self.pid, self.serial, self.nonce)
    }

    /// The process of a file's name.
    fn pid_of(file: &str) -> Option<libc::pid_t> {
        let is_one = file.len() == NAME_LENGTH && file.as_bytes()[8] == b'-';
        is_one.then(|| libc::pid_t::from_str_radix(&file[..8], 16).ok())?
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::new()
    }
}

/// Tells this host since its start from others: processes on two hosts share no memory.
fn host() -> u64 {
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // FNV-1a: the same in every process, which a hasher of the standard library is not.
    id.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Why processes cannot meet in a directory.
#[derive(Debug, thiserror::Error)]
pub enum BadDirectory {
    /// Its path leaves no room for a name.
    #[error("{}: the path may have {LONGEST_DIRECTORY} bytes", .0.display())]
    Long(PathBuf),
    /// It cannot be made or looked at.
    #[error("{}: {error}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the kernel says.
        error: std::io::Error,
    },
    /// Others may change what is in it.
    #[error("{}: it must be a directory that only user {user} can enter (mode 0700)", path.display())]
    Shared {
        /// The directory.
        path: PathBuf,
        /// This process's user.
        user: u32,
    },
}

/// The directory in which the endpoints of a user meet.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// The directory that the environment names, or the user's.
    ///
    /// # Errors
    ///
    /// If it cannot be made, or is not this user's alone.
    pub fn find() -> Result<Self, BadDirectory> {
        let usual = || std::env::temp_dir().join(format!("weft-messages-{}", sys::user()));
        let named = std::env::var_os(DIRECTORY).filter(|path| !path.is_empty());
        Self::at(named.map_or_else(usual, PathBuf::from))
    }

    /// A directory, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// As [`Directory::find`].
    pub fn at(path: PathBuf) -> Result<Self, BadDirectory> {
        if path.as_os_str().as_bytes().len() > LONGEST_DIRECTORY {
            return Err(BadDirectory::Long(path));
        }
        let made = DirBuilder::new().mode(0o700).create(&path);
        let looked = match made {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            _ => fs::symlink_metadata(&path),
        };
        let user = sys::user();
        match looked {
            Err(error) => Err(BadDirectory::Unusable { path, error }),
            Ok(it) if it.is_dir() && it.uid() == user && it.mode() & 0o077 == 0 => Ok(Self(path)),
            Ok(_) => Err(BadDirectory::Shared { path, user }),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn socket(&self, name: Name) -> PathBuf {
        self.0.join(name.file())
    }

    /// Removes what processes left that were killed.
    fn clean(&self) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for entry in entries {
            let file = entry.file_name();
            let Some(file) = file.to_str() else { continue };
            let pid = Name::pid_of(file.strip_prefix('.').unwrap_or(file));
            if pid.is_some_and(|pid| !sys::is_there(pid)) && is_deaf(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether nobody listens at a path: its process may be of another namespace, so its number alone
/// says nothing.
fn is_deaf(path: &Path) -> bool {
    let socket = sys::unix_socket();
    socket.is_ok_and(|socket| sys::connect(&socket, path) == Err(libc::ECONNREFUSED))
}

/// The socket at which an endpoint is found.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Listens under a name.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn new(directory: &Directory, name: Name) -> Result<Self, Errno> {
        directory.clean();
        let socket = sys::unix_socket()?;
        let path = directory.socket(name);
        // Nobody finds the socket before it listens, who would take it for a dead one.
        let hidden = directory.0.join(format!(".{}", name.file()));
        sys::listen(&socket, &hidden)?;
        fs::rename(&hidden, &path).map_err(|error| sys::number(&error))?;
        Ok(Self { socket, path })
    }

    /// To be watched: readable when somebody has come.
    pub const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The next who has come.
    pub fn accept(&self) -> Option<OwnedFd> {
        sys::accept(&self.socket).ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The other side of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Readable when it rings, closed when it goes.
    pub socket: OwnedFd,
    /// The process, by the kernel's word; zero if it is of a namespace that cannot be seen.
    pub pid: libc::pid_t,
    /// Readable when the process has ended; the socket alone may outlive it in a child.
    pub life: Option<OwnedFd>,
}

impl Peer {
    /// Whoever is at the other end of a socket, if it is a process of this user.
    pub fn of(socket: OwnedFd) -> Result<Self, Errno> {
        let peer = sys::peer(&socket)?;
        if peer.uid != sys::user() {
            return Err(libc::EACCES);
        }
        // Of a process that has already gone there is nothing to wait for; its socket tells.
        let life = (peer.pid > 0).then(|| sys::process(peer.pid)).transpose();
        let life = life.or_else(|error| if error == libc::ESRCH { Err(error) } else { Ok(None) });
        Ok(Self { socket, pid: peer.pid, life: life.map_err(|_| libc::ECONNREFUSED)? })
    }
}

/// What is sent with a segment.
struct Hello {
    from: Name,
    to: Name,
}

impl Hello {
    const LENGTH: usize = 8 + 2 * Name::LENGTH;

    fn to_bytes(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(b"helo");
        bytes[4..8].copy_from_slice(&VERSION.to_ne_bytes());
        bytes[8..8 + Name::LENGTH].copy_from_slice(&self.from.to_bytes());
        bytes[8 + Name::LENGTH..].copy_from_slice(&self.to.to_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::LENGTH]) -> Option<Self> {
        let name = |at: usize| {
            let name = bytes[at..at + Name::LENGTH].try_into().ok()?;
            Name::from_bytes(name)
        };
        let understood = bytes[..4] == *b"helo" && bytes[4..8] == VERSION.to_ne_bytes();
        understood.then(|| Some(Self { from: name(8)?, to: name(8 + Name::LENGTH)? }))?
    }
}

/// Connects to an endpoint, and hands it a new segment through which `from` will send.
///
/// # Errors
///
/// `EAGAIN` if too many wait there at the moment; `ECONNREFUSED` if nobody is there any more.
pub fn call(directory: &Directory, from: Name, to: Name) -> Result<(Peer, Segment), Errno> {
    let socket = sys::unix_socket()?;
    let connected = sys::connect(&socket, &directory.socket(to));
    connected.map_err(|error| if error == libc::ENOENT { libc::ECONNREFUSED } else { error })?;
    let peer = Peer::of(socket)?;
    let (segment, file) = Segment::create()?;
    sys::send_with(peer.socket.as_raw_fd(), &Hello { from, to }.to_bytes(), &file)?;
    Ok((peer, segment))
}

/// What somebody who has come brought along.
pub enum Answered {
    /// Nothing yet.
    NotYet(OwnedFd),
    /// A segment through which an endpoint will send.
    Called(Peer, Segment, Name),
    /// Nothing that is understood here, or nothing for this endpoint.
    Refused,
}

/// Takes what somebody brought along who came to `own`.
pub fn answer(socket: OwnedFd, own: Name) -> Answered {
    let mut bytes = [0; Hello::LENGTH];
    let (length, file) = match sys::receive_with(socket.as_raw_fd(), &mut bytes) {
        Err(libc::EAGAIN | libc::EINTR) => return Answered::NotYet(socket),
        Ok((length, Some(file))) => (length, file),
        _ => return Answered::Refused,
    };
    let hello = Hello::from_bytes(&bytes).filter(|it| it.to == own && length == bytes.len());
    let (Some(hello), Ok(segment), Ok(peer)) = (hello, Segment::join(&file), Peer::of(socket))
    else {
        return Answered::Refused;
    };
    Answered::Called(peer, segment, hello.from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("weft-{}-{name}", std::process::id()));
        Directory::at(path).unwrap()
    }

    #[test]
    fn a_name_survives_its_bytes_and_garbage_is_none() {
        let name = Name::new();
        assert_eq!(Name::from_bytes(&name.to_bytes()), Some(name));
        assert!(name.is_here());
        assert_ne!(name, Name::new());
        assert_eq!(Name::from_bytes(&[7; Name::LENGTH]), None);
        assert_eq!(name.file().len(), NAME_LENGTH);
        assert_eq!(Name::pid_of(&name.file()), Some(std::process::id() as libc::pid_t));
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let directory = directory("open");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let refused = Directory::at(directory.path().to_owned()).unwrap_err();
        assert!(refused.to_string().ends_with("can enter (mode 0700)"), "{refused}");
        fs::remove_dir(directory.path()).unwrap();
        let long = Directory::at(PathBuf::from("/tmp").join("x".repeat(100))).unwrap_err();
        assert!(matches!(long, BadDirectory::Long(_)), "{long}");
    }

    #[test]
    fn a_segment_is_handed_over_to_whom_it_is_for() {
        let directory = directory("handed");
        let (own, other) = (Name::new(), Name::new());
        let listener = Listener::new(&directory, own).unwrap();
        let (peer, _segment) = call(&directory, other, own).unwrap();
        assert_eq!(peer.pid as u32, std::process::id());
        let come = listener.accept().unwrap();
        let Answered::Called(_, _, from) = answer(come, own) else { panic!("refused") };
        assert_eq!(from, other);
        // The same, to somebody else's socket.
        let (_peer, _segment) = call(&directory, other, own).unwrap();
        let come = listener.accept().unwrap();
        assert!(matches!(answer(come, other), Answered::Refused));
        drop(listener);
        assert_eq!(call(&directory, other, own).unwrap_err(), libc::ECONNREFUSED);
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn garbage_instead_of_a_segment_is_refused() {
        let directory = directory("garbage");
        let own = Name::new();
        let listener = Listener::new(&directory, own).unwrap();
        let socket = sys::unix_socket().unwrap();
        sys::connect(&socket, &directory.socket(own)).unwrap();
        let come = listener.accept().unwrap();
        let Answered::NotYet(come) = answer(come, own) else { panic!("nothing was said yet") };
        let (_unsealed, file) = (0, fs::File::open("/dev/zero").unwrap());
        let hello = Hello { from: Name::new(), to: own }.to_bytes();
        sys::send_with(socket.as_raw_fd(), &hello, &OwnedFd::from(file)).unwrap();
        assert!(matches!(answer(come, own), Answered::Refused));
        drop(listener);
        fs::remove_dir(directory.path()).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next() {
        let directory = directory("left");
        let dead = Name { pid: 0x7fff_fff0, ..Name::new() };
        let left = Listener::new(&directory, dead).unwrap();
        let path = left.path.clone();
        let Listener { socket, .. } = &left;
        // Closed without being removed, as by a kill.
        // SAFETY: the number is open, and closed once more in vain when `left` is forgotten.
        unsafe { libc::close(socket.as_raw_fd()) };
        std::mem::forget(left);
        assert!(path.exists());
        let listener = Listener::new(&directory, Name::new()).unwrap();
        assert!(!path.exists());
        drop(listener);
        fs::remove_dir(directory.path()).unwrap();
    }
}
