//! Why a fabric cannot be built.

use std::fmt::Display;

/// An impossible wiring or route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: accepted is {accepted}")]
pub struct FabricError {
    /// The dotted key of the setting, relative to the channel; `hosts` is that of the system.
    pub key: String,
    /// Its value, with the names of hosts, switches and ports.
    pub value: String,
    /// What would be accepted.
    pub accepted: String,
}

impl FabricError {
    pub(super) fn new(key: &str, value: impl Display, accepted: impl Display) -> FabricError {
        let (value, accepted) = (value.to_string(), accepted.to_string());
        FabricError { key: key.to_owned(), value, accepted }
    }

    /// More hosts than the fabric has ports for.
    pub(super) fn hosts(hosts: u32, ports: usize, fabric: &str) -> FabricError {
        let accepted = format!("at most {ports}, the ports for hosts of {fabric}");
        FabricError::new("hosts", hosts, accepted)
    }
}
