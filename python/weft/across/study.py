"""Every workload on every system, kept in the store, as one result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft import _seam, api
from weft.across.contenders import PUBLISHED, Contender, contenders, rates_of, settings_of
from weft.across.summary import COLUMNS, Shown, comparison, half_width_of, notes
from weft.across.workloads import ComparisonError, Workload, chosen, read
from weft.result import Column, Result
from weft.sweep import STORE, spell_axes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    import pandas as pd

    from weft._core import RawResult
    from weft._seam import Progress

_SEEDS, _QUICK_SEEDS = 3, 1

# The tables of the runs that are put together.
_KEPT = ("points", "replications", "budget")


@dataclass(frozen=True)
class Task:
    """One workload on one system at one of the rates."""

    contender: Contender
    rates: str
    workload: Workload
    overrides: list[str]
    runs: int

    @property
    def label(self) -> str:
        """What runs, in words."""
        return f"{self.contender.label}, {self.workload.title.lower()}"

    @property
    def slug(self) -> str:
        """A name for a file."""
        parts = (self.contender.label, self.workload.name, self.rates)
        return "-".join(part.replace("_", "-").replace("/", "-") for part in parts)


@dataclass(frozen=True)
class Asked:
    """What is compared, and how."""

    systems: Sequence[str] = ()
    rates: str = "both"
    workloads: Sequence[str] = ()
    programs: str | PathLike[str] | None = None
    quick: bool = False
    seeds: int | None = None
    workers: int | None = None
    store: str | None = STORE


def compare(  # noqa: PLR0913 (each is an own choice of the caller)
    systems: Sequence[str | PathLike[str]] = (),
    *,
    rates: str = "both",
    workloads: Sequence[str] = (),
    programs: str | PathLike[str] | None = None,
    quick: bool = False,
    seeds: int | None = None,
    workers: int | None = None,
    store: str | PathLike[str] | None = STORE,
    progress: Progress | None = None,
) -> Result:
    """Run the same programs on several systems, and put what they show side by side.

    The result's `tables` are DataFrames: `comparison` (a row a system and rates), `points` and
    `replications` (with columns `system`, `rates`, `workload`), `budget` (where the time of a
    ping-pong went) and `settings` (what was set otherwise than in the systems' files, and why).

    Args:
        systems: shipped systems or composition files, two or more, each with presets behind `+`
            if wanted (`"scilan+interrupt"`); if none is named, the five of the documents and
            those of today.
        rates: "published", "today" (links and hosts of today, designs as they are) or "both".
        workloads: the names of those to run, all if none is named.
        programs: a file of workloads in place of the shipped one.
        quick: fewer sizes and one seed, for a first look.
        seeds: replications of each point.
        workers: threads; all cores if not given. Results do not depend on it.
        store: the folder in which runs are kept, and looked for first; None keeps none.
        progress: called with (runs done, runs in all, label); returning False ends the comparison,
            and the result then holds what was finished and says `stopped`.

    Raises:
        ComparisonError: systems, rates or workloads cannot be compared.
        WeftError: a system cannot be used.

    """
    kept = None if store is None else str(store)
    names = [str(system) for system in systems]
    asked = Asked(names, rates, workloads, programs, quick, seeds, workers, kept)
    return carry_out(asked, progress)


def carry_out(asked: Asked, progress: Progress | None) -> Result:
    """Do what `compare` does, with the request as a value."""
    workloads, text = read(asked.programs)
    workloads = chosen(workloads, asked.workloads)
    found = contenders(asked.systems)
    rates, remarks = rates_of(asked.rates, found)
    tasks = [
        task
        for one in found
        for rate in rates
        if one.runs_at(rate)
        for workload in workloads
        if (task := _task(one, rate, workload, asked)) is not None
    ]
    raws, stopped = _run_all(tasks, _options(asked), progress, remarks)
    return _result(asked, (found, rates, workloads, text), raws, remarks, stopped=stopped)


def _task(one: Contender, rates: str, workload: Workload, asked: Asked) -> Task | None:
    """Return the programs that the system has enough hosts to run; None if there are none."""
    steps = workload.steps(one.hosts, quick=asked.quick)
    if not steps[workload.along]:
        return None
    seeds = asked.seeds or (_QUICK_SEEDS if asked.quick else _SEEDS)
    settings = {**workload.settings, "run.regime": "from_empty", "run.seeds": seeds}
    overrides = [*spell_axes({}, steps), *api.spell_overrides(settings)]
    return Task(one, rates, workload, overrides, len(steps[workload.along]) * seeds)


def _options(asked: Asked) -> dict[str, object]:
    return {"store": asked.store} if asked.store is not None else {}


def _run_all(
    tasks: list[Task],
    options: dict[str, object],
    progress: Progress | None,
    remarks: list[dict[str, str]],
) -> tuple[list[tuple[Task, RawResult]], bool]:
    """Run every task; whatever is wrong with a file is said before the first run."""
    counts = [_count(task, options) for task in tasks]
    total, before = sum(counts), 0
    done: list[tuple[Task, RawResult]] = []
    for task, count in zip(tasks, counts, strict=True):

        def report(made: int, _: int, __: str, task: Task = task, before: int = before) -> bool:
            return progress is None or progress(before + made, total, task.label) is not False

        preset = task.contender.preset(task.rates)
        try:
            raw = _seam.run(task.contender.name, preset, task.overrides, options, report)
        except _seam.error_type() as error:
            where = "" if task.rates == PUBLISHED else f" at rates of {task.rates}"
            text = f"{task.workload.title}{where} could not be run: {error}"
            remarks.append({"system": task.contender.label, "text": text})
            continue
        done.append((task, raw))
        if why := _why_failed(task, raw):
            remarks.append({"system": task.contender.label, "text": why})
        if json.loads(raw["meta"])["stopped"]:
            return done, True
        before += count
    return done, False


def _why_failed(task: Task, raw: RawResult) -> str:
    """Say in a sentence why points of a task have no result; nothing if all have one."""
    told = [str(reason) for reason in raw["tables"]["points"].get("reason", []) if reason]
    if not told:
        return ""
    where = "" if task.rates == PUBLISHED else f" at rates of {task.rates}"
    count = len(raw["tables"]["points"]["reason"])
    return f"{task.workload.title}{where}: {len(told)} of {count} points failed; {told[0]}"


def _count(task: Task, options: dict[str, object]) -> int:
    """Plan a task, so that a file that cannot be used is refused; return its number of runs."""
    one = task.contender
    try:
        planned = _seam.campaign(one.name, one.preset(task.rates), task.overrides, options)
    except _seam.error_type() as error:
        hint = ""
        if getattr(error, "key", None) == "program.channel":
            hint = (
                "\nA system of several channels says which message takes which in a preset: "
                "[[preset.compare.program.route]] up_to = ..., channel = ..."
            )
        message = f"{one.label} cannot run {task.workload.title.lower()}:\n{error}{hint}"
        raise ComparisonError(message) from error
    count = int(planned.pending()[2])
    if count != task.runs:
        raise ComparisonError(
            f"{one.label} has sweeps or variants of its own; a comparison takes one system from a "
            "file: leave [sweep] and [variant] to another one"
        )
    return count


def _result(
    asked: Asked,
    what: tuple[list[Contender], list[str], list[Workload], str],
    raws: list[tuple[Task, RawResult]],
    remarks: list[dict[str, str]],
    *,
    stopped: bool,
) -> Result:
    import pandas as pd  # noqa: PLC0415

    found, rates, workloads, text = what
    metas = {task.slug: json.loads(raw["meta"]) for task, raw in raws}
    tables = {name: _together(raws, name) for name in _KEPT}
    shown = Shown(found, rates, workloads, tables)
    settings = [row for one in found for row in settings_of(one, rates)]
    labels = [one.label for one in found]
    meta: dict[str, Any] = {
        "name": "compare",
        "title": " · ".join(labels),
        "system": " ".join(labels),
        "preset": " and ".join(rates),
        "version": _seam.version(),
        "seed": next((meta["seed"] for meta in metas.values()), None),
        "seeds": next((meta["seeds"] for meta in metas.values()), None),
        "spec_hash": _hash(metas),
        "spec_toml": text,
        "specs": {slug: meta["spec_toml"] for slug, meta in metas.items()},
        "stopped": stopped,
        "failed": sum(int(meta.get("failed") or 0) for meta in metas.values()),
        "axes": ["system", "rates"],
        "across": {
            "systems": [_about(one) for one in found],
            "rates": rates,
            "workloads": [workload.name for workload in workloads],
            "quick": asked.quick,
            "programs": str(asked.programs) if asked.programs else "",
            "notes": [*remarks, *notes(shown)],
        },
    }
    tables = {"comparison": comparison(shown), **tables, "settings": pd.DataFrame(settings)}
    return Result(
        tables=tables,
        columns=(*COLUMNS, *_columns(workloads, raws)),
        meta=meta,
        system="Several systems: the section on what was set names what differs from their files.",
    )


def _about(one: Contender) -> dict[str, Any]:
    described = one.described(one.preset(PUBLISHED))
    return {
        "label": one.label,
        "title": described.title,
        "document": described.document,
        "hosts": one.hosts,
        "channels": [str(channel["name"]) for channel in described.composition["channels"]],
        "presets": one.preset(PUBLISHED) or "",
    }


def _hash(metas: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for slug, meta in metas.items():
        digest.update(f"{slug}={meta['spec_hash']};".encode())
    return digest.hexdigest()


def _columns(workloads: list[Workload], raws: list[tuple[Task, RawResult]]) -> tuple[Column, ...]:
    columns = {
        (column["table"], column["name"]): Column(**column)
        for _, raw in raws
        for column in json.loads(raw["columns"])
        if column["table"] in _KEPT
    }
    shown = [(workload, column) for workload in workloads for column in workload.columns]
    own = [
        Column("comparison", column.name, column.unit, f"{column.title}: {workload.note}")
        for workload, column in shown
    ]
    spread = "half width of the 95 % interval over seeds; 0 where all gave the same"
    halves = [
        Column("comparison", half_width_of(column.name), column.unit, f"{column.title}: {spread}")
        for _, column in shown
    ]
    return (*own, *halves, *columns.values())


def _together(raws: list[tuple[Task, RawResult]], name: str) -> pd.DataFrame:
    """Put the rows of a table of all runs below each other, points numbered through."""
    import pandas as pd  # noqa: PLC0415

    parts, before = [], 0.0
    for task, raw in raws:
        # A table without rows does not exist.
        table = pd.DataFrame(dict(raw["tables"].get(name, {})))
        numbers = pd.DataFrame(dict(raw["tables"]["points"])).get("point")
        if len(table):
            table.insert(0, "system", task.contender.label)
            table.insert(1, "rates", task.rates)
            table.insert(2, "workload", task.workload.name)
            table["point"] = table["point"] + before
            parts.append(table)
        before += float(numbers.max()) + 1 if numbers is not None and len(numbers) else 0
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
