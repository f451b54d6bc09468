"""Runs of a study on the workers of any `concurrent.futures.Executor`.

A chunk of runs is one call of `simulate` on some machine: text goes out, bytes come back, and the
store of the machine that asked keeps them. A worker that dies takes its chunk with it, which is
sent again; nothing that came back is ever made twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from weft import _seam

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft._core import Campaign

# How often a chunk is sent before its failure is taken for its own fault.
_TRIES = 4

# Chunks in progress at once for each worker: enough that none waits for the next.
_AHEAD = 3

# Chunks for each worker in a round, so that the last ones end at about the same time; and the
# largest chunk, so that what a dying worker takes with it stays small.
_CHUNKS = 4
_LARGEST = 64

# Short enough that Ctrl-C feels immediate.
_POLL_S = 0.2

_Report = Callable[[int, int], bool]
_Chunk = tuple[int, int]
_Ended = list[tuple[str, bytes | str]]


class SweepError(RuntimeError):
    """Workers that cannot be reached, or that failed on the same runs again and again."""


@dataclass(frozen=True)
class Pool:
    """An executor, and how many calls it carries out at once."""

    executor: Executor
    slots: int


def simulate(jobs: str) -> _Ended:
    """Carry out the runs of a chunk; what a worker is sent. Text says why a run failed."""
    runs: _Ended = _seam.core().simulate(jobs)
    return runs


@contextmanager
def pool_of(where: Executor | str, workers: int | None) -> Iterator[Pool]:
    """Take an executor as it is; make one of Dask from an address, or from "local".

    Raises:
        SweepError: Dask is not installed, or its scheduler does not answer.

    """
    if isinstance(where, Executor):
        yield Pool(where, workers or os.cpu_count() or 1)
        return
    with _client(where, workers) as client:
        slots = sum(client.nthreads().values())
        yield Pool(client.get_executor(pure=False), max(1, slots))


def _client(address: str, workers: int | None) -> Any:
    try:
        import distributed  # noqa: PLC0415 (an extra of this package)
    except ImportError as error:
        raise SweepError("Dask is not installed; pip install 'weft[dask]'") from error
    client: Any = distributed.Client
    try:
        if address == "local":
            # Processes, since a worker that dies must not take the others along.
            return client(n_workers=workers or os.cpu_count(), threads_per_worker=1,
                          dashboard_address=None)  # fmt: skip
        return client(address, timeout="20s")
    except (OSError, ValueError) as error:
        raise SweepError(f"no Dask scheduler answers at {address}: {error}") from error


def carry_out(campaign: Campaign, pool: Pool, chunk: int | None, report: _Report) -> bool:
    """Have every pending run made; return False if `report` asked for an end before that.

    Args:
        campaign: what is to be run.
        pool: on whom.
        chunk: runs in one call; chosen from what is pending if None.
        report: called with (runs done, runs in all); returning False ends it.

    Raises:
        WeftError: a worker has another build, or the store cannot be written.
        SweepError: a chunk failed four times.

    """
    while True:
        pending, done, total = campaign.pending()
        if not pending:
            return report(done, total)
        chunks = _chunks(pending, chunk, pool)
        if not _round(campaign, pool, chunks, partial(_report_of, report, total), done):
            return False


def _report_of(report: _Report, total: int, done: int) -> bool:
    return report(done, total)


def _chunks(pending: int, chunk: int | None, pool: Pool) -> list[_Chunk]:
    even = -(-pending // (pool.slots * _CHUNKS))
    size = chunk or min(max(even, 1), _LARGEST)
    return [(first, min(first + size, pending)) for first in range(0, pending, size)]


def _round(
    campaign: Campaign, pool: Pool, chunks: list[_Chunk], report: Callable[[int], bool], done: int
) -> bool:
    waiting = [(chunk, 1) for chunk in reversed(chunks)]
    flying: dict[Future[_Ended], tuple[_Chunk, int]] = {}
    try:
        while waiting or flying:
            while waiting and len(flying) < pool.slots * _AHEAD:
                chunk, tries = waiting.pop()
                future = pool.executor.submit(simulate, campaign.jobs(*chunk))
                flying[future] = (chunk, tries)
            for future in wait(flying, timeout=_POLL_S, return_when=FIRST_COMPLETED).done:
                chunk, tries = flying.pop(future)
                error = _failure(future)
                if error is None:
                    campaign.put(future.result())
                    done += chunk[1] - chunk[0]
                elif tries < _TRIES:
                    waiting.append((chunk, tries + 1))
                else:
                    raise SweepError(f"runs failed {tries} times, last with {error!r}") from error
            if not report(done):
                return False
        return True
    finally:
        for future in flying:
            future.cancel()


def _failure(future: Future[Any]) -> BaseException | None:
    """Return why a call has no result that another worker might have; raise what none would."""
    error = None if future.cancelled() else future.exception()
    if isinstance(error, _seam.error_type()):
        raise error
    return SweepError("the call was cancelled") if future.cancelled() else error
