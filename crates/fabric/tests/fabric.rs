//! Wirings and the ways through them: every topology is held to the same laws, and what cannot be
//! is refused with the names involved.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use proptest::prelude::*;
use serde::Deserialize;
use weft_fabric::fabric::{FabricSettings, Peer, RouteState, Routes, RoutesSettings, Wiring};
use weft_fabric::link::LinkSettings;
use weft_kernel::Streams;
use weft_units::Rate;

/// Of the channel: 1 Gbit/s.
const RATE: Rate = Rate::from_ratio(1, 1000);

#[derive(Deserialize)]
struct Channel {
    fabric: FabricSettings,
    #[serde(default)]
    routes: RoutesSettings,
}

fn channel(text: &str) -> Channel {
    toml::from_str(text).expect(text)
}

fn wiring(text: &str, hosts: u16) -> Wiring {
    channel(text).fabric.wiring(hosts, RATE).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refusal(text: &str, hosts: u16) -> String {
    let channel = channel(text);
    let error = match channel.fabric.wiring(hosts, RATE) {
        Err(error) => error,
        Ok(wiring) => {
            let random = Streams::new(1).stream("routes", 0);
            Routes::new(&channel.routes, &wiring, random).expect_err("a refusal")
        }
    };
    error.to_string()
}

fn routes(text: &str, wiring: &Wiring, seed: u64) -> Routes {
    let random = Streams::new(seed).stream("routes", 0);
    Routes::new(&channel(text).routes, wiring, random).unwrap()
}

/// The switches on the way of one packet. Panics if it visits one twice or does not arrive.
fn path(wiring: &Wiring, routes: &mut Routes, from: u16, to: u16) -> Vec<u32> {
    let mut route_state: RouteState = routes.depart(from, to);
    let mut switch = wiring.switch_of(wiring.host_port(from));
    let mut path = vec![switch];
    loop {
        let hop = path.len() as u16 - 1;
        let number = routes.port(switch, hop, to, &mut route_state, |_| 0);
        assert!(number < wiring.ports_of(switch), "{from} to {to}: {path:?}, port {number}");
        match wiring.peer(wiring.port(switch, number)) {
            Peer::Host(host) => {
                assert_eq!(host, u32::from(to), "{path:?}");
                return path;
            }
            Peer::Port(peer) => switch = wiring.switch_of(peer),
            Peer::Unused => panic!("{from} to {to}: {path:?} leads to an unused port"),
        }
        assert!(!path.contains(&switch), "{from} to {to}: {path:?} visits {switch} twice");
        path.push(switch);
    }
}

/// Every cable has two ends that know each other, and every host one cable.
fn check_cables(wiring: &Wiring) {
    let mut hosts = 0;
    for port in 0..wiring.ports() {
        match wiring.peer(port) {
            Peer::Port(peer) => assert_eq!(wiring.peer(peer), Peer::Port(port)),
            Peer::Host(host) => {
                assert_eq!(wiring.host_port(host), port);
                hosts += 1;
            }
            Peer::Unused => {}
        }
    }
    assert_eq!(hosts, wiring.hosts());
}

/// Topologies with hosts, switches and the most switches on a way.
const FABRICS: &[(&str, u16, u32, usize)] = &[
    ("fabric = 'star'", 16, 1, 1),
    ("fabric.k_ary_tree = { arity = 4, levels = 1 }", 4, 1, 1),
    ("fabric.k_ary_tree = { arity = 4, levels = 3 }", 64, 48, 5),
    ("fabric.k_ary_tree = { arity = 3, levels = 4 }", 81, 108, 7),
    ("fabric.k_ary_tree = { arity = 2, levels = 5 }", 23, 80, 9),
    ("fabric.fat_tree = { radix = 8, tiers = 2 }", 32, 12, 3),
    ("fabric.fat_tree = { radix = 6, tiers = 3 }", 54, 45, 5),
    ("fabric.fat_tree = { radix = 2, tiers = 3 }", 2, 5, 5),
    ("fabric = 'folded_tree'", 64, 40, 5),
    ("fabric.leaf_spine = { hosts_per_leaf = 6, leaves = 4, spines = 3 }", 24, 7, 3),
    ("fabric.leaf_spine = { hosts_per_leaf = 5, leaves = 3, spines = 1 }", 12, 4, 3),
    ("fabric.leaf_spine = { hosts_per_leaf = 6, leaves = 4, oversubscription = '3:1' }", 24, 6, 3),
    ("fabric.leaf_spine = { hosts_per_leaf = 3, leaves = 4, spines = 2, rails = 2 }", 12, 6, 3),
    ("fabric.leaf_spine = { hosts_per_leaf = 3, leaves = 6, spines = 2, rails = 3 }", 16, 8, 3),
    (
        "fabric.leaf_spine = { hosts_per_leaf = 3, leaves = 4, spines = 2, rails = 2, in_server = {} }",
        12,
        14,
        5,
    ),
    ("fabric.leaf_spine = { hosts_per_leaf = 3, leaves = 4, rails = 4, in_server = {} }", 12, 7, 3),
    ("fabric.fat_tree = { radix = 8, tiers = 2, oversubscription = '3:1' }", 48, 10, 3),
    ("fabric.fat_tree = { radix = 8, tiers = 3, oversubscription = '3:1' }", 192, 56, 5),
    ("fabric.hyperx.dimensions = [5]", 5, 5, 2),
    ("fabric.hyperx = { dimensions = [4, 3], hosts_per_switch = 2, order = 'any' }", 20, 12, 3),
    ("fabric.hyperx = { dimensions = [3, 2, 2], parallel_cables = [2, 1, 3] }", 12, 12, 4),
    ("fabric.dragonfly.hosts_per_router = 1", 6, 6, 4),
    ("fabric.dragonfly.hosts_per_router = 2", 72, 36, 4),
    ("fabric.dragonfly = { hosts_per_router = 2, groups = 3 }", 24, 12, 3),
    ("fabric.dragonfly = { hosts_per_router = 2, groups = 4 }", 30, 16, 4),
    (
        "fabric.dragonfly = { hosts_per_router = 3, routers_per_group = 1, \
         global_links_per_router = 2 }",
        9,
        3,
        2,
    ),
];

#[test]
fn every_way_arrives_and_visits_no_switch_twice() {
    for &(text, hosts, switches, longest) in FABRICS {
        let wiring = wiring(text, hosts);
        assert_eq!(wiring.switches(), switches, "{text}");
        check_cables(&wiring);
        for rule in ["per_packet = 'random'", "per_packet = 'adaptive'"] {
            let mut routes = routes(&format!("{text}\nroutes.{rule}"), &wiring, 1);
            let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
            let hops = pairs.map(|(from, to)| path(&wiring, &mut routes, from, to).len());
            assert_eq!(hops.max(), Some(longest), "{text}");
        }
    }
}

/// What is connected to each port of a switch.
fn ends(wiring: &Wiring, switch: &str) -> Vec<String> {
    let switch = wiring.switch_named(switch).expect(switch);
    let end = |number| match wiring.peer(wiring.port(switch, number)) {
        Peer::Port(peer) => wiring.port_name(peer),
        Peer::Host(host) => wiring.host_name(host),
        Peer::Unused => "nothing".to_owned(),
    };
    (0..wiring.ports_of(switch)).map(end).collect()
}

#[test]
fn every_leaf_has_a_cable_to_every_spine() {
    let wiring = wiring("fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 3, spines = 2 }", 6);
    let leaf = ["host 2", "host 3", "port 1 of switch 1.0", "port 1 of switch 1.1"];
    assert_eq!(ends(&wiring, "0.1"), leaf);
    let spine = [0, 1, 2].map(|leaf| format!("port 3 of switch 0.{leaf}"));
    assert_eq!(ends(&wiring, "1.1"), spine);
    assert_eq!(wiring.tiers(), [1, 1, 1, 2, 2]);
}

/// The example of Kim et al. 2008, Figure 5: p = h = 2 and a = 4 give 9 groups, 36 routers and 72
/// hosts. Cable 7 of group 0 is the second one of its router 3, and leads 8 groups further.
#[test]
fn the_canonical_dragonfly_has_nine_groups() {
    let wiring = wiring("fabric.dragonfly.hosts_per_router = 2", 72);
    assert_eq!((wiring.switches(), wiring.ports()), (36, 36 * 7));
    let first = [
        "host 0",
        "host 1",
        "port 2 of switch 0.1",
        "port 2 of switch 0.2",
        "port 2 of switch 0.3",
        "port 6 of switch 1.3",
        "port 5 of switch 2.3",
    ];
    assert_eq!(ends(&wiring, "0.0"), first);
    let last = [
        "host 6",
        "host 7",
        "port 4 of switch 0.0",
        "port 4 of switch 0.1",
        "port 4 of switch 0.2",
        "port 6 of switch 7.0",
        "port 5 of switch 8.0",
    ];
    assert_eq!(ends(&wiring, "0.3"), last);
    let mut joined = vec![0; 81];
    for port in 0..wiring.ports() {
        let Peer::Port(peer) = wiring.peer(port) else { continue };
        let (one, other) = (wiring.switch_of(port), wiring.switch_of(peer));
        assert_ne!(one, other);
        joined[(one / 4 * 9 + other / 4) as usize] += 1;
    }
    for (one, other) in (0..9).flat_map(|one| (0..9).map(move |other| (one, other))) {
        // In a group every router has a cable to the other three.
        assert_eq!(joined[9 * one + other], if one == other { 12 } else { 1 }, "{one}, {other}");
    }
}

/// Four groups of 8 cables: two to each of the other three, and two without an end.
#[test]
fn fewer_groups_share_the_cables_of_a_dragonfly() {
    let wiring = wiring("fabric.dragonfly = { hosts_per_router = 2, groups = 4 }", 32);
    let ends = |router: u32| ends(&wiring, &format!("0.{router}")).split_off(5);
    assert_eq!(ends(0), ["port 5 of switch 1.1", "port 6 of switch 2.0"]);
    assert_eq!(ends(1), ["port 5 of switch 3.0", "port 6 of switch 1.2"]);
    assert_eq!(ends(2), ["port 5 of switch 2.2", "port 6 of switch 3.1"]);
    assert_eq!(ends(3), ["nothing", "nothing"]);
}

/// Hosts over a first kind of cable, and each tier behind it over one of its own.
#[test]
fn tiers_have_links_of_their_own() {
    let links = "links = [{ rate = '1 Gbit/s' }, { rate = '2 Gbit/s' }, { rate = '4 Gbit/s' }]";
    let two = links.replace(", { rate = '4 Gbit/s' }", "");
    let link: LinkSettings = toml::from_str("rate = '8 Gbit/s'").unwrap();
    let leaf_spine = "fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 3, spines = 2";
    let dragonfly = "fabric.dragonfly = { hosts_per_router = 2";
    for (text, hosts, tiers) in [
        (format!("{leaf_spine}, {two} }}"), 6, [1, 2, 2]),
        (format!("{dragonfly}, {links} }}"), 72, [1, 2, 4]),
    ] {
        assert!(channel(&text).fabric.has_own_cables());
        let wiring = wiring(&text, hosts);
        let kinds = wiring.links(&link);
        for port in 0..wiring.ports() {
            let group =
                |switch: u32| wiring.bare_name(switch).split_once('.').map(|own| own.0.to_owned());
            let tier = match wiring.peer(port) {
                Peer::Host(_) => 0,
                Peer::Port(peer) => {
                    let ends = [port, peer].map(|port| group(wiring.switch_of(port)));
                    if ends[0] == ends[1] { 1 } else { 2 }
                }
                Peer::Unused => panic!("{text}: port {port}"),
            };
            let rate = kinds[wiring.link_of(port)].rate.to_string();
            assert_eq!(
                rate,
                format!("{} Gbit/s", tiers[tier]),
                "{text}: {}",
                wiring.port_name(port)
            );
        }
    }
}

/// Leaf up-port p leads to middle 4*pod+p, middle i's up-port p to top 4*i+p.
#[test]
fn the_4_ary_3_tree_is_wired_as_its_definition_says() {
    let wiring = wiring(FABRICS[2].0, 64);
    let leads_to = |switch: &str, port: u32| {
        let switch = wiring.switch_named(switch).expect(switch);
        let Peer::Port(peer) = wiring.peer(wiring.port(switch, port)) else { panic!("{switch}") };
        wiring.port_name(peer)
    };
    for (pod, index, up) in (0..64).map(|n| (n / 16, n / 4 % 4, n % 4)) {
        let own = 4 * pod + index;
        let middle = format!("port {index} of switch 1.{}", 4 * pod + up);
        assert_eq!(leads_to(&format!("0.{own}"), 4 + up), middle);
        let top = format!("port {pod} of switch 2.{}", 4 * index + up);
        assert_eq!(leads_to(&format!("1.{own}"), 4 + up), top);
    }
}

/// The checks of the reconstruction: node 18 at switch 5 under 21, port 3 of switch 36 leads to
/// 21 and port 2 to 18, node 10 at switch 3; node 1 by 1, 17 and 34.
#[test]
fn the_folded_tree_has_the_papers_numbers() {
    let text = "fabric = 'folded_tree'";
    let wiring = wiring(text, 64);
    let switch = |number: &str| wiring.switch_named(number).unwrap();
    let at = |node: u16| wiring.switch_name(wiring.switch_of(wiring.host_port(node - 1)));
    assert_eq!((at(18), at(10), at(1)), ("switch 5".into(), "switch 3".into(), "switch 1".into()));
    let by = |number: &str, port: u32| {
        let Peer::Port(peer) = wiring.peer(wiring.port(switch(number), port - 1)) else {
            panic!("{number}")
        };
        wiring.switch_name(wiring.switch_of(peer))
    };
    assert_eq!((by("36", 3), by("36", 2)), ("switch 21".into(), "switch 18".into()));
    assert_eq!(
        (by("1", 5), by("17", 6), by("21", 1)),
        ("switch 17".into(), "switch 34".into(), "switch 5".into())
    );
    let given = format!(
        "{text}\n[[routes.per_connection.given]]\nfrom = 63\nto = 17\n\
         switches = ['16', '30', '36', '21', '5']"
    );
    let mut routes = routes(&given, &wiring, 1);
    let names: Vec<String> = path(&wiring, &mut routes, 63, 17)
        .into_iter()
        .map(|switch| wiring.switch_name(switch))
        .collect();
    assert_eq!(names, ["switch 16", "switch 30", "switch 36", "switch 21", "switch 5"]);
}

#[test]
fn a_connection_keeps_its_way_and_packets_take_all_of_them() {
    let text = FABRICS[2].0;
    let wiring = wiring(text, 64);
    let ways = |rule: &str, seed| {
        let mut routes = routes(&format!("{text}\nroutes.{rule}"), &wiring, seed);
        let mut ways: Vec<Vec<u32>> =
            (0..2_000).map(|_| path(&wiring, &mut routes, 3, 60)).collect();
        ways.sort();
        ways.dedup();
        ways
    };
    // Four middles, and four tops over each.
    assert_eq!(ways("per_packet = 'random'", 1).len(), 16);
    assert_eq!(ways("per_connection = 'random'", 1).len(), 1);
    assert_eq!(ways("per_connection = 'hashed'", 1), ways("per_connection = 'hashed'", 2));
    let of_seeds: Vec<_> = (0..20).map(|seed| ways("per_connection = 'random'", seed)).collect();
    assert!(of_seeds.iter().any(|way| *way != of_seeds[0]));
}

/// The tops are equally likely: chi-square with 15 degrees of freedom, passed once in a thousand
/// at 37.7, for packets and for hashed connections.
#[test]
fn ways_are_equally_likely() {
    let text = FABRICS[2].0;
    let wiring = wiring(text, 64);
    for rule in ["per_packet = 'random'", "per_connection = 'hashed'"] {
        let mut routes = routes(&format!("{text}\nroutes.{rule}"), &wiring, 1);
        let mut tops = [0_u32; 16];
        let far = (0..64_u16).flat_map(|from| (0..64).map(move |to| (from, to)));
        for (from, to) in far.filter(|(from, to)| from / 16 != to / 16) {
            tops[path(&wiring, &mut routes, from, to)[2] as usize - 32] += 1;
        }
        let expected = f64::from(tops.iter().sum::<u32>()) / 16.0;
        let square = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
        let chi_square: f64 = tops.iter().map(square).sum();
        assert!(chi_square < 37.7, "{rule}: {chi_square} {tops:?}");
    }
}

#[test]
fn an_adaptive_packet_takes_the_least_occupied_port() {
    let text = format!("{}\nroutes.per_packet = 'adaptive'", FABRICS[2].0);
    let wiring = wiring(&text, 64);
    let mut routes = routes(&text, &wiring, 1);
    for least in 4..8 {
        let mut route_state = routes.depart(0_u32, 63_u32);
        let occupied = |port| if port == least { 7 } else { 8 };
        assert_eq!(routes.port(0, 0, 63_u32, &mut route_state, occupied), least);
    }
}

const TWO: &str = "[fabric.table]\n\
    switches = [{ name = 'a', ports = 3 }, { name = 'b', ports = 2 }]\n\
    cables = [\n\
    { from = 'host 0', to = 'a.0' }, { from = 'a.1', to = 'host 1' },\n\
    { from = 'a.2', to = 'b.0' }, { from = 'b.1', to = 'host 2' }]";

#[test]
fn a_table_is_what_it_lists() {
    let wiring = wiring(TWO, 3);
    check_cables(&wiring);
    let mut routes = routes(TWO, &wiring, 1);
    assert_eq!(path(&wiring, &mut routes, 0, 2), [0, 1]);
    assert_eq!(path(&wiring, &mut routes, 2, 1), [1, 0]);
    assert_eq!(path(&wiring, &mut routes, 0, 1), [0]);
}

/// Every refusal names what is wrong and what would be right.
#[test]
fn wirings_that_cannot_be_are_refused_by_name() {
    let edited = |from: &str, to: &str| refusal(&TWO.replace(from, to), 3);
    let rails = |own: &str| {
        refusal(&format!("fabric.leaf_spine = {{ hosts_per_leaf = 2, leaves = 6, {own} }}"), 12)
    };
    let cases = [
        (
            rails("spines = 1, rails = 4"),
            "fabric.leaf_spine.rails = 4: accepted is a divisor of leaves = 6: each group has a leaf a rail",
        ),
        (
            rails("spines = 1, in_server = {}"),
            "fabric.leaf_spine.in_server = given: accepted is it only with rails, which tell how many \
             hosts a server has",
        ),
        (
            rails("rails = 6, spines = 2, in_server = {}"),
            "fabric.leaf_spine.spines = 2: accepted is none where each rail has one leaf, and servers join \
             the rails",
        ),
        (
            rails("rails = 3, in_server = {}"),
            "fabric.leaf_spine.spines = (none): accepted is a number of spines, or an oversubscription \
             such as \"3:1\"",
        ),
        (
            edited("ports = 2 }", "ports = 3 }"),
            "fabric.table.switches = dangling port 2 of switch b: accepted is a cable in it, or its \
             number among the `unused` of its switch",
        ),
        (
            edited("'a.1', to = 'host 1'", "'a.2', to = 'host 1'"),
            "fabric.table.cables = a.2 with a cable to host 1 and one to b.0: accepted is one \
             cable in each port",
        ),
        (
            edited("'host 2'", "'host 1'"),
            "fabric.table.cables = host 1 with a cable to a.1 and one to b.1: accepted is one \
             cable in each port",
        ),
        (
            edited(
                "{ name = 'b', ports = 2 }",
                "{ name = 'b', ports = 2, unused = [0] }, { name = 'c', ports = 1 }",
            )
            .replace("b.0", "c.0"),
            "fabric.table.switches = unused port 0 of switch b with a cable in it: accepted is a \
             port without a cable",
        ),
        (
            refusal(
                &TWO.replace("'b', ports = 2 }", "'b', ports = 2, unused = [0] }")
                    .replace("'a', ports = 3 }", "'a', ports = 3, unused = [2] }")
                    .replace("{ from = 'a.2', to = 'b.0' }, ", ""),
                3,
            ),
            "fabric.table.cables = host 2 at switch b, out of reach of host 0 at switch a: \
             accepted is cables by which every host reaches every other",
        ),
        (
            refusal(&TWO.replace("'a.1', to = 'host 1'", "'a.1', to = 'host 3'"), 4),
            "hosts = 4: accepted is at most 3, the ports for hosts of the table",
        ),
        (
            refusal(
                &TWO.replace("'b', ports = 2 }", "'b', ports = 2, unused = [1] }")
                    .replace(", { from = 'b.1', to = 'host 2' }", ""),
                3,
            ),
            "fabric.table.cables = host 2 without a cable: accepted is a cable from every host to \
             a switch",
        ),
        (edited("'a.2'", "'c.2'"), "fabric.table.cables = c.2: accepted is a port of a, b"),
        (edited("'a.2'", "'a.3'"), "fabric.table.cables = a.3: accepted is a port below 3"),
        (
            refusal("fabric.k_ary_tree = { arity = 4, levels = 3 }", 65),
            "hosts = 65: accepted is at most 64, the ports for hosts of a 4-ary 3-tree",
        ),
        (
            refusal("fabric.fat_tree = { radix = 4, tiers = 3 }", 17),
            "hosts = 17: accepted is at most 16, the ports for hosts of a fat tree of 3 tiers of \
             4-port switches",
        ),
        (
            refusal("fabric.fat_tree = { radix = 5, tiers = 2 }", 4),
            "fabric.fat_tree.radix = 5: accepted is an even number with which all switches have at \
             most 4194304 ports",
        ),
        (
            refusal("fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 3, spines = 2 }", 7),
            "hosts = 7: accepted is at most 6, the ports for hosts of 3 leaves with 2 hosts each",
        ),
        (
            refusal("fabric.leaf_spine = { hosts_per_leaf = 65535, leaves = 3, spines = 2 }", 7),
            "fabric.leaf_spine.hosts_per_leaf = 65535: accepted is a number with which a leaf has at \
             most 65536 ports, spines included",
        ),
        (
            refusal(
                "fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 3, spines = 2, \
                 links = [{}, {}, {}] }",
                6,
            ),
            "fabric.leaf_spine.links = 3 entries: accepted is at most 2, one for each tier from that \
             of the hosts on",
        ),
        (
            refusal("fabric.dragonfly.hosts_per_router = 2", 73),
            "hosts = 73: accepted is at most 72, the ports for hosts of a dragonfly of 9 groups of 4 \
             routers",
        ),
        (
            refusal("fabric.dragonfly = { hosts_per_router = 2, groups = 10 }", 4),
            "fabric.dragonfly.groups = 10: accepted is 2 to 9, one more than a group has cables to \
             others",
        ),
        (
            refusal("fabric.dragonfly.hosts_per_router = 30000", 4),
            "fabric.dragonfly.hosts_per_router = 30000: accepted is a number with which a router has \
             at most 65536 ports, one for each host, other router of its group and cable to other \
             groups",
        ),
        (
            refusal("fabric.dragonfly.hosts_per_router = 40", 4),
            "fabric.dragonfly.groups = 3201: accepted is so few that all routers have at most \
             4194304 ports",
        ),
        (
            refusal("fabric.k_ary_tree = { arity = 1, levels = 2 }", 4),
            "fabric.k_ary_tree.arity = 1: accepted is 2 to 32768, half of the ports of a switch",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn given_routes_that_cannot_be_are_refused_by_name() {
    let given = |switches: &str| {
        refusal(
            &format!(
                "fabric.k_ary_tree = {{ arity = 2, levels = 2 }}\n\
                 [[routes.per_connection.given]]\nfrom = 0\nto = 3\nswitches = [{switches}]"
            ),
            4,
        )
    };
    let by = "routes.per_connection.given = host 0 to host 3 by";
    let cases = [
        ("'0.0', '1.0', '0.0', '1.1', '0.1'", "a route that visits switch 0.0 once"),
        ("'0.0', '0.1'", "a cable between switch 0.0 and switch 0.1"),
        ("'1.0', '0.1'", "a route that begins at switch 0.0, where host 0 is"),
        ("'0.0', '1.0'", "a route that ends at switch 0.1, where host 3 is"),
        ("'0.0', 'x', '0.1'", "a name of a switch instead of x"),
    ];
    for (switches, accepted) in cases {
        let listed = switches.replace('\'', "");
        assert_eq!(given(switches), format!("{by} {listed}: accepted is {accepted}"));
    }
}

#[test]
fn an_end_that_is_none_is_refused() {
    let text = TWO.replace("'a.2'", "'a'");
    let error = toml::from_str::<Channel>(&text).err().expect("a refusal");
    let expected = "`a` is not the end of a cable; accepted: \"host 3\", or \"a.2\" for port 2 of \
                    switch a";
    assert_eq!(error.message(), expected);
}

/// A random connected wiring: switch `n` has a cable to a random earlier one, some more cables
/// close cycles, and every switch has a host.
fn random_table(links: &[usize], more: &[(usize, usize)]) -> (String, u16) {
    let switches = links.len() + 1;
    let mut used = vec![0; switches];
    let mut take = |switch: usize| {
        used[switch] += 1;
        format!("s{switch}.{}", used[switch] - 1)
    };
    let mut cables = Vec::new();
    for switch in 0..switches {
        cables.push(format!("{{ from = 'host {switch}', to = '{}' }}", take(switch)));
    }
    for (index, link) in links.iter().enumerate() {
        let (one, other) = (take(index + 1), take(link % (index + 1)));
        cables.push(format!("{{ from = '{one}', to = '{other}' }}"));
    }
    for (one, other) in more.iter().map(|(one, other)| (one % switches, other % switches)) {
        if one != other {
            let (one, other) = (take(one), take(other));
            cables.push(format!("{{ from = '{one}', to = '{other}' }}"));
        }
    }
    let list = |(name, ports): (usize, &u32)| format!("{{ name = 's{name}', ports = {ports} }}");
    let listed: Vec<String> = used.iter().enumerate().map(list).collect();
    let (listed, cables) = (listed.join(", "), cables.join(",\n"));
    let text = format!("[fabric.table]\nswitches = [{listed}]\ncables = [{cables}]");
    (text, switches as u16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Ways through any connected wiring arrive without visiting a switch twice, whatever chooses.
    #[test]
    fn ways_through_random_tables_arrive(
        links in prop::collection::vec(0_usize..100, 0..12),
        more in prop::collection::vec((0_usize..100, 0_usize..100), 0..8),
        rule in prop::sample::select(vec![
            "per_packet = 'random'", "per_packet = 'adaptive'", "per_connection = 'hashed'",
        ]),
        seed in any::<u64>(),
    ) {
        let (text, hosts) = random_table(&links, &more);
        let wiring = wiring(&text, hosts);
        check_cables(&wiring);
        let mut routes = routes(&format!("routes.{rule}\n{text}"), &wiring, seed);
        for (from, to) in (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to))) {
            path(&wiring, &mut routes, from, to);
        }
    }
}
