//! The shape of a composition: what a picture of it needs.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use weft_fabric::fabric::{Peer, Wiring};
use weft_units::Bytes;

use crate::composition::{ChannelSettings, Spec, SwitchSettings};

/// The most hosts and switches of a fabric that a picture shows individually.
const MOST_HOSTS: u32 = 4096;
const MOST_SWITCHES: u32 = 320;

/// The shape of a composition.
#[derive(Clone, Debug, Serialize)]
pub struct Shape {
    /// How many hosts there are.
    pub hosts: u32,
    /// The channels.
    pub channels: Vec<ChannelShape>,
}

/// The shape of a channel.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelShape {
    /// Its name.
    pub name: String,
    /// Size of a request packet.
    pub packet: Bytes,
    /// Its switches and the cables between them, if there are several and a picture has room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricShape>,
    /// How many planes there are, if there are several; everything else describes one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planes: Option<u32>,
    /// Ports of its switch.
    pub ports: u32,
    /// Its links.
    pub link: Value,
    /// Its switch: the kind, and its settings.
    pub switch: Value,
    /// The scheduler of the switch, if there is one.
    pub scheduler: Option<String>,
    /// Its adapters.
    pub adapter: Value,
    /// How initiators learn what became of packets.
    pub control: Option<Value>,
}

/// Switches and cables of a fabric.
#[derive(Clone, Debug, Serialize)]
pub struct FabricShape {
    /// The kind of fabric.
    pub kind: String,
    /// The switches, in the order of their numbers.
    pub switches: Vec<FabricSwitch>,
    /// Cables between switches: two numbers of switches, the kind of link between them, and how many
    /// of them there are.
    pub cables: Vec<[u32; 4]>,
    /// The kinds of links, first that of the channel.
    pub links: Vec<Value>,
}

/// A switch of a fabric.
#[derive(Clone, Debug, Serialize)]
pub struct FabricSwitch {
    /// Its name.
    pub name: String,
    /// How many cables it is away from the nearest host.
    pub tier: u32,
    /// How many hosts are plugged into it.
    pub hosts: u32,
}

pub(crate) fn shape(spec: &Spec) -> Shape {
    let channels = spec.channel.iter().map(|(name, channel)| ChannelShape {
        name: name.clone(),
        fabric: fabric(channel, spec.system.hosts),
        packet: channel.packet,
        planes: channel.has_planes().then(|| channel.planes.get()),
        ports: spec.system.hosts,
        link: json(&channel.link),
        switch: kind_and_settings(json(&channel.switch)),
        scheduler: scheduler(channel),
        adapter: json(&channel.adapter),
        control: channel.control.as_ref().map(|control| kind_and_settings(json(control))),
    });
    Shape { hosts: spec.system.hosts, channels: channels.collect() }
}

fn scheduler(channel: &ChannelSettings) -> Option<String> {
    let scheduler = match &channel.switch {
        SwitchSettings::Scheduled(switch) => &switch.scheduler,
        SwitchSettings::InputQueued(switch) => &switch.scheduler,
        SwitchSettings::Crossbar(_)
        | SwitchSettings::OutputBuffered(_)
        | SwitchSettings::FifoBus(_)
        | SwitchSettings::OutputQueued(_)
        | SwitchSettings::Ring(_)
        | SwitchSettings::SharedBuffer(_)
        | SwitchSettings::SharedMemory(_) => return None,
        SwitchSettings::Hub(hub) => return hub.scheduler().map(|own| own.name().to_owned()),
    };
    Some(scheduler.name().to_owned())
}

/// Settings as JSON. Every settings type consists of texts, numbers and tables of them, for which
/// this does not fail; should one ever, the picture lacks it and nothing else does.
fn json(settings: &impl Serialize) -> Value {
    serde_json::to_value(settings).unwrap_or_default()
}

/// An externally tagged choice with its tag beside its settings.
fn kind_and_settings(choice: Value) -> Value {
    match choice {
        Value::Object(tagged) if tagged.len() == 1 => {
            let mut settings = serde_json::Map::new();
            for (kind, value) in tagged {
                settings.insert("kind".into(), kind.into());
                if let Value::Object(values) = value {
                    settings.extend(values);
                }
            }
            settings.into()
        }
        Value::String(kind) => serde_json::json!({ "kind": kind }),
        other => other,
    }
}

/// The switches and cables of a channel; nothing for a single switch, for a fabric with more of them
/// than a picture shows, and for one that does not fit its hosts.
fn fabric(channel: &ChannelSettings, hosts: u32) -> Option<FabricShape> {
    if channel.fabric.is_star() || hosts > MOST_HOSTS {
        return None;
    }
    let wiring = channel.fabric.wiring(hosts, channel.link.rate).ok()?;
    let count = wiring.switches();
    if !(2..=MOST_SWITCHES).contains(&count) {
        return None;
    }
    let tiers = wiring.tiers();
    let switches = (0..count).zip(tiers).map(|(switch, tier)| FabricSwitch {
        name: wiring.bare_name(switch).to_owned(),
        tier,
        hosts: peers(&wiring, switch).filter(|(_, peer)| matches!(peer, Peer::Host(_))).count()
            as u32,
    });
    let Value::String(kind) = kind_and_settings(json(&channel.fabric))["kind"].take() else {
        return None;
    };
    Some(FabricShape {
        kind,
        switches: switches.collect(),
        cables: cables(&wiring),
        links: wiring.links(&channel.link).iter().map(json).collect(),
    })
}

fn peers(wiring: &Wiring, switch: u32) -> impl Iterator<Item = (u32, Peer)> {
    let ports = wiring.port(switch, 0)..wiring.port(switch, 0) + wiring.ports_of(switch);
    ports.map(|port| (port, wiring.peer(port)))
}

fn cables(wiring: &Wiring) -> Vec<[u32; 4]> {
    let mut found: BTreeMap<[u32; 3], u32> = BTreeMap::new();
    for switch in 0..wiring.switches() {
        for (port, peer) in peers(wiring, switch) {
            let Peer::Port(other) = peer else { continue };
            // Both ends of a cable are visited; the one with the lower number reports it.
            if port < other {
                let link = wiring.link_of(port) as u32;
                *found.entry([switch, wiring.switch_of(other), link]).or_default() += 1;
            }
        }
    }
    found.into_iter().map(|([from, to, link], count)| [from, to, link, count]).collect()
}
