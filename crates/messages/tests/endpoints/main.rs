//! Endpoints that send to each other within one process, and to one that is killed or hostile.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets an error has failed"
)]

mod hostile;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weft_messages::channel::{Envelope, Range};
use weft_messages::endpoint::{
    Endpoint, Event, Events, LONGEST_INJECTED, MOST_LONG, Message, Receive, Touch, Wanted,
};
use weft_messages::parts::Parts;
use weft_messages::peers::{PeerId, Peers};
use weft_messages::rendezvous::{self, Directory, Name};
use weft_messages::segment::Side;
use weft_protocol::emulation::Costs;

/// A directory of this test's own, removed with it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weft-ends-{}-{name}", std::process::id())))
    }

    fn directory(&self) -> Directory {
        Directory::at(self.0.clone()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).expect("endpoints leave nothing behind");
    }
}

/// An endpoint, whom it knows, and what has happened to it.
struct End {
    endpoint: Endpoint,
    peers: Peers,
    events: Vec<Event>,
}

const ANY: u64 = u64::MAX;

impl End {
    fn new(place: &Place) -> Self {
        let endpoint = Endpoint::new(place.directory()).unwrap();
        Self { endpoint, peers: Peers::default(), events: Vec::new() }
    }

    fn knows(&mut self, other: Name) -> PeerId {
        self.peers.number(other)
    }

    fn progress(&mut self) {
        let events = &mut self.events;
        self.endpoint.progress(&mut self.peers, &mut |event| events.push(event));
        self.endpoint.poll_kernel(&mut self.peers, &mut |event| events.push(event));
    }

    fn post(&mut self, to: PeerId, context: usize, tag: u64, bytes: &[u8]) -> Result<(), i32> {
        self.post_with(to, context, tag, bytes, false)
    }

    fn post_with(
        &mut self,
        to: PeerId,
        context: usize,
        tag: u64,
        bytes: &[u8],
        must_arrive: bool,
    ) -> Result<(), i32> {
        let message = Message {
            context,
            envelope: Envelope { is_tagged: true, tag, data: Some(tag * 2) },
            parts: Parts::one(bytes.as_ptr().cast_mut(), bytes.len()),
            is_reported: true,
            must_arrive,
        };
        let events = &mut self.events;
        // SAFETY: the tests keep what they send until it was sent.
        unsafe { self.endpoint.send(&self.peers, to, &message, &mut |event| events.push(event)) }
    }

    fn receive(&mut self, from: Option<PeerId>, context: usize, tag: u64, to: &mut [u8]) {
        let ignore = if tag == ANY { ANY } else { 0 };
        let wanted = Wanted { source: from, tag, ignore };
        let to = Parts::one(to.as_mut_ptr(), to.len());
        let receive = Receive { context, to, is_reported: true };
        let events = &mut self.events;
        // SAFETY: the tests keep the place until the message is there.
        unsafe {
            self.endpoint.receive(true, wanted, receive, &mut |event| events.push(event));
        }
    }

    /// What has become of the message or receive of this number, if anything.
    fn outcome(&self, context: usize) -> Option<Result<usize, i32>> {
        self.events.iter().find_map(|event| match event {
            Event::Sent { context: it, .. } if *it == context => Some(Ok(0)),
            Event::Received(it) if it.context == context => Some(Ok(it.length)),
            Event::SendFailed { context: it, error, .. } if *it == context => Some(Err(*error)),
            Event::ReceiveFailed { received, error } if received.context == context => {
                Some(Err(*error))
            }
            _ => None,
        })
    }
}

/// Lets endpoints work until something is so.
fn until(ends: &mut [&mut End], mut is_so: impl FnMut(&[&mut End]) -> bool) {
    let begin = Instant::now();
    while !is_so(ends) {
        assert!(begin.elapsed() < Duration::from_secs(60), "it never was");
        ends.iter_mut().for_each(|end| end.progress());
    }
}

fn pattern(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251 + salt) as u8).collect()
}

/// Every length from nothing to what takes several rings, received before and after it comes.
fn all_lengths(name: &str, set: impl Fn(&mut Endpoint)) {
    let place = Place::new(name);
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    set(&mut one.endpoint);
    set(&mut other.endpoint);
    let (to, from) = (one.knows(other.endpoint.name()), other.knows(one.endpoint.name()));
    let whole = LONGEST_INJECTED;
    let lengths = [0, 1, 40, 41, 4096, whole, whole + 1, 100_000, 1_000_000];
    for (number, length) in lengths.into_iter().enumerate() {
        for is_early in [true, false] {
            let bytes = pattern(length, number);
            let mut place = vec![0; length + 1];
            let (tag, sent, received) = (number as u64, 2 * number, 2 * number + 1);
            one.events.clear();
            other.events.clear();
            if is_early {
                other.receive(Some(from), received, tag, &mut place);
            }
            one.post(to, sent, tag, &bytes).unwrap();
            if !is_early {
                for _ in 0..10 {
                    other.progress();
                }
                other.receive(Some(from), received, tag, &mut place);
            }
            until(&mut [&mut one, &mut other], |ends| {
                ends[0].outcome(sent).is_some() && ends[1].outcome(received).is_some()
            });
            assert_eq!(other.outcome(received), Some(Ok(length)));
            assert_eq!(place[..length], bytes);
            assert_eq!(place[length], 0, "written past its end");
            let Some(Event::Received(it)) = other.events.last() else { panic!("no event") };
            assert_eq!((it.envelope.tag, it.envelope.data), (tag, Some(2 * tag)));
            assert_eq!(it.source, Some(from));
        }
    }
}

#[test]
fn messages_of_every_length_arrive() {
    all_lengths("fetched", |_| {});
}

#[test]
fn they_do_so_in_pieces_where_nobody_may_read_the_senders_memory() {
    all_lengths("pieces", Endpoint::disable_fetch);
}

/// Costs that are the same for every length.
fn costs(busy_us: u64, gap_us: u64, latency_us: u64) -> Costs {
    let row = format!("{}000 {}000 {}000", busy_us, gap_us, latency_us);
    format!("0 {row}\n1 {row}").parse().unwrap()
}

#[test]
fn they_arrive_over_an_emulated_interconnect() {
    all_lengths("as-if", |end| end.emulate(costs(3, 5, 20), 0));
    all_lengths("as-if-pieces", |end| {
        end.disable_fetch();
        end.emulate(costs(3, 5, 20), 0);
    });
}

/// Two senders send two short messages and a long one each at once to the same receiver. Each message has a latency of
/// 30 ms and occupies both adapters for 4 ms, so that the receiver gets the six at least 4 ms apart.
#[test]
fn no_message_arrives_before_it_is_due() {
    let place = Place::new("due");
    let mut ends: Vec<_> = (0..3).map(|_| End::new(&place)).collect();
    ends.iter_mut().for_each(|end| end.endpoint.emulate(costs(0, 4000, 30_000), 0));
    let [one, two, other] = ends.as_mut_slice() else { unreachable!() };
    let messages = [8, 16, 100_000].map(|length| pattern(length, length));
    let mut places = vec![[0; 100_000]; 6];
    let begin = Instant::now();
    for (number, place) in places.iter_mut().enumerate() {
        let (sender, context) = (if number < 3 { &mut *one } else { &mut *two }, number % 3);
        let (to, from) = (sender.knows(other.endpoint.name()), other.knows(sender.endpoint.name()));
        other.receive(Some(from), number, context as u64, place);
        sender.post(to, context, context as u64, &messages[context]).unwrap();
    }
    let mut arrived = Vec::new();
    until(&mut [one, two, other], |ends| {
        let count = (0..6).filter(|number| ends[2].outcome(*number).is_some()).count();
        arrived.resize(count, begin.elapsed());
        count == 6
    });
    for (number, at) in arrived.into_iter().enumerate() {
        let least = Duration::from_millis(30 + 4 * number as u64);
        assert!(at >= least, "message {number} arrived after {at:?}, before {least:?}");
    }
    for (number, place) in places.iter().enumerate() {
        let sent = &messages[number % 3];
        assert_eq!(place[..sent.len()], *sent);
    }
}

/// Messages that are due in an hour are delivered as soon as their sender has ended.
#[test]
fn messages_of_a_sender_that_ended_are_delivered_before_they_are_due() {
    let place = Place::new("hurried");
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    one.endpoint.emulate(costs(0, 0, 3_600_000_000), 0);
    other.endpoint.emulate(costs(0, 0, 3_600_000_000), 0);
    let (to, from) = (one.knows(other.endpoint.name()), other.knows(one.endpoint.name()));
    let mut sent = 0;
    while one.post(to, sent, 1, &pattern(1000, sent)).is_ok() {
        sent += 1;
    }
    assert!(sent > 10);
    let mut places = vec![[0; 1000]; sent];
    for (number, place) in places.iter_mut().enumerate() {
        other.receive(Some(from), number, 1, place);
    }
    for _ in 0..100 {
        other.progress();
    }
    assert!(other.endpoint.holds_back());
    assert!((0..sent).all(|number| other.outcome(number).is_none()));
    drop(one);
    until(&mut [&mut other], |ends| ends[0].outcome(sent - 1).is_some());
    for (number, place) in places.iter().enumerate() {
        assert_eq!(other.outcome(number), Some(Ok(1000)));
        assert_eq!(place[..], pattern(1000, number));
    }
}

#[test]
fn a_due_time_sent_to_an_endpoint_without_emulation_breaks_the_channel() {
    let place = Place::new("unlike");
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    one.endpoint.emulate(costs(0, 0, 1), 0);
    let (to, from) = (one.knows(other.endpoint.name()), other.knows(one.endpoint.name()));
    let mut buffer = [0; 8];
    other.receive(Some(from), 1, 1, &mut buffer);
    one.post(to, 1, 1, b"8 bytes.").unwrap();
    until(&mut [&mut other], |ends| ends[0].outcome(1).is_some());
    assert_eq!(other.outcome(1), Some(Err(libc::EPROTO)));
}

#[test]
fn messages_of_one_sender_are_matched_in_the_order_in_which_they_were_sent() {
    let place = Place::new("order");
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    let to = one.knows(other.endpoint.name());
    // Short and long ones by turns, more than a ring holds.
    let messages: Vec<_> =
        (0..600).map(|it| pattern(if it % 3 == 0 { 20_000 } else { 500 }, it)).collect();
    let mut places: Vec<_> = messages.iter().map(|it| vec![0; it.len()]).collect();
    for (number, bytes) in messages.iter().enumerate() {
        while one.post(to, number, 7, bytes) == Err(libc::EAGAIN) {
            other.progress();
            one.progress();
        }
        if number >= 300 {
            other.receive(None, number - 300, ANY, &mut places[number - 300]);
        }
    }
    for (number, place) in places.iter_mut().enumerate().skip(300) {
        other.receive(None, number, ANY, place);
    }
    until(&mut [&mut one, &mut other], |ends| ends[1].events.len() == 600);
    assert!(places == messages);
}

#[test]
fn a_message_that_is_too_long_is_cut_and_says_so() {
    let place = Place::new("cut");
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    let to = one.knows(other.endpoint.name());
    for (context, length) in [(1, 100), (2, 50_000)] {
        let (bytes, mut short) = (pattern(length, 0), vec![0; length / 2]);
        other.receive(None, context, ANY, &mut short);
        one.post(to, context, 0, &bytes).unwrap();
        until(&mut [&mut one, &mut other], |ends| {
            ends.iter().all(|end| end.outcome(context).is_some())
        });
        assert_eq!(other.outcome(context), Some(Err(libc::EMSGSIZE)));
        assert_eq!(one.outcome(context), Some(Ok(0)));
        assert_eq!(short, bytes[..length / 2]);
        let Some(Event::ReceiveFailed { received, .. }) = other.events.last() else {
            panic!("no event")
        };
        assert_eq!((received.length, received.cut), (length, length - length / 2));
    }
}

#[test]
fn what_must_arrive_is_sent_only_once_it_has() {
    let place = Place::new("arrive");
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    let to = one.knows(other.endpoint.name());
    let (bytes, mut buffer) = (pattern(10, 0), vec![0; 10]);
    one.post_with(to, 1, 0, &bytes, true).unwrap();
    for _ in 0..100 {
        one.progress();
        other.progress();
    }
    assert_eq!(one.outcome(1), None, "nobody has received it");
    other.receive(None, 2, ANY, &mut buffer);
    until(&mut [&mut one, &mut other], |ends| ends[0].outcome(1).is_some());
    assert_eq!((one.outcome(1), &buffer), (Some(Ok(0)), &bytes));
}

/// How many polls may look at its words alone once an endpoint is idle; how many words these are, and whether one says
/// that there is something.
fn watched(end: &mut End) -> (u32, usize, bool) {
    let mut heads = Vec::new();
    let polls = end.endpoint.watch_for_news(&mut heads);
    // SAFETY: no segment was unmapped since the endpoint named them.
    let has_news =
        |head: &NonNull<AtomicU64>| unsafe { head.as_ref() }.load(Ordering::Relaxed) != 0;
    (polls, heads.len(), heads.iter().any(has_news))
}

#[test]
fn whatever_reaches_an_idle_endpoint_is_seen_at_the_words_that_it_names() {
    let place = Place::new("words");
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    let (to, back) = (one.knows(other.endpoint.name()), other.knows(one.endpoint.name()));
    let (long, mut buffer) = (pattern(400_000, 0), vec![0; 400_000]);
    for context in 0..300 {
        other.receive(None, context, 1, &mut buffer[..8]);
        one.post(to, 1000 + context, 1, &long[..8]).unwrap();
        if context > 0 {
            assert!(watched(&mut other).2 && !other.endpoint.is_idle(), "message {context}");
        }
        until(&mut [&mut other], |ends| ends[0].outcome(context).is_some());
        while !other.endpoint.is_idle() {
            other.progress();
        }
        let (polls, words, has_news) = watched(&mut other);
        assert_eq!((words, has_news), (1, false), "message {context}");
        assert!(polls < 64, "the kernel is polled in between");
        other.endpoint.pass(polls);
        assert!(!other.endpoint.is_idle(), "all polls before the next of the kernel are used up");
        other.progress();
    }
    // One that stays in its buffers: the answer is seen.
    other.post(back, 2001, 2, &long).unwrap();
    assert_eq!((watched(&mut other).1, watched(&mut other).2), (2, false));
    one.receive(None, 2001, 2, &mut buffer);
    until(&mut [&mut one], |ends| ends[0].outcome(2001).is_some());
    assert!(watched(&mut other).2 && !other.endpoint.is_idle());
    until(&mut [&mut other], |ends| ends[0].outcome(2001).is_some());
    // One that is pulled: its pieces are sent by polls, which must not be short until all are on their way.
    one.endpoint.disable_fetch();
    other.post(back, 2002, 3, &long).unwrap();
    one.receive(None, 2002, 3, &mut buffer);
    until(&mut [&mut one], |_| watched(&mut other).2);
    other.progress();
    assert_eq!(watched(&mut other).0, 0);
    until(&mut [&mut one, &mut other], |ends| ends.iter().all(|end| end.outcome(2002).is_some()));
    assert!(buffer == long);
}

#[test]
fn an_endpoint_sends_to_itself() {
    let place = Place::new("itself");
    let mut one = End::new(&place);
    let own = one.knows(one.endpoint.name());
    let (bytes, mut buffer) = (pattern(70_000, 0), vec![0; 70_000]);
    one.post(own, 1, 5, &bytes).unwrap();
    one.receive(Some(own), 2, 5, &mut buffer);
    until(&mut [&mut one], |ends| [1, 2].iter().all(|it| ends[0].outcome(*it).is_some()));
    assert!(buffer == bytes);
}

#[test]
fn a_full_ring_and_too_many_long_messages_are_refused_until_there_is_room() {
    let place = Place::new("full");
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    let to = one.knows(other.endpoint.name());
    let bytes = pattern(LONGEST_INJECTED + 1, 0);
    let long = (0..).take_while(|it| one.post(to, *it, 1, &bytes).is_ok()).count();
    assert_eq!(long, MOST_LONG);
    let mut sent = 0;
    while one.post(to, 10_000 + sent, 2, &bytes[..1000]).is_ok() {
        sent += 1;
    }
    assert!(sent > 50, "{sent}");
    let mut buffers = vec![vec![0; bytes.len()]; long + sent];
    for (context, buffer) in buffers.iter_mut().enumerate() {
        other.receive(None, context, ANY, buffer);
    }
    until(&mut [&mut one, &mut other], |ends| ends[1].events.len() == long + sent);
    until(&mut [&mut one, &mut other], |ends| ends[0].outcome(long - 1).is_some());
    one.post(to, 20_000, 1, &bytes).unwrap();
}

#[test]
fn a_message_can_be_looked_at_claimed_and_discarded_and_a_receive_cancelled() {
    let place = Place::new("peek");
    let (mut one, mut other) = (End::new(&place), End::new(&place));
    let to = one.knows(other.endpoint.name());
    let long = pattern(30_000, 3);
    one.post(to, 1, 3, &long).unwrap();
    one.post(to, 2, 4, b"short").unwrap();
    let wanted = |tag| Wanted { source: None, tag, ignore: 0 };
    until(&mut [&mut other], |ends| ends[0].endpoint.peek(true, &wanted(4)).is_some());
    let length = |end: &End, tag| end.endpoint.peek(true, &wanted(tag)).map(|it| it.length);
    assert_eq!(
        (length(&other, 3), length(&other, 4), length(&other, 5)),
        (Some(30_000), Some(5), None)
    );
    assert!(other.endpoint.claim(true, &wanted(3), 9).is_some());
    assert_eq!(length(&other, 3), None, "it is claimed");
    let mut buffer = vec![0; 30_000];
    let receive = Receive {
        context: 9,
        to: Parts::one(buffer.as_mut_ptr(), buffer.len()),
        is_reported: true,
    };
    let events = &mut other.events;
    // SAFETY: the place is there until the message is.
    let is_there =
        unsafe { other.endpoint.receive_claimed(true, &receive, &mut |event| events.push(event)) };
    assert!(is_there);
    until(&mut [&mut one, &mut other], |ends| ends[0].outcome(1).is_some());
    assert!(buffer == long);
    let mut none = |_: Event| {};
    assert!(other.endpoint.discard(true, Some(&wanted(4)), 0, &mut none).is_some());
    assert_eq!(length(&other, 4), None);
    other.receive(None, 11, 6, &mut buffer);
    let events = &mut other.events;
    assert!(other.endpoint.cancel(11, &mut |event| events.push(event)));
    assert_eq!(other.outcome(11), Some(Err(libc::ECANCELED)));
}

#[test]
fn what_was_sent_before_the_end_arrives_and_what_depends_on_it_fails() {
    for is_connected in [true, false] {
        let place = Place::new(if is_connected { "closed" } else { "closed-early" });
        let (mut one, mut other) = (End::new(&place), End::new(&place));
        let (to, from) = (one.knows(other.endpoint.name()), other.knows(one.endpoint.name()));
        let (mut first, mut second) = ([0; 5], [0; 5]);
        let long = pattern(100_000, 0);
        other.receive(Some(from), 1, 1, &mut first);
        if is_connected {
            other.post(from, 8, 9, &long).unwrap();
            other.progress();
        }
        one.post(to, 1, 1, b"hello").unwrap();
        other.receive(Some(from), 2, 2, &mut second);
        drop(one);
        until(&mut [&mut other], |ends| ends[0].outcome(2).is_some());
        assert_eq!((other.outcome(1), &first), (Some(Ok(5)), b"hello"));
        assert_eq!(other.outcome(2), Some(Err(libc::ECONNRESET)));
        if is_connected {
            assert_eq!(other.outcome(8), Some(Err(libc::ECONNRESET)));
        }
        let refused = other.post(from, 3, 3, b"late").unwrap_err();
        assert!([libc::ECONNRESET, libc::ECONNREFUSED].contains(&refused), "{refused}");
    }
}

#[test]
fn a_receive_from_one_that_never_came_and_has_gone_fails() {
    let place = Place::new("never");
    let mut other = End::new(&place);
    let gone = End::new(&place).endpoint.name();
    let from = other.knows(gone);
    let mut buffer = [0; 5];
    other.receive(Some(from), 1, 1, &mut buffer);
    until(&mut [&mut other], |ends| ends[0].outcome(1).is_some());
    assert_eq!(other.outcome(1), Some(Err(libc::ECONNRESET)));
}
