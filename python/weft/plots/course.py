"""The accepted throughput of a run over its time, interval by interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from weft.figure import Figure
from weft.plots.request import Request, records, rows_of, with_points
from weft.theme import HEIGHT, WIDTH

if TYPE_CHECKING:
    from weft.result import Result

_PANEL = 130


def throughput_along_time(result: Result, request: Request) -> Figure | None:
    """Draw a line for each point, or one picture each below the other with `panels`."""
    samples = rows_of(result.tables.get("samples", pd.DataFrame()), request)
    if samples.empty or "accepted_mb_per_s" not in samples:
        return None
    rows = with_points(samples, result)
    axis = next((name for name in (request.panels, request.series) if name in rows), None)
    drawn = rows.assign(panel=rows[axis].astype(str) if axis else "")
    panels = list(dict.fromkeys(drawn["panel"]))
    line: dict[str, Any] = {
        "mark": {"type": "line", "interpolate": "step-before"},
        "encoding": {
            "x": {"field": "time_us", "type": "quantitative", "title": "Time (µs)",
                  "axis": {"format": "~s", "tickCount": 8}, "scale": {"nice": False}},
            "y": {"field": "accepted_mb_per_s", "type": "quantitative",
                  "title": "Accepted (MB/s)" if len(panels) < 2 else "MB/s",
                  "scale": {"zero": True}},
            "tooltip": [
                {"field": "time_us", "type": "quantitative", "title": "until (µs)"},
                {"field": "accepted_mb_per_s", "type": "quantitative", "title": "MB/s",
                 "format": ".4~r"},
                {"field": "nodes_on_line", "type": "quantitative", "title": "nodes on line"},
            ],
        },
    }  # fmt: skip
    spec: dict[str, Any] = {
        "title": {"subtitle": "accepted throughput, interval by interval"},
        "data": {
            "values": records(drawn[["panel", "time_us", "accepted_mb_per_s", "nodes_on_line"]])
        },
    }
    if len(panels) < 2:
        spec.update({**line, "width": WIDTH, "height": HEIGHT})
    else:
        header = {"labelFontSize": 13, "labelAnchor": "start"}
        facet = {"field": "panel", "type": "nominal", "title": None, "sort": panels,
                 "header": header}  # fmt: skip
        inner = {**line, "width": WIDTH, "height": _PANEL}
        spec.update({"facet": facet, "columns": 1, "spec": inner})
    return Figure(name=request.name, title=request.title, caption=request.caption, spec=spec)
