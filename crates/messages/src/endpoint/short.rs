//! The most frequent cases, in few instructions: short messages and receives in one buffer, where nothing has to be
//! opened, waited for, matched out of order or truncated.

use super::{Endpoint, Events, Receive, Received};
use crate::channel::Short;
use crate::parts::{RawBytes, copy};

impl Endpoint {
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
        let Some(from) = &mut incoming[channel as usize] else { return false };
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
        events.on_received(Received { context, source, envelope, base, length, cut, is_reported });
        true
    }
}
