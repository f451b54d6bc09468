"""Odd calls on connections, with the live library and without: both must say the same.

Each scene gets a fresh connection whose two ends have been accelerated (or would have been),
makes its calls, and says what each returned, `errno` included. The scenes of a file run in one
process with the library and in one without, beside those of another file, as most only wait; what
they say is compared line by line.
"""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import calls_back  # noqa: F401 (its scenes are remembered)
import calls_bare  # noqa: F401 (the same)
import calls_bytes  # noqa: F401 (the same)
import calls_corners  # noqa: F401 (the same)
import calls_descriptors  # noqa: F401 (the same)
import calls_edges  # noqa: F401 (the same)
import calls_ends  # noqa: F401 (the same)
import calls_family  # noqa: F401 (the same)
import calls_hunted  # noqa: F401 (the same)
import calls_jumps  # noqa: F401 (the same)
import calls_leaving  # noqa: F401 (the same)
import calls_lent  # noqa: F401 (the same)
import calls_limits  # noqa: F401 (the same)
import calls_nested  # noqa: F401 (the same)
import calls_nested_games  # noqa: F401 (the same)
import calls_odd  # noqa: F401 (the same)
import calls_pointers  # noqa: F401 (the same)
import calls_queue  # noqa: F401 (the same)
import calls_shared  # noqa: F401 (the same)
import calls_unknown  # noqa: F401 (the same)
from calls_stage import SCENES

LIMIT_S = 300
AT_ONCE = 5
"""Files whose scenes run at the same time."""
LONG = ("calls_leaving", "calls_lent", "calls_back", "calls_ends", "calls_edges")
"""Files whose scenes take longest: they begin first, and others fill up the time beside them."""


def said_by(command: list[str], environment: dict[str, str]) -> list[str]:
    """Run the scenes; what they say, as far as they came in time."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        try:
            ended = subprocess.run(
                command, env=environment, stdout=out, stderr=error, timeout=LIMIT_S, check=False
            ).returncode
            late = [f"  ended by code {ended}"] if ended else []
        except subprocess.TimeoutExpired:
            late = [f"  ended by nothing in {LIMIT_S} s"]
        for file in (out, error):
            file.seek(0)
        return [*out.read().splitlines(), *error.read().splitlines()[-20:], *late]


def both(file: str, accelerated: dict[str, str]) -> list[list[str]]:
    """What the scenes of a file say without the library and with it."""
    command = [sys.executable, __file__, "--scenes", "--file", file]
    return [said_by(command, {**os.environ, **more}) for more in ({}, accelerated)]


def tried_again(file: str, part: list[list[str]], accelerated: dict[str, str]) -> list[list[str]]:
    """What the scenes of a file say; alone if they differ, as some send a signal after 6 ms."""
    differing = list(difflib.unified_diff(*part, "without", "with", lineterm="", n=3))
    broken = [line for side in part for line in side if line.startswith("  ended by ")]
    if not differing and not broken:
        return part
    print("\n".join([f"{file}, beside others, which is tried again alone:", *differing, *broken]))
    return both(file, accelerated)


def compared(library: Path) -> int:
    """Run all scenes with the library and without; print what differs."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(AT_ONCE) as pool:
        log = Path(name) / "log"
        how = {"LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(log)}
        modules = {made.__module__ for made in SCENES}
        files = sorted(modules, key=lambda file: (file not in LONG, file))
        beside = list(pool.map(lambda file: both(file, how), files))
        parts = [tried_again(file, part, how) for file, part in zip(files, beside, strict=True)]
        said = [[line for part in parts for line in part[side]] for side in (0, 1)]
        accelerated = (
            log.read_text().count("accelerated through shared memory") if log.exists() else 0
        )
    differing = list(difflib.unified_diff(*said, "without", "with", lineterm="", n=3))
    print("\n".join(differing))
    count = sum(not line.startswith(" ") for line in said[0])
    lines = sum(line.startswith(" ") for line in said[0])
    broken = [line for line in said[0] + said[1] if line.startswith("  ended by ")]
    print("\n".join(broken))
    complaint = bool(differing) or bool(broken) or accelerated < count
    print(f"calls: {count} scenes, {lines} results, {accelerated} ends accelerated, ", end="")
    print("not the same" if complaint else "all the same")
    return int(complaint)


def main() -> int:
    """Run the scenes, or compare two runs of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--scenes", action="store_true", help="run the scenes as they are")
    parser.add_argument("--file", default="", help="only those of a file, such as calls_back")
    parser.add_argument("--only", default="", help="scenes whose name has this in it")
    options = parser.parse_args()
    if not options.scenes:
        return compared(options.library.resolve())
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for made in SCENES:
        if options.only in made.__name__ and options.file in ("", made.__module__):
            print(made.__name__, flush=True)
            try:
                made()
            except Exception as why:
                print(f"  ended by {type(why).__name__}: {why}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
