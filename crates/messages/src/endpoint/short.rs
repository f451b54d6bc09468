//! The most frequent cases, in few instructions: short messages and receives in one buffer, where nothing has to be
//! opened, waited for, matched out of order or truncated.

use super::{Endpoint, Events, Outgoing, Receive, Received, Wanted};
use crate::channel::{Envelope, Sending, Short};
use crate::parts::{RawBytes, copy};
use crate::peers::PeerId;

impl Endpoint {
    /// Sends a short message in one buffer whose peer has a channel with room, which is the most frequent case; false if
    /// it was not sent: [`Endpoint::send`] does the rest. The buffer may be reused immediately, and no event follows.
    ///
    /// # Safety
    ///
    /// The bytes must be readable.
    #[inline(always)]
    pub unsafe fn send_short(&mut self, to: PeerId, envelope: &Envelope, bytes: RawBytes) -> bool {
        if self.emulation.is_some() || !Sending::is_short(bytes.length) {
            return false;
        }
        let Some(Outgoing::Open(way)) = self.outgoing.get_mut(to.index()) else { return false };
        // SAFETY: the caller's promise; the length was checked.
        if !unsafe { way.send_one(envelope, bytes) } {
            return false;
        }
        let wakes = way.wake();
        self.count_sent(bytes.length, wakes);
        #[cfg(test)]
        crate::testing::took(crate::testing::Shortcut::Sent);
        true
    }

    /// Whether no message has arrived yet for a receive and one may still come, which is the most frequent case: then
    /// [`Endpoint::post`] is enough. If not, [`Endpoint::receive`] does the rest.
    #[inline(always)]
    pub fn may_post(&mut self, is_tagged: bool, wanted: &Wanted) -> bool {
        let is_lost = wanted.source.is_some_and(|source| {
            matches!(self.outgoing.get(source.index()), Some(Outgoing::Lost(_)))
        });
        !is_lost && !self.queue(is_tagged).has_message_for(wanted)
    }

    /// Posts a receive that [`Endpoint::may_post`] has allowed.
    ///
    /// # Safety
    ///
    /// The requirements of [`Endpoint::receive`].
    #[inline(always)]
    pub unsafe fn post(&mut self, is_tagged: bool, wanted: Wanted, receive: Receive) {
        self.queue(is_tagged).post(wanted, receive);
        #[cfg(test)]
        crate::testing::took(crate::testing::Shortcut::Posted);
    }

    /// Receives a short message if the oldest posted receive is for it, and has one buffer with room for all of it;
    /// whether it did.
    #[inline(always)]
    pub(super) fn receive_short(
        &mut self,
        channel: u32,
        short: &Short,
        events: &mut impl Events,
    ) -> bool {
        let Self { incoming, tagged, untagged, figures, .. } = self;
        let Some(from) = incoming.get(channel) else { return false };
        let (source, envelope) = (from.peer, short.envelope);
        let RawBytes { first, length } = short.bytes;
        let queue = if envelope.is_tagged { tagged } else { untagged };
        let Some(receive) = queue.first_for(source, envelope.tag) else { return false };
        let Some(base) = receive.to.room_for(length) else { return false };
        let &Receive { context, is_reported, .. } = receive;
        // SAFETY: the record stays in the ring until it is passed; the caller of `receive` keeps the buffer writable.
        unsafe { copy(first, base, length) };
        queue.take_first();
        from.receiving.pass(short);
        let counts = figures.counts();
        counts.received.add(1);
        counts.bytes_received.add(length as u64);
        let (source, cut) = (Some(source), 0);
        #[cfg(test)]
        crate::testing::took(crate::testing::Shortcut::Received);
        events.on_received(Received { context, source, envelope, base, length, cut, is_reported });
        true
    }
}
