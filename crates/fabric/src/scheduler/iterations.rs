//! How many rounds an iterative scheduler may take.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MAX_PORTS, SchedulerError};

/// A number of rounds of request, grant and accept in a slot, 1 to [`MAX_PORTS`]; 4 by default,
/// as is usual for 16 ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "u32", into = "u32")]
#[schemars(extend("minimum" = 1, "maximum" = MAX_PORTS))]
pub struct Iterations(u32);

impl Iterations {
    /// That many rounds, if in range.
    pub const fn new(iterations: u32) -> Result<Iterations, SchedulerError> {
        if iterations == 0 || iterations as usize > MAX_PORTS {
            return Err(SchedulerError::Iterations { iterations });
        }
        Ok(Iterations(iterations))
    }

    /// The number of rounds.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Whether no further round could add a connection, whatever the requests and the size of the
    /// switch: a round that has anything to grant adds at least one.
    pub(super) const fn always_converge(self) -> bool {
        self.0 as usize == MAX_PORTS
    }

    /// One round, the usual four, and as many as it takes.
    pub(super) const fn worth_comparing() -> [Iterations; 3] {
        [Iterations(1), Iterations(4), Iterations(MAX_PORTS as u32)]
    }
}

impl Default for Iterations {
    fn default() -> Iterations {
        Iterations(4)
    }
}

impl TryFrom<u32> for Iterations {
    type Error = SchedulerError;

    fn try_from(iterations: u32) -> Result<Iterations, SchedulerError> {
        Iterations::new(iterations)
    }
}

impl From<Iterations> for u32 {
    fn from(iterations: Iterations) -> u32 {
        iterations.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_range_is_refused_with_the_range() {
        assert_eq!(Iterations::new(1024).map(Iterations::get), Ok(1024));
        let refused = |n| Iterations::new(n).map_err(|error| error.to_string());
        assert_eq!(refused(0), Err("iterations = 0: accepted is 1 to 1024".into()));
        assert_eq!(refused(1025), Err("iterations = 1025: accepted is 1 to 1024".into()));
    }
}
