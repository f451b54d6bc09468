//! The settings of the hosts of a channel.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::byte_ring::Capacity;
use weft_protocol::misfit::Misfit;
use weft_units::{Bytes, PositiveCount, Span};

use super::{
    FlagSettings, Host, ProgramSettings, ResourceSettings, SocketsSettings, StageSettings, Unit,
    WindowSettings,
};

/// The path of a message between a program and its adapter. All hosts are alike; each has its own
/// resources, and each channel has its own hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostSettings {
    /// Resources that one stage at a time can hold, by name.
    pub resource: BTreeMap<String, ResourceSettings>,
    /// The stages, by name. The names also appear in the latency budget.
    pub stage: BTreeMap<String, StageSettings>,
    /// The stages of the initiator, in the order of the path.
    pub send: Vec<String>,
    /// The stages of the target, in the order of the path.
    pub receive: Vec<String>,
    /// How the program waits for messages.
    pub program: ProgramSettings,
    /// The word on which receivers and transmitters sleep.
    #[serde(skip_serializing_if = "FlagSettings::is_default")]
    pub flag: FlagSettings,
    /// The flow control between programs; none if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowSettings>,
    /// How much may be in flight from an initiator before its last send stage stalls; unlimited if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub posted: Option<PostedSettings>,
    /// The stage of the send path that checks whether a chunk has arrived (SCILAN 3.2). If the
    /// channel gave up a packet of the chunk, this stage detects it, and the chunk is stored again
    /// before the message ends. Without it, what a channel gives up is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resend: Option<String>,
    /// How connections between programs are set up; they exist from the beginning if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sockets: Option<SocketsSettings>,
}

/// Transactions of an adapter in flight (SCILAN 4.2: each is acknowledged in hardware).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostedSettings {
    /// How many packets.
    pub packets: PositiveCount,
    /// The stage of the receive path whose end counts as the arrival of a packet. If absent, it is
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// Why a host cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}: accepted is {accepted}")]
pub struct HostError {
    /// The key, from `host` on.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What would be accepted.
    pub accepted: String,
}

impl HostSettings {
    /// Whether every message that it sends keeps a program busy for some time, even if only with
    /// the channel.
    pub fn takes_time_to_send(&self) -> bool {
        let takes_time = |name: &String| {
            self.stage.get(name).is_some_and(|stage| stage.fixed > Span::ZERO && stage.from.0 == 0)
        };
        self.send.is_empty() || self.send.iter().any(takes_time)
    }

    /// A host on a channel whose packets carry `payload`.
    ///
    /// # Errors
    ///
    /// If a stage or a resource is named but not defined, or defined but never named; if a unit is
    /// empty, or a stage applies to no size; if a stage of the send path needs the program.
    pub fn build(&self, payload: Bytes) -> Result<Host, HostError> {
        self.check_ways()?;
        self.check_uses()?;
        for (name, stage) in &self.stage {
            self.check_stage(name, stage)?;
        }
        self.check_posted()?;
        self.check_program()?;
        self.check_window()?;
        self.check_sockets()?;
        self.check_resend()?;
        Ok(Host::new(self, payload))
    }

    fn check_posted(&self) -> Result<(), HostError> {
        let Some(until) = self.posted.as_ref().and_then(|posted| posted.until.as_ref()) else {
            return Ok(());
        };
        let of_packets =
            |name: &&String| self.stage.get(*name).is_some_and(|stage| stage.unit == Unit::Packet);
        if self.receive.iter().filter(of_packets).any(|name| name == until) {
            return Ok(());
        }
        let all: Vec<&str> = self.receive.iter().filter(of_packets).map(String::as_str).collect();
        let accepted = format!("a stage of the receive path in packets: {}", all.join(", "));
        Err(refuse("posted.until".into(), until, accepted))
    }

    /// What is stored again if a check finds that it has not arrived; none without checks.
    pub fn checked_unit(&self) -> Option<Bytes> {
        match self.stage.get(self.resend.as_ref()?)?.unit {
            Unit::Chunk(bytes) => Some(bytes),
            Unit::Message | Unit::Packet => None,
        }
    }

    fn check_resend(&self) -> Result<(), HostError> {
        let Some(check) = &self.resend else { return Ok(()) };
        let until = self.posted.as_ref().and_then(|posted| posted.until.as_ref());
        if self.window.is_none() || until.is_none() {
            let accepted =
                "only with `window` and `posted.until`: from where to where it is stored";
            return Err(refuse("resend".into(), check, accepted.into()));
        }
        let checks = |name: &&String| {
            let stage = self.stage.get(*name);
            stage.is_some_and(|own| own.in_passing && matches!(own.unit, Unit::Chunk(_)))
        };
        let mut all = self.send.iter().filter(checks);
        if all.clone().any(|name| name == check) {
            return Ok(());
        }
        let known = all.next().map_or("none is there", String::as_str);
        let accepted = format!("a stage of the send path in passing, in chunks: {known}");
        Err(refuse("resend".into(), check, accepted))
    }

    fn check_sockets(&self) -> Result<(), HostError> {
        match self.sockets.as_ref().and_then(SocketsSettings::misfit) {
            Some(Misfit { key, value, accepted }) => {
                Err(refuse(format!("sockets.{key}"), &value, accepted))
            }
            None => Ok(()),
        }
    }

    fn check_window(&self) -> Result<(), HostError> {
        let Some(WindowSettings { buffer, fill, release, .. }) = &self.window else {
            return Ok(());
        };
        if Capacity::new(buffer.0).is_err() {
            let accepted = format!("a power of two of at most {}", Bytes(Capacity::MAX));
            return Err(refuse("window.buffer".into(), &buffer.to_string(), accepted));
        }
        let one_at_a_time = |name: &&String| {
            self.stage.get(*name).is_some_and(|stage| !stage.uses.is_empty() && !stage.in_passing)
        };
        if !self.send.iter().filter(one_at_a_time).any(|name| name == fill) {
            let accepted = "a stage of the send path that uses a resource, not in passing";
            return Err(refuse("window.fill".into(), fill, accepted.into()));
        }
        if !self.receive.contains(release) {
            let accepted = format!("one of the receive path: {}", self.receive.join(", "));
            return Err(refuse("window.release".into(), release, accepted));
        }
        self.check_shared()?;
        let waits_for = |name: &String| match self.stage.get(name).map(|stage| stage.unit) {
            Some(Unit::Message) => u64::MAX,
            Some(Unit::Chunk(bytes)) => bytes.0,
            Some(Unit::Packet) | None => 0,
        };
        let before = self.receive.iter().take_while(|name| *name != release);
        let before = before.chain(std::iter::once(release));
        let fills = std::iter::once(fill);
        match before.chain(fills).find(|name| waits_for(name) > buffer.0) {
            Some(name) => {
                let accepted = format!("a chunk of at most the receiver buffer, {buffer}");
                Err(refuse(format!("stage.{name}.unit"), "more than fits", accepted))
            }
            None => Ok(()),
        }
    }

    fn check_shared(&self) -> Result<(), HostError> {
        let Some(shared) = self.window.as_ref().and_then(|window| window.shared.as_ref()) else {
            return Ok(());
        };
        if shared.lock == Span::ZERO {
            let accepted = "more than 0 ns, since it is tried again and again".into();
            return Err(refuse("window.shared.lock".into(), "0 ns", accepted));
        }
        if self.posted.as_ref().is_none_or(|posted| posted.until.is_none()) {
            let accepted =
                "only with `posted.until`: with which stage a store is in the memory of the target";
            return Err(refuse("window.shared".into(), "given", accepted.into()));
        }
        if self.sockets.is_some() {
            let accepted = "without `sockets`: what all share is sent to without a connection";
            return Err(refuse("window.shared".into(), "given", accepted.into()));
        }
        Ok(())
    }

    fn check_program(&self) -> Result<(), HostError> {
        let known = names(&self.resource);
        match &self.program.processor {
            Some(name) if !self.resource.contains_key(name) => {
                Err(refuse("program.processor".into(), name, format!("a resource: {known}")))
            }
            None if self.stage.values().any(StageSettings::looks_at_program) => {
                let accepted = format!("a resource, since a stage asks for the program: {known}");
                Err(refuse("program.processor".into(), "not given", accepted))
            }
            _ => Ok(()),
        }
    }

    fn check_ways(&self) -> Result<(), HostError> {
        let known = names(&self.stage);
        for (key, way) in [("send", &self.send), ("receive", &self.receive)] {
            for (place, name) in way.iter().enumerate() {
                if !self.stage.contains_key(name) {
                    return Err(refuse(key.into(), name, format!("a stage: {known}")));
                }
                if way[..place].contains(name) {
                    return Err(refuse(key.into(), name, "each stage once".into()));
                }
            }
        }
        let unused = |name: &&String| !self.send.contains(name) && !self.receive.contains(name);
        match self.stage.keys().find(unused) {
            Some(name) => {
                let accepted = "a stage that is named in `send` or `receive`".into();
                Err(refuse(format!("stage.{name}"), "in neither path", accepted))
            }
            None => Ok(()),
        }
    }

    fn check_uses(&self) -> Result<(), HostError> {
        let known = names(&self.resource);
        for (stage, settings) in &self.stage {
            let unknown = |name: &&String| !self.resource.contains_key(*name);
            if let Some(name) = settings.uses.keys().find(unknown) {
                let key = format!("stage.{stage}.uses");
                return Err(refuse(key, name, format!("a resource: {known}")));
            }
        }
        let used = |name: &String| self.stage.values().any(|stage| stage.uses.contains_key(name));
        match self.resource.keys().find(|name| !used(name)) {
            Some(name) => {
                let accepted = "a resource that a stage uses".into();
                Err(refuse(format!("resource.{name}"), "not used", accepted))
            }
            None => Ok(()),
        }
    }

    fn check_stage(&self, name: &str, stage: &StageSettings) -> Result<(), HostError> {
        let key = |leaf: &str| format!("stage.{name}.{leaf}");
        if stage.unit == Unit::Chunk(Bytes(0)) {
            return Err(refuse(key("unit.chunk"), "0 B", "1 B or more".into()));
        }
        if let Some(below) = stage.below.filter(|below| *below <= stage.from) {
            let accepted = format!("more than `from`, {}", stage.from);
            return Err(refuse(key("below"), &below.to_string(), accepted));
        }
        if stage.looks_at_program() && self.send.iter().any(|other| other == name) {
            let accepted = "always on the send path".into();
            return Err(refuse(key("when"), "about the target's program", accepted));
        }
        if stage.looks_at_program() && stage.unit == Unit::Packet {
            let accepted = "message, or a chunk that a program asks for".into();
            return Err(refuse(key("unit"), "packet", accepted));
        }
        if stage.looks_at_program() && stage.in_passing {
            return Err(refuse(key("in_passing"), "true", "false before the program".into()));
        }
        Ok(())
    }
}

fn names<T>(of: &BTreeMap<String, T>) -> String {
    let names: Vec<&str> = of.keys().map(String::as_str).collect();
    if names.is_empty() { "none is there".to_owned() } else { names.join(", ") }
}

fn refuse(key: String, value: &str, accepted: String) -> HostError {
    HostError { key: format!("host.{key}"), value: value.to_owned(), accepted }
}
