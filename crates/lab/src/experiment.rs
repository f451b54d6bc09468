//! The types of an experiment file: what is run, what is swept, what was published, what is drawn.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Fraction, PositiveCount, Span};

/// The prefix of quantities that follow without a run.
pub(crate) const DERIVED: &str = "derived.";

/// The purpose of an experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSettings {
    /// One line.
    pub title: String,
    /// Where the document shows it.
    #[serde(default)]
    pub section: String,
    /// What a reader should know before reading the numbers.
    #[serde(default)]
    pub note: String,
    /// Results that the document does not state, in a sentence or two for the front page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub finding: String,
}

/// How long runs are, which part of them is measured, and how often they are repeated.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    /// Simulated time of one run.
    pub length: Span,
    /// Which part of a run is measured.
    pub regime: Regime,
    /// How many runs with different seeds; the confidence interval comes from their scatter.
    pub seeds: PositiveCount,
    /// The seed of the first run; the others follow it.
    pub seed: u64,
    /// The largest number of slots or events of one run.
    pub step_limit: Option<u64>,
    /// Whether every transmission is recorded, for the table `trace`. Memory grows with the length
    /// of the run, so use it for short runs.
    pub trace: bool,
    /// The interval at which the load of each cable and the cells that wait for it are recorded,
    /// for the table `samples`, in the first run of a point. For switches with a shared memory or
    /// buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Span>,
    /// Whether to skip whole periods in which a channel repeats itself while a program or a trace
    /// waits for it. This changes no result. The results say what was skipped, or what rules it
    /// out.
    #[serde(skip_serializing_if = "is_false")]
    pub fast_forward: bool,
    /// Adds runs to a point until its confidence interval is narrow enough. Without it every point
    /// has `seeds` runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<PrecisionSettings>,
}

/// How narrow the confidence interval of a mean has to be. Runs with the next seeds are added to a
/// point until it is; at least five, because an interval from fewer runs is itself a guess.
/// Saturated and stuck points get no more runs, since they have no mean that these would narrow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrecisionSettings {
    /// The half width of the 95 % confidence interval over the runs, as a fraction of the mean.
    pub relative: Fraction,
    /// The quantity; "queueing" if not given.
    #[serde(default)]
    pub quantity: PreciseQuantity,
    /// The largest number of runs of a point, after which it stays as it is; 100 if not given.
    #[serde(default = "most_runs")]
    pub most: PositiveCount,
}

fn most_runs() -> PositiveCount {
    PositiveCount::new(100).unwrap_or(PositiveCount::ONE)
}

/// A mean for which a confidence interval may be requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreciseQuantity {
    /// The mean of the queueing latency.
    #[default]
    Queueing,
    /// The mean of the time to the first attempt.
    FirstAttempt,
    /// The mean of the one-way latency.
    OneWay,
    /// The mean of the transit latency.
    Transit,
    /// The mean of the round-trip latency.
    RoundTrip,
    /// The accepted throughput.
    AcceptedLoad,
}

/// Which part of a run is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Regime {
    /// Everything, starting from an empty system and without warm-up, as in Clint 4.1. The mean of
    /// a run that does not settle then depends on its length.
    FromEmpty,
    /// Everything after the warm-up, whose end MSER-5 finds in the series of latencies.
    #[default]
    Steady,
    /// Everything after a given time.
    Skip(Span),
}

/// One number that the document printed, or one statement that it makes, and the runs to compare it
/// with. Entries with the same `section` and the same `value` or `statement` are one printed number
/// or statement at several settings, and count once.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The column of `points` to compare it with, or a quantity over all points that match
    /// (`saturation_load`), or a quantity that follows without a run (`derived.NAME`).
    pub quantity: String,
    /// The values of the sweep and the variants at which to compare.
    #[serde(default)]
    pub at: BTreeMap<String, Setting>,
    /// Divides by the same quantity at these other places: a ratio between channels or variants.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub over: BTreeMap<String, Setting>,
    /// Subtracts the same quantity at these other places: what one variant gains over another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub less: BTreeMap<String, Setting>,
    /// A factor that the document applies to the quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
    /// The unit of the printed number. By default the unit of the column; none for a ratio or with
    /// a factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// What was printed. Absent where the document shows only a bound, a trend or an order.
    #[serde(default)]
    pub value: Option<f64>,
    /// What the document states without a number, in a few words. The statement holds if the
    /// measured value lies within the band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// Whether the band is from arithmetic of the file's author, and no document prints anything: a check of the model
    /// and not a reproduction. The statement says what was computed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub computed: bool,
    /// Whether a parameter was fitted to this number, so that reproducing it proves nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub calibrates: bool,
    /// What counts as reproduced.
    pub band: Band,
    /// Where it was printed, precisely enough that no other number there is the same.
    pub section: String,
    /// What a reader should know about it.
    #[serde(default)]
    pub note: String,
}

/// What the document gives for an entry of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number in print, which a measured one is held against.
    Number,
    /// A number in print by which a parameter was calibrated.
    Calibrated,
    /// A number in print that follows from parameters without a run.
    ClosedForm,
    /// Words that a measured number bears out or not.
    Statement,
    /// Nothing, but arithmetic on the composition gives a number.
    Computed,
    /// Nothing: a number of ours beside those of the document.
    Unprinted,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a function of a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Published {
    /// What the document gives: a value is a number; where there is none, a claim or words are a
    /// statement.
    pub fn kind(&self) -> Kind {
        match (self.value, &self.statement, self.band) {
            (Some(_), _, _) if self.calibrates => Kind::Calibrated,
            (Some(_), _, _) if self.follows_without_a_run() => Kind::ClosedForm,
            (Some(_), _, _) => Kind::Number,
            (None, _, _) if self.computed => Kind::Computed,
            (None, None, Band::ReportOnly) => Kind::Unprinted,
            (None, _, _) => Kind::Statement,
        }
    }

    /// Whether the quantity is computed from the parameters alone.
    pub fn follows_without_a_run(&self) -> bool {
        self.quantity.starts_with(DERIVED)
    }

    /// The words of a statement: its own, or else the note.
    pub fn words(&self) -> &str {
        self.statement.as_deref().unwrap_or(&self.note)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Number => "number",
            Kind::Calibrated => "calibrated",
            Kind::ClosedForm => "closed form",
            Kind::Statement => "statement",
            Kind::Computed => "computed",
            Kind::Unprinted => "unprinted",
        })
    }
}

/// A row of a table in which the document compares the systems of a family, such as generations:
/// what it prints for the system of this experiment, and what corresponds to it here.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// The table, as the document calls it.
    pub table: String,
    /// What the row is about. Experiments of several systems share a row by its name.
    pub row: String,
    /// What the document prints.
    pub printed: String,
    /// The corresponding parameters, by their keys; for a choice, the part that was chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    /// Or a column of the points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantity: Option<String>,
    /// The values of the sweep and the variants; if several points match, the smallest and the
    /// largest number are shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub at: BTreeMap<String, Setting>,
    /// What a reader should know about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What counts as reproduced. The variant says why the band is as wide as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// Within this fraction of the published value: a tolerance chosen by the author of the file.
    Relative(Fraction),
    /// Within this much of the published value, in its unit: half a unit of the last digit printed.
    Rounding(HalfUnit),
    /// Within this much of the published value, in its unit: how closely the document reads it off
    /// a figure, or says "around".
    Reading(HalfUnit),
    /// Between the smallest and the largest number that the document itself gives for the same
    /// thing, including half a unit of their last digits; the note says which.
    Spread([f64; 2]),
    /// The published value is that of one run as long as these: within the 95 % prediction interval
    /// of one more run, extended on either side by this value, half a unit of the last digit
    /// printed.
    OneRun(HalfUnit),
    /// Between two numbers, both included: the range that a statement allows.
    Between([f64; 2]),
    /// The document's number is not reproduced, as was known before the run; the note says why.
    Missed,
    /// Shown without a verdict, because the number does not allow one; the note says why.
    ReportOnly,
}

/// How precisely a number is printed, to either side and in its unit: half a unit of its last
/// digit, or of the scale from which it is read. 0 or more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
pub struct HalfUnit(f64);

impl HalfUnit {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for HalfUnit {
    type Error = String;

    fn try_from(value: f64) -> Result<HalfUnit, String> {
        if value.is_finite() && value >= 0.0 {
            return Ok(HalfUnit(value));
        }
        Err(format!("{value} is not how closely a number is printed: 0 or more, such as 0.05"))
    }
}

/// A value in a sweep, as it stands in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Setting {
    /// A switch.
    Flag(bool),
    /// A number.
    Number(f64),
    /// Anything else: a quantity with its unit, a name.
    Text(String),
}

/// One picture of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// File name without ending.
    pub name: String,
    /// One line above the picture.
    pub title: String,
    /// The text below the picture: what to look for.
    #[serde(default)]
    pub caption: String,
    /// What is drawn.
    pub kind: FigureKind,
    /// The channel that is drawn.
    pub channel: String,
    /// The column on the horizontal axis.
    #[serde(default)]
    pub x: Option<String>,
    /// The column on the vertical axis.
    #[serde(default)]
    pub y: Option<String>,
    /// The axis with one curve for each value.
    #[serde(default)]
    pub series: Option<String>,
    /// The axis with one panel for each value, side by side.
    #[serde(default)]
    pub panels: Option<String>,
}

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// Latency against load, latency on a logarithmic axis.
    LatencyAgainstLoad,
    /// Accepted throughput against offered load.
    ThroughputAgainstLoad,
    /// Collisions per transmission, by what was collided with.
    CollisionRates,
    /// The distribution of latencies.
    Histogram,
    /// Where the time went, stage by stage, as shares.
    LatencyBudget,
    /// Where the time went, the stages one after another along time.
    LatencyAlongTime,
    /// Accepted throughput along the time of a run: the table `samples`, which needs `run.sample`.
    ThroughputAlongTime,
    /// Who sent what to whom when: the table `trace`, which needs `run.trace`.
    SpaceTime,
    /// Any column of the points against a swept value, on a linear axis.
    Curve,
    /// Where the time of the ranks of a program went: shares of computing, sending and waiting, a bar
    /// a point. For runs of a program.
    ProgramShares,
    /// What each rank of a program did when, and the messages between them, of the first run: needs
    /// `run.trace`.
    RankTimes,
    /// How long each rank of a program computed, sent and waited in the first run.
    RankShares,
    /// The throughput of each stream of the first run, sorted, beside its max-min fair share.
    StreamThroughput,
    /// How many streams of all runs got how much.
    StreamHistogram,
    /// The fabric, step by step: how busy each cable is, and how many cells wait for it. For runs
    /// with `sample`.
    Fabric,
    /// Cells that wait at the ports with the longest queues, over time. For runs with `sample`.
    PortOccupancy,
    /// Which port pauses which, starting where the congestion began: the table `pauses`, which
    /// switches with `pfc` fill.
    Pauses,
    /// The median and the 99th percentile of the slowdown of flows, by their size: the table
    /// `flows`.
    SlowdownBySize,
}

impl Default for RunSettings {
    fn default() -> RunSettings {
        RunSettings {
            length: Span::from_ns(40_000_000),
            regime: Regime::default(),
            seeds: PositiveCount::ONE,
            seed: 1,
            step_limit: None,
            trace: false,
            fast_forward: false,
            sample: None,
            precision: None,
        }
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Band::Relative(share) => write!(f, "within {} %", share.get() * 100.0),
            Band::Rounding(half) => write!(f, "rounded, ±{}", half.get()),
            Band::Reading(half) => write!(f, "as read, ±{}", half.get()),
            Band::Spread([low, high]) => write!(f, "as printed, {low} to {high}"),
            Band::OneRun(_) => f.pad("one run"),
            Band::Between([low, high]) => write!(f, "{low} to {high}"),
            Band::Missed => f.pad("missed"),
            Band::ReportOnly => f.pad("shown, not judged"),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Flag(flag) => flag.fmt(f),
            Setting::Number(number) => number.fmt(f),
            Setting::Text(text) => f.pad(text),
        }
    }
}
