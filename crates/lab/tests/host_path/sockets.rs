//! Connections in simulated time, over the hosts of `COPIES` and a wire of 5 us: what a library says
//! in 100 B is copied in 1 us, on the wire for 5, taken in a call of 1 and copied in 1 again.

use super::*;

const SOCKETS: &str = "sockets = { request = '100 B', lock = '2 us', map = '30 us', backlog = 1, \
                       without_listener = [3], accept_from = '0 ns', \
                       addresses = [{ host = 4, address = '129.240.64.1' }] }";

/// Five hosts: nobody listens on 3, and 4 has an address of the ordinary stack.
fn connected_by(sockets: &str) -> HostPath<Wire> {
    path(&format!("{sockets}\n{COPIES}"), 5, Wire::new(Span::from_ns(5_000)))
}

fn us(us: u64) -> Time {
    Time(us * 1_000_000)
}

/// Lock 2, request 8, map 30, answer 8, map 30: the message begins at 78 and takes 12.
#[test]
fn the_first_message_waits_for_the_connection_by_hand() {
    let mut path = connected_by(SOCKETS);
    path.offer(Time::ZERO, message(0, 1, 300, 77));
    let ticket = Ticket(77);
    let notices = run(&mut path);
    assert_eq!(
        notices,
        [Notice::Sent { time: us(81), ticket }, Notice::Delivered { time: us(90), ticket, to: 1 }]
    );
    let counters = path.sockets().unwrap();
    assert_eq!((counters.accepted, counters.set_up), (1, Span::from_ns(78_000)));
    let mut budget = Budget::default();
    path.ways().spend(&mut budget, &Budget::default());
    assert_eq!(
        budget.rows(1).next().map(|row| (row.stage, row.mean_ps)),
        Some(("connection", 78e6))
    );
    assert_eq!(budget.total_ps(), 90_000_000, "what libraries say is in no stage of a message");
    // The next one, and the other direction, find it there.
    let times = |notices: Vec<Notice>| notices.iter().map(|own| own.time()).collect::<Vec<_>>();
    path.offer(us(100), message(0, 1, 300, 78));
    assert_eq!(times(run(&mut path)), [us(103), us(112)]);
    path.offer(us(200), message(1, 0, 300, 79));
    assert_eq!(times(run(&mut path)), [us(203), us(212)]);
}

/// Nothing of a message leaves its host before the other program accepts.
#[test]
fn no_data_before_accept() {
    let later = SOCKETS.replace("accept_from = '0 ns'", "accept_from = '1 ms'");
    let mut path = connected_by(&later);
    path.offer(Time::ZERO, message(0, 1, 300, 0));
    path.offer(Time::ZERO, message(0, 1, 300, 1));
    let mut notices = Vec::new();
    path.advance(us(999), &mut notices);
    assert_eq!((path.carrier().offered, notices.len()), (1, 0), "the request alone");
    assert_eq!(
        path.waiting(),
        ["host 0 waits for host 1 to accept a connection"],
        "which a program that is stuck would say"
    );
    let ends: Vec<_> = run(&mut path).iter().map(|notice| notice.time()).collect();
    // Map, answer, map: 1068; three packets and five on the wire behind it.
    assert_eq!(ends[0], us(1071));
    assert_eq!(path.carrier().offered, 2 + 6);
}

/// Hosts 0, 1 and 2 ask host 4 of their own cluster at once. The first has the lock at 2 and lets
/// go at 4, after the attempts of that instant; the second has it at 6, the third at 10. One request
/// is being accepted and one waits when the third comes, at 18, which is refused by 26.
#[test]
fn a_lock_a_backlog_and_a_refusal_by_hand() {
    let own = "sockets = { request = '100 B', lock = '2 us', map = '30 us', backlog = 1 }";
    let mut path = connected_by(own);
    for from in 0..3 {
        path.offer(Time::ZERO, message(from, 4, 300, from.into()));
    }
    let notices = run(&mut path);
    let falls = Notice::FallsThrough { time: us(26), ticket: Ticket(2), to: 4 };
    assert_eq!(notices[0], falls);
    let delivered = |notice: &&Notice| matches!(notice, Notice::Delivered { .. });
    let ends: Vec<_> = notices.iter().filter(delivered).map(|notice| notice.time()).collect();
    assert_eq!(ends, [us(90), us(120)]);
    let counters = path.sockets().unwrap();
    assert_eq!((counters.accepted, counters.refused, counters.fallen), (2, 1, 1));
    assert_eq!(counters.locked_out, 6);
}

/// An address outside falls through at once and costs nothing; where nobody listens the answer has
/// to be waited for: 2 + 8 + 8. Either holds for the other direction, too.
#[test]
fn addresses_and_refusals_fall_through() {
    let mut path = connected_by(SOCKETS);
    path.offer(us(1), message(0, 4, 300, 0));
    path.offer(us(2), message(4, 0, 300, 1));
    let fallen = |at, ticket, to| Notice::FallsThrough { time: us(at), ticket: Ticket(ticket), to };
    assert_eq!(run(&mut path), [fallen(1, 0, 4), fallen(2, 1, 0)]);
    assert_eq!(path.carrier().offered, 0);
    path.offer(us(10), message(1, 3, 300, 2));
    assert_eq!(run(&mut path), [fallen(28, 2, 3)]);
    path.offer(us(40), message(3, 1, 300, 3));
    assert_eq!(run(&mut path), [fallen(40, 3, 1)]);
    assert_eq!(path.carrier().offered, 2);
}

/// Two that ask each other are connected twice, and neither waits for ever.
#[test]
fn requests_may_cross() {
    let mut path = connected_by(SOCKETS);
    path.offer(Time::ZERO, message(0, 1, 100, 0));
    path.offer(Time::ZERO, message(1, 0, 100, 1));
    let delivered = run(&mut path).iter().filter(|notice| notice.time() > us(78)).count();
    assert_eq!((delivered, path.sockets().unwrap().accepted), (4, 2));
}

proptest! {
    /// Every message is sent and delivered or falls through, once; those of a pair stay in order
    /// and have one fate; the stages account for all of what was delivered.
    #[test]
    fn every_message_arrives_or_falls_through(
        offers in prop::collection::vec((0u16..5, 1u16..5, 0u64..900, 0u64..30_000_000), 1..50),
        backlog in 1u32..4,
        accept_from in 0u64..200,
    ) {
        let sockets = SOCKETS
            .replace("backlog = 1", &format!("backlog = {backlog}"))
            .replace("'0 ns'", &format!("'{accept_from} us'"));
        let mut path = connected_by(&sockets);
        let (mut notices, mut offered, mut now) = (Vec::new(), Vec::new(), Time::ZERO);
        for (number, (from, step, size, gap)) in offers.iter().enumerate() {
            now += Span(*gap);
            path.advance(now, &mut notices);
            let to = (from + step) % 5;
            path.offer(now, message(*from, to, *size, number as u64));
            offered.push((*from, to, now));
        }
        notices.extend(run(&mut path));
        prop_assert!(notices.is_sorted_by_key(|notice| notice.time()));
        let mut youngest = [[None; 5]; 5];
        let mut fates = vec![(0, 0, 0); offers.len()];
        let mut spent = 0;
        for notice in &notices {
            let number = notice.ticket().0 as usize;
            let (from, to, begun) = offered[number];
            let fate = &mut fates[number];
            match notice {
                Notice::Sent { .. } => fate.0 += 1,
                Notice::Delivered { .. } => {
                    fate.1 += 1;
                    spent += u128::from(notice.time().since(begun).0);
                    let pair = &mut youngest[usize::from(from)][usize::from(to)];
                    prop_assert!(pair.replace(number) < Some(number));
                }
                _ => fate.2 += 1,
            }
        }
        prop_assert!(fates.iter().all(|fate| matches!(fate, (1, 1, 0) | (0, 0, 1))), "{fates:?}");
        for (number, (from, to, _)) in offered.iter().enumerate() {
            let outside = *from == 4 || *to == 4;
            prop_assert!(!outside || fates[number].2 == 1);
        }
        let counters = path.sockets().unwrap();
        prop_assert_eq!(counters.fallen, fates.iter().map(|fate| fate.2).sum::<u64>());
        let mut budget = Budget::default();
        path.ways().spend(&mut budget, &Budget::default());
        prop_assert_eq!(budget.total_ps(), spent);
    }
}
