//! The load at which a point saturates, by bisection.
//!
//! Near its limit a system settles ever more slowly, so that a run of a given length cannot tell on
//! which side a load lies: it is neither settled nor certainly saturated. Each seed therefore gives
//! two loads, the largest that settled and the smallest that was saturated, each found by a
//! bisection of its own on one grid; the limit lies between the two. Over several seeds each has
//! an interval.

use serde::{Deserialize, Serialize};
use weft_units::Load;

use crate::composition::Spec;
use crate::error::Error;
use crate::statistics::{Estimate, Verdict, replications};

/// What is searched for, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SaturationOptions {
    /// The channel whose load is varied; the only one with a load if absent.
    pub channel: Option<String>,
    /// The smallest and the largest load that are tried.
    pub between: [f64; 2],
    /// How far apart the loads are between which the limit is found.
    pub width: f64,
}

impl Default for SaturationOptions {
    fn default() -> SaturationOptions {
        SaturationOptions { channel: None, between: [0.05, 1.0], width: 0.01 }
    }
}

/// The loads that may be tried: `2^bits + 1` of them at equal steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    low: f64,
    step: f64,
    last: u32,
}

/// A bisection as far as it is known: the predicate holds below and not from `fails` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bracket {
    holds: Option<u32>,
    fails: Option<u32>,
}

/// What the runs of one seed say about the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The largest load that settled; `None` if not even the smallest did.
    pub settles: Option<f64>,
    /// The smallest load that was saturated; `None` if not even the largest was.
    pub saturated: Option<f64>,
}

/// What a seed still needs, or its result.
#[derive(Clone, Debug, PartialEq)]
pub enum Search {
    /// The runs at these loads are evaluated next, and this many may follow.
    Open(Vec<f64>, usize),
    /// Nothing is left to do.
    Found(Limits),
}

impl SaturationOptions {
    /// The channel whose load is varied, and the loads.
    ///
    /// # Errors
    /// [`Error::Assembly`] if there is no such channel, it has no load, or the loads are no range.
    pub fn resolve(&self, spec: &Spec) -> Result<(String, Grid), Error> {
        let loaded: Vec<&String> = spec
            .workload
            .iter()
            .filter_map(|(name, workload)| workload.load.map(|_| name))
            .collect();
        let names = loaded.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        let refuse = |key: &str, value: String, accepted: String| Error::Assembly {
            key: format!("saturation.{key}"),
            value,
            accepted,
        };
        let channel = match (&self.channel, &loaded[..]) {
            (None, [only]) => (*only).clone(),
            (Some(name), _) if loaded.contains(&name) => name.clone(),
            (name, _) => {
                let value = name.clone().unwrap_or_else(|| "none".to_owned());
                let accepted = match loaded.is_empty() {
                    true => "a channel whose workload has a load, and none has one here".to_owned(),
                    false => format!("a channel whose workload has a load ({names})"),
                };
                return Err(refuse("channel", value, accepted));
            }
        };
        let [low, high] = self.between;
        let valid = |load: f64| load > 0.0 && Load::new(load).is_ok();
        if !valid(low) || !valid(high) || low >= high {
            let accepted = "two loads in ascending order, above 0 and up to 2".to_owned();
            return Err(refuse("between", format!("{low} to {high}"), accepted));
        }
        if !(self.width > 1e-6 && self.width < high - low) {
            let accepted = format!("a load above 0.000001 and below {}", high - low);
            return Err(refuse("width", self.width.to_string(), accepted));
        }
        // Halving never overshoots the width that was asked, and every load is a sum of few terms.
        let halvings = libm::ceil(libm::log2((high - low) / self.width)) as u32;
        let last = 1 << halvings;
        Ok((channel, Grid { low, step: (high - low) / f64::from(last), last }))
    }
}

impl Grid {
    fn load(&self, index: u32) -> f64 {
        self.low + self.step * f64::from(index)
    }

    /// The rest of a search, given the verdicts at the loads that were run.
    pub fn search(&self, verdict: &mut dyn FnMut(f64) -> Option<Verdict>) -> Search {
        let mut open = Vec::new();
        let mut left = 0;
        let mut look = |holds: fn(Verdict) -> bool| {
            let mut bracket = Bracket { holds: None, fails: None };
            while let Some(next) = bracket.next(self.last) {
                let load = self.load(next);
                let Some(verdict) = verdict(load) else {
                    if !open.contains(&load) {
                        open.push(load);
                    }
                    left += bracket.steps(self.last);
                    break;
                };
                bracket.narrow(next, holds(verdict));
            }
            bracket
        };
        let settles = look(|verdict| verdict == Verdict::Settled);
        let carried = look(|verdict| matches!(verdict, Verdict::Settled | Verdict::Transient));
        if !open.is_empty() {
            return Search::Open(open, left);
        }
        Search::Found(Limits {
            settles: settles.holds.map(|index| self.load(index)),
            saturated: carried.fails.map(|index| self.load(index)),
        })
    }
}

impl Bracket {
    /// The next load to try: both ends, then the middle of the interval between them.
    fn next(self, last: u32) -> Option<u32> {
        match (self.holds, self.fails) {
            (None, None) => Some(last),
            (None, Some(0)) => None,
            (None, Some(_)) => Some(0),
            (Some(holds), Some(fails)) => (fails - holds > 1).then_some(holds.midpoint(fails)),
            (Some(_), None) => None,
        }
    }

    fn narrow(&mut self, at: u32, holds: bool) {
        *(if holds { &mut self.holds } else { &mut self.fails }) = Some(at);
    }

    /// The largest number of runs that it takes.
    fn steps(self, last: u32) -> usize {
        let gap = self.fails.unwrap_or(last) - self.holds.unwrap_or(0);
        gap.max(1).ilog2() as usize + 2 * usize::from(self.fails.is_none())
    }
}

/// The mean of one of the loads over seeds; `None` if a seed has none, for the mean of the others
/// would not be that of the limit.
pub fn over_seeds(loads: &[Option<f64>]) -> Option<Estimate> {
    let found: Option<Vec<f64>> = loads.iter().copied().collect();
    replications(&found?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { low: 0.0, step: 0.125, last: 8 };

    /// A point that settles below one load and is saturated from another on.
    fn verdict(load: f64, settles: f64, saturated: f64) -> Verdict {
        match load {
            load if load <= settles => Verdict::Settled,
            load if load < saturated => Verdict::Transient,
            _ => Verdict::Saturated,
        }
    }

    fn found(settles: f64, saturated: f64) -> (Limits, Vec<f64>) {
        let mut run: Vec<f64> = Vec::new();
        loop {
            let mut known =
                |load: f64| run.contains(&load).then(|| verdict(load, settles, saturated));
            match GRID.search(&mut known) {
                Search::Open(next, left) => {
                    assert!(left >= next.len());
                    run.extend(next);
                }
                Search::Found(limits) => return (limits, run),
            }
        }
    }

    #[test]
    fn the_limit_lies_between_two_loads() {
        let (limits, run) = found(0.4, 0.7);
        assert_eq!(limits, Limits { settles: Some(0.375), saturated: Some(0.75) });
        assert_eq!(run, [1.0, 0.0, 0.5, 0.25, 0.75, 0.375, 0.625]);
        let (limits, run) = found(0.6, 0.6);
        assert_eq!(limits, Limits { settles: Some(0.5), saturated: Some(0.625) });
        assert_eq!(run.len(), 5, "two bisections of one limit share their runs");
    }

    #[test]
    fn a_limit_beyond_the_range_is_not_made_up() {
        assert_eq!(found(2.0, 3.0).0, Limits { settles: Some(1.0), saturated: None });
        assert_eq!(found(-1.0, -0.5).0, Limits { settles: None, saturated: Some(0.0) });
        assert_eq!(over_seeds(&[Some(0.5), None]), None);
    }

    #[test]
    fn over_seeds_there_is_an_interval() {
        let estimate = over_seeds(&[Some(0.5), Some(0.6)]).unwrap();
        assert!((estimate.mean - 0.55).abs() < 1e-12 && estimate.half_width_95.unwrap() > 0.0);
    }
}
