//! Buffers for data that passes through the library: not on the stack of a thread, which may be
//! small, and not on the heap, whose lock the thread may hold.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

const PIECES: usize = 8;
const LENGTH: usize = 1 << 14;
/// The size of the buffer that remains when all pieces are taken.
const LEAST: usize = 1 << 10;

struct Piece {
    taken: AtomicBool,
    bytes: UnsafeCell<[u8; LENGTH]>,
}

// SAFETY: whoever has set `taken` uses the bytes alone.
unsafe impl Sync for Piece {}

static POOL: [Piece; PIECES] =
    [const { Piece { taken: AtomicBool::new(false), bytes: UnsafeCell::new([0; LENGTH]) } };
        PIECES];

/// A piece of the pool, until dropped: also by a thread that is cancelled.
struct Taken(&'static Piece);

impl Taken {
    fn find() -> Option<Self> {
        let is_free = |piece: &&Piece| !piece.taken.swap(true, Ordering::Acquire);
        POOL.iter().find(is_free).map(Self)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Lends room, most often 16 KiB, for a call.
pub fn with<T>(use_it: impl FnOnce(&mut [u8]) -> T) -> T {
    match Taken::find() {
        // SAFETY: it is this caller's alone until it is dropped.
        Some(piece) => use_it(unsafe { &mut *piece.0.bytes.get() }),
        None => use_it(&mut [0; LEAST]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(left: usize, lengths: &mut Vec<usize>) {
        with(|room| {
            lengths.push(room.len());
            room.fill(left as u8);
            if left > 0 {
                nested(left - 1, lengths);
            }
            assert!(room.iter().all(|byte| *byte == left as u8), "somebody else's too");
        });
    }

    #[test]
    fn each_piece_is_one_users_and_is_given_back() {
        for _ in 0..2 {
            let mut lengths = Vec::new();
            nested(PIECES + 1, &mut lengths);
            let (whole, least) = lengths.split_at(PIECES);
            assert!(whole.iter().all(|length| *length == LENGTH));
            assert_eq!(least, [LEAST, LEAST]);
        }
    }
}
