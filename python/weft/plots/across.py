"""Figures of several systems: a curve a system over what is swept, and where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.across.summary import Mean, values_of
from weft.across.workloads import parse
from weft.figure import Figure
from weft.plots.axes import log_ticks
from weft.plots.bars import TIME, divided
from weft.plots.overlay import MARK, overlaid
from weft.theme import HEIGHT, WIDTH
from weft.words import number

if TYPE_CHECKING:
    import pandas as pd

    from weft.across.workloads import Curve, Workload
    from weft.result import Result

RATES_SHOWN = {"published": "As published", "today": "Rates of today"}

# The stages that every channel has; what stands before them is the initiator's, behind them the
# target's.
_NETWORK = {
    "buffer_wait": "waiting",
    "slot_wait": "waiting",
    "retry": "waiting",
    "switch_wait": "waiting",
    "order_wait": "waiting",
    "transmission": "link",
    "wire": "link",
    "channel": "link",
    "switch": "switch",
}
_SENDER, _RECEIVER = "sending host and adapter", "receiving host and adapter"
GROUPS = (_SENDER, "waiting", "link", "switch", _RECEIVER)

_ROW = 34
_WORDS = {"along": {"program.ranks": "Hosts", "program.run.hot_spot.senders": "Senders"}}


def figures(result: Result) -> list[Figure]:
    """Draw one figure a quantity, all systems in each, and where the time of a ping-pong went."""
    workloads = workloads_of(result)
    drawn = [
        figure
        for workload in workloads
        for curve in workload.curves
        if (figure := _curves(result, workload, curve)) is not None
    ]
    return [*where_the_time_goes(result, workloads), *drawn]


def workloads_of(result: Result) -> list[Workload]:
    """Return what was run, read back from the file that the result keeps."""
    known = parse(str(result.meta["spec_toml"]), "spec.toml")
    names = result.meta["across"]["workloads"]
    return [workload for workload in known if workload.name in names]


def labels_of(result: Result) -> list[str]:
    """Return the systems in the order in which they were named."""
    return [str(system["label"]) for system in result.meta["across"]["systems"]]


def grouped(budget: pd.DataFrame) -> pd.DataFrame:
    """Add to the stages of a budget the part of the path to which they belong."""
    parts: list[str] = []
    for _, rows in budget.groupby(["system", "rates", "point", "channel"], sort=False):
        inside = [stage in _NETWORK for stage in rows["stage"]]
        first = inside.index(True) if any(inside) else len(inside)
        for place, stage in enumerate(rows["stage"]):
            ours = _SENDER if place < first else _RECEIVER
            ours = {"initiator_host": _SENDER, "target_host": _RECEIVER}.get(stage, ours)
            parts.append(_NETWORK.get(stage, ours))
    return budget.assign(part=parts)


def budget_of(result: Result, workload: Workload) -> pd.DataFrame:
    """Return the stages of the message whose time is divided, of all systems."""
    budget, points = result.budget, result.points
    if budget.empty or workload.along not in points:
        return budget.head(0)
    at = points[
        (points["workload"] == workload.name) & (points[workload.along] == workload.budget_at)
    ]
    return budget[budget["point"].isin(at["point"])]


def where_the_time_goes(result: Result, workloads: list[Workload]) -> list[Figure]:
    """Draw one bar per system at each of the rates, divided into the parts of the path."""
    drawn: list[Figure] = []
    for workload in workloads:
        if workload.budget_at is None:
            continue
        rows = budget_of(result, workload)
        for rates, own in rows.groupby("rates", sort=False):
            words = RATES_SHOWN.get(str(rates), str(rates))
            title = f"{workload.budget_at} one way, {words.lower()}"
            drawn.append(_bars(grouped(own), f"where-the-time-goes-{rates}", title))
    return drawn


def _bars(rows: pd.DataFrame, name: str, title: str) -> Figure:
    totals = rows.groupby("system", sort=False)["mean_us"].sum()
    bars = {str(system): f"{system} · {number(total)} µs" for system, total in totals.items()}
    values = [
        {"bar": bar, "part": part, "order": order, "mean_us": float(mean)}
        for system, bar in bars.items()
        for order, part in enumerate(GROUPS)
        if (mean := rows[(rows["system"] == system) & (rows["part"] == part)]["mean_us"].sum()) > 0
    ]
    parts = [part for part in GROUPS if any(value["part"] == part for value in values)]
    return Figure(
        name=name,
        title=title,
        caption="Mean time of a message from the call of one program to the other program, part by "
        "part in the order of the way. Every stage stands in the list below, and the table has the "
        "interval of the whole.",
        spec={
            "title": {"subtitle": "one way of a ping-pong"},
            "width": WIDTH - 160,
            **divided(
                values,
                bars=list(bars.values()),
                parts=("part", parts),
                along={**TIME, "title": "Time (µs)", "axis": {"format": "~f", "tickCount": 8}},
                named="system",
                columns=3,
                step=_ROW,
            ),
        },
    )


def _curves(result: Result, workload: Workload, curve: Curve) -> Figure | None:
    rates = [str(one) for one in result.meta["across"]["rates"]]
    values = [
        _mark(step, mean, system=system, rates=RATES_SHOWN.get(rate, rate))
        for rate in rates
        for system in labels_of(result)
        for step, mean in values_of(
            result.replications, (system, rate), workload, curve.measure
        ).items()
        if mean.value > 0 or not curve.log
    ]
    if not values:
        return None
    steps = [str(step) for step in workload.sweep[workload.along]
             if any(value["x"] == str(step) for value in values)]  # fmt: skip
    layers = _layers(values, steps, (workload, curve), labels_of(result))
    panels = list(dict.fromkeys(value["rates"] for value in values))
    arranged: dict[str, Any] = {"layer": layers, "width": WIDTH, "height": HEIGHT}
    if len(panels) > 1:
        arranged = {
            "facet": {"field": "rates", "type": "nominal", "title": None, "sort": panels,
                      "header": {"labelFontSize": 13, "labelAnchor": "start"}},
            "columns": 2,
            "spec": {"layer": layers, "width": WIDTH // 2, "height": HEIGHT - 60},
        }  # fmt: skip
    return Figure(
        name=curve.name,
        title=curve.title,
        caption=curve.caption,
        spec={
            "title": {"subtitle": _legend_of_marks(values)},
            "data": {"values": values},
            **arranged,
        },
    )


def _legend_of_marks(values: list[dict[str, Any]]) -> str:
    parts = []
    if any(value["half_width"] > 0 for value in values):
        parts.append("wide bars: 95 % interval of the mean, where seeds differ by more than a mark")
    if any(value.get("over") for value in values):
        parts.append("dashed: lies on another curve")
    return " · ".join(parts)


def _mark(step: object, mean: Mean, **who: str) -> dict[str, Any]:
    """Return the fields that the marks of one value read; without a spread the ends are its own."""
    half = mean.half_width if mean.half_width > 0 else 0.0
    # A logarithmic axis has no place for a bound at or below zero.
    lower = max(mean.value - half, mean.value / 10)
    ends = {"half_width": half, "lower": lower, "upper": mean.value + half}
    return {"x": str(step), "y": mean.value, **ends, **who}


def _layers(
    values: list[dict[str, Any]],
    steps: list[str],
    what: tuple[Workload, Curve],
    systems: list[str],
) -> list[dict[str, Any]]:
    workload, curve = what
    colour = {"field": "system", "type": "nominal", "scale": {"domain": systems},
              "legend": {"symbolOpacity": 1}}  # fmt: skip
    x = {
        "field": "x",
        "type": "ordinal",
        "sort": steps,
        "title": _WORDS["along"].get(workload.along, "Size of a message"),
        "scale": {"type": "point", "padding": 0.4},
        "axis": {"labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 5},
    }
    y = {"field": "y", "type": "quantitative", "title": curve.y, **_scale(values, log=curve.log)}
    tooltip = [
        {"field": "system", "type": "nominal"},
        {"field": "rates", "type": "nominal"},
        {"field": "x", "type": "nominal", "title": x["title"]},
        {"field": "y", "type": "quantitative", "title": curve.y, "format": ",.4~g"},
        {"field": "half_width", "type": "quantitative", "title": "± (95 %)", "format": ",.3~g"},
    ]
    base = {"x": x, "y": y, "color": colour}
    dash, size = overlaid(values, "system", ("rates",), log=curve.log)
    spread = {
        "transform": [{"filter": "datum.half_width > 0"}],
        "mark": {"type": "rule", "strokeWidth": 7, "opacity": 0.35, "clip": True},
        "encoding": {**base, "y": {**y, "field": "lower"}, "y2": {"field": "upper"}},
    }
    return [
        *[spread] * any(value["half_width"] > 0 for value in values),
        {"mark": {"type": "line", "opacity": 0.85}, "encoding": {**base, **dash}},
        {
            "mark": {"type": "point", "filled": True, "size": MARK, "opacity": 1},
            "encoding": {**base, **size, "shape": colour, "tooltip": tooltip},
        },
    ]


def _scale(values: list[dict[str, Any]], *, log: bool) -> dict[str, Any]:
    if not log:
        return {"scale": {"zero": True, "nice": True}, "axis": {"format": ",.6~g", "tickCount": 6}}
    low, high = (pick(value["y"] for value in values) for pick in (min, max))
    reach = [low / 1.6, high * 1.6]
    return {
        "scale": {"type": "log", "nice": False, "domain": reach},
        "axis": {"format": ",.6~g", "values": log_ticks(*reach)},
    }
