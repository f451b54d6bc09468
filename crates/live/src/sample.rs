//! An accelerated connection for unit tests, whose other end is the test.

use std::net::{TcpListener, TcpStream};
use std::os::fd::IntoRawFd;
use std::sync::Once;
use std::sync::atomic::Ordering;

use libc::c_int;
use weft_protocol::byte_ring::{Capacity, Writer};
use weft_protocol::migration::{Agreement, Migration};

use crate::descriptors;
use crate::segment::{Role, Segment};
use crate::sys;
use crate::table::{self, Connection, Event, Guard, Phase};
use crate::tracking;

/// Lets a client's end join, as if it had met a server elsewhere: in its segment nothing is agreed, so
/// that neither direction switches on its own.
pub fn join(connection: &Connection) {
    let (server, word) = (Migration::default(), Agreement::default());
    server.begin();
    for event in [Event::Listens, Event::Shared, Event::Prepared] {
        server.on(Role::Server, Some(&word), event);
    }
    connection.migration.begin();
    for event in [Event::Shared, Event::Called, Event::Prepared, Event::Learned] {
        connection.migration.on(Role::Client, Some(&word), event);
    }
    assert_eq!(connection.phase(), Phase::JOINED);
}

/// Lets the library remember connections.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| assert!(table::start(crate::ABOVE)));
}

/// Runs something in a thread of another user without privileges; `None` where that is not
/// possible, which says that the test is skipped.
pub fn as_another_user<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    const ANOTHER: libc::c_long = 61_002;
    let become_another = || {
        // SAFETY: takes no memory. The C library's function would change all threads.
        unsafe { libc::syscall(libc::SYS_setresuid, ANOTHER, ANOTHER, ANOTHER) == 0 }
    };
    let ran =
        std::thread::scope(|scope| scope.spawn(|| become_another().then(run)).join().unwrap());
    if ran.is_none() {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        // By the number: what is printed the test program keeps to itself if the test passes.
        let said = format!("{test}: skipped, this process may not become another user\n");
        sys::write(2, said.as_bytes());
    }
    ran
}

/// A process that has ended and was waited for.
pub fn ended() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// A connection on which nothing was sent yet, which both directions of have switched.
pub struct Sample {
    pub fd: c_int,
    /// The other end of the kernel's stream.
    pub other: c_int,
}

impl Sample {
    pub fn new() -> Self {
        Self::with_ring(1 << 12)
    }

    /// A sample whose rings have this many bytes.
    pub fn with_ring(bytes: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        far.set_nodelay(true).unwrap();
        let ends = [near.into_raw_fd(), far.into_raw_fd()];
        start();
        tracking::track(ends[0], Role::Client, 1);
        let guard = table::enter(ends[0]).unwrap();
        let connection = guard.connection;
        // As before a join: from now on no call bypasses the library.
        assert!(guard.is_alone());
        let (segment, file) = Segment::create(Capacity::new(bytes).unwrap()).unwrap();
        sys::close(file);
        guard.attach(segment, descriptors::event().unwrap(), descriptors::event().unwrap());
        connection.switched_in.store(true, Ordering::Relaxed);
        connection.switched_out.store(true, Ordering::Relaxed);
        join(connection);
        Self { fd: ends[0], other: ends[1] }
    }

    pub fn enter(&self) -> (Guard, Segment) {
        let guard = table::enter(self.fd).unwrap();
        let segment = guard.connection.segment().unwrap();
        (guard, segment)
    }

    /// Lets the first byte arrive.
    pub fn arrive(&self) {
        let (guard, segment) = self.enter();
        let way = segment.way(guard.connection.role().peer());
        Writer::new(segment.capacity()).publish(&way.pointers, 1);
    }
}
