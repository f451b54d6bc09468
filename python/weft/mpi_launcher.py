"""Wait for a launcher of MPI programs, and end one that goes on without any process.

Open MPI's `mpirun` (4.1.4) deadlocks in `PMIx_server_finalize` about once in a hundred times that a
rank is killed, when all ranks have ended.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# So long a launcher may go on when its last process has ended.
ALONE_S = 5.0
# Between two looks at its processes; before the first of them is seen, they may end soon.
_LOOK_S = 1.0
_FIRST_LOOKS_S = 0.1
# How long a launcher has to obey a signal.
_OBEY_S = 2.0


class AloneError(Exception):
    """A launcher went on without any process, and was ended."""


def wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a launcher; its exit status, negative if a signal has ended it.

    Raises:
        AloneError: If it had started processes, and none was left for `ALONE_S`.

    """
    try:
        ended = os.pidfd_open(process.pid)
    except OSError:
        # A kernel before 5.3: without its signal the launcher would have to be polled.
        return wait_plainly(process)
    try:
        return _watched(process, ended)
    finally:
        os.close(ended)


def wait_plainly(process: subprocess.Popen[bytes]) -> int:
    """Wait for a program; its exit status, negative if a signal has ended it."""
    while True:
        # The program has the signal too, and ends.
        with suppress(KeyboardInterrupt):
            return process.wait()


def _watched(process: subprocess.Popen[bytes], ended: int) -> int:
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    alone = _Alone(process.pid)
    while True:
        with suppress(KeyboardInterrupt):
            if poll.poll(1000 * (_LOOK_S if alone.had_children else _FIRST_LOOKS_S)):
                return process.wait()
            if alone.look(time.monotonic()) >= ALONE_S:
                _end(process)
                raise AloneError(
                    f"it went on for {ALONE_S:g} s after the end of its last process, as Open MPI "
                    "4.1.4 does where it deadlocks, and was ended"
                )


@dataclass
class _Alone:
    """How long a launcher has been without processes that it had started."""

    pid: int
    had_children: bool = False
    since_s: float | None = None

    def look(self, now_s: float) -> float:
        """Look at it; for how many seconds it has had none."""
        children = _running_children(self.pid)
        self.had_children |= bool(children)
        # It may be stopped, or wait for whoever reads what the processes have printed.
        if not self.had_children or children or not _runs(self.pid) or not _are_read():
            self.since_s = None
            return 0
        if self.since_s is None:
            self.since_s = now_s
        return now_s - self.since_s


def _state(pid: int) -> str:
    """Return the kernel's letter for what a process does; none if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return ""


def _runs(pid: int) -> bool:
    return _state(pid) not in {"", "T", "t", "Z"}


def _running_children(pid: int) -> list[int]:
    """Return the children of a process that have not ended."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        # A thread may end meanwhile.
        with suppress(OSError):
            words = (thread / "children").read_text(encoding="utf-8").split()
            found += [int(word) for word in words if _state(int(word)) not in {"", "Z"}]
    return found


def _are_read(numbers: tuple[int, ...] = (1, 2)) -> bool:
    """Whether descriptors take more bytes: those of the output, which a launcher shares."""
    poll = select.poll()
    for number in numbers:
        poll.register(number, select.POLLOUT)
    return len(poll.poll(0)) == len(numbers)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a launcher, and remove the directory of its session, which it has not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_OBEY_S)
            break
    session = Path(tempfile.gettempdir()) / f"ompi.{os.uname().nodename}.{os.getuid()}"
    shutil.rmtree(session / f"pid.{process.pid}", ignore_errors=True)
