"""Who pauses whom, from handmade tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from weft.plots import figures_of
from weft.plots.pauses import pauses
from weft.plots.request import Request

if TYPE_CHECKING:
    import weft

LEAF, SPINE, OTHER = "switch 0.0", "switch 1.0", "switch 0.1"


def pause(by: str, paused: str, link: int, time: float, **more: Any) -> dict[str, Any]:
    return {"point": 0, "channel": "net", "seed": 1, "link": link, "paused": paused,
            "by": f"port {link} of {by}", "class": 0, "pauses": 2, "paused_us": time,
            **more}  # fmt: skip


def result_of(rows: list[dict[str, Any]], axes: tuple[str, ...] = ()) -> weft.Result:
    points = pd.DataFrame([{"point": 0, "channel": "net"}])
    tables = {"points": points, "pauses": pd.DataFrame(rows)}
    meta = {"axes": list(axes)}
    empty = pd.DataFrame()
    of = SimpleNamespace(tables=tables, points=points, meta=meta, checks=[], histograms=empty,
                         budget=empty, derived=empty, trace=empty)  # fmt: skip
    return cast("weft.Result", of)


def drawn(rows: list[dict[str, Any]], axes: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    request = Request(name="p", title="P", kind="pauses", channel="net")
    figure = pauses(result_of(rows, axes), request)
    assert figure is not None
    values: list[dict[str, Any]] = figure.spec["data"]["values"]
    return values


def places(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["name"]: row["x"] for row in rows if row["kind"] == "node"}


def lines(rows: list[dict[str, Any]]) -> dict[str, tuple[int, float, float]]:
    return {
        row["name"]: (row["cables"], row["pauses"], row["paused_us"])
        for row in rows
        if row["kind"] == "line"
    }


CHAIN = [
    pause(OTHER, f"port 4 of {SPINE}", 1, 30.0),
    pause(SPINE, f"port 8 of {LEAF}", 2, 20.0),
    pause(SPINE, f"port 9 of {LEAF}", 3, 25.0),
    pause(LEAF, "host 3", 4, 10.0),
]


def test_each_stands_one_step_left_of_who_pauses_it() -> None:
    rows = drawn(CHAIN)
    assert places(rows) == {OTHER: 0, SPINE: -1, LEAF: -2, "host 3": -3}


def test_cables_between_two_switches_are_one_line_of_the_longest_time() -> None:
    assert lines(drawn(CHAIN))[f"{SPINE} pauses {LEAF}"] == (2, 4, 25.0)


def test_the_classes_of_a_cable_add_up_and_runs_are_averaged() -> None:
    rows = [
        pause(LEAF, "host 3", 4, 10.0),
        pause(LEAF, "host 3", 4, 5.0, **{"class": 1}),
        pause(LEAF, "host 3", 4, 1.0, seed=2),
    ]
    assert lines(drawn(rows)) == {f"{LEAF} pauses host 3": (1, 3, 8.0)}


def test_many_hosts_of_one_switch_are_drawn_as_one() -> None:
    rows = drawn([pause(LEAF, f"host {number}", number, 1.0 + number) for number in range(5)])
    assert lines(rows) == {f"{LEAF} pauses 5 hosts of {LEAF}": (5, 10, 5.0)}
    assert {row["label"] for row in rows if row["kind"] == "node"} == {LEAF, "5 hosts"}
    few = drawn([pause(LEAF, f"host {number}", number, 1.0) for number in range(4)])
    assert len(lines(few)) == 4


def test_a_cycle_begins_where_the_longest_pauses_come_from() -> None:
    cycle = [pause("switch a", "port 1 of switch b", 1, 5.0),
             pause("switch b", "port 1 of switch c", 2, 9.0),
             pause("switch c", "port 1 of switch a", 3, 7.0)]  # fmt: skip
    assert places(drawn(cycle)) == {"switch b": 0, "switch c": -1, "switch a": -2}


def test_each_setting_has_a_panel() -> None:
    rows = [{**row, "control": control} for control in ("none", "dcqcn") for row in CHAIN]
    assert {row["panel"] for row in drawn(rows, ("control",))} == {"none", "dcqcn"}


def test_nothing_is_drawn_where_nobody_paused() -> None:
    request = Request(name="p", title="P", kind="pauses", channel="net")
    assert pauses(result_of([]), request) is None


def test_a_run_without_figures_of_its_own_gets_the_picture_where_somebody_paused() -> None:
    def kinds(rows: list[dict[str, Any]]) -> list[str]:
        return [figure.name for figure in figures_of(result_of(rows))]

    assert kinds(CHAIN) == ["net-pauses"]
    assert kinds([]) == []
