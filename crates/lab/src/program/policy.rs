//! Which messages take which channel: by rules of a file (size and kind), or as the program says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::Bytes;

/// The kind of a message, for the choice of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A message from one rank to another.
    Message,
    /// A store into the memory of another rank.
    Store,
    /// A read of the memory of another rank, or the response to one.
    Read,
}

/// One rule of a policy. If all conditions that it names hold, it selects the channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Messages of at most this size; of any size if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<Bytes>,
    /// Messages of this kind; of any kind if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Messages of ranks that name this NIC in a trace; of any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<u16>,
    /// The channel that they take.
    pub channel: String,
}

/// The rules of a run, the first that holds counts, with channels by number.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    rules: Vec<Condition>,
}

/// The most bytes, the kind, the NIC, and the number of the channel.
type Condition = (Option<Bytes>, Option<Kind>, Option<u16>, usize);

impl Policy {
    /// Everything takes the first channel.
    pub fn first() -> Policy {
        Policy { rules: vec![(None, None, None, 0)] }
    }

    /// The rules with the channels of these names; `Err` is a name that is none of them.
    pub fn new(rules: &[Rule], names: &[String]) -> Result<Policy, String> {
        let number = |rule: &Rule| {
            let place = names.iter().position(|name| *name == rule.channel);
            let place = place.ok_or_else(|| rule.channel.clone())?;
            Ok((rule.up_to, rule.kind, rule.nic, place))
        };
        Ok(Policy { rules: rules.iter().map(number).collect::<Result<_, String>>()? })
    }

    /// The channel of a message that falls through `channel`: that of the next rule that applies to
    /// any NIC.
    pub(super) fn channel_behind(&self, channel: usize, size: Bytes, kind: Kind) -> Option<usize> {
        let holds = |rule: &&Condition| {
            rule.0.is_none_or(|most| size <= most)
                && rule.1.is_none_or(|wanted| wanted == kind)
                && rule.2.is_none()
                && rule.3 != channel
        };
        let behind = self.rules.iter().skip_while(|rule| rule.3 != channel);
        behind.skip(1).find(holds).map(|rule| rule.3)
    }

    /// The channel that a message takes.
    #[inline]
    pub(super) fn channel(&self, size: Bytes, kind: Kind, nic: u16) -> Option<usize> {
        let holds = |rule: &&Condition| {
            rule.0.is_none_or(|most| size <= most)
                && rule.1.is_none_or(|wanted| wanted == kind)
                && rule.2.is_none_or(|wanted| wanted == nic)
        };
        self.rules.iter().find(holds).map(|rule| rule.3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_holds_counts() {
        let rule = |up_to: Option<u64>, kind, channel: &str| Rule {
            up_to: up_to.map(Bytes),
            kind,
            nic: None,
            channel: channel.to_owned(),
        };
        let rules = [
            rule(Some(32), None, "quick"),
            rule(None, Some(Kind::Store), "quick"),
            rule(None, None, "bulk"),
        ];
        let names = ["bulk".to_owned(), "quick".to_owned()];
        let policy = Policy::new(&rules, &names).expect("known names");
        let of = |size, kind| policy.channel(Bytes(size), kind, 0);
        assert_eq!(of(32, Kind::Message), Some(1));
        assert_eq!(of(33, Kind::Message), Some(0));
        assert_eq!(of(33, Kind::Store), Some(1));
        let behind = |channel| policy.channel_behind(channel, Bytes(8), Kind::Message);
        assert_eq!((behind(1), behind(0)), (Some(0), None), "bulk is the last");
        assert_eq!(Policy::new(&rules, &names[..1]).expect_err("unknown"), "quick");
    }
}
