//! Every interleaving of a writer and a reader over the byte ring and the interrupt flag, under
//! loom: `RUSTFLAGS="--cfg loom" cargo test -p weft-protocol --test shared_memory_model --release`.
//!
//! A lost wake-up shows as a deadlock, a byte read before it was written or overwritten before it
//! was read as a race on the cell that holds it. Each ordering is also left out once, and the model
//! must then fail. So are the words by which users of a stream and who has lent it agree on what is
//! sent first, and on who ends it, and the count of those who may owe a wake-up when nobody may ring
//! any more.

#![cfg(loom)]

mod weakened;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Mutex, Notify};
use loom::thread;
use weft_protocol::byte_ring::{Capacity, Reader, RingPointers, Writer};
use weft_protocol::detour::{Detour, Ringing};
use weft_protocol::interrupt_flag::{InterruptFlag, Sleep, Wake};
use weft_protocol::lending::{Answerer, Lending};
use weft_protocol::sync::{Weakening, weaken};
use weft_protocol::wakers::Wakers;

use weakened::failure_of;

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

/// A writer marks the end of its stream while the reader ends the detour: one must see the other,
/// or the reader waits for the underlying stream to end, although the writer has marked only the
/// ring.
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

/// One sleeper of each kind waits for the same byte; one stimulus must reach both.
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

/// A way whose detour is ended while a byte is written, and the doorbells of its writers.
#[derive(Default)]
struct Turned {
    pointers: RingPointers,
    detour: Detour,
    arrived: InterruptFlag,
    wakers: Wakers,
    ringing: Mutex<()>,
}

impl Turned {
    fn wake(&self, bell: &Notify, is_late: bool) {
        if !self.arrived.is_armed_after_change() {
            return;
        }
        let carry_out = |wake: Wake| {
            if wake.includes(Sleep::InKernel) {
                self.ring(bell);
            }
        };
        if is_late {
            let taken = self.arrived.take();
            self.wakers.count(|| carry_out(taken));
        } else {
            self.wakers.count(|| carry_out(self.arrived.take()));
        }
    }

    fn ring(&self, bell: &Notify) {
        let _alone = self.ringing.lock().unwrap();
        if self.detour.ring() == Ringing::Ring {
            bell.notify();
            self.detour.rung(true);
        }
    }

    /// Ends the detour and lets no doorbell begin any more.
    fn turn_back(&self, bell: &Notify) {
        self.detour.end(&self.pointers);
        self.wake(bell, false);
        if self.wakers.may_owe() {
            self.ring(bell);
        }
        self.detour.silence();
    }
}

/// A thread sleeps until there is a byte, or the way has ended; one writes, and another ends it.
fn silenced_midway(is_late: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new((Turned::default(), Notify::new()));
        assert!(shared.0.detour.begin(0));
        let [written, turned] = [(); 2].map(|()| Arc::clone(&shared));
        let writing = thread::spawn(move || {
            let (way, bell) = &*written;
            Writer::new(Capacity::new(1).unwrap()).publish(&way.pointers, 1);
            way.wake(bell, is_late);
        });
        let turning = thread::spawn(move || turned.0.turn_back(&turned.1));
        let (way, bell) = &*shared;
        let mut reader = Reader::new(Capacity::new(1).unwrap());
        let mut came = || reader.available(&way.pointers, 1).unwrap() > 0 || way.detour.has_ended();
        way.arrived.arm(Sleep::InKernel);
        while !came() {
            bell.wait();
            way.arrived.arm(Sleep::InKernel);
        }
        writing.join().unwrap();
        turning.join().unwrap();
        assert!(!way.wakers.may_owe());
    });
}

#[test]
fn a_wake_up_that_is_owed_when_nobody_may_ring_any_more_is_rung_before() {
    silenced_midway(false);
}

#[test]
fn who_is_counted_only_after_he_has_taken_the_flag_wakes_nobody() {
    assert!(failure_of("late_count").contains("deadlock"));
}

#[test]
#[ignore = "fails by design; run by who_is_counted_only_after_he_has_taken_the_flag_wakes_nobody"]
fn late_count() {
    silenced_midway(true);
}

#[test]
fn without_the_acquire_who_has_taken_the_flag_is_not_seen() {
    assert!(failure_of("weakened_count").contains("deadlock"));
}

#[test]
#[ignore = "fails by design; run by without_the_acquire_who_has_taken_the_flag_is_not_seen"]
fn weakened_count() {
    weaken(Weakening::Observe);
    silenced_midway(false);
}

const LENDER: u32 = 7;

/// What borrowers have written and is not yet sent, and what is sent, in the kernel's hands.
#[derive(Default)]
struct Lent {
    lending: Lending,
    written: Mutex<Vec<u8>>,
    sent: Mutex<Vec<u8>>,
}

/// A lender sends what was written, and answers. It looks for questions first, or too late.
fn answer(lent: &Lent, is_late: bool) {
    let early = lent.lending.asked();
    let written = std::mem::take(&mut *lent.written.lock().unwrap());
    lent.sent.lock().unwrap().extend(written);
    lent.lending.answer(if is_late { lent.lending.asked() } else { early });
}

/// A borrower writes, and then a user sends.
fn written_before_sent(is_late: bool) {
    let lent = Arc::new(Lent::default());
    lent.lending.begin();
    let theirs = Arc::clone(&lent);
    let lender = thread::spawn(move || {
        theirs.lending.serve(LENDER, |_| true);
        answer(&theirs, is_late);
        answer(&theirs, is_late);
        let _ = theirs.lending.end(LENDER);
    });
    lent.written.lock().unwrap().push(b'w');
    let question = lent.lending.ask();
    while !lent.lending.is_answered(question) && lent.lending.answerer(|_| true) != Answerer::None {
        thread::yield_now();
    }
    let is_answered = lent.lending.is_answered(question);
    lent.sent.lock().unwrap().push(b's');
    lender.join().unwrap();
    let sent = lent.sent.lock().unwrap();
    assert!(!is_answered || **sent == *b"ws", "sent before what was written: {sent:?}");
}

#[test]
fn what_borrowers_have_written_is_sent_before_the_answer() {
    loom::model(|| written_before_sent(false));
}

#[test]
fn a_question_that_is_looked_for_too_late_is_answered_too_early() {
    assert!(failure_of("late_look").contains("sent before what was written"));
}

#[test]
#[ignore = "fails by design; run by a_question_that_is_looked_for_too_late_is_answered_too_early"]
fn late_look() {
    loom::model(|| written_before_sent(true));
}

/// A user leaves the end of the direction to the lenders while they end their loans.
fn ended_midway(lenders: u32) {
    let lending = Arc::new(Lending::default());
    for _ in 0..lenders {
        lending.begin();
    }
    let loans: Vec<_> = (0..lenders)
        .map(|lender| {
            let theirs = Arc::clone(&lending);
            thread::spawn(move || {
                theirs.serve(LENDER + lender, |_| true);
                u32::from(theirs.takes_end()) + u32::from(theirs.end(LENDER + lender))
            })
        })
        .collect();
    let own = u32::from(!lending.leave_end());
    let ends = loans.into_iter().fold(own, |ends, loan| ends + loan.join().unwrap());
    assert_eq!(ends, 1, "so often the direction is ended, of {lenders}");
    assert!(!lending.is_lent() && !lending.is_end_due());
}

#[test]
fn a_direction_that_is_left_to_lenders_is_ended_once() {
    for lenders in [1, 2] {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || ended_midway(lenders));
    }
}

#[test]
fn without_the_acquire_nobody_ends_it() {
    assert!(failure_of("weakened_end").contains("so often the direction is ended"));
}

#[test]
#[ignore = "fails by design; run by without_the_acquire_nobody_ends_it"]
fn weakened_end() {
    weaken(Weakening::Observe);
    loom::model(|| ended_midway(1));
}

/// A lender is killed while two users look whether it lives.
fn killed_midway() {
    let shared = Arc::new((Lending::default(), AtomicBool::new(true)));
    shared.0.begin();
    shared.0.serve(LENDER, |_| true);
    let look = |shared: &(Lending, AtomicBool)| {
        let lives = |lender| lender == LENDER && shared.1.load(Ordering::Acquire);
        shared.0.answerer(lives)
    };
    let users: Vec<_> = (0..2)
        .map(|_| {
            let theirs = Arc::clone(&shared);
            thread::spawn(move || _ = look(&theirs))
        })
        .collect();
    shared.1.store(false, Ordering::Release);
    users.into_iter().for_each(|user| user.join().unwrap());
    assert_eq!(look(&shared), Answerer::None);
    assert!(!shared.0.is_lent());
}

#[test]
fn a_loan_whose_lender_is_killed_is_over_once() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(killed_midway);
}
