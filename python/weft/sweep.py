"""Studies of many points: kept while they run, resumed, extended, spread over machines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import _seam, api
from weft.given import Given, asked_for, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from os import PathLike

    from weft._core import Asked
    from weft._seam import Progress
    from weft.result import Result

STORE = "out/store"


@dataclass(frozen=True)
class Study:
    """What is run: a file, a name or a composition, and everything that overrides it."""

    asked: Asked
    preset: str | None
    overrides: list[str]
    options: dict[str, object]


@dataclass(frozen=True)
class Where:
    """What makes the runs: threads of this process, an executor, or Dask by its address."""

    workers: int | None = None
    executor: Executor | str | None = None
    chunk: int | None = None


def sweep(  # noqa: PLR0913 (each is an own choice of the caller)
    path: Given,
    over: Mapping[str, Sequence[object]] | None = None,
    *,
    paired: Mapping[str, Sequence[object]] | Sequence[Mapping[str, Sequence[object]]] = (),
    set: Mapping[str, object] | None = None,
    preset: str | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    length: str | None = None,
    precision: float | Mapping[str, object] | None = None,
    workers: int | None = None,
    executor: Executor | str | None = None,
    chunk: int | None = None,
    store: str | PathLike[str] | None = STORE,
    progress: Progress | None = None,
) -> Result:
    """Run every point of a study that is not in the store yet, and return the tables of all.

    A run is a function of the resolved point, the seed and the version, and is kept under the
    hash of the three. So a sweep that was ended, by Ctrl-C or by a power cut, goes on where it
    was when it is called again; more values and more seeds add runs to those that are there.

    Args:
        path: an experiment file, the name of a shipped experiment, or a dict with the tables and
            keys that such a file would have.
        over: lists of values by dotted key; every combination is a point. They join the sweeps of
            the file, or take the place of one over the same key.
        paired: lists of equal length by dotted key that advance together, as one axis; several
            such groups as a list.
        set: dotted keys and values that replace those of the file.
        preset: a named preset of the system.
        seeds: how many runs each point begins with.
        seed: the first seed; the others follow it.
        length: simulated time of each run, with its unit: `"40 ms"`.
        precision: add runs to a point until the half width of the interval of its mean queueing
            latency is this share of the mean; or a mapping with `relative`, `quantity` and `most`.
        workers: threads of this process (or processes of a local Dask); all cores if not given.
            Results do not depend on it.
        executor: who makes the runs instead: any `concurrent.futures.Executor`, the address of a
            Dask scheduler, or `"local"` for a Dask cluster on this machine.
        chunk: runs in one call of the executor; chosen if not given.
        store: the folder in which runs are kept; None keeps them in memory only.
        progress: called with (runs done, runs in all, label); returning False ends the sweep, and
            the result then holds the points that were finished and says `stopped`.

    Raises:
        WeftError: the file or a setting cannot be used; names the place and what is accepted.
        SweepError: the workers cannot be reached, or fail on the same runs again and again.

    """
    axes = spell_axes(over or {}, paired)
    if precision is not None:
        asked = precision if isinstance(precision, Mapping) else {"relative": precision}
        axes += api.spell_overrides({f"run.precision.{key}": asked[key] for key in asked})
    overrides = [*axes, *api.spell_overrides(set or {})]
    options: dict[str, object] = {
        "seeds": seeds,
        "seed": seed,
        "length": length,
        "store": _text(store),
    }
    study = Study(asked_for(path), preset, overrides, options)
    return carry_out(study, Where(workers, executor, chunk), progress)


def saturation(  # noqa: PLR0913 (each is an own choice of the caller)
    path: Given,
    channel: str | None = None,
    *,
    between: tuple[float, float] = (0.05, 1.0),
    width: float = 0.01,
    over: Mapping[str, Sequence[object]] | None = None,
    set: Mapping[str, object] | None = None,
    preset: str | None = None,
    seeds: int | None = None,
    length: str | None = None,
    workers: int | None = None,
    executor: Executor | str | None = None,
    store: str | PathLike[str] | None = STORE,
    progress: Progress | None = None,
) -> Result:
    """Find the load at which each point of a study saturates, by bisection.

    Near the limit a run of a given length is neither settled nor certainly saturated. So each seed
    gives two loads, and the limit lies between them: `settles_up_to_load`, the largest that
    settled, and `saturated_from_load`, the smallest that was saturated; both are means over seeds
    with the half width of their 95 % interval. `accepted_load` is the largest throughput that was
    accepted beyond. `replications` holds every run of the search.

    Args:
        path: an experiment file, the name of a shipped experiment, or a dict with the tables and
            keys that such a file would have.
        channel: whose load is varied; the only channel with a load if not given.
        between: the smallest and the largest load that are tried.
        width: how far apart the two loads of a bisection may be at its end.
        over: lists of values by dotted key, as for `sweep`; each point has a limit of its own.
        set: as for `sweep`.
        preset: as for `sweep`.
        seeds: how many searches with different seeds.
        length: simulated time of each run; a longer one narrows what lies between the two loads.
        workers: as for `sweep`.
        executor: as for `sweep`.
        store: as for `sweep`.
        progress: as for `sweep`.

    Raises:
        WeftError: the file or a setting cannot be used, or there is no load to vary.
        SweepError: as for `sweep`.

    """
    asked = {"channel": channel, "between": list(between), "width": width}
    overrides = [*spell_axes(over or {}, ()), *api.spell_overrides(set or {})]
    options: dict[str, object] = {
        "seeds": seeds,
        "length": length,
        "store": _text(store),
        "saturation": asked,
    }
    study = Study(asked_for(path), preset, overrides, options)
    return carry_out(study, Where(workers, executor), progress)


def carry_out(study: Study, where: Where, progress: Progress | None) -> Result:
    """Make what is missing of a study, and return the tables of all."""
    options = {name: value for name, value in study.options.items() if value is not None}
    if where.executor is None:
        if where.workers is not None:
            options["workers"] = where.workers
        return api.run_overrides(study.asked, study.preset, study.overrides, options, progress)
    from weft.spread import carry_out as spread  # noqa: PLC0415
    from weft.spread import pool_of  # noqa: PLC0415

    label = Path(name_of(study.asked)).stem

    def report(done: int, total: int) -> bool:
        return progress is None or progress(done, total, label) is not False

    campaign = _seam.campaign(study.asked, study.preset, study.overrides, options)
    with pool_of(where.executor, where.workers) as pool:
        whole = spread(campaign, pool, where.chunk, report)
    raw = campaign.outcome(not whole)
    return api.result_of(raw, study.asked, study.preset, study.overrides, options)


def spell_axes(
    over: Mapping[str, Sequence[object]],
    paired: Mapping[str, Sequence[object]] | Sequence[Mapping[str, Sequence[object]]],
) -> list[str]:
    """Write axes as overrides of the file's `[sweep]`."""
    spelled = [f"sweep.{json.dumps(key)}={_list(values)}" for key, values in over.items()]
    groups = [paired] if isinstance(paired, Mapping) else list(paired)
    if groups:
        tables = [
            "{ " + ", ".join(f"{json.dumps(k)} = {_list(v)}" for k, v in group.items()) + " }"
            for group in groups
        ]
        spelled.append(f"sweep.paired=[{', '.join(tables)}]")
    return spelled


def _list(values: Any) -> str:
    return api.spell_value(list(values))


def _text(store: str | PathLike[str] | None) -> str | None:
    return None if store is None else str(store)
