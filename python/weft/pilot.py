"""An estimate of how long a study will take, from the beginnings of a few of its runs."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft import _seam
from weft.progress import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# A shorter study needs no announcement.
_SHORT_S = 2.0

# Runs that are tried of a study, which differ in load and size: one between, the first, the last.
_TRIED = 3

# Parts of a run's length that are tried, until one of them takes long enough to be measured. Two
# are needed, since what is built before a run costs the same for a short one.
_SHARES = (1 / 1024, 1 / 128, 1 / 16)
_MEASURABLE_S = 0.02

# A pilot is not to be what one waits for.
_LONGEST_S = 0.5

# How far a run's cost may be from that of its beginning: queues fill, caches are left.
_DOUBT = 1.5


@dataclass(frozen=True)
class Estimate:
    """The seconds that a study takes, as pilots suggest, and how many runs it has."""

    low: float
    high: float
    runs: int

    @property
    def likely(self) -> float:
        """The geometric mean of both ends."""
        return math.sqrt(self.low * self.high)

    def sentence(self) -> str | None:
        """Say what to expect; None for what is over before it is read."""
        if self.likely < _SHORT_S:
            return None
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        return (
            f"{runs}, about {duration(self.likely)}: between {duration(self.low)} and "
            f"{duration(self.high)}, judged by the beginning of a few of them"
        )


def of_study(
    name: str,
    preset: str | None,
    overrides: list[str],
    options: Mapping[str, Any],
    pilots: int = _TRIED,
) -> Estimate | None:
    """Estimate the rest of a study by this many pilots; None if none can be made."""
    given = {key: value for key, value in options.items() if value is not None}
    campaign = _seam.campaign(name, preset, overrides, given)
    pending, _, _ = campaign.pending()
    if not pending:
        return None
    tried = dict.fromkeys([pending // 2, 0, pending - 1][:pilots])
    costs = [cost(json.loads(campaign.jobs(task, task + 1))[0], _timed) for task in tried]
    known = [seconds for seconds in costs if seconds is not None]
    if not known:
        return None
    cores = (os.cpu_count() or 1) // int(given.get("threads") or 1)
    at_once = min(int(given.get("workers") or max(cores, 1)), pending)
    rounds = pending / at_once
    return Estimate(rounds * min(known) / _DOUBT, rounds * max(known) * _DOUBT, pending)


def together(estimates: Sequence[Estimate | None]) -> Estimate | None:
    """Estimate studies that are made one after the other, as far as each can be."""
    known = [estimate for estimate in estimates if estimate]
    if not known:
        return None
    low, high = sum(each.low for each in known), sum(each.high for each in known)
    return Estimate(low, high, sum(each.runs for each in known))


def announce(estimate: Estimate | None) -> None:
    """Say on standard error how long it will take, if it will take long."""
    sentence = estimate and estimate.sentence()
    if sentence:
        print(sentence, file=sys.stderr, flush=True)


def announce_reproduction(name: str, options: dict[str, Any]) -> None:
    """Say beforehand how long a reproduction will take, by one pilot of each experiment."""
    chosen = _seam.chosen(name, {key: value for key, value in options.items() if value is not None})
    with ThreadPoolExecutor(int(options.get("workers") or os.cpu_count() or 1)) as threads:
        pilots = threads.map(lambda one: of_study(one[0], None, one[1], one[2], 1), chosen)
        announce(together(list(pilots)))


def cost(job: dict[str, Any], timed: Callable[[dict[str, Any]], float]) -> float | None:
    """Return the seconds that a run takes, by two or more of its beginnings.

    None for a program, which ends when it ends, and where the two do not tell.
    """
    spec = job["spec"]
    program = spec.get("program")
    if program and (program.get("run") or program.get("trace")):
        return None
    length = _seam.picoseconds(spec["run"]["length"])
    before: tuple[float, float] | None = None
    for share in _SHARES:
        own = {**spec["run"], "length": f"{max(1, round(length * share))} ps"}
        own.update(trace=False, regime="from_empty")
        seconds = timed({**job, "spec": {**spec, "run": own}})
        slope = (seconds - before[1]) / (share - before[0]) if before else 0.0
        if slope > 0 and (seconds > _MEASURABLE_S or share == _SHARES[-1]):
            return seconds + slope * (1 - share)
        if seconds > _LONGEST_S:
            return None
        before = (share, seconds)
    return None


def _timed(job: dict[str, Any]) -> float:
    began = time.perf_counter()
    _seam.simulate(json.dumps([job]))
    return time.perf_counter() - began
