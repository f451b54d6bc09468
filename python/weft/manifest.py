"""Which files of a results folder Weft wrote: each with its size and SHA-256 in `manifest.json`.

A file that is not listed, or no longer is what is listed, is somebody's own. A folder of several
experiments has a manifest of its own in each `runs/NAME`.
"""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MANIFEST = "manifest.json"
RUNS = "runs"

_PIECE = 1 << 20


class ManifestError(ValueError):
    """A manifest that cannot be read; the message says why, without the path."""


@dataclass(frozen=True)
class Entry:
    """A file as it was written."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Entry:
        """Read a file and describe it."""
        digest = hashlib.sha256()
        size = 0
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
        return cls(size, digest.hexdigest())

    def holds(self, path: Path) -> bool:
        """Whether a path is a plain file and still what was written."""
        try:
            found = path.lstat()
            return (
                stat.S_ISREG(found.st_mode) and found.st_size == self.size and self == self.of(path)
            )
        except OSError:
            return False


def level_of(name: str) -> str:
    """Return the folder whose manifest lists a file: "" or "runs/NAME"."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == RUNS and len(parts) > 2 else ""


def read(folder: Path) -> dict[str, Entry]:
    """Read the manifest of one folder, without those of `runs`; empty if there is none.

    Raises:
        ManifestError: there is one and it cannot be read.

    """
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return {
            str(name): Entry(int(entry["size"]), str(entry["sha256"]))
            for name, entry in found["files"].items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ManifestError(error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ManifestError("it is damaged") from error


def read_all(folder: Path) -> dict[str, Entry]:
    """Read the manifests of a folder and of its `runs`, by path below the folder."""
    found = read(folder)
    for run in sorted((folder / RUNS).glob(f"*/{MANIFEST}")):
        prefix = f"{RUNS}/{run.parent.name}"
        found.update({f"{prefix}/{name}": entry for name, entry in read(run.parent).items()})
    return found


def write_all(folder: Path, files: Mapping[str, Entry]) -> list[str]:
    """Write the manifest of each level below a folder, the outermost last; return their names."""
    levels: dict[str, dict[str, Any]] = {"": {}}
    for name, entry in sorted(files.items()):
        level = level_of(name)
        own = name.removeprefix(f"{level}/") if level else name
        levels.setdefault(level, {})[own] = {"size": entry.size, "sha256": entry.sha256}
    written = []
    for level, entries in sorted(levels.items(), reverse=True):
        place = folder / level / MANIFEST
        place.parent.mkdir(parents=True, exist_ok=True)
        # Half a manifest would pass for a whole one of fewer files.
        half = place.with_suffix(".half")
        half.write_text(json.dumps({"files": entries}, indent=1) + "\n", encoding="utf-8")
        half.replace(place)
        written.append(str(place.relative_to(folder).as_posix()))
    return written
