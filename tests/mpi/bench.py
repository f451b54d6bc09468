"""Open MPI's own transports against the provider, in turn: `make bench-mpi`.

One JSON object a case says the least and the middle of their times, and the ratios: messages
between two ranks, an allreduce of more ranks than there are processors, whole programs, and the
loop of a program with more ranks than processors.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

import launching
import programs

if TYPE_CHECKING:
    from collections.abc import Callable

# Of the smaller one most time is the benchmark's fixed number of short messages; the larger one
# computes for some seconds, as users of the benchmark have it do.
HPCC_ORDERS = (400, 3000)

TCP = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self")


def bench(stage: launching.Stage, turns: int) -> None:
    """Print the least time of each transport over some turns, and the ratios."""
    program = stage.compile("pingpong")
    for ranks, names in (
        (2, {"weft": launching.WEFT, "vader": launching.SHARED, "tcp": TCP}),
        (6, {"weft": launching.WEFT, "vader": launching.SHARED}),
    ):
        taken: dict[str, dict[int, list[float]]] = {name: {} for name in names}
        for _ in range(turns):
            for name, transport in names.items():
                for size, time_us in launching.figures(
                    stage.mpirun(ranks, transport, program)
                ).items():
                    taken[name].setdefault(size, []).append(time_us)
        for size in taken["weft"]:
            least = {name: min(found[size]) for name, found in taken.items()}
            middle = {name: statistics.median(found[size]) for name, found in taken.items()}
            ratios = {
                f"weft/{name}": least["weft"] / it for name, it in least.items() if name != "weft"
            }
            said = {"ranks": ranks, "bytes": size, "least_us": least, "median_us": middle, **ratios}
            print(json.dumps(said), flush=True)


def bench_programs(stage: launching.Stage, turns: int) -> None:
    """Print what whole programs take over the provider and over shared memory, and the ratios.

    Processors' seconds do not count what other programs take of the machine, but count polling.
    The first program only starts and ends MPI, which the ratios of the others leave out: libfabric
    reads the symbols of the kernel then, which takes longer than some of these programs.
    """
    started = stage.compile("pingpong")
    runs: dict[str, Callable[[tuple[str, ...]], object]] = {
        "start and end": lambda transport: stage.mpirun(2, transport, started, "0")
    }
    if launching.is_there("lmp"):
        runs["LAMMPS"] = lambda transport: stage.mpirun(2, transport, *programs.melting(stage))
    if launching.is_there("hpcc") and programs.HPCC_INPUT.exists():
        for order in HPCC_ORDERS:
            runs[f"hpcc of order {order}"] = functools.partial(
                programs.run_hpcc, stage, order=order
            )
    start: dict[str, dict[str, float]] = {}
    for program, run in runs.items():
        taken: dict[str, list[tuple[float, float]]] = {"weft": [], "vader": []}
        for turn in range(turns):
            both = [("weft", launching.WEFT), ("vader", launching.SHARED)]
            for name, transport in both[:: 1 if turn % 2 == 0 else -1]:
                begin, used = time.monotonic(), launching.processor_seconds()
                run(transport)
                taken[name].append((time.monotonic() - begin, launching.processor_seconds() - used))
        said: dict[str, object] = {"program": program, "ranks": 2}
        for at, what in enumerate(("wall_s", "processor_s")):
            least = {name: min(it[at] for it in found) for name, found in taken.items()}
            middle = {
                name: statistics.median(it[at] for it in found) for name, found in taken.items()
            }
            said[f"least_{what}"], said[f"median_{what}"] = least, middle
            begun = start.setdefault(what, middle)
            if begun is not middle:
                left = {name: time_s - begun[name] for name, time_s in middle.items()}
                said[f"weft/vader, {what} without start"] = left["weft"] / left["vader"]
        print(json.dumps(said), flush=True)


def bench_crowded(stage: launching.Stage, turns: int) -> None:
    """Print how long the loop of LAMMPS takes on more ranks than there are processors."""
    words = programs.melting(stage)
    for ranks in (4, 6):
        taken: dict[str, list[float]] = {"weft": [], "vader": []}
        for turn in range(turns):
            both = [("weft", launching.WEFT), ("vader", launching.SHARED)]
            for name, transport in both[:: 1 if turn % 2 == 0 else -1]:
                said = stage.mpirun(ranks, transport, *words)
                loop = re.search(r"Loop time of ([0-9.]+)", said)
                if loop is None:
                    message = f"LAMMPS says no time of its loop: {said}"
                    raise launching.FailedError(message)
                taken[name].append(float(loop[1]))
        least = {name: min(found) for name, found in taken.items()}
        middle = {name: statistics.median(found) for name, found in taken.items()}
        case = {"program": "loop of LAMMPS", "ranks": ranks}
        times = {"least_s": least, "median_s": middle}
        ratio = middle["weft"] / middle["vader"]
        print(json.dumps({**case, **times, "weft/vader": ratio}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-mpi-bench-") as folder:
        directory = Path(folder) / "meet"
        directory.mkdir(mode=0o700)
        stage = launching.Stage(options.provider.resolve(), Path(folder), directory)
        bench(stage, options.turns)
        bench_programs(stage, options.turns)
        if launching.is_there("lmp"):
            bench_crowded(stage, options.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
