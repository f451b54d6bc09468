//! How processes find each other: endpoint names, a directory of sockets, and the transfer of a segment.
//!
//! Each endpoint listens on a Unix socket in a directory that only its user can enter. A sender connects and
//! passes the descriptor of the segment through which it will send. Each side asks the kernel for the peer's
//! credentials and accepts only processes of its own user.

use std::fs::{self, DirBuilder};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::segment::{Segment, VERSION};
use crate::sys::{self, Errno};

/// The environment variable that names the rendezvous directory, if not the default one.
pub const DIRECTORY: &str = "WEFT_MESSAGES_DIRECTORY";
/// The longest path of a directory, in bytes: a socket's name must fit behind it.
pub const LONGEST_DIRECTORY: usize = sys::LONGEST_PATH - NAME_LENGTH - 2;
const NAME_LENGTH: usize = 8 + 1 + 8 + 1 + 16;

const MAGIC: [u8; 8] = *b"weft-msg";

/// A name that no other endpoint has or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// Identifies the host and its boot.
    pub host: u64,
    /// The process, by its own getpid.
    pub pid: u32,
    /// Which endpoint of the process.
    pub serial: u32,
    /// Random; distinguishes reused numbers.
    pub nonce: u64,
}

impl Name {
    /// The bytes of a name.
    pub const LENGTH: usize = 32;

    /// A name that no other endpoint has.
    pub fn new() -> Self {
        // A new hasher's keys are random and unique within a process.
        let random = |salt: u64| {
            use std::hash::{BuildHasher, RandomState};
            RandomState::new().hash_one(salt)
        };
        let serial = random(1) as u32;
        Self { host: host(), pid: std::process::id(), serial, nonce: random(2) }
    }

    /// The bytes that programs exchange.
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

    /// Whether it belongs to this host and this boot.
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

/// Identifies this host and boot: processes on different hosts share no memory.
fn host() -> u64 {
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // FNV-1a: the same in every process, which a hasher of the standard library is not.
    id.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Why a directory cannot serve for rendezvous.
#[derive(Debug, thiserror::Error)]
pub enum BadDirectory {
    /// Its path leaves no room for a socket's name.
    #[error("{}: the path may have at most {LONGEST_DIRECTORY} bytes", .0.display())]
    Long(PathBuf),
    /// It cannot be created or examined.
    #[error("{}: {error}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        error: std::io::Error,
    },
    /// Other users can enter it.
    #[error("{}: it must be a directory that only user {user} can enter (mode 0700)", path.display())]
    Shared {
        /// The directory.
        path: PathBuf,
        /// This process's user.
        user: u32,
    },
}

/// The directory that holds the sockets of a user's endpoints.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// The directory that the environment names, or the user's default one.
    ///
    /// # Errors
    ///
    /// If it cannot be created, or other users can enter it.
    pub fn find() -> Result<Self, BadDirectory> {
        let usual = || std::env::temp_dir().join(format!("weft-messages-{}", sys::user()));
        let named = std::env::var_os(DIRECTORY).filter(|path| !path.is_empty());
        Self::at(named.map_or_else(usual, PathBuf::from))
    }

    /// A directory, created if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`Directory::find`].
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

    /// Removes the sockets of killed processes.
    fn clean(&self) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for entry in entries {
            let file = entry.file_name();
            let Some(file) = file.to_str() else { continue };
            let pid = Name::pid_of(file.strip_prefix('.').unwrap_or(file));
            if pid.is_some_and(|pid| !sys::process_exists(pid)) && has_no_listener(&entry.path()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether nobody listens at a path. The process may be in another PID namespace, so its number alone proves
/// nothing.
fn has_no_listener(path: &Path) -> bool {
    let socket = sys::unix_socket();
    socket.is_ok_and(|socket| sys::connect(&socket, path) == Err(libc::ECONNREFUSED))
}

/// The listening socket of an endpoint.
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
    /// The kernel's error.
    pub fn new(directory: &Directory, name: Name) -> Result<Self, Errno> {
        directory.clean();
        let socket = sys::unix_socket()?;
        let path = directory.socket(name);
        // Bound under a hidden name first: a socket that does not listen yet would be taken for a stale one.
        let hidden = directory.0.join(format!(".{}", name.file()));
        sys::listen(&socket, &hidden)?;
        fs::rename(&hidden, &path).map_err(|error| sys::number(&error))?;
        Ok(Self { socket, path })
    }

    /// For polling: readable when a connection is waiting.
    pub const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// The next waiting connection.
    pub fn accept(&self) -> Option<OwnedFd> {
        sys::accept(&self.socket).ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The process at the other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Readable when the peer sends a wake-up, closed when it leaves.
    pub socket: OwnedFd,
    /// The process, as the kernel reports it; zero if its namespace is not visible.
    pub pid: libc::pid_t,
    /// Readable when the process has ended. The socket may outlive it in a forked child.
    pub pidfd: Option<OwnedFd>,
}

impl Peer {
    /// The peer of a socket, if it is a process of this user.
    pub fn of(socket: OwnedFd) -> Result<Self, Errno> {
        let peer = sys::peer(&socket)?;
        if peer.uid != sys::user() {
            return Err(libc::EACCES);
        }
        // A process that has already ended has no pidfd; the closed socket reports it.
        let pidfd = (peer.pid > 0).then(|| sys::pidfd(peer.pid)).transpose();
        let pidfd = pidfd.or_else(|error| if error == libc::ESRCH { Err(error) } else { Ok(None) });
        Ok(Self { socket, pid: peer.pid, pidfd: pidfd.map_err(|_| libc::ECONNREFUSED)? })
    }
}

/// What a connecting endpoint sends with its segment.
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

/// Connects to the socket of a name.
///
/// # Errors
///
/// `EAGAIN` if its backlog is full; `ECONNREFUSED` if nobody listens there any more.
pub fn dial(directory: &Directory, to: Name) -> Result<Peer, Errno> {
    let socket = sys::unix_socket()?;
    let connected = sys::connect(&socket, &directory.socket(to));
    connected.map_err(|error| if error == libc::ENOENT { libc::ECONNREFUSED } else { error })?;
    Peer::of(socket)
}

/// Connects to an endpoint and passes it a new segment through which `from` will send.
///
/// # Errors
///
/// `EAGAIN` if its backlog is full; `ECONNREFUSED` if the endpoint no longer exists.
pub fn connect(directory: &Directory, from: Name, to: Name) -> Result<(Peer, Segment), Errno> {
    let peer = dial(directory, to)?;
    let (segment, file) = Segment::create()?;
    sys::send_with(peer.socket.as_raw_fd(), &Hello { from, to }.to_bytes(), &file)?;
    Ok((peer, segment))
}

/// The state of an accepted connection.
pub enum Handshake {
    /// The hello has not arrived yet.
    Pending(OwnedFd),
    /// The peer, and the segment through which the named endpoint will send.
    Connected(Peer, Segment, Name),
    /// The hello is malformed, or meant for another endpoint.
    Rejected,
}

/// Reads the hello of a connection that was accepted by `own`.
pub fn accept_hello(socket: OwnedFd, own: Name) -> Handshake {
    let mut bytes = [0; Hello::LENGTH];
    let (length, file) = match sys::receive_with(socket.as_raw_fd(), &mut bytes) {
        Err(libc::EAGAIN | libc::EINTR) => return Handshake::Pending(socket),
        Ok((length, Some(file))) => (length, file),
        _ => return Handshake::Rejected,
    };
    let hello = Hello::from_bytes(&bytes).filter(|it| it.to == own && length == bytes.len());
    let (Some(hello), Ok(segment), Ok(peer)) = (hello, Segment::join(&file), Peer::of(socket))
    else {
        return Handshake::Rejected;
    };
    Handshake::Connected(peer, segment, hello.from)
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
        let (peer, _segment) = connect(&directory, other, own).unwrap();
        assert_eq!(peer.pid as u32, std::process::id());
        let come = listener.accept().unwrap();
        let Handshake::Connected(_, _, from) = accept_hello(come, own) else { panic!("refused") };
        assert_eq!(from, other);
        // The same, to somebody else's socket.
        let (_peer, _segment) = connect(&directory, other, own).unwrap();
        let come = listener.accept().unwrap();
        assert!(matches!(accept_hello(come, other), Handshake::Rejected));
        drop(listener);
        assert_eq!(connect(&directory, other, own).unwrap_err(), libc::ECONNREFUSED);
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
        let Handshake::Pending(come) = accept_hello(come, own) else {
            panic!("nothing was said yet")
        };
        let (_unsealed, file) = (0, fs::File::open("/dev/zero").unwrap());
        let hello = Hello { from: Name::new(), to: own }.to_bytes();
        sys::send_with(socket.as_raw_fd(), &hello, &OwnedFd::from(file)).unwrap();
        assert!(matches!(accept_hello(come, own), Handshake::Rejected));
        drop(listener);
        fs::remove_dir(directory.path()).unwrap();
    }

    /// What a process leaves that ends without removing it.
    fn left_by(directory: &Directory, pid: u32) -> PathBuf {
        let left = Listener::new(directory, Name { pid, ..Name::new() }).unwrap();
        let path = left.path.clone();
        let Listener { socket, .. } = &left;
        // Closed without being removed, as by a kill.
        // SAFETY: the number is open, and closed once more in vain when `left` is forgotten.
        unsafe { libc::close(socket.as_raw_fd()) };
        std::mem::forget(left);
        assert!(path.exists());
        path
    }

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next() {
        let directory = directory("left");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let alive = left_by(&directory, child.id());
        let dead = left_by(&directory, 0x7fff_fff0);
        drop(Listener::new(&directory, Name::new()).unwrap());
        assert!(alive.exists() && !dead.exists());
        child.kill().unwrap();
        // It has ended, and its parent has not yet asked.
        let process = sys::pidfd(child.id() as libc::pid_t).unwrap();
        while !sys::is_readable(&process) {
            std::thread::yield_now();
        }
        drop(Listener::new(&directory, Name::new()).unwrap());
        assert!(!alive.exists());
        child.wait().unwrap();
        fs::remove_dir(directory.path()).unwrap();
    }
}
