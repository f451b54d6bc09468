"""What comes before the numbers: which latency answers, who waits for whom, notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.system import spell

if TYPE_CHECKING:
    import pandas as pd

    from weft.result import Result

STUCK = "stuck"
PARTLY_STUCK = "partly stuck"

# Verdicts on points in which something stands still: they have no latency.
STANDING = (STUCK, PARTLY_STUCK)

# Points that are stuck beyond which only their number is told.
_MOST = 3


def main_latency(points: pd.DataFrame) -> str:
    """Name the latency in which the system shows: "queueing", or where that says little "one_way".

    Where packets pass several switches they wait inside, too, and `queueing` ends before the first.
    Where messages are counted that have no queueing of their own there is only the whole way.
    """
    several = "hops_mean" in points and points["hops_mean"].notna().any()
    column = points.get("queueing_mean_us")
    missing = column is None or column.isna().all()
    return "one_way" if several or (missing and "one_way_mean_us" in points) else "queueing"


def why_stuck(result: Result) -> list[str]:
    """Say in a sentence for each point that is stuck who waits for whom."""
    points, runs = result.points, result.replications
    if "verdict" not in points or "waiting_for" not in runs:
        return []
    stuck = points[points["verdict"].isin(STANDING)]
    axes = [
        str(name)
        for name in points
        if name in {*result.meta.get("axes", ()), "channel"} and points[name].nunique() > 1
    ]
    told = []
    for _, row in stuck.head(_MOST).iterrows():
        own = runs[(runs["point"] == row["point"]) & (runs["channel"] == row["channel"])]
        lines = [str(text) for text in own["waiting_for"] if isinstance(text, str) and text]
        if not lines:
            continue
        first, *others = lines[0].split("; ")
        at = ", ".join(f"{name.rsplit('.', 1)[-1]} {spell(row[name])}" for name in axes)
        where = f" ({at})" if at else ""
        more = f" {len(others)} more wait." if others else ""
        if row["verdict"] == STUCK:
            told.append(f"Stuck{where}: {first}. From then on nothing is delivered.{more}")
        else:
            why = f" {others[0]}." if others else ""
            told.append(f"Partly stuck{where}: {first}.{why} Other hosts go on.")
    if len(stuck) > _MOST:
        told.append(f"{len(stuck) - _MOST} more points are stuck.")
    if told:
        told.append(
            "A point that is stuck has no latency. Everybody who waits stands in the column "
            "waiting_for of the table replications."
        )
    return told


def notes(result: Result) -> list[str]:
    """Return what is to be known of what was run, one sentence each."""
    return [str(note) for note in result.meta.get("notes") or []]
