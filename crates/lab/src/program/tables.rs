//! Where the time of a program went, as tables.

use weft_units::{Span, Time};

use super::account::{Account, Activity};
use crate::table::{Cell, Table};

/// Four tables by name: a row a rank, a row a rank and whom it waited for, a row a stretch of a
/// rank's time, a row a message. `ends` is when each rank had done everything, `host` where it runs.
pub fn tables(
    account: &Account,
    ends: &[Time],
    host: impl Fn(u16) -> u16,
) -> Vec<(&'static str, Table)> {
    let [mut ranks, mut waits, mut intervals, mut messages] = [(); 4].map(|()| Table::new());
    let us = |time: Time| Cell::from(time.since(Time::ZERO).as_us());
    let span = |span: Span| Cell::from(span.as_us());
    let whom = |rank: Option<u16>| Cell::from(rank.map(f64::from));
    let rank_of = |rank: u16| Cell::from(u64::from(rank));
    for ((rank, spent), end) in (0..).zip(account.ranks()).zip(ends) {
        let known = spent.computing + spent.sending + spent.waiting;
        let rest = Span(end.since(Time::ZERO).0.saturating_sub(known.0));
        ranks.push([
            ("rank", rank_of(rank)),
            ("host", rank_of(host(rank))),
            ("end_us", us(*end)),
            ("computing_us", span(spent.computing)),
            ("sending_us", span(spent.sending)),
            ("waiting_us", span(spent.waiting)),
            ("idle_us", span(rest)),
        ]);
        for (other, waited) in &spent.waiting_for {
            waits.push([
                ("rank", rank_of(rank)),
                ("waited_for", whom(*other)),
                ("waiting_us", span(*waited)),
            ]);
        }
    }
    for interval in account.intervals() {
        let (name, other) = match interval.activity {
            Activity::Compute => ("computing", None),
            Activity::Send(to) => ("sending", Some(to)),
            Activity::Wait(from) => ("waiting", from),
        };
        intervals.push([
            ("rank", rank_of(interval.rank)),
            ("from_us", us(interval.from)),
            ("until_us", us(interval.until)),
            ("activity", name.into()),
            ("other", whom(other)),
        ]);
    }
    for passage in account.passages() {
        messages.push([
            ("initiator", rank_of(passage.from)),
            ("target", rank_of(passage.to)),
            ("offered_us", us(passage.offered)),
            ("delivered_us", us(passage.delivered)),
            ("size_bytes", passage.size.into()),
        ]);
    }
    vec![("ranks", ranks), ("waits", waits), ("intervals", intervals), ("messages", messages)]
}
