//! Many ranks that want one thing: a lock, a target, a server.

use weft_units::{Bytes, Span};

use super::{Finish, HotSpotSettings, LockSettings, Notes, RequestReplySettings, node};
use crate::drive::carrier::Carrier;
use crate::program::node::Crew;

pub(super) fn lock<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    LockSettings { rounds, hold, server }: LockSettings,
    notes: Notes,
) -> Finish {
    if let Some(server) = node(crew, server) {
        crew.serve_locks(&server);
    }
    for me in crew.nodes() {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            for _ in 0..rounds.get() {
                let begun = me.now();
                me.lock(server, 0).await;
                own.note(begun, me.now(), Bytes(0));
                if hold > Span::ZERO {
                    me.compute(hold).await;
                }
                me.unlock(server, 0).await;
            }
        });
    }
    Box::new(move || {
        let mut metrics =
            notes.spans(["program_lock_mean_us", "program_lock_min_us", "program_lock_max_us"]);
        metrics.push(("program_locks_per_s", notes.per_s()));
        metrics
    })
}

pub(super) fn hot_spot<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    HotSpotSettings { size, rounds, target }: HotSpotSettings,
    notes: Notes,
) -> Finish {
    let nodes = crew.nodes();
    let senders = nodes.len() as u32 - 1;
    for me in nodes {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            if me.rank() != target {
                for _ in 0..rounds.get() {
                    me.send(target, 0, size).await;
                }
                return;
            }
            for _ in 0..u64::from(rounds.get()) * u64::from(senders) {
                let begun = me.now();
                me.receive(None, 0).await;
                own.note(begun, me.now(), size);
            }
        });
    }
    Box::new(move || {
        vec![("program_mb_per_s", notes.mb_per_s()), ("program_messages_per_s", notes.per_s())]
    })
}

pub(super) fn request_reply<C: Carrier + 'static>(
    crew: &mut Crew<C>,
    RequestReplySettings { size, reply, rounds, server, service }: RequestReplySettings,
    notes: Notes,
) -> Finish {
    let nodes = crew.nodes();
    let clients = nodes.len() as u64 - 1;
    for me in nodes {
        let own = notes.clone();
        crew.start(me.clone(), async move {
            if me.rank() == server {
                for _ in 0..u64::from(rounds.get()) * clients {
                    let asked = me.receive(None, 0).await;
                    if service > Span::ZERO {
                        me.compute(service).await;
                    }
                    me.send(asked.from, 1, reply).await;
                }
                return;
            }
            for _ in 0..rounds.get() {
                let begun = me.now();
                me.send(server, 0, size).await;
                me.receive(server, 1).await;
                own.note(begun, me.now(), reply);
            }
        });
    }
    Box::new(move || {
        let mut metrics =
            notes.spans(["program_reply_mean_us", "program_reply_min_us", "program_reply_max_us"]);
        metrics.push(("program_replies_per_s", notes.per_s()));
        metrics
    })
}
