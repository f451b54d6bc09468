"""What each stream of a fabric got: sorted bars beside the fair shares, and a histogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from weft.figure import Figure
from weft.plots.request import Request, records, rows_of, with_points
from weft.theme import HEIGHT, WIDTH

if TYPE_CHECKING:
    from weft.result import Result

# Width of a bin of the histogram, in MB/s.
_BIN = 10


def stream_throughput(result: Result, request: Request) -> Figure | None:
    """Draw the throughput of each stream of the first run, sorted, one picture for each series."""
    rows = _rows(result, request)
    if rows.empty:
        return None
    rows = rows[rows["seed"] == rows["seed"].min()]
    ranked = rows.sort_values(["panel", "stream_mb_per_s"], ascending=[True, False], kind="stable")
    ranked["rank"] = ranked.groupby("panel").cumcount() + 1
    ranked["name"] = ranked["from"] + " to " + ranked["to"]
    fields = ["panel", "rank", "name", "group", "way", "stream_mb_per_s", "fair_mb_per_s"]
    bars = {
        "mark": {"type": "bar", "opacity": 0.85},
        "encoding": {
            "x": {"field": "rank", "type": "ordinal", "title": "Stream",
                  "axis": {"labels": False}},
            "y": {"field": "stream_mb_per_s", "type": "quantitative",
                  "title": "Throughput (MB/s)"},
            "color": {"field": "group", "type": "nominal",
                      "legend": {} if ranked["group"].nunique() > 1 else None},
            "tooltip": [
                {"field": "name", "type": "nominal", "title": "stream"},
                {"field": "way", "type": "nominal", "title": "switches"},
                {"field": "stream_mb_per_s", "type": "quantitative", "title": "MB/s",
                 "format": ".4~g"},
                {"field": "fair_mb_per_s", "type": "quantitative", "title": "fair share",
                 "format": ".4~g"},
            ],
        },
    }  # fmt: skip
    fair = {
        "mark": {"type": "tick", "stroke": "$ink", "thickness": 1.5},
        "encoding": {
            "x": {"field": "rank", "type": "ordinal"},
            "y": {"field": "fair_mb_per_s", "type": "quantitative"},
        },
    }
    subtitle = "bars: measured · ticks: max-min fair share"
    return _figure(request, ranked[fields], [bars, fair], subtitle)


def stream_histogram(result: Result, request: Request) -> Figure | None:
    """Draw how many streams of all runs got how much."""
    rows = _rows(result, request)
    if rows.empty:
        return None
    bins = (rows["stream_mb_per_s"] // _BIN * _BIN).rename("low")
    counts = rows.groupby(["panel", bins], sort=False).size().rename("streams").reset_index()
    counts["high"] = counts["low"] + _BIN
    bars = {
        "mark": {"type": "bar", "opacity": 0.85},
        "encoding": {
            "x": {"field": "low", "type": "quantitative", "bin": {"binned": True, "step": _BIN},
                  "title": "Throughput of a stream (MB/s)"},
            "x2": {"field": "high"},
            "y": {"field": "streams", "type": "quantitative", "title": "Streams"},
            "tooltip": [
                {"field": "low", "type": "quantitative", "title": "from (MB/s)"},
                {"field": "streams", "type": "quantitative", "title": "streams"},
            ],
        },
    }  # fmt: skip
    return _figure(request, counts, [bars], f"{len(rows)} streams of all runs")


def _rows(result: Result, request: Request) -> pd.DataFrame:
    rows = rows_of(result.tables.get("streams", pd.DataFrame()), request)
    if rows.empty:
        return rows
    rows = with_points(rows, result)
    # If the picture does not distinguish the points of a sweep, it shows the last one.
    axis = request.series if request.series in rows else None
    last = rows.groupby(axis)["point"].transform("max") if axis else rows["point"].max()
    rows = rows[rows["point"] == last].copy()
    rows["panel"] = rows[axis].astype(str) if axis else ""
    return rows


def _figure(
    request: Request, frame: pd.DataFrame, layers: list[dict[str, Any]], subtitle: str
) -> Figure:
    panels = list(dict.fromkeys(frame["panel"]))
    spec: dict[str, Any] = {
        "title": {"subtitle": subtitle},
        "data": {"values": records(frame)},
    }
    if len(panels) < 2:
        spec.update({"layer": layers, "width": WIDTH, "height": HEIGHT})
    else:
        header = {"labelFontSize": 13, "labelAnchor": "start"}
        spec.update(
            {
                "facet": {"field": "panel", "type": "nominal", "title": None, "sort": panels,
                          "header": header},
                "columns": 2,
                "spec": {"layer": layers, "width": WIDTH // 2 - 20, "height": HEIGHT - 120},
            }
        )  # fmt: skip
    return Figure(name=request.name, title=request.title, caption=request.caption, spec=spec)
