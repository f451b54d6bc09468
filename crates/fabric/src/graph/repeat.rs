//! Accounts for the use of ports in periods that repeat, without simulating these.

use weft_units::{Span, Time};

use super::{Graph, Kind, Port, RecordingWindow};

/// The state of a directed port at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortUse {
    /// When it will be free, or became free.
    pub free: Time,
    /// How long it was busy within the window.
    pub busy: Span,
}

impl PortUse {
    /// Whether the future of the port is the same, apart from a shift in time, from the state `before`
    /// and from this one a `period` later: it will be free later by a period, or was free and has not
    /// been used.
    pub fn is_again(self, before: PortUse, instant: Time, period: Span) -> bool {
        self.free == before.free + period || (self.free == before.free && self.free <= instant)
    }
}

impl Graph {
    /// Whether packets never wait for room and are never dropped: all queues are at outputs and
    /// unlimited.
    pub fn is_without_limits(&self) -> bool {
        !self.has_limits && self.kinds.iter().all(|kind| matches!(kind, Kind::Plain))
    }

    /// The state of every directed port.
    pub fn uses(&self) -> Vec<PortUse> {
        self.ports.iter().map(|port| PortUse { free: port.free(), busy: port.busy() }).collect()
    }

    /// How often a period that began at `since` may be repeated such that all repetitions are within
    /// the window in which links are recorded as busy, or all outside.
    pub fn repeats_in_window(&self, since: Time, period: Span) -> u64 {
        let RecordingWindow { from, until } = self.window;
        if since >= until {
            return u64::MAX;
        }
        let last = self.ports.iter().map(Port::free).max().unwrap_or(Time::ZERO);
        if since < from { 0 } else { until.since(last).0 / period.0 }
    }

    /// Whether an interval is within the window in which links are recorded as busy.
    #[inline]
    pub fn is_in_window(&self, since: Time, until: Time) -> bool {
        since >= self.window.from && until <= self.window.until
    }

    /// A port has sent this many packets [in the window](Self::is_in_window), each as soon as it
    /// arrived.
    pub fn count_sent(&self, port: u32, packets: u64) {
        self.ports[port as usize].go_on(Span::ZERO, self.span(port) * packets);
    }

    /// Repeats what all ports have done since `before`, `times` times, each time a `period` later.
    pub fn repeat(&self, before: &[PortUse], period: Span, times: u64) {
        for (port, before) in self.ports.iter().zip(before) {
            if port.free() != before.free {
                let busy = Span(port.busy().0 - before.busy.0);
                port.go_on(period * times, busy * times);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_idle_is_where_it_was_and_one_in_use_is_a_period_later() {
        let at = |free| PortUse { free: Time(free), busy: Span::ZERO };
        let is_again = |now, before| at(now).is_again(at(before), Time(100), Span(30));
        assert!(is_again(90, 90) && is_again(100, 100) && is_again(160, 130));
        assert!(is_again(120, 90), "in use in between");
        assert!(!is_again(110, 110) && !is_again(170, 130) && !is_again(129, 100));
    }
}
