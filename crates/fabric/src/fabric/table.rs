//! Any wiring, cable by cable.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weft_units::PositiveCount;

use super::MOST_PORTS_OF_A_SWITCH;
use super::cable::CableSettings;
use super::error::FabricError;
use super::next_hops::{NextHops, ShortestPaths};
use super::pairs::SwitchPort;
use super::wiring::{Peer, Wiring};

/// Settings of a fabric that is listed. Packets take the shortest paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSettings {
    /// The switches.
    pub switches: Vec<TableSwitch>,
    /// The cables.
    pub cables: Vec<Cable>,
}

/// A switch of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSwitch {
    /// Its name, not `host`.
    pub name: String,
    /// How many ports it has, numbered from 0.
    pub ports: PositiveCount,
    /// The ports that have no cable on purpose.
    #[serde(default)]
    pub unused: Vec<u32>,
}

/// A cable of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cable {
    /// One end.
    pub from: End,
    /// The other end.
    pub to: End,
    /// How it differs from the `link` of the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<CableSettings>,
}

/// One end of a cable: `host 3`, or port 2 of the switch `a` as `a.2`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The adapter of a host.
    Host(u32),
    /// A port of a switch.
    Port {
        /// The name of the switch.
        switch: String,
        /// The number of the port.
        port: u32,
    },
}

const CABLES: &str = "fabric.table.cables";
const SWITCHES: &str = "fabric.table.switches";

/// What an end of a cable is: a host, or a port of a switch.
enum Place {
    Host(u32),
    Port(SwitchPort),
}

impl TableSettings {
    pub(super) fn wiring(&self, hosts: u32) -> Result<Wiring, FabricError> {
        self.check_switches()?;
        let switches = self.switches.iter().map(|own| (own.name.clone(), own.ports.get()));
        let empty = NextHops::Tree([].into());
        let mut wiring = Wiring::new(switches.collect(), hosts, empty);
        self.check_ends()?;
        let numbers = self.switches.iter().map(|own| own.name.as_str()).zip(0..).collect();
        for cable in &self.cables {
            self.plug(cable, hosts, &numbers, &mut wiring)?;
        }
        self.check_ports(hosts, &wiring)?;
        wiring.set_next_hops(NextHops::Table(ShortestPaths::of(&wiring, &[])));
        check_reach(&wiring)?;
        Ok(wiring)
    }

    fn check_switches(&self) -> Result<(), FabricError> {
        let mut names = HashSet::new();
        for switch in &self.switches {
            let TableSwitch { name, ports, unused } = switch;
            if ports.get() > MOST_PORTS_OF_A_SWITCH {
                let value = format!("{ports} ports of switch {name}");
                let accepted = format!("at most {MOST_PORTS_OF_A_SWITCH}");
                return Err(FabricError::new(SWITCHES, value, accepted));
            }
            if !names.insert(name) {
                let value = format!("two switches of the name {name}");
                return Err(FabricError::new(SWITCHES, value, "a name for each switch"));
            }
            if let Some(port) = unused.iter().find(|port| **port >= ports.get()) {
                let value = format!("unused port {port} of switch {name}");
                let accepted = format!("a port below {ports}");
                return Err(FabricError::new(SWITCHES, value, accepted));
            }
        }
        if self.switches.is_empty() {
            return Err(FabricError::new(SWITCHES, "[]", "at least one switch"));
        }
        Ok(())
    }

    /// No end has two cables.
    fn check_ends(&self) -> Result<(), FabricError> {
        let mut taken = HashMap::new();
        for cable in &self.cables {
            for (end, other) in [(&cable.from, &cable.to), (&cable.to, &cable.from)] {
                if let Some(first) = taken.insert(end, other) {
                    let value = format!("{end} with a cable to {first} and one to {other}");
                    return Err(FabricError::new(CABLES, value, "one cable in each port"));
                }
            }
        }
        Ok(())
    }

    fn plug(
        &self,
        cable: &Cable,
        hosts: u32,
        numbers: &HashMap<&str, u32>,
        wiring: &mut Wiring,
    ) -> Result<(), FabricError> {
        let place = |end| self.place(end, hosts, numbers);
        match (place(&cable.from)?, place(&cable.to)?) {
            (Place::Port(from), Place::Port(to)) => {
                wiring.connect(from, to);
                lay(cable, from, wiring);
            }
            (Place::Host(host), Place::Port(port)) | (Place::Port(port), Place::Host(host)) => {
                wiring.attach(host, port);
                lay(cable, port, wiring);
            }
            (Place::Host(_), Place::Host(_)) => {
                let value = format!("a cable from {} to {}", cable.from, cable.to);
                return Err(FabricError::new(CABLES, value, "a switch at one end at least"));
            }
        }
        Ok(())
    }

    /// What an end is.
    fn place(
        &self,
        end: &End,
        hosts: u32,
        numbers: &HashMap<&str, u32>,
    ) -> Result<Place, FabricError> {
        match end {
            End::Host(host) if *host < hosts => Ok(Place::Host(*host)),
            End::Host(_) => Err(FabricError::new(CABLES, end, format!("a host below {hosts}"))),
            End::Port { switch, port } => {
                let Some(index) = numbers.get(switch.as_str()).copied() else {
                    let names: Vec<&str> =
                        self.switches.iter().map(|own| own.name.as_str()).collect();
                    let accepted = format!("a port of {}", names.join(", "));
                    return Err(FabricError::new(CABLES, end, accepted));
                };
                let ports = self.switches[index as usize].ports.get();
                if *port >= ports {
                    let accepted = format!("a port below {ports}");
                    return Err(FabricError::new(CABLES, end, accepted));
                }
                Ok(Place::Port(SwitchPort { switch: index, port: *port }))
            }
        }
    }

    /// Every port has a cable or is unused on purpose, and every host has one.
    fn check_ports(&self, hosts: u32, wiring: &Wiring) -> Result<(), FabricError> {
        for (index, switch) in self.switches.iter().enumerate() {
            let all_unused: HashSet<u32> = switch.unused.iter().copied().collect();
            for number in 0..switch.ports.get() {
                let port = wiring.port(index as u32, number);
                let plugged = wiring.peer(port) != Peer::Unused;
                let unused = all_unused.contains(&number);
                if !plugged && !unused {
                    let value = format!("dangling {}", wiring.port_name(port));
                    let accepted = "a cable in it, or its number among the `unused` of its switch";
                    return Err(FabricError::new(SWITCHES, value, accepted));
                }
                if plugged && unused {
                    let value = format!("unused {} with a cable in it", wiring.port_name(port));
                    return Err(FabricError::new(SWITCHES, value, "a port without a cable"));
                }
            }
        }
        let ports = wiring.open_to_hosts();
        if hosts as usize > ports {
            return Err(FabricError::hosts(hosts, ports, "the table"));
        }
        match wiring.unattached() {
            Some(host) => {
                let value = format!("{} without a cable", wiring.host_name(host));
                Err(FabricError::new(CABLES, value, "a cable from every host to a switch"))
            }
            None => Ok(()),
        }
    }
}

/// Sets how the cable in a port differs from the `link` of its channel.
fn lay(cable: &Cable, port: SwitchPort, wiring: &mut Wiring) {
    if let Some(own) = &cable.link {
        wiring.lay(wiring.port_at(port), own);
    }
}

/// Every host can be reached from the first one; cables go both ways.
fn check_reach(wiring: &Wiring) -> Result<(), FabricError> {
    let at = |host: u32| wiring.switch_of(wiring.host_port(host));
    let unreached =
        (1..wiring.hosts()).find(|host| wiring.next_hops().choice(at(0), *host).count == 0);
    match unreached {
        Some(host) => {
            let place =
                |host| format!("{} at {}", wiring.host_name(host), wiring.switch_name(at(host)));
            let value = format!("{}, out of reach of {}", place(host), place(0));
            Err(FabricError::new(CABLES, value, "cables by which every host reaches every other"))
        }
        None => Ok(()),
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Host(host) => write!(f, "host {host}"),
            End::Port { switch, port } => write!(f, "{switch}.{port}"),
        }
    }
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<End, String> {
        let host = text.strip_prefix("host ").and_then(|number| number.trim().parse().ok());
        let port = text.rsplit_once('.').and_then(|(switch, number)| {
            let port = number.parse().ok()?;
            (!switch.is_empty()).then(|| End::Port { switch: switch.to_owned(), port })
        });
        host.map(End::Host).or(port).ok_or_else(|| {
            format!(
                "`{text}` is not the end of a cable; accepted: \"host 3\", or \"a.2\" for port 2 \
                 of switch a"
            )
        })
    }
}

impl Serialize for End {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for End {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<End, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for End {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "End".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "pattern": "^(host [0-9]+|.+\\.[0-9]+)$", "x-unit": "",
            "examples": ["host 3", "a.2"],
        })
    }
}
