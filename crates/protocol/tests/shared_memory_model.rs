//! Every interleaving of a writer and a reader over the byte ring and the interrupt flag, under
//! loom: `RUSTFLAGS="--cfg loom" cargo test -p weft-protocol --test shared_memory_model --release`.
//!
//! A lost wake-up shows as a deadlock, a byte read before it was written or overwritten before it
//! was read as a race on the cell that holds it. Each ordering is also left out once, and the model
//! must then fail.

#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Notify};
use loom::thread;
use std::process::Command;
use weft_protocol::byte_ring::{Capacity, Reader, RingPointers, Writer};
use weft_protocol::detour::Detour;
use weft_protocol::interrupt_flag::{InterruptFlag, Sleep};
use weft_protocol::sync::{Weakening, weaken};

struct Shared {
    pointers: RingPointers,
    cells: Vec<UnsafeCell<u8>>,
    arrived: InterruptFlag,
    freed: InterruptFlag,
    reader: Notify,
    writer: Notify,
}

/// Sends `bytes` bytes through a ring of `capacity`, both sides sleeping when they must.
fn stream(capacity: u64, bytes: u8, sleep: Sleep) {
    let shared = Arc::new(Shared {
        pointers: RingPointers::default(),
        cells: (0..capacity).map(|_| UnsafeCell::new(0)).collect(),
        arrived: InterruptFlag::default(),
        freed: InterruptFlag::default(),
        reader: Notify::new(),
        writer: Notify::new(),
    });
    let theirs = Arc::clone(&shared);
    let writing =
        thread::spawn(move || write(&theirs, Capacity::new(capacity).unwrap(), bytes, sleep));
    read(&shared, Capacity::new(capacity).unwrap(), bytes, sleep);
    writing.join().unwrap();
}

fn write(shared: &Shared, capacity: Capacity, bytes: u8, sleep: Sleep) {
    let mut writer = Writer::new(capacity);
    for byte in 1..=bytes {
        if writer.room(&shared.pointers, 1).unwrap() == 0 {
            shared.freed.arm(sleep);
            while writer.room(&shared.pointers, 1).unwrap() == 0 {
                shared.writer.wait();
                shared.freed.arm(sleep);
            }
        }
        let place = writer.spans(1).first.start;
        // SAFETY: the ring gave this place to the writer alone; loom checks that it is so.
        shared.cells[place].with_mut(|cell| unsafe { *cell = byte });
        writer.publish(&shared.pointers, 1);
        if shared.arrived.stimulate().includes(sleep) {
            shared.reader.notify();
        }
    }
}

fn read(shared: &Shared, capacity: Capacity, bytes: u8, sleep: Sleep) {
    let mut reader = Reader::new(capacity);
    for byte in 1..=bytes {
        if reader.available(&shared.pointers, 1).unwrap() == 0 {
            shared.arrived.arm(sleep);
            while reader.available(&shared.pointers, 1).unwrap() == 0 {
                shared.reader.wait();
                shared.arrived.arm(sleep);
            }
        }
        let place = reader.spans(1).first.start;
        // SAFETY: the ring gave this place to the reader alone; loom checks that it is so.
        assert_eq!(shared.cells[place].with(|cell| unsafe { *cell }), byte);
        reader.release(&shared.pointers, 1);
        if shared.freed.stimulate().includes(sleep) {
            shared.writer.notify();
        }
    }
}

fn model(weakening: Weakening) {
    weaken(weakening);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| stream(1, 2, Sleep::OnWord));
}

#[test]
fn no_wake_up_is_lost_and_no_byte_is_torn() {
    model(Weakening::Sound);
}

#[test]
fn a_longer_stream_through_a_larger_ring_arrives_whole() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| stream(2, 3, Sleep::InKernel));
}

/// Sends two bytes while the reader seals the ring: what the ring took is read there, the rest goes
/// another way, and nothing is lost, doubled or torn.
fn sealed_midway() {
    let shared = Arc::new((
        RingPointers::default(),
        [UnsafeCell::new(0u8), UnsafeCell::new(0u8)],
        loom::sync::Mutex::new(Vec::new()),
    ));
    let theirs = Arc::clone(&shared);
    let writing = thread::spawn(move || {
        let mut writer = Writer::new(Capacity::new(2).unwrap());
        for byte in 1..=2u8 {
            let place = writer.spans(1).first.start;
            // SAFETY: the ring gave this place to the writer alone; loom checks that it is so.
            theirs.1[place].with_mut(|cell| unsafe { *cell = byte });
            if writer.publish_unless_sealed(&theirs.0, 1).is_err() {
                theirs.2.lock().unwrap().push(byte);
            }
        }
    });
    let mut reader = Reader::new(Capacity::new(2).unwrap());
    let sealed = shared.0.seal();
    assert_eq!(reader.available(&shared.0, 2), Ok(sealed));
    for byte in 1..=sealed {
        let place = reader.spans(1).first.start;
        // SAFETY: as above.
        assert_eq!(shared.1[place].with(|cell| unsafe { *cell }), byte as u8);
        reader.release(&shared.0, 1);
    }
    writing.join().unwrap();
    let rest: Vec<u8> = (sealed as u8 + 1..=2).collect();
    assert_eq!(*shared.2.lock().unwrap(), rest);
}

#[test]
fn a_ring_that_is_sealed_while_it_is_written_keeps_what_it_took() {
    loom::model(sealed_midway);
}

#[test]
fn without_the_release_a_sealed_byte_is_read_too_early() {
    assert!(failure_of("weakened_seal").contains("Causality violation"));
}

#[test]
#[ignore = "fails by design; run by without_the_release_a_sealed_byte_is_read_too_early"]
fn weakened_seal() {
    weaken(Weakening::Publish);
    loom::model(sealed_midway);
}

/// Runs an ignored test of this file in a process of its own, since loom aborts on a deadlock, and
/// returns what it printed on its way down.
fn failure_of(name: &str) -> String {
    let itself = std::env::current_exe().unwrap();
    let run = Command::new(itself).args(["--ignored", "--exact", name]).output().unwrap();
    assert!(!run.status.success(), "the weakened model held");
    String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned()
}

#[test]
fn without_the_fence_a_wake_up_is_lost() {
    assert!(failure_of("weakened_fence").contains("deadlock"));
}

#[test]
fn without_the_release_a_byte_is_read_too_early() {
    assert!(failure_of("weakened_publish").contains("Causality violation"));
}

#[test]
fn without_the_acquire_a_byte_is_read_too_early() {
    assert!(failure_of("weakened_observe").contains("Causality violation"));
}

#[test]
#[ignore = "fails by design; run by without_the_fence_a_wake_up_is_lost"]
fn weakened_fence() {
    model(Weakening::Fence);
}

#[test]
#[ignore = "fails by design; run by without_the_release_a_byte_is_read_too_early"]
fn weakened_publish() {
    model(Weakening::Publish);
}

#[test]
#[ignore = "fails by design; run by without_the_acquire_a_byte_is_read_too_early"]
fn weakened_observe() {
    model(Weakening::Observe);
}

/// One sleeper of each kind waits for the same byte; one stimulus must reach both.
/// A writer says that it has finished while the reader ends the detour: one must see the other, or
/// the reader waits for the first way to hear of an end that the writer has told the ring alone.
fn finished_midway() {
    let shared = Arc::new((Detour::default(), RingPointers::default()));
    assert!(shared.0.begin(0));
    let theirs = Arc::clone(&shared);
    let writing = thread::spawn(move || theirs.0.finish());
    shared.0.end(&shared.1);
    let is_seen = shared.0.is_finished();
    assert!(writing.join().unwrap() || is_seen);
}

#[test]
fn a_writer_that_finishes_sees_the_end_of_the_detour_or_is_seen() {
    loom::model(finished_midway);
}

#[test]
fn without_the_fence_neither_sees_the_other() {
    assert!(failure_of("weakened_finish").contains("is_seen"));
}

#[test]
#[ignore = "fails by design; run by without_the_fence_neither_sees_the_other"]
fn weakened_finish() {
    weaken(Weakening::Fence);
    loom::model(finished_midway);
}

#[test]
fn sleepers_of_both_kinds_are_woken() {
    loom::model(|| {
        let shared = Arc::new((
            RingPointers::default(),
            InterruptFlag::default(),
            [Notify::new(), Notify::new()],
        ));
        let kinds = [Sleep::OnWord, Sleep::InKernel];
        let sleepers: Vec<_> = [0, 1]
            .into_iter()
            .map(|index: usize| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let mut reader = Reader::new(Capacity::new(1).unwrap());
                    shared.1.arm(kinds[index]);
                    while reader.available(&shared.0, 1).unwrap() == 0 {
                        shared.2[index].wait();
                        shared.1.arm(kinds[index]);
                    }
                })
            })
            .collect();
        let mut writer = Writer::new(Capacity::new(1).unwrap());
        writer.publish(&shared.0, 1);
        let wake = shared.1.stimulate();
        for (index, kind) in kinds.into_iter().enumerate() {
            if wake.includes(kind) {
                shared.2[index].notify();
            }
        }
        for sleeper in sleepers {
            sleeper.join().unwrap();
        }
    });
}
