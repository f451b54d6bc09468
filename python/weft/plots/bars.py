"""Bars that are divided into the parts of a mean time."""

from __future__ import annotations

from typing import Any

TIME = {"field": "mean_us", "type": "quantitative", "stack": "zero"}
"""The length of a part, in microseconds, behind those before it."""


def divided(
    values: list[dict[str, Any]],
    *,
    bars: list[str],
    parts: tuple[str, list[str]],
    along: dict[str, Any],
    named: str,
    columns: int,
    step: int,
) -> dict[str, Any]:
    """Return what a picture of bars needs besides its title and its width.

    Args:
        values: rows with `bar`, `order` (of the part in its bar), `mean_us` and the part's name.
        bars: the bars from above.
        parts: the field that names a part, and all parts in the order of the legend.
        along: the horizontal axis.
        named: what a bar stands for, in the tooltip.
        columns: entries of the legend beside each other.
        step: from one bar to the next, in pixels.

    """
    part, domain = parts
    return {
        "data": {"values": values},
        "height": {"step": step},
        "mark": {"type": "bar", "stroke": "$ground", "strokeWidth": 1, "height": 20},
        "encoding": {
            "y": {"field": "bar", "type": "nominal", "sort": bars, "title": None,
                  "axis": {"labelLimit": 220}},
            "x": along,
            "color": {"field": part, "type": "nominal", "scale": {"domain": domain},
                      "legend": {"symbolType": "square", "columns": columns}},
            "order": {"field": "order", "type": "quantitative"},
            "tooltip": [
                {"field": "bar", "type": "nominal", "title": named},
                {"field": part, "type": "nominal"},
                {"field": "mean_us", "type": "quantitative", "title": "mean (µs)",
                 "format": ",.4~g"},
            ],
        },
    }  # fmt: skip
