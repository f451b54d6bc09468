//! Every interleaving of a writer and a reader over the record ring and the interrupt flag, under
//! loom: `RUSTFLAGS="--cfg loom" cargo test -p weft-protocol --test record_ring_model --release`.
//!
//! A lost wake-up shows as a deadlock, a record read before it was written or overwritten before it
//! was read as a race on the cell that holds it. Each ordering is also left out once, and the model
//! must then fail.

#![cfg(loom)]

use std::num::NonZeroU32;
use std::process::Command;

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::sync::{Arc, Notify};
use loom::thread;
use weft_protocol::interrupt_flag::{InterruptFlag, Sleep};
use weft_protocol::record_ring::{HEAD, Heads, Reader, SLOT, Slots, Writer};
use weft_protocol::sync::{Weakening, weaken};

/// The variable that tells a process of this file to leave an ordering out.
const LEFT_OUT: &str = "WEFT_MODEL_WITHOUT";
const SLOTS: u64 = 4;

struct Shared {
    heads: Vec<AtomicU64>,
    read: AtomicU64,
    /// The bytes of each slot behind its head, as one number.
    cells: Vec<UnsafeCell<u64>>,
    arrived: InterruptFlag,
    freed: InterruptFlag,
    bells: [Notify; 2],
}

impl Heads for Shared {
    fn head(&self, slot: usize) -> &AtomicU64 {
        &self.heads[slot]
    }
}

fn slots() -> Slots {
    Slots::of_bytes(SLOTS * SLOT).unwrap()
}

/// Sends records of these lengths, each filled with its number, both sides sleeping when they must.
fn stream(lengths: &'static [u64]) {
    let shared = Arc::new(Shared {
        heads: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        read: AtomicU64::new(0),
        cells: (0..SLOTS).map(|_| UnsafeCell::new(0)).collect(),
        arrived: InterruptFlag::default(),
        freed: InterruptFlag::default(),
        bells: [Notify::new(), Notify::new()],
    });
    let theirs = Arc::clone(&shared);
    let writing = thread::spawn(move || write(&theirs, lengths));
    read(&shared, lengths);
    writing.join().unwrap();
}

fn cells_of(place: &std::ops::Range<usize>) -> std::ops::RangeInclusive<usize> {
    let slot = |byte: usize| byte / SLOT as usize;
    slot(place.start - HEAD as usize)..=slot((place.end - 1).max(place.start - HEAD as usize))
}

fn write(shared: &Shared, lengths: &[u64]) {
    let mut writer = Writer::new(slots());
    for (number, length) in lengths.iter().enumerate() {
        let place = loop {
            if let Some(place) = writer.reserve(shared, &shared.read, *length).unwrap() {
                break place;
            }
            shared.freed.arm(Sleep::OnWord);
            if let Some(place) = writer.reserve(shared, &shared.read, *length).unwrap() {
                break place;
            }
            shared.bells[0].wait();
        };
        for cell in cells_of(&place) {
            // SAFETY: the ring gave these slots to the writer alone; loom checks that it is so.
            shared.cells[cell].with_mut(|cell| unsafe { *cell = number as u64 });
        }
        writer.publish(shared, NonZeroU32::new(number as u32 + 1).unwrap(), *length);
        if shared.arrived.stimulate().includes(Sleep::OnWord) {
            shared.bells[1].notify();
        }
    }
}

fn read(shared: &Shared, lengths: &[u64]) {
    let mut reader = Reader::new(slots());
    for (number, length) in lengths.iter().enumerate() {
        let record = loop {
            if let Some(record) = reader.next(shared).unwrap() {
                break record;
            }
            shared.arrived.arm(Sleep::OnWord);
            if let Some(record) = reader.next(shared).unwrap() {
                break record;
            }
            shared.bells[1].wait();
        };
        assert_eq!((record.what, record.place.len() as u64), (number as u32 + 1, *length));
        for cell in cells_of(&record.place) {
            // SAFETY: the ring gave these slots to the reader alone; loom checks that it is so.
            assert_eq!(shared.cells[cell].with(|cell| unsafe { *cell }), number as u64);
        }
        reader.take(&record);
        if reader.release(&shared.read) && shared.freed.stimulate().includes(Sleep::OnWord) {
            shared.bells[0].notify();
        }
    }
}

fn model(lengths: &'static [u64], preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || stream(lengths));
}

#[test]
fn no_wake_up_is_lost_and_no_record_is_torn() {
    let left_out = match std::env::var(LEFT_OUT).as_deref() {
        Ok("publish") => Weakening::Publish,
        Ok("observe") => Weakening::Observe,
        Ok("fence") => Weakening::Fence,
        _ => Weakening::Sound,
    };
    weaken(left_out);
    model(&[8, 8, 8, 8], 3);
}

#[test]
fn a_record_that_skips_the_end_of_the_ring_arrives_whole() {
    model(&[8, 8, 8, 100], 2);
}

/// Runs the first model without an ordering in a process of its own, since loom aborts on a
/// deadlock, and returns what it printed on its way down.
fn failure_without(ordering: &str) -> String {
    let itself = std::env::current_exe().unwrap();
    let name = "no_wake_up_is_lost_and_no_record_is_torn";
    let mut run = Command::new(itself);
    let run = run.args(["--exact", name]).env(LEFT_OUT, ordering).output().unwrap();
    assert!(!run.status.success(), "the model held without {ordering}");
    String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned()
}

#[test]
fn without_the_fence_a_wake_up_is_lost() {
    assert!(failure_without("fence").contains("deadlock"));
}

#[test]
fn without_the_release_a_record_is_read_too_early() {
    assert!(failure_without("publish").contains("Causality violation"));
}

#[test]
fn without_the_acquire_a_record_is_read_too_early() {
    assert!(failure_without("observe").contains("Causality violation"));
}
