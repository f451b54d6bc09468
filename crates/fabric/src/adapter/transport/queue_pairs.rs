//! What outlives a flow: its queue pair, if queue pairs are kept.

use std::collections::HashMap;

use weft_protocol::congestion::CongestionControl;
use weft_protocol::transport::Notifier;
use weft_units::Time;

use super::{NONE, Transports};

/// The queue pair of a flow.
#[derive(Debug)]
pub(super) struct QueuePair {
    /// Its number among the queue pairs that are kept.
    pub number: u32,
    pub control: CongestionControl,
    pub notifier: Notifier,
    /// Bytes of the flows that it carried before, as they are on the wire.
    pub before: u64,
    /// When its rate next permits a packet.
    pub ready: Time,
}

/// The initiator's state of a queue pair that no flow uses.
#[derive(Debug)]
struct Idle {
    control: CongestionControl,
    before: u64,
    ready: Time,
}

/// The two hosts and the class of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    from: u32,
    to: u32,
    class: u8,
}

/// Queue pairs that are kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Queue pairs that no flow uses, the most recently used last.
    idle: HashMap<Ends, Vec<u32>>,
    /// By number: the initiator's state if no flow uses it, the flow that uses it, and the target's state.
    initiators: Vec<Option<Idle>>,
    users: Vec<u32>,
    notifiers: Vec<Notifier>,
    /// By flow, the number of its queue pair.
    numbers: Vec<u32>,
}

impl Transports {
    /// A queue pair for a flow that begins: one that is kept and that no flow uses, or a new one, whose
    /// congestion control is `fresh`.
    pub(super) fn open(&mut self, flow: u32, fresh: CongestionControl) -> QueuePair {
        let ends = self.ends(flow);
        let (control, notifier, before, ready) = (fresh, Notifier::default(), 0, Time::ZERO);
        let Some(kept) = &mut self.kept else {
            return QueuePair { number: 0, control, notifier, before, ready };
        };
        if kept.numbers.len() <= flow as usize {
            kept.numbers.resize(flow as usize + 1, NONE);
        }
        if let Some(number) = kept.idle.get_mut(&ends).and_then(Vec::pop)
            && let Some(own) = kept.initiators[number as usize].take()
        {
            (kept.numbers[flow as usize], kept.users[number as usize]) = (number, flow);
            let Idle { control, before, ready } = own;
            let notifier = kept.notifiers[number as usize];
            return QueuePair { number, control, notifier, before, ready };
        }
        let number = kept.initiators.len() as u32;
        kept.numbers[flow as usize] = number;
        kept.initiators.push(None);
        kept.users.push(flow);
        kept.notifiers.push(notifier);
        QueuePair { number, control, notifier, before, ready }
    }

    /// A notification has arrived for a flow that has ended at its initiator: it applies to the queue
    /// pair, if that is kept. Returns whether it did.
    pub(super) fn notify_kept(&mut self, now: Time, flow: u32) -> bool {
        let Some(kept) = &mut self.kept else { return false };
        let Some(&number) = kept.numbers.get(flow as usize).filter(|number| **number != NONE)
        else {
            return false;
        };
        let user = kept.users[number as usize];
        let control = match &mut kept.initiators[number as usize] {
            Some(own) => &mut own.control,
            None => match self.initiators.get_mut(user as usize).and_then(Option::as_deref_mut) {
                Some(own) => &mut own.control,
                None => return false,
            },
        };
        control.notified(now);
        true
    }

    /// The initiator of a flow knows that its target has all of it.
    pub(super) fn close(&mut self, flow: u32) {
        let (ends, packets) = (self.ends(flow), u64::from(self.packets(flow)));
        let Some(own) = self.initiators[flow as usize].take() else { return };
        if let Some(kept) = &mut self.kept {
            let before = own.before + packets * (self.payload + self.overhead);
            let (control, ready) = (own.control, own.ready);
            kept.initiators[own.queue_pair as usize] = Some(Idle { control, before, ready });
            kept.users[own.queue_pair as usize] = NONE;
            kept.idle.entry(ends).or_default().push(own.queue_pair);
        }
    }

    /// The target has all of a flow.
    pub(super) fn complete(&mut self, flow: u32) {
        let Some(own) = self.targets[flow as usize].take() else { return };
        if let Some(kept) = &mut self.kept {
            kept.notifiers[own.queue_pair as usize] = own.notifier;
        }
    }

    fn ends(&self, flow: u32) -> Ends {
        let own = self.flow(flow);
        Ends { from: own.from, to: own.to, class: own.class }
    }
}
