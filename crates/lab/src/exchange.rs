//! What the processes of one run, its *ranks*, need of whatever connects them.

use std::fmt::Debug;

/// Carries bytes between the ranks of a run, on one machine or several. The core does not depend on what does
/// so: MPI for `mpirun -n 4 weft run`, threads in tests.
pub trait Exchange: Debug + Send + Sync {
    /// The number of this rank. Rank 0 reads files, observes and returns the result.
    fn rank(&self) -> u32;

    /// How many ranks there are.
    fn ranks(&self) -> u32;

    /// Gives every rank the bytes at its number in `given`, which are gone then, and shows `take` what each gave
    /// to this one, in the order of their numbers, its own included. So nobody has to have a copy of them. All
    /// ranks call it equally often; it returns when it is known what all have given, and never if one of them
    /// is gone: whoever connects them then ends all of them.
    fn exchange(&self, given: &mut [Vec<u8>], take: &mut dyn FnMut(u32, &[u8]));
}
