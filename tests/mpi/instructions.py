"""Instructions of an 8 B message, over the provider and over Open MPI's own shared memory.

Times depend on what else a machine does, instructions hardly do: valgrind's callgrind counts those
of posting a receive, of sending between two ranks, and of completing a receive whose message has
arrived, and says in which library they were executed. Waiting is not counted. Those of `MPI_Test`
that finds nothing are counted apart. Two JSON objects a transport; with `--hold` one line of what
the provider itself takes for each call, which must not be more than it may be.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import launching

CALLS = ("counted_post", "counted_send", "counted_receive")
POLL = "counted_poll"
LIBRARY = "libweft-fi.so"
# What the provider itself may take for each call; less than half as much was not counted.
MOST = {"counted_post": 135, "counted_send": 162, "counted_receive": 345, POLL: 60}
# As in counted.c.
BATCH, POLLS = 32, 512
BATCHES = 40


def libraries(path: Path) -> Counter[str]:
    """Return the instructions that callgrind counted, by the library that they belong to."""
    names: dict[str, str] = {}
    counted: Counter[str] = Counter()
    library, is_call = "", False
    for line in path.read_text().splitlines():
        if found := re.match(r"ob=\((\d+)\)(?: (.*))?$", line):
            number, name = found.groups()
            if name:
                names[number] = Path(name).name
            library = names[number]
        elif found := re.match(r"cob=\((\d+)\) (.*)$", line):
            names[found.group(1)] = Path(found.group(2)).name
        elif line.startswith("calls="):
            is_call = True
        elif found := re.match(r"[+\-*\d]\S* (\d+)$", line):
            # The line behind a call has what was executed in it, which its own lines have, too.
            counted[library] += 0 if is_call else int(found.group(1))
            is_call = False
    return counted


def count(stage: launching.Stage, transport: tuple[str, ...], call: str) -> Counter[str]:
    """Return the instructions of one kind of call, per message or poll, by library."""
    program = stage.compile("counted")
    meeting = stage.folder / "meeting"
    meeting.write_bytes(bytes(4096))
    out = stage.folder / "counts"
    for old in stage.folder.glob("counts.*"):
        old.unlink()
    stage.mpirun(
        2,
        transport,
        *("valgrind", "--tool=callgrind", f"--toggle-collect={call}"),
        *(f"--callgrind-out-file={out}.%p", program, str(meeting), str(BATCHES)),
    )
    total: Counter[str] = Counter()
    for file in stage.folder.glob("counts.*"):
        total += libraries(file)
    each = 2 * BATCHES * (POLLS if call == POLL else BATCH)
    return Counter({name: round(many / each) for name, many in total.items()})


def hold(stage: launching.Stage) -> int:
    """Hold what the provider takes for each call; the exit status."""
    own = {call: count(stage, launching.WEFT, call)[LIBRARY] for call in MOST}
    wrong = [call for call, most in MOST.items() if not most / 2 < own[call] <= most]
    said = ", ".join(f"{call.removeprefix('counted_')} {many}" for call, many in own.items())
    print(f"instructions of the provider: {said}")
    for call in wrong:
        print(f"FAILED {call}: not between {MOST[call] // 2} and {MOST[call]}")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--provider", type=Path, required=True)
    parser.add_argument("--hold", action="store_true", help="fail if the provider takes too many")
    options = parser.parse_args()
    if missing := [it for it in ("mpirun", "mpicc", "valgrind") if not shutil.which(it)]:
        print(f"skipped: there is no {', '.join(missing)}")
        return 0
    transports = {"weft": launching.WEFT, "vader": launching.SHARED}
    with tempfile.TemporaryDirectory(prefix="weft-mpi-counts-") as folder:
        directory = Path(folder) / "meet"
        directory.mkdir(mode=0o700)
        stage = launching.Stage(options.provider.resolve(), Path(folder), directory)
        if options.hold:
            return hold(stage)
        for name, transport in transports.items():
            counts = {call: count(stage, transport, call) for call in (*CALLS, POLL)}
            poll = counts.pop(POLL)
            said = {call.removeprefix("counted_"): it.total() for call, it in counts.items()}
            message = sum(counts.values(), Counter())
            for what, by_library in (("all", message), ("poll", poll)):
                of = {"transport": name, **(said if what == "all" else {})}
                of[what] = by_library.total()
                print(json.dumps({**of, "libraries": dict(by_library.most_common())}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
