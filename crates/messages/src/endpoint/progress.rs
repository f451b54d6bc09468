//! What an endpoint does when it is called: takes what has come, and notices who came and who went.

use std::time::{Duration, Instant};

use super::queue::{Receive, Stored, Unexpected};
use super::{Coming, Endpoint, Event, Events, From, Way, failed, received};
use crate::channel::{Arrival, Body, Broken, Envelope, Receiving, Remote};
use crate::endpoint::Received;
use crate::meeting::{self, Answered};
use crate::parts::Parts;
use crate::peers::{PeerId, Peers};
use crate::sys;

/// So many records of one sender are taken before the others' turn.
const TURN: u32 = 64;
/// So many calls pass before the clock is looked at.
const CALLS: u32 = 64;
/// So often at most the kernel is asked who came and who went.
const LOOK: Duration = Duration::from_micros(50);
/// So often it is asked after those from whom a message is waited for and who never came.
const SEARCH: Duration = Duration::from_millis(100);

/// What the kernel reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Listener,
    Stranger,
    From(u32),
    Way(PeerId),
}

impl Token {
    pub fn number(self) -> u64 {
        match self {
            Self::Listener => 0,
            Self::Stranger => 1 << 32,
            Self::From(channel) => 2 << 32 | u64::from(channel),
            Self::Way(peer) => 3 << 32 | peer.index() as u64,
        }
    }

    fn of(number: u64) -> Option<Self> {
        match number >> 32 {
            0 => Some(Self::Listener),
            1 => Some(Self::Stranger),
            2 => Some(Self::From(number as u32)),
            3 => Some(Self::Way(PeerId::of_index(number as u32))),
            _ => None,
        }
    }
}

impl Endpoint {
    /// Takes what has come; whether that was anything.
    #[inline]
    pub fn progress(&mut self, peers: &mut Peers, events: &mut impl Events) -> bool {
        let mut any = false;
        for channel in 0..self.from.len() {
            any |= self.take_from(channel as u32, events);
        }
        if self.held > 0 {
            any |= self.hear_all(events);
        }
        self.figures.counts().empty_polls.add(u64::from(!any));
        self.calls += 1;
        if self.calls >= CALLS {
            self.calls = 0;
            if self.looked.elapsed() >= LOOK {
                any |= self.look(peers, events);
            }
        }
        any
    }

    /// Whether nothing has come, by a glance, and it is not yet time to ask the kernel.
    #[inline(always)]
    pub fn rests(&mut self) -> bool {
        let mut has_news = self.held > 0 && self.is_heard_from();
        for from in &mut self.from {
            let Some(from) = from else { continue };
            let has_next = from.receiving.has_next();
            from.is_busy &= has_next;
            has_news |= has_next;
        }
        let rests = !has_news && self.calls < CALLS;
        self.calls += u32::from(rests);
        self.figures.counts().empty_polls.add(u64::from(rests));
        rests
    }

    #[inline(never)]
    fn is_heard_from(&self) -> bool {
        self.ways.iter().any(|way| matches!(way, Way::Open(way) if way.is_heard_from()))
    }

    /// Takes records from a channel: up to a turn while they come faster than they are asked for, otherwise one.
    /// A look at the place of the next takes that line from the sender's processor, who is about to write it, and
    /// the answer to the first waits for the look.
    #[inline(always)]
    fn take_from(&mut self, channel: u32, events: &mut impl Events) -> bool {
        let mut taken = 0;
        while let Some(from) = &mut self.from[channel as usize] {
            let peer = from.peer;
            match from.receiving.next_arrival() {
                Ok(None) => {
                    from.is_busy = false;
                    break;
                }
                Ok(Some(arrival)) => self.arrive(channel, peer, arrival, events),
                Err(why) => self.lose(peer, why, events),
            }
            taken += 1;
            let Some(from) = self.incoming(channel) else { break };
            from.receiving.take();
            let is_busy = std::mem::replace(&mut from.is_busy, true);
            if !is_busy || taken == TURN {
                break;
            }
        }
        taken > 0
    }

    #[inline(always)]
    fn arrive(&mut self, channel: u32, source: PeerId, arrival: Arrival, events: &mut impl Events) {
        match arrival {
            Arrival::Message(envelope, body) => {
                match self.queue(envelope.is_tagged).receive_for(source, envelope.tag) {
                    Some(receive) => self.put(channel, source, envelope, body, &receive, events),
                    None => self.keep(channel, source, envelope, body),
                }
            }
            Arrival::Complete(number) => {
                if let Some(coming) = self.coming.remove(&(channel, number)) {
                    self.complete(coming.received, events);
                }
            }
            Arrival::Piece => {}
        }
    }

    /// Puts a message where its receive wants it.
    #[inline(always)]
    fn put(
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
                // SAFETY: the bytes lie in the ring until they are taken; whoever posted the receive
                // keeps its places writable.
                unsafe { receive.to.copy_from(bytes, length) };
                self.complete(received, events);
            }
            Body::There(remote) => {
                let received = received(receive, source, envelope, remote.length);
                self.fetch(channel, &remote, &receive.to, received, events);
            }
        }
    }

    /// Keeps a message for which there is no receive yet.
    fn keep(&mut self, channel: u32, source: PeerId, envelope: Envelope, body: Body) {
        let stored = match body {
            Body::Here(bytes, length) => {
                let mut copy = Box::<[u8]>::new_uninit_slice(length);
                // SAFETY: the bytes lie in the ring until they are taken; all of the copy is written.
                let copy = unsafe {
                    std::ptr::copy_nonoverlapping(bytes, copy.as_mut_ptr().cast(), length);
                    copy.assume_init()
                };
                Stored::Bytes(copy)
            }
            Body::There(remote) => Stored::Remote(channel, remote),
        };
        self.figures.counts().unexpected.add(1);
        self.queue(envelope.is_tagged).keep(Unexpected { source, envelope, stored });
    }

    /// Fetches a message that is still with its sender.
    pub(super) fn fetch(
        &mut self,
        channel: u32,
        remote: &Remote,
        to: &Parts,
        received: Received,
        events: &mut impl Events,
    ) {
        let fetched = match self.incoming(channel) {
            // SAFETY: whoever posted the receive keeps its places writable until its event.
            Some(from) => unsafe { from.receiving.fetch(remote, to) },
            None => Err(Broken::Gone),
        };
        match fetched {
            Ok(None) => {
                let bytes = (received.length - received.cut) as u64;
                self.figures.counts().bytes_fetched.add(bytes);
                self.complete(received, events);
            }
            Ok(Some(number)) => {
                self.coming.insert((channel, number), Coming { received });
            }
            Err(why) => {
                let error = why.errno();
                events.happened(Event::ReceiveFailed { received, error });
                if let Some(source) = received.source {
                    self.lose(source, why, events);
                }
            }
        }
    }

    /// Takes the answers of all receivers that have something to fetch.
    fn hear_all(&mut self, events: &mut impl Events) -> bool {
        let mut any = false;
        for peer in 0..self.ways.len() {
            if let Way::Open(way) = &self.ways[peer]
                && way.is_waiting()
            {
                any |= self.hear(PeerId::of_index(peer as u32), events);
            }
        }
        any
    }

    /// Takes the answers of a receiver.
    fn hear(&mut self, peer: PeerId, events: &mut impl Events) -> bool {
        let Some(Way::Open(way)) = self.ways.get_mut(peer.index()) else { return false };
        let count = &mut self.held;
        let heard = way.progress(|held| {
            *count -= 1;
            let (context, is_tagged) = (held.context, held.is_tagged);
            events.happened(Event::Sent { context, is_tagged, is_reported: held.is_reported });
        });
        heard.unwrap_or_else(|why| {
            self.lose(peer, why, events);
            true
        })
    }

    /// Asks the kernel who came and who went; whether anybody did.
    #[cold]
    pub fn look(&mut self, peers: &mut Peers, events: &mut impl Events) -> bool {
        self.looked = Instant::now();
        let (tokens, count) = self.watch.wait(Some(Duration::ZERO));
        for token in &tokens[..count] {
            match Token::of(*token) {
                Some(Token::Listener | Token::Stranger) => self.welcome(peers),
                Some(Token::From(channel)) => {
                    let from = self.incoming(channel);
                    let gone = from.filter(|from| is_gone(&from.receiving.peer));
                    if let Some(peer) = gone.map(|from| from.peer) {
                        self.part(peers, peer, events);
                    }
                }
                Some(Token::Way(peer)) => {
                    if let Some(Way::Open(way)) = self.ways.get(peer.index())
                        && is_gone(&way.peer)
                    {
                        self.part(peers, peer, events);
                    }
                }
                None => {}
            }
        }
        if self.looked - self.searched >= SEARCH {
            self.searched = self.looked;
            self.search(peers, events);
        }
        count > 0
    }

    /// Takes in who has come.
    fn welcome(&mut self, peers: &mut Peers) {
        while let Some(come) = self.listener.accept() {
            // Who cannot be watched is heard at the next look that another brings about.
            let _ = self.watch.add(&come, Token::Stranger.number());
            self.strangers.push(come);
        }
        for stranger in std::mem::take(&mut self.strangers) {
            match meeting::answer(stranger, self.name) {
                Answered::NotYet(stranger) => self.strangers.push(stranger),
                Answered::Refused => {}
                Answered::Called(peer, segment, name) => {
                    let number = peers.number(name);
                    // Whoever wrote nonsense once is not listened to again.
                    if matches!(self.ways.get(number.index()), Some(Way::Lost(_))) {
                        continue;
                    }
                    let channel = self.from.len() as u32;
                    let token = Token::From(channel).number();
                    let changed = self.watch.change(&peer.socket, token);
                    let watched = peer.life.as_ref().map(|life| self.watch.add(life, token));
                    if changed.is_err() || watched.is_some_and(|watched| watched.is_err()) {
                        continue;
                    }
                    let mut receiving = Receiving::new(peer, segment);
                    if !self.fetches {
                        receiving.fetch_nothing();
                    }
                    self.from.push(Some(From { peer: number, receiving, is_busy: false }));
                    self.figures.counts().peers.add(1);
                }
            }
        }
    }

    /// A peer has closed its endpoint, or ended: takes what it had sent before.
    fn part(&mut self, peers: &mut Peers, peer: PeerId, events: &mut impl Events) {
        // It may have come and gone.
        self.welcome(peers);
        for channel in 0..self.from.len() {
            let is_its = |from: &Option<From>| from.as_ref().is_some_and(|it| it.peer == peer);
            while is_its(&self.from[channel]) && self.take_from(channel as u32, events) {}
        }
        self.hear(peer, events);
        self.lose(peer, Broken::Gone, events);
    }

    /// Fails whatever depends on a peer that is of no more use. Others are not concerned.
    #[cold]
    pub(super) fn lose(&mut self, peer: PeerId, why: Broken, events: &mut impl Events) {
        let error = why.errno();
        if self.ways.len() <= peer.index() {
            self.ways.resize_with(peer.index() + 1, || Way::None);
        }
        let way = std::mem::replace(&mut self.ways[peer.index()], Way::Lost(why));
        if matches!(way, Way::Lost(_)) {
            self.ways[peer.index()] = way;
            return;
        }
        self.figures.counts().lost.add(1);
        if let Way::Open(mut way) = way {
            for held in way.give_up() {
                self.held -= 1;
                let (context, is_tagged) = (held.context, held.is_tagged);
                events.happened(Event::SendFailed { context, is_tagged, error });
            }
            self.watch.remove(&way.peer);
        }
        for channel in 0..self.from.len() {
            let its = self.from[channel].take_if(|from| from.peer == peer);
            let Some(mut from) = its else { continue };
            for number in from.receiving.give_up() {
                if let Some(coming) = self.coming.remove(&(channel as u32, number)) {
                    let received = coming.received;
                    events.happened(Event::ReceiveFailed { received, error });
                }
            }
            self.watch.remove(&from.receiving.peer);
        }
        for is_tagged in [true, false] {
            for receive in self.queue(is_tagged).give_up(peer) {
                events.happened(failed(&receive, is_tagged, error));
            }
        }
    }

    /// Looks for those from whom a message is waited for and who never came: they may have ended.
    fn search(&mut self, peers: &Peers, events: &mut impl Events) {
        let sources = self.tagged.sources().chain(self.untagged.sources());
        let mut missing: Vec<PeerId> = sources.collect();
        missing.sort_unstable_by_key(|peer| peer.index());
        missing.dedup();
        missing.retain(|peer| {
            let is_here = self.from.iter().flatten().any(|from| from.peer == *peer);
            !is_here && !matches!(self.ways.get(peer.index()), Some(Way::Open(_)))
        });
        for peer in missing {
            if self.open(peers, peer) == Err(libc::ECONNREFUSED) {
                self.lose(peer, Broken::Gone, events);
            }
        }
    }

    /// Says that this endpoint sleeps from now on, unless a look after this finds something.
    pub fn arm(&mut self) {
        for from in self.from.iter_mut().flatten() {
            from.receiving.arm();
        }
        for way in &self.ways {
            if let Way::Open(way) = way {
                way.arm();
            }
        }
    }

    /// Says that it is awake.
    pub fn disarm(&mut self) {
        for from in self.from.iter().flatten() {
            from.receiving.disarm();
        }
        for way in &self.ways {
            if let Way::Open(way) = way {
                way.disarm();
            }
        }
    }

    /// Whether a message that found no room may be sent again.
    pub fn has_room_again(&mut self, events: &mut impl Events) -> bool {
        let mut any = false;
        for peer in 0..self.ways.len() {
            let Way::Open(way) = &mut self.ways[peer] else { continue };
            match way.has_room_again() {
                Ok(again) => any |= again,
                Err(why) => self.lose(PeerId::of_index(peer as u32), why, events),
            }
        }
        any
    }
}

/// Whether the process at the other end has ended, or closed its endpoint.
fn is_gone(peer: &meeting::Peer) -> bool {
    sys::is_closed_after_rings(&peer.socket) || peer.life.as_ref().is_some_and(sys::is_readable)
}
