"""Every packet of a traced run as a bar from its first byte to its last, under its kind."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from weft.figure import Figure
from weft.plots.request import Request, records, rows_of
from weft.theme import WIDTH

if TYPE_CHECKING:
    from weft.result import Result

# More rows or bars than this are no picture any more.
_ROWS = 40
_BARS = 1000
_ROW = 16


def timeline(result: Result, request: Request) -> Figure | None:
    """Draw the trace of the first point and seed: a row for each kind of packet and pair."""
    trace = rows_of(result.tables.get("trace", pd.DataFrame()), request)
    if trace.empty:
        return None
    first = [name for name in ("point", "seed") if name in trace]
    trace = trace[(trace[first] == trace[first].iloc[0]).all(axis=1)].sort_values("time_us")
    drawn = pd.DataFrame(
        {
            "row": trace["kind"]
            + trace["initiator"].map(_host)
            + " →"
            + trace["target"].map(_host),
            "kind": trace["kind"],
            "from": trace["time_us"],
            "until": trace["until_us"],
            "number": trace["sequence"],
            "content": trace["content"].fillna(""),
        }
    )
    kinds = list(dict.fromkeys(drawn["kind"]))
    rows = sorted(dict.fromkeys(drawn["row"]), key=lambda row: kinds.index(row.split(" ")[0]))
    if len(rows) > _ROWS or len(drawn) > _BARS:
        return None
    return Figure(
        name=request.name,
        title=request.title,
        caption=request.caption,
        spec={
            "title": {"subtitle": "from the first byte sent to the last byte received, by host"},
            "data": {"values": records(drawn)},
            "width": WIDTH - 140,
            "height": {"step": _ROW},
            "mark": {"type": "bar", "height": _ROW - 6},
            "encoding": {
                "y": {"field": "row", "type": "nominal", "sort": rows, "title": None,
                      "axis": {"labelLimit": 160}},
                "x": {"field": "from", "type": "quantitative", "title": "Time (µs)",
                      "scale": {"nice": False}},
                "x2": {"field": "until"},
                "color": {"field": "kind", "type": "nominal", "scale": {"domain": kinds},
                          "legend": {"symbolType": "square"} if len(kinds) > 1 else None},
                "tooltip": [
                    {"field": "row", "type": "nominal", "title": "packet"},
                    {"field": "number", "type": "quantitative", "title": "number"},
                    {"field": "from", "type": "quantitative", "title": "from (µs)"},
                    {"field": "until", "type": "quantitative", "title": "until (µs)"},
                    {"field": "content", "type": "nominal"},
                ],
            },
        },
    )  # fmt: skip


def _host(value: float | None) -> str:
    return " switch" if value is None or math.isnan(value) else f" {value:.0f}"
