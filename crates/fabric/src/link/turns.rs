//! A half-duplex link whose ends take turns, in simulated time (Maestro 3.2).
//!
//! The state machine of an end is [`weft_protocol::turns::End`]; this part adds when things happen.
//! A turn begins when the last symbol of the frame of the other end has arrived, and the first symbol
//! follows after the turn-around. The paper does not say at which of the two instants an end decides
//! whether it sends packets: [`DecisionSettings`] has both. What comes later than the decision waits
//! for the next turn, but may join a frame that has packets anyway. Times are those of the receiving
//! end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::turns::{Burst, CHANNELS, End, Holding, Kind, Overrun, PACKET, Rules};
use weft_protocol::turns::{Preamble, SymbolWidth, packets_of};
use weft_units::{Bytes, PositiveCount, Span, Time};

use super::LinkSettings;

/// Settings of a link with turns. Its rate and its length are those of the cable, `link`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnSettings {
    /// From the last symbol of a frame to the first symbol of the other end: release, request,
    /// arbitration and grant of the physical layer, and the controllers on both sides.
    pub turn_around: Span,
    /// How many bits travel at a time, which limits the credits (Maestro Table 1, 6).
    #[serde(default)]
    pub symbol: SymbolWidth,
    /// The largest number of packets in a frame; by default as many as a credit can express.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<PositiveCount>,
    /// How many packets a frame has.
    #[serde(default)]
    pub burst: BurstSettings,
    /// When an end hands the link over.
    #[serde(default)]
    pub hold: HoldSettings,
    /// When an end decides whether its frame has packets.
    #[serde(default)]
    pub decision: DecisionSettings,
    /// Where in its turns each link is when a run begins.
    #[serde(default)]
    pub phase: PhaseSettings,
    /// What each of the FIFOs holds: one to send and one to receive for each channel at either end
    /// of the link (Maestro Table 1).
    pub fifo: Bytes,
}

/// How many packets a frame has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "TurnBurstSettings")]
pub enum BurstSettings {
    /// As many as are waiting and as the other end has room for (Maestro 3.1, Network Burst).
    #[default]
    Credit,
    /// One packet of a fixed size, the 16, 32 and 64 bytes of Maestro 4.2. Memory, FIFOs, credits,
    /// the link and the switch all work in units of it. A message is padded to a multiple of it.
    Single {
        /// Its size in units of 16 bytes.
        packets: PositiveCount,
    },
}

/// When an end hands the link over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HoldSettings {
    /// After every frame (Maestro 3.2, fair link arbitration).
    #[default]
    OneFrame,
    /// When it has nothing left to send, or no credit: the greedy sender that fair arbitration is
    /// meant to prevent.
    WhileAllowed,
}

/// When an end decides whether its frame has packets. Maestro 4.1 speaks of "the maximal and the
/// minimal link-arbitration time" and leaves this open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSettings {
    /// When its turn begins, before the turn-around, so that a packet always waits for one.
    #[default]
    BeforeTurnAround,
    /// When its first symbol leaves, after the turn-around, so that a packet that arrives during
    /// the turn-around still joins the frame.
    AfterTurnAround,
}

/// Where in its turns each link is when a run begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhaseSettings {
    /// Each at a random point that the seed determines: nothing synchronises links.
    #[default]
    Random,
    /// All at the beginning of the turn of their first end, which is the host's.
    Aligned,
    /// When the first turn of that end begins, for each link, those of the hosts first; immediately
    /// for links that the list does not reach.
    At(Vec<Span>),
}

/// A setting of a link with turns that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: accepted is {accepted}")]
pub struct TurnError {
    /// The key, below that of the link.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What would be right.
    pub accepted: String,
}

/// Spans that are the same for all frames of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnTiming {
    /// From the end of a frame to the first symbol of the next one.
    pub turn_around: Span,
    /// The part of the turn-around that passes before an end decides on its frame: none or all.
    pub undecided: Span,
    /// A preamble, and so a null frame.
    pub preamble: Span,
    /// A packet within a frame.
    pub packet: Span,
    /// From one end of the cable to the other.
    pub propagation: Span,
}

/// What happened on the link in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// An end decided on its frame, the first symbol of which travels at `first`.
    Began {
        /// The end that speaks, 0 or 1.
        side: usize,
        /// How the frame begins.
        preamble: Preamble,
        /// When its first symbol leaves.
        first: Time,
        /// When its preamble is over at the other end.
        over: Time,
    },
    /// The last symbol of a packet is at the other end, with a place for it.
    Moved {
        /// The end that sent it.
        side: usize,
        /// Its channel.
        channel: usize,
        /// Whether it was the last one of its frame.
        last: bool,
    },
}

/// A link with the state of both ends.
#[derive(Clone, Debug)]
pub struct TurnLink {
    ends: [End; 2],
    timing: TurnTiming,
    /// The credits of empty FIFOs.
    full: [u16; CHANNELS],
    holder: usize,
    state: State,
    /// How many null frames followed each other last, of ends that knew of all room there is and
    /// were given nothing to send since.
    nulls: u8,
    may_sleep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The holder decides on its frame; it may hold the link already.
    Turn { held: bool },
    /// Packets of a frame are travelling.
    Frame { channel: usize },
    /// Null frames go back and forth, and would do so forever, so they are not simulated. The
    /// holder decided on its turn at this time.
    Asleep { since: Time },
}

impl TurnSettings {
    /// The rules of the link protocol that both ends follow.
    ///
    /// # Errors
    /// Numbers that the symbols cannot express, or FIFOs too small for a packet.
    pub fn rules(&self) -> Result<Rules, TurnError> {
        let largest = self.symbol.most_credit();
        let within = |key, count: PositiveCount| {
            let accepted = || format!("1 to {largest}, the largest credit of a symbol");
            let fits = u16::try_from(count.get()).ok().filter(|count| *count <= largest);
            fits.ok_or_else(|| TurnError {
                key,
                value: count.get().to_string(),
                accepted: accepted(),
            })
        };
        let most = self.most.map_or(Ok(largest), |most| within("most", most))?;
        let burst = match self.burst {
            BurstSettings::Credit => Burst::Credit,
            BurstSettings::Single { .. } => Burst::Fixed(1),
        };
        let holding = match self.hold {
            HoldSettings::OneFrame => Holding::OneFrame,
            HoldSettings::WhileAllowed => Holding::WhileAllowed,
        };
        Ok(Rules { width: self.symbol, most, burst, holding })
    }

    /// How many packets each FIFO holds.
    ///
    /// # Errors
    /// A FIFO that does not hold a packet, or more than 65535 of them.
    pub fn capacity(&self) -> Result<u16, TurnError> {
        let packet = self.packet().0;
        let fits = u16::try_from(self.fifo.0 / packet).ok().filter(|packets| *packets > 0);
        fits.ok_or_else(|| TurnError {
            key: "fifo",
            value: self.fifo.to_string(),
            accepted: format!("{packet} B to {} B, 1 to 65535 packets", packet * 65_535),
        })
    }

    /// What is moved as a whole.
    pub fn packet(&self) -> Bytes {
        let times = match self.burst {
            BurstSettings::Credit => 1,
            BurstSettings::Single { packets } => u64::from(packets.get()),
        };
        Bytes(PACKET as u64 * times)
    }

    /// What a message with this much payload takes on the link, preambles not counted.
    pub fn message(&self, payload: Bytes) -> Bytes {
        Bytes((packets_of(payload.0) * PACKET as u64).next_multiple_of(self.packet().0))
    }

    /// The spans on a cable. What is `reserved` of its rate prolongs the packets, as on any link.
    pub fn timing(&self, link: &LinkSettings) -> TurnTiming {
        let bits = |bits: u64| {
            let numerator = u128::from(bits) * u128::from(link.rate.per());
            let bits = u128::from(link.rate.bits());
            Span(((numerator + bits / 2) / bits) as u64)
        };
        TurnTiming {
            turn_around: self.turn_around,
            undecided: match self.decision {
                DecisionSettings::BeforeTurnAround => Span::ZERO,
                DecisionSettings::AfterTurnAround => self.turn_around,
            },
            preamble: bits(self.symbol.preamble_bits()),
            packet: link.span(self.packet()),
            propagation: link.propagation(),
        }
    }
}

impl TurnTiming {
    /// From the decision of an idle turn to the decision of the other end's.
    pub fn null_turn(&self) -> Span {
        self.turn_around + self.preamble + self.propagation
    }

    /// From the decision on a frame to its first symbol, unless the end holds the link already.
    pub fn decided(&self) -> Span {
        Span(self.turn_around.0 - self.undecided.0)
    }

    /// The longest wait, on an idle link, of a packet that comes just after the end has released the
    /// link: until the decision of its next turn (Maestro 4.1, t1 - t4).
    pub fn release_to_decision(&self) -> Span {
        self.null_turn() + self.undecided
    }
}

impl TurnLink {
    /// A link on which end 0 decides on its first turn at time zero.
    pub fn new(rules: Rules, capacity: u16, timing: TurnTiming) -> TurnLink {
        let end = End::new(rules, capacity);
        let full = end.credits();
        TurnLink {
            ends: [end.clone(), end],
            timing,
            full,
            holder: 0,
            state: State::Turn { held: false },
            nulls: 0,
            may_sleep: true,
        }
    }

    /// Every null frame is shown from now on, also those in which nothing changes.
    pub fn show_every_turn(&mut self) {
        self.may_sleep = false;
    }

    /// The end whose turn it is.
    pub fn holder(&self) -> usize {
        self.holder
    }

    /// How long everything takes.
    pub fn timing(&self) -> &TurnTiming {
        &self.timing
    }

    /// An end: its room and its credits.
    pub fn end(&self, side: usize) -> &End {
        &self.ends[side]
    }

    /// A packet was read from the receive FIFO of an end.
    pub fn drained(&mut self, side: usize, channel: usize) {
        self.ends[side].drained(channel);
    }

    /// A packet is ready to be sent. Returns when to call [`TurnLink::step`], unless a call is due
    /// anyway.
    pub fn wake(&mut self, now: Time) -> Option<Time> {
        self.nulls = 0;
        let State::Asleep { since } = self.state else { return None };
        let turn = self.timing.null_turn().0.max(1);
        let turns = now.since(since).0.div_ceil(turn);
        self.holder ^= (turns & 1) as usize;
        self.state = State::Turn { held: false };
        Some(since + Span(turns * turn))
    }

    /// Carries out what is due at `now`, with this many packets in the send FIFOs of the holder,
    /// including packets that are still arriving there. Returns what happened and when the next
    /// step is due; `None` while nothing but null frames would pass, see [`TurnLink::wake`].
    ///
    /// # Errors
    /// [`Overrun`] where a packet comes without room for it: a defect, since credits prevent it.
    pub fn step(
        &mut self,
        now: Time,
        waiting: [u16; CHANNELS],
    ) -> Result<(TurnEvent, Option<Time>), Overrun> {
        match self.state {
            State::Frame { channel } => self.packet(now, channel, waiting),
            State::Turn { held } => Ok(self.begin(now, held, waiting)),
            State::Asleep { .. } => Ok(self.begin(now, false, waiting)),
        }
    }

    fn begin(
        &mut self,
        now: Time,
        held: bool,
        waiting: [u16; CHANNELS],
    ) -> (TurnEvent, Option<Time>) {
        let (side, other) = (self.holder, 1 - self.holder);
        let knew = self.knows_all_room(side);
        let preamble = self.ends[side].begin(waiting);
        self.ends[other].hear(preamble);
        let first = if held { now } else { now + self.timing.decided() };
        let over = first + self.timing.preamble + self.timing.propagation;
        let event = TurnEvent::Began { side, preamble, first, over };
        match preamble.kind {
            Kind::Data { channel } => {
                self.nulls = 0;
                self.state = State::Frame { channel };
                (event, Some(over + self.timing.packet))
            }
            Kind::Null => {
                self.nulls = if knew { self.nulls.saturating_add(1) } else { 0 };
                self.holder = other;
                let next = over + self.timing.undecided;
                if self.is_quiet() {
                    self.state = State::Asleep { since: next };
                    return (event, None);
                }
                self.state = State::Turn { held: false };
                (event, Some(next))
            }
        }
    }

    fn packet(
        &mut self,
        now: Time,
        channel: usize,
        mut waiting: [u16; CHANNELS],
    ) -> Result<(TurnEvent, Option<Time>), Overrun> {
        let (side, other) = (self.holder, 1 - self.holder);
        self.ends[side].sent();
        self.ends[other].received(channel)?;
        waiting[channel] = waiting[channel].saturating_sub(1);
        let last = waiting[channel] == 0 || !self.ends[side].may_send();
        let event = TurnEvent::Moved { side, channel, last };
        if !last {
            return Ok((event, Some(now + self.timing.packet)));
        }
        let held = self.ends[side].may_hold(waiting);
        self.state = State::Turn { held };
        if held {
            return Ok((event, Some(now)));
        }
        self.holder = other;
        Ok((event, Some(now + self.timing.undecided)))
    }

    /// Whether an end knows that all FIFOs of the other one are empty.
    fn knows_all_room(&self, side: usize) -> bool {
        (0..CHANNELS).all(|channel| self.ends[side].credit(channel) == self.full[channel])
    }

    /// Whether null frames would only repeat what both ends know.
    fn is_quiet(&self) -> bool {
        let empty = |side: usize| self.ends[side].credits() == self.full;
        let both = |holds: &dyn Fn(usize) -> bool| holds(0) && holds(1);
        self.may_sleep && self.nulls >= 2 && both(&empty) && both(&|side| self.knows_all_room(side))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_units::{Fraction, Length, Rate, SpanPerLength};

    /// 200 Mbit/s without length.
    fn cable() -> LinkSettings {
        LinkSettings {
            rate: Rate::from_bits_per_second(200_000_000),
            length: Length(0),
            delay_per_metre: SpanPerLength(0),
            reserved: Fraction::default(),
        }
    }

    fn settings() -> TurnSettings {
        TurnSettings {
            turn_around: Span::from_ns(1_000),
            symbol: SymbolWidth::FourBits,
            most: None,
            burst: BurstSettings::Credit,
            hold: HoldSettings::OneFrame,
            decision: DecisionSettings::BeforeTurnAround,
            phase: PhaseSettings::Aligned,
            fifo: Bytes(2048),
        }
    }

    /// A fifth of the rate leaves 800 ns for 16 bytes; preambles are as long as ever.
    #[test]
    fn what_is_reserved_prolongs_packets() {
        let link = LinkSettings { reserved: Fraction::new(0.2).unwrap(), ..cable() };
        let timing = settings().timing(&link);
        assert_eq!((timing.preamble, timing.packet), (Span::from_ns(60), Span::from_ns(800)));
    }

    fn link(settings: &TurnSettings) -> TurnLink {
        let timing = settings.timing(&cable());
        let (rules, capacity) = (settings.rules().unwrap(), settings.capacity().unwrap());
        TurnLink::new(rules, capacity, timing)
    }

    /// Runs a link on which end 0 has packets from the start and end 1 none, and notes when each
    /// one arrives.
    fn arrivals(link: &mut TurnLink, mut packets: u16) -> Vec<u64> {
        let (mut next, mut arrivals) = (Some(Time::ZERO), Vec::new());
        while let Some(now) = next.filter(|_| packets > 0) {
            let waiting = if link.holder() == 0 { [packets, 0] } else { [0, 0] };
            let (event, then) = link.step(now, waiting).unwrap();
            if let TurnEvent::Moved { side, channel, .. } = event {
                packets -= 1;
                arrivals.push(now.0 / 1_000);
                link.drained(1 - side, channel);
            }
            next = then;
        }
        arrivals
    }

    /// Nibbles of 20 ns: a preamble takes 60 ns, a packet 640 ns, so a null frame 60 ns, a frame of
    /// one packet 700 ns and a full one 9660 ns (Maestro Figure 4).
    #[test]
    fn spans_of_null_one_packet_and_full_frames() {
        let timing = settings().timing(&cable());
        assert_eq!(timing.preamble, Span::from_ns(60));
        assert_eq!(timing.preamble + timing.packet, Span::from_ns(700));
        assert_eq!(timing.preamble + timing.packet * 15, Span::from_ns(9_660));
    }

    /// Turn-around 1000 ns. End 0 knows no credit yet, so its first frame is null: 0 to 1060 ns.
    /// The response grants 15 packets: to 2120 ns. Then 1000 + 60 + 640 ns, and 640 ns per packet;
    /// the 16th follows one null frame of end 1: 12780 + 1060 + 1700 ns.
    #[test]
    fn sixteen_packets_nanosecond_by_nanosecond() {
        let expected: Vec<u64> =
            (0..15).map(|packet| 3_820 + 640 * packet).chain([15_540]).collect();
        assert_eq!(arrivals(&mut link(&settings()), 16), expected);
    }

    /// Ends decide after the turn-around. The first null frame of end 0 leaves immediately:
    /// 0 to 60 ns; the response at 1060 to 1120; the frame at 2120: 640 ns per packet from 2180 on,
    /// the 15th at 11780; null frame of end 1 to 12840, and the 16th at 12840 + 1000 + 60 + 640 ns.
    #[test]
    fn sixteen_packets_decided_after_the_turn_around() {
        let decision = DecisionSettings::AfterTurnAround;
        let expected: Vec<u64> =
            (0..15).map(|packet| 2_820 + 640 * packet).chain([14_540]).collect();
        let mut link = link(&TurnSettings { decision, ..settings() });
        assert_eq!(arrivals(&mut link, 16), expected);
    }

    /// Frames of 4 packets: 1 + 4 of them, and every frame but the last is followed by a null one.
    #[test]
    fn single_packets_of_64_bytes() {
        let packets = PositiveCount::new(4).unwrap();
        let settings = TurnSettings { burst: BurstSettings::Single { packets }, ..settings() };
        assert_eq!((settings.packet(), settings.capacity()), (Bytes(64), Ok(32)));
        assert_eq!(arrivals(&mut link(&settings), 2), [5_740, 10_420]);
    }

    /// With eight bits a symbol the credit of an empty FIFO is 128, and a greedy end sends them in
    /// frames of 15 without handing the link over: 120 ns of preamble between them.
    #[test]
    fn a_greedy_end_holds_the_link() {
        let settings = TurnSettings {
            symbol: SymbolWidth::EightBits,
            most: PositiveCount::new(15),
            hold: HoldSettings::WhileAllowed,
            ..settings()
        };
        let all = arrivals(&mut link(&settings), 31);
        let gaps: Vec<u64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let long: Vec<(usize, u64)> = (0..).zip(gaps).filter(|(_, gap)| *gap != 640).collect();
        assert_eq!(long, [(14, 760), (29, 760)]);
    }

    #[test]
    fn numbers_that_cannot_be_are_named() {
        let most = TurnSettings { most: PositiveCount::new(16), ..settings() };
        let error = most.rules().unwrap_err().to_string();
        assert_eq!(error, "most = 16: accepted is 1 to 15, the largest credit of a symbol");
        let fifo = TurnSettings { fifo: Bytes(15), ..settings() };
        let error = fifo.capacity().unwrap_err().to_string();
        assert_eq!(error, "fifo = 15 B: accepted is 16 B to 1048560 B, 1 to 65535 packets");
    }

    proptest! {
        /// A link that sleeps while nothing is to be sent carries packets at the very times at which
        /// one does that never sleeps.
        #[test]
        fn sleep_changes_no_arrival(
            gaps in prop::collection::vec((1_u64..40_000, 0_usize..2), 1..40),
            is_late: bool,
        ) {
            let decision = match is_late {
                false => DecisionSettings::BeforeTurnAround,
                true => DecisionSettings::AfterTurnAround,
            };
            let run = |sleeps: bool| {
                let mut link = link(&TurnSettings { decision, ..settings() });
                if !sleeps {
                    link.show_every_turn();
                }
                // Odd picoseconds, so that no packet comes at the very beginning of a turn.
                let mut due = gaps.iter().scan(0, |at, (gap, side)| {
                    *at += gap * 1_000 + 1;
                    Some((Time(*at), *side))
                }).peekable();
                let mut waiting = [0_u16; 2];
                let (mut next, mut arrivals) = (Some(Time::ZERO), Vec::new());
                while arrivals.len() < gaps.len() {
                    let step = next.unwrap_or(Time::NEVER);
                    if let Some((time, side)) = due.next_if(|(time, _)| *time < step) {
                        waiting[side] += 1;
                        next = link.wake(time).or(next);
                        continue;
                    }
                    let side = link.holder();
                    let (event, then) = link.step(step, [waiting[side], 0]).unwrap();
                    if let TurnEvent::Moved { side, channel, .. } = event {
                        waiting[side] -= 1;
                        link.drained(1 - side, channel);
                        arrivals.push((step, side));
                    }
                    next = then;
                }
                arrivals
            };
            prop_assert_eq!(run(true), run(false));
        }
    }
}
