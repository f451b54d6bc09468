//! Quantiles of Student's t distribution.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The value that a t-distributed number with `degrees` degrees of freedom stays below with
/// `probability`; `None` unless `degrees` > 0 and 0 < `probability` < 1. Exact to 1e-9.
pub fn student_t(probability: f64, degrees: u32) -> Option<f64> {
    if !(probability > 0.0 && probability < 1.0) {
        return None;
    }
    let distribution = StudentsT::new(0.0, 1.0, f64::from(degrees)).ok()?;
    Some(distribution.inverse_cdf(probability))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `scipy.stats.t.ppf(probability, degrees)`, SciPy 1.17.1.
    const ORACLE: &[(f64, u32, f64)] = &[
        (0.975, 1, 12.706204736175),
        (0.975, 2, 4.302652729749),
        (0.975, 3, 3.182446305284),
        (0.975, 4, 2.776445105198),
        (0.975, 5, 2.570581835636),
        (0.975, 7, 2.364624251593),
        (0.975, 10, 2.228138851986),
        (0.975, 15, 2.131449545560),
        (0.975, 19, 2.093024054408),
        (0.975, 20, 2.085963447266),
        (0.975, 30, 2.042272456301),
        (0.975, 31, 2.039513446396),
        (0.975, 32, 2.036933343460),
        (0.975, 59, 2.000995378088),
        (0.975, 100, 1.983971518524),
        (0.975, 199, 1.971956544252),
        (0.975, 1000, 1.962339080826),
        (0.95, 31, 1.695518782546),
        (0.995, 31, 2.744041919294),
        (0.9995, 19, 3.883405852592),
        (0.6, 1, 0.324919696233),
        (0.025, 19, -2.093024054408),
        (0.5, 6, 0.000000000000),
        (0.999, 1, 318.308838985550),
    ];

    #[test]
    fn quantiles_agree_with_scipy() {
        for &(probability, degrees, expected) in ORACLE {
            let found = student_t(probability, degrees).unwrap();
            let error = (found - expected).abs() / expected.abs().max(1.0);
            assert!(error < 1e-9, "t({probability}, {degrees}) = {found}, not {expected}");
        }
    }

    #[test]
    fn two_quantiles_have_a_closed_form() {
        // One degree of freedom is the Cauchy distribution; with two, t = (2p-1) sqrt(2/(4pq)).
        assert!((student_t(0.75, 1).unwrap() - 1.0).abs() < 1e-14);
        let two = 0.95 * (2.0_f64 / (4.0 * 0.975 * 0.025)).sqrt();
        assert!((student_t(0.975, 2).unwrap() - two).abs() < 1e-12);
    }

    #[test]
    fn what_is_no_distribution_has_no_quantile() {
        assert_eq!(student_t(0.975, 0), None);
        assert!([0.0, 1.0, -1.0, f64::NAN].iter().all(|&p| student_t(p, 5).is_none()));
    }
}
