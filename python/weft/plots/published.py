"""Every published number on one page: how far the measured one lies from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from weft.checks import LITERAL, Check, checks_of, once_each
from weft.figure import Figure
from weft.theme import WIDTH
from weft.words import in_lines, number, percent, printed

if TYPE_CHECKING:
    from weft.plots.request import Request
    from weft.result import Result

_ROW = 19
# An error beyond this is drawn at the edge with its number beside it, so that one of +400 %
# does not flatten the others.
_EDGE = 0.4
# Longer labels are broken into two lines.
_LONG = 52

_KINDS = {
    "within": ("$within", "circle"),
    "outside": ("$outside", "diamond"),
    "missed": ("$outside", "cross"),
    "not decided at this size": ("$undecided", "triangle-up"),
    "shown, not judged": ("$report", "square"),
}

_SHOWN = {"report": "shown, not judged", "undecided": "not decided at this size"}


def published_against_measured(result: Result, request: Request) -> Figure | None:
    """Draw one row a published number: error as a dot, its interval, the band that is claimed.

    The rows stand under the experiment that they belong to, and a number that several experiments
    hold under the one in which it counts. Two readings of the document share the row of their
    number.
    """
    checks = once_each(checks_of(result))
    rows = _rows([check for check in checks if check.error is not None], result)
    if not rows:
        return None
    return Figure(
        name=request.name,
        title=request.title,
        caption=request.caption,
        spec={
            "title": {"subtitle": "mark: error · line: 95 % interval · grey: the band claimed"},
            "data": {"values": rows},
            "width": WIDTH - 240,
            "height": {"step": _ROW},
            "layer": _layers(rows),
        },
    )


def _rows(checks: list[Check], result: Result) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    experiments = list(dict.fromkeys(check.experiment for check in checks))
    titles = [
        result.runs[name].title.split(":")[0] if name in result.runs else name
        for name in experiments
    ]
    for count, (experiment, title) in enumerate(zip(experiments, titles, strict=True)):
        # The chart identifies labels by their text; invisible characters make equal ones differ.
        apart = "\u200b" * count
        part = f" ({experiment.rsplit('-', 1)[-1]})" if titles.count(title) > 1 else ""
        rows.append({"label": in_lines(title + part, _LONG) + apart, "head": True, "verdict": ""})
        for check in checks:
            if check.experiment == experiment:
                rows.append(_row(check, apart))
    return rows


def _row(check: Check, apart: str) -> dict[str, Any]:
    error = check.error or 0.0
    beyond = abs(error) > _EDGE
    scale = abs(check.published or 1.0)
    half = (check.half_width or 0.0) / scale
    ends = [
        None if end is None or not check.published else end / check.published - 1.0
        for end in (check.band_low, check.band_high)
    ]
    low, high = ends if check.is_claimed else (None, None)
    reading = f" ({LITERAL})" if LITERAL in check.preset.split("+") else ""
    return {
        "label": in_lines(_short(check), _LONG) + apart,
        "head": False,
        "reading": check.preset,
        "experiment": check.experiment,
        "error": max(-_EDGE, min(_EDGE, error)),
        "low": None if beyond else max(-_EDGE, error - half),
        "high": None if beyond else min(_EDGE, error + half),
        "band_low": None if low is None else max(-_EDGE, low),
        "band_high": None if high is None else min(_EDGE, high),
        "beyond": f"{percent(error)}{reading}" if beyond else "",
        "verdict": _SHOWN.get(check.verdict, check.verdict),
        "published": f"{printed(check.published)} {check.shown_unit}".strip(),
        "measured": f"{number(check.measured, 4)} {check.shown_unit}".strip(),
        "error_text": percent(error),
    }


def _short(check: Check) -> str:
    """Name a row: the place alone where the quantity is the usual one."""
    if not check.at:
        return check.name
    return check.at if check.quantity == "queueing_mean_us" else f"{check.name}, {check.at}"


def _layers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    heads = [row["label"] for row in rows if row["head"]]
    is_head = f"indexof({json.dumps(heads, ensure_ascii=False)}, datum.value) >= 0"
    in_two = "indexof(datum.value, '\\n') >= 0"
    y = {"field": "label", "type": "nominal", "title": None,
         "scale": {"domain": list(dict.fromkeys(row["label"] for row in rows))},
         "axis": {"labelExpr": "split(datum.label, '\\n')", "labelLineHeight": 9,
                  "labelOffset": {"condition": {"test": in_two, "value": -4}, "value": 0},
                  "labelFontSize": {"condition": {"test": in_two, "value": 8.5}, "value": 11},
                  "labelLimit": 0, "grid": True, "labelFontWeight": {
             "condition": {"test": is_head, "value": 600}, "value": "normal"}, "labelColor": {
             "condition": {"test": is_head, "value": "$ink"}, "value": "$muted"}}}  # fmt: skip
    x = {"field": "error", "type": "quantitative", "title": "Error, measured against published (%)",
         "scale": {"domain": [-1.06 * _EDGE, 1.06 * _EDGE], "nice": False},
         "axis": {"format": "+.0%", "tickCount": 7}}  # fmt: skip
    present = [kind for kind in _KINDS if any(row["verdict"] == kind for row in rows)]
    verdict = {"field": "verdict", "type": "nominal"}
    colour = {**verdict, "scale": {"domain": present, "range": [_KINDS[v][0] for v in present]}}
    shape = {**verdict, "scale": {"domain": present, "range": [_KINDS[v][1] for v in present]}}
    quiet = {**colour, "legend": None}
    tooltip = [
        {"field": name, "type": "nominal", "title": title}
        for name, title in (("label", "quantity"), ("experiment", "experiment"),
                            ("reading", "reading"), ("published", "published"),
                            ("measured", "measured"), ("error_text", "error"),
                            ("verdict", "verdict"))
    ]  # fmt: skip
    layers: list[dict[str, Any]] = [
        {"transform": [{"filter": "isValid(datum.band_low)"}],
         "mark": {"type": "bar", "height": 11, "color": "$line"},
         "encoding": {"y": y, "x": {**x, "field": "band_low"}, "x2": {"field": "band_high"}}},
        {"mark": {"type": "rule", "stroke": "$muted"},
         "encoding": {"x": {"datum": 0, "type": "quantitative"}}},
        {"transform": [{"filter": "isValid(datum.low)"}],
         "mark": {"type": "rule", "strokeWidth": 2},
         "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "high"},
                      "color": quiet}},
        {"transform": [{"filter": "isValid(datum.error)"}],
         "mark": {"type": "point", "filled": True, "size": 62, "opacity": 1},
         "encoding": {"y": y, "x": x, "color": colour, "shape": shape, "tooltip": tooltip}},
    ]  # fmt: skip
    for sign, align, shift in ((">", "right", -9), ("<", "left", 9)):
        if any(row.get("beyond") and (row["error"] > 0) == (sign == ">") for row in rows):
            layers.append(
                {"transform": [{"filter": f"datum.beyond && datum.error {sign} 0"}],
                 "mark": {"type": "text", "align": align, "dx": shift, "dy": -6, "fontSize": 10},
                 "encoding": {"y": y, "x": x, "text": {"field": "beyond"}, "color": quiet}}
            )  # fmt: skip
    return layers
