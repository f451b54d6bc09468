//! Prefetches the state of flows into the cache before it is needed.

use weft_kernel::prefetch_whole;

use super::Transports;

impl Transports {
    /// A packet of a flow will soon reach the initiator, if it is a response, or the target.
    #[inline]
    pub fn prefetch(&self, flow: u32, is_answer: bool) {
        let (initiators, targets) = (&self.initiators, &self.targets);
        if !is_answer && let Some(Some(own)) = targets.get(flow as usize) {
            prefetch_whole(&**own);
        } else if is_answer && let Some(Some(own)) = initiators.get(flow as usize) {
            prefetch_whole(&**own);
        }
    }

    /// A host is woken soon, most likely since a flow may send.
    #[inline]
    pub fn prefetch_wake(&self, item: u32) {
        self.prefetch(item >> 2, true);
    }

    /// A host is soon asked for a packet, most likely of the first class.
    #[inline]
    pub fn prefetch_next(&self, host: u32) {
        let next = self.turns.get(host as usize * self.classes);
        next.into_iter().for_each(|own| self.prefetch(own.first, true));
    }
}
