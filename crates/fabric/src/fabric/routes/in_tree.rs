//! Routes through a tree, for many packets one after another.

use super::{RouteState, Routes};
use crate::fabric::next_hops::{Below, NextHops};

/// Routes through a tree that look at packets alone.
#[derive(Clone, Copy, Debug)]
pub struct TreeRoutes<'a> {
    below: &'a [Below],
}

impl Routes {
    /// The same routes, if the fabric is a tree and they look at packets alone.
    #[inline]
    pub fn in_tree(&self) -> Option<TreeRoutes<'_>> {
        match &self.next_hops {
            NextHops::Tree(below) if self.look_at_packets_alone() => Some(TreeRoutes { below }),
            _ => None,
        }
    }
}

impl TreeRoutes<'_> {
    /// See [`Routes::port`].
    #[inline(always)]
    pub fn port(&self, switch: u32, to: u32, route_state: &mut RouteState) -> u32 {
        self.below[switch as usize].port(to, |count| route_state.rank(count))
    }
}
