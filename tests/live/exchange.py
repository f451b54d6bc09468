"""Kernel TCP against the live library on this host: latency and streams, in turn.

One JSON object a case: the figures of both, the ratio of their medians (above one is better), and
the load that others put on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

CASES = [
    ("pingpong", 64, 20_000, "cross"),
    ("pingpong", 64, 50_000, "same"),
    ("epoll", 64, 20_000, "cross"),
    ("epoll", 64, 30_000, "same"),
    ("stream", 64, 200_000, "cross"),
    ("stream", 1024, 200_000, "cross"),
    ("stream", 16_384, 20_000, "cross"),
    ("stream", 65_536, 10_000, "cross"),
    ("stream", 1_048_576, 1_000, "cross"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--prefix", default="", help="run under this, such as `chrt -f 10`")
    options = parser.parse_args()
    carried = {**os.environ, "LD_PRELOAD": str(options.library.resolve())}
    for kind, size, count, place in CASES:
        command = [*options.prefix.split(), str(options.program)]
        command += [kind, str(size), str(count), place]
        figures: dict[str, list[float]] = {"plain": [], "carried": []}
        for turn in range(2 * options.turns):
            name = "carried" if turn % 2 else "plain"
            env = carried if turn % 2 else dict(os.environ)
            ran = subprocess.run(
                command, env=env, capture_output=True, text=True, check=True, timeout=60
            )
            figures[name].append(float(ran.stdout))
        plain, live = (statistics.median(figures[name]) for name in ("plain", "carried"))
        case = {
            "case": f"{kind} {size} B {place}",
            "unit": "GB/s" if kind == "stream" else "us one way",
            **figures,
            "ratio": round(live / plain if kind == "stream" else plain / live, 3),
            "load_average": os.getloadavg()[0],
        }
        print(json.dumps(case), flush=True)


if __name__ == "__main__":
    main()
