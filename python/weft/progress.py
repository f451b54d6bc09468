"""Progress on standard error for what takes long, and Ctrl-C that ends a run cleanly."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

    from rich.progress import Progress, TaskID

    from weft import _seam

STOPPED = 130

# The interval of lines in a log, where a line cannot be redrawn.
_LINE_S = 30.0

# A run that ends this soon needs no progress line.
_QUIET_S = 2.0


class Remaining:
    """How long a run still takes, from what it has done since it was first seen.

    What was there already, such as the stored runs of a sweep, took no time now and says nothing
    about the rest.
    """

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def seconds(self, now: float, done: int, total: int) -> float | None:
        """Return the time that is left in seconds, or None as long as nothing was done."""
        if self._first is None:
            self._first = (now, done)
        began, before = self._first
        if done <= before or now <= began:
            return None
        return (total - done) * (now - began) / (done - before)


def duration(seconds: float) -> str:
    """Write a time as a person says it: "40 s", "3 min", "2 h 05 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


class Count:
    """Counts finished items towards a total, and calls a progress callback for each."""

    def __init__(self, total: int, label: str, progress: _seam.Progress | None) -> None:
        self._total = total
        self._label = label
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()

    def one(self) -> None:
        """Count one more; from any thread."""
        if self._progress is None:
            return
        with self._lock:
            self._done += 1
            self._total = max(self._total, self._done)
            self._progress(self._done, self._total, self._label)


class Watch:
    """Shows how far a run is once it has lasted two seconds, and turns Ctrl-C into a stop.

    Used as a context; `step` is the progress callback. The first Ctrl-C asks the core to stop, so
    that what is finished can be saved; the second leaves at once.

    Args:
        ending: what a stop waits for, as the first Ctrl-C tells it; None leaves Ctrl-C alone.
        is_told: Ctrl-C comes as SIGTERM, too, as mpirun passes it on.

    """

    def __init__(
        self, ending: str | None = "after the replications that run", *, is_told: bool = False
    ) -> None:
        self._ending = ending
        self._signals = (signal.SIGINT, signal.SIGTERM) if is_told else (signal.SIGINT,)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._before: dict[int, Any] = {}
        self._remaining = Remaining()
        self._plain = False
        self._line = self._began

    def __enter__(self) -> Watch:
        if self._ending and threading.current_thread() is threading.main_thread():
            self._before = {own: signal.signal(own, self._interrupt) for own in self._signals}
        return self

    def __exit__(self, *_: object) -> None:
        for own, before in self._before.items():
            signal.signal(own, before)
        if self._bar is not None:
            self._bar.stop()

    @property
    def is_stopped(self) -> bool:
        """Whether Ctrl-C has asked for a stop."""
        return self._stop.is_set()

    def step(self, done: int, total: int, label: str) -> bool:
        """Take a step of the core; called from its threads."""
        now = time.monotonic()
        with self._lock:
            left = self._remaining.seconds(now, done, total)
            if self._bar is None and not self._plain and now - self._began > _QUIET_S:
                self._open()
            if self._bar is not None and self._task is not None:
                more = f"{duration(left)} left, {label}" if left else label
                self._bar.update(self._task, completed=done, total=total, description=more)
            elif self._plain and now - self._line > _LINE_S:
                self._line = now
                more = f", {duration(left)} left" if left else ""
                print(f"{label}: {done} of {total}{more}", file=sys.stderr, flush=True)
        return not self._stop.is_set()

    def _open(self) -> None:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
        )

        console = Console(stderr=True)
        if not console.is_terminal:
            self._plain = True
            return
        self._bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("")
        self._bar.start()

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self._stop.is_set():
            # The core has not come back since the first; its thread cannot be ended politely.
            os._exit(STOPPED)
        self._stop.set()
        print(f"stopping {self._ending}; Ctrl-C again leaves now", file=sys.stderr)
