//! Leaves whose hosts are those of one place in their servers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use weft_fabric::fabric::{FabricSettings, Peer, Routes, RoutesSettings, Wiring};
use weft_fabric::link::LinkSettings;
use weft_kernel::Streams;
use weft_units::Rate;

fn fabric(leaf_spine: &str) -> FabricSettings {
    toml::from_str(&format!("leaf_spine = {{ hosts_per_leaf = 2, leaves = 4, {leaf_spine} }}"))
        .unwrap()
}

fn wiring(leaf_spine: &str) -> Wiring {
    fabric(leaf_spine).wiring(8_u32, Rate::from_ratio(1, 1000)).unwrap()
}

/// What is connected to each port of a switch.
fn ends(wiring: &Wiring, switch: &str) -> Vec<String> {
    let switch = wiring.switch_named(switch).unwrap();
    let end = |number| match wiring.peer(wiring.port(switch, number)) {
        Peer::Port(peer) => wiring.port_name(peer),
        Peer::Host(host) => wiring.host_name(host),
        Peer::Unused => "nothing".to_owned(),
    };
    (0..wiring.ports_of(switch)).map(end).collect()
}

/// How many switches packets pass from one host to others.
fn hops(wiring: &Wiring, from: u32, to: [u32; 4]) -> [usize; 4] {
    let rule: RoutesSettings = toml::from_str("per_connection = 'hashed'").unwrap();
    let mut routes = Routes::new(&rule, wiring, Streams::new(1).stream("routes", 0)).unwrap();
    to.map(|to| routes.path(wiring, from, to).unwrap().len())
}

/// Two groups of a leaf for each of two rails, each with the hosts of two servers: host 5 is the second one
/// of server 2, which is the first of the second group.
#[test]
fn hosts_of_equal_place_in_their_servers_meet_at_a_leaf() {
    let wiring = wiring("spines = 1, rails = 2");
    for (leaf, hosts) in [("0.0", [0, 2]), ("0.1", [1, 3]), ("0.2", [4, 6]), ("0.3", [5, 7])] {
        let mut expected = hosts.map(|host| format!("host {host}")).to_vec();
        expected.push(format!("port {} of switch 1.0", &leaf[2..]));
        assert_eq!(ends(&wiring, leaf), expected);
    }
    assert_eq!(hops(&wiring, 0, [2, 1, 4, 5]), [1, 3, 3, 3]);
}

/// The same servers with a switch in each: packets within a server pass only that switch, and packets
/// that change the rail do so there. The rails have spines of their own.
#[test]
fn rails_meet_in_servers_that_have_a_switch() {
    let in_server = "spines = 1, rails = 2, in_server = { rate = '4 Gbit/s' }";
    assert!(fabric(in_server).has_own_cables());
    let wiring = wiring(&format!("{in_server}, links = [{{}}, {{ rate = '2 Gbit/s' }}]"));
    let server = ["host 4", "host 5", "port 0 of switch 1.2", "port 0 of switch 1.3"];
    assert_eq!(ends(&wiring, "0.2"), server);
    assert_eq!(ends(&wiring, "2.1"), ["port 2 of switch 1.1", "port 2 of switch 1.3"]);
    let link: LinkSettings = toml::from_str("rate = '1 Gbit/s'").unwrap();
    let rate = |switch: &str, number| {
        let port = wiring.port(wiring.switch_named(switch).unwrap(), number);
        wiring.links(&link)[wiring.link_of(port)].rate.to_string()
    };
    let rates = [rate("0.2", 0), rate("0.2", 2), rate("1.2", 2)];
    assert_eq!(rates, ["4 Gbit/s", "1 Gbit/s", "2 Gbit/s"]);
    assert_eq!(hops(&wiring, 4, [5, 6, 7, 0]), [1, 3, 3, 5]);
}

/// Where servers join rails of one leaf each there are no spines, so that nothing may be said of them.
#[test]
fn what_is_said_of_spines_that_there_are_not_is_refused() {
    let one_group = "rails = 4, in_server = { rate = '4 Gbit/s' }";
    let refused = |rest: &str| {
        let built = fabric(&format!("{one_group}{rest}")).wiring(8_u32, Rate::from_ratio(1, 1000));
        built.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(refused(", links = [{ rate = '2 Gbit/s' }]"), Ok(()));
    for (rest, key) in [
        (", spines = 2", "fabric.leaf_spine.spines"),
        (", oversubscription = '3:1'", "fabric.leaf_spine.oversubscription"),
        (", links = [{}, { rate = '2 Gbit/s' }]", "fabric.leaf_spine.links"),
    ] {
        let said = refused(rest).expect_err(rest);
        assert!(said.contains(key), "{said}");
    }
}
