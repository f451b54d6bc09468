//! The packets of the hosts: from their sources, or from messages.

use std::sync::Arc;

use weft_fabric::fabric::HostPair;
use weft_fabric::workload::{Feedback, Source};
use weft_units::{Bytes, Limit, Span, Time};

use super::feed::Feed;
use crate::drive::carrier::MessageId;

/// A submitted packet, and when the next one is due, if it does not need feedback.
#[derive(Clone, Copy, Debug)]
pub(in crate::drive) struct Handed {
    pub to: u32,
    pub generated: Time,
    pub message: MessageId,
    /// The size of what a program submitted: for a message, all of it.
    pub size: Bytes,
    /// The part of it in the packet.
    pub part: Bytes,
    pub next: Time,
}

impl Handed {
    /// A packet that a source submits now.
    #[inline]
    fn of_source(now: Time, to: u32, payload: Bytes, next: Time) -> Handed {
        Handed { to, generated: now, message: MessageId::NONE, size: payload, part: payload, next }
    }
}

/// The sources of the hosts, or messages in their place.
// A separate tag, which is read several times for each packet.
#[derive(Debug)]
#[repr(u8)]
pub(in crate::drive) enum Supply {
    Sources(Vec<Source>),
    /// The supply of the hosts of one part of a graph.
    Part(PartSources),
    Messages(Box<Feed>),
}

/// The sources of the hosts of a part, and the index among them for each host of the graph.
#[derive(Debug)]
pub(in crate::drive) struct PartSources {
    sources: Vec<Source>,
    places: Arc<[u32]>,
}

impl PartSources {
    // Not inlined, so that the code of an undivided graph stays short.
    #[inline(never)]
    fn of(&mut self, host: u32) -> &mut Source {
        &mut self.sources[self.places[host as usize] as usize]
    }
}

impl Supply {
    /// The sources of this many hosts or, without sources, messages in packets that carry
    /// `payload`.
    pub fn new(sources: Vec<Source>, hosts: u32, payload: Bytes) -> Supply {
        if sources.is_empty() {
            return Supply::Messages(Box::new(Feed::new(hosts as usize, payload)));
        }
        Supply::Sources(sources)
    }

    /// Whether packets come from the sources of an undivided graph.
    pub fn is_of_sources(&self) -> bool {
        matches!(self, Supply::Sources(_))
    }

    /// The source of a host, if it has one.
    #[inline]
    pub fn source(&mut self, host: u32) -> Option<&mut Source> {
        match self {
            Supply::Sources(sources) => sources.get_mut(host as usize),
            Supply::Part(part) => Some(part.of(host)),
            Supply::Messages(_) => None,
        }
    }

    /// The sources by the part of each host, for `count` parts; nothing is left here. `None` for messages.
    pub fn divide(&mut self, of_hosts: &[u32], count: u32) -> Option<Vec<Supply>> {
        let Supply::Sources(sources) = self else { return None };
        let mut parts: Vec<Vec<Source>> = (0..count).map(|_| Vec::new()).collect();
        let mut places = Vec::with_capacity(sources.len());
        for (source, part) in std::mem::take(sources).into_iter().zip(of_hosts) {
            let own = &mut parts[*part as usize];
            places.push(own.len() as u32);
            own.push(source);
        }
        let places: Arc<[u32]> = places.into();
        let part = |sources| PartSources { sources, places: Arc::clone(&places) };
        Some(parts.into_iter().map(|own| Supply::Part(part(own))).collect())
    }

    /// The slot at whose beginnings all sources submit all of their packets, if they do so.
    pub fn slot(&self) -> Option<Span> {
        let sources = match self {
            Supply::Sources(sources) => sources,
            Supply::Part(part) => &part.sources,
            Supply::Messages(_) => return None,
        };
        let mut slots = sources.iter().filter(|own| !own.is_silent()).map(Source::slot);
        let first = slots.next()??;
        slots.all(|slot| slot == Some(first)).then_some(first)
    }

    /// When each source submits its first packets: host and time, several for a greedy source,
    /// which fills all `buffers` together.
    pub fn begin(&self, buffers: Limit) -> Vec<(u32, Time)> {
        let first = |(host, source): (u32, &Source)| {
            let packets = match (source.feedback(), buffers.count()) {
                (Feedback::Ready, Some(buffers)) => buffers.as_usize(),
                _ => usize::from(source.next_time() < Time::NEVER),
            };
            std::iter::repeat_n((host, source.next_time()), packets)
        };
        match self {
            Supply::Sources(sources) => (0..).zip(sources).flat_map(first).collect(),
            Supply::Part(_) | Supply::Messages(_) => Vec::new(),
        }
    }

    /// The source of a host, or the feed of messages. Both kinds are looked up here, so that the code which
    /// runs for each packet exists once.
    #[inline]
    fn of(&mut self, host: u32) -> Result<&mut Source, &mut Feed> {
        match self {
            Supply::Sources(sources) => Ok(&mut sources[host as usize]),
            Supply::Part(part) => Ok(part.of(host)),
            Supply::Messages(feed) => Err(feed),
        }
    }

    /// Prefetches what the source of a host needs for its next packet.
    #[inline]
    pub fn prefetch(&self, host: u32) {
        if let Supply::Sources(sources) = self
            && let Some(source) = sources.get(host as usize)
        {
            source.prefetch();
        }
    }

    /// A host submits a packet, with this payload if it comes from a source. The caller counts it;
    /// packets of messages were counted when these were offered.
    #[inline]
    pub fn hand_over(&mut self, now: Time, host: u32, payload: Bytes) -> Handed {
        match self.of(host) {
            Ok(source) => take(source, now, payload),
            Err(feed) => feed.hand_over(now, host as u16),
        }
    }

    /// Like [`hand_over`](Self::hand_over), for a host whose source needs no feedback.
    #[inline(always)]
    pub fn hand_over_in_step(&mut self, now: Time, host: u32, payload: Bytes) -> Option<Handed> {
        let source = self.source(host)?;
        let to = source.take().target;
        Some(Handed::of_source(now, to, payload, source.next_time()))
    }

    /// Whether the source of `host` submits another packet as soon as this one has started. The
    /// caller must then ask it for that.
    #[inline]
    pub fn has_another(&mut self, host: u32) -> bool {
        match self.of(host) {
            Ok(source) => source.feedback() == Feedback::Ready,
            Err(feed) => feed.ask(host as u16),
        }
    }

    /// Whether anything depends on when packets [arrive](Self::arrived).
    pub fn awaits_arrivals(&self) -> bool {
        let awaits = |source: &Source| source.feedback() == Feedback::Delivered;
        match self {
            Supply::Sources(sources) => sources.iter().any(awaits),
            Supply::Part(part) => part.sources.iter().any(awaits),
            Supply::Messages(_) => true,
        }
    }

    /// A packet has reached its target. Returns when the source there must be asked for a packet
    /// because of that.
    #[inline(always)]
    pub fn arrived(&mut self, now: Time, pair: HostPair, message: MessageId) -> Option<Time> {
        match self.of(pair.to) {
            Ok(source) if source.feedback() == Feedback::Delivered => {
                answer(source, now, pair.from)
            }
            Ok(_) => None,
            Err(feed) => {
                feed.messages.arrive(now, message);
                None
            }
        }
    }

    /// The messages, if packets are theirs.
    pub fn messages(&mut self) -> Option<&mut Feed> {
        match self {
            Supply::Sources(_) | Supply::Part(_) => None,
            Supply::Messages(feed) => Some(feed),
        }
    }

    /// Packets of messages that have not been submitted.
    pub fn unfed(&self) -> u64 {
        match self {
            Supply::Sources(_) | Supply::Part(_) => 0,
            Supply::Messages(feed) => feed.waiting(),
        }
    }

    /// The time of the oldest notice that has not been taken.
    pub fn next_notice(&self) -> Option<Time> {
        match self {
            Supply::Sources(_) | Supply::Part(_) => None,
            Supply::Messages(feed) => feed.messages.next_notice(),
        }
    }
}

/// What a source submits.
#[inline]
fn take(source: &mut Source, now: Time, payload: Bytes) -> Handed {
    source.ready(now);
    let demand = source.take();
    Handed::of_source(now, demand.target, payload, source.next_time())
}

/// When a source with feedback must be asked for a packet because one has reached its host.
#[inline(never)]
fn answer(source: &mut Source, now: Time, from: u32) -> Option<Time> {
    let before = source.next_time();
    source.delivered(now, from);
    Some(source.next_time()).filter(|next| *next != before)
}
