//! Generated collectives: messages in closed form, and whose data ends up where.

use weft_lab::trace::collectives::Collective;
use weft_lab::trace::{Action, After, Schedule, goal};
use weft_units::{Bytes, Time};

use super::{WAY, run};

#[test]
fn collectives_have_the_messages_of_their_closed_forms() {
    for collective in Collective::ALL {
        for ranks in 2..=20_u16 {
            let schedule = collective.schedule(ranks, Bytes(1000), 3);
            let n = u64::from(ranks);
            let log_up = (1..).find(|log| 1 << log >= n).expect("a logarithm");
            let power = 1 << n.ilog2();
            let closed = match collective {
                Collective::Barrier => n * log_up,
                Collective::Broadcast | Collective::Reduce | Collective::Gather => n - 1,
                Collective::AllreduceRing => 2 * n * (n - 1),
                Collective::AllreduceRecursiveDoubling => {
                    power * u64::from(n.ilog2()) + 2 * (n - power)
                }
                Collective::AllToAll => n * (n - 1),
            };
            let (messages, _) = schedule.traffic();
            assert_eq!(messages, 3 * closed, "{collective:?} among {ranks}");
            assert_eq!(collective.messages(n), closed, "{collective:?} among {ranks}");
        }
    }
}

#[test]
fn a_gather_carries_each_rank_s_data_once_a_level() {
    // Seven ranks at a root: 4 + 2 + 1 below it at distances 1, 2 and 4 of a tree of eight.
    let bytes = Collective::Gather.schedule(8, Bytes(10), 1).traffic().1;
    assert_eq!(bytes, Bytes(10 * (4 + 2 * 2 + 4)));
    let ring = Collective::AllreduceRing.schedule(5, Bytes(1000), 1).traffic().1;
    assert_eq!(ring, Bytes(2 * 4 * 5 * 200));
}

/// Whose data each rank has at the end, a bit each, by following messages through the schedule.
fn knowledge(schedule: &Schedule) -> Vec<u32> {
    let ranks = schedule.ranks.len();
    let mut known: Vec<Vec<u32>> =
        (0..ranks).map(|rank| vec![1 << rank; schedule.ranks[rank].operations().len()]).collect();
    loop {
        let before = known.clone();
        for (rank, script) in schedule.ranks.iter().enumerate() {
            for (earlier, waits, after) in script.edges() {
                if *after == After::Over {
                    known[rank][*waits as usize] |= known[rank][*earlier as usize];
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
                Collective::Broadcast => known & 1 == 1,
                Collective::Reduce | Collective::Gather => rank > 0 || *known == all,
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
            assert_eq!(played.machine.messages(), schedule.traffic().0);
        }
    }
}

#[test]
fn a_barrier_of_eight_takes_three_ways() {
    let played = run(&Collective::Barrier.schedule(8, Bytes(0), 1)).expect("an end");
    assert_eq!(played.end(), Time(3 * WAY));
}
