//! Source quench: a congested switch stops the source of the connection that fills it.
//!
//! A switch watches the queue of each connection ([`QuenchMonitor`]) and sends a quench to its source
//! when the queue is long, an unquench when it is short again (cLAN C: "the switch will start sending
//! Source Quench indications to VCI source, which will respond immediately by shutting down the source
//! until an unquench indication arrives"). A connection may be congested at several switches at
//! once; its source counts, and stays shut until each of them has lifted its quench
//! ([`QuenchedSource`]). With a single flag the first unquench would open it against the others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, PositiveCount};

use super::hysteresis::{Crossing, Hysteresis, Marks};
use super::stop_go::StopGoSettings;

/// Settings of source quench.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuenchSettings {
    /// At how many cells of a connection at a port its source is quenched.
    pub quench: PositiveCount,
    /// At how many cells it is unquenched; less than `quench`.
    pub unquench: u32,
    /// At how many cells at a port, of all connections together, every connection with more than
    /// `unquench` cells there is quenched (cLAN C: congestion is evaluated "taking into account
    /// VCI, link, and general buffer utilization"). Without a value the total of a port does not
    /// matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PositiveCount>,
    /// At how many cells in the memory of a switch, of all connections together, every connection
    /// with more than `unquench` cells at a port is quenched. Without a value this total does not
    /// matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<PositiveCount>,
    /// Size on the wire of a quench and of an unquench. They travel back along the route of the
    /// connection, ahead of waiting cells, and occupy each cable.
    pub indication: Bytes,
    /// The link-level flow control underneath (cLAN G: "GigaNet also employs a link-level flow
    /// control").
    pub link: StopGoSettings,
}

/// A signal of a switch to the source of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quenching {
    /// Stop.
    Quench,
    /// This switch no longer asks for a stop.
    Unquench,
}

/// The queue of one connection at one port of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuenchMonitor {
    queue: Hysteresis,
}

/// The source of a connection: by how many switches it is quenched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuenchedSource {
    quenches: u16,
}

impl QuenchSettings {
    /// The marks of a connection; `None` if `unquench` does not lie below `quench`.
    pub fn marks(&self) -> Option<Marks> {
        let marks = Marks { high: self.quench.get(), low: self.unquench };
        (marks.low < marks.high).then_some(marks)
    }
}

impl QuenchMonitor {
    /// A cell joined the queue. `is_crowded` says whether the port or the memory is congested.
    #[inline]
    pub fn enter(&mut self, marks: Marks, is_crowded: bool) -> Option<Quenching> {
        let high = if is_crowded { marks.low + 1 } else { marks.high };
        let crossing = self.queue.raise(Marks { high, ..marks });
        crossing.map(|_| Quenching::Quench)
    }

    /// A cell left the queue.
    #[inline]
    pub fn leave(&mut self, marks: Marks) -> Option<Quenching> {
        self.queue.lower(marks).map(|crossing| match crossing {
            Crossing::Low => Quenching::Unquench,
            Crossing::High => Quenching::Quench,
        })
    }

    /// Cells in the queue.
    #[inline]
    pub fn held(&self) -> u32 {
        self.queue.held()
    }
}

impl QuenchedSource {
    /// An indication arrived. Returns whether the source stops (`Some(true)`), may go on
    /// (`Some(false)`), or stays as it was. One switch's indications arrive in the order in which it
    /// sent them, so that no unquench comes before its quench.
    #[inline]
    pub fn hear(&mut self, indication: Quenching) -> Option<bool> {
        let was_open = self.is_open();
        match indication {
            Quenching::Quench => self.quenches += 1,
            Quenching::Unquench => {
                debug_assert!(self.quenches > 0, "an unquench without its quench");
                self.quenches = self.quenches.saturating_sub(1);
            }
        }
        (self.is_open() != was_open).then_some(was_open)
    }

    /// Whether no switch asks for a stop.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.quenches == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Span;

    const MARKS: Marks = Marks { high: 4, low: 1 };

    #[test]
    fn a_queue_quenches_at_one_mark_and_unquenches_at_another() {
        let mut queue = QuenchMonitor::default();
        let enter: Vec<_> = (0..5).map(|_| queue.enter(MARKS, false)).collect();
        assert_eq!(enter, [None, None, None, Some(Quenching::Quench), None]);
        let leave: Vec<_> = (0..5).map(|_| queue.leave(MARKS)).collect();
        assert_eq!(leave, [None, None, None, Some(Quenching::Unquench), None]);
    }

    #[test]
    fn a_crowded_port_quenches_earlier_and_never_at_once() {
        let mut queue = QuenchMonitor::default();
        assert_eq!(queue.enter(MARKS, true), None);
        assert_eq!(queue.enter(MARKS, true), Some(Quenching::Quench));
        assert_eq!(queue.leave(MARKS), Some(Quenching::Unquench));
    }

    /// Two congested switches on one route: the source resumes when both have lifted their quench.
    #[test]
    fn quenches_of_several_switches_are_counted() {
        let mut source = QuenchedSource::default();
        use Quenching::{Quench, Unquench};
        let heard = [Quench, Quench, Unquench, Unquench].map(|said| source.hear(said));
        assert_eq!(heard, [Some(true), None, None, Some(false)]);
        assert!(source.is_open());
    }

    #[test]
    fn a_source_must_be_let_go_below_the_mark_that_stops_it() {
        let count = |number| PositiveCount::new(number).unwrap();
        let settings = |unquench| QuenchSettings {
            quench: count(4),
            unquench,
            port: None,
            memory: None,
            indication: Bytes(8),
            link: StopGoSettings { stop: count(9), go: 8, reaction: Span::ZERO },
        };
        assert_eq!(settings(3).marks(), Some(Marks { high: 4, low: 3 }));
        assert_eq!([settings(4).marks(), settings(5).marks()], [None, None]);
    }
}
