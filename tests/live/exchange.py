"""Kernel TCP against the live library on this host: latency, streams, connections, in turn.

One JSON object a case: the figures of both, the ratio of their medians (above one is better) with
the interval of a bootstrap, how often an accelerated connection entered the kernel and why, and
the load that others put on the machine meanwhile. netperf is not in Debian; its TCP_RR and TCP_CRR
are here as exchanges of one byte, on one connection and with a connection for each. Connections of
a few exchanges are where joining can lose.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

TCP, BARE = 0, 2
PINGPONG, EPOLL, STREAM = range(3)
NAMES = ("ping-pong", "ping-pong with epoll", "stream")
UNITS = ("us one way", "us one way", "GB/s")
# The kinds from here on are connections of 1, 2, 3 and more exchanges each.
CONNECT = 3
EXCHANGES = (1, 2, 5, 10, 20, 50, 100)
# Their ratio is near one: so many times as many turns, for the same spread to say something.
MORE_TURNS = 3

CASES = [
    *((kind, 64, here) for kind in (PINGPONG, EPOLL) for here in (1, 0)),
    *((PINGPONG, 1, here) for here in (1, 0)),
    *((CONNECT + count - 1, 1, here) for here in (1, 0) for count in EXCHANGES),
    *((STREAM, size, here) for here in (1, 0) for size in (64, 1024, 16_384, 65_536, 1_048_576)),
]

EXCHANGE = Path(__file__).parents[2] / "python" / "weft" / "live_exchange.py"


def exchange(library: Path, numbers: tuple[int, ...], *, accelerated: bool) -> float:
    """Run one measurement: medium, kind, size, span in nanoseconds, the two processors."""
    how = {"LD_PRELOAD": str(library)} if accelerated else {"WEFT_LIVE": "off"}
    command = [sys.executable, "-I", str(EXCHANGE), str(library), *map(str, numbers)]
    ran = subprocess.run(
        command, env={**os.environ, **how}, capture_output=True, text=True, check=True, timeout=60
    )
    return float(ran.stdout)


# What the library has counted in a process and its child, by its place in their figures.
COUNTS = {"messages": 6, "sleeps": 9, "questions": 12, "looks_aside": 13, "turns": 14}
COUNTED = """
import os, runpy, struct, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
for name in os.listdir("/proc/self/fd"):
    path = "/proc/self/fd/" + name
    if os.path.islink(path) and os.readlink(path).startswith("/memfd:weft-live ("):
        with open(path, "rb") as figures:
            print(*struct.unpack("15Q", figures.read(120)))
"""


def entries(library: Path, numbers: tuple[int, ...]) -> dict[str, int]:
    """Run one measurement more; how often both ends entered the kernel, by the reason."""
    words = [sys.executable, "-I", "-c", COUNTED, str(EXCHANGE), str(library), *map(str, numbers)]
    how = {**os.environ, "LD_PRELOAD": str(library)}
    ran = subprocess.run(words, env=how, capture_output=True, text=True, check=True, timeout=60)
    counts = ran.stdout.splitlines()[-1].split()
    return {name: int(counts[place]) for name, place in COUNTS.items()}


def interval(first: list[float], second: list[float], *, rises: bool) -> list[float]:
    """Give the bounds of the ratio of the medians in 95 of 100 draws of the same figures."""
    draw = random.Random(1)
    ratios = []
    for _ in range(1000):
        one, other = (
            statistics.median(draw.choices(figures, k=len(figures))) for figures in (first, second)
        )
        ratios.append(other / one if rises else one / other)
    ratios.sort()
    return [round(ratios[at], 3) for at in (25, 975)]


def described(kind: int, size: int, here: int) -> tuple[str, str]:
    """Name a case and its unit."""
    where = f"{size} B, {'two processors' if here else 'one processor'}"
    if kind < CONNECT:
        return f"{NAMES[kind]}, {where}", UNITS[kind]
    return f"connection of {kind - CONNECT + 1}, {where}", "us a connection"


def measured(library: Path, case: tuple[int, int, int], turns: int, span: int) -> dict[str, object]:
    """Measure a case so many times with and without, each for a span in nanoseconds."""
    kind, size, here = case
    figures: dict[str, list[float]] = {"plain": [], "accelerated": []}
    beside_bare = case == (PINGPONG, 64, 1)
    bare: list[float] = []
    for turn in range(2 * turns * (MORE_TURNS if kind >= CONNECT else 1)):
        # Which goes first changes too, so that what grows over a pair meets both alike.
        name = "accelerated" if turn % 4 in (1, 2) else "plain"
        numbers = (TCP, kind, size, span, here, 0)
        figures[name].append(exchange(library, numbers, accelerated=name == "accelerated"))
        if beside_bare and name == "accelerated":
            bare.append(exchange(library, (BARE, *numbers[1:]), accelerated=False))
    name, unit = described(*case)
    plain, live = (statistics.median(figures[name]) for name in ("plain", "accelerated"))
    result: dict[str, object] = {
        "case": name,
        "unit": unit,
        **figures,
        "ratio": round(live / plain if kind == STREAM else plain / live, 3),
        "ratio_interval": interval(figures["plain"], figures["accelerated"], rises=kind == STREAM),
        "load_average": os.getloadavg()[0],
    }
    if kind < CONNECT:
        result["kernel_entries"] = entries(library, (TCP, kind, size, span, here, 0))
    if beside_bare:
        result["bare_memory"] = bare
        result["accelerated_over_bare"] = round(live / statistics.median(bare), 3)
        result["accelerated_over_bare_interval"] = interval(
            bare, figures["accelerated"], rises=True
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="Example: exchange.py --library LIBRARY --only 'ping-pong, 64 B'",
    )
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="of one measurement")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    options = parser.parse_args()
    library, span = options.library.resolve(), int(options.seconds * 1e9)
    cases = [case for case in CASES if options.only in described(*case)[0]]
    if not cases:
        names = "; ".join(described(*case)[0] for case in CASES)
        parser.error(f"no case has {options.only!r} in its name; there are: {names}")
    for case in cases:
        print(json.dumps(measured(library, case, options.turns, span)), flush=True)


if __name__ == "__main__":
    main()
