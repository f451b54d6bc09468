"""Wait for a launcher of MPI programs, and end one that goes on without any process.

After one or two of a hundred kills of a rank (`make test-mpi KILLS=100`), Open MPI 4.1.4's `mpirun`
deadlocks in `PMIx_server_finalize` when all ranks have ended.

A launcher rightly goes on without any rank as long as a process that a rank has left behind holds
the rank's output. Such a process becomes a child of this one meanwhile, so that it is known.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# How long a launcher may go on after its last process has ended.
ALONE_S = 5.0
# Between two looks at its processes; before the first of them is seen, they may end soon.
_LOOK_S = 1.0
_FIRST_LOOKS_S = 0.1
# How long a launcher has to obey a signal.
_OBEY_S = 2.0
# Of Linux's <sys/prctl.h>.
_PR_SET_CHILD_SUBREAPER = 36


class AloneError(Exception):
    """A launcher went on without any process, and was ended."""


def wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a launcher, and return its exit status (negative if a signal killed it).

    Raises:
        AloneError: It had started processes and went on for `ALONE_S` seconds after the last of
            them, and of their descendants, had ended.

    """
    try:
        ended = os.pidfd_open(process.pid)
    except OSError:
        # A kernel before 5.3: without its signal the launcher would have to be polled.
        return wait_plainly(process)
    try:
        with _adopting():
            return _watched(process, ended)
    finally:
        os.close(ended)


def wait_plainly(process: subprocess.Popen[bytes]) -> int:
    """Wait for a program, and return its exit status (negative if a signal killed it)."""
    while True:
        # The program has the signal too, and ends.
        with suppress(KeyboardInterrupt):
            return process.wait()


@contextmanager
def _adopting() -> Iterator[None]:
    """Become the parent of all processes that the own children leave behind."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _watched(process: subprocess.Popen[bytes], ended: int) -> int:
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    alone = _Alone(process.pid)
    while True:
        with suppress(KeyboardInterrupt):
            if poll.poll(1000 * (_LOOK_S if alone.had_children else _FIRST_LOOKS_S)):
                return process.wait()
            if alone.look(time.monotonic()) < ALONE_S:
                continue
            break
    code = process.poll()
    if code is not None:
        # It has ended by itself at the last moment.
        return code
    _end(process)
    raise AloneError(
        f"it went on for {ALONE_S:g} s after the end of its last process, as Open MPI 4.1.4 does "
        "where it deadlocks, and was ended"
    )


@dataclass
class _Alone:
    """How long a launcher has been without processes that it, or one of them, had started."""

    pid: int
    had_children: bool = False
    looked_s: float | None = None
    alone_s: float = 0
    # The own children, of which none is left behind by the launcher's.
    own: set[int] = field(default_factory=lambda: set(_children(os.getpid())))

    def look(self, now_s: float) -> float:
        """Look at it; for how many seconds it has had none."""
        children = _children(self.pid)
        # Those that end between two looks are seen as long as nobody has waited for them.
        self.had_children |= bool(children)
        running = [it for it in [*children, *_adopted(self.own)] if not _has_ended(it)]
        # It may be stopped, or wait for whoever reads what the processes have printed.
        if not self.had_children or running or not _runs(self.pid) or not _are_read():
            self.looked_s, self.alone_s = None, 0
            return 0
        if self.looked_s is not None:
            # More time passes only where this process was stopped, and the launcher perhaps, too.
            self.alone_s += min(now_s - self.looked_s, 2 * _LOOK_S)
        self.looked_s = now_s
        return self.alone_s


def _stat(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on; nothing if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def _state(pid: int) -> str:
    """Return the kernel's letter for what a process does; none if there is no such process."""
    return (_stat(pid) or [""])[0]


def _runs(pid: int) -> bool:
    return _state(pid) not in {"", "T", "t", "Z"}


def _has_ended(pid: int) -> bool:
    """Whether a process has ended; one whose first thread has left the others has not."""
    stat = _stat(pid)
    # The number of threads is the 20th word, the state the third.
    return not stat or (stat[0] == "Z" and int(stat[17]) <= 1)


def _children(pid: int) -> list[int]:
    """Return the children of a process, also those that have ended and are not waited for yet."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        # A thread may end meanwhile.
        with suppress(OSError):
            found += map(int, (thread / "children").read_text(encoding="utf-8").split())
    return found


def _adopted(own: set[int]) -> list[int]:
    """Return the children that others have left behind; wait for those that have ended."""
    adopted = [it for it in _children(os.getpid()) if it not in own]
    for pid in adopted:
        if _has_ended(pid):
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return adopted


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
        limit_s = time.monotonic() + _OBEY_S
        while process.returncode is None and (left_s := limit_s - time.monotonic()) > 0:
            # Whoever interrupts it now wants no less.
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(left_s)
    node = os.uname().nodename
    # Open MPI takes the domain off, unless it is told not to.
    for name in {node, node.split(".")[0]}:
        session = Path(tempfile.gettempdir()) / f"ompi.{name}.{os.getuid()}"
        shutil.rmtree(session / f"pid.{process.pid}", ignore_errors=True)
