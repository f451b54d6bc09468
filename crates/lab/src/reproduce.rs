//! Published against measured: every experiment of a system, and a verdict on each printed number.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::beside::{Rows, titles};
use crate::catalogue;
use crate::counted;
use crate::error::Error;
use crate::experiment::{Band, DERIVED, Kind, Published, Setting};
use crate::first_look::{self, Chosen};
use crate::paired::{self, Place, SeedPair};
use crate::plan::Plan;
use crate::shipped;
use crate::source::Request;
use crate::statistics::{LoadPoint, saturation};
use crate::study::{self, Options, Outcome};
use crate::table::{Cell, Table};

/// All experiments of a system with the checks on them.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// The checks as one table (`checks`), and what they belong to.
    pub summary: Outcome,
    /// Each experiment by name.
    pub runs: Vec<(String, Outcome)>,
}

/// The preset that takes a document at its word. Its numbers are shown beside the others and not
/// judged: the difference is the reason for the other preset.
const LITERAL: &str = "literal";

/// How much accepted throughput may fall short of the offered load by noise alone.
const CARRIED: f64 = 0.02;

/// The system with a name, or the systems of a family: `memory-channel` is `memory-channel-1` and
/// `memory-channel-2`.
pub(crate) fn family(name: &str) -> Vec<&'static str> {
    let is_member = |system: &&str| match system.strip_prefix(name) {
        Some(rest) => rest.is_empty() || rest.starts_with('-'),
        None => false,
    };
    let all: Vec<&'static str> = shipped::systems().filter(is_member).collect();
    let exact: Vec<&'static str> = all.iter().copied().filter(|system| *system == name).collect();
    if exact.is_empty() { all } else { exact }
}

/// What can be reproduced: every system, and every family of several.
pub(crate) fn reproducible() -> Vec<&'static str> {
    let of_several = |name: &&'static str| {
        let head = name.rsplit_once('-').map(|(head, _)| head);
        head.filter(|head| family(head).len() > 1)
    };
    let mut names: Vec<&'static str> = shipped::systems().collect();
    names.extend(shipped::systems().filter_map(|name| of_several(&name)));
    names.sort_unstable();
    names.dedup();
    names
}

/// The title of a family: what the titles of its systems have in common, word by word.
fn common_title(titles: &[&str]) -> String {
    let (first, others) = titles.split_first().map_or(("", &[][..]), |(one, rest)| (*one, rest));
    let is_common = |(place, word): &(usize, &str)| {
        others.iter().all(|other| other.split_whitespace().nth(*place) == Some(*word))
    };
    let words = first.split_whitespace().enumerate().filter(is_common);
    let words: Vec<&str> = words.map(|(_, word)| word).collect();
    if words.is_empty() { titles.join(", ") } else { words.join(" ") }
}

/// Returns the experiments of a system, or of a family of systems, as [`reproduce`] runs them.
///
/// # Errors
///
/// There is no such system, or an option cannot be used.
pub fn chosen(system: &str, options: &Options) -> Result<Vec<Chosen>, Error> {
    let systems = family(system);
    if systems.is_empty() {
        return Err(Error::unknown_system(system));
    }
    Ok(first_look::chosen(&systems, options)?.0)
}

/// Runs every experiment of a system, or of a family of systems. `observe` is called with (runs
/// done, runs in all, name of the experiment); when it returns `false` the reproduction ends with
/// what was finished.
pub fn reproduce(
    system: &str,
    options: &Options,
    observe: &mut dyn FnMut(usize, usize, &str) -> bool,
) -> Result<Reproduction, Error> {
    let systems = family(system);
    let Some(&first) = systems.first() else { return Err(Error::unknown_system(system)) };
    let (own, left_out) = first_look::chosen(&systems, options)?;
    let mut checks = Table::new();
    let mut rows = Rows::new(&systems);
    let mut runs = Vec::new();
    let (mut stopped, mut failed) = (false, 0);
    let all: usize = own.iter().map(|one| study::size(&one.plan, &one.options)).sum();
    let mut before = 0;
    for Chosen { name, system: of, plan, options, reduced, .. } in own {
        let own = study::size(&plan, &options);
        let mut outcome =
            study::carry_out(plan, &options, &mut |done, _| observe(before + done, all, &name))?;
        before += own;
        outcome.meta["reduced_from"] = json!(reduced);
        check(&of, &name, &outcome, reduced.is_some(), &mut checks);
        rows.add(&of, &outcome);
        stopped |= outcome.stopped;
        failed += outcome.failed;
        runs.push((name, outcome));
        if stopped {
            break;
        }
    }
    let shown = catalogue::show(&Request::new(first, None, &[]))?;
    let plan = Plan::new(&Request::new(first, None, &[]))?;
    let titles = titles(&systems)?;
    let title = common_title(&titles.values().filter_map(Value::as_str).collect::<Vec<_>>());
    let meta = json!({
        "title": format!("{title}: published against measured"),
        "system": system,
        "system_title": title,
        "document": shown.document,
        "preset": plan.presets.join("+"),
        "spec_toml": plan.written.to_toml(),
        "spec_hash": plan.hash(),
        "version": env!("CARGO_PKG_VERSION"),
        "titles": titles,
        "left_out": left_out,
        "experiments": runs.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "stopped": stopped,
        "failed": failed,
    });
    counted::mark(&mut checks);
    let mut tables = vec![("checks", checks)];
    let beside = rows.into_table();
    if beside.rows() > 0 {
        tables.push(("beside", beside));
    }
    let summary = Outcome { tables, meta, stopped, failed, plan };
    Ok(Reproduction { summary, runs })
}

/// One measured number beside a published one.
#[derive(Default)]
struct Measured {
    at: At,
    place: Option<Place>,
    value: Option<f64>,
    half_width: Option<f64>,
    verdict: String,
    /// How many runs its interval is based on.
    runs: Option<f64>,
    /// It is based on fewer runs than the experiment asks for.
    reduced: bool,
}

/// Adds a row for every published number of an experiment and every reading of the document.
pub fn check(system: &str, experiment: &str, outcome: &Outcome, reduced: bool, checks: &mut Table) {
    let published = outcome.plan.points.first().map(|point| point.spec.published.as_slice());
    for published in published.unwrap_or_default() {
        for mut measured in measure(outcome, published) {
            measured.reduced = reduced && !published.follows_without_a_run();
            // A quantity over a whole sweep cannot be computed from a part of it.
            let whole = published.quantity != "saturation_load" && measured.value.is_some();
            if outcome.stopped && !whole {
                continue;
            }
            push(system, experiment, outcome, published, &measured, checks);
        }
    }
}

fn push(
    system: &str,
    experiment: &str,
    outcome: &Outcome,
    published: &Published,
    measured: &Measured,
    checks: &mut Table,
) {
    let preset = measured.at.iter().find(|(axis, _)| axis == "preset");
    let preset =
        preset.map_or_else(|| outcome.plan.presets.join("+"), |(_, name)| name.to_string());
    let kind = published.kind();
    let has_words = matches!(kind, Kind::Statement | Kind::Computed);
    let words = if has_words { published.words() } else { "" };
    // A note that serves as a statement's words is not repeated.
    let note = if published.note == words { "" } else { &published.note };
    let limits = limits_of(published, measured);
    let error = measured.value.zip(published.value).map(|(value, printed)| value / printed - 1.0);
    checks.push([
        ("system", Cell::from(system)),
        ("experiment", experiment.into()),
        ("quantity", quantity_of(published).into()),
        ("at", place_of(published).into()),
        ("unit", unit_of(published, outcome).into()),
        ("kind", kind.to_string().into()),
        ("published", published.value.into()),
        ("statement", words.into()),
        ("measured", measured.value.into()),
        ("half_width", measured.half_width.into()),
        ("error", error.into()),
        ("band", published.band.to_string().into()),
        ("band_low", limits.map(|own| own.low).into()),
        ("band_high", limits.map(|own| own.high).into()),
        ("verdict", verdict(published, measured, &preset).into()),
        ("settled", measured.verdict.as_str().into()),
        ("preset", preset.into()),
        ("section", published.section.as_str().into()),
        ("note", note.into()),
    ]);
}

/// What is measured: a column, or its ratio to the same column elsewhere (`queueing_mean_us, B4
/// over B1`).
fn quantity_of(published: &Published) -> String {
    let mut text = published.quantity.clone();
    if let Some(factor) = published.times {
        text.push_str(&format!(" x {factor}"));
    }
    for (word, others) in [("over", &published.over), ("less", &published.less)] {
        text.extend(others.iter().map(|(axis, other)| match published.at.get(axis) {
            Some(own) => format!(", {} {word} {other}", in_words(axis, own)),
            None => format!(", {word} {}", in_words(axis, other)),
        }));
    }
    text
}

/// The point of the study to which a published number belongs, in words. What the two sides of a
/// ratio differ in belongs to its quantity.
fn place_of(published: &Published) -> String {
    let at = published
        .at
        .iter()
        .filter(|(axis, _)| *axis != "preset")
        .filter(|(axis, _)| !published.over.contains_key(*axis))
        .filter(|(axis, _)| !published.less.contains_key(*axis));
    at.map(|(axis, value)| in_words(axis, value)).collect::<Vec<_>>().join(", ")
}

/// A value on an axis: a name alone, a number with the last part of its key.
fn in_words(axis: &str, value: &Setting) -> String {
    match (value, axis.rsplit_once('.')) {
        (_, Some((_, key))) => format!("{key} {value}"),
        (Setting::Text(name), None) => name.clone(),
        (_, None) => format!("{axis} {value}"),
    }
}

/// The ends of a band; both belong to it.
#[derive(Clone, Copy, Debug)]
struct BandLimits {
    low: f64,
    high: f64,
}

/// The ends of the band, in the unit of the quantity.
fn limits_of(published: &Published, measured: &Measured) -> Option<BandLimits> {
    let reach = match (published.band, published.value) {
        (Band::Between([low, high]) | Band::Spread([low, high]), _) => {
            return Some(BandLimits { low, high });
        }
        (Band::Missed | Band::ReportOnly, _) | (_, None) => return None,
        (Band::Relative(share), Some(printed)) => share.get() * printed.abs(),
        (Band::Rounding(half) | Band::Reading(half), _) => half.get(),
        (Band::OneRun(half), _) => half.get() + measured.spread_of_one_run()?,
    };
    published.value.map(|printed| BandLimits { low: printed - reach, high: printed + reach })
}

/// Within the band, outside of it, known not to come out, or shown without a verdict. From fewer
/// runs than the experiment asks for a band is undecided unless the whole interval is within or
/// outside of it.
fn verdict(published: &Published, measured: &Measured, preset: &str) -> &'static str {
    if published.band == Band::ReportOnly || preset.split('+').any(|name| name == LITERAL) {
        return "report";
    }
    if published.band == Band::Missed {
        return "missed";
    }
    // A shorter run scatters more than the one in print, and of a single one nothing is known.
    let is_of_one_run = matches!(published.band, Band::OneRun(_));
    if is_of_one_run && (measured.reduced || measured.spread_of_one_run().is_none()) {
        return "undecided";
    }
    let Some((BandLimits { low, high }, value)) =
        limits_of(published, measured).zip(measured.value)
    else {
        return "outside";
    };
    let reach = match (measured.reduced, measured.half_width) {
        (false, _) => 0.0,
        (true, Some(half_width)) if measured.is_steady(published) => half_width,
        (true, _) => return "undecided",
    };
    let (from, to) = (value - reach, value + reach);
    if from >= low && to <= high {
        "within"
    } else if to < low || from > high {
        "outside"
    } else {
        "undecided"
    }
}

/// The unit of what is measured: that of the column, or the given one if a number was computed from
/// it.
fn unit_of(published: &Published, outcome: &Outcome) -> String {
    let quantity = published.quantity.as_str();
    if let Some(unit) = &published.unit {
        return unit.clone();
    }
    if !published.over.is_empty() || published.times.is_some() {
        return String::new();
    }
    if let Some(name) = quantity.strip_prefix(DERIVED) {
        let derived = outcome.table("derived");
        let row =
            (0..derived.rows()).find(|row| derived.get(*row, "quantity") == Some(Cell::from(name)));
        let unit = row.and_then(|row| derived.get(row, "unit"));
        return unit.map_or_else(String::new, |unit| unit.to_string());
    }
    crate::describe::unit(quantity).to_owned()
}

/// The measured numbers for `published`: one for each reading of the document, that is for each
/// value of every axis that `published` leaves open.
fn measure(outcome: &Outcome, published: &Published) -> Vec<Measured> {
    let mut all = collect(outcome, &published.quantity, &published.at);
    if !published.over.is_empty() {
        let mut at = published.at.clone();
        at.extend(published.over.clone());
        let divisors = collect(outcome, &published.quantity, &at);
        for (measured, divisor) in all.iter_mut().zip(divisors) {
            let pairs = measured.pairs(&divisor, outcome, &published.quantity);
            measured.divide(&divisor, &pairs);
        }
    }
    if !published.less.is_empty() {
        let mut at = published.at.clone();
        at.extend(published.less.clone());
        let others = collect(outcome, &published.quantity, &at);
        for (measured, other) in all.iter_mut().zip(others) {
            let pairs = measured.pairs(&other, outcome, &published.quantity);
            measured.subtract(&other, &pairs);
        }
    }
    let times = published.times.unwrap_or(1.0);
    for measured in &mut all {
        measured.value = measured.value.map(|value| value * times);
        measured.half_width = measured.half_width.map(|half_width| half_width * times);
    }
    all
}

fn collect(outcome: &Outcome, quantity: &str, at: &BTreeMap<String, Setting>) -> Vec<Measured> {
    if let Some(name) = quantity.strip_prefix(DERIVED) {
        return vec![derived(outcome, name)];
    }
    let table = match quantity {
        "collisions_per_attempt" => outcome.table("collisions"),
        _ => outcome.table("points"),
    };
    let axes = &outcome.plan.axes;
    let rows: Vec<usize> = (0..table.rows()).filter(|row| matches(&table, *row, at)).collect();
    if quantity == "saturation_load" {
        return limits(&table, &rows, axes);
    }
    let measured = rows.into_iter().map(|row| Measured {
        at: place(&table, row, axes),
        place: Place::of(&table, row),
        value: table.number(row, quantity),
        half_width: table.number(row, &half_width_of(quantity)),
        verdict: table.get(row, "verdict").map_or_else(String::new, |cell| cell.to_string()),
        runs: table.number(row, "replications"),
        ..Measured::default()
    });
    measured.collect()
}

impl Measured {
    /// Whether a run of another length would have shown the same, within its interval. A mean time
    /// of a run that did not settle goes with its length; throughput does not.
    fn is_steady(&self, published: &Published) -> bool {
        match self.verdict.as_str() {
            "" | "settled" => true,
            "too short" => false,
            _ => !published.quantity.ends_with("_us"),
        }
    }

    /// How far one more run of the same length lies from this mean, with 95 % probability: the half
    /// width of a mean of n runs is t s / sqrt(n), that of a prediction t s sqrt(1 + 1 / n).
    fn spread_of_one_run(&self) -> Option<f64> {
        self.half_width.zip(self.runs).map(|(half_width, runs)| half_width * (runs + 1.0).sqrt())
    }

    /// The runs of this and of another place, seed by seed.
    fn pairs(&self, other: &Measured, outcome: &Outcome, quantity: &str) -> Vec<SeedPair> {
        let places = self.place.as_ref().zip(other.place.as_ref());
        places.map_or_else(Vec::new, |(one, other)| {
            paired::pairs(&outcome.table("replications"), quantity, one, other)
        })
    }

    /// A difference; its half width is that of the differences seed by seed or, if they are not
    /// known, that of two independent numbers.
    fn subtract(&mut self, other: &Measured, pairs: &[SeedPair]) {
        self.value = self.value.zip(other.value).map(|(value, other)| value - other);
        let independent =
            self.half_width.zip(other.half_width).map(|(one, other)| libm::hypot(one, other));
        self.half_width = paired::half_width_of_difference(pairs).or(independent);
    }

    /// A ratio; its half width is that of the ratios seed by seed or, if they are not known, that
    /// of two independent numbers.
    fn divide(&mut self, divisor: &Measured, pairs: &[SeedPair]) {
        let (value, by) = (self.value.unwrap_or(f64::NAN), divisor.value.unwrap_or(f64::NAN));
        let ratio = value / by;
        let share = |measured: &Measured| {
            measured.half_width.zip(measured.value).map(|(half_width, value)| half_width / value)
        };
        let independent = share(self)
            .zip(share(divisor))
            .map(|(one, other)| libm::hypot(one, other) * ratio.abs());
        self.half_width = paired::half_width_of_ratio(pairs).or(independent);
        self.value = ratio.is_finite().then_some(ratio);
    }
}

/// The half width of `x_mean_us` is `x_half_width_us`, that of `x` is `x_half_width`.
fn half_width_of(quantity: &str) -> String {
    match quantity.strip_suffix("_mean_us") {
        Some(name) => format!("{name}_half_width_us"),
        None => format!("{quantity}_half_width"),
    }
}

/// The values of some axes.
type At = Vec<(String, Cell)>;

/// The largest accepted throughput over a sweep of the load, for each value of the other axes.
fn limits(table: &Table, rows: &[usize], axes: &[String]) -> Vec<Measured> {
    let mut groups: Vec<(At, Vec<LoadPoint>)> = Vec::new();
    for &row in rows {
        let at = place(table, row, axes);
        let at: Vec<_> = at.into_iter().filter(|(axis, _)| !axis.ends_with(".load")).collect();
        let load = table.number(row, "offered_load").zip(table.number(row, "accepted_load"));
        let Some((offered, accepted)) = load else { continue };
        let load = LoadPoint { offered, accepted };
        match groups.iter_mut().find(|(other, _)| *other == at) {
            Some((_, loads)) => loads.push(load),
            None => groups.push((at, vec![load])),
        }
    }
    let limit = |(at, loads): (At, Vec<LoadPoint>)| {
        let value = saturation(&loads, CARRIED).map(|limit| limit.throughput);
        Measured { at, value, ..Measured::default() }
    };
    groups.into_iter().map(limit).collect()
}

fn derived(outcome: &Outcome, name: &str) -> Measured {
    let table = outcome.table("derived");
    let row = (0..table.rows()).find(|row| table.get(*row, "quantity") == Some(Cell::from(name)));
    let value = row.and_then(|row| table.number(row, "value"));
    Measured { value, ..Measured::default() }
}

fn place(table: &Table, row: usize, axes: &[String]) -> At {
    axes.iter().filter_map(|axis| Some((axis.clone(), table.get(row, axis)?))).collect()
}

pub(crate) fn matches(table: &Table, row: usize, at: &BTreeMap<String, Setting>) -> bool {
    at.iter().all(|(column, wanted)| match (table.get(row, column), wanted) {
        (Some(Cell::Number(Some(found))), Setting::Number(wanted)) => found == *wanted,
        (Some(Cell::Text(found)), wanted) => found == wanted.to_string(),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = "base = 'maestro'\n[run]\nlength = '1 ms'\nregime = 'from_empty'\n\
        [channel.network]\nturns.phase = 'aligned'\n\
        [workload.network]\nsource.list = [{ time = '10 us', from = 0, to = 1 }]\n\
        [variant.size.one]\nchannel.network.payload = '11 B'\n\
        [variant.size.two]\nchannel.network.payload = '25 B'\n\
        [[published]]\nquantity = 'one_way_max_us'\nat = { size = 'two' }\n\
        less = { size = 'one' }\nvalue = 0.64\nband = { relative = 0.01 }\nsection = 'none'\n";

    #[test]
    fn a_family_is_called_by_what_its_systems_have_in_common() {
        let two = ["Memory Channel 1 (DIGITAL)", "Memory Channel 2 (DIGITAL)"];
        assert_eq!(common_title(&two), "Memory Channel (DIGITAL)");
        assert_eq!(common_title(&two[..1]), two[0]);
        assert_eq!(common_title(&["Clint", "Maestro"]), "Clint, Maestro");
        let of_one = |name: &&str| name.starts_with("memory");
        let names: Vec<&str> = reproducible().into_iter().filter(of_one).collect();
        assert_eq!(names, ["memory-channel", "memory-channel-1", "memory-channel-2"]);
    }

    fn checks_with(study: &str, options: &Options) -> Table {
        let request = Request::of_text("study.toml", study);
        let one = first_look::choose("study", "maestro", &request, options).unwrap();
        let outcome = study::carry_out(one.plan, &one.options, &mut |_, _| true).unwrap();
        let mut checks = Table::new();
        check("maestro", "study", &outcome, one.reduced.is_some(), &mut checks);
        checks
    }

    fn checks_of(study: &str) -> Table {
        checks_with(study, &Options::default())
    }

    /// A second packet in the same frames takes 640 ns longer on the last link, and nothing else.
    #[test]
    fn a_gain_is_a_difference_of_two_variants() {
        let checks = checks_of(STUDY);
        let cell = |column| checks.get(0, column).map(|cell| cell.to_string());
        assert_eq!(cell("quantity").as_deref(), Some("one_way_max_us, two less one"));
        assert_eq!(cell("verdict").as_deref(), Some("within"));
        let measured = checks.number(0, "measured").unwrap();
        assert!((measured - 0.64).abs() < 1e-9, "{measured}");
    }

    #[test]
    fn a_product_has_the_unit_that_is_said_or_none() {
        let unit = |more: &str| {
            let checks = checks_of(&STUDY.replace("value = 0.64", &format!("value = 640\n{more}")));
            checks.get(0, "unit").map(|cell| cell.to_string())
        };
        assert_eq!(unit("").as_deref(), Some("us"));
        assert_eq!(unit("times = 1000.0").as_deref(), Some(""));
        assert_eq!(unit("times = 1000.0\nunit = 'ns'").as_deref(), Some("ns"));
    }

    #[test]
    fn a_verdict_is_what_the_band_allows() {
        let cases = [
            ("{ relative = 0.01 }", "within"),
            ("{ between = [0.7, 0.8] }", "outside"),
            ("{ spread = [0.6, 0.7] }", "within"),
            ("{ spread = [0.65, 0.7] }", "outside"),
            ("{ reading = 0.05 }", "within"),
            ("'missed'", "missed"),
            ("'report_only'", "report"),
        ];
        for (band, verdict) in cases {
            let checks = checks_of(&STUDY.replace("{ relative = 0.01 }", band));
            assert_eq!(checks.get(0, "verdict"), Some(Cell::from(verdict)), "{band}");
        }
    }

    #[test]
    fn a_number_a_statement_and_what_is_not_printed_are_told_apart_by_what_is_given() {
        let cases = [
            ("value = 0.64\nband = { relative = 0.01 }", "number", ""),
            ("statement = 'longer'\nband = { between = [0.0, 9.0] }", "statement", "longer"),
            ("note = 'faster'\nband = { between = [0.0, 9.0] }", "statement", "faster"),
            ("statement = 'longer'\nband = 'report_only'", "statement", "longer"),
            (
                "statement = 'longer'\ncomputed = true\nband = { between = [0.0, 9.0] }",
                "computed",
                "longer",
            ),
            ("note = 'ours'\nband = 'report_only'", "unprinted", ""),
        ];
        for (given, kind, words) in cases {
            let study = STUDY.replace("value = 0.64\nband = { relative = 0.01 }", given);
            let checks = checks_of(&study);
            assert_eq!(checks.get(0, "kind"), Some(Cell::from(kind)), "{given}");
            assert_eq!(checks.get(0, "statement"), Some(Cell::from(words)), "{given}");
            let said = given.contains(&format!("note = '{words}'"));
            let note = if given.contains("ours") { "ours" } else { "" };
            assert!(!said || checks.get(0, "note") == Some(Cell::from(note)), "{given}");
        }
    }

    /// Clint's bulk channel at half load, with as many seeds as a file may ask for.
    const SCATTERED: &str = "base = 'clint'\n[run]\nlength = '400 us'\nseeds = 6\n\
        regime = 'from_empty'\n[workload.bulk]\nload = 0.5\n\
        [[published]]\nquantity = 'queueing_mean_us'\nat = { channel = 'bulk' }\n\
        band = BAND\nsection = 'none'\n";

    /// The published value is as far from the mean of the runs as one more of them may lie, or a
    /// little further.
    #[test]
    fn a_number_of_one_run_may_lie_as_far_off_as_another_run_would() {
        let whole = Options::default();
        let of = |value: f64, options: &Options| {
            let entry = format!("value = {value:?}\nband = {{ one_run = 0.0 }}");
            checks_with(&SCATTERED.replace("band = BAND", &entry), options)
        };
        let all = of(1.0, &whole);
        let (mean, half_width) =
            all.number(0, "measured").zip(all.number(0, "half_width")).unwrap();
        let spread = half_width * 7f64.sqrt();
        let verdict = |value: f64, options: &Options| {
            of(value, options).get(0, "verdict").unwrap().to_string()
        };
        assert_eq!(verdict(mean + 0.99 * spread, &whole), "within");
        assert_eq!(verdict(mean - 1.01 * spread, &whole), "outside");
        assert_eq!(verdict(mean, &Options { quick: true, ..whole.clone() }), "undecided");
        assert_eq!(verdict(mean, &Options { seeds: Some(1), ..whole }), "undecided");
    }

    /// Two variants that differ in nothing are one under every seed, though the seeds differ.
    #[test]
    fn what_runs_under_one_seed_is_compared_under_one_seed() {
        let same = "[variant.kind.one]\n[variant.kind.two]\n[[published]]";
        let study = SCATTERED
            .replace("[[published]]", same)
            .replace("at = { channel = 'bulk' }", "at = { channel = 'bulk', kind = 'one' }");
        let over = "over = { kind = 'two' }\nvalue = 1.0\nband = { one_run = 0.0 }";
        let checks = checks_of(&study.replace("band = BAND", over));
        assert_eq!(
            (checks.number(0, "measured"), checks.number(0, "half_width")),
            (Some(1.0), Some(0.0))
        );
        assert_eq!(checks.get(0, "verdict"), Some(Cell::from("within")));
        let alone = checks_of(&study.replace("band = BAND", "value = 1.0\nband = 'report_only'"));
        assert!(alone.number(0, "half_width") > Some(0.0));
    }

    #[test]
    fn half_a_unit_of_the_last_digit_is_added_to_either_side() {
        let verdict = |band: &str| {
            let study = STUDY.replace("value = 0.64", "value = 0.6");
            let checks = checks_of(&study.replace("{ relative = 0.01 }", band));
            checks.get(0, "verdict").unwrap().to_string()
        };
        assert_eq!(verdict("{ rounding = 0.05 }"), "within");
        assert_eq!(verdict("{ rounding = 0.03 }"), "outside");
        let study = STUDY.replace("{ relative = 0.01 }", "{ rounding = -1.0 }");
        let said = Plan::new(&Request::of_text("study.toml", &study)).unwrap_err().to_string();
        assert!(said.contains("0 or more, such as 0.05"), "{said}");
        for band in ["{ spread = [0.6, 0.7] }", "{ reading = 0.01 }", "{ one_run = 0.01 }"] {
            let study = STUDY
                .replace("value = 0.64\nband = { relative = 0.01 }", &format!("band = {band}"));
            let said = Plan::new(&Request::of_text("study.toml", &study)).unwrap_err().to_string();
            assert!(said.contains("without the `value`"), "{said}");
        }
    }

    #[test]
    fn fewer_runs_than_asked_for_decide_only_what_their_interval_decides() {
        let quick = Options { quick: true, ..Options::default() };
        let fewer = checks_with(&SCATTERED.replace("BAND", "'report_only'"), &quick);
        let value = fewer.number(0, "measured").unwrap();
        let half_width = fewer.number(0, "half_width").unwrap();
        assert!(half_width > 0.0);
        let verdict = |low: f64, high: f64, options: &Options| {
            let band = format!("{{ between = [{low:?}, {high:?}] }}");
            let checks = checks_with(&SCATTERED.replace("BAND", &band), options);
            checks.get(0, "verdict").unwrap().to_string()
        };
        let (near, far) = (half_width / 2.0, half_width * 2.0);
        assert_eq!(verdict(value - far, value + far, &quick), "within");
        assert_eq!(verdict(value - near, value + near, &quick), "undecided");
        assert_eq!(verdict(value + near, value + far, &quick), "undecided");
        assert_eq!(verdict(value + far, value + 2.0 * far, &quick), "outside");
        // All runs that the file asks for: the mean decides.
        let three = Options { seeds: Some(3), ..Options::default() };
        assert_eq!(verdict(value - near, value + near, &three), "undecided");
        let enough = SCATTERED
            .replace("seeds = 6", "seeds = 3")
            .replace("BAND", &format!("{{ between = [{:?}, {:?}] }}", value - near, value + near));
        let checks = checks_with(&enough, &quick);
        assert_eq!(checks.get(0, "verdict"), Some(Cell::from("within")));
    }
}
