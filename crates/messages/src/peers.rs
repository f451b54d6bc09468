//! The endpoints that are known, each by a small number.

use std::collections::HashMap;

use crate::meeting::Name;

/// The number of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerId(u32);

impl PeerId {
    /// As an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The peer of an index that [`PeerId::index`] gave.
    pub const fn of_index(index: u32) -> Self {
        Self(index)
    }
}

/// Names and numbers, given once and for good.
#[derive(Debug, Default)]
pub struct Peers {
    names: Vec<Name>,
    numbers: HashMap<Name, PeerId>,
}

impl Peers {
    /// The number of a name, a new one if need be.
    pub fn number(&mut self, name: Name) -> PeerId {
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name);
            PeerId((self.names.len() - 1) as u32)
        })
    }

    /// The name behind a number that this table gave.
    pub fn name(&self, peer: PeerId) -> Option<Name> {
        self.names.get(peer.index()).copied()
    }
}
