"""Reading a results folder of which a part is damaged: what is wrong, and all that is whole.

`result.json` says what the tables mean. Where it cannot be read, the tables are still there, with
units and meanings in their Parquet files, and so are the provenance record and the specification.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from weft import manifest
from weft.manifest import MANIFEST, RUNS, Entry, ManifestError
from weft.place import RESULT, FolderError, in_words
from weft.result import Column, Result
from weft.system import System

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd

PROVENANCE = "provenance.json"

# The type of each entry of `meta`, if it exists.
_META: dict[str, str] = {
    **dict.fromkeys(("title", "section", "note", "finding", "system", "system_title", "preset",
                     "spec_toml", "spec_hash", "version", "regime", "name", "document"), "a text"),
    **dict.fromkeys(("axes", "notes", "compared", "experiments"), "a list of texts"),
    **dict.fromkeys(("published", "figures"), "a list of objects"),
    **dict.fromkeys(("specs", "titles"), "an object of texts"),
    **dict.fromkeys(("seed", "seeds", "failed"), "a number"),
    "stopped": "true or false",
    "across": "an object",
    "precision": "an object",
}  # fmt: skip

_IS: dict[str, Callable[[Any], bool]] = {
    "a text": lambda value: isinstance(value, str),
    "a number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "true or false": lambda value: isinstance(value, bool),
    "an object": lambda value: isinstance(value, dict),
    "a list of texts": lambda value: _is_list(value, str),
    "a list of objects": lambda value: _is_list(value, dict),
    "an object of texts": lambda value: (
        isinstance(value, dict) and _is_list([*value.values()], str)
    ),
}

_COLUMN = ("table", "name", "unit", "description")


class Reading:
    """One results folder as far as it can be read; `problems` grows with what cannot.

    Args:
        root: the folder.
        only_whole: leave out each file that is not as Weft wrote it, even if it can be read.

    """

    def __init__(self, root: Path, *, only_whole: bool = False) -> None:
        self.root = root
        self.problems: list[str] = []
        self._only_whole = only_whole
        self._entries: dict[str, Entry] = {}
        try:
            self._entries = manifest.read(root)
        except ManifestError as error:
            self._miss(
                MANIFEST, f"cannot be read: {error}; changed files cannot be told from whole"
            )

    def result(self) -> Result:
        """Put together what can be read."""
        runs = {name: Reading(self.root / RUNS / name, only_whole=self._only_whole)
                for name in self._names(RUNS)}  # fmt: skip
        read = {name: run.result() for name, run in runs.items()}
        tables = {name: table for name in self.tables if (table := self.table(name)) is not None}
        result = Result(
            tables=tables,
            columns=tuple(self.columns),
            meta=self._meta(),
            system=self._system(),
            runs=read,
            variants=self._variants(),
        )
        problems = [*self.problems, *(text for run in runs.values() for text in run.problems)]
        result.problems = tuple(dict.fromkeys(problems))
        return result

    @cached_property
    def contents(self) -> dict[str, Any]:
        """The contents of `result.json`; empty if it cannot be read."""
        return self._json(RESULT)

    @cached_property
    def tables(self) -> list[str]:
        """The names of the tables that belong to these results, whole or not."""
        if found := self._names("tables"):
            return found
        files = [name.removeprefix("tables/").rpartition(".")[0] for name in self._entries
                 if name.startswith("tables/")]  # fmt: skip
        files += sorted(path.stem for path in (self.root / "tables").glob("*.parquet"))
        files += sorted(path.stem for path in (self.root / "tables").glob("*.csv"))
        return list(dict.fromkeys(files))

    @cached_property
    def columns(self) -> list[Column]:
        """Unit and meaning of each column, from `result.json` or else from the Parquet files."""
        found = self._entry("columns", "a list of objects", [])
        whole = [entry for entry in found if all(isinstance(entry.get(k), str) for k in _COLUMN)]
        if len(whole) < len(found):
            self._miss(RESULT, "has columns without table, name, unit or description")
        if whole:
            return [Column(*(entry[key] for key in _COLUMN)) for entry in whole]
        return [column for name in self.tables for column in self._columns_of_file(name)]

    def table(self, name: str) -> pd.DataFrame | None:
        """Read a table, from the other of its two files if one is damaged."""
        import pandas as pd  # noqa: PLC0415

        faults: list[tuple[str, str]] = []
        for ending, reader in (("parquet", pd.read_parquet), ("csv", _read_csv)):
            file = f"tables/{name}.{ending}"
            fault = self._changed(file) if self._only_whole or ending == "csv" else ""
            if not fault:
                try:
                    table: pd.DataFrame = reader(self.root / file)
                except FileNotFoundError:
                    fault = "is missing"
                except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                    fault = _damage(self.root / file, error)
                else:
                    if faults:
                        self._miss(faults[0][0], f"{faults[0][1]}; {name}.csv, which is whole, is "
                                   "read in its place")  # fmt: skip
                    elif changed := self._changed(file):
                        self._miss(file, f"{changed}; what it says now is read")
                    return table
            faults.append((file, fault))
        (first, why), (_, other) = faults
        self._miss(first, f"{why}, and {name}.csv {other}: the table `{name}` is lost")
        return None

    def _meta(self) -> dict[str, Any]:
        found = self._entry("meta", "an object", {})
        meta = {}
        for key, value in found.items():
            wanted = _META.get(key, "")
            if value is None or not wanted or _IS[wanted](value):
                meta[key] = value
            else:
                self._miss(RESULT, f"has `meta.{key}` = {_shown(value)}, where {wanted} belongs")
        record = self._json(PROVENANCE)
        if not meta:
            known = {key: value for key, value in record.items()
                     if _IS.get(_META.get(key, ""), lambda _: False)(value)}  # fmt: skip
            meta = {"name": self.root.resolve().name, **known, "spec_toml": self._text("spec.toml")}
        return meta

    def _system(self) -> System | str:
        found = self.contents.get("system")
        if isinstance(found, str):
            return found
        system = self._described(found, "system") if found is not None else None
        return system or f"its description in {self.root / RESULT} cannot be read"

    def _variants(self) -> dict[str, System]:
        found = self._entry("variants", "an object", {})
        described = {
            label: self._described(one, f"variants.{label}") for label, one in found.items()
        }
        return {label: system for label, system in described.items() if system is not None}

    def _described(self, found: Any, key: str) -> System | None:
        name = self.contents.get("meta")
        name = name.get("name") if isinstance(name, dict) else ""
        try:
            return System.from_json(str(name or ""), found)
        except (KeyError, TypeError, ValueError, AttributeError):
            self._miss(RESULT, f"has `{key}` = {_shown(found)}, which describes no system")
            return None

    def _names(self, key: str) -> list[str]:
        """Return the names under a key; those of folders that are there, if nothing says which."""
        found = self._entry(key, "a list of texts", [])
        names = [name for name in found if "/" not in name and name not in {"", ".", ".."}]
        if key == RUNS and key not in self.contents:
            return sorted(path.parent.name for path in (self.root / RUNS).glob("*/tables"))
        return names

    def _entry(self, key: str, wanted: str, default: Any) -> Any:
        if not self.contents:
            return default
        value = self.contents.get(key, default)
        if value is not None and _IS[wanted](value):
            return value
        if value is not None or key != "variants":
            self._miss(RESULT, f"has `{key}` = {_shown(value)}, where {wanted} belongs")
        return default

    def _json(self, name: str) -> dict[str, Any]:
        changed = self._changed(name)
        if changed and self._only_whole:
            self._miss(name, changed)
            return {}
        try:
            found = json.loads((self.root / name).read_text(encoding="utf-8"))
            if not isinstance(found, dict):
                raise TypeError
        except FileNotFoundError:
            self._miss(name, "is missing")
        except (OSError, ValueError, TypeError, RecursionError) as error:
            self._miss(name, _damage(self.root / name, error))
        else:
            if changed:
                self._miss(name, f"{changed}; what it says now is read")
            return found
        return {}

    def _text(self, name: str) -> str:
        try:
            return (self.root / name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""

    def _columns_of_file(self, table: str) -> list[Column]:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        try:
            schema = pq.read_schema(self.root / "tables" / f"{table}.parquet")
        except (OSError, pa.ArrowException):
            return []
        about = {field.name: field.metadata for field in schema if field.metadata}
        return [
            Column(table, name, *(told.get(key, b"").decode() for key in (b"unit", b"description")))
            for name, told in about.items()
        ]

    def _changed(self, name: str) -> str:
        """Say that a file is not what Weft wrote, if that is known."""
        entry, path = self._entries.get(name), self.root / name
        try:
            size = path.stat().st_size
        except OSError:
            # The reader of the file reports that.
            return ""
        if entry is None or entry.holds(path):
            return ""
        if size < entry.size:
            return f"has only {size} of the {entry.size} bytes that Weft wrote"
        return "was changed since Weft wrote it"

    def _miss(self, name: str, why: str) -> None:
        problem = f"{self.root / name} {why}"
        if problem not in self.problems:
            self.problems.append(problem)


def holds_results(root: Path) -> bool:
    """Whether there is any file from which results could be read."""
    return (root / RESULT).exists() or any((root / "tables").glob("*.*"))


def read(root: Path, *, only_whole: bool = False) -> Result:
    """Read what can be read of a folder.

    Raises:
        FolderError: nothing of it can be.

    """
    reading = Reading(root, only_whole=only_whole)
    result = reading.result()
    if not result.tables and not result.runs and not reading.contents:
        raise FolderError("; ".join(result.problems) + ": nothing of these results can be read")
    return result


def _read_csv(path: Path) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415

    # A table without columns is a file with an empty line.
    return pd.read_csv(path) if path.read_text(encoding="utf-8").strip() else pd.DataFrame()


def _damage(path: Path, error: Exception) -> str:
    """Say in a few words why a file cannot be read."""
    try:
        if path.is_file() and not path.stat().st_size:
            return "is empty"
    except OSError:
        pass
    if isinstance(error, OSError) and error.errno:
        return f"cannot be read: {in_words(error)}"
    if isinstance(error, json.JSONDecodeError):
        return f"is cut off or damaged at line {error.lineno}, column {error.colno}"
    if isinstance(error, UnicodeDecodeError):
        return f"is damaged: byte {error.start} is no text"
    return "is cut off or damaged"


def _is_list(value: Any, of: type) -> bool:
    return isinstance(value, list) and all(isinstance(one, of) for one in value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else f"{text[:37]}..."
