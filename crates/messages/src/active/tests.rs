//! Nodes in one process that take turns, and one whose process is killed.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::*;
use crate::testing::{Random, rounds};

const CHILD: &str = "WEFT_ACTIVE_TEST_CHILD";
const LONG: Duration = Duration::from_secs(30);
const NETWORK: NetworkNumber = NetworkNumber(1);
const FIRST: HandlerIndex = HandlerIndex(0);
const SECOND: HandlerIndex = HandlerIndex(1);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weft-active-{}-{name}", std::process::id())))
    }

    fn directory(&self) -> Directory {
        Directory::at(self.0.clone()).unwrap()
    }

    fn node(&self, number: u16) -> Node {
        Node::new(self.directory(), number).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).expect("nodes leave nothing behind");
    }
}

const fn name(node: u16) -> EndpointName {
    EndpointName { node, endpoint: 4 }
}

/// A node with endpoint 4, in one virtual network with those of the others.
fn member(place: &Place, number: u16, all: u16) -> Node {
    let mut node = place.node(number);
    assert_eq!(node.open(4), name(number));
    (0..all).for_each(|other| node.join(name(other), NETWORK));
    node
}

fn message(from: u16, to: u16, handler: HandlerIndex, first: u32) -> Message {
    let arguments = [first, 0, 0, 0, 0];
    Message { initiator: name(from), target: name(to), handler, arguments }
}

type Seen = Arc<Mutex<Vec<(u32, usize)>>>;

/// Notes what comes: the first argument, and the payload's length.
fn noting(node: &mut Node, own: u16, index: HandlerIndex) -> Seen {
    let seen = Seen::default();
    let notes = Arc::clone(&seen);
    let handler: Handler = Box::new(move |it| {
        let length = it.payload.map_or(0, |payload| payload.as_bytes().len());
        notes.lock().unwrap().push((it.message.arguments[0], length));
        None
    });
    node.set_handler(name(own), index, handler).unwrap();
    seen
}

fn both(nodes: &mut [&mut Node], mut until: impl FnMut() -> bool) {
    let began = Instant::now();
    while !until() {
        assert!(began.elapsed() < LONG);
        for node in nodes.iter_mut() {
            node.progress();
        }
    }
}

#[test]
fn messages_call_handlers_in_order_once_and_buffers_come_back() {
    let place = Place::new("order");
    let (mut one, mut two) = (member(&place, 0, 2), member(&place, 1, 2));
    let seen = noting(&mut two, 1, FIRST);
    for number in 0..500_u32 {
        let payload = (number % 3 == 0).then(|| Payload::new(vec![7; number as usize]).unwrap());
        while let Err(error) = one.send(message(0, 1, FIRST, number), payload.clone()) {
            assert!(matches!(error, ActiveError::Busy), "{error}");
            two.progress();
        }
    }
    both(&mut [&mut one, &mut two], || seen.lock().unwrap().len() == 500);
    let expected = |number| (number, if number % 3 == 0 { number as usize } else { 0 });
    assert_eq!(*seen.lock().unwrap(), (0..500).map(expected).collect::<Vec<_>>());
    while one.outstanding() > 0 {
        one.progress();
        two.progress();
    }
    assert_eq!((one.counts().delivered, two.counts().handled), (500, 500));
}

#[test]
fn no_more_is_on_the_way_than_the_target_has_buffers_for() {
    let place = Place::new("credits");
    let (mut one, mut two) = (member(&place, 0, 2), member(&place, 1, 2));
    let seen = noting(&mut two, 1, FIRST);
    for number in 0..u32::from(SEND_BUFFERS) {
        one.send(message(0, 1, FIRST, number), None).unwrap();
    }
    assert_eq!(one.outstanding(), usize::from(BUFFERS));
    assert_eq!(one.unfinished(), u64::from(SEND_BUFFERS), "those that wait for credits, too");
    assert!(matches!(one.send(message(0, 1, FIRST, 0), None), Err(ActiveError::Busy)));
    both(&mut [&mut one, &mut two], || seen.lock().unwrap().len() == usize::from(SEND_BUFFERS));
}

#[test]
fn a_handler_answers_and_both_may_begin_at_once() {
    let place = Place::new("answers");
    let (mut one, mut two) = (member(&place, 0, 2), member(&place, 1, 2));
    let seen = [noting(&mut one, 0, SECOND), noting(&mut two, 1, SECOND)];
    for (node, own) in [(&mut one, 0), (&mut two, 1)] {
        let add = |it: Delivery<'_>| {
            let mut arguments = it.message.arguments;
            arguments[0] += 1000;
            Some(Answer { handler: SECOND, arguments, payload: None })
        };
        node.set_handler(name(own), FIRST, Box::new(add)).unwrap();
    }
    for number in 0..10 {
        one.send(message(0, 1, FIRST, number), None).unwrap();
        two.send(message(1, 0, FIRST, number), None).unwrap();
    }
    let answered = |seen: &Seen| seen.lock().unwrap().len() >= 10;
    both(&mut [&mut one, &mut two], || seen.iter().all(answered));
    let expected: Vec<_> = (1000..1010).map(|number| (number, 0)).collect();
    assert_eq!([&*seen[0].lock().unwrap(), &*seen[1].lock().unwrap()], [&expected, &expected]);
}

/// Answers that wait for a send buffer are not forgotten: whoever waits for its unfinished messages sends them all.
#[test]
fn answers_that_wait_for_a_buffer_are_unfinished() {
    let place = Place::new("unfinished");
    let (mut one, mut two) = (member(&place, 0, 2), member(&place, 1, 2));
    let seen = noting(&mut one, 0, SECOND);
    let echo = |it: Delivery<'_>| {
        let Message { arguments, .. } = *it.message;
        Some(Answer { handler: SECOND, arguments, payload: None })
    };
    two.set_handler(name(1), FIRST, Box::new(echo)).unwrap();
    let many = 4 * u32::from(SEND_BUFFERS);
    for number in 0..many {
        while one.send(message(0, 1, FIRST, number), None).is_err() {
            // The initiator takes no answers meanwhile, so that their buffers run out.
            two.progress();
            one.handle_acknowledgments(1);
        }
    }
    until_handled(&mut two, &mut one, u64::from(many));
    let waiting = two.answers.len();
    assert!(waiting > 0, "all answers have buffers");
    assert!(two.unfinished() >= waiting as u64);
    while two.unfinished() > 0 {
        one.progress();
        two.progress();
    }
    one.progress();
    assert_eq!(seen.lock().unwrap().len(), many as usize);
}

/// Lets a node handle this many messages of another, which receives only acknowledgments.
fn until_handled(node: &mut Node, initiator: &mut Node, handled: u64) {
    let began = Instant::now();
    while node.counts().handled < handled {
        assert!(began.elapsed() < LONG);
        node.progress();
        initiator.handle_acknowledgments(1);
        initiator.pump();
    }
}

#[test]
fn protection_is_checked_on_both_sides() {
    let place = Place::new("protection");
    let (mut one, mut two) = (member(&place, 0, 2), member(&place, 1, 1));
    let seen = noting(&mut two, 1, FIRST);
    let outside = one.send(message(0, 5, FIRST, 0), None).unwrap_err().to_string();
    assert_eq!(outside, "endpoint 5.4 lies outside of virtual network 1, to which 0.4 belongs");
    // The target has not been told that the initiator is of its network.
    one.send(message(0, 1, FIRST, 0), None).unwrap();
    let began = Instant::now();
    while two.counts().refused == 0 {
        assert!(began.elapsed() < LONG);
        two.progress();
    }
    assert!(seen.lock().unwrap().is_empty());
    two.join(name(1), NETWORK);
    one.send(message(0, 1, SECOND, 0), None).unwrap();
    let began = Instant::now();
    while two.counts().refused == 1 {
        assert!(began.elapsed() < LONG, "there is no such handler");
        two.progress();
    }
    assert!(matches!(
        Node::new(Directory::at(place.0.clone()).unwrap(), 1),
        Err(ActiveError::Taken(1))
    ));
    let number = Node::new(Directory::at(place.0.clone()).unwrap(), 16).unwrap_err();
    assert_eq!(number.to_string(), "node 16: accepted are 0 to 15");
}

#[test]
fn messages_to_a_killed_process_fail_and_others_go_on() {
    let name_of_test = "active::tests::messages_to_a_killed_process_fail_and_others_go_on";
    if let Some(path) = std::env::var_os(CHILD) {
        let place = Place(PathBuf::from(path));
        let _node = member(&place, 2, 3);
        std::thread::sleep(LONG);
    }
    let place = Place::new("killed");
    let (mut one, mut two) = (member(&place, 0, 3), member(&place, 1, 3));
    let seen = noting(&mut two, 1, FIRST);
    let gone = one.send(message(0, 2, FIRST, 0), None).unwrap_err().to_string();
    assert!(gone.starts_with("node 2 does not exist"), "{gone}");
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", name_of_test]).env(CHILD, &place.0);
    let mut child = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while one.send(message(0, 2, FIRST, 0), None).is_err() {
        assert!(began.elapsed() < LONG);
    }
    for number in 0..30 {
        one.send(message(0, 2, FIRST, number), None).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(one.wait(LONG, |node| node.counts().failed == 31));
    one.send(message(0, 1, FIRST, 5), None).unwrap();
    both(&mut [&mut one, &mut two], || *seen.lock().unwrap() == [(5, 0)]);
    // What the killed left at its acceptor, its next process removes.
    drop(place.node(2));
}

/// A packet of a node, its bytes changed here and there.
fn damaged(random: &mut Random, count: u64) -> Vec<u8> {
    let mut message = message(2, 1, FIRST, random.next() as u32);
    if random.next().is_multiple_of(3) {
        let name = EndpointName { node: random.next() as u16 % 20, endpoint: random.next() as u16 };
        *[&mut message.initiator, &mut message.target][random.next() as usize % 2] = name;
    }
    let is_bulk = random.next().is_multiple_of(4);
    let payload = is_bulk.then(|| Payload::new(vec![9; random.next() as usize % 2048]).unwrap());
    let sequence = count + random.next() % 8 / 7;
    let mut bytes = encode(&Held { message, payload }, sequence).unwrap_or_default();
    if !random.next().is_multiple_of(3) {
        for _ in 0..=random.next() % 3 {
            let at = random.next() as usize % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= random.next() as u8;
            }
        }
    }
    if random.next().is_multiple_of(8) {
        bytes.truncate(random.next() as usize % 64);
    }
    bytes
}

/// A hostile process sends packets that no correct node sends, or writes over its link: it loses its own link, a
/// handler is called only with what protection permits, and the messages of others arrive.
#[test]
fn a_hostile_node_loses_its_own_link_only() {
    let place = Place::new("hostile");
    let (mut one, mut two) = (member(&place, 0, 3), member(&place, 1, 3));
    let seen = noting(&mut two, 1, FIRST);
    let mut random = Random::default();
    let mut hello = [0; HELLO];
    hello[..2].copy_from_slice(b"am");
    hello[2..4].copy_from_slice(&2_u16.to_ne_bytes());
    let (mut delivered, mut handled) = (0, 0);
    for round in 0..rounds(200) {
        let mut link = Link::connect(&place.directory(), &address_of(1), &hello).unwrap();
        two.looked = Instant::now().checked_sub(LOOK).unwrap();
        two.progress();
        for packet in 0..50 {
            let bytes = damaged(&mut random, packet);
            let what = if random.next().is_multiple_of(20) { ACKNOWLEDGMENT } else { PACKET };
            // SAFETY: the bytes are there.
            let _ = unsafe { link.write(what, &[], RawBytes::of(&bytes)) };
            two.progress();
        }
        if round % 4 == 0 {
            link.corrupt(|| random.next());
            two.progress();
        }
        handled += seen.lock().unwrap().drain(..).len();
        one.send(message(0, 1, FIRST, round as u32), None).unwrap();
        let arrived = || seen.lock().unwrap().iter().any(|it| it.0 == round as u32);
        both(&mut [&mut one, &mut two], arrived);
        delivered += 1;
    }
    while one.outstanding() > 0 {
        one.progress();
        two.progress();
    }
    assert_eq!(one.counts().delivered, delivered);
    assert_eq!((one.counts().failed, one.counts().damaged), (0, 0));
    assert!(two.counts().damaged > delivered / 2, "{:?}", two.counts());
    assert!(handled > 0, "some packets are as they should be");
}
