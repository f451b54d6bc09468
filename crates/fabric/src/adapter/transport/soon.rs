//! Prefetches the state of flows into the cache before it is needed.

use weft_kernel::{prefetch, prefetch_first, prefetch_whole};
use weft_protocol::transport::LossRecovery;

use super::Transports;
use super::ends::Initiator;

impl Transports {
    /// A packet of a flow will soon reach the initiator, if it is a response, or the target.
    #[inline]
    pub fn prefetch(&self, flow: u32, is_answer: bool) {
        prefetch(&self.flows, flow as usize);
        if is_answer {
            return self.prefetch_initiator(flow);
        }
        prefetch(&self.outcomes, flow as usize);
        if let Some(Some(own)) = self.targets.get(flow as usize) {
            prefetch_whole(&**own);
        }
    }

    #[inline]
    fn prefetch_initiator(&self, flow: u32) {
        let Some(Some(own)) = self.initiators.get(flow as usize) else { return };
        match self.settings.reliability {
            LossRecovery::GoBackN => prefetch_first(&**own, Initiator::OF_GO_BACK_N),
            LossRecovery::SelectiveRepeat => prefetch_whole(&**own),
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
