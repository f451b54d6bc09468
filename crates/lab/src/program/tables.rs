//! The time of a program's ranks, as rows of tables.

use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

use super::account::{Account, Activity};
use super::placement::first_shared;
use crate::table::{Cell, Table};

/// The results of the ranks of a program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RankReport {
    /// Their account of time.
    pub account: Account,
    /// When each had finished.
    pub ends: Vec<Time>,
    /// The host that each ran on.
    pub hosts: Vec<u16>,
    /// How many computations a host executed at the same time, if that was limited.
    pub processors: Option<u32>,
}

/// The columns of a row, each with its unit.
pub type RankRow = Vec<(&'static str, Cell)>;

impl RankReport {
    /// A table each of [`RankReport::rows`], by name.
    pub fn tables(&self) -> [(&'static str, Table); 4] {
        self.rows().map(|(name, rows)| {
            let mut table = Table::new();
            rows.into_iter().for_each(|row| table.push(row));
            (name, table)
        })
    }

    /// Four tables by name, with a row for each rank, each pair of a rank and the rank for which it
    /// waited, each interval of a rank, and each message. The last two are empty unless they were
    /// requested. If several ranks ran on a host, the last three tables name hosts beside ranks.
    pub fn rows(&self) -> [(&'static str, Vec<RankRow>); 4] {
        [
            ("ranks", self.rank_rows()),
            ("waits", self.wait_rows()),
            ("intervals", self.interval_rows()),
            ("messages", self.message_rows()),
        ]
    }

    /// A row a rank.
    pub fn rank_rows(&self) -> Vec<RankRow> {
        let ranks = self.account.ranks().iter().zip(0..).zip(self.ends.iter().zip(&self.hosts));
        let row = |((spent, rank), (end, host)): ((&super::Spent, u16), (&Time, &u16))| {
            let known = spent.computing + spent.sending + spent.waiting + spent.queued;
            let rest = Span(end.since(Time::ZERO).0.saturating_sub(known.0));
            let queued = self.processors.map(|_| ("queued_us", span(spent.queued)));
            let row = vec![
                ("rank", of_rank(rank)),
                ("host", of_rank(*host)),
                ("end_us", us(*end)),
                ("computing_us", span(spent.computing)),
                ("sending_us", span(spent.sending)),
                ("waiting_us", span(spent.waiting)),
                ("idle_us", span(rest)),
            ];
            row.into_iter().chain(queued).collect()
        };
        ranks.map(row).collect()
    }

    fn wait_rows(&self) -> Vec<RankRow> {
        let row = |rank: u16, (other, waited): &(Option<u16>, Span)| {
            let row = vec![
                ("rank", of_rank(rank)),
                ("waited_for", whom(*other)),
                ("waiting_us", span(*waited)),
            ];
            let hosts = [("host", Some(rank)), ("waited_for_host", *other)];
            row.into_iter().chain(self.on_hosts(hosts)).collect()
        };
        let ranks = self.account.ranks().iter().zip(0..);
        ranks
            .flat_map(|(spent, rank)| spent.waiting_for.iter().map(move |w| row(rank, w)))
            .collect()
    }

    fn interval_rows(&self) -> Vec<RankRow> {
        let row = |interval: &super::Interval| {
            let (name, other) = match interval.activity {
                Activity::Compute => ("computing", None),
                Activity::Send(to) => ("sending", Some(to)),
                Activity::Wait(from) => ("waiting", from),
                Activity::Queued => ("queued", None),
            };
            let row = vec![
                ("rank", of_rank(interval.rank)),
                ("from_us", us(interval.from)),
                ("until_us", us(interval.until)),
                ("activity", name.into()),
                ("other", whom(other)),
            ];
            let hosts = [("host", Some(interval.rank)), ("other_host", other)];
            row.into_iter().chain(self.on_hosts(hosts)).collect()
        };
        self.account.intervals().iter().map(row).collect()
    }

    fn message_rows(&self) -> Vec<RankRow> {
        let row = |passage: &super::Passage| {
            let row = vec![
                ("initiator", of_rank(passage.from)),
                ("target", of_rank(passage.to)),
                ("offered_us", us(passage.offered)),
                ("delivered_us", us(passage.delivered)),
                ("size_bytes", passage.size.into()),
            ];
            let hosts = [("initiator_host", Some(passage.from)), ("target_host", Some(passage.to))];
            row.into_iter().chain(self.on_hosts(hosts)).collect()
        };
        self.account.passages().iter().map(row).collect()
    }

    /// The hosts of ranks, under the names of their columns; nothing where each had one of its own.
    fn on_hosts(&self, ranks: [(&'static str, Option<u16>); 2]) -> RankRow {
        if first_shared(&self.hosts).is_none() {
            return RankRow::new();
        }
        let host = |rank: u16| self.hosts.get(usize::from(rank)).copied();
        ranks.into_iter().map(|(name, rank)| (name, whom(rank.and_then(host)))).collect()
    }
}

fn us(time: Time) -> Cell {
    span(time.since(Time::ZERO))
}

fn span(span: Span) -> Cell {
    span.as_us().into()
}

fn of_rank(rank: u16) -> Cell {
    u64::from(rank).into()
}

fn whom(rank: Option<u16>) -> Cell {
    rank.map(f64::from).into()
}
