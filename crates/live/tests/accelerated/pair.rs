//! Connections of both kinds, and the calls on them.

use std::ffi::OsString;
use std::io::Read;
use std::mem::{size_of, zeroed};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use libc::{c_int, c_void};

/// The library, which cargo builds beside the tests.
fn library() -> PathBuf {
    let itself = std::env::current_exe().unwrap();
    let folder = itself.parent().unwrap();
    [folder, folder.parent().unwrap()]
        .map(|folder| folder.join("libweft_live.so"))
        .into_iter()
        .find(|path| path.exists())
        .expect("libweft_live.so stands beside the tests")
}

/// The libraries to preload: this one, and perhaps another behind it.
pub fn preloading(behind: Option<&Path>) -> OsString {
    let mut libraries = library().into_os_string();
    if let Some(behind) = behind {
        libraries.push(":");
        libraries.push(behind);
    }
    libraries
}

/// Runs the body in a process with the library preloaded; the test of this name must call it.
pub fn preloaded(name: &str, body: impl Fn()) {
    preloaded_without_a_socket(name, || {
        begin_figures();
        body();
    });
}

/// The same where the process has made no socket yet.
pub fn preloaded_without_a_socket(name: &str, body: impl Fn()) {
    if std::env::var_os("WEFT_LIVE_TEST").is_some() {
        return all_or_none(body);
    }
    let (passed, said) = run_preloaded(name, ON);
    assert!(passed, "{said}");
}

/// The same with the library told to leave everything to the kernel.
pub fn preloaded_and_off(name: &str, body: impl Fn()) {
    if std::env::var_os("WEFT_LIVE_TEST").is_some() {
        return all_or_none(body);
    }
    let (passed, said) = run_preloaded(name, "off");
    assert!(passed, "{said}");
}

/// The same for what others on the machine can only make worse: one of some trials passes.
pub fn preloaded_undisturbed(name: &str, body: impl Fn()) {
    if std::env::var_os("WEFT_LIVE_TEST").is_some() {
        begin_figures();
        return all_or_none(body);
    }
    let trials = (0..5).map(|_| run_preloaded(name, ON));
    let failed: Vec<_> = trials.take_while(|(passed, _)| !passed).map(|(_, said)| said).collect();
    assert!(failed.len() < 5, "{}", failed.concat());
}

/// Runs the body; the first thread that fails ends all, which might wait for it.
fn all_or_none(body: impl Fn()) {
    let says = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |why| {
        says(why);
        // SAFETY: ends the process.
        unsafe { libc::_exit(101) };
    }));
    body();
}

/// The value of `WEFT_LIVE` by which the library accelerates.
const ON: &str = "on";

/// Whether the test passes with the library preloaded under this value of `WEFT_LIVE`, and what it says.
fn run_preloaded(name: &str, live: &str) -> (bool, String) {
    let run = Command::new("timeout")
        .arg("300")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", preloading(None))
        .env("WEFT_LIVE_TEST", "1")
        .env("WEFT_LIVE", live)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned();
    assert!(!run.status.success() || said.contains("1 passed"), "no test of this name: {said}");
    let hung = if run.status.code() == Some(124) { ", it hangs" } else { "" };
    (run.status.success(), format!("{}{hung}: {said}", run.status))
}

/// How many ends this process has joined so far.
pub fn joined() -> u64 {
    figure(2)
}

/// How many reasons there are for which an end stays with the kernel, or goes back to it.
const REASONS: usize = 22;
/// Some of them.
pub const PEER_PLAIN: usize = 1;
pub const EPOLL: usize = 7;
pub const WITHDRAWN: usize = 19;

/// How many ends have stayed with the kernel for a reason.
pub fn stayed(reason: usize) -> u64 {
    // The layout and fourteen counts come before.
    figure(15 + reason)
}

/// How many ends have gone back to the kernel.
pub fn moved_back() -> u64 {
    (0..REASONS).map(|reason| stayed(REASONS + reason)).sum()
}

/// How often this process and those it forked have entered the kernel for accelerated connections, as
/// the library counts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entries {
    /// Sleeps.
    pub sleeps: u64,
    /// Wake-ups of both kinds, and looks that sleeps bring with them.
    pub about_sleeps: u64,
    /// Turns given to whoever wants the processor.
    pub turns: u64,
    /// Questions whether the other end lives.
    pub questions: u64,
    /// Looks aside at descriptors that are not accelerated.
    pub asides: u64,
}

impl Entries {
    pub fn now() -> Self {
        Self {
            sleeps: figure(9),
            about_sleeps: [7, 8, 11].map(figure).iter().sum(),
            turns: figure(14),
            questions: figure(12),
            asides: figure(13),
        }
    }

    pub fn since(self, before: Self) -> Self {
        Self {
            sleeps: self.sleeps - before.sleeps,
            about_sleeps: self.about_sleeps - before.about_sleeps,
            turns: self.turns - before.turns,
            questions: self.questions - before.questions,
            asides: self.asides - before.asides,
        }
    }

    pub fn all(self) -> u64 {
        self.sleeps + self.about_sleeps + self.turns + self.questions + self.asides
    }
}

/// Lets those that are forked from now on count in the figures of this process, which has them from its
/// first socket on.
fn begin_figures() {
    drop(TcpListener::bind("127.0.0.1:0").unwrap());
}

/// Whether this process has the library's descriptor for its figures.
pub fn has_figures() -> bool {
    figure(0) != 0
}

/// A word of the figures of this process; zero if it has none.
fn figure(index: usize) -> u64 {
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let link = std::fs::read_link(entry.path()).unwrap_or_default();
        if link.to_string_lossy().starts_with("/memfd:weft-live (") {
            let mut words = vec![0u8; 8 * (index + 1)];
            std::fs::File::open(entry.path()).unwrap().read_exact(&mut words).unwrap();
            return u64::from_ne_bytes(words[8 * index..].try_into().unwrap());
        }
    }
    0
}

/// Two ends of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub a: c_int,
    pub b: c_int,
}

pub fn accelerated() -> Pair {
    let before = joined();
    let pair = used(100);
    assert_eq!(joined(), before + 2, "both ends have joined");
    pair
}

/// A connection over which a byte has gone so many times there and back.
pub fn used(rounds: u8) -> Pair {
    used_by(&TcpListener::bind("127.0.0.1:0").unwrap(), rounds)
}

/// The same of a listener's port.
pub fn used_by(listener: &TcpListener, rounds: u8) -> Pair {
    let a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    a.set_nodelay(true).unwrap();
    let b = listener.accept().unwrap().0;
    b.set_nodelay(true).unwrap();
    let pair = Pair { a: a.into_raw_fd(), b: b.into_raw_fd() };
    use_by_turns(pair, rounds);
    pair
}

/// Sends a byte so many times there and back.
pub fn use_by_turns(pair: Pair, rounds: u8) {
    for round in 0..rounds {
        for (from, to) in [(pair.a, pair.b), (pair.b, pair.a)] {
            assert_eq!(send(from, &[round], 0), Ok(1));
            assert_eq!(recv(to, 1, 0), Ok(vec![round]));
        }
    }
}

/// The same past the library.
pub fn plain() -> Pair {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let a = plain_to(listener.local_addr().unwrap().port());
    Pair { a, b: plain_of(&listener) }
}

/// A socket connected with a port of this host past the library.
pub fn plain_to(port: u16) -> c_int {
    let mut address: libc::sockaddr_in = unsafe { zeroed() };
    address.sin_family = libc::AF_INET as u16;
    address.sin_port = port.to_be();
    address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    let length = size_of::<libc::sockaddr_in>();
    unsafe {
        let fd = libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0) as c_int;
        plain_without_delay(fd);
        assert_eq!(libc::syscall(libc::SYS_connect, fd, &raw const address, length), 0);
        fd
    }
}

/// A connection of a listener accepted past the library.
pub fn plain_of(listener: &TcpListener) -> c_int {
    let none: *mut c_void = std::ptr::null_mut();
    let asked = listener.as_raw_fd();
    let fd = unsafe { libc::syscall(libc::SYS_accept4, asked, none, none, 0) as c_int };
    plain_without_delay(fd);
    fd
}

fn plain_without_delay(fd: c_int) {
    let (one, level, name) = (1 as c_int, libc::IPPROTO_TCP, libc::TCP_NODELAY);
    unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, &raw const one, 4) };
}

pub type Outcome<T> = Result<T, c_int>;

pub fn outcome(result: isize) -> Outcome<usize> {
    usize::try_from(result).map_err(|_| unsafe { *libc::__errno_location() })
}

pub fn send(fd: c_int, bytes: &[u8], flags: c_int) -> Outcome<usize> {
    let flags = flags | libc::MSG_NOSIGNAL;
    outcome(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}

pub fn recv(fd: c_int, room: usize, flags: c_int) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0u8; room];
    let count = outcome(unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), room, flags) })?;
    bytes.truncate(count);
    Ok(bytes)
}

pub fn poll(fd: c_int, events: i16, timeout: c_int) -> i16 {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    unsafe { libc::poll(&mut entry, 1, timeout) };
    entry.revents
}

pub fn unread(fd: c_int) -> c_int {
    let mut count: c_int = -1;
    unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut count) };
    count
}

/// Connects with nobody, which ends the connection that there is.
pub fn disconnect(fd: c_int) -> Outcome<usize> {
    let mut nobody: libc::sockaddr = unsafe { zeroed() };
    nobody.sa_family = libc::AF_UNSPEC as u16;
    let length = size_of::<libc::sockaddr>() as libc::socklen_t;
    outcome(unsafe { libc::connect(fd, &raw const nobody, length) } as isize)
}

pub fn close(fd: c_int) {
    assert_eq!(unsafe { libc::close(fd) }, 0);
}

/// A small generator of its own: the same numbers on every run.
#[derive(Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Says that the calling test is skipped. By the number: what is printed the test program keeps to itself if the test
/// passes.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let said = format!("{test}: skipped, {why}\n");
    // SAFETY: so many bytes are there.
    unsafe { libc::write(2, said.as_ptr().cast(), said.len()) };
}
