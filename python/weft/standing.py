"""What comes before the numbers: the latency that is shown, what waits for what, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from weft.system import spell
from weft.tables import columns_of, distinct, records

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.result import Result

SETTLED = "settled"
STUCK = "stuck"
PARTLY_STUCK = "partly stuck"
UNREACHABLE = "unreachable"
FAILED = "failed"

# Verdicts on points in which something stands still: they have no latency.
STANDING = (STUCK, PARTLY_STUCK)

# With more stuck points than this, only their number is shown.
_MOST = 3


class Points(Protocol):
    """The columns of a table by name: a DataFrame, or a mapping."""

    def __contains__(self, name: object, /) -> bool:
        """Tell whether the column exists."""

    def __getitem__(self, name: Any, /) -> Iterable[Any]:
        """Return the values of a column."""


def main_latency(points: Points) -> str:
    """Name the latency in which the system shows: "queueing", or where that says little "one_way".

    Where packets pass several switches they wait inside, too, and `queueing` ends before the first.
    Where messages are counted that have no queueing of their own there is only the whole way.
    """
    several = _says_something(points, "hops_mean")
    missing = not _says_something(points, "queueing_mean_us")
    return "one_way" if several or (missing and "one_way_mean_us" in points) else "queueing"


def _says_something(points: Points, name: str) -> bool:
    # Only a number that is missing differs from itself.
    return name in points and any(value == value for value in points[name])  # noqa: PLR0124


def why_stuck(result: Result) -> list[str]:
    """Say for each stuck point what waits for what, or which flows have no route left."""
    points, runs = _rows(result, "points"), _rows(result, "replications")
    stuck = [row for row in points if row.get("verdict") in {*STANDING, UNREACHABLE}]
    if not any("waiting_for" in row for row in runs):
        return []
    axes = _axes(result)
    told = []
    for row in stuck[:_MOST]:
        own = [run for run in runs
               if (run["point"], run["channel"]) == (row["point"], row["channel"])]  # fmt: skip
        lines = [str(run["waiting_for"]) for run in own if run["waiting_for"]]
        if not lines:
            continue
        first, *others = lines[0].split("; ")
        more = f" {len(others)} more wait." if others else ""
        where = _where(row, axes)
        if row["verdict"] == STUCK:
            told.append(f"Stuck{where}: {first}. From then on nothing is delivered.{more}")
        elif row["verdict"] == UNREACHABLE:
            told.append(f"Unreachable{where}: {first}.{more}")
        else:
            why = f" {others[0]}." if others else ""
            told.append(f"Partly stuck{where}: {first}.{why} Other hosts go on.")
    if len(stuck) > _MOST:
        word = "stuck" if all(row["verdict"] in STANDING for row in stuck) else "so"
        told.append(f"{len(stuck) - _MOST} more points are {word}.")
    if any(row["verdict"] in STANDING for row in stuck) and told:
        told.append(
            "A point that is stuck has no latency. Everybody who waits stands in the column "
            "waiting_for of the table replications."
        )
    return told


def why_failed(result: Result) -> list[str]:
    """Say in a sentence for each point that failed why it did."""
    failed = [row for row in _rows(result, "points") if row.get("reason")]
    axes = _axes(result)
    told = [f"Failed{_where(row, axes)}: {row['reason']}" for row in failed[:_MOST]]
    if len(failed) > _MOST:
        told.append(f"{len(failed) - _MOST} more points failed; the column reason says why.")
    return told


def _rows(result: Result, name: str) -> list[dict[str, Any]]:
    return records(columns_of(result.tables, name))


def _axes(result: Result) -> list[str]:
    points = columns_of(result.tables, "points")
    named = {*result.meta.get("axes", ()), "channel"}
    return [name for name, values in points.items() if name in named and distinct(values) > 1]


def _where(row: dict[str, Any], axes: Sequence[str]) -> str:
    at = ", ".join(f"{name.rsplit('.', 1)[-1]} {spell(row[name])}" for name in axes)
    return f" ({at})" if at else ""


def notes(result: Result) -> list[str]:
    """Return notes about what was run, one sentence each."""
    return [str(note) for note in result.meta.get("notes") or []]
