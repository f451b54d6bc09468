//! Two ends of a connection in every state that they can reach, whichever order their events come in:
//! each joins, or gives up, or dies, or comes back, while both send and receive.

use std::collections::HashMap;

use super::*;
use crate::byte_ring::{Capacity, Reader, RingPointers, Unpublished, Writer};
use crate::detour::{Inlet, Receiver};
use crate::explore::{States, explore};

const CAPACITY: u64 = 2;
const ROLES: [Role; 2] = [Role::Client, Role::Server];

/// The meeting place, where the server's socket is, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Meeting {
    Nobody,
    Waiting,
    /// The client has brought the segment.
    Brought,
    Taken,
}

/// One end, beside its two halves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct End {
    phase: Phase,
    /// What its call is about to do.
    action: Action,
    /// Of how many directions it has ended the detour.
    ended: u8,
    lives: bool,
    /// Whether another call may yet be found inside when it wants to join.
    may_be_busy: bool,
    /// Whether it has told the kernel that it sends no more, by which it can wake nobody.
    is_shut: bool,
}

/// One direction: both halves, the shared words, and the kernel's stream as a queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Way {
    words: [u64; 4],
    pointers: [u64; 2],
    cells: [u8; CAPACITY as usize],
    first: Vec<u8>,
    put_in: u64,
    writer: Writer,
    sender: Sender,
    /// What is written next: bytes are numbered from one on.
    next: u8,
    reader: Reader,
    receiver: Receiver,
    taken: u64,
    got: u8,
    /// Which of the three parts of the stream bytes were read of.
    read_of: [bool; 3],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Model {
    agreement: u32,
    meeting: Meeting,
    ends: [End; 2],
    /// By the end that writes.
    ways: [Way; 2],
    /// What the ends leave out that they should do.
    flaw: Flaw,
}

/// A defect that the search is to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Flaw {
    None,
    /// An end that gives up, or shuts its sending down, does not revoke the agreement.
    KeepsAgreement,
    /// A client does not hear that the server has left the meeting place with what it brought.
    HearsNoRefusal,
}

/// What the model lets happen.
#[derive(Clone, Copy)]
struct Limits {
    /// How many bytes each end writes.
    bytes: [u8; 2],
    /// Whether ends come back.
    returns: bool,
    /// Whether ends give up or die.
    fails: bool,
}

impl Way {
    fn new() -> Self {
        let capacity = Capacity::new(CAPACITY).unwrap();
        Self {
            words: [0; 4],
            pointers: [0; 2],
            cells: [0; CAPACITY as usize],
            first: Vec::new(),
            put_in: 0,
            writer: Writer::new(capacity),
            sender: Sender::default(),
            next: 1,
            reader: Reader::new(capacity),
            receiver: Receiver::default(),
            taken: 0,
            got: 0,
            read_of: [false; 3],
        }
    }

    /// Takes a step with the shared words.
    fn with<T>(&mut self, step: impl FnOnce(&mut Self, &Detour, &RingPointers) -> T) -> T {
        let (words, ring) = (Detour::with(self.words), RingPointers::with(self.pointers));
        let result = step(self, &words, &ring);
        (self.words, self.pointers) = (words.words(), ring.words());
        result
    }

    /// Writes to the kernel's stream.
    fn put(&mut self) {
        self.first.push(self.next);
        (self.put_in, self.next) = (self.put_in + 1, self.next + 1);
    }

    /// Writes by the ring, if there is room.
    fn publish(&mut self) -> Option<()> {
        self.with(|it, _, ring| {
            if it.writer.room(ring, 1).unwrap() == 0 {
                return None;
            }
            let place = it.writer.spans(1).first.start;
            match it.writer.publish_unless_sealed(ring, 1) {
                Ok(()) => it.cells[place] = it.next,
                Err(why) => {
                    assert_eq!(why, Unpublished::Sealed);
                    return None;
                }
            }
            it.next += 1;
            Some(())
        })
    }

    fn inlet(&mut self) -> Inlet {
        self.with(|it, words, ring| it.receiver.inlet(words, ring, &it.reader, it.taken))
    }

    /// Reads of the kernel's stream, before the ring or after it.
    fn take(&mut self, part: usize) -> Option<()> {
        if self.first.is_empty() {
            return None;
        }
        self.taken += 1;
        let byte = self.first.remove(0);
        self.get(byte, part);
        Some(())
    }

    /// Reads of the ring.
    fn empty(&mut self) -> Option<()> {
        self.with(|it, _, ring| {
            if it.reader.available(ring, 1).unwrap() == 0 {
                return None;
            }
            let place = it.reader.spans(1).first.start;
            it.get(it.cells[place], 1);
            it.reader.release(ring, 1);
            Some(())
        })
    }

    fn get(&mut self, byte: u8, part: usize) {
        assert_eq!(byte, self.got + 1, "lost, doubled or overtaken: {self:?}");
        (self.got, self.read_of[part]) = (byte, true);
    }

    /// Whether all is read that was written.
    fn is_read(&self) -> bool {
        self.got + 1 == self.next
    }
}

impl Model {
    fn new() -> Self {
        Self::with(Flaw::None)
    }

    fn with(flaw: Flaw) -> Self {
        let end = End {
            phase: Phase::CANDIDATE,
            action: Action::Rest,
            ended: 0,
            lives: true,
            may_be_busy: true,
            is_shut: false,
        };
        Self {
            agreement: 0,
            meeting: Meeting::Nobody,
            ends: [end.clone(), end],
            ways: [Way::new(), Way::new()],
            flaw,
        }
    }

    /// The state after a step; `None` if the step is not possible.
    fn after(&self, step: impl FnOnce(&mut Self) -> Option<()>) -> Option<Self> {
        let mut next = self.clone();
        step(&mut next)?;
        (next != *self).then_some(next)
    }

    fn end(&mut self, role: Role) -> &mut End {
        &mut self.ends[role as usize]
    }

    /// Tells an end of an event; what it is to do is its next step.
    fn tell(&mut self, role: Role, event: Event) -> Option<()> {
        let end = Migration { phase: AtomicU32::new(self.end(role).phase.0) };
        let agreement = Agreement { word: AtomicU32::new(self.agreement) };
        // Neither has a segment before the client has handed it over.
        let shared = self.end(role).phase >= Phase::OFFERED || event == Event::Shared;
        let action = end.on(role, shared.then_some(&agreement), event);
        if self.flaw != Flaw::KeepsAgreement || agreement.agreed() != Agreed::Revoked {
            self.agreement = agreement.word.load(Ordering::SeqCst);
        }
        (self.end(role).phase, self.end(role).action) = (end.phase(), action);
        Some(())
    }

    /// Does what an end is to do.
    fn act(&mut self, role: Role) -> Option<()> {
        let action = std::mem::replace(&mut self.end(role).action, Action::Rest);
        match action {
            Action::Rest => None,
            Action::Offer if self.meeting == Meeting::Waiting => {
                self.meeting = Meeting::Brought;
                self.tell(role, Event::Shared)
            }
            Action::Listen => {
                self.meeting = Meeting::Waiting;
                self.tell(role, Event::Listens)
            }
            Action::Take if self.meeting == Meeting::Brought => {
                self.meeting = Meeting::Taken;
                self.tell(role, Event::Shared)
            }
            Action::AskForRefusal
                if self.meeting == Meeting::Nobody && self.flaw != Flaw::HearsNoRefusal =>
            {
                self.tell(role, Event::Refused)
            }
            Action::Prepare => self.tell(role, Event::Prepared),
            Action::Learn => self.tell(role, Event::Learned),
            Action::GiveUp => self.tell(role, Event::Refused),
            Action::TellKernel => {
                self.end(role).is_shut = true;
                self.tell(role, Event::Returned)
            }
            Action::Offer
            | Action::Take
            | Action::AskForRefusal
            | Action::Follow
            | Action::Leave => Some(()),
        }
    }

    /// Finds another call inside.
    fn be_busy(&mut self, role: Role) -> Option<()> {
        let end = self.end(role);
        if end.action != Action::Prepare || !end.may_be_busy {
            return None;
        }
        end.may_be_busy = false;
        self.tell(role, Event::Busy)
    }

    /// Leaves the meeting place, where nobody has come yet.
    fn stop_waiting(&mut self, role: Role) -> Option<()> {
        let waits = role == Role::Server && self.meeting == Meeting::Waiting;
        if !waits || self.end(role).action != Action::Rest || !self.end(role).may_be_busy {
            return None;
        }
        self.end(role).may_be_busy = false;
        self.meeting = Meeting::Nobody;
        self.tell(role, Event::Left)
    }

    /// Gives up, and with it what it has at the meeting place.
    fn refuse(&mut self, role: Role) -> Option<()> {
        if role == Role::Server && self.meeting != Meeting::Taken {
            self.meeting = Meeting::Nobody;
        }
        self.tell(role, Event::Refused)
    }

    fn die(&mut self, role: Role) -> Option<()> {
        if self.ends.iter().any(|end| !end.lives) {
            return None;
        }
        if role == Role::Server && self.meeting != Meeting::Taken {
            self.meeting = Meeting::Nobody;
        }
        self.end(role).lives = false;
        Some(())
    }

    /// Whether calls move bytes at this end: while it joins they are kept out.
    fn moves(&self, role: Role) -> bool {
        !self.ends[role as usize].phase.is_joining()
    }

    fn has_joined(&self, role: Role) -> bool {
        self.ends[role as usize].phase == Phase::JOINED
    }

    fn write(&mut self, role: Role, limits: Limits) -> Option<()> {
        let joined = self.has_joined(role);
        let moves = self.moves(role);
        let (is_shut, way) = (self.ends[role as usize].is_shut, &mut self.ways[role as usize]);
        if !moves || is_shut || way.next > limits.bytes[role as usize] {
            return None;
        }
        match way.sender.outlet() {
            Outlet::Ring if joined => way.publish()?,
            Outlet::Before | Outlet::After => way.put(),
            Outlet::Ring | Outlet::Rest(_) => return None,
        }
        Some(())
    }

    /// Switches the sending direction, if it is time.
    fn switch(&mut self, role: Role) -> Option<()> {
        if !self.has_joined(role) {
            return None;
        }
        let agreement = Agreement { word: AtomicU32::new(self.agreement) };
        self.ways[role as usize].with(|it, words, _| {
            match switch(&it.sender, words, &agreement) {
                Switch::Stay => return None,
                Switch::Skip => it.sender.begin(words, 0),
                Switch::Begin => it.sender.begin(words, it.put_in),
            }
            Some(())
        })
    }

    fn read(&mut self, role: Role) -> Option<()> {
        if !self.moves(role) {
            return None;
        }
        if !self.has_joined(role) {
            let is_back = self.ways[role.peer() as usize].read_of[1..] != [false; 2];
            return self.ways[role.peer() as usize].take(if is_back { 2 } else { 0 });
        }
        let way = &mut self.ways[role.peer() as usize];
        match way.inlet() {
            Inlet::Before { left: 1.. } => way.take(0),
            Inlet::Ring => {
                // This end's own direction switches first.
                self.switch(role);
                self.ways[role.peer() as usize].empty()
            }
            Inlet::After => way.take(2),
            inlet => panic!("{inlet:?} without a doorbell"),
        }
    }

    /// Ends one detour after the other.
    fn turn_back(&mut self, role: Role) -> Option<()> {
        let ended = self.end(role).ended;
        if !self.has_joined(role) || ended == 2 {
            return None;
        }
        self.ways[usize::from(ended)].with(|_, words, ring| words.end(ring));
        self.end(role).ended += 1;
        Some(())
    }

    fn come_back(&mut self, role: Role) -> Option<()> {
        let joined = self.has_joined(role);
        self.ways[role as usize].with(|it, words, ring| {
            (joined && it.sender.outlet() == Outlet::Ring && ring.is_sealed()).then_some(())?;
            it.sender.come_back(words, &it.writer).unwrap();
            Some(())
        })
    }

    /// Leaves the connection to the kernel once both directions are its again.
    fn settle(&mut self, role: Role) -> Option<()> {
        let sends = self.ways[role as usize].sender.outlet();
        if !self.has_joined(role) || sends != Outlet::After {
            return None;
        }
        (self.ways[role.peer() as usize].inlet() == Inlet::After).then_some(())?;
        self.tell(role, Event::Returned)
    }

    fn successors(&self, limits: Limits) -> Vec<Self> {
        let mut next = Vec::new();
        for role in ROLES.into_iter().filter(|role| self.ends[*role as usize].lives) {
            let rests = self.ends[role as usize].action == Action::Rest;
            next.extend([
                self.after(|it| rests.then(|| it.tell(role, Event::Called))?),
                self.after(|it| it.act(role)),
                self.after(|it| it.be_busy(role)),
                self.after(|it| it.stop_waiting(role)),
                self.after(|it| it.write(role, limits)),
                self.after(|it| it.switch(role)),
                self.after(|it| it.read(role)),
            ]);
            if limits.returns {
                next.extend([
                    self.after(|it| it.turn_back(role)),
                    self.after(|it| it.come_back(role)),
                    self.after(|it| it.settle(role)),
                ]);
            }
            if limits.fails {
                next.extend([
                    self.after(|it| rests.then(|| it.refuse(role))?),
                    self.after(|it| rests.then(|| it.tell(role, Event::Shut))?),
                    self.after(|it| it.die(role)),
                ]);
            }
        }
        next.into_iter().flatten().collect()
    }

    /// Whether all is read that was written to an end that lives.
    fn is_read(&self) -> bool {
        ROLES.into_iter().all(|role| {
            !self.ends[role.peer() as usize].lives || self.ways[role as usize].is_read()
        })
    }

    /// Whether each end has joined and writes by the ring.
    fn is_accelerated(&self) -> bool {
        ROLES.into_iter().all(|role| {
            self.has_joined(role) && self.ways[role as usize].sender.outlet() == Outlet::Ring
        })
    }

    /// Whether an end writes where the other, which has given up, does not look.
    fn writes_to_nobody(&self) -> bool {
        ROLES.into_iter().any(|role| {
            let peer = role.peer() as usize;
            let gave_up = self.ends[peer].phase == Phase::PLAIN
                && self.ways[peer].sender.outlet() == Outlet::Before;
            gave_up && self.ways[role as usize].sender.outlet() == Outlet::Ring
        })
    }

    /// Whether an end waits for what the other is to do: for its word, or for a wake-up once it writes to
    /// the ring. The kernel tells it of one that has died.
    fn waits(&self) -> bool {
        let word = Agreement { word: AtomicU32::new(self.agreement) };
        let awaits_word = |role| match (role, self.ends[role as usize].phase, word.agreed()) {
            (Role::Client, Phase::OFFERED, Agreed::Nobody)
            | (Role::Server, Phase::JOINED, Agreed::Server) => true,
            (_, Phase::JOINED, _) => {
                let is_in_ring = self.ways[role as usize].sender.outlet() == Outlet::Ring;
                is_in_ring && self.ends[role.peer() as usize].is_shut
            }
            _ => false,
        };
        self.ends.iter().all(|end| end.lives) && ROLES.into_iter().any(awaits_word)
    }
}

/// A state in which an end waits and nothing is under way that ends the wait: whatever both do next, unless one
/// gives up by itself or dies.
fn waits_for_ever(states: &States<Model>, limits: Limits) -> Option<&Model> {
    let places: HashMap<&Model, usize> = states.iter().zip(0..).collect();
    let alone = Limits { fails: false, ..limits };
    let mut predecessors = vec![Vec::new(); states.len()];
    for (state, place) in states.iter().zip(0..) {
        for next in state.successors(alone) {
            predecessors[places[&next]].push(place);
        }
    }
    let mut ends: Vec<bool> = states.iter().map(|it| !it.waits()).collect();
    let mut frontier: Vec<usize> = (0..ends.len()).filter(|place| ends[*place]).collect();
    while let Some(place) = frontier.pop() {
        for before in predecessors[place].drain(..) {
            if !std::mem::replace(&mut ends[before], true) {
                frontier.push(before);
            }
        }
    }
    states.iter().zip(ends).find(|(_, ends)| !ends).map(|(state, _)| state)
}

fn explored(limits: Limits) -> States<Model> {
    let states = explore(Model::new(), |it: &Model| it.successors(limits));
    assert!(!states.iter().any(Model::writes_to_nobody));
    assert_eq!(waits_for_ever(&states, limits), None);
    let server_first = |it: &Model| it.agreement != 2 || it.ends[1].phase >= Phase::READY;
    assert!(states.iter().all(server_first));
    assert!(states.all_can_reach(Model::is_read), "bytes are never read");
    states
}

#[test]
fn two_ends_that_look_for_each_other_are_accelerated() {
    let states = explored(Limits { bytes: [2, 2], returns: false, fails: false });
    assert!(states.all_can_reach(|it| it.is_accelerated() && it.is_read()));
    assert!(states.iter().any(|it| it.ways.iter().all(|way| way.read_of == [true, true, false])));
    assert!(states.len() > 1_000, "{} states", states.len());
}

#[test]
fn whatever_fails_no_byte_is_lost_doubled_or_overtaken() {
    let states = explored(Limits { bytes: [2, 2], returns: false, fails: true });
    assert!(states.len() > 10_000, "{} states", states.len());
    let phases = |client, server| {
        let both = [client, server];
        states.iter().any(|it| it.ends.each_ref().map(|end| end.phase) == both)
    };
    assert!(phases(Phase::PLAIN, Phase::JOINED), "the client gives up after the server is ready");
    assert!(phases(Phase::READY, Phase::JOINED) && phases(Phase::OFFERED, Phase::PLAIN));
    let dies = |at| {
        let died = |end: &End| !end.lives && end.phase == at;
        states.iter().any(|it| it.ends.iter().any(died) && it.is_read())
    };
    assert!([Phase::OFFERED, Phase::JOINING, Phase::READY, Phase::JOINED].into_iter().all(dies));
}

#[test]
fn either_end_comes_back_at_any_moment() {
    for bytes in [[3, 0], [0, 3], [1, 1]] {
        let states = explored(Limits { bytes, returns: true, fails: false });
        assert!(states.len() > 10_000, "{} states", states.len());
        let both_plain = |it: &Model| it.ends.iter().all(|end| end.phase == Phase::PLAIN);
        assert!(states.all_can_reach(|it| both_plain(it) && it.is_read()));
        let whole_way = |way: &Way| way.read_of == [true; 3];
        let is_whole = states.iter().any(|it| both_plain(it) && it.ways.iter().any(whole_way));
        assert_eq!(is_whole, bytes.contains(&3), "a byte each way by each part");
    }
}

#[test]
fn an_end_that_dies_on_the_way_back_leaves_all_that_it_has_written() {
    for bytes in [[2, 0], [0, 2]] {
        let states = explored(Limits { bytes, returns: true, fails: true });
        assert!(states.len() > 10_000, "{} states", states.len());
        let alone = |it: &Model| it.ends.iter().any(|end| !end.lives && end.ended == 1);
        assert!(states.iter().any(|it| alone(it) && it.is_read()));
    }
}

/// Without bytes there are few states, and each flaw shows.
#[test]
fn the_search_finds_an_end_that_waits_for_ever() {
    let limits = Limits { bytes: [0, 0], returns: false, fails: true };
    let found = |flaw| {
        let states = explore(Model::with(flaw), |it: &Model| it.successors(limits));
        waits_for_ever(&states, limits).is_some()
    };
    let flaws = [Flaw::None, Flaw::KeepsAgreement, Flaw::HearsNoRefusal];
    assert_eq!(flaws.map(found), [false, true, true]);
}
