//! All ranks together.

use weft_units::Bytes;

use super::{BarrierBy, BarrierSettings, BroadcastSettings, Finish, Notes, RoundSettings};
use crate::drive::carrier::{Carrier, Destination};
use crate::program::node::{Crew, Node};

pub(super) fn all_to_all<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    RoundSettings { size, rounds }: RoundSettings,
    notes: Notes,
) -> Finish {
    let (ranks, hosts) = (crew.nodes().len() as u16, crew.hosts_in_use());
    for me in crew.nodes() {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            for _ in 0..rounds.get() {
                let begun = me.now();
                // Each begins with its neighbour, so that no target gets all messages at once.
                let others = (1..ranks).map(|ahead| (me.rank() + ahead) % ranks);
                let sent: Vec<_> = others.map(|to| me.send(to, 0, size)).collect();
                for behind in 1..ranks {
                    me.receive((me.rank() + ranks - behind) % ranks, 0).await;
                }
                for message in sent {
                    message.await;
                }
                own.note(begun, me.now(), size * u64::from(ranks - 1));
            }
        });
    }
    Box::new(move || {
        let mut metrics = notes.spans([
            "program_exchange_mean_us",
            "program_exchange_min_us",
            "program_exchange_max_us",
        ]);
        let all = notes.mb_per_s();
        metrics.push(("program_mb_per_s", all));
        metrics.push(("program_mb_per_s_per_host", all / f64::from(hosts)));
        metrics
    })
}

pub(super) fn barrier<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    BarrierSettings { rounds, by }: BarrierSettings,
    notes: Notes,
) -> Finish {
    for me in crew.nodes() {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            for _ in 0..rounds.get() {
                let begun = me.now();
                meet(&me, by).await;
                own.note(begun, me.now(), Bytes(0));
            }
        });
    }
    Box::new(move || {
        notes.spans(["program_barrier_mean_us", "program_barrier_min_us", "program_barrier_max_us"])
    })
}

/// All ranks meet at a barrier; at that of the channel if that is requested and the channel has
/// one.
pub(super) async fn meet<C: Carrier>(me: &Node<C>, by: BarrierBy) {
    let kept = if by == BarrierBy::Channel { me.barrier_of_channel() } else { None };
    match kept {
        Some(barrier) => drop(barrier.await),
        None => me.barrier().await,
    }
}

/// The response to a broadcast.
const ANSWER: Bytes = Bytes(4);

/// The address that is stored to.
const ADDRESS: u64 = 0;

pub(super) fn broadcast<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    BroadcastSettings { size, rounds, root, copies }: BroadcastSettings,
    notes: Notes,
) -> Finish {
    let ranks = crew.nodes().len() as u16;
    let others = move || (0..ranks).filter(move |rank| *rank != root);
    for me in crew.nodes() {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            for round in 1..=u64::from(rounds.get()) {
                if me.rank() != root {
                    me.until(ADDRESS, round).await;
                    me.send(root, 0, ANSWER).await;
                    continue;
                }
                let begun = me.now();
                let to_all = Destination::Hosts(others().fold(0, |all, rank| all | 1 << rank));
                let targets: Vec<Destination> = match copies {
                    true => others().map(Destination::Host).collect(),
                    false => vec![to_all],
                };
                let stores: Vec<_> =
                    targets.into_iter().map(|to| me.store_to(to, ADDRESS, round, size)).collect();
                for rank in others() {
                    me.receive(rank, 0).await;
                }
                own.note(begun, me.now(), size * u64::from(ranks - 1));
                for store in stores {
                    store.await;
                }
            }
        });
    }
    Box::new(move || {
        notes.spans([
            "program_broadcast_mean_us",
            "program_broadcast_min_us",
            "program_broadcast_max_us",
        ])
    })
}
