//! All ranks together.

use weft_units::Bytes;

use super::{BarrierSettings, Finish, Notes, RoundSettings};
use crate::drive::carrier::Carrier;
use crate::program::node::Crew;

pub(super) fn all_to_all<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    RoundSettings { size, rounds }: RoundSettings,
    notes: Notes,
) -> Finish {
    let ranks = crew.nodes().len() as u16;
    for me in crew.nodes() {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            for _ in 0..rounds.get() {
                let begun = me.now();
                // Each begins with its neighbour, so that no target has all at once.
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
        metrics.push(("program_mb_per_s_per_host", all / f64::from(ranks)));
        metrics
    })
}

pub(super) fn barrier<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    BarrierSettings { rounds }: BarrierSettings,
    notes: Notes,
) -> Finish {
    for me in crew.nodes() {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            for _ in 0..rounds.get() {
                let begun = me.now();
                me.barrier().await;
                own.note(begun, me.now(), Bytes(0));
            }
        });
    }
    Box::new(move || {
        notes.spans(["program_barrier_mean_us", "program_barrier_min_us", "program_barrier_max_us"])
    })
}
