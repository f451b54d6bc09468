//! Two connected endpoints within one process, strangers, and a hostile peer.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use std::path::PathBuf;

use super::*;
use crate::rendezvous::{self, Directory, Name};
use crate::testing::{Random, rounds};

/// A directory of a test's own, which endpoints leave empty.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weft-connected-{}-{name}", std::process::id())))
    }

    fn directory(&self) -> Directory {
        Directory::at(self.0.clone()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).unwrap();
    }
}

/// An endpoint with what has happened to it: the context of each operation, with a length or an error.
struct End {
    endpoint: Endpoint,
    peers: Peers,
    peer: PeerId,
    events: Vec<(usize, Result<usize, Errno>)>,
}

fn note(events: &mut Vec<(usize, Result<usize, Errno>)>) -> impl FnMut(Event) {
    |event| {
        events.push(match event {
            Event::Sent { context, .. } => (context, Ok(0)),
            Event::Received(it) => {
                assert_eq!(it.envelope.tag, 0, "a number on the connection is no tag");
                (it.context, Ok(it.length))
            }
            Event::SendFailed { context, error, .. } => (context, Err(error)),
            Event::ReceiveFailed { received, error } => (received.context, Err(error)),
            other => panic!("{other:?}"),
        });
    }
}

impl End {
    fn alone(place: &Place) -> Self {
        let endpoint = Endpoint::new(place.directory()).unwrap();
        let mut peers = Peers::default();
        let peer = peers.number(endpoint.name());
        Self { endpoint, peers, peer, events: Vec::new() }
    }

    fn knows(&mut self, other: Name) {
        self.peer = self.peers.number(other);
    }

    fn pair(place: &Place) -> [Self; 2] {
        let mut ends = [Self::alone(place), Self::alone(place)];
        let names = [1, 0].map(|other: usize| ends[other].endpoint.name());
        for (end, name) in ends.iter_mut().zip(names) {
            end.knows(name);
            end.endpoint.admit_nobody();
            assert_eq!(end.send(0, b"early"), Err(libc::ENOTCONN));
            assert_eq!(end.endpoint.admit(end.peer), Ok(()));
            assert_eq!(end.endpoint.admit(end.peer), Err(libc::EISCONN));
        }
        ends
    }

    fn message(context: usize, bytes: &[u8]) -> Message {
        Message {
            context,
            envelope: Envelope { is_tagged: false, tag: 0, data: Some(context as u64) },
            parts: Parts::one(bytes.as_ptr().cast_mut(), bytes.len()),
            is_reported: true,
            must_arrive: false,
        }
    }

    fn send(&mut self, context: usize, bytes: &[u8]) -> Result<(), Errno> {
        let Self { endpoint, peers, peer, events } = self;
        let message = Self::message(context, bytes);
        // SAFETY: the tests keep what they send until it was sent.
        unsafe { endpoint.send_connected(peers, *peer, &message, &mut note(events)) }
    }

    fn receive(&mut self, context: usize, to: &mut [u8]) {
        let to = Parts::one(to.as_mut_ptr(), to.len());
        let receive = Receive { context, to, is_reported: true };
        // SAFETY: the tests keep the place until the message is there.
        unsafe { self.endpoint.receive_connected(receive, &mut note(&mut self.events)) }.unwrap();
    }

    fn progress(&mut self) {
        let Self { endpoint, peers, events, .. } = self;
        endpoint.progress(peers, &mut note(events));
        endpoint.poll_kernel(peers, &mut note(events));
    }

    fn contexts(&self) -> Vec<usize> {
        self.events.iter().map(|(context, _)| *context).collect()
    }
}

/// Lets endpoints work until each has this many events.
fn until<const N: usize>(ends: [&mut End; N], counts: [usize; N]) {
    let begin = std::time::Instant::now();
    let mut ends = ends;
    while ends.iter().zip(counts).any(|(end, count)| end.events.len() < count) {
        assert!(begin.elapsed().as_secs() < 60, "{:?}", ends.map(|end| end.events.clone()));
        ends.iter_mut().for_each(|end| end.progress());
    }
}

fn pattern(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251 + salt) as u8).collect()
}

/// Sends messages of all lengths, long ones among short ones, and posts some receives before the
/// messages arrive and some after. Messages are received, and operations complete at both ends, in
/// the order in which they were posted.
fn in_order(name: &str, set: impl Fn(&mut Endpoint)) {
    let place = Place::new(name);
    let [mut one, mut other] = End::pair(&place);
    set(&mut one.endpoint);
    set(&mut other.endpoint);
    let lengths = [8, 100_000, 0, 40, 8192, 8193, 3, 1_000_000, 1];
    let sent = lengths.iter().enumerate().map(|(salt, length)| pattern(*length, salt));
    let sent: Vec<_> = sent.collect();
    let mut got: Vec<_> = lengths.iter().map(|length| vec![0; *length]).collect();
    for (context, buffer) in got.iter_mut().enumerate().take(4) {
        other.receive(context, buffer);
    }
    for (context, bytes) in sent.iter().enumerate() {
        assert_eq!(one.send(context, bytes), Ok(()));
        other.progress();
    }
    until([&mut one, &mut other], [4, 4]);
    assert_eq!(other.events.len(), 4, "the others wait for descriptors");
    for (context, buffer) in got.iter_mut().enumerate().skip(4) {
        other.receive(context, buffer);
    }
    until([&mut one, &mut other], [lengths.len(); 2]);
    assert_eq!(one.contexts(), (0..lengths.len()).collect::<Vec<_>>());
    let received = other.events.iter().map(|(_, done)| done.unwrap()).collect::<Vec<_>>();
    assert_eq!((other.contexts(), received), (one.contexts(), lengths.to_vec()));
    assert!(got == sent);
}

#[test]
fn messages_arrive_and_complete_in_order() {
    in_order("order", |_| {});
}

#[test]
fn they_do_so_where_nobody_may_read_the_senders_memory() {
    in_order("order-in-pieces", Endpoint::disable_fetch);
}

#[test]
fn a_message_that_is_longer_than_its_descriptor_is_cut_to_it() {
    let place = Place::new("cut");
    let [mut one, mut other] = End::pair(&place);
    let (bytes, mut short, mut whole) = (pattern(9000, 1), [0; 100], vec![0; 9000]);
    other.receive(1, &mut short);
    other.receive(2, &mut whole);
    assert_eq!((one.send(1, &bytes), one.send(2, &bytes)), (Ok(()), Ok(())));
    until([&mut one, &mut other], [2, 2]);
    assert_eq!(other.events, [(1, Err(libc::EMSGSIZE)), (2, Ok(9000))]);
    assert!(short == bytes[..100] && whole == bytes);
}

#[test]
fn a_cancelled_receive_takes_no_message() {
    let place = Place::new("cancel");
    let [mut one, mut other] = End::pair(&place);
    let (mut first, mut second) = ([0; 4], [0; 4]);
    other.receive(1, &mut first);
    other.receive(2, &mut second);
    let mut events = Vec::new();
    assert!(other.endpoint.cancel(1, &mut note(&mut events)));
    assert!(!other.endpoint.cancel(1, &mut note(&mut events)));
    assert_eq!(events, [(1, Err(libc::ECANCELED))]);
    assert_eq!(one.send(1, b"here"), Ok(()));
    until([&mut one, &mut other], [1, 1]);
    assert_eq!((other.contexts(), first, second), (vec![2], [0; 4], *b"here"));
}

/// Until an endpoint has a connection, the channels of others wait; then it takes those of its other end alone.
#[test]
fn an_endpoint_with_a_connection_admits_its_peer_alone() {
    let place = Place::new("admits");
    let mut ends = [(); 3].map(|()| End::alone(&place));
    let names = ends.each_ref().map(|end| end.endpoint.name());
    let [one, stranger, other] = &mut ends;
    for (end, peer) in [(&mut *one, 2), (&mut *stranger, 2), (&mut *other, 0)] {
        end.knows(names[peer]);
        end.endpoint.admit_nobody();
    }
    for end in [&mut *one, &mut *stranger] {
        assert_eq!(end.endpoint.admit(end.peer), Ok(()));
    }
    let (mut first, mut second) = ([0; 4], [0; 4]);
    other.receive(1, &mut first);
    other.receive(2, &mut second);
    assert_eq!((stranger.send(1, b"else"), one.send(1, b"peer")), (Ok(()), Ok(())));
    (0..100).for_each(|_| other.progress());
    assert_eq!(other.events, [], "it has no connection yet");
    assert_eq!(other.endpoint.admit(other.peer), Ok(()));
    until([&mut *other], [1]);
    (0..100).for_each(|_| other.progress());
    assert_eq!((other.events.as_slice(), &first), (&[(1, Ok(4))][..], b"peer"));
}

/// The end of a connection: what had arrived whole is received after it, everything else fails once.
#[test]
fn at_the_end_all_descriptors_come_back() {
    let place = Place::new("end");
    let [mut one, mut other] = End::pair(&place);
    let (long, mut first, mut buffer) = (pattern(20_000, 0), [0; 5], [0; 5]);
    assert_eq!([one.send(1, b"short"), one.send(2, b"later"), one.send(3, &long)], [Ok(()); 3]);
    until([&mut one], [2]);
    other.receive(1, &mut first);
    until([&mut other], [1]);
    assert_eq!(other.send(2, &long), Ok(()));
    assert_eq!(other.send(3, b"behind"), Ok(()));
    drop(one);
    until([&mut other], [3]);
    let reset = Err(libc::ECONNRESET);
    assert_eq!(other.events, [(1, Ok(5)), (2, reset), (3, reset)]);
    other.receive(4, &mut buffer);
    assert_eq!((&first, &buffer), (b"short", b"later"));
    other.receive(5, &mut buffer);
    assert_eq!(other.events[3..], [(4, Ok(5)), (5, reset)]);
    assert_eq!(other.send(6, b"nobody"), reset.map(drop));
}

/// A peer whose messages have other numbers, or tags, or that writes anything at all, loses its connection: all
/// descriptors of this side come back, and no byte lands outside of their buffers.
#[test]
fn a_hostile_peer_breaks_its_own_connection() {
    let place = Place::new("hostile");
    let mut random = Random::default();
    for round in 0..rounds(300) {
        let mut victim = End::alone(&place);
        let hostile = Name::new();
        victim.knows(hostile);
        victim.endpoint.admit_nobody();
        victim.endpoint.admit(victim.peer).unwrap();
        let mut memory = [0xab; 12];
        victim.receive(1, &mut memory[4..8]);
        victim.receive(2, &mut memory[4..8]);
        let (peer, segment) =
            rendezvous::connect(&place.directory(), hostile, victim.endpoint.name()).unwrap();
        let (sequence, is_tagged) = [(1, false), (0, true), (u64::MAX, false)][round as usize % 3];
        if round % 4 == 3 {
            // No word is zero: where a head is, that would say that nothing has come.
            segment.corrupt(|| {
                let word = random.next() & random.next() & 0x0000_00ff_0000_ffff;
                (word | random.next() << 63).max(1)
            });
            until([&mut victim], [2]);
        } else {
            let mut way = crate::channel::Sending::new(peer, segment);
            let envelope = Envelope { is_tagged, tag: sequence, data: None };
            // SAFETY: the bytes are there.
            let sent =
                unsafe { way.send(&envelope, &Parts::one(b"hostile".as_ptr().cast_mut(), 7)) };
            assert_eq!(sent, Ok(true));
            until([&mut victim], [2]);
        }
        let protocol = Err(libc::EPROTO);
        assert_eq!(victim.events, [(1, protocol), (2, protocol)], "round {round}");
        assert!([&memory[..4], &memory[8..]].concat().iter().all(|byte| *byte == 0xab));
    }
}
