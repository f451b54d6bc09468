//! Which routes packets may take, as a file says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a packet chooses among the routes through a fabric. In a tree, routes differ on the way up;
/// packets never go down and up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoutesSettings {
    /// All packets from one host to another take the same route, and so arrive in order.
    PerConnection(ConnectionRoutes),
    /// Each packet takes its own route.
    PerPacket(PacketRoutes),
}

/// How the route of a connection is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionRoutes {
    /// At random, by the seed of the run.
    Random,
    /// By the numbers of the two hosts, whatever the seed.
    Hashed,
    /// As listed; connections that are not listed are hashed.
    Given(Vec<GivenRoute>),
}

/// How the route of a packet is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PacketRoutes {
    /// Each port that leads to the target is equally likely.
    Random,
    /// The least occupied port: in switches with output queues the one that becomes free first, in
    /// others the one with the fewest waiting packets. Ties are broken at random.
    Adaptive,
    /// Through a random intermediate group of a dragonfly, or a random intermediate switch of a torus,
    /// a mesh or a `HyperX`, so that no traffic pattern is worse than another (Valiant and Brebner,
    /// STOC 1981).
    Valiant,
    /// That route or the minimal one, whichever has the smaller product of queue length at the first
    /// switch and route length (UGAL-L; Kim, Dally, Scott and Abts, ISCA 2008).
    Ugal,
    /// UGAL in a dragonfly, by the queues of the cables that leave the group, also those at other
    /// routers, as if each router knew them without delay (UGAL-G; the same paper).
    UgalGlobal,
}

impl PacketRoutes {
    /// Its name in a file.
    pub fn name(self) -> &'static str {
        match self {
            PacketRoutes::Random => "random",
            PacketRoutes::Adaptive => "adaptive",
            PacketRoutes::Valiant => "valiant",
            PacketRoutes::Ugal => "ugal",
            PacketRoutes::UgalGlobal => "ugal_global",
        }
    }
}

/// The route of one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GivenRoute {
    /// The initiator.
    pub from: u32,
    /// The target.
    pub to: u32,
    /// The names of the switches, from that of the initiator to that of the target, all of one plane.
    pub switches: Vec<String>,
}

impl Default for RoutesSettings {
    fn default() -> RoutesSettings {
        RoutesSettings::PerPacket(PacketRoutes::Random)
    }
}
