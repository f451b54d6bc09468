//! The variation of a ratio or a difference of two points of a study. Both are run under the same
//! seeds and see the same traffic, so a seed mostly has the same effect on both.

use crate::statistics::{RatioTerm, ratio, replications};
use crate::table::{Cell, Table};

/// A row of the points: its number and its channel.
#[derive(Clone, Debug)]
pub struct Place {
    point: f64,
    channel: Option<Cell>,
}

impl Place {
    /// The place of a row of the table `points`; `None` in another table.
    pub fn of(points: &Table, row: usize) -> Option<Place> {
        let point = points.number(row, "point")?;
        Some(Place { point, channel: points.get(row, "channel") })
    }
}

/// The values at two places under one seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeedPair {
    one: f64,
    other: f64,
}

/// The values of a column at two places, run by run under the same seed. `runs` is the table
/// `replications`. A seed that one of them lacks is left out.
pub fn pairs(runs: &Table, column: &str, one: &Place, other: &Place) -> Vec<SeedPair> {
    let at = |place: &Place| -> Vec<(Option<Cell>, f64)> {
        let is_there = |row: &usize| {
            runs.number(*row, "point") == Some(place.point)
                && runs.get(*row, "channel") == place.channel
        };
        let value = |row: usize| Some((runs.get(row, "seed"), runs.number(row, column)?));
        (0..runs.rows()).filter(is_there).filter_map(value).collect()
    };
    let others = at(other);
    let partner = |(seed, value): (Option<Cell>, f64)| {
        let (_, other) = others.iter().find(|(own, _)| *own == seed)?;
        Some(SeedPair { one: value, other: *other })
    };
    at(one).into_iter().filter_map(partner).collect()
}

/// The half width of the 95 % confidence interval of the ratio of the two means; `None` for fewer
/// than two.
pub fn half_width_of_ratio(pairs: &[SeedPair]) -> Option<f64> {
    let of = |pair: &SeedPair| RatioTerm { numerator: pair.one, denominator: pair.other };
    let terms: Vec<RatioTerm> = pairs.iter().map(of).collect();
    ratio(&terms).and_then(|estimate| estimate.half_width_95)
}

/// The half width of the 95 % confidence interval of the difference of the two means; `None` for
/// fewer than two.
pub fn half_width_of_difference(pairs: &[SeedPair]) -> Option<f64> {
    let differences: Vec<f64> = pairs.iter().map(|pair| pair.one - pair.other).collect();
    replications(&differences).and_then(|estimate| estimate.half_width_95)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(f64, &'static str, f64, f64)]) -> Table {
        let mut runs = Table::new();
        for (point, channel, seed, value) in rows {
            runs.push([
                ("point", Cell::from(Some(*point))),
                ("channel", (*channel).into()),
                ("seed", Some(*seed).into()),
                ("x", Some(*value).into()),
            ]);
        }
        runs
    }

    #[test]
    fn runs_of_one_seed_belong_together() {
        let runs = table(&[
            (0.0, "bulk", 1.0, 10.0),
            (0.0, "bulk", 2.0, 20.0),
            (0.0, "bulk", 3.0, 30.0),
            (0.0, "quick", 1.0, 99.0),
            (1.0, "bulk", 2.0, 40.0),
            (1.0, "bulk", 1.0, 20.0),
        ]);
        let place = |row| Place::of(&runs, row).unwrap();
        let found = pairs(&runs, "x", &place(0), &place(4));
        assert_eq!(found, [(10.0, 20.0), (20.0, 40.0)].map(|(one, other)| SeedPair { one, other }));
        // One is half of the other under every seed, however far apart the seeds are.
        assert_eq!(half_width_of_ratio(&found), Some(0.0));
        // Differences of -10 and -20: 12.706 times 7.071 over the root of 2.
        assert!((half_width_of_difference(&found).unwrap() - 63.53).abs() < 0.01);
        assert_eq!(half_width_of_ratio(&found[..1]), None);
    }
}
