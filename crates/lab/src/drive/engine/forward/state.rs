//! The state that determines the future of a channel without limits, relative to the present.

use weft_fabric::fabric::RouteState;
use weft_fabric::graph::PortUse;
use weft_fabric::measure::Spent;
use weft_units::{Span, Time};

use crate::drive::carrier::MessageId;
use crate::drive::engine::Engine;
use crate::drive::engine::feed::Queued;
use crate::drive::engine::packets::{Forwarding, Packet};
use crate::drive::engine::planes::PlaneTurns;

/// The state of a channel at an instant at which all has happened that was due.
#[derive(Debug)]
pub(super) struct State {
    pub at: Time,
    /// In the order in which they happen.
    events: Vec<Due>,
    /// The packet numbers of these events, which have no influence.
    pub packets: Vec<u32>,
    pub ports: Vec<PortUse>,
    /// By host, the plane that it considers first.
    plane_turns: PlaneTurns,
    /// Messages that wait at their hosts, and how many of their packets were not submitted.
    waiting: Vec<Queued>,
    pub unfed: Vec<u32>,
    /// For each message, how many packets have not started and how many have not arrived.
    pub left: Vec<[u32; 2]>,
    /// The counters.
    pub steps: u64,
    pub events_before: u64,
    pub attempts: u64,
}

/// The future events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    after: Span,
    place: u32,
    item: Item,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Packet(UnderWay),
    /// An event of a message, or of nothing in particular.
    Number(u32),
}

/// All fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnderWay {
    to: u32,
    /// None if it has no choice.
    route_state: Option<RouteState>,
    output: u32,
    hops: u16,
    channel: u8,
    /// When its message was generated: the same for all packets of the message, so not relative to
    /// now.
    generated: Time,
    /// From its start to the present, modulo 2^64, since it may start later.
    since_start: u64,
    from: u32,
    message: MessageId,
    spent: Option<Spent>,
}

impl State {
    /// The present state of a channel, after this many steps.
    pub fn of(channel: &mut Engine, steps: u64) -> State {
        let at = channel.now;
        let has_choice = channel.routes.is_per_connection();
        let (mut events, mut packets) = (Vec::new(), Vec::new());
        for event in channel.parts.first().events() {
            let is_packet = channel.places.is_of_packet(event.place);
            let item = match is_packet {
                true => Item::Packet(UnderWay::of(channel, event.item, has_choice)),
                false => Item::Number(event.item),
            };
            if is_packet {
                packets.push(event.item);
            }
            events.push(Due { after: event.time.since(at), place: event.place, item });
        }
        debug_assert_eq!(packets.len(), channel.packets.len(), "each packet has an event");
        let (waiting, unfed) =
            channel.supply.messages().map(|feed| feed.queued()).unwrap_or_default();
        let left = channel.supply.messages().map(|feed| feed.messages.left()).unwrap_or_default();
        State {
            at,
            events,
            packets,
            ports: channel.graph.uses(),
            plane_turns: channel.plane_turns.clone(),
            waiting,
            unfed,
            left,
            steps,
            events_before: channel.steps,
            attempts: channel.observations.attempts,
        }
    }

    /// Whether the future is the same as from an earlier state, as long as messages have packets.
    pub fn is_again(&self, before: &State) -> bool {
        let period = self.period(before);
        let mut ports = self.ports.iter().zip(&before.ports);
        period > Span::ZERO
            && self.events == before.events
            && self.plane_turns == before.plane_turns
            && self.waiting == before.waiting
            && self.left.len() == before.left.len()
            && ports.all(|(now, then)| now.is_again(*then, before.at, period))
    }

    /// How often the period since an earlier state may be repeated before a message has fewer than one
    /// packet left.
    pub fn repeats(&self, before: &State) -> u64 {
        let unfed = self.unfed.iter().zip(&before.unfed);
        let left = self.left.iter().flatten().zip(before.left.iter().flatten());
        let repeats = |(now, then): (&u32, &u32)| {
            let gone = then.saturating_sub(*now);
            (gone > 0).then(|| now.saturating_sub(1) / gone)
        };
        unfed.chain(left).filter_map(repeats).min().unwrap_or(0).into()
    }

    /// The time since an earlier state.
    pub fn period(&self, before: &State) -> Span {
        self.at.since(before.at)
    }

    /// How many of its parts are compared.
    pub fn parts(&self) -> u64 {
        (self.events.len() + self.ports.len() + self.waiting.len()) as u64
    }
}

impl UnderWay {
    fn of(channel: &mut Engine, id: u32, has_choice: bool) -> UnderWay {
        let Forwarding { to, route_state, hops, channel: virtual_channel, .. } =
            channel.packets.forwarding[id as usize];
        let Packet { generated, start, from, message } = channel.packets.packets[id as usize];
        UnderWay {
            to,
            route_state: has_choice.then_some(route_state),
            output: channel.packets.output(id),
            hops,
            channel: virtual_channel,
            generated,
            since_start: channel.now.0.wrapping_sub(start.0),
            from,
            message,
            spent: channel.packets.spent(id),
        }
    }
}
