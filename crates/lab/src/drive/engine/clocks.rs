//! Clocks that switches share: switches of a graph, or of a part of it, whose slots have the same
//! length share the edges of one clock, so that one event serves all of them.

use weft_fabric::graph::Graph;
use weft_units::{Span, Time};

/// How many edges a clock looks ahead, a bit each. A switch that takes part later has an event of
/// its own.
const AHEAD: u64 = 64;

/// From how many switches on that take part at an edge it is worth the instructions to ask the processor for what
/// the next ones read.
const MANY: usize = 96;

/// Which switches take part at which edges.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// The clock of each switch, and its number there; nothing where no switch has a clock.
    own: Vec<(u32, u32)>,
    clocks: Vec<Clock>,
    /// The switches that take part at the edge that happens.
    attending: Vec<u32>,
    /// From how many of them on what the next ones read is fetched: [`MANY`], but in tests.
    many: usize,
}

#[derive(Debug)]
struct Clock {
    slot: Span,
    /// In ascending order; the clock has its events at the place of the first one.
    switches: Vec<u32>,
    /// The edges at which any takes part, by their number modulo [`AHEAD`].
    occupied: u64,
    /// By edge, a bit for each switch.
    due: Box<[u64]>,
    /// The edge after the last one at which any took part, and its number. Most take part then.
    following: (Time, u64),
}

/// What the calendar needs for an edge at which a switch takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing: the clock has an event then.
    Nothing,
    /// An event at the place of a switch, for all of its clock.
    Clock(u32),
    /// An event of the switch alone.
    Own,
}

impl Clocks {
    /// The clocks of the switches of a graph.
    pub fn new(graph: &Graph) -> Clocks {
        if !graph.has_limits() {
            return Clocks::default();
        }
        let mut clocks: Vec<Clock> = Vec::new();
        let mut own = vec![(u32::MAX, 0); graph.switches() as usize];
        for switch in 0..graph.switches() {
            let Some(slot) = graph.slot(switch) else { continue };
            let number = clocks.iter().position(|clock| clock.slot == slot).unwrap_or_else(|| {
                clocks.push(Clock::new(slot));
                clocks.len() - 1
            });
            let switches = &mut clocks[number].switches;
            own[switch as usize] = (number as u32, switches.len() as u32);
            switches.push(switch);
        }
        for clock in &mut clocks {
            clock.due = vec![0; clock.words() * AHEAD as usize].into();
        }
        Clocks { own, clocks, attending: Vec::new(), many: MANY }
    }

    /// A switch takes part at an edge.
    #[inline]
    pub fn attend(&mut self, now: Time, switch: u32, edge: Time) -> Needs {
        let (clock, number) = self.own[switch as usize];
        let clock = &mut self.clocks[clock as usize];
        let at = if edge == clock.following.0 {
            clock.following.1
        } else {
            let at = edge.0 / clock.slot.0;
            if at - now.0 / clock.slot.0 >= AHEAD {
                return Needs::Own;
            }
            at
        };
        let (at, words) = ((at % AHEAD) as usize, clock.words());
        clock.due[at * words + number as usize / 64] |= 1 << (number % 64);
        let bit = 1 << at;
        if clock.occupied & bit != 0 {
            return Needs::Nothing;
        }
        clock.occupied |= bit;
        Needs::Clock(clock.switches[0])
    }

    /// An edge of the clock that has its events at the place of a switch: how many of its switches take part,
    /// which [`attending`](Self::attending) gives.
    #[inline]
    pub fn begin(&mut self, now: Time, place: u32) -> usize {
        let clock = &mut self.clocks[self.own[place as usize].0 as usize];
        let number = now.0 / clock.slot.0;
        clock.following = (now + clock.slot, number + 1);
        let at = (number % AHEAD) as usize;
        clock.occupied &= !(1 << at);
        let words = clock.words();
        self.attending.clear();
        for (word, due) in clock.due[at * words..(at + 1) * words].iter_mut().enumerate() {
            let mut left = std::mem::take(due);
            while left != 0 {
                let number = word * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                self.attending.push(clock.switches[number]);
            }
        }
        self.attending.len()
    }

    /// Whether so many switches take part that their state does not stay in the cache from edge to edge.
    #[inline]
    pub fn are_many(&self) -> bool {
        self.attending.len() >= self.many
    }

    /// From how many on that take part at an edge is.
    #[inline]
    pub fn many(&self) -> usize {
        self.many
    }

    /// From now on any number of switches counts as many.
    pub fn call_any_number_many(&mut self) {
        self.many = 0;
    }

    /// One of the switches that take part at the edge that has begun.
    #[inline]
    pub fn attending(&self, index: usize) -> Option<u32> {
        self.attending.get(index).copied()
    }
}

impl Clock {
    fn new(slot: Span) -> Clock {
        let following = (Time::ZERO, 0);
        Clock { slot, switches: Vec::new(), occupied: 0, due: Box::default(), following }
    }

    #[inline]
    fn words(&self) -> usize {
        self.switches.len().div_ceil(64)
    }
}
