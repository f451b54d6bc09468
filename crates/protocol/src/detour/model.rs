//! One direction of a detour in every state that it can reach, for a small ring.

use super::*;
use crate::byte_ring::Capacity;
use crate::byte_ring::small::SmallRing;
use crate::explore::explore;

impl Detour {
    pub(crate) fn with(words: [u64; 4]) -> Self {
        let [begun, doorbells, rest, over] = words.map(AtomicU64::new);
        Self { begun, doorbells, rest, over }
    }

    pub(crate) fn words(&self) -> [u64; 4] {
        [&self.begun, &self.doorbells, &self.rest, &self.over]
            .map(|word| word.load(Ordering::Relaxed))
    }
}

const DOORBELL: u8 = 0;
/// Marks the end of the underlying stream. It is no byte: it is never counted or read.
const END: u8 = u8::MAX;

/// How far a side is with ending the detour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ending {
    No,
    /// It can no longer begin; the ring may not yet be sealed.
    Forbidden,
    Done,
}

/// How far the writer is with announcing that nothing follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Finish {
    No,
    /// It has announced that in the ring and seen that the detour had ended before: it returns.
    Late,
    /// It has announced that in the ring.
    Said,
    /// It has ended the underlying stream.
    Told,
}

/// The kind of reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Who {
    /// A reader that knows of the ring.
    Knowing,
    /// It has refused the rest and waits until it can go.
    Going,
    /// A reader that knows only the underlying stream.
    Plain,
}

/// One direction: both sides, the shared words, and the underlying stream as a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Model {
    words: [u64; 4],
    pointers: [u64; 2],
    ring: SmallRing,
    first: Vec<u8>,
    put_in: u64,
    sender: Sender,
    next: u8,
    ringing: Option<bool>,
    rung: u8,
    receiver: Receiver,
    taken: u64,
    got: u8,
    who: Who,
    may_withdraw: bool,
    ended: [Ending; 2],
    finish: Finish,
    /// Whether the reader has read the underlying stream after the ring.
    is_back: bool,
    has_heard: bool,
}

/// What the model lets happen, beyond sending and receiving.
#[derive(Clone, Copy)]
struct Limits {
    bytes: u8,
    doorbells: u8,
    leaves: bool,
    finishes: bool,
}

impl Model {
    fn new() -> Self {
        Self {
            words: [0; 4],
            pointers: [0; 2],
            ring: SmallRing::new(),
            first: Vec::new(),
            put_in: 0,
            sender: Sender::default(),
            next: 1,
            ringing: None,
            rung: 0,
            receiver: Receiver::default(),
            taken: 0,
            got: 0,
            who: Who::Knowing,
            may_withdraw: true,
            ended: [Ending::No; 2],
            finish: Finish::No,
            is_back: false,
            has_heard: false,
        }
    }

    /// The state after a step; `None` if the step is not possible.
    fn after(
        &self,
        step: impl FnOnce(&mut Self, &Detour, &RingPointers) -> Option<()>,
    ) -> Option<Self> {
        let mut next = self.clone();
        let (words, ring) = (Detour::with(next.words), RingPointers::with(next.pointers));
        step(&mut next, &words, &ring)?;
        (next.words, next.pointers) = (words.words(), ring.words());
        Some(next)
    }

    fn put(&mut self, byte: u8) {
        self.first.push(byte);
        self.put_in += 1;
    }

    fn write(&mut self, limits: Limits, words: &Detour, ring: &RingPointers) -> Option<()> {
        let may = self.next <= limits.bytes && self.finish == Finish::No;
        match self.sender.outlet() {
            Outlet::Before | Outlet::After if may => {
                self.put(self.next);
                self.next += 1;
            }
            Outlet::Ring if may => {
                self.ring.write(ring, self.next).then_some(())?;
                self.next += 1;
            }
            Outlet::Rest(from) => {
                self.put(self.ring.written_at(from));
                self.sender.sent_rest(words, &self.ring.writer, 1);
            }
            _ => return None,
        }
        Some(())
    }

    fn come_back(&mut self, words: &Detour, ring: &RingPointers) -> Option<()> {
        let sealed = ring.is_sealed() && self.sender.outlet() == Outlet::Ring;
        if !sealed || self.ringing.is_some() {
            return None;
        }
        self.sender.come_back(words, &self.ring.writer).unwrap();
        Some(())
    }

    /// Announces a doorbell, rings it, ends the announcement: three steps.
    fn ring(&mut self, limits: Limits, words: &Detour) -> Option<()> {
        match self.ringing {
            None if self.sender.outlet() == Outlet::Ring && self.rung < limits.doorbells => {
                if words.ring() != Ringing::Ring {
                    return None;
                }
                self.ringing = Some(false);
                self.rung += 1;
            }
            Some(false) => {
                self.put(DOORBELL);
                self.ringing = Some(true);
            }
            Some(true) => {
                words.rung(true);
                self.ringing = None;
            }
            None => return None,
        }
        Some(())
    }

    /// Ends the announcement of a doorbell that the full underlying stream has not taken.
    fn fail_to_ring(&mut self, words: &Detour) -> Option<()> {
        (self.ringing == Some(false)).then(|| words.rung(false))?;
        self.ringing = None;
        Some(())
    }

    fn end(&mut self, side: usize, words: &Detour, ring: &RingPointers) -> Option<()> {
        self.ended[side] = match self.ended[side] {
            Ending::No if words.forbid() => Ending::Forbidden,
            Ending::No => Ending::Done,
            Ending::Forbidden => {
                ring.seal();
                Ending::Done
            }
            Ending::Done => return None,
        };
        Some(())
    }

    /// Says that nothing follows, where the next byte would go.
    fn finish(&mut self, limits: Limits, words: &Detour, ring: &RingPointers) -> Option<()> {
        self.finish = match (self.finish, self.sender.outlet()) {
            (Finish::No, Outlet::Ring) if limits.finishes => {
                if words.finish() {
                    Finish::Late
                } else {
                    Finish::Said
                }
            }
            (Finish::Late, _) => {
                words.end(ring);
                if self.sender.outlet() == Outlet::Ring {
                    self.come_back(words, ring)?;
                }
                Finish::Said
            }
            (Finish::No, Outlet::Before | Outlet::After) | (Finish::Said, Outlet::After)
                if limits.finishes =>
            {
                self.first.push(END);
                Finish::Told
            }
            _ => return None,
        };
        Some(())
    }

    /// Whether the writer has finished and is in no call: it may make none any more.
    fn has_finished(&self) -> bool {
        match self.finish {
            Finish::No | Finish::Late => false,
            Finish::Said => self.sender.outlet() == Outlet::Ring,
            Finish::Told => true,
        }
    }

    fn hear(&mut self) {
        assert_eq!(self.got + 1, self.next, "the end before a byte: {self:?}");
        self.has_heard = true;
    }

    /// Reads a byte of the underlying stream, or its end.
    fn read_first(&mut self) -> Option<()> {
        if self.first.first() == Some(&END) {
            self.hear();
        } else {
            let byte = self.take()?;
            self.got(byte);
        }
        Some(())
    }

    fn take(&mut self) -> Option<u8> {
        if self.first.is_empty() || self.first[0] == END {
            return None;
        }
        self.taken += 1;
        Some(self.first.remove(0))
    }

    fn got(&mut self, byte: u8) {
        assert!(!self.has_heard, "a byte after the end: {self:?}");
        assert_eq!(byte, self.got + 1, "lost, doubled, overtaken, or a doorbell: {self:?}");
        self.got = byte;
    }

    fn read(&mut self, words: &Detour, ring: &RingPointers) -> Option<()> {
        if self.has_heard {
            return None;
        }
        if self.who == Who::Plain {
            return self.read_first();
        }
        let before = self.clone();
        let inlet = self.receiver.inlet(words, ring, &self.ring.reader, self.taken);
        let said_all = words.has_said_all() && !self.first.contains(&END);
        match inlet {
            Inlet::Doorbells(_) | Inlet::Settling if said_all => self.hear(),
            Inlet::After if said_all && !self.is_back => self.hear(),
            Inlet::Before { .. } if self.who == Who::Knowing => return self.read_first(),
            Inlet::After if self.who == Who::Knowing => {
                self.is_back = true;
                self.read_first()?;
            }
            Inlet::Doorbells(_) => assert_eq!(self.take()?, DOORBELL),
            Inlet::Ring => {
                let Some(byte) = self.ring.read(ring) else {
                    if words.is_finished() && !words.has_ended() {
                        self.hear();
                        return Some(());
                    }
                    return None;
                };
                self.got(byte);
            }
            // Also before the writer has learned of a refusal, after which the rest comes next.
            Inlet::After if self.ended[1] == Ending::Done => self.who = Who::Plain,
            _ => {}
        }
        (*self != before).then_some(())
    }

    /// Whether a reader in the ring has been woken by a doorbell.
    fn is_woken(&self) -> bool {
        let words = Detour::with(self.words);
        let in_ring = self.receiver.stage == Stage::Ring;
        in_ring
            && matches!(words.begun(), Begun::After(begun) if begun <= self.taken)
            && !self.first.is_empty()
    }

    /// Throws a counted doorbell away while in the ring.
    fn answer(&mut self, words: &Detour, ring: &RingPointers) -> Option<()> {
        let inlet = self.receiver.inlet(words, ring, &self.ring.reader, self.taken);
        let Begun::After(begun) = words.begun() else { return None };
        if inlet != Inlet::Ring || self.taken >= begun + words.doorbells() {
            return None;
        }
        assert_eq!(self.take()?, DOORBELL);
        Some(())
    }

    fn leave(&mut self, words: &Detour) -> Option<()> {
        let can = self.who == Who::Knowing;
        if !can || !self.receiver.leave(words, &self.ring.reader, self.taken) {
            return None;
        }
        self.who = Who::Going;
        Some(())
    }

    fn withdraw(&mut self, words: &Detour) -> Option<()> {
        let can = self.who == Who::Going && self.may_withdraw;
        if !can || !self.receiver.withdraw(words) {
            return None;
        }
        (self.who, self.may_withdraw) = (Who::Knowing, false);
        Some(())
    }

    fn successors(&self, limits: Limits) -> Vec<Self> {
        let mut next = vec![
            self.after(|it, words, ring| it.write(limits, words, ring)),
            self.after(|it, words, _| {
                let before = it.sender.outlet() == Outlet::Before && it.finish == Finish::No;
                before.then_some(())?;
                it.sender.begin(words, it.put_in);
                Some(())
            }),
            self.after(|it, words, ring| it.come_back(words, ring)),
            self.after(|it, words, _| it.ring(limits, words)),
            self.after(|it, words, _| it.fail_to_ring(words)),
            self.after(|it, words, ring| it.end(0, words, ring)),
            self.after(|it, words, ring| it.finish(limits, words, ring)),
        ];
        if limits.leaves {
            next.push(self.after(|it, words, _| it.leave(words)));
        }
        next.into_iter().flatten().chain(self.successors_alone()).collect()
    }

    /// What the reader can do while the writer does nothing, if it does not leave.
    fn successors_alone(&self) -> Vec<Self> {
        let next = [
            self.after(|it, words, ring| it.end(1, words, ring)),
            self.after(|it, words, ring| it.read(words, ring)),
            self.after(|it, words, ring| it.answer(words, ring)),
            self.after(|it, words, _| it.withdraw(words)),
        ];
        next.into_iter().flatten().collect()
    }
}

#[test]
fn no_byte_is_lost_or_overtaken_whenever_either_side_ends_the_detour() {
    let limits = Limits { bytes: 5, doorbells: 2, leaves: false, finishes: false };
    let states = explore(Model::new(), |it: &Model| it.successors(limits));
    assert!(states.len() > 10_000, "{} states", states.len());
    assert!(states.all_can_reach(|it| it.got == limits.bytes));
    let back = |it: &Model| it.sender.outlet() == Outlet::After && it.ring.writer.written() > 0;
    assert!(states.iter().any(|it| back(it) && it.got == limits.bytes && it.rung == 2));
}

#[test]
fn whom_a_doorbell_wakes_can_take_it_whatever_its_ringer_does() {
    let limits = Limits { bytes: 3, doorbells: 2, leaves: false, finishes: false };
    let states = explore(Model::new(), |it: &Model| it.successors(limits));
    let woken = || states.iter().filter(|it| it.is_woken());
    assert!(woken().any(|it| it.ringing == Some(true)), "its ringer is still at it");
    for state in woken().filter(|it| it.pointers[0] >> 63 == 0) {
        assert!(state.after(|it, words, ring| it.answer(words, ring)).is_some(), "{state:?}");
    }
}

#[test]
fn whoever_reads_the_first_way_after_a_reader_has_left_finds_all_that_it_left() {
    let limits = Limits { bytes: 4, doorbells: 1, leaves: true, finishes: false };
    let states = explore(Model::new(), |it: &Model| it.successors(limits));
    assert!(states.len() > 10_000, "{} states", states.len());
    assert!(states.all_can_reach(|it| it.got == limits.bytes));
    let left = |it: &Model| it.who == Who::Plain && it.words[2] & 7 == rest::SENT;
    assert!(states.iter().any(|it| left(it) && it.got == limits.bytes && it.rung == 1));
    assert!(states.iter().any(|it| !it.may_withdraw && it.got == limits.bytes));
}

/// The writer may do nothing on the stream any more once it has said that nothing follows.
#[test]
fn the_end_comes_after_all_and_needs_no_further_step_of_the_writer() {
    for leaves in [false, true] {
        let limits = Limits { bytes: 3, doorbells: 2, leaves, finishes: true };
        let states = explore(Model::new(), |it: &Model| it.successors(limits));
        assert!(states.len() > 10_000, "{} states", states.len());
        assert!(states.all_can_reach(|it| it.has_heard));
        let heard_by = |who| states.iter().any(|it| it.has_heard && it.who == who);
        assert_eq!([Who::Knowing, Who::Plain].map(heard_by), [true, leaves]);
        // A reader that has refused the rest and gone waits for the writer's next step.
        let alone = |it: &&Model| match Detour::with(it.words).refusal() {
            Refusal::None => true,
            Refusal::Unheard => it.who != Who::Plain,
            Refusal::Heard => false,
        };
        let quiet = states.iter().filter(|it| it.has_finished()).filter(alone);
        let mut looked = 0;
        for state in quiet {
            let alone = Model { may_withdraw: true, ..state.clone() };
            let reached = explore(alone, Model::successors_alone);
            assert!(reached.iter().any(|it| it.has_heard), "waits forever: {state:?}");
            looked += 1;
        }
        assert!(looked > 1_000, "{looked} states");
    }
}

#[test]
fn a_doorbell_that_nobody_counted_is_counted_before_the_next() {
    let words = Detour::default();
    assert!(words.begin(7));
    assert_eq!(words.ring(), Ringing::Ring);
    assert_eq!(words.ring(), Ringing::Doubtful, "its ringer has died");
    words.silence();
    assert_eq!(words.resumes_after(), None);
    words.count_doorbells(1);
    assert_eq!((words.ring(), words.resumes_after()), (Ringing::Silenced, Some(8)));
}

#[test]
fn a_refusal_of_what_was_never_written_is_not_believed() {
    let words = Detour::default();
    let ring = RingPointers::default();
    let (mut sender, writer) = (Sender::default(), Writer::new(Capacity::new(2).unwrap()));
    sender.begin(&words, 0);
    words.end(&ring);
    assert!(words.refuse(1));
    let broken = BrokenRing { before: 0, now: 1, limit: 0 };
    assert_eq!(sender.come_back(&words, &writer), Err(broken));
}
