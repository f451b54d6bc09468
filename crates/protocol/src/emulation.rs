//! Emulation of another interconnect: what a message costs there, and when it arrives.
//!
//! Costs depend on the length of a message, as the parameters of LogGP do (Alexandrov, Ionescu, Schauser and Scheiman,
//! "LogGP", 1997): how long the sender's processor is busy, how long an adapter and its link are occupied, and how long
//! the message takes to arrive. Each adapter sends one message at a time and receives one at a time.
//!
//! Times are nanoseconds of a clock that all processes share.

use std::str::FromStr;

/// The costs of a message of one length, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// How long the sender's processor is busy with it.
    pub busy_ns: u64,
    /// How long it occupies an adapter and its link: the interval between messages that follow each other.
    pub gap_ns: u64,
    /// From the call that sends it to its last byte at the receiving program, if nothing delays it.
    pub latency_ns: u64,
}

/// Costs by length: rows in ascending order, straight lines between them and beyond the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs(Vec<(u64, Cost)>);

/// Why a text is no table of costs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CostsError {
    /// A line is not four numbers.
    #[error(
        "line {0}: expected four whole numbers: bytes, and busy, gap and latency in nanoseconds"
    )]
    Line(usize),
    /// A line's number of bytes is not above the one before it.
    #[error("line {0}: its number of bytes must be larger than in the line before")]
    Order(usize),
    /// There are fewer than two rows.
    #[error("expected two rows or more, the first one for 0 bytes")]
    Short,
}

impl FromStr for Costs {
    type Err = CostsError;

    /// Reads one row a line: bytes, and busy, gap and latency in nanoseconds. Lines that begin with `#` are comments.
    fn from_str(text: &str) -> Result<Self, CostsError> {
        let mut rows: Vec<(u64, Cost)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let words: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
            let Ok(&[bytes, busy_ns, gap_ns, latency_ns]) = words.as_deref() else {
                return Err(CostsError::Line(number));
            };
            if rows.last().is_some_and(|(before, _)| *before >= bytes) {
                return Err(CostsError::Order(number));
            }
            rows.push((bytes, Cost { busy_ns, gap_ns, latency_ns }));
        }
        match rows.as_slice() {
            [(0, _), _, ..] => Ok(Self(rows)),
            _ => Err(CostsError::Short),
        }
    }
}

impl Costs {
    /// The costs of a message of this length.
    pub fn of(&self, bytes: u64) -> Cost {
        let Self(rows) = self;
        let above = rows.partition_point(|(length, _)| *length <= bytes);
        let above = above.clamp(1, rows.len() - 1);
        let ((from, low), (to, high)) = (rows[above - 1], rows[above]);
        let between = |low: u64, high: u64| {
            let part = i128::from(bytes - from) * (i128::from(high) - i128::from(low));
            let value = i128::from(low) + part / i128::from(to - from);
            u64::try_from(value.max(0)).unwrap_or(u64::MAX)
        };
        Cost {
            busy_ns: between(low.busy_ns, high.busy_ns),
            gap_ns: between(low.gap_ns, high.gap_ns),
            latency_ns: between(low.latency_ns, high.latency_ns),
        }
    }
}

/// The adapter of one host: one message at a time in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adapter {
    sends_until_ns: u64,
    received_at_ns: u64,
}

impl Adapter {
    /// A program sends a message now, which leaves after all messages before it. Returns when it arrives, unless it
    /// meets others there.
    pub fn send(&mut self, now_ns: u64, cost: Cost) -> u64 {
        let start = self.sends_until_ns.max(now_ns);
        self.sends_until_ns = start.saturating_add(cost.gap_ns);
        start.saturating_add(cost.latency_ns)
    }

    /// A message has reached the receiving adapter. Returns when its last byte is received: not
    /// before `due_ns`, and not before it has occupied the adapter (`gap_ns`) after the previous
    /// message.
    pub fn receive(&mut self, due_ns: u64, cost: Cost) -> u64 {
        self.received_at_ns = due_ns.max(self.received_at_ns.saturating_add(cost.gap_ns));
        self.received_at_ns
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COSTS: &str =
        "# bytes busy gap latency\n0 100 200 1000\n100 100 400 1500\n300 700 800 1900\n";

    fn costs() -> Costs {
        COSTS.parse().unwrap()
    }

    #[test]
    fn costs_lie_on_straight_lines_between_rows_and_beyond_the_last() {
        let at = |bytes| {
            let Cost { busy_ns, gap_ns, latency_ns } = costs().of(bytes);
            (busy_ns, gap_ns, latency_ns)
        };
        assert_eq!(at(0), (100, 200, 1000));
        assert_eq!(at(50), (100, 300, 1250));
        assert_eq!(at(100), (100, 400, 1500));
        assert_eq!(at(200), (400, 600, 1700));
        assert_eq!(at(300), (700, 800, 1900));
        assert_eq!(at(1300), (3700, 2800, 3900));
    }

    #[test]
    fn a_falling_line_ends_at_nothing() {
        let costs: Costs = "0 50 9 9\n10 40 9 9".parse().unwrap();
        assert_eq!(costs.of(20).busy_ns, 30);
        assert_eq!(costs.of(1000).busy_ns, 0);
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        let error = |text: &str| text.parse::<Costs>().unwrap_err();
        assert_eq!(error("0 1 2 3\n5 1 2"), CostsError::Line(2));
        assert_eq!(error("0 1 2 3\n5 1 2 -3"), CostsError::Line(2));
        assert_eq!(error("0 1 2 3\n\n8 1 2 3\n8 1 2 3"), CostsError::Order(4));
        assert_eq!(error("0 1 2 3"), CostsError::Short);
        assert_eq!(error("1 1 2 3\n2 1 2 3"), CostsError::Short);
    }

    /// Two messages of 100 bytes are sent at 0 ns and one at 2000 ns: the second waits until the
    /// adapter is free, the third does not wait.
    #[test]
    fn a_sender_occupies_its_adapter_for_the_gap() {
        let (mut adapter, cost) = (Adapter::default(), costs().of(100));
        assert_eq!([0, 0, 2000].map(|now| adapter.send(now, cost)), [1500, 1900, 3500]);
    }

    /// Messages of two senders reach one receiver at 1500 ns: the second is delayed by the gap of
    /// 400 ns. Messages that their sender has spaced 400 ns apart are not delayed again.
    #[test]
    fn senders_share_the_adapter_of_a_receiver() {
        let (mut adapter, cost) = (Adapter::default(), costs().of(100));
        assert_eq!([1500, 1500, 2300].map(|due| adapter.receive(due, cost)), [1500, 1900, 2300]);
        let mut alone = Adapter::default();
        assert_eq!([1500, 1900, 2300].map(|due| alone.receive(due, cost)), [1500, 1900, 2300]);
    }

    proptest! {
        /// However many senders there are, a receiver gets messages in order, none before it is due, and no two of them
        /// closer together than the later one's gap.
        #[test]
        fn a_receiver_gets_no_more_than_its_adapter_takes(
            messages in prop::collection::vec((0_u64..4, 0_u64..2000, 0_u64..500), 1..60),
        ) {
            let costs = costs();
            let mut senders = [Adapter::default(); 4];
            let mut now = 0;
            let mut due: Vec<(u64, u64)> = Vec::new();
            for (sender, after, bytes) in messages {
                now += after;
                due.push((senders[sender as usize].send(now, costs.of(bytes)), bytes));
                prop_assert!(due[due.len() - 1].0 >= now + costs.of(bytes).latency_ns);
            }
            due.sort_unstable();
            let mut receiver = Adapter::default();
            let mut before = 0;
            for (due, bytes) in due {
                let at = receiver.receive(due, costs.of(bytes));
                prop_assert!(at >= due && at >= before + costs.of(bytes).gap_ns);
                prop_assert!(at == due || at == before + costs.of(bytes).gap_ns);
                before = at;
            }
        }
    }
}
