//! Numbers for endpoint names, so that tables can be indexed by peer.

use std::collections::HashMap;

use crate::rendezvous::Name;

/// The number of a peer.
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

/// A table of names and their numbers, which never change.
#[derive(Debug, Default)]
pub struct Peers {
    names: Vec<Name>,
    numbers: HashMap<Name, PeerId>,
}

impl Peers {
    /// The number of a name; a new one if the name is unknown.
    pub fn number(&mut self, name: Name) -> PeerId {
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name);
            PeerId((self.names.len() - 1) as u32)
        })
    }

    /// The name of a peer.
    pub fn name(&self, peer: PeerId) -> Option<Name> {
        self.names.get(peer.index()).copied()
    }
}
