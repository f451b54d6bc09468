//! How long each direction of each cable was busy.

use serde::{Deserialize, Serialize};
use weft_units::Span;

/// The time for which each direction of each cable carried something, from the end of the warm-up
/// to the end of a run. Directions are numbered by who sends: the ports of all switches first, then
/// the hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkUse {
    busy: Vec<Span>,
}

impl LinkUse {
    /// Links whose busy times are known.
    pub fn known(busy: Vec<Span>) -> LinkUse {
        LinkUse { busy }
    }

    /// The busy time of each link, by number.
    pub fn busy(&self) -> &[Span] {
        &self.busy
    }
}
