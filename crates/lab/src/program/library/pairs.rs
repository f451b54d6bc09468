//! Two ranks: round trips, both directions at the same time, one direction.

use weft_units::Bytes;

use super::collective::meet;
use super::{ExchangeSettings, Finish, Notes, PairSettings, StreamSettings, node};
use crate::drive::carrier::Carrier;
use crate::program::node::{Crew, Node};

/// The response to a window of a stream.
const ANSWER: Bytes = Bytes(4);

/// The two ranks of a pair, if both exist.
fn pair<C: Carrier + 'static>(crew: &Crew<C>, pair: [u16; 2]) -> Option<[Node<C>; 2]> {
    Some([node(crew, pair[0])?, node(crew, pair[1])?])
}

pub(super) fn ping_pong<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    PairSettings { size, rounds, pair: [first, second] }: PairSettings,
    notes: Notes,
) -> Finish {
    if let Some([me, other]) = pair(crew, [first, second]) {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            for _ in 0..rounds.get() {
                let begun = me.now();
                me.send(second, 0, size).await;
                me.receive(second, 0).await;
                own.note(begun, me.now(), size);
            }
        });
        crew.start(other.clone(), async move {
            for _ in 0..rounds.get() {
                other.receive(first, 0).await;
                other.send(first, 0, size).await;
            }
        });
    }
    Box::new(move || {
        let mut metrics = notes.spans([
            "program_round_trip_mean_us",
            "program_round_trip_min_us",
            "program_round_trip_max_us",
        ]);
        let one_way = metrics[0].1 / 2.0;
        metrics.push(("program_one_way_mean_us", one_way));
        metrics.push(("program_mb_per_s", size.0 as f64 / one_way));
        metrics
    })
}

pub(super) fn ping_ping<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    settings: ExchangeSettings,
    notes: Notes,
) -> Finish {
    let ExchangeSettings { rounds, pair: [first, second], barrier, .. } = settings;
    async fn exchange<C: Carrier>(
        me: Node<C>,
        other: u16,
        settings: ExchangeSettings,
        notes: Notes,
    ) {
        let ExchangeSettings { size, rounds, barrier, .. } = settings;
        for _ in 0..rounds.get() {
            if let Some(by) = barrier {
                meet(&me, by).await;
            }
            let begun = me.now();
            let sent = me.send(other, 0, size);
            me.receive(other, 0).await;
            sent.await;
            notes.note(begun, me.now(), size);
        }
    }
    if let Some([one, two]) = pair(crew, [first, second]) {
        crew.start(one.clone(), exchange(one, second, settings.clone(), notes.clone()));
        crew.start(two.clone(), exchange(two, first, settings.clone(), notes.clone()));
    }
    // A barrier includes all ranks, also those that exchange nothing.
    if let Some(by) = barrier {
        for me in crew.nodes() {
            if ![first, second].contains(&me.rank()) {
                crew.start(me.clone(), async move {
                    for _ in 0..rounds.get() {
                        meet(&me, by).await;
                    }
                });
            }
        }
    }
    Box::new(move || {
        let mut metrics = notes.spans([
            "program_exchange_mean_us",
            "program_exchange_min_us",
            "program_exchange_max_us",
        ]);
        metrics.push(("program_mb_per_s", notes.mb_per_s()));
        metrics
    })
}

pub(super) fn stream<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    StreamSettings { size, window, rounds, pair: [first, second] }: StreamSettings,
    notes: Notes,
) -> Finish {
    if let Some([me, other]) = pair(crew, [first, second]) {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            for _ in 0..rounds.get() {
                let begun = me.now();
                let sent: Vec<_> = (0..window.get()).map(|_| me.send(second, 0, size)).collect();
                for message in sent {
                    message.await;
                }
                me.receive(second, 1).await;
                own.note(begun, me.now(), size * window.get().into());
            }
        });
        crew.start(other.clone(), async move {
            for _ in 0..rounds.get() {
                for _ in 0..window.get() {
                    other.receive(first, 0).await;
                }
                other.send(first, 1, ANSWER).await;
            }
        });
    }
    Box::new(move || {
        let mut metrics = notes.spans([
            "program_window_mean_us",
            "program_window_min_us",
            "program_window_max_us",
        ]);
        let messages = notes.per_s() * f64::from(window.get());
        metrics.push(("program_mb_per_s", notes.mb_per_s()));
        metrics.push(("program_messages_per_s", messages));
        metrics
    })
}
