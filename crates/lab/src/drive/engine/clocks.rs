//! Clocks that switches share: switches of a graph, or of a part of it, whose slots have the same
//! length share the edges of one clock, so that one event serves all of them.

use weft_fabric::graph::Graph;
use weft_units::{Span, Time};

/// How many edges a clock looks ahead, a bit each. A switch that takes part later has an event of
/// its own.
const AHEAD: u64 = 64;

/// Which switches take part at which edges.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// The clock of each switch, and its number there; nothing where no switch has a clock.
    own: Vec<(u32, u32)>,
    clocks: Vec<Clock>,
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
        Clocks { own, clocks }
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

    /// An edge of the clock that has its events at the place of a switch: how many words of switches
    /// it has, which [`take`](Self::take) gives.
    #[inline]
    pub fn begin(&mut self, now: Time, place: u32) -> usize {
        let clock = &mut self.clocks[self.own[place as usize].0 as usize];
        let number = now.0 / clock.slot.0;
        clock.following = (now + clock.slot, number + 1);
        clock.occupied &= !(1 << (number % AHEAD));
        clock.words()
    }

    /// Takes the switches of a word that take part at the edge that has begun, a bit each.
    #[inline]
    pub fn take(&mut self, place: u32, word: usize) -> u64 {
        let clock = &mut self.clocks[self.own[place as usize].0 as usize];
        let at = ((clock.following.1 - 1) % AHEAD) as usize;
        std::mem::take(&mut clock.due[at * clock.words() + word])
    }

    /// The switch of a bit of a word.
    #[inline]
    pub fn switch(&self, place: u32, number: usize) -> u32 {
        self.clocks[self.own[place as usize].0 as usize].switches[number]
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
