"""Timelines for Perfetto and chrome://tracing: who did what when, and which message went where.

The file is in Chrome's Trace Event Format (JSON). Each rank is a process with a track of what it
does, tracks of the messages that it sends, as many as are on their way at once, and a track of
those that arrive, with an arrow from each message to its arrival. A channel whose transmissions
were noted (`run.trace`) is a process with tracks for each host, and what was sampled
(`run.sample`) a counter for each link. Times are those of the tables, in microseconds.
"""

from __future__ import annotations

import heapq
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.place import whole

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pandas as pd

    Event = dict[str, Any]
    Row = dict[Any, Any]

# Ranks have the processes from 1 on; there are at most 65,536.
_FIRST_CHANNEL = 1 << 17

_ACTIVITY, _ARRIVALS, _FIRST_MESSAGES = 1, 2, 3


def check_timeline(path: str | os.PathLike[str]) -> Path:
    """Refuse a file that the viewers do not take for a timeline."""
    target = Path(path)
    if target.suffix != ".json":
        raise ValueError(f"a timeline is saved as .json, not {target.suffix!r}")
    return target


def save_timeline(
    tables: Mapping[str, pd.DataFrame], path: str | os.PathLike[str], title: str
) -> Path:
    """Write the timeline of one run; of a study that of its first point and first seed.

    Args:
        tables: those of a run; `intervals`, `messages` and `ranks`, `trace` and `samples` are read.
        path: the file, which ends with .json.
        title: what was run, which the viewer shows among what it knows of the file.

    Raises:
        ValueError: the tables have nothing that lies along time, or the file has another ending.
        FolderError: the file cannot be written.

    """
    target = check_timeline(path)
    first = {name: _first_run(table) for name, table in tables.items()}
    events = [*_ranks(first), *_transmissions(first), *_samples(first)]
    if not events:
        raise ValueError(
            "nothing of this run lies along time: programs and channels note it with "
            "`run.trace = true`, throughput and queues with `run.sample`"
        )
    lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in events)
    named = json.dumps({"title": title, "tables": "times in microseconds of simulated time"})
    text = f'{{"displayTimeUnit": "ns", "otherData": {named}, "traceEvents": [\n{lines}\n]}}\n'
    whole(target, text)
    return target


def _first_run(table: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of the first point and seed; programs that run alone have neither."""
    for key in ("point", "seed"):
        if key in table and len(table):
            table = table.loc[table[key] == table[key].iloc[0]]
    return table


def _rows(tables: Mapping[str, pd.DataFrame], name: str) -> list[Row]:
    table = tables.get(name)
    return [] if table is None else [dict(row) for row in table.to_dict("records")]


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _ranks(tables: Mapping[str, pd.DataFrame]) -> Iterator[Event]:
    """Yield what ranks did and the messages between them."""
    intervals, messages = _rows(tables, "intervals"), _rows(tables, "messages")
    if not intervals and not messages:
        return
    for row in _rows(tables, "ranks"):
        rank = int(row["rank"])
        yield from _named(rank + 1, f"rank {rank} on host {int(row['host'])}", rank)
        yield from _track(rank + 1, _ACTIVITY, "activity")
        yield from _track(rank + 1, _ARRIVALS, "arrivals")
    for row in intervals:
        other = row["other"]
        what = {} if _is_missing(other) else {"other rank": int(other)}
        process = int(row["rank"]) + 1
        times = (row["from_us"], row["until_us"])
        yield _slice((process, _ACTIVITY), row["activity"], times, what)
    numbered = list(enumerate(messages, 1))
    lanes = _lanes(numbered, lambda one: (one[1]["initiator"], *_way(one[1])))
    seen: set[tuple[int, int]] = set()
    for (number, row), lane in lanes:
        process, track = int(row["initiator"]) + 1, _FIRST_MESSAGES + lane
        if (process, track) not in seen:
            seen.add((process, track))
            yield from _track(process, track, "messages" if lane == 0 else f"messages ({lane + 1})")
        yield from _message(number, row, (process, track))


def _way(row: Row) -> tuple[float, float]:
    return row["offered_us"], row["delivered_us"]


def _message(number: int, row: Row, track: tuple[int, int]) -> Iterator[Event]:
    """Yield a message in flight and its arrival, which the viewer joins by an arrow."""
    initiator, target = int(row["initiator"]), int(row["target"])
    size = {"size (bytes)": int(row["size_bytes"])}
    joined = {"bind_id": hex(number)}
    yield {
        **_slice(track, f"to rank {target}", _way(row), size),
        **joined, "flow_out": True,
    }  # fmt: skip
    at = (row["delivered_us"], row["delivered_us"])
    yield {
        **_slice((target + 1, _ARRIVALS), f"from rank {initiator}", at, size),
        **joined, "flow_in": True,
    }  # fmt: skip


def _transmissions(tables: Mapping[str, pd.DataFrame]) -> Iterator[Event]:
    """Yield what each host of a channel transmitted, and what was transmitted to it."""
    rows = _rows(tables, "trace")
    for number, channel in enumerate(dict.fromkeys(row["channel"] for row in rows)):
        process = _FIRST_CHANNEL + number
        yield from _named(process, f"channel {channel}", process)
        own = [row for row in rows if row["channel"] == channel]
        laid = list(_lanes(own, lambda row: (_end(row), row["time_us"], row["until_us"])))
        places = sorted({(_end(row), lane) for row, lane in laid})
        tracks = {place: track for track, place in enumerate(places, 1)}
        for ((_, host, way), lane), track in tracks.items():
            name = f"{way} host {host}" if host >= 0 else way
            yield from _track(process, track, name if lane == 0 else f"{name} ({lane + 1})")
        for row, lane in laid:
            what = {name: _whole(row[name]) for name in ("initiator", "target", "content")}
            times = (row["time_us"], row["until_us"])
            yield _slice((process, tracks[_end(row), lane]), row["kind"], times, what)


def _end(row: Row) -> tuple[int, int, str]:
    """Return the track of a transmission, in the order of the tracks: host, and direction."""
    if not _is_missing(row["initiator"]):
        return 0, int(row["initiator"]), "from"
    if not _is_missing(row["target"]):
        return 0, int(row["target"]), "to"
    return 1, -1, "switches"


def _whole(value: object) -> object:
    """Write numbers of hosts without the fraction that a column with gaps gives them."""
    if _is_missing(value):
        return None
    return int(value) if isinstance(value, float) else value


def _samples(tables: Mapping[str, pd.DataFrame]) -> Iterator[Event]:
    """Yield a counter for each quantity that was sampled, of each link where it has links."""
    rows = _rows(tables, "samples")
    for number, channel in enumerate(dict.fromkeys(row["channel"] for row in rows)):
        process = _FIRST_CHANNEL + (1 << 16) + number
        yield from _named(process, f"samples of {channel}", process)
        for row in rows:
            if row["channel"] != channel:
                continue
            link = row.get("link")
            of = "" if link is None or _is_missing(link) else f" of link {int(link)}"
            # The columns before the time say to which track a row belongs.
            seen = list(row).index("time_us") + 1
            for name, value in list(row.items())[seen:]:
                if name != "link" and not _is_missing(value):
                    yield {"ph": "C", "pid": process, "ts": row["time_us"], "name": f"{name}{of}",
                           "args": {name: value}}  # fmt: skip


def _lanes(
    rows: Iterable[Any], key: Callable[[Any], tuple[Any, float, float]]
) -> Iterator[tuple[Any, int]]:
    """Yield rows with a track of their owner's on which no two overlap, the first that is free.

    `key` gives the owner of a row, and from when until when it lasts.
    """
    busy: dict[Any, list[tuple[float, int]]] = {}
    free: dict[Any, list[int]] = {}
    for row in sorted(rows, key=lambda one: key(one)[1:]):
        owner, start, end = key(row)
        taken, left = busy.setdefault(owner, []), free.setdefault(owner, [])
        while taken and taken[0][0] <= start:
            heapq.heappush(left, heapq.heappop(taken)[1])
        lane = heapq.heappop(left) if left else len(taken)
        heapq.heappush(taken, (end, lane))
        yield row, lane


def _slice(
    place: tuple[int, int], name: str, times: tuple[float, float], what: Mapping[str, object]
) -> Event:
    process, track = place
    start, end = times
    # Both are whole picoseconds, which their difference would not be for the last digit.
    span = (round(end * 1e6) - round(start * 1e6)) / 1e6
    return {"ph": "X", "pid": process, "tid": track, "name": name, "ts": start, "dur": span,
            "args": dict(what)}  # fmt: skip


def _named(process: int, name: str, order: int) -> Iterator[Event]:
    for event, key, value in (
        ("process_name", "name", name),
        ("process_sort_index", "sort_index", order),
    ):
        yield {"ph": "M", "pid": process, "name": event, "args": {key: value}}


def _track(process: int, track: int, name: str) -> Iterator[Event]:
    """Name a track; the tracks of a process are in the order of their numbers."""
    for event, args in (
        ("thread_name", {"name": name}),
        ("thread_sort_index", {"sort_index": track}),
    ):
        yield {"ph": "M", "pid": process, "tid": track, "name": event, "args": args}
