"""Pauses between switches and hosts, drawn as a tree from where the congestion began."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pandas as pd

from weft.figure import Figure
from weft.plots.panels import arranged
from weft.plots.request import Request, records, rows_of, series_labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.result import Result

# Hosts that one switch pauses, beyond which they are drawn as one.
_HOSTS = 4
# Pixels around the nodes, in which half of a name finds room.
_MARGIN = {"x": 40, "y": 20}


def pauses(result: Result, request: Request) -> Figure | None:
    """Draw who paused whom, a column for each step away from where the congestion began.

    On the right stand the switches that nobody pauses; a line goes left to each switch and host
    that they paused, and so on. Where several cables join two of them, the line shows the cable
    that was paused for longest. Times and counts are means of the runs.
    """
    table = rows_of(result.tables.get("pauses", pd.DataFrame()), request)
    if table.empty:
        return None
    label = series_labels(table, "", request, result)
    drawn: list[dict[str, Any]] = []
    panels = list(dict.fromkeys(label))
    for panel in panels:
        runs = max(1, int(table.loc[label == panel, "seed"].nunique()))
        edges = _edges(table[label == panel], runs)
        drawn += [{"panel": panel, **row} for row in _placed(edges)]
    rows = pd.DataFrame(drawn)
    spec: dict[str, Any] = {
        "title": {"subtitle": "who pauses stands to the right of who stops · mean of the runs"},
        "data": {"values": records(rows)},
        **arranged([_lines(), _nodes(), _names(halo=True), _names()], rows),
    }
    return Figure(name=request.name, title=request.title, caption=request.caption, spec=spec)


def _edges(table: pd.DataFrame, runs: int) -> pd.DataFrame:
    """Return one row for each two nodes: pauses and the longest paused cable's time, a run."""
    cables = table.assign(
        source=table["by"].map(_node), target=table["paused"].map(_node)
    )  # fmt: skip
    each = (
        cables.groupby(["source", "target", "link"], sort=False)
        .agg(pauses=("pauses", "sum"), paused_us=("paused_us", "sum"))
        .reset_index()
    )
    each[["pauses", "paused_us"]] /= runs
    each["target"] = _together(each)
    edges = (
        each.groupby(["source", "target"], sort=False)
        .agg(cables=("link", "size"), pauses=("pauses", "sum"), paused_us=("paused_us", "max"))
        .reset_index()
    )
    return edges.sort_values("paused_us", ascending=False, kind="stable")


def _node(port: str) -> str:
    """Return whose port it is: "port 16 of switch 0.1" -> "switch 0.1"."""
    return port.rsplit(" of ", 1)[-1]


def _together(each: pd.DataFrame) -> pd.Series[str]:
    """Name the hosts of one switch by their number where there are too many to draw."""
    is_host = each["target"].str.startswith("host ")
    hosts = each[is_host].groupby("source")["target"].nunique()
    many = hosts[hosts > _HOSTS]
    return each["target"].where(
        ~(is_host & each["source"].isin(many.index)),
        each["source"].map(lambda source: f"{many.get(source, 0)} hosts of {source}"),
    )


def _depths(edges: pd.DataFrame) -> dict[str, int]:
    """Count for each node the steps to one that nobody pauses.

    If all that are left pause each other in a cycle, the one that pauses the others for longest
    counts as the beginning.
    """
    below: dict[str, list[str]] = {}
    for source, target in zip(edges["source"], edges["target"], strict=True):
        below.setdefault(source, []).append(target)
    held = edges.groupby("source")["paused_us"].sum().sort_values(ascending=False, kind="stable")
    paused = set(edges["target"])
    depths: dict[str, int] = {}
    _spread([source for source in held.index if source not in paused], below, depths)
    for source in held.index:
        if source not in depths:
            _spread([source], below, depths)
    return depths


def _spread(roots: Iterable[str], below: dict[str, list[str]], depths: dict[str, int]) -> None:
    """Give what can be reached from the roots its distance from them."""
    waiting = deque(roots)
    depths.update(dict.fromkeys(waiting, 0))
    while waiting:
        node = waiting.popleft()
        for target in below.get(node, []):
            if target not in depths:
                depths[target] = depths[node] + 1
                waiting.append(target)


def _placed(edges: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of one panel: lines, with both ends' places, and nodes."""
    depths = _depths(edges)
    columns: dict[int, list[str]] = {}
    for node in sorted(depths, key=_by_number):
        columns.setdefault(depths[node], []).append(node)
    place = {
        node: (-depth, round((row + 0.5) / len(nodes), 4))
        for depth, nodes in columns.items()
        for row, node in enumerate(nodes)
    }
    lines = [
        {
            "kind": "line",
            "name": f"{source} pauses {target}",
            "x": place[source][0], "y": place[source][1],
            "x2": place[target][0], "y2": place[target][1],
            "cables": cables, "pauses": round(count, 2), "paused_us": round(time, 3),
        }
        for source, target, cables, count, time in edges.itertuples(index=False)
    ]  # fmt: skip
    return lines + [
        {"kind": "node", "name": node, "label": _label(node), "x": x, "y": y}
        for node, (x, y) in place.items()
    ]


def _label(node: str) -> str:
    """Leave out whose hosts they are: the line says it."""
    return node.split(" of ", 1)[0]


def _by_number(name: str) -> tuple[str, list[float]]:
    words = name.split()
    numbers = [float(part) for word in words for part in word.split(".") if part.isdigit()]
    return ("host" if "host" in name else words[0], numbers)


def _hidden(field: str) -> dict[str, Any]:
    scale = {"zero": False, "padding": _MARGIN[field]}
    return {"field": field, "type": "quantitative", "axis": None, "scale": scale}


def _lines() -> dict[str, Any]:
    time = {"field": "paused_us", "type": "quantitative", "title": "paused (µs a run)",
            "scale": {"range": ["$line", "$outside"], "zero": True}}  # fmt: skip
    return {
        "transform": [{"filter": "datum.kind === 'line'"}],
        "mark": {"type": "rule", "strokeWidth": 2, "strokeCap": "round"},
        "encoding": {
            "x": _hidden("x"), "x2": {"field": "x2"},
            "y": _hidden("y"), "y2": {"field": "y2"},
            "color": time,
            "tooltip": [
                {"field": "name", "type": "nominal", "title": "who"},
                {"field": "pauses", "type": "quantitative", "title": "pauses a run"},
                {"field": "paused_us", "type": "quantitative",
                 "title": "longest paused cable (µs a run)"},
                {"field": "cables", "type": "quantitative", "title": "cables"},
            ],
        },
    }  # fmt: skip


def _nodes() -> dict[str, Any]:
    return {
        "transform": [{"filter": "datum.kind === 'node'"}],
        "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1, "color": "$ink"},
        "encoding": {"x": _hidden("x"), "y": _hidden("y"),
                     "tooltip": {"field": "name", "type": "nominal", "title": "node"}},
    }  # fmt: skip


def _names(*, halo: bool = False) -> dict[str, Any]:
    """Write the names; or what keeps lines away from the letters, which is drawn below them."""
    ground = {"stroke": "$ground", "strokeWidth": 4} if halo else {}
    return {
        "transform": [{"filter": "datum.kind === 'node'"}],
        "mark": {"type": "text", "align": "center", "baseline": "bottom", "dy": -6, **ground},
        "encoding": {"x": _hidden("x"), "y": _hidden("y"),
                     "text": {"field": "label", "type": "nominal"}},
    }  # fmt: skip
