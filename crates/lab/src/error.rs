//! What can be wrong with a request, a file or a run.

use serde::Serialize;
use weft_fabric::scheduler::SchedulerError;
use weft_fabric::workload::WorkloadError;

use crate::program::ProgramError;
use crate::reproduce::reproducible;
use crate::shipped;
use crate::spec::{SpecError, nearest};
use crate::trace::TraceError;

/// What stands for the value of a key that is not there.
pub(crate) const ABSENT: &str = "(none)";

/// Why a request could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value in a file or in an override.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Nothing of that name is shipped, and it is not a path.
    #[error(
        "`{name}` is not shipped; accepted: a name that `weft systems` lists, or the path of a file \
         that ends in .toml{}", did_you_mean(.close)
    )]
    UnknownName {
        /// The request.
        name: String,
        /// The names that are close to it.
        close: Vec<String>,
    },
    /// A folder where a file is expected.
    #[error("{path} is a folder; {}", runnable(.files, *.more))]
    Folder {
        /// The folder.
        path: String,
        /// Files in it that could be run.
        files: Vec<String>,
        /// How many more there are.
        more: usize,
    },
    /// No interconnect of that name is shipped.
    #[error("there is no shipped system `{name}`; accepted: {accepted}{}", did_you_mean(.close))]
    UnknownSystem {
        /// The request.
        name: String,
        /// What there is.
        accepted: String,
        /// The names that are close to it.
        close: Vec<String>,
    },
    /// A file that cannot be read.
    #[error("{path} cannot be read: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Files that name each other as base.
    #[error("`base` leads through more than 16 files; the last is {name}: do two name each other?")]
    BaseLoop {
        /// The file at which the search ended.
        name: String,
    },
    /// An override that is not `key.path=value`.
    #[error("override `{text}` has no `=`; write it as key.path=value, for example run.seeds=5")]
    Override {
        /// The text.
        text: String,
    },
    /// A value that an axis does not have.
    #[error("{axis} = `{value}` is not one of its values; accepted: {}", .names.join(", "))]
    UnknownVariant {
        /// The axis.
        axis: String,
        /// The request.
        value: String,
        /// What there is.
        names: Vec<String>,
    },
    /// A composition without traffic.
    #[error(
        "nothing is sent: there is no [workload.CHANNEL] and no [program], so there is nothing to \
         run; the channels are {}. To see a system, show it; to run one, run an experiment on it", .channels.join(", ")
    )]
    NoWorkload {
        /// The channels that a workload could be given to.
        channels: Vec<String>,
    },
    /// A study so large that it must be a mistake.
    #[error("the sweeps and variants multiply to more than {most} points; sweep fewer values")]
    TooManyPoints {
        /// The bound.
        most: usize,
    },
    /// Parts that do not fit together.
    #[error("{key} = {value}: accepted is {accepted}")]
    Assembly {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What would be accepted.
        accepted: String,
    },
    /// A scheduler that cannot be built.
    #[error("channel.{channel}.switch: {error}")]
    Scheduler {
        /// The channel.
        channel: String,
        /// What is wrong.
        error: SchedulerError,
    },
    /// A workload that cannot be built.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A trace that cannot be run.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A point that cannot be sent to another process, or a run that came back damaged.
    #[error("a run cannot be sent to another process: {problem}")]
    Job {
        /// What is wrong with it.
        problem: String,
    },
    /// A run for other code than this, whose result would be another one.
    #[error(
        "the run is for weft {asked}, and this is weft {own}: every machine of a sweep needs the \
         same build"
    )]
    OtherCode {
        /// The code that it is for.
        asked: String,
        /// The code that was asked.
        own: &'static str,
    },
    /// A store of runs that cannot be read or written.
    #[error(
        "the store {path} cannot be written: {}. Runs that it holds already are whole, and the \
         same command goes on from them", in_words(.error)
    )]
    Store {
        /// The folder.
        path: String,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// A program that did not finish.
    #[error("seed {seed}: {error}")]
    Program {
        /// The seed of the run.
        seed: u64,
        /// Why.
        error: ProgramError,
    },
    /// A run in which two packets met that a global schedule keeps apart: a defect of a part.
    #[error("{channel}, seed {seed}: the schedule is broken: {problem}")]
    Schedule {
        /// The scheduled channel.
        channel: String,
        /// The seed of the run.
        seed: u64,
        /// Where and when they met.
        problem: String,
    },
    /// A run of a lossless channel in which a buffer was written while it was full.
    #[error("{channel}, seed {seed}: {problem}")]
    Overrun {
        /// The channel.
        channel: String,
        /// The seed of the run.
        seed: u64,
        /// Which buffer, and when.
        problem: String,
    },
    /// A run in which packets arrived in an order that the rules do not allow: a defect of a part.
    #[error("{channel}, seed {seed}: the order is broken: {problem}")]
    Order {
        /// The channel.
        channel: String,
        /// The seed of the run.
        seed: u64,
        /// Which packet, and where.
        problem: String,
    },
    /// A run in which a link carried more than it can: a defect of a part.
    #[error(
        "{channel}, seed {seed}: {problem}; this is a defect of Weft, and the result is withheld"
    )]
    Capacity {
        /// The channel.
        channel: String,
        /// The seed of the run.
        seed: u64,
        /// Which link, and how busy it was.
        problem: String,
    },
    /// A run in which packets were lost or made without a rule: a defect of a part.
    #[error("{channel}, seed {seed}: {problem}")]
    Conservation {
        /// The channel.
        channel: String,
        /// The seed of the run.
        seed: u64,
        /// The counts that do not agree.
        problem: String,
    },
}

/// The parts of an error, for programs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Details {
    /// The file, if a file is to blame.
    pub file: Option<String>,
    /// The line in it, from 1.
    pub line: Option<usize>,
    /// The column in the line, from 1.
    pub column: Option<usize>,
    /// The dotted key.
    pub key: Option<String>,
    /// The value that was refused.
    pub value: Option<String>,
    /// What would be accepted.
    pub accepted: Option<String>,
    /// What is wrong, in one sentence.
    pub message: String,
}

impl Error {
    pub(crate) fn unknown_name(name: &str) -> Error {
        let names: Vec<&str> = shipped::experiments().chain(shipped::systems()).collect();
        let close = close(name, &names);
        Error::UnknownName { name: name.to_owned(), close }
    }

    pub(crate) fn unknown_system(name: &str) -> Error {
        let names = reproducible();
        let close = close(name, &names);
        Error::UnknownSystem { name: name.to_owned(), accepted: names.join(", "), close }
    }

    /// Whether the error is in the composition or the program, and not in a run.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Error::Spec(_)
            | Error::Assembly { .. }
            | Error::Scheduler { .. }
            | Error::Workload(_)
            | Error::Trace(_) => true,
            Error::Program { error, .. } => !matches!(
                error,
                ProgramError::Deadlock { .. }
                    | ProgramError::ClockEnds { .. }
                    | ProgramError::Stopped { .. }
            ),
            _ => false,
        }
    }

    /// The parts of the error.
    pub fn details(&self) -> Details {
        let message = self.to_string();
        match self {
            Error::Spec(error) => Details {
                file: some(&error.file),
                line: error.line,
                column: error.column,
                key: some(&error.key),
                value: some(&error.value),
                accepted: some(&error.accepted.join(", ")),
                message: error.message.clone(),
            },
            Error::UnknownName { name, close } => Details {
                value: Some(name.clone()),
                accepted: some(&close.join(", ")),
                message,
                ..Details::default()
            },
            Error::Folder { path, files, .. } => Details {
                file: Some(path.clone()),
                accepted: some(&files.join(", ")),
                message,
                ..Details::default()
            },
            Error::UnknownSystem { name, accepted, .. } => Details {
                value: Some(name.clone()),
                accepted: Some(accepted.clone()),
                message,
                ..Details::default()
            },
            Error::Unreadable { path, .. } => {
                Details { file: Some(path.clone()), message, ..Details::default() }
            }
            Error::UnknownVariant { axis, value, names } => Details {
                key: Some(axis.clone()),
                value: Some(value.clone()),
                accepted: Some(names.join(", ")),
                message,
                ..Details::default()
            },
            Error::NoWorkload { channels } => Details {
                key: Some("workload".to_owned()),
                accepted: Some(channels.join(", ")),
                message,
                ..Details::default()
            },
            Error::Assembly { key, value, accepted } => Details {
                key: Some(key.clone()),
                value: Some(value.clone()),
                accepted: Some(accepted.clone()),
                message,
                ..Details::default()
            },
            _ => Details { message, ..Details::default() },
        }
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The similar names to be listed.
const MOST_CLOSE: usize = 5;

/// The names that are near enough to `name` for a typo, the nearest first, then names that contain
/// it.
fn close(name: &str, names: &[&str]) -> Vec<String> {
    let part = |other: &&str| name.chars().count() > 2 && other.contains(&name.to_lowercase());
    let mut close: Vec<&str> = nearest(name, names.iter().copied()).into_iter().collect();
    for other in names.iter().copied().filter(part) {
        if !close.contains(&other) {
            close.push(other);
        }
    }
    close.into_iter().take(MOST_CLOSE).map(str::to_owned).collect()
}

fn did_you_mean(close: &[String]) -> String {
    let quoted: Vec<String> = close.iter().map(|name| format!("`{name}`")).collect();
    match quoted.is_empty() {
        true => String::new(),
        false => format!("; did you mean {}?", quoted.join(" or ")),
    }
}

/// Which files of a folder could be run, as a phrase.
fn runnable(files: &[String], more: usize) -> String {
    let listed = files.join(", ");
    match (files.len(), more) {
        (0, _) => {
            "no file in it describes a system; accepted: a file that ends in .toml".to_owned()
        }
        (1, _) => format!("accepted: a file, such as {listed}"),
        (_, 0) => format!("accepted: one of the files in it: {listed}"),
        _ => format!("accepted: one of the files in it: {listed} and {more} more"),
    }
}

/// The error of the operating system, without its number.
fn in_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
