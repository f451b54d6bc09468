"""The distribution of a latency, drawn as its tail: which share of the packets took longer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from weft.figure import Figure
from weft.plots.axes import log_ticks
from weft.plots.panels import arranged
from weft.plots.request import (
    Request,
    chosen_points,
    load_column,
    point_labels,
    records,
    rows_of,
    series_labels,
    spread,
    with_points,
)
from weft.standing import main_latency
from weft.words import plain

if TYPE_CHECKING:
    from weft.result import Result

_CURVES = 6
# Steps of a curve; more could not be distinguished at this size.
_STEPS = 200
# How far below the longest latency the axis begins.
_DECADES = 3000.0
_ROUNDING = 1e-12
# The axis of shares goes down at least to here: the last marked quantile is below it.
_FLOOR = 1e-3


def distribution(result: Result, request: Request) -> Figure | None:
    """Draw the share of packets with a longer latency, both axes logarithmic."""
    rows = rows_of(result.histograms, request)
    if rows.empty or "point" not in result.points:
        return None
    kinds = list(dict.fromkeys(rows["latency"]))
    wanted = request.y if request.y in kinds else main_latency(rows_of(result.points, request))
    kind = wanted if wanted in kinds else kinds[0]
    rows = with_points(rows[rows["latency"] == kind], result)
    x = load_column(rows, request)
    if x not in rows:
        return None
    series = series_labels(rows, x, request, result)
    panel = rows[request.panels].astype(str) if request.panels in rows else series.map(lambda _: "")
    tails: list[pd.DataFrame] = []
    for name in dict.fromkeys(panel):
        here = rows[panel == name]
        labels = point_labels(here, x, series[panel == name])
        chosen = chosen_points(labels, series[panel == name], _CURVES)
        alone = _merged([_tail(here[labels == label], label) for label in chosen])
        tails += [tail.assign(panel=name) for tail in alone]
    drawn = _begun_together(tails)
    if drawn.empty:
        return None
    order = list(dict.fromkeys(drawn["series"]))
    subtitle = f"{measured_time(kind)[0]}; read p99 where a curve crosses 0.01"
    return Figure(
        name=request.name,
        title=request.title,
        caption=request.caption,
        spec={
            "title": {"subtitle": subtitle},
            "data": {"values": records(drawn)},
            **arranged([_quantile_rules(), _curves(drawn, order, kind)], drawn),
        },
    )


def measured_time(kind: str) -> tuple[str, str]:
    """Say which time a histogram has, and of what: of packets, or of flows of a group."""
    if kind == "completion":
        return "completion time", "flows"
    if kind.endswith("_completion"):
        group = plain(kind.removesuffix("_completion"))
        return f"completion time of {'all flows' if group == 'all' else group}", "flows"
    return f"{plain(kind)} latency", "packets"


def _tail(bins: pd.DataFrame, label: str) -> pd.DataFrame:
    """Share of the counted packets above each bin's upper edge; the last is zero."""
    count = bins.groupby("upper_us")["count"].sum().sort_index()
    share = 1.0 - count.cumsum() / count.sum()
    # Sums of fractions end a rounding error beside zero, which a logarithmic axis would show.
    share = share.where(share > _ROUNDING, 0.0)
    tail = pd.DataFrame({"latency": count.index, "share": share.to_numpy(), "series": label})
    return tail.loc[tail["latency"] > 0]


def _merged(tails: list[pd.DataFrame]) -> list[pd.DataFrame]:
    """One curve for all that coincide, under their names together."""
    alike: dict[tuple[tuple[float, float], ...], list[pd.DataFrame]] = {}
    for tail in tails:
        places = tail[["latency", "share"]].itertuples(index=False, name=None)
        alike.setdefault(tuple(places), []).append(tail)
    return [
        group[0].assign(series=", ".join(str(tail["series"].iloc[0]) for tail in group))
        for places, group in alike.items()
        if places
    ]


def _begun_together(tails: list[pd.DataFrame]) -> pd.DataFrame:
    """Let all curves begin where the axis does, and fall to its floor where they end.

    Packets that hardly waited would take most of a logarithmic axis for a level line.
    """
    if not tails:
        return pd.DataFrame()
    together = pd.concat(tails)
    if together["latency"].nunique() == 1:
        # One line across a picture says less than a number.
        return pd.DataFrame()
    begin = max(together["latency"].max() / _DECADES, together["latency"].min())
    least = together.loc[together["share"] > 0, "share"].min()
    floor = 10.0 ** math.floor(math.log10(least)) if least > 0 else _FLOOR
    curves = []
    for tail in tails:
        before = tail.loc[tail["latency"] <= begin, "share"]
        after = tail.loc[tail["latency"] > begin]
        chosen = after.iloc[spread(range(len(after)), _STEPS)]
        # A curve that ends before the edge is drawn as a line at the edge.
        first = 1.0 if before.empty or after.empty else before.iloc[-1]
        shares = [first, *(chosen["share"] if len(after) else [0.0])]
        places = [begin, *(chosen["latency"] if len(after) else [begin])]
        curves.append(
            pd.DataFrame(
                {
                    "latency": places,
                    "share": shares,
                    "series": tail["series"].iloc[0],
                    "panel": tail["panel"].iloc[0],
                }
            )
        )
    drawn = pd.concat(curves)
    return drawn.assign(share=drawn["share"].clip(lower=min(floor, _FLOOR)))


def _curves(drawn: pd.DataFrame, order: list[str], kind: str) -> dict[str, Any]:
    reach = [float(drawn["latency"].min()), float(drawn["latency"].max())]
    least = float(drawn["share"].min())
    time, whose = measured_time(kind)
    return {
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {
                "field": "latency",
                "type": "quantitative",
                "scale": {"type": "log", "nice": False, "domain": reach},
                "title": f"{time[:1].upper()}{time[1:]} (µs)",
                "axis": {"format": "~g", "values": log_ticks(*reach)},
            },
            "y": {
                "field": "share",
                "type": "quantitative",
                "scale": {"type": "log", "nice": False, "domain": [least, 1]},
                "title": f"Share of {whose} that took longer",
                "axis": {"format": "~g", "values": log_ticks(least, 1)},
            },
            "color": {"field": "series", "type": "nominal", "scale": {"domain": order},
                      "legend": {"symbolType": "stroke", "columns": 3} if len(order) > 1 else None},
            "tooltip": [
                {"field": "series", "type": "nominal", "title": "point"},
                {"field": "latency", "type": "quantitative", "title": "longer than (µs)",
                 "format": ",.4~g"},
                {"field": "share", "type": "quantitative", "title": "share", "format": ".3~g"},
            ],
        },
    }  # fmt: skip


def _quantile_rules() -> dict[str, Any]:
    marks = [{"share": 0.5, "name": "p50"}, {"share": 0.01, "name": "p99"},
             {"share": 0.001, "name": "p99.9"}]  # fmt: skip
    place = {"y": {"field": "share", "type": "quantitative"}}
    return {
        "data": {"values": marks},
        "layer": [
            {"mark": {"type": "rule", "stroke": "$muted", "strokeDash": [2, 4], "opacity": 0.7},
             "encoding": place},
            {"mark": {"type": "text", "align": "left", "baseline": "middle", "dx": 6,
                      "color": "$muted", "x": "width"},
             "encoding": {**place, "text": {"field": "name"}}},
        ],
    }  # fmt: skip
