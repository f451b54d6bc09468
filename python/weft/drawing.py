"""Figures and pages of several results, drawn by a process of its own while the next are run."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Self

from weft.place import FolderError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from weft import _seam


class Drawer:
    """Draws results folders one after the other, in the order in which they are given.

    Used as a context. What was given is drawn before it is left, also by an error in a later
    run; only Ctrl-C ends it at once.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._waiting: list[tuple[Path, Future[list[str]]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        is_stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
        if is_stopped:
            # The next run that uses the folder removes the draft.
            for child in multiprocessing.active_children():
                child.terminate()
        self._pool.shutdown(cancel_futures=is_stopped)

    def add(self, folder: Path, *, png: bool) -> None:
        """Draw the figures and the page of a folder whose tables are written."""
        if self._pool is None:
            # Not forked: the threads of the simulations would be missing in the copy.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_deaf)
        self._waiting.append((folder, self._pool.submit(_draw, folder, png)))

    def finish(self, progress: _seam.Progress) -> Iterator[tuple[Path, list[str]]]:
        """Yield each folder when it is drawn, with what is to be known of files in the way.

        Raises:
            FolderError: a folder could not be written to; what was drawn before it is there.

        """
        for done, (folder, drawn) in enumerate(self._waiting):
            progress(done, len(self._waiting), "pages drawn")
            try:
                remarks = drawn.result()
            except BrokenProcessPool as error:
                how = f"the process that drew it was ended; `weft report {folder}` draws it"
                raise FolderError(f"{folder} has no page: {how}") from error
            yield folder, remarks


def _deaf() -> None:
    """Leave Ctrl-C to the process that runs the simulations, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _draw(folder: Path, png: bool) -> list[str]:
    from weft.folder import redraw  # noqa: PLC0415 (it imports all that draws)

    return redraw(folder, png=png)[1]
