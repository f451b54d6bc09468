"""The section of a page of several results: what each measured at the same place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from weft.comparison import RESULT
from weft.report.markup import Head, Section, section
from weft.standing import main_latency
from weft.words import column_head, number, short_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from weft.figure import Figure
    from weft.result import Result
    from weft.system import System

# The columns shown side by side, each with the column of its half width.
_SHOWN = {
    "accepted_load": "accepted_load_half_width",
    "{latency}_mean_us": "{latency}_half_width_us",
    "{latency}_p99_us": "",
    "settles_up_to_load": "settles_up_to_load_half_width",
    "saturated_from_load": "saturated_from_load_half_width",
    "verdict": "",
}


def compared_section(result: Result, place: Callable[[list[Figure]], Markup]) -> Section:
    """Show the curves of all results in the same pictures, then their numbers, row by row."""
    drawn = place(result.figures)
    return section("compared", "Side by side", "compared.html", figures=drawn, **_numbers(result))


def differing_section(result: Result) -> Section | None:
    """List every parameter that is not the same in all results."""
    names = list(result.meta["compared"])
    systems = {name: result.variants.get(f"{RESULT} {name}") for name in names}
    values = {name: _values(system) for name, system in systems.items()}
    keys = dict.fromkeys(key for of_one in values.values() for key in of_one)
    rows = [
        (key, [values[name].get(key, "–") for name in names])
        for key in keys
        if len({values[name].get(key) for name in names}) > 1
    ]
    if not rows:
        return None
    heads = ["Parameter", *names]
    return section("differing", "What is set otherwise", "differing.html", heads=heads, rows=rows)


def _values(system: System | None) -> dict[str, str]:
    if system is None:
        return {}
    return {one.key: one.text for one in system.parameters if not one.key.startswith("figure")}


def _numbers(result: Result) -> dict[str, Any]:
    """Return the heads, rows and numeric columns of the table; there may be no rows."""
    points = result.points
    latency = main_latency(points)
    named = {name.format(latency=latency): half for name, half in _SHOWN.items()}
    shown = {name: half.format(latency=latency) for name, half in named.items() if name in points}
    axes = [str(axis) for axis in result.meta["axes"] if axis in points and axis != RESULT]
    axes = [axis for axis in axes if points[axis].nunique() > 1]
    if "channel" in points and points["channel"].nunique() > 1:
        axes.append("channel")
    groups = list(points.groupby(axes, sort=False, dropna=False)) if axes else [((), points)]
    rows = []
    for at, group in groups if shown and not points.empty else ():
        # One row per result, not one column, so that any number of results fits on a page.
        place = [f"{value:g}" if isinstance(value, float) else str(value) for value in at]
        for one in result.meta["compared"]:
            own = group[group[RESULT] == one]
            cells = [_cell(own, name, half) for name, half in shown.items()]
            rows.append([*place, Markup("<b>{}</b>").format(one), *cells])
    short = short_keys(axes)
    heads = [Head("offered load" if axis.endswith(".load") else short[axis], axis) for axis in axes]
    numeric = [len(axes) + 1 + i for i, name in enumerate(shown) if name != "verdict"]
    titles = [*heads, "Result", *(column_head(name) for name in shown)]
    return {"heads": titles, "rows": rows, "numeric": numeric}


def _cell(rows: pd.DataFrame, name: str, half: str) -> str:
    if rows.empty:
        return "–"
    value = rows[name].iloc[0]
    if isinstance(value, str):
        return value
    width = rows[half].iloc[0] if half in rows else None
    spread = f"\u202f±\u202f{number(width, 2)}" if width else ""
    return number(value, 4) + ("" if spread.endswith("–") else spread)
