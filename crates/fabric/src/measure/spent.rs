//! What packets spend on their way apart from waiting.

use weft_units::Span;

/// The times of a packet apart from waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On cables.
    pub wire: Span,
    /// In switches.
    pub switches: Span,
    /// For its length.
    pub transmission: Span,
}

impl Spent {
    /// The same, including what another step used.
    #[must_use]
    pub fn and(self, other: Spent) -> Spent {
        Spent {
            wire: self.wire + other.wire,
            switches: self.switches + other.switches,
            transmission: self.transmission + other.transmission,
        }
    }

    /// The same without a step that is taken back.
    #[must_use]
    pub fn without(self, other: Spent) -> Spent {
        Spent {
            wire: Span(self.wire.0 - other.wire.0),
            switches: Span(self.switches.0 - other.switches.0),
            transmission: Span(self.transmission.0 - other.transmission.0),
        }
    }
}
