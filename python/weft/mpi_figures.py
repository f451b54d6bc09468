"""The counters of the provider in running programs, each of which has a file for them."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weft.live_figures import size

if TYPE_CHECKING:
    from collections.abc import Iterator

# The layout that crates/messages/src/figures.rs lays down at the beginning of its file.
_LAYOUT = 1
COUNTS = (
    "sent",
    "bytes_sent",
    "received",
    "bytes_received",
    "bytes_fetched",
    "unexpected",
    "full",
    "empty_polls",
    "sleeps",
    "wakes",
    "peers",
    "lost",
)
_FORMAT = struct.Struct(f"={1 + len(COUNTS)}Q")

# The file of an endpoint's figures, as `/proc` names it.
_FIGURES = "/memfd:weft-messages ("

# Variables in which launchers give a process its rank: Open MPI's, and those of others.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


@dataclass(frozen=True)
class Endpoint:
    """What a process has carried, over all its endpoints."""

    pid: int
    program: str
    rank: int | None
    counts: dict[str, int]


def endpoints(proc: Path = Path("/proc")) -> Iterator[Endpoint]:
    """Yield what the processes have carried that this user may look at, by rank."""
    found: list[Endpoint] = []
    for folder in proc.glob("[0-9]*"):
        # A process may end while it is looked at, or belong to somebody else.
        with suppress(OSError):
            found += _of(folder)
    yield from sorted(found, key=lambda it: (it.rank is None, it.rank or 0, it.pid))


def _of(folder: Path) -> Iterator[Endpoint]:
    total: dict[str, int] = {}
    for entry in (folder / "fd").iterdir():
        with suppress(FileNotFoundError):
            if not str(entry.readlink()).startswith(_FIGURES):
                continue
            with entry.open("rb") as file:
                counts = read(file.read(_FORMAT.size)) or {}
            for name, count in counts.items():
                total[name] = total.get(name, 0) + count
    if total:
        program = (folder / "comm").read_text().strip()
        yield Endpoint(int(folder.name), program, _rank(folder), total)


def read(words: bytes) -> dict[str, int] | None:
    """Return the counts in a file's beginning; nothing if another version wrote it."""
    if len(words) < _FORMAT.size:
        return None
    layout, *values = _FORMAT.unpack(words)
    return dict(zip(COUNTS, values, strict=True)) if layout == _LAYOUT else None


def _rank(folder: Path) -> int | None:
    variables = dict(
        line.split("=", 1)
        for line in (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        if "=" in line
    )
    said = (variables.get(name, "") for name in _RANKS)
    return next((int(rank) for rank in said if rank.isdecimal()), None)


def lines(found: list[Endpoint]) -> Iterator[str]:
    """Yield a table of endpoints, for people."""
    heads = ("rank", "pid", "program", "sent", "received", "once copied", "waits", "full", "lost")
    yield _row(heads)
    for it in found:
        counts = it.counts
        rank = "-" if it.rank is None else str(it.rank)
        moved = [
            f"{counts[number]:,} ({size(counts[bytes_])})"
            for number, bytes_ in (("sent", "bytes_sent"), ("received", "bytes_received"))
        ]
        once = size(counts["bytes_fetched"])
        waits = f"{counts['empty_polls']:,} polls, {counts['sleeps']:,} sleeps"
        last = (f"{counts['full']:,}", f"{counts['lost']:,}")
        yield _row((rank, str(it.pid), it.program[:15], *moved, once, waits, *last))


_WIDTHS = (4, 8, 15, 22, 22, 11, 32, 7, 4)


def _row(words: tuple[str, ...]) -> str:
    cells = (f"{word:>{width}}" for word, width in zip(words, _WIDTHS, strict=True))
    return "  ".join(cells)
