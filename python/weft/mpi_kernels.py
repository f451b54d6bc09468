"""Programs that `weft mpi` runs itself, each rank a process: ping-pong, and a stencil.

They call Open MPI's library themselves, so that neither a compiler nor bindings need be installed.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

# Open MPI's library, as Debian's package and its own build name it.
_LIBRARIES = ("libmpi.so.40", "libmpi.so")
_IGNORE = None


class Mpi:
    """The few calls of MPI that the programs make."""

    def __init__(self) -> None:
        """Start MPI."""
        self._library = self._load()
        self._library.MPI_Init(None, None)
        self._world = self._handle("ompi_mpi_comm_world")
        self._byte = self._handle("ompi_mpi_byte")
        self._double = self._handle("ompi_mpi_double")
        self._largest = self._handle("ompi_mpi_op_max")
        self.rank = self._number("MPI_Comm_rank")
        self.size = self._number("MPI_Comm_size")

    @staticmethod
    def _load() -> ctypes.CDLL:
        for name in _LIBRARIES:
            try:
                return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            except OSError:
                continue
        raise SystemExit(f"there is no library of Open MPI: looked for {', '.join(_LIBRARIES)}")

    def _handle(self, name: str) -> ctypes.c_void_p:
        # Open MPI's handles are the addresses of these objects.
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._library, name)))

    def _number(self, call: str) -> int:
        found = ctypes.c_int()
        getattr(self._library, call)(self._world, ctypes.byref(found))
        return found.value

    def send(self, to: int, data: np.ndarray) -> None:
        """Send the bytes of an array."""
        at = ctypes.c_void_p(data.ctypes.data)
        self._library.MPI_Send(at, data.nbytes, self._byte, to, 0, self._world)

    def receive(self, source: int, data: np.ndarray) -> None:
        """Receive into an array."""
        at = ctypes.c_void_p(data.ctypes.data)
        self._library.MPI_Recv(at, data.nbytes, self._byte, source, 0, self._world, _IGNORE)

    def exchange(self, peer: int, out: np.ndarray, into: np.ndarray) -> None:
        """Send to a peer and receive from it."""
        sent, received = ctypes.c_void_p(out.ctypes.data), ctypes.c_void_p(into.ctypes.data)
        self._library.MPI_Sendrecv(
            *(sent, out.nbytes, self._byte, peer, 0),
            *(received, into.nbytes, self._byte, peer, 0, self._world, _IGNORE),
        )

    def largest(self, value: float) -> float:
        """Return the largest value of all ranks."""
        own, found = ctypes.c_double(value), ctypes.c_double()
        self._library.MPI_Allreduce(
            ctypes.byref(own), ctypes.byref(found), 1, self._double, self._largest, self._world
        )
        return found.value

    def one_way_ns(self, provider: str, rounds: int) -> int:
        """Return what a message of 8 B takes, by the provider's own loop (one_way.rs)."""
        calls = (self._library.MPI_Send, self._library.MPI_Recv)
        pointers = [*(ctypes.cast(it, ctypes.c_void_p) for it in calls), self._byte, self._world]
        table = (ctypes.c_void_p * 4)(*(it.value for it in pointers))
        measure = ctypes.CDLL(provider).weft_mpi_one_way_ns
        measure.restype = ctypes.c_longlong
        return int(measure(table, self.rank, rounds))

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._library.MPI_Barrier(self._world)

    def end(self) -> None:
        """End MPI."""
        self._library.MPI_Finalize()


def ping_pong(mpi: Mpi, size: int, rounds: int) -> None:
    """Send one message to and fro."""
    data = np.zeros(size, dtype=np.uint8)
    mpi.barrier()
    for _ in range(rounds):
        if mpi.rank == 0:
            mpi.send(1, data)
            mpi.receive(1, data)
        elif mpi.rank == 1:
            mpi.receive(0, data)
            mpi.send(0, data)


def stencil(mpi: Mpi, width: int, steps: int) -> None:
    """Relax a square grid by Jacobi's method; each rank has some rows, and exchanges its edges."""
    rows = width // mpi.size
    grid = np.zeros((rows + 2, width))
    if mpi.rank == 0:
        grid[0] = 1.0
    mpi.barrier()
    for _ in range(steps):
        # Even ranks turn to the next first, odd ones to the one before.
        for peer in (mpi.rank + 1, mpi.rank - 1)[:: 1 if mpi.rank % 2 == 0 else -1]:
            if 0 <= peer < mpi.size:
                edge, halo = (rows, rows + 1) if peer > mpi.rank else (1, 0)
                mpi.exchange(peer, grid[edge], grid[halo])
        inner = grid[1:-1, 1:-1]
        new = (grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]) / 4
        change = float(np.abs(new - inner).max())
        inner[:] = new
        mpi.largest(change)


def _main() -> None:
    name, first, second = sys.argv[1], sys.argv[2], int(sys.argv[3])
    mpi = Mpi()
    if name == "one-way":
        took_ns = mpi.one_way_ns(first, second)
        if mpi.rank == 0:
            print(took_ns)
    else:
        {"ping-pong": ping_pong, "stencil": stencil}[name](mpi, int(first), second)
    mpi.end()


if __name__ == "__main__":
    _main()
