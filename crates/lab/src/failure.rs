//! Runs that have no result: a buffer overflowed, an order was broken, a program did not finish.
//!
//! A failure is the row of one run. The other runs of a study are as good as they would be without
//! it, so they are made and kept.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};
use weft_kernel::Halt;

use crate::composition::Spec;
use crate::error::Error;
use crate::simulate::{ChannelRun, simulate_on};
use crate::threads::Threads;

/// The verdict in the rows of what failed.
pub(crate) const FAILED: &str = "failed";

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The channel that it happened in; empty if that is not known.
    pub channel: String,
    /// What happened, with the seed.
    pub reason: String,
    /// Whether the error is in the composition or the program, so that every seed fails.
    pub refused: bool,
}

/// Carries out a run. A panic is a defect of Weft, and still costs no other run its result.
pub(crate) fn attempt(
    spec: &Spec,
    seed: u64,
    halt: &Halt,
    threads: &Threads,
) -> Result<Vec<ChannelRun>, Failure> {
    guarded(seed, || simulate_on(threads, spec, seed, halt))
}

fn guarded<T>(seed: u64, run: impl FnOnce() -> Result<T, Error>) -> Result<T, Failure> {
    // A run owns all that it changes, so nothing half changed outlives it.
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(ended) => ended.map_err(|error| Failure::of(&error)),
        Err(panic) => {
            let reason = format!("seed {seed}: a defect of Weft: {}", message(panic.as_ref()));
            Err(Failure { channel: String::new(), reason, refused: false })
        }
    }
}

impl Failure {
    fn of(error: &Error) -> Failure {
        let channel = match error {
            Error::Schedule { channel, .. }
            | Error::Overrun { channel, .. }
            | Error::Order { channel, .. }
            | Error::Capacity { channel, .. }
            | Error::Conservation { channel, .. }
            | Error::Scheduler { channel, .. } => channel.clone(),
            _ => String::new(),
        };
        Failure { channel, reason: error.to_string(), refused: error.is_refusal() }
    }
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::{Failure, guarded};
    use crate::error::Error;

    fn reason(run: impl FnOnce() -> Result<(), Error>) -> String {
        guarded(7, run).expect_err("a failure").reason
    }

    #[test]
    fn a_panic_is_a_failure_of_its_run() {
        assert_eq!(reason(|| panic!("load {}", 3)), "seed 7: a defect of Weft: load 3");
        assert_eq!(reason(|| panic!("no load")), "seed 7: a defect of Weft: no load");
    }

    #[test]
    fn an_error_names_its_channel() {
        let (channel, problem) = ("data".to_owned(), "full".to_owned());
        let errors = [
            Error::Overrun { channel: channel.clone(), seed: 7, problem: problem.clone() },
            Error::Capacity { channel: channel.clone(), seed: 7, problem },
        ];
        for error in errors {
            let told =
                Failure { channel: channel.clone(), reason: error.to_string(), refused: false };
            assert_eq!(guarded(7, || Err::<(), _>(error)), Err(told));
        }
    }
}
