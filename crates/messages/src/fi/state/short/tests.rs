//! What is done in few instructions has the same effect as what is not: a domain that threads share takes the general
//! way alone.

use std::ptr::null_mut;

use libc::{c_int, c_void};

use crate::endpoint::LONGEST_INJECTED;
use crate::fi::abi::{
    FI_CQ_FORMAT_TAGGED, FI_EAVAIL, FI_ENABLE, FI_RECV, FI_SEND, FI_THREAD_DOMAIN, FI_THREAD_SAFE,
    fi_cq_attr, fi_cq_err_entry, fi_cq_tagged_entry, fi_domain_attr, fi_info, fid, fid_av, fid_cq,
    fid_domain, fid_ep,
};
use crate::fi::domain;
use crate::testing::Random;

/// The bytes of each receive buffer.
const ROOM: usize = LONGEST_INJECTED + 100;
const STEPS: usize = 3000;

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
}

/// A domain with one endpoint, which knows itself by the address 0.
struct Alone {
    domain: *mut fid_domain,
    queue: *mut fid_cq,
    vector: *mut fid_av,
    endpoint: *mut fid_ep,
    memory: Vec<u8>,
    sent: Vec<u8>,
    said: Vec<Said>,
}

impl Alone {
    fn new(threading: u32) -> Self {
        let mut it = Self {
            domain: null_mut(),
            queue: null_mut(),
            vector: null_mut(),
            endpoint: null_mut(),
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
            let done = (ops.endpoint)(it.domain, null_mut(), &raw mut it.endpoint, null_mut());
            assert_eq!(done, 0);
            let ops = &*(*it.endpoint).fid.ops;
            assert_eq!((ops.bind)(it.endpoint.cast(), it.queue.cast(), FI_SEND | FI_RECV), 0);
            assert_eq!((ops.bind)(it.endpoint.cast(), it.vector.cast(), 0), 0);
            assert_eq!((ops.control)(it.endpoint.cast(), FI_ENABLE, null_mut()), 0);
            let (mut name, mut length) = ([0_u64; 16], 128);
            let place = name.as_mut_ptr().cast();
            assert_eq!(
                ((*(*it.endpoint).cm).getname)(it.endpoint.cast(), place, &raw mut length),
                0
            );
            let inserted =
                ((*(*it.vector).ops).insert)(it.vector, place, 1, null_mut(), 0, null_mut());
            assert_eq!(inserted, 1);
        }
        it
    }

    /// Posts a receive under a number, which is its context and chooses its buffer.
    fn receive(&mut self, number: usize, tag: Option<(u64, u64)>, length: usize) {
        let to = self.memory[number * ROOM..][..length].as_mut_ptr().cast();
        let context = std::ptr::without_provenance_mut(number);
        let (it, none) = (self.endpoint, null_mut());
        // SAFETY: the buffer lives as long as the endpoint.
        self.said.push(Said::Called(unsafe {
            match tag {
                Some((tag, ignore)) => {
                    ((*(*it).tagged).recv)(it, to, length, none, u64::MAX, tag, ignore, context)
                }
                None => ((*(*it).msg).recv)(it, to, length, none, u64::MAX, context),
            }
        }));
    }

    /// Sends a message, by the call that the numbers choose.
    fn send(&mut self, number: usize, tag: Option<u64>, data: Option<u64>, length: usize) {
        let from = self.sent[number % 97..][..length].as_ptr().cast();
        let context = std::ptr::without_provenance_mut(number);
        let (it, none, injects) = (self.endpoint, null_mut::<c_void>(), number.is_multiple_of(2));
        // SAFETY: as above.
        self.said.push(Said::Called(unsafe {
            let (msg, tagged) = (&*(*it).msg, &*(*it).tagged);
            match (tag, data, injects) {
                (None, None, true) => (msg.inject)(it, from, length, 0),
                (None, None, false) => (msg.send)(it, from, length, none, 0, context),
                (None, Some(data), true) => (msg.injectdata)(it, from, length, data, 0),
                (None, Some(data), false) => {
                    (msg.senddata)(it, from, length, none, data, 0, context)
                }
                (Some(tag), None, true) => (tagged.inject)(it, from, length, 0, tag),
                (Some(tag), None, false) => (tagged.send)(it, from, length, none, 0, tag, context),
                (Some(tag), Some(data), true) => {
                    (tagged.injectdata)(it, from, length, data, 0, tag)
                }
                (Some(tag), Some(data), false) => {
                    (tagged.senddata)(it, from, length, none, data, 0, tag, context)
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

    /// The same calls each time: of all kinds, in an order that chance has chosen.
    fn run(&mut self) {
        // The channel is made by the first message, when the kernel tells of it.
        self.receive(0, Some((0, 0)), 8);
        self.send(0, Some(0), None, 8);
        while !self.said.iter().any(|it| matches!(it, Said::Completed { .. })) {
            self.read();
        }
        let mut random = Random::default();
        let mut one_of = |of: &[usize]| of[random.next() as usize % of.len()];
        let lengths = [0, 1, 7, 8, 9, 16, 17, 40, 41, 500, LONGEST_INJECTED, LONGEST_INJECTED + 1];
        for number in 1..STEPS {
            let tag = one_of(&[0, 1, 2, 3, 4]);
            let tag = tag.checked_sub(1).map(|it| it as u64);
            let length = one_of(&lengths);
            match one_of(&[0, 0, 1, 1, 2, 2, 2]) {
                0 => {
                    let ignore = one_of(&[0, 0, 0, usize::MAX]) as u64;
                    self.receive(number, tag.map(|it| (it, ignore)), length);
                }
                1 => {
                    let data = one_of(&[0, 1]);
                    self.send(number, tag, (data == 1).then_some(number as u64), length);
                }
                _ => {
                    self.read();
                }
            }
        }
        self.drain(200);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let all: [*mut fid; 4] =
            [self.endpoint.cast(), self.queue.cast(), self.vector.cast(), self.domain.cast()];
        for object in all {
            // SAFETY: an object of the provider, for the last time, after those that use it.
            assert_eq!(unsafe { ((*(*object).ops).close)(object) }, 0);
        }
    }
}

#[test]
fn what_takes_few_instructions_has_the_same_effect() {
    let [mut short, mut general] = [FI_THREAD_DOMAIN, FI_THREAD_SAFE].map(Alone::new);
    short.run();
    general.run();
    for (number, both) in short.said.iter().zip(&general.said).enumerate() {
        assert_eq!(both.0, both.1, "number {number}");
    }
    assert_eq!(short.said.len(), general.said.len());
    assert!(short.memory == general.memory, "the bytes that were received");
    let received = |it: &&Said| matches!(it, Said::Completed { flags, .. } if flags & FI_RECV != 0);
    let failed = |it: &&Said| matches!(it, Said::Failed { .. });
    let count = short.said.iter().filter(received).count();
    assert!(count > STEPS / 10, "{count} messages were received");
    assert!(short.said.iter().any(|it| failed(&it)), "some were longer than their receives");
    let refused = short.said.contains(&Said::Called(-(libc::EMSGSIZE as isize)));
    assert!(refused, "some were too long to be injected");
}
