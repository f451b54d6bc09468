"""The latency budget: which stage of the path took which share of the mean latency."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.figure import Figure
from weft.plots.bars import TIME, divided
from weft.plots.request import (
    Request,
    chosen_points,
    load_column,
    point_labels,
    records,
    rows_of,
    series_labels,
    with_points,
)
from weft.theme import WIDTH
from weft.words import number, plain

if TYPE_CHECKING:
    import pandas as pd

    from weft.result import Result

_ROW = 30
_BARS = 12


def along_time(result: Result, request: Request) -> Figure | None:
    """Draw one bar per point, with the stages in the order of time."""
    figure = budget(result, request)
    if figure is None:
        return None
    figure.spec["title"] = {"subtitle": "mean time in each stage, in the order of the path"}
    figure.spec["encoding"]["x"] = {
        **TIME,
        "title": "Time since a program handed it over (µs)",
        "axis": {"format": "~f", "tickCount": 10},
    }
    return figure


def budget(result: Result, request: Request) -> Figure | None:
    """Draw one bar a point, divided by stage in the order of the path."""
    rows = with_points(rows_of(result.budget, request), result)
    if rows.empty:
        return None
    x = load_column(rows, request)
    if x not in rows:
        return None
    # There is one picture for all points, so what would divide it into several names its bars.
    series = series_labels(rows, x, replace(request, panels=""), result)
    labels = point_labels(rows, x, series)
    rows = rows.assign(label=labels)[labels.isin(chosen_points(labels, series, _BARS))]
    totals = rows.groupby("label")["mean_us"].sum()
    stages = _in_order(rows[rows["mean_us"] > 0])
    if not stages:
        return None
    drawn = rows[rows["mean_us"] > 0].assign(
        bar=lambda frame: frame["label"].map(lambda name: f"{name} · {number(totals[name])} µs"),
        stage=lambda frame: frame["stage"].map(plain),
        order=lambda frame: frame["stage"].map({plain(s): i for i, s in enumerate(stages)}),
    )
    bars = list(dict.fromkeys(drawn["bar"]))
    fields = ["bar", "stage", "order", "mean_us"]
    return Figure(
        name=request.name,
        title=request.title,
        caption=request.caption,
        spec={
            "title": {"subtitle": "share of the mean latency, in the order of the path"},
            "width": WIDTH - 140,
            **divided(
                records(drawn[fields]),
                bars=bars,
                parts=("stage", [plain(stage) for stage in stages]),
                along={**TIME, "stack": "normalize", "title": "Share of mean latency (%)",
                       "axis": {"format": ".0%", "tickCount": 5}},
                named="point",
                columns=4,
                step=_ROW,
            ),
        },
    )  # fmt: skip


def _in_order(rows: pd.DataFrame) -> list[str]:
    """Return the stages in the order of the path.

    Every point lists its own in that order, but lacks those in which no packet spent any time: a
    stage that others have not stands behind the one that it follows.
    """
    stages: list[str] = []
    for _, of_point in rows.groupby(["point", "channel"], sort=False):
        place = 0
        for stage in dict.fromkeys(of_point["stage"]):
            if stage in stages:
                place = max(place, stages.index(stage) + 1)
            else:
                stages.insert(place, stage)
                place += 1
    return stages
