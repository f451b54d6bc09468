//! A pool of values addressed by a 32-bit index, reused through a free list.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// The index of a value in an [`Arena`]. Four bytes, so that an event can carry it by value.
pub struct Id<T>(u32, PhantomData<fn() -> T>);

/// Values of one type, addressed by [`Id`]. Freed places are used again, so memory follows the
/// largest number of values alive at once and not the length of the run.
#[derive(Clone, Debug)]
pub struct Arena<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Arena<T> {
    /// An arena without values.
    pub const fn new() -> Arena<T> {
        Arena { slots: Vec::new(), free: Vec::new() }
    }

    /// Stores a value and returns its index.
    pub fn insert(&mut self, value: T) -> Id<T> {
        match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = value;
                Id(place, PhantomData)
            }
            None => {
                self.slots.push(value);
                Id((self.slots.len() - 1) as u32, PhantomData)
            }
        }
    }

    /// Gives the place of a value back. The value stays readable until the place is used again.
    pub fn remove(&mut self, id: Id<T>) {
        debug_assert!(!self.free.contains(&id.0), "place {} freed twice", id.0);
        self.free.push(id.0);
    }

    /// How many values are alive.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no value is alive.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for Arena<T> {
    fn default() -> Arena<T> {
        Arena::new()
    }
}

impl<T> Index<Id<T>> for Arena<T> {
    type Output = T;
    fn index(&self, id: Id<T>) -> &T {
        &self.slots[id.0 as usize]
    }
}

impl<T> IndexMut<Id<T>> for Arena<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        &mut self.slots[id.0 as usize]
    }
}

impl<T> Id<T> {
    /// What [`index`](Self::index) said, as an index again: for an event that carries it as a number.
    pub const fn at(index: usize) -> Id<T> {
        Id(index as u32, PhantomData)
    }

    /// The bare index, for tables kept beside the arena.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Id<T> {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Id<T>) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Id<T> {}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn freed_places_are_used_again() {
        let mut arena = Arena::new();
        let first = arena.insert('a');
        let second = arena.insert('b');
        arena.remove(first);
        let third = arena.insert('c');
        assert_eq!(third, first);
        assert_eq!((arena[second], arena[third], arena.len()), ('b', 'c', 2));
    }
}
