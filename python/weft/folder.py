"""The results folder: ordinary files, written whole or not at all, enough to run it again.

spec.toml          the resolved experiment; `weft run spec.toml` runs it again
provenance.json    version, seed, spec hash, command
result.json        what the tables mean, and the system with the origin of its parameters
tables/NAME.csv    and NAME.parquet
figures/NAME.svg   and NAME.png, and composition.svg
report.html        everything on one page
runs/NAME/...      the same again, for each experiment of a reproduction
specs/NAME.toml    each run of a comparison of systems, resolved; `weft run` takes it
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.progress import Count
from weft.system import System

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from weft import _seam
    from weft.result import Column, Result

RESULT = "result.json"
PROVENANCE = "provenance.json"

# A draft as old as this is nobody's any more.
_ABANDONED_S = 24 * 3600


class FolderError(ValueError):
    """A folder that cannot be written to, or that holds no results."""


def write(
    result: Result, folder: Path, *, command: str, progress: _seam.Progress | None = None
) -> Path:
    """Write the whole folder beside its place, then move it there."""
    from weft.report import page  # noqa: PLC0415 (it imports all that draws)

    check_place(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is a rename within one file system.
    _forget_drafts(folder)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.draft.", dir=folder.parent))
    try:
        # Each is drawn twice into files and once more on the page.
        count = Count(3 * result.pictures, "pictures drawn", progress)
        _fill(result, draft, command, count)
        (draft / "report.html").write_text(page(result, count), encoding="utf-8")
        _make_readable(draft)
        _put_in_place(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def read(folder: str | os.PathLike[str]) -> Result:
    """Read a results folder back."""
    from weft.result import Column, Result  # noqa: PLC0415 (it imports this module's writer)

    root = Path(folder)
    data = _contents_of(root)
    system = data["system"]
    system_name = str(data["meta"].get("name") or "")
    return Result(
        tables={name: _read_table(root / "tables", name) for name in data["tables"]},
        columns=tuple(Column(**entry) for entry in data["columns"]),
        meta=data["meta"],
        system=system if isinstance(system, str) else System.from_json(system_name, system),
        runs={name: read(root / "runs" / name) for name in data["runs"]},
        variants={
            label: System.from_json(system_name, found)
            for label, found in (data.get("variants") or {}).items()
        },
    )


def read_table(folder: str | os.PathLike[str], name: str) -> pd.DataFrame:
    """Read one table of a results folder, with units and meanings of its columns in `attrs`."""
    root = Path(folder)
    data = _contents_of(root)
    if name not in data["tables"]:
        there = ", ".join(data["tables"])
        raise FolderError(f"{root} has no table `{name}`; it has: {there}")
    table = _read_table(root / "tables", name)
    own = [entry for entry in data["columns"] if entry["table"] == name]
    table.attrs["units"] = {entry["name"]: entry["unit"] for entry in own}
    table.attrs["meanings"] = {entry["name"]: entry["description"] for entry in own}
    return table


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
    }


def check_place(folder: Path) -> None:
    """Refuse a place that results must not overwrite."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FolderError(f"{folder} is a file; give a folder to write the results to")
    if any(folder.iterdir()) and not (folder / RESULT).exists():
        raise FolderError(
            f"{folder} is not empty and holds no earlier results; give another folder with --out"
        )


def _fill(result: Result, root: Path, command: str, count: Count) -> None:
    """Write everything but the page."""
    (root / "tables").mkdir(parents=True)
    for name, table in result.tables.items():
        table.to_csv(root / "tables" / f"{name}.csv", index=False, lineterminator="\n")
        own = {column.name: column for column in result.columns if column.table == name}
        _write_parquet(table, own, root / "tables" / f"{name}.parquet")
    (root / "figures").mkdir()
    for figure in result.figures:
        for ending in ("svg", "png"):
            figure.save(root / "figures" / f"{figure.name}.{ending}")
            count.one()
    if isinstance(result.system, System) and result.system.composition:
        picture = root / "figures" / "composition.svg"
        picture.write_text(result.system.picture(), encoding="utf-8")
    if spec := result.meta.get("spec_toml"):
        (root / "spec.toml").write_text(spec, encoding="utf-8")
    for name, text in (result.meta.get("specs") or {}).items() if "across" in result.meta else ():
        (root / "specs").mkdir(exist_ok=True)
        (root / "specs" / f"{name}.toml").write_text(text, encoding="utf-8")
    _write_json(root / PROVENANCE, provenance(result, command))
    _write_json(root / RESULT, _contents(result))
    for name, run in result.runs.items():
        inner = root / "runs" / name
        inner.mkdir(parents=True)
        _fill(run, inner, command, count)


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


def _contents_of(root: Path) -> dict[str, Any]:
    try:
        text = (root / RESULT).read_text(encoding="utf-8")
    except OSError as error:
        raise FolderError(f"{root} holds no results: {_what_to_give(root)}") from error
    contents: dict[str, Any] = json.loads(text)
    return contents


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


def _write_parquet(table: pd.DataFrame, columns: Mapping[str, Column], path: Path) -> None:
    """Write a table whose columns carry unit and meaning in the file itself."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    plain = pa.Table.from_pandas(table, preserve_index=False)
    fields = [
        field.with_metadata(
            {"unit": columns[field.name].unit, "description": columns[field.name].description}
        )
        if field.name in columns
        else field
        for field in plain.schema
    ]
    pq.write_table(plain.cast(pa.schema(fields, metadata=plain.schema.metadata)), path)


def _read_table(folder: Path, name: str) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415

    parquet = folder / f"{name}.parquet"
    return pd.read_parquet(parquet) if parquet.exists() else pd.read_csv(folder / f"{name}.csv")


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _make_readable(folder: Path) -> None:
    """Give the folder the permissions of any new one: `mkdtemp` shuts everybody else out."""
    mask = os.umask(0)
    os.umask(mask)
    folder.chmod(0o777 & ~mask)


def _forget_drafts(folder: Path) -> None:
    """Remove what processes that were killed a day ago or longer were writing."""
    for draft in folder.parent.glob(f".{folder.name}.draft.*"):
        if time.time() - draft.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(draft, ignore_errors=True)


def _put_in_place(draft: Path, folder: Path) -> None:
    if not folder.exists():
        draft.rename(folder)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    folder.rename(aside / "old")
    try:
        draft.rename(folder)
    except OSError:
        (aside / "old").rename(folder)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
