//! Trees: wirings that follow from a few numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{PositiveCount, Rate};

use super::cable::CableSettings;
use super::error::FabricError;
use super::next_hops::{Below, Choice, NextHops};
use super::oversubscription::{Oversubscription, Uplinks};
use super::pairs::SwitchPort;
use super::wiring::Wiring;
use super::{MOST_PORTS, MOST_PORTS_OF_A_SWITCH};

/// Settings of a k-ary n-tree: `levels` stages of `arity^(levels-1)` switches, `arity^levels` ports
/// for hosts. In stage `l`, switch `P * arity^l + c` is copy `c` over the subtree `P`; its port up
/// `p` leads to copy `c * arity + p` in the stage above. A switch is named by its stage, counted
/// from that of the hosts, and its number there: `0.15`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KAryTreeSettings {
    /// Ports down and ports up of every switch, 2 or more; the highest stage has none up.
    pub arity: PositiveCount,
    /// How many stages there are.
    pub levels: PositiveCount,
    /// How the cables of each tier differ from the `link` of the channel: first those of the hosts,
    /// then those between the first stage and the second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<CableSettings>,
}

/// Settings of a fat tree of switches with equally many ports. With `k` ports there are `k * k / 2`
/// ports for hosts in two tiers and `k * k * k / 4` in three. Switches are named as in a k-ary
/// tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FatTreeSettings {
    /// Ports of every switch, an even number.
    pub radix: PositiveCount,
    /// How many stages there are.
    pub tiers: Tiers,
    /// The rate of all host cables of a leaf to the rate of all its cables up, such as "3:1"; 1:1
    /// by default. A leaf then has more ports for hosts and fewer up; in the stages above, half of
    /// the ports still lead up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oversubscription: Option<Oversubscription>,
    /// How the cables of each tier differ from the `link` of the channel: first those of the hosts,
    /// then those between the first stage and the second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<CableSettings>,
}

/// Settings of leaves and spines; either the oversubscription or the number of spines is given.
/// Switches are named as in a k-ary tree: `0.3` is the fourth leaf and `1.0` the first spine. The
/// first ports of a leaf are those of its hosts, followed by one for each spine; a spine has one
/// for each leaf. With switches in servers, those are the first stage, leaves the second, and
/// spines the third.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeafSpineSettings {
    /// Hosts at every leaf.
    pub hosts_per_leaf: PositiveCount,
    /// How many leaves there are.
    pub leaves: PositiveCount,
    /// The number of spines; computed from `oversubscription` unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spines: Option<PositiveCount>,
    /// The rate of all host cables of a leaf to the rate of all its cables to spines, such as
    /// "3:1".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oversubscription: Option<Oversubscription>,
    /// How many hosts, such as GPUs, a server has; they are numbered consecutively. The first host
    /// of each server is then at the first leaf of a group of as many leaves, the second at the
    /// second leaf: hosts of the same rail share a leaf, and packets from one rail to another pass
    /// a spine. Without it, consecutive hosts share a leaf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rails: Option<PositiveCount>,
    /// With `rails`: each server has a switch with a cable to each of its hosts and one to a leaf
    /// of each rail. Packets within a server pass only that switch, packets from one rail to
    /// another change rails there, and the leaves of each rail have their own `spines`, or none if
    /// each rail has one leaf. The value says how the cables in servers differ from the `link` of
    /// the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_server: Option<CableSettings>,
    /// How the cables of each tier differ from the `link` of the channel: first those of the hosts
    /// (or servers) of leaves, then those between leaves and spines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<CableSettings>,
}

/// The stages of a fat tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u32", into = "u32")]
pub enum Tiers {
    /// Leaves and spines.
    Two,
    /// Pods of leaves and middle switches, and a core.
    Three,
}

impl TryFrom<u32> for Tiers {
    type Error = String;

    fn try_from(tiers: u32) -> Result<Tiers, String> {
        match tiers {
            2 => Ok(Tiers::Two),
            3 => Ok(Tiers::Three),
            _ => Err(format!("tiers = {tiers}: accepted is 2 or 3")),
        }
    }
}

impl From<Tiers> for u32 {
    fn from(tiers: Tiers) -> u32 {
        match tiers {
            Tiers::Two => 2,
            Tiers::Three => 3,
        }
    }
}

impl KAryTreeSettings {
    /// How many ports for hosts there are.
    pub(super) fn room(&self) -> u64 {
        u64::from(self.arity.get()).saturating_pow(self.levels.get())
    }

    pub(super) fn wiring(&self, hosts: u32) -> Result<Wiring, FabricError> {
        let (arity, levels) = (self.arity.get(), self.levels.get());
        let most = MOST_PORTS_OF_A_SWITCH / 2;
        if !(2..=most).contains(&arity) {
            let accepted = format!("2 to {most}, half of the ports of a switch");
            return Err(FabricError::new("fabric.k_ary_tree.arity", arity, accepted));
        }
        let ports = u64::from(arity).checked_pow(levels).map(|hosts| hosts * u64::from(levels) * 2);
        if ports.is_none_or(|ports| ports > MOST_PORTS) {
            let accepted = format!("so few that all switches have at most {MOST_PORTS} ports");
            return Err(FabricError::new("fabric.k_ary_tree.levels", levels, accepted));
        }
        check_tiers(&self.links, levels, "fabric.k_ary_tree.links")?;
        let fabric = format!("a {arity}-ary {levels}-tree");
        let up = vec![arity; levels as usize - 1];
        grow(&vec![arity; levels as usize], &up, hosts, &fabric, &self.links)
    }
}

impl FatTreeSettings {
    /// How many ports for hosts there are, if a leaf can have the oversubscription.
    pub(super) fn room(&self, rate: Rate) -> Option<u64> {
        let radix = self.radix.get();
        let up = self.up(rate).ok()?;
        let leaves = u64::from(radix / 2).saturating_pow(u32::from(self.tiers) - 2);
        Some(u64::from(radix).saturating_mul(leaves).saturating_mul((radix - up).into()))
    }

    /// How many ports of a leaf lead up.
    fn up(&self, rate: Rate) -> Result<u32, FabricError> {
        let Some(asked) = self.oversubscription else { return Ok(self.radix.get() / 2) };
        let uplinks = Uplinks::new(asked, &self.links, rate);
        uplinks.of_radix(self.radix.get(), "fabric.fat_tree.oversubscription")
    }

    pub(super) fn wiring(&self, hosts: u32, rate: Rate) -> Result<Wiring, FabricError> {
        let (radix, tiers) = (self.radix.get(), u32::from(self.tiers));
        let room = 2 * u64::from(radix / 2).saturating_pow(tiers);
        let ports = room.saturating_mul(2 * u64::from(tiers));
        if !radix.is_multiple_of(2) || radix > MOST_PORTS_OF_A_SWITCH || ports > MOST_PORTS {
            let accepted =
                format!("an even number with which all switches have at most {MOST_PORTS} ports");
            return Err(FabricError::new("fabric.fat_tree.radix", radix, accepted));
        }
        check_tiers(&self.links, tiers, "fabric.fat_tree.links")?;
        let (half, up) = (radix / 2, self.up(rate)?);
        let down = radix - up;
        let fabric = format!("a fat tree of {tiers} tiers of {radix}-port switches");
        match self.tiers {
            Tiers::Two => grow(&[down, radix], &[up], hosts, &fabric, &self.links),
            Tiers::Three => grow(&[down, half, radix], &[up, half], hosts, &fabric, &self.links),
        }
    }
}

impl LeafSpineSettings {
    /// How many ports for hosts there are.
    pub(super) fn room(&self) -> u64 {
        u64::from(self.hosts_per_leaf.get()) * u64::from(self.leaves.get())
    }

    /// How many spines there are.
    fn spines(&self, rate: Rate) -> Result<u32, FabricError> {
        let each = self.hosts_per_leaf.get();
        let key = "fabric.leaf_spine.oversubscription";
        let uplinks = self.oversubscription.map(|asked| Uplinks::new(asked, &self.links, rate));
        let has_nothing_to_join = self.in_server.is_some() && self.rails == Some(self.leaves);
        match (self.spines, uplinks) {
            (None, None) if has_nothing_to_join => Ok(0),
            (None, Some(_)) if has_nothing_to_join => {
                let asked = self.oversubscription.map(|own| own.to_string()).unwrap_or_default();
                let accepted = "none where each rail has one leaf, and servers join the rails";
                Err(FabricError::new(key, asked, accepted))
            }
            (Some(spines), _) if has_nothing_to_join => {
                let accepted = "none where each rail has one leaf, and servers join the rails";
                Err(FabricError::new("fabric.leaf_spine.spines", spines, accepted))
            }
            (Some(spines), None) => Ok(spines.get()),
            (None, Some(uplinks)) => uplinks.of_hosts(each, key),
            (Some(spines), Some(uplinks)) => uplinks.check(each, spines.get(), key),
            (None, None) => {
                let accepted = "a number of spines, or an oversubscription such as \"3:1\"";
                Err(FabricError::new("fabric.leaf_spine.spines", "(none)", accepted))
            }
        }
    }

    pub(super) fn wiring(&self, hosts: u32, rate: Rate) -> Result<Wiring, FabricError> {
        let (each, leaves) = (self.hosts_per_leaf.get(), self.leaves.get());
        let spines = self.spines(rate)?;
        let most = MOST_PORTS_OF_A_SWITCH;
        if u64::from(each) + u64::from(spines) > most.into() {
            let accepted =
                format!("a number with which a leaf has at most {most} ports, spines included");
            return Err(FabricError::new("fabric.leaf_spine.hosts_per_leaf", each, accepted));
        }
        // Ports of hosts at leaves, both ends of cables to spines, and switches in servers.
        let in_servers = if self.in_server.is_some() { 2 * u64::from(each) } else { 0 };
        let ports = u64::from(leaves) * (u64::from(each) + 2 * u64::from(spines) + in_servers);
        if leaves > most || ports > MOST_PORTS {
            let accepted =
                format!("at most {most}, with which all switches have at most {MOST_PORTS} ports");
            return Err(FabricError::new("fabric.leaf_spine.leaves", leaves, accepted));
        }
        check_tiers(&self.links, if spines == 0 { 1 } else { 2 }, "fabric.leaf_spine.links")?;
        match (self.rails, &self.in_server) {
            (Some(rails), _) => return self.rails(rails.get(), spines, hosts),
            (None, Some(_)) => {
                let accepted = "it only with rails, which tell how many hosts a server has";
                return Err(FabricError::new("fabric.leaf_spine.in_server", "given", accepted));
            }
            (None, None) => {}
        }
        let fabric = format!("{leaves} leaves with {each} hosts each");
        grow(&[each, leaves], &[spines], hosts, &fabric, &self.links)
    }
}

/// No more entries than there are tiers.
pub(super) fn check_tiers(
    links: &[CableSettings],
    tiers: u32,
    key: &str,
) -> Result<(), FabricError> {
    if links.len() <= tiers as usize {
        return Ok(());
    }
    let accepted = format!("at most {tiers}, one for each tier from that of the hosts on");
    Err(FabricError::new(key, format!("{} entries", links.len()), accepted))
}

/// One switch with a port for each host.
pub(super) fn star(hosts: u32) -> Result<Wiring, FabricError> {
    if hosts > MOST_PORTS_OF_A_SWITCH {
        return Err(FabricError::hosts(hosts, MOST_PORTS_OF_A_SWITCH as usize, "one switch"));
    }
    grow(&[hosts], &[], hosts, "one switch", &[])
}

/// A tree whose switches have `down[stage]` ports down and, below the highest stage, `up[stage]`
/// ports up, for this many hosts; `links` are those of the tiers.
pub(super) fn grow(
    down: &[u32],
    up: &[u32],
    hosts: u32,
    fabric: &str,
    links: &[CableSettings],
) -> Result<Wiring, FabricError> {
    let ports: u32 = down.iter().product();
    if hosts > ports {
        return Err(FabricError::hosts(hosts, ports as usize, fabric));
    }
    let mut switches = Vec::new();
    let mut below = Vec::new();
    let mut bases = Vec::new();
    let (mut beneath, mut copies) = (1, 1);
    for (stage, &children) in down.iter().enumerate() {
        let own_up = up.get(stage).copied().unwrap_or_default();
        let (per_child, subtrees) = (beneath, ports / (beneath * children));
        beneath *= children;
        bases.push(switches.len() as u32);
        for index in 0..subtrees * copies {
            switches.push((format!("{stage}.{index}"), children + own_up));
            let ups = Choice { first: children, count: own_up };
            let first = index / copies * beneath;
            below.push(Below { first, hosts: beneath, per_child, width: 1, up: ups });
        }
        copies *= own_up;
    }
    let mut wiring = Wiring::new(switches, hosts, NextHops::Tree(below.into()));
    let like_all = CableSettings::default();
    let tier = |tier: usize| links.get(tier).unwrap_or(&like_all);
    for host in 0..hosts {
        wiring.attach(host, SwitchPort { switch: host / down[0], port: host % down[0] });
        wiring.lay(wiring.host_port(host), tier(0));
    }
    let mut copies = 1;
    for (stage, &up) in up.iter().enumerate() {
        for index in 0..bases[stage + 1] - bases[stage] {
            let (subtree, copy) = (index / copies, index % copies);
            for port in 0..up {
                let above = subtree / down[stage + 1] * (copies * up) + copy * up + port;
                let child = subtree % down[stage + 1];
                let own = SwitchPort { switch: bases[stage] + index, port: down[stage] + port };
                let parent = SwitchPort { switch: bases[stage + 1] + above, port: child };
                wiring.connect(own, parent);
                wiring.lay(wiring.port_at(own), tier(stage + 1));
            }
        }
        copies *= up;
    }
    Ok(wiring)
}

/// Switches 1 to 16 with nodes 4k-3 to 4k on switch k, middle 17 to 32, top 33 to 40. Pods of four
/// leaves and four middles; tops 33 to 36 reach the first two middles of every pod, tops 37 to 40
/// the other two, a pod by its ports 2k-1 and 2k.
pub(super) fn folded(hosts: u32) -> Result<Wiring, FabricError> {
    if hosts > 64 {
        return Err(FabricError::hosts(hosts, 64, "the folded tree"));
    }
    let switches = (1..=40).map(|number| (number.to_string(), 8)).collect();
    let up = Choice { first: 4, count: 4 };
    let below = (0..40).map(|switch| match switch {
        0..16 => Below { first: 4 * switch, hosts: 4, per_child: 1, width: 1, up },
        16..32 => Below { first: (switch - 16) / 4 * 16, hosts: 16, per_child: 4, width: 1, up },
        _ => Below { first: 0, hosts: 64, per_child: 16, width: 2, up: Choice::NONE },
    });
    let mut wiring = Wiring::new(switches, hosts, NextHops::Tree(below.collect())).counted_from(1);
    for host in 0..64 {
        wiring.attach(host, SwitchPort { switch: host / 4, port: host % 4 });
    }
    for switch in 0..16 {
        let (pod, place) = (switch / 4, switch % 4);
        for port in 0..4 {
            let leaf = SwitchPort { switch, port: 4 + port };
            wiring.connect(leaf, SwitchPort { switch: 16 + 4 * pod + port, port: place });
            let middle = SwitchPort { switch: 16 + switch, port: 4 + port };
            let top = 32 + 4 * (place / 2) + port;
            wiring.connect(middle, SwitchPort { switch: top, port: 2 * pod + place % 2 });
        }
    }
    Ok(wiring)
}
