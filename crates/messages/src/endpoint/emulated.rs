//! As if on another interconnect: messages arrive when they would arrive there.
//!
//! The sender computes when a message is due, from what its own adapter has still to send, and writes that into the ring
//! before the message. The receiver leaves both in the ring until then; if messages of several senders are due together, its
//! adapter takes them one after the other.

use weft_protocol::emulation::{Adapter, Costs};

use super::{Endpoint, Event, Events, Message, Receive, Wanted};
use crate::channel::{Broken, Envelope};
use crate::parts::Parts;
use crate::peers::{PeerId, Peers};
use crate::rendezvous::Directory;
use crate::sys::{self, Errno};

/// How many messages tell what one takes by itself.
const SAMPLES: usize = 101;

/// The interconnect and this endpoint's adapter to it.
#[derive(Debug)]
pub(super) struct Emulation {
    costs: Costs,
    adapter: Adapter,
    /// What a message takes here by itself, which is part of its latency there.
    own_ns: u64,
    /// Announced messages whose records found no room yet, and when their processors are free again.
    announced: Vec<(PeerId, u64)>,
    /// Whether what has come is received at once, since its sender has ended.
    is_hurried: bool,
}

impl Endpoint {
    /// Lets messages take as long as on another interconnect, of which `own_ns` pass here anyway. All endpoints of a
    /// program must do so, with the same costs.
    pub fn emulate(&mut self, costs: Costs, own_ns: u64) {
        self.emulation = Some(Box::new(Emulation {
            costs,
            adapter: Adapter::default(),
            own_ns,
            announced: Vec::new(),
            is_hurried: false,
        }));
    }

    /// What a short message takes by itself, in nanoseconds: the median of some that an endpoint sends to itself.
    ///
    /// # Errors
    ///
    /// The kernel's error.
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
            let mut received = false;
            let mut note = |event: Event| received |= matches!(event, Event::Received(_));
            let receive = Receive { context: 0, to: parts.clone(), is_reported: true };
            let wanted = Wanted { source: None, tag: 0, ignore: 0 };
            let begin_ns = sys::monotonic_ns();
            // SAFETY: the bytes outlive the loop, and the endpoint with all that it has to do.
            unsafe {
                endpoint.receive(true, wanted, receive, &mut note);
                endpoint.send(&peers, this, &message, &mut note)?;
            }
            while !received {
                endpoint.progress(&mut peers, &mut |event: Event| {
                    received |= matches!(event, Event::Received(_));
                });
            }
            *taken_ns = sys::monotonic_ns() - begin_ns;
        }
        taken_ns.sort_unstable();
        Ok(taken_ns[SAMPLES / 2])
    }

    /// Tells the receiver when the next record arrives. Messages to this endpoint itself cross no interconnect.
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
            Ok(false) => {
                self.figures.counts().full.add(1);
                Err(libc::EAGAIN)
            }
            Err(why) => {
                self.drop_peer(to, why, events);
                Err(why.errno())
            }
        }
    }

    /// The record that was announced is in the ring. The processor of the sender is busy with a short message as long as
    /// it would be there.
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

    /// Whether the record behind an announcement has arrived.
    ///
    /// # Errors
    ///
    /// If this endpoint is not as if on another interconnect.
    #[cold]
    pub(super) fn has_arrived(
        &mut self,
        channel: u32,
        due_ns: u64,
        bytes: u64,
    ) -> Result<bool, Broken> {
        let emulation = self.emulation.as_deref_mut().ok_or(Broken::Protocol)?;
        let from = self.incoming.get_mut(channel as usize).and_then(Option::as_mut);
        let from = from.ok_or(Broken::Closed)?;
        let now_ns = sys::monotonic_ns();
        // Who is due later does not keep the adapter from whoever is due now.
        if from.arrives_ns.is_none() && now_ns >= due_ns {
            from.arrives_ns = Some(emulation.adapter.receive(due_ns, emulation.costs.of(bytes)));
        }
        let has_arrived = from.arrives_ns.is_some_and(|arrives_ns| now_ns >= arrives_ns);
        from.is_awaited = !has_arrived && !emulation.is_hurried;
        if from.is_awaited {
            return Ok(false);
        }
        from.arrives_ns = None;
        Ok(true)
    }

    /// Whether a record waits for its time, so that nobody may sleep until something else happens.
    pub fn awaits_arrival(&self) -> bool {
        self.emulation.is_some() && self.incoming.iter().flatten().any(|from| from.is_awaited)
    }

    /// Receives at once what has come, or waits again until it is due.
    pub(super) fn await_nothing(&mut self, is_hurried: bool) {
        if let Some(emulation) = &mut self.emulation {
            emulation.is_hurried = is_hurried;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
mod tests {
    use weft_protocol::emulation::Cost;

    use super::*;

    /// A message of a second each is sent again and again while the ring is full.
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
