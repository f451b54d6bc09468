//! Endpoints and virtual networks of Active Messages 2.0 (Clint 3.1).
//!
//! An endpoint is where a program meets the network: a name and a table of handlers. A collection
//! of endpoints is a virtual network, a protection domain of its own: its members send only to each
//! other, and see nothing of what others send. Membership is checked on both sides, since an
//! adapter trusts no other.

use std::collections::BTreeMap;

use crate::packet::{EndpointName, HandlerIndex, Message, Payload};

/// The number of a virtual network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkNumber(pub u32);

/// Which endpoint belongs to which virtual network, as the adapters know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VirtualNetworks {
    members: BTreeMap<EndpointName, NetworkNumber>,
}

/// A message that a handler is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<'a> {
    /// The active message.
    pub message: &'a Message,
    /// The payload, of a bulk message.
    pub payload: Option<&'a Payload>,
}

/// The endpoints of one node, and the handlers of each. A handler is any value: a closure, or an
/// index into something that the caller keeps.
#[derive(Clone, Debug)]
pub struct Endpoints<H> {
    node: u16,
    tables: BTreeMap<u16, BTreeMap<HandlerIndex, H>>,
}

/// Why a message is not sent, or not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The endpoint belongs to no virtual network.
    #[error("endpoint {name} belongs to no virtual network")]
    Outsider {
        /// The endpoint.
        name: EndpointName,
    },
    /// Initiator and target belong to different virtual networks.
    #[error(
        "endpoint {target} lies outside of virtual network {}, to which {initiator} belongs",
        .network.0
    )]
    OtherNetwork {
        /// The sender.
        initiator: EndpointName,
        /// The target that the message names.
        target: EndpointName,
        /// The initiator's virtual network.
        network: NetworkNumber,
    },
    /// The message names an endpoint that this node does not have.
    #[error("endpoint {name} is not open on node {node}")]
    NotOpen {
        /// The endpoint.
        name: EndpointName,
        /// The node.
        node: u16,
    },
    /// The endpoint has no handler at this index.
    #[error("endpoint {name} has no handler {}", .handler.0)]
    NoHandler {
        /// The endpoint.
        name: EndpointName,
        /// The index that the message names.
        handler: HandlerIndex,
    },
}

impl VirtualNetworks {
    /// No members.
    pub fn new() -> VirtualNetworks {
        VirtualNetworks::default()
    }

    /// Makes an endpoint a member of a network, and of no other. Returns the former network.
    pub fn join(&mut self, name: EndpointName, network: NetworkNumber) -> Option<NetworkNumber> {
        self.members.insert(name, network)
    }

    /// Ends the membership of an endpoint.
    pub fn leave(&mut self, name: EndpointName) -> Option<NetworkNumber> {
        self.members.remove(&name)
    }

    /// The members of a network, ascending.
    pub fn members(&self, network: NetworkNumber) -> impl Iterator<Item = EndpointName> {
        self.members.iter().filter(move |(_, own)| **own == network).map(|(name, _)| *name)
    }

    /// The network in which `initiator` may send to `target`.
    ///
    /// # Errors
    /// [`Refusal::Outsider`] or [`Refusal::OtherNetwork`].
    pub fn admit(
        &self,
        initiator: EndpointName,
        target: EndpointName,
    ) -> Result<NetworkNumber, Refusal> {
        let network = |name| self.members.get(&name).copied().ok_or(Refusal::Outsider { name });
        let own = network(initiator)?;
        // An outsider and a member of another network look the same from here: what lies outside
        // of a protection domain is not visible in it.
        if self.members.get(&target) != Some(&own) {
            return Err(Refusal::OtherNetwork { initiator, target, network: own });
        }
        Ok(own)
    }
}

impl<H> Endpoints<H> {
    /// A node without endpoints.
    pub fn new(node: u16) -> Endpoints<H> {
        Endpoints { node, tables: BTreeMap::new() }
    }

    /// Opens an endpoint, without handlers; one that is open stays as it is.
    pub fn open(&mut self, endpoint: u16) -> EndpointName {
        self.tables.entry(endpoint).or_default();
        EndpointName { node: self.node, endpoint }
    }

    /// Puts a handler into the table of an endpoint. Returns the handler that was there.
    ///
    /// # Errors
    /// [`Refusal::NotOpen`].
    pub fn set_handler(
        &mut self,
        name: EndpointName,
        index: HandlerIndex,
        handler: H,
    ) -> Result<Option<H>, Refusal> {
        Ok(self.table(name)?.insert(index, handler))
    }

    /// A message from an endpoint of this node, checked and ready to be sent.
    ///
    /// # Errors
    /// [`Refusal`] unless the endpoint is open here and the target is of its virtual network.
    pub fn compose(
        &self,
        networks: &VirtualNetworks,
        message: Message,
    ) -> Result<Message, Refusal> {
        let name = message.initiator;
        if name.node != self.node || !self.tables.contains_key(&name.endpoint) {
            return Err(Refusal::NotOpen { name, node: self.node });
        }
        networks.admit(name, message.target)?;
        Ok(message)
    }

    /// The handler that an arrived message calls (Clint 3.1: the handler to be called upon
    /// receipt by the target).
    ///
    /// # Errors
    /// [`Refusal`] unless the target is open here, of the initiator's virtual network, and has
    /// the handler.
    pub fn handler(
        &mut self,
        networks: &VirtualNetworks,
        message: &Message,
    ) -> Result<&mut H, Refusal> {
        networks.admit(message.initiator, message.target)?;
        let (name, handler) = (message.target, message.handler);
        self.table(name)?.get_mut(&handler).ok_or(Refusal::NoHandler { name, handler })
    }

    fn table(&mut self, name: EndpointName) -> Result<&mut BTreeMap<HandlerIndex, H>, Refusal> {
        let refusal = Refusal::NotOpen { name, node: self.node };
        if name.node != self.node {
            return Err(refusal);
        }
        self.tables.get_mut(&name.endpoint).ok_or(refusal)
    }
}

impl<H> Endpoints<H>
where
    H: FnMut(Delivery<'_>),
{
    /// Calls the handler that an arrived message names.
    ///
    /// # Errors
    /// [`Refusal`] as for [`Endpoints::handler`]; no handler is called then.
    pub fn deliver(
        &mut self,
        networks: &VirtualNetworks,
        message: &Message,
        payload: Option<&Payload>,
    ) -> Result<(), Refusal> {
        let handler = self.handler(networks, message)?;
        handler(Delivery { message, payload });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const FIRST: NetworkNumber = NetworkNumber(1);
    const SECOND: NetworkNumber = NetworkNumber(2);

    fn name(node: u16, endpoint: u16) -> EndpointName {
        EndpointName { node, endpoint }
    }

    fn message(initiator: EndpointName, target: EndpointName) -> Message {
        Message { initiator, target, handler: HandlerIndex(7), arguments: [1, 2, 3, 4, 5] }
    }

    fn two_networks() -> VirtualNetworks {
        let mut networks = VirtualNetworks::new();
        for (endpoint, network) in [(0, FIRST), (1, SECOND)] {
            networks.join(name(0, endpoint), network);
            networks.join(name(1, endpoint), network);
        }
        networks
    }

    #[test]
    fn the_named_handler_is_called_with_the_message() {
        let (networks, calls) = (two_networks(), RefCell::new(Vec::new()));
        let mut endpoints = Endpoints::new(1);
        let target = endpoints.open(0);
        let note = |delivery: Delivery<'_>| {
            let length = delivery.payload.map(|payload| payload.as_bytes().len());
            calls.borrow_mut().push((delivery.message.arguments, length));
        };
        endpoints.set_handler(target, HandlerIndex(7), note).unwrap();
        let message = message(name(0, 0), target);
        let payload = Payload::new(vec![9; 100]).unwrap();
        endpoints.deliver(&networks, &message, None).unwrap();
        endpoints.deliver(&networks, &message, Some(&payload)).unwrap();
        assert_eq!(*calls.borrow(), [([1, 2, 3, 4, 5], None), ([1, 2, 3, 4, 5], Some(100))]);
    }

    /// Clint 3.1: traffic in one virtual network is not visible to other virtual networks.
    #[test]
    fn a_message_across_networks_reaches_no_handler() {
        let (networks, calls) = (two_networks(), RefCell::new(0));
        let mut endpoints = Endpoints::new(1);
        for endpoint in 0..2 {
            let target = endpoints.open(endpoint);
            let count = |_: Delivery<'_>| *calls.borrow_mut() += 1;
            endpoints.set_handler(target, HandlerIndex(7), count).unwrap();
        }
        let crossing = message(name(0, 0), name(1, 1));
        let refusal = endpoints.deliver(&networks, &crossing, None).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "endpoint 1.1 lies outside of virtual network 1, to which 0.0 belongs"
        );
        assert_eq!(*calls.borrow(), 0);

        let mut sender: Endpoints<()> = Endpoints::new(0);
        sender.open(0);
        assert_eq!(sender.compose(&networks, crossing), Err(refusal), "refused before it is sent");
        let within = message(name(0, 0), name(1, 0));
        assert_eq!(sender.compose(&networks, within), Ok(within));
    }

    #[test]
    fn every_refusal_names_what_it_refuses() {
        let mut networks = two_networks();
        let mut endpoints: Endpoints<()> = Endpoints::new(1);
        let target = endpoints.open(0);
        let mut refuse = |networks: &VirtualNetworks, message: Message| {
            endpoints.handler(networks, &message).unwrap_err().to_string()
        };
        let sender = name(0, 0);
        assert_eq!(refuse(&networks, message(sender, target)), "endpoint 1.0 has no handler 7");
        let stranger = message(name(5, 5), target);
        assert_eq!(refuse(&networks, stranger), "endpoint 5.5 belongs to no virtual network");
        let elsewhere = message(sender, sender);
        assert_eq!(refuse(&networks, elsewhere), "endpoint 0.0 is not open on node 1");
        networks.leave(target);
        assert_eq!(
            refuse(&networks, message(sender, target)),
            "endpoint 1.0 lies outside of virtual network 1, to which 0.0 belongs"
        );
        assert_eq!(networks.members(FIRST).collect::<Vec<_>>(), [sender]);
    }

    /// Every pair of six endpoints in two networks: exactly the pairs within one are admitted.
    #[test]
    fn exactly_the_pairs_within_a_network_are_admitted() {
        let mut networks = VirtualNetworks::new();
        let network_of = |node: u16| NetworkNumber(u32::from(node % 2));
        for node in 0..6 {
            assert_eq!(networks.join(name(node, 0), network_of(node)), None);
        }
        for (initiator, target) in (0..6).flat_map(|i| (0..6).map(move |t| (i, t))) {
            let admitted = networks.admit(name(initiator, 0), name(target, 0));
            let within = network_of(initiator) == network_of(target);
            assert_eq!(admitted.is_ok(), within, "{initiator} to {target}");
        }
    }
}
