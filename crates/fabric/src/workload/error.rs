//! Why a workload cannot be built.

use std::fmt::Display;

/// A setting that does not fit the channel or the other settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: accepted is {accepted}")]
pub struct WorkloadError {
    /// The dotted key of the setting, from the root of the experiment.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What would be accepted.
    pub accepted: String,
}

impl WorkloadError {
    /// `key` is relative to the workload of the channel.
    pub(super) fn new(key: &str, value: impl Display, accepted: impl Display) -> WorkloadError {
        let (value, accepted) = (value.to_string(), accepted.to_string());
        WorkloadError { key: key.to_owned(), value, accepted }
    }

    /// Returns the error with its key below `key`.
    pub(super) fn below(self, key: &str) -> WorkloadError {
        WorkloadError { key: format!("{key}.{}", self.key), ..self }
    }

    /// Returns the error with the full key, from the root of the file.
    pub(super) fn of(self, channel: &str) -> WorkloadError {
        WorkloadError { key: format!("workload.{channel}.{}", self.key), ..self }
    }
}

/// Refuses a host that is not there.
pub(super) fn check_host(key: &str, host: u32, hosts: u32) -> Result<(), WorkloadError> {
    if host < hosts {
        return Ok(());
    }
    Err(WorkloadError::new(key, host, format!("a host, below {hosts}")))
}
