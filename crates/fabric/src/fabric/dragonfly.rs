//! Dragonflies: groups of routers, every router with a cable to every other of its group, and every
//! group with cables to every other group (Kim, Dally, Scott and Abts, "Technology-driven,
//! highly-scalable dragonfly topology", ISCA 2008).
//!
//! A minimal route has at most one cable between groups: to a router with a cable to the target's
//! group, over that cable, and to the target's router (section 4.1). In the group of its target a
//! packet uses another virtual channel than packets that are about to leave that group, so that the
//! buffers form no cycle (section 4.2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::PositiveCount;

use super::cable::CableSettings;
use super::error::FabricError;
use super::next_hops::{Choice, NextHops};
use super::pairs::SwitchPort;
use super::tree::check_tiers;
use super::wiring::Wiring;
use super::{MOST_PORTS, MOST_PORTS_OF_A_SWITCH};

/// Settings of a dragonfly, in the letters of Kim et al.: `p` hosts at each of the `a` routers of a
/// group, each of which has `h` cables to other groups, of which there are up to `a h + 1`. Values
/// that are left out make it balanced: `a = 2 p` and `h = p` (section 3.1).
///
/// A router is named by its group and its number there: `8.3`. Its first ports are those of its
/// hosts, then come those to the other routers of its group in their order, then those to other
/// groups. The cables of a group, counted from its first router, lead to the following groups one
/// after another, and start again with the first of them as long as enough cables are left for one
/// to every group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DragonflySettings {
    /// Hosts at every router (p).
    pub hosts_per_router: PositiveCount,
    /// Routers of a group (a); twice the hosts of a router unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routers_per_group: Option<PositiveCount>,
    /// Cables from each router to other groups (h); as many as it has hosts unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_links_per_router: Option<PositiveCount>,
    /// The number of groups, 2 to `a h + 1` (the default). With fewer, several cables join each
    /// pair of groups, and cables that cannot be distributed evenly stay unused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<PositiveCount>,
    /// How the cables of each tier differ from the `link` of the channel: first those of the hosts,
    /// then those within groups, then those between them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<CableSettings>,
}

/// The dimensions of a dragonfly, and how packets are routed in it.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    hosts: u32,
    routers: u32,
    globals: u32,
    groups: u32,
    /// For each router of a group and each other group, given as the distance from its own: the
    /// ports towards it on minimal routes.
    choices: Vec<Choice>,
    /// Likewise the minimal route to it.
    legs: Vec<Leg>,
    /// The group of each router, and its number there.
    spots: Vec<Spot>,
    /// The numbers of the ports of choices: first every port at its own number.
    ports: Vec<u32>,
}

impl DragonflySettings {
    fn routers(&self) -> u64 {
        let own = self.routers_per_group.map(|own| own.get().into());
        own.unwrap_or(2 * u64::from(self.hosts_per_router.get()))
    }

    fn globals(&self) -> u64 {
        self.global_links_per_router.unwrap_or(self.hosts_per_router).get().into()
    }

    /// The most groups: from each one cable to every other.
    fn most_groups(&self) -> u64 {
        self.routers() * self.globals() + 1
    }

    fn groups(&self) -> u64 {
        self.groups.map_or(self.most_groups(), |own| own.get().into())
    }

    /// How many ports for hosts there are.
    pub(super) fn room(&self) -> u64 {
        let each = self.routers().saturating_mul(self.hosts_per_router.get().into());
        self.groups().saturating_mul(each)
    }

    pub(super) fn wiring(&self, hosts: u32) -> Result<Wiring, FabricError> {
        let refuse = |key: &str, value: u64, accepted: String| {
            Err(FabricError::new(&format!("fabric.dragonfly.{key}"), value, accepted))
        };
        let each = u64::from(self.hosts_per_router.get());
        let (routers, globals, groups) = (self.routers(), self.globals(), self.groups());
        let ports = each + routers - 1 + globals;
        if ports > MOST_PORTS_OF_A_SWITCH.into() {
            let accepted = format!(
                "a number with which a router has at most {MOST_PORTS_OF_A_SWITCH} ports, one for \
                 each host, other router of its group and cable to other groups"
            );
            return refuse("hosts_per_router", each, accepted);
        }
        let most = self.most_groups();
        if !(2..=most).contains(&groups) {
            let accepted = format!("2 to {most}, one more than a group has cables to others");
            return refuse("groups", groups, accepted);
        }
        if groups * routers * ports > MOST_PORTS {
            let accepted = format!("so few that all routers have at most {MOST_PORTS} ports");
            return refuse("groups", groups, accepted);
        }
        check_tiers(&self.links, 3, "fabric.dragonfly.links")?;
        let fabric = format!("a dragonfly of {groups} groups of {routers} routers");
        if u64::from(hosts) > self.room() {
            return Err(FabricError::hosts(hosts, self.room() as usize, &fabric));
        }
        let own = Groups::new(each as u32, routers as u32, globals as u32, groups as u32);
        Ok(own.wiring(hosts, &self.links))
    }
}

/// The minimal route from a router to another group, by the first of the cables that lead there.
#[derive(Clone, Copy, Debug)]
struct Leg {
    cables: u32,
    /// The number in that group of the router at which it enters.
    router: u32,
}

/// Where a router is.
#[derive(Clone, Copy, Debug)]
struct Spot {
    group: u32,
    /// Its number in the group.
    router: u32,
}

impl Groups {
    fn new(hosts: u32, routers: u32, globals: u32, groups: u32) -> Groups {
        let ports = (0..hosts + routers - 1 + globals).collect();
        let spot = |switch: u32| Spot { group: switch / routers, router: switch % routers };
        let spots = (0..groups * routers).map(spot).collect();
        let (choices, legs) = (Vec::new(), Vec::new());
        let mut own = Groups { hosts, routers, globals, groups, choices, legs, spots, ports };
        for router in 0..routers {
            for behind in 1..groups {
                let choice = own.towards(router, behind);
                let first = own.ports.len() as u32;
                own.ports.extend(choice);
                let count = own.ports.len() as u32 - first;
                own.choices.push(Choice { first, count });
                own.legs.push(own.leg_towards(router, behind));
            }
        }
        own
    }

    /// How many cables join each pair of groups.
    fn copies(&self) -> u32 {
        self.routers * self.globals / (self.groups - 1)
    }

    /// The cables of a group to the group at this distance, by their numbers in the group.
    fn between(&self, behind: u32) -> impl Iterator<Item = u32> {
        let others = self.groups - 1;
        (0..self.copies()).map(move |copy| copy * others + behind - 1)
    }

    /// The ports of a router on minimal routes to the group at this distance: those of its own
    /// cables, or those to routers with such cables.
    fn towards(&self, router: u32, behind: u32) -> Vec<u32> {
        let (own, others): (Vec<u32>, Vec<u32>) =
            self.between(behind).partition(|cable| cable / self.globals == router);
        if own.is_empty() {
            let to = |cable: &u32| self.local(router, cable / self.globals);
            let mut ports: Vec<u32> = others.iter().map(to).collect();
            ports.dedup();
            return ports;
        }
        own.iter().map(|cable| self.global(*cable)).collect()
    }

    /// The port of a router of a group to another one.
    #[inline]
    fn local(&self, from: u32, to: u32) -> u32 {
        self.hosts + to - u32::from(to > from)
    }

    /// The port of a cable of a group at its router.
    fn global(&self, cable: u32) -> u32 {
        self.hosts + self.routers - 1 + cable % self.globals
    }

    fn wiring(self, hosts: u32, links: &[CableSettings]) -> Wiring {
        let Groups { hosts: each, routers, globals, groups, .. } = self;
        let count = each + routers - 1 + globals;
        let name = |router: u32| (format!("{}.{}", router / routers, router % routers), count);
        let all = (0..groups * routers).map(name).collect();
        let mut wiring = Wiring::new(all, hosts, NextHops::Dragonfly(self.clone()));
        let like_all = CableSettings::default();
        let tier = |tier: usize| links.get(tier).unwrap_or(&like_all);
        for host in 0..hosts {
            wiring.attach(host, SwitchPort { switch: host / each, port: host % each });
            wiring.lay(wiring.host_port(host), tier(0));
        }
        let mut join = |one: SwitchPort, other: SwitchPort, own: usize| {
            wiring.connect(one, other);
            wiring.lay(wiring.port_at(one), tier(own));
        };
        for group in 0..groups {
            let first = group * routers;
            for (one, other) in pairs(routers) {
                let near = SwitchPort { switch: first + one, port: self.local(one, other) };
                let far = SwitchPort { switch: first + other, port: self.local(other, one) };
                join(near, far, 1);
            }
            for behind in 1..groups - group {
                // Seen from there, this group is at the complementary distance.
                let ends = self.between(behind).zip(self.between(groups - behind));
                for (near, far) in ends {
                    let at = |group: u32, cable| SwitchPort {
                        switch: group * routers + cable / globals,
                        port: self.global(cable),
                    };
                    join(at(group, near), at(group + behind, far), 2);
                }
            }
        }
        wiring
    }

    /// The ports through which a packet for `target` may leave on a minimal route.
    #[inline]
    pub fn choice(&self, switch: u32, target: u32) -> Choice {
        let home = target / self.hosts;
        if home == switch {
            return Choice::one(target - home * self.hosts);
        }
        let (own, to) = (self.spots[switch as usize], self.spots[home as usize]);
        match own.group == to.group {
            true => Choice::one(self.local(own.router, to.router)),
            false => self.choices[self.place(own, to.group)],
        }
    }

    /// The ports through which a packet may leave on a minimal route to another group.
    #[inline]
    pub fn towards_group(&self, switch: u32, group: u32) -> Choice {
        self.choices[self.place(self.spots[switch as usize], group)]
    }

    /// The place of another group among the choices and the legs of a router.
    #[inline]
    fn place(&self, from: Spot, group: u32) -> usize {
        (from.router * (self.groups - 1) + self.behind(from.group, group) - 1) as usize
    }

    /// The port of the cable between groups by which a packet leaves its group if it leaves a
    /// router by a port of a minimal route to another group: in the numbers of that router, from
    /// which those of the other routers count on, forward or, modulo 2^32, back.
    pub fn way_out(&self, output: SwitchPort, group: u32) -> u32 {
        let SwitchPort { switch, port } = output;
        let Spot { group: own, router } = self.spots[switch as usize];
        let Some(place) = (self.hosts..self.hosts + self.routers - 1)
            .contains(&port)
            .then_some(port - self.hosts)
        else {
            return port;
        };
        let other = place + u32::from(place >= router);
        let behind = self.behind(own, group);
        let choice = self.choices[(other * (self.groups - 1) + behind - 1) as usize];
        let ports = self.hosts + self.routers - 1 + self.globals;
        (other * ports).wrapping_sub(router * ports).wrapping_add(self.port(choice.first))
    }

    /// How many groups there are.
    pub fn count(&self) -> u32 {
        self.groups
    }

    /// The group of a router.
    #[inline]
    pub fn group(&self, switch: u32) -> u32 {
        self.spots[switch as usize].group
    }

    /// The group of a host.
    #[inline]
    pub fn group_of_host(&self, host: u32) -> u32 {
        self.group(host / self.hosts)
    }

    /// The minimal route from a router of a group to the group at this distance.
    fn leg_towards(&self, router: u32, behind: u32) -> Leg {
        let is_own = |cable: &u32| cable / self.globals == router;
        let direct = self.between(behind).find(is_own);
        let cable = direct.or_else(|| self.between(behind).next()).unwrap_or_default();
        let others = self.groups - 1;
        let far = cable / others * others + self.groups - behind - 1;
        Leg { cables: 1 + u32::from(direct.is_none()), router: far / self.globals }
    }

    /// Cables between routers on the minimal route to a host.
    pub fn cables(&self, switch: u32, to: u32) -> u32 {
        self.cables_from(self.spots[switch as usize], self.spots[(to / self.hosts) as usize])
    }

    #[inline]
    fn cables_from(&self, from: Spot, home: Spot) -> u32 {
        if from.group == home.group {
            return u32::from(from.router != home.router);
        }
        let Leg { cables, router } = self.legs[self.place(from, home.group)];
        cables + u32::from(router != home.router)
    }

    /// Cables between routers on the route to a host through another group.
    pub fn cables_by(&self, switch: u32, group: u32, to: u32) -> u32 {
        let Leg { cables, router } = self.legs[self.place(self.spots[switch as usize], group)];
        cables + self.cables_from(Spot { group, router }, self.spots[(to / self.hosts) as usize])
    }

    /// The distance from a group to another one, counted upwards and around.
    #[inline]
    fn behind(&self, group: u32, other: u32) -> u32 {
        if other >= group { other - group } else { other + self.groups - group }
    }

    /// The number of a port of a choice.
    #[inline]
    pub fn port(&self, place: u32) -> u32 {
        self.ports[place as usize]
    }

    /// Whether a packet that leaves by a port goes to a router of the group that its target is in.
    #[inline]
    pub fn is_in_last_group(&self, switch: u32, port: u32, target: u32) -> bool {
        let is_local = (self.hosts..self.hosts + self.routers - 1).contains(&port);
        is_local && self.group(switch) == self.group_of_host(target)
    }
}

/// All pairs of numbers below `count`, the smaller one first.
fn pairs(count: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..count).flat_map(move |one| (one + 1..count).map(move |other| (one, other)))
}
