//! Flows of a host and class that may send, in turn.

use super::{NONE, Transports};
use crate::workload::FlowDemand;

/// The first and the last of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    pub first: u32,
    pub last: u32,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { first: NONE, last: NONE }
    }
}

impl Transports {
    /// Appends a flow that may send to the list of its host and class.
    #[inline]
    pub(super) fn line_up(&mut self, flow: u32) {
        let FlowDemand { from, class, .. } = self.flows[flow as usize];
        let place = self.turn_of(self.plane(flow) * self.lines.len() as u32 + from, class);
        let turns = &mut self.turns[place];
        let before = std::mem::replace(&mut turns.last, flow);
        match self.initiators.get_mut(before as usize).and_then(Option::as_deref_mut) {
            Some(before) => before.behind = flow,
            None => turns.first = flow,
        }
    }

    /// Removes the first flow of a list.
    #[inline]
    pub(super) fn take_first(&mut self, place: usize) -> Option<u32> {
        let flow = self.turns[place].first;
        let own = self.initiators.get_mut(flow as usize)?.as_deref_mut()?;
        let turns = &mut self.turns[place];
        turns.first = own.behind;
        if turns.first == NONE {
            turns.last = NONE;
        }
        own.is_queued = false;
        Some(flow)
    }

    /// Appends a flow that was taken to the list again.
    pub(super) fn stand_again(&mut self, flow: u32) {
        if let Some(own) = self.initiators[flow as usize].as_deref_mut() {
            (own.is_queued, own.behind) = (true, NONE);
            self.line_up(flow);
        }
    }

    /// The place of the flows of a host and class.
    #[inline]
    pub(super) fn turn_of(&self, host: u32, class: u8) -> usize {
        host as usize * self.classes + usize::from(class)
    }

    /// Whether a flow of a host and class may send. Where flows keep to planes, hosts are counted plane by plane.
    #[inline]
    pub fn is_waiting(&self, host: u32, class: u8) -> bool {
        self.turns[self.turn_of(host, class)].first != NONE
    }

    /// Moves flows that may not leave by the port that asks to the end of the list, until the first one may. Returns
    /// whether there is one.
    #[inline]
    pub(super) fn turn_to(&mut self, place: usize, may_leave: impl Fn(u32, u32) -> bool) -> bool {
        let begin = self.turns[place].first;
        let mut first = begin;
        while first != NONE {
            let FlowDemand { from, to, .. } = self.flows[first as usize];
            if may_leave(from, to) {
                return true;
            }
            if let Some(flow) = self.take_first(place) {
                self.stand_again(flow);
            }
            first = self.turns[place].first;
            if first == begin {
                return false;
            }
        }
        false
    }
}
