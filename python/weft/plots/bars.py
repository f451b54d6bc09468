"""Bars that are divided into the parts of a mean time."""

from __future__ import annotations

from typing import Any

from weft.words import in_lines

LONG = 36
"""Letters on a line of a bar's name."""

TIME = {"field": "mean_us", "type": "quantitative", "stack": "zero"}
"""The length of a part, in microseconds, after the parts before it."""


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
    names = {bar: in_lines(bar, LONG) for bar in bars}
    return {
        "data": {"values": [{**row, "bar": names[row["bar"]]} for row in values]},
        "height": {"step": step},
        "mark": {"type": "bar", "stroke": "$ground", "strokeWidth": 1, "height": 20},
        "encoding": {
            "y": bar_axis(list(names.values())),
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


def bar_axis(bars: list[str]) -> dict[str, Any]:
    """Return the encoding that names the bars beside them, on as many lines as a name has."""
    return {
        "field": "bar", "type": "nominal", "sort": bars, "title": None,
        "axis": {"labelLimit": 0, "labelExpr": "split(datum.label, '\\n')", "labelOffset": {
            "condition": {"test": "indexof(datum.value, '\\n') >= 0", "value": -6.5}, "value": 0}},
    }  # fmt: skip
