"""Curves that lie on each other: drawn so that each can be seen."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MARK = 62
"""The area of the mark of a point, in square pixels."""

_NEAR = 0.012
"""The distance at which two curves look like one, as a share of the height of the axis."""

_DASHES = ([1, 0], [7, 5], [3, 5], [1, 4])


def overlaid(
    values: list[dict[str, Any]],
    series: str,
    panels: Sequence[str] = (),
    *,
    log: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make curves that lie on earlier ones dashed, and the marks beneath them larger.

    A dash lets what is under it show, and a larger mark shows round the one before it. Writes the
    fields `over` and `area` into `values`, whose `x` and `y` are the axes.

    Returns:
        What is added to the encoding of the lines, and of the marks; nothing where no curve lies on
        another one.

    """
    curves: dict[tuple[str, ...], dict[str, dict[Any, float]]] = {}
    for value in values:
        panel = tuple(str(value[name]) for name in panels)
        own = curves.setdefault(panel, {}).setdefault(str(value[series]), {})
        own[value["x"]] = math.log(value["y"]) if log else float(value["y"])
    reach = _reach(curve for panel in curves.values() for curve in panel.values())
    over = {panel: _levels(of_panel, _NEAR * reach) for panel, of_panel in curves.items()}
    deepest = max((level for levels in over.values() for level in levels.values()), default=0)
    if not deepest:
        return {}, {}
    for value in values:
        levels = over[tuple(str(value[name]) for name in panels)]
        value["over"] = levels[str(value[series])]
        value["area"] = MARK + 90 * (max(levels.values()) - value["over"])
    domain = list(range(deepest + 1))
    dashes = [_DASHES[min(level, len(_DASHES) - 1)] for level in domain]
    dash = {"field": "over", "type": "ordinal", "scale": {"domain": domain, "range": dashes},
            "legend": None}  # fmt: skip
    area = {"field": "area", "type": "quantitative", "scale": None, "legend": None}
    return {"strokeDash": dash}, {"size": area}


def _reach(curves: Iterable[Mapping[Any, float]]) -> float:
    heights = [height for curve in curves for height in curve.values()]
    return max(heights) - min(heights) if heights else 0.0


def _levels(curves: Mapping[str, Mapping[Any, float]], near: float) -> dict[str, int]:
    """Count for each curve the earlier ones beneath it."""
    levels: dict[str, int] = {}
    for name, curve in curves.items():
        beneath = [levels[other] for other in levels if _coincide(curves[other], curve, near)]
        levels[name] = max(beneath, default=-1) + 1
    return levels


def _coincide(one: Mapping[Any, float], other: Mapping[Any, float], near: float) -> bool:
    """Whether two neighbouring points of two curves coincide, or their only point does."""
    shared = [abs(one[x] - other[x]) <= near for x in one if x in other]
    if len(shared) < 2:
        return any(shared)
    return any(first and second for first, second in pairwise(shared))
