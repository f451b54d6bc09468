//! The buffers of a program that make up one message (an I/O vector).

use libc::iovec;

/// The most buffers that a message may have.
pub const MOST: usize = 4;

/// Up to [`MOST`] buffers, in message order. Most messages have one, which is stored inline.
#[derive(Clone, Debug)]
pub struct Parts {
    first: iovec,
    rest: Option<Box<[iovec]>>,
}

/// Bytes at an address, of which no slice may be made: they may lie where a peer writes.
#[derive(Clone, Copy, Debug)]
pub struct RawBytes {
    /// Where they begin.
    pub first: *const u8,
    /// How many there are.
    pub length: usize,
}

impl RawBytes {
    /// No bytes.
    pub const NONE: Self = Self { first: std::ptr::dangling(), length: 0 };

    /// Those of a slice.
    pub const fn of(bytes: &[u8]) -> Self {
        Self { first: bytes.as_ptr(), length: bytes.len() }
    }
}

// SAFETY: the addresses are only dereferenced under the promises that the unsafe functions below ask for.
unsafe impl Send for Parts {}

const NONE: iovec = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

impl Parts {
    /// One buffer.
    #[inline(always)]
    pub const fn one(base: *mut u8, length: usize) -> Self {
        Self { first: iovec { iov_base: base.cast(), iov_len: length }, rest: None }
    }

    /// Several buffers; `None` if there are more than [`MOST`], or their lengths overflow.
    pub fn new(places: &[iovec]) -> Option<Self> {
        // Such a message would not fit into the address space.
        places.iter().try_fold(0_usize, |sum, it| sum.checked_add(it.iov_len))?;
        match places {
            [] => Some(Self { first: NONE, rest: None }),
            [first] => Some(Self { first: *first, rest: None }),
            [first, rest @ ..] if rest.len() < MOST => {
                Some(Self { first: *first, rest: Some(rest.into()) })
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn rest(&self) -> &[iovec] {
        self.rest.as_deref().unwrap_or_default()
    }

    /// The number of buffers.
    pub fn count(&self) -> usize {
        1 + self.rest().len()
    }

    /// The buffers.
    pub fn places(&self) -> impl Iterator<Item = &iovec> {
        std::iter::once(&self.first).chain(self.rest())
    }

    /// The address of the first buffer.
    #[inline(always)]
    pub const fn base(&self) -> *mut u8 {
        self.first.iov_base.cast()
    }

    /// The length of the message in bytes.
    #[inline(always)]
    pub fn length(&self) -> usize {
        self.first.iov_len + self.rest().iter().map(|it| it.iov_len).sum::<usize>()
    }

    /// The address of the only buffer, if it has room for `length` bytes.
    #[inline(always)]
    pub fn room_for(&self, length: usize) -> Option<*mut u8> {
        (self.rest.is_none() && length <= self.first.iov_len).then(|| self.base())
    }

    /// At most `length` bytes from offset `skip` on.
    pub fn after(&self, mut skip: usize, mut length: usize) -> Places {
        let mut rest = Places { count: 0, places: [NONE; MOST] };
        for place in self.places() {
            let skipped = skip.min(place.iov_len);
            skip -= skipped;
            let taken = (place.iov_len - skipped).min(length);
            length -= taken;
            if taken > 0 {
                let base = place.iov_base.wrapping_byte_add(skipped);
                rest.places[rest.count] = iovec { iov_base: base, iov_len: taken };
                rest.count += 1;
            }
        }
        rest
    }

    /// Gathers all bytes into `to`.
    ///
    /// # Safety
    ///
    /// The buffers must be readable, and `to` writable for [`Parts::length`] bytes.
    #[inline(always)]
    pub unsafe fn copy_to(&self, to: *mut u8) {
        let first = &self.first;
        // SAFETY: the caller's promise.
        unsafe {
            copy(first.iov_base.cast(), to, first.iov_len);
            if let Some(rest) = &self.rest {
                gather(rest, to.add(first.iov_len));
            }
        }
    }

    /// Scatters bytes into the buffers, as many as they have room for.
    ///
    /// # Safety
    ///
    /// The buffers must be writable, and `from` readable for `length` bytes.
    #[inline(always)]
    pub unsafe fn copy_from(&self, from: *const u8, length: usize) {
        let part = self.first.iov_len.min(length);
        // SAFETY: the caller's promise.
        unsafe {
            copy(from, self.first.iov_base.cast(), part);
            if let Some(rest) = &self.rest {
                scatter(rest, from.add(part), length - part);
            }
        }
    }
}

/// Copies memory. For the shortest messages a call of `memcpy` would dominate the cost.
///
/// # Safety
///
/// The requirements of [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise; two words of 8 bytes that may overlap cover up to 16.
    unsafe {
        if (8..=16).contains(&length) {
            let [first, last] =
                [0, length - 8].map(|at| from.add(at).cast::<u64>().read_unaligned());
            to.cast::<u64>().write_unaligned(first);
            to.add(length - 8).cast::<u64>().write_unaligned(last);
        } else {
            std::ptr::copy_nonoverlapping(from, to, length);
        }
    }
}

/// A part of the buffers of a message.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    count: usize,
    places: [iovec; MOST],
}

impl Places {
    /// The buffers as an array for system calls that take `iovec`.
    pub fn as_slice(&self) -> &[iovec] {
        &self.places[..self.count]
    }

    /// The length of the message in bytes.
    pub fn length(&self) -> usize {
        self.as_slice().iter().map(|it| it.iov_len).sum()
    }

    /// Gathers all bytes of this part into `to`.
    ///
    /// # Safety
    ///
    /// The buffers must be readable, and `to` writable for [`Places::length`] bytes.
    pub unsafe fn copy_to(&self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { gather(self.as_slice(), to) };
    }

    /// Scatters bytes into the buffers of this part, as many as they have room for.
    ///
    /// # Safety
    ///
    /// The buffers must be writable, and `from` readable for `length` bytes.
    pub unsafe fn copy_from(&self, from: *const u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { scatter(self.as_slice(), from, length) };
    }
}

unsafe fn gather(places: &[iovec], mut to: *mut u8) {
    for place in places {
        // SAFETY: as for `Parts::copy_to`.
        unsafe {
            std::ptr::copy_nonoverlapping(place.iov_base.cast(), to, place.iov_len);
            to = to.add(place.iov_len);
        }
    }
}

unsafe fn scatter(places: &[iovec], mut from: *const u8, mut length: usize) {
    for place in places {
        let part = place.iov_len.min(length);
        // SAFETY: as for `Parts::copy_from`.
        unsafe {
            std::ptr::copy_nonoverlapping(from, place.iov_base.cast(), part);
            from = from.add(part);
        }
        length -= part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &mut [Vec<u8>]) -> Parts {
        let place =
            |it: &mut Vec<u8>| iovec { iov_base: it.as_mut_ptr().cast(), iov_len: it.len() };
        Parts::new(&parts.iter_mut().map(place).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn bytes_are_scattered_and_gathered_in_order() {
        let mut memory = [vec![0; 3], vec![0; 0], vec![0; 4]];
        let parts = of(&mut memory);
        assert_eq!(parts.length(), 7);
        // SAFETY: the memory is there, and larger than what is copied.
        unsafe { parts.copy_from(b"abcdefgh".as_ptr(), 6) };
        let mut out = [0; 7];
        // SAFETY: as above.
        unsafe { parts.copy_to(out.as_mut_ptr()) };
        assert_eq!(&out, b"abcdef\0");
    }

    #[test]
    fn short_and_long_copies_are_whole() {
        for length in 0..40 {
            let from: Vec<u8> = (1..=length).collect();
            let mut to = vec![0; usize::from(length) + 1];
            // SAFETY: there is room for all.
            unsafe { copy(from.as_ptr(), to.as_mut_ptr(), from.len()) };
            assert_eq!((&to[..from.len()], to[from.len()]), (&from[..], 0));
        }
    }

    #[test]
    fn what_is_left_begins_within_a_part() {
        let mut memory = [vec![1; 3], vec![2; 4]];
        let rest = of(&mut memory).after(2, 3);
        let mut out = [0; 3];
        // SAFETY: the memory is there.
        unsafe { rest.copy_to(out.as_mut_ptr()) };
        assert_eq!((rest.length(), out), (3, [1, 2, 2]));
        assert_eq!(of(&mut memory).after(7, 9).length(), 0);
    }

    #[test]
    fn too_many_places_or_bytes_are_refused() {
        let place = iovec { iov_base: std::ptr::null_mut(), iov_len: usize::MAX };
        assert!(Parts::new(&[place, place]).is_none());
        assert!(Parts::new(&[NONE; MOST + 1]).is_none());
    }
}
