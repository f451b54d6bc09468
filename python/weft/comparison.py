"""Several results as one: one table of each kind, with a column `result`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.folder import FolderError, read
from weft.result import Result
from weft.system import System

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import pandas as pd

# The column that names the result that a row comes from.
RESULT = "result"


def side_by_side(folders: Sequence[str | os.PathLike[str]], *, only_whole: bool = False) -> Result:
    """Read several results folders and put them side by side.

    Args:
        folders: where they are.
        only_whole: leave out what is not as Weft wrote it.

    Raises:
        FolderError: a folder holds no results, or those of several experiments.

    """
    paths = [Path(folder) for folder in folders]
    results = [read(path, only_whole=only_whole) for path in paths]
    return compare(dict(zip(_labels(paths), results, strict=True)))


def compare(results: Mapping[str, Result]) -> Result:
    """Put results side by side under the names that they are given."""
    for label, result in results.items():
        if result.runs:
            inner = ", ".join(result.runs)
            raise FolderError(f"{label} holds several experiments; name one of runs/: {inner}")
    names = dict.fromkeys(name for result in results.values() for name in result.tables)
    tables = {name: _together(results, name) for name in names if name != "derived"}
    axes = dict.fromkeys(axis for one in results.values() for axis in one.meta.get("axes") or [])
    metas = [result.meta for result in results.values()]
    common = {key: value for key, value in metas[0].items()
              if all(meta.get(key) == value for meta in metas)}  # fmt: skip
    described = {(column.table, column.name): column for one in results.values()
                 for column in one.columns}  # fmt: skip
    meta: dict[str, Any] = {
        **{key: common[key] for key in ("version", "seed", "regime", "section") if key in common},
        "title": " and ".join(results) + ", side by side",
        "axes": [RESULT, *axes],
        "stopped": any(result.stopped for result in results.values()),
        "failed": sum(result.failed for result in results.values()),
        "figures": [_figure(entry) for entry in common.get("figures") or []],
        "published": common.get("published") or [],
        "compared": list(results),
        "specs": {label: str(result.meta.get("spec_toml") or "")
                  for label, result in results.items()},
    }  # fmt: skip
    systems = {
        label: one.system for label, one in results.items() if isinstance(one.system, System)
    }
    first = next(iter(results.values())).system
    return Result(
        tables=tables,
        columns=tuple(described.values()),
        meta=meta,
        system=first,
        variants={f"{RESULT} {label}": system for label, system in systems.items()},
        problems=tuple(problem for one in results.values() for problem in one.problems),
    )


def _figure(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Draw a curve for each result where the experiment drew one for each of its own variants."""
    return {**entry, "series": RESULT, "panels": entry.get("panels") or entry.get("series")}


def _labels(paths: Sequence[Path]) -> list[str]:
    """Name each folder by the shortest end of its path that no other has."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max(len(part) for part in parts) + 1):
        labels = ["/".join(part[-length:]) for part in parts]
        if len(set(labels)) == len(labels):
            return labels
    counted = Counter[str]()
    labels = []
    for path in paths:
        counted[path.name] += 1
        labels.append(f"{path.name} {counted[path.name]}")
    return labels


def _together(results: Mapping[str, Result], name: str) -> pd.DataFrame:
    """Put the rows of a table of all results below each other, points numbered through."""
    import pandas as pd  # noqa: PLC0415

    parts, before = [], 0.0
    for label, result in results.items():
        table = result.tables.get(name)
        points = len(result.points["point"].unique()) if "point" in result.points else 0
        if table is not None and len(table):
            part = table.copy()
            part.insert(0, RESULT, label)
            if "point" in part:
                part["point"] = part["point"] + before
            parts.append(part)
        before += max(points, float(result.points["point"].max()) + 1 if points else 0)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
