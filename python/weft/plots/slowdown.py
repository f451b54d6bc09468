"""Slowdown of flows by their size, as papers on congestion control show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from weft.figure import Figure
from weft.plots.axes import log_ticks
from weft.plots.panels import arranged
from weft.plots.request import Request, records, rows_of, series_labels
from weft.words import plain

if TYPE_CHECKING:
    from weft.result import Result

# Statistics of the table, as its columns say them and as a reader does.
_STATISTICS = {"slowdown_p50": "median", "slowdown_p99": "p99"}
# The row of a group that has all of its flows.
_ALL = "all"


def slowdown_by_size(result: Result, request: Request) -> Figure | None:
    """Draw the median and p99 of slowdown for the sizes of each group, a colour a setting."""
    flows = rows_of(result.tables.get("flows", pd.DataFrame()), request)
    if flows.empty:
        return None
    drawn = flows[(flows["size"] != _ALL) & flows["slowdown_p50"].notna()].copy()
    # A group of flows of one size is a number, not a curve.
    drawn = drawn[drawn.groupby("group")["size"].transform("nunique") > 1]
    if drawn.empty:
        return None
    drawn["size"] = drawn["size"].str.removeprefix("up to ")
    drawn["series"] = series_labels(drawn, "size", request, result, apart=("group",))
    drawn["panel"] = drawn["group"].map(plain)
    kept = ["series", "panel", "size", "flows"]
    long = drawn.melt(kept, list(_STATISTICS), var_name="statistic", value_name="slowdown")
    long["statistic"] = long["statistic"].map(_STATISTICS)
    spec: dict[str, Any] = {
        "title": {"subtitle": "completion time over that of the flow alone; dashed: median"},
        "data": {"values": records(long)},
        **arranged([_layer(long, mark) for mark in ("line", "point")], long),
    }
    return Figure(name=request.name, title=request.title, caption=request.caption, spec=spec)


def _layer(long: pd.DataFrame, mark: str) -> dict[str, Any]:
    sizes = sorted(dict.fromkeys(long["size"]), key=_ceiling)
    order = list(dict.fromkeys(long["series"]))
    reach = (1.0, max(float(long["slowdown"].max()) * 1.2, 2.0))
    colour = {"field": "series", "type": "nominal", "scale": {"domain": order},
              "legend": None if len(order) < 2 else {"symbolOpacity": 1}}  # fmt: skip
    own: dict[str, Any] = {"color": colour, "shape": {**colour}}
    kind: dict[str, Any] = {"type": "point", "filled": True, "size": 45, "opacity": 1}
    if mark == "line":
        dash = {"field": "statistic", "type": "nominal", "legend": None,
                "scale": {"domain": ["p99", "median"], "range": [[1, 0], [5, 4]]}}  # fmt: skip
        own = {"color": colour, "strokeDash": dash}
        kind = {"type": "line"}
    return {
        "mark": kind,
        "encoding": {
            "x": {"field": "size", "type": "ordinal", "sort": sizes,
                  "title": "Size of the flow, at most", "axis": {"labelAngle": 0}},
            "y": {"field": "slowdown", "type": "quantitative", "title": "Slowdown",
                  "scale": {"type": "log", "nice": False, "domain": reach},
                  "axis": {"values": log_ticks(*reach), "format": ",.6~g"}},
            "detail": {"field": "statistic", "type": "nominal"},
            "tooltip": [
                {"field": "series", "type": "nominal", "title": "setting"},
                {"field": "panel", "type": "nominal", "title": "group"},
                {"field": "size", "type": "nominal", "title": "size"},
                {"field": "statistic", "type": "nominal", "title": "statistic"},
                {"field": "slowdown", "type": "quantitative", "format": ".4~g"},
                {"field": "flows", "type": "quantitative", "title": "flows"},
            ],
            **own,
        },
    }  # fmt: skip


def _ceiling(size: str) -> float:
    """Order "10 KB" by its bytes; what is larger than all comes last."""
    units = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
    count, _, unit = size.partition(" ")
    return float(count) * units[unit] if unit in units else float("inf")
