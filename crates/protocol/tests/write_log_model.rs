//! Two writers over the log of reflected writes under loom, each of whom works for both nodes:
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-protocol --test write_log_model --release`.
//!
//! A record that is read before it was written, or overwritten before it was read, shows as a race on its cell; a
//! record that nobody brings shows in the end. Each ordering is also left out once, and the model must then fail.

#![cfg(loom)]

use std::process::Command;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use weft_protocol::sync::{Weakening, weaken};
use weft_protocol::write_log::{Claim, Log, Places, State};

/// The variable that tells a process of this file to leave an ordering out.
const LEFT_OUT: &str = "WEFT_MODEL_WITHOUT";
const PLACES: usize = 2;
const NODES: usize = 2;

struct Shared {
    tail: AtomicU64,
    places: [AtomicU64; PLACES],
    positions: [AtomicU64; NODES],
    workers: [AtomicU64; NODES],
    /// The writer of each record.
    cells: [UnsafeCell<u8>; PLACES],
    /// The memory of each node: who wrote, in order.
    memories: [UnsafeCell<Vec<u8>>; NODES],
}

impl Places for Shared {
    fn tail(&self) -> &AtomicU64 {
        &self.tail
    }
    fn place(&self, index: usize) -> &AtomicU64 {
        &self.places[index]
    }
    fn position(&self, node: usize) -> &AtomicU64 {
        &self.positions[node]
    }
    fn worker(&self, node: usize) -> &AtomicU64 {
        &self.workers[node]
    }
}

const LOG: Log = Log::new(PLACES as u64, NODES);

fn work(shared: &Shared, node: usize, who: u8) {
    LOG.work(shared, node, who, |ticket, state| {
        // SAFETY: loom checks that nobody writes the cell, or the memory, meanwhile.
        let writer = shared.cells[LOG.index(ticket)].with(|cell| unsafe { *cell });
        assert_eq!(state, State::Published(writer));
        shared.memories[node].with_mut(|memory| unsafe { (*memory).push(writer) });
    });
}

fn write(shared: &Shared, who: u8, least: &mut u64) {
    let ticket = loop {
        match LOG.claim(shared, who, least).unwrap() {
            Claim::Claimed(ticket) => break ticket,
            Claim::Behind(node) => {
                work(shared, node, who);
                thread::yield_now();
            }
        }
    };
    // SAFETY: the record was claimed; loom checks that it is nobody else's.
    shared.cells[LOG.index(ticket)].with_mut(|cell| unsafe { *cell = who });
    assert!(LOG.publish(shared, ticket, who));
    LOG.announce();
    (0..NODES).for_each(|node| work(shared, node, who));
}

fn run(counts: [usize; 2]) {
    let zero = || AtomicU64::new(0);
    let shared = Arc::new(Shared {
        tail: zero(),
        places: std::array::from_fn(|_| zero()),
        positions: std::array::from_fn(|_| zero()),
        workers: std::array::from_fn(|_| zero()),
        cells: std::array::from_fn(|_| UnsafeCell::new(9)),
        memories: std::array::from_fn(|_| UnsafeCell::new(Vec::new())),
    });
    let theirs = Arc::clone(&shared);
    let writing = thread::spawn(move || {
        let mut least = 0;
        (0..counts[1]).for_each(|_| write(&theirs, 1, &mut least));
    });
    let mut least = 0;
    (0..counts[0]).for_each(|_| write(&shared, 0, &mut least));
    writing.join().unwrap();
    // SAFETY: nobody else is there any more.
    let memories =
        [0, 1].map(|node: usize| shared.memories[node].with(|memory| unsafe { (*memory).clone() }));
    assert_eq!(memories[0].len(), counts[0] + counts[1], "a record was brought by nobody");
    assert_eq!(memories[0], memories[1], "two orders");
}

fn model(counts: [usize; 2], preemptions: usize) {
    let left_out = match std::env::var(LEFT_OUT).as_deref() {
        Ok("publish") => Weakening::Publish,
        Ok("observe") => Weakening::Observe,
        Ok("fence") => Weakening::Fence,
        _ => Weakening::Sound,
    };
    weaken(left_out);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || run(counts));
}

#[test]
fn every_record_reaches_both_in_one_order() {
    model([1, 1], 2);
}

#[test]
fn a_place_is_used_again_only_when_all_have_taken_it() {
    model([2, 1], 2);
}

/// Runs the first model without an ordering in a process of its own, and returns what it printed on its way down.
fn failure_without(ordering: &str) -> String {
    let itself = std::env::current_exe().unwrap();
    let name = "every_record_reaches_both_in_one_order";
    let mut run = Command::new(itself);
    let run = run.args(["--exact", name]).env(LEFT_OUT, ordering).output().unwrap();
    assert!(!run.status.success(), "the model held without {ordering}");
    String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).into_owned()
}

#[test]
fn without_the_fence_a_record_is_brought_by_nobody() {
    let said = failure_without("fence");
    assert!(said.contains("a record was brought by nobody"), "{said}");
}

#[test]
fn without_the_release_a_record_is_read_too_early() {
    assert!(failure_without("publish").contains("Causality violation"));
}

#[test]
fn without_the_acquire_a_record_is_read_too_early() {
    assert!(failure_without("observe").contains("Causality violation"));
}
