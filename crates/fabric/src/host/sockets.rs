//! The time to connect two programs before they send anything (SCILAN 3.3 and 3.4).

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::misfit::Misfit;
use weft_protocol::sci_address::node_of;
use weft_units::{Bytes, PositiveCount, Span};

/// Sockets of a library that sets up connections over the channel itself: the first message between
/// two hosts requests a connection and waits until it is accepted. Requests and responses pass
/// hosts and channel like messages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SocketsSettings {
    /// Payload of a request for a connection, and of a response.
    pub request: Bytes,
    /// The time of a test-and-set in another host's memory, more than "0 ns". A listening socket
    /// has one receiver for all requests; a requester locks it, and retries after this time while
    /// another one holds it. Unlocking is a store, which takes half of it (SCILAN 3.4).
    pub lock: Span,
    /// The time that the driver of each side needs to map the buffer of the other side (SCILAN
    /// 2.2).
    pub map: Span,
    /// How many requests may wait at a host until its program accepts them. Further ones are
    /// refused.
    pub backlog: PositiveCount,
    /// When programs begin to accept, counted from the beginning of the run.
    #[serde(default)]
    pub accept_from: Span,
    /// Hosts without a listening program: they refuse requests.
    #[serde(default)]
    pub without_listener: Vec<u16>,
    /// Addresses that differ from the default. By default host 0 is 192.168.0.1, host 1
    /// 192.168.0.2, and so on, 254 to a network. An address outside 192.168.0.0 to 192.168.255.255
    /// names no node, and messages to it and from it are left to the ordinary protocol stack.
    #[serde(default)]
    pub addresses: Vec<AddressSettings>,
}

/// The address of a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddressSettings {
    /// The host.
    pub host: u16,
    /// Its address.
    pub address: Ipv4Addr,
}

impl SocketsSettings {
    /// The address that the name of a host is mapped to.
    pub fn address(&self, host: u16) -> Ipv4Addr {
        let given = self.addresses.iter().find(|own| own.host == host);
        given.map_or_else(
            || {
                let (network, place) = (host / 254, host % 254 + 1);
                Ipv4Addr::new(192, 168, network as u8, place as u8)
            },
            |own| own.address,
        )
    }

    /// The number of the adapter of a host, the first 16 bits of what is in its memory; none if its
    /// address belongs to the ordinary stack.
    pub fn node(&self, host: u16) -> Option<u16> {
        node_of(self.address(host))
    }

    /// What does not fit, if anything.
    pub(super) fn misfit(&self) -> Option<Misfit> {
        if self.lock == Span::ZERO {
            return Some(Misfit::new("lock", self.lock, "more than 0 ns"));
        }
        let twice = self.addresses.iter().enumerate().find(|(place, own)| {
            let earlier = &self.addresses[..*place];
            earlier.iter().any(|other| other.host == own.host || other.address == own.address)
        });
        let (_, own) = twice?;
        let value = format!("{} of host {}", own.address, own.host);
        Some(Misfit::new("addresses", value, "each host and each address once"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(more: &str) -> SocketsSettings {
        let text = format!("request = '64 B'\nlock = '2 us'\nmap = '30 us'\nbacklog = 5\n{more}");
        toml::from_str(&text).expect("legal settings")
    }

    /// 254 hosts to a network: neither .0 nor .255 names a node.
    #[test]
    fn every_host_has_a_node_of_its_own() {
        let settings = settings("");
        assert_eq!(settings.address(0), Ipv4Addr::new(192, 168, 0, 1));
        assert_eq!(settings.address(254), Ipv4Addr::new(192, 168, 1, 1));
        let mut nodes: Vec<u16> = (0..2000).filter_map(|host| settings.node(host)).collect();
        nodes.dedup();
        assert_eq!(nodes.len(), 2000);
        assert_eq!(settings.node(3), Some(4));
    }

    #[test]
    fn an_address_of_the_ordinary_stack_names_no_node() {
        let settings = settings("addresses = [{ host = 3, address = '129.240.64.1' }]");
        assert_eq!((settings.node(3), settings.node(2)), (None, Some(3)));
        assert!(settings.misfit().is_none());
    }

    #[test]
    fn what_could_not_be_told_apart_is_refused() {
        let one = "{ host = 3, address = '192.168.0.9' }";
        let other = "{ host = 4, address = '192.168.0.9' }";
        let twice = settings(&format!("addresses = [{one}, {other}]")).misfit().expect("refused");
        assert_eq!((&*twice.key, &*twice.value), ("addresses", "192.168.0.9 of host 4"));
        let free = SocketsSettings { lock: Span::ZERO, ..settings("") };
        assert_eq!(free.misfit().map(|misfit| misfit.key), Some("lock".into()));
    }
}
