"""The counters of the preload library in running programs, each of which has a file for them."""

from __future__ import annotations

import math
import os
import re
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# The preload library's file.
LIBRARY = "libweft_live.so"

# The variables that name libraries, and how a path begins that leads above the root.
_NAMING = ("WEFT_LIVE_LIBRARY", "LD_PRELOAD")
_ABOVE_ROOT = re.compile(r"^/\$LIB(/\.\.)*")

# The layout that crates/live/src/report/stats.rs lays down at the beginning of its file.
_LAYOUT = 8
_COUNTS = (
    "candidates",
    "joined",
    "closed",
    "bytes_sent",
    "bytes_received",
    "messages_sent",
    "word_wakes",
    "doorbells",
    "sleeps",
    "broken",
    "looks",
    "questions",
    "asides",
    "turns",
)
_REASONS = {
    "elsewhere": "the other end is on another host, or the two addresses differ",
    "peer_plain": "the other end does not run under weft live",
    "other_user": "the other end is another user's, without a WEFT_LIVE_DIRECTORY of both",
    "no_segment": "no shared memory could be had",
    "limit": "more connections than WEFT_LIVE_LIMIT, or few descriptors left",
    "call": "a call that cannot be accelerated came before",
    "counters": "the kernel lacks the counters, or they did not agree",
    "epoll": "in an epoll instance that cannot be followed",
    "exec": "a descriptor is kept open over exec",
    "passed": "a descriptor is passed to another process",
    "stdio": "the C library's streams use the descriptor",
    "io_uring": "the process uses io_uring",
    "splice": "splice",
    "urgent": "urgent data",
    "option": "a socket option that only the kernel honours",
    "peer": "the other end went back to the kernel",
    "bare_calls": "the process makes system calls past the C library",
    "full": "the other end does not read, and the kernel holds more than a ring",
    "filter": "the process filters its system calls",
    "withdrawn": "the other end gave up before both had joined",
    "no_place": "the place where the two ends would meet is taken or forbidden",
    "unusable": "the other end handed over what is no segment of this version",
}

# The file of a process's figures, as `/proc` names it.
_FIGURES = "/memfd:weft-live ("

_FORMAT = struct.Struct(f"={1 + len(_COUNTS) + 2 * len(_REASONS)}Q")


class FiguresError(Exception):
    """Why a process cannot be looked at."""


@dataclass(frozen=True)
class Process:
    """The counters of the library in one process and those that it forked."""

    pid: int
    program: str
    counts: dict[str, int]
    fallen_through: dict[str, int]
    moved_back: dict[str, int]

    @property
    def accelerated(self) -> int:
        """Connections in shared memory now."""
        return self.counts["joined"] - self.counts["closed"]

    @property
    def interrupts(self) -> int:
        """Wake-ups that entered the kernel."""
        return self.counts["word_wakes"] + self.counts["doorbells"]

    @property
    def interrupts_saved(self) -> int:
        """Messages that woke no thread, since the receiver was awake."""
        return max(0, self.counts["messages_sent"] - self.interrupts)

    @property
    def kernel_entries(self) -> int:
        """Times that accelerated connections entered the kernel."""
        sleeping = self.interrupts + self.counts["sleeps"] + self.counts["looks"]
        return sleeping + self.polling_entries + self.counts["asides"] + self.counts["turns"]

    @property
    def polling_entries(self) -> int:
        """Those of them in which nobody slept, woke, or was looked at that is not accelerated."""
        return self.counts["questions"]


def processes() -> Iterator[Process]:
    """Yield the processes with the library that this user may look at."""
    seen = set()
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda it: int(it.name)):
        try:
            file = _figures(folder)
            if file is not None:
                inode = file.stat().st_ino
                if inode in seen:
                    continue
                seen.add(inode)
            process = _look(folder, file)
        except OSError:
            # It has ended, or belongs to another user.
            continue
        if process is not None:
            yield process


def process(pid: int) -> Process:
    """Return what the library has done in one process and those that it forked or was forked from.

    Raises:
        FiguresError: If there is no such process, it is another user's, or has no library.

    """
    folder = Path("/proc") / str(pid)
    try:
        found = _look(folder, _figures(folder))
    except PermissionError:
        raise FiguresError(f"process {pid} may not be looked at: is it another user's?") from None
    except OSError:
        raise FiguresError(f"there is no process {pid}") from None
    if found is None:
        raise FiguresError(
            f"process {pid} runs without the library, or with another version's: 'weft live -- "
            "PROGRAM' starts programs with it, and 'weft live status' shows all that have it"
        )
    return found


def _look(folder: Path, file: Path | None) -> Process | None:
    return _without_connections(folder) if file is None else _read(file, folder)


def _without_connections(folder: Path) -> Process | None:
    """Return a process with the library that has made no TCP socket yet: all its figures are zero.

    None without the library, or if the program has taken the number of the figures' descriptor.
    """
    if not has_library(folder) or _FIGURES in (folder / "maps").read_text(errors="replace"):
        return None
    none = dict.fromkeys(_REASONS, 0)
    name = (folder / "comm").read_text().strip()
    return Process(int(folder.name), name, dict.fromkeys(_COUNTS, 0), none, none)


def has_library(folder: Path) -> bool:
    """Say whether a process has the library, by its own name or as a copy that a variable names.

    Raises:
        OSError: If the process may not be looked at.

    """
    lines = (folder / "maps").read_text(errors="replace").splitlines()
    loaded = {line[line.index("/") :] for line in lines if "/" in line}
    if any(path.endswith(f"/{LIBRARY}") for path in loaded):
        return True
    return any(_is_copy(path) for path in _named(folder) & loaded)


def _named(folder: Path) -> set[str]:
    """Return the files that this process's variables, or that one's, name as libraries."""
    own = [os.environ.get(name, "") for name in _NAMING]
    words: list[bytes] = []
    with suppress(FileNotFoundError):
        words = (folder / "environ").read_bytes().split(b"\0")
    theirs = [
        os.fsdecode(value)
        for name, _, value in (word.partition(b"=") for word in words)
        if os.fsdecode(name) in _NAMING
    ]
    paths = [path for value in own + theirs for path in re.split("[: ]", value) if path]
    return {os.path.realpath(_ABOVE_ROOT.sub("", path)) for path in paths}


def _is_copy(path: str) -> bool:
    with suppress(OSError):
        return b"weft-live-segment" in Path(path).read_bytes()
    return False


def _figures(folder: Path) -> Path | None:
    for entry in (folder / "fd").iterdir():
        # A program may close others while it is looked at.
        with suppress(FileNotFoundError):
            if str(entry.readlink()).startswith(_FIGURES):
                return entry
    return None


def _read(file: Path, folder: Path) -> Process | None:
    with file.open("rb") as figures:
        words = figures.read(_FORMAT.size)
    # Another version's may be shorter.
    if len(words) < _FORMAT.size or _FORMAT.unpack(words)[0] != _LAYOUT:
        return None
    _, *values = _FORMAT.unpack(words)
    counts = dict(zip(_COUNTS, values, strict=False))
    reasons = values[len(_COUNTS) :]
    fallen = dict(zip(_REASONS, reasons, strict=False))
    moved = dict(zip(_REASONS, reasons[len(_REASONS) :], strict=True))
    return Process(int(folder.name), (folder / "comm").read_text().strip(), counts, fallen, moved)


def lines(process: Process) -> Iterator[tuple[str, str]]:
    """Yield what a person wants to know of a process, each line with its name."""
    counts = process.counts
    if not counts["candidates"]:
        yield "connections", "none yet"
        return
    ever = f"{counts['joined']:,} of {counts['candidates']:,} so far"
    yield "connections", f"{process.accelerated:,} accelerated now, {ever}"
    sent, received = (size(counts[name]) for name in ("bytes_sent", "bytes_received"))
    yield "bytes", f"{sent} sent, {received} received"
    woken = f"{process.interrupts:,} wake-ups sent, {process.interrupts_saved:,} avoided"
    yield "messages", f"{counts['messages_sent']:,} sent; {woken}; slept {counts['sleeps']:,} times"
    entered = f"{process.kernel_entries:,}"
    if counts["messages_sent"]:
        each = process.kernel_entries / counts["messages_sent"]
        entered += f", {each:,.0f} a message sent" if each >= 10 else f", {each:.2g} a message sent"
    yield "system calls", f"{entered}: {process.polling_entries:,} while polling,"
    yield "", f"{counts['asides']:,} to check other descriptors,"
    yield "", f"{counts['turns']:,} to yield the processor, the rest to sleep and to wake"
    for what, reasons in (("left", process.fallen_through), ("moved back", process.moved_back)):
        for reason, count in reasons.items():
            if count:
                yield what, f"{count:,} to the kernel: {_REASONS[reason]}"


def size(count: int) -> str:
    """Write a number of bytes with its unit, to three digits."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            value = count / scale
            return f"{value:.{max(0, 2 - int(math.log10(value)))}f} {unit}"
    return f"{count} B"
