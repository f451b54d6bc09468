//! What hosts and adapters do about a failed transfer (Clint 3.1, 3.3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::Limit;

/// What to do about a failed transfer (Clint 3.1, 3.3: `trErr`). The paper says that the error is
/// reported to the host, but not what the host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecoverySettings {
    /// How often the adapter transmits a packet before it reports the error to the host. With 1 it
    /// reports every error.
    pub attempts: Limit,
    /// What the host does with a packet whose error is reported.
    pub on_error: OnError,
}

/// What the host does with a packet whose transmission error is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It submits the packet again, before later packets of the same pair.
    #[default]
    SendAgain,
    /// It gives it up.
    GiveUp,
}

/// What happens to a packet whose transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The adapter retransmits it.
    Retry,
    /// The error is reported to the host, which submits the packet again.
    Resubmit,
    /// The error is reported to the host, which gives the packet up.
    GiveUp,
}

impl RecoverySettings {
    /// What happens to a packet that the adapter has transmitted this often since it was last
    /// submitted, each time without success.
    pub fn after(&self, attempts: u32) -> Recovery {
        match self.on_error {
            _ if self.attempts.admits(attempts as usize) => Recovery::Retry,
            OnError::SendAgain => Recovery::Resubmit,
            OnError::GiveUp => Recovery::GiveUp,
        }
    }
}

impl Default for RecoverySettings {
    fn default() -> RecoverySettings {
        RecoverySettings { attempts: Limit::Unlimited, on_error: OnError::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_reported_when_all_attempts_are_spent() {
        let attempts = Limit::at_most(2).expect("positive");
        let after = |on_error| {
            let settings = RecoverySettings { attempts, on_error };
            [1, 2, 3].map(|attempts| settings.after(attempts))
        };
        use Recovery::{GiveUp, Resubmit, Retry};
        assert_eq!(after(OnError::SendAgain), [Retry, Resubmit, Resubmit]);
        assert_eq!(after(OnError::GiveUp), [Retry, GiveUp, GiveUp]);
        assert_eq!(RecoverySettings::default().after(u32::MAX), Retry);
    }
}
