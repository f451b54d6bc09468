"""The latency budget: which stage of the path took which share of the mean latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.figure import Figure
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
    from weft.result import Result

_ROW = 30
_BARS = 12

# A point lacks the stages in which no packet spent any time, so the order cannot be read off one.
_PATH = (
    "initiator_host",
    "buffer_wait",
    "slot_wait",
    "retry",
    "transmission",
    "wire",
    "switch",
    "switch_wait",
    "order_wait",
    "target_host",
)


def along_time(result: Result, request: Request) -> Figure | None:
    """Draw one bar a point, the stages behind each other as they are in time."""
    figure = budget(result, request)
    if figure is None:
        return None
    figure.spec["title"] = {"subtitle": "mean time in each stage, in the order of the path"}
    figure.spec["encoding"]["x"] = {
        "field": "mean_us", "type": "quantitative", "stack": "zero",
        "title": "Time since a program handed it over (µs)",
        "axis": {"format": "~g", "tickCount": 10},
    }  # fmt: skip
    return figure


def budget(result: Result, request: Request) -> Figure | None:
    """Draw one bar a point, divided by stage in the order of the path."""
    rows = with_points(rows_of(result.budget, request), result)
    if rows.empty:
        return None
    x = load_column(rows, request)
    if x not in rows:
        return None
    series = series_labels(rows, x, request, result)
    labels = point_labels(rows, x, series)
    rows = rows.assign(label=labels)[labels.isin(chosen_points(labels, series, _BARS))]
    totals = rows.groupby("label")["mean_us"].sum()
    present = dict.fromkeys(rows["stage"][rows["mean_us"] > 0])
    stages = sorted(present, key=lambda stage: _PATH.index(stage) if stage in _PATH else len(_PATH))
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
            "data": {"values": records(drawn[fields])},
            "width": WIDTH - 140,
            "height": {"step": _ROW},
            "mark": {"type": "bar", "stroke": "$ground", "strokeWidth": 1, "height": 20},
            "encoding": {
                "y": {"field": "bar", "type": "nominal", "sort": bars, "title": None,
                      "axis": {"labelLimit": 220}},
                "x": {"field": "mean_us", "type": "quantitative", "stack": "normalize",
                      "title": "Share of mean latency (%)",
                      "axis": {"format": ".0%", "tickCount": 5}},
                "color": {"field": "stage", "type": "nominal",
                          "scale": {"domain": [plain(stage) for stage in stages]},
                          "legend": {"symbolType": "square", "columns": 4}},
                "order": {"field": "order", "type": "quantitative"},
                "tooltip": [
                    {"field": "bar", "type": "nominal", "title": "point"},
                    {"field": "stage", "type": "nominal"},
                    {"field": "mean_us", "type": "quantitative", "title": "mean (µs)",
                     "format": ",.4~g"},
                ],
            },
        },
    )  # fmt: skip
