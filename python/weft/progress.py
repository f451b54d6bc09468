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

STOPPED = 130

# Nobody needs to be told about what is over before they have read it.
_QUIET_S = 2.0


class Watch:
    """Shows how far a run is once it has lasted two seconds, and turns Ctrl-C into a stop.

    Used as a context; `step` is the progress callback. The first Ctrl-C asks the core to stop, so
    that what is finished can be saved; the second leaves at once.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._before: Any = None

    def __enter__(self) -> Watch:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._bar is not None:
            self._bar.stop()

    def step(self, done: int, total: int, label: str) -> bool:
        """Take a step of the core; called from its threads."""
        with self._lock:
            if self._bar is None and time.monotonic() - self._began > _QUIET_S:
                self._open()
            if self._bar is not None and self._task is not None:
                self._bar.update(self._task, completed=done, total=total, description=label)
        return not self._stop.is_set()

    def _open(self) -> None:
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        if not console.is_terminal:
            return
        self._bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
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
        print("stopping after the replications that run; Ctrl-C again leaves now", file=sys.stderr)
