//! What is done in few instructions has the same effect as what is not: a domain that threads share sends and posts the
//! general way, and what is received into two buffers is received the general way.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::path::PathBuf;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libc::{c_int, c_void, iovec};

use crate::endpoint::{Endpoint, LONGEST_INJECTED};
use crate::fi::abi::{
    FI_COMPLETION, FI_CQ_FORMAT_TAGGED, FI_DELIVERY_COMPLETE, FI_DIRECTED_RECV, FI_EAVAIL,
    FI_ENABLE, FI_ETRUNC, FI_RECV, FI_SELECTIVE_COMPLETION, FI_SEND, FI_SETOPSFLAG,
    FI_THREAD_DOMAIN, FI_THREAD_SAFE, fi_cq_attr, fi_cq_err_entry, fi_cq_tagged_entry,
    fi_domain_attr, fi_info, fid, fid_av, fid_cntr, fid_cq, fid_domain, fid_ep,
};
use crate::fi::info::ANY_SOURCE;
use crate::fi::{domain, ep};
use crate::rendezvous::Directory;
use crate::testing::{Random, taken};

/// The bytes of each receive buffer.
const ROOM: usize = LONGEST_INJECTED + 100;
const STEPS: usize = 3000;
/// How long the test waits for a completion before it fails.
const LIMIT: Duration = Duration::from_secs(20);

/// A completion or the result of a call, without addresses, which differ between domains.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Called(isize),
    Completed {
        context: usize,
        flags: u64,
        length: usize,
        place: usize,
        data: u64,
        tag: u64,
        source: u64,
    },
    Failed {
        context: usize,
        flags: u64,
        length: usize,
        cut: usize,
        error: c_int,
    },
    Counted([u64; 4]),
}

/// A domain with two endpoints, which know each other and themselves by the addresses 0 and 1, and share a queue. The
/// sends of the second are reported if they ask for it.
struct Two {
    directory: PathBuf,
    domain: *mut fid_domain,
    queue: *mut fid_cq,
    vector: *mut fid_av,
    /// Of what they have sent, and received.
    counters: [*mut fid_cntr; 2],
    endpoints: [*mut fid_ep; 2],
    is_general: bool,
    memory: Vec<u8>,
    sent: Vec<u8>,
    said: Vec<Said>,
}

impl Two {
    fn new(name: &str, threading: u32) -> Self {
        let name = format!("weft-short-{}-{name}", std::process::id());
        let mut it = Self {
            directory: std::env::temp_dir().join(name),
            domain: null_mut(),
            queue: null_mut(),
            vector: null_mut(),
            counters: [null_mut(); 2],
            endpoints: [null_mut(); 2],
            is_general: threading != FI_THREAD_DOMAIN,
            memory: vec![0; STEPS * ROOM],
            sent: (0..2 * ROOM).map(|at| (at % 251) as u8).collect(),
            said: Vec::new(),
        };
        // SAFETY: all zeroes are attributes: no number, and no address.
        let mut attr: fi_domain_attr = unsafe { std::mem::zeroed() };
        attr.threading = threading;
        // SAFETY: as above.
        let mut info: fi_info = unsafe { std::mem::zeroed() };
        info.domain_attr = &raw mut attr;
        info.caps = FI_DIRECTED_RECV;
        // SAFETY: as above.
        let mut format: fi_cq_attr = unsafe { std::mem::zeroed() };
        format.format = FI_CQ_FORMAT_TAGGED;
        // SAFETY: objects and attributes are those that the functions ask for.
        unsafe {
            let done = domain::open(null_mut(), &raw mut info, &raw mut it.domain, null_mut());
            assert_eq!(done, 0);
            let ops = &*(*it.domain).ops;
            let done = (ops.cq_open)(it.domain, &raw mut format, &raw mut it.queue, null_mut());
            assert_eq!(done, 0);
            let done = (ops.av_open)(it.domain, null_mut(), &raw mut it.vector, null_mut());
            assert_eq!(done, 0);
            for counter in &mut it.counters {
                let done = (ops.cntr_open)(it.domain, null_mut(), &raw mut *counter, null_mut());
                assert_eq!(done, 0);
            }
            for number in 0..2 {
                it.open(number, &info);
            }
        }
        it
    }

    /// Opens an endpoint in the directory of the test.
    ///
    /// # Safety
    ///
    /// The other objects must have been opened.
    unsafe fn open(&mut self, number: usize, info: &fi_info) {
        let directory = Directory::at(self.directory.clone()).unwrap();
        let endpoint = Endpoint::new(directory).unwrap();
        let place = &raw mut self.endpoints[number];
        let (mut name, mut length) = ([0_u64; 16], 128);
        let at = name.as_mut_ptr().cast();
        // SAFETY: objects and attributes are those that the functions ask for.
        unsafe {
            let domain = &*self.domain.cast();
            assert_eq!(ep::open_with(endpoint, domain, Some(info), place, null_mut()), 0);
            let it = self.endpoints[number];
            let ops = &*(*it).fid.ops;
            let selects = if number == 1 { FI_SELECTIVE_COMPLETION } else { 0 };
            let bound: [(*mut fid, u64); 5] = [
                (self.queue.cast(), FI_SEND | selects),
                (self.queue.cast(), FI_RECV),
                (self.vector.cast(), 0),
                (self.counters[0].cast(), FI_SEND),
                (self.counters[1].cast(), FI_RECV),
            ];
            for (other, flags) in bound {
                assert_eq!((ops.bind)(it.cast(), other, flags), 0);
            }
            assert_eq!(((*(*it).cm).getname)(it.cast(), at, &raw mut length), 0);
            let inserted =
                ((*(*self.vector).ops).insert)(self.vector, at, 1, null_mut(), 0, null_mut());
            assert_eq!(inserted, 1);
            self.receive(number, number, ANY_SOURCE, None, 8);
            self.send(number, number, 0, None, None, 8);
            assert!(self.said.iter().all(|it| matches!(it, Said::Called(..0))), "not enabled");
            assert_eq!((ops.control)(it.cast(), FI_ENABLE, null_mut()), 0);
        }
    }

    /// Posts a receive under a number, which is its context and chooses its buffer.
    fn receive(
        &mut self,
        number: usize,
        at: usize,
        from: u64,
        tag: Option<(u64, u64)>,
        length: usize,
    ) {
        let to = self.memory[number * ROOM..][..length].as_mut_ptr().cast::<c_void>();
        let context = std::ptr::without_provenance_mut(number);
        let (it, none) = (self.endpoints[at], null_mut());
        let none_there = iovec { iov_base: to, iov_len: 0 };
        let both = [iovec { iov_base: to, iov_len: length }, none_there];
        let two = both.as_ptr();
        // SAFETY: the buffer lives as long as the endpoint.
        self.said.push(Said::Called(unsafe {
            let (msg, tagged) = (&*(*it).msg, &*(*it).tagged);
            match (tag, self.is_general) {
                (Some((tag, ignore)), false) => {
                    (tagged.recv)(it, to, length, none, from, tag, ignore, context)
                }
                (Some((tag, ignore)), true) => {
                    (tagged.recvv)(it, two, null_mut(), 2, from, tag, ignore, context)
                }
                (None, false) => (msg.recv)(it, to, length, none, from, context),
                (None, true) => (msg.recvv)(it, two, null_mut(), 2, from, context),
            }
        }));
    }

    /// Sends a message, by the call that the numbers choose.
    fn send(
        &mut self,
        number: usize,
        at: usize,
        to: u64,
        tag: Option<u64>,
        data: Option<u64>,
        length: usize,
    ) {
        let from = self.sent[number % 97..][..length].as_ptr().cast();
        let context = std::ptr::without_provenance_mut(number);
        let (it, none, injects) =
            (self.endpoints[at], null_mut::<c_void>(), number.is_multiple_of(2));
        // SAFETY: as above.
        self.said.push(Said::Called(unsafe {
            let (msg, tagged) = (&*(*it).msg, &*(*it).tagged);
            match (tag, data, injects) {
                (None, None, true) => (msg.inject)(it, from, length, to),
                (None, None, false) => (msg.send)(it, from, length, none, to, context),
                (None, Some(data), true) => (msg.injectdata)(it, from, length, data, to),
                (None, Some(data), false) => {
                    (msg.senddata)(it, from, length, none, data, to, context)
                }
                (Some(tag), None, true) => (tagged.inject)(it, from, length, to, tag),
                (Some(tag), None, false) => (tagged.send)(it, from, length, none, to, tag, context),
                (Some(tag), Some(data), true) => {
                    (tagged.injectdata)(it, from, length, data, to, tag)
                }
                (Some(tag), Some(data), false) => {
                    (tagged.senddata)(it, from, length, none, data, to, tag, context)
                }
            }
        }));
    }

    /// Reads the queue once; whether there was anything.
    fn read(&mut self) -> bool {
        // SAFETY: all zeroes are entries.
        let mut entries: [fi_cq_tagged_entry; 2] = unsafe { std::mem::zeroed() };
        let mut sources = [7; 2];
        // SAFETY: there is room for two entries, and for an error.
        unsafe {
            let ops = &*(*self.queue).ops;
            let read =
                (ops.readfrom)(self.queue, entries.as_mut_ptr().cast(), 2, sources.as_mut_ptr());
            if read == -(FI_EAVAIL as isize) {
                let mut error: fi_cq_err_entry = std::mem::zeroed();
                assert_eq!((ops.readerr)(self.queue, &raw mut error, 0), 1);
                self.said.push(Said::Failed {
                    context: error.op_context.addr(),
                    flags: error.flags,
                    length: error.len,
                    cut: error.olen,
                    error: error.err,
                });
            }
            let count = usize::try_from(read).unwrap_or(0);
            for (entry, source) in entries[..count].iter().zip(sources) {
                let place = entry.buf.addr().saturating_sub(self.memory.as_ptr().addr());
                let &fi_cq_tagged_entry { flags, len: length, data, tag, .. } = entry;
                let context = entry.op_context.addr();
                self.said.push(Said::Completed {
                    context,
                    flags,
                    length,
                    place,
                    data,
                    tag,
                    source,
                });
            }
            read != -(libc::EAGAIN as isize)
        }
    }

    /// Reads until the queue has been empty that many times in a row.
    fn drain(&mut self, empty: usize) {
        let mut left = empty;
        while left > 0 {
            left = if self.read() { empty } else { left - 1 };
        }
    }

    /// Reads until something has come.
    fn read_until(&mut self, has_come: impl Fn(&[Said]) -> bool) {
        let begin = Instant::now();
        while !has_come(&self.said) {
            self.read();
            assert!(begin.elapsed() < LIMIT, "{:?}", self.said.last());
        }
    }

    /// The default flags of what an endpoint sends.
    fn flag_sends(&mut self, at: usize, flags: u64) {
        let mut asked = FI_SEND | flags;
        let it = self.endpoints[at];
        // SAFETY: an endpoint, and a word of flags.
        let done = unsafe {
            ((*(*it).fid.ops).control)(it.cast(), FI_SETOPSFLAG, (&raw mut asked).cast())
        };
        assert_eq!(done, 0);
    }

    /// The same calls each time: of all kinds, in an order that chance has chosen.
    fn run(&mut self) {
        // A channel is made by its first message, when the kernel tells of it.
        for number in 0..4 {
            let (from, to) = (number % 2, number / 2);
            self.receive(number, to, from as u64, Some((0, 0)), 8);
            self.send(number, from, to as u64, Some(0), None, 8);
            self.read_until(|said| said.iter().filter(|it| is_received(it)).count() > number);
        }
        let mut random = Random::default();
        let mut one_of = |of: &[usize]| of[(random.next() >> 8) as usize % of.len()];
        let lengths = [0, 1, 7, 8, 9, 16, 17, 40, 41, 500, LONGEST_INJECTED, LONGEST_INJECTED + 1];
        for number in 4..STEPS {
            let (tag, at, length) = (one_of(&[0, 1, 2, 3, 4]), one_of(&[0, 1]), one_of(&lengths));
            let tag = tag.checked_sub(1).map(|it| it as u64);
            match one_of(&[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3]) {
                0 => {
                    let ignore = one_of(&[0, 0, 0, usize::MAX]) as u64;
                    let from = [ANY_SOURCE, 0, 1][one_of(&[0, 0, 1, 2])];
                    self.receive(number, at, from, tag.map(|it| (it, ignore)), length);
                }
                1 => {
                    let (to, data) = (one_of(&[0, 1]) as u64, one_of(&[0, 1]));
                    let data = (data == 1).then_some(number as u64);
                    self.send(number, at, to, tag, data, length);
                }
                2 => {
                    self.read();
                }
                _ => {
                    let flags = [0, 0, FI_COMPLETION, FI_DELIVERY_COMPLETE];
                    self.flag_sends(at, flags[one_of(&[0, 1, 2, 3])]);
                }
            }
        }
        self.drain(200);
        self.lose();
        // SAFETY: two counters.
        let counted = self.counters.map(|it| unsafe {
            let ops = &*(*it).ops;
            [(ops.read)(it), (ops.readerr)(it)]
        });
        let [[sent, failed], [received, not_received]] = counted;
        self.said.push(Said::Counted([sent, failed, received, not_received]));
    }

    /// Closes the second endpoint, of which the first one is told.
    fn lose(&mut self) {
        self.flag_sends(0, 0);
        let last = STEPS - 1;
        self.receive(last, 0, 1, Some((77, 0)), 8);
        close(std::mem::replace(&mut self.endpoints[1], null_mut()).cast());
        let is_told = |it: &Said| matches!(it, Said::Failed { context, .. } if *context == last);
        self.read_until(|said| said.iter().any(is_told));
        self.receive(last, 0, 1, Some((78, 0)), 8);
        self.send(last, 0, 1, Some(78), None, 8);
        self.drain(200);
    }
}

/// Closes an object, if there is one.
fn close(object: *mut fid) {
    // SAFETY: an object of the provider, for the last time, after those that use it.
    let closed = object.is_null() || unsafe { ((*(*object).ops).close)(object) } == 0;
    assert!(closed || std::thread::panicking());
}

impl Drop for Two {
    fn drop(&mut self) {
        let [first, second] = self.endpoints;
        let [sent, received] = self.counters;
        let users: [*mut fid; 4] = [first.cast(), second.cast(), sent.cast(), received.cast()];
        for object in users {
            close(object);
        }
        close(self.queue.cast());
        close(self.vector.cast());
        close(self.domain.cast());
        let removed = std::fs::remove_dir(&self.directory);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}

fn is_received(it: &Said) -> bool {
    matches!(it, Said::Completed { flags, .. } if flags & FI_RECV != 0)
}

#[test]
fn what_takes_few_instructions_has_the_same_effect() {
    let mut general = Two::new("general", FI_THREAD_SAFE);
    general.run();
    assert_eq!(taken(), [0; 3], "the general way alone");
    let mut short = Two::new("short", FI_THREAD_DOMAIN);
    short.run();
    let shortcuts = taken();
    for (number, both) in short.said.iter().zip(&general.said).enumerate() {
        assert_eq!(both.0, both.1, "number {number}");
    }
    assert_eq!(short.said.len(), general.said.len());
    assert!(short.memory == general.memory, "the bytes that were received");
    let count = short.said.iter().filter(|it| is_received(it)).count();
    assert!(count > STEPS / 10, "{count} messages were received");
    let least = [STEPS / 10, STEPS / 10, STEPS / 50];
    let are_enough = shortcuts.iter().zip(least).all(|(taken, least)| *taken > least);
    assert!(are_enough, "sent, posted and received in few instructions: {shortcuts:?}");
    let called = |result: c_int| short.said.contains(&Said::Called(-(result as isize)));
    assert!(called(libc::EMSGSIZE), "some were too long to be injected");
    let failed = |with: c_int| {
        let is_it = |it: &Said| matches!(it, Said::Failed { error, .. } if *error == with);
        short.said.iter().any(is_it)
    };
    assert!(failed(FI_ETRUNC), "some were longer than their receives");
    assert!(failed(libc::ECONNRESET), "the peer was lost");
}
