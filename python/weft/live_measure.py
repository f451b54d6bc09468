"""What this host's kernel TCP, Unix sockets and live library do: latency and throughput by size.

The measuring itself is a function of the preload library (`crates/live/src/exchange.rs`), called in
a process of its own for each measurement: one with the library preloaded, whose TCP connection is
accelerated, or one that merely opens it, whose calls are the kernel's. The media take turns, so
that whatever else the machine does meets them alike.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

KERNEL, UNIX, LIVE = "kernel TCP", "Unix socket", "weft live"
MEDIA = (KERNEL, UNIX, LIVE)
LATENCY, THROUGHPUT = "latency", "throughput"
QUANTITIES = (LATENCY, THROUGHPUT)
UNITS = {LATENCY: "us", THROUGHPUT: "GB/s"}

SIZES = (64, 256, 1024, 4096, 16_384, 65_536, 262_144)
TURNS = 5

# Overhead of a measurement: starting the process, and a stream until it reaches full speed.
_START_S = 0.06
_STREAM = 1.5
# In less a stream between two ends that wake slowly has not come to its speed.
_SHORTEST_S = 0.05
# The share of the remaining time that is spent measuring; the rest is a reserve.
_SPENT = 2 / (1 + _STREAM)

# The indices of the enums in exchange.rs.
_MEDIUM = {KERNEL: 0, LIVE: 0, UNIX: 1}
_KIND = {LATENCY: 0, THROUGHPUT: 2}

_EXCHANGE = Path(__file__).with_name("live_exchange.py")


class MeasureError(Exception):
    """Why nothing could be measured."""


class StoppedError(MeasureError):
    """It was stopped before there was anything to show."""


@dataclass(frozen=True)
class Point:
    """One quantity of one medium at one message size, over all turns.

    Latency is one way in microseconds, throughput in gigabytes (10^9 B) a second.
    """

    medium: str
    quantity: str
    size_bytes: int
    median: float
    least: float
    most: float


@dataclass(frozen=True)
class Measurement:
    """All points of a measurement, and where it ran."""

    points: tuple[Point, ...]
    processors: tuple[int, int]
    turns: int
    stopped: bool

    def at(self, medium: str, quantity: str, size_bytes: int) -> float:
        """Return the median of a point that was measured."""
        return next(
            point.median
            for point in self.points
            if (point.medium, point.quantity, point.size_bytes) == (medium, quantity, size_bytes)
        )


def processors() -> tuple[int, int]:
    """Choose where the two ends run: two processors of those that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[1], allowed[0]) if len(allowed) > 1 else (allowed[0], allowed[0])


def measure(
    library: Path,
    seconds: float,
    progress: Callable[[int, int, str], bool],
    sizes: tuple[int, ...] = SIZES,
) -> Measurement:
    """Measure all media for about so many seconds.

    Args:
        library: the preload library.
        seconds: of the whole measurement; where there are few, each case is measured fewer times,
            but at least once.
        progress: called with (done, total, label); returning False ends it early, and what all
            media have completed by then is returned.
        sizes: of the messages, in bytes.

    Raises:
        MeasureError: if a measurement fails.
        StoppedError: if it ends before a turn is complete.

    """
    where = processors()
    turn = [
        (medium, quantity, size) for size in sizes for quantity in QUANTITIES for medium in MEDIA
    ]
    turns = int(seconds / len(turn) / (_START_S + _SHORTEST_S / _SPENT))
    turns = max(1, min(TURNS, turns))
    total = turns * len(turn)
    found: dict[tuple[str, str, int], list[float]] = {case: [] for case in turn}
    complete = 0
    for done in range(total):
        medium, quantity, size = case = turn[done % len(turn)]
        if not progress(done, total, f"{medium}, {quantity}, {size} B"):
            break
        share = _STREAM if quantity == THROUGHPUT else 1.0
        span = max(_SHORTEST_S, (seconds / total - _START_S) * _SPENT) / share
        found[case].append(_one(library, case, span, where))
        complete = (done + 1) // len(turn)
    if complete == 0:
        raise StoppedError("stopped before each medium was measured once; nothing was written")
    points = tuple(
        Point(*case, statistics.median(values), min(values), max(values))
        for case, values in ((case, values[:complete]) for case, values in found.items())
    )
    return Measurement(points, where, complete, complete < turns)


def _one(library: Path, case: tuple[str, str, int], span: float, where: tuple[int, int]) -> float:
    medium, quantity, size = case
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_LIVE")}
    how = {"LD_PRELOAD": str(library)} if medium == LIVE else {"WEFT_LIVE": "off"}
    numbers = (_MEDIUM[medium], _KIND[quantity], size, int(span * 1e9), *where)
    command = [sys.executable, "-I", "-S", str(_EXCHANGE), str(library), *map(str, numbers)]
    try:
        # In a session of its own: Ctrl-C stops the whole measurement between two of these.
        ran = subprocess.run(
            command,
            env={**clean, **how},
            capture_output=True,
            text=True,
            check=True,
            timeout=60 + span,
            start_new_session=True,
        )
        figure = float(ran.stdout)
    except subprocess.TimeoutExpired:
        raise MeasureError(f"{medium} did not end a measurement of {size} B messages") from None
    except (subprocess.CalledProcessError, ValueError, OSError) as why:
        said = str(getattr(why, "stderr", "") or why).strip().splitlines()
        raise MeasureError(f"{medium} could not be measured: {said[-1] if said else why}") from None
    if figure <= 0:
        raise MeasureError(f"{medium} could not be measured with messages of {size} B")
    return figure
