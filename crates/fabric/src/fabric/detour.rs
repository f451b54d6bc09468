//! Routes through an intermediate place, which a fabric of low diameter needs if the traffic between two
//! places exceeds what the minimal routes between them carry: through a third group of a dragonfly,
//! through a third switch of a torus, a mesh or a `HyperX`.
//!
//! *Valiant*: a packet goes through one of the other groups or switches, each equally likely, on a
//! minimal route there and from there on (Valiant and Brebner, "Universal schemes for parallel
//! communication", STOC 1981; for groups Kim, Dally, Scott and Abts, ISCA 2008, section 4.1; for a
//! `HyperX` Ahn, Binkert, Davis, McLaren and Schreiber, SC 2009, section 3.2). *UGAL-L* ("universal
//! globally-adaptive load-balanced" with local knowledge) decides at the first switch between that
//! and the minimal route: it takes the minimal one unless the product of its queue and its length
//! exceeds that of the other. *UGAL-G*, with global knowledge, uses in these products the queues of
//! the two cables by which the packet would leave its group of a dragonfly, at whichever routers
//! these are.
//!
//! A packet that travels to the intermediate place uses the first virtual channels, and others
//! after it: in a dragonfly one and two, three in all; elsewhere twice as many as a minimal route
//! needs.

use super::dragonfly::Groups;
use super::next_hops::{Choice, NextHops};
use super::pairs::SwitchPort;
use super::routes::{RouteState, Routes};

/// State of a packet's detour: none, undecided or towards an intermediate place, or past that
/// place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Detour(u16);

const UNDECIDED: u16 = 1 << 15;
const TOWARDS: u16 = 1 << 14;
const PAST: u16 = 1;

/// Intermediate places that a packet can name, beside the two bits above.
pub(super) const MOST_PLACES: u32 = TOWARDS as u32;

// The number of a group fits below both: each group has a port to every other one.
const _: () = assert!((TOWARDS as u64 - 1).pow(2) > super::MOST_PORTS);

impl Detour {
    /// No detour.
    pub const NONE: Detour = Detour(0);

    /// It has been at the intermediate place.
    pub const PAST: Detour = Detour(PAST);

    /// Encodes it as a number.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Decodes a number.
    pub fn of_bits(bits: u16) -> Detour {
        Detour(bits)
    }

    /// It travels to a place.
    pub fn towards(place: u32) -> Detour {
        Detour(TOWARDS | place as u16)
    }

    /// The first switch decides whether it goes by a place.
    fn undecided(place: u32) -> Detour {
        Detour(UNDECIDED | place as u16)
    }

    /// The place that it goes to first.
    #[inline]
    pub fn place(self) -> Option<u32> {
        (self.0 & TOWARDS != 0).then_some(u32::from(self.0 & !TOWARDS))
    }

    /// Whether it has been at the intermediate place.
    #[inline]
    pub fn is_past(self) -> bool {
        self.0 == PAST
    }

    /// The place by which it may go, while that is undecided.
    #[inline]
    fn proposed(self) -> Option<u32> {
        (self.0 & UNDECIDED != 0).then_some(u32::from(self.0 & !UNDECIDED))
    }
}

/// The places by which packets may take detours, and the minimal routes between them.
#[derive(Clone, Copy)]
pub(super) enum Between<'a> {
    /// The groups of a dragonfly.
    Groups(&'a Groups),
    /// The switches of a torus, a mesh or a `HyperX`, of which there are this many.
    Switches(&'a NextHops, u32),
}

/// How occupied ports are, as a switch knows it.
struct Occupations<F> {
    /// Whether it knows those of other switches, too.
    are_of_others: bool,
    /// That of a port, from zero on.
    of: F,
}

impl Between<'_> {
    /// How many places there are.
    pub fn count(self) -> u32 {
        match self {
            Between::Groups(groups) => groups.count(),
            Between::Switches(_, count) => count,
        }
    }

    /// The place of a switch.
    #[inline]
    pub fn of_switch(self, switch: u32) -> u32 {
        match self {
            Between::Groups(groups) => groups.group(switch),
            Between::Switches(..) => switch,
        }
    }

    /// The place of a host.
    #[inline]
    pub fn of_host(self, host: u32) -> u32 {
        match self {
            Between::Groups(groups) => groups.group_of_host(host),
            Between::Switches(next_hops, _) => host / next_hops.hosts_per_switch(),
        }
    }

    /// The ports through which a packet may leave a switch on a minimal route to another place.
    #[inline(always)]
    pub fn towards(self, switch: u32, place: u32) -> Choice {
        match self {
            Between::Groups(groups) => groups.towards_group(switch, place),
            Between::Switches(next_hops, _) => {
                next_hops.choice(switch, place * next_hops.hosts_per_switch())
            }
        }
    }

    /// The virtual channel of a packet on its way to a place, behind a port of a switch.
    #[inline]
    pub fn virtual_channel_towards(self, output: SwitchPort, place: u32) -> u8 {
        let SwitchPort { switch, port } = output;
        match self {
            Between::Groups(_) => 0,
            Between::Switches(next_hops, _) => {
                next_hops.virtual_channel(switch, port, place * next_hops.hosts_per_switch())
            }
        }
    }

    /// How many virtual channels a packet has behind it at the intermediate place.
    #[inline]
    pub fn virtual_channels_before(self) -> u8 {
        match self {
            Between::Groups(_) => 1,
            Between::Switches(next_hops, _) => next_hops.virtual_channels(),
        }
    }

    /// The ports through which a packet may leave a switch on a minimal route to a host.
    #[inline(always)]
    fn minimal(self, switch: u32, to: u32) -> Choice {
        match self {
            Between::Groups(groups) => groups.choice(switch, to),
            Between::Switches(next_hops, _) => next_hops.choice(switch, to),
        }
    }

    /// Cables between switches on a minimal route to a host.
    #[inline]
    fn cables(self, switch: u32, to: u32) -> u32 {
        match self {
            Between::Groups(groups) => groups.cables(switch, to),
            Between::Switches(next_hops, _) => {
                next_hops.cables(switch, to / next_hops.hosts_per_switch())
            }
        }
    }

    /// Cables between switches on the route to a host through another place.
    #[inline]
    fn cables_by(self, switch: u32, place: u32, to: u32) -> u32 {
        match self {
            Between::Groups(groups) => groups.cables_by(switch, place, to),
            Between::Switches(next_hops, _) => {
                next_hops.cables(switch, place) + self.cables(place, to)
            }
        }
    }

    /// One of the ports of a choice, each equally likely.
    #[inline(always)]
    fn take(self, choice: Choice, route_state: &mut RouteState) -> u32 {
        let place = choice.first + route_state.rank(choice.count);
        match self {
            Between::Groups(groups) => groups.port(place),
            Between::Switches(next_hops, _) => next_hops.port(place),
        }
    }

    /// The detour of a packet, by a place that is neither its initiator's nor its target's; none where
    /// these are one. `drawn` is random.
    pub fn detour(self, from: u32, to: u32, drawn: u64, is_adaptive: bool) -> Detour {
        let (from, to) = (self.of_host(from), self.of_host(to));
        let Some(others) = self.count().checked_sub(2).filter(|_| from != to) else {
            return Detour::NONE;
        };
        let rank = (((drawn >> 32) * u64::from(others)) >> 32) as u32;
        let (low, high) = (from.min(to), from.max(to));
        let skipped = rank + u32::from(rank >= low);
        let place = skipped + u32::from(skipped >= high);
        if is_adaptive { Detour::undecided(place) } else { Detour::towards(place) }
    }

    /// Whether the route through a place is taken.
    #[inline(never)]
    fn decide(
        self,
        switch: u32,
        to: u32,
        place: u32,
        route_state: RouteState,
        occupations: Occupations<impl Fn(u32) -> u64>,
    ) -> Detour {
        let weigh = |choice, place| {
            let port = self.take(choice, &mut route_state.clone());
            (occupations.of)(match self {
                Between::Groups(groups) if occupations.are_of_others => {
                    groups.way_out(SwitchPort { switch, port }, place)
                }
                _ => port,
            })
        };
        let minimal = weigh(self.minimal(switch, to), self.of_host(to));
        let other = weigh(self.towards(switch, place), place);
        let minimal = minimal * u64::from(self.cables(switch, to));
        let other = other * u64::from(self.cables_by(switch, place, to));
        if minimal <= other { Detour::NONE } else { Detour::towards(place) }
    }
}

impl Routes {
    /// The port by which a packet leaves a switch that may take a detour; `occupied` counts from zero.
    #[inline]
    pub(super) fn detoured(
        &self,
        between: Between<'_>,
        switch: u32,
        to: u32,
        route_state: &mut RouteState,
        occupied: impl Fn(u32) -> u64,
    ) -> u32 {
        // Each arm knows the kind of its places, so that no step asks for it again.
        match between {
            Between::Groups(own) => {
                self.detoured_by(Between::Groups(own), switch, to, route_state, occupied)
            }
            Between::Switches(own, count) => {
                let between = Between::Switches(own, count);
                self.detoured_by(between, switch, to, route_state, occupied)
            }
        }
    }

    #[inline(always)]
    fn detoured_by(
        &self,
        between: Between<'_>,
        switch: u32,
        to: u32,
        route_state: &mut RouteState,
        occupied: impl Fn(u32) -> u64,
    ) -> u32 {
        if let Some(place) = route_state.detour.proposed() {
            let known = Occupations { are_of_others: self.weigh_other_switches(), of: occupied };
            route_state.detour = between.decide(switch, to, place, *route_state, known);
        }
        let detour = route_state.detour;
        match detour.place() {
            Some(place) if place == between.of_switch(switch) => route_state.detour = Detour::PAST,
            Some(place) => return between.take(between.towards(switch, place), route_state),
            None => {}
        }
        between.take(between.minimal(switch, to), route_state)
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;
    use weft_units::Rate;

    use super::super::{FabricSettings, RoutesSettings, Wiring};
    use super::*;

    /// A fabric and, behind a semicolon, its routes.
    fn fabric(text: &str, hosts: u32) -> (Wiring, Routes) {
        let (fabric, rule) = text.split_once(';').expect("a fabric and a rule");
        let fabric: FabricSettings = toml::from_str(fabric).expect(text);
        let wiring = fabric.wiring(hosts, Rate::from_ratio(1, 1000)).expect(text);
        let rule: RoutesSettings = toml::from_str(rule).expect(text);
        let random = Streams::new(1).stream("routes", 0);
        let routes = Routes::new(&rule, &wiring, random).expect(text);
        (wiring, routes)
    }

    fn built(rule: &str) -> (Wiring, Routes) {
        fabric(&format!("dragonfly.hosts_per_router = 2; per_packet = '{rule}'"), 72)
    }

    /// The switches that a packet passes, and the virtual channel of each cable.
    fn passed(
        (wiring, routes): &mut (Wiring, Routes),
        (from, to): (u32, u32),
        occupied: impl Fn(u32) -> u64,
    ) -> (Vec<u32>, Vec<u8>) {
        let mut route_state = routes.depart(from, to);
        let mut switch = wiring.switch_of(wiring.host_port(from));
        let (mut switches, mut virtual_channels) = (vec![switch], Vec::new());
        loop {
            let hop = virtual_channels.len() as u16;
            let port = routes.port(switch, hop, to, &mut route_state, &occupied);
            let super::super::Peer::Port(peer) = wiring.peer(wiring.port(switch, port)) else {
                assert_eq!(wiring.port(switch, port), wiring.host_port(to));
                return (switches, virtual_channels);
            };
            let output = SwitchPort { switch, port };
            virtual_channels.push(routes.virtual_channel(output, to, route_state));
            switch = wiring.switch_of(peer);
            switches.push(switch);
        }
    }

    /// Like `passed`, with the groups (of four routers each) in place of the switches.
    fn way(
        built: &mut (Wiring, Routes),
        ends: (u32, u32),
        occupied: impl Fn(u32) -> u64,
    ) -> (Vec<u32>, Vec<u8>) {
        let (switches, virtual_channels) = passed(built, ends, occupied);
        (switches.iter().map(|switch| switch / 4).collect(), virtual_channels)
    }

    /// From group 1 to group 4: by each of the seven others equally often (chi-square with 6 degrees of
    /// freedom, passed once in a thousand at 22.5), over two cables between groups and at most one in
    /// each group, by channels that never fall.
    #[test]
    fn valiant_goes_by_every_other_group() {
        let mut built = built("valiant");
        let mut counts = [0_u32; 9];
        for number in 0..7_000 {
            let (groups, virtual_channels) =
                way(&mut built, (8 + number % 8, 32 + number / 8 % 8), |_| 0);
            let mut passed = groups.clone();
            passed.dedup();
            assert_eq!((passed.len(), passed[0], passed[2]), (3, 1, 4), "{groups:?}");
            counts[passed[1] as usize] += 1;
            assert!(
                virtual_channels.is_sorted() && virtual_channels.len() <= 5,
                "{virtual_channels:?}"
            );
            for (virtual_channel, ends) in virtual_channels.iter().zip(groups.windows(2)) {
                let group = passed.iter().position(|own| *own == ends[0]).expect("a group");
                assert_eq!(
                    usize::from(*virtual_channel),
                    group,
                    "{groups:?}: {virtual_channels:?}"
                );
            }
        }
        assert_eq!((counts[1], counts[4]), (0, 0));
        let square = |count: &u32| (f64::from(*count) - 1_000.0).powi(2) / 1_000.0;
        let chi_square: f64 = counts.iter().filter(|count| **count > 0).map(square).sum();
        assert!(chi_square < 22.5, "{chi_square} {counts:?}");
        // Within a group, from router to router.
        assert_eq!(way(&mut built, (8, 15), |_| 0).0, [1, 1]);
    }

    /// Buffers are laid out for as many virtual channels as routes say that they need: another one would be
    /// that of the next port.
    #[test]
    fn no_packet_uses_a_virtual_channel_beyond_those_that_its_routes_need() {
        let fabrics = [
            ("mesh.dimensions = [3, 4]", 12),
            ("torus.dimensions = [3, 4]", 12),
            ("torus.dimensions = [5]", 5),
            ("hyperx.dimensions = [3, 3]", 9),
            ("dragonfly.hosts_per_router = 1", 6),
        ];
        for (text, hosts) in fabrics {
            for rule in ["random", "valiant", "ugal"] {
                let mut built = fabric(&format!("{text}; per_packet = '{rule}'"), hosts);
                let needed = built.1.virtual_channels();
                for number in 0..20 * hosts * hosts {
                    let pair = (number % hosts, number / hosts % hosts);
                    // Some queues are long, so that UGAL takes detours, too.
                    let (_, used) = passed(&mut built, pair, |port| u64::from(number * port % 7));
                    assert!(used.iter().all(|own| *own < needed), "{text}, {rule}: {used:?}");
                }
            }
        }
    }

    /// Host 0 is at the router with the cables to groups 1 and 2. To host 8 of group 1 it is that cable
    /// and one within the group: 2 times what waits at port 5, against 2 to 5 times what waits at the
    /// port to the intermediate group.
    #[test]
    fn ugal_weighs_queues_with_lengths() {
        let mut built = built("ugal");
        let mut passes = |occupied: &dyn Fn(u32) -> u64| {
            let mut passed = way(&mut built, (0, 8), occupied).0;
            passed.dedup();
            passed.len()
        };
        for _ in 0..100 {
            assert_eq!(passes(&|_| 0), 2, "nothing waits");
            assert_eq!(passes(&|_| 9), 2, "as much everywhere");
            assert_eq!(passes(&|port| u64::from(port == 5)), 3, "only on the minimal route");
            assert_eq!(passes(&|port| if port == 5 { 100 } else { 30 }), 3, "more than 5 times 30");
            assert_eq!(passes(&|port| if port == 5 { 100 } else { 101 }), 2, "less than twice 101");
        }
    }

    /// A router has seven ports, its cables to other groups at 5 and 6. From router 0 to group 3
    /// the minimal route leaves the group at port 5 of router 1; from router 1 to group 1, at port
    /// 5 of router 0.
    #[test]
    fn ugal_with_global_knowledge_weighs_the_cables_that_leave_the_group() {
        let mut built = built("ugal_global");
        let mut passes = |pair: (u32, u32), occupied: &dyn Fn(u32) -> u64| {
            let mut passed = way(&mut built, pair, occupied).0;
            passed.dedup();
            passed.len()
        };
        let back = 5_u32.wrapping_sub(7);
        for _ in 0..100 {
            for (pair, cable) in [((0, 25), 7 + 5), ((2, 9), back)] {
                assert_eq!(passes(pair, &|_| 9), 2, "as much everywhere");
                assert_eq!(passes(pair, &|port| u64::from(port == cable)), 3, "only on that cable");
                assert_eq!(passes(pair, &|port| u64::from(port != cable)), 2, "on all others");
                let is_within = |port: u32| u64::from((2..5).contains(&port));
                assert_eq!(passes(pair, &is_within), 2, "on the way to that router");
            }
        }
    }

    #[test]
    fn lengths_are_those_of_minimal_routes() {
        let (wiring, mut routes) = built("random");
        let Some((between, _)) = wiring.next_hops().between() else { panic!("a dragonfly") };
        for (from, to) in (0..72).flat_map(|from| (0..72).map(move |to| (from, to))) {
            let mut route_state = routes.depart(from, to);
            let (mut switch, mut cables) = (from / 2, 0);
            while switch != to / 2 {
                let port = routes.port(switch, 0, to, &mut route_state, |_| 0);
                let super::super::Peer::Port(peer) = wiring.peer(wiring.port(switch, port)) else {
                    panic!("{from} to {to}")
                };
                switch = wiring.switch_of(peer);
                cables += 1;
            }
            assert_eq!(between.cables(from / 2, to), cables, "{from} to {to}");
        }
    }

    /// Between two switches of a complete graph of eight, each of the six others is as likely (chi-square
    /// with 5 degrees of freedom, passed once in a thousand at 20.5), the first cable has the first
    /// virtual channel, and the second the other one.
    #[test]
    fn valiant_goes_by_every_other_switch_of_a_row() {
        let mut built = fabric(
            "hyperx = { dimensions = [8], hosts_per_switch = 2 }; per_packet = 'valiant'",
            16,
        );
        assert_eq!(built.1.virtual_channels(), 2);
        let mut counts = [0_u32; 8];
        for _ in 0..6_000 {
            let (switches, virtual_channels) = passed(&mut built, (2, 13), |_| 0);
            let [1, between, 6] = switches[..] else { panic!("{switches:?}") };
            assert_eq!(virtual_channels, [0, 1]);
            counts[between as usize] += 1;
        }
        assert_eq!((counts[1], counts[6]), (0, 0));
        let square = |count: &u32| (f64::from(*count) - 1_000.0).powi(2) / 1_000.0;
        let chi_square: f64 = counts.iter().filter(|count| **count > 0).map(square).sum();
        assert!(chi_square < 20.5, "{chi_square} {counts:?}");
        assert_eq!(passed(&mut built, (2, 3), |_| 0).0, [1], "between hosts of one switch");
    }

    /// In a torus of six by four, a route through a switch has the cables of both its halves, never
    /// a channel below one that it had, and at the intermediate place it changes to the upper two
    /// of four.
    #[test]
    fn valiant_crosses_a_torus_in_two_minimal_halves() {
        let mut built = fabric(
            "torus = { dimensions = [6, 4], hosts_per_switch = 2 }; per_packet = 'valiant'",
            48,
        );
        assert_eq!(built.1.virtual_channels(), 4);
        let next_hops = built.0.next_hops().clone();
        for number in 0..5_000_u32 {
            let pair = (number * 7 % 48, (number * 11 + 5) % 48);
            if pair.0 / 2 == pair.1 / 2 {
                continue;
            }
            let (switches, virtual_channels) = passed(&mut built, pair, |_| 0);
            let half = virtual_channels.iter().take_while(|own| **own < 2).count();
            let between = switches[half];
            let (first, last) = (switches[0], switches[switches.len() - 1]);
            assert!(![first, last].contains(&between), "{switches:?}");
            assert_eq!(half as u32, next_hops.cables(first, between), "{switches:?}");
            let rest = (virtual_channels.len() - half) as u32;
            assert_eq!(rest, next_hops.cables(between, last), "{switches:?}");
            assert!(virtual_channels[half..].iter().all(|own| *own >= 2), "{virtual_channels:?}");
        }
    }

    /// Host 0 to host 2 of a complete graph of four: one cable, port 2, against two by port 3 or 4.
    /// The minimal route is taken until what waits there is more than twice what waits on the
    /// other.
    #[test]
    fn ugal_weighs_one_cable_against_two() {
        let mut built =
            fabric("hyperx = { dimensions = [4], hosts_per_switch = 2 }; per_packet = 'ugal'", 8);
        let mut cables =
            |occupied: &dyn Fn(u32) -> u64| passed(&mut built, (0, 2), occupied).1.len();
        for _ in 0..100 {
            assert_eq!(cables(&|_| 0), 1, "nothing waits");
            assert_eq!(cables(&|port| if port == 2 { 60 } else { 30 }), 1, "twice 30");
            assert_eq!(cables(&|port| if port == 2 { 61 } else { 30 }), 2, "more than twice 30");
        }
    }

    #[test]
    fn fabrics_with_nothing_in_between_refuse_detours() {
        let cases = [
            ("k_ary_tree = { arity = 2, levels = 3 }", 8_u32),
            ("hyperx = { dimensions = [2], hosts_per_switch = 2 }", 4),
            ("torus = { dimensions = [256, 128], hosts_per_switch = 1 }", 8),
        ];
        for (fabric, hosts) in cases {
            let fabric: FabricSettings = toml::from_str(fabric).expect(fabric);
            let wiring = fabric.wiring(hosts, Rate::from_ratio(1, 1000)).expect("a fabric");
            for rule in ["valiant", "ugal"] {
                let rule: RoutesSettings =
                    toml::from_str(&format!("per_packet = '{rule}'")).expect(rule);
                let random = Streams::new(1).stream("routes", 0);
                let error = Routes::new(&rule, &wiring, random).expect_err("no intermediate place");
                assert!(error.accepted.contains("an intermediate group or switch"), "{error:?}");
            }
        }
    }
}
