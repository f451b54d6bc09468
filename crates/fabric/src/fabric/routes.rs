//! How a packet is routed through a fabric.

use std::ops::Range;
use std::sync::Arc;

use weft_kernel::Stream;
use weft_units::Time;

use super::detour::{Between, Detour, MOST_PLACES};
use super::error::FabricError;
use super::live::LivePlanes;
use super::next_hops::{Choice, NextHops};
use super::pairs::{HostPair, SwitchPort};
use super::wiring::{Peer, Wiring};

mod settings;

pub use settings::{ConnectionRoutes, GivenRoute, PacketRoutes, RoutesSettings};

/// The route state of a packet, in six bytes: with the other fields that a switch needs, a packet then
/// fits into sixteen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed(2))]
pub struct RouteState {
    /// The remaining randomness of its choices among ports, as a fraction of 2^32. With given routes
    /// the first bit says whether the route of the packet is listed; if so, the other bits are its
    /// position in the list of ports.
    left: u32,
    pub(super) detour: Detour,
}

impl RouteState {
    /// The state of a packet between hosts of one switch, which has no choice.
    pub const DIRECT: RouteState = RouteState { left: 0, detour: Detour::NONE };

    /// The state as a number, for another process.
    pub fn bits(self) -> u64 {
        u64::from(self.left) | u64::from(self.detour.bits()) << 32
    }

    /// The inverse of [`bits`](Self::bits).
    pub fn of_bits(bits: u64) -> RouteState {
        RouteState { left: bits as u32, detour: Detour::of_bits((bits >> 32) as u16) }
    }

    fn new(left: u32) -> RouteState {
        RouteState { left, detour: Detour::NONE }
    }

    /// The state of a packet that has no choices left.
    pub(super) fn after(detour: Detour) -> RouteState {
        RouteState { left: 0, detour }
    }

    /// Chooses a number below `count`, each equally likely.
    #[inline]
    pub(super) fn rank(&mut self, count: u32) -> u32 {
        let wide = u64::from(self.left) * u64::from(count);
        self.left = wide as u32;
        (wide >> 32) as u32
    }
}

/// The first bit of a route state whose route is given.
const OWN: u32 = 1 << 31;

/// The routes of a channel.
#[derive(Clone, Debug)]
pub struct Routes {
    next_hops: NextHops,
    rule: Rule,
    /// The state of each host's random generator, if packets choose.
    random: Vec<u64>,
    /// The host of the first of these.
    first: u32,
    /// The routes that are given, in the order of their hosts.
    given: Vec<Listed>,
    /// The ports of all listed routes, concatenated.
    ports: Vec<u32>,
    /// Which planes still lead to which hosts, if some no longer do.
    planes: Option<Arc<LivePlanes>>,
}

/// A route that is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    pair: HostPair,
    /// The plane of its switches.
    plane: u32,
    /// The place of its first port.
    first: u32,
}

/// A listed route, for those who follow it.
pub(super) struct ListedRoute<'a> {
    pub pair: HostPair,
    /// The plane of its switches.
    pub plane: u32,
    /// The ports of the route, one in each switch, which those of other routes may follow.
    pub ports: &'a [u32],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The choice follows from both hosts and a key.
    Connection {
        key: u64,
    },
    /// As listed; routes that are not listed are hashed without a key.
    Given,
    Packet,
    Adaptive,
    Valiant,
    Ugal,
    UgalGlobal,
}

const GIVEN: &str = "routes.per_connection.given";

impl Routes {
    /// The routes through `wiring`. `random` decides what is random.
    pub fn new(
        settings: &RoutesSettings,
        wiring: &Wiring,
        mut random: Stream,
    ) -> Result<Routes, FabricError> {
        let mut given = Vec::new();
        let mut ports = Vec::new();
        let rule = match settings {
            RoutesSettings::PerPacket(own) => own.rule(wiring)?,
            RoutesSettings::PerConnection(ConnectionRoutes::Random) => {
                Rule::Connection { key: random.bits() }
            }
            RoutesSettings::PerConnection(ConnectionRoutes::Hashed) => Rule::Connection { key: 0 },
            RoutesSettings::PerConnection(ConnectionRoutes::Given(routes)) => {
                for route in routes {
                    let (plane, own) = route.ports(wiring)?;
                    let pair = HostPair { from: route.from, to: route.to };
                    given.push(Listed { pair, plane, first: ports.len() as u32 });
                    ports.extend(own);
                }
                given.sort_unstable();
                Rule::Given
            }
        };
        if let Some(two) = given.windows(2).find(|two| two[0].pair == two[1].pair) {
            let HostPair { from, to } = two[0].pair;
            let value = format!("two routes from host {from} to host {to}");
            return Err(FabricError::new(GIVEN, value, "one route for a connection"));
        }
        // Each host has its own random state, so that its choices do not depend on when others
        // send.
        let random = match rule {
            Rule::Connection { .. } | Rule::Given => Vec::new(),
            _ => (0..wiring.hosts()).map(|_| random.bits()).collect(),
        };
        let next_hops = wiring.next_hops().clone();
        Ok(Routes { next_hops, rule, random, first: 0, given, ports, planes: None })
    }

    /// The routes of a part of a fabric in which only these hosts send.
    #[must_use]
    pub fn of_hosts(&self, hosts: Range<u32>) -> Routes {
        let own = (hosts.start - self.first) as usize..(hosts.end - self.first) as usize;
        let random = self.random.get(own).unwrap_or_default().to_vec();
        let Routes { next_hops, given, ports, planes, .. } = self;
        Routes {
            next_hops: next_hops.clone(),
            rule: self.rule,
            random,
            first: hosts.start,
            given: given.clone(),
            ports: ports.clone(),
            planes: planes.clone(),
        }
    }

    pub(super) fn next_hops(&self) -> &NextHops {
        &self.next_hops
    }

    pub(super) fn set_next_hops(&mut self, next_hops: NextHops) {
        self.next_hops = next_hops;
    }

    pub(super) fn set_planes(&mut self, planes: Option<Arc<LivePlanes>>) {
        self.planes = planes;
    }

    /// Which planes still lead to which hosts; `None` if all of them lead to every host.
    #[inline]
    pub fn planes_left(&self) -> Option<&Arc<LivePlanes>> {
        self.planes.as_ref()
    }

    /// Whether each packet chooses among the ports that lead to its target, or each connection.
    pub fn choose_among_ports(&self) -> bool {
        matches!(self.rule, Rule::Packet | Rule::Adaptive | Rule::Connection { .. })
    }

    /// The listed routes.
    pub(super) fn given(&self) -> impl Iterator<Item = ListedRoute<'_>> {
        self.given.iter().map(|own| {
            let ports = &self.ports[own.first as usize..];
            ListedRoute { pair: own.pair, plane: own.plane, ports }
        })
    }

    /// The route of a connection, if it is listed.
    fn listed(&self, from: u32, to: u32) -> Option<Listed> {
        let place = self.given.binary_search_by_key(&HostPair { from, to }, |own| own.pair).ok()?;
        Some(self.given[place])
    }

    /// Whether the route of a connection is listed.
    pub(super) fn is_given(&self, from: u32, to: u32) -> bool {
        self.listed(from, to).is_some()
    }

    /// The plane through which the listed route of a connection leads, or the first one.
    pub(super) fn listed_plane(&self, from: u32, to: u32) -> u32 {
        self.listed(from, to).map_or(0, |own| own.plane)
    }

    /// Whether all packets from one host to another take the same route.
    pub fn is_per_connection(&self) -> bool {
        matches!(self.rule, Rule::Connection { .. } | Rule::Given)
    }

    /// Whether packets choose at random among several routes, in a fabric with this many switches
    /// and hosts.
    pub fn draws_ways(&self, switches: u32, hosts: u32) -> bool {
        let is_open = |switch| (0..hosts).any(|host| self.next_hops.choice(switch, host).count > 1);
        match self.rule {
            Rule::Connection { .. } | Rule::Given => false,
            Rule::Packet | Rule::Adaptive => (0..switches).any(is_open),
            Rule::Valiant | Rule::Ugal | Rule::UgalGlobal => true,
        }
    }

    /// How many virtual channels a packet needs, one after another along its route, so that buffers
    /// that wait for each other never form a cycle: two where dimensions are rings or groups are
    /// left, one for each dimension where these come in any order, and, where packets take detours,
    /// as many as a route to the intermediate place needs on top.
    pub fn virtual_channels(&self) -> u8 {
        let between = self.next_hops.between().filter(|_| self.takes_detours());
        let before = between.map_or(0, |(between, _)| between.virtual_channels_before());
        before + self.next_hops.virtual_channels()
    }

    /// Which of them the packet uses on the cable behind the chosen port of a switch.
    #[inline]
    pub fn virtual_channel(
        &self,
        output: SwitchPort,
        to: impl Into<u32>,
        route_state: RouteState,
    ) -> u8 {
        let SwitchPort { switch, port } = output;
        let (detour, mut before) = (route_state.detour, 0);
        if detour != Detour::NONE
            && let Some((between, plane)) = self.next_hops.between()
        {
            if let Some(place) = detour.place() {
                let output = SwitchPort { switch: in_plane(switch, plane), port };
                return between.virtual_channel_towards(output, place);
            }
            if detour.is_past() {
                before = between.virtual_channels_before();
            }
        }
        before + self.next_hops.virtual_channel(switch, port, to.into())
    }

    /// Whether packets may go through an intermediate place.
    #[inline]
    pub(super) fn takes_detours(&self) -> bool {
        matches!(self.rule, Rule::Valiant | Rule::Ugal | Rule::UgalGlobal)
    }

    /// What to subtract from the occupation of a port, which is given as the instant at which the port
    /// will be free. UGAL multiplies occupations, so that an idle port must count as zero; other rules
    /// only compare them.
    #[inline]
    pub fn idle(&self, now: Time) -> u64 {
        if self.is_adaptive_detour() { now.0 } else { 0 }
    }

    /// Whether the first switch decides about a detour.
    #[inline]
    fn is_adaptive_detour(&self) -> bool {
        matches!(self.rule, Rule::Ugal | Rule::UgalGlobal)
    }

    /// Whether a switch has to know how occupied the ports of other switches are.
    #[inline]
    pub fn weigh_other_switches(&self) -> bool {
        self.rule == Rule::UgalGlobal
    }

    /// The class of a connection, below `classes`.
    #[inline]
    pub fn class(from: impl Into<u32>, to: impl Into<u32>, classes: u8) -> u8 {
        match classes {
            1 => 0,
            _ => (mix(connection(from.into(), to.into())) % u64::from(classes)) as u8,
        }
    }

    /// The route state of a packet that departs.
    #[inline]
    pub fn depart(&mut self, from: impl Into<u32>, to: impl Into<u32>) -> RouteState {
        let from = from.into();
        match self.rule {
            Rule::Packet | Rule::Adaptive => {
                RouteState::new((draw(&mut self.random[(from - self.first) as usize]) >> 32) as u32)
            }
            _ => self.set_out(from, to.into()),
        }
    }

    /// Like [`depart`](Self::depart), for a packet of a flow. Where the packets of a connection take
    /// the same route, each flow is a connection of its own, as where switches hash the ports of
    /// transports (ECMP), and so is each value of `spray`, by which an initiator sprays its packets.
    #[inline]
    pub fn depart_flow(&mut self, from: u32, to: u32, flow: u32, spray: u16) -> RouteState {
        match self.rule {
            Rule::Connection { key } => {
                let name = u64::from(flow) | u64::from(spray) << 32;
                let own = mix(connection(from, to)) ^ mix(!name);
                RouteState::new(mix(key ^ own) as u32)
            }
            _ => self.depart(from, to),
        }
    }

    /// The plane in which a packet leaves its host. Where all packets of a connection take the same route they keep
    /// to one plane, that of the listed route or a hashed one. Otherwise packets take the plane whose port is least
    /// `occupied`, of equal ones the next from `turn` on. A plane that no longer leads to the target is avoided as
    /// long as another one does.
    pub fn plane(
        &self,
        planes: u32,
        pair: HostPair,
        turn: u32,
        occupied: impl Fn(u32) -> u64,
    ) -> u32 {
        let HostPair { from, to } = pair;
        let key = match self.rule {
            Rule::Connection { key } => key,
            Rule::Given => match self.listed(from, to) {
                Some(own) => return own.plane,
                None => 0,
            },
            _ => {
                let left = self.planes.as_deref();
                let ranks = (turn..planes).chain(0..turn);
                let ranks = ranks.filter(|plane| left.is_none_or(|own| own.admits(*plane, pair)));
                // The first of equal ones, as `min_by_key` promises.
                return ranks.min_by_key(|plane| occupied(*plane)).unwrap_or_default();
            }
        };
        // Not the number that determines the ports of its route.
        let drawn = mix(!key ^ mix(connection(from, to)));
        let own = (drawn % u64::from(planes)) as u32;
        self.planes.as_deref().map_or(own, |left| left.instead(own, pair, mix(drawn)))
    }

    /// Like [`depart`](Self::depart), for rules that need more than one random number.
    #[inline(never)]
    fn set_out(&mut self, from: u32, to: u32) -> RouteState {
        let connection = connection(from, to);
        match self.rule {
            Rule::Packet | Rule::Adaptive | Rule::Valiant | Rule::Ugal | Rule::UgalGlobal => {
                self.detour(from, to)
            }
            Rule::Connection { key } => RouteState::new(mix(key ^ mix(connection)) as u32),
            Rule::Given => match self.listed(from, to) {
                Some(own) => RouteState::new(OWN | own.first),
                None => RouteState::new(mix(mix(connection)) as u32 >> 1),
            },
        }
    }

    /// The route state of a packet that may take a detour.
    fn detour(&mut self, from: u32, to: u32) -> RouteState {
        let random = &mut self.random[(from - self.first) as usize];
        let (left, drawn) = ((draw(random) >> 32) as u32, draw(random));
        let detour = match self.next_hops.between() {
            Some((between, _)) => between.detour(from, to, drawn, self.is_adaptive_detour()),
            None => Detour::NONE,
        };
        RouteState { left, detour }
    }

    /// Whether the port by which a packet leaves a switch follows from the packet alone, and not from what waits.
    #[inline]
    pub fn look_at_packets_alone(&self) -> bool {
        matches!(self.rule, Rule::Packet | Rule::Connection { .. })
    }

    /// The port by which a packet for `to` leaves `switch`, after `hop` other switches. `occupied`
    /// returns the occupation of a port less [`idle`](Self::idle), and adaptive packets take the
    /// least occupied port. If routes [weigh other switches](Self::weigh_other_switches), it is
    /// queried for ports of these as well: a port is numbered from the first one of this switch,
    /// modulo 2^32 if it comes before that one.
    #[inline(always)]
    pub fn port(
        &self,
        switch: u32,
        hop: u16,
        to: impl Into<u32>,
        route_state: &mut RouteState,
        occupied: impl Fn(u32) -> u64,
    ) -> u32 {
        let to = to.into();
        if !self.look_at_packets_alone() {
            return self.weighed(switch, hop, to, route_state, occupied);
        }
        self.next_hops.next(switch, to, |count| route_state.rank(count))
    }

    /// Like [`port`](Self::port), where that [follows from a packet alone](Self::look_at_packets_alone); `None`
    /// elsewhere.
    #[inline(always)]
    pub fn port_of_packet(
        &self,
        switch: u32,
        to: u32,
        route_state: &mut RouteState,
    ) -> Option<u32> {
        let follows = self.look_at_packets_alone();
        follows.then(|| self.next_hops.next(switch, to, |count| route_state.rank(count)))
    }

    /// Like [`port`](Self::port), for rules that look at listed routes or at the occupation of
    /// ports.
    #[inline(never)]
    fn weighed(
        &self,
        switch: u32,
        hop: u16,
        to: u32,
        route_state: &mut RouteState,
        occupied: impl Fn(u32) -> u64,
    ) -> u32 {
        let left = route_state.left;
        if self.rule == Rule::Given && left & OWN != 0 {
            return self.ports[(left ^ OWN) as usize + usize::from(hop)];
        }
        if self.takes_detours()
            && let Some((between, plane)) = self.next_hops.between()
        {
            let switch = in_plane(switch, plane);
            return self.detoured(between, switch, to, route_state, occupied);
        }
        let choice = self.next_hops.choice(switch, to);
        if choice.count == 1 {
            return self.next_hops.port(choice.first);
        }
        if self.rule == Rule::Adaptive {
            let rank = route_state.rank(choice.count);
            return self.least(choice, rank, occupied);
        }
        // The first bit says that the route is not listed.
        route_state.left = left << 1;
        let rank = route_state.rank(choice.count);
        route_state.left >>= 1;
        self.next_hops.port(choice.first + rank)
    }

    /// The least occupied port; of equally occupied ones the one of `rank` or the next after it,
    /// cyclically.
    fn least(&self, choice: Choice, rank: u32, occupied: impl Fn(u32) -> u64) -> u32 {
        let ranks = (rank..choice.count).chain(0..rank);
        let ports = ranks.map(|rank| self.next_hops.port(choice.first + rank));
        // The first of equal ones, as `min_by_key` promises.
        ports.min_by_key(|port| occupied(*port)).unwrap_or_default()
    }
}

impl PacketRoutes {
    fn rule(self, wiring: &Wiring) -> Result<Rule, FabricError> {
        let between = wiring.next_hops().between().map(|(between, _)| between);
        let places = between.map_or(0, Between::count);
        let has_detours = (3..=MOST_PLACES).contains(&places);
        let has_groups = has_detours && matches!(between, Some(Between::Groups(_)));
        match self {
            PacketRoutes::Random => Ok(Rule::Packet),
            PacketRoutes::Adaptive => Ok(Rule::Adaptive),
            PacketRoutes::Valiant if has_detours => Ok(Rule::Valiant),
            PacketRoutes::Ugal if has_detours => Ok(Rule::Ugal),
            PacketRoutes::UgalGlobal if has_groups => Ok(Rule::UgalGlobal),
            PacketRoutes::UgalGlobal => {
                let accepted = "ugal, or a dragonfly of three groups or more, since it assumes \
                                that routers know the queues of all cables that leave their group";
                Err(FabricError::new("routes.per_packet", self.name(), accepted))
            }
            PacketRoutes::Valiant | PacketRoutes::Ugal => {
                let accepted = format!(
                    "random or adaptive, or a dragonfly of three groups or more, or a torus, mesh \
                     or hyperx of 3 to {MOST_PLACES} switches, which have an intermediate group or \
                     switch"
                );
                Err(FabricError::new("routes.per_packet", self.name(), accepted))
            }
        }
    }
}

/// The number of a switch in its plane, which has so many. Most fabrics have one plane, in which
/// that takes no division.
#[inline]
fn in_plane(switch: u32, switches: u32) -> u32 {
    if switch < switches { switch } else { switch % switches }
}

/// A number for each pair of hosts.
#[inline]
fn connection(from: u32, to: u32) -> u64 {
    // The upper half of a large target uses bits that are zero for small hosts.
    let low = u64::from(from) << 16 | u64::from(to & 0xffff);
    low ^ u64::from(to >> 16) << 48
}

/// The next number of a host (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014): eight bytes a host, where a [`Stream`] has some hundred.
#[inline]
fn draw(state: &mut u64) -> u64 {
    let drawn = mix(*state);
    *state = state.wrapping_add(GAMMA);
    drawn
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads what differs in a few bits over all of them (the finaliser of `SplitMix64`; Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(GAMMA);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

impl GivenRoute {
    /// The plane of the switches, and the ports of the route, one in each switch.
    fn ports(&self, wiring: &Wiring) -> Result<(u32, Vec<u32>), FabricError> {
        let GivenRoute { from, to, switches } = self;
        for host in [*from, *to] {
            if host >= wiring.hosts() {
                let accepted = format!("a host below {}", wiring.hosts());
                return Err(FabricError::new(GIVEN, format!("host {host}"), accepted));
            }
        }
        let (initiator, target) = (wiring.host_name(*from), wiring.host_name(*to));
        let whole = format!("{initiator} to {target} by {}", switches.join(", "));
        let refuse = |accepted: String| Err(FabricError::new(GIVEN, &whole, accepted));
        let mut path = Vec::new();
        for name in switches {
            let Some(switch) = wiring.switch_named(name) else {
                return refuse(format!("a name of a switch instead of {name}"));
            };
            if path.contains(&switch) {
                return refuse(format!("a route that visits {} once", wiring.switch_name(switch)));
            }
            path.push(switch);
        }
        // All of them are in the plane of the first, since no cable leads from one plane to another.
        let per_plane = wiring.switches() / wiring.planes();
        let plane = path.first().map_or(0, |first| first / per_plane);
        let port_of = |host: u32| wiring.host_port(plane * wiring.hosts() + host);
        let at = |host: u32| wiring.switch_of(port_of(host));
        if path.first() != Some(&at(*from)) {
            let home = wiring.switch_name(at(*from));
            return refuse(format!("a route that begins at {home}, where {initiator} is"));
        }
        if path.last() != Some(&at(*to)) {
            let home = wiring.switch_name(at(*to));
            return refuse(format!("a route that ends at {home}, where {target} is"));
        }
        let mut ports = Vec::new();
        for pair in path.windows(2) {
            let (own, next) = (pair[0], pair[1]);
            let leads = |port: &u32| {
                matches!(wiring.peer(wiring.port(own, *port)),
                    Peer::Port(peer) if wiring.switch_of(peer) == next)
            };
            let Some(port) = (0..wiring.ports_of(own)).find(leads) else {
                let (own, next) = (wiring.switch_name(own), wiring.switch_name(next));
                return refuse(format!("a cable between {own} and {next}"));
            };
            ports.push(port);
        }
        ports.push(port_of(*to) - wiring.port(at(*to), 0));
        Ok((plane, ports))
    }
}
