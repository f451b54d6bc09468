//! Cables that fail, recover or slow down at given times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Fraction, Span, Time};

use super::error::FabricError;
use super::table::End;
use super::wiring::{Peer, Wiring};

/// Settings of cables that change during a run: both directions fail, come back or run at a
/// fraction of their rate. Other cables are not affected, and neither is anything before the first
/// change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureSettings {
    /// How long it takes until all switches know that a cable has failed, or is back. From then on
    /// routes avoid the cable, or use it again. A shorter failure is never noticed. Required if a
    /// cable fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection: Option<Span>,
    /// What the ports at both ends of a failed cable do.
    #[serde(default)]
    pub ports: FailedPorts,
    /// The cables that fail or slow down.
    #[serde(default)]
    pub cables: Vec<FailingCable>,
}

/// What the ports at both ends of a failed cable do. Packets on the cable when it fails are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailedPorts {
    /// They send as before, and all packets are lost.
    #[default]
    Send,
    /// They hold their packets until the cable is back.
    Hold,
}

/// How one cable changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailingCable {
    /// One end: `host 3`, a switch by its name, or port 2 of the switch `a` as `a.2`, counted from 0. Where there are
    /// several planes the name of a switch begins with that of its plane, as in `1/0.3`.
    pub from: String,
    /// The other end. Needed where `from` is a switch, and where it is a host with a port in each of several planes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// When the change begins.
    pub at: Span,
    /// When the cable is back to normal; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Span>,
    /// The fraction of its rate that is left; 0 if it fails.
    #[serde(default)]
    pub rate: Fraction,
}

/// The changes of the cables of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// In the order in which they begin.
    pub cables: Vec<CableFailure>,
    /// From a failure until routes avoid the cable, and as long from its return until they use it.
    pub detection: Span,
    /// Whether ports hold their packets.
    pub holds: bool,
}

/// A change of one cable, and its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CableFailure {
    /// The directed ports at its ends: a port of a switch by its index among all ports, that of a
    /// host by the number of its end after those.
    pub ends: [u32; 2],
    /// When it begins.
    pub at: Time,
    /// When it ends.
    pub until: Time,
    /// The fraction of the rate that is left.
    pub rate: Fraction,
}

const CABLES: &str = "failures.cables";

/// The least fraction of a rate that is distinguished from zero.
const LEAST: f64 = 1e-6;

impl FailureSettings {
    /// The changes of the cables of `wiring`; `None` if there are none.
    pub fn build(&self, wiring: &Wiring) -> Result<Option<Failures>, FabricError> {
        let mut cables = Vec::with_capacity(self.cables.len());
        for own in &self.cables {
            cables.push(own.build(wiring)?);
        }
        cables.sort_by_key(|own| own.at);
        for (place, own) in cables.iter().enumerate() {
            let is_same = |other: &&CableFailure| other.ends.contains(&own.ends[0]);
            if let Some(before) = cables[..place].iter().rfind(is_same)
                && before.until > own.at
            {
                let (span, cable) = (own.at.since(Time::ZERO), name(wiring, own.ends));
                let value = format!("another entry for {cable} at {span}");
                let accepted = "entries for one cable of which one ends before the next begins";
                return Err(FabricError::new(CABLES, value, accepted));
            }
        }
        let fails = cables.iter().any(|own| own.rate.get() == 0.0);
        if fails && self.detection.is_none() {
            let accepted = "how long it takes until routes avoid a cable that has failed, such as \
                            \"50 us\"";
            return Err(FabricError::new("failures.detection", "(none)", accepted));
        }
        let (detection, holds) =
            (self.detection.unwrap_or_default(), self.ports == FailedPorts::Hold);
        Ok((!cables.is_empty()).then_some(Failures { cables, detection, holds }))
    }
}

impl Failures {
    /// Whether any cable fails, and is not only slower.
    pub fn has_failed(&self) -> bool {
        self.cables.iter().any(CableFailure::is_failed)
    }

    /// The instants at which what routes know changes, each with the ports at the ends of the cables that
    /// are then known to have failed.
    pub fn known(&self) -> Vec<(Time, Vec<u32>)> {
        let noticed = self.cables.iter().filter_map(|own| {
            let from = own.at + self.detection;
            let is_noticed = own.is_failed() && from < own.until;
            is_noticed.then(|| (own.ends, from, own.until + self.detection))
        });
        let noticed: Vec<([u32; 2], Time, Time)> = noticed.collect();
        let mut times: Vec<Time> = noticed.iter().flat_map(|own| [own.1, own.2]).collect();
        times.retain(|time| *time < Time::NEVER);
        times.sort_unstable();
        times.dedup();
        let at = |time: Time| {
            let is_known = |own: &&([u32; 2], Time, Time)| own.1 <= time && time < own.2;
            (time, noticed.iter().filter(is_known).flat_map(|own| own.0).collect())
        };
        times.into_iter().map(at).collect()
    }
}

impl CableFailure {
    /// Whether the cable fails.
    pub fn is_failed(&self) -> bool {
        self.rate.get() == 0.0
    }
}

/// What an end of a cable may be.
enum Place {
    /// A port of a switch.
    Port(u32),
    Switch(u32),
    /// A host, by its number.
    Host(u32),
}

impl FailingCable {
    fn build(&self, wiring: &Wiring) -> Result<CableFailure, FabricError> {
        let (at, until) = (Time::ZERO + self.at, self.until.map(|until| Time::ZERO + until));
        if let Some(until) = self.until.filter(|until| *until <= self.at) {
            let value = format!("{self}, until = {until}");
            return Err(FabricError::new(CABLES, value, format!("an end after at = {}", self.at)));
        }
        let left = self.rate.get();
        if left > 0.0 && left < LEAST {
            let accepted = format!("a rate of 0, where the cable fails, or {LEAST} to 1");
            return Err(FabricError::new(CABLES, format!("{self}, rate = {left}"), accepted));
        }
        let until = until.unwrap_or(Time::NEVER);
        Ok(CableFailure { ends: self.ends(wiring)?, at, until, rate: self.rate })
    }

    /// The ports at both ends.
    fn ends(&self, wiring: &Wiring) -> Result<[u32; 2], FabricError> {
        let wrong = |accepted: String| FabricError::new(CABLES, self, accepted);
        let refuse = |accepted: String| Err(wrong(accepted));
        let from = place(&self.from, wiring).map_err(wrong)?;
        let to = self.to.as_ref().map(|to| place(to, wiring).map_err(wrong)).transpose()?;
        let ports: Vec<u32> = match from {
            Place::Port(port) => vec![port],
            Place::Switch(switch) if to.is_none() => {
                let port = wiring.bare_name(switch);
                return refuse(format!("the other end as `to`, or a port such as {port}.0"));
            }
            Place::Switch(switch) => {
                (0..wiring.ports_of(switch)).map(|number| wiring.port(switch, number)).collect()
            }
            Place::Host(host) => {
                let end = |plane| wiring.ports() + plane * wiring.hosts() + host;
                (0..wiring.planes()).map(end).collect()
            }
        };
        let leads = |far: u32| match to {
            None => true,
            Some(Place::Port(port)) => far == port,
            Some(Place::Switch(switch)) => far < wiring.ports() && wiring.switch_of(far) == switch,
            Some(Place::Host(host)) => {
                far.checked_sub(wiring.ports()).is_some_and(|end| end % wiring.hosts() == host)
            }
        };
        let cable = |port: u32| Some([port, far_end(wiring, port)?]).filter(|ends| leads(ends[1]));
        let cables: Vec<[u32; 2]> = ports.into_iter().filter_map(cable).collect();
        match &cables[..] {
            [one] => Ok(*one),
            [] => refuse("two ends that a cable joins".to_owned()),
            [[first, far], ..] if *first >= wiring.ports() => {
                let (host, count) = (&self.from, cables.len());
                let switch = wiring.bare_name(wiring.switch_of(*far));
                refuse(format!(
                    "the switch as the other end, such as to = '{switch}': {host} has a port in each of {count} planes"
                ))
            }
            [first, ..] => {
                let switch = wiring.switch_of(first[0]);
                let (bare, number) = (wiring.bare_name(switch), first[0] - wiring.port(switch, 0));
                let count = cables.len();
                refuse(format!("a port, such as {bare}.{number}: {count} cables join both"))
            }
        }
    }
}

impl std::fmt::Display for FailingCable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.to {
            Some(to) => write!(f, "from = {}, to = {to}", self.from),
            None => write!(f, "from = {}", self.from),
        }
    }
}

/// The port or the switch that an end names, or what would be accepted.
fn place(text: &str, wiring: &Wiring) -> Result<Place, String> {
    if let Some(switch) = wiring.switch_named(text) {
        return Ok(Place::Switch(switch));
    }
    match text.parse() {
        Ok(End::Host(host)) if host < wiring.hosts() => Ok(Place::Host(host)),
        Ok(End::Host(_)) => Err(format!("a host below {}", wiring.hosts())),
        Ok(End::Port { switch, port }) => match wiring.switch_named(&switch) {
            Some(own) if port < wiring.ports_of(own) => Ok(Place::Port(wiring.port(own, port))),
            Some(own) => Err(format!("a port of {switch} below {}", wiring.ports_of(own))),
            None => Err(accepted(wiring)),
        },
        Err(_) => Err(accepted(wiring)),
    }
}

fn accepted(wiring: &Wiring) -> String {
    let (first, last) = (wiring.bare_name(0), wiring.bare_name(wiring.switches() - 1));
    format!("\"host 3\", a switch by its name, {first} to {last}, or a port as \"{first}.0\"")
}

/// The port at the other end of the cable in a port; `None` without a cable.
fn far_end(wiring: &Wiring, port: u32) -> Option<u32> {
    if let Some(end) = port.checked_sub(wiring.ports()) {
        return Some(wiring.host_port(end));
    }
    match wiring.peer(port) {
        Peer::Port(peer) => Some(peer),
        Peer::Host(host) => Some(wiring.ports() + host),
        Peer::Unused => None,
    }
}

/// A cable in words.
fn name(wiring: &Wiring, ends: [u32; 2]) -> String {
    let [one, other] = ends.map(|port| match port.checked_sub(wiring.ports()) {
        Some(end) => wiring.end_name(end),
        None => wiring.port_name(port),
    });
    format!("the cable between {one} and {other}")
}

#[cfg(test)]
mod tests {
    use weft_units::Rate;

    use super::super::FabricSettings;
    use super::*;

    fn built(text: &str) -> Result<Option<Failures>, FabricError> {
        let fabric = "leaf_spine = { hosts_per_leaf = 2, leaves = 2, spines = 2 }";
        let fabric: FabricSettings = toml::from_str(fabric).expect(fabric);
        let wiring = fabric.wiring(4_u32, Rate::from_ratio(1, 10)).expect("a fabric");
        let own: FailureSettings = toml::from_str(text).expect(text);
        own.build(&wiring)
    }

    /// Leaf 0.1 has ports 4 to 7, spine 1.0 ports 8 and 9, and hosts are numbered behind port 11.
    #[test]
    fn an_end_is_a_host_a_switch_or_a_port() {
        let cases = [
            ("from = 'host 3'", [15, 5]),
            ("from = '0.1', to = 'host 3'", [5, 15]),
            ("from = '0.1', to = '1.0'", [6, 9]),
            ("from = '0.1.2'", [6, 9]),
            ("from = '0.1.2', to = '1.0.1'", [6, 9]),
            ("from = '1.0.1', to = '0.1'", [9, 6]),
        ];
        for (ends, expected) in cases {
            let text = format!("detection = '0 ns'\ncables = [{{ {ends}, at = '1 us' }}]");
            let built = built(&text).expect(ends).expect(ends);
            assert_eq!(built.cables[0].ends, expected, "{ends}");
        }
    }

    #[test]
    fn what_is_over_before_it_is_noticed_is_not_known() {
        let text = "detection = '2 us'\ncables = [\
            { from = 'host 0', at = '1 us', until = '3 us' }, { from = 'host 1', at = '2 us', until = '5 us' }, \
            { from = 'host 2', at = '4 us' }, { from = 'host 3', at = '4 us', rate = 0.5 }]";
        let built = built(text).expect("failures").expect("failures");
        let known = built.known();
        let us = |us: u64| Time(us * 1_000_000);
        assert_eq!(
            known,
            [(us(4), vec![13, 1]), (us(6), vec![13, 1, 14, 4]), (us(7), vec![14, 4])]
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let cases = [
            ("from = 'host 4', at = '1 us'", "a host below 4"),
            ("from = '0.2', to = '1.0', at = '1 us'", "0.0 to 1.1"),
            ("from = '0.0', to = '0.1', at = '1 us'", "two ends that a cable joins"),
            ("from = '0.0', at = '1 us'", "the other end as `to`"),
            ("from = '0.0.9', at = '1 us'", "a port of 0.0 below 4"),
            ("from = 'host 0', at = '1 us', until = '1 us'", "an end after at = 1 us"),
            ("from = 'host 0', at = '1 us', rate = 1e-7", "0.000001 to 1"),
            (
                "from = 'host 0', at = '1 us' }, { from = '0.0.0', at = '2 us', until = '3 us'",
                "before the next begins",
            ),
        ];
        for (cable, expected) in cases {
            let text = format!("detection = '0 ns'\ncables = [{{ {cable} }}]");
            let said = built(&text).expect_err(cable).to_string();
            assert!(said.starts_with("failures.cables = ") && said.contains(expected), "{said}");
        }
        let said = built("cables = [{ from = 'host 0', at = '1 us' }]").expect_err("no detection");
        assert_eq!(said.key, "failures.detection");
        assert_eq!(
            built("cables = [{ from = 'host 0', at = '1 us', rate = 0.5 }]")
                .map(|own| own.is_some()),
            Ok(true)
        );
        assert_eq!(built("detection = '1 us'"), Ok(None));
    }
}
