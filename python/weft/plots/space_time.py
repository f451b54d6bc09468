"""The space-time diagram: who sent what when, one lane a host, each direction for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from weft.figure import Figure
from weft.plots.request import Request, records, rows_of
from weft.theme import WIDTH

if TYPE_CHECKING:
    from weft.result import Result

# More would be thinner than a line.
_BARS = 300
_LANE = 44


def space_time(result: Result, request: Request) -> Figure | None:
    """Draw the first transmissions of the first run as bars along time.

    A transmission belongs to the lane of its host; one between two hosts to that of its initiator.
    What a host sends stands above what is sent to it.
    """
    rows = rows_of(result.trace, request)
    if rows.empty:
        return None
    first = rows[rows["point"] == rows["point"].iloc[0]]
    first = first[first["seed"] == first["seed"].iloc[0]]
    busy = _lanes_that_carry(first)
    drawn = first[busy].sort_values("time_us", kind="stable").head(_BARS)
    lane = drawn["initiator"].fillna(drawn["target"])
    frame = pd.DataFrame({
        "start": drawn["time_us"],
        "end": drawn["until_us"],
        "kind": drawn["kind"],
        "content": drawn["content"],
        "lane": lane.map(lambda host: f"host {host:.0f}" if pd.notna(host) else "switches"),
        "way": drawn["initiator"].isna().map({True: "to the host", False: "from the host"}),
        "order": lane,
    })  # fmt: skip
    lanes = list(dict.fromkeys(frame.sort_values("order", kind="stable")["lane"]))
    end = frame["end"].max()
    return Figure(
        name=request.name,
        title=request.title,
        caption=request.caption,
        spec={
            "title": {"subtitle": f"the first {end:,.4g} µs; above what a host sends, below what "
                      "is sent to it"},
            "data": {"values": records(frame.drop(columns="order"))},
            "width": WIDTH - 80,
            "height": {"step": _LANE, "for": "position"},
            "mark": {"type": "bar", "stroke": "$ground", "strokeWidth": 0.5},
            "encoding": {
                "y": {"field": "lane", "type": "nominal", "sort": lanes, "title": None},
                "yOffset": {"field": "way", "type": "nominal",
                            "sort": ["from the host", "to the host"]},
                "x": {"field": "start", "type": "quantitative", "title": "Time (µs)",
                      "scale": {"nice": False, "zero": False},
                      "axis": {"format": "~f", "tickCount": 10}},
                "x2": {"field": "end"},
                "color": {"field": "kind", "type": "nominal",
                          "scale": {"domain": list(dict.fromkeys(frame["kind"]))},
                          "legend": {"symbolType": "square"}},
                "tooltip": [
                    {"field": "lane", "type": "nominal", "title": "at"},
                    {"field": "way", "type": "nominal"},
                    {"field": "kind", "type": "nominal"},
                    {"field": "content", "type": "nominal"},
                    {"field": "start", "type": "quantitative", "title": "from (µs)",
                     "format": ",.6~g"},
                    {"field": "end", "type": "quantitative", "title": "to (µs)",
                     "format": ",.6~g"},
                ],
            },
        },
    )  # fmt: skip


def _lanes_that_carry(rows: pd.DataFrame) -> pd.Series[bool]:
    """Leave out links on which nothing but empty frames pass."""
    lane = rows["initiator"].fillna(rows["target"])
    carries = (rows["kind"] != "null").groupby(lane).transform("any")
    return carries.fillna(True).astype(bool)
