//! Two adapters in one process that take turns, and one whose process is killed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use weft_protocol::vi::{QueueDepths, WorkQueueKind};

use super::*;
use crate::testing::{Random, rounds};

const CHILD: &str = "WEFT_VI_TEST_CHILD";
const LONG: Duration = Duration::from_secs(30);
const TAG: ProtectionTag = ProtectionTag(7);

struct Directories(PathBuf);

impl Directories {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weft-vis-{}-{name}", std::process::id())))
    }

    fn get(&self) -> Directory {
        Directory::at(self.0.clone()).unwrap()
    }
}

impl Drop for Directories {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).expect("virtual interfaces leave nothing behind");
    }
}

/// One side: an adapter with memory under a tag.
struct End {
    adapter: Adapter,
    memory: Box<[u8]>,
    handle: MemoryHandle,
    vi: ViId,
}

impl End {
    fn place(&self, offset: usize, length: u64) -> Place {
        Place { at: remote(self.handle, self.memory.as_ptr() as u64 + offset as u64), length }
    }

    fn send(&mut self, cookie: u64, offset: usize, length: u64) -> Result<(), ViError> {
        self.adapter.post_send(self.vi, cookie, self.place(offset, length), Operation::Send)
    }

    fn receive(&mut self, cookie: u64, offset: usize, length: u64) -> Result<(), ViError> {
        self.adapter.post_receive(self.vi, cookie, self.place(offset, length))
    }

    fn done(&mut self) -> Option<(u64, WorkQueueKind, Result<(), Fault>, u64)> {
        let done = self.adapter.poll()?;
        let Completion { cookie, queue, result } = done.completion;
        Some((cookie, queue, result, done.length))
    }
}

fn attributes(reliability: Reliability) -> Attributes {
    Attributes { reliability, tag: TAG, depths: QueueDepths { sends: 64, receives: 64 } }
}

fn adapter(place: &Directories, completions: usize) -> (Adapter, Box<[u8]>, MemoryHandle) {
    let mut adapter = Adapter::new(place.get(), completions).unwrap();
    let mut memory = vec![0_u8; 1 << 16].into_boxed_slice();
    // SAFETY: the memory lives as long as the adapter in each test, and is looked at between calls.
    let handle = unsafe { adapter.register(TAG, &raw mut *memory, true) };
    (adapter, memory, handle)
}

/// Two connected ends.
fn pair(place: &Directories, reliability: Reliability, completions: usize) -> [End; 2] {
    let (mut one, memory, handle) = adapter(place, completions);
    let mut acceptor = one.listen("pair").unwrap();
    let own = attributes(reliability);
    let (mut other, theirs, their_handle) = adapter(place, completions);
    let (here, there) = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| other.connect("pair", own, LONG).unwrap());
        let here = loop {
            if let Some(vi) = one.accept(&mut acceptor, own).unwrap() {
                break vi;
            }
            std::thread::yield_now();
        };
        (here, connecting.join().unwrap())
    });
    [
        End { adapter: one, memory, handle, vi: here },
        End { adapter: other, memory: theirs, handle: their_handle, vi: there },
    ]
}

const SEND: WorkQueueKind = WorkQueueKind::Send;
const RECEIVE: WorkQueueKind = WorkQueueKind::Receive;

#[test]
fn messages_go_where_descriptors_say_in_order_at_each_level() {
    for level in [
        Reliability::UnreliableDelivery,
        Reliability::ReliableDelivery,
        Reliability::ReliableReception,
    ] {
        let place = Directories::new("order");
        let [mut one, mut two] = pair(&place, level, 256);
        for number in 0..40 {
            two.receive(number, number as usize * 1000, 1000).unwrap();
            let at = number as usize * 1000;
            one.memory[at..at + 1000].fill(number as u8 + 1);
            one.send(100 + number, at, 900 + number).unwrap();
        }
        if level == Reliability::ReliableReception {
            assert_eq!(one.done(), None, "the other has not said so yet");
        }
        for number in 0..40 {
            assert_eq!(two.done(), Some((number, RECEIVE, Ok(()), 900 + number)));
            let at = number as usize * 1000;
            let length = 900 + number as usize;
            assert!(two.memory[at..at + length].iter().all(|byte| *byte == number as u8 + 1));
            assert_eq!(two.memory[at + length], 0);
        }
        two.adapter.progress();
        for number in 0..40 {
            let (cookie, queue, result, _) = one.done().unwrap();
            assert_eq!((cookie, queue, result), (100 + number, SEND, Ok(())));
        }
    }
}

#[test]
fn a_write_goes_to_open_memory_and_tells_only_if_it_is_asked_to() {
    let place = Directories::new("rdma");
    let [mut one, mut two] = pair(&place, Reliability::ReliableDelivery, 16);
    one.memory[..5].copy_from_slice(b"bytes");
    two.receive(9, 0, 64).unwrap();
    let to = two.place(4096, 0).at;
    let write = |immediate| Operation::RdmaWrite { to, immediate };
    let from = one.place(0, 5);
    one.adapter.post_send(one.vi, 1, from, write(false)).unwrap();
    assert_eq!(two.done(), None);
    assert_eq!(&two.memory[4096..4101], b"bytes");
    one.adapter.post_send(one.vi, 2, from, write(true)).unwrap();
    assert_eq!(two.done(), Some((9, RECEIVE, Ok(()), 5)));
    assert_eq!(&two.memory[..5], [0; 5], "the descriptor's own place is not written");
}

#[test]
fn memory_of_another_tag_is_neither_sent_nor_written() {
    let place = Directories::new("tags");
    let [mut one, mut two] = pair(&place, Reliability::ReliableDelivery, 16);
    let mut secret = vec![1_u8; 64].into_boxed_slice();
    // SAFETY: it lives as long as the adapters.
    let theirs = unsafe { two.adapter.register(ProtectionTag(8), &raw mut *secret, true) };
    let at = remote(theirs, secret.as_ptr() as u64);
    let own = two.adapter.post_receive(two.vi, 1, Place { at, length: 64 }).unwrap_err();
    let wrong = "memory with protection tag 8 was named by an endpoint with tag 7";
    assert_eq!(own.to_string(), wrong);
    one.send(5, 0, 1).unwrap_or(());
    let write = Operation::RdmaWrite { to: at, immediate: false };
    let from = one.place(0, 5);
    two.receive(3, 0, 64).unwrap();
    one.adapter.post_send(one.vi, 6, from, write).unwrap();
    assert_eq!(two.done(), Some((3, RECEIVE, Ok(()), 1)));
    two.adapter.progress();
    assert_eq!(*secret, [1; 64]);
    let told = two.adapter.fault(two.vi).unwrap().unwrap();
    assert_eq!(told.to_string(), wrong);
    one.adapter.progress();
    assert_eq!(one.adapter.fault(one.vi).unwrap(), Some(told), "the initiator is told");
    let refused = one.send(7, 0, 1).unwrap_err().to_string();
    assert_eq!(refused, format!("the connection is broken: {wrong}"));
}

#[test]
fn what_cannot_be_received_breaks_a_reliable_connection_and_is_dropped_on_another() {
    for (level, breaks) in
        [(Reliability::UnreliableDelivery, false), (Reliability::ReliableReception, true)]
    {
        let place = Directories::new("dropped");
        let [mut one, mut two] = pair(&place, level, 16);
        one.send(1, 0, 100).unwrap();
        two.adapter.progress();
        one.adapter.progress();
        let done = one.done().map(|(cookie, _, result, _)| (cookie, result));
        let expected = if breaks { Err(Fault::NoDescriptor) } else { Ok(()) };
        assert_eq!(done, Some((1, expected)));
        assert_eq!(one.adapter.fault(one.vi).unwrap().is_some(), breaks);
    }
}

#[test]
fn a_full_completion_queue_breaks_the_connection_that_overran_it() {
    let place = Directories::new("overrun");
    let [mut one, mut two] = pair(&place, Reliability::ReliableDelivery, 2);
    (0..4).for_each(|cookie| two.receive(cookie, 0, 8).unwrap());
    for cookie in 0..4 {
        if one.send(cookie, 0, 8).is_ok() {
            one.adapter.poll();
        }
    }
    two.adapter.progress();
    assert!(two.adapter.lost() > 0);
    assert_eq!(two.adapter.fault(two.vi).unwrap(), Some(Fault::CompletionQueueFull));
}

#[test]
fn ends_that_do_not_agree_are_not_connected() {
    let place = Directories::new("agree");
    let (mut one, _memory, _) = adapter(&place, 4);
    let mut acceptor = one.listen("d").unwrap();
    let (mut other, _theirs, _) = adapter(&place, 4);
    let own = attributes(Reliability::ReliableReception);
    let refused = std::thread::scope(|scope| {
        let connecting = scope.spawn(|| other.connect("d", own, LONG));
        let until = Instant::now() + LONG;
        while one.accept(&mut acceptor, attributes(Reliability::ReliableDelivery)).is_ok() {
            assert!(Instant::now() < until);
        }
        connecting.join().unwrap()
    });
    assert_eq!(refused, Err(ViError::Reliability(Reliability::ReliableReception)));
    let nobody = other.connect("nobody", attributes(Reliability::ReliableDelivery), LONG);
    assert!(nobody.unwrap_err().to_string().starts_with("nobody listens at \"nobody\""));
    assert_eq!(
        one.post_receive(ViId(9), 0, Place { at: remote(MemoryHandle(0), 0), length: 0 }),
        Err(ViError::NoVi(9))
    );
}

#[test]
fn all_descriptors_come_back_when_the_other_process_is_killed() {
    if let Some(path) = std::env::var_os(CHILD) {
        let directory = Directory::at(PathBuf::from(path)).unwrap();
        let mut adapter = Adapter::new(directory, 4).unwrap();
        adapter.connect("k", attributes(Reliability::ReliableReception), LONG).unwrap();
        std::thread::sleep(LONG);
    }
    let place = Directories::new("killed");
    let (mut one, memory, handle) = adapter(&place, 16);
    let mut acceptor = one.listen("k").unwrap();
    let name = "vi::tests::all_descriptors_come_back_when_the_other_process_is_killed";
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", name]).env(CHILD, &place.0);
    let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let own = attributes(Reliability::ReliableReception);
    let vi = loop {
        if let Some(vi) = one.accept(&mut acceptor, own).unwrap() {
            break vi;
        }
        std::thread::yield_now();
    };
    let mut end = End { adapter: one, memory, handle, vi };
    end.receive(1, 0, 64).unwrap();
    end.send(2, 0, 64).unwrap();
    child.kill().unwrap();
    let killed = Instant::now();
    let mut back: Vec<_> = (0..2).map(|_| end.adapter.wait(LONG).unwrap().completion).collect();
    assert!(killed.elapsed() < LONG / 2);
    back.sort_by_key(|it| it.cookie);
    let gone = Err(Fault::Disconnected);
    assert_eq!([back[0].cookie, back[1].cookie], [1, 2]);
    assert_eq!([back[0].result, back[1].result], [gone, gone]);
    child.wait().unwrap();
}

/// A hostile end breaks its own connection: memory that is not open is not touched, and nobody hangs.
#[test]
fn a_hostile_end_breaks_only_its_own_connection() {
    let place = Directories::new("hostile");
    let mut random = Random::default();
    for round in 0..rounds(300) {
        let [mut one, mut two] = pair(&place, Reliability::ReliableDelivery, 512);
        let guard = vec![3_u8; 4096].into_boxed_slice();
        (0..16).for_each(|it| one.receive(it, it as usize * 64, 64).unwrap());
        (0..4).for_each(|it| two.send(it, 0, 64).unwrap());
        two.adapter.vis[0].as_ref().unwrap().corrupt(|| {
            let word = random.next();
            if round % 2 == 0 { word } else { word & 0x0000_0040_0000_0001 }
        });
        for _ in 0..50 {
            one.adapter.progress();
            while one.adapter.poll().is_some() {}
        }
        assert!(guard.iter().all(|byte| *byte == 3));
    }
}
