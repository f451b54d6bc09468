//! Where a curve of accepted throughput against offered load leaves the diagonal.

use serde::Serialize;

/// One point of a sweep of the offered load; both are loads in the same unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadPoint {
    /// The offered load.
    pub offered: f64,
    /// The accepted part of it.
    pub accepted: f64,
}

/// The limit of a channel, read off a sweep of the offered load. All are loads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Saturation {
    /// The largest accepted throughput of the sweep: the saturation throughput.
    pub throughput: f64,
    /// The accepted load at the largest offered load. Less than `throughput` if the channel
    /// collapses.
    pub at_full_load: f64,
    /// The largest load of the sweep up to which everything offered was accepted; 0 if none.
    pub carried: f64,
    /// The smallest load above it, which was not carried: the limit lies between the two.
    pub refused: f64,
}

/// The limit, from the points of a sweep in any order. A load is
/// carried if the accepted throughput falls short of it by at most `tolerance`, a share of the load
/// that noise explains (0.02 is usual). `None` if every load is carried: the limit lies beyond the
/// sweep, and the largest load is not it.
pub fn saturation(points: &[LoadPoint], tolerance: f64) -> Option<Saturation> {
    let mut points = points.to_vec();
    points.sort_by(|one, other| one.offered.total_cmp(&other.offered));
    let limit = points.iter().position(|own| own.accepted < own.offered * (1.0 - tolerance))?;
    Some(Saturation {
        throughput: points.iter().map(|point| point.accepted).fold(0.0, f64::max),
        at_full_load: points[points.len() - 1].accepted,
        carried: points[..limit].last().map_or(0.0, |point| point.offered),
        refused: points[limit].offered,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit from (offered, accepted).
    fn saturation(points: &[(f64, f64)], tolerance: f64) -> Option<Saturation> {
        let point = |&(offered, accepted): &(f64, f64)| LoadPoint { offered, accepted };
        super::saturation(&points.iter().map(point).collect::<Vec<_>>(), tolerance)
    }

    #[test]
    fn a_plateau_is_the_limit() {
        let points = [(0.9, 0.586), (0.2, 0.2), (0.5, 0.499), (0.6, 0.58), (1.0, 0.585)];
        let expected =
            Saturation { throughput: 0.586, at_full_load: 0.585, carried: 0.5, refused: 0.6 };
        assert_eq!(saturation(&points, 0.02), Some(expected));
    }

    #[test]
    fn a_collapse_shows() {
        let points = [(0.2, 0.2), (0.4, 0.35), (0.8, 0.18)];
        let found = saturation(&points, 0.02).unwrap();
        assert_eq!((found.throughput, found.at_full_load), (0.35, 0.18));
    }

    #[test]
    fn a_sweep_that_is_carried_has_no_limit() {
        assert_eq!(saturation(&[(0.1, 0.1), (0.9, 0.89)], 0.02), None);
        assert_eq!(saturation(&[], 0.02), None);
    }

    #[test]
    fn a_sweep_that_begins_beyond_the_limit_carries_nothing() {
        assert_eq!(saturation(&[(0.7, 0.5)], 0.02).unwrap().carried, 0.0);
    }
}
