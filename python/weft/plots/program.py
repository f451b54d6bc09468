"""Where the time of a program's ranks went, point by point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.figure import Figure
from weft.plots.bars import LONG, bar_axis
from weft.plots.request import (
    Request,
    chosen_points,
    point_labels,
    records,
    rows_of,
    series_labels,
)
from weft.theme import WIDTH
from weft.words import in_lines, number

if TYPE_CHECKING:
    from weft.result import Result

_ROW = 30
_BARS = 12
_SHARES = ["computing", "sending", "waiting"]
# Only where processors are counted.
_QUEUED = "queued"

TIME = "program_time_us"


def program_shares(result: Result, request: Request) -> Figure | None:
    """Draw one bar a point, divided by what its ranks did."""
    rows = rows_of(result.points, request)
    if TIME not in rows or rows[TIME].isna().all():
        return None
    # The measurements of a program are in the rows of its channels only.
    rows = rows[rows[TIME].notna()].drop_duplicates("point").reset_index(drop=True)
    x = request.x or _swept(result) or "point"
    if x not in rows:
        return None
    series = series_labels(rows, x, request, result)
    labels = point_labels(rows, x, series)
    rows = rows.assign(label=labels)[labels.isin(chosen_points(labels, series, _BARS))]
    bars = [f"{row.label} · {number(row[TIME])} µs" for _, row in rows.iterrows()]
    if result.points["point"].nunique() == 1:
        bars = [f"{number(rows[TIME].iloc[0])} µs"]
    bars = [in_lines(bar, LONG) for bar in bars]
    told = [*_SHARES, *([_QUEUED] if f"program_{_QUEUED}_share" in rows else [])]
    shares = [*told, "idle"]
    drawn = rows.assign(bar=bars, **{name: rows[f"program_{name}_share"] for name in told})
    drawn["idle"] = (1 - drawn[told].sum(axis=1)).clip(lower=0)
    long = drawn.melt(["bar"], shares, var_name="activity", value_name="share")
    long["order"] = long["activity"].map(shares.index)
    present = [name for name in shares if long.loc[long["activity"] == name, "share"].max() > 0]
    return Figure(
        name=request.name,
        title=request.title,
        caption=request.caption,
        spec={
            "title": {"subtitle": "share of the time of all ranks until the last of them ends"},
            "data": {"values": records(long[long["activity"].isin(present)])},
            "width": WIDTH - 140,
            "height": {"step": _ROW},
            "mark": {"type": "bar", "stroke": "$ground", "strokeWidth": 1, "height": 20},
            "encoding": {
                "y": bar_axis(list(dict.fromkeys(bars))),
                "x": {"field": "share", "type": "quantitative", "stack": "zero",
                      "scale": {"domain": [0, 1]}, "title": "Share of the ranks' time (%)",
                      "axis": {"format": ".0%", "tickCount": 5}},
                # An activity has one colour in all figures, whatever else there is.
                "color": {"field": "activity", "type": "nominal", "scale": {"domain": shares},
                          "legend": {"symbolType": "square", "values": present}},
                "order": {"field": "order", "type": "quantitative"},
                "tooltip": [
                    {"field": "bar", "type": "nominal", "title": "point"},
                    {"field": "activity", "type": "nominal"},
                    {"field": "share", "type": "quantitative", "format": ".1%"},
                ],
            },
        },
    )  # fmt: skip


def program_defaults(result: Result) -> list[Request]:
    """Ask for what a program's result shows without a wish: its time, and where that went."""
    points = result.points
    if TIME not in points or points[TIME].isna().all():
        return []
    shares = Request("program-shares", "Where the ranks' time went", "program_shares")
    if "intervals" in result.tables and len(result.tables["intervals"]):
        ranks = Request("rank-times", "What each rank did when", "rank_times")
    else:
        ranks = Request("rank-shares", "What each rank did", "rank_shares")
    x = _swept(result)
    if not x:
        return [shares, ranks]
    timed = points[points[TIME].notna()]
    # Points may have their programs on different channels.
    channel = "" if timed["point"].is_unique else str(timed["channel"].iloc[0])
    time = Request("program-time", "Time of the program", "curve", channel=channel, x=x, y=TIME)
    return [time, shares, ranks] if ranks.kind == "rank_times" else [time, shares]


def _swept(result: Result) -> str:
    """Return the first setting that was given several numbers, or else several names."""
    axes = [str(name) for name in result.meta.get("axes") or []]
    axes += [str(name) for name in result.points if "." in str(name)]
    several = [name for name in axes if name in result.points and result.points[name].nunique() > 1]
    counted = (name for name in several if all(str(v)[:1].isdigit() for v in result.points[name]))
    return next(counted, next(iter(several), ""))
