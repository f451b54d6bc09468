"""Ctrl-C while a command runs: once it has done enough, however long that takes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HANGS_S = 600
"""What takes so long on any machine has stopped for good."""

COUNTING = """\
import sys
from weft import cli, progress
told = progress.Watch.step
def step(self, done, total, label):
    print(done, flush=True)
    return told(self, done, total, label)
progress.Watch.step = step
sys.argv[0] = "weft"
cli.main()
"""


def interrupted(
    words: Sequence[str],
    enough: int,
    cwd: Path,
    before: str = "",
    path: Sequence[Path] = (),
) -> tuple[int, str]:
    """Run a command, and interrupt it when so many of its steps are done.

    Returns what it ended with and what it said on standard error. `before` is run first, by a
    Python that finds modules in `path`.
    """
    with subprocess.Popen(
        [sys.executable, "-c", before + COUNTING, *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))} if path else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= enough:
                break
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=HANGS_S)
    return process.returncode, complaints
