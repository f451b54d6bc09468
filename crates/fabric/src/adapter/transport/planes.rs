//! The plane of a flow.

use std::sync::Arc;

use super::Transports;
use crate::fabric::LivePlanes;

/// Spreads differences in a few bits over the upper bits.
const SPREAD: u64 = 0xd6e8_feb8_6659_fd93;

impl Transports {
    /// Over how many planes flows are spread, each of which keeps to one.
    #[inline]
    pub fn planes(&self) -> u32 {
        self.planes
    }

    /// The plane of a flow: a random one, by its number and the seed of the run. If that plane no longer leads to
    /// its target, a random one of those that do.
    #[inline]
    pub fn plane(&self, flow: u32) -> u32 {
        match self.planes {
            1 => 0,
            planes => {
                let seed = self.seed(flow);
                let spread = (seed ^ seed >> 32).wrapping_mul(SPREAD);
                let wide = (spread >> 32) * u64::from(planes);
                let own = (wide >> 32) as u32;
                match self.left.as_deref() {
                    None => own,
                    Some(left) => {
                        let hosts = self.flows[flow as usize].hosts();
                        left.instead(own, hosts, spread.rotate_left(17))
                    }
                }
            }
        }
    }

    /// Moves flows that keep to planes to planes that lead to their targets; all planes do if `left` is none. Flows
    /// that may send move to the list of their new plane.
    pub fn keep_to(&mut self, left: Option<Arc<LivePlanes>>) {
        self.left = left;
        if self.planes == 1 {
            return;
        }
        let mut standing = Vec::new();
        for place in 0..self.turns.len() {
            while let Some(flow) = self.take_first(place) {
                standing.push(flow);
            }
        }
        standing.into_iter().for_each(|flow| self.stand_again(flow));
    }

    /// Start of the random sequence of a flow; sequences of flows must not overlap.
    pub(super) fn seed(&self, flow: u32) -> u64 {
        self.key ^ u64::from(flow).wrapping_mul(SPREAD)
    }
}
