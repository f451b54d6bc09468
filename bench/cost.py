"""What `weft run` costs besides the simulation: one JSON object a case.

Each case is a process of its own, and the cases run in turn, so that what disturbs the machine
disturbs all of them; the least of the turns counts. Processor time is given as a share of what
`import pandas` takes, which depends on the machine as the cases do. With valgrind installed there
is the number of instructions, too, of the cases without V8.

    python bench/cost.py [--turns 5]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# A run of next to nothing.
SMALL = """\
base = "clint"
preset = "fitted"
run.length = "100 us"
workload.bulk.load = 0.5
"""

# Everything up to the call that simulates.
BEFORE = "import os; from weft import _core, cli; _core.run = lambda *_: os._exit(0); cli.main()"

UNIT = "import pandas"
RUN = ["-m", "weft", "run", "small.toml"]
CASES = {
    UNIT: ["-c", "import pandas"],
    "weft --help": ["-m", "weft", "--help"],
    "weft run before it simulates": ["-c", BEFORE, "run", "small.toml", "--out", "none"],
    "weft run --json": [*RUN, "--json"],
    "weft run --no-pictures": [*RUN, "--out", "bare", "--no-pictures"],
    "weft run": [*RUN, "--out", "whole"],
}
WITH_V8 = {"weft run"}


def cost(words: list[str], folder: str) -> tuple[float, float]:
    """Run Python once; return its processor time in seconds and its largest size in MB."""
    null = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, *words], cwd=folder, stdout=null, stderr=null)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"python {' '.join(words)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def instructions(words: list[str], folder: str) -> int | None:
    """Count the instructions of a case."""
    if shutil.which("valgrind") is None:
        return None
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    done = subprocess.run(
        [*tool, sys.executable, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    return int(found[1].replace(",", "")) if found else None


def main() -> None:
    """Print every case."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=5)
    turns = options.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "small.toml").write_text(SMALL, encoding="utf-8")
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in CASES}
        for _ in range(turns):
            for name, words in CASES.items():
                seen[name].append(cost(words, folder))
        unit = min(time for time, _ in seen[UNIT])
        for name, words in CASES.items():
            told = {
                "workload": name,
                "of_import_pandas": round(min(time for time, _ in seen[name]) / unit, 2),
                "resident_mb": round(max(size for _, size in seen[name])),
            }
            if name not in WITH_V8 and (count := instructions(words, folder)) is not None:
                told["instructions"] = count
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
