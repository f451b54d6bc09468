//! Rails: the hosts of a server, such as GPUs with an adapter each, are at different leaves, and
//! the hosts with the same position in all servers are at the same leaf (rail-optimised; Wang et
//! al., "Rail-only: a low-cost high-performance network for training LLMs with trillion
//! parameters", HOTI 2024, Section 2).

use super::cable::CableSettings;
use super::error::FabricError;
use super::next_hops::{Choice, NextHops};
use super::pairs::SwitchPort;
use super::tree::{LeafSpineSettings, grow};
use super::wiring::Wiring;

/// Leaves whose hosts have the same position in their servers. A group of leaves has one for each
/// rail, and as many servers as a leaf has ports for hosts (`each`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Rails {
    /// Hosts of a server, which are numbered one after another.
    rails: u32,
    /// Hosts at a leaf.
    each: u32,
    leaves: u32,
    spines: u32,
}

impl Rails {
    /// The port of a leaf that a host is at.
    fn place(&self, host: u32) -> SwitchPort {
        let (server, rail) = (host / self.rails, host % self.rails);
        SwitchPort { switch: server / self.each * self.rails + rail, port: server % self.each }
    }

    /// The ports towards the target of a packet; their numbers equal their positions.
    pub fn choice(&self, switch: u32, target: u32) -> Choice {
        let SwitchPort { switch: leaf, port } = self.place(target);
        match switch < self.leaves {
            true if switch == leaf => Choice::one(port),
            true => Choice { first: self.each, count: self.spines },
            false => Choice::one(leaf),
        }
    }
}

impl LeafSpineSettings {
    /// Leaves and as many spines, for the hosts of servers with this many `rails`.
    pub(super) fn rails(&self, rails: u32, spines: u32, hosts: u32) -> Result<Wiring, FabricError> {
        let (each, leaves) = (self.hosts_per_leaf.get(), self.leaves.get());
        if !leaves.is_multiple_of(rails) {
            let accepted = format!("a divisor of leaves = {leaves}: each group has a leaf a rail");
            return Err(FabricError::new("fabric.leaf_spine.rails", rails, accepted));
        }
        let fabric = format!("{leaves} leaves with {each} hosts each");
        if let Some(in_server) = &self.in_server {
            return self.in_servers(rails, spines, in_server, hosts, &fabric);
        }
        if u64::from(hosts) > self.room() {
            return Err(FabricError::hosts(hosts, self.room() as usize, &fabric));
        }
        let own = Rails { rails, each, leaves, spines };
        let leaf = (0..leaves).map(|leaf| (format!("0.{leaf}"), each + spines));
        let spine = (0..spines).map(|spine| (format!("1.{spine}"), leaves));
        let mut wiring = Wiring::new(leaf.chain(spine).collect(), hosts, NextHops::Rails(own));
        let like_all = CableSettings::default();
        let tier = |tier: usize| self.links.get(tier).unwrap_or(&like_all);
        for host in 0..hosts {
            wiring.attach(host, own.place(host));
            wiring.lay(wiring.host_port(host), tier(0));
        }
        for (leaf, spine) in (0..leaves).flat_map(|leaf| (0..spines).map(move |own| (leaf, own))) {
            let below = SwitchPort { switch: leaf, port: each + spine };
            wiring.connect(below, SwitchPort { switch: leaves + spine, port: leaf });
            wiring.lay(wiring.port_at(below), tier(1));
        }
        Ok(wiring)
    }

    /// A tree whose lowest switches are in servers, each with a cable to a leaf of every rail; the
    /// leaves of each rail have their own spines. A single group of leaves needs no spines.
    fn in_servers(
        &self,
        rails: u32,
        spines: u32,
        in_server: &CableSettings,
        hosts: u32,
        fabric: &str,
    ) -> Result<Wiring, FabricError> {
        let (each, groups) = (self.hosts_per_leaf.get(), self.leaves.get() / rails);
        let links: Vec<CableSettings> =
            std::iter::once(in_server).chain(&self.links).cloned().collect();
        match groups {
            1 => grow(&[rails, each], &[rails], hosts, fabric, &links),
            _ => grow(&[rails, each, groups], &[rails, spines], hosts, fabric, &links),
        }
    }
}
