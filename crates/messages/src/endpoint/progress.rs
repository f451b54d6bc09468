//! The progress of an endpoint: receives messages, accepts new peers, and detects peers that have ended.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use super::queue::{Copied, Receive, Stored, Unexpected};
use super::{Admits, Endpoint, Event, Events, Incoming, Outgoing, Pulling, failed, received};
use crate::channel::{Arrival, Body, Broken, Envelope, Held, Look, Purpose, Receiving, Remote};
use crate::endpoint::Received;
use crate::parts::{Parts, RawBytes};
use crate::peers::{PeerId, Peers};
use crate::rendezvous::{self, Handshake};
use crate::sys::{self, Errno};

/// The most records of one sender that are received before the other senders' turn.
const TURN: u32 = 64;
/// Calls between two readings of the clock.
pub(super) const MOST_CALLS: u64 = 64;
/// The same while channels open: then more are likely to, and where ranks wait for processors a call takes microseconds.
const FEWEST_CALLS: u64 = 4;
/// The shortest interval between two polls of the kernel for new and closed connections.
const KERNEL_POLL: Duration = Duration::from_micros(50);
/// The interval between probes of peers that a receive waits for and that have never connected.
const PROBE: Duration = Duration::from_millis(100);

/// What an epoll event refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Listener,
    Pending,
    Incoming(u32),
    Outgoing(PeerId),
}

impl Token {
    pub fn number(self) -> u64 {
        match self {
            Self::Listener => 0,
            Self::Pending => 1 << 32,
            Self::Incoming(channel) => 2 << 32 | u64::from(channel),
            Self::Outgoing(peer) => 3 << 32 | peer.index() as u64,
        }
    }

    fn of(number: u64) -> Option<Self> {
        match number >> 32 {
            0 => Some(Self::Listener),
            1 => Some(Self::Pending),
            2 => Some(Self::Incoming(number as u32)),
            3 => Some(Self::Outgoing(PeerId::of_index(number as u32))),
            _ => None,
        }
    }
}

impl Endpoint {
    /// Receives what has arrived; returns whether there was anything.
    #[inline]
    pub fn progress(&mut self, peers: &mut Peers, events: &mut impl Events) -> bool {
        self.polls += 1;
        let mut any = false;
        for channel in 0..self.incoming.count() {
            if self.incoming.has_news(channel) {
                any |= self.receive_from(channel, events);
            }
        }
        if self.held > 0 {
            any |= self.handle_all_answers(events);
        }
        if !self.replies.is_empty() {
            any |= self.send_replies(peers, events);
        }
        if !any {
            self.figures.counts().empty_polls.add(1);
        }
        if self.polls >= self.due {
            any |= self.poll_kernel_if_due(peers, events);
        }
        any
    }

    /// Polls the kernel, unless it was polled a short time ago; returns whether anything arrived.
    #[cold]
    fn poll_kernel_if_due(&mut self, peers: &mut Peers, events: &mut impl Events) -> bool {
        let is_due = self.polled.elapsed() >= KERNEL_POLL;
        let found = is_due && self.poll_kernel(peers, events);
        if is_due && !found {
            self.calls = (2 * self.calls).min(MOST_CALLS);
        }
        self.due = self.polls + self.calls;
        found
    }

    /// A channel has been asked for, or the kernel has told something of one, so that more is likely to come of it:
    /// reads the clock after fewer calls for a while.
    pub(super) fn expect_channels(&mut self) {
        self.calls = FEWEST_CALLS;
        self.due = self.due.min(self.polls + FEWEST_CALLS);
    }

    /// Whether nothing has arrived and the kernel need not be polled yet; a cheap check.
    #[inline(always)]
    pub fn is_idle(&mut self) -> bool {
        let has_work = self.held > 0 && self.has_answers() || !self.replies.is_empty();
        let is_idle = !has_work && self.polls < self.due && !self.incoming.have_news();
        if is_idle {
            self.polls += 1;
            self.figures.counts().empty_polls.add(1);
        }
        is_idle
    }

    /// Adds the words at which news will be seen after a poll that found none; for how many polls they are enough.
    pub fn watch_for_news(&self, heads: &mut Vec<NonNull<AtomicU64>>) -> u32 {
        let until_due = self.due.saturating_sub(self.polls);
        let mut polls = if self.replies.is_empty() { until_due as u32 } else { 0 };
        heads.extend(self.incoming.iter().map(|from| from.receiving.next_head()));
        for way in &self.outgoing {
            match way {
                Outgoing::Open(way) if way.has_held() => match way.next_answer() {
                    Some(head) => heads.push(head),
                    None => polls = 0,
                },
                _ => {}
            }
        }
        polls
    }

    /// Counts polls that found nothing at the words of [`Endpoint::watch_for_news`].
    pub fn pass(&mut self, polls: u32) {
        self.polls += u64::from(polls);
        self.figures.counts().empty_polls.add(u64::from(polls));
    }

    #[inline(never)]
    fn has_answers(&self) -> bool {
        self.outgoing.iter().any(|way| matches!(way, Outgoing::Open(way) if way.has_answers()))
    }

    /// Receives records from a channel: up to [`TURN`] while they arrive faster than they are polled, otherwise one.
    /// Checking the next slot takes its cache line away from the sender, which is about to write it, and delays the
    /// response to the first record.
    #[inline(always)]
    fn receive_from(&mut self, channel: u32, events: &mut impl Events) -> bool {
        let mut taken = 0;
        while let Some(from) = self.incoming.get(channel) {
            match from.receiving.look() {
                Look::Nothing => break,
                Look::Short(short) => {
                    if !self.receive_short(channel, &short, events) {
                        // Its parts: a reference would keep it in memory for the most frequent case, too.
                        self.receive_whole(channel, short.envelope, short.bytes, events);
                        if let Some(from) = self.incoming_channel(channel) {
                            from.receiving.pass(&short);
                        }
                    }
                }
                Look::Other => {
                    if !self.receive_other(channel, events) {
                        break;
                    }
                }
            }
            taken += 1;
            let poll = self.polls;
            let Some(from) = self.incoming.get(channel) else { break };
            let was_busy = from.is_busy(poll);
            from.found_at = poll;
            if !was_busy || taken == TURN {
                break;
            }
        }
        self.incoming.has_moved(channel);
        taken > 0
    }

    /// Receives a message: by the first posted receive that matches it, or to be received later.
    fn receive_message(
        &mut self,
        channel: u32,
        source: PeerId,
        envelope: Envelope,
        body: Body,
        events: &mut impl Events,
    ) {
        match self.queue(envelope.is_tagged).receive_for(source, envelope.tag) {
            Some(receive) => self.put(channel, source, envelope, body, &receive, events),
            // The queues of an endpoint with a connection are always empty.
            None if self.connected.is_some() => {
                self.arrive_connected(channel, source, envelope, body, events);
            }
            None => self.keep(channel, source, envelope, body),
        }
    }

    /// Receives a short message that the oldest posted receive is not for, or has no room for in one buffer.
    #[inline(never)]
    fn receive_whole(
        &mut self,
        channel: u32,
        envelope: Envelope,
        bytes: RawBytes,
        events: &mut impl Events,
    ) {
        let Some(from) = self.incoming_channel(channel) else { return };
        let (source, body) = (from.peer, Body::Here(bytes.first, bytes.length));
        self.receive_message(channel, source, envelope, body, events);
    }

    /// Receives the next record, whatever it is; false if there is none, or it is held back.
    #[inline(never)]
    fn receive_other(&mut self, channel: u32, events: &mut impl Events) -> bool {
        let Some(from) = self.incoming_channel(channel) else { return false };
        let peer = from.peer;
        match from.receiving.next_arrival() {
            Ok(None) => return false,
            Ok(Some(Arrival::Due(due_ns, bytes))) => {
                match self.has_arrived(channel, due_ns, bytes) {
                    Ok(true) => {}
                    Ok(false) => return false,
                    Err(why) => self.drop_peer(peer, why, events),
                }
            }
            Ok(Some(arrival)) => self.arrive(channel, peer, arrival, events),
            Err(why) => self.drop_peer(peer, why, events),
        }
        if let Some(from) = self.incoming_channel(channel) {
            from.receiving.take();
        }
        true
    }

    fn arrive(&mut self, channel: u32, source: PeerId, arrival: Arrival, events: &mut impl Events) {
        match arrival {
            Arrival::Message(envelope, body) => {
                self.receive_message(channel, source, envelope, body, events);
            }
            Arrival::Complete(number) => {
                self.finish_pulled(channel, number, source, events);
            }
            // `receive_other` has compared a due time with the clock.
            Arrival::Piece | Arrival::Due(..) => {}
            Arrival::Request(requested) => self.serve(channel, source, *requested, events),
            Arrival::Reply(number, offset, first, length) => {
                // SAFETY: the record stays in the ring until it is consumed.
                unsafe {
                    self.take_reply(source, number, offset, RawBytes { first, length }, events)
                };
            }
        }
    }

    /// Delivers a message into the buffers of its receive.
    pub(super) fn put(
        &mut self,
        channel: u32,
        source: PeerId,
        envelope: Envelope,
        body: Body,
        receive: &Receive,
        events: &mut impl Events,
    ) {
        match body {
            Body::Here(bytes, length) => {
                let received = received(receive, source, envelope, length);
                // SAFETY: the record stays in the ring until it is consumed; the caller of `receive` keeps the buffers
                // writable.
                unsafe { receive.to.copy_from(bytes, length) };
                self.complete(received, events);
            }
            Body::There(remote) => {
                let received = received(receive, source, envelope, remote.length);
                self.fetch(channel, &remote, &receive.to, received, events);
            }
        }
    }

    /// Stores an unexpected message.
    fn keep(&mut self, channel: u32, source: PeerId, envelope: Envelope, body: Body) {
        let message = self.unexpected(channel, source, envelope, body);
        self.queue(envelope.is_tagged).keep(message);
    }

    /// A message that has arrived before its receive.
    pub(super) fn unexpected(
        &self,
        channel: u32,
        source: PeerId,
        envelope: Envelope,
        body: Body,
    ) -> Unexpected {
        let stored = match body {
            // SAFETY: the record stays in the ring until it is consumed.
            Body::Here(first, length) => {
                Stored::Bytes(unsafe { Copied::from(RawBytes { first, length }) })
            }
            Body::There(remote) => Stored::Remote(channel, remote),
        };
        self.figures.counts().unexpected.add(1);
        Unexpected { source, envelope, stored }
    }

    /// Fetches a message that is still in its sender's memory.
    pub(super) fn fetch(
        &mut self,
        channel: u32,
        remote: &Remote,
        to: &Parts,
        received: Received,
        events: &mut impl Events,
    ) {
        let fetched = match self.incoming_channel(channel) {
            // SAFETY: the caller of `receive` keeps the buffers writable until its event.
            Some(from) => unsafe { from.receiving.fetch(remote, to) },
            None => Err(Broken::Closed),
        };
        match fetched {
            Ok(None) => {
                let bytes = (received.length - received.cut) as u64;
                self.figures.counts().bytes_fetched.add(bytes);
                self.complete(received, events);
            }
            Ok(Some(number)) => {
                self.pulling.insert((channel, number), Pulling::Receive(received));
                if let Some(connected) = &mut self.connected {
                    connected.begin_pull();
                }
            }
            Err(why) => {
                let error = why.errno();
                events.on_event(Event::ReceiveFailed { received, error });
                if let Some(source) = received.source {
                    self.drop_peer(source, why, events);
                }
            }
        }
    }

    /// Handles the responses of all receivers that have messages to fetch.
    fn handle_all_answers(&mut self, events: &mut impl Events) -> bool {
        let mut any = false;
        for peer in 0..self.outgoing.len() {
            if let Outgoing::Open(way) = &self.outgoing[peer]
                && way.has_held()
            {
                any |= self.handle_answers(PeerId::of_index(peer as u32), events);
            }
        }
        any
    }

    /// Handles the responses of one receiver.
    fn handle_answers(&mut self, peer: PeerId, events: &mut impl Events) -> bool {
        let Self { outgoing, held: count, connected, .. } = self;
        let Some(Outgoing::Open(way)) = outgoing.get_mut(peer.index()) else { return false };
        let heard = way.progress(|held, error| {
            *count -= 1;
            match connected {
                Some(connected) if held.is_message() => {
                    connected.has_left(held.context, error, events);
                }
                _ => events.on_event(ended(&held, error)),
            }
        });
        heard.unwrap_or_else(|why| {
            self.drop_peer(peer, why, events);
            true
        })
    }

    /// Polls the kernel for new and closed connections; returns whether there were any.
    #[cold]
    pub fn poll_kernel(&mut self, peers: &mut Peers, events: &mut impl Events) -> bool {
        self.polled = Instant::now();
        let (tokens, count) = self.watch.wait(Some(Duration::ZERO));
        for token in &tokens[..count] {
            match Token::of(*token) {
                Some(Token::Listener | Token::Pending) => self.accept_all(peers),
                Some(Token::Incoming(channel)) => {
                    let from = self.incoming_channel(channel);
                    let gone = from.filter(|from| is_gone(&from.receiving.peer));
                    if let Some(peer) = gone.map(|from| from.peer) {
                        self.drain_and_drop(peers, peer, events);
                    }
                }
                Some(Token::Outgoing(peer)) => {
                    if let Some(Outgoing::Open(way)) = self.outgoing.get(peer.index())
                        && is_gone(&way.peer)
                    {
                        self.drain_and_drop(peers, peer, events);
                    }
                }
                None => {}
            }
        }
        if count > 0 {
            self.expect_channels();
        }
        if self.polled - self.probed >= PROBE {
            self.probed = self.polled;
            self.probe_missing(peers, events);
        }
        count > 0
    }

    /// Accepts waiting connections and reads their hellos.
    fn accept_all(&mut self, peers: &mut Peers) {
        if self.admits == Admits::NoneYet {
            return;
        }
        while let Some(come) = self.listener.accept() {
            // A socket that cannot be watched is read with the next event of another.
            let _ = self.watch.add(&come, Token::Pending.number());
            self.pending.push(come);
        }
        for socket in std::mem::take(&mut self.pending) {
            match rendezvous::accept_hello(socket, self.name) {
                Handshake::Pending(socket) => self.pending.push(socket),
                Handshake::Rejected => {}
                Handshake::Connected(peer, segment, name) => {
                    let number = peers.number(name);
                    if matches!(self.admits, Admits::One(peer) if peer != number) {
                        continue;
                    }
                    // A peer that was dropped is not accepted again.
                    if matches!(self.outgoing.get(number.index()), Some(Outgoing::Lost(_))) {
                        continue;
                    }
                    let channel = self.incoming.count();
                    let token = Token::Incoming(channel).number();
                    let changed = self.watch.change(&peer.socket, token);
                    let watched = peer.pidfd.as_ref().map(|pidfd| self.watch.add(pidfd, token));
                    if changed.is_err() || watched.is_some_and(|watched| watched.is_err()) {
                        continue;
                    }
                    let mut receiving = Receiving::new(peer, segment);
                    if !self.fetches {
                        receiving.disable_fetch();
                    }
                    self.incoming.add(Incoming::new(number, receiving));
                    self.figures.counts().peers.add(1);
                }
            }
        }
    }

    /// A peer has closed its endpoint or ended: receives what it had sent before, then drops it.
    fn drain_and_drop(&mut self, peers: &mut Peers, peer: PeerId, events: &mut impl Events) {
        // Its connection may still be waiting to be accepted.
        self.accept_all(peers);
        self.deliver_early(true);
        for channel in 0..self.incoming.count() {
            let Some(from) = self.incoming.get(channel) else { continue };
            if from.peer != peer {
                continue;
            }
            // Another process may go on writing to the ring of one that has ended: what the ring can hold is enough.
            for _ in 0..from.receiving.most_records() {
                if !self.receive_from(channel, events) {
                    break;
                }
            }
        }
        self.deliver_early(false);
        self.handle_answers(peer, events);
        self.drop_peer(peer, Broken::Closed, events);
    }

    /// Drops a peer: everything that depends on it fails. Other peers are not affected.
    #[cold]
    pub(super) fn drop_peer(&mut self, peer: PeerId, why: Broken, events: &mut impl Events) {
        let error = why.errno();
        if self.outgoing.len() <= peer.index() {
            self.outgoing.resize_with(peer.index() + 1, || Outgoing::None);
        }
        let way = std::mem::replace(&mut self.outgoing[peer.index()], Outgoing::Lost(why));
        if matches!(way, Outgoing::Lost(_)) {
            self.outgoing[peer.index()] = way;
            return;
        }
        self.figures.counts().lost.add(1);
        self.replies.remove(&peer.index());
        if let Outgoing::Open(mut way) = way {
            for held in way.abandon() {
                self.held -= 1;
                // The messages of a connection are descriptors, which come back below.
                if self.connected.is_none() || !held.is_message() {
                    events.on_event(ended(&held, error));
                }
            }
            self.watch.remove(&way.peer);
        }
        for channel in 0..self.incoming.count() {
            let its = self.incoming.take_from(peer, channel);
            let Some(mut from) = its else { continue };
            for number in from.receiving.abandon() {
                let pulling = self.pulling.remove(&(channel, number));
                if let Some(Pulling::Receive(received)) = pulling {
                    events.on_event(Event::ReceiveFailed { received, error });
                }
            }
            self.watch.remove(&from.receiving.peer);
        }
        for is_tagged in [true, false] {
            for receive in self.queue(is_tagged).abandon(peer) {
                events.on_event(failed(&receive, is_tagged, error));
            }
        }
        if self.admits == Admits::One(peer)
            && let Some(connected) = &mut self.connected
        {
            connected.break_off(error, events);
        }
    }

    /// Probes peers that receives wait for and that have never connected: they may have ended.
    fn probe_missing(&mut self, peers: &Peers, events: &mut impl Events) {
        let sources = self.tagged.sources().chain(self.untagged.sources());
        let mut missing: Vec<PeerId> = sources.collect();
        if let Admits::One(peer) = self.admits {
            missing.push(peer);
        }
        missing.sort_unstable_by_key(|peer| peer.index());
        missing.dedup();
        missing.retain(|peer| {
            let is_here = self.incoming.of_peer(*peer).is_some();
            !is_here && !matches!(self.outgoing.get(peer.index()), Some(Outgoing::Open(_)))
        });
        for peer in missing {
            if self.open(peers, peer) == Err(libc::ECONNREFUSED) {
                self.drop_peer(peer, Broken::Closed, events);
            }
        }
    }

    /// Asks all peers for wake-ups. The caller makes progress once more before it sleeps.
    pub fn arm(&mut self) {
        for from in self.incoming.iter_mut() {
            from.receiving.arm();
        }
        for way in &self.outgoing {
            if let Outgoing::Open(way) = way {
                way.arm();
            }
        }
    }

    /// Asks for no more wake-ups.
    pub fn disarm(&mut self) {
        for from in self.incoming.iter() {
            from.receiving.disarm();
        }
        for way in &self.outgoing {
            if let Outgoing::Open(way) = way {
                way.disarm();
            }
        }
    }

    /// Whether a message that found a ring full may be tried again.
    pub fn has_room_again(&mut self, events: &mut impl Events) -> bool {
        let mut any = false;
        for peer in 0..self.outgoing.len() {
            let Outgoing::Open(way) = &mut self.outgoing[peer] else { continue };
            match way.has_room_again() {
                Ok(again) => any |= again,
                Err(why) => self.drop_peer(PeerId::of_index(peer as u32), why, events),
            }
        }
        any
    }
}

/// The event of a held message or request that was fetched or carried out, or has failed.
pub(super) const fn ended(held: &Held, error: Errno) -> Event {
    let Held { context, is_reported, .. } = *held;
    match held.purpose {
        Purpose::Message { is_tagged } if error == 0 => {
            Event::Sent { context, is_tagged, is_reported }
        }
        Purpose::Message { is_tagged } => Event::SendFailed { context, is_tagged, error },
        Purpose::Request(operation) => Event::Accessed { context, operation, error, is_reported },
    }
}

/// Whether the peer's process has ended, or closed its endpoint.
fn is_gone(peer: &rendezvous::Peer) -> bool {
    sys::drain_notifications(&peer.socket) || peer.pidfd.as_ref().is_some_and(sys::is_readable)
}
