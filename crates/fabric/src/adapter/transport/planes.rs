//! The plane of a flow.

use super::Transports;

/// Spreads what differs in a few bits over the upper ones.
const SPREAD: u64 = 0xd6e8_feb8_6659_fd93;

impl Transports {
    /// Over how many planes flows are spread, each of which keeps to one.
    #[inline]
    pub fn planes(&self) -> u32 {
        self.planes
    }

    /// The plane to which a flow keeps: a random one by its number and the seed of the run.
    #[inline]
    pub fn plane(&self, flow: u32) -> u32 {
        match self.planes {
            1 => 0,
            planes => {
                let seed = self.seed(flow);
                let drawn = (seed ^ seed >> 32).wrapping_mul(SPREAD) >> 32;
                let wide = drawn * u64::from(planes);
                (wide >> 32) as u32
            }
        }
    }

    /// What is drawn for a flow begins here: flows of one run are apart by more than their numbers.
    pub(super) fn seed(&self, flow: u32) -> u64 {
        self.key ^ u64::from(flow).wrapping_mul(SPREAD)
    }
}
