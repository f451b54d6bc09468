//! Generated collectives: messages in closed form, and whose data ends up where.

use weft_lab::trace::collectives::{Collective, Payload};
use weft_lab::trace::{Action, After, Schedule, goal};
use weft_units::{Bytes, Rate, Time};

use super::{WAY, messages, run};

/// Messages and bytes in closed form, of `n` ranks with `s` bytes each.
fn closed_forms(collective: Collective, n: u64, s: u64) -> (u64, u64) {
    let log_up = (1..).find(|log| 1 << log >= n).expect("a logarithm");
    let log = u64::from(n.ilog2());
    let power = 1 << log;
    let (paired, extra) = (power * log, n - power);
    // The way of a rank's data through a binomial tree is as long as its number has ones.
    let ones: u64 = (1..n).map(|rank| u64::from(rank.count_ones())).sum();
    match collective {
        Collective::Barrier => (n * log_up, n * log_up),
        Collective::Broadcast | Collective::Reduce => (n - 1, (n - 1) * s),
        Collective::Gather | Collective::Scatter => (n - 1, ones * s),
        Collective::GatherV | Collective::ScatterV => (n - 1, (n - 1) * s),
        Collective::AllreduceRing => (2 * n * (n - 1), 2 * (n - 1) * s),
        Collective::AllreduceRecursiveDoubling => (paired + 2 * extra, (paired + 2 * extra) * s),
        Collective::AllToAll | Collective::AllgatherRing | Collective::AllgatherV => {
            (n * (n - 1), n * (n - 1) * s)
        }
        Collective::AllgatherBruck => (n * log_up, n * (n - 1) * s),
        Collective::ReduceScatterRing => (n * (n - 1), (n - 1) * s),
        // Half, a quarter, ... of the data are together all but the piece that is left.
        Collective::ReduceScatterHalving => {
            (paired + 2 * extra, (power - 1) * s + extra * (s + s / n))
        }
    }
}

#[test]
fn collectives_have_the_messages_and_bytes_of_their_closed_forms() {
    // Divisible by every number of ranks, and by the powers of two below it.
    let size = 16 * 9 * 5 * 7 * 11 * 13 * 17 * 19;
    for collective in Collective::ALL {
        for ranks in 2..=20_u16 {
            let schedule = collective.schedule(ranks, Bytes(size), 3);
            let (closed, bytes) = closed_forms(collective, ranks.into(), size);
            let sent = schedule.traffic();
            assert_eq!(sent.messages, 3 * closed, "{collective:?} among {ranks}");
            assert_eq!(collective.messages(ranks.into()), closed, "{collective:?} among {ranks}");
            assert_eq!(sent.payload, Bytes(3 * bytes), "{collective:?} among {ranks}");
        }
    }
}

#[test]
fn ranks_with_differently_many_bytes_send_what_they_have() {
    let sizes = [Bytes(10), Bytes(200), Bytes(3000), Bytes(0), Bytes(70)];
    let all = 3280;
    let bytes = |collective: Collective, root| {
        let payload = Payload { sizes: &sizes, root, ..Payload::default() };
        collective.schedule_of(5, payload, 1).traffic()
    };
    assert_eq!(bytes(Collective::GatherV, 2), messages(4, all - 3000));
    assert_eq!(bytes(Collective::ScatterV, 0), messages(4, all - 10));
    assert_eq!(bytes(Collective::AllgatherV, 0), messages(20, 4 * all));
    assert_eq!(bytes(Collective::ReduceScatterRing, 0), messages(20, 4 * all));
}

#[test]
fn what_is_sent_has_the_size_that_is_received() {
    let sizes: Vec<Bytes> = (1..=6).map(|rank| Bytes(rank * rank)).collect();
    for collective in Collective::ALL {
        let sizes = if collective.takes_sizes() { &sizes[..] } else { &[] };
        let payload = Payload { size: Bytes(60), sizes, root: 4, ..Payload::default() };
        let schedule = collective.schedule_of(6, payload, 1);
        let mut messages = [Vec::new(), Vec::new()];
        for (rank, script) in (0..).zip(&schedule.ranks) {
            for operation in script.operations() {
                match operation.action {
                    Action::Send { to, tag, size } => messages[0].push((rank, to, tag, size.0)),
                    Action::Receive { from, tag, size } => {
                        messages[1].push((from, rank, tag, size.0));
                    }
                    Action::Compute(_) | Action::Sleep(_) => {}
                }
            }
        }
        messages.iter_mut().for_each(|own| own.sort_unstable());
        assert_eq!(messages[0], messages[1], "{collective:?}");
    }
}

/// At a byte a nanosecond: what all ranks add, in closed form.
#[test]
fn what_is_received_is_added_where_sums_are_asked_for() {
    let size = 9_240_u64;
    for ranks in 2..=12_u64 {
        let power = 1 << ranks.ilog2();
        let (rounds, extra) = (u64::from(ranks.ilog2()), ranks - power);
        let pieces = ranks * (ranks - 1) * size.div_ceil(ranks);
        let halves: u64 = (1..=rounds).map(|round| size.div_ceil(1 << round)).sum();
        for collective in Collective::ALL {
            let expected = match collective {
                Collective::Reduce => (ranks - 1) * size,
                Collective::AllreduceRing | Collective::ReduceScatterRing => pieces,
                Collective::AllreduceRecursiveDoubling => (power * rounds + extra) * size,
                Collective::ReduceScatterHalving => power * halves + extra * size,
                _ => 0,
            };
            let reduction = Some(Rate::from_bits_per_second(8_000_000_000));
            let payload = Payload { size: Bytes(size), reduction, ..Payload::default() };
            let schedule = collective.schedule_of(ranks as u16, payload, 1);
            let operations = schedule.ranks.iter().flat_map(|rank| rank.operations());
            let added = operations.filter_map(|own| match own.action {
                Action::Compute(span) => Some(span.0 / 1_000),
                _ => None,
            });
            assert_eq!(added.sum::<u64>(), expected, "{collective:?} among {ranks}");
            let silent = Payload { size: Bytes(size), ..Payload::default() };
            let messages = collective.schedule_of(ranks as u16, silent, 1).traffic();
            assert_eq!(schedule.traffic(), messages, "{collective:?} among {ranks}");
        }
    }
}

/// The ranks whose data each rank has at the end, one bit each: follows the messages through the
/// schedule.
fn knowledge(schedule: &Schedule) -> Vec<u32> {
    let ranks = schedule.ranks.len();
    let mut known: Vec<Vec<u32>> =
        (0..ranks).map(|rank| vec![1 << rank; schedule.ranks[rank].operations().len()]).collect();
    loop {
        let before = known.clone();
        for (rank, script) in schedule.ranks.iter().enumerate() {
            for edge in script.edges() {
                if edge.after == After::Over {
                    known[rank][edge.waits as usize] |= known[rank][edge.before as usize];
                }
            }
            for (number, operation) in script.operations().iter().enumerate() {
                let Action::Receive { from, tag, .. } = operation.action else { continue };
                let nth = script.operations()[..number]
                    .iter()
                    .filter(|own| own.action == operation.action)
                    .count();
                let sends = schedule.ranks[usize::from(from)].operations().iter().enumerate();
                let mut fitting = sends.filter(|(_, own)| {
                    matches!(own.action, Action::Send { to, tag: other, .. }
                        if usize::from(to) == rank && other == tag)
                });
                let (send, _) = fitting.nth(nth).expect("a send for each receive");
                known[rank][number] |= known[usize::from(from)][send];
            }
        }
        if known == before {
            return known.iter().map(|own| own.iter().fold(0, |all, one| all | one)).collect();
        }
    }
}

#[test]
fn data_ends_up_where_the_collective_promises() {
    for ranks in 2..=13_u16 {
        let all = (1_u32 << ranks) - 1;
        for collective in Collective::ALL {
            let known = knowledge(&collective.schedule(ranks, Bytes(8), 1));
            let promised = known.iter().enumerate().all(|(rank, known)| match collective {
                Collective::Broadcast | Collective::Scatter | Collective::ScatterV => {
                    known & 1 == 1
                }
                Collective::Reduce | Collective::Gather | Collective::GatherV => {
                    rank > 0 || *known == all
                }
                _ => *known == all,
            });
            assert!(promised, "{collective:?} among {ranks}: {known:?}");
        }
    }
}

#[test]
fn what_is_written_is_read_back() {
    for collective in Collective::ALL {
        let schedule = collective.schedule(6, Bytes(4096), 2);
        let text = goal::write(&schedule);
        let back = goal::read(text.as_bytes()).expect(&text);
        assert_eq!(goal::write(&back), text, "{collective:?}");
        assert_eq!(back.traffic(), schedule.traffic());
    }
}

#[test]
fn every_collective_comes_to_its_end() {
    for collective in Collective::ALL {
        for ranks in [2, 5, 8] {
            let schedule = collective.schedule(ranks, Bytes(250), 2);
            let played = run(&schedule).unwrap_or_else(|error| panic!("{collective:?}: {error}"));
            assert_eq!(played.machine.messages(), schedule.traffic().messages);
        }
    }
}

#[test]
fn a_barrier_of_eight_takes_three_ways() {
    let played = run(&Collective::Barrier.schedule(8, Bytes(0), 1)).expect("an end");
    assert_eq!(played.end(), Time(3 * WAY));
}
