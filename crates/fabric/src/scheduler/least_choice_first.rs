//! Least choice first, central: targets in turn, each to the initiator with the fewest choices.
//!
//! Eberle and Gura, TR-2002-115, section 3.3 names the rule ("when a target is scheduled, the
//! initiator with the smallest number of requests is given highest priority") and the round robin
//! that bounds the wait. That the round robin favours one diagonal of the request matrix a slot,
//! and that a choice is struck off when its target is gone, is our reading.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;

use super::diagonal::Diagonal;
use super::ports::{PortSet, after};
use super::tally::Tally;
use super::{Algorithm, Matching, Requests, Scheduler};

/// Settings of the central least choice first scheduler.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LeastChoiceFirstSettings {
    /// Whether one cell per target, moving through the request matrix, wins regardless of its
    /// choices. This bounds the wait of a standing request to ports² slots.
    pub round_robin: bool,
    /// What counts as a choice of an initiator.
    pub counts: Counts,
    /// Which initiator wins among those with equally few choices.
    pub ties: Ties,
}

/// What counts as a choice of an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Counts {
    /// Its requests for targets that are not scheduled yet.
    Remaining,
    /// All its requests at the start of the slot.
    Static,
}

/// Which port wins among those with equally few choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ties {
    /// The first at or after the port that the slot's diagonal of the request matrix favours.
    Rotating,
    /// One drawn at random.
    Random,
    /// The one with the lowest number.
    Lowest,
}

impl Ties {
    /// One port out of equals; the set must not be empty.
    #[inline]
    pub(super) fn choose<const W: usize>(
        self,
        equals: PortSet<W>,
        favoured: usize,
        random: &mut Stream,
    ) -> usize {
        match self {
            Ties::Rotating => equals.first_from(favoured),
            Ties::Random => equals.any(random),
            Ties::Lowest => equals.first(),
        }
    }
}

impl Default for LeastChoiceFirstSettings {
    fn default() -> LeastChoiceFirstSettings {
        LeastChoiceFirstSettings {
            round_robin: true,
            counts: Counts::Remaining,
            ties: Ties::Rotating,
        }
    }
}

impl Algorithm for LeastChoiceFirstSettings {
    type Scheduler<const W: usize> = LeastChoiceFirst<W>;

    fn build<const W: usize>(&self, ports: usize) -> LeastChoiceFirst<W> {
        LeastChoiceFirst {
            settings: self.clone(),
            ports,
            diagonal: Diagonal::new(ports),
            choices: Tally::default(),
        }
    }

    fn is_maximal(&self) -> bool {
        true
    }

    fn serves_within(&self, ports: usize) -> Option<u64> {
        self.round_robin.then_some((ports * ports) as u64)
    }

    fn serves_unchanged_within(&self, ports: usize) -> Option<u64> {
        self.serves_within(ports)
    }

    fn variants() -> Vec<LeastChoiceFirstSettings> {
        let mut variants = Vec::new();
        for round_robin in [true, false] {
            for counts in [Counts::Remaining, Counts::Static] {
                for ties in [Ties::Rotating, Ties::Random, Ties::Lowest] {
                    variants.push(LeastChoiceFirstSettings { round_robin, counts, ties });
                }
            }
        }
        variants
    }
}

/// The central least choice first scheduler. Draws from the random stream if ties are random.
#[derive(Clone, Debug)]
pub struct LeastChoiceFirst<const W: usize = 1> {
    settings: LeastChoiceFirstSettings,
    ports: usize,
    diagonal: Diagonal,
    choices: Tally<W>,
}

impl<const W: usize> LeastChoiceFirst<W> {
    #[inline]
    fn winner(&self, candidates: PortSet<W>, favoured: usize, random: &mut Stream) -> usize {
        if self.settings.round_robin && candidates.contains(favoured) {
            return favoured;
        }
        self.settings.ties.choose(self.choices.least(candidates), favoured, random)
    }
}

impl<const W: usize> Scheduler<W> for LeastChoiceFirst<W> {
    fn schedule(
        &mut self,
        requests: &Requests<W>,
        random: &mut Stream,
        matching: &mut Matching<W>,
    ) {
        debug_assert_eq!(requests.ports(), self.ports);
        matching.clear();
        self.choices.clear();
        requests.columns_by_four().for_each(|columns| self.choices.add_four(*columns));
        let Diagonal { initiator: mut favoured, mut target, .. } = self.diagonal;
        for _ in 0..self.ports {
            let candidates = requests.column(target) & matching.unmatched_initiators();
            if !candidates.is_empty() {
                matching.pair(self.winner(candidates, favoured, random), target);
                if self.settings.counts == Counts::Remaining {
                    self.choices.subtract(candidates);
                }
            }
            favoured = after(favoured, self.ports);
            target = after(target, self.ports);
        }
        self.diagonal.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_kernel::Streams;

    /// The connections of each slot, given as the targets that each initiator asks for.
    fn run(settings: &LeastChoiceFirstSettings, slots: &[&[&[usize]]]) -> Vec<Vec<(usize, usize)>> {
        let ports = slots[0].len();
        let mut scheduler: LeastChoiceFirst = settings.build(ports);
        let mut random = Streams::new(1).stream("test", 0);
        let mut matching = Matching::new(ports);
        let mut schedule = |rows: &&[&[usize]]| {
            let mut requests = Requests::new(ports);
            for (initiator, row) in rows.iter().enumerate() {
                row.iter().for_each(|&target| requests.set(initiator, target));
            }
            scheduler.schedule(&requests, &mut random, &mut matching);
            matching.iter().collect()
        };
        slots.iter().map(&mut schedule).collect()
    }

    /// An idle slot moves the start to cell (0, 0).
    const IDLE: &[&[usize]] = &[&[], &[], &[], &[]];
    const EXAMPLE: &[&[usize]] = &[&[0, 1, 2], &[0, 2], &[1, 2, 3], &[2, 3]];

    /// Worked by hand; choices of initiators 0 to 3 are 3, 2, 3, 2.
    /// Target 0, asked by 0 (3) and 1 (2): 1 wins, 0 is left with 2.
    /// Target 1, asked by 0 (2) and 2 (3): 0 wins, 2 is left with 2.
    /// Target 2, asked by 2 (2) and 3 (2), search from 2: 2 wins, 3 is left with 1.
    /// Target 3, asked by 3 (1): 3 wins.
    #[test]
    fn the_fewest_remaining_choices_win() {
        let settings =
            LeastChoiceFirstSettings { round_robin: false, ..LeastChoiceFirstSettings::default() };
        assert_eq!(run(&settings, &[IDLE, EXAMPLE])[1], [(0, 1), (1, 0), (2, 2), (3, 3)]);
    }

    /// Worked by hand. Target 0: 1 (2) wins over 0 (3). Target 1, asked by 0 (3) and 2 (3), search
    /// from 1: 2 wins. Target 2, asked by 0 (3) and 3 (2): 3 wins. Target 3: nobody is left.
    #[test]
    fn static_counts_strike_nothing_off() {
        let settings = LeastChoiceFirstSettings {
            round_robin: false,
            counts: Counts::Static,
            ..LeastChoiceFirstSettings::default()
        };
        assert_eq!(run(&settings, &[IDLE, EXAMPLE])[1], [(1, 0), (2, 1), (3, 2)]);
    }

    /// Worked by hand. From cell (0, 0): target 0 favours 0, who asks and wins; 1 is left with 1.
    /// Target 1 favours 1, who does not ask; 2 wins. Target 2 favours 2, who is taken; 1 (1) wins
    /// over 3 (2). Target 3 favours 3, who wins.
    /// From cell (1, 0): targets 0, 1 and 2 favour 1, 2 and 3, who ask and win; nobody is left
    /// for target 3.
    #[test]
    fn the_favoured_diagonal_wins_whatever_its_choices() {
        let slots = run(&LeastChoiceFirstSettings::default(), &[IDLE, EXAMPLE, EXAMPLE]);
        assert_eq!(slots[1], [(0, 0), (1, 2), (2, 1), (3, 3)]);
        assert_eq!(slots[2], [(1, 0), (2, 1), (3, 2)]);
    }

    #[test]
    fn ties_go_to_the_lowest_where_asked() {
        let settings = LeastChoiceFirstSettings {
            round_robin: false,
            ties: Ties::Lowest,
            ..LeastChoiceFirstSettings::default()
        };
        let pair: &[&[usize]] = &[&[1], &[1]];
        assert_eq!(run(&settings, &[pair, pair, pair]).concat(), [(0, 1), (0, 1), (0, 1)]);
    }

    /// TR-2002-115, Figure 4: five packets, two nodes. (The text says that the last two requests
    /// are "granted in slot s3"; the figure, and their transfer in s3, say s2.)
    #[test]
    fn figure_4_comes_out_as_drawn() {
        let slots: [&[&[usize]]; 4] =
            [&[&[0], &[0]], &[&[0, 1], &[0, 1]], &[&[1], &[0]], &[&[], &[]]];
        let grants = run(&LeastChoiceFirstSettings::default(), &slots);
        assert_eq!(grants[0], [(0, 0)]);
        assert_eq!(grants[1], [(0, 0), (1, 1)]);
        assert_eq!(grants[2], [(0, 1), (1, 0)]);
        assert_eq!(grants[3], []);
    }
}
