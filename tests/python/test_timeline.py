"""Timelines for Perfetto: nothing overlaps on a track, and sums are those of the tables."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from click.testing import CliRunner

import weft
from systems import plain_switch
from weft.cli import main
from weft.recorded import generate_trace
from weft.timeline import save_timeline

if TYPE_CHECKING:
    from pathlib import Path

Event = dict[str, Any]


def picoseconds(microseconds: float) -> int:
    return round(microseconds * 1e6)


def events_of(path: Path) -> list[Event]:
    found: list[Event] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return found


def tracks(events: list[Event]) -> dict[tuple[int, int], str]:
    names = [event for event in events if event["name"] == "thread_name"]
    return {(event["pid"], event["tid"]): event["args"]["name"] for event in names}


def on_tracks(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    slices: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            slices[event["pid"], event["tid"]].append(event)
    return slices


def assert_nothing_overlaps(events: list[Event]) -> None:
    for track, slices in on_tracks(events).items():
        assert track in tracks(events)
        spans = sorted((picoseconds(one["ts"]), picoseconds(one["dur"])) for one in slices)
        for (start, span), (after, _) in pairwise(spans):
            assert start + span <= after


@pytest.fixture
def ring(tmp_path: Path) -> Path:
    path = tmp_path / "ring.goal"
    path.write_text(generate_trace("allreduce_ring", 6, "10 kB"))
    return path


def test_what_ranks_do_adds_up_to_their_table(tmp_path: Path, ring: Path) -> None:
    result = weft.run_trace(ring, "clint", channel="bulk")
    written = result.timeline(tmp_path / "ring.json")
    events = events_of(written)
    assert_nothing_overlaps(events)
    spent: dict[tuple[int, str], int] = defaultdict(int)
    for event in on_tracks(events).items():
        (process, track), slices = event
        for one in slices:
            if track == 1:
                spent[process - 1, one["name"]] += picoseconds(one["dur"])
    for row in result.ranks.to_dict("records"):
        for activity in ("computing", "sending", "waiting"):
            assert spent[row["rank"], activity] == picoseconds(row[f"{activity}_us"])
    assert sum(spent.values()) > 0


def test_an_arrow_leads_from_each_message_to_its_arrival(tmp_path: Path, ring: Path) -> None:
    result = weft.run_trace(ring, "clint", channel="bulk")
    events = events_of(result.timeline(tmp_path / "ring.json"))
    leave = {event["bind_id"]: event for event in events if event.get("flow_out")}
    arrive = {event["bind_id"]: event for event in events if event.get("flow_in")}
    assert len(leave) == len(result.messages) == 2 * 6 * 5
    assert leave.keys() == arrive.keys()
    shown = sorted(
        (one["pid"] - 1, arrive[key]["pid"] - 1, one["ts"], arrive[key]["ts"])
        for key, one in leave.items()
    )
    columns = ["initiator", "target", "offered_us", "delivered_us"]
    assert shown == sorted(result.messages[columns].itertuples(index=False, name=None))


def test_messages_of_one_rank_on_their_way_at_once_have_tracks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "all.goal"
    path.write_text(generate_trace("all_to_all", 5, "1 kB"))
    events = events_of(
        weft.run_trace(path, "clint", channel="bulk").timeline(tmp_path / "all.json")
    )
    assert_nothing_overlaps(events)
    names = {name for (process, _), name in tracks(events).items() if process == 1}
    assert names == {"activity", "arrivals", "messages", *(f"messages ({n})" for n in (2, 3, 4))}


def test_a_run_notes_and_writes_what_lies_along_time(tmp_path: Path) -> None:
    path, written = tmp_path / "star.toml", tmp_path / "star.json"
    path.write_text(plain_switch(4, "c") + "[workload.c]\nload = 0.3\n[run]\nlength = '20 us'\n")
    arguments = ["run", str(path), "--out", str(tmp_path / "out"), "--no-pictures"]
    ran = CliRunner().invoke(main, [*arguments, "--timeline", str(written)])
    assert ran.exit_code == 0, ran.output
    events = events_of(written)
    assert_nothing_overlaps(events)
    shown = [one for slices in on_tracks(events).values() for one in slices]
    read = weft.read(tmp_path / "out")
    assert len(shown) == len(read.trace) > 0
    again = read.timeline(tmp_path / "again.json")
    assert again.read_bytes() == written.read_bytes()


def test_samples_are_counters_and_axes_are_none(tmp_path: Path) -> None:
    samples = pd.DataFrame({
        "point": [0, 0, 1], "flow_control": ["none"] * 3, "channel": ["c"] * 3, "seed": [1] * 3,
        "time_us": [10.0, 20.0, 10.0], "link": [3, 3, 3], "waiting": [0.0, 7.0, 9.0],
        "accepted_mb_per_s": [float("nan")] * 3,
    })  # fmt: skip
    written = save_timeline({"samples": samples}, tmp_path / "samples.json", "two samples")
    counters = [event for event in events_of(written) if event["ph"] == "C"]
    assert [(one["ts"], one["name"], one["args"]) for one in counters] == [
        (10.0, "waiting of link 3", {"waiting": 0.0}),
        (20.0, "waiting of link 3", {"waiting": 7.0}),
    ]


def test_wrong_input_is_told(tmp_path: Path, ring: Path) -> None:
    run = CliRunner().invoke(main, ["run", "clint-figure-4", "--timeline", "frames.txt"])
    assert run.exit_code == 2
    assert "a timeline is saved as .json, not '.txt'" in run.output
    trace = ["trace", "run", str(ring), "--system", "clint", "--channel", "bulk", "--timeline"]
    for path, told in (("ring.svg", "not '.svg'"), (str(ring / "in.json"), "is a file")):
        assert told in CliRunner().invoke(main, [*trace, path]).output
    with pytest.raises(ValueError, match=r"run\.trace = true"):
        save_timeline({}, tmp_path / "nothing.json", "nothing")
    assert not (tmp_path / "nothing.json").exists()
