//! A node's side of the global schedule: what it sends to the arbiter, and what a grant means to
//! it.

use weft_protocol::packet::{Configuration, Grant, Port, PortVector, Sequence, SlotNumber};

/// The state that a node keeps about the schedule (Clint 3.3). It learns its identifier and the
/// slot boundaries from grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkNode {
    identifier: Option<Port>,
    /// The initiators from which this node accepts bulk requests.
    pub bulk_enable: PortVector,
    /// The initiators from which this node accepts quick requests.
    pub quick_enable: PortVector,
    /// The current slot.
    slot: u64,
}

/// The content of a grant for the node that receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The slot in which the node may send.
    pub slot: u64,
    /// The target to which it may send, if any.
    pub target: Option<Port>,
}

/// Why a grant is ignored. A transmission on a doubtful grant could collide, so the node lets the
/// slot pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The grant is for another node.
    #[error("a grant for node {found} at node {own}", found = .found.index(), own = .own.index())]
    Node {
        /// The identifier in the grant.
        found: Port,
        /// The identifier of this node.
        own: Port,
    },
    /// The grant is for another slot.
    #[error(
        "a grant for slot {} (modulo 8) in slot {slot}: expected {}",
        .found.bits(), (slot + 1) % SlotNumber::MODULUS
    )]
    Slot {
        /// The slot in the grant.
        found: SlotNumber,
        /// The current slot.
        slot: u64,
    },
}

impl BulkNode {
    /// A node without identifier that accepts all initiators.
    pub fn new() -> BulkNode {
        let (bulk_enable, quick_enable) = (PortVector::ALL, PortVector::ALL);
        BulkNode { identifier: None, bulk_enable, quick_enable, slot: 0 }
    }

    /// The identifier, once a grant has assigned it.
    pub fn identifier(&self) -> Option<Port> {
        self.identifier
    }

    /// The current slot.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// The `cfg` packet that opens the arbitration for the slot after this one. A node without an
    /// identifier requests nothing, since no grant could name it as an initiator.
    pub fn configuration(&self, targets: impl IntoIterator<Item = Port>) -> Configuration {
        let requests = match self.identifier {
            Some(_) => targets.into_iter().fold(PortVector::EMPTY, PortVector::with),
            None => PortVector::EMPTY,
        };
        Configuration {
            node: self.identifier,
            slot: Sequence::of(self.slot + 1),
            requests,
            bulk_enable: self.bulk_enable,
            quick_enable: self.quick_enable,
        }
    }

    /// A grant has arrived. The first one assigns the identifier: the number of the switch port
    /// that it left from (Clint 3.3).
    ///
    /// # Errors
    /// [`GrantError`] if the grant is for another node or another slot.
    pub fn grant(&mut self, grant: &Grant) -> Result<Granted, GrantError> {
        let own = *self.identifier.get_or_insert(grant.node);
        if grant.node != own {
            return Err(GrantError::Node { found: grant.node, own });
        }
        let next = self.slot + 1;
        if grant.slot != SlotNumber::of(next) {
            return Err(GrantError::Slot { found: grant.slot, slot: self.slot });
        }
        Ok(Granted { slot: next, target: grant.target })
    }

    /// The slot is over.
    pub fn begin_slot(&mut self) {
        self.slot += 1;
    }
}

impl Default for BulkNode {
    fn default() -> BulkNode {
        BulkNode::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(index: usize) -> Port {
        Port::new(index).unwrap()
    }

    fn grant(node: usize, slot: u64, target: Option<usize>) -> Grant {
        Grant { node: port(node), slot: SlotNumber::of(slot), target: target.map(port) }
    }

    #[test]
    fn the_first_grant_assigns_the_identifier() {
        let mut node = BulkNode::new();
        assert_eq!(node.configuration([port(3)]).requests, PortVector::EMPTY);
        assert_eq!(node.grant(&grant(5, 1, None)), Ok(Granted { slot: 1, target: None }));
        node.begin_slot();
        let configuration = node.configuration([port(3), port(15)]);
        assert_eq!(configuration.node, Some(port(5)));
        assert_eq!(configuration.requests, PortVector(0x8008));
        assert_eq!(configuration.slot, Sequence::of(2));
    }

    #[test]
    fn a_doubtful_grant_is_not_obeyed() {
        let mut node = BulkNode::new();
        node.grant(&grant(5, 1, Some(2))).unwrap();
        let refusal = node.grant(&grant(4, 1, Some(2))).unwrap_err();
        assert_eq!(refusal.to_string(), "a grant for node 4 at node 5");
        let refusal = node.grant(&grant(5, 3, Some(2))).unwrap_err();
        assert_eq!(refusal.to_string(), "a grant for slot 3 (modulo 8) in slot 0: expected 1");
    }
}
