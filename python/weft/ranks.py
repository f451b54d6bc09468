"""One run in several processes, on one machine or several: `mpirun -n N weft run FILE`.

Rank 0 reads the file, shows progress and writes the results; each rank simulates its own part of
the network. MPI connects them, through mpi4py (`pip install 'weft[mpi]'`); the core gives and takes
bytes, and knows nothing of it.
"""

from __future__ import annotations

import os
import platform
import resource
import signal
import sys
import time
import traceback
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from weft import _seam
from weft.saving import INPUT_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

# Variables in which Open MPI, and MPICH and its relatives, give the number of ranks and this rank.
_SIZES = (("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "PMI_RANK"))

# A rank that has waited so long sleeps between two looks, so that one that has nothing to do leaves
# its processor to others; it does so for this share of what it has waited, and at most so long.
_SPIN_S = 0.001
_SLEEP_SHARE = 0.05
_LONGEST_SLEEP_S = 0.02

# After so long another rank says what is wrong, if rank 0 has not ended all by then.
_AFTER_RANK_0_S = 3.0


# The commands that go with ranks: the first divides what it does among them, the others start
# programs.
_WITH_RANKS = ("run", "live", "mpi")


class RanksError(Exception):
    """Why ranks cannot make a run together."""


@dataclass(frozen=True)
class Memory:
    """The most memory that a rank had while it simulated, all of the process included."""

    rank: int
    machine: str
    bytes: int


def started() -> tuple[int, int]:
    """Return the rank and the number of ranks that the launcher gave this process."""
    for size, rank in _SIZES:
        count, number = os.environ.get(size, ""), os.environ.get(rank, "")
        if count.isdecimal() and number.isdecimal():
            return int(number), int(count)
    return 0, 1


def refuse_copies(command: str | None) -> None:
    """End all ranks, and have rank 0 say why, where each would do the whole of a command."""
    rank, ranks = started()
    if ranks < 2 or command in _WITH_RANKS:
        return
    if rank > 0:
        time.sleep(_AFTER_RANK_0_S)
    else:
        print(
            f"weft {command}: {ranks} ranks were started, each of which would do all of it; "
            "accepted: mpirun -n N weft run, which divides each run among the ranks, or no mpirun",
            file=sys.stderr,
            flush=True,
        )
    sys.exit(INPUT_ERROR)


@contextmanager
def joined(asked: dict[str, int | None]) -> Iterator[Ranks | None]:
    """Connect the ranks of this run at rank 0, and let them go; None if this process is alone.

    The others simulate what rank 0 asks for, and end then. What is wrong at all of them is said by
    rank 0.

    Args:
        asked: options of which none goes with ranks, by name.

    Raises:
        RanksError: ranks cannot make a run together.

    """
    rank, ranks = started()
    with _told_by_rank_0(rank, ranks), _connected(rank, ranks, asked) as own:
        yield own


@contextmanager
def _connected(rank: int, ranks: int, asked: dict[str, int | None]) -> Iterator[Ranks | None]:
    given = [f"{name} {value}" for name, value in asked.items() if value is not None]
    try:
        if given and ranks > 1:
            raise RanksError(
                f"{given[0]}: {ranks} ranks were started, which make one run after another, each "
                "together and with one thread; accepted: more ranks, or no mpirun"
            )
        own = connect()
    except RanksError as error:
        if rank == 0:
            raise
        # Rank 0 finds the same error and reports it by then, and mpirun ends the other ranks.
        time.sleep(_AFTER_RANK_0_S)
        print(f"rank {rank} on {platform.node()}: {error}", file=sys.stderr, flush=True)
        sys.exit(INPUT_ERROR)
    if own is None:
        yield None
        return
    if own.rank > 0:
        own.follow()
        sys.exit(0)
    try:
        yield own
    finally:
        own.dismiss()


@contextmanager
def _told_by_rank_0(rank: int, ranks: int) -> Iterator[None]:
    """Have rank 0 alone decide what Ctrl-C ends, which mpirun sends to all as SIGTERM.

    There it raises KeyboardInterrupt, so that nothing is left half written.
    """
    handlers: dict[int, Any] = {}
    if ranks > 1 and rank == 0:
        handlers = {signal.SIGTERM: signal.default_int_handler}
    elif ranks > 1:
        handlers = dict.fromkeys((signal.SIGINT, signal.SIGTERM), signal.SIG_IGN)
    before = {number: signal.signal(number, own) for number, own in handlers.items()}
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


def connect() -> Ranks | None:
    """Connect the ranks that this process was started with; None if it is alone.

    Raises:
        RanksError: mpi4py is missing, or it finds no MPI of the kind that started this process.

    """
    rank, ranks = started()
    if ranks < 2:
        return None
    try:
        from mpi4py import MPI  # noqa: PLC0415 (an extra)
    except (ImportError, RuntimeError) as error:
        raise RanksError(
            f"{ranks} ranks were started, which mpi4py connects: {error}; "
            "pip install 'weft[mpi]' beside the MPI whose mpirun is used"
        ) from error
    found = MPI.COMM_WORLD.Get_size()
    if found != ranks:
        raise RanksError(
            f"{ranks} ranks were started and mpi4py finds {found}: "
            "it uses another MPI than the one whose mpirun started them"
        )
    if MPI.Query_thread() < MPI.THREAD_SERIALIZED:
        raise RanksError("this MPI lets no thread but the first one communicate")
    return Ranks(MPI, rank)


class Ranks:
    """The connection of the ranks of a run, with the interface that the core expects."""

    def __init__(self, mpi: Any, rank: int) -> None:
        import numpy as np  # noqa: PLC0415 (a run without ranks needs none so early)

        self._mpi = mpi
        self._numpy = np
        self._comm = mpi.COMM_WORLD.Dup()
        self.rank = rank
        self.ranks: int = self._comm.Get_size()
        self._are_gone = False

    def exchange(self, given: list[npt.NDArray[np.uint8]]) -> list[npt.NDArray[np.uint8]]:
        """Give each rank its bytes; return those that come from each. MPI copies neither."""
        try:
            return self._exchange(given)
        except BaseException:
            # No other rank can go on, and the core cannot end them.
            traceback.print_exc()
            self._comm.Abort(1)
            raise

    def _exchange(self, given: list[npt.NDArray[np.uint8]]) -> list[npt.NDArray[np.uint8]]:
        np, comm = self._numpy, self._comm
        sizes = np.array([len(one) for one in given], dtype=np.int64)
        coming = np.empty_like(sizes)
        self._wait(comm.Ialltoall(sizes, coming))
        come = [np.empty(count, dtype=np.uint8) for count in coming.tolist()]
        come[self.rank] = given[self.rank]
        others = [rank for rank in range(self.ranks) if rank != self.rank]
        taking = [comm.Irecv(come[rank], source=rank) for rank in others if len(come[rank])]
        giving = [comm.Isend(given[rank], dest=rank) for rank in others if len(given[rank])]
        self._mpi.Request.Waitall([*taking, *giving])
        return come

    @staticmethod
    def _wait(request: Any) -> None:
        began = time.perf_counter()
        while not request.Test():
            waited = time.perf_counter() - began
            if waited > _SPIN_S:
                time.sleep(min(waited * _SLEEP_SHARE, _LONGEST_SLEEP_S))

    def follow(self) -> None:
        """Simulate what rank 0 asks for, until it asks for no more."""
        try:
            _seam.follow(self)
            self._comm.gather(self._memory())
        except BaseException as error:
            print(f"rank {self.rank}: {error}", file=sys.stderr, flush=True)
            traceback.print_exc()
            self._comm.Abort(1)

    def dismiss(self) -> list[dict[str, object]]:
        """Let the others go, at rank 0, once; return what each was and had."""
        if self._are_gone:
            return []
        self._are_gone = True
        _seam.dismiss(self)
        told: list[Memory] = self._comm.gather(self._memory())
        return [asdict(own) for own in told]

    def _memory(self) -> Memory:
        # Linux counts in KiB.
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return Memory(self.rank, self._mpi.Get_processor_name(), most)
