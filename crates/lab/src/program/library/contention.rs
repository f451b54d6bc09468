//! Many ranks that want one thing: a lock, a target, a server.

use std::collections::VecDeque;

use weft_units::{Bytes, Span};

use super::{Finish, HotSpotSettings, LockSettings, Notes, RequestReplySettings, node};
use crate::drive::carrier::Carrier;
use crate::program::node::{Crew, Node};

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
    own: HotSpotSettings,
    notes: Notes,
) -> Finish {
    let HotSpotSettings { size, rounds, target, senders, victim, .. } = own;
    let aside = move |rank| victim.is_some_and(|[_, to]| to == rank);
    let others: Vec<Node<C>> = crew.nodes();
    let others = others.into_iter().filter(|me| me.rank() != target && !aside(me.rank()));
    let most = senders.map_or(usize::MAX, usize::from);
    let sending: Vec<Node<C>> = others.take(most).collect();
    let expected = u64::from(rounds.get()) * sending.len() as u64;
    for me in sending {
        crew.start(me.clone(), send_all(me, target, own.clone()));
    }
    if let Some(me) = node(crew, target) {
        crew.start(me.clone(), receive_all(me, expected, size, notes.clone()));
    }
    let of_victim = Notes::default();
    if let Some([from, to]) = victim
        && let (Some(from), Some(target)) = (node(crew, from), node(crew, to))
    {
        crew.start(from.clone(), send_all(from, to, own));
        let count = rounds.get().into();
        crew.start(target.clone(), receive_all(target, count, size, of_victim.clone()));
    }
    Box::new(move || {
        let (rate, messages) = match expected {
            0 => (0.0, 0.0),
            _ => (notes.mb_per_s(), notes.per_s()),
        };
        let mut metrics = vec![("program_mb_per_s", rate), ("program_messages_per_s", messages)];
        if victim.is_some() {
            metrics.push(("program_victim_mb_per_s", of_victim.mb_per_s()));
        }
        metrics
    })
}

/// Sends all messages, with as many in flight as the window allows.
async fn send_all<C: Carrier>(me: Node<C>, to: u16, own: HotSpotSettings) {
    let mut under_way = VecDeque::new();
    for _ in 0..own.rounds.get() {
        if under_way.len() == own.window.get() as usize
            && let Some(oldest) = under_way.pop_front()
        {
            oldest.await;
        }
        under_way.push_back(me.send(to, 0, own.size));
    }
    for message in under_way {
        message.await;
    }
}

/// Receives what is sent, whichever rank sends it.
async fn receive_all<C: Carrier>(me: Node<C>, count: u64, size: Bytes, notes: Notes) {
    for _ in 0..count {
        let begun = me.now();
        me.receive(None, 0).await;
        notes.note(begun, me.now(), size);
    }
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
