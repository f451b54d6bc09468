//! Emulation of another interconnect: messages are delivered when they would arrive there.
//!
//! The sender computes when a message is due from its length and from how long its own adapter is still busy, and writes
//! the due time into the ring before the message. The receiver leaves both in the ring until that time. If messages of
//! several senders are due at the same time, the receiving adapter takes them one after another.

use weft_protocol::emulation::{Adapter, Costs};

use super::{Endpoint, Event, Events, Message, Receive, Wanted};
use crate::channel::{Broken, Envelope};
use crate::parts::Parts;
use crate::peers::{PeerId, Peers};
use crate::rendezvous::Directory;
use crate::sys::{self, Errno};

/// How many messages an endpoint sends itself to measure its own overhead.
const SAMPLES: usize = 101;

/// The emulated interconnect, and this endpoint's adapter to it.
#[derive(Debug)]
pub(super) struct Emulation {
    costs: Costs,
    adapter: Adapter,
    /// The overhead of this endpoint's own software, which counts as part of the emulated latency.
    own_ns: u64,
    /// Peers whose ring has a due time without its message yet, and until when the sender's processor is busy with it.
    announced: Vec<(PeerId, u64)>,
    /// Whether messages are delivered before they are due, because their sender has ended.
    delivers_early: bool,
}

/// Whether a receive has ended with this event, and how.
const fn outcome_of(event: &Event) -> Option<Result<(), Errno>> {
    match event {
        Event::Received(_) => Some(Ok(())),
        Event::ReceiveFailed { error, .. } => Some(Err(*error)),
        _ => None,
    }
}

impl Endpoint {
    /// Delivers messages when they would arrive on an interconnect with these costs. Due times are earlier by `own_ns`,
    /// the overhead of the endpoint itself. All endpoints of a program must emulate the same costs.
    pub fn emulate(&mut self, costs: Costs, own_ns: u64) {
        self.emulation = Some(Box::new(Emulation {
            costs,
            adapter: Adapter::default(),
            own_ns,
            announced: Vec::new(),
            delivers_early: false,
        }));
    }

    /// The overhead of a short message without emulation, in nanoseconds: the median of some that an endpoint sends to
    /// itself.
    ///
    /// # Errors
    ///
    /// The kernel's error, or that of the message that did not arrive.
    pub fn own_ns(directory: Directory) -> Result<u64, Errno> {
        let mut endpoint = Self::new(directory)?;
        let mut peers = Peers::default();
        let this = peers.number(endpoint.name());
        let mut bytes = [0; 8];
        let parts = Parts::one(bytes.as_mut_ptr(), bytes.len());
        let envelope = Envelope { is_tagged: true, tag: 0, data: None };
        let message = Message {
            context: 0,
            envelope,
            parts: parts.clone(),
            is_reported: true,
            must_arrive: false,
        };
        let mut taken_ns = [0; SAMPLES];
        for taken_ns in &mut taken_ns {
            let mut outcome = None;
            let mut note = |event: Event| outcome = outcome.or(outcome_of(&event));
            let receive = Receive { context: 0, to: parts.clone(), is_reported: true };
            let wanted = Wanted { source: Some(this), tag: 0, ignore: 0 };
            let begin_ns = sys::monotonic_ns();
            // SAFETY: the bytes outlive the endpoint's use of them.
            unsafe {
                endpoint.receive(true, wanted, receive, &mut note);
                endpoint.send(&peers, this, &message, &mut note)?;
            }
            while outcome.is_none() {
                endpoint.progress(&mut peers, &mut |event: Event| {
                    outcome = outcome.or(outcome_of(&event));
                });
            }
            outcome.transpose()?;
            *taken_ns = sys::monotonic_ns() - begin_ns;
        }
        taken_ns.sort_unstable();
        Ok(taken_ns[SAMPLES / 2])
    }

    /// Writes the due time of the next record. Messages to this endpoint itself have none, as they cross no interconnect.
    #[cold]
    pub(super) fn announce(
        &mut self,
        peers: &Peers,
        to: PeerId,
        bytes: u64,
        events: &mut impl Events,
    ) -> Result<(), Errno> {
        let is_own = peers.name(to) == Some(self.name);
        let Some(emulation) = self.emulation.as_deref().filter(|_| !is_own) else { return Ok(()) };
        if emulation.announced.iter().any(|(peer, _)| *peer == to) {
            return Ok(());
        }
        let (now_ns, cost) = (sys::monotonic_ns(), emulation.costs.of(bytes));
        let mut adapter = emulation.adapter;
        let due_ns = adapter.send(now_ns, cost).saturating_sub(emulation.own_ns);
        match self.outgoing_channel(peers, to)?.announce(due_ns, bytes) {
            Ok(true) => {
                if let Some(emulation) = &mut self.emulation {
                    emulation.adapter = adapter;
                    emulation.announced.push((to, now_ns.saturating_add(cost.busy_ns)));
                }
                Ok(())
            }
            unsent => Err(self.not_written(to, unsent.err(), events)),
        }
    }

    /// The record behind the due time is in the ring. With `is_busy` the call lasts as long as the emulated interconnect
    /// keeps the sender's processor busy.
    #[cold]
    pub(super) fn finish_announced(&mut self, to: PeerId, is_busy: bool) {
        let Some(emulation) = &mut self.emulation else { return };
        let Some(index) = emulation.announced.iter().position(|(peer, _)| *peer == to) else {
            return;
        };
        let (_, free_ns) = emulation.announced.swap_remove(index);
        while is_busy && sys::monotonic_ns() < free_ns {
            std::hint::spin_loop();
        }
    }

    /// Whether the record behind a due time may be delivered.
    ///
    /// # Errors
    ///
    /// `Broken::Protocol` if this endpoint emulates nothing, so that no peer may send due times.
    #[cold]
    pub(super) fn has_arrived(
        &mut self,
        channel: u32,
        due_ns: u64,
        bytes: u64,
    ) -> Result<bool, Broken> {
        let emulation = self.emulation.as_deref_mut().ok_or(Broken::Protocol)?;
        let from = self.incoming.get(channel).ok_or(Broken::Closed)?;
        let now_ns = sys::monotonic_ns();
        // The adapter is reserved only once a record is due, so that a later one does not block an earlier one.
        if from.arrives_ns.is_none() && now_ns >= due_ns {
            from.arrives_ns = Some(emulation.adapter.receive(due_ns, emulation.costs.of(bytes)));
        }
        let has_arrived = from.arrives_ns.is_some_and(|arrives_ns| now_ns >= arrives_ns);
        from.is_held_back = !has_arrived && !emulation.delivers_early;
        if from.is_held_back {
            return Ok(false);
        }
        from.arrives_ns = None;
        // The record that is due follows at once, so that the same poll takes it too.
        from.found_at = self.polls;
        Ok(true)
    }

    /// Whether a record is held back until it is due: nothing wakes a sleeping thread then, so it must go on polling.
    pub fn holds_back(&self) -> bool {
        self.emulation.is_some() && self.incoming.iter().any(|from| from.is_held_back)
    }

    /// Delivers records before they are due, or no longer.
    pub(super) fn deliver_early(&mut self, delivers_early: bool) {
        if let Some(emulation) = &mut self.emulation {
            emulation.delivers_early = delivers_early;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
mod tests {
    use weft_protocol::emulation::Cost;

    use super::*;

    /// Messages that occupy the adapter for a second each are retried while the ring is full.
    #[test]
    fn a_message_that_finds_the_ring_full_occupies_the_adapter_once() {
        let path = std::env::temp_dir().join(format!("weft-emulated-{}", std::process::id()));
        let directory = || Directory::at(path.clone()).unwrap();
        let mut one = Endpoint::new(directory()).unwrap();
        let other = Endpoint::new(directory()).unwrap();
        one.emulate("0 0 1000000000 0\n1 0 1000000000 0".parse().unwrap(), 0);
        let mut peers = Peers::default();
        let to = peers.number(other.name());
        let bytes = [7; 1000];
        let message = Message {
            context: 0,
            envelope: Envelope { is_tagged: true, tag: 0, data: None },
            parts: Parts::one(bytes.as_ptr().cast_mut(), bytes.len()),
            is_reported: false,
            must_arrive: false,
        };
        let begin_ns = sys::monotonic_ns();
        // SAFETY: the bytes are there.
        let mut post = || unsafe { one.send(&peers, to, &message, &mut |_: Event| {}) };
        let mut sent = 0;
        while post().is_ok() {
            sent += 1;
        }
        assert!(sent > 10);
        assert!((0..1000).all(|_| post() == Err(libc::EAGAIN)));
        let emulation = one.emulation.as_ref().unwrap();
        let waiting = emulation.announced.len() as u64;
        assert!(waiting <= 1);
        let nothing = Cost { busy_ns: 0, gap_ns: 0, latency_ns: 0 };
        let occupied_ns = emulation.adapter.clone().send(0, nothing) - begin_ns;
        assert_eq!(occupied_ns / 1_000_000_000, sent + waiting);
        drop((one, other));
        std::fs::remove_dir(path).unwrap();
    }
}
