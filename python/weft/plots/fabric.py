"""A fabric over time: how busy every cable is, and how many cells wait for it, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from weft.figure import Figure
from weft.plots.request import Request, records, rows_of, spread, with_points
from weft.theme import HEIGHT, WIDTH

if TYPE_CHECKING:
    from weft.result import Result

# Steps of the slider; a hot spot has spread as far as it goes long before the last.
_STEPS = 14
# The load below which a cable is not drawn.
_IDLE = 0.02
# Ports whose queues are drawn as curves.
_PORTS = 8


def fabric(result: Result, request: Request) -> Figure | None:
    """Draw hosts and switches in columns, up on the left and down on the right, with a slider."""
    links, samples = _tables(result, request)
    if links.empty or samples.empty:
        return None
    times = spread(sorted(samples["time_us"].unique())[1:], _STEPS)
    shown = samples[samples["time_us"].isin(times)]
    # Nearly idle cables are not drawn, since the page contains each drawn row.
    shown = shown[(shown["link_load"] >= _IDLE) | (shown["waiting"] > 0)]
    drawn = shown.rename(columns={"link_load": "load"})
    drawn["step"] = drawn["time_us"].map({time: number for number, time in enumerate(times)})
    drawn = drawn[["step", "panel", "link", "load", "waiting"]].round(2)
    placed = _placed(links.drop_duplicates("link"))
    panels = list(dict.fromkeys(drawn["panel"]))
    load = {"field": "load", "type": "quantitative", "title": "busy",
            "scale": {"domain": [0, 1], "range": ["$line", "$outside"], "clamp": True}}  # fmt: skip
    lines = {
        "mark": {"type": "rule", "strokeCap": "round"},
        "encoding": {
            "x": _hidden("x"),
            "x2": {"field": "x2"},
            "y": _hidden("y"),
            "y2": {"field": "y2"},
            "color": load,
            "strokeWidth": {"field": "waiting", "type": "quantitative",
                            "title": "cells that wait", "legend": {"values": [0, 4, 16, 64]},
                            "scale": {"type": "sqrt", "domain": [0, 64], "range": [0.7, 12],
                                      "clamp": True}},
            "tooltip": [
                {"field": "name", "type": "nominal", "title": "cable"},
                {"field": "load", "type": "quantitative", "title": "busy", "format": ".0%"},
                {"field": "waiting", "type": "quantitative", "title": "cells that wait"},
            ],
        },
    }  # fmt: skip
    width, height = (WIDTH, HEIGHT) if len(panels) < 2 else (WIDTH // 2 - 20, HEIGHT - 60)
    ends = f"{times[0]:g} to {times[-1]:g} µs"
    slider = {"input": "range", "min": 0, "max": len(times) - 1, "step": 1, "name": "step "}
    spec: dict[str, Any] = {
        "title": {"subtitle": f"{ends} in {len(times)} steps · colour: busy · width: cells"},
        "params": [{"name": "step", "value": len(times) - 1, "bind": slider}],
        "data": {"values": records(drawn)},
        "transform": [
            {"filter": "datum.step === step"},
            {"lookup": "link",
             "from": {"data": {"values": records(placed)}, "key": "link",
                      "fields": ["name", "x", "y", "x2", "y2"]}},
        ],
    }  # fmt: skip
    if len(panels) < 2:
        spec.update({"layer": [lines], "width": width, "height": height})
    else:
        spec.update(
            {
                "facet": {"field": "panel", "type": "nominal", "title": None, "sort": panels,
                          "header": {"labelFontSize": 13, "labelAnchor": "start"}},
                "columns": 2,
                "spec": {"layer": [lines], "width": width, "height": height},
            }
        )  # fmt: skip
    return Figure(name=request.name, title=request.title, caption=request.caption, spec=spec)


def port_occupancy(result: Result, request: Request) -> Figure | None:
    """Draw the cells that wait at the ports with the longest queues, over time."""
    links, samples = _tables(result, request)
    if links.empty or samples.empty:
        return None
    keys = ["panel", "link"]
    most = samples.groupby(keys)["waiting"].max().sort_values(ascending=False, kind="stable")
    chosen = most.groupby("panel").head(_PORTS).reset_index()[keys]
    times = pd.DataFrame({"time_us": sorted(samples["time_us"].unique())})
    # Cables that are not in the table had no cells.
    grid = chosen.merge(times, how="cross")
    drawn = grid.merge(samples, on=[*keys, "time_us"], how="left").fillna({"waiting": 0})
    drawn = drawn.merge(links[[*keys, "name"]], on=keys)
    layer = {
        "mark": {"type": "line", "interpolate": "step-after", "opacity": 0.8},
        "encoding": {
            "x": {"field": "time_us", "type": "quantitative", "title": "Time (µs)"},
            "y": {"field": "waiting", "type": "quantitative", "title": "Cells that wait"},
            "detail": {"field": "name"},
            "tooltip": [
                {"field": "name", "type": "nominal", "title": "port"},
                {"field": "waiting", "type": "quantitative", "title": "cells"},
                {"field": "time_us", "type": "quantitative", "title": "at (µs)"},
            ],
        },
    }
    panels = list(dict.fromkeys(drawn["panel"]))
    values = records(drawn[["panel", "name", "time_us", "waiting"]])
    spec: dict[str, Any] = {
        "title": {"subtitle": f"the {_PORTS} ports with the longest queues"},
        "data": {"values": values},
    }
    if len(panels) < 2:
        spec.update({"layer": [layer], "width": WIDTH, "height": HEIGHT})
    else:
        spec.update(
            {
                "facet": {"field": "panel", "type": "nominal", "title": None, "sort": panels,
                          "header": {"labelFontSize": 13, "labelAnchor": "start"}},
                "columns": 2,
                "spec": {"layer": [layer], "width": WIDTH // 2 - 20, "height": HEIGHT - 160},
            }
        )  # fmt: skip
    return Figure(name=request.name, title=request.title, caption=request.caption, spec=spec)


def _tables(result: Result, request: Request) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return cables and samples of the last point of each panel."""
    tables = [rows_of(result.tables.get(name, pd.DataFrame()), request)
              for name in ("links", "samples")]  # fmt: skip
    if any(table.empty for table in tables):
        return pd.DataFrame(), pd.DataFrame()
    links, samples = (with_points(table, result) for table in tables)
    axis = request.series if request.series in links else None
    points = result.points.groupby(axis)["point"].max() if axis else [result.points["point"].max()]
    chosen = []
    for table in (links, samples):
        rows = table[table["point"].isin(list(points))].copy()
        rows["panel"] = rows[axis].astype(str) if axis else ""
        chosen.append(rows)
    return chosen[0], chosen[1]


def _placed(links: pd.DataFrame) -> pd.DataFrame:
    """Give both ends of each cable a place: the tier across, mirrored on the way down."""
    highest = int(links[["from_tier", "to_tier"]].max().max())
    order: dict[int, list[str]] = {}
    for tier, name in zip(links["from_tier"], links["from"], strict=True):
        names = order.setdefault(int(tier), [])
        if name not in names:
            names.append(name)
    height = {
        (tier, name): (place + 0.5) / len(names)
        for tier, names in order.items()
        for place, name in enumerate(names)
    }
    rows = []
    ends = links[["link", "name", "from", "to", "from_tier", "to_tier"]]
    for link, name, start, end, low, high in ends.itertuples(index=False):
        across = (low, high) if high > low else (2 * highest - low, 2 * highest - high)
        y, y2 = height[int(low), start], height[int(high), end]
        rows.append((link, name, across[0], round(y, 4), across[1], round(y2, 4)))
    return pd.DataFrame(rows, columns=["link", "name", "x", "y", "x2", "y2"])


def _hidden(name: str) -> dict[str, Any]:
    return {"field": name, "type": "quantitative", "axis": None, "scale": {"zero": False}}
