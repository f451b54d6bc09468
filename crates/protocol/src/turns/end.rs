//! One end of a link: when it sends, how much, and how much it allows the other end.

use super::frame::{Kind, Preamble};
use super::{CHANNELS, SymbolWidth};

/// The parameters on which both ends of a link agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The symbols, which bound the credits.
    pub width: SymbolWidth,
    /// The most packets in one frame; at most [`SymbolWidth::most_credit`].
    pub most: u16,
    /// How many packets a frame has.
    pub burst: Burst,
    /// When the link is handed over.
    pub holding: Holding,
}

/// How many packets a frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Burst {
    /// As many as wait and as the other end has room for, whatever messages they belong to
    /// (Maestro 3.1, Network Burst).
    Credit,
    /// Exactly this many, at least one: the single packets of a fixed size with which Maestro 4.2
    /// compares. An end waits until this many are there and allowed.
    Fixed(u16),
}

/// When an end hands the link over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holding {
    /// After every frame, so that neither end waits for more than one (Maestro 3.2, fair link
    /// arbitration).
    OneFrame,
    /// When it has nothing to send any more or no credit left: the sender without fair
    /// arbitration that Maestro 3.2 warns of.
    WhileAllowed,
}

/// A packet arrived for which the receive FIFO has no room: the other end broke the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the receive FIFO of channel {channel} is full: expected no packet beyond its credit")]
pub struct Overrun {
    /// The channel.
    pub channel: usize,
}

/// One end of a link. The FIFOs are elsewhere; the end counts what it may send and what it has room
/// for.
///
/// ```text
/// own turn:    begin -> [may_send -> sent]* -> may_hold? -> the turn of the other end
/// other's turn:                          hear -> received*
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct End {
    rules: Rules,
    /// Free places of each receive FIFO, in packets.
    room: [u16; CHANNELS],
    /// How many packets the other end has allowed and that have not been sent.
    credit: [u16; CHANNELS],
    /// The channel that comes first when both have packets.
    first: usize,
    /// The frame that is being sent, and how many packets it has so far.
    frame: Option<(usize, u16)>,
}

impl End {
    /// An end with empty receive FIFOs of this many packets each. It may send nothing before it has
    /// received a preamble.
    pub fn new(rules: Rules, capacity: u16) -> End {
        let (room, credit) = ([capacity; CHANNELS], [0; CHANNELS]);
        End { rules, room, credit, first: 0, frame: None }
    }

    /// The turn begins, with this many packets in each send FIFO: returns how the frame begins.
    /// Credits are what is free now; nothing arrives before the other end has received them.
    pub fn begin(&mut self, waiting: [u16; CHANNELS]) -> Preamble {
        let most = self.rules.width.most_credit();
        let credits = self.room.map(|room| room.min(most));
        let channels = [self.first, (self.first + 1) % CHANNELS];
        let channel = channels.into_iter().find(|&channel| self.can_begin(channel, waiting));
        self.frame = channel.map(|channel| (channel, 0));
        let Some(channel) = channel else { return Preamble { credits, kind: Kind::Null } };
        self.first = (channel + 1) % CHANNELS;
        Preamble { credits, kind: Kind::Data { channel } }
    }

    /// Whether a packet more may join the frame that is being sent.
    pub fn may_send(&self) -> bool {
        let limit = match self.rules.burst {
            Burst::Credit => self.rules.most,
            Burst::Fixed(packets) => packets,
        };
        self.frame.is_some_and(|(channel, sent)| sent < limit && self.credit[channel] > 0)
    }

    /// A packet left in the frame that is being sent; only where [`End::may_send`].
    pub fn sent(&mut self) {
        if let Some((channel, sent)) = &mut self.frame {
            *sent += 1;
            self.credit[*channel] = self.credit[*channel].saturating_sub(1);
        }
    }

    /// The frame is over, with this many packets in each send FIFO: whether the end sends another
    /// one immediately instead of handing over the link.
    pub fn may_hold(&mut self, waiting: [u16; CHANNELS]) -> bool {
        self.frame = None;
        self.rules.holding == Holding::WhileAllowed
            && (0..CHANNELS).any(|channel| self.can_begin(channel, waiting))
    }

    /// A frame of the other end begins: from now on its credits count, and no older ones.
    pub fn hear(&mut self, preamble: Preamble) {
        self.credit = preamble.credits;
    }

    /// A packet has arrived in the receive FIFO of a channel.
    ///
    /// # Errors
    /// [`Overrun`] where there was no room, which no end that keeps to its credits causes.
    pub fn received(&mut self, channel: usize) -> Result<(), Overrun> {
        let room = &mut self.room[channel];
        *room = room.checked_sub(1).ok_or(Overrun { channel })?;
        Ok(())
    }

    /// A packet has been read from the receive FIFO of a channel.
    pub fn drained(&mut self, channel: usize) {
        self.room[channel] += 1;
    }

    /// Free places of the receive FIFO of a channel, in packets.
    pub fn room(&self, channel: usize) -> u16 {
        self.room[channel]
    }

    /// How many packets the other end still allows on a channel.
    pub fn credit(&self, channel: usize) -> u16 {
        self.credit[channel]
    }

    /// The content of a preamble sent now.
    pub fn credits(&self) -> [u16; CHANNELS] {
        self.room.map(|room| room.min(self.rules.width.most_credit()))
    }

    /// Whether a turn that begins now, with this many packets in each send FIFO, would have
    /// packets.
    pub fn wants(&self, waiting: [u16; CHANNELS]) -> bool {
        (0..CHANNELS).any(|channel| self.can_begin(channel, waiting))
    }

    fn can_begin(&self, channel: usize, waiting: [u16; CHANNELS]) -> bool {
        let needed = match self.rules.burst {
            Burst::Credit => 1,
            Burst::Fixed(packets) => packets,
        };
        waiting[channel] >= needed && self.credit[channel] >= needed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::explore;

    fn rules(most: u16, burst: Burst, holding: Holding) -> Rules {
        Rules { width: SymbolWidth::FourBits, most, burst, holding }
    }

    /// An end with the packets in its send FIFOs and receive FIFOs.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Side {
        end: End,
        waiting: [u16; CHANNELS],
        received: [u16; CHANNELS],
    }

    /// A link whose ends have FIFOs of `CAPACITY` packets.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Link {
        sides: [Side; 2],
        turn: usize,
        sending: Option<usize>,
    }

    const CAPACITY: u16 = 2;

    /// How many packets wait at the most, by side and channel. Both channels and both directions
    /// are in use; more would multiply states without a new kind among them.
    const WAITING: [[u16; CHANNELS]; 2] = [[2, 1], [1, 0]];

    impl Link {
        fn new(rules: Rules) -> Link {
            let end = End::new(rules, CAPACITY);
            let side = Side { end, waiting: [0; CHANNELS], received: [0; CHANNELS] };
            Link { sides: [side.clone(), side], turn: 0, sending: None }
        }

        /// What the link does next; always something.
        fn step(&self) -> Link {
            let mut next = self.clone();
            let [one, other] = &mut next.sides;
            let (own, peer) = if self.turn == 0 { (one, other) } else { (other, one) };
            let Some(channel) = self.sending else {
                let preamble = own.end.begin(own.waiting);
                peer.end.hear(preamble);
                match preamble.kind {
                    Kind::Null => next.turn = 1 - self.turn,
                    Kind::Data { channel } => next.sending = Some(channel),
                }
                return next;
            };
            if own.waiting[channel] > 0 && own.end.may_send() {
                own.end.sent();
                own.waiting[channel] -= 1;
                peer.end.received(channel).expect("a credit is room");
                peer.received[channel] += 1;
            } else {
                next.sending = None;
                if !own.end.may_hold(own.waiting) {
                    next.turn = 1 - self.turn;
                }
            }
            next
        }

        /// Everything that can happen next: the link, and a host at each end.
        fn successors(&self) -> Vec<Link> {
            let mut all = vec![self.step()];
            for (side, most) in WAITING.into_iter().enumerate() {
                for (channel, most) in most.into_iter().enumerate() {
                    if self.sides[side].waiting[channel] < most {
                        let mut next = self.clone();
                        next.sides[side].waiting[channel] += 1;
                        all.push(next);
                    }
                    if self.sides[side].received[channel] > 0 {
                        let mut next = self.clone();
                        next.sides[side].received[channel] -= 1;
                        next.sides[side].end.drained(channel);
                        all.push(next);
                    }
                }
            }
            all
        }

        fn check(&self) {
            for (own, peer) in [(0, 1), (1, 0)].map(|(own, peer)| (own, &self.sides[peer])) {
                for channel in 0..CHANNELS {
                    let credit = self.sides[own].end.credit(channel);
                    assert!(credit <= peer.end.room(channel), "a credit is more than room");
                    assert_eq!(peer.end.room(channel) + peer.received[channel], CAPACITY);
                }
            }
        }

        fn is_empty(&self) -> bool {
            let none = [0; CHANNELS];
            self.sides.iter().all(|side| side.waiting == none && side.received == none)
        }
    }

    /// Every state of a link with FIFOs of two packets on both channels: no credit is exceeded, no
    /// FIFO overrun, and the turn passes on within a frame whatever the hosts do.
    #[test]
    fn every_state_of_small_fifos_keeps_the_credits_and_passes_the_turn() {
        let credit = Burst::Credit;
        let cases = [
            (rules(2, credit, Holding::OneFrame), 2),
            (rules(1, credit, Holding::OneFrame), 1),
            (rules(2, credit, Holding::WhileAllowed), 2 * CAPACITY),
        ];
        for (rules, longest) in cases {
            let states = explore(Link::new(rules), |link| {
                link.check();
                let mut ahead = link.clone();
                // A frame, or frames, of this many packets, their beginnings and their ends.
                let bound = 3 * longest + 1;
                let passed = (0..bound).any(|_| {
                    ahead = ahead.step();
                    ahead.turn != link.turn
                });
                assert!(passed, "the turn is not handed over: {link:?}");
                link.successors()
            });
            assert!(states.len() > 1_000, "{} states", states.len());
            assert!(states.all_can_reach(Link::is_empty), "packets are stuck");
        }
    }

    #[test]
    fn packets_of_a_fixed_size_wait_until_they_are_whole() {
        let mut end = End::new(rules(15, Burst::Fixed(4), Holding::OneFrame), 128);
        let allowed = Preamble { credits: [15, 15], kind: Kind::Null };
        end.hear(allowed);
        assert_eq!(end.begin([3, 0]).kind, Kind::Null);
        assert_eq!(end.begin([9, 0]).kind, Kind::Data { channel: 0 });
        let mut sent = 0;
        while end.may_send() {
            end.sent();
            sent += 1;
        }
        assert_eq!((sent, end.credit(0)), (4, 11));
        end.hear(Preamble { credits: [3, 15], kind: Kind::Null });
        assert_eq!(end.begin([9, 0]).kind, Kind::Null);
    }

    #[test]
    fn two_channels_take_turns_in_frames() {
        let mut end = End::new(rules(15, Burst::Credit, Holding::OneFrame), 128);
        let kinds: Vec<Kind> = (0..4)
            .map(|_| {
                end.hear(Preamble { credits: [15, 15], kind: Kind::Null });
                end.begin([9, 9]).kind
            })
            .collect();
        let data = |channel| Kind::Data { channel };
        assert_eq!(kinds, [data(0), data(1), data(0), data(1)]);
    }

    #[test]
    fn an_unheard_end_says_nothing_but_its_credits() {
        let mut end = End::new(rules(15, Burst::Credit, Holding::OneFrame), 9);
        let preamble = Preamble { credits: [9, 9], kind: Kind::Null };
        assert_eq!(end.begin([5, 5]), preamble);
        (0..9).for_each(|_| end.received(1).expect("there is room"));
        assert_eq!(end.credits(), [9, 0]);
        let refused = end.received(1).map_err(|error| error.to_string());
        let expected =
            "the receive FIFO of channel 1 is full: expected no packet beyond its credit";
        assert_eq!(refused, Err(expected.to_owned()));
    }
}
