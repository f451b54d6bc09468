//! Lists for the length of one call whose memory is not the heap's: the call may be a signal
//! handler's that has interrupted the heap, or that of a program which has no memory left.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::sys;

/// As much as a call needs that waits for as many descriptors as the library waits for.
pub const LENGTH: usize = 192 << 10;
/// Blocks for when no memory can be mapped; untouched they take none.
const OWN: usize = 4;
/// Blocks that are kept ready for the next calls.
const READY: usize = 16;

#[repr(C, align(64))]
struct Block(MaybeUninit<[u8; LENGTH]>);

static mut BLOCKS: [Block; OWN] = [const { Block(MaybeUninit::uninit()) }; OWN];

/// The free blocks.
static FREE: [AtomicPtr<u8>; READY] = {
    let mut free = [const { AtomicPtr::new(std::ptr::null_mut()) }; READY];
    let mut which = 0;
    while which < OWN {
        // SAFETY: the place of an element, of which nothing is read.
        free[which] = AtomicPtr::new(unsafe { (&raw mut BLOCKS).cast::<u8>().add(which * LENGTH) });
        which += 1;
    }
    free
};

fn is_own(memory: *mut u8) -> bool {
    let first = (&raw const BLOCKS).addr();
    (first..first + OWN * LENGTH).contains(&memory.addr())
}

/// Memory of which lists are cut, until it is dropped: also by a thread that is cancelled.
pub struct Scratch {
    memory: *mut u8,
    length: usize,
    used: Cell<usize>,
}

impl Scratch {
    /// Memory for lists with this many bytes in all, each beginning at a multiple of 64.
    pub fn take(length: usize) -> Option<Self> {
        let used = Cell::new(0);
        if length <= LENGTH {
            let nobody = std::ptr::null_mut();
            let taken = FREE.iter().filter(|it| !it.load(Ordering::Relaxed).is_null());
            let mut taken = taken.map(|it| it.swap(nobody, Ordering::Acquire));
            if let Some(memory) = taken.find(|it| !it.is_null()) {
                return Some(Self { memory, length: LENGTH, used });
            }
        }
        let length = length.max(LENGTH);
        Some(Self { memory: sys::map(None, length)?, length, used })
    }

    /// A list with space for `room` elements; `None` if there is no memory left.
    pub fn list<T>(&self, room: usize) -> Option<List<'_, T>> {
        const { assert!(align_of::<T>() <= 64) };
        let begin = self.used.get();
        let end = begin.checked_add(Self::length_of::<T>(room)?)?;
        if end > self.length {
            return None;
        }
        self.used.set(end);
        // SAFETY: the memory is this scratch's, mapped as far as `length`, and no other list has
        // this part of it.
        let first = unsafe { self.memory.add(begin) }.cast();
        Some(List { first, room, length: 0, of: PhantomData })
    }

    /// How many bytes a list of `room` elements takes; `None` if that overflows.
    pub fn length_of<T>(room: usize) -> Option<usize> {
        room.checked_mul(size_of::<T>())?.checked_next_multiple_of(64)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.length != LENGTH || !put_back(self.memory) {
            let _errno = sys::KeepErrno::new();
            // SAFETY: the memory was mapped for this scratch, and its lists are gone.
            unsafe { sys::unmap(self.memory, self.length) };
        }
    }
}

/// Lays a block ready; false if it has to be unmapped, there being others enough.
fn put_back(memory: *mut u8) -> bool {
    let (order, nobody) = (Ordering::Release, std::ptr::null_mut());
    let is_free = |it: &&AtomicPtr<u8>| it.load(Ordering::Relaxed).is_null();
    let mut free = FREE.iter().filter(is_free);
    if free.any(|it| it.compare_exchange(nobody, memory, order, Ordering::Relaxed).is_ok()) {
        return true;
    }
    if !is_own(memory) {
        return false;
    }
    // Another makes room for the library's own, which cannot be had again.
    let mut homeless = memory;
    for place in &FREE {
        homeless = place.swap(homeless, Ordering::AcqRel);
        if homeless.is_null() {
            break;
        }
        if !is_own(homeless) {
            let _errno = sys::KeepErrno::new();
            // SAFETY: it was mapped for a scratch, lay ready, and was taken from there.
            unsafe { sys::unmap(homeless, LENGTH) };
            break;
        }
    }
    true
}

/// A list in a [`Scratch`], with a fixed capacity.
pub struct List<'a, T> {
    first: *mut T,
    room: usize,
    length: usize,
    of: PhantomData<&'a mut [T]>,
}

impl<T> List<'_, T> {
    /// Adds one; false if there is no room.
    pub fn push(&mut self, item: T) -> bool {
        if self.length == self.room {
            return false;
        }
        // SAFETY: there is room for it, which is this list's alone.
        unsafe { self.first.add(self.length).write(item) };
        self.length += 1;
        true
    }

    pub fn clear(&mut self) {
        let all: *mut [T] = &raw mut **self;
        self.length = 0;
        // SAFETY: each was pushed, and nobody reaches it any more.
        unsafe { all.drop_in_place() };
    }
}

impl<T: Copy> List<'_, T> {
    /// Replaces the contents by as many of these items as fit.
    pub fn copy_from(&mut self, items: &[T]) {
        self.clear();
        for item in items {
            self.push(*item);
        }
    }
}

impl<T> Deref for List<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: that many were pushed, in memory that is this list's alone.
        unsafe { std::slice::from_raw_parts(self.first, self.length) }
    }
}

impl<T> DerefMut for List<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.length) }
    }
}

impl<T> Drop for List<'_, T> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn lists_have_their_room_and_no_more_and_drop_what_they_hold() {
        let scratch = Scratch::take(1000).unwrap();
        let counted = Rc::new(());
        let (mut few, mut bytes) = (scratch.list(2).unwrap(), scratch.list(3).unwrap());
        assert!(few.push(counted.clone()) && few.push(counted.clone()));
        assert!(!few.push(counted.clone()) && few.len() == 2);
        bytes.copy_from(&[1u8, 2, 3, 4]);
        assert_eq!(*bytes, [1, 2, 3]);
        bytes[1] = 7;
        assert_eq!((Rc::strong_count(&counted), &*bytes), (3, &[1, 7, 3][..]));
        few.clear();
        assert_eq!((Rc::strong_count(&counted), few.len()), (1, 0));
        assert!(few.push(counted.clone()));
        drop(few);
        assert_eq!(Rc::strong_count(&counted), 1);
        assert!(scratch.list::<u8>(LENGTH).is_none() && scratch.list::<u64>(usize::MAX).is_none());
    }

    #[test]
    fn a_block_is_one_users_and_the_own_are_never_lost() {
        for round in 0..3 {
            let mut all: Vec<_> = (0..READY + OWN + 3).map(|_| Scratch::take(1).unwrap()).collect();
            for (index, it) in all.iter().enumerate() {
                it.list::<u8>(LENGTH).unwrap().copy_from(&[index as u8; LENGTH]);
            }
            let is_its_own = |(index, it): (usize, &Scratch)| {
                // SAFETY: the block was written above.
                let bytes = unsafe { std::slice::from_raw_parts(it.memory, LENGTH) };
                bytes.iter().all(|byte| *byte == index as u8)
            };
            assert!(all.iter().enumerate().all(is_its_own), "round {round}: somebody else's too");
            assert_eq!(all.iter().filter(|it| is_own(it.memory)).count(), OWN, "round {round}");
            // Once the mapped ones come back first, and once the own.
            all.sort_by_key(|it| is_own(it.memory) == (round == 1));
            drop(all);
        }
    }

    #[test]
    fn what_is_longer_than_a_block_is_mapped_for_itself() {
        let length = Scratch::length_of::<u8>(LENGTH + 1).unwrap();
        let scratch = Scratch::take(length).unwrap();
        assert!(!is_own(scratch.memory));
        let mut list = scratch.list(LENGTH + 1).unwrap();
        list.copy_from(&[3u8; LENGTH + 1]);
        assert_eq!(list.len(), LENGTH + 1);
    }
}
