"""Every published number on one page: how far the measured one lies from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.checks import Check, checks_of
from weft.figure import Figure
from weft.theme import WIDTH
from weft.words import number, percent, printed

if TYPE_CHECKING:
    from weft.plots.request import Request
    from weft.result import Result

_ROW = 20
# An error beyond this is drawn at the edge with its number beside it, so that one of +400 %
# does not flatten the others.
_EDGE = 0.6

_COLOURS = {"within": "$within", "outside": "$outside", "report": "$report"}
_SHAPES = {"within": "circle", "outside": "diamond", "report": "circle"}


def published_against_measured(result: Result, request: Request) -> Figure | None:
    """Draw one row a published value: error as a dot, its interval, the band that is claimed."""
    rows = [_row(i, check) for i, check in enumerate(checks_of(result)) if check.error is not None]
    if not rows:
        return None
    return Figure(
        name=request.name,
        title=request.title,
        caption=request.caption,
        spec={
            "title": {
                "subtitle": "dot: error · line: 95 % interval · grey: the band that is claimed"
            },
            "data": {"values": rows},
            "width": WIDTH - 240,
            "height": {"step": _ROW},
            "layer": _layers(rows),
        },
    )


def _row(place: int, check: Check) -> dict[str, Any]:
    error = check.error or 0.0
    interval = check.interval
    low, high = check.band.as_error(check.published) if check.band else (None, None)
    wide = (interval[1] - interval[0]) / 2 / abs(check.published) if check.published else 0.0
    beyond = abs(error) > _EDGE
    return {
        "place": place,
        "label": check.label,
        "experiment": check.experiment,
        "error": max(-_EDGE, min(_EDGE, error)),
        "low": max(-_EDGE, error - wide) if not beyond else None,
        "high": min(_EDGE, error + wide) if not beyond else None,
        "band_low": None if low is None else max(-_EDGE, low),
        "band_high": None if high is None else min(_EDGE, high),
        "beyond": percent(error) if beyond else "",
        "verdict": check.verdict,
        "published": f"{printed(check.published)} {check.unit}".strip(),
        "measured": f"{number(check.measured, 4)} {check.unit}".strip(),
        "error_text": percent(error),
    }


def _layers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    order = [row["label"] for row in rows]
    reach = max(0.15, *(abs(row[key]) for row in rows for key in ("error", "low", "high",
                        "band_low", "band_high") if row[key] is not None))  # fmt: skip
    y = {"field": "label", "type": "nominal", "sort": list(dict.fromkeys(order)), "title": None,
         "axis": {"labelLimit": 330, "grid": True}}  # fmt: skip
    x = {"field": "error", "type": "quantitative", "title": "Error, measured against published (%)",
         "scale": {"domain": [-1.06 * reach, 1.06 * reach], "nice": False},
         "axis": {"format": "+.0%", "tickCount": 7}}  # fmt: skip
    present = [verdict for verdict in _COLOURS if any(row["verdict"] == verdict for row in rows)]
    verdict = {"field": "verdict", "type": "nominal"}
    colour = {**verdict, "scale": {"domain": present, "range": [_COLOURS[v] for v in present]}}
    shape = {**verdict, "scale": {"domain": present, "range": [_SHAPES[v] for v in present]}}
    tooltip = [
        {"field": name, "type": "nominal", "title": title}
        for name, title in (("label", "quantity"), ("experiment", "experiment"),
                            ("published", "published"), ("measured", "measured"),
                            ("error_text", "error"), ("verdict", "verdict"))
    ]  # fmt: skip
    return [
        {"mark": {"type": "bar", "height": 12, "color": "$line"},
         "encoding": {"y": y, "x": {**x, "field": "band_low"}, "x2": {"field": "band_high"}}},
        {"mark": {"type": "rule", "stroke": "$muted"},
         "encoding": {"x": {"datum": 0, "type": "quantitative"}}},
        {"mark": {"type": "rule", "strokeWidth": 2},
         "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"},
                      "color": {**colour, "legend": None}}},
        {"mark": {"type": "point", "filled": True, "size": 64, "opacity": 1},
         "encoding": {"y": y, "x": x, "color": colour, "shape": shape, "tooltip": tooltip}},
        {"transform": [{"filter": "datum.beyond !== '' && datum.error > 0"}],
         "mark": {"type": "text", "align": "right", "dx": -9, "fontSize": 11},
         "encoding": {"y": y, "x": x, "text": {"field": "beyond"},
                      "color": {**colour, "legend": None}}},
        {"transform": [{"filter": "datum.beyond !== '' && datum.error < 0"}],
         "mark": {"type": "text", "align": "left", "dx": 9, "fontSize": 11},
         "encoding": {"y": y, "x": x, "text": {"field": "beyond"},
                      "color": {**colour, "legend": None}}},
    ]  # fmt: skip
