"""The programs run on every system, the values of their settings, and the columns shown."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

SHIPPED = "workloads.toml"


class ComparisonError(ValueError):
    """Systems, rates or workloads that cannot be compared; says what is accepted."""


@dataclass(frozen=True)
class Measure:
    """A quantity of the points: times a factor, divided by what it is at `relative_to`."""

    quantity: str
    at: Any = None
    relative_to: Any = None
    times: float = 1.0


@dataclass(frozen=True)
class Column:
    """One column of the table: a measure at one value of what is swept."""

    name: str
    title: str
    unit: str
    best: str
    measure: Measure
    workload: str


@dataclass(frozen=True)
class Curve:
    """One figure: a measure over what is swept, a line a system."""

    name: str
    title: str
    caption: str
    y: str
    log: bool
    measure: Measure


@dataclass(frozen=True)
class Workload:
    """One program with the lists that advance together."""

    name: str
    title: str
    note: str
    along: str
    settings: dict[str, Any]
    sweep: dict[str, list[Any]]
    columns: tuple[Column, ...]
    curves: tuple[Curve, ...]
    quick: list[Any] = field(default_factory=list)
    least_hosts: int = 2
    budget_at: Any = None
    in_hardware: str = ""

    def steps(self, hosts: int, *, quick: bool) -> dict[str, list[Any]]:
        """Return the lists for a system of this many hosts; empty lists if it has too few."""
        count = len(self.sweep[self.along])
        ranks = self.sweep.get("program.ranks", [0] * count)
        few = hosts < self.least_hosts
        kept = [
            i
            for i in range(count)
            if not few
            and ranks[i] <= hosts
            and (not quick or not self.quick or self.sweep[self.along][i] in self.quick)
        ]
        return {key: [values[i] for i in kept] for key, values in self.sweep.items()}


def read(path: str | PathLike[str] | None) -> tuple[list[Workload], str]:
    """Read a file of workloads, or the shipped one; returns its text, too.

    Raises:
        ComparisonError: it cannot be read, or a workload lacks something.

    """
    place = files("weft.across").joinpath(SHIPPED) if path is None else Path(path)
    try:
        text = place.read_text(encoding="utf-8")
    except OSError as error:
        raise ComparisonError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ComparisonError(f"{path} is no text: {error}") from error
    return parse(text, str(path or SHIPPED)), text


def parse(text: str, source: str) -> list[Workload]:
    """Read the text of a file of workloads; `source` is what complaints call it."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ComparisonError(f"{source} is no TOML: {error}") from error
    workloads = [_workload(name, entry, source) for name, entry in data.items()]
    if not workloads:
        raise ComparisonError(f"{source} holds no workload; one is a table, such as [stream]")
    return workloads


def chosen(workloads: Sequence[Workload], names: Sequence[str]) -> list[Workload]:
    """Return the workloads of these names, all if none is given."""
    known = {workload.name: workload for workload in workloads}
    for name in names:
        if name not in known:
            near = nearest(name, list(known))
            accepted = ", ".join(known)
            raise ComparisonError(f"there is no workload `{name}`; accepted: {accepted}{near}")
    return [known[name] for name in dict.fromkeys(names)] if names else list(workloads)


def nearest(name: str, known: Sequence[str]) -> str:
    """Ask whether the known name was meant that is written almost alike."""
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(name, known, 1)
    return f" (did you mean `{near[0]}`?)" if near else ""


_KEYS = {"title", "note", "along", "settings", "sweep", "column", "figure", "quick", "least_hosts",
         "budget_at", "in_hardware"}  # fmt: skip
_COLUMN = {"name", "title", "unit", "best", "quantity", "at", "relative_to", "times"}
_FIGURE = {"name", "title", "caption", "y", "scale", "quantity", "relative_to", "times"}


def _workload(name: str, entry: Any, source: str) -> Workload:
    place = f"{source}: [{name}]"
    _check(place, entry, _KEYS, {"title", "along", "settings", "sweep"})
    sweep, along = entry["sweep"], entry["along"]
    lengths = {key: len(values) if isinstance(values, list) else 0 for key, values in sweep.items()}
    if along not in sweep or len(set(lengths.values())) != 1 or not lengths[along]:
        raise ComparisonError(
            f"{place}: `sweep` holds lists of one length, one of them that of `along`; here are "
            + (", ".join(f"{key} with {count}" for key, count in lengths.items()) or "none")
        )
    columns = tuple(_column(place, name, one, sweep[along]) for one in entry.get("column", []))
    return Workload(
        name=name,
        title=entry["title"],
        note=entry.get("note", ""),
        along=along,
        settings={key: value for key, value in _leaves(entry["settings"]) if key not in sweep},
        sweep=sweep,
        columns=columns,
        curves=tuple(_curve(place, one, sweep[along]) for one in entry.get("figure", [])),
        quick=entry.get("quick", []),
        least_hosts=entry.get("least_hosts", 2),
        budget_at=entry.get("budget_at"),
        in_hardware=entry.get("in_hardware", ""),
    )


def _leaves(table: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Return the values of nested tables by their dotted keys."""
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        path = f"{before}{key}"
        found += _leaves(value, f"{path}.") if isinstance(value, dict) else [(path, value)]
    return found


def _column(place: str, workload: str, entry: Any, values: list[Any]) -> Column:
    _check(f"{place} column", entry, _COLUMN, {"name", "title", "quantity", "at", "best"})
    _one_of(f"{place} column", "best", entry["best"], ["least", "most"])
    return Column(
        name=entry["name"],
        title=entry["title"],
        unit=entry.get("unit", ""),
        best=entry["best"],
        measure=_measure(f"{place} column `{entry['name']}`", entry, values),
        workload=workload,
    )


def _curve(place: str, entry: Any, values: list[Any]) -> Curve:
    _check(f"{place} figure", entry, _FIGURE, {"name", "title", "quantity", "y"})
    scale = entry.get("scale", "linear")
    _one_of(f"{place} figure", "scale", scale, ["linear", "log"])
    return Curve(
        name=entry["name"],
        title=entry["title"],
        caption=entry.get("caption", ""),
        y=entry["y"],
        log=scale == "log",
        measure=_measure(f"{place} figure `{entry['name']}`", entry, values),
    )


def _measure(place: str, entry: Mapping[str, Any], values: list[Any]) -> Measure:
    for key in ("at", "relative_to"):
        if key in entry:
            _one_of(place, key, entry[key], values)
    return Measure(
        entry["quantity"], entry.get("at"), entry.get("relative_to"), float(entry.get("times", 1))
    )


def _one_of(place: str, key: str, value: Any, accepted: list[Any]) -> None:
    if value not in accepted:
        listed = ", ".join(str(one) for one in accepted)
        raise ComparisonError(f"{place}: {key} is {value!r}; accepted: {listed}")


def _check(place: str, entry: Any, known: set[str], needed: set[str]) -> None:
    if not isinstance(entry, dict):
        raise ComparisonError(f"{place} is no table; a workload is a table, such as [stream]")
    if unknown := sorted(set(entry) - known):
        accepted = ", ".join(sorted(known))
        raise ComparisonError(f"{place} has an unknown key `{unknown[0]}`; accepted: {accepted}")
    if missing := sorted(needed - set(entry)):
        raise ComparisonError(f"{place} lacks `{missing[0]}`")
