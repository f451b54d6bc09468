"""Pictures side by side, one for each value of a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.theme import HEIGHT, WIDTH

if TYPE_CHECKING:
    import pandas as pd


def arranged(layers: list[dict[str, Any]], drawn: pd.DataFrame) -> dict[str, Any]:
    """Return one picture, or one for each value of the column `panel`, side by side.

    They keep the order of the rows.
    """
    panels = list(dict.fromkeys(drawn["panel"]))
    if len(panels) < 2:
        return {"layer": layers, "width": WIDTH, "height": HEIGHT}
    return {
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": panels,
                  "header": {"labelFontSize": 13, "labelAnchor": "start"}},
        "columns": 2,
        "spec": {"layer": layers, "width": WIDTH // 2 - 20, "height": HEIGHT - 60},
    }  # fmt: skip
