"""The request for a figure, and the rows from which it is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from weft.system import spell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.result import Result


@dataclass(frozen=True)
class Request:
    """One `[[figure]]` of an experiment's file; the kind's own defaults stand for what is empty."""

    name: str
    title: str
    kind: str
    caption: str = ""
    channel: str = ""
    x: str = ""
    y: str = ""
    series: str = ""
    panels: str = ""

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> Request:
        """Read one entry of the core's list."""
        known = cls.__dataclass_fields__
        return cls(**{key: value or "" for key, value in entry.items() if key in known})


def rows_of(table: pd.DataFrame, request: Request) -> pd.DataFrame:
    """Return the rows of the channel that is drawn."""
    if not request.channel or "channel" not in table:
        return table
    return table[table["channel"] == request.channel]


def with_points(table: pd.DataFrame, result: Result) -> pd.DataFrame:
    """Add what the sweep set at each row's point to a table that names only the point."""
    keys = [key for key in ("point", "channel") if key in table and key in result.points]
    missing = [name for name in result.points if name not in table]
    if not keys or not missing:
        return table
    points = result.points[keys + missing].drop_duplicates(keys)
    return table.merge(points, on=keys, how="left")


def load_column(rows: pd.DataFrame, request: Request) -> str:
    """Choose the horizontal axis: the load that was set, else the load that was measured."""
    if request.x:
        return request.x
    setting = f"workload.{request.channel}.load"
    return setting if setting in rows and rows[setting].nunique() > 1 else "offered_load"


def series_labels(
    rows: pd.DataFrame,
    x: str,
    request: Request,
    result: Result,
    apart: tuple[str, ...] = (),
) -> pd.Series[str]:
    """Name the curve that each row belongs to.

    The request's own column (or the core's `series` label) comes first; any other setting that was
    swept joins it where rows of different settings would otherwise share a curve. The caller tells
    columns in `apart` apart. Where the horizontal axis is something measured, the numbers that were
    swept run along the curves.
    """
    swept = [str(name) for name in rows if "." in str(name) or name == "preset"]
    for entry in result.meta.get("published") or []:
        swept += [name for name in entry.get("at") or {} if name not in swept]
    swept += [str(name) for name in result.meta.get("axes") or [] if name not in swept]
    taken = {x, request.panels, *apart}
    if request.series and x not in swept:
        taken |= {name for name in swept if name in rows and is_numeric_dtype(rows[name])}
    first = [request.series] if request.series else ["series"]
    chosen: list[str] = []
    for name in [*first, *swept]:
        if name in taken or name in chosen or name not in rows or rows[name].nunique() < 2:
            continue
        if name in first or len(rows.groupby([*chosen, name])) > len(
            rows.groupby(chosen) if chosen else rows[:1]
        ):
            chosen.append(name)
    if not chosen:
        label = request.channel or "measured"
        return pd.Series([label] * len(rows), index=rows.index, dtype="str")
    texts = [rows[name].map(lambda value, name=name: _value(name, value)) for name in chosen]
    joined = texts[0]
    for text in texts[1:]:
        joined = joined + " · " + text
    return joined


def _value(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{name.rsplit('.', 1)[-1]} {spell(float(value))}"


def point_labels(rows: pd.DataFrame, x: str, series: pd.Series[str]) -> pd.Series[str]:
    """Name each row by its curve and, where a curve has several points, its place on it."""
    if (
        series.nunique() > 1
        and "point" in rows
        and rows.groupby(series)["point"].nunique().max() < 2
    ):
        return series
    place = rows[x].map(_place)
    word = "load" if x.endswith("load") else x.rsplit(".", 1)[-1]
    return (series + f" · {word} " + place) if series.nunique() > 1 else (f"{word} " + place)


def _place(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.3g}" if pd.notna(value) else "–"


def chosen_points(labels: pd.Series[str], series: pd.Series[str], most: int) -> list[str]:
    """Choose about `most` points to draw, as many of each curve and evenly spread on it."""
    each = max(1, most // max(1, series.nunique()))
    chosen: list[str] = []
    for curve in dict.fromkeys(series):
        chosen += spread(list(dict.fromkeys(labels[series == curve])), each)
    return chosen


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """Return at most `most` items, evenly spread, first and last included (or the middle one)."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[len(items) // 2]]
    step = (len(items) - 1) / (most - 1)
    return [items[round(i * step)] for i in range(most)]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as plain JSON values; a missing number becomes null."""
    cleaned = frame.astype(object).where(frame.notna(), None)
    return [
        {str(key): value.item() if hasattr(value, "item") else value for key, value in row.items()}
        for row in cleaned.to_dict("records")
    ]
