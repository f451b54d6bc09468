//! A limit on how often a host may use a channel; an option, see [`super::AdapterSettings`].

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{PositiveCount, Span, Time};

/// Settings of a limit on requests, retransmissions included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThrottleSettings {
    /// How many requests a host may start within `per`.
    pub requests: PositiveCount,
    /// The length of the window in which they are counted.
    pub per: Span,
}

/// Tokens of one host: each start of a request takes one, which is returned `per` later. So no
/// window of that length contains more starts than there are tokens.
#[derive(Clone, Debug)]
pub struct Throttle {
    settings: ThrottleSettings,
    /// When the tokens in use are returned, earliest first.
    returns: VecDeque<Time>,
}

impl Throttle {
    /// All tokens are available.
    pub fn new(settings: ThrottleSettings) -> Throttle {
        let returns = VecDeque::with_capacity(settings.requests.as_usize());
        Throttle { settings, returns }
    }

    /// When the next request may start.
    pub fn ready_at(&self) -> Time {
        if self.returns.len() < self.settings.requests.as_usize() {
            return Time::ZERO;
        }
        self.returns.front().copied().unwrap_or(Time::ZERO)
    }

    /// A request starts, not before [`Throttle::ready_at`].
    pub fn start(&mut self, now: Time) {
        if self.returns.len() == self.settings.requests.as_usize() {
            self.returns.pop_front();
        }
        self.returns.push_back(now + self.settings.per);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_window_sees_more_starts_than_tokens() {
        let requests = PositiveCount::new(2).expect("positive");
        let mut throttle = Throttle::new(ThrottleSettings { requests, per: Span(100) });
        throttle.start(Time(10));
        assert_eq!(throttle.ready_at(), Time::ZERO);
        throttle.start(Time(30));
        assert_eq!(throttle.ready_at(), Time(110));
        throttle.start(Time(110));
        assert_eq!(throttle.ready_at(), Time(130));
    }
}
