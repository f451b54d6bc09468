"""Instructions that a message takes in the live library, counted by valgrind's callgrind.

Times are noisy where others have the machine, too; these counts repeat. A process sends messages
to itself and receives each at once, so that nobody waits. One JSON object a size: the instructions
of a send and a receive outside the kernel. One for each way to call on a connection that stays with
the kernel: what the library adds; with `--hold` no more than is said there.
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

import instructions_plain

SIZES = (64, 1024)
COUNTS = (2_000, 12_000)
"""Messages of two runs, by whose difference what else a process does falls out."""
PROGRAM = r"""
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
static char bytes[1 << 16];
/* program COUNT SIZE */
int main(int words, char **word) {
    if (words != 3) return 1;
    int count = atoi(word[1]), size = atoi(word[2]), listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof here;
    if (bind(listener, (void *)&here, length) || listen(listener, 1)) return 2;
    if (getsockname(listener, (void *)&here, &length)) return 2;
    int near = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(near, (void *)&here, length)) return 2;
    int far = accept(listener, 0, 0);
    for (int nth = 0; nth < count; nth++)
        if (send(near, bytes, size, 0) != size || recv(far, bytes, size, 0) != size)
            return 3;
    return 0;
}
"""


def counted(program: Path, library: Path, count: int, size: int) -> int:
    """Run the program with the library; the instructions that it took."""
    log = program.with_suffix(".log")
    log.unlink(missing_ok=True)
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    ran = subprocess.run(
        [*command, str(program), str(count), str(size)],
        env={**os.environ, "LD_PRELOAD": str(library), "WEFT_LIVE_LOG": str(log)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    if "accelerated" not in log.read_text():
        raise SystemExit(f"{program}: nothing was accelerated: {log.read_text()}")
    found = re.search(r"Collected : (\d+)", ran.stderr)
    if found is None:
        raise SystemExit(f"valgrind says no count: {ran.stderr}")
    return int(found[1])


def compiled(folder: str, name: str, source: str) -> Path:
    """Compile a program."""
    program = Path(folder, name)
    command = ["cc", "-O1", "-pthread", "-x", "c", "-", "-o", str(program)]
    subprocess.run(command, input=source.encode(), check=True)
    return program


def accelerated(library: Path, program: Path) -> None:
    """Print what a message of each size takes over shared memory."""
    for size in SIZES:
        few, many = (counted(program, library, count, size) for count in COUNTS)
        result = {
            "case": f"send and receive, {size} B, one process",
            "unit": "instructions",
            "accelerated": round((many - few) / (COUNTS[1] - COUNTS[0]), 1),
        }
        print(json.dumps(result), flush=True)


def main() -> int:
    """Print the counts, or hold them to what they may be."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Example: instructions.py --library LIBRARY"
    )
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--hold", action="store_true", help="fail if the library adds too much")
    options = parser.parse_args()
    library = options.library.resolve()
    missing = [name for name in ("valgrind", "cc") if shutil.which(name) is None]
    if missing:
        print(f"instructions are not counted without {' and '.join(missing)}", file=sys.stderr)
        return 0
    counts_calls = shutil.which("strace") is not None
    too_many = 0
    with tempfile.TemporaryDirectory() as folder:
        if not options.hold:
            accelerated(library, compiled(folder, "itself", PROGRAM))
        plain = compiled(folder, "plain", instructions_plain.PROGRAM)
        for result in instructions_plain.added(library, plain, counts_calls):
            is_too_much = result["added"] > result["most"]
            too_many += is_too_much
            if is_too_much or not options.hold:
                print(json.dumps(result), flush=True)
    if options.hold:
        print(f"instructions: {too_many} of the counts are above what they may be")
    return min(too_many, 1) if options.hold else 0


if __name__ == "__main__":
    sys.exit(main())
