//! Search for cyclic buffer dependencies: routes are free of deadlock if there are none (Dally and
//! Seitz, "Deadlock-free message routing in multiprocessor interconnection networks", IEEE Trans.
//! Comput. C-36(5) 1987, theorem 1).
//!
//! A buffer stands behind a cable, and each virtual channel of the cable has its own. One depends on
//! another if a packet in it may have to wait for space in the other. Everything that packets for one
//! target may do at a switch is recorded once, as a *junction*: the buffers from which they come and
//! those to which they may go. Targets for which a switch offers the same buffers share the junction.
//! So the search costs time in proportion to targets and cables, and memory in proportion to
//! junctions, not to the number of paths.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::detour::Detour;
use super::next_hops::{Choice, NextHops};
use super::pairs::{HostPair, SwitchPort};
use super::routes::{ListedRoute, RouteState, Routes};
use super::wiring::{Peer, Wiring};

/// What to do with a channel whose buffers can wait for each other in a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeadlockSettings {
    /// Refuse it before it runs, and name the cycle.
    #[default]
    Refused,
    /// Run it; if the packets of a cycle do wait for each other, the run ends as `stuck` or
    /// `partly stuck`.
    Allowed,
}

impl DeadlockSettings {
    /// Whether cycles are refused.
    pub fn is_refused(&self) -> bool {
        *self == DeadlockSettings::Refused
    }
}

/// A buffer of limited size, or one virtual channel of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleBuffer {
    /// The port of a switch whose cable leads to it.
    pub port: u32,
    /// The virtual channel among those that a packet uses one after another.
    pub virtual_channel: u8,
}

impl Routes {
    /// A cyclic dependency: buffers that can all be full of packets waiting for space in the next one, and
    /// those of the last for space in the first. It is the shortest cycle through one of its buffers, not the
    /// shortest of all. `None` if no traffic can close a cycle.
    ///
    /// `virtual_channels` is how many virtual channels a packet uses one after another; `holds` says whether a
    /// switch has input buffers of limited size, which make the sender wait.
    ///
    /// Every route that may be chosen counts. Hashed routes count as if a connection could take any of them.
    pub fn cycle(
        &self,
        wiring: &Wiring,
        virtual_channels: u8,
        holds: impl Fn(u32) -> bool,
    ) -> Option<Vec<CycleBuffer>> {
        // Packets do not change planes.
        let next_hops = match self.next_hops() {
            NextHops::Planes(one, _) => one,
            next_hops => next_hops,
        };
        let is_ordered = match next_hops {
            // Up, and down, and never up again: the buffers are ordered by tiers.
            NextHops::Tree(_) | NextHops::Rails(_) => true,
            // In the order of the dimensions, and along each in that of its row, which two virtual
            // channels cut where it is a ring; in the order of the virtual channels, and of each
            // first those within a group; in that of the dimensions or, where they come in any, of
            // a channel for each. Behind the intermediate place of a detour others follow.
            NextHops::Grid(_) | NextHops::Dragonfly(_) | NextHops::HyperX(_) => {
                virtual_channels >= self.virtual_channels()
            }
            NextHops::Table(_) | NextHops::Planes(..) | NextHops::Unlike(_) => false,
        };
        if is_ordered && self.given().next().is_none() {
            return None;
        }
        Search::new(self, wiring, virtual_channels, holds).run()
    }
}

/// The buffers between which packets may move at a switch.
#[derive(Debug)]
struct Junction {
    /// The buffers to which they may go: a range in the list.
    outs: (u32, u32),
    /// Where the bits of the source buffers begin.
    ins: u32,
}

/// A buffer at the far end of a cable.
struct Behind {
    buffer: u32,
    /// The switch of the buffer.
    switch: u32,
    /// The bit of a buffer among those of its switch.
    bit: u32,
}

struct Search<'a> {
    routes: &'a Routes,
    wiring: &'a Wiring,
    virtual_channels: u32,
    holds: Vec<bool>,
    /// The switch of each port.
    owners: Vec<u32>,
    /// Where the bits of the buffers of each switch begin; the last entry is the number of all
    /// words.
    words: Vec<u32>,
    junctions: Vec<Junction>,
    /// The junctions of each switch.
    at: Vec<Vec<u32>>,
    /// Each junction, by its switch and its next buffers.
    known: HashMap<Box<[u32]>, u32>,
    outs: Vec<u32>,
    ins: Vec<u64>,
}

/// The state of the search for one target.
struct Walk {
    /// The switches that packets for it pass.
    reached: Vec<u32>,
    is_reached: Vec<bool>,
    /// The junction at each of them, if packets may wait there.
    junctions: Vec<Option<u32>>,
    /// The buffers from which they come, as bits.
    incoming: Vec<u64>,
    /// The switches at which packets come to the intermediate place of a detour, and from which
    /// buffers.
    is_relay: Vec<bool>,
    relayed: Vec<u64>,
}

/// Where packets go.
#[derive(Clone, Copy)]
enum Goal {
    /// To a host, directly or after a detour.
    Host(u32, Detour),
    /// To an intermediate place, through which they take a detour.
    Between(u32),
}

impl<'a> Search<'a> {
    fn new(
        routes: &'a Routes,
        wiring: &'a Wiring,
        virtual_channels: u8,
        holds: impl Fn(u32) -> bool,
    ) -> Search<'a> {
        let switches = wiring.switches();
        let virtual_channels = u32::from(virtual_channels);
        let mut words = vec![0];
        let mut count = 0;
        for switch in 0..switches {
            count += (wiring.ports_of(switch) * virtual_channels).div_ceil(64);
            words.push(count);
        }
        let owner = |switch| (0..wiring.ports_of(switch)).map(move |_| switch);
        Search {
            routes,
            wiring,
            virtual_channels,
            holds: (0..switches).map(holds).collect(),
            owners: (0..switches).flat_map(owner).collect(),
            words,
            junctions: Vec::new(),
            at: vec![Vec::new(); switches as usize],
            known: HashMap::new(),
            outs: Vec::new(),
            ins: Vec::new(),
        }
    }

    /// Walks target by target and looks for a cycle each time the number of targets has doubled,
    /// since most fabrics with a cycle show it after a few targets.
    fn run(mut self) -> Option<Vec<CycleBuffer>> {
        let mut listed = HashSet::new();
        for ListedRoute { pair: HostPair { from, to }, plane, ports } in self.routes.given() {
            self.follow(plane * self.wiring.hosts() + from, to, ports);
            listed.insert(to);
        }
        let homes = self.homes();
        let everywhere = self.everywhere();
        let mut walk = self.walk();
        if let Some(cycle) = self.visit_between(&mut walk, &everywhere) {
            return Some(cycle);
        }
        let mut walked = 0_u32;
        for (_, hosts) in &homes {
            let mut is_walked = false;
            for &host in hosts {
                if listed.contains(&host) {
                    let starts = self.unlisted(host);
                    self.visit(&mut walk, Goal::Host(host, Detour::NONE), &starts);
                } else if std::mem::replace(&mut is_walked, true) {
                    // Hosts at one switch are alike to all other switches.
                    continue;
                } else {
                    self.visit(&mut walk, Goal::Host(host, Detour::NONE), &everywhere);
                    self.visit_from_between(&mut walk, host);
                }
                walked += 1;
                if walked.is_power_of_two()
                    && let Some(cycle) = self.find()
                {
                    return Some(cycle);
                }
            }
        }
        self.find()
    }

    /// The switches with hosts, in all planes.
    fn everywhere(&self) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.wiring.ends()).map(|end| self.home(end)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn home(&self, end: u32) -> u32 {
        self.owners[self.wiring.host_port(end) as usize]
    }

    /// The switches with hosts in the first plane, and which: in the others the same hosts are together.
    fn homes(&self) -> Vec<(u32, Vec<u32>)> {
        let mut hosts = vec![Vec::new(); self.at.len()];
        for host in 0..self.wiring.hosts() {
            hosts[self.home(host) as usize].push(host);
        }
        (0..).zip(hosts).filter(|(_, hosts)| !hosts.is_empty()).collect()
    }

    /// The switches with hosts whose packets to `target` take no route that is listed.
    fn unlisted(&self, target: u32) -> Vec<u32> {
        let hosts = self.wiring.hosts();
        let free =
            (0..self.wiring.ends()).filter(|end| !self.routes.is_given(*end % hosts, target));
        free.map(|end| self.home(end)).collect()
    }

    fn walk(&self) -> Walk {
        let switches = self.at.len();
        let words = self.words.last().copied().unwrap_or_default() as usize;
        Walk {
            reached: Vec::with_capacity(switches),
            is_reached: vec![false; switches],
            junctions: vec![None; switches],
            incoming: vec![0; words],
            is_relay: vec![false; switches],
            relayed: vec![0; words],
        }
    }

    /// Records what packets do on their route to the intermediate place of a detour. Returns a
    /// cycle that is closed there already, as [`run`](Self::run) looks for it.
    fn visit_between(&mut self, walk: &mut Walk, everywhere: &[u32]) -> Option<Vec<CycleBuffer>> {
        let routes = self.routes;
        let (between, plane) = routes.next_hops().between().filter(|_| routes.takes_detours())?;
        for place in 0..between.count() {
            let is_outside = |switch: &u32| between.of_switch(switch % plane) != place;
            let from = everywhere.iter().copied().filter(is_outside);
            self.visit(walk, Goal::Between(place), &from.collect::<Vec<_>>());
            if (place + 1).is_power_of_two()
                && let Some(cycle) = self.find()
            {
                return Some(cycle);
            }
        }
        None
    }

    /// Notes what packets to `target` do behind the intermediate place.
    fn visit_from_between(&mut self, walk: &mut Walk, target: u32) {
        let routes = self.routes;
        let Some((between, plane)) = routes.next_hops().between() else { return };
        let mut starts = Vec::new();
        for switch in 0..self.wiring.switches() {
            let words =
                self.words[switch as usize] as usize..self.words[switch as usize + 1] as usize;
            let is_between = between.of_switch(switch % plane) != between.of_host(target);
            if is_between && walk.is_relay[switch as usize] {
                starts.push(switch);
                walk.incoming[words.clone()].copy_from_slice(&walk.relayed[words]);
            }
        }
        self.visit(walk, Goal::Host(target, Detour::PAST), &starts);
    }

    /// The ports by which packets may leave a switch.
    fn choice(&self, switch: u32, goal: Goal) -> Choice {
        match (goal, self.routes.next_hops().between()) {
            (Goal::Host(to, _), _) => self.routes.next_hops().choice(switch, to),
            (Goal::Between(to), Some((between, plane)))
                if between.of_switch(switch % plane) != to =>
            {
                between.towards(switch % plane, to)
            }
            (Goal::Between(_), _) => Choice::NONE,
        }
    }

    /// The buffer that packets to a goal enter through a port of a switch.
    fn behind(&self, switch: u32, number: u32, goal: Goal) -> Option<Behind> {
        let output = self.wiring.port(switch, number);
        let Peer::Port(input) = self.wiring.peer(output) else { return None };
        let port = SwitchPort { switch, port: number };
        let virtual_channel = match goal {
            _ if self.virtual_channels == 1 => 0,
            Goal::Host(to, detour) => {
                self.routes.virtual_channel(port, to, RouteState::after(detour))
            }
            Goal::Between(place) => {
                let route_state = RouteState::after(Detour::towards(place));
                self.routes.virtual_channel(port, 0_u32, route_state)
            }
        };
        let virtual_channel = u32::from(virtual_channel);
        let next = self.owners[input as usize];
        let bit = (input - self.wiring.port(next, 0)) * self.virtual_channels + virtual_channel;
        Some(Behind { buffer: output * self.virtual_channels + virtual_channel, switch: next, bit })
    }

    /// Records the dependencies of packets to a goal that come from some switches.
    fn visit(&mut self, walk: &mut Walk, goal: Goal, starts: &[u32]) {
        walk.reached.clear();
        for &switch in starts {
            if !std::mem::replace(&mut walk.is_reached[switch as usize], true) {
                walk.reached.push(switch);
            }
        }
        let mut key = Vec::new();
        let mut next = 0;
        while let Some(&switch) = walk.reached.get(next) {
            next += 1;
            key.clear();
            key.push(switch);
            let Choice { first, count } = self.choice(switch, goal);
            for number in (first..first + count).map(|place| self.routes.next_hops().port(place)) {
                let Some(Behind { buffer, switch: far, bit }) = self.behind(switch, number, goal)
                else {
                    continue;
                };
                if !std::mem::replace(&mut walk.is_reached[far as usize], true) {
                    walk.reached.push(far);
                }
                if self.holds[far as usize] {
                    key.push(buffer);
                    let word = self.words[far as usize] + bit / 64;
                    walk.incoming[word as usize] |= 1_u64 << (bit % 64);
                }
            }
            walk.junctions[switch as usize] = self.junction(&key);
        }
        for &switch in &walk.reached {
            let words = self.words[switch as usize]..self.words[switch as usize + 1];
            let words = words.start as usize..words.end as usize;
            if let (Goal::Between(_), Choice::NONE) = (goal, self.choice(switch, goal)) {
                walk.is_relay[switch as usize] = true;
                let (relayed, incoming) = (&mut walk.relayed, &walk.incoming);
                words.clone().for_each(|word| relayed[word] |= incoming[word]);
            }
            let incoming = &mut walk.incoming[words];
            if let Some(junction) = walk.junctions[switch as usize] {
                let first = self.junctions[junction as usize].ins as usize;
                for (all, own) in self.ins[first..].iter_mut().zip(incoming.iter()) {
                    *all |= own;
                }
            }
            incoming.fill(0);
            walk.is_reached[switch as usize] = false;
        }
    }

    /// The junction of a switch and its next buffers; none if packets do not wait for anything
    /// there.
    fn junction(&mut self, key: &[u32]) -> Option<u32> {
        let (switch, buffers) = key.split_first()?;
        if buffers.is_empty() || !self.holds[*switch as usize] {
            return None;
        }
        if let Some(known) = self.known.get(key) {
            return Some(*known);
        }
        let number = self.junctions.len() as u32;
        let outs = self.outs.len() as u32;
        self.outs.extend(buffers);
        let ins = self.ins.len();
        let words = self.words[*switch as usize + 1] - self.words[*switch as usize];
        self.ins.resize(ins + words as usize, 0);
        self.junctions.push(Junction { outs: (outs, self.outs.len() as u32), ins: ins as u32 });
        self.at[*switch as usize].push(number);
        self.known.insert(key.into(), number);
        Some(number)
    }

    /// Records the dependencies of packets that take a listed route from an end of a host.
    fn follow(&mut self, from: u32, to: u32, ports: &[u32]) {
        let mut switch = self.home(from);
        let mut came_by = None;
        let goal = Goal::Host(to, Detour::NONE);
        for &number in ports {
            let Some(Behind { buffer, switch: far, bit }) = self.behind(switch, number, goal)
            else {
                return;
            };
            if self.holds[far as usize]
                && let Some(own) = came_by
                && let Some(junction) = self.junction(&[switch, buffer])
            {
                let first = self.junctions[junction as usize].ins;
                self.ins[(first + own / 64) as usize] |= 1_u64 << (own % 64);
            }
            came_by = self.holds[far as usize].then_some(bit);
            switch = far;
        }
    }

    /// A cycle among the recorded dependencies.
    fn find(&self) -> Option<Vec<CycleBuffer>> {
        let mut marks = Marks::new(self);
        (0..self.outs.len()).find_map(|place| {
            let buffer = self.outs[place];
            let is_closed = marks.closes(self, buffer)?;
            Some(self.shortest(is_closed))
        })
    }

    /// The junctions through which packets in a buffer may go on.
    fn through(&self, buffer: u32) -> impl Iterator<Item = u32> {
        let (output, virtual_channel) =
            (buffer / self.virtual_channels, buffer % self.virtual_channels);
        let input = match self.wiring.peer(output) {
            Peer::Port(input) => Some(input),
            Peer::Host(_) | Peer::Unused => None,
        };
        input.into_iter().flat_map(move |input| {
            let switch = self.owners[input as usize];
            let bit =
                (input - self.wiring.port(switch, 0)) * self.virtual_channels + virtual_channel;
            let is_through = move |junction: &&u32| {
                let first = self.junctions[**junction as usize].ins;
                self.ins[(first + bit / 64) as usize] >> (bit % 64) & 1 != 0
            };
            self.at[switch as usize].iter().filter(is_through).copied()
        })
    }

    /// The next buffers of a junction.
    fn beyond(&self, junction: u32) -> &[u32] {
        let (first, end) = self.junctions[junction as usize].outs;
        &self.outs[first as usize..end as usize]
    }

    /// The shortest cycle through a buffer that is in one.
    fn shortest(&self, first: u32) -> Vec<CycleBuffer> {
        let mut before: HashMap<u32, u32> = HashMap::new();
        let mut is_passed = vec![false; self.junctions.len()];
        let mut reached = vec![first];
        let mut next = 0;
        while let Some(&buffer) = reached.get(next).filter(|_| !before.contains_key(&first)) {
            next += 1;
            for junction in self.through(buffer) {
                if std::mem::replace(&mut is_passed[junction as usize], true) {
                    continue;
                }
                for &beyond in self.beyond(junction) {
                    before.entry(beyond).or_insert_with(|| {
                        reached.push(beyond);
                        buffer
                    });
                }
            }
        }
        let mut cycle = vec![first];
        let mut own = before.get(&first).copied();
        while let Some(buffer) = own.filter(|own| *own != first) {
            cycle.push(buffer);
            own = before.get(&buffer).copied();
        }
        cycle[1..].reverse();
        let named = |buffer| CycleBuffer {
            port: buffer / self.virtual_channels,
            virtual_channel: (buffer % self.virtual_channels) as u8,
        };
        cycle.into_iter().map(named).collect()
    }
}

/// State of a depth-first search, one mark for each buffer and then one for each junction.
struct Marks {
    marks: Vec<Mark>,
    buffers: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    /// On the path that is being explored.
    Open,
    /// It is on no cycle.
    Done,
}

impl Marks {
    fn new(search: &Search<'_>) -> Marks {
        let buffers = search.wiring.ports() * search.virtual_channels;
        Marks { marks: vec![Mark::New; buffers as usize + search.junctions.len()], buffers }
    }

    /// A buffer on a cycle that can be reached from the given one, if there is such a cycle.
    fn closes(&mut self, search: &Search<'_>, buffer: u32) -> Option<u32> {
        // Each node of the path, with the successors that are left.
        let mut way: Vec<(u32, Vec<u32>)> = Vec::new();
        let mut next = Some(buffer);
        loop {
            if let Some(node) = next.take() {
                match self.marks[node as usize] {
                    Mark::Done => {}
                    Mark::Open if node < self.buffers => return Some(node),
                    // The next node of the path is a buffer of the same cycle.
                    Mark::Open => {
                        let place = way.iter().position(|(own, _)| *own == node)?;
                        return way.get(place + 1).map(|(own, _)| *own);
                    }
                    Mark::New => {
                        self.marks[node as usize] = Mark::Open;
                        let behind = match node.checked_sub(self.buffers) {
                            Some(junction) => search.beyond(junction).to_vec(),
                            None => search.through(node).map(|own| self.buffers + own).collect(),
                        };
                        way.push((node, behind));
                    }
                }
            }
            let (node, rest) = way.last_mut()?;
            next = rest.pop();
            if next.is_none() {
                self.marks[*node as usize] = Mark::Done;
                way.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use weft_kernel::Streams;
    use weft_units::Rate;

    use super::super::detour::Between;
    use super::super::{FabricSettings, RoutesSettings};
    use super::*;

    #[derive(Deserialize)]
    struct Channel {
        fabric: FabricSettings,
        #[serde(default)]
        routes: RoutesSettings,
    }

    fn built(text: &str, hosts: u32) -> (Wiring, Routes) {
        let channel: Channel = toml::from_str(text).expect(text);
        let wiring = channel.fabric.wiring(hosts, Rate::from_ratio(1, 1000)).expect(text);
        let random = Streams::new(1).stream("routes", 0);
        let routes = Routes::new(&channel.routes, &wiring, random).expect(text);
        (wiring, routes)
    }

    /// The definition: each packet is followed along every route, from every host to every other,
    /// and by every intermediate place; buffers that depend on nothing are removed until none is
    /// left.
    fn has_cycle(wiring: &Wiring, routes: &Routes, virtual_channels: bool) -> bool {
        let mut edges: BTreeMap<(u32, u8), BTreeSet<(u32, u8)>> = BTreeMap::new();
        let hosts = || 0..wiring.hosts();
        for (from, to) in hosts().flat_map(|from| hosts().map(move |to| (from, to))) {
            let between = routes.next_hops().between().map(|own| own.0);
            let between = between.filter(|_| routes.takes_detours());
            let ends_of = |own: Between<'_>| [from, to].map(|host| own.of_host(host));
            let places = between
                .iter()
                .flat_map(|own| (0..own.count()).filter(|place| !ends_of(*own).contains(place)));
            let detours = places.map(Detour::towards).chain([Detour::NONE]);
            let start = wiring.host_port(from);
            let mut ends: Vec<_> = detours.map(|detour| (None, start, detour)).collect();
            while let Some((held, input, mut detour)) = ends.pop() {
                let switch = wiring.switch_of(input);
                let mut choice = routes.next_hops().choice(switch, to);
                if let (Some(between), Some(place)) = (between, detour.place()) {
                    match between.of_switch(switch) == place {
                        true => detour = Detour::PAST,
                        false => choice = between.towards(switch, place),
                    }
                }
                let ports = choice.first..choice.first + choice.count;
                for number in ports.map(|place| routes.next_hops().port(place)) {
                    let output = wiring.port(switch, number);
                    let Peer::Port(next) = wiring.peer(output) else { continue };
                    let virtual_channel = if virtual_channels {
                        let port = SwitchPort { switch, port: number };
                        routes.virtual_channel(port, to, RouteState::after(detour))
                    } else {
                        0
                    };
                    edges.entry((output, virtual_channel)).or_default();
                    if let Some(held) = held {
                        edges.entry(held).or_default().insert((output, virtual_channel));
                    }
                    ends.push((Some((output, virtual_channel)), next, detour));
                }
            }
        }
        loop {
            let before = edges.len();
            let left: BTreeSet<_> = edges.keys().copied().collect();
            edges.values_mut().for_each(|next| next.retain(|own| left.contains(own)));
            edges.retain(|_, next| !next.is_empty());
            if edges.len() == before {
                return !edges.is_empty();
            }
        }
    }

    const FABRICS: &[(&str, u32)] = &[
        ("fabric.k_ary_tree = { arity = 2, levels = 3 }", 8),
        ("fabric.fat_tree = { radix = 4, tiers = 3 }", 16),
        ("fabric = 'folded_tree'", 64),
        ("fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 3, spines = 2 }", 6),
        ("fabric.dragonfly.hosts_per_router = 1", 6),
        ("fabric.dragonfly.hosts_per_router = 2", 72),
        ("fabric.dragonfly = { hosts_per_router = 2, groups = 4 }", 32),
        ("fabric.hyperx.dimensions = [4]", 4),
        ("fabric.hyperx = { dimensions = [3, 2], hosts_per_switch = 2 }", 12),
        ("fabric.hyperx = { dimensions = [4], order = 'any' }", 4),
        ("fabric.hyperx = { dimensions = [2, 2], order = 'any' }", 4),
        ("fabric.hyperx = { dimensions = [3, 2, 2], order = 'any' }", 12),
        ("fabric.torus.dimensions = [2]", 2),
        ("fabric.torus.dimensions = [3]", 3),
        ("fabric.torus.dimensions = [4]", 4),
        ("fabric.torus.dimensions = [5]", 5),
        ("fabric.torus.dimensions = [4]", 2),
        ("fabric.torus.dimensions = [3, 3]", 9),
        ("fabric.torus.dimensions = [2, 4]", 8),
        ("fabric.torus = { dimensions = [3, 2, 5], hosts_per_switch = 2 }", 60),
        ("fabric.mesh.dimensions = [5]", 5),
        ("fabric.mesh = { dimensions = [3, 4], hosts_per_switch = 2 }", 24),
    ];

    /// With and without what is known of regular fabrics, and over tori and dragonflies with and
    /// without their two virtual channels.
    #[test]
    fn the_search_finds_what_the_definition_says() {
        let mut found = 0;
        for &(text, hosts) in FABRICS {
            let (wiring, routes) = built(text, hosts);
            // Fewer than all are used as one.
            for virtual_channels in BTreeSet::from([1, routes.virtual_channels()]) {
                let expected = has_cycle(&wiring, &routes, virtual_channels > 1);
                let searched = Search::new(&routes, &wiring, virtual_channels, |_| true).run();
                assert_eq!(searched.is_some(), expected, "{text}, {virtual_channels} channels");
                assert_eq!(routes.cycle(&wiring, virtual_channels, |_| true), searched, "{text}");
                found += u32::from(expected);
            }
        }
        // The rings of four switches and more, if hosts are all around, the dragonflies, and what takes
        // several dimensions in any order.
        assert_eq!(found, 9);
    }

    /// Like the test above for routes with detours, with all their virtual channels and with one.
    #[test]
    fn the_search_follows_detours_as_the_definition_does() {
        let fabrics = [
            ("fabric.torus.dimensions = [3]", 3),
            ("fabric.torus.dimensions = [5]", 5),
            ("fabric.torus = { dimensions = [3, 2], hosts_per_switch = 2 }", 12),
            ("fabric.mesh.dimensions = [3]", 3),
            ("fabric.mesh.dimensions = [2, 3]", 6),
            ("fabric.hyperx.dimensions = [4]", 4),
            ("fabric.hyperx = { dimensions = [3, 2], order = 'any' }", 6),
            ("fabric.dragonfly.hosts_per_router = 1", 6),
        ];
        for (fabric, hosts) in fabrics {
            let (wiring, routes) =
                built(&format!("{fabric}\nroutes.per_packet = 'valiant'"), hosts);
            for virtual_channels in [1, routes.virtual_channels()] {
                let expected = has_cycle(&wiring, &routes, virtual_channels > 1);
                let searched = Search::new(&routes, &wiring, virtual_channels, |_| true).run();
                assert_eq!(searched.is_some(), expected, "{fabric}, {virtual_channels} channels");
                assert_eq!(expected, virtual_channels == 1, "{fabric}");
            }
        }
    }

    /// Eight switches in a ring: the cycle is one way round, each buffer behind the one before it.
    /// A switch that holds nothing back, or routes that leave a cable out, open it.
    #[test]
    fn a_cycle_is_named_from_buffer_to_buffer() {
        let (wiring, routes) = built("fabric.torus.dimensions = [8]", 8);
        let cycle = routes.cycle(&wiring, 1, |_| true).expect("a cycle");
        assert_eq!(cycle.len(), 8);
        for (place, own) in cycle.iter().enumerate() {
            let next = &cycle[(place + 1) % cycle.len()];
            let Peer::Port(far) = wiring.peer(own.port) else { panic!("{own:?}") };
            assert_eq!(wiring.switch_of(far), wiring.switch_of(next.port), "{cycle:?}");
            assert_eq!(own.virtual_channel, 0);
        }
        for open in 0..8 {
            assert_eq!(routes.cycle(&wiring, 1, |switch| switch != open), None, "{open}");
        }
    }

    /// Three switches in a ring, where shortest paths take one cable and close no cycle. Given
    /// routes the long way round close one if every switch has such a route; connections that are
    /// not listed count with their shortest path.
    #[test]
    fn given_routes_count_as_they_are() {
        let ring = "fabric.table = { switches = [{ name = 'a', ports = 3 }, \
            { name = 'b', ports = 3 }, { name = 'c', ports = 3 }], cables = [\
            { from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'b.0' }, \
            { from = 'host 2', to = 'c.0' }, { from = 'a.1', to = 'b.2' }, \
            { from = 'b.1', to = 'c.2' }, { from = 'c.1', to = 'a.2' }] }";
        let long = [
            "{ from = 0, to = 2, switches = ['a', 'b', 'c'] }",
            "{ from = 1, to = 0, switches = ['b', 'c', 'a'] }",
            "{ from = 2, to = 1, switches = ['c', 'a', 'b'] }",
        ];
        for count in 0..=3 {
            let given = long[..count].join(", ");
            let text = format!("{ring}\nroutes.per_connection.given = [{given}]");
            let (wiring, routes) = built(&text, 3);
            let cycle = routes.cycle(&wiring, 1, |_| true).map(|cycle| cycle.len());
            assert_eq!(cycle, (count == 3).then_some(3), "{count}");
        }
    }

    /// Four switches in a ring, with two ways from each to the one across: that closes it. Routes
    /// along the row a, b, c, d for all that go across leave it open.
    #[test]
    fn routes_that_leave_a_corner_out_open_a_cycle() {
        let ring = "fabric.table = { switches = [{ name = 'a', ports = 3 }, \
            { name = 'b', ports = 3 }, { name = 'c', ports = 3 }, { name = 'd', ports = 3 }], \
            cables = [{ from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'b.0' }, \
            { from = 'host 2', to = 'c.0' }, { from = 'host 3', to = 'd.0' }, \
            { from = 'a.1', to = 'b.2' }, { from = 'b.1', to = 'c.2' }, \
            { from = 'c.1', to = 'd.2' }, { from = 'd.1', to = 'a.2' }] }";
        let (wiring, routes) = built(ring, 4);
        assert_eq!(routes.cycle(&wiring, 1, |_| true).map(|cycle| cycle.len()), Some(4));
        let given = "routes.per_connection.given = [\
            { from = 0, to = 2, switches = ['a', 'b', 'c'] }, \
            { from = 2, to = 0, switches = ['c', 'b', 'a'] }, \
            { from = 1, to = 3, switches = ['b', 'c', 'd'] }, \
            { from = 3, to = 1, switches = ['d', 'c', 'b'] }]";
        let (wiring, routes) = built(&format!("{ring}\n{given}"), 4);
        assert_eq!(routes.cycle(&wiring, 1, |_| true), None);
    }

    /// By an intermediate group, a packet needs three channels: with fewer, which are then used as one,
    /// the buffers of cables between groups wait for each other.
    #[test]
    fn three_channels_break_the_cycles_of_detours() {
        for rule in ["valiant", "ugal"] {
            for (fabric, hosts) in [
                ("hosts_per_router = 1", 6),
                ("hosts_per_router = 2", 72),
                ("{ hosts_per_router = 2, groups = 4 }", 32),
            ] {
                let fabric = fabric.strip_prefix('{').map_or_else(
                    || format!("fabric.dragonfly.{fabric}"),
                    |own| format!("fabric.dragonfly = {{{own}"),
                );
                let text = format!("{fabric}\nroutes.per_packet = '{rule}'");
                let (wiring, routes) = built(&text, hosts);
                assert_eq!(routes.virtual_channels(), 3, "{text}");
                assert_eq!(Search::new(&routes, &wiring, 3, |_| true).run(), None, "{text}");
                assert_eq!(routes.cycle(&wiring, 3, |_| true), None, "{text}");
                assert!(routes.cycle(&wiring, 1, |_| true).is_some(), "{text}");
            }
        }
    }

    /// By a switch in between, a packet needs twice the channels of a minimal route: with one,
    /// cables around rows and columns wait for each other.
    #[test]
    fn twice_the_channels_break_the_cycles_of_detours_by_switches() {
        let cases = [
            ("torus = { dimensions = [4, 3] }", 12, 4),
            ("mesh = { dimensions = [4, 3] }", 12, 2),
            ("hyperx = { dimensions = [4, 3] }", 12, 2),
            ("hyperx = { dimensions = [3, 3], order = 'any' }", 9, 4),
        ];
        for (fabric, hosts, needed) in cases {
            for rule in ["valiant", "ugal"] {
                let text = format!("fabric.{fabric}\nroutes.per_packet = '{rule}'");
                let (wiring, routes) = built(&text, hosts);
                assert_eq!(routes.virtual_channels(), needed, "{text}");
                assert_eq!(Search::new(&routes, &wiring, needed, |_| true).run(), None, "{text}");
                assert_eq!(routes.cycle(&wiring, needed, |_| true), None, "{text}");
                assert!(routes.cycle(&wiring, 1, |_| true).is_some(), "{text}");
            }
        }
    }
}
