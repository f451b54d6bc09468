//! Short messages and receives in one buffer, in few instructions: the most frequent calls of programs.

use super::{Bound, Entry, Reported, Reporter, State, Working, sent};
use crate::channel::Envelope;
use crate::endpoint::{Receive, Wanted};
use crate::fi::abi::{FI_CLAIM, FI_DELIVERY_COMPLETE, FI_DISCARD, FI_MATCH_COMPLETE, FI_PEEK};
use crate::fi::info::ANY_SOURCE;
use crate::fi::message::Flags;
use crate::parts::{Parts, RawBytes};

/// A message in one buffer that is to be sent.
#[derive(Clone, Copy)]
pub struct Short {
    /// The address of the receiver.
    pub to: u64,
    /// Its metadata.
    pub envelope: Envelope,
    /// Its bytes.
    pub bytes: RawBytes,
    /// The program's context of the operation.
    pub context: usize,
    /// The flags of the operation.
    pub flags: Flags,
}

/// A receive into one buffer that is to be posted.
#[derive(Clone, Copy)]
pub struct Posted {
    /// The address of the sender.
    pub from: u64,
    /// Whether it receives tagged messages.
    pub is_tagged: bool,
    /// The tag, and the bits of it that are ignored.
    pub tag: u64,
    /// See `tag`.
    pub ignore: u64,
    /// The buffer.
    pub base: *mut u8,
    /// Its length in bytes.
    pub length: usize,
    /// The program's context of the operation.
    pub context: usize,
    /// The flags of the operation.
    pub flags: Flags,
}

impl Bound {
    /// Whether messages may be sent and received without the rules of a connection.
    #[inline(always)]
    const fn is_plain(&self) -> bool {
        self.is_enabled && !self.is_connected_type
    }
}

impl State {
    /// Sends a message if nothing else has to be done than to write it to its ring. If not, it returns false, and has
    /// done nothing.
    ///
    /// # Safety
    ///
    /// The bytes must be readable.
    #[inline(always)]
    pub unsafe fn send_short(&mut self, endpoint: usize, message: &Short) -> bool {
        let Short { to, envelope, bytes, context, flags } = *message;
        let Ok(Entry { bound, bindings }) = self.endpoints.get(endpoint) else { return false };
        let awaits = FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
        if self.record.is_some() || !bound.is_plain() || flags.of(&bindings.sends) & awaits != 0 {
            return false;
        }
        let Some(Ok(vector)) = bound.vector.map(|number| self.vectors.get(number)) else {
            return false;
        };
        let Ok(peer) = vector.peer(to) else { return false };
        // SAFETY: the caller's promise.
        if !unsafe { bound.endpoint.send_short(peer, &envelope, bytes) } {
            return false;
        }
        self.changes += 1;
        let is_reported = flags.is_reported(&bindings.sends);
        let (queues, counters, regions) = (&mut self.queues, &mut self.counters, &self.regions);
        let (vector, record) = (None, None);
        let mut reporter = Reporter { queues, counters, regions, vector, record, bindings };
        let completion = sent(context, envelope.is_tagged, None);
        reporter.tell(Reported::of(&bindings.sends), completion, is_reported);
        true
    }

    /// Posts a receive of a plain endpoint, without flags. If more has to be done it returns false, and has done nothing.
    ///
    /// # Safety
    ///
    /// The buffer must be writable until the completion.
    #[inline(always)]
    pub unsafe fn post_short(&mut self, endpoint: usize, posted: &Posted) -> bool {
        let Posted { from, is_tagged, tag, ignore, base, length, context, flags } = *posted;
        let Ok(Entry { bound, bindings }) = self.endpoints.get(endpoint) else { return false };
        let searches = FI_PEEK | FI_DISCARD | FI_CLAIM;
        if self.record.is_some()
            || !bound.is_plain()
            || flags.of(&bindings.receives) & searches != 0
        {
            return false;
        }
        let source = if !bound.is_directed || from == ANY_SOURCE {
            None
        } else {
            let Some(Ok(vector)) = bound.vector.map(|number| self.vectors.get(number)) else {
                return false;
            };
            let Ok(peer) = vector.peer(from) else { return false };
            Some(peer)
        };
        let wanted = Wanted { source, tag, ignore };
        let is_reported = flags.is_reported(&bindings.receives);
        let receive = Receive { context, to: Parts::one(base, length), is_reported };
        // SAFETY: the caller's promise.
        unsafe {
            if bound.endpoint.may_post(is_tagged, &wanted) {
                bound.endpoint.post(is_tagged, wanted, receive);
            } else {
                self.receive_arrived(endpoint, is_tagged, wanted, receive);
            }
        }
        true
    }

    /// Posts a receive whose message has arrived, or will never arrive.
    ///
    /// # Safety
    ///
    /// The requirements of [`State::post_short`].
    #[inline(never)]
    unsafe fn receive_arrived(
        &mut self,
        endpoint: usize,
        is_tagged: bool,
        wanted: Wanted,
        receive: Receive,
    ) {
        // `post_short` has just found the endpoint, and nothing is closed in between.
        let Ok(Working { bound, mut reporter, .. }) = self.working(endpoint) else { return };
        // SAFETY: the caller's promise.
        unsafe { bound.endpoint.receive(is_tagged, wanted, receive, &mut reporter) };
    }
}

#[cfg(test)]
mod tests;
