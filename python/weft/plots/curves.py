"""Curves over load: latency, accepted throughput, collisions.

Confidence intervals are drawn as bands. A filled mark is a point that settled (reached steady
state), a hollow one a point that did not: its mean depends on the length of the run. A cross is a
published number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from weft.figure import Figure
from weft.plots.axes import log_ticks
from weft.plots.overlay import MARK, overlaid
from weft.plots.panels import arranged
from weft.plots.request import (
    Request,
    load_column,
    records,
    rows_of,
    series_labels,
    with_points,
)
from weft.standing import SETTLED, STANDING, main_latency
from weft.theme import CROSS
from weft.words import axis_title, half_widths

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.result import Result


def latency_against_load(result: Result, request: Request) -> Figure | None:
    """Draw mean latency over load, on a logarithmic axis, with its confidence band."""
    rows = rows_of(result.points, request)
    y = request.y or f"{main_latency(rows)}_mean_us"
    return _curves(result, request, rows, y, log=True) if y in rows else None


def throughput_against_load(result: Result, request: Request) -> Figure | None:
    """Draw accepted over offered load, with the line where everything offered is accepted."""
    rows = rows_of(result.points, request)
    y = request.y or "accepted_load"
    return _curves(result, request, rows, y, diagonal=True) if y in rows else None


def curve(result: Result, request: Request) -> Figure | None:
    """Draw any column over what is swept, on a linear axis."""
    rows = rows_of(result.points, request)
    y = request.y or "accepted_mb_per_s"
    return _curves(result, request, rows, y) if y in rows else None


def collision_rates(result: Result, request: Request) -> Figure | None:
    """Draw collisions per transmission over load, one curve for each kind of opponent."""
    rows = with_points(rows_of(result.collisions, request), result)
    y = request.y or "collisions_per_attempt"
    if y not in rows or "collided_with" not in rows:
        return None
    rows = rows.assign(collided_with="with " + rows["collided_with"].astype(str) + "s")
    return _curves(result, request, rows, y, kind="collided_with")


def _curves(
    result: Result,
    request: Request,
    rows: pd.DataFrame,
    y: str,
    *,
    log: bool = False,
    diagonal: bool = False,
    kind: str = "",
) -> Figure | None:
    x = load_column(rows, request)
    if x not in rows:
        return None
    series = series_labels(rows, x, request, result, apart=(kind,))
    if kind:
        series = rows[kind] if series.nunique() < 2 else series + " · " + rows[kind]
    measured = _measured(rows, x, y, series, request.panels)
    drawable = measured[measured["y"] > 0] if log else measured.dropna(subset=["y"])
    if drawable.empty:
        return None
    printed = _published(result, request, rows, x, y)
    values = records(drawable)
    on_others = overlaid(values, "series", ("panel",), log=log)
    layers = _layers(drawable, printed, on_others, (x, y, request.channel), log=log)
    if len(printed):
        layers += _published_layers(printed, layers[0]["encoding"])
    # Only fractions of the same bandwidth lie on one line.
    if diagonal and y == "accepted_load" and x.endswith("load"):
        layers.insert(0, _diagonal(drawable))
    missing = int((measured["y"] <= 0).sum()) if log else 0
    stuck = int((measured["y"].isna() & measured["verdict"].isin(STANDING)).sum())
    marks = _legend_of_marks(drawable, printed, (missing, stuck))
    if any(on_others):
        marks = " · ".join([*[marks] * bool(marks), "dashed: lies on another curve"])
    return Figure(
        name=request.name,
        title=request.title,
        caption=request.caption,
        spec={
            "title": {"subtitle": marks},
            "data": {"values": values + records(printed)},
            **arranged(layers, drawable),
        },
    )


def _measured(
    rows: pd.DataFrame, x: str, y: str, series: pd.Series[str], panels: str
) -> pd.DataFrame:
    """Return the rows as the fields that the marks read."""
    half = _half_width(rows, y)
    verdict = rows.get("verdict", SETTLED)
    frame = pd.DataFrame({"x": rows[x], "y": rows[y], "series": series, "half_width": half})
    frame["verdict"] = verdict
    frame["panel"] = rows[panels].astype(str) if panels in rows else ""
    smallest = frame["y"][frame["y"] > 0].min()
    # A logarithmic axis has no place for a bound at or below zero; a tenth of the smallest mean
    # lies below everything that is drawn.
    frame["lower"] = (frame["y"] - half).clip(lower=smallest / 10 if pd.notna(smallest) else None)
    frame["upper"] = frame["y"] + half
    for extra in (*_quantiles(y), "backlog_packets", "accepted_load"):
        if extra in rows and extra != y:
            frame[extra] = rows[extra]
    frame["mark"] = "measured"
    if not pd.api.types.is_numeric_dtype(frame["x"]):
        return frame
    # Curves and panels keep the order of the file, points on a curve that of the axis.
    return frame.sort_values("x", kind="stable").sort_values(
        ["panel", "series"], key=_first_seen_in(frame), kind="stable"
    )


def _quantiles(y: str) -> tuple[str, str]:
    """Name the quantiles for the tooltip of a point: those of the latency that is drawn."""
    latency = "one_way" if y.startswith("one_way_") else "queueing"
    return f"{latency}_p50_us", f"{latency}_p99_us"


def _first_seen_in(frame: pd.DataFrame) -> Callable[[pd.Series[Any]], pd.Series[int]]:
    """Return a sort key that follows the order of values in the table."""

    def rank(column: pd.Series[Any]) -> pd.Series[int]:
        order = {value: i for i, value in enumerate(dict.fromkeys(frame[str(column.name)]))}
        return column.map(order)

    return rank


def _half_width(rows: pd.DataFrame, y: str) -> pd.Series[float]:
    """Return the half width of each value of a column; 0 without an interval."""
    found = next((name for name in half_widths(y) if name in rows), None)
    return pd.Series(0.0, index=rows.index) if found is None else rows[found].fillna(0.0)


def _published(
    result: Result, request: Request, rows: pd.DataFrame, x: str, y: str
) -> pd.DataFrame:
    """Place each printed number that belongs to this figure where its settings put it."""
    marks: list[dict[str, Any]] = []
    for entry in result.meta.get("published") or []:
        # A ratio, a difference or a multiple is a number of another kind than the axis.
        if entry.get("quantity") != y or any(entry.get(key) for key in ("over", "less", "times")):
            continue
        at = rows
        for key, value in (entry.get("at") or {}).items():
            if key in at:
                at = at[at[key] == (f"with {value}s" if key == "collided_with" else value)]
        band = entry.get("band")
        ends = (band.get("between") or band.get("spread")) if isinstance(band, dict) else None
        panels = at[request.panels].astype(str) if request.panels in at else pd.Series("", at.index)
        for (place, panel), _ in at.groupby([at[x], panels]):
            marks.append(
                {
                    "x": place,
                    "panel": panel,
                    "y": entry.get("value"),
                    "lower": ends[0] if ends else None,
                    "upper": ends[1] if ends else None,
                    "section": entry.get("section") or "",
                    "mark": "published",
                }
            )
    return pd.DataFrame(marks, columns=["x", "panel", "y", "lower", "upper", "section", "mark"])


def _x_axis(places: pd.Series[Any], x: str, channel: str) -> dict[str, Any]:
    """Encode what is swept: numbers to scale, words (run lengths, parts) in the file's order."""
    if not pd.api.types.is_numeric_dtype(places):
        return {
            "field": "x",
            "type": "ordinal",
            "title": axis_title(x, channel),
            "sort": list(dict.fromkeys(places)),
            "scale": {"type": "point", "padding": 0.4},
            "axis": {"labelAngle": 0},
        }
    return {
        "field": "x",
        "type": "quantitative",
        "title": axis_title(x, channel),
        "scale": {"nice": False, "zero": bool(places.min() < places.max() / 3)},
        "axis": {"format": "~f", "tickCount": 10},
    }


def _reach(drawn: pd.DataFrame, printed: pd.DataFrame) -> list[float]:
    """Choose the ends of a logarithmic axis: all means and printed numbers, with some air.

    Bounds of intervals do not count, because one that reaches almost to zero would take decades
    for itself; they are clipped at the edge.
    """
    values = pd.concat([drawn["y"], printed["y"].dropna().astype(float)])
    return [float(values.min()) / 1.6, float(max(values.max(), drawn["upper"].max())) * 1.3]


def _layers(
    drawn: pd.DataFrame,
    printed: pd.DataFrame,
    on_others: tuple[dict[str, Any], dict[str, Any]],
    axes: tuple[str, str, str],
    *,
    log: bool,
) -> list[dict[str, Any]]:
    (x, y, channel), (dash, size) = axes, on_others
    scale: dict[str, Any] = {"type": "log", "nice": False} if log else {"zero": True, "nice": True}
    if log:
        scale["domain"] = _reach(drawn, printed)
    y_axis = {
        "field": "y",
        "type": "quantitative",
        "scale": scale,
        "title": axis_title(y),
        "axis": {
            "format": ",.6~g",
            **({"values": log_ticks(*scale["domain"])} if log else {"tickCount": 6}),
        },
    }
    x_axis = _x_axis(drawn["x"], x, channel)
    order = list(dict.fromkeys(drawn["series"]))
    single = len(order) < 2
    colour = {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": order},
        "legend": None if single else {"symbolOpacity": 1},
    }
    shape = {**colour}
    tooltip = _tooltip(drawn, x, y)
    base = {"x": x_axis, "y": y_axis, "color": colour}
    dots = {"filled": True, "size": MARK, "opacity": 1}
    settled = f"datum.verdict === '{SETTLED}'"
    layers: list[dict[str, Any]] = [
        {
            "transform": [{"filter": "datum.mark === 'measured'"}],
            "mark": {"type": "area", "opacity": 0.18, "clip": True},
            "encoding": {**base, "y": {**y_axis, "field": "lower"}, "y2": {"field": "upper"}},
        },
        {
            "transform": [{"filter": "datum.mark === 'measured'"}],
            "mark": {"type": "line"},
            "encoding": {**base, **dash},
        },
        {
            "transform": [{"filter": f"datum.mark === 'measured' && {settled}"}],
            "mark": {"type": "point", **dots},
            "encoding": {**base, **size, "shape": shape, "tooltip": tooltip},
        },
        {
            "transform": [{"filter": f"datum.mark === 'measured' && !({settled})"}],
            "mark": {"type": "point", "fill": "$ground", "size": MARK, "strokeWidth": 1.8,
                     "opacity": 1},
            "encoding": {
                "x": x_axis, "y": y_axis, **size, "stroke": colour, "shape": shape,
                "tooltip": tooltip,
            },
        },
    ]  # fmt: skip
    # A layer without a row would have no extent, and Vega says so on the reader's console.
    unsettled = drawn["verdict"] != SETTLED
    return [
        *layers[:2],
        *layers[2:3] * bool((~unsettled).any()),
        *layers[3:] * bool(unsettled.any()),
    ]


def _published_layers(printed: pd.DataFrame, shared: dict[str, Any]) -> list[dict[str, Any]]:
    place, height = shared["x"], {**shared["y"], "field": "y"}
    tooltip = [
        {"field": "y", "type": "quantitative", "title": "published", "format": ",.4~g"},
        {"field": "section", "type": "nominal", "title": "printed in"},
    ]
    ranges = [
        {
            "transform": [{"filter": "datum.mark === 'published' && isValid(datum.lower)"}],
            "mark": {"type": "rule", "stroke": "$ink", "strokeWidth": 2, "opacity": 0.6},
            "encoding": {
                "x": place,
                "y": {**height, "field": "lower"},
                "y2": {"field": "upper"},
            },
        }
    ]
    values = [
        {
            "transform": [{"filter": "datum.mark === 'published' && isValid(datum.y)"}],
            "mark": {"type": "point", "shape": CROSS, "stroke": "$ink", "strokeWidth": 1.6,
                     "size": 210, "opacity": 1},
            "encoding": {
                "x": place, "y": height, "tooltip": tooltip,
            },
        }
    ]  # fmt: skip
    return (ranges if printed["lower"].notna().any() else []) + (
        values if printed["y"].notna().any() else []
    )


def _diagonal(drawn: pd.DataFrame) -> dict[str, Any]:
    most = float(drawn["x"].max())
    return {
        "data": {"values": [{"x": 0, "y": 0}, {"x": most, "y": most}]},
        "mark": {"type": "line", "stroke": "$muted", "strokeDash": [3, 4], "strokeWidth": 1},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "y", "type": "quantitative"},
        },
    }


def _tooltip(drawn: pd.DataFrame, x: str, y: str) -> list[dict[str, Any]]:
    fields = [
        {"field": "series", "type": "nominal", "title": "series"},
        {
            "field": "x",
            "title": axis_title(x),
            **(
                {"type": "quantitative", "format": ".4~g"}
                if pd.api.types.is_numeric_dtype(drawn["x"])
                else {"type": "nominal"}
            ),
        },
        {"field": "y", "type": "quantitative", "title": axis_title(y), "format": ",.4~g"},
        {"field": "half_width", "type": "quantitative", "title": "± (95 %)", "format": ",.3~g"},
        {"field": "verdict", "type": "nominal", "title": "verdict"},
    ]
    for extra in (*_quantiles(y), "accepted_load", "backlog_packets"):
        if extra in drawn:
            fields.append(
                {"field": extra, "type": "quantitative", "title": axis_title(extra),
                 "format": ",.4~g"}
            )  # fmt: skip
    return fields


def _legend_of_marks(drawn: pd.DataFrame, printed: pd.DataFrame, left_out: tuple[int, int]) -> str:
    missing, stuck = left_out
    parts = []
    if (drawn["verdict"] != SETTLED).any():
        parts.append("hollow: did not settle")
    if (drawn["half_width"] > 0).any():
        parts.append("band: 95 % interval")
    if len(printed):
        parts.append("× published")
    if missing:
        parts.append(f"{missing} points at zero have no place on a logarithmic axis")
    if stuck:
        parts.append(f"{stuck} stuck, without a mean")
    return " · ".join(parts)
