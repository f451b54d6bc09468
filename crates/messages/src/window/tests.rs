//! Members in threads, and in processes that are killed: a test that needs others runs itself again as them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU64;

use super::*;
use crate::testing::{Random, rounds};

/// The directory of a test's process that acts as another member.
const CHILD: &str = "WEFT_WINDOW_TEST_CHILD";
const LONG: Duration = Duration::from_secs(30);

/// A directory of this test's own, removed with it.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weft-windows-{}-{name}", std::process::id())))
    }

    fn directory(&self) -> Directory {
        Directory::at(self.0.clone()).unwrap()
    }

    fn create(&self, bytes: u64) -> Window {
        Window::create(self.directory(), "w", bytes).unwrap()
    }

    fn attach(&self) -> Window {
        Window::attach(self.directory(), "w", Access::FULL).unwrap()
    }

    /// Runs a test of this file again, which finds out that it is to act as another member.
    fn child(&self, test: &str) -> Child {
        let mut run = Command::new(std::env::current_exe().unwrap());
        run.args(["--exact", &format!("window::tests::{test}"), "--nocapture"]);
        run.env(CHILD, &self.0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).expect("windows leave nothing behind");
    }
}

/// The window of a process that acts as another member.
fn as_child() -> Option<Window> {
    let path = PathBuf::from(std::env::var_os(CHILD)?);
    let window = Window::attach(Directory::at(path).unwrap(), "w", Access::FULL);
    Some(window.unwrap())
}

fn word(window: &mut Window, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    window.read(offset, &mut bytes).unwrap();
    u64::from_ne_bytes(bytes)
}

fn until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "nothing happened for {LONG:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_write_is_seen_by_all_its_targets_and_no_others_without_a_call_of_theirs() {
    let place = Place::new("seen");
    let (mut one, two, three) = (place.create(1000), place.attach(), place.attach());
    let nodes = [&one, &two, &three].map(Window::node);
    assert_eq!((nodes, one.members()), ([Node(0), Node(1), Node(2)], 0b111));
    let bytes: Vec<u8> = (0..=255).cycle().take(900).collect();
    one.write(Targets::All, 50, &bytes).unwrap();
    one.write(Targets::Others, 0, b"others").unwrap();
    one.write(Targets::One(nodes[2]), 10, b"three").unwrap();
    one.write(Targets::Some(0b011), 20, b"multicast").unwrap();
    // SAFETY: each copy is as long as the window, and nobody writes any more.
    let seen = [&one, &two, &three]
        .map(|window| unsafe { std::slice::from_raw_parts(window.memory(), 1000) });
    assert!(seen.iter().all(|copy| copy[50..950] == bytes));
    assert_eq!([0, 1, 2].map(|at: usize| &seen[at][..6] == b"others"), [false, true, true]);
    assert_eq!([0, 1, 2].map(|at: usize| &seen[at][10..15] == b"three"), [false, false, true]);
    let all = [0, 1, 2].map(|at: usize| &seen[at][20..29] == b"multicast");
    assert_eq!(all, [true, true, false]);
}

#[test]
fn a_member_that_joins_later_has_what_the_others_have() {
    let place = Place::new("later");
    let mut one = place.create(100);
    one.write(Targets::All, 8, &7_u64.to_ne_bytes()).unwrap();
    let mut two = place.attach();
    assert_eq!(word(&mut two, 8), 7);
    drop(one);
    let mut three = place.attach();
    assert_eq!((word(&mut three, 8), three.members()), (7, 0b011));
}

#[test]
fn both_sides_must_consent() {
    let place = Place::new("consent");
    let mut one = place.create(64);
    let attach = |access| Window::attach(place.directory(), "w", access).unwrap();
    let mut reader = attach(Access { takes: true, writes: false });
    let mut writer = attach(Access { takes: false, writes: true });
    writer.write(Targets::All, 0, b"pushed").unwrap();
    let mut bytes = [0; 6];
    reader.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"pushed");
    let refused = |result: Result<(), WindowError>| result.unwrap_err().to_string();
    assert_eq!(
        refused(reader.write(Targets::All, 0, b"x")),
        "this member has not mapped the window outgoing: attach with writing"
    );
    let no_copy = "node 2 has not mapped the window incoming, or is no member: accepted are 0, 1";
    assert_eq!(refused(one.write(Targets::One(Node(2)), 0, b"x")), no_copy);
    assert_eq!(refused(writer.read(0, &mut bytes)), no_copy);
    assert_eq!(
        refused(one.write(Targets::All, 60, b"12345")),
        "5 bytes at 60 lie outside of the window, which has 64"
    );
}

#[test]
fn what_is_no_window_is_refused_with_what_would_be_accepted() {
    let place = Place::new("refused");
    let one = place.create(64);
    let why = |result: Result<Window, WindowError>| result.unwrap_err().to_string();
    let again = Window::create(place.directory(), "w", 64);
    assert!(why(again).starts_with("window w exists already: attach to it"));
    let missing = Window::attach(place.directory(), "v", Access::FULL);
    assert!(why(missing).contains("or another member, must be running"));
    let slash = Window::create(place.directory(), "a/b", 64);
    assert!(why(slash).contains("letters of a to z"));
    let empty = Window::create(place.directory(), "v", 0);
    assert_eq!(why(empty), format!("0 bytes: a window has 1 to {MOST_BYTES}"));
    drop(one);
}

/// Rule 2: whatever order the writes of several senders have, it is one for all targets. So the last write to a
/// place is the same everywhere.
#[test]
fn all_copies_agree_whoever_writes_at_the_same_time() {
    let place = Place::new("agree");
    let mut windows = vec![place.create(4096), place.attach(), place.attach()];
    std::thread::scope(|scope| {
        for window in &mut windows {
            scope.spawn(move || {
                for number in 0..3000_u64 {
                    let value = (number << 8 | u64::from(window.node().0)).to_ne_bytes();
                    let offset = number * 7 % 64 * 64;
                    window.write(Targets::All, offset, &[value; 8].concat()).unwrap();
                }
            });
        }
    });
    let copies: Vec<_> = windows
        .iter_mut()
        .map(|window| {
            window.sweep(Targets::All).unwrap();
            let mut copy = vec![0; 4096];
            window.read(0, &mut copy).unwrap();
            copy
        })
        .collect();
    assert!(copies[0] == copies[1] && copies[1] == copies[2]);
    assert_ne!(copies[0][..8], [0; 8]);
}

/// Rule 1: who sees a flag sees the message that was written before it.
#[test]
fn a_flag_comes_behind_its_message() {
    let place = Place::new("flag");
    let (mut one, mut two) = (place.create(4096), place.attach());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..500_u64 {
                one.write(Targets::All, 8, &[number as u8; 1000]).unwrap();
                one.write(Targets::All, 0, &number.to_ne_bytes()).unwrap();
                until(|| word(&mut one, 2048) == number);
            }
        });
        for number in 1..500_u64 {
            until(|| word(&mut two, 0) == number);
            let mut message = [0; 1000];
            two.read(8, &mut message).unwrap();
            assert_eq!(message, [number as u8; 1000]);
            two.write(Targets::All, 2048, &number.to_ne_bytes()).unwrap();
        }
    });
}

#[test]
fn a_remote_read_is_behind_ones_own_writes() {
    let place = Place::new("remote");
    let (mut one, mut two) = (place.create(64), place.attach());
    two.write(Targets::One(two.node()), 0, b"own").unwrap();
    one.write(Targets::One(two.node()), 8, b"mine").unwrap();
    let mut bytes = [0; 12];
    one.read_remote(two.node(), 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"own\0\0\0\0\0mine");
    one.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 12], "it is another's memory that was read");
}

#[test]
fn a_sleeper_is_woken_by_a_write() {
    let place = Place::new("sleeper");
    let (mut one, mut two) = (place.create(64), place.attach());
    assert!(!two.wait(Duration::from_millis(1)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            one.write(Targets::All, 0, b"x").unwrap();
        });
        assert!(two.wait(LONG));
    });
    assert!(!two.wait(Duration::ZERO), "that was all");
}

#[test]
fn one_member_at_a_time_has_a_lock() {
    let place = Place::new("lock");
    let mut windows = vec![place.create(64), place.attach(), place.attach()];
    std::thread::scope(|scope| {
        for window in &mut windows {
            scope.spawn(move || {
                for _ in 0..100 {
                    window.lock(3, LONG).unwrap();
                    let next = word(window, 0) + 1;
                    window.write(Targets::All, 0, &next.to_ne_bytes()).unwrap();
                    window.sweep(Targets::All).unwrap();
                    window.unlock(3).unwrap();
                }
            });
        }
    });
    assert_eq!(word(&mut windows[0], 0), 300);
    windows[0].lock(0, LONG).unwrap();
    let twice = windows[0].lock(0, LONG).unwrap_err().to_string();
    assert_eq!(twice, "lock 0 is held by this member already: unlock it first");
    let taken = windows[1].lock(0, Duration::from_millis(5)).unwrap_err();
    assert_eq!(taken.to_string(), "lock 0 was not released within 5ms");
    assert_eq!(windows[1].unlock(0).unwrap_err().to_string(), "lock 0 is not held by this member");
    assert_eq!(
        windows[1].lock(16, LONG).unwrap_err().to_string(),
        "lock 16: a window has locks 0 to 15"
    );
    windows.remove(0);
    windows[0].lock(0, LONG).unwrap();
}

#[test]
fn nobody_passes_a_barrier_before_all_have_come() {
    let place = Place::new("barrier");
    let mut one = place.create(64);
    let early = one.barrier(3, Duration::from_millis(5)).unwrap_err().to_string();
    assert_eq!(early, "1 of 3 members reached the barrier within 5ms");
    let mut windows = vec![one, place.attach(), place.attach()];
    std::thread::scope(|scope| {
        for window in &mut windows {
            scope.spawn(move || {
                for round in 1..100_u64 {
                    let offset = u64::from(window.node().0) * 8;
                    window.write(Targets::All, offset, &round.to_ne_bytes()).unwrap();
                    window.barrier(3, LONG).unwrap();
                    for other in 0..3 {
                        let seen = word(window, other * 8);
                        assert!((round..=round + 1).contains(&seen), "{seen} in round {round}");
                    }
                }
            });
        }
    });
    let mut fourth = place.attach();
    let refused = fourth.barrier(2, LONG).unwrap_err().to_string();
    assert_eq!(refused, "a barrier of 2 members, but 4 members map the window incoming");
}

/// A process that is killed with a packet half written: all others miss it, count it, and go on.
#[test]
fn what_a_killed_member_had_half_written_is_missed_by_all_and_counted() {
    if let Some(mut window) = as_child() {
        window.lock(1, LONG).unwrap();
        window.write(Targets::All, 0, b"whole").unwrap();
        let log = window.shared.log();
        log.claim(&window.shared, window.own.0, &mut 0).unwrap();
        std::process::abort();
    }
    let place = Place::new("half");
    let (mut one, mut two) = (place.create(64), place.attach());
    let before = two.errors();
    place
        .child("what_a_killed_member_had_half_written_is_missed_by_all_and_counted")
        .wait()
        .unwrap();
    two.write(Targets::All, 8, b"behind").unwrap();
    for window in [&mut one, &mut two] {
        let mut bytes = [0; 14];
        window.read(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"whole\0\0\0behind");
        assert_eq!(window.errors(), before + 1);
    }
    one.lock(1, LONG).unwrap();
    assert_eq!(one.members(), 0b011, "who has ended is removed by whom it held up");
}

#[test]
fn a_conditional_write_is_not_taken_behind_an_error_and_a_message_is_sent_again() {
    if let Some(window) = as_child() {
        window.shared.log().claim(&window.shared, window.own.0, &mut 0).unwrap();
        std::process::abort();
    }
    let place = Place::new("conditional");
    let (mut one, mut two) = (place.create(1024), place.attach());
    let to = two.node();
    let errors = one.errors_of(to).unwrap();
    assert_eq!(one.write_conditional(to, 0, b"taken", errors).unwrap(), Outcome::Arrived);
    let name = "a_conditional_write_is_not_taken_behind_an_error_and_a_message_is_sent_again";
    place.child(name).wait().unwrap();
    assert_eq!(one.write_conditional(to, 0, b"stale", errors).unwrap(), Outcome::Lost);
    let mut bytes = [0; 5];
    two.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"taken");
    assert_eq!(one.deliver(to, 100, &[5; 700]).unwrap(), 1);
    let mut message = [0; 700];
    two.read(100, &mut message).unwrap();
    assert_eq!(message, [5; 700]);
    let long = one.write_conditional(to, 250, &[0; 10], 0).unwrap_err().to_string();
    assert!(long.starts_with("a conditional write of 10 bytes: it has at most 256"), "{long}");
    one.remove_dead().unwrap();
}

/// Members that write, lock and meet are killed at any moment; those who are left never hang, their copies agree,
/// a lock has one holder, and nothing is left.
#[test]
fn those_who_are_left_go_on_when_members_are_killed_at_any_moment() {
    const KILLS: u64 = 60;
    let kills = rounds(KILLS);
    if let Some(mut window) = as_child() {
        for number in 1_u64.. {
            window.write(Targets::All, 64 + number % 8 * 256, &[number as u8; 256]).unwrap();
            window.lock(2, LONG).unwrap();
            let count = word(&mut window, 0);
            window.write(Targets::All, 8, &(count + 1).to_ne_bytes()).unwrap();
            window.write(Targets::All, 0, &(count + 1).to_ne_bytes()).unwrap();
            window.unlock(2).unwrap();
        }
    }
    let place = Place::new("kills");
    let (mut one, mut two) = (place.create(8192), place.attach());
    let name = "those_who_are_left_go_on_when_members_are_killed_at_any_moment";
    let mut children = [place.child(name), place.child(name)];
    for kill in 0..kills {
        until(|| one.members().count_ones() >= 4);
        let began = word(&mut one, 0);
        until(|| word(&mut one, 0) > began + kill % 5);
        let victim = &mut children[kill as usize % 2];
        victim.kill().unwrap();
        victim.wait().unwrap();
        let asked = Instant::now();
        one.lock(2, LONG).unwrap();
        let (count, same) = (word(&mut one, 0), word(&mut one, 8));
        assert!(same == count || same == count + 1, "two held the lock: {same} and {count}");
        one.write(Targets::All, 8, &count.to_ne_bytes()).unwrap();
        one.unlock(2).unwrap();
        one.remove_dead().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(10));
        children[kill as usize % 2] = place.child(name);
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    two.remove_dead().unwrap();
    one.sweep(Targets::All).unwrap();
    let mut copies = [vec![0; 8192], vec![0; 8192]];
    one.read(0, &mut copies[0]).unwrap();
    two.read(0, &mut copies[1]).unwrap();
    assert!(copies[0] == copies[1]);
    assert_eq!((one.members(), one.errors()), (0b011, two.errors()));
}

/// Whatever a member writes into the words, the others get errors or wrong bytes, and neither crash nor hang.
#[test]
fn a_hostile_member_crashes_nobody() {
    let place = Place::new("hostile");
    let (mut one, two) = (place.create(512), place.attach());
    one.patience = Duration::from_micros(100);
    let words = memory::COPIES_AT / 8;
    let mut random = Random::default();
    for round in 0..rounds(2_000) {
        for _ in 0..8 {
            let word = random.next();
            let index = word as usize % words;
            let value = if round % 3 == 0 { word >> 40 } else { word };
            // SAFETY: the word lies inside the mapping; all who look at it do so by atomics.
            unsafe {
                let at = two.shared.copy(Node(0)).sub(memory::COPIES_AT).cast::<AtomicU64>();
                (*at.add(index)).store(value, Ordering::Relaxed);
            }
        }
        let _ = one.write(Targets::All, 0, &[1; 300]);
        let _ = one.read(0, &mut [0; 300]);
    }
    // What they have done to the words, their ends cannot put in order.
    std::mem::forget((one, two));
    let names = Names::new(place.directory(), "w").unwrap();
    (0..NODES as u8).for_each(|node| names.withdraw(Node(node)));
}
