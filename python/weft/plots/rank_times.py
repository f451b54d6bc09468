"""The space-time picture of a program: what each rank did when, and the messages between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.figure import Figure
from weft.plots.request import records, spread
from weft.theme import WIDTH

if TYPE_CHECKING:
    import pandas as pd

# More marks than this make a file that no viewer opens with pleasure.
_MOST_MARKS = 4000

_ACTIVITIES = ["computing", "sending", "waiting"]


def rank_times(
    intervals: pd.DataFrame, messages: pd.DataFrame, ranks: pd.DataFrame, title: str
) -> Figure:
    """Draw a bar for each stretch of a rank's time and a line for each message."""
    bars = _thinned(records(intervals)) if len(intervals) else []
    lines = _thinned(records(messages)) if len(messages) else []
    order = [int(rank) for rank in ranks["rank"]]
    step = max(10, min(28, 900 // max(1, len(order))))
    left_out = len(intervals) + len(messages) - len(bars) - len(lines)
    caption = "A bar is what a rank did, a line is a message from being handed over to its arrival."
    if left_out:
        caption += f" {left_out} marks, evenly spread, are left out."
    rank = {"type": "ordinal", "sort": order, "title": "Rank", "scale": {"domain": order}}
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
                    "scale": {"domain": _ACTIVITIES},
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
        name="rank-times",
        title=title,
        caption=caption,
        spec={
            "title": {"subtitle": "a bar a rank, a line a message"},
            "width": WIDTH,
            "height": {"step": step},
            "layer": layers,
        },
    )


def _thinned(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return list(spread(rows, _MOST_MARKS))
