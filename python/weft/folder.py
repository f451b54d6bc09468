"""The results folder: ordinary files, written whole or not at all, enough to run it again.

spec.toml          the resolved experiment; `weft run spec.toml` runs it again
provenance.json    version, seed, spec hash, command
result.json        what the tables mean, and the system with the origin of its parameters
tables/NAME.csv    and NAME.parquet
figures/NAME.svg   and NAME.png, and composition.svg
report.html        everything on one page
manifest.json      which of the files Weft wrote, so that it replaces no other
runs/NAME/...      the same again, for each experiment of a reproduction
specs/NAME.toml    each run of a comparison of systems, resolved; `weft run` takes it
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import tables
from weft.place import RESULT, FolderError, claim, finish, uninterrupted
from weft.progress import Count
from weft.system import System

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from weft import _seam
    from weft.place import Place
    from weft.result import Result

PROVENANCE = "provenance.json"

__all__ = ["FolderError", "FolderWarning", "draw", "of_what_is_whole", "provenance", "read",
           "read_table", "redraw", "save", "write"]  # fmt: skip


class FolderWarning(UserWarning):
    """A results folder of which a part is damaged or missing; the rest was read."""


def save(
    result: Result,
    folder: Path,
    *,
    command: str,
    pictures: bool = True,
    progress: _seam.Progress | None = None,
) -> list[str]:
    """Write a whole results folder; return remarks about files that were in the way."""
    with claim(folder) as place:
        write(result, place, command)
        if pictures:
            draw(result, place, progress)
    return place.remarks


def write(result: Result, place: Place, command: str) -> None:
    """Write everything that needs no picture, in the place of the results that were there."""
    # An impatient Ctrl-C must not lose results that took long to compute.
    with uninterrupted():
        place.put(lambda draft: _fill(result, draft, command))


def draw(
    result: Result, place: Place, progress: _seam.Progress | None = None, *, png: bool = True
) -> None:
    """Add the figures, as SVG and unless told otherwise as PNG, and the page that shows them."""
    from weft.report import page  # noqa: PLC0415 (it imports all that draws)

    count = Count(result.pictures, "figures drawn", progress)

    def fill(draft: Path) -> None:
        _draw(result, draft, count, ("svg", "png") if png else ("svg",))
        (draft / "report.html").write_text(page(result), encoding="utf-8")

    place.put(fill, adding=True)


def redraw(
    folder: Path, progress: _seam.Progress | None = None, *, png: bool = True
) -> tuple[Result, list[str]]:
    """Draw figures and page of a results folder anew; return what was drawn, and remarks."""
    root = _results_at(folder)
    with claim(root, of_results=True) as place:
        drawn = of_what_is_whole(
            _reader(root), lambda result: draw(result, place, progress, png=png)
        )
    return drawn, place.remarks


def of_what_is_whole(reading: Callable[[bool], Result], work: Callable[[Result], object]) -> Result:
    """Do something with results that are read, without what was changed if that is in the way.

    Args:
        reading: reads them, or if it is given True only what is as Weft wrote it.
        work: what is done.

    Raises:
        FolderError: it cannot be done with what is left either.

    """
    result = reading(False)
    try:
        work(result)
    except FolderError:
        raise
    except Exception:
        if not result.problems:
            raise
    else:
        return result
    left = reading(True)
    try:
        work(left)
    except FolderError:
        raise
    except Exception as error:
        raise FolderError(
            "no page can be made of what is left: " + "; ".join(left.problems)
        ) from error
    return left


def read(folder: str | os.PathLike[str], *, only_whole: bool = False) -> Result:
    """Read a results folder back, or what can be read of it: `problems` says what cannot.

    Args:
        folder: where they are.
        only_whole: leave out what is not as Weft wrote it.

    Raises:
        FolderError: there are no results, or nothing of them can be read.

    """
    from weft import reading  # noqa: PLC0415 (it imports this module's writer)

    return reading.read(_results_at(folder), only_whole=only_whole)


def read_table(folder: str | os.PathLike[str], name: str) -> tuple[pd.DataFrame, list[str]]:
    """Read one table of a results folder, with units and meanings of its columns in `attrs`.

    Returns:
        The table, and what of the folder could not be read on the way.

    Raises:
        FolderError: there is no such table, or it cannot be read.

    """
    from weft.reading import Reading  # noqa: PLC0415

    root = _results_at(folder)
    found = Reading(root)
    if name not in found.tables:
        there = ", ".join(found.tables)
        why = "; ".join(["", *found.problems])
        raise FolderError(f"{root} has no table `{name}`; it has: {there or 'none'}{why}")
    table = found.table(name)
    if table is None:
        others = [other for other in found.tables if other != name]
        left = f"; its other tables: {', '.join(others)}" if others else ""
        raise FolderError("; ".join(found.problems) + left)
    own = [column for column in found.columns if column.table == name]
    table.attrs["units"] = {column.name: column.unit for column in own}
    table.attrs["meanings"] = {column.name: column.description for column in own}
    return table, found.problems


def provenance(result: Result, command: str) -> dict[str, Any]:
    """Return what is needed to get the same bytes again."""
    meta = result.meta
    return {
        "title": result.title,
        "system": meta.get("system"),
        "preset": meta.get("preset"),
        "version": meta.get("version"),
        "seed": meta.get("seed"),
        "spec_hash": meta.get("spec_hash"),
        "stopped": result.stopped,
        "command": command,
        **({"ranks": meta["ranks"]} if meta.get("ranks") else {}),
    }


def _reader(folder: Path) -> Callable[[bool], Result]:
    return lambda only_whole: read(folder, only_whole=only_whole)


def _fill(result: Result, root: Path, command: str) -> None:
    """Write everything but what is drawn."""
    (root / "tables").mkdir(parents=True)
    tables.write(result.tables, result.columns, root / "tables")
    if spec := result.meta.get("spec_toml"):
        (root / "spec.toml").write_text(spec, encoding="utf-8")
    for name, text in (result.meta.get("specs") or {}).items() if "across" in result.meta else ():
        (root / "specs").mkdir(exist_ok=True)
        (root / "specs" / f"{name}.toml").write_text(text, encoding="utf-8")
    _write_json(root / PROVENANCE, provenance(result, command))
    _write_json(root / RESULT, _contents(result))
    for name, run in result.runs.items():
        _fill(run, root / "runs" / name, command)


def _draw(result: Result, root: Path, count: Count, endings: tuple[str, ...]) -> None:
    (root / "figures").mkdir(parents=True)
    for figure in result.figures:
        for ending in endings:
            figure.save(root / "figures" / f"{figure.name}.{ending}")
        count.one()
    if isinstance(result.system, System) and result.system.composition:
        picture = root / "figures" / "composition.svg"
        picture.write_text(result.system.picture(), encoding="utf-8")
    for name, run in result.runs.items():
        _draw(run, root / "runs" / name, count, endings)


def _contents(result: Result) -> dict[str, Any]:
    described = result.system
    return {
        "meta": result.meta,
        "columns": [vars(column) for column in result.columns],
        "tables": list(result.tables),
        "runs": list(result.runs),
        "system": described if isinstance(described, str) else described.to_json(),
        "variants": {label: system.to_json() for label, system in result.variants.items()},
    }


def _results_at(folder: str | os.PathLike[str]) -> Path:
    from weft.reading import holds_results  # noqa: PLC0415

    root = Path(folder)
    try:
        finish(root)
        if holds_results(root):
            return root
    except OSError as error:
        raise FolderError(f"{root} cannot be read: {os.strerror(error.errno or 0)}") from error
    raise FolderError(f"{root} holds no results: {_what_to_give(root)}")


def _what_to_give(root: Path) -> str:
    """Say what would be accepted in the place of a folder without results."""
    most = 3
    wanted = "give a folder that weft run, sweep, saturation, reproduce or compare has written"
    if root.is_file() and (root.parent / RESULT).is_file():
        return f"{wanted}, as {root.parent}"
    inside = sorted(str(found.parent) for found in root.glob(f"*/{RESULT}"))
    if not inside:
        return f"{wanted}, which has a {RESULT}"
    more = f" and {len(inside) - most} more" if len(inside) > most else ""
    return f"{wanted}, as {', '.join(inside[:most])}{more}"


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
