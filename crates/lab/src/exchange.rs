//! What the processes of one run, its *ranks*, need of whatever connects them.

use std::fmt::Debug;

/// Carries bytes between the ranks of a run, on one machine or several. The core does not depend on what does
/// so: MPI for `mpirun -n 4 weft run`, threads in tests.
pub trait Exchange: Debug + Send + Sync {
    /// The number of this rank. Rank 0 reads files, observes and returns the result.
    fn rank(&self) -> u32;

    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// Gives every rank the bytes at its number in `given`, and stores the bytes from each rank at its number
    /// in `taken`, in place of what is there. All ranks call it equally often. It returns when it has the
    /// bytes of all ranks, and never if one of them is gone: whatever connects the ranks then ends all of
    /// them.
    fn exchange(&self, given: &[Vec<u8>], taken: &mut [Vec<u8>]);
}
