//! How long each direction of each cable was busy.

use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

/// The time for which each direction of each cable carried something, from the end of the warm-up
/// to the end of a run. Directions are numbered by who sends: the ports of all switches first, then
/// the hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkUse {
    until: Time,
    busy: Vec<Span>,
}

impl LinkUse {
    /// Idle links, watched until the end of a run.
    pub fn among(links: usize, until: Time) -> LinkUse {
        LinkUse { until, busy: vec![Span::ZERO; links] }
    }

    /// Links whose busy times are known.
    pub fn known(busy: Vec<Span>) -> LinkUse {
        LinkUse { until: Time::ZERO, busy }
    }

    /// Something is on a link for `span` from `start` on; what of it lies outside the window that
    /// begins at `from` does not count, nor does a link that is not among them.
    #[inline]
    pub fn occupy(&mut self, link: usize, from: Time, start: Time, span: Span) {
        let (start, end) = (start.max(from), (start + span).min(self.until));
        if let Some(busy) = self.busy.get_mut(link)
            && end > start
        {
            *busy += end.since(start);
        }
    }

    /// The busy time of each link, by number.
    pub fn busy(&self) -> &[Span] {
        &self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_the_window_does_not_count() {
        let mut links = LinkUse::among(2, Time(1_000));
        let from = Time(100);
        for start in [0, 50, 100, 500, 950, 1_000, 2_000] {
            links.occupy(0, from, Time(start), Span(100));
        }
        links.occupy(2, from, Time(500), Span(100));
        assert_eq!(links.busy(), [Span(50 + 100 + 100 + 50), Span::ZERO]);
    }
}
