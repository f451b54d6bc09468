//! Link-level stop and go.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{PositiveCount, Span};

use super::hysteresis::Marks;

/// Settings of link-level stop and go. An input of a switch or of an adapter that holds `stop`
/// cells stops its sender, and lets it continue when it holds `go` cells or fewer. Cells that
/// arrive before the sender reacts need space beyond `stop`: if the buffer is too small for them,
/// it overflows and the run fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopGoSettings {
    /// At how many held cells an input stops its cable.
    #[schemars(example = 8)]
    pub stop: PositiveCount,
    /// At how many held cells it lets it continue; less than `stop`.
    #[schemars(example = 4)]
    pub go: u32,
    /// From the decision of the input until the sender obeys, without the delay of the cable.
    #[serde(default)]
    pub reaction: Span,
}

impl StopGoSettings {
    /// The two marks; `None` if `go` does not lie below `stop`.
    pub fn marks(&self) -> Option<Marks> {
        let marks = Marks { high: self.stop.get(), low: self.go };
        (marks.low < marks.high).then_some(marks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cable_must_go_on_below_the_mark_that_stops_it() {
        let stop = PositiveCount::new(4).unwrap();
        let settings = |go| StopGoSettings { stop, go, reaction: Span::ZERO };
        assert_eq!(settings(3).marks(), Some(Marks { high: 4, low: 3 }));
        assert_eq!([settings(4).marks(), settings(5).marks()], [None, None]);
    }
}
