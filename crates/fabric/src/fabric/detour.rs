//! Routes through an intermediate group, which a dragonfly needs if the traffic between two groups
//! exceeds what their cables carry.
//!
//! *Valiant*: a packet to another group goes by a third one, each equally likely, on a minimal way
//! there and from there on (Valiant and Brebner, "Universal schemes for parallel communication", STOC
//! 1981; for groups Kim, Dally, Scott and Abts, ISCA 2008, section 4.1). *UGAL-L* ("universal
//! globally-adaptive load-balanced" with local knowledge) decides at the first router between that and
//! the minimal way: it takes the minimal one unless what waits there, times its length, is more than
//! what waits on the other, times the length of that.
//!
//! A packet on its way to the group in between uses the first virtual channel, and behind it those of a
//! minimal way one further: three in all.

use super::dragonfly::Groups;
use super::next_hops::Choice;
use super::routes::{RouteState, Routes};

/// State of a packet's detour: none, undecided or towards a group, or past that group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Detour(u16);

const UNDECIDED: u16 = 1 << 15;
const TOWARDS: u16 = 1 << 14;
const PAST: u16 = 1;

// The number of a group fits below both: each group has a port to every other one.
const _: () = assert!((TOWARDS as u64 - 1).pow(2) > super::MOST_PORTS);

impl Detour {
    /// It takes none.
    pub const NONE: Detour = Detour(0);

    /// It has been in the group in between.
    pub const PAST: Detour = Detour(PAST);

    /// The same as a number.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// That of a number.
    pub fn of_bits(bits: u16) -> Detour {
        Detour(bits)
    }

    /// It is on its way to a group.
    fn towards(group: u32) -> Detour {
        Detour(TOWARDS | group as u16)
    }

    /// The first router decides whether it goes by a group.
    fn undecided(group: u32) -> Detour {
        Detour(UNDECIDED | group as u16)
    }

    /// The group that it goes to first.
    #[inline]
    fn group(self) -> Option<u32> {
        self.is_towards().then_some(u32::from(self.0 & !TOWARDS))
    }

    /// Whether it is on its way to the group in between.
    #[inline]
    pub fn is_towards(self) -> bool {
        self.0 & TOWARDS != 0
    }

    /// One if it has been in the group in between, otherwise zero.
    #[inline]
    pub fn is_past(self) -> u8 {
        u8::from(self.0 == PAST)
    }

    /// The group by which it may go, while that is undecided.
    #[inline]
    fn proposed(self) -> Option<u32> {
        (self.0 & UNDECIDED != 0).then_some(u32::from(self.0 & !UNDECIDED))
    }
}

impl Detour {
    /// The detour of a packet, by a group that is neither its initiator's nor its target's; none within
    /// a group. `drawn` is random.
    pub fn of(groups: &Groups, from: u32, to: u32, drawn: u64, is_adaptive: bool) -> Detour {
        let (from, to) = (groups.group_of_host(from), groups.group_of_host(to));
        let Some(others) = groups.count().checked_sub(2).filter(|_| from != to) else {
            return Detour::NONE;
        };
        let place = (((drawn >> 32) * u64::from(others)) >> 32) as u32;
        let (low, high) = (from.min(to), from.max(to));
        let skipped = place + u32::from(place >= low);
        let group = skipped + u32::from(skipped >= high);
        if is_adaptive { Detour::undecided(group) } else { Detour::towards(group) }
    }
}

impl Routes {
    /// The port by which a packet leaves a router that may take a detour; `occupied` counts from zero.
    #[inline(never)]
    pub(super) fn detoured(
        &self,
        groups: &Groups,
        (switch, to): (u32, u32),
        route_state: &mut RouteState,
        occupied: impl Fn(u32) -> u64,
    ) -> u32 {
        let detour = route_state.detour;
        if let Some(group) = detour.proposed() {
            route_state.detour = decide(groups, (switch, to), group, *route_state, occupied);
        }
        let detour = route_state.detour;
        match detour.group() {
            Some(group) if group == groups.group(switch) => route_state.detour = Detour::PAST,
            Some(group) => return take(groups, groups.towards_group(switch, group), route_state),
            None => {}
        }
        take(groups, groups.choice(switch, to), route_state)
    }
}

/// Whether the way by a group is taken.
fn decide(
    groups: &Groups,
    (switch, to): (u32, u32),
    group: u32,
    route_state: RouteState,
    occupied: impl Fn(u32) -> u64,
) -> Detour {
    let port = |choice| take(groups, choice, &mut route_state.clone());
    let minimal = occupied(port(groups.choice(switch, to)));
    let other = occupied(port(groups.towards_group(switch, group)));
    let lengths = (groups.cables(switch, to), groups.cables_by(switch, group, to));
    let (minimal, other) = (minimal * u64::from(lengths.0), other * u64::from(lengths.1));
    if minimal <= other { Detour::NONE } else { Detour::towards(group) }
}

/// One of the ports of a choice, each equally likely.
#[inline]
fn take(groups: &Groups, choice: Choice, route_state: &mut RouteState) -> u32 {
    groups.port(choice.first + route_state.rank(choice.count))
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;
    use weft_units::Rate;

    use super::super::{FabricSettings, RoutesSettings, Wiring};
    use super::*;

    fn built(rule: &str) -> (Wiring, Routes) {
        let fabric: FabricSettings =
            toml::from_str("dragonfly.hosts_per_router = 2").expect("a fabric");
        let wiring = fabric.wiring(72_u32, Rate::from_ratio(1, 1000)).expect("a dragonfly");
        let rule: RoutesSettings = toml::from_str(&format!("per_packet = '{rule}'")).expect(rule);
        let random = Streams::new(1).stream("routes", 0);
        let routes = Routes::new(&rule, &wiring, random).expect("routes");
        (wiring, routes)
    }

    /// The groups that a packet passes, and the virtual channel of each cable.
    fn way(
        (wiring, routes): &mut (Wiring, Routes),
        (from, to): (u32, u32),
        occupied: impl Fn(u32) -> u64,
    ) -> (Vec<u32>, Vec<u8>) {
        let mut route_state = routes.depart(from, to);
        let mut switch = wiring.switch_of(wiring.host_port(from));
        let (mut groups, mut virtual_channels) = (vec![switch / 4], Vec::new());
        loop {
            let hop = virtual_channels.len() as u16;
            let port = routes.port((switch, hop), to, &mut route_state, &occupied);
            let super::super::Peer::Port(peer) = wiring.peer(wiring.port(switch, port)) else {
                assert_eq!(wiring.port(switch, port), wiring.host_port(to));
                return (groups, virtual_channels);
            };
            virtual_channels.push(routes.virtual_channel((switch, port), to, route_state));
            switch = wiring.switch_of(peer);
            groups.push(switch / 4);
        }
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

    /// Host 0 is at the router with the cables to groups 1 and 2. To host 8 of group 1 it is that cable
    /// and one within the group: 2 times what waits at port 5, against 2 to 5 times what waits at the
    /// port to the group in between.
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
            assert_eq!(passes(&|port| u64::from(port == 5)), 3, "only on the minimal way");
            assert_eq!(passes(&|port| if port == 5 { 100 } else { 30 }), 3, "more than 5 times 30");
            assert_eq!(passes(&|port| if port == 5 { 100 } else { 101 }), 2, "less than twice 101");
        }
    }

    #[test]
    fn lengths_are_those_of_minimal_ways() {
        let (wiring, mut routes) = built("random");
        let super::super::next_hops::NextHops::Dragonfly(groups) = wiring.next_hops().clone()
        else {
            panic!("a dragonfly")
        };
        for (from, to) in (0..72).flat_map(|from| (0..72).map(move |to| (from, to))) {
            let mut route_state = routes.depart(from, to);
            let (mut switch, mut cables) = (from / 2, 0);
            while switch != to / 2 {
                let port = routes.port((switch, 0), to, &mut route_state, |_| 0);
                let super::super::Peer::Port(peer) = wiring.peer(wiring.port(switch, port)) else {
                    panic!("{from} to {to}")
                };
                switch = wiring.switch_of(peer);
                cables += 1;
            }
            assert_eq!(groups.cables(from / 2, to), cables, "{from} to {to}");
        }
    }
}
