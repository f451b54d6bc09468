//! Idle connections release the memory of their rings.
//!
//! Only the writer of a ring touches the free part of it. So the holder of the sending half lets
//! the kernel take the pages of a ring that has been read completely; the next bytes get empty
//! pages.

use std::sync::atomic::Ordering;

use crate::segment::Segment;
use crate::table::Connection;

/// After so long without a byte a connection is idle, in nanoseconds.
pub const IDLE: u64 = 1_000_000_000;
/// The kernel is not entered for less than this, in bytes.
const WORTH: u64 = 16 << 10;

/// Whether the pages of the ring that this end writes are worth a call once it is idle.
#[inline]
pub fn has_pages(connection: &Connection, segment: &Segment) -> bool {
    let written = segment.way(connection.role()).pointers.arrivals();
    written.wrapping_sub(connection.given_back.load(Ordering::Relaxed)) >= WORTH
}

/// Gives the pages of the ring back that this end writes, if all of it was read and nobody writes.
pub fn give_back(connection: &Connection, segment: &Segment) {
    if !has_pages(connection, segment) {
        return;
    }
    let Some(_sending) = connection.try_sending() else { return };
    let pointers = &segment.way(connection.role()).pointers;
    if pointers.filling() == 0 && !pointers.is_sealed() {
        // SAFETY: nobody writes meanwhile, and nothing in the ring is yet to be read.
        unsafe { segment.empty_pages(connection.role()) };
        connection.given_back.store(pointers.arrivals(), Ordering::Relaxed);
    }
}

/// Gives the pages back of a connection that is checked every [`IDLE`], if it has sent nothing
/// since the last check. Returns whether it still has pages to give back.
pub fn sweep(connection: &Connection, segment: &Segment) -> bool {
    let written = segment.way(connection.role()).pointers.arrivals();
    if connection.swept.swap(written, Ordering::Relaxed) == written {
        give_back(connection, segment);
    }
    has_pages(connection, segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::segment::Role;
    use weft_protocol::byte_ring::{Reader, Writer};

    fn resident_pages(segment: &Segment, writer: Role) -> usize {
        let length = segment.capacity().bytes() as usize;
        let mut pages = vec![0u8; length / 4096];
        let first = segment.bytes(writer, &(0..length)).cast_mut().cast();
        // SAFETY: there is a byte for each page.
        assert_eq!(unsafe { libc::mincore(first, length, pages.as_mut_ptr()) }, 0);
        pages.iter().filter(|page| **page & 1 != 0).count()
    }

    #[test]
    fn pages_are_given_back_once_all_was_read_and_the_next_bytes_arrive() {
        let sample = Sample::with_ring(1 << 18);
        let (guard, segment) = sample.enter();
        let (connection, role) = (guard.connection, guard.connection.role());
        let pointers = &segment.way(role).pointers;
        let mut writer = Writer::new(segment.capacity());
        let mut reader = Reader::new(segment.capacity());
        let mut bytes = vec![7u8; 100_000];
        let mut write = |bytes: &[u8]| {
            let length = bytes.len() as u64;
            assert!(writer.room(pointers, length).unwrap() >= length);
            let spans = writer.spans(length);
            // SAFETY: the bytes are as many as the places.
            unsafe { segment.fill_ring(role, &spans, bytes.as_ptr()) };
            writer.publish(pointers, bytes.len() as u64);
        };
        for round in 0..5u8 {
            bytes.fill(round + 1);
            write(&bytes);
            assert!(has_pages(connection, &segment));
            assert!(sweep(connection, &segment), "something was sent since");
            assert!(sweep(connection, &segment), "nothing was read yet");
            let length = bytes.len() as u64;
            assert!(reader.available(pointers, length).unwrap() >= length);
            let spans = reader.spans(length);
            let mut got = vec![0; bytes.len()];
            // SAFETY: there is room for that many.
            unsafe { segment.empty_ring(role, &spans, got.as_mut_ptr()) };
            assert!(got == bytes);
            reader.release(pointers, length);
            assert!(resident_pages(&segment, role) >= 24);
            {
                let _sending = connection.sending().unwrap();
                assert!(sweep(connection, &segment), "somebody writes");
            }
            assert!(!sweep(connection, &segment));
            assert_eq!(resident_pages(&segment, role), 0);
        }
        write(&[9; 100]);
        assert!(!has_pages(connection, &segment), "too little");
    }
}
