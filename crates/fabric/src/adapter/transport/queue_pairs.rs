//! What outlives a flow: its queue pair, if queue pairs are kept.

use std::collections::HashMap;

use weft_protocol::congestion::CongestionControl;
use weft_protocol::transport::Notifier;

use super::Transports;

/// The queue pair of a flow.
#[derive(Debug)]
pub(super) struct QueuePair {
    /// Its number among those that are kept.
    pub number: u32,
    pub control: CongestionControl,
    pub notifier: Notifier,
    /// Bytes of the flows that it carried before, as they are on the wire.
    pub before: u64,
}

/// Queue pairs that are kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// By initiator, target and class those that no flow uses, the one that was used last at the end.
    idle: HashMap<(u32, u32, u8), Vec<u32>>,
    /// By number what is known at the initiator of one that no flow uses, and at the target.
    initiators: Vec<Option<(CongestionControl, u64)>>,
    notifiers: Vec<Notifier>,
}

impl Transports {
    /// A queue pair for a flow that begins: one that is kept and that no flow uses, or a new one, whose
    /// congestion control is `fresh`.
    pub(super) fn open(&mut self, flow: u32, fresh: CongestionControl) -> QueuePair {
        let ends = self.ends(flow);
        let (control, notifier, before) = (fresh, Notifier::default(), 0);
        let Some(kept) = &mut self.kept else {
            return QueuePair { number: 0, control, notifier, before };
        };
        if let Some(number) = kept.idle.get_mut(&ends).and_then(Vec::pop)
            && let Some((control, before)) = kept.initiators[number as usize].take()
        {
            let notifier = kept.notifiers[number as usize];
            return QueuePair { number, control, notifier, before };
        }
        let number = kept.initiators.len() as u32;
        kept.initiators.push(None);
        kept.notifiers.push(notifier);
        QueuePair { number, control, notifier, before }
    }

    /// The initiator of a flow knows that all of it is with its target.
    pub(super) fn close(&mut self, flow: u32) {
        let (ends, packets) = (self.ends(flow), u64::from(self.packets(flow)));
        let Some(own) = self.initiators[flow as usize].take() else { return };
        if let Some(kept) = &mut self.kept {
            let before = own.before + packets * (self.payload + self.overhead);
            kept.initiators[own.queue_pair as usize] = Some((own.control, before));
            kept.idle.entry(ends).or_default().push(own.queue_pair);
        }
    }

    /// All of a flow is with its target.
    pub(super) fn complete(&mut self, flow: u32) {
        let Some(own) = self.targets[flow as usize].take() else { return };
        if let Some(kept) = &mut self.kept {
            kept.notifiers[own.queue_pair as usize] = own.notifier;
        }
    }

    fn ends(&self, flow: u32) -> (u32, u32, u8) {
        let own = self.flow(flow);
        (own.from, own.to, own.class)
    }
}
