//! Which experiments of a system are run, and how much of each: all of everything, or a first look.

use serde::Serialize;
use weft_units::Span;

use crate::catalogue;
use crate::error::Error;
use crate::experiment::{Band, Regime, RunSettings};
use crate::plan::Plan;
use crate::source::Request;
use crate::study::Options;

/// An experiment of a system as it is run.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The name of the experiment.
    pub name: String,
    /// The system that it belongs to.
    pub system: String,
    /// What is run, with what differs from the file as overrides.
    pub request: Request,
    /// The plan of the request: all its points, resolved.
    pub plan: Plan,
    /// How many runs are made of each point, and by whom.
    pub options: Options,
    /// What the file asks for, if less is run.
    pub reduced: Option<Reduced>,
}

/// What the file of an experiment asks for, where less is run.
#[derive(Clone, Debug, Serialize)]
pub struct Reduced {
    /// Runs of each point.
    pub seeds: u32,
    /// Simulated time of a run.
    pub length: String,
}

/// An experiment that asks for at most this many runs of a point is run whole: the interval of
/// fewer runs would be too wide to decide a band, and a single run has no interval.
const SMALL_SEEDS: u32 = 5;

/// How much shorter the measured part of a first look is.
const SHARE: u64 = 4;

/// Returns the experiments of some systems in the order in which they are run, and the names of
/// those that a first look leaves out: nothing in them is judged by the document.
///
/// # Errors
///
/// A file or an option cannot be used.
pub fn chosen(systems: &[&str], options: &Options) -> Result<(Vec<Chosen>, Vec<String>), Error> {
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for experiment in catalogue::experiments()? {
        if !systems.contains(&experiment.system.as_str()) {
            continue;
        }
        let request = Request::new(&experiment.name, None, &[]);
        let one = choose(&experiment.name, &experiment.system, &request, options)?;
        let holds =
            one.plan.points.iter().any(|point| {
                point.spec.published.iter().any(|entry| entry.band != Band::ReportOnly)
            });
        if options.quick && !holds {
            left_out.push(one.name);
        } else {
            found.push(one);
        }
    }
    Ok((found, left_out))
}

/// Decides how much of an experiment is run.
pub(crate) fn choose(
    name: &str,
    system: &str,
    request: &Request,
    options: &Options,
) -> Result<Chosen, Error> {
    let asked = Plan::new(request)?;
    let mut request = options.apply(request);
    let mut options = options.clone();
    let mut reduced = None;
    let mut plan = asked;
    if let Some(run) = plan.points.first().map(|point| point.spec.run.clone()) {
        let whole = Options::default().runs(&run);
        options.quick &= whole > SMALL_SEEDS || run.precision.is_some();
        let shorter = options.quick.then(|| shorter(&plan, &run)).flatten();
        if let Some(length) = shorter {
            request.overrides.push(format!("run.length=\"{length}\""));
        }
        if !request.overrides.is_empty() {
            plan = Plan::new(&request)?;
        }
        let made = plan.points.first().map_or(0, |point| options.runs(&point.spec.run));
        let is_cut_short = options.quick && run.precision.is_some();
        if made < whole || shorter.is_some() || is_cut_short {
            reduced = Some(Reduced { seeds: whole, length: run.length.to_string() });
        }
    }
    let (name, system) = (name.to_owned(), system.to_owned());
    Ok(Chosen { name, system, request, plan, options, reduced })
}

/// The length of a first look, if the length does not bias the mean: after a skipped beginning, the
/// mean of a shorter run has the same expectation, with a wider interval.
fn shorter(plan: &Plan, run: &RunSettings) -> Option<Span> {
    let Regime::Skip(skip) = run.regime else { return None };
    let is_swept = plan.axes.iter().any(|axis| axis == "run.length");
    let measured = run.length.0.checked_sub(skip.0)?;
    (!is_swept).then(|| Span(skip.0 + measured / SHARE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "base = 'clint'\n[run]\nlength = '1 ms'\nseeds = 6\n\
        regime = { skip = '200 us' }\n[workload.bulk]\nload = 0.5\n";

    #[test]
    fn a_first_look_measures_a_quarter_of_what_follows_the_start() {
        let quick = Options { quick: true, ..Options::default() };
        let made = |study: &str| {
            let request = Request::of_text("study.toml", study);
            let one = choose("study", "clint", &request, &quick).unwrap();
            let run = &one.plan.points[0].spec.run;
            let asked = one.reduced.map(|reduced| (reduced.seeds, reduced.length));
            (run.length, one.options.runs(run), asked)
        };
        let whole = Span::from_ns(1_000_000);
        let asked = Some((6, "1 ms".to_owned()));
        assert_eq!(made(STUDY), (Span::from_ns(400_000), 3, asked.clone()));
        let empty = STUDY.replace("{ skip = '200 us' }", "'from_empty'");
        assert_eq!(made(&empty), (whole, 3, asked.clone()));
        let swept = format!("{STUDY}[sweep]\n'run.length' = ['1 ms', '2 ms']\n");
        assert_eq!(made(&swept), (whole, 3, asked));
        assert_eq!(made(&STUDY.replace("seeds = 6", "seeds = 5")), (whole, 5, None));
    }

    #[test]
    fn a_first_look_leaves_out_what_holds_nothing_against_the_document() {
        let quick = Options { quick: true, ..Options::default() };
        let (all, none) = chosen(&["maestro"], &Options::default()).unwrap();
        let (some, left_out) = chosen(&["maestro"], &quick).unwrap();
        assert_eq!(none, Vec::<String>::new());
        assert_eq!(all.len(), some.len() + left_out.len());
        assert!(some.iter().any(|one| one.name == "maestro-figure-9"));
        assert!(left_out.contains(&"maestro-elsewhere".to_owned()));
    }
}
