//! Buffers that many share, over a wire of 5 us: an attempt to lock takes 2 us, the write pointer 1, a copy
//! 10 ns/B in packets of 100 B, a call of the target 1 us.

use super::*;

const SHARED: &str = r#"
    send = ["copy"]
    receive = ["deposit", "call"]
    posted = { packets = 16, until = "deposit" }
    [window]
    buffer = "1 KiB"
    fill = "copy"
    release = "call"
    look = "500 ns"
    wake = "1 us"
    shared = { lock = "2 us", pointer = "1 us" }
    [resource.cpu]
    [stage.copy]
    unit = "packet"
    rate = "100 MB/s"
    uses = { cpu = 0 }
    [stage.deposit]
    unit = "packet"
    [stage.call]
    fixed = "1 us"
    unit = { chunk = "1 KiB" }
    uses = { cpu = 0 }
"#;

fn us(us: u64) -> Time {
    Time(us * 1_000_000)
}

fn shared(text: &str, hosts: u16) -> HostPath<Wire> {
    path(text, hosts, Wire::new(Span::from_ns(5_000)))
}

fn ends(notices: &[Notice]) -> Vec<(u64, Time)> {
    let delivered = |own: &&Notice| matches!(own, Notice::Delivered { .. });
    notices.iter().filter(delivered).map(|own| (own.ticket().0, own.time())).collect()
}

/// Hosts 0 and 1 try at once, and 0 is first: its lock is there at 2 us, the pointer at 3, the copy is done at 6.
/// The end of it is in the memory of host 2 at 11, and delivered at 12. The attempts of host 1 that end at 2, 4,
/// 6, 8 and 10 are in vain; that of 12 is not, and it is 10 us behind from then on.
#[test]
fn two_write_one_after_the_other_by_hand() {
    let mut path = shared(SHARED, 3);
    path.offer(Time::ZERO, message(0, 2, 300, 0));
    path.offer(Time::ZERO, message(1, 2, 300, 1));
    let notices = run(&mut path);
    assert_eq!(ends(&notices), [(0, us(12)), (1, us(22))]);
    assert_eq!(notices[0], Notice::Sent { time: us(6), ticket: Ticket(0) });
    let counters = path.turns().unwrap();
    assert_eq!((counters.turns, counters.locked_out), (2, 5));
    assert_eq!((counters.waited, counters.longest), (Span::from_ns(16_000), Span::from_ns(13_000)));
}

/// A connection of its own spares a lone sender the lock and the pointer, 3 us; and buffers of two hosts are not
/// in each other's way.
#[test]
fn a_connection_is_cheaper_and_buffers_of_two_hosts_are_two() {
    let alone = SHARED.replace("shared = { lock = \"2 us\", pointer = \"1 us\" }", "");
    for (text, delivered) in [(SHARED, us(12)), (&alone, us(9))] {
        let mut path = shared(text, 4);
        path.offer(Time::ZERO, message(0, 2, 300, 0));
        path.offer(Time::ZERO, message(1, 3, 300, 1));
        assert_eq!(ends(&run(&mut path)), [(0, delivered), (1, delivered)]);
        assert_eq!(path.turns().map(|own| own.locked_out), (text == SHARED).then_some(0));
    }
}

/// The next message of the same host waits until its own last store is there, at 11, and then locks again: 14,
/// 17, 22, 23.
#[test]
fn a_host_does_not_lock_itself_out() {
    let mut path = shared(SHARED, 2);
    path.offer(Time::ZERO, message(0, 1, 300, 0));
    path.offer(Time::ZERO, message(0, 1, 300, 1));
    assert_eq!(ends(&run(&mut path)), [(0, us(12)), (1, us(23))]);
    assert_eq!(path.turns().unwrap().locked_out, 0);
}

/// Host 1 has written 500 B by 8 us, which are called for from 13 to 53. Host 0 has the turn at 13 and fills the
/// buffer with 500 B more until 19. What is then read was written by host 1, and host 0 is woken. It has looked for
/// room before it slept, with its flag enabled, and when it was woken, 1.5 us, so that the sixth packet is there at
/// 1 + 1.5 + 1 + 5 us after the wake-up and the 512 B of a call are together. So it goes on three times, 48.5 us
/// each, and the call for the rest follows at once.
#[test]
fn who_has_the_turn_is_woken_for_room() {
    let text =
        SHARED.replace("[stage.call]\n    fixed = \"1 us\"", "[stage.call]\n    fixed = \"40 us\"");
    let text = text.replace("chunk = \"1 KiB\"", "chunk = \"512 B\"");
    let mut path = shared(&text, 3);
    path.offer(Time::ZERO, message(1, 2, 500, 1));
    path.offer(us(1), message(0, 2, 2000, 0));
    let delivered = ends(&run(&mut path));
    assert_eq!(delivered.iter().map(|own| own.0).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(delivered, [(1, us(53)), (0, us(53) + Span::from_ns(3 * 48_500 + 40_000))]);
}

#[test]
fn what_does_not_fit_a_shared_buffer_is_refused() {
    let refused = |from: &str, to: &str| {
        let settings: HostSettings = crate::settings::read(&SHARED.replace(from, to));
        settings.build(Bytes(100)).unwrap_err().to_string()
    };
    let lock = refused("lock = \"2 us\"", "lock = \"0 ns\"");
    assert!(
        lock.starts_with("host.window.shared.lock is 0 ns: accepted is more than 0 ns"),
        "{lock}"
    );
    let until = refused(", until = \"deposit\"", "");
    assert!(until.contains("only with `posted.until`"), "{until}");
    let sockets =
        "sockets = { request = '64 B', lock = '2 us', map = '30 us', backlog = 5 }\n    send =";
    let sockets = refused("send =", sockets);
    assert!(sockets.contains("without `sockets`"), "{sockets}");
}

proptest! {
    /// Random senders, targets and lost packets: every message is sent and delivered once, those of a pair
    /// in order, and every message had the lock once.
    #[test]
    fn everything_arrives_once_through_buffers_that_all_share(
        offers in prop::collection::vec((0u16..4, 1u16..4, 0u64..1500, 0u64..30_000_000), 1..40),
        loses in prop::option::of(0u64..60),
    ) {
        let text = CHECKED.replace("buffer = \"4 KiB\"", "buffer = \"1 KiB\"").replace(
            "release = \"call\"",
            "release = \"call\", shared = { lock = \"2 us\", pointer = \"1 us\" }",
        );
        let text = text.replace("chunk = \"1 KiB\"", "chunk = \"500 B\"");
        let wire = Wire { loses, ..Wire::new(Span::from_ns(700)) };
        let mut path = path(&text, 4, wire);
        let (mut notices, mut now) = (Vec::new(), Time::ZERO);
        for (number, (from, step, size, gap)) in offers.iter().enumerate() {
            now += Span(*gap);
            path.advance(now, &mut notices);
            path.offer(now, message(*from, (from + step) % 4, *size, number as u64));
        }
        notices.extend(run(&mut path));
        prop_assert!(path.waiting().is_empty(), "{:?}", path.waiting());
        let mut sent = vec![0; offers.len()];
        let mut order: [[Vec<u64>; 4]; 4] = Default::default();
        for notice in &notices {
            let number = notice.ticket().0;
            let (from, step, ..) = offers[number as usize];
            match notice {
                Notice::Sent { .. } => sent[number as usize] += 1,
                Notice::Delivered { to, .. } => {
                    prop_assert_eq!(*to, (from + step) % 4);
                    order[usize::from(from)][usize::from(*to)].push(number);
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert!(sent.iter().all(|times| *times == 1));
        let all: Vec<&Vec<u64>> = order.iter().flatten().collect();
        prop_assert!(all.iter().all(|own| own.is_sorted()));
        prop_assert_eq!(all.iter().map(|own| own.len()).sum::<usize>(), offers.len());
        prop_assert_eq!(path.turns().unwrap().turns, offers.len() as u64);
    }
}
