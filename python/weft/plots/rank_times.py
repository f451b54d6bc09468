"""What each rank of a program did: along time with the messages between ranks, or in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from weft.figure import Figure
from weft.plots.request import Request, records, spread
from weft.theme import WIDTH

if TYPE_CHECKING:
    from weft.result import Result

# More marks than this make a file that no viewer opens with pleasure.
_MOST_MARKS = 4000

_ACTIVITIES = ["computing", "sending", "waiting"]
# Only where processors are counted.
_QUEUED = "queued"


def rank_times(result: Result, request: Request) -> Figure | None:
    """Draw what each rank of the first run did when."""
    intervals, messages, ranks = (
        _of_first_run(result, name) for name in ("intervals", "messages", "ranks")
    )
    if intervals.empty or ranks.empty:
        return None
    return draw_rank_times(
        intervals, messages, ranks, request.title, name=request.name, more=request.caption
    )


def rank_shares(result: Result, request: Request) -> Figure | None:
    """Draw for each rank of the first run how long it did what."""
    ranks = _of_first_run(result, "ranks")
    if ranks.empty:
        return None
    done = [*_ACTIVITIES, *([_QUEUED] if f"{_QUEUED}_us" in ranks else []), "idle"]
    names = _names(ranks)
    drawn = ranks.rename(columns={f"{name}_us": name for name in done})
    drawn = _told(drawn, names, "rank")
    long = drawn.melt(["rank", "host"], done, var_name="activity", value_name="time_us")
    long["order"] = long["activity"].map(done.index)
    present = [name for name in done if long.loc[long["activity"] == name, "time_us"].max() > 0]
    order = [names[int(rank)] for rank in ranks["rank"]]
    return Figure(
        name=request.name,
        title=request.title,
        caption=request.caption,
        spec={
            "data": {"values": records(long[long["activity"].isin(present)])},
            "width": WIDTH,
            "height": {"step": _step(order)},
            "mark": {"type": "bar", "stroke": "$ground", "strokeWidth": 0.5},
            "encoding": {
                "y": {"field": "rank", "type": "ordinal", "sort": order, "title": _title(names)},
                "x": {"field": "time_us", "type": "quantitative", "stack": "zero",
                      "title": "Time (µs)", "axis": {"format": "~f"}},
                # An activity has one colour in all figures, whatever else there is.
                "color": {"field": "activity", "type": "nominal", "scale": {"domain": done},
                          "legend": {"symbolType": "square", "values": present}},
                "order": {"field": "order", "type": "quantitative"},
                "tooltip": [
                    {"field": "rank", "type": "ordinal"},
                    {"field": "host", "type": "ordinal"},
                    {"field": "activity", "type": "nominal"},
                    {"field": "time_us", "type": "quantitative", "title": "time (µs)",
                     "format": ",.6~g"},
                ],
            },
        },
    )  # fmt: skip


def _of_first_run(result: Result, name: str) -> pd.DataFrame:
    table: pd.DataFrame = result.tables.get(name, pd.DataFrame())
    if table.empty:
        return table
    run = table.groupby(["point", "seed"], sort=False).ngroup()
    return table.loc[run == 0]


def _names(ranks: pd.DataFrame) -> dict[int, int | str]:
    """Name each rank by its number, with its host where that has several."""
    numbers = [int(rank) for rank in ranks["rank"]]
    if not ranks["host"].duplicated().any():
        return {rank: rank for rank in numbers}
    hosts = [int(host) for host in ranks["host"]]
    return {rank: f"{rank} on {host}" for rank, host in zip(numbers, hosts, strict=True)}


def _told(rows: pd.DataFrame, names: dict[int, int | str], *columns: str) -> pd.DataFrame:
    """Write ranks by their names where those are more than numbers."""
    if _title(names) == "Rank" or rows.empty:
        return rows
    return rows.assign(**{column: rows[column].map(names) for column in columns})


def _title(names: dict[int, int | str]) -> str:
    return "Rank on host" if any(isinstance(name, str) for name in names.values()) else "Rank"


def _step(order: list[int | str]) -> int:
    return max(10, min(28, 900 // max(1, len(order))))


def draw_rank_times(
    intervals: pd.DataFrame,
    messages: pd.DataFrame,
    ranks: pd.DataFrame,
    title: str,
    name: str = "rank-times",
    more: str = "",
) -> Figure:
    """Draw a bar for each stretch of a rank's time and a line for each message."""
    names = _names(ranks)
    told, sent = _told(intervals, names, "rank"), _told(messages, names, "initiator", "target")
    bars = _thinned(records(told)) if len(intervals) else []
    lines = _thinned(records(sent)) if len(messages) else []
    order = [names[int(rank)] for rank in ranks["rank"]]
    present = [*_ACTIVITIES, *([_QUEUED] if _QUEUED in set(intervals.get("activity", [])) else [])]
    left_out = len(intervals) + len(messages) - len(bars) - len(lines)
    caption = "A bar is what a rank did, a line is a message from being handed over to its arrival."
    if left_out:
        caption += f" {left_out} marks, evenly spread, are left out."
    rank = {"type": "ordinal", "sort": order, "title": _title(names), "scale": {"domain": order}}
    layers = [
        {
            "data": {"values": bars},
            "mark": {"type": "bar", "height": {"band": 0.55}},
            "encoding": {
                "y": {"field": "rank", **rank},
                "x": {"field": "from_us", "type": "quantitative", "title": "Time (µs)"},
                "x2": {"field": "until_us"},
                "color": {
                    "field": "activity",
                    "type": "nominal",
                    "scale": {"domain": present},
                    "legend": {"symbolType": "square"},
                },
                "tooltip": [
                    {"field": "rank", "type": "ordinal"},
                    {"field": "activity", "type": "nominal"},
                    {"field": "other", "type": "ordinal", "title": "other rank"},
                    {"field": "from_us", "type": "quantitative", "title": "from (µs)"},
                    {"field": "until_us", "type": "quantitative", "title": "until (µs)"},
                ],
            },
        },
        {
            "data": {"values": lines},
            "mark": {"type": "rule", "color": "$ink", "opacity": 0.45, "strokeWidth": 1},
            "encoding": {
                "y": {"field": "initiator", **rank, "bandPosition": 0.5},
                "y2": {"field": "target", "bandPosition": 0.5},
                "x": {"field": "offered_us", "type": "quantitative"},
                "x2": {"field": "delivered_us"},
                "tooltip": [
                    {"field": "initiator", "type": "ordinal"},
                    {"field": "target", "type": "ordinal"},
                    {"field": "size_bytes", "type": "quantitative", "title": "size (bytes)"},
                    {"field": "delivered_us", "type": "quantitative", "title": "arrival (µs)"},
                ],
            },
        },
    ]
    return Figure(
        name=name,
        title=title,
        caption=f"{more} {caption}".strip(),
        spec={
            "title": {"subtitle": "a bar a rank, a line a message"},
            "width": WIDTH,
            "height": {"step": _step(order)},
            "layer": layers,
        },
    )


def _thinned(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return list(spread(rows, _MOST_MARKS))
