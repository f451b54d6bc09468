//! Every interleaving of threads at both ends of a connection that migrates, under loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p weft-protocol --test migration_model --release`.
//!
//! The steps of each end are searched in every order elsewhere, one at a time (`migration/model.rs`). Here they
//! overlap: the words that the ends share are changed by several threads at once.

#![cfg(loom)]

mod weakened;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use weft_protocol::byte_ring::{Capacity, Reader, RingPointers, Writer};
use weft_protocol::detour::{Detour, Outlet, Receiver, Refusal, Sender};
use weft_protocol::migration::{
    Action, Agreed, Agreement, Event, Migration, Phase, Role, Switch, switch,
};

use weakened::failure_of;

/// Two ends that have a segment, and the detour of each sending direction.
#[derive(Default)]
struct Ends {
    agreement: Agreement,
    migrations: [Migration; 2],
    detours: [Detour; 2],
    /// Whether the server has told the kernel that it sends no more, so that it can wake nobody.
    is_shut: AtomicBool,
}

impl Ends {
    fn on(&self, role: Role, event: Event) -> Action {
        self.migrations[role as usize].on(role, Some(&self.agreement), event)
    }

    fn phase(&self, role: Role) -> Phase {
        self.migrations[role as usize].phase()
    }

    /// Takes all steps that follow an event, and returns the first after which there is none here.
    fn advance(&self, role: Role, event: Event) -> Action {
        let mut action = self.on(role, event);
        loop {
            let event = match action {
                Action::Prepare => Event::Prepared,
                Action::Learn => Event::Learned,
                Action::GiveUp => Event::Refused,
                _ => return action,
            };
            action = self.on(role, event);
        }
    }

    /// Switches the sending direction of an end that has joined, if it is time. Whether it goes by the ring.
    fn switches(&self, role: Role) -> bool {
        let (mut sender, detour) = (Sender::default(), &self.detours[role as usize]);
        if self.phase(role) == Phase::JOINED
            && switch(&sender, detour, &self.agreement) == Switch::Begin
        {
            sender.begin(detour, 0);
        }
        sender.outlet() == Outlet::Ring
    }

    /// The client has offered, and the server has taken what it brought.
    fn met() -> Arc<Self> {
        let ends = Self::default();
        ends.migrations.iter().for_each(Migration::begin);
        ends.on(Role::Server, Event::Listens);
        assert_eq!(ends.on(Role::Client, Event::Shared), Action::Rest);
        assert_eq!(ends.on(Role::Server, Event::Shared), Action::Prepare);
        Arc::new(ends)
    }

    /// And the server has joined.
    fn with_joined_server() -> Arc<Self> {
        let ends = Self::met();
        assert_eq!(ends.advance(Role::Server, Event::Prepared), Action::Follow);
        ends
    }
}

/// One thread of the server shuts its sending down, by the machine or by a look at what is agreed, while another
/// sends and the client joins.
fn shut_midway(by_a_look: bool) {
    let ends = Ends::with_joined_server();
    let [joining, sending] = [0, 1].map(|_| Arc::clone(&ends));
    let client = thread::spawn(move || {
        joining.advance(Role::Client, Event::Called);
        joining.switches(Role::Client)
    });
    let server = thread::spawn(move || sending.switches(Role::Server));
    let tells = if by_a_look {
        ends.agreement.agreed() == Agreed::Server
    } else {
        ends.on(Role::Server, Event::Shut) == Action::TellKernel
    };
    if tells {
        ends.is_shut.store(true, Ordering::SeqCst);
        ends.on(Role::Server, Event::Returned);
    }
    let by_ring = [client, server].map(|end| end.join().unwrap());
    let is_shut = ends.is_shut.load(Ordering::SeqCst);
    assert!(!is_shut || by_ring == [false; 2], "an end writes to who cannot wake it");
    let phases = [Role::Client, Role::Server].map(|role| ends.phase(role));
    let both = [if is_shut { Phase::PLAIN } else { Phase::JOINED }; 2];
    assert_eq!(phases, both);
}

#[test]
fn an_end_shuts_down_before_the_other_has_its_word_or_stays() {
    loom::model(|| shut_midway(false));
}

#[test]
fn an_end_that_only_looks_what_is_agreed_shuts_down_too_late() {
    assert!(failure_of("shut_by_a_look").contains("writes to who cannot wake it"));
}

#[test]
#[ignore = "fails by design; run by an_end_that_only_looks_what_is_agreed_shuts_down_too_late"]
fn shut_by_a_look() {
    loom::model(|| shut_midway(true));
}

/// The client gives up what it has offered, or closes, while the server joins.
fn revoked_midway(event: Event) {
    let ends = Ends::met();
    let joining = Arc::clone(&ends);
    let server = thread::spawn(move || {
        joining.advance(Role::Server, Event::Prepared);
        joining.switches(Role::Server)
    });
    ends.on(Role::Client, event);
    assert!(!server.join().unwrap(), "the server writes to nobody");
    let has_joined = ends.phase(Role::Server) == Phase::JOINED;
    // A client that closes leaves alone what a server has said that is ready, which hears of it from the kernel.
    let agreed = match (event, has_joined) {
        (Event::Closed, true) => Agreed::Server,
        _ => Agreed::Revoked,
    };
    assert_eq!(ends.agreement.agreed(), agreed);
}

#[test]
fn a_client_that_gives_up_or_closes_is_written_to_by_nobody() {
    for event in [Event::Refused, Event::Closed] {
        loom::model(move || revoked_midway(event));
    }
}

/// One direction whose reader leaves while its writer writes two bytes.
struct Way {
    pointers: RingPointers,
    detour: Detour,
    cells: [UnsafeCell<u8>; 2],
}

/// Writes two bytes, by the ring as long as that is not sealed, and then by the kernel's stream, into which what was
/// refused comes first. What it has put there.
fn write(way: &Way, capacity: Capacity) -> (Sender, Writer, Vec<u8>) {
    let (mut sender, mut writer) = (Sender::default(), Writer::new(capacity));
    sender.begin(&way.detour, 0);
    let mut first = Vec::new();
    for byte in 1..=2u8 {
        if sender.outlet() == Outlet::Ring {
            let place = writer.spans(1).first.start;
            // SAFETY: the ring gave this place to the writer alone; loom checks that it is so.
            way.cells[place].with_mut(|cell| unsafe { *cell = byte });
            if writer.publish_unless_sealed(&way.pointers, 1).is_ok() {
                continue;
            }
        }
        come_back(way, &mut sender, &writer, &mut first);
        first.push(byte);
    }
    (sender, writer, first)
}

/// Goes back to the kernel's stream, and sends what was refused.
fn come_back(way: &Way, sender: &mut Sender, writer: &Writer, first: &mut Vec<u8>) {
    sender.come_back(&way.detour, writer).unwrap();
    while let Outlet::Rest(from) = sender.outlet() {
        // SAFETY: the writer wrote it, and nobody has written there since.
        first.push(way.cells[from as usize].with(|cell| unsafe { *cell }));
        sender.sent_rest(&way.detour, writer, 1);
    }
}

/// The reader refuses what it has not read, ends the detour, and may take the refusal back. Whatever the writer does
/// meanwhile, each byte is read once, in the ring by the reader or in the kernel's stream by whoever has that.
fn left_midway(withdraws: bool) {
    let capacity = Capacity::new(2).unwrap();
    let way = Arc::new(Way {
        pointers: RingPointers::default(),
        detour: Detour::default(),
        cells: [UnsafeCell::new(0), UnsafeCell::new(0)],
    });
    let theirs = Arc::clone(&way);
    let writing = thread::spawn(move || write(&theirs, capacity));
    let (mut receiver, mut reader) = (Receiver::default(), Reader::new(capacity));
    let has_left = receiver.leave(&way.detour, &reader, 0);
    way.detour.end(&way.pointers);
    let is_taken_back = withdraws && receiver.withdraw(&way.detour);
    let (mut sender, writer, mut first) = writing.join().unwrap();
    come_back(&way, &mut sender, &writer, &mut first);
    let mut read = Vec::new();
    if !has_left || is_taken_back {
        assert_eq!(way.detour.refusal(), Refusal::None);
        for _ in 0..reader.available(&way.pointers, 2).unwrap() {
            let place = reader.spans(1).first.start;
            // SAFETY: the ring gave this place to the reader alone; loom checks that it is so.
            read.push(way.cells[place].with(|cell| unsafe { *cell }));
            reader.release(&way.pointers, 1);
        }
    }
    assert_eq!([read, first].concat(), [1, 2], "left: {has_left}, taken back: {is_taken_back}");
}

#[test]
fn what_a_reader_leaves_is_read_once_whether_it_takes_that_back_or_not() {
    for withdraws in [false, true] {
        loom::model(move || left_midway(withdraws));
    }
}
