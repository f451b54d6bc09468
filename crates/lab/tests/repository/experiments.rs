//! Every experiment can be read, names a shipped system, and holds its published numbers and its
//! figures against columns, axes and values that there are.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use weft_lab::experiment::Published;
use weft_lab::spec::Tree;
use weft_lab::{Options, Outcome, Outline, Plan, Request, Table};
use weft_units::Span;

use crate::repository::files::{self, File, Finding, assert_none};

/// Long enough for every kind of packet and collision to be seen where an experiment runs longer.
const LENGTH: Span = Span(1_000_000_000);

/// What is wrong with the experiment in a file. `name` is how it is requested.
fn check(file: &File, name: &str) -> Vec<Finding> {
    let plan = match Plan::new(&Request::new(name, None, &[])) {
        Ok(plan) => plan,
        Err(error) => return vec![file.finding(1, error.to_string())],
    };
    let mut findings = Vec::new();
    if !weft_lab::systems().unwrap().iter().any(|system| system.name == plan.system) {
        findings.push(file.finding(1, format!("`{}` is not a shipped system", plan.system)));
    }
    let is_long = plan.points.iter().all(|point| point.spec.run.length > LENGTH);
    let length = is_long.then(|| format!("{} us", LENGTH.as_us()));
    let short = Options { seeds: Some(1), length, ..Options::default() };
    let outcome = match weft_lab::run(&Request::new(name, None, &[]), &short, &mut |_, _| true) {
        Ok(outcome) => outcome,
        Err(error) => return vec![file.finding(1, error.to_string())],
    };
    let seen = Seen { plan, outcome };
    let first = serde_json::to_value(&seen.plan.points[0].spec).unwrap();
    for (kind, rule) in [("published", Seen::published as Rule), ("figure", Seen::figure as Rule)] {
        for (index, entry) in first[kind].as_array().into_iter().flatten().enumerate() {
            let line = line(file, &format!("{kind}[{index}]"));
            let wrong = rule(&seen, entry);
            findings.extend(wrong.into_iter().map(|message| file.finding(line, message)));
        }
    }
    findings
}

type Rule = fn(&Seen, &Value) -> Vec<String>;

/// The line on which an entry begins.
fn line(file: &File, entry: &str) -> usize {
    let leaves = Tree::parse(&file.path, &file.text).unwrap().leaves();
    let leaf = leaves.iter().find(|leaf| leaf.path.starts_with(entry));
    leaf.and_then(|leaf| leaf.place.line()).unwrap_or(1)
}

/// An experiment as it is written, and as a short run of it comes out.
struct Seen {
    plan: Plan,
    outcome: Outcome,
}

impl Seen {
    fn published(&self, entry: &Value) -> Vec<String> {
        let quantity = entry["quantity"].as_str().unwrap_or_default();
        let mut wrong = unsaid(entry);
        wrong.extend(unreasoned(entry));
        if let Some(name) = quantity.strip_prefix("derived.") {
            let known = texts(&self.outcome.table("derived"), "quantity");
            if !known.iter().any(|known| known == name) {
                wrong.push(format!("nothing derives `{name}`"));
            }
            return wrong;
        }
        let (table, column) = match quantity {
            "collisions_per_attempt" => ("collisions", quantity),
            "saturation_load" => ("points", "accepted_load"),
            _ => ("points", quantity),
        };
        let table = self.outcome.table(table);
        if entry["band"] == "missed" && entry["note"].as_str().is_none_or(str::is_empty) {
            wrong.push("what is missed has no note that says why".to_owned());
        }
        if !has(&table, column) {
            wrong.push(format!("`{quantity}` is not a column"));
        }
        let empty = Map::new();
        let at = entry["at"].as_object().unwrap_or(&empty);
        let mut other = at.clone();
        for key in ["over", "less"] {
            other.extend(entry[key].as_object().unwrap_or(&empty).clone());
        }
        for place in [at, &other] {
            wrong.extend(self.place(&table, place));
        }
        wrong.dedup();
        wrong
    }

    /// Each key is an axis or a column, and some point, or some row, has all the values.
    fn place(&self, table: &Table, at: &Map<String, Value>) -> Vec<String> {
        let is_axis = |key: &String| self.plan.axes.contains(key);
        let unknown = at.keys().filter(|key| !is_axis(key) && !has(table, key));
        let mut wrong: Vec<String> =
            unknown.map(|key| format!("`{key}` is neither an axis nor a column")).collect();
        let matches = |(key, value): (&String, &Value), shown: &dyn Fn(&str) -> Option<String>| {
            shown(key).is_some_and(|shown| shown == text(value))
        };
        let of_axes = |shown: &dyn Fn(&str) -> Option<String>| {
            at.iter().filter(|(key, _)| is_axis(key)).all(|pair| matches(pair, shown))
        };
        let point = self.plan.points.iter().any(|point| {
            of_axes(&|key| {
                point.at.iter().find(|(axis, _)| axis == key).map(|(_, cell)| cell.to_string())
            })
        });
        let row = (0..table.rows()).any(|row| {
            at.iter()
                .filter(|(key, _)| !is_axis(key))
                .all(|pair| matches(pair, &|key| table.get(row, key).map(|cell| cell.to_string())))
        });
        if !(point && row) && wrong.is_empty() {
            let at: Vec<String> =
                at.iter().map(|(key, value)| format!("{key} = {}", text(value))).collect();
            wrong.push(format!("no point has {}", at.join(", ")));
        }
        wrong
    }

    fn figure(&self, entry: &Value) -> Vec<String> {
        let text = |key: &str| entry[key].as_str();
        let is_distribution = text("kind") == Some("histogram");
        let table = match text("kind") {
            Some("throughput_along_time") => self.outcome.table("samples"),
            Some("space_time") => self.outcome.table("trace"),
            Some("collision_rates") => self.outcome.table("collisions"),
            Some("histogram") => self.outcome.table("histograms"),
            Some("stream_throughput" | "stream_histogram") => self.outcome.table("streams"),
            Some("fabric" | "port_occupancy") => self.outcome.table("links"),
            _ => self.outcome.table("points"),
        };
        let mut wrong = Vec::new();
        let channel = text("channel").unwrap_or_default();
        if !texts(&table, "channel").iter().any(|known| known == channel) {
            wrong.push(format!("no channel `{channel}` has traffic"));
        }
        for column in ["x", "y"].into_iter().filter_map(text) {
            // A distribution is of one definition of latency, which is a value, not a column.
            let is_latency =
                is_distribution && texts(&table, "latency").iter().any(|l| l == column);
            if !has(&table, column) && !is_latency {
                wrong.push(format!("`{column}` is not a column"));
            }
        }
        for axis in ["series", "panels"].into_iter().filter_map(text) {
            if !self.plan.axes.iter().any(|known| known == axis) {
                wrong.push(format!("`{axis}` is not an axis"));
            }
        }
        wrong
    }
}

/// Everything that has a verdict was printed in the document, as a number that lies in its own band
/// or as words.
fn unsaid(entry: &Value) -> Vec<String> {
    let (value, band) = (entry["value"].as_f64(), &entry["band"]);
    let outside = |value: f64| {
        ["between", "spread"].iter().filter_map(|form| band[form].as_array()).any(|ends| {
            ends[0].as_f64().is_some_and(|low| value < low)
                || ends[1].as_f64().is_some_and(|high| value > high)
        })
    };
    let (judged, said) = (band != "report_only", entry["statement"].is_string());
    match value {
        Some(value) if outside(value) => vec!["the band leaves out what is printed".to_owned()],
        None if judged && !said => {
            vec!["is judged without a `value` or a `statement` that is printed".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// The band of a number in print is one whose form says why it is as wide: its rounding, the spread
/// of what the document itself prints, of its one run, or how closely a figure is read.
fn unreasoned(entry: &Value) -> Option<String> {
    let band = &entry["band"];
    let is_of = |forms: [&str; 2]| forms.iter().any(|form| !band[form].is_null());
    if !entry["value"].is_number() {
        return None;
    }
    if is_of(["relative", "between"]) {
        return Some("the band of a number does not say why it is as wide".to_owned());
    }
    let has_note = entry["note"].as_str().is_some_and(|note| !note.is_empty());
    let must_say = is_of(["spread", "reading"]) && !has_note;
    must_say.then(|| "has no `note` that says what the band is taken from".to_owned())
}

/// A printed number of a system, with the experiment that it stands in.
struct Printed {
    experiment: String,
    system: String,
    entry: Published,
}

/// One number that is held against a run in two experiments counts once if both give it the same
/// section; otherwise nobody would know that it is one.
fn printed_twice(all: &[Printed]) -> Vec<String> {
    let mut found = Vec::new();
    for (place, one) in all.iter().enumerate() {
        for other in &all[place + 1..] {
            if one.system == other.system
                && is_same_number(&one.entry, &other.entry)
                && one.entry.section != other.entry.section
            {
                found.push(format!(
                    "{} and {}: {} = {:?} is printed in `{}` and in `{}`",
                    one.experiment,
                    other.experiment,
                    one.entry.quantity,
                    one.entry.value,
                    one.entry.section,
                    other.entry.section
                ));
            }
        }
    }
    found
}

/// The same quantity and value, at settings of which one is a closer description of the other.
fn is_same_number(one: &Published, other: &Published) -> bool {
    let within = |one: &BTreeMap<_, _>, other: &BTreeMap<_, _>| {
        one.iter().all(|(key, value)| other.get(key) == Some(value))
    };
    one.value.is_some()
        && one.value == other.value
        && one.quantity == other.quantity
        && one.over == other.over
        && one.less == other.less
        && one.times == other.times
        && (within(&one.at, &other.at) || within(&other.at, &one.at))
}

fn has(table: &Table, name: &str) -> bool {
    table.columns().iter().any(|column| column.name == name)
}

fn texts(table: &Table, name: &str) -> Vec<String> {
    (0..table.rows()).filter_map(|row| table.get(row, name)).map(|cell| cell.to_string()).collect()
}

/// A value of the file as a cell shows it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN).to_string(),
        other => other.to_string(),
    }
}

#[test]
fn experiments_hold_what_they_name() {
    let all: Vec<File> = files::ending(".toml")
        .into_iter()
        .filter(|file| file.path.starts_with("experiments/"))
        .collect();
    assert!(!all.is_empty(), "no experiment is shipped");
    for file in all {
        let name = file.path["experiments/".len()..].trim_end_matches(".toml").to_owned();
        assert_none(&check(&file, &name));
    }
}

#[test]
fn no_number_is_printed_in_two_sections() {
    let mut all = Vec::new();
    for experiment in weft_lab::experiments().unwrap() {
        let study = Outline::new(&Request::new(&experiment.name, None, &[])).unwrap();
        for entry in &study.first.published {
            let (experiment, system) = (experiment.name.clone(), experiment.system.clone());
            all.push(Printed { experiment, system, entry: entry.clone() });
        }
    }
    assert!(all.len() > 100, "{}", all.len());
    assert_eq!(printed_twice(&all), Vec::<String>::new());
}

#[cfg(test)]
mod tests {
    use weft_lab::experiment::Setting;

    use super::*;

    const GOOD: &str = r#"
base = "clint"
experiment.title = "X"
workload.bulk.load = 0.5

[variant.traffic.single]

[sweep]
"workload.bulk.load" = [0.1, 0.5]

[[published]]
quantity = "queueing_mean_us"
at = { channel = "bulk", traffic = "single", "workload.bulk.load" = 0.5 }
value = 16.8
band = "report_only"
section = "Table 2"

[[figure]]
name = "x"
title = "X"
kind = "latency_against_load"
channel = "bulk"
x = "workload.bulk.load"
y = "queueing_mean_us"
series = "traffic"
"#;

    fn found(old: &str, new: &str) -> Vec<String> {
        assert!(GOOD.contains(old));
        let file = File::new("x.toml", &GOOD.replacen(old, new, 1));
        let name = old.chars().chain(new.chars()).filter(char::is_ascii_alphanumeric);
        let name = format!("experiment-{}.toml", name.collect::<String>());
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, &file.text).unwrap();
        check(&file, &path.to_string_lossy()).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_sound_experiment_passes() {
        assert_eq!(found("X", "Y"), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_there_is_found() {
        let cases = [
            ("queueing_mean_us", "queing_mean_us", "x.toml:12: `queing_mean_us` is not a column"),
            (
                "band = \"report_only\"",
                "band = { relative = 0.12 }",
                "x.toml:12: the band of a number does not say why it is as wide",
            ),
            (
                "band = \"report_only\"",
                "band = { spread = [16.0, 17.0] }",
                "x.toml:12: has no `note` that says what the band is taken from",
            ),
            (
                "traffic = \"single\"",
                "trafic = \"single\"",
                "x.toml:12: `trafic` is neither an axis nor a column",
            ),
            (
                "= 0.5 }",
                "= 0.4 }",
                "x.toml:12: no point has channel = bulk, traffic = single, workload.bulk.load = 0.4",
            ),
            (
                "channel = \"bulk\", ",
                "channel = \"quick\", ",
                "x.toml:12: no point has channel = quick, traffic = single, workload.bulk.load = 0.5",
            ),
            (
                "quantity = \"queueing_mean_us\"",
                "quantity = \"derived.magic\"",
                "x.toml:12: nothing derives `magic`",
            ),
            ("report_only", "missed", "x.toml:12: what is missed has no note that says why"),
            (
                "value = 16.8\nband = \"report_only\"",
                "band = { between = [1.0, 2.0] }",
                "x.toml:12: is judged without a `value` or a `statement` that is printed",
            ),
            (
                "\"report_only\"",
                "{ spread = [1.0, 2.0] }\nnote = \"x\"",
                "x.toml:12: the band leaves out what is printed",
            ),
            ("\ny = \"queueing", "\ny = \"queing", "x.toml:19: `queing_mean_us` is not a column"),
            ("series = \"traffic\"", "series = \"load\"", "x.toml:19: `load` is not an axis"),
            (
                "channel = \"bulk\"\nx",
                "channel = \"quick\"\nx",
                "x.toml:19: no channel `quick` has traffic",
            ),
        ];
        for (old, new, message) in cases {
            assert_eq!(found(old, new), [message]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_found() {
        let findings = found("workload.bulk", "worklaod.bulk");
        assert!(findings[0].contains("unknown key `worklaod`"), "{findings:?}");
    }

    #[test]
    fn a_number_that_two_experiments_hold_has_one_section() {
        let plan = Plan::new(&Request::of_text("x.toml", GOOD)).unwrap();
        let printed = |change: &dyn Fn(&mut Published)| {
            let mut entry = plan.points[0].spec.published[0].clone();
            change(&mut entry);
            Printed { experiment: "x".into(), system: "clint".into(), entry }
        };
        let twice = |change: &dyn Fn(&mut Published)| {
            printed_twice(&[printed(&|_| ()), printed(change)]).len()
        };
        assert_eq!(twice(&|_| ()), 0, "the same section");
        assert_eq!(twice(&|other| other.section = "4.2".into()), 1);
        let closer = |other: &mut Published| {
            other.section = "4.2".into();
            other.at.remove("traffic");
        };
        assert_eq!(twice(&closer), 1);
        let elsewhere = |other: &mut Published| {
            other.section = "4.2".into();
            other.at.insert("traffic".into(), Setting::Text("bursty".into()));
        };
        assert_eq!(twice(&elsewhere), 0);
        assert_eq!(twice(&|other| (other.section, other.value) = ("4.2".into(), None)), 0);
    }
}
