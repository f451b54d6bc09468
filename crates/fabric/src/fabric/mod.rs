//! Fabrics: which switches there are, how they are cabled, and which routes packets can take.
//! Wiring is data; how a switch works inside is not decided here.
//!
//! Regular fabrics are given by numbers, anything else by a table. Routes follow from the wiring:
//! in a tree, the target's number says whether it is below a switch; a torus and a `HyperX` compare
//! positions, a dragonfly groups; a table is searched for shortest paths.

mod cable;
mod deadlock;
mod detour;
mod dragonfly;
mod error;
mod failures;
mod hyperx;
mod live;
mod next_hops;
mod oversubscription;
mod pairs;
mod path;
mod rails;
mod routes;
mod table;
mod torus;
mod tree;
mod wiring;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::Rate;

pub use cable::CableSettings;
pub use deadlock::{CycleBuffer, DeadlockSettings};
pub use dragonfly::DragonflySettings;
pub use error::FabricError;
pub use failures::{CableFailure, FailedPorts, FailingCable, FailureSettings, Failures};
pub use hyperx::{DimensionOrder, HyperXSettings};
pub use live::{LiveNextHops, LivePlanes};
pub use oversubscription::Oversubscription;
pub use pairs::{HostPair, SwitchPort};
pub use path::PathHop;
pub use routes::{ConnectionRoutes, GivenRoute, PacketRoutes, RouteState, Routes, RoutesSettings};
pub use table::{Cable, End, TableSettings, TableSwitch};
pub use torus::{Extent, TorusSettings};
pub use tree::{FatTreeSettings, KAryTreeSettings, LeafSpineSettings, Tiers};

/// More ports of one switch than this are taken for a mistake in the file.
const MOST_PORTS_OF_A_SWITCH: u32 = 1 << 16;

/// More ports of all switches together than this are taken for a mistake in the file.
const MOST_PORTS: u64 = 1 << 22;

pub use wiring::{Peer, Wiring};

/// The switches of a channel and the cables between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FabricSettings {
    /// One switch with a port for each host.
    #[default]
    Star,
    /// A tree in which every switch has as many ports down as up (k-ary n-tree; Petrini and
    /// Vanneschi, IPPS 1997).
    KAryTree(KAryTreeSettings),
    /// A tree of switches with the same number of ports; in the highest tier all ports lead down
    /// (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008).
    FatTree(FatTreeSettings),
    /// Leaves with hosts, each with a cable to every spine.
    LeafSpine(LeafSpineSettings),
    /// 40 eight-port switches in stages of 16, 16 and 8 for 64 hosts, with the numbers of the
    /// switches in the AC3 Velocity cluster (Vogels, Follett, Hsieh, Lifka and Stern,
    /// "Tree-Saturation Control in the AC3 Velocity Cluster Interconnect", Figures 1 and 9).
    FoldedTree,
    /// Switches in rows with wrap-around cables, in any number of dimensions (k-ary n-cube); with
    /// one dimension a ring of switches.
    Torus(TorusSettings),
    /// Like `torus`, without wrap-around cables.
    Mesh(TorusSettings),
    /// Groups of routers, every router with a cable to every other of its group and every group with
    /// cables to every other (Kim, Dally, Scott and Abts, ISCA 2008).
    Dragonfly(DragonflySettings),
    /// Switches at the positions of a lattice, each with cables to all others of its row in every
    /// dimension (Ahn, Binkert, Davis, McLaren and Schreiber, SC 2009).
    #[serde(rename = "hyperx")]
    HyperX(HyperXSettings),
    /// Switches and cables one by one.
    Table(TableSettings),
}

impl FabricSettings {
    /// Whether any cable has settings of its own.
    pub fn has_own_cables(&self) -> bool {
        match self {
            FabricSettings::KAryTree(settings) => !settings.links.is_empty(),
            FabricSettings::FatTree(settings) => !settings.links.is_empty(),
            FabricSettings::LeafSpine(settings) => {
                !settings.links.is_empty() || settings.in_server.is_some()
            }
            FabricSettings::Dragonfly(settings) => !settings.links.is_empty(),
            FabricSettings::HyperX(settings) => !settings.links.is_empty(),
            FabricSettings::Table(settings) => {
                settings.cables.iter().any(|cable| cable.link.is_some())
            }
            FabricSettings::Star
            | FabricSettings::FoldedTree
            | FabricSettings::Torus(_)
            | FabricSettings::Mesh(_) => false,
        }
    }

    /// Whether it is one switch with a port for each host.
    pub fn is_star(&self) -> bool {
        *self == FabricSettings::Star
    }

    /// Whether there is one switch, to which all hosts are connected.
    pub fn has_one_switch(&self) -> bool {
        match self {
            FabricSettings::Star => true,
            FabricSettings::Table(settings) => settings.switches.len() == 1,
            _ => false,
        }
    }

    /// How many ports for hosts there are, if that follows from numbers: a table names those
    /// without a host. `rate` is that of the channel's link.
    pub fn room(&self, rate: Rate) -> Option<u64> {
        match self {
            FabricSettings::Star | FabricSettings::Table(_) => None,
            FabricSettings::KAryTree(settings) => Some(settings.room()),
            FabricSettings::FatTree(settings) => settings.room(rate),
            FabricSettings::LeafSpine(settings) => Some(settings.room()),
            FabricSettings::Dragonfly(settings) => Some(settings.room()),
            FabricSettings::HyperX(settings) => Some(settings.room()),
            FabricSettings::FoldedTree => Some(64),
            FabricSettings::Torus(settings) | FabricSettings::Mesh(settings) => {
                Some(settings.room())
            }
        }
    }

    /// The wiring for this many hosts. `rate` is that of the channel's link, which cables use unless
    /// they have their own.
    pub fn wiring(&self, hosts: impl Into<u32>, rate: Rate) -> Result<Wiring, FabricError> {
        let hosts = hosts.into();
        match self {
            FabricSettings::Star => tree::star(hosts),
            FabricSettings::KAryTree(settings) => settings.wiring(hosts),
            FabricSettings::FatTree(settings) => settings.wiring(hosts, rate),
            FabricSettings::LeafSpine(settings) => settings.wiring(hosts, rate),
            FabricSettings::Dragonfly(settings) => settings.wiring(hosts),
            FabricSettings::HyperX(settings) => settings.wiring(hosts),
            FabricSettings::FoldedTree => tree::folded(hosts),
            FabricSettings::Torus(settings) => settings.wiring(hosts, true),
            FabricSettings::Mesh(settings) => settings.wiring(hosts, false),
            FabricSettings::Table(settings) => settings.wiring(hosts),
        }
    }

    /// Like [`wiring`](Self::wiring), for several planes: copies of the fabric, in each of which
    /// every host has a port.
    pub fn planes(&self, planes: u32, hosts: u32, rate: Rate) -> Result<Wiring, FabricError> {
        let one = self.wiring(hosts, rate)?;
        let ports = u64::from(one.ports()) * u64::from(planes);
        if ports > MOST_PORTS {
            let accepted = format!("so few that all switches have at most {MOST_PORTS} ports");
            return Err(FabricError::new("planes", planes, accepted));
        }
        Ok(one.planes_of(planes))
    }
}
